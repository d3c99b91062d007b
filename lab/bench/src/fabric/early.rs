//! Measurement of the time from a block's last datagram until the block is durable. In one case, transactions are
//! verified as they arrive; in the other, they are verified with their block.
//!
//! The benchmark sends no datagrams. A thread passes on each transaction at the time at which it would arrive at the
//! offered rate, evenly spaced, and each block together with its last transaction. The blocks are validated in the same
//! way as by `serve`.

use super::pipeline::{How, Measured, RunningPipeline, open};
use super::report::Latency;
use super::workload::Blocks;
use crate::error::{BenchError, Result, io};
use crate::others::Since;
use lineside_fabric::block::Block;
use lineside_fabric::early::{EarlyCounts, EarlyWork};
use lineside_fabric::proto::Arena;
use lineside_fabric_maker::{MadeBlock, cache};
use serde::Serialize;
use std::path::Path;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

/// Name of the case in which transactions are verified as they arrive.
pub(super) const EARLY: &str = "early";
/// Name of the case in which transactions are verified with their block.
pub(super) const WHOLE: &str = "whole";
/// Number of transactions that the thread passes on at a time.
const IN_ONE_GO: usize = 10;

/// Results for blocks whose transactions arrive one by one.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct EarlyFigures {
    /// Time from the last transaction of a block until the block was durable.
    #[serde(flatten)]
    pub latency: Latency,
    /// Time in microseconds per transaction to read and hash a whole block.
    pub parse_us: f64,
    /// Time in microseconds per transaction to verify the remaining transactions of the block.
    pub verify_us: f64,
    /// Number of transactions that were verified before their block was complete.
    pub verified: u64,
    /// Number of transactions that were not verified again with the block.
    pub used: u64,
}

impl EarlyFigures {
    pub(super) fn of(offered_tps: f64, (measured, counts): &(Measured, EarlyCounts)) -> Option<Self> {
        Some(Self {
            latency: Latency::of(offered_tps, measured)?,
            parse_us: measured.share_us(measured.stages.parse),
            verify_us: measured.share_us(measured.stages.verify),
            verified: counts.verified,
            used: counts.used,
        })
    }
}

enum Event {
    Whole(MadeBlock, Instant),
    /// The replica has read a block.
    Read,
    Failed(std::io::Error),
    End,
}

/// Validates the first `transactions` transactions of `blocks` into a new ledger in `folder`; `tps` of them arrive per
/// second. If `is_early` is true, they are verified as they arrive.
///
/// # Errors
/// Fails if a block was not accepted, and with errors of the disk.
pub(super) fn run(
    blocks: &Blocks<'_>,
    (transactions, tps): (u64, f64),
    how: How,
    is_early: bool,
    folder: &Path,
) -> Result<(Measured, EarlyCounts)> {
    let first = blocks.first();
    let end = first + transactions.div_ceil(blocks.case.block as u64);
    let mut reader = blocks.open()?;
    let (mut replica, results) = open(how, folder)?;
    while replica.next() < first {
        let made = reader.next().transpose().map_err(io("reading blocks"))?;
        let made = made.ok_or_else(|| BenchError::Void("the workload has too few blocks".into()))?;
        replica.add(made.bytes)?;
    }
    replica.flush()?;
    let early = match is_early {
        true => replica.early().map_err(io("starting a thread"))?,
        false => None,
    };
    let (tell, events) = channel();
    let told = tell.clone();
    replica.on_read(move || {
        // The receiver ends only at the end of the run, so the error is ignored.
        let _ = told.send(Event::Read);
    });
    let hears = early.clone();
    let thread = std::thread::Builder::new().name("coming".into());
    let thread = thread
        .spawn(move || come(reader, end, tps, hears.as_ref(), &tell))
        .map_err(io("starting a thread"))?;
    let since = Since::now();
    let mut measured = Measured::default();
    let mut running = RunningPipeline::new(replica, results, first, &mut measured);
    let taken = loop {
        let done = match events.recv() {
            Ok(Event::Whole(made, whole)) => running.begin(made.into(), whole),
            Ok(Event::Read) => running.finish_read(),
            Ok(Event::Failed(error)) => Err(io("reading blocks")(error)),
            Ok(Event::End) | Err(_) => break running.end(),
        };
        if done.is_err() {
            break done;
        }
    };
    let panicked = |_| BenchError::Void("the thread that hands out transactions panicked".into());
    drop(events);
    thread.join().map_err(panicked)?;
    taken?;
    measured.others_cores = since.and_then(|since| since.cores());
    Ok((measured, early.map(|early| early.counts()).unwrap_or_default()))
}

/// Passes on transactions and blocks at their due times.
fn come(reader: cache::Reader, end: u64, tps: f64, early: Option<&EarlyWork>, tell: &Sender<Event>) {
    let (began, mut given) = (Instant::now(), 0);
    let wait_for = |transactions: usize| {
        let due = began + Duration::from_secs_f64(transactions as f64 / tps);
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        due
    };
    for made in reader {
        let event = match made {
            Ok(made) if made.number >= end => break,
            Ok(made) => {
                let arena = Arena::new();
                let block = Block::read(&made.bytes, &arena);
                let all = block.map(|block| block.transactions).unwrap_or_default();
                for (index, envelope) in all.iter().enumerate() {
                    if index % IN_ONE_GO == 0 {
                        wait_for(given + index);
                    }
                    if let Some(early) = early {
                        early.put(made.number, index as u32, envelope);
                    }
                }
                given += made.codes.len();
                Event::Whole(made, wait_for(given))
            }
            Err(error) => Event::Failed(error),
        };
        if tell.send(event).is_err() {
            return;
        }
    }
    let _ = tell.send(Event::End);
}
