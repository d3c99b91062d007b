//! Transactions that come before their block is whole, verified in private, on a thread of its own.
//!
//! What comes of it is a cache and nothing else: whoever reads the whole block uses what was found out about a
//! transaction only if its envelope has the same bytes, and under the same configuration. Everything else is found out
//! then, as if nothing had come early. So whoever sends transactions early, whatever he sends, changes no code.
//!
//! Nothing of it can be seen but counts. It is kept until the block is read, dropped, or behind the ledger.

use crate::limits::EARLY_BYTES_MAX;
use crate::proto::Arena;
use crate::read::{Reader, Setting};
use crate::tx::parse_with;
use hashbrown::HashMap;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::{self, Debug, Formatter};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// Transactions that are verified together, at most. What comes meanwhile waits for them.
const TOGETHER_MAX: usize = 128;
/// Their bytes, at most; one is taken whatever it has.
const TOGETHER_BYTES_MAX: usize = 1 << 20;
/// As many as fill the verifier's lanes; fewer wait a moment for others.
const TOGETHER_MIN: usize = 16;
/// See [`TOGETHER_MIN`].
const OTHERS_WAIT: Duration = Duration::from_micros(300);
/// Kept with a transaction beside its bytes, its digests and its verdicts, about.
const AROUND_BYTES: usize = 256;

/// Takes transactions that come early. Handles may be cloned.
#[derive(Clone, Debug)]
pub struct EarlyWork {
    shared: Arc<Shared>,
}

/// What has become of transactions that came early.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct EarlyCounts {
    /// Verified before their block was whole.
    pub verified: u64,
    /// Those of them that did not have to be verified again when it was read.
    pub used: u64,
    /// Left alone, since there was no room.
    pub skipped: u64,
}

impl EarlyWork {
    /// A transaction of a block has come: its index, and its envelope. It is copied, or left alone where there is no
    /// room.
    pub fn put(&self, block: u64, index: u32, envelope: &[u8]) {
        self.shared.put(block, index, envelope);
    }

    /// What came of this block is void.
    pub fn dropped(&self, block: u64) {
        self.shared.forget(block);
    }

    /// What has become of transactions so far.
    pub fn counts(&self) -> EarlyCounts {
        let counted = |count: &AtomicU64| count.load(Ordering::Relaxed);
        EarlyCounts {
            verified: counted(&self.shared.verified),
            used: counted(&self.shared.used),
            skipped: counted(&self.shared.skipped),
        }
    }

    /// Bytes of all that waits or is kept.
    pub fn memory_bytes(&self) -> usize {
        self.shared.lock().bytes
    }
}

/// What is known of a transaction before its block is read.
#[derive(Debug)]
pub(crate) struct Known {
    bytes: Box<[u8]>,
    /// Of all that it hashes.
    pub digests: Box<[[u8; 32]]>,
    /// Whether each of its claims holds.
    pub holds: Box<[bool]>,
}

impl Known {
    fn cost(&self) -> usize {
        cost(&self.bytes) + 32 * self.digests.len() + self.holds.len()
    }
}

fn cost(bytes: &[u8]) -> usize {
    bytes.len() + AROUND_BYTES
}

struct Came {
    block: u64,
    index: u32,
    bytes: Box<[u8]>,
}

struct Inner {
    /// How transactions are read now.
    reader: Reader,
    /// Blocks before this one are in the ledger.
    next: u64,
    waiting: VecDeque<Came>,
    /// Blocks of the transactions that are being verified, and that are not void.
    working: BTreeSet<u64>,
    known: BTreeMap<u64, HashMap<u32, Known>>,
    /// Of all that waits, is being verified, or is known.
    bytes: usize,
    ended: bool,
}

/// What the thread, whoever tells of transactions and whoever reads blocks share.
pub(crate) struct Shared {
    inner: Mutex<Inner>,
    came: Condvar,
    bytes_max: usize,
    verified: AtomicU64,
    used: AtomicU64,
    skipped: AtomicU64,
}

