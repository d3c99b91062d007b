//! Report of `bench fabric`, as one JSON object or as a table.

use super::early::{EARLY, EarlyFigures};
use super::gates::{self, Judged, RATIO};
use super::pipeline::{Measured, THREADS};
use super::restart::Restart;
use super::udp::{self, Udp};
use super::workload;
use super::{CONTESTANTS, IFMA, LIBRARY, name_of};
use crate::gate::{Gate, judge_only_if_quiet, median, write_judged};
use crate::machine::Machine;
use crate::transfer::disk::Disk;
use crate::wrong::WrongReplies;
use lineside_verify::{Backend, BackendUnavailable};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::time::Duration;

/// Maximum number of cores that other processes may use before the report notes that the machine was busy.
const QUIET_CORES_MAX: f64 = 0.1;
/// Maximum load average before the benchmark; above it, the report notes that the machine was busy.
const QUIET_LOAD_MAX: f64 = 0.3;
/// Minimum share of VALID transactions, in percent.
const VALID_MIN: f64 = 95.0;
/// Divisor of the number of blocks: the first tenth of the open loop is the warm-up, because the verifier has no tables
/// at that time.
const WARM_SHARE: usize = 10;
/// Processor time that a real peer needs for a transaction with two endorsements, in milliseconds: minimum and maximum.
const REAL_PEER_MS: [f64; 2] = [0.35, 0.53];

/// Report of the scenario.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Name of the scenario: `fabric`.
    pub scenario: &'static str,
    /// Seed of the workloads.
    pub seed: u64,
    /// Machine of the run.
    pub machine: Machine,
    /// Disk on which the ledgers were.
    pub disk: Disk,
    /// Contestants by name.
    pub contestants: BTreeMap<&'static str, Contestant>,
    /// Ratios by key. `a/b` is the processor time of a transaction with `b` divided by that with `a`; `tps a/b` is the
    /// rate of `a` divided by the rate of `b`, in transactions per second.
    pub ratios: BTreeMap<String, f64>,
    /// Figures of the sustained run.
    pub sustained: Sustained,
    /// Figures of the sustained run with blocks from an orderer's Deliver stream over loopback; `feeder` in them is the
    /// orderer.
    pub delivered: Sustained,
    /// Latencies of the open loop at a share of the sustained rate.
    pub latency: Latency,
    /// Latencies of the open loop at a fixed rate.
    pub latency_fixed: Latency,
    /// Latencies of the disk alone, which appended and synced blocks of the same size at the rate of each open loop,
    /// directly before it: at the share of the sustained rate, and at the fixed rate.
    pub disk_alone: [Latency; 2],
    /// Figures of the block protocol by the size of datagrams; the gates apply to the first size.
    pub udp: Vec<Udp>,
    /// Times from the last datagram of a block until the block was durable: `early` if transactions are verified as
    /// they arrive, `whole` if they are verified with their block.
    pub early: BTreeMap<&'static str, EarlyFigures>,
    /// Times of a restart with the ledger of the sustained run.
    pub restart: Restart,
    /// Processor time that a real peer needs for a transaction with two endorsements, in milliseconds: minimum and
    /// maximum.
    pub real_peer_cpu_ms_per_tx: [f64; 2],
    /// Average number of cores that other processes used during the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub others_cores: Option<f64>,
    /// Checks that show whether the figures are valid, and gates.
    pub checks: Checks,
}

/// Figures of one contestant. The fields at the top level are the figures of the case to which the gates apply.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Contestant {
    /// Figures of the case to which the gates apply: smallbank, 2 endorsements, blocks of 500 transactions, 100
    /// creators.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub gate_case: Option<Figures>,
    /// Figures of the other cases, by the changed parameter.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub by: BTreeMap<String, Figures>,
    /// Reason why there are no figures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_measured: Option<String>,
}

/// Medians over the rounds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Figures {
    /// Durable transactions per second, including invalid ones.
    pub tps: f64,
    /// Processor time per transaction of all threads except the thread that supplies blocks, in milliseconds.
    pub cpu_ms_per_tx: f64,
    /// Processor time per transaction of the thread that supplies blocks, in milliseconds.
    pub feeder_cpu_ms_per_tx: f64,
    /// Elapsed time in each stage.
    pub stages: StagesUs,
    /// Number of transactions in a round.
    pub transactions: u64,
    /// Percentage of transactions with the code VALID.
    pub valid_percent: f64,
}

