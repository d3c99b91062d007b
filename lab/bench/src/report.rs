//! Report of a benchmark, as one JSON object or as a table.

use crate::client::Tally;
use crate::gate::{median, write_judged};
use crate::import::Import;
use crate::machine::Machine;
use crate::per_packet::PerPacket;
use crate::wrong::WrongReplies;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};

pub use crate::gate::{Bound, Gate, Outcome};

/// Report of one scenario.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Name of the scenario.
    pub scenario: &'static str,
    /// Seed of the workload.
    pub seed: u64,
    /// Machine of the run.
    pub machine: Machine,
    /// Contestants by name.
    pub contestants: BTreeMap<&'static str, Contestant>,
    /// Ratios by key `a/b`; the varied quantity precedes the key.
    pub ratios: BTreeMap<&'static str, f64>,
    /// Checks that show whether the figures are valid, and gates.
    pub checks: Checks,
}

/// Figures of one contestant by client. The fields at the top level are the figures of the case to which the gate
/// applies.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Contestant {
    /// Figures of the case to which the gate applies: the socket client with 64 requests in flight; live frames for
    /// `xdp_max` and `memcached`.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub gate_case: Option<Figures>,
    /// Figures with the socket client and one request in flight.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window_1: Option<Figures>,
    /// Figures with the AF_XDP client and 64 requests in flight.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub af_xdp: Option<Figures>,
    /// Figures with the AF_XDP client and one request in flight.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub af_xdp_window_1: Option<Figures>,
    /// Figures with the live-frames generator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub live: Option<Figures>,
    /// Figures with the live-frames generator and one request in flight, which measures the round trip at the client's
    /// interface.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub live_window_1: Option<Figures>,
    /// Cost of a request for a TXID that is requested again and again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hot_hit: Option<PerPacket>,
    /// Cost of a request for a TXID anywhere in a table of 4 million lines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub random_hit: Option<PerPacket>,
    /// Cost of a native request for a proof of a transaction anywhere in 64 blocks of 2,048 transactions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub random_proof: Option<PerPacket>,
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
    /// Number of wrong replies in all rounds.
    pub wrong: u64,
}

impl Figures {
    /// Returns the figures of several rounds; `None` if there are no rounds.
    pub fn of(rounds: &[Tally]) -> Option<Self> {
        let quantile = |at| median(rounds.iter().map(|tally| latency_us(tally, at)));
        Some(Self {
            rps: median(rounds.iter().map(Tally::rps))?,
            p50_us: quantile(0.5)?,
            p99_us: quantile(0.99)?,
            p999_us: quantile(0.999)?,
            sent: rounds.iter().map(|tally| tally.sent).sum(),
            lost: rounds.iter().map(|tally| tally.lost).sum(),
            wrong: rounds.iter().map(|tally| tally.wrong.count).sum(),
        })
    }
}

/// Returns a quantile of the latency of a run, in microseconds.
pub fn latency_us(tally: &Tally, quantile: f64) -> f64 {
    tally.latency.value_at_quantile(quantile) as f64 / 1e3
}

/// Checks that show whether the run is valid.
#[derive(Clone, Debug, Serialize)]
pub struct Checks {
    /// Number of requests that were lost in closed loops, by `xdp_max`, and while programs were replaced.
    pub lost: u64,
    /// Number of wrong replies of all contestants.
    pub wrong: u64,
    /// First wrong replies.
    pub wrong_replies: WrongReplies,
    /// True if the comparison is meaningful: `sw/echo` is at least 0.3 with both clients.
    pub valid: bool,
    /// Number of instructions that the verifier processed, by program.
    pub verified_instructions: BTreeMap<String, u32>,
    /// Results of replacing programs under load.
    pub replacements: Replacements,
    /// Result of the import of blocks, or the reason why it was not measured.
    pub import: std::result::Result<Import, String>,
    /// Gates by key: the key of a ratio, or a figure with its unit.
    pub gates: BTreeMap<&'static str, Gate>,
    /// Notes for the reader.
    pub notes: Vec<String>,
}

/// Result of loading the XDP programs and replacing the running ones again and again while a client sends requests.
#[derive(Clone, Debug, Serialize)]
pub struct Replacements {
    /// Number of replacements.
    pub count: usize,
    /// Number of requests that were sent during the replacements.
    pub sent: u64,
    /// Number of requests without a reply.
    pub lost: u64,
    /// Requests with a wrong reply.
    pub wrong: WrongReplies,
}