impl Debug for Shared {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, block: u64, index: u32, envelope: &[u8]) {
        let cost = cost(envelope);
        let mut inner = self.lock();
        let is_room = inner.bytes.saturating_add(cost) <= self.bytes_max;
        if block < inner.next || inner.ended || !is_room {
            drop(inner);
            self.skipped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        inner.bytes += cost;
        inner.waiting.push_back(Came {
            block,
            index,
            bytes: envelope.into(),
        });
        if matches!(inner.waiting.len(), 1 | TOGETHER_MIN) {
            self.came.notify_one();
        }
    }

    /// Forgets a block, also what is being found out about it.
    pub fn forget(&self, block: u64) {
        self.lock().forget(|other| other == block);
    }

    /// The blocks before `next` are in the ledger, and what follows is read by `reader`.
    pub fn follow(&self, reader: &Reader, next: u64) {
        let mut inner = self.lock();
        inner.next = next;
        inner.forget(|block| block < next);
        if !Arc::ptr_eq(&inner.reader.setting, &reader.setting) {
            inner.reader = reading(reader);
            inner.forget_known(|_| true);
        }
    }

    /// Adds to `known` what was found out since about the transactions of a block under this configuration.
    pub fn take(&self, block: u64, setting: &Arc<Setting>, all: &[&[u8]], known: &mut Vec<Option<Known>>) {
        known.resize_with(all.len(), || None);
        let mut inner = self.lock();
        if !Arc::ptr_eq(&inner.reader.setting, setting) {
            return;
        }
        let Some(found) = inner.known.remove(&block) else {
            return;
        };
        inner.bytes -= found.values().map(Known::cost).sum::<usize>();
        drop(inner);
        for (index, of) in found {
            let index = index as usize;
            if let (Some(envelope), Some(known)) = (all.get(index), known.get_mut(index))
                && *of.bytes == **envelope
            {
                *known = Some(of);
            }
        }
    }

    /// So many transactions were not verified again.
    pub fn used(&self, count: u64) {
        self.used.fetch_add(count, Ordering::Relaxed);
    }

    /// The transactions to be verified next, and how; `None`: there will be no more.
    fn next(&self) -> Option<(Reader, Vec<Came>)> {
        let mut inner = self.lock();
        let none = |inner: &mut Inner| inner.waiting.is_empty() && !inner.ended;
        let few = |inner: &mut Inner| inner.waiting.len() < TOGETHER_MIN && !inner.ended;
        while none(&mut inner) {
            let came = self.came.wait_while(inner, none);
            let waited =
                self.came
                    .wait_timeout_while(came.unwrap_or_else(PoisonError::into_inner), OTHERS_WAIT, few);
            inner = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        if inner.ended {
            return None;
        }
        let mut bytes = 0;
        let together = inner.waiting.iter().take(TOGETHER_MAX).take_while(|came| {
            let is_first = bytes == 0;
            bytes += came.bytes.len() + 1;
            is_first || bytes <= TOGETHER_BYTES_MAX
        });
        let count = together.count();
        let batch: Vec<Came> = inner.waiting.drain(..count).collect();
        inner.working = batch.iter().map(|came| came.block).collect();
        Some((inner.reader.clone(), batch))
    }

    /// Keeps what was found out under `setting`, unless it is void by now.
    fn keep(&self, setting: &Arc<Setting>, batch: Vec<(Came, Found)>) {
        let count = batch.len() as u64;
        let mut inner = self.lock();
        let stands = Arc::ptr_eq(&inner.reader.setting, setting);
        for (Came { block, index, bytes }, found) in batch {
            inner.bytes -= cost(&bytes);
            let known = Known {
                bytes,
                digests: found.digests,
                holds: found.holds,
            };
            let cost = known.cost();
            if !stands || !inner.working.contains(&block) || inner.bytes.saturating_add(cost) > self.bytes_max
            {
                continue;
            }
            inner.bytes += cost;
            let before = inner.known.entry(block).or_default().insert(index, known);
            inner.bytes -= before.as_ref().map_or(0, Known::cost);
        }
        inner.working.clear();
        self.verified.fetch_add(count, Ordering::Relaxed);
    }
}

impl Inner {
    fn forget(&mut self, void: impl Fn(u64) -> bool) {
        let mut bytes = 0;
        self.waiting.retain(|came| {
            let stays = !void(came.block);
            bytes += if stays { 0 } else { cost(&came.bytes) };
            stays
        });
        self.bytes -= bytes;
        self.forget_known(void);
    }