/// Elapsed time in each stage, in microseconds per transaction.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct StagesUs {
    /// Reading and hashing transactions.
    pub parse: f64,
    /// Verifying signatures.
    pub verify: f64,
    /// Evaluating policies.
    pub policy: f64,
    /// Checking the versions of reads, and collecting writes.
    pub mvcc: f64,
    /// Applying writes, storing transaction ids, and passing the block to the ledger.
    pub state: f64,
    /// Appending blocks to the ledger and syncing it, which runs concurrently with the other stages. If several blocks
    /// are committed together, the whole time counts for each of them.
    pub ledger: f64,
}

/// Result of the sustained run.
#[derive(Clone, Debug, Serialize)]
pub struct Sustained {
    /// Contestant that verified signatures.
    pub contestant: &'static str,
    /// Figures of the contestant.
    #[serde(flatten)]
    pub figures: Figures,
    /// Transactions per second in each tenth of the run.
    pub tenths_tps: Vec<f64>,
    /// Rate of the last tenth of the run divided by the rate of the first tenth.
    pub last_tenth_of_first: Option<f64>,
    /// Number of cores that other processes used during the run.
    pub others_cores: Option<f64>,
}

/// Time from the arrival of a complete block until it was durable.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Latency {
    /// Offered transactions per second.
    pub offered_tps: f64,
    /// Number of blocks.
    pub blocks: usize,
    /// Median latency.
    pub p50_ms: f64,
    /// 99th percentile of the latency.
    pub p99_ms: f64,
    /// Maximum latency.
    pub max_ms: f64,
    /// Number of cores that other processes used during the run.
    pub others_cores: Option<f64>,
}

/// Checks that show whether the run is valid.
#[derive(Clone, Debug, Serialize)]
pub struct Checks {
    /// Number of validation codes that differ from the codes that the workload expects.
    pub wrong: u64,
    /// First of these codes.
    pub wrong_replies: WrongReplies,
    /// Number of validation codes that were compared.
    pub compared: u64,
    /// Gates by key.
    pub gates: BTreeMap<&'static str, Gate>,
    /// Figures that were not measured, with the reasons.
    pub not_measured: BTreeMap<&'static str, String>,
    /// Notes for the reader.
    pub notes: Vec<String>,
}

/// Results of the runs.
#[derive(Default)]
pub(super) struct Findings {
    rounds: BTreeMap<(&'static str, String), Vec<Measured>>,
    pub(super) sustained: Option<Measured>,
    pub(super) delivered: Option<Measured>,
    pub(super) udp: Vec<Udp>,
    pub(super) early: BTreeMap<&'static str, EarlyFigures>,
    /// Offered rate in transactions per second, and the counts of the run.
    pub(super) open: Option<(f64, Measured)>,
    pub(super) open_fixed: Option<(f64, Measured)>,
    /// Latencies of the disk alone at the rates of `open` and `open_fixed`.
    pub(super) disk_alone: Vec<Latency>,
    wrong: WrongReplies,
    compared: u64,
}

impl Findings {
    /// Adds a round.
    pub(super) fn add(&mut self, contestant: &'static str, case: String, measured: Measured) {
        self.count(
            contestant,
            if case.is_empty() { "judged case" } else { &case },
            &measured,
        );
        self.rounds.entry((contestant, case)).or_default().push(measured);
    }