impl Report {
    /// Returns the faults of the system itself, which are lost and wrong replies; low speed is not a fault.
    pub fn failures(&self) -> Vec<String> {
        let Checks { lost, wrong, .. } = self.checks;
        let what = [(lost, "requests lost"), (wrong, "wrong replies")];
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
        let head = [
            "replies/s",
            "p50 us",
            "p99 us",
            "p99.9 us",
            "sent",
            "lost",
            "wrong",
        ];
        write!(out, "\n{:<33}", "contestant")?;
        head.iter().try_for_each(|column| write!(out, "{column:>12}"))?;
        writeln!(out)?;
        for (name, contestant) in &self.contestants {
            write_contestant(out, name, contestant)?;
        }
        writeln!(out, "\n{:<36}{:>9}", "ratio", "")?;
        for (key, ratio) in &self.ratios {
            writeln!(out, "{key:<36}{ratio:>9.2}")?;
        }
        write_checks(out, &self.checks, machine)
    }
}

fn write_checks(out: &mut Formatter<'_>, checks: &Checks, machine: &Machine) -> fmt::Result {
    write_judged(out, &checks.gates, machine)?;
    let Replacements {
        count,
        sent,
        lost,
        wrong,
    } = &checks.replacements;
    writeln!(
        out,
        "\nprograms replaced {count} times: of {sent} requests {lost} lost, {} answered wrongly",
        wrong.count
    )?;
    match &checks.import {
        Ok(import) => writeln!(
            out,
            "imported {} MB of blocks, {} transactions, index on disk: {:.0} MB/s, {:.0} MB per second of processor \
             time, {:.1} bytes a transaction in the index; then {:.1} us to find one, {:.2} s a million transactions \
             to open it, {:.2} s with an index in memory ({}, fdatasync {:.0} us)",
            import.bytes / 1_000_000,
            import.transactions,
            import.mb_per_s,
            import.mb_per_core_s,
            import.index_bytes_per_transaction,
            import.locate_us,
            import.open_disk_s,
            import.open_memory_s,
            import.file_system,
            import.fdatasync_us
        )?,
        Err(why) => writeln!(out, "import: {why}")?,
    }
    for (program, count) in &checks.verified_instructions {
        writeln!(out, "verified instructions of {program}: {count}")?;
    }
    let Checks {
        lost,
        wrong,
        valid,
        notes,
        ..
    } = checks;
    writeln!(
        out,
        "lost {lost} (in closed loops and by XDP), wrong {wrong}, valid {valid}"
    )?;
    write!(out, "{}", checks.wrong_replies)?;
    notes.iter().try_for_each(|note| writeln!(out, "note: {note}"))
}

fn write_contestant(out: &mut Formatter<'_>, name: &str, contestant: &Contestant) -> fmt::Result {
    if let Some(why) = &contestant.not_measured {
        writeln!(out, "{name:<33}not measured: {why}")?;
    }
    let driven = [
        ("", &contestant.gate_case),
        (", window 1", &contestant.window_1),
        (", AF_XDP", &contestant.af_xdp),
        (", AF_XDP, window 1", &contestant.af_xdp_window_1),
        (", live frames", &contestant.live),
        (", live frames, window 1", &contestant.live_window_1),
    ];
    for (how, figures) in driven {
        let Some(figures) = figures else { continue };
        let Figures {
            rps,
            p50_us,
            p99_us,
            p999_us,
            sent,
            lost,
            wrong,
        } = figures;
        let row = format!("{name}{how}");
        write!(
            out,
            "{row:<33}{rps:>12.0}{p50_us:>12.2}{p99_us:>12.2}{p999_us:>12.2}"
        )?;
        writeln!(out, "{sent:>12}{lost:>12}{wrong:>12}")?;
    }
    for (what, cost) in [
        ("hot hit", contestant.hot_hit),
        ("random hit", contestant.random_hit),
        ("random proof", contestant.random_proof),
    ] {
        let Some(PerPacket {
            min_ns,
            median_ns,
            rewriting_ns,
            ..
        }) = cost
        else {
            continue;
        };
        let row = format!("{name}, {what}");
        writeln!(
            out,
            "{row:<33}{min_ns:.1} ns minimum, {median_ns:.1} ns median ({rewriting_ns:.1} subtracted)"
        )?;
    }
    Ok(())
}
