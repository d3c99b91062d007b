//! Scenario `transfer`: measures transfers by the paper's packets in `express` mode, and compares durable servers with
//! Redis and PostgreSQL.

mod bpf;
mod client;
pub(crate) mod disk;
pub(crate) mod drain;
mod durable;
pub(crate) mod express;
pub mod figure;
mod live;
mod ours;
mod peer;
mod per_packet;
pub(crate) mod plan;
mod postgres;
mod recovery;
mod redis;
pub mod report;
#[cfg(test)]
mod stall;
pub(crate) mod store;
mod sw;
mod tally;

use crate::error::{BenchError, Result};
use crate::gate::Bound::{self, AtLeast, AtMost};
use crate::gate::{Gate, judge_only_if_quiet, median};
use crate::machine::Machine;
use crate::progress::Progress;
use drain::Removed;
use express::{By, CLIENT_CORE, Case, Field, Samples, Who};
use plan::Command::{self, Create, Issue, Mix, Refer, Transfer};
use report::{Checks, Contestant, Figures, Report};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;
use tally::Tally;

/// Maximum load average before the benchmark; above it, the report notes that the machine was busy.
const QUIET_LOAD_MAX: f64 = 0.3;
const XDP_P50: &str = "xdp p50, us";
const SESSION_BARE: &str = "session transfer without ring, ns";
const SESSION_RING: &str = "session transfer with ring, ns";
const REFER_NS: &str = "refer, ns";
const BATCHES: &str = "durable native batches, transfers/s";
const LONE: &str = "lone durable transfer/fdatasync";
const LONE_IN_PLACE: &str = "lone durable transfer/fdatasync in place";
const RECOVERY: &str = "recovery, operations/s";
/// Pass criteria: the key of a ratio, or a figure with its unit; direction of the bound; required value (gate); stretch
/// goal.
const GATES: [(&str, Bound, f64, Option<f64>); 12] = [
    ("xdp_max/sw", AtLeast, 4.5, Some(6.0)),
    ("refer xdp_max/sw", AtLeast, 5.0, Some(7.0)),
    ("latency sw/xdp", AtLeast, 10.0, Some(15.0)),
    (XDP_P50, AtMost, 7.0, None),
    (SESSION_BARE, AtMost, 280.0, None),
    (SESSION_RING, AtMost, 360.0, None),
    (REFER_NS, AtMost, 170.0, None),
    ("durable/redis", AtLeast, 3.0, None),
    ("durable/postgres", AtLeast, 10.0, None),
    (BATCHES, AtLeast, 300_000.0, Some(1_000_000.0)),
    (LONE, AtMost, 1.5, None),
    (RECOVERY, AtLeast, 2_000_000.0, None),
];

/// Returns the keys of the gates that a report of this scenario has.
pub fn gate_keys() -> impl Iterator<Item = &'static str> {
    GATES.into_iter().map(|gate| gate.0)
}

/// Options of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Seed of the order of the contestants; the requests are the same for every seed.
    pub seed: u64,
    /// Number of rounds; figures are their medians.
    pub rounds: usize,
    /// Duration of the run of each contestant in a round.
    pub duration: Duration,
    /// Number of rounds of the durable contestants.
    pub durable_rounds: usize,
    /// Duration of the run of each durable contestant in a round.
    pub durable_duration: Duration,
    /// Number of rounds that measure the cost of a packet.
    pub packet_rounds: usize,
    /// Number of table sizes with which the cost of a packet is measured: 1 or 2.
    pub packet_sizes: usize,
    /// Number of operations that the measured recovery replays.
    pub recovered: u64,
    /// Folder for journals and for the data of the other servers, which the benchmark removes at the end.
    pub folder: PathBuf,
    /// Number of one of the paper's figures, 7 to 11, which is measured instead of everything else.
    pub figure: Option<u8>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            seed: 1,
            rounds: 7,
            duration: Duration::from_secs(1),
            durable_rounds: 5,
            durable_duration: Duration::from_secs(2),
            packet_rounds: 11,
            packet_sizes: 2,
            recovered: 4_000_000,
            folder: std::env::temp_dir(),
            figure: None,
        }
    }
}

impl Options {
    /// Returns the options of a run of less than 40 s.
    pub fn quick() -> Self {
        Self {
            rounds: 1,
            duration: Duration::from_millis(150),
            durable_rounds: 1,
            durable_duration: Duration::from_millis(600),
            packet_rounds: 3,
            packet_sizes: 1,
            recovered: 400_000,
            ..Self::default()
        }
    }
}

