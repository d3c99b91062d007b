//! Follower of a node's chain: compares it with the local chain and returns the next step.
//!
//! The follower stores no chain and does no I/O of its own. It queries the node through [`Node`], reads the local chain
//! through [`LocalChain`], and returns one [`ChainStep`] at a time. The caller carries out a step before it requests
//! the next one, so the caller or the node can be restarted between two steps.
//!
//! The follower checks the node's headers: each block must have the requested hash and be the child of the block before
//! it, and the blocks of a branch that would replace local blocks must meet their own targets. The caller must check
//! transactions, targets and times.

use crate::error::{NodeError, NodeFault};
use crate::hash::{BlockHash, HEADER_BYTES, decode, parent_of};
use crate::node::{Node, NodeInfo};
use crate::signet::SignetId;
use bitcoin::Work;
use bitcoin::pow::{CompactTarget, Target};
use std::collections::VecDeque;

/// Maximum number of block hashes that are requested before the blocks themselves.
const HASHES_AHEAD_MAX: u32 = 500;
/// Maximum number of comparisons that may fail because the chain changes, before the follower reports an error.
const ATTEMPTS_MAX: u32 = 5;
/// Number of headers of a branch that are requested at once.
const HEADERS: u32 = 500;
/// Maximum number of blocks by which the node's branch may be longer than the local branch. If the branch still has
/// less work after this number of additional headers, no further header is read, and the branch is refused for lack of
/// work.
const LONGER_BRANCH_BLOCKS_MAX: u32 = 100_000;

/// Local chain that follows the node's chain.
pub trait LocalChain {
    /// Returns height and hash of the last block; `None` if there is no block.
    fn tip(&self) -> Option<(u32, BlockHash)>;

    /// Returns the hash of the block at `height`; `Some` for every height up to the tip.
    fn hash_at(&self, height: u32) -> Option<BlockHash>;

    /// Returns the compact target (`bits`) in the header at `height`. The follower computes the work of the local
    /// branch from it, to compare the branches at a reorganisation. If the result is `None`, the lengths of the
    /// branches are compared instead.
    fn bits_at(&self, height: u32) -> Option<u32> {
        let _ = height;
        None
    }

    /// Returns true if the bytes of a block are stored locally, so that they need not be requested from the node.
    fn keeps(&self, hash: &BlockHash) -> bool {
        let _ = hash;
        false
    }

    /// Checks and returns the bytes of a block that is stored locally; `None` if the block must be requested from the
    /// node.
    fn kept_block(&self, hash: &BlockHash) -> Option<Vec<u8>> {
        let _ = hash;
        None
    }
}

/// Next change of the local chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChainStep {
    /// Remove all blocks above `to_height`, at which the node's chain departs from the local one.
    Disconnect {
        /// Height of the last block to keep.
        to_height: u32,
    },
    /// Add a block on the tip.
    Connect {
        /// Height of the block, one above the tip.
        height: u32,
        /// Hash of the block, compared with the hash of the header in `raw`.
        hash: BlockHash,
        /// Bytes of the block as nodes send it. The parent in the header is the tip; nothing else was checked.
        raw: Vec<u8>,
    },
}

/// Reaction to a node whose best chain has less work than the local one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LessWork {
    /// Return [`NodeFault::LessWork`] and keep the local chain. No correct node changes to a chain with less work by
    /// itself.
    #[default]
    Refuse,
    /// Follow the node, for operators who shorten its chain with `invalidateblock`. A node that is in its initial
    /// download, or that does not know the local tip, has lost data and is still refused.
    Follow,
}

/// Follower of a node's chain.
#[derive(Debug)]
pub struct Follower {
    genesis: BlockHash,
    /// Signet that the node must be on; `None` on other networks.
    signet: Option<SignetId>,
    less_work: LessWork,
    /// Hashes of the next blocks of the node's chain, which follow the block `after`.
    ahead: VecDeque<BlockHash>,
    after: BlockHash,
    /// Hash of the node's tip at the last comparison.
    best: BlockHash,
    /// True if the node's network was checked and is the right one. An error resets this value.
    network_checked: bool,
}

/// Outcome of one comparison of the local chain with the node's chain.
enum ChainComparison {
    Equal,
    /// The node's chain extends the local one; [`Follower::ahead`] has its next blocks.
    Longer,
    Fork(u32),
    /// The node's chain changed during the comparison.
    Changed,
}

