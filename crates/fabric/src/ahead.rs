//! Blocks that are read while the blocks ahead of them are still being executed, on a thread of its own. Of blocks that
//! wait together the transactions are hashed together.

use crate::block::data_digests;
use crate::error::{Error, Refused};
use crate::read::{Arenas, Read, Reader, Setting, Tip};
use crate::validate::{Validated, Validator};
use self_cell::{MutBorrow, self_cell};
use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// Blocks whose transactions are hashed together.
const TOGETHER: usize = 4;

struct Source {
    bytes: Vec<u8>,
    arenas: Arenas,
}

/// What reading the source gave; `None` once it was taken.
struct Outcome<'a>(Option<Result<Read<'a>, Error>>);

self_cell!(
    struct Cell {
        owner: MutBorrow<Source>,
        #[covariant]
        dependent: Outcome,
    }
);

/// A block that was read, and under what.
pub(crate) struct Early {
    cell: Cell,
    setting: Arc<Setting>,
    tip: Option<Tip>,
}

impl Early {
    /// The block's bytes, and what becomes of it. Where it was read under a configuration or behind a block that turned
    /// out otherwise, it is read again.
    pub fn decide(mut self, validator: &mut Validator) -> (Vec<u8>, Result<Validated, Error>) {
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

struct Job {
    reader: Reader,
    bytes: Vec<u8>,
    /// `None`: it follows the block read before.
    tip: Option<Tip>,
    /// The hash of its transactions, where it is known.
    data: Option<[u8; 32]>,
}

/// Blocks that wait to be read, oldest first.
struct Waiting {
    jobs: Receiver<Job>,
    taken: VecDeque<Job>,
}

impl Waiting {
    /// Waits for the next block. If others wait behind it, the hashes of all of them are made at once.
    fn next(&mut self) -> Option<Job> {
        if self.taken.is_empty() {
            self.taken.push_back(self.jobs.recv().ok()?);
        }
        while self.taken.len() < TOGETHER
            && let Ok(job) = self.jobs.try_recv()
        {
            self.taken.push_back(job);
        }
        let is_first_known = self.taken.front().is_some_and(|job| job.data.is_some());
        if !is_first_known && self.taken.len() > 1 {
            let unknown = self.taken.iter_mut().filter(|job| job.data.is_none());
            let mut unknown: Vec<&mut Job> = unknown.collect();
            let blocks: Vec<&[u8]> = unknown.iter().map(|job| job.bytes.as_slice()).collect();
            let digests = data_digests(&blocks);
            for (job, digest) in unknown.iter_mut().zip(digests) {
                job.data = digest;
            }
        }
        self.taken.pop_front()
    }
}

/// Is called by the thread that reads.
type Told = Box<dyn Fn() + Send + Sync>;

/// The thread that reads ahead.
pub(crate) struct Ahead {
    told: Arc<OnceLock<Told>>,
    jobs: Option<Sender<Job>>,
    done: Receiver<Early>,
    /// The oldest that was not taken, where somebody has waited for it.
    read: Option<Early>,
    thread: Option<JoinHandle<()>>,
    under_way: usize,
}

impl Ahead {
    /// Starts it.
    pub fn start() -> io::Result<Self> {
        let (jobs, waiting) = channel();
        let mut waiting = Waiting {
            jobs: waiting,
            taken: VecDeque::new(),
        };
        let (finished, done) = channel();
        let told = Arc::new(OnceLock::<Told>::new());
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

    /// Begins to read the block behind those that were begun, or behind the validator's last.
    pub fn begin(&mut self, bytes: Vec<u8>, validator: &Validator) {
        let tip = (self.under_way == 0).then(|| validator.tip());
        let job = Job {
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

    /// Calls `tell` whenever a block is read. Only the first such call counts.
    pub fn tell(&self, tell: Told) {
        let _ = self.told.set(tell);
    }

    /// The oldest block that was begun and not taken, once it is read.
    pub fn take(&mut self) -> Option<Early> {
        self.under_way = self.under_way.checked_sub(1)?;
        self.read.take().or_else(|| self.done.recv().ok())
    }

    /// Waits so long until the oldest block that was begun and not taken is read. Whether [`Self::take`] need not wait.
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

impl Drop for Ahead {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // It ends when it is asked for nothing more; if it panicked, it has said so.
            let _ = thread.join();
        }
    }
}

fn read(job: Job, last: &mut Option<Tip>) -> Early {
    let Job {
        reader,
        bytes,
        tip,
        data,
    } = job;
    let arenas = Arenas::new(&reader.options);
    let source = MutBorrow::new(Source { bytes, arenas });
    let cell = Cell::new(source, |source| {
        let Source { bytes, arenas } = source.borrow_mut();
        let read = match tip {
            Some(tip) => reader.read(bytes, arenas, tip, data),
            None => Err(Refused::PreviousHash.into()),
        };
        *last = read.as_ref().ok().map(|read| read.tips[1]);
        Outcome(Some(read))
    });
    Early {
        cell,
        setting: reader.setting,
        tip,
    }
}
