//! One run of the pipeline: blocks are read, validated, committed, and appended to a ledger on the disk. The ledger
//! syncs a block while the next block is validated.

use super::feeder::{Feed, Feeder, Given};
use super::workload::Blocks;
use crate::error::{BenchError, Result};
use crate::others::Since;
use crate::sys;
use crate::wrong::{WrongReplies, WrongReply};
use lineside_fabric::ledger::results::{Publisher, Results};
use lineside_fabric::ledger::{AddedBlock, Replica, Setup, StateStore};
use lineside_fabric::{Options, TxCode};
use lineside_journal::FsDisk;
use lineside_verify::{Backend, Builds, Verifier};
use std::collections::VecDeque;
use std::path::Path;
use std::time::{Duration, Instant};

/// Number of threads that read transactions and verify signatures.
pub(super) const THREADS: usize = 2;
/// Number of most recent blocks whose results the replica keeps.
const READABLE_BLOCKS: usize = 512;

/// Pace at which blocks arrive.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Pace {
    /// Each block arrives as soon as the previous block is validated.
    Closed,
    /// This number of transactions arrives per second, even if the pipeline is slower.
    Open { tps: f64 },
}

/// Times of one block.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockTiming {
    pub(super) transactions: u64,
    /// Time from the start of the run until the block was durable.
    pub(super) durable: Duration,
    /// Time from the block's arrival until it was durable.
    pub(super) latency: Duration,
}

/// Time spent in each stage, summed over all blocks.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Stages {
    pub(super) parse: Duration,
    pub(super) verify: Duration,
    pub(super) policy: Duration,
    pub(super) mvcc: Duration,
    pub(super) state: Duration,
    pub(super) ledger: Duration,
}

/// Result of a run.
#[derive(Clone, Default, Debug)]
pub(super) struct Measured {
    pub(super) transactions: u64,
    pub(super) valid: u64,
    /// Validation codes that differ from the expected ones.
    pub(super) wrong: WrongReplies,
    /// Time from the arrival of the first block until the last block was durable.
    pub(super) took: Duration,
    /// Processor time of all threads except the one that supplies blocks.
    pub(super) cpu: Duration,
    /// Processor time of the thread that supplies blocks.
    pub(super) feeder: Duration,
    /// Number of cores that other processes used.
    pub(super) others_cores: Option<f64>,
    pub(super) stages: Stages,
    pub(super) blocks: Vec<BlockTiming>,
}

impl Measured {
    pub(super) fn tps(&self) -> f64 {
        self.transactions as f64 / self.took.as_secs_f64()
    }

    /// Returns a time divided by the number of transactions, in microseconds.
    pub(super) fn share_us(&self, of: Duration) -> f64 {
        of.as_secs_f64() * 1e6 / self.transactions as f64
    }

    /// Returns the transactions per second in each tenth of the blocks.
    pub(super) fn tenths(&self) -> Option<Vec<f64>> {
        let size = self.blocks.len() / 10;
        let mut begun = Duration::ZERO;
        let rate = |part: &[BlockTiming]| {
            let ended = part.last()?.durable;
            let transactions: u64 = part.iter().map(|seen| seen.transactions).sum();
            let rate = transactions as f64 / ended.saturating_sub(begun).as_secs_f64();
            begun = ended;
            Some(rate)
        };
        (size > 0).then(|| self.blocks.chunks_exact(size).take(10).map_while(rate).collect())
    }
}

/// Arrival time and size of a block.
struct BlockArrival {
    whole: Instant,
    begun: Instant,
}

pub(super) struct RunningPipeline<'a> {
    replica: Replica<FsDisk>,
    results: Results,
    first: u64,
    began: Instant,
    came: Vec<BlockArrival>,
    /// Expected validation codes of each block that was begun and is not finished.
    meant: VecDeque<Vec<TxCode>>,
    /// Number of blocks whose codes were compared.
    counted: u64,
    /// Number of transactions in the blocks that have arrived.
    given: u64,
    /// Number of the next block that will become durable.
    next: u64,
    measured: &'a mut Measured,
}

