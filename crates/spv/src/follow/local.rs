//! The local chain that is compared with the node's: connected blocks, blocks with too few confirmations, and a branch
//! that is being fetched.

use crate::chain::BlockInfo;
use crate::host::SpvHost;
use bitcoin::Work;
use bitcoin::pow::{CompactTarget, Target};
use lineside_bitcoin_node::{BlockHash, LocalChain};
use std::collections::VecDeque;

/// Block that was accepted but is not connected yet.
#[derive(Clone, Copy)]
pub struct UnconnectedBlock {
    pub height: u32,
    pub hash: [u8; 32],
    pub bits: u32,
}

impl UnconnectedBlock {
    pub fn of(block: &BlockInfo) -> Self {
        Self {
            height: block.height,
            hash: block.hash,
            bits: bits_of(&block.header),
        }
    }
}

pub fn bits_of(header: &[u8; 80]) -> u32 {
    u32::from_le_bytes([header[72], header[73], header[74], header[75]])
}

/// Blocks of another branch, which are fetched and checked before they replace the chain. Until then the connected
/// blocks stay in place, so a node that withholds blocks of its branch, or sends wrong ones, cannot remove any.
pub struct Branch {
    /// Height of the last block that the branch shares with the chain.
    pub fork: u32,
    /// Blocks above `fork`, the lowest first.
    pub blocks: VecDeque<UnconnectedBlock>,
    /// Work of `blocks`; `None` if there are no blocks.
    work: Option<Work>,
    /// Work of the blocks of the present chain that the branch would replace.
    replaced: Option<Work>,
}

impl Branch {
    /// Returns a branch without blocks that leaves `base` at the height `fork`.
    pub fn new(base: &ChainView<'_>, fork: u32) -> Self {
        let tip = base.tip().map_or(0, |(height, _)| height);
        let bits = (fork + 1..=tip).filter_map(|height| base.bits_at(height));
        Self {
            fork,
            blocks: VecDeque::new(),
            work: None,
            replaced: bits.map(work_of).reduce(|sum, more| sum + more),
        }
    }

    pub fn push(&mut self, block: UnconnectedBlock) {
        let more = work_of(block.bits);
        self.work = Some(self.work.map_or(more, |work| work + more));
        self.blocks.push_back(block);
    }

    /// Returns true if the branch has more work than the blocks that it would replace.
    pub fn has_more_work(&self) -> bool {
        self.work > self.replaced
    }

    /// Returns true if the branch has at least as much work as the blocks that it would replace.
    pub fn has_enough_work(&self) -> bool {
        self.work >= self.replaced
    }
}

fn work_of(bits: u32) -> Work {
    Target::from_compact(CompactTarget::from_consensus(bits)).to_work()
}

/// The local chain for the comparison with the node's.
pub struct ChainView<'a> {
    pub host: &'a SpvHost,
    /// Blocks above the connected ones with too few confirmations.
    pub unconnected: &'a VecDeque<UnconnectedBlock>,
    pub branch: Option<&'a Branch>,
}

impl ChainView<'_> {
    /// Returns the block at `height` of the branch; if the branch has none there, the unconnected block of the chain.
    fn unconnected_at(&self, height: u32) -> Option<&UnconnectedBlock> {
        let blocks = match self.branch {
            Some(branch) if height > branch.fork => &branch.blocks,
            _ => self.unconnected,
        };
        let first = blocks.front()?.height;
        blocks.get(height.checked_sub(first)? as usize)
    }

    /// Returns true for heights at which the branch replaces connected or unconnected blocks of the chain.
    fn is_of_branch(&self, height: u32) -> bool {
        self.branch.is_some_and(|branch| height > branch.fork)
    }
}

impl LocalChain for ChainView<'_> {
    fn tip(&self) -> Option<(u32, BlockHash)> {
        if let Some(branch) = self.branch {
            let height = branch.blocks.back().map_or(branch.fork, |block| block.height);
            return Some((height, self.hash_at(height)?));
        }
        if let Some(held) = self.unconnected.back() {
            return Some((held.height, BlockHash(held.hash)));
        }
        self.host.tip().map(|tip| (tip.height, BlockHash(tip.hash)))
    }

    fn hash_at(&self, height: u32) -> Option<BlockHash> {
        match self.unconnected_at(height) {
            Some(held) => Some(BlockHash(held.hash)),
            None if self.is_of_branch(height) => None,
            None => self.host.at_height(height).map(|block| BlockHash(block.hash)),
        }
    }

    fn bits_at(&self, height: u32) -> Option<u32> {
        match self.unconnected_at(height) {
            Some(held) => Some(held.bits),
            None if self.is_of_branch(height) => None,
            None => self.host.at_height(height).map(|block| bits_of(&block.header)),
        }
    }

    fn keeps(&self, hash: &BlockHash) -> bool {
        self.host.is_kept(&hash.0)
    }

    fn kept_block(&self, hash: &BlockHash) -> Option<Vec<u8>> {
        self.host.kept_block(&hash.0)
    }
}