    /// Forgets what was found out, and what is being.
    fn forget_known(&mut self, void: impl Fn(u64) -> bool) {
        self.working.retain(|block| !void(*block));
        let mut bytes = 0;
        self.known.retain(|block, known| {
            let stays = !void(*block);
            if !stays {
                bytes += known.values().map(Known::cost).sum::<usize>();
            }
            stays
        });
        self.bytes -= bytes;
    }
}

/// What was found out about a transaction.
struct Found {
    digests: Box<[[u8; 32]]>,
    holds: Box<[bool]>,
}

fn find_out(reader: &Reader, batch: Vec<Came>) -> Vec<(Came, Found)> {
    let arena = Arena::new();
    let envelopes: Vec<&[u8]> = batch.iter().map(|came| &*came.bytes).collect();
    let mut digests = Vec::with_capacity(batch.len());
    let mut made = |of: &[[u8; 32]]| digests.push(of.into());
    let parsed = parse_with(
        &envelopes,
        &reader.channel,
        &arena,
        reader.rules,
        &|_| &[],
        &mut made,
    );
    let holds = reader.verify(&parsed, &[], |_, _| ()).holds_of_each();
    let found = digests.into_iter().zip(holds);
    let found = found.map(|(digests, holds)| Found { digests, holds });
    batch.into_iter().zip(found).collect()
}

/// As `reader`, on one thread, and without what is known early.
fn reading(reader: &Reader) -> Reader {
    let mut reader = reader.clone();
    reader.options.threads = 1;
    reader.early = None;
    reader
}

/// The thread that verifies what comes early; it ends when this is dropped.
pub(crate) struct Worker {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    /// Starts it. Blocks from `next` on are read by `reader`.
    pub fn start(reader: &Reader, next: u64) -> io::Result<Self> {
        Self::with_bytes(reader, next, EARLY_BYTES_MAX)
    }

    /// The same, with another bound than [`EARLY_BYTES_MAX`].
    pub fn with_bytes(reader: &Reader, next: u64, bytes_max: usize) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            inner: Mutex::new(Inner {
                reader: reading(reader),
                next,
                waiting: VecDeque::new(),
                working: BTreeSet::new(),
                known: BTreeMap::new(),
                bytes: 0,
                ended: false,
            }),
            came: Condvar::new(),
            bytes_max,
            verified: AtomicU64::new(0),
            used: AtomicU64::new(0),
            skipped: AtomicU64::new(0),
        });
        let of_thread = Arc::clone(&shared);
        let work = move || {
            while let Some((reader, batch)) = of_thread.next() {
                of_thread.keep(&reader.setting, find_out(&reader, batch));
            }
        };
        Ok(Self {
            shared,
            thread: Some(Builder::new().name("early".into()).spawn(work)?),
        })
    }

    /// For whoever reads blocks.
    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// For whoever hears of transactions.
    pub fn handle(&self) -> EarlyWork {
        EarlyWork {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.shared.lock().ended = true;
        self.shared.came.notify_one();
        if let Some(thread) = self.thread.take() {
            // If it panicked, it has said so.
            let _ = thread.join();
        }
    }
}