    /// Adds only the faults of a run.
    pub(super) fn count(&mut self, contestant: &str, case: &str, measured: &Measured) {
        let mut wrong = measured.wrong.clone();
        wrong.name(contestant, case);
        self.wrong.extend(&wrong);
        self.compared += measured.transactions;
    }
}

impl Figures {
    /// Returns the medians of several rounds; `None` if there are no rounds.
    fn of(rounds: &[Measured]) -> Option<Self> {
        let middle = |of: &dyn Fn(&Measured) -> f64| median(rounds.iter().map(of));
        let transactions = rounds.first()?.transactions;
        Some(Self {
            tps: middle(&Measured::tps)?,
            cpu_ms_per_tx: middle(&|run| run.share_us(run.cpu) / 1e3)?,
            feeder_cpu_ms_per_tx: middle(&|run| run.share_us(run.feeder) / 1e3)?,
            stages: StagesUs {
                parse: middle(&|run| run.share_us(run.stages.parse))?,
                verify: middle(&|run| run.share_us(run.stages.verify))?,
                policy: middle(&|run| run.share_us(run.stages.policy))?,
                mvcc: middle(&|run| run.share_us(run.stages.mvcc))?,
                state: middle(&|run| run.share_us(run.stages.state))?,
                ledger: middle(&|run| run.share_us(run.stages.ledger))?,
            },
            transactions,
            valid_percent: middle(&|run| 100.0 * run.valid as f64 / run.transactions as f64)?,
        })
    }
}

impl Sustained {
    fn of(measured: &Measured) -> Option<Self> {
        let tenths_tps = measured.tenths().unwrap_or_default();
        let last_tenth_of_first = tenths_tps.first().zip(tenths_tps.get(9));
        Some(Self {
            contestant: name_of(Backend::best()),
            figures: Figures::of(std::slice::from_ref(measured))?,
            last_tenth_of_first: last_tenth_of_first.map(|(first, last)| last / first),
            tenths_tps,
            others_cores: measured.others_cores,
        })
    }
}

impl Latency {
    pub(super) fn of(offered_tps: f64, measured: &Measured) -> Option<Self> {
        let warm = measured.blocks.len() / WARM_SHARE;
        let latencies = measured.blocks.get(warm..)?.iter();
        percentiles(
            offered_tps,
            latencies.map(|seen| seen.latency).collect(),
            measured.others_cores,
        )
    }
}

/// Returns the percentiles of the latencies of blocks; `None` if there are no blocks.
pub(super) fn percentiles(
    offered_tps: f64,
    mut latencies: Vec<Duration>,
    others_cores: Option<f64>,
) -> Option<Latency> {
    latencies.sort();
    let blocks = latencies.len();
    let quantile_ms = |of: f64| {
        let index = ((blocks as f64 * of).ceil() as usize).max(1) - 1;
        latencies.get(index).map(|latency| latency.as_secs_f64() * 1e3)
    };
    Some(Latency {
        offered_tps,
        blocks,
        p50_ms: quantile_ms(0.5)?,
        p99_ms: quantile_ms(0.99)?,
        max_ms: quantile_ms(1.0)?,
        others_cores,
    })
}

/// Returns the medians of the rounds' ratios between contestants, for the case to which the gates apply.
fn ratios(findings: &Findings) -> BTreeMap<String, f64> {
    let rounds = |name| findings.rounds.get(&(name, String::new()));
    let mut all = BTreeMap::new();
    for (number, (_, ours)) in CONTESTANTS.iter().enumerate() {
        for (_, theirs) in &CONTESTANTS[number + 1..] {
            let (Some(a), Some(b)) = (rounds(ours), rounds(theirs)) else {
                continue;
            };
            let pairs = || a.iter().zip(b);
            let cpu = |run: &Measured| run.share_us(run.cpu);
            let cpu = median(pairs().map(|(a, b)| cpu(b) / cpu(a)));
            let tps = median(pairs().map(|(a, b)| a.tps() / b.tps()));
            all.extend(cpu.map(|ratio| (format!("{ours}/{theirs}"), ratio)));
            all.extend(tps.map(|ratio| (format!("tps {ours}/{theirs}"), ratio)));
        }
    }
    debug_assert_eq!(RATIO, format!("{IFMA}/{LIBRARY}"));
    let best = name_of(Backend::best());
    for (key, case) in [
        (gates::MAJORITY_COST, workload::MAJORITY),
        (gates::CREATORS_COST, workload::MANY_CREATORS),
    ] {
        let of = |case: &str| findings.rounds.get(&(best, case.to_owned()));
        if let (Some(case), Some(gate_case)) = (of(case), of("")) {
            let pairs = case.iter().zip(gate_case);
            let cost = median(pairs.map(|(a, b)| a.share_us(a.cpu) / b.share_us(b.cpu)));
            all.extend(cost.map(|cost| (key.to_owned(), cost)));
        }
    }
    all
}

fn contestants(findings: &Findings) -> BTreeMap<&'static str, Contestant> {
    let mut all: BTreeMap<&'static str, Contestant> = BTreeMap::new();
    for (backend, name) in CONTESTANTS {
        let why = || BackendUnavailable(backend).to_string();
        all.entry(name).or_default().not_measured = (!backend.is_available()).then(why);
    }
    for ((name, case), rounds) in &findings.rounds {
        let contestant = all.entry(name).or_default();
        match (case.is_empty(), Figures::of(rounds)) {
            (true, figures) => contestant.gate_case = figures,
            (false, Some(figures)) => drop(contestant.by.insert(case.clone(), figures)),
            (false, None) => {}
        }
    }
    all
}

