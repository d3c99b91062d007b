//! `lineside-lab bench column` measures the cost of a packet in the fast path for several requests, key lengths and
//! numbers of rows; rows and ranges read from HBase, from the socket datapath and from the XDP datapath; and the effect
//! of lower hit rates and of writes.

mod client;
pub(crate) mod contestants;
pub mod figures;
mod hbase;
mod live;
mod mixed;
pub mod per_packet;
pub mod report;
pub(crate) mod rows;
pub(crate) mod served;
mod sweeps;
#[cfg(test)]
mod tests;
mod told;
pub(crate) mod usage;
mod writes;
pub mod ycsb;

pub use report::Report;

use crate::error::{BenchError, Result};
use crate::machine::Machine;
use crate::progress::Progress;
use contestants::{Field, Samples};
use hbase::Peer;
use per_packet::{CASES, PerPacket};
use report::Measured;
use std::time::Duration;

/// Part of the scenario that can be measured without the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScenarioPart {
    /// Cost of a packet in the XDP program.
    Packets,
    /// Cost that change notifications by the coprocessor add to HBase's puts.
    Told,
}

/// Options of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Seed of the rows that are drawn. With one seed, every contestant gets requests for the same rows.
    pub seed: u64,
    /// Number of rounds that measure the cost of a packet; the report has the minimum and the median.
    pub rounds: usize,
    /// Number of calls of the program in each round.
    pub calls: u32,
    /// Number of rounds of the contestants; figures are their medians.
    pub contest_rounds: usize,
    /// Duration of the run of each contestant in a round.
    pub duration: Duration,
    /// Time for which the benchmark sends each kind of request to HBase before it measures.
    pub warm_up: Duration,
    /// Duration of the warm-up of each point of a sweep, and of its measurement.
    pub point: Duration,
    /// Number of puts of each kind in a round.
    pub puts: u32,
    /// Part that is measured alone; `None` measures everything.
    pub only: Option<ScenarioPart>,
    /// Plan of YCSB, which then replaces everything else.
    pub ycsb: Option<ycsb::Plan>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            seed: 1,
            rounds: 21,
            calls: 1 << 19,
            contest_rounds: 5,
            duration: Duration::from_secs(1),
            warm_up: Duration::from_secs(4),
            point: Duration::from_secs(3),
            puts: 1_000,
            only: None,
            ycsb: None,
        }
    }
}

impl ycsb::Plan {
    /// Returns the plan of the workloads, which takes half an hour, or five minutes if `quick` is true. Runs must not
    /// be shorter, because a client in Java is slow in its first seconds.
    pub fn of(workloads: String, quick: bool) -> Self {
        let (rounds, seconds) = if quick { (1, 6) } else { (3, 30) };
        Self {
            workloads,
            rounds,
            duration: Duration::from_secs(seconds),
        }
    }
}

impl Options {
    /// Returns the options of a run of less than 40 s.
    pub fn quick() -> Self {
        Self {
            rounds: 3,
            calls: 1 << 16,
            contest_rounds: 1,
            duration: Duration::from_millis(150),
            warm_up: Duration::from_millis(800),
            point: Duration::from_millis(250),
            puts: 200,
            ..Self::default()
        }
    }
}

