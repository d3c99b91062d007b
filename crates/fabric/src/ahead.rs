//! Read-ahead: threads parse blocks and verify their signatures while earlier blocks are being executed. If only one
//! block waits, all threads share its work; if several blocks wait, each thread reads one block. The transactions of
//! blocks that wait at the same time are hashed together, which is faster than hashing one block after the other.

use crate::block::{data_digests, tip_of};
use crate::error::{Error, Refused};
use crate::read::{Arenas, ChannelContext, Read, Reader, Tip};
use crate::validate::{ValidatedBlock, Validator};
use bytes::Bytes;
use self_cell::{MutBorrow, self_cell};
use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// Maximum number of blocks whose transactions are hashed together.
const BLOCKS_HASHED_TOGETHER_MAX: usize = 4;

struct BlockSource {
    bytes: Bytes,
    arenas: Arenas,
}

/// Result of reading the block of a [`BlockSource`]; `None` after [`PrefetchedBlock::decide`] has used the result.
struct Outcome<'a>(Option<Result<Read<'a>, Error>>);

self_cell!(
    struct Cell {
        owner: MutBorrow<BlockSource>,
        #[not_covariant]
        dependent: Outcome,
    }
);

/// A block that was read ahead, with the channel configuration and the previous block that the reading thread assumed.
pub(crate) struct PrefetchedBlock {
    cell: Cell,
    setting: Arc<ChannelContext>,
    tip: Option<Tip>,
}

