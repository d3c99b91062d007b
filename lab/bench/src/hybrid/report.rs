//! Report of `bench hybrid`, as one JSON object or as a table.

use super::alone::{Proofs, ReadRates};
use super::run::{Contestant, Measured, Order, Who};
use crate::gate::Bound::{self, AtLeast, AtMost};
use crate::gate::{Gate, judge_only_if_quiet, median, write_judged};
use crate::machine::Machine;
use crate::transfer::disk::Disk;
use crate::wrong::WrongReplies;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};

/// Pass criteria: key, direction of the bound, required value (gate), stretch goal.
const GATES: [(&str, Bound, f64, Option<f64>); 9] = [
    (COST, AtMost, 0.125, Some(0.07)),
    (RATIO, AtLeast, 1.7, Some(2.5)),
    (RPS, AtLeast, 60_000.0, Some(120_000.0)),
    (SET, AtMost, 1_000.0, None),
    (GET, AtMost, 200.0, None),
    (MADE, AtMost, 100.0, None),
    (CHECKED, AtMost, 50.0, None),
    (CATCH_UP, AtLeast, 200_000.0, None),
    (AUDIT, AtLeast, 200.0, None),
];
const COST: &str = "verify cost batch/scalar";
const RATIO: &str = "batch/scalar";
const RPS: &str = "verified requests/s";
const SET: &str = "lone set, p50 us";
const GET: &str = "lone get, p50 us";
const MADE: &str = "proof made, us";
const CHECKED: &str = "proof checked, us";
const CATCH_UP: &str = "catch-up, transactions/s";
const AUDIT: &str = "audit, MB/s";

/// Returns the keys of the gates that a report of this scenario has.
pub fn gate_keys() -> impl Iterator<Item = &'static str> {
    GATES.into_iter().map(|gate| gate.0)
}

/// Report of the scenario.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Name of the scenario: `hybrid`.
    pub scenario: &'static str,
    /// Seed of the workloads.
    pub seed: u64,
    /// Machine of the run.
    pub machine: Machine,
    /// Disk of the ledgers.
    pub disk: Disk,
    /// Contestants by name, then by case. The case to which the gates apply has an empty name.
    pub contestants: Contestants,
    /// Contestants that were not measured, with the reasons.
    pub not_measured: BTreeMap<&'static str, String>,
    /// Ratios `a/b` of the rates of two contestants in requests per second.
    pub ratios: BTreeMap<String, f64>,
    /// Cost of proofs over a million keys.
    pub proofs: Option<Proofs>,
    /// Rates at which a ledger is read.
    pub again: Option<ReadRates>,
    /// Checks that show whether the figures are valid, and gates.
    pub checks: Checks,
}

/// Medians over the rounds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Figures {
    /// Number of successful requests per second.
    pub rps: f64,
    /// Processor time of the node and the clients per request, in microseconds.
    pub cpu_us: f64,
    /// Median latency of a call in microseconds.
    pub p50_us: f64,
    /// 99th percentile of the latency of a call in microseconds.
    pub p99_us: f64,
    /// 99.9th percentile of the latency of a call in microseconds.
    pub p999_us: f64,
    /// Average number of requests in a block. Only sets are in blocks.
    pub blocks: f64,
    /// Average number of signatures in a batch.
    pub batch: f64,
    /// Number of requests without success in all rounds.
    pub refused: u64,
}

/// Checks that show whether the run is valid, and gates.
#[derive(Clone, Debug, Serialize)]
pub struct Checks {
    /// Number of requests without success.
    pub refused: u64,
    /// First requests without success, with their answers.
    pub wrong_replies: WrongReplies,
    /// Gates by key.
    pub gates: BTreeMap<&'static str, Gate>,
    /// Notes for the reader.
    pub notes: Vec<String>,
}

/// Results of all runs.
#[derive(Default)]
pub(super) struct Findings {
    runs: BTreeMap<Contestant, BTreeMap<String, Vec<Measured>>>,
    not_measured: BTreeMap<&'static str, String>,
    pub proofs: Option<Proofs>,
    pub again: Option<ReadRates>,
}

impl Findings {
    pub fn add(&mut self, who: Contestant, case: String, measured: Measured) {
        self.runs
            .entry(who)
            .or_default()
            .entry(case)
            .or_default()
            .push(measured);
    }

