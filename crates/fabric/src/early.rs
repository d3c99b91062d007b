//! Early verification: transactions that arrive before their block is complete are verified in advance on a separate
//! thread.
//!
//! The results are only a cache. A result is used for a transaction of the complete block only if the envelope has the
//! same bytes and the configuration is the same; everything else is verified as if nothing had arrived early. A sender
//! of early transactions therefore cannot change any code.
//!
//! Callers see only the counts. A result is stored until its block is read or discarded, or until the ledger contains
//! the block with that number.

use crate::hashes::Hashes;
use crate::limits::EARLY_BYTES_MAX;
use crate::proto::Arena;
use crate::read::{ChannelContext, Reader};
use crate::tx::parse_with;
use hashbrown::HashMap;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::{self, Debug, Formatter};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// Maximum number of transactions that are verified together in one batch; further transactions wait for the next
/// batch.
const BATCH_TXS_MAX: usize = 128;
/// Maximum total size of a batch, in bytes; a single transaction may be larger.
const BATCH_BYTES_MAX: usize = 1 << 20;
/// Number of transactions that fill the verifier's lanes; a smaller batch waits [`BATCH_FILL_WAIT`] for more.
const BATCH_TXS_MIN: usize = 16;
/// Time that a batch with fewer than [`BATCH_TXS_MIN`] transactions waits for more of them.
const BATCH_FILL_WAIT: Duration = Duration::from_micros(300);
/// Approximate memory of a transaction in addition to its bytes, digests and results, in bytes.
const PENDING_TX_OVERHEAD_BYTES: usize = 256;

/// Handle to submit early transactions. It may be cloned.
#[derive(Clone, Debug)]
pub struct EarlyWork {
    shared: Arc<EarlyShared>,
}

/// Counts of early transactions.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct EarlyCounts {
    /// Number of transactions that were verified before their block was complete.
    pub verified: u64,
    /// Number of verified transactions whose results were used for their block.
    pub used: u64,
    /// Number of transactions that were skipped because the memory limit was reached or their block was already in the
    /// ledger.
    pub skipped: u64,
}

impl EarlyWork {
    /// Submits a transaction of a block: its index and its envelope. The envelope is copied, or skipped if the memory
    /// limit is reached.
    pub fn put(&self, block: u64, index: u32, envelope: &[u8]) {
        self.shared.put(block, index, envelope);
    }

    /// Discards the waiting transactions and the results of a block.
    pub fn dropped(&self, block: u64) {
        self.shared.discard(block);
    }

    /// Returns the counts so far.
    pub fn counts(&self) -> EarlyCounts {
        let counted = |count: &AtomicU64| count.load(Ordering::Relaxed);
        EarlyCounts {
            verified: counted(&self.shared.verified),
            used: counted(&self.shared.used),
            skipped: counted(&self.shared.skipped),
        }
    }

    /// Returns the memory of all waiting transactions and results, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.shared.lock().bytes
    }
}

/// Verification result of a transaction whose block was not read yet.
#[derive(Debug)]
pub(crate) struct EarlyTx {
    bytes: Box<[u8]>,
    /// Digests of all hashed messages of the transaction.
    pub digests: Box<[[u8; 32]]>,
    /// Result of each signature of the transaction: true if it is valid.
    pub holds: Box<[bool]>,
}

impl EarlyTx {
    fn memory_bytes_of(&self) -> usize {
        memory_bytes_of(&self.bytes) + 32 * self.digests.len() + self.holds.len()
    }
}

fn memory_bytes_of(bytes: &[u8]) -> usize {
    bytes.len() + PENDING_TX_OVERHEAD_BYTES
}

struct PendingTx {
    block: u64,
    index: u32,
    bytes: Box<[u8]>,
}

struct EarlyState {
    /// Reader that verifies the transactions, with the current configuration of the channel.
    reader: Reader,
    /// Number of the next block; all earlier blocks are in the ledger.
    next: u64,
    waiting: VecDeque<PendingTx>,
    /// Numbers of the blocks whose transactions are being verified now, without the blocks that were discarded
    /// meanwhile.
    working: BTreeSet<u64>,
    known: BTreeMap<u64, HashMap<u32, EarlyTx>>,
    /// Memory of all waiting transactions and results, in bytes.
    bytes: usize,
    ended: bool,
}