impl Report {
    pub(super) fn new(
        seed: u64,
        mut machine: Machine,
        disk: Disk,
        findings: Findings,
        restart: Restart,
        others_cores: Option<f64>,
    ) -> Option<Self> {
        let sustained = Sustained::of(findings.sustained.as_ref()?)?;
        let delivered = Sustained::of(findings.delivered.as_ref()?)?;
        let latency = |(tps, measured): &(f64, Measured)| Latency::of(*tps, measured);
        let latency_fixed = findings.open_fixed.as_ref().and_then(latency)?;
        let latency = findings.open.as_ref().and_then(latency)?;
        let disk_alone: [Latency; 2] = findings.disk_alone.as_slice().try_into().ok()?;
        let ratios = ratios(&findings);
        let judged = Judged {
            sustained: &sustained,
            delivered: &delivered,
            udp: findings.udp.first()?,
            latency: &latency,
            latency_fixed: &latency_fixed,
            disk_alone: &disk_alone,
            restart: &restart,
            ratios: &ratios,
            valid: findings.wrong.count == 0 && sustained.figures.valid_percent >= VALID_MIN,
        };
        let contestants = contestants(&findings);
        machine.end_of_run();
        let mut gates = judged.gates();
        judge_only_if_quiet(&mut gates, &machine, &[gates::UDP_SAVED]);
        let checks = Checks {
            wrong: findings.wrong.count,
            wrong_replies: findings.wrong,
            compared: findings.compared,
            gates,
            not_measured: judged.not_measured(),
            notes: notes(&machine, &sustained, others_cores),
        };
        Some(Self {
            scenario: "fabric",
            seed,
            machine,
            disk,
            contestants,
            ratios,
            sustained,
            delivered,
            latency,
            latency_fixed,
            disk_alone,
            udp: findings.udp,
            early: findings.early,
            restart,
            real_peer_cpu_ms_per_tx: REAL_PEER_MS,
            others_cores,
            checks,
        })
    }

    /// Returns the faults of the system itself; low speed is not a fault.
    pub fn failures(&self) -> Vec<String> {
        match self.checks.wrong {
            0 => Vec::new(),
            wrong => vec![format!("{wrong} wrong codes")],
        }
    }

    /// Returns the report as JSON.
    pub fn to_json(&self) -> serde_json::Value {
        serde_json::to_value(self).unwrap_or_default()
    }
}

fn notes(machine: &Machine, sustained: &Sustained, others_cores: Option<f64>) -> Vec<String> {
    let mut notes = vec![
        format!(
            "{THREADS} threads validate, one writes the ledger, one supplies blocks; `cpu us/tx` does not include the \
             thread that supplies blocks, although it uses a core of the same machine"
        ),
        "the figure of the real peer includes its ledger and the network; Lineside's figure includes its ledger only"
            .to_owned(),
    ];
    if sustained.figures.valid_percent < VALID_MIN {
        let percent = sustained.figures.valid_percent;
        notes.push(format!("only {percent:.1} % of the transactions are VALID"));
    }
    let (cores, load) = (machine.cores, machine.load_before);
    notes.push(match others_cores {
        Some(others) if others > QUIET_CORES_MAX || load > QUIET_LOAD_MAX => {
            format!(
                "the machine was not quiet: its load average was {load} before the run; other processes used \
                 {others:.2} of {cores} cores"
            )
        }
        Some(others) => format!("other processes used {others:.2} of {cores} cores"),
        None => format!(
            "the load average was {load} before the run; the use of cores by other processes is unknown"
        ),
    });
    notes
}

impl Display for Report {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let (scenario, seed, machine) = (self.scenario, self.seed, &self.machine);
        writeln!(out, "{scenario}, seed {seed}, on {machine}")?;
        let Disk {
            file_system,
            fdatasync_us,
            ..
        } = &self.disk;
        writeln!(
            out,
            "ledgers on {file_system}, fdatasync {fdatasync_us:.0} us after an append of 4 KiB\n"
        )?;
        self.write_contestants(out)?;
        writeln!(out, "\n{:<44}{:>9}", "ratio", "")?;
        for (key, ratio) in &self.ratios {
            writeln!(out, "{key:<44}{ratio:>9.2}")?;
        }
        write_judged(out, &self.checks.gates, &self.machine)?;
        self.write_others(out)?;
        let Checks { wrong, compared, .. } = self.checks;
        writeln!(out, "codes compared {compared}, wrong {wrong}")?;
        write!(out, "{}", self.checks.wrong_replies)?;
        for (key, why) in &self.checks.not_measured {
            writeln!(out, "{key}: not measured: {why}")?;
        }
        let mut notes = self.checks.notes.iter();
        notes.try_for_each(|note| writeln!(out, "note: {note}"))
    }
}

