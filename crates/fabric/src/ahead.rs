//! Read-ahead: a thread parses blocks and verifies their signatures while earlier blocks are being executed. The
//! transactions of blocks that wait together are hashed together.

use crate::block::data_digests;
use crate::error::{Error, Refused};
use crate::read::{Arenas, ChannelContext, Read, Reader, Tip};
use crate::validate::{ValidatedBlock, Validator};
use self_cell::{MutBorrow, self_cell};
use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// Maximum number of blocks whose transactions are hashed together.
const BLOCKS_HASHED_TOGETHER_MAX: usize = 4;

struct BlockSource {
    bytes: Vec<u8>,
    arenas: Arenas,
}

/// Result of reading the source; `None` after it was taken.
struct Outcome<'a>(Option<Result<Read<'a>, Error>>);

self_cell!(
    struct Cell {
        owner: MutBorrow<BlockSource>,
        #[covariant]
        dependent: Outcome,
    }
);

/// A block that was read ahead, with the configuration and predecessor that were assumed.
pub(crate) struct PrefetchedBlock {
    cell: Cell,
    setting: Arc<ChannelContext>,
    tip: Option<Tip>,
}

impl PrefetchedBlock {
    /// Decides the block; returns its bytes and the result. If the assumed configuration or predecessor turned out to
    /// be wrong, the block is read again.
    pub fn decide(mut self, validator: &mut Validator) -> (Vec<u8>, Result<ValidatedBlock, Error>) {
        let stands =
            self.tip == Some(validator.tip()) && Arc::ptr_eq(&self.setting, &validator.reader.setting);
        let decided = self.cell.with_dependent_mut(|_, outcome| {
            let read = outcome.0.take().filter(|_| stands)?;
            Some(read.and_then(|read| validator.decide(read)))
        });
        let bytes = self.cell.into_owner().into_inner().bytes;
        let validated = decided.unwrap_or_else(|| validator.validate(&bytes));
        (bytes, validated)
    }
}

struct ReadJob {
    reader: Reader,
    bytes: Vec<u8>,
    /// The predecessor; `None` if it is the block that was read before.
    tip: Option<Tip>,
    /// Hash of the transactions, if it is known.
    data: Option<[u8; 32]>,
}

/// Blocks that wait to be read, oldest first.
struct ReadQueue {
    jobs: Receiver<ReadJob>,
    taken: VecDeque<ReadJob>,
}

impl ReadQueue {
    /// Waits for the next block. If more blocks wait, the hashes of all of them are computed together.
    fn next(&mut self) -> Option<ReadJob> {
        if self.taken.is_empty() {
            self.taken.push_back(self.jobs.recv().ok()?);
        }
        while self.taken.len() < BLOCKS_HASHED_TOGETHER_MAX
            && let Ok(job) = self.jobs.try_recv()
        {
            self.taken.push_back(job);
        }
        let is_first_known = self.taken.front().is_some_and(|job| job.data.is_some());
        if !is_first_known && self.taken.len() > 1 {
            let unknown = self.taken.iter_mut().filter(|job| job.data.is_none());
            let mut unknown: Vec<&mut ReadJob> = unknown.collect();
            let blocks: Vec<&[u8]> = unknown.iter().map(|job| job.bytes.as_slice()).collect();
            let digests = data_digests(&blocks);
            for (job, digest) in unknown.iter_mut().zip(digests) {
                job.data = digest;
            }
        }
        self.taken.pop_front()
    }
}

/// Callback that the reading thread calls after each block.
type OnBlockRead = Box<dyn Fn() + Send + Sync>;

/// Handle of the thread that reads ahead.
pub(crate) struct BlockReadAhead {
    told: Arc<OnceLock<OnBlockRead>>,
    jobs: Option<Sender<ReadJob>>,
    done: Receiver<PrefetchedBlock>,
    /// The oldest block that was not taken, if [`Self::wait`] has received it.
    read: Option<PrefetchedBlock>,
    thread: Option<JoinHandle<()>>,
    under_way: usize,
}

impl BlockReadAhead {
    /// Starts the thread.
    pub fn start() -> io::Result<Self> {
        let (jobs, waiting) = channel();
        let mut waiting = ReadQueue {
            jobs: waiting,
            taken: VecDeque::new(),
        };
        let (finished, done) = channel();
        let told = Arc::new(OnceLock::<OnBlockRead>::new());
        let tell = Arc::clone(&told);
        let work = move || {
            let mut last = None;
            while let Some(mut job) = waiting.next() {
                job.tip = job.tip.or(last);
                let early = read(job, &mut last);
                if finished.send(early).is_err() {
                    return;
                }
                if let Some(tell) = tell.get() {
                    tell();
                }
            }
        };
        Ok(Self {
            told,
            jobs: Some(jobs),
            done,
            read: None,
            thread: Some(Builder::new().name("ahead".into()).spawn(work)?),
            under_way: 0,
        })
    }

    /// Begins to read the block after those that were begun, or after the validator's last block.
    pub fn begin(&mut self, bytes: Vec<u8>, validator: &Validator) {
        let tip = (self.under_way == 0).then(|| validator.tip());
        let job = ReadJob {
            reader: validator.reader.clone(),
            bytes,
            tip,
            data: None,
        };
        if let Some(jobs) = &self.jobs
            && jobs.send(job).is_ok()
        {
            self.under_way += 1;
        }
    }

    /// Registers a function, which is called whenever a block is read. Only the first registration counts.
    pub fn on_block_read(&self, tell: OnBlockRead) {
        let _ = self.told.set(tell);
    }

    /// Waits for the oldest block that was begun and not taken, and returns it; `None` if there is none.
    pub fn take(&mut self) -> Option<PrefetchedBlock> {
        self.under_way = self.under_way.checked_sub(1)?;
        self.read.take().or_else(|| self.done.recv().ok())
    }

    /// Waits up to `time` until the oldest begun block is read. Returns whether [`Self::take`] would not wait.
    pub fn wait(&mut self, time: Duration) -> bool {
        if self.read.is_none() && self.under_way > 0 {
            match self.done.recv_timeout(time) {
                Ok(early) => self.read = Some(early),
                Err(RecvTimeoutError::Timeout) => return false,
                Err(RecvTimeoutError::Disconnected) => {}
            }
        }
        true
    }
}

impl Drop for BlockReadAhead {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // The thread ends when the channel is closed. A panic was already reported.
            let _ = thread.join();
        }
    }
}

fn read(job: ReadJob, last: &mut Option<Tip>) -> PrefetchedBlock {
    let ReadJob {
        reader,
        bytes,
        tip,
        data,
    } = job;
    let arenas = Arenas::new(&reader.options);
    let source = MutBorrow::new(BlockSource { bytes, arenas });
    let cell = Cell::new(source, |source| {
        let BlockSource { bytes, arenas } = source.borrow_mut();
        let read = match tip {
            Some(tip) => reader.read(bytes, arenas, tip, data),
            None => Err(Refused::PreviousHash.into()),
        };
        *last = read.as_ref().ok().map(|read| read.tips[1]);
        Outcome(Some(read))
    });
    PrefetchedBlock {
        cell,
        setting: reader.setting,
        tip,
    }
}
