//! Commits blocks on a separate thread while the next block is validated. All waiting blocks are committed together.

use super::error::LedgerError;
use super::results::{BlockTimes, Publisher};
use super::store::{BlockMeta, Blocks, Writer};
use crate::history::Index;
use crate::parts::BlockParts;
use bytes::Bytes;
use lineside_journal::{Disk, Error as JournalError, Lsn};
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Maximum total size of waiting blocks, in bytes; a single block may always wait.
const QUEUE_BYTES_MAX: usize = 64 << 20;
/// Interval between attempts to write to a full disk.
const DISK_FULL_RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// A block to commit.
pub(crate) struct Job {
    pub bytes: Bytes,
    pub meta: BlockMeta,
    /// Positions of the identities in `bytes`, if they are known.
    pub parts: Option<BlockParts>,
    pub timed: BlockTimes,
    /// Fingerprints of the written keys for the history index, if there is one.
    pub prints: Vec<u32>,
}

struct State {
    waiting: VecDeque<Job>,
    waiting_bytes: usize,
    /// Number of durable blocks.
    durable: u64,
    durable_lsn: Lsn,
    full: Option<Arc<str>>,
    failed: Option<Arc<str>>,
    stopping: bool,
}

struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn check_running(&self) -> Result<(), LedgerError> {
        match (&self.failed, &self.full) {
            (Some(what), _) => Err(LedgerError::Stopped { what: what.clone() }),
            (None, Some(what)) => Err(LedgerError::Full { what: what.clone() }),
            (None, None) => Ok(()),
        }
    }
}

/// Passes blocks to the thread that commits them.
pub(crate) struct Committer<D: Disk> {
    queue: Arc<Queue>,
    thread: Option<JoinHandle<Writer<D>>>,
}

/// Handle to wait until blocks are durable.
#[derive(Clone)]
pub struct DurabilityWaiter(Arc<Queue>);

impl<D: Disk> Committer<D> {
    /// Starts the thread. `history` is the path of the index of written keys.
    pub fn start(
        writer: Writer<D>,
        results: Option<Publisher>,
        history: Option<PathBuf>,
    ) -> Result<Self, LedgerError> {
        let has_blocks = writer.blocks().root_hash().is_some();
        let index = history.as_ref().filter(|_| has_blocks);
        let index = index
            .map(|path| Index::open(path, &writer.blocks()))
            .transpose()?;
        let state = State {
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            durable: writer.next(),
            durable_lsn: writer.journal().durable_lsn(),
            full: None,
            failed: None,
            stopping: false,
        };
        let queue = Arc::new(Queue {
            state: Mutex::new(state),
            changed: Condvar::new(),
        });
        let mut working = CommitterThread {
            queue: queue.clone(),
            writer,
            results,
            history: history.filter(|_| index.is_none()),
            index,
            done: Vec::new(),
        };
        let thread = std::thread::Builder::new().name("ledger".into()).spawn(move || {
            working.run();
            working.writer
        })?;
        Ok(Self {
            queue,
            thread: Some(thread),
        })
    }

    /// Passes a block to the thread; waits while the queue is full.
    pub fn submit(&self, job: Job) -> Result<(), LedgerError> {
        let mut state = self.queue.lock();
        loop {
            state.check_running()?;
            if state.waiting.is_empty() || state.waiting_bytes + job.bytes.len() <= QUEUE_BYTES_MAX {
                break;
            }
            state = self.queue.wait(state);
        }
        state.waiting_bytes += job.bytes.len();
        state.waiting.push_back(job);
        self.queue.changed.notify_all();
        Ok(())
    }

    pub fn waiter(&self) -> DurabilityWaiter {
        DurabilityWaiter(self.queue.clone())
    }

    /// Commits the waiting blocks, if possible, and ends the thread.
    pub fn stop(mut self) -> Option<Writer<D>> {
        self.end()
    }

    fn end(&mut self) -> Option<Writer<D>> {
        self.queue.lock().stopping = true;
        self.queue.changed.notify_all();
        self.thread.take().and_then(|thread| thread.join().ok())
    }
}

