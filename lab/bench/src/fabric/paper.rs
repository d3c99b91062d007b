//! Measurements for the paper on Fabric within a SmartNIC: the rate from a block's arrival to the durable ledger, the
//! bytes that gRPC Deliver and the UDP protocol take on the wire, and the latency of the slowest blocks of both.

use super::pipeline::{self, How, Measured, Pace};
use super::udp::{self, BlocksToSend, LatencyFigures};
use super::wire::{self, Route};
use super::workload::{Blocks, Case, GATE};
use crate::error::Result;
use crate::gate::median;
use crate::progress::Progress;
use crate::transfer::drain::Removed;
use lineside_fabric_maker::Chaincode;
use lineside_verify::Backend;
use std::path::PathBuf;
use std::time::Duration;

/// Chaincodes that the paper measures.
const CHAINCODES: [Chaincode; 2] = [Chaincode::Smallbank, Chaincode::Drm];
/// Number of transactions in a block that is sent over a network.
const SENT_BLOCK: usize = 100;
/// Share of the rate of a closed loop that the open loop offers, for the latency of validation.
const OPEN_SHARE: f64 = 0.5;
/// Number of keys of each workload.
const KEYS: usize = 10_000;

/// Options of the measurements.
#[derive(Clone, Debug)]
pub struct PaperOptions {
    /// Seed of the workloads.
    pub seed: u64,
    /// Folder on a disk. Generated blocks and ledgers are in it during the run, and are removed.
    pub folder: PathBuf,
    /// Number of transactions of each chaincode that are validated and written to the ledger.
    pub validated: u64,
    /// Number of transactions of each chaincode that are sent over the network.
    pub sent: u64,
    /// Number of rounds; each figure is the median of its rounds.
    pub rounds: usize,
}

/// Rate and latency from the arrival of blocks in memory to the durable ledger.
#[derive(Clone, Debug)]
pub struct EndToEnd {
    /// Name of the chaincode.
    pub chaincode: &'static str,
    /// Number of transactions in a block.
    pub block: usize,
    /// Number of endorsements of a transaction.
    pub endorsements: usize,
    /// Number of transactions of each round.
    pub transactions: u64,
    /// Durable transactions per second in a closed loop.
    pub tps: f64,
    /// Processor time per transaction in the closed loop, in microseconds, without the thread that supplies blocks.
    pub cpu_us_per_tx: f64,
    /// Rate in transactions per second that the open loop offers.
    pub offered_tps: f64,
    /// Median time from the arrival of a block until it is durable, in the open loop.
    pub p50_ms: f64,
    /// 99th percentile of the same time.
    pub p99_ms: f64,
    /// Number of validation codes that differ from the expected ones.
    pub wrong: u64,
}

/// Transfer of the same blocks by gRPC Deliver and by the UDP protocol over loopback.
#[derive(Clone, Debug)]
pub struct BlockTransfer {
    /// Name of the chaincode.
    pub chaincode: &'static str,
    /// Number of transactions in a block.
    pub block: usize,
    /// Offered rate in transactions per second.
    pub offered_tps: f64,
    /// Bytes of a block divided by its transactions.
    pub block_bytes_per_tx: f64,
    /// Bytes of Deliver on Ethernet per transaction: counted payload of the TCP connection, and the headers of full
    /// segments.
    pub deliver_bytes_per_tx: f64,
    /// Bytes of Lineside's UDP protocol on Ethernet per transaction, in frames of 1,514 bytes.
    pub udp_bytes_per_tx: f64,
    /// Latency by Deliver from the time at which a block is available to the sender until the receiver has it.
    pub deliver: LatencyFigures,
    /// Latency of a block by UDP.
    pub udp: LatencyFigures,
}

/// Results of the measurements.
#[derive(Clone, Debug, Default)]
pub struct PaperFigures {
    /// One entry for each chaincode.
    pub end_to_end: Vec<EndToEnd>,
    /// One entry for each chaincode.
    pub transfers: Vec<BlockTransfer>,
}

/// Number of steps of which [`for_paper`] reports the progress.
pub const PAPER_STEPS: usize = 2 * CHAINCODES.len();