/// Returns the runs of a round of `express`.
fn cases() -> Vec<Case> {
    use By::{Live, LiveWindow1, Window1, Window64};
    let mut cases = Vec::new();
    for command in [Create, Issue, Transfer, Refer, Mix] {
        cases.push(Case::of(Who::Xdp, Live, command));
        cases.push(Case::of(Who::Sw, Live, command));
    }
    for who in [Who::Xdp, Who::Sw] {
        cases.push(Case {
            numbered: false,
            ..Case::of(who, Live, Transfer)
        });
    }
    cases.push(Case::of(Who::XdpUnjournalled, Live, Transfer));
    cases.push(Case::of(Who::Socket, Live, Transfer));
    for command in [Transfer, Refer, Mix] {
        for who in [Who::Xdp, Who::Sw, Who::Socket] {
            cases.push(Case::of(who, Window64, command));
        }
    }
    for by in [Window1, LiveWindow1] {
        for who in [Who::Xdp, Who::Sw, Who::Socket] {
            cases.push(Case::of(who, by, Transfer));
        }
    }
    cases
}

/// Runs the scenario, and calls `progress` before each step.
///
/// # Errors
/// Fails if the process has no root rights or no BPF, or if a contestant fails. A figure that would be meaningless is
/// void.
pub fn run(options: &Options, progress: &mut dyn FnMut(Progress)) -> Result<Report> {
    let machine = Machine::read();
    if machine.cores < 2 {
        return Err(BenchError::TooFewCores);
    }
    let rounds = options.rounds.max(1);
    let cases = cases();
    let mut done = 0;
    let of = match options.figure {
        Some(_) => rounds,
        None => rounds * cases.len() + options.durable_rounds * 5 + 5,
    };
    let mut tell = |doing| {
        progress(Progress { doing, done, of });
        done += 1;
    };
    let folder = Removed::of_this_run(&options.folder)?;
    let mut bench = Bench {
        checks: Checks::new(notes(&machine)),
        ratios: BTreeMap::new(),
        judged: BTreeMap::new(),
        contestants: BTreeMap::new(),
    };
    // The rings are emptied into a journal on a disk or discarded; a journal in memory would not be durable.
    disk::Disk::look(&folder.0)?;
    let mut report = Report {
        scenario: "transfer",
        seed: options.seed,
        machine,
        contestants: BTreeMap::new(),
        ratios: BTreeMap::new(),
        figure: None,
        durable: None,
        recovery: None,
        checks: Checks::new(Vec::new()),
    };
    let mut field = Field::new(folder.0.clone())?;
    if let Some(number) = options.figure {
        if !figure::is_one(number) {
            return Err(BenchError::NotMeasured(format!(
                "this benchmark cannot measure the paper's figure {number}; choose 7 to 11"
            )));
        }
        tell("the paper's figure");
        let checks = &mut bench.checks;
        let mut seen = |tally: &Tally, is_lossless| checks.add_run(tally, is_lossless);
        let drawn = figure::draw(&mut field, number, rounds, options.duration, &mut seen)?;
        report.figure = Some(drawn);
        bench.checks.add(field.faults);
        report.checks = bench.checks;
        report.machine.end_of_run();
        return Ok(report);
    }
    tell("a packet's cost");
    let pair = std::sync::Arc::clone(&field.pair);
    let costs = pair.client.run(CLIENT_CORE, || {
        per_packet::measure(&field.generator, options.packet_rounds, options.packet_sizes)
    })?;
    bench.per_packet(costs);
    let mut samples = Samples::new();
    for round in 0..rounds {
        for place in 0..cases.len() {
            // Each round begins with another run, so that no contestant always runs after the same one.
            let case = cases[(place + round * 5 + options.seed as usize) % cases.len()];
            tell("contestants");
            let tally = field.run(case, options.duration, None)?;
            bench.checks.add_run(&tally, case.is_lossless());
            samples.entry(case).or_default().push(tally);
        }
    }
    bench.express(&samples, &field);
    drop(field);
    let measured = durable::measure(
        &folder.0.join("durable"),
        options.durable_rounds,
        options.durable_duration,
        &mut tell,
    );
    report.durable = Some(match measured {
        Err(BenchError::NotMeasured(why)) => Err(why),
        Err(error) => return Err(error),
        Ok(found) => {
            bench.durable(&found);
            Ok(found.durable)
        }
    });
    tell("recovery");
    report.recovery = Some(match recovery::measure(&folder.0, options.recovered) {
        Err(BenchError::NotMeasured(why)) => Err(why),
        other => {
            let found = other?;
            bench.judged.insert(RECOVERY, found.operations_per_s);
            Ok(found)
        }
    });
    bench.judge();
    report.contestants = bench.contestants;
    report.ratios = bench.ratios;
    report.checks = bench.checks;
    report.machine.end_of_run();
    judge_only_if_quiet(&mut report.checks.gates, &report.machine, &[]);
    Ok(report)
}

