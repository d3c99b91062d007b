//! Follows a full node: a thread fetches the node's new blocks and changes the host's chain until it equals the node's.
//!
//! ```text
//!   node --- announcement, blocks ---> Feed (lineside-bitcoin-node): which step is next
//!                                        | Connect, Disconnect
//!                                        v
//!                                      checked, accepted (durable at the latest when the node's tip is reached)
//!                                        | min_confirmations reached
//!                                        v
//!                                      connected: fast path and host answer from it
//! ```
//!
//! At a reorganisation the blocks of the new branch are fetched and checked first. If they have more work than the
//! blocks that they replace, the old blocks are disconnected and the new ones connected in one change. So no answer
//! from a disconnected block is sent after a newer block is connected, and a node that withholds its branch, or sends a
//! wrong one, cannot remove blocks. While the node is unreachable, the host continues to answer from its own chain.

mod kept;
mod local;
mod state;

use crate::chain::{ChainError, Refused};
use crate::host::SpvHost;
use anyhow::bail;
use kept::Unkept;
use lineside_bitcoin_node::{
    Backoff, BlockHash, ChainStep, Event, Feed, Follower, Interrupter, LessWork, LocalChain, Node, NodeError,
    NodeFault,
};
use lineside_util::hex::to_display;
use lineside_util::log_limit::LogLimit;
use local::{Branch, ChainView, UnconnectedBlock, bits_of};
pub use state::{NodeState, blocks_behind};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Maximum time that one call of the feed waits, so that the thread soon notices that it must end.
const FEED_WAIT_MAX: Duration = Duration::from_millis(200);
/// Maximum number of accepted blocks that are connected in one change while the chain catches up. Each change of the
/// chain waits for all answers in progress.
const BLOCKS_PER_CHANGE: usize = 200;
/// Number of accepted blocks after which they are made durable while the chain catches up.
const BLOCKS_PER_SYNC: u32 = 500;
/// Minimum time between two requests for the node's height while the chain catches up.
const HEIGHT_INTERVAL: Duration = Duration::from_secs(2);
/// Shortest and longest pause after a refused block. The pause grows while blocks are refused repeatedly.
const REFUSED_BLOCK_PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(60)];

/// Options of a follower.
#[derive(Clone, Copy, Debug)]
pub struct FollowOptions {
    /// Number of confirmations that a block needs before answers use it; at least 1.
    pub min_confirmations: u32,
    /// Number of newest blocks that are loaded into the fast path when the node's tip is reached.
    pub prefill_blocks: u32,
    /// Reaction to a node whose chain has less work than the host's. Laboratory tests choose a wrong reaction, to check
    /// that a test detects it.
    #[cfg(feature = "laboratory")]
    pub less_work: LessWork,
}

impl FollowOptions {
    /// Returns options with these values; in the laboratory the other options have their defaults.
    pub fn new(min_confirmations: u32, prefill_blocks: u32) -> Self {
        Self {
            min_confirmations,
            prefill_blocks,
            #[cfg(feature = "laboratory")]
            less_work: LessWork::Refuse,
        }
    }
}

/// Thread that follows a node. Dropping this handle ends the thread, even while it waits for a reply of the node.
pub struct NodeFollower {
    is_over: Arc<AtomicBool>,
    /// Interrupts the request to the node whose reply the thread waits for.
    interrupter: Interrupter,
    state: Arc<Mutex<NodeState>>,
    thread: Option<JoinHandle<()>>,
}

