//! Lock-free reads of the store, concurrent with its single writer. This module is the specification of
//! `xdp/spv_store.h`.
//!
//! An answer is valid only if three values did not change during its reads: the sequence number of the cache line, the
//! generation of the block and, around the whole read, the epoch of the table.

pub use lineside_messages::spv::TxLocation;

use crate::chain::Tip;
use crate::layout::{SpvBlock, SpvLine};
use crate::store::{self, Hash, Store};
use lineside_fastpath::lease;
use lineside_wire::{SPV_HEADER_BYTES, SPV_PROOF_DEPTH_MAX, SPV_TREE_HEAD_NODES};
use std::sync::atomic::{Ordering::Acquire, Ordering::Relaxed, fence};

/// Read section of the fast path. Data that is read in a section is valid only if [`Session::is_unchanged`] returns
/// true at the end of the section.
pub struct Session<'a> {
    store: &'a Store,
    epoch: u64,
}

/// Proof of a transaction: its block, and the path to the block's Merkle root, in the form in which a reply contains
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockProof {
    /// Header of the block.
    pub header: [u8; SPV_HEADER_BYTES],
    /// Height of the block.
    pub height: u32,
    /// Number of transactions in the block.
    pub transactions: u32,
    /// Position of the transaction in the block.
    pub index: u32,
    /// Length of the path.
    pub depth: usize,
    /// Sibling hashes from the transaction's level upwards, and zeros after the last one.
    pub path: [Hash; SPV_PROOF_DEPTH_MAX],
}

/// Reason why the fast path has no proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoProof {
    /// No valid cache line has the TXID, or the tree of the transaction's block is not in the table.
    Missing,
    /// The path is longer than the space that the request reserves for it.
    TooLong,
}

impl<'a> Session<'a> {
    /// Begins a read section. Returns `None` while the chain changes, or after the lease has ended.
    pub fn begin(store: &'a Store, now_ns: u64) -> Option<Self> {
        let control = store.control();
        let epoch = control.epoch.load(Acquire);
        let open = epoch & 1 == 0 && lease::is_valid(&control.lease_until_ns, now_ns);
        open.then_some(Self { store, epoch })
    }

    /// Returns true if everything read since [`Session::begin`] belongs to one epoch.
    pub fn is_unchanged(&self) -> bool {
        fence(Acquire);
        self.store.control().epoch.load(Relaxed) == self.epoch
    }

    /// Returns the tip of the chain.
    pub fn tip(&self) -> Tip {
        let control = self.store.control();
        Tip {
            hash: store::bytes(&store::load(&control.tip_hash)),
            height: control.tip_height.load(Relaxed),
        }
    }

    /// Returns the location of `txid` if a valid line has it and the line's block was not dropped. Only the first line
    /// whose first word equals that of the TXID is examined: the writer ensures that a set has at most one such line.
    pub fn find(&self, txid: &Hash) -> Option<TxLocation> {
        let (block, generation, _) = self.block_of(txid)?;
        block_body(block, generation)
    }

    /// Returns true if the table has space for trees; otherwise only the host answers proofs.
    pub fn has_trees(store: &Store) -> bool {
        store.control().tree_nodes.load(Relaxed) != 0
    }

    /// Returns the proof of `txid`, with a path of at most `room` hashes, if a valid line has the TXID and the tree of
    /// its block is in the table.
    ///
    /// # Errors
    /// [`NoProof`]
    pub fn proof(&self, txid: &Hash, room: usize) -> Result<BlockProof, NoProof> {
        let (block, generation, index) = self.block_of(txid).ok_or(NoProof::Missing)?;
        if block.generation.load(Acquire) != generation {
            return Err(NoProof::Missing);
        }
        let tree = block.tree.load(Acquire);
        if tree == 0 {
            return Err(NoProof::Missing);
        }
        let depth = (block.depth.load(Relaxed) & 31) as usize;
        if depth > room {
            return Err(NoProof::TooLong);
        }
        let mut proof = BlockProof {
            header: [0; SPV_HEADER_BYTES],
            height: block.height.load(Relaxed),
            transactions: block.transactions.load(Relaxed),
            index,
            depth,
            path: [[0; 32]; SPV_PROOF_DEPTH_MAX],
        };
        self.tree_body(tree as u32, &mut proof);
        fence(Acquire);
        let is_unchanged = block.tree.load(Relaxed) == tree && block.generation.load(Relaxed) == generation;
        is_unchanged.then_some(proof).ok_or(NoProof::Missing)
    }

    /// Reads header and path from the tree at node `first`.
    fn tree_body(&self, first: u32, proof: &mut BlockProof) {
        let nodes = self.store.trees.as_slice();
        // The mask keeps the index within the table: the number of nodes is a power of two.
        let node = |at: u32| {
            let node = &nodes[at as usize & (nodes.len() - 1)];
            store::bytes(&store::load(&node.hash))
        };
        for (index, part) in proof.header.chunks_mut(32).enumerate() {
            part.copy_from_slice(&node(first.wrapping_add(index as u32))[..part.len()]);
        }
        let (mut row, mut width) = (first.wrapping_add(SPV_TREE_HEAD_NODES as u32), proof.transactions);
        let mut at = proof.index;
        for hash in proof.path.iter_mut().take(proof.depth) {
            // The last node of an odd row is its own sibling.
            *hash = node(row.wrapping_add((at ^ 1).min(width.wrapping_sub(1))));
            (row, width, at) = (row.wrapping_add(width), width.div_ceil(2), at >> 1);
        }
    }

    /// Returns the block that a valid line of `txid` names, the generation of this block in the line, and the
    /// transaction's index in the block.
    fn block_of(&self, txid: &Hash) -> Option<(&'a SpvBlock, u32, u32)> {
        let txid = store::words(txid);
        let mut set = self.store.set(&txid).iter();
        let line = set.find(|line| line.txid[0].load(Relaxed) == txid[0])?;
        let (slot, generation, index) = line_body(line, &txid)?;
        let mask = self.store.control().block_mask.load(Relaxed);
        let block = &self.store.blocks.as_slice()[(slot & mask) as usize];
        Some((block, generation, index))
    }
}

/// Returns slot and generation of the block that `line` refers to, and the transaction's index in it, if the line holds
/// `txid` and was not written during the read.
fn line_body(line: &SpvLine, txid: &[u64; 4]) -> Option<(u32, u32, u32)> {
    let seq = line.seq.load(Acquire);
    let same = store::load(&line.txid) == *txid;
    let (slot, generation) = (line.block.load(Relaxed), line.generation.load(Relaxed));
    let index = line.index.load(Relaxed);
    fence(Acquire);
    let whole = seq & 1 == 0 && line.seq.load(Relaxed) == seq;
    (same && whole && generation != 0).then_some((slot, generation, index))
}

/// Returns the contents of `block` if its generation is `generation` before and after the read.
fn block_body(block: &SpvBlock, generation: u32) -> Option<TxLocation> {
    if block.generation.load(Acquire) != generation {
        return None;
    }
    let location = TxLocation {
        root: store::bytes(&store::load(&block.root)),
        block_hash: store::bytes(&store::load(&block.hash)),
        height: block.height.load(Relaxed),
    };
    fence(Acquire);
    (block.generation.load(Relaxed) == generation).then_some(location)
}