/// State and results of a running benchmark.
struct Bench {
    checks: Checks,
    ratios: BTreeMap<String, f64>,
    judged: BTreeMap<&'static str, f64>,
    contestants: BTreeMap<&'static str, Contestant>,
}

impl Bench {
    fn per_packet(&mut self, costs: per_packet::Costs) {
        for (name, gate) in [
            (per_packet::SESSION_TRANSFER, SESSION_RING),
            (per_packet::SESSION_BARE, SESSION_BARE),
            (per_packet::REFER, REFER_NS),
        ] {
            if let Some(Ok(cost)) = costs.get(name) {
                self.judged.insert(gate, cost.median_ns);
            }
        }
        let xdp = self.contestants.entry("xdp").or_default();
        xdp.per_packet = costs;
    }

    fn express(&mut self, samples: &Samples, field: &Field) {
        self.checks.add(field.faults);
        for (case, rounds) in samples {
            let Some(figures) = Figures::of(rounds) else {
                continue;
            };
            let name = contestant_of(case);
            let contestant = self.contestants.entry(name).or_default();
            let is_gate_case = case.command == Transfer
                && case.numbered
                && match name {
                    "xdp_max" => true,
                    _ => case.by == By::Window64,
                };
            if is_gate_case {
                contestant.gate_case = Some(figures);
                continue;
            }
            let unnumbered = if case.numbered { "" } else { " without ids" };
            let by = if name.starts_with("xdp_max") {
                ""
            } else {
                case.by.name()
            };
            let how = format!("{}{unnumbered}{by}", case.command.name());
            contestant.by.insert(how, figures);
        }
        for (name, drained) in &field.drained {
            let name = if *name == "xdp, not journalled" {
                "xdp_max, not journalled"
            } else {
                name
            };
            self.contestants.entry(name).or_default().drained = Some(*drained);
            self.checks.lost += drained.torn;
        }
        self.express_ratios(samples);
    }

    fn express_ratios(&mut self, samples: &Samples) {
        let ratio = |a: Case, b: Case, of: fn(&Tally) -> f64| {
            let (a, b) = (samples.get(&a)?, samples.get(&b)?);
            median(a.iter().zip(b).map(|(a, b)| of(a) / of(b)))
        };
        let p50_us = |tally: &Tally| tally.latency_us(0.5);
        let mut found: Vec<(String, Option<f64>)> = Vec::new();
        for command in [Create, Issue, Transfer, Refer, Mix] {
            let front = front_of(command);
            for (a, b, by, key) in [
                (Who::Xdp, Who::Sw, By::Live, "xdp_max/sw"),
                (Who::Xdp, Who::Socket, By::Live, "xdp_max/socket"),
                (Who::Xdp, Who::Sw, By::Window64, "xdp/sw"),
                (Who::Xdp, Who::Socket, By::Window64, "xdp/socket"),
                (Who::Socket, Who::Sw, By::Window64, "socket/sw"),
            ] {
                let of = |who| Case::of(who, by, command);
                found.push((format!("{front}{key}"), ratio(of(a), of(b), Tally::rps)));
            }
        }
        let live = |who| Case::of(who, By::Live, Transfer);
        let unnumbered = |who| Case {
            numbered: false,
            ..live(who)
        };
        let pairs = [
            (
                "without ids xdp_max/sw",
                unnumbered(Who::Xdp),
                unnumbered(Who::Sw),
            ),
            (
                "not journalled xdp_max/sw",
                live(Who::XdpUnjournalled),
                live(Who::Sw),
            ),
        ];
        for (key, a, b) in pairs {
            found.push((key.into(), ratio(a, b, Tally::rps)));
        }
        for (key, who, by) in [
            ("latency sw/xdp", Who::Sw, By::LiveWindow1),
            ("latency socket/xdp", Who::Socket, By::LiveWindow1),
            ("socket client latency sw/xdp", Who::Sw, By::Window1),
            ("socket client latency socket/xdp", Who::Socket, By::Window1),
        ] {
            let of = |who| Case::of(who, by, Transfer);
            found.push((key.into(), ratio(of(who), of(Who::Xdp), p50_us)));
        }
        let seen = found.into_iter().filter_map(|(key, ratio)| Some((key, ratio?)));
        self.ratios.extend(seen);
        let lone = Case::of(Who::Xdp, By::Window1, Transfer);
        let lone = samples
            .get(&lone)
            .and_then(|rounds| median(rounds.iter().map(p50_us)));
        self.judged.extend(lone.map(|p50_us| (XDP_P50, p50_us)));
    }