/// State that the thread, the submitters and the block reader share.
pub(crate) struct EarlyShared {
    inner: Mutex<EarlyState>,
    came: Condvar,
    bytes_max: usize,
    verified: AtomicU64,
    used: AtomicU64,
    skipped: AtomicU64,
}

impl Debug for EarlyShared {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

impl EarlyShared {
    fn lock(&self) -> MutexGuard<'_, EarlyState> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, block: u64, index: u32, envelope: &[u8]) {
        let cost = memory_bytes_of(envelope);
        let mut inner = self.lock();
        let is_room = inner.bytes.saturating_add(cost) <= self.bytes_max;
        if block < inner.next || inner.ended || !is_room {
            drop(inner);
            self.skipped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        inner.bytes += cost;
        inner.waiting.push_back(PendingTx {
            block,
            index,
            bytes: envelope.into(),
        });
        if matches!(inner.waiting.len(), 1 | BATCH_TXS_MIN) {
            self.came.notify_one();
        }
    }

    /// Discards a block, including transactions that are being verified.
    pub fn discard(&self, block: u64) {
        self.lock().discard(|other| other == block);
    }

    /// Records that the blocks before `next` are in the ledger, and that `reader` reads the later blocks.
    pub fn follow(&self, reader: &Reader, next: u64) {
        let mut inner = self.lock();
        inner.next = next;
        inner.discard(|block| block < next);
        if !Arc::ptr_eq(&inner.reader.setting, &reader.setting) {
            inner.reader = reading(reader);
            inner.forget_known(|_| true);
        }
    }