impl<D: Disk> Drop for Committer<D> {
    fn drop(&mut self) {
        self.end();
    }
}

impl DurabilityWaiter {
    /// Waits until block `number` is durable.
    ///
    /// # Errors
    /// The errors of [`Replica::wait`](super::Replica::wait).
    pub fn wait(&self, number: u64) -> Result<(), LedgerError> {
        self.wait_for(number + 1).map(|_| ())
    }

    /// Waits until `blocks` blocks are durable. Returns the last record of the last durable block.
    pub(crate) fn wait_for(&self, blocks: u64) -> Result<Lsn, LedgerError> {
        let mut state = self.0.lock();
        while state.durable < blocks {
            state.check_running()?;
            state = self.0.wait(state);
        }
        Ok(state.durable_lsn)
    }

    /// Returns the number of durable blocks.
    pub fn durable(&self) -> u64 {
        self.0.lock().durable
    }
}

struct CommitterThread<D: Disk> {
    queue: Arc<Queue>,
    writer: Writer<D>,
    results: Option<Publisher>,
    /// Path of the history index, if the index is to be opened or created after the next commit.
    history: Option<PathBuf>,
    index: Option<Index>,
    /// Blocks that are appended but not durable yet.
    done: Vec<(BlockMeta, BlockTimes, Vec<u32>)>,
}

impl<D: Disk> CommitterThread<D> {
    fn run(&mut self) {
        let queue = self.queue.clone();
        loop {
            let mut state = queue.lock();
            while state.waiting.is_empty() && !state.stopping {
                state = queue.wait(state);
            }
            let jobs = std::mem::take(&mut state.waiting);
            state.waiting_bytes = 0;
            queue.changed.notify_all();
            drop(state);
            if jobs.is_empty() {
                return;
            }
            if let Err(error) = self.commit_all(jobs) {
                let mut state = queue.lock();
                state.failed = Some(error.to_string().into());
                queue.changed.notify_all();
                return;
            }
        }
    }

    fn commit_all(&mut self, jobs: VecDeque<Job>) -> Result<(), LedgerError> {
        for Job {
            bytes,
            meta,
            parts,
            mut timed,
            prints,
        } in jobs
        {
            timed.ledger_from = Some(Instant::now());
            let append = |writer: &mut Writer<D>| match &parts {
                Some(parts) => writer.append_parts(&bytes, &meta, parts),
                None => writer.append(&bytes, &meta),
            };
            while let Err(error) = append(&mut self.writer) {
                let LedgerError::Journal(JournalError::Full { .. }) = error else {
                    return Err(error);
                };
                // Space for the blocks that were appended before this one is already reserved, so they can be
                // committed.
                self.commit()?;
                self.wait_for_space(error)?;
            }
            self.done.push((meta, timed, prints));
        }
        self.commit()
    }

    fn commit(&mut self) -> Result<(), LedgerError> {
        let durable = self.writer.commit()?;
        let blocks: Blocks<D> = self.writer.blocks();
        for (meta, timed, prints) in self.done.drain(..) {
            if let Some(results) = &mut self.results {
                results.publish(&meta, &timed);
            }
            // An index that cannot be written is closed at this block; queries then read the blocks.
            self.index
                .take_if(|index| index.append(meta.number, &prints).is_err());
        }
        if let Some(path) = self.history.take() {
            self.index = Index::open(&path, &blocks).ok();
        }
        let durable_lsn = blocks.end_of(durable.saturating_sub(1));
        let mut state = self.queue.lock();
        (state.durable, state.durable_lsn) = (durable, durable_lsn);
        state.full = None;
        self.queue.changed.notify_all();
        Ok(())
    }

    fn wait_for_space(&self, error: LedgerError) -> Result<(), LedgerError> {
        let mut state = self.queue.lock();
        if state.stopping {
            return Err(error);
        }
        state.full = Some(error.to_string().into());
        self.queue.changed.notify_all();
        let waited = self.queue.changed.wait_timeout(state, DISK_FULL_RETRY_INTERVAL);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        match state.stopping {
            true => Err(error),
            false => Ok(()),
        }
    }
}