impl NodeFollower {
    /// Starts to follow `node`.
    ///
    /// # Errors
    /// The system's error if the thread cannot be started; an error if the blocks with too few confirmations cannot be
    /// disconnected; an error if the first block of the chain is not the genesis block of its network.
    pub fn start(host: Arc<SpvHost>, node: Box<dyn Node>, options: FollowOptions) -> anyhow::Result<Self> {
        let state = NodeState {
            node: node.describe(),
            ..NodeState::default()
        };
        let genesis = host.network().rules().genesis().hash();
        let signet = host.identity().signet;
        if let Some(first) = host.at_height(0).filter(|first| first.hash != genesis) {
            bail!(
                "the chain store begins with block {}, but the genesis block of {} is {}, so the store cannot follow a \
                 node; create another store with `lineside spv init`",
                to_display(&first.hash),
                host.network(),
                to_display(&genesis)
            );
        }
        #[cfg(feature = "laboratory")]
        let less_work = options.less_work;
        #[cfg(not(feature = "laboratory"))]
        let less_work = LessWork::Refuse;
        let interrupter = node.interrupter();
        let feed = Feed::new(
            node,
            Follower::new(BlockHash(genesis), less_work).of_signet(signet),
        );
        let state = Arc::new(Mutex::new(state));
        let is_over = Arc::new(AtomicBool::new(false));
        let unconfirmed = hold_back(&host, options.min_confirmations)?;
        let mut following = Following {
            host,
            feed,
            unconnected: unconfirmed,
            branch: None,
            options,
            state: Arc::clone(&state),
            unsynced: 0,
            unfilled: 0,
            disconnected: 0,
            asked_height: None,
            unkept: Unkept::default(),
            was_at_tip: false,
            last_refused: None,
            backoff: Backoff::new(REFUSED_BLOCK_PAUSES[0], REFUSED_BLOCK_PAUSES[1]),
        };
        let over = Arc::clone(&is_over);
        let named = std::thread::Builder::new().name("spv-node".into());
        let thread = named.spawn(move || {
            while !over.load(Relaxed) {
                following.handle_event(&over);
            }
        })?;
        Ok(Self {
            is_over,
            interrupter,
            state,
            thread: Some(thread),
        })
    }

    /// Returns the state of the connection.
    pub fn state(&self) -> NodeState {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner).clone();
        state.has_ended = self.thread.as_ref().is_some_and(JoinHandle::is_finished);
        state
    }
}