    /// Moves results for the transactions of a block to `known`, if they were found under this configuration.
    pub fn take(
        &self,
        block: u64,
        setting: &Arc<ChannelContext>,
        all: &[&[u8]],
        known: &mut Vec<Option<EarlyTx>>,
    ) {
        known.resize_with(all.len(), || None);
        let mut inner = self.lock();
        if !Arc::ptr_eq(&inner.reader.setting, setting) {
            return;
        }
        let Some(found) = inner.known.remove(&block) else {
            return;
        };
        inner.bytes -= found.values().map(EarlyTx::memory_bytes_of).sum::<usize>();
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

    /// Counts transactions whose results were used.
    pub fn used(&self, count: u64) {
        self.used.fetch_add(count, Ordering::Relaxed);
    }

    /// Waits for transactions; returns the next batch with its reader, or `None` after the end.
    fn next(&self) -> Option<(Reader, Vec<PendingTx>)> {
        let mut inner = self.lock();
        let none = |inner: &mut EarlyState| inner.waiting.is_empty() && !inner.ended;
        let few = |inner: &mut EarlyState| inner.waiting.len() < BATCH_TXS_MIN && !inner.ended;
        while none(&mut inner) {
            let came = self.came.wait_while(inner, none);
            let waited = self.came.wait_timeout_while(
                came.unwrap_or_else(PoisonError::into_inner),
                BATCH_FILL_WAIT,
                few,
            );
            inner = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        if inner.ended {
            return None;
        }
        let mut bytes = 0;
        let together = inner.waiting.iter().take(BATCH_TXS_MAX).take_while(|came| {
            let is_first = bytes == 0;
            bytes += came.bytes.len() + 1;
            is_first || bytes <= BATCH_BYTES_MAX
        });
        let count = together.count();
        let batch: Vec<PendingTx> = inner.waiting.drain(..count).collect();
        inner.working = batch.iter().map(|came| came.block).collect();
        Some((inner.reader.clone(), batch))
    }

    /// Stores the results that were found under `setting`, unless they are discarded or outdated.
    fn store_results(&self, setting: &Arc<ChannelContext>, batch: Vec<(PendingTx, TxVerification)>) {
        let count = batch.len() as u64;
        let mut inner = self.lock();
        let stands = Arc::ptr_eq(&inner.reader.setting, setting);
        for (PendingTx { block, index, bytes }, found) in batch {
            inner.bytes -= memory_bytes_of(&bytes);
            let known = EarlyTx {
                bytes,
                digests: found.digests,
                holds: found.holds,
            };
            let cost = known.memory_bytes_of();
            if !stands || !inner.working.contains(&block) || inner.bytes.saturating_add(cost) > self.bytes_max
            {
                continue;
            }
            inner.bytes += cost;
            let before = inner.known.entry(block).or_default().insert(index, known);
            inner.bytes -= before.as_ref().map_or(0, EarlyTx::memory_bytes_of);
        }
        inner.working.clear();
        self.verified.fetch_add(count, Ordering::Relaxed);
    }
}

impl EarlyState {
    fn discard(&mut self, void: impl Fn(u64) -> bool) {
        let mut bytes = 0;
        self.waiting.retain(|came| {
            let stays = !void(came.block);
            bytes += if stays { 0 } else { memory_bytes_of(&came.bytes) };
            stays
        });
        self.bytes -= bytes;
        self.forget_known(void);
    }

    /// Discards the results of the blocks for which `void` returns true, including the results of transactions that are
    /// still being verified.
    fn forget_known(&mut self, void: impl Fn(u64) -> bool) {
        self.working.retain(|block| !void(*block));
        let mut bytes = 0;
        self.known.retain(|block, known| {
            let stays = !void(*block);
            if !stays {
                bytes += known.values().map(EarlyTx::memory_bytes_of).sum::<usize>();
            }
            stays
        });
        self.bytes -= bytes;
    }
}

/// Verification result of a transaction.
struct TxVerification {
    digests: Box<[[u8; 32]]>,
    holds: Box<[bool]>,
}

fn verify_batch(reader: &Reader, batch: Vec<PendingTx>) -> Vec<(PendingTx, TxVerification)> {
    let arena = Arena::new();
    let envelopes: Vec<&[u8]> = batch.iter().map(|came| &*came.bytes).collect();
    let mut digests = Vec::with_capacity(batch.len());
    let mut made = |of: &[[u8; 32]]| digests.push(of.into());
    let parsed = parse_with(
        &envelopes,
        &reader.channel,
        &arena,
        reader.rules,
        &mut Hashes::default(),
        &|_| &[],
        &mut made,
    );
    let holds = reader.verify(&parsed, &[], |_, _| ()).holds_of_each();
    drop(parsed);
    let found = digests.into_iter().zip(holds);
    let found = found.map(|(digests, holds)| TxVerification { digests, holds });
    batch.into_iter().zip(found).collect()
}

/// Returns a copy of `reader` for one thread, without early results.
fn reading(reader: &Reader) -> Reader {
    let mut reader = reader.clone();
    reader.options.threads = 1;
    reader.early = None;
    reader
}

/// Handle of the thread that verifies early transactions. The thread ends when the handle is dropped.
pub(crate) struct Worker {
    shared: Arc<EarlyShared>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    /// Starts the thread. `reader` reads the blocks from number `next` on.
    pub fn start(reader: &Reader, next: u64) -> io::Result<Self> {
        Self::with_bytes(reader, next, EARLY_BYTES_MAX)
    }

    /// Starts the thread with another memory limit than [`EARLY_BYTES_MAX`].
    pub fn with_bytes(reader: &Reader, next: u64, bytes_max: usize) -> io::Result<Self> {
        let shared = Arc::new(EarlyShared {
            inner: Mutex::new(EarlyState {
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
                of_thread.store_results(&reader.setting, verify_batch(&reader, batch));
            }
        };
        Ok(Self {
            shared,
            thread: Some(Builder::new().name("early".into()).spawn(work)?),
        })
    }

    /// Returns the shared state for block readers.
    pub fn shared(&self) -> &Arc<EarlyShared> {
        &self.shared
    }

    /// Returns a handle for submitters.
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
            // The panic hook has already reported a panic of this thread.
            let _ = thread.join();
        }
    }
}
