//! Download of a range of heights over several connections, in order.
//!
//! ```text
//!   worker 1: claim 8 heights -> getblockhash (batch) -> getblock ... -+
//!   worker 2: claim 8 heights -> ...                                   +-> waiting blocks, by height -> iterator
//!   worker N: ...                                                     -+   (bounded in bytes)
//! ```

use crate::backoff::Backoff;
use crate::error::{NodeError, NodeFault, SetupError};
use crate::hash::{BlockHash, parent_of};
use crate::node::Node;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Number of heights that a worker claims at once.
const CLAIM: u32 = 8;
/// Shortest and longest pause of a worker between attempts.
const RETRY_PAUSES: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(5)];
/// Time between two samples of the number of downloaded bytes, from which the rate of the last minute is computed.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(2);
const SAMPLES: usize = 30;

/// Options of a download.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DownloadOptions {
    /// Number of workers; each has its own connection.
    pub workers: usize,
    /// Maximum number of bytes of blocks that wait for earlier blocks. Each worker may exceed this limit by one block.
    pub look_ahead_bytes: usize,
    /// Maximum number of attempts at one call whose faults are transient; after the last one the download fails.
    pub attempts: u32,
}

impl Default for DownloadOptions {
    fn default() -> Self {
        DownloadOptions {
            workers: 4,
            look_ahead_bytes: 64 << 20,
            attempts: 8,
        }
    }
}

/// Progress of a download, for a progress bar.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// Height of the next block that the iterator returns. A new download from this height continues this download.
    pub next_height: u32,
    /// First height after the range.
    pub end_height: u32,
    /// Number of blocks that the iterator has returned.
    pub blocks: u32,
    /// Number of bytes of these blocks.
    pub bytes: u64,
    /// Time since the start.
    pub elapsed: Duration,
    /// Average rate over the last minute, in bytes per second.
    pub bytes_per_second: f64,
    /// Estimated remaining time at the rate of the last minute; `None` until the rate is known. Early blocks of the
    /// main chain are shorter than later ones, so the estimate is too low at first.
    pub remaining: Option<Duration>,
}

/// A block of a download.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DownloadedBlock {
    /// Height of the block.
    pub height: u32,
    /// Hash of the block, compared with the hash of the header in `raw`.
    pub hash: BlockHash,
    /// Bytes of the block as nodes send it. The parent in the header is the block before it.
    pub raw: Vec<u8>,
}

/// Iterator over the blocks of a range of heights, in order. It ends after the range or after an error.
///
/// Dropping the iterator stops the workers after their current calls; the drop does not wait for the workers.
pub struct Download {
    shared: Arc<Shared>,
    next: u32,
    end: u32,
    parent: Option<BlockHash>,
    blocks: u32,
    bytes: u64,
    started: Instant,
    samples: VecDeque<(Instant, u32, u64)>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    options: DownloadOptions,
    end: u32,
}

struct State {
    /// Lowest height that no worker has claimed.
    unclaimed: u32,
    /// Height that the iterator waits for; its worker may exceed the look-ahead limit.
    awaited_height: u32,
    ready: BTreeMap<u32, (BlockHash, Vec<u8>)>,
    ready_bytes: usize,
    failure: Option<NodeError>,
    stopped: bool,
    workers: usize,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A worker that panics while it holds the lock leaves a consistent state, because each change of the state is a
        // single step. So a poisoned lock can be used.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let waited = self.changed.wait(state);
        waited.unwrap_or_else(PoisonError::into_inner)
    }
}

