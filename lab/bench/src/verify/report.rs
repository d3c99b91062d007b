//! What the scenario `verify` found, as one JSON object or as a table.

use super::gates::{self, All};
use super::limits::{Limit, Limits};
use super::measure::{Figures, Rates, Runner};
use super::{AWS_LC_RS, IFMA, LIBSECP256K1, PORTABLE, RING, SHA2, SHA3};
use crate::gate::{Gate, write_gates};
use crate::machine::Machine;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};

/// A load above this before the bench begins is said in the report.
const QUIET_LOAD_MAX: f64 = 0.3;
const CRYPTO_MB: &str =
    "Intel's crypto_mb is not part of this build (3.5 x aws-lc-rs on P-256 where it was measured)";

/// What `lineside-lab bench verify` found.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// `verify`.
    pub scenario: &'static str,
    /// Seed of the workload.
    pub seed: u64,
    /// Where it ran.
    pub machine: Machine,
    /// By name.
    pub contestants: BTreeMap<&'static str, Contestant>,
    /// How many times faster `a` is in keys `a/b`, best slice against best slice. What varies comes in front: a curve
    /// or hash, then the case, `hot` where there is none. Libraries verify one signature at a time in all cases.
    pub ratios: BTreeMap<String, f64>,
    /// The same, median slice against median slice.
    pub median_ratios: BTreeMap<String, f64>,
    /// Whether the figures may be believed, and whether they are good enough.
    pub checks: Checks,
}

/// Figures by curve or hash, then by case; or why there are none.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Contestant {
    /// `p256`, `secp256k1`, `sha256`, `keccak256`; then `hot`, `batch_8`, `single`, `keys_256`, `cold`, `unknown`,
    /// `messages_1k` or `messages_short`.
    #[serde(flatten)]
    pub figures: BTreeMap<&'static str, BTreeMap<&'static str, Figures>>,
    /// Why there are no figures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_measured: Option<String>,
}

/// What must be true of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Checks {
    /// Wrong verdicts and digests, of anybody. One of 16 signatures is spoilt.
    pub mismatches: u64,
    /// How near `ifma` came to what the processor can do.
    pub limits: Limits,
    /// Why instructions are not counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions_not_measured: Option<String>,
    /// By what is judged: a ratio's key, or a figure and its unit.
    pub gates: BTreeMap<&'static str, Gate>,
    /// What a reader should know.
    pub notes: Vec<String>,
}

/// What the rounds leave behind.
#[derive(Default)]
pub(super) struct Findings {
    pub(super) figures: All,
    /// Of all work, also of such that has no figures.
    pub(super) mismatches: u64,
    /// Who does not run here, and why.
    pub(super) missing: BTreeMap<&'static str, String>,
    pub(super) rates: Rates,
    /// Bytes of tables of the verifier on `ifma` with 16 hot keys of P-256.
    pub(super) hot_tables_bytes: Option<usize>,
    /// Why instructions are not counted.
    pub(super) uncounted: Option<String>,
}

impl Findings {
    /// Adds what everybody's slices show.
    pub(super) fn take(&mut self, runners: Vec<Runner<'_>>) {
        for Runner { name, seen, .. } in runners {
            self.mismatches += seen.mismatches;
            if let Some(figures) = Figures::of(&seen) {
                let at = (name.primitive, name.contestant, name.case);
                self.figures.insert(at, figures);
            }
        }
    }
}

impl Report {
    pub(super) fn new(seed: u64, machine: Machine, findings: Findings) -> Self {
        let Findings {
            figures,
            mismatches,
            missing,
            rates,
            hot_tables_bytes,
            uncounted,
        } = findings;
        let hot = figures.get(&("p256", IFMA, "hot"));
        let limits = Limits::new(hot.map(|figures| figures.best_ns), hot_tables_bytes, rates);
        let ratios = gates::ratios(&figures, |figures| figures.best_ns);
        let port_share = limits.port.map(|limit| limit.share_percent);
        let gates = gates::judge(&figures, &ratios, port_share, mismatches == 0);
        let notes = notes(&machine);
        Self {
            scenario: "verify",
            seed,
            machine,
            contestants: contestants(&figures, missing),
            median_ratios: gates::ratios(&figures, |figures| figures.median_ns),
            ratios,
            checks: Checks {
                mismatches,
                limits,
                instructions_not_measured: uncounted,
                gates,
                notes,
            },
        }
    }

    /// What is wrong with the system itself, not with its speed: wrong answers.
    pub fn failures(&self) -> Vec<String> {
        match self.checks.mismatches {
            0 => Vec::new(),
            count => vec![format!("{count} wrong verdicts or digests")],
        }
    }

    /// The report as JSON.
    pub fn to_json(&self) -> serde_json::Value {
        serde_json::to_value(self).unwrap_or_default()
    }
}