impl Follower {
    /// Returns a follower for nodes of the network whose first block is `genesis`.
    pub fn new(genesis: BlockHash, less_work: LessWork) -> Follower {
        Follower {
            genesis,
            signet: None,
            less_work,
            ahead: VecDeque::new(),
            after: BlockHash::default(),
            best: BlockHash::default(),
            network_checked: false,
        }
    }

    /// Restricts the follower to nodes of one signet; all signets have the same first block.
    #[must_use]
    pub fn of_signet(mut self, signet: Option<SignetId>) -> Follower {
        self.signet = signet;
        self
    }

    /// Returns the node's tip at the last comparison. The caller gives it to [`Node::wait_for_change`] to wait for
    /// another tip.
    pub fn best(&self) -> BlockHash {
        self.best
    }

    /// Makes the next comparison check the node's network again. The caller calls this after an error of
    /// [`Node::wait_for_change`], because another node may answer at this address after an interruption.
    pub fn check_network_again(&mut self) {
        self.network_checked = false;
    }

    /// Returns the next step towards the node's chain; `None` if the chains are equal.
    ///
    /// # Errors
    /// The faults of a call to the node; [`NodeFault::OtherNetwork`]; [`NodeFault::WrongBlock`];
    /// [`NodeFault::WrongParent`] and [`NodeFault::NoWork`] if the node's list of blocks is not a chain;
    /// [`NodeFault::LessWork`]; [`NodeFault::Pruned`] if the node deleted a needed block; [`NodeFault::Unsteady`];
    /// [`NodeFault::LocalGap`]. After an error the next call begins with a new comparison.
    pub fn next_step(
        &mut self,
        node: &mut dyn Node,
        local: &dyn LocalChain,
    ) -> Result<Option<ChainStep>, NodeError> {
        let step = self.try_next_step(node, local);
        if step.is_err() {
            self.ahead.clear();
            self.check_network_again();
        }
        step
    }

    fn try_next_step(
        &mut self,
        node: &mut dyn Node,
        local: &dyn LocalChain,
    ) -> Result<Option<ChainStep>, NodeError> {
        for _ in 0..ATTEMPTS_MAX {
            let tip = local.tip();
            let is_ahead = !self.ahead.is_empty() && tip.is_some_and(|(_, hash)| hash == self.after);
            if !is_ahead {
                match self.compare(node, local)? {
                    ChainComparison::Equal => return Ok(None),
                    ChainComparison::Fork(to_height) => return Ok(Some(ChainStep::Disconnect { to_height })),
                    ChainComparison::Longer => {}
                    ChainComparison::Changed => continue,
                }
            }
            let height = tip.map_or(0, |(height, _)| height + 1);
            if let Some(step) = self.connect(node, local, height)? {
                return Ok(Some(step));
            }
        }
        Err(NodeError::new(
            node.describe(),
            NodeFault::Unsteady {
                attempts: ATTEMPTS_MAX,
            },
        ))
    }