impl Download {
    /// Starts the download of the blocks at the heights in `range`. `parent` is the block before the range, if it is
    /// known: the first block must then be its child. `connect` is called once for each worker, and returns the
    /// worker's connection.
    ///
    /// # Errors
    /// The errors of `connect`.
    pub fn start(
        range: Range<u32>,
        parent: Option<BlockHash>,
        options: DownloadOptions,
        mut connect: impl FnMut() -> Result<Box<dyn Node>, SetupError>,
    ) -> Result<Download, SetupError> {
        let count = options.workers.max(1);
        let nodes: Result<Vec<_>, _> = (0..count).map(|_| connect()).collect();
        let nodes = nodes?;
        let state = State {
            unclaimed: range.start,
            awaited_height: range.start,
            ready: BTreeMap::new(),
            ready_bytes: 0,
            failure: None,
            stopped: false,
            workers: nodes.len(),
        };
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            changed: Condvar::new(),
            options,
            end: range.end,
        });
        for node in nodes {
            let [shortest, longest] = RETRY_PAUSES;
            let worker = Worker {
                shared: Arc::clone(&shared),
                node,
                backoff: Backoff::new(shortest, longest),
            };
            std::thread::Builder::new()
                .name("block-download".into())
                .spawn(move || worker.run())
                .map_err(SetupError::Runtime)?;
        }
        let started = Instant::now();
        Ok(Download {
            shared,
            next: range.start,
            end: range.end,
            parent,
            blocks: 0,
            bytes: 0,
            started,
            samples: VecDeque::from([(started, 0, 0)]),
        })
    }

    /// Returns the progress for a progress bar.
    pub fn progress(&self) -> Progress {
        let now = Instant::now();
        let (since, blocks, bytes) = self.samples.front().copied().unwrap_or((self.started, 0, 0));
        let seconds = now.duration_since(since).as_secs_f64().max(1e-9);
        let blocks_per_second = f64::from(self.blocks - blocks) / seconds;
        let left = f64::from(self.end.saturating_sub(self.next)) / blocks_per_second;
        Progress {
            next_height: self.next,
            end_height: self.end,
            blocks: self.blocks,
            bytes: self.bytes,
            elapsed: now.duration_since(self.started),
            bytes_per_second: (self.bytes - bytes) as f64 / seconds,
            remaining: Duration::try_from_secs_f64(left).ok(),
        }
    }

    fn take(&mut self) -> Result<(BlockHash, Vec<u8>), NodeError> {
        let mut state = self.shared.lock();
        loop {
            if let Some((hash, raw)) = state.ready.remove(&self.next) {
                state.ready_bytes -= raw.len();
                state.awaited_height = self.next + 1;
                drop(state);
                self.shared.changed.notify_all();
                return Ok((hash, raw));
            }
            if let Some(error) = state.failure.take() {
                return Err(error);
            }
            if state.workers == 0 {
                let fault = NodeFault::Stopped { height: self.next };
                return Err(NodeError::new("download", fault));
            }
            state = self.shared.wait(state);
        }
    }

    fn sample(&mut self) {
        let now = Instant::now();
        let last = self.samples.back().map_or(self.started, |(at, ..)| *at);
        if now.duration_since(last) >= SAMPLE_INTERVAL {
            self.samples.push_back((now, self.blocks, self.bytes));
            if self.samples.len() > SAMPLES {
                self.samples.pop_front();
            }
        }
    }

    fn next_block(&mut self) -> Result<DownloadedBlock, NodeError> {
        let height = self.next;
        let (hash, raw) = self.take()?;
        let parent = raw.first_chunk().map(parent_of).unwrap_or_default();
        if let Some(expected) = self.parent.filter(|expected| *expected != parent) {
            let fault = NodeFault::WrongParent {
                height,
                hash,
                expected,
                found: parent,
            };
            return Err(NodeError::new("download", fault));
        }
        self.parent = Some(hash);
        self.next += 1;
        self.blocks += 1;
        self.bytes += raw.len() as u64;
        self.sample();
        Ok(DownloadedBlock { height, hash, raw })
    }

    fn stop(&mut self) {
        self.shared.lock().stopped = true;
        self.shared.changed.notify_all();
    }
}

impl Iterator for Download {
    type Item = Result<DownloadedBlock, NodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.next >= self.end {
            return None;
        }
        let block = self.next_block();
        if block.is_err() {
            self.stop();
            self.end = self.next;
        }
        Some(block)
    }
}