impl Drop for NodeFollower {
    fn drop(&mut self) {
        self.is_over.store(true, Relaxed);
        self.interrupter.interrupt();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Disconnects the newest blocks, which have fewer than `min_confirmations`. Returns them.
fn hold_back(host: &SpvHost, min_confirmations: u32) -> Result<VecDeque<UnconnectedBlock>, ChainError> {
    let Some(tip) = host.tip() else {
        return Ok(VecDeque::new());
    };
    let count = min_confirmations.saturating_sub(1).min(tip.height + 1);
    let first = tip.height + 1 - count;
    let blocks = (first..=tip.height).filter_map(|height| host.at_height(height));
    let blocks = blocks.map(|block| UnconnectedBlock::of(&block)).collect();
    if count > 0 {
        host.disconnect_above(first.checked_sub(1))?;
        host.make_known();
    }
    Ok(blocks)
}

/// State of the thread.
struct Following {
    host: Arc<SpvHost>,
    feed: Feed,
    /// Blocks above the connected ones that have too few confirmations, or wait to be connected together.
    unconnected: VecDeque<UnconnectedBlock>,
    /// Branch of the node's chain that the thread is fetching; `None` if the node's chain extends the host's.
    branch: Option<Branch>,
    options: FollowOptions,
    state: Arc<Mutex<NodeState>>,
    /// Number of blocks accepted since the last sync.
    unsynced: u32,
    /// Number of connected blocks that were not loaded into the fast path.
    unfilled: u32,
    /// Number of blocks disconnected by the current reorganisation.
    disconnected: u32,
    asked_height: Option<Instant>,
    /// State of fetching blocks whose bytes should be stored but are not.
    unkept: Unkept,
    /// True if the chain was equal to the node's before this step.
    was_at_tip: bool,
    /// Hash of the last refused block, so that a block that is offered repeatedly is counted once.
    last_refused: Option<[u8; 32]>,
    backoff: Backoff,
}

/// Reason why a step was not carried out.
#[derive(Debug, thiserror::Error)]
enum StepError {
    #[error("block {}{place}: {refused}", to_display(hash))]
    Refused {
        hash: [u8; 32],
        /// File and offset in parentheses, if the block comes from a file.
        place: String,
        refused: Refused,
    },
    #[error(transparent)]
    Chain(#[from] ChainError),
}

/// Logs the number of connected blocks and the last one of them, `last`. At most one line is written in a second,
/// because thousands of blocks are connected when a new chain store is filled.
fn log_connected(last: &UnconnectedBlock, blocks: usize) {
    static LIMIT: LogLimit = LogLimit::new(Duration::from_secs(1));
    if let Some(left_out) = LIMIT.admit() {
        let (height, hash) = (last.height, to_display(&last.hash));
        tracing::info!(
            height,
            hash,
            blocks,
            not_logged = left_out,
            "spv: connected blocks"
        );
    }
}

impl Following {
    /// Waits for one event and handles it.
    fn handle_event(&mut self, is_over: &AtomicBool) {
        let local = ChainView {
            host: &self.host,
            unconnected: &self.unconnected,
            branch: self.branch.as_ref(),
        };
        match self.feed.next(&local, FEED_WAIT_MAX) {
            Event::Step(step) => match self.carry_out(step) {
                Ok(()) => {
                    if !self.has_failed_to_store() {
                        self.backoff.reset();
                    }
                    if !self.was_at_tip {
                        self.ask_height();
                    }
                    self.was_at_tip = false;
                    self.set(|state| state.answered(false));
                }
                Err(error) => self.refuse(&error, is_over),
            },
            Event::AtTip => match self.settle() {
                Ok(true) => match self.arrive() {
                    Ok(()) => self.fetch_unkept(is_over),
                    Err(error) => self.refuse(&error.into(), is_over),
                },
                Ok(false) => self.feed.compare_again(),
                Err(error) => self.refuse(&error.into(), is_over),
            },
            // The request was interrupted because the server is stopping, not because the node is unreachable.
            Event::Away { error, .. } if matches!(error.fault, NodeFault::Interrupted) => {}
            Event::Away { error, pause } => self.on_node_failed(&error, pause),
            Event::Pausing => {}
        }
    }

    fn set(&self, change: impl FnOnce(&mut NodeState)) {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn carry_out(&mut self, step: ChainStep) -> Result<(), StepError> {
        match step {
            ChainStep::Disconnect { to_height } => self.leave_branch(to_height),
            ChainStep::Connect { height, hash, raw } => {
                let location = self.feed.node().place_of(&hash);
                let location = location.map_or_else(String::new, |place| format!(" ({place})"));
                let refused = |refused| StepError::Refused {
                    hash: hash.0,
                    place: location.clone(),
                    refused,
                };
                let block = self.host.check(&raw).map_err(refused)?;
                self.host.accept(&block).map_err(refused)?;
                let result = self.host.keep(&block, &raw);
                result.map_err(|error| refused(Refused::Storage(error)))?;
                let bits = raw.first_chunk().map_or(0, bits_of);
                self.take(UnconnectedBlock {
                    height,
                    hash: hash.0,
                    bits,
                })?;
                self.unsynced += 1;
                if self.unsynced >= BLOCKS_PER_SYNC {
                    self.sync()?;
                }
            }
        }
        Ok(())
    }

    /// Adds a block that was accepted: to the branch that is being fetched, or to the end of the chain.
    fn take(&mut self, block: UnconnectedBlock) -> Result<(), ChainError> {
        if let Some(branch) = &mut self.branch {
            branch.push(block);
            return match branch.has_more_work() {
                true => self.go_over(),
                false => Ok(()),
            };
        }
        self.unconnected.push_back(block);
        // If the chain was equal to the node's, a new block is connected at once. While the chain catches up, many
        // blocks are connected together.
        let is_many = self.unconnected.len() >= self.confirmations() - 1 + BLOCKS_PER_CHANGE;
        if self.was_at_tip || is_many {
            self.connect_confirmed()?;
        }
        Ok(())
    }

    /// Starts a branch: the node's chain differs from the compared one above `to_height`.
    fn leave_branch(&mut self, to_height: u32) {
        // The node's chain no longer contains the branch that was being fetched: compare it with the connected blocks
        // again.
        if self.branch.take().is_some() {
            return;
        }
        let base = ChainView {
            host: &self.host,
            unconnected: &self.unconnected,
            branch: None,
        };
        self.branch = Some(Branch::new(&base, to_height));
    }

    /// Replaces the chain above the fork by the branch that was fetched.
    fn go_over(&mut self) -> Result<(), ChainError> {
        let Some(branch) = self.branch.take() else {
            return Ok(());
        };
        let connected = self.host.tip().map_or(0, |tip| tip.height);
        let before = self.unconnected.back().map_or(connected, |held| held.height);
        let depth = before.saturating_sub(branch.fork);
        self.disconnected += depth;
        let old_tip = self.tip_text();
        while self
            .unconnected
            .back()
            .is_some_and(|held| held.height > branch.fork)
        {
            self.unconnected.pop_back();
        }
        self.unconnected.extend(branch.blocks);
        let count = (self.unconnected.len() + 1).saturating_sub(self.confirmations());
        let hashes: Vec<_> = self
            .unconnected
            .iter()
            .take(count)
            .map(|held| held.hash)
            .collect();
        let replaced = self.host.replace_above(branch.fork, &hashes);
        let host = &self.host;
        self.unconnected.retain(|held| {
            host.at_height(held.height)
                .is_none_or(|connected| connected.hash != held.hash)
        });
        replaced?;
        self.unfilled = self.unfilled.saturating_add(count as u32);
        let new_tip = self.tip_text();
        tracing::info!(
            node = self.feed.node().describe(),
            depth,
            fork = branch.fork,
            old_tip,
            new_tip,
            "the node's chain was reorganised, and blocks of the chain store are replaced"
        );
        Ok(())
    }

    /// Completes the comparison when all blocks of the node's chain were fetched: connects the confirmed blocks, or
    /// replaces the blocks above the fork by the fetched branch. Returns false if the branch has too little work,
    /// because the node's chain became shorter in the meantime.
    fn settle(&mut self) -> Result<bool, ChainError> {
        let Some(branch) = &self.branch else {
            return self.connect_confirmed().map(|()| true);
        };
        if !branch.has_enough_work() && !self.follows_less_work() {
            self.branch = None;
            return Ok(false);
        }
        self.go_over().map(|()| true)
    }

    #[cfg(feature = "laboratory")]
    fn follows_less_work(&self) -> bool {
        self.options.less_work == LessWork::Follow
    }

    #[cfg(not(feature = "laboratory"))]
    #[expect(
        clippy::unused_self,
        reason = "with the feature `laboratory` the function reads an option"
    )]
    fn follows_less_work(&self) -> bool {
        false
    }

    fn confirmations(&self) -> usize {
        self.options.min_confirmations.max(1) as usize
    }

    /// Connects the unconnected blocks that now have enough confirmations.
    fn connect_confirmed(&mut self) -> Result<(), ChainError> {
        let count = (self.unconnected.len() + 1).saturating_sub(self.confirmations());
        if count > 0 {
            let hashes: Vec<_> = self
                .unconnected
                .iter()
                .take(count)
                .map(|held| held.hash)
                .collect();
            self.host.connect(&hashes)?;
            if let Some(last) = self.unconnected.get(count - 1) {
                log_connected(last, count);
            }
            self.unconnected.drain(..count);
            self.unfilled = self.unfilled.saturating_add(count as u32);
        }
        Ok(())
    }

    /// Returns height and hash of the last accepted block, for messages.
    fn tip_text(&self) -> String {
        let local = ChainView {
            host: &self.host,
            unconnected: &self.unconnected,
            branch: None,
        };
        let tip = local.tip();
        tip.map_or_else(|| "none".into(), |(height, hash)| format!("{height}:{hash}"))
    }

    /// Makes the accepted blocks durable. If the disk is full, the next call tries again.
    fn sync(&mut self) -> Result<(), ChainError> {
        self.host.sync()?;
        self.unsynced = 0;
        self.set(NodeState::stored);
        Ok(())
    }

    fn has_failed_to_store(&self) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.store_failed.is_some()
    }

    /// Completes a synchronisation when the host's chain equals the node's: loads the newest blocks into the fast path,
    /// announces the tip and makes the chain durable.
    fn arrive(&mut self) -> Result<(), ChainError> {
        let blocks = std::mem::take(&mut self.unfilled).min(self.options.prefill_blocks);
        if blocks > 0 {
            self.host.prefill(blocks);
        }
        self.host.make_known();
        if self.unsynced > 0 || self.has_failed_to_store() {
            self.sync()?;
        }
        self.backoff.reset();
        self.was_at_tip = true;
        let disconnected = std::mem::take(&mut self.disconnected);
        let local = ChainView {
            host: &self.host,
            unconnected: &self.unconnected,
            branch: None,
        };
        let height = local.tip().map(|(height, _)| height);
        self.set(|state| {
            if disconnected > 0 {
                state.reorganisations += 1;
                state.deepest = state.deepest.max(disconnected);
            }
            if !state.at_tip {
                tracing::debug!(height, "the host's chain is equal to the node's");
            }
            state.answered(true);
            state.node_height = height;
        });
        Ok(())
    }

    fn on_node_failed(&mut self, error: &NodeError, pause: Duration) {
        self.was_at_tip = false;
        self.host.make_known();
        let why = error.to_string();
        let is_lie = error.fault.is_lie();
        self.set(|state| {
            (state.at_tip, state.connected_since) = (false, None);
            state.has_less_work = matches!(error.fault, NodeFault::LessWork { .. });
            if is_lie {
                state.refused = Some(why.clone());
            }
            let is_new = state.away.as_ref().is_none_or(|(before, _)| *before != why);
            if is_new {
                tracing::warn!(node = state.node, pause_ms = pause.as_millis() as u64, "{why}");
            }
            let since = state.away.as_ref().map_or_else(Instant::now, |(_, since)| *since);
            state.away = Some((why, since));
        });
    }

    /// Handles a refused block: records the reason and pauses. The pause ends early when the thread must end.
    fn refuse(&mut self, error: &StepError, is_over: &AtomicBool) {
        self.host.make_known();
        let why = error.to_string();
        let node = self.feed.node().describe();
        match error {
            StepError::Refused {
                refused: Refused::Storage(_),
                ..
            } => self.fail_to_store(&node, &why),
            StepError::Chain(_) => self.fail_to_store(&node, &why),
            StepError::Refused { hash, .. } => {
                tracing::warn!(
                    node,
                    "a block of the node was refused: {why}; the server requests the block again after a pause"
                );
                let is_new = self.last_refused.replace(*hash) != Some(*hash);
                self.set(|state| {
                    (state.at_tip, state.refused) = (false, Some(why));
                    state.refused_blocks += u64::from(is_new);
                });
            }
        }
        let end = Instant::now() + self.backoff.pause();
        while Instant::now() < end && !is_over.load(Relaxed) {
            // The node's chain may grow during the pause: request its height for the status.
            self.ask_height();
            std::thread::sleep(FEED_WAIT_MAX);
        }
    }

    fn fail_to_store(&self, node: &str, why: &str) {
        self.set(|state| {
            if state.store_failed.is_none() {
                tracing::error!(
                    node,
                    "the chain store cannot store the node's blocks: {why}; the server tries again"
                );
            }
            (state.at_tip, state.store_failed) = (false, Some(why.to_owned()));
        });
    }

    fn ask_height(&mut self) {
        if self
            .asked_height
            .is_some_and(|asked| asked.elapsed() < HEIGHT_INTERVAL)
        {
            return;
        }
        self.asked_height = Some(Instant::now());
        if let Ok(info) = self.feed.node().info() {
            self.set(|state| state.node_height = Some(info.blocks));
        }
    }
}