/// Measures everything, and calls `progress` before each step.
///
/// # Errors
/// Fails if the process has no root rights or no BPF, and with [`Void`](crate::error::BenchError::Void) if a reply is
/// missing.
pub fn run(options: &Options, progress: &mut dyn FnMut(Progress)) -> Result<Report> {
    let machine = Machine::read();
    if machine.cores < 2 {
        return Err(BenchError::TooFewCores);
    }
    if let Some(plan) = &options.ycsb {
        return run_ycsb(options, plan, machine, progress);
    }
    match options.only {
        Some(ScenarioPart::Packets) => return run_packets(options, machine, progress),
        Some(ScenarioPart::Told) => return run_told(options, machine, progress),
        None => {}
    }
    let contest_rounds = options.contest_rounds.max(1);
    let mut done = 0;
    let of = CASES.len() + 3 + contest_rounds * contestants::runs(true).len() + 14;
    let mut tell = |doing| {
        progress(Progress { doing, done, of });
        done += 1;
    };
    // The cost of a packet needs an idle core, so it is measured before a JVM runs.
    let mut per_packet: Vec<PerPacket> = Vec::with_capacity(CASES.len());
    for case in &CASES {
        tell("a packet's cost");
        per_packet.push(per_packet::measure(case, options.rounds, options.calls)?);
    }
    tell("starting HBase");
    let (mut peer, absent) = match start_peer() {
        Ok(peer) => (Some(peer), None),
        Err(BenchError::NotMeasured(why)) => (None, Some(why)),
        Err(error) => return Err(error),
    };
    let mut field = Field::new(peer.as_ref())?;
    tell("warming HBase");
    field.warm(options.warm_up)?;
    let runs = contestants::runs(peer.is_some());
    let mut samples = Samples::new();
    for round in 0..contest_rounds {
        for place in 0..runs.len() {
            // Each round begins with another run, so that no contestant always runs after the same one.
            let run = runs[(place + round * 5) % runs.len()];
            tell("contestants");
            let tally = field.run(run, options.duration)?;
            samples.entry(run).or_default().push(tally);
        }
    }
    let times = sweeps::PointTimes {
        warm_up: options.point,
        duration: options.point,
    };
    let sweeps = sweeps::measure(&field, peer.as_ref(), options.seed, times, &mut tell)?;
    tell("writes");
    let write_cost = peer
        .as_ref()
        .map(|peer| writes::measure(peer, contest_rounds, options.puts))
        .transpose()?;
    tell("puts with change notifications");
    let told_cost = peer
        .as_mut()
        .map(|peer| told::measure(peer, contest_rounds, options.duration))
        .transpose()?;
    Ok(Report::new(
        options,
        machine,
        Measured {
            per_packet,
            samples,
            absent,
            verified_instructions: field.verified_instructions()?,
            sweeps: Some(sweeps),
            write_cost,
            told_cost,
            ycsb: None,
        },
    ))
}

fn run_packets(options: &Options, machine: Machine, progress: &mut dyn FnMut(Progress)) -> Result<Report> {
    let mut measured = Measured::default();
    for (done, case) in CASES.iter().enumerate() {
        progress(Progress {
            doing: "a packet's cost",
            done,
            of: CASES.len(),
        });
        (measured.per_packet).push(per_packet::measure(case, options.rounds, options.calls)?);
    }
    Ok(Report::new(options, machine, measured))
}

fn run_told(options: &Options, machine: Machine, progress: &mut dyn FnMut(Progress)) -> Result<Report> {
    let mut tell = |doing, done| progress(Progress { doing, done, of: 2 });
    tell("starting HBase", 0);
    let mut peer = start_peer()?;
    tell("puts with change notifications", 1);
    let cost = told::measure(&mut peer, options.contest_rounds, 2 * options.duration)?;
    let measured = Measured {
        told_cost: Some(cost),
        ..Measured::default()
    };
    Ok(Report::new(options, machine, measured))
}

fn run_ycsb(
    options: &Options,
    plan: &ycsb::Plan,
    machine: Machine,
    progress: &mut dyn FnMut(Progress),
) -> Result<Report> {
    let mut done = 0;
    let mut tell = |doing| {
        let of = 1 + plan.steps();
        progress(Progress { doing, done, of });
        done += 1;
    };
    tell("starting HBase");
    let mut peer = Peer::start()?;
    let found = ycsb::measure(&mut peer, plan, &mut tell)?;
    let measured = Measured {
        ycsb: Some(found),
        ..Measured::default()
    };
    Ok(Report::new(options, machine, measured))
}

fn start_peer() -> Result<Peer> {
    let mut peer = Peer::start()?;
    peer.make(hbase::READ)?;
    peer.make(hbase::WRITTEN)?;
    Ok(peer)
}