impl Drop for Download {
    fn drop(&mut self) {
        self.stop();
    }
}

struct Worker {
    shared: Arc<Shared>,
    node: Box<dyn Node>,
    backoff: Backoff,
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.shared.lock().workers -= 1;
        self.shared.changed.notify_all();
    }
}

impl Worker {
    fn run(mut self) {
        if let Err(error) = self.fetch_all() {
            let mut state = self.shared.lock();
            state.failure.get_or_insert(error);
            state.stopped = true;
        }
    }

    fn fetch_all(&mut self) -> Result<(), NodeError> {
        while let Some(heights) = self.claim() {
            let count = heights.len() as u32;
            let from = heights.start;
            let hashes = self.repeat(|node| {
                let hashes = node.hashes(from, count)?;
                if hashes.len() < count as usize {
                    let height = from + hashes.len() as u32;
                    return Err(NodeError::new(
                        node.describe(),
                        NodeFault::NoSuchHeight { height },
                    ));
                }
                Ok(hashes)
            })?;
            for (height, hash) in heights.zip(hashes.into_iter().flatten()) {
                if !self.wait_for_room(height) {
                    return Ok(());
                }
                let Some(raw) = self.repeat(|node| block(node, &hash))? else {
                    return Ok(());
                };
                let mut state = self.shared.lock();
                state.ready_bytes += raw.len();
                state.ready.insert(height, (hash, raw));
                drop(state);
                self.shared.changed.notify_all();
            }
        }
        Ok(())
    }

    fn claim(&self) -> Option<Range<u32>> {
        let mut state = self.shared.lock();
        let from = state.unclaimed;
        if state.stopped || from >= self.shared.end {
            return None;
        }
        let end = from.saturating_add(CLAIM).min(self.shared.end);
        state.unclaimed = end;
        Some(from..end)
    }

    /// Waits until the block at `height` may be fetched without exceeding the look-ahead limit. Returns false if the
    /// download was stopped.
    fn wait_for_room(&self, height: u32) -> bool {
        let mut state = self.shared.lock();
        loop {
            if state.stopped {
                return false;
            }
            let has_room = state.ready_bytes < self.shared.options.look_ahead_bytes;
            if has_room || height == state.awaited_height {
                return true;
            }
            state = self.shared.wait(state);
        }
    }

    /// Repeats a call until it succeeds; returns `None` if the download was stopped.
    fn repeat<T>(
        &mut self,
        call: impl Fn(&mut dyn Node) -> Result<T, NodeError>,
    ) -> Result<Option<T>, NodeError> {
        for attempt in 1.. {
            match call(&mut *self.node) {
                Ok(done) => {
                    self.backoff.reset();
                    return Ok(Some(done));
                }
                Err(error) if !error.fault.is_transient() || attempt >= self.shared.options.attempts => {
                    return Err(error);
                }
                Err(error) => {
                    tracing::debug!(attempt, "a call of the download failed and is repeated: {error}");
                    if !self.pause() {
                        return Ok(None);
                    }
                }
            }
        }
        Ok(None)
    }

    /// Waits for one pause. Returns false if the download was stopped.
    fn pause(&mut self) -> bool {
        let end = Instant::now() + self.backoff.pause();
        let mut state = self.shared.lock();
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if state.stopped || left.is_zero() {
                return !state.stopped;
            }
            let waited = self.shared.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// Fetches a block and checks its hash. The check repeats one that [`Node::block`] guarantees.
fn block(node: &mut dyn Node, hash: &BlockHash) -> Result<Vec<u8>, NodeError> {
    let raw = node.block(hash)?;
    let actual_hash = BlockHash::of_block(&raw).unwrap_or_default();
    if actual_hash != *hash {
        let requested_hash = *hash;
        return Err(NodeError::new(
            node.describe(),
            NodeFault::WrongBlock {
                asked: requested_hash,
                found: actual_hash,
            },
        ));
    }
    Ok(raw)
}