impl PrefetchedBlock {
    /// Validates the block; returns its bytes and the result. If the validator now has another configuration or another
    /// last block than the reading thread assumed, the block is read again.
    pub fn decide(mut self, validator: &mut Validator) -> (Bytes, Result<ValidatedBlock, Error>) {
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

/// A block to read.
struct ReadJob {
    reader: Reader,
    bytes: Bytes,
    /// Number and header hash of the previous block; `None` if the header of the previous block cannot be parsed.
    tip: Option<Tip>,
    /// Hash of the block's transactions, if it was already computed.
    data: Option<[u8; 32]>,
    done: SyncSender<PrefetchedBlock>,
}

/// Blocks that no thread reads yet, oldest first.
#[derive(Default)]
struct ReadQueue {
    jobs: VecDeque<ReadJob>,
    /// Number of threads that are hashing or reading a block now.
    working: usize,
    ended: bool,
}

impl ReadQueue {
    /// Removes the blocks that one thread hashes together: the oldest blocks whose hash is not known, at most
    /// [`BLOCKS_HASHED_TOGETHER_MAX`]. If the hash of the oldest block is known, removes only that block.
    fn take(&mut self) -> VecDeque<ReadJob> {
        let oldest = self.jobs.iter().take(BLOCKS_HASHED_TOGETHER_MAX);
        let unknown = oldest.take_while(|job| job.data.is_none()).count();
        self.jobs.drain(..unknown.max(1).min(self.jobs.len())).collect()
    }
}

/// Callback that a reading thread calls after each block.
type OnBlockRead = Box<dyn Fn() + Send + Sync>;

/// State that the reading threads and their handle share.
#[derive(Default)]
struct Shared {
    waiting: Mutex<ReadQueue>,
    came: Condvar,
    told: OnceLock<OnBlockRead>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, ReadQueue> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the oldest block that no thread reads. If more blocks wait, this function first computes the hashes of
    /// all of them together. Returns the block and the number of threads that may share its work; `None` after the
    /// handle was dropped.
    fn next(&self) -> Option<(ReadJob, usize)> {
        let idle = |waiting: &mut ReadQueue| waiting.jobs.is_empty() && !waiting.ended;
        let waiting = self.came.wait_while(self.lock(), idle);
        let mut waiting = waiting.unwrap_or_else(PoisonError::into_inner);
        if waiting.ended {
            return None;
        }
        waiting.working += 1;
        let mut taken = waiting.take();
        if taken.len() > 1 {
            drop(waiting);
            let blocks: Vec<&[u8]> = taken.iter().map(|job| &*job.bytes).collect();
            let digests = data_digests(&blocks);
            for (job, digest) in taken.iter_mut().zip(digests) {
                job.data = digest;
            }
            waiting = self.lock();
        }
        let job = taken.pop_front()?;
        for job in taken.into_iter().rev() {
            waiting.jobs.push_front(job);
            self.came.notify_one();
        }
        // If several blocks wait, one thread reads each of them, which costs less than sharing each block among
        // threads.
        let blocks = waiting.working + waiting.jobs.len();
        let threads = job.reader.options.threads / blocks;
        Some((job, threads.max(1)))
    }

    /// Reads blocks until the handle is dropped.
    fn work(&self) {
        while let Some((mut job, threads)) = self.next() {
            job.reader.options.threads = threads;
            let done = job.done.clone();
            // Sending fails only if the handle was dropped; then no caller waits for the block.
            let _ = done.send(read(job));
            self.lock().working -= 1;
            if let Some(tell) = self.told.get() {
                tell();
            }
        }
    }
}

/// Handle of the threads that read ahead.
pub(crate) struct BlockReadAhead {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    /// Channels that return the blocks that were begun and not taken yet, oldest block first.
    begun: VecDeque<Receiver<PrefetchedBlock>>,
    /// The oldest block of `begun`, if [`Self::wait`] has already received it.
    read: Option<PrefetchedBlock>,
    /// Number and header hash of the block that was begun last, if its header can be parsed.
    last: Option<Tip>,
}

impl BlockReadAhead {
    /// Starts `threads` threads, but at most [`BLOCKS_HASHED_TOGETHER_MAX`].
    pub fn start(threads: usize) -> io::Result<Self> {
        let mut ahead = Self {
            shared: Arc::default(),
            threads: Vec::new(),
            begun: VecDeque::new(),
            read: None,
            last: None,
        };
        for _ in 0..threads.clamp(1, BLOCKS_HASHED_TOGETHER_MAX) {
            let shared = Arc::clone(&ahead.shared);
            let thread = Builder::new().name("ahead".into());
            ahead.threads.push(thread.spawn(move || shared.work())?);
        }
        Ok(ahead)
    }

    /// Begins to read a block. It must follow the block that was begun last or, if no begun block is left, the
    /// validator's last block.
    pub fn begin(&mut self, bytes: impl Into<Bytes>, validator: &Validator) {
        let bytes = bytes.into();
        let tip = match self.begun.is_empty() {
            true => Some(validator.tip()),
            false => self.last,
        };
        self.last = tip_of(&bytes);
        let (done, read) = sync_channel(1);
        self.begun.push_back(read);
        self.shared.lock().jobs.push_back(ReadJob {
            reader: validator.reader.clone(),
            bytes,
            tip,
            data: None,
            done,
        });
        self.shared.came.notify_one();
    }

    /// Registers a function that a reading thread calls after each block that it has read. Only the first registration
    /// takes effect.
    pub fn on_block_read(&self, tell: OnBlockRead) {
        let _ = self.shared.told.set(tell);
    }

    /// Waits until the oldest begun block is read, and returns that block; `None` if no block was begun.
    pub fn take(&mut self) -> Option<PrefetchedBlock> {
        let oldest = self.begun.pop_front()?;
        self.read.take().or_else(|| oldest.recv().ok())
    }

    /// Waits up to `time` until the oldest begun block is read. Returns whether [`Self::take`] would not wait.
    pub fn wait(&mut self, time: Duration) -> bool {
        if self.read.is_none()
            && let Some(oldest) = self.begun.front()
        {
            match oldest.recv_timeout(time) {
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
        self.shared.lock().ended = true;
        self.shared.came.notify_all();
        for thread in self.threads.drain(..) {
            // The panic hook has already reported a panic of this thread.
            let _ = thread.join();
        }
    }
}

fn read(job: ReadJob) -> PrefetchedBlock {
    let ReadJob {
        reader,
        bytes,
        tip,
        data,
        ..
    } = job;
    let arenas = Arenas::new(&reader.options);
    let source = MutBorrow::new(BlockSource { bytes, arenas });
    let cell = Cell::new(source, |source| {
        let BlockSource { bytes, arenas } = source.borrow_mut();
        Outcome(Some(match tip {
            Some(tip) => reader.read(bytes, arenas, tip, data),
            None => Err(Refused::PreviousHash.into()),
        }))
    });
    PrefetchedBlock {
        cell,
        setting: reader.setting,
        tip,
    }
}