    fn durable(&mut self, found: &durable::DurableResults) {
        self.checks.add(found.faults);
        for ((name, kind), rounds) in &found.samples {
            let contestant = self.contestants.entry(name).or_default();
            let Some(figures) = Figures::of(rounds) else {
                continue;
            };
            if *kind == durable::SINGLE {
                contestant.gate_case = Some(figures);
            } else {
                contestant.by.insert((*kind).into(), figures);
            }
            if *kind == durable::BATCHES {
                self.judged.insert(BATCHES, figures.rps);
            }
            // Losses of the other servers appear only in their rows of the report, and their wrong replies do not count
            // as faults, but are shown.
            for tally in rounds {
                match *name {
                    "durable" => self.checks.add_run(tally, true),
                    _ => self.checks.wrong_replies.extend(&tally.wrong),
                }
            }
        }
        let of = |name| found.samples.get(&(name, durable::SINGLE));
        for (key, peer) in [("durable/redis", "redis"), ("durable/postgres", "postgres")] {
            if let (Some(ours), Some(theirs), None) = (of("durable"), of(peer), found.absent.get(peer)) {
                let pairs = ours.iter().zip(theirs);
                let ratio = median(pairs.map(|(ours, theirs)| ours.rps() / theirs.rps()));
                self.ratios.extend(ratio.map(|ratio| (key.into(), ratio)));
            }
        }
        for (name, why) in &found.absent {
            self.contestants.entry(name).or_default().not_measured = Some(why.clone());
        }
        if let Some((appended, in_place)) = found.lone_by_fdatasync {
            self.ratios.insert(LONE.into(), appended);
            self.ratios.insert(LONE_IN_PLACE.into(), in_place);
        }
    }

    fn judge(&mut self) {
        for (key, is, gate, stretch) in GATES {
            let value = self.judged.get(key).or_else(|| self.ratios.get(key));
            let judged = Gate::judge(value.copied(), is, gate, stretch, true);
            self.checks.gates.insert(key, judged);
        }
    }
}

/// Returns the name of a case's contestant in reports.
fn contestant_of(case: &Case) -> &'static str {
    match (case.who, case.by) {
        (Who::Sw, _) => "sw",
        (Who::Socket, _) => "socket",
        (Who::Xdp, By::Live) => "xdp_max",
        (Who::Xdp, _) => "xdp",
        (Who::XdpUnjournalled, _) => "xdp_max, not journalled",
    }
}

/// Returns the prefix of a ratio's key; the key for TRANSFER has no prefix.
fn front_of(command: Command) -> String {
    match command {
        Transfer => String::new(),
        other => format!("{} ", other.name()),
    }
}

fn notes(machine: &Machine) -> Vec<String> {
    let mut notes = vec![
        "express: client and generators on core 0, servers and the drain of the rings on core 1; XDP answers on the \
         client's core"
            .into(),
        "veth has neither a wire nor interrupts: latencies are those of software alone".into(),
        "requests carry transaction ids and valid UDP checksums; `sw` ignores the ids, as the paper's software does"
            .into(),
        "`latency a/b` is measured at the client's interface (live frames, one at a time); the socket client adds its \
         own path to both sides"
            .into(),
        "rings off: `ringless` records nothing; `not journalled` empties the rings without a journal".into(),
        "durable: no thread is pinned; Redis and PostgreSQL also get 16 requests in flight on each connection".into(),
        "TigerBeetle 0.17.8 was not run here: on a similar machine 419,355 transfers/s in batches of 8,189, 2,060 one \
         by one (its own benchmark)"
            .into(),
        "ratios are medians of the rounds' ratios".into(),
    ];
    if machine.load_before > QUIET_LOAD_MAX {
        let load = machine.load_before;
        notes.push(format!(
            "the machine was not quiet: its load average was {load} before the run, which slows the servers most"
        ));
    }
    notes
}
