//! Node whose blocks are fetched in advance over several connections while its follower catches up.
//!
//! ```text
//!   follower -> fetch_ahead(500 hashes) -> list -- next hash --> worker 1..N: getblock --+
//!            -> block(hash) <----- blocks that wait, by hash (bounded in bytes) <------+
//! ```
//!
//! Workers run while the list of hashes is long. When the follower gives a short list, as at the node's tip, the
//! workers close their connections and end.
//!
//! Workers fetch blocks that the follower is about to request. The follower checks a block from a worker exactly as it
//! checks a block that it fetched itself. If a worker cannot fetch a block, the follower requests the block on the
//! node's own connection and uses that answer.

use crate::error::NodeError;
use crate::hash::{BlockHash, HEADER_BYTES};
use crate::interrupt::Interrupter;
use crate::node::{Announcement, Header, Node, NodeInfo};
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Minimum length of a list of hashes that the workers fetch in advance. At the node's tip a list has one hash.
const LIST_MIN: usize = 16;
/// Maximum number of bytes of fetched blocks that wait for the follower. Each worker may exceed it by one block.
const WAITING_BYTES: usize = 64 << 20;
/// Interval of checks for an interruption.
const INTERRUPT_CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Node with additional connections for fetching blocks in advance.
pub struct ParallelNode {
    node: Box<dyn Node>,
    workers: Vec<JoinHandle<()>>,
    interrupters: Vec<Interrupter>,
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Additional connections that no thread uses at present.
    idle: Vec<Box<dyn Node>>,
    /// False if no block is to be fetched in advance; the workers then end.
    is_needed: bool,
    /// Hashes of blocks that no worker has started to fetch, in the order in which the follower needs them.
    queue: VecDeque<BlockHash>,
    under_way: HashSet<BlockHash>,
    /// Fetched blocks by hash; `None` for a block that could not be fetched.
    fetched: HashMap<BlockHash, Option<Vec<u8>>>,
    bytes: usize,
    stopped: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ParallelNode {
    /// Returns `node` with additional connections to the same node. Their threads are started when they are first
    /// needed.
    pub fn new(node: Box<dyn Node>, further: Vec<Box<dyn Node>>) -> ParallelNode {
        ParallelNode {
            node,
            workers: Vec::new(),
            interrupters: further.iter().map(|node| node.interrupter()).collect(),
            shared: Arc::new(Shared {
                state: Mutex::new(State {
                    idle: further,
                    ..State::default()
                }),
                changed: Condvar::new(),
            }),
        }
    }

    /// Starts to fetch the blocks of a list, which replaces the previous list.
    fn fetch(&mut self, hashes: &[BlockHash]) {
        let mut state = self.shared.lock();
        state.queue.clear();
        if hashes.len() < LIST_MIN {
            state.fetched.clear();
            (state.bytes, state.is_needed) = (0, false);
            drop(state);
            self.shared.changed.notify_all();
            return;
        }
        let requested: HashSet<_> = hashes.iter().copied().collect();
        state.fetched.retain(|hash, _| requested.contains(hash));
        state.bytes = state.fetched.values().flatten().map(Vec::len).sum();
        let is_new =
            |hash: &&BlockHash| !state.fetched.contains_key(*hash) && !state.under_way.contains(*hash);
        let queue = hashes.iter().filter(is_new).copied().collect();
        (state.queue, state.is_needed) = (queue, true);
        let idle = std::mem::take(&mut state.idle);
        drop(state);
        self.shared.changed.notify_all();
        self.workers.retain(|worker| !worker.is_finished());
        idle.into_iter().for_each(|node| self.start(node));
    }

    fn start(&mut self, node: Box<dyn Node>) {
        let shared = Arc::clone(&self.shared);
        let named = std::thread::Builder::new().name("spv-blocks".into());
        match named.spawn(move || work(&shared, node)) {
            Ok(worker) => self.workers.push(worker),
            // The error is ignored: other workers or the node's own connection fetch the blocks.
            Err(error) => {
                tracing::debug!(%error, "a thread for fetching blocks in advance cannot be started")
            }
        }
    }

    /// Returns a block that was fetched in advance, after waiting for it if a worker is fetching it; `None` if the
    /// caller must request the block itself.
    fn take(&self, hash: &BlockHash) -> Option<Vec<u8>> {
        let interrupter = self.node.interrupter();
        let mut state = self.shared.lock();
        if let Some(position) = state.queue.iter().position(|queued| queued == hash) {
            state.queue.remove(position);
            return None;
        }
        loop {
            if let Some(fetched) = state.fetched.remove(hash) {
                state.bytes -= fetched.as_ref().map_or(0, Vec::len);
                drop(state);
                self.shared.changed.notify_all();
                return fetched;
            }
            if !state.under_way.contains(hash) || interrupter.is_interrupted() {
                return None;
            }
            let waited = self.shared.changed.wait_timeout(state, INTERRUPT_CHECK_INTERVAL);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Drop for ParallelNode {
    fn drop(&mut self) {
        self.shared.lock().stopped = true;
        self.shared.changed.notify_all();
        self.interrupters.iter().for_each(Interrupter::interrupt);
        for worker in self.workers.drain(..) {
            // The result is ignored: a worker that panicked has already printed the reason.
            let _ = worker.join();
        }
    }
}

/// Guard that records the end of a worker's fetch when it is dropped, also if the worker panics.
struct FetchGuard<'a> {
    shared: &'a Shared,
    hash: BlockHash,
    block: Option<Vec<u8>>,
}

impl Drop for FetchGuard<'_> {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.under_way.remove(&self.hash);
        let block = self.block.take();
        state.bytes += block.as_ref().map_or(0, Vec::len);
        state.fetched.insert(self.hash, block);
        drop(state);
        self.shared.changed.notify_all();
    }
}

fn work(shared: &Shared, mut node: Box<dyn Node>) {
    loop {
        let mut state = shared.lock();
        let hash = loop {
            if state.stopped {
                return;
            }
            if !state.is_needed {
                drop(state);
                node.close();
                state = shared.lock();
                // A new list may have arrived in the meantime.
                if !state.is_needed {
                    state.idle.push(node);
                    return;
                }
            }
            if state.bytes < WAITING_BYTES
                && let Some(hash) = state.queue.pop_front()
            {
                state.under_way.insert(hash);
                break hash;
            }
            let waited = shared.changed.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        };
        drop(state);
        let mut begun = FetchGuard {
            shared,
            hash,
            block: None,
        };
        match node.block(&hash) {
            Ok(raw) => begun.block = Some(raw),
            Err(error) => tracing::debug!("a block could not be fetched in advance: {error}"),
        }
    }
}

impl Node for ParallelNode {
    fn info(&mut self) -> Result<NodeInfo, NodeError> {
        self.node.info()
    }