impl Report {
    fn write_contestants(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let head = [
            "tps",
            "cpu us/tx",
            "parse",
            "verify",
            "policy",
            "mvcc",
            "state",
            "ledger",
            "valid %",
        ];
        write!(out, "{:<28}", "contestant")?;
        head.iter().try_for_each(|column| write!(out, "{column:>10}"))?;
        writeln!(out)?;
        for (name, contestant) in &self.contestants {
            if let Some(why) = &contestant.not_measured {
                writeln!(out, "{name:<28}not measured: {why}")?;
            }
            if let Some(figures) = &contestant.gate_case {
                write_figures(out, name, figures)?;
            }
            for (case, figures) in &contestant.by {
                write_figures(out, &format!("{name}, {case}"), figures)?;
            }
        }
        for (of, run) in [("sustained", &self.sustained), ("by Deliver", &self.delivered)] {
            write_figures(out, &format!("{}, {of}", run.contestant), &run.figures)?;
        }
        udp::write(&self.udp, out)
    }

    fn write_others(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let Sustained {
            figures,
            tenths_tps,
            others_cores,
            ..
        } = &self.sustained;
        let tenths: Vec<String> = tenths_tps.iter().map(|tps| format!("{tps:.0}")).collect();
        let [least, most] = self.real_peer_cpu_ms_per_tx;
        writeln!(
            out,
            "\nsustained: {} transactions, tps in tenths {}{}",
            figures.transactions,
            tenths.join(" "),
            beside(*others_cores)
        )?;
        writeln!(
            out,
            "CPU {:.4} ms a transaction (a real peer {least} to {most}); supplying blocks takes {:.4} more",
            figures.cpu_ms_per_tx, figures.feeder_cpu_ms_per_tx
        )?;
        writeln!(
            out,
            "by Deliver: {:.0} tps; the orderer takes {:.4} ms a transaction more{}",
            self.delivered.figures.tps,
            self.delivered.figures.feeder_cpu_ms_per_tx,
            beside(self.delivered.others_cores)
        )?;
        let [disk, disk_fixed] = self.disk_alone;
        for (latency, disk) in [(self.latency, disk), (self.latency_fixed, disk_fixed)] {
            let Latency {
                offered_tps,
                blocks,
                p50_ms,
                p99_ms,
                max_ms,
                others_cores,
            } = latency;
            writeln!(
                out,
                "open loop at {offered_tps:.0} tps, {blocks} blocks: p50 {p50_ms:.2} ms, p99 {p99_ms:.2}, maximum \
                 {max_ms:.2}{}",
                beside(others_cores)
            )?;
            writeln!(
                out,
                "the disk alone, with blocks of this size at this rate: p50 {:.2} ms, p99 {:.2}, maximum {:.2}",
                disk.p50_ms, disk.p99_ms, disk.max_ms
            )?;
        }
        for (name, coming) in &self.early {
            let Latency {
                offered_tps,
                p50_ms,
                p99_ms,
                max_ms,
                others_cores,
                ..
            } = coming.latency;
            let how = if *name == EARLY {
                "as they arrive"
            } else {
                "with their block"
            };
            writeln!(
                out,
                "from a block's last transaction at {offered_tps:.0} tps, verified {how}: p50 {p50_ms:.2} ms, p99 \
                 {p99_ms:.2}, maximum {max_ms:.2}; parse {:.2} us, verify {:.2}; {} of {} used{}",
                coming.parse_us,
                coming.verify_us,
                coming.used,
                coming.verified,
                beside(others_cores)
            )?;
        }
        let Restart {
            transactions,
            replayed_transactions,
            bytes,
            seconds,
        } = self.restart;
        writeln!(
            out,
            "restart: {transactions} transactions, {replayed_transactions} of them after the checkpoint, {} MB: first \
             answer after {seconds:.2} s",
            bytes / 1_000_000
        )
    }
}

fn beside(others_cores: Option<f64>) -> String {
    others_cores.map_or_else(String::new, |cores| {
        format!("; other processes used {cores:.2} cores")
    })
}

fn write_figures(out: &mut Formatter<'_>, row: &str, figures: &Figures) -> fmt::Result {
    let StagesUs {
        parse,
        verify,
        policy,
        mvcc,
        state,
        ledger,
    } = figures.stages;
    write!(
        out,
        "{row:<28}{:>10.0}{:>10.2}",
        figures.tps,
        figures.cpu_ms_per_tx * 1e3
    )?;
    for stage in [parse, verify, policy, mvcc, state, ledger] {
        write!(out, "{stage:>10.2}")?;
    }
    writeln!(out, "{:>10.1}", figures.valid_percent)
}