fn contestants(all: &All, missing: BTreeMap<&'static str, String>) -> BTreeMap<&'static str, Contestant> {
    let mut contestants: BTreeMap<_, Contestant> = BTreeMap::new();
    for name in [IFMA, PORTABLE, AWS_LC_RS, RING, LIBSECP256K1, SHA2, SHA3] {
        contestants.entry(name).or_default();
    }
    for ((primitive, contestant, case), figures) in all {
        let contestant = contestants.entry(contestant).or_default();
        let cases = contestant.figures.entry(primitive).or_default();
        cases.insert(case, *figures);
    }
    let crypto_mb = ("crypto_mb", CRYPTO_MB.to_owned());
    for (name, why) in missing.into_iter().chain([crypto_mb]) {
        contestants.entry(name).or_default().not_measured = Some(why);
    }
    contestants
}

fn notes(machine: &Machine) -> Vec<String> {
    let mut notes = vec![
        "one thread, slices in turn; gates are judged best slice against best slice, medians stand beside".into(),
        "libraries verify one signature at a time in every case: aws-lc-rs with parsed keys and the digest given, \
         libsecp256k1 with parsed keys; ring parses the key and hashes 32 bytes each time, as it offers nothing else"
            .into(),
        "ours gets parsed keys and the digest, and parses the 64 bytes of r and s in its time, as libraries do".into(),
        "before a slice come signatures that are not measured, because others used the caches: 256 with hot keys, 16 \
         of a library"
            .into(),
        "from cold, the generators' tables are there, as all verifiers of a process share them; keys' are not".into(),
        "the share of the ports reached counts additions of points alone as work, and all time as used".into(),
    ];
    if machine.load_before > QUIET_LOAD_MAX {
        let load = machine.load_before;
        notes.push(format!(
            "the machine was not quiet: load {load} before the bench, which medians show more than best slices"
        ));
    }
    notes
}

impl Display for Report {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let Machine {
            cpu,
            cores,
            kernel,
            load_before,
            ..
        } = &self.machine;
        let (scenario, seed) = (self.scenario, self.seed);
        writeln!(
            out,
            "{scenario}, seed {seed}, on {cores} x {cpu}, Linux {kernel}, load {load_before} before"
        )?;
        for (primitive, title) in [
            ("p256", "P-256, a signature"),
            ("secp256k1", "secp256k1, a signature"),
            ("sha256", "SHA-256, a message of 1 KiB"),
            ("keccak256", "Keccak-256, a message of 32 to 100 B"),
        ] {
            self.write_figures(out, primitive, title)?;
        }
        writeln!(out)?;
        for (name, contestant) in &self.contestants {
            if let Some(why) = &contestant.not_measured {
                writeln!(out, "{name}: not measured: {why}")?;
            }
        }
        if let Some(why) = &self.checks.instructions_not_measured {
            writeln!(out, "instructions: not measured: {why}")?;
        }
        let (best, median) = ("best", "median");
        writeln!(out, "\n{:<41}{best:>8}{median:>9}", "times faster")?;
        for (key, ratio) in &self.ratios {
            let median = self.median_ratios.get(key).copied().unwrap_or(f64::NAN);
            writeln!(out, "{key:<41}{ratio:>8.2}{median:>9.2}")?;
        }
        write_gates(out, &self.checks.gates)?;
        write_limits(out, &self.checks.limits)?;
        writeln!(out, "wrong verdicts or digests: {}", self.checks.mismatches)?;
        let mut notes = self.checks.notes.iter();
        notes.try_for_each(|note| writeln!(out, "note: {note}"))
    }
}

impl Report {
    fn write_figures(&self, out: &mut Formatter<'_>, primitive: &str, title: &str) -> fmt::Result {
        let head = [
            "best ns",
            "median ns",
            "best/s",
            "slices",
            "instructions",
            "wrong",
        ];
        write!(out, "\n{title:<38}")?;
        head.iter().try_for_each(|column| write!(out, "{column:>13}"))?;
        writeln!(out)?;
        for (name, contestant) in &self.contestants {
            for (case, figures) in contestant.figures.get(primitive).into_iter().flatten() {
                let Figures {
                    best_ns,
                    median_ns,
                    best_per_s,
                    slices,
                    instructions,
                    mismatches,
                    ..
                } = figures;
                let row = format!("{name}, {case}");
                let instructions = instructions.map_or("-".into(), |count| format!("{count:.0}"));
                write!(out, "{row:<38}{best_ns:>13.1}{median_ns:>13.1}{best_per_s:>13.0}")?;
                writeln!(out, "{slices:>13}{instructions:>13}{mismatches:>13}")?;
            }
        }
        Ok(())
    }
}

fn write_limits(out: &mut Formatter<'_>, limits: &Limits) -> fmt::Result {
    let known = |value: Option<f64>| value.map_or("not measured".into(), |value| format!("{value:.2}"));
    let Limits {
        additions,
        clock_ghz,
        multiplications_per_cycle,
        port,
        multiplier,
    } = limits;
    let (clock, multiplications) = (known(*clock_ghz), known(*multiplications_per_cycle));
    writeln!(
        out,
        "\nclock, GHz: {clock}; multiplications of 512 bits a cycle: {multiplications}"
    )?;
    for (limit, what) in [
        (port, "two micro-operations a cycle"),
        (multiplier, "the multiplier alone"),
    ] {
        match limit {
            Some(Limit {
                limit_ns,
                measured_ns,
                share_percent,
            }) => writeln!(
                out,
                "P-256, 16 hot keys, {additions} additions: {measured_ns:.0} ns a signature, of which {what} takes \
                 {limit_ns:.0} ns: {share_percent:.0} %"
            )?,
            None => writeln!(out, "P-256, 16 hot keys, {what}: not measured")?,
        }
    }
    Ok(())
}