/// Returns options with a new verifier, so that building its tables for recurring keys is part of the run.
pub(super) fn options(backend: Backend) -> Result<Options> {
    let options = lineside_verify::Options {
        backend: Some(backend),
        builds: Builds::Deferred,
        ..lineside_verify::Options::default()
    };
    let verifier = Verifier::new(options).map_err(|error| BenchError::NotMeasured(error.to_string()))?;
    Ok(Options {
        threads: THREADS,
        verifier,
    })
}

/// Returns the configuration of a ledger with its state in memory.
pub(super) fn setup(backend: Backend) -> Result<Setup> {
    Ok(Setup {
        validation: options(backend)?,
        ..Setup::default()
    })
}

/// Configuration of the validation.
#[derive(Clone, Copy)]
pub(super) struct How {
    pub(super) backend: Backend,
    pub(super) feed: Feed,
    pub(super) pace: Pace,
    /// True if the state is on the disk.
    pub(super) state_on_disk: bool,
}

impl How {
    /// Returns the usual configuration: blocks from memory, a closed loop, and the state in memory.
    pub(super) fn usual(backend: Backend) -> Self {
        Self {
            backend,
            feed: Feed::Memory,
            pace: Pace::Closed,
            state_on_disk: false,
        }
    }
}

/// Opens a new ledger in `folder`. Returns the replica and the results of its blocks.
pub(super) fn open(how: How, folder: &Path) -> Result<(Replica<FsDisk>, Results)> {
    let disk = FsDisk::open(folder).map_err(lineside_fabric::ledger::LedgerError::from)?;
    let path = folder.join("results");
    let publisher = Publisher::open(&path, READABLE_BLOCKS)?;
    let mut setup = setup(how.backend)?;
    if how.state_on_disk {
        setup.state = StateStore::Disk(folder.join("state"));
    }
    let (replica, _) = Replica::open(disk, setup, Some(publisher))?;
    Ok((replica, Results::open(&path)?))
}

/// Validates the first `transactions` transactions of `blocks` into a new ledger in `folder`.
///
/// # Errors
/// Fails if a block was not accepted, and with errors of the disk.
pub(super) fn run(blocks: &Blocks<'_>, transactions: u64, how: How, folder: &Path) -> Result<Measured> {
    let first = blocks.first();
    let end = first + transactions.div_ceil(blocks.case.block as u64);
    let feeder = Feeder::start(how.feed, blocks.open()?, end)?;
    let (replica, results) = open(how, folder)?;
    let mut measured = Measured::default();
    let mut running = RunningPipeline::new(replica, results, first, &mut measured);
    let begun = |feeder: &Feeder| (sys::process_ns(), feeder.spent_ns());
    let mut before = begun(&feeder);
    let mut since = None;
    while let Some(given) = feeder.next()? {
        if given.number == first {
            running.replica.flush()?;
            since = Since::now();
            before = begun(&feeder);
            running.began = Instant::now();
        }
        running.take(given, how.pace)?;
    }
    running.finish()?;
    running.replica.flush()?;
    running.measured.took = running.began.elapsed();
    let after = begun(&feeder);
    running.measured.others_cores = since.and_then(|since| since.cores());
    running.end()?;
    let feeder_ns = after.1 - before.1;
    measured.feeder = Duration::from_nanos(feeder_ns);
    measured.cpu = Duration::from_nanos((after.0 - before.0).saturating_sub(feeder_ns));
    feeder.end()?;
    Ok(measured)
}

impl<'a> RunningPipeline<'a> {
    /// Returns a run whose first measured block is `first`.
    pub(super) fn new(
        replica: Replica<FsDisk>,
        results: Results,
        first: u64,
        measured: &'a mut Measured,
    ) -> Self {
        Self {
            replica,
            results,
            first,
            began: Instant::now(),
            came: Vec::new(),
            meant: VecDeque::new(),
            counted: 0,
            given: 0,
            next: first,
            measured,
        }
    }

