//! Report of `bench verify`, as one JSON object or as a table.

use super::gates::{self, All};
use super::limits::{Limit, Limits};
use super::measure::{Figures, Rates, Runner};
use super::{AWS_LC_RS, IFMA, LIBSECP256K1, PORTABLE, RING, SHA2, SHA3};
use crate::gate::{Gate, judge_only_if_quiet, write_judged};
use crate::machine::Machine;
use crate::wrong::WrongReplies;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};

/// Maximum load average before the benchmark; above it, the report notes that the machine was busy.
const QUIET_LOAD_MAX: f64 = 0.3;
const CRYPTO_MB: &str =
    "Intel's crypto_mb is not part of this build (3.5 x aws-lc-rs on P-256 where it was measured)";

/// Report of the scenario.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Name of the scenario: `verify`.
    pub scenario: &'static str,
    /// Seed of the workload.
    pub seed: u64,
    /// Machine of the run.
    pub machine: Machine,
    /// Contestants by name.
    pub contestants: BTreeMap<&'static str, Contestant>,
    /// Speed-ups of `a` over `b` in best slices, by keys `a/b`. A key begins with the varied quantities: a curve or
    /// hash, then the case, which is `hot` if the key names none. Libraries verify one signature at a time in all
    /// cases.
    pub ratios: BTreeMap<String, f64>,
    /// Speed-ups in median slices, by the same keys.
    pub median_ratios: BTreeMap<String, f64>,
    /// Checks that show whether the figures are valid, and gates.
    pub checks: Checks,
}

/// Figures by curve or hash, then by case; or the reason why there are none.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Contestant {
    /// Figures by `p256`, `secp256k1`, `sha256` or `keccak256`; then by `hot`, `batch_8`, `single`, `keys_256`, `cold`,
    /// `unknown`, `seen_once`, `come_back`, `prepare`, `messages_1k` or `messages_short`.
    #[serde(flatten)]
    pub figures: BTreeMap<&'static str, BTreeMap<&'static str, Figures>>,
    /// Reason why there are no figures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_measured: Option<String>,
}

/// Checks that show whether the run is valid.
#[derive(Clone, Debug, Serialize)]
pub struct Checks {
    /// Number of wrong verdicts and digests of all contestants. One of 16 signatures is invalid on purpose.
    pub mismatches: u64,
    /// First wrong verdicts and digests.
    pub wrong_replies: WrongReplies,
    /// Limits of the processor, and how close the contestant `ifma` came to them.
    pub limits: Limits,
    /// Reason why instructions were not counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions_not_measured: Option<String>,
    /// Gates by key: the key of a ratio, or a figure with its unit.
    pub gates: BTreeMap<&'static str, Gate>,
    /// Notes for the reader.
    pub notes: Vec<String>,
}

/// Results of the rounds.
#[derive(Default)]
pub(super) struct Findings {
    pub(super) figures: All,
    /// Number of mismatches of all work, including work without figures.
    pub(super) mismatches: u64,
    /// First wrong results.
    pub(super) wrong: WrongReplies,
    /// Contestants that this machine does not support, with the reasons.
    pub(super) missing: BTreeMap<&'static str, String>,
    pub(super) rates: Rates,
    /// Size in bytes of the tables of the verifier on `ifma` with 16 recurring keys of P-256.
    pub(super) hot_tables_bytes: Option<usize>,
    /// Reason why instructions were not counted.
    pub(super) uncounted: Option<String>,
}

impl Findings {
    /// Adds the results of all runners' slices.
    pub(super) fn take(&mut self, runners: Vec<Runner<'_>>) {
        for Runner { name, seen, work, .. } in runners {
            self.mismatches += seen.mismatches;
            for mut wrong in [seen.wrong.clone(), work.wrong()] {
                wrong.name(name.contestant, &format!("{}, {}", name.primitive, name.case));
                self.wrong.extend(&wrong);
            }
            if let Some(figures) = Figures::of(&seen) {
                let at = (name.primitive, name.contestant, name.case);
                self.figures.insert(at, figures);
            }
        }
    }
}

impl Report {
    pub(super) fn new(seed: u64, mut machine: Machine, findings: Findings) -> Self {
        machine.end_of_run();
        let Findings {
            figures,
            mismatches,
            wrong,
            missing,
            rates,
            hot_tables_bytes,
            uncounted,
        } = findings;
        let hot = figures.get(&("p256", IFMA, "hot"));
        let limits = Limits::new(hot.map(|figures| figures.best_ns), hot_tables_bytes, rates);
        let ratios = gates::ratios(&figures, |figures| figures.best_ns);
        let port_share = limits.port.map(|limit| limit.share_percent);
        let mut gates = gates::judge(&figures, &ratios, port_share, mismatches == 0);
        judge_only_if_quiet(&mut gates, &machine, &[]);
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
                wrong_replies: wrong,
                limits,
                instructions_not_measured: uncounted,
                gates,
                notes,
            },
        }
    }

    /// Returns the faults of the system itself, which are wrong results; low speed is not a fault.
    pub fn failures(&self) -> Vec<String> {
        match self.checks.mismatches {
            0 => Vec::new(),
            count => vec![format!("{count} wrong verdicts or digests")],
        }
    }

    /// Returns the report as JSON.
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
        "one thread measures slices in turn; gates compare the best slices; medians are reported, too".into(),
        "libraries verify one signature at a time in every case: aws-lc-rs with parsed keys and the digest given, \
         libsecp256k1 with parsed keys; ring parses the key and hashes 32 bytes each time, as it has no other interface"
            .into(),
        "Lineside gets parsed keys and the digest, and parses r and s within the measured time, as libraries do".into(),
        "unmeasured signatures precede each slice, because other contestants have used the caches: 256 with hot keys, \
         16 with a library"
            .into(),
        "cases `seen_once` and `come_back`: the work begins with bytes; it includes the hash of a message of 32 bytes, \
         and in `seen_once` the decompression of the key; in `come_back`, keys are prepared (aws-lc-rs: parsed) before"
            .into(),
        "case `prepare`: figures are for one key, whose table of 262 kB is built together with seven others".into(),
        "case `cold`: the process has the generators' tables, which all verifiers share, but no tables for public keys"
            .into(),
        "the share of the ports counts only additions of points as work, but all of the time".into(),
    ];
    if machine.load_before > QUIET_LOAD_MAX {
        let load = machine.load_before;
        notes.push(format!(
            "the machine was not quiet: its load average was {load} before the run, which affects medians more than \
             best slices"
        ));
    }
    notes
}

impl Display for Report {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let (scenario, seed, machine) = (self.scenario, self.seed, &self.machine);
        writeln!(out, "{scenario}, seed {seed}, on {machine}")?;
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
        write_judged(out, &self.checks.gates, &self.machine)?;
        write_limits(out, &self.checks.limits)?;
        writeln!(out, "wrong verdicts or digests: {}", self.checks.mismatches)?;
        write!(out, "{}", self.checks.wrong_replies)?;
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
