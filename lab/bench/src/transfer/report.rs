//! Report of `bench transfer`, as one JSON object or as a table.

use super::drain::Drained;
use super::durable::Durable;
use super::figure::Figure;
use super::per_packet::Costs;
use super::recovery::Recovery;
use super::tally::{Faults, Tally};
use crate::gate::{Gate, median, write_judged};
use crate::machine::Machine;
use crate::wrong::WrongReplies;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};

/// Report of the scenario.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Name of the scenario: `transfer`.
    pub scenario: &'static str,
    /// Seed of the workload.
    pub seed: u64,
    /// Machine of the run.
    pub machine: Machine,
    /// Contestants by name.
    pub contestants: BTreeMap<&'static str, Contestant>,
    /// Ratios by key `a/b`; the varied quantity precedes the key.
    pub ratios: BTreeMap<String, f64>,
    /// One of the paper's figures, if the user requested it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub figure: Option<Figure>,
    /// Disk and parameters of the durable figures, or the reason why they were not measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub durable: Option<Result<Durable, String>>,
    /// Result of the recovery from a journal, or the reason why it was not measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recovery: Option<Result<Recovery, String>>,
    /// Checks that show whether the figures are valid, and gates.
    pub checks: Checks,
}

/// Figures of one contestant. The fields at the top level are the figures of the case to which the gate applies.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Contestant {
    /// Figures of the case to which the gate applies: TRANSFER by the socket client with 64 requests in flight; for
    /// `xdp_max`, by live frames; for durable contestants, by 50 connections with 16 requests in flight each.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub gate_case: Option<Figures>,
    /// All other figures, by command and client.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub by: BTreeMap<String, Figures>,
    /// Cost of a packet in the XDP program alone in nanoseconds, or the reason why it is missing.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub per_packet: Costs,
    /// Counts of the thread that emptied the rings, in all runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drained: Option<Drained>,
    /// Reason why there are no figures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_measured: Option<String>,
}

/// Medians over the rounds, or sums where noted.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Figures {
    /// Right replies per second; the client checks each reply.
    pub rps: f64,
    /// Median latency in microseconds.
    pub p50_us: f64,
    /// 99th percentile of the latency in microseconds.
    pub p99_us: f64,
    /// 99.9th percentile of the latency in microseconds.
    pub p999_us: f64,
    /// Number of requests sent in all rounds.
    pub sent: u64,
    /// Number of requests without a reply in all rounds. In an open loop, a server that is too slow loses requests.
    pub lost: u64,
    /// Number of requests in all rounds that were answered with `busy` and not executed.
    pub busy: u64,
    /// Number of requests in all rounds with another refusal.
    pub refused: u64,
    /// Number of wrong replies in all rounds.
    pub wrong: u64,
}

impl Figures {
    /// Returns the figures of several rounds; `None` if there are no rounds.
    pub fn of(rounds: &[Tally]) -> Option<Self> {
        let quantile = |at| median(rounds.iter().map(|tally| tally.latency_us(at)));
        let sum = |of: fn(&Tally) -> u64| rounds.iter().map(of).sum();
        Some(Self {
            rps: median(rounds.iter().map(Tally::rps))?,
            p50_us: quantile(0.5)?,
            p99_us: quantile(0.99)?,
            p999_us: quantile(0.999)?,
            sent: sum(|tally| tally.sent),
            lost: sum(|tally| tally.lost),
            busy: sum(|tally| tally.busy),
            refused: sum(|tally| tally.refused),
            wrong: sum(|tally| tally.wrong.count),
        })
    }
}

/// Checks that show whether the run is valid.
#[derive(Clone, Debug, Serialize)]
pub struct Checks {
    /// Sum of three faults: requests lost in closed loops and by `xdp_max`, units of money that are missing, and
    /// replies to requests that were not executed.
    pub lost: u64,
    /// Number of requests that were executed more than once.
    pub doubled: u64,
    /// Number of units of money in excess.
    pub created: u64,
    /// Number of wrong replies of all contestants.
    pub wrong: u64,
    /// First wrong replies of all contestants.
    pub wrong_replies: WrongReplies,
    /// Number of right replies to requests of the warm-up that arrived in the counted time. They are not faults.
    pub late: u64,
    /// Number of right replies to requests that were answered, or given up, before. They are not faults.
    pub repeated: u64,
    /// Number of refusals by all contestants. No request should be refused.
    pub refused: u64,
    /// Gates by key: the key of a ratio, or a figure with its unit.
    pub gates: BTreeMap<&'static str, Gate>,
    /// Notes for the reader.
    pub notes: Vec<String>,
}

impl Checks {
    /// Returns empty checks.
    pub fn new(notes: Vec<String>) -> Self {
        Self {
            lost: 0,
            doubled: 0,
            created: 0,
            wrong: 0,
            wrong_replies: WrongReplies::default(),
            late: 0,
            repeated: 0,
            refused: 0,
            gates: BTreeMap::new(),
            notes,
        }
    }

    /// Adds faults that an audit found in the accounts.
    pub fn add(&mut self, faults: Faults) {
        self.lost += faults.lost;
        self.doubled += faults.doubled;
        self.created += faults.created;
    }