    /// Finishes all blocks that were begun, and closes the ledger.
    pub(super) fn end(mut self) -> Result<()> {
        self.finish()?;
        self.replica.flush()?;
        self.look();
        let missing = self.came.len() - self.measured.blocks.len();
        if self.came.is_empty() || missing > 0 {
            return Err(BenchError::Void(format!(
                "{missing} blocks of the run have no result"
            )));
        }
        Ok(self.replica.stop()?)
    }

    fn take(&mut self, given: Given, pace: Pace) -> Result<()> {
        if given.number < self.first {
            let added = self.replica.add(given.bytes)?;
            differences(given.number, &added.codes, &given.codes, &mut self.measured.wrong);
            return Ok(());
        }
        let mut whole = Instant::now();
        if let Pace::Open { tps } = pace {
            whole = self.began + Duration::from_secs_f64(self.given as f64 / tps);
            self.wait_until(whole)?;
        }
        self.given += given.codes.len() as u64;
        self.begin(given, whole)
    }

    /// Begins a block that was complete at the time `whole`, and finishes an earlier block, as a follower of a stream
    /// does.
    pub(super) fn begin(&mut self, given: Given, whole: Instant) -> Result<()> {
        self.came.push(BlockArrival {
            whole,
            begun: Instant::now(),
        });
        self.meant.push_back(given.codes);
        if let Some(added) = self.replica.finish_after(given.bytes)? {
            self.count(&added);
        }
        Ok(())
    }

    /// Finishes the blocks that have been read.
    pub(super) fn finish_read(&mut self) -> Result<()> {
        while let Some(added) = self.replica.finish_within(Duration::ZERO)? {
            self.count(&added);
        }
        Ok(())
    }

    /// Finishes all blocks that were begun.
    fn finish(&mut self) -> Result<()> {
        while let Some(added) = self.replica.finish()? {
            self.count(&added);
        }
        Ok(())
    }

    /// Finishes blocks that the replica has read, until the time `then`.
    fn wait_until(&mut self, then: Instant) -> Result<()> {
        loop {
            let left = then.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            if self.meant.is_empty() {
                std::thread::sleep(left);
            } else if let Some(added) = self.replica.finish_within(left)? {
                self.count(&added);
            }
        }
    }

    /// Adds the oldest block that was begun to the counts.
    fn count(&mut self, added: &AddedBlock) {
        let codes = &self.meant.pop_front().unwrap_or_default();
        let measured = &mut *self.measured;
        let number = self.first + self.counted;
        self.counted += 1;
        differences(number, &added.codes, codes, &mut measured.wrong);
        measured.transactions += codes.len() as u64;
        measured.valid += added.codes.iter().filter(|code| **code == TxCode::Valid).count() as u64;
        let (times, stages) = (added.times, &mut measured.stages);
        stages.parse += times.parse;
        stages.verify += times.verify;
        stages.policy += times.policy;
        stages.mvcc += times.mvcc;
        stages.state += added.commit;
        self.look();
    }

    /// Reads the results of the blocks that have become durable.
    fn look(&mut self) {
        let durable = self.replica.durable();
        while self.next < durable {
            let came = self.came.get((self.next - self.first) as usize);
            if let (Some(came), Some(result)) = (came, self.results.block(self.next)) {
                let durable = came.begun + Duration::from_nanos(result.total_ns);
                self.measured.stages.ledger += Duration::from_nanos(result.ledger_ns);
                self.measured.blocks.push(BlockTiming {
                    transactions: u64::from(result.transactions),
                    durable: durable - self.began,
                    latency: durable - came.whole,
                });
            }
            self.next += 1;
        }
    }
}

/// Counts the validation codes of block `number` that differ or are missing.
pub(super) fn differences(number: u64, found: &[TxCode], meant: &[TxCode], wrong: &mut WrongReplies) {
    for place in 0..found.len().max(meant.len()) {
        let (found, meant) = (found.get(place), meant.get(place));
        if found != meant {
            wrong.add(|| {
                let request = format!("transaction {place} of block {number}");
                WrongReply::new(request, format!("{found:?}"), format!("{meant:?}"))
            });
        }
    }
}