    fn hash_at(&mut self, height: u32) -> Result<BlockHash, NodeError> {
        self.node.hash_at(height)
    }

    fn hashes(&mut self, from: u32, count: u32) -> Result<Vec<BlockHash>, NodeError> {
        self.node.hashes(from, count)
    }

    fn fetch_ahead(&mut self, hashes: &[BlockHash]) {
        self.fetch(hashes);
    }

    fn header(&mut self, hash: &BlockHash) -> Result<Header, NodeError> {
        self.node.header(hash)
    }

    fn headers(&mut self, hashes: &[BlockHash]) -> Result<Vec<[u8; HEADER_BYTES]>, NodeError> {
        self.node.headers(hashes)
    }

    fn block(&mut self, hash: &BlockHash) -> Result<Vec<u8>, NodeError> {
        match self.take(hash) {
            Some(raw) => Ok(raw),
            None => self.node.block(hash),
        }
    }

    fn wait_for_change(
        &mut self,
        known: &BlockHash,
        timeout: Duration,
    ) -> Result<Option<Announcement>, NodeError> {
        self.node.wait_for_change(known, timeout)
    }

    fn place_of(&self, hash: &BlockHash) -> Option<String> {
        self.node.place_of(hash)
    }

    fn interrupter(&self) -> Interrupter {
        self.node.interrupter()
    }