    /// Adds the counts of a run.
    pub fn add_run(&mut self, tally: &Tally, is_lossless: bool) {
        self.lost += if is_lossless { tally.lost } else { 0 };
        self.wrong += tally.wrong.count;
        self.wrong_replies.extend(&tally.wrong);
        self.late += tally.late;
        self.repeated += tally.repeated;
        self.refused += tally.refused;
    }
}

impl Report {
    /// Returns the faults of the system itself; low speed is not a fault.
    pub fn failures(&self) -> Vec<String> {
        let Checks {
            lost,
            doubled,
            created,
            wrong,
            refused,
            ..
        } = self.checks;
        let what = [
            (lost, "lost"),
            (doubled, "executed more than once"),
            (created, "units of money in excess"),
            (wrong, "wrong replies"),
            (refused, "refused"),
        ];
        let found = what.into_iter().filter(|(count, _)| *count > 0);
        found.map(|(count, what)| format!("{count} {what}")).collect()
    }

    /// Returns the report as JSON.
    pub fn to_json(&self) -> serde_json::Value {
        serde_json::to_value(self).unwrap_or_default()
    }
}

impl Display for Report {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let (scenario, seed, machine) = (self.scenario, self.seed, &self.machine);
        writeln!(
            out,
            "{scenario}, seed {seed}, on {machine}, random read from memory {:.0} ns",
            machine.random_load_ns
        )?;
        if let Some(figure) = &self.figure {
            write!(out, "\n{figure}")?;
        }
        write_contestants(out, &self.contestants)?;
        if !self.ratios.is_empty() {
            writeln!(out, "\n{:<44}{:>9}", "ratio", "")?;
        }
        for (key, ratio) in &self.ratios {
            writeln!(out, "{key:<44}{ratio:>9.2}")?;
        }
        if !self.checks.gates.is_empty() {
            write_judged(out, &self.checks.gates, &self.machine)?;
        }
        writeln!(out)?;
        match &self.durable {
            Some(Ok(durable)) => writeln!(out, "{durable}")?,
            Some(Err(why)) => writeln!(out, "durable: not measured: {why}")?,
            None => {}
        }
        match &self.recovery {
            Some(Ok(recovery)) => writeln!(out, "{recovery}")?,
            Some(Err(why)) => writeln!(out, "recovery: not measured: {why}")?,
            None => {}
        }
        let Checks {
            lost,
            doubled,
            created,
            wrong,
            late,
            repeated,
            refused,
            notes,
            ..
        } = &self.checks;
        writeln!(
            out,
            "lost {lost} (in closed loops and by XDP), doubled {doubled}, created {created}, wrong {wrong}, \
             refused {refused}; not faults: right replies that came late {late}, twice {repeated}"
        )?;
        write!(out, "{}", self.checks.wrong_replies)?;
        notes.iter().try_for_each(|note| writeln!(out, "note: {note}"))
    }
}

fn write_contestants(
    out: &mut Formatter<'_>,
    contestants: &BTreeMap<&'static str, Contestant>,
) -> fmt::Result {
    if contestants.is_empty() {
        return Ok(());
    }
    let head = [
        "replies/s",
        "p50 us",
        "p99 us",
        "p99.9 us",
        "sent",
        "lost",
        "busy",
        "wrong",
    ];
    write!(out, "\n{:<60}", "contestant")?;
    head.iter().try_for_each(|column| write!(out, "{column:>12}"))?;
    writeln!(out)?;
    for (name, contestant) in contestants {
        write_contestant(out, name, contestant)?;
    }
    Ok(())
}

fn write_contestant(out: &mut Formatter<'_>, name: &str, contestant: &Contestant) -> fmt::Result {
    if let Some(why) = &contestant.not_measured {
        writeln!(out, "{name:<60}not measured: {why}")?;
    }
    if let Some(figures) = &contestant.gate_case {
        write_figures(out, &format!("{name}, transfer"), figures)?;
    }
    for (how, figures) in &contestant.by {
        write_figures(out, &format!("{name}, {how}"), figures)?;
    }
    for (what, cost) in &contestant.per_packet {
        let row = format!("{name}, {what}");
        match cost {
            Ok(cost) => writeln!(
                out,
                "{row:<60}{:.1} ns minimum, {:.1} ns median ({:.1} subtracted)",
                cost.min_ns, cost.median_ns, cost.rewriting_ns
            )?,
            Err(why) => writeln!(out, "{row:<60}not measured: {why}")?,
        }
    }
    if let Some(drained) = &contestant.drained {
        writeln!(
            out,
            "{:<60}{} records, {} fdatasyncs, at most {} waiting",
            format!("{name}, drained"),
            drained.records,
            drained.groups,
            drained.waiting_max
        )?;
    }
    Ok(())
}

fn write_figures(out: &mut Formatter<'_>, row: &str, figures: &Figures) -> fmt::Result {
    let Figures {
        rps,
        p50_us,
        p99_us,
        p999_us,
        sent,
        lost,
        busy,
        refused,
        wrong,
    } = figures;
    let wrong = wrong + refused;
    write!(
        out,
        "{row:<60}{rps:>12.0}{p50_us:>12.2}{p99_us:>12.2}{p999_us:>12.2}"
    )?;
    writeln!(out, "{sent:>12}{lost:>12}{busy:>12}{wrong:>12}")
}