    /// Fetches the next block of the list `ahead`; `None` if the list combines two chains and must be read again.
    fn connect(
        &mut self,
        node: &mut dyn Node,
        local: &dyn LocalChain,
        height: u32,
    ) -> Result<Option<ChainStep>, NodeError> {
        let Some(hash) = self.ahead.pop_front() else {
            return Ok(None);
        };
        let local_copy = local.kept_block(&hash);
        let raw = match local_copy.map_or_else(|| node.block(&hash), Ok) {
            Ok(raw) => raw,
            // The node may have changed to another chain and deleted this block. If it still lists the block, the fault
            // is real.
            Err(error) if matches!(error.fault, NodeFault::NoSuchBlock { .. }) => {
                self.ahead.clear();
                if node.hash_at(height).is_ok_and(|now| now == hash) {
                    return Err(error);
                }
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let wrong = |fault| NodeError::new(node.describe(), fault);
        let actual_hash = BlockHash::of_block(&raw).unwrap_or_default();
        if actual_hash != hash {
            return Err(wrong(NodeFault::WrongBlock {
                asked: hash,
                found: actual_hash,
            }));
        }
        let header: &[u8; HEADER_BYTES] = raw.first_chunk().unwrap_or(&[0; HEADER_BYTES]);
        if height > 0 && parent_of(header) != self.after {
            self.ahead.clear();
            let fault = NodeFault::WrongParent {
                height,
                hash,
                expected: self.after,
                found: parent_of(header),
            };
            // The node's chain may have changed while the list was read. If the node still reports the same two blocks,
            // the list is wrong.
            let repeats = node.hash_at(height).is_ok_and(|now| now == hash)
                && node.hash_at(height - 1).is_ok_and(|now| now == self.after);
            let error = NodeError::new(node.describe(), fault);
            return if repeats { Err(error) } else { Ok(None) };
        }
        self.after = hash;
        Ok(Some(ChainStep::Connect { height, hash, raw }))
    }

    fn compare(&mut self, node: &mut dyn Node, local: &dyn LocalChain) -> Result<ChainComparison, NodeError> {
        self.ahead.clear();
        if !self.network_checked {
            let (expected, actual) = (self.genesis, node.hash_at(0)?);
            if actual != expected {
                return Err(NodeError::new(
                    node.describe(),
                    NodeFault::OtherNetwork {
                        expected,
                        found: actual,
                    },
                ));
            }
            self.network_checked = true;
        }
        let info = node.info()?;
        if let (Some(expected), Some(actual)) = (self.signet, info.signet)
            && expected != actual
        {
            let fault = NodeFault::OtherSignet {
                expected,
                found: actual,
            };
            return Err(NodeError::new(node.describe(), fault));
        }
        self.best = info.best;
        let Some((height, hash)) = local.tip() else {
            return self.look_ahead(node, local, 0, &info);
        };
        if info.best == hash {
            node.fetch_ahead(&[]);
            return Ok(ChainComparison::Equal);
        }
        if info.blocks > height {
            match hash_at(node, height)? {
                Some(actual) if actual == hash => {
                    self.after = hash;
                    return self.look_ahead(node, local, height + 1, &info);
                }
                Some(_) => {}
                None => return Ok(ChainComparison::Changed),
            }
        }
        let Some(fork) = fork_point(node, local, info.blocks.min(height))? else {
            return Ok(ChainComparison::Changed);
        };
        self.judge(node, local, &info, fork)
    }

    /// Requests the hashes of the node's blocks from height `from` on into `ahead`.
    fn look_ahead(
        &mut self,
        node: &mut dyn Node,
        local: &dyn LocalChain,
        from: u32,
        info: &NodeInfo,
    ) -> Result<ChainComparison, NodeError> {
        let count = info
            .blocks
            .saturating_sub(from)
            .saturating_add(1)
            .min(HASHES_AHEAD_MAX);
        let mut hashes = node.hashes(from, count)?;
        hashes.truncate(count as usize);
        let requested: Vec<_> = hashes.iter().copied().filter(|hash| !local.keeps(hash)).collect();
        node.fetch_ahead(&requested);
        self.ahead = hashes.into();
        if from == 0 {
            self.after = self.genesis;
            if self.ahead.front().is_some_and(|first| *first != self.genesis) {
                return Ok(ChainComparison::Changed);
            }
        }
        Ok(if self.ahead.is_empty() {
            ChainComparison::Changed
        } else {
            ChainComparison::Longer
        })
    }

    /// Decides whether the node's branch above `fork` replaces the local one.
    fn judge(
        &mut self,
        node: &mut dyn Node,
        local: &dyn LocalChain,
        info: &NodeInfo,
        fork: u32,
    ) -> Result<ChainComparison, NodeError> {
        let Some((height, hash)) = local.tip() else {
            return Ok(ChainComparison::Changed);
        };
        if fork == height {
            // The fork is at the local tip: the node's chain has grown meanwhile and now extends the local one.
            return Ok(ChainComparison::Changed);
        }
        // The chains differ from height 1 on, and the node does not report its challenge: it may be on another signet,
        // because all signets have the same first block.
        if fork == 0 && self.signet.is_some() && info.signet.is_none() {
            let (Some(ours), Some(theirs)) = (local.hash_at(1), hash_at(node, 1)?) else {
                return Ok(ChainComparison::Changed);
            };
            let fault = NodeFault::OtherFirstBlock { ours, theirs };
            return Err(NodeError::new(node.describe(), fault));
        }
        let of_local = branch_work(local, fork, height);
        let needed = height - fork;
        let (mut work, mut length, mut at, mut parent) = (None, 0u32, fork, local.hash_at(fork));
        let has_more = |work: Option<Work>, length: u32| match of_local {
            Some(of_local) => work.is_some_and(|work| work >= of_local),
            None => length >= needed,
        };
        while !has_more(work, length) {
            if at >= info.blocks || length > needed.saturating_add(LONGER_BRANCH_BLOCKS_MAX) {
                if node.info()?.best != info.best {
                    return Ok(ChainComparison::Changed);
                }
                let is_loading = info.initial_block_download || info.headers > info.blocks;
                if self.less_work == LessWork::Follow && !is_loading && knows(node, &hash)? {
                    tracing::warn!(
                        node = node.describe(),
                        fork,
                        "the node changed to a chain with less work, and the local chain follows it"
                    );
                    return Ok(ChainComparison::Fork(fork));
                }
                let fault = NodeFault::LessWork {
                    node_height: info.blocks,
                    node_tip: info.best,
                    local_height: height,
                    local_tip: hash,
                };
                return Err(NodeError::new(node.describe(), fault));
            }
            let hashes = node.hashes(at + 1, HEADERS.min(info.blocks - at))?;
            let headers = match node.headers(&hashes) {
                Err(error) if matches!(error.fault, NodeFault::NoSuchBlock { .. }) => {
                    return Ok(ChainComparison::Changed);
                }
                headers => headers?,
            };
            if headers.is_empty() {
                return Ok(ChainComparison::Changed);
            }
            for (hash, header) in hashes.iter().zip(&headers) {
                at += 1;
                length += 1;
                let actual_hash = BlockHash::of_header(header);
                if actual_hash != *hash {
                    return Err(NodeError::new(
                        node.describe(),
                        NodeFault::WrongBlock {
                            asked: *hash,
                            found: actual_hash,
                        },
                    ));
                }
                if parent != Some(parent_of(header)) {
                    return Ok(ChainComparison::Changed);
                }
                let Some(more) = proven_work(header) else {
                    let fault = NodeFault::NoWork {
                        height: at,
                        hash: *hash,
                    };
                    return Err(NodeError::new(node.describe(), fault));
                };
                work = Some(work.map_or(more, |work| work + more));
                parent = Some(*hash);
            }
        }
        Ok(ChainComparison::Fork(fork))
    }
}

/// Returns true if the node knows a block. A node that lost its data does not know the blocks that it had before.
fn knows(node: &mut dyn Node, hash: &BlockHash) -> Result<bool, NodeError> {
    match node.header(hash) {
        Ok(_) => Ok(true),
        Err(error) if matches!(error.fault, NodeFault::NoSuchBlock { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Returns the node's block at `height`; `None` above its tip.
fn hash_at(node: &mut dyn Node, height: u32) -> Result<Option<BlockHash>, NodeError> {
    match node.hash_at(height) {
        Ok(hash) => Ok(Some(hash)),
        Err(error) if matches!(error.fault, NodeFault::NoSuchHeight { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns the last height, at most `top`, at which both chains have the same block; `None` if the node's chain
/// changed.
///
/// The search goes down in doubling steps until the chains agree, then bisects: at most 64 requests.
fn fork_point(node: &mut dyn Node, local: &dyn LocalChain, top: u32) -> Result<Option<u32>, NodeError> {
    let (mut height, mut step, mut differs) = (top, 1u32, None);
    let agrees = |node: &mut dyn Node, height| {
        let ours = local
            .hash_at(height)
            .ok_or_else(|| NodeError::new(node.describe(), NodeFault::LocalGap { height }))?;
        Ok::<_, NodeError>(hash_at(node, height)?.map(|theirs| theirs == ours))
    };
    while height > 0 {
        match agrees(node, height)? {
            None => return Ok(None),
            Some(true) => break,
            Some(false) => differs = Some(height),
        }
        height = height.saturating_sub(step);
        step = step.saturating_mul(2);
    }
    // Both chains belong to the configured network, so their first blocks are equal.
    let mut low = height;
    let Some(mut high) = differs else {
        return Ok(Some(low));
    };
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        match agrees(node, middle)? {
            None => return Ok(None),
            Some(true) => low = middle,
            Some(false) => high = middle,
        }
    }
    Ok(Some(low))
}

/// Returns the work of the local blocks above `fork`; `None` if the local chain does not know their targets.
fn branch_work(local: &dyn LocalChain, fork: u32, tip: u32) -> Option<Work> {
    let mut sum = None;
    for height in fork + 1..=tip {
        let work = Target::from_compact(CompactTarget::from_consensus(local.bits_at(height)?)).to_work();
        sum = Some(sum.map_or(work, |sum: Work| sum + work));
    }
    sum
}

/// Returns the work of a header; `None` if it does not meet its own target.
pub(crate) fn proven_work(header: &[u8; HEADER_BYTES]) -> Option<Work> {
    let header = decode(header)?;
    let target = header.target();
    header.validate_pow(target).ok().map(|_| target.to_work())
}