    fn describe(&self) -> String {
        self.node.describe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::NodeFault;
    use crate::node::Announcement;

    const WAIT_TIMEOUT: Duration = Duration::from_secs(60);
    /// Additional connections in the tests.
    const EXTRA_CONNECTIONS: usize = 3;

    /// Record of calls: the number of calls that have started on the additional connections, and the blocks that were
    /// requested on the node's own connection.
    #[derive(Default)]
    struct CallCounts {
        under_way: Mutex<usize>,
        changed: Condvar,
        own: Mutex<Vec<BlockHash>>,
    }

    struct Fake {
        seen: Arc<CallCounts>,
        is_own: bool,
    }

    fn hash(number: u8) -> BlockHash {
        BlockHash([number; 32])
    }

    impl Node for Fake {
        fn info(&mut self) -> Result<NodeInfo, NodeError> {
            Err(NodeError::new("fake", NodeFault::Unauthorized))
        }

        fn hash_at(&mut self, height: u32) -> Result<BlockHash, NodeError> {
            Ok(hash(height as u8))
        }

        fn header(&mut self, hash: &BlockHash) -> Result<Header, NodeError> {
            Err(NodeError::new("fake", NodeFault::NoSuchBlock { hash: *hash }))
        }

        fn block(&mut self, hash: &BlockHash) -> Result<Vec<u8>, NodeError> {
            if self.is_own {
                self.seen.own.lock().unwrap().push(*hash);
                return Ok(vec![hash.0[0], 1]);
            }
            // The first blocks are sent only when all additional connections have received a request.
            let mut under_way = self.seen.under_way.lock().unwrap();
            *under_way += 1;
            self.seen.changed.notify_all();
            let waiting = self
                .seen
                .changed
                .wait_timeout_while(under_way, WAIT_TIMEOUT, |count| *count < EXTRA_CONNECTIONS);
            let (guard, late) = waiting.unwrap();
            drop(guard);
            assert!(
                !late.timed_out(),
                "the additional connections are not used at the same time"
            );
            match hash.0[0] % 5 {
                0 => Err(NodeError::new("fake", NodeFault::NoSuchBlock { hash: *hash })),
                _ => Ok(vec![hash.0[0], 0]),
            }
        }

        fn wait_for_change(
            &mut self,
            _known: &BlockHash,
            _timeout: Duration,
        ) -> Result<Option<Announcement>, NodeError> {
            Ok(None)
        }

        fn describe(&self) -> String {
            "fake".into()
        }
    }

    #[test]
    fn a_long_list_is_fetched_over_all_connections_and_returned_in_any_order() {
        let seen = Arc::new(CallCounts::default());
        let fake = |is_own| {
            let seen = Arc::clone(&seen);
            Box::new(Fake { seen, is_own }) as Box<dyn Node>
        };
        let mut node = ParallelNode::new(fake(true), (0..EXTRA_CONNECTIONS).map(|_| fake(false)).collect());
        // The blocks of a short list are requested on the node's own connection.
        node.fetch_ahead(&[hash(1), hash(2)]);
        assert_eq!(node.block(&hash(1)).unwrap(), [1, 1]);
        let listed = node.hashes(10, 100).unwrap();
        assert_eq!((listed.len(), *seen.under_way.lock().unwrap()), (100, 0));
        node.fetch_ahead(&listed);
        let has_begun = |count: &mut usize| *count < EXTRA_CONNECTIONS;
        let begun = seen.under_way.lock().unwrap();
        let waited = seen
            .changed
            .wait_timeout_while(begun, WAIT_TIMEOUT, has_begun)
            .unwrap();
        assert!(!waited.1.timed_out());
        drop(waited);
        for (number, hash) in (10..).zip(&listed) {
            let raw = node.block(hash).unwrap();
            assert_eq!(raw[0], number);
            // A block that an additional connection cannot send is requested on the node's own connection.
            assert!(raw[1] == 1 || number % 5 != 0, "{number}");
        }
        let own = std::mem::take(&mut *seen.own.lock().unwrap());
        assert!(own.len() < 60, "most blocks are fetched ahead: {}", own.len());
        // A second list replaces the first one before any of its blocks was requested.
        for from in [120, 130] {
            let listed = node.hashes(from, 100).unwrap();
            node.fetch_ahead(&listed);
        }
        assert_eq!(node.block(&hash(229)).unwrap()[0], 229);
        assert_eq!(node.block(&hash(121)).unwrap()[0], 121, "requested again");
        drop(node);
        assert!(Arc::strong_count(&seen) >= 1);
    }
}