/// Runs the measurements, and calls `progress` with the number of the step before each of them.
///
/// # Errors
/// Fails if a block was not accepted, was lost or differs from the sent one; returns errors of the operating system.
pub fn for_paper(options: &PaperOptions, progress: &mut dyn FnMut(Progress)) -> Result<PaperFigures> {
    let folder = Removed::of_this_run(&options.folder)?;
    let mut figures = PaperFigures::default();
    let mut done = 0;
    let mut tell = |doing| {
        progress(Progress {
            doing,
            done,
            of: PAPER_STEPS,
        });
        done += 1;
    };
    let blocks = |chaincode, block, transactions| Blocks {
        case: Case {
            chaincode,
            block,
            ..GATE
        },
        seed: options.seed,
        keys: KEYS,
        transactions,
        cache: &folder.0,
    };
    for chaincode in CHAINCODES {
        tell("validating and writing blocks");
        let blocks = blocks(chaincode, GATE.block, options.validated);
        figures.end_to_end.push(end_to_end(options, &blocks, &folder)?);
    }
    for chaincode in CHAINCODES {
        tell("sending blocks by Deliver and by UDP");
        let blocks = blocks(chaincode, SENT_BLOCK, options.sent);
        figures.transfers.push(transfer(options, &blocks)?);
    }
    Ok(figures)
}

fn validate(blocks: &Blocks<'_>, pace: Pace, folder: &Removed) -> Result<Measured> {
    let ledger = Removed::make(&folder.0.join("ledger"))?;
    let how = How {
        pace,
        ..How::usual(Backend::best())
    };
    pipeline::run(blocks, blocks.transactions, how, &ledger.0)
}

fn middle(values: impl Iterator<Item = f64>) -> f64 {
    median(values).unwrap_or_default()
}

fn end_to_end(options: &PaperOptions, blocks: &Blocks<'_>, folder: &Removed) -> Result<EndToEnd> {
    let (mut closed, mut open, mut offered_tps) = (Vec::new(), Vec::new(), 0.0);
    for _ in 0..options.rounds.max(1) {
        closed.push(validate(blocks, Pace::Closed, folder)?);
        offered_tps = OPEN_SHARE * middle(closed.iter().map(Measured::tps));
        open.push(validate(blocks, Pace::Open { tps: offered_tps }, folder)?);
    }
    let quantile = |of: f64| {
        middle(open.iter().map(|run| {
            let mut latencies: Vec<Duration> = run.blocks.iter().map(|block| block.latency).collect();
            latencies.sort();
            let place = ((latencies.len() as f64 * of).ceil() as usize).max(1) - 1;
            latencies
                .get(place)
                .map_or(0.0, |found| found.as_secs_f64() * 1e3)
        }))
    };
    Ok(EndToEnd {
        chaincode: blocks.case.chaincode.name(),
        block: blocks.case.block,
        endorsements: blocks.case.endorsements,
        transactions: blocks.transactions,
        tps: middle(closed.iter().map(Measured::tps)),
        cpu_us_per_tx: middle(closed.iter().map(|run| run.share_us(run.cpu))),
        offered_tps,
        p50_ms: quantile(0.5),
        p99_ms: quantile(0.99),
        wrong: closed.iter().chain(&open).map(|run| run.wrong.count).sum(),
    })
}

fn transfer(options: &PaperOptions, blocks: &Blocks<'_>) -> Result<BlockTransfer> {
    let sent = udp::load(blocks, options.sent)?;
    let (mut deliver, mut over_udp) = (Vec::new(), Vec::new());
    // The first round is a warm-up and does not count.
    for round in 0..=options.rounds.max(1) {
        let (by_deliver, by_udp) = (
            wire::deliver(&sent, Route::Direct)?,
            udp::sockets(&sent, udp::PAYLOADS[0])?,
        );
        if round > 0 {
            deliver.push(by_deliver.latency);
            over_udp.push(by_udp);
        }
    }
    let counted = wire::deliver(&sent, Route::Counted)?;
    let share = |bytes: u64| bytes as f64 / sent.transactions as f64;
    Ok(BlockTransfer {
        chaincode: blocks.case.chaincode.name(),
        block: blocks.case.block,
        offered_tps: udp::OFFERED_TPS,
        block_bytes_per_tx: share(block_bytes(&sent)),
        deliver_bytes_per_tx: share(wire::tcp_on_ethernet(counted.received_bytes)),
        udp_bytes_per_tx: share(udp::bytes_on_ethernet(&sent)?),
        deliver: medians(&deliver),
        udp: medians(&over_udp),
    })
}

fn block_bytes(sent: &BlocksToSend) -> u64 {
    sent.blocks.iter().map(|block| block.len() as u64).sum()
}

/// Returns the median of each figure over the rounds.
fn medians(rounds: &[LatencyFigures]) -> LatencyFigures {
    let of = |value: fn(&LatencyFigures) -> f64| middle(rounds.iter().map(value));
    LatencyFigures {
        p50_ms: of(|round| round.p50_ms),
        p99_ms: of(|round| round.p99_ms),
        max_ms: of(|round| round.max_ms),
    }
}