    /// Removes the results of an ordering service, because results of only some of its rounds would not be comparable.
    pub fn not_measured(&mut self, order: Order, why: &str) {
        for contestant in Contestant::all(order) {
            self.runs.remove(&contestant);
            self.not_measured.insert(contestant.name(), why.to_owned());
        }
    }
}

impl Figures {
    fn of(rounds: &[Measured]) -> Option<Self> {
        let of = |value: &dyn Fn(&Measured) -> f64| median(rounds.iter().map(value));
        let quantile = |at: f64| of(&|run: &Measured| run.latency.value_at_quantile(at) as f64 / 1e3);
        Some(Self {
            rps: of(&|run| run.rps)?,
            cpu_us: of(&|run| run.cpu_us)?,
            p50_us: quantile(0.5)?,
            p99_us: quantile(0.99)?,
            p999_us: quantile(0.999)?,
            blocks: of(&|run| run.blocks as f64)?,
            batch: of(&|run| run.batch)?,
            refused: rounds.iter().map(|run| run.refused).sum(),
        })
    }
}

type Contestants = BTreeMap<&'static str, BTreeMap<String, Figures>>;

fn rps(contestants: &Contestants, who: Contestant, case: &str) -> Option<f64> {
    contestants.get(who.name())?.get(case).map(|figures| figures.rps)
}

/// Returns the ratios between the contestants of each ordering service, if both figures were measured.
fn ratios(contestants: &Contestants) -> BTreeMap<String, f64> {
    let mut ratios = BTreeMap::new();
    for order in [Order::Embedded, Order::Kafka] {
        let of = |who| Contestant { order, who };
        let (none, scalar, batch) = (of(Who::None), of(Who::Scalar), of(Who::Batch));
        let cases = contestants.get(batch.name()).into_iter().flat_map(BTreeMap::keys);
        for case in cases {
            let front = match case.as_str() {
                "" => String::new(),
                case => format!("{case} "),
            };
            let mut add = |what: &str, one: Contestant, other: Contestant, ratio: Option<f64>| {
                if let Some(ratio) = ratio.filter(|ratio| ratio.is_finite()) {
                    ratios.insert(format!("{front}{what}{}/{}", one.name(), other.name()), ratio);
                }
            };
            let rps = |who| rps(contestants, who, case);
            let over = |one, other| Some(rps(one)? / rps(other)?);
            add("", batch, scalar, over(batch, scalar));
            add("", batch, none, over(batch, none));
            let cost = |who| Some(1.0 / rps(who)? - 1.0 / rps(none)?);
            let costs = cost(batch).zip(cost(scalar));
            add(
                "verify cost ",
                batch,
                scalar,
                costs.map(|(batch, scalar)| batch / scalar),
            );
            if order == Order::Kafka {
                add("", batch, Contestant::BATCH, over(batch, Contestant::BATCH));
            }
        }
    }
    ratios
}

impl Report {
    pub(super) fn new(seed: u64, mut machine: Machine, disk: Disk, findings: Findings) -> Self {
        machine.end_of_run();
        let mut contestants = Contestants::new();
        for (who, cases) in &findings.runs {
            for (case, rounds) in cases {
                let Some(figures) = Figures::of(rounds) else {
                    continue;
                };
                contestants
                    .entry(who.name())
                    .or_default()
                    .insert(case.clone(), figures);
            }
        }
        let ratios = ratios(&contestants);
        let p50 = |case: &str| contestants.get("batch")?.get(case).map(|figures| figures.p50_us);
        let value = |key: &str| match key {
            COST | RATIO => ratios.get(key).copied(),
            RPS => rps(&contestants, Contestant::BATCH, ""),
            SET => p50("lone set"),
            GET => p50("lone get"),
            MADE => findings.proofs.map(|proofs| proofs.made_us),
            CHECKED => findings.proofs.map(|proofs| proofs.checked_us),
            CATCH_UP => findings.again.map(|again| again.catch_up_tps),
            AUDIT => findings.again.map(|again| again.audit_mb_s),
            _ => None,
        };
        let mut wrong_replies = WrongReplies::default();
        for (who, cases) in &findings.runs {
            for (case, rounds) in cases {
                for run in rounds {
                    let mut wrong = run.wrong.clone();
                    wrong.name(who.name(), if case.is_empty() { "judged case" } else { case });
                    wrong_replies.extend(&wrong);
                }
            }
        }
        let all = || contestants.values().flat_map(BTreeMap::values);
        let refused = all().map(|figures| figures.refused).sum();
        let judge = |(key, is, gate, stretch): (&'static str, _, _, _)| {
            (key, Gate::judge(value(key), is, gate, stretch, refused == 0))
        };
        let mut gates = GATES.map(judge).into();
        judge_only_if_quiet(&mut gates, &machine, &[]);
        let mut notes = Vec::new();
        if machine.load_before > 0.3 {
            notes.push(format!(
                "the machine was not quiet: its load average was {} before the run",
                machine.load_before
            ));
        }
        Self {
            scenario: "hybrid",
            seed,
            machine,
            disk,
            checks: Checks {
                refused,
                wrong_replies,
                gates,
                notes,
            },
            contestants,
            not_measured: findings.not_measured,
            ratios,
            proofs: findings.proofs,
            again: findings.again,
        }
    }

    /// Returns the faults of the system itself; low speed is not a fault.
    pub fn failures(&self) -> Vec<String> {
        match self.checks.refused {
            0 => Vec::new(),
            1 => vec!["1 request was refused".into()],
            refused => vec![format!("{refused} requests were refused")],
        }
    }

    /// Returns the report as JSON.
    pub fn to_json(&self) -> serde_json::Value {
        serde_json::to_value(self).unwrap_or_default()
    }
}

impl Display for Report {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let (seed, machine) = (self.seed, &self.machine);
        writeln!(out, "hybrid, seed {seed}, on {machine}")?;
        let Disk {
            file_system,
            fdatasync_us,
            ..
        } = &self.disk;
        writeln!(
            out,
            "ledgers on {file_system}, fdatasync {fdatasync_us:.0} us after an append of 4 KiB"
        )?;
        writeln!(
            out,
            "\n{:<13}{:<26}{:>11}{:>9}{:>10}{:>10}{:>11}{:>8}{:>8}{:>9}",
            "", "", "requests/s", "CPU us", "p50 us", "p99 us", "p99.9 us", "blocks", "batch", "refused"
        )?;
        for (name, cases) in &self.contestants {
            for (case, figures) in cases {
                let Figures {
                    rps,
                    cpu_us,
                    p50_us,
                    p99_us,
                    p999_us,
                    blocks,
                    batch,
                    refused,
                } = figures;
                write!(
                    out,
                    "{name:<13}{case:<26}{rps:>11.0}{cpu_us:>9.2}{p50_us:>10.0}{p99_us:>10.0}"
                )?;
                writeln!(out, "{p999_us:>11.0}{blocks:>8.0}{batch:>8.0}{refused:>9}")?;
            }
        }
        for (name, why) in &self.not_measured {
            writeln!(out, "{name:<13}not measured: {why}")?;
        }
        writeln!(out, "\n{:<64}{:>9}", "ratio", "")?;
        for (key, ratio) in &self.ratios {
            writeln!(out, "{key:<64}{ratio:>9.3}")?;
        }
        if let Some(proofs) = &self.proofs {
            let Proofs {
                keys,
                made_us,
                checked_us,
                bytes,
                bytes_max,
            } = proofs;
            writeln!(
                out,
                "\nproofs over {keys} keys: made in {made_us:.1} us, checked in {checked_us:.1} us, {bytes:.0} bytes, \
                 the longest {bytes_max}"
            )?;
        }
        if let Some(again) = &self.again {
            let ReadRates {
                transactions,
                bytes,
                catch_up_tps,
                audit_mb_s,
                audit_tps,
                restart_tps,
            } = again;
            writeln!(
                out,
                "a ledger of {transactions} sets, {} MB: catching up at {catch_up_tps:.0}/s, audited at \
                 {audit_mb_s:.0} MB/s ({audit_tps:.0}/s), opened at {restart_tps:.0}/s",
                bytes / 1_000_000
            )?;
        }
        write_judged(out, &self.checks.gates, &self.machine)?;
        writeln!(out, "refused {}", self.checks.refused)?;
        write!(out, "{}", self.checks.wrong_replies)?;
        self.checks
            .notes
            .iter()
            .try_for_each(|note| writeln!(out, "note: {note}"))
    }
}
