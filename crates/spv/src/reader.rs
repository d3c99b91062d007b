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
use lineside_wire::trace::{Rule, Trace};
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
    pub fn begin<T: Trace>(store: &'a Store, now_ns: u64, trace: &mut T) -> Option<Self> {
        let control = store.control();
        let epoch = control.epoch.load(Acquire);
        trace.fact("epoch", || epoch);
        trace
            .require(Rule::EpochEven, 0..0, epoch & 1 == 0)
            .then_some(())?;
        trace.fact("lease_until_ns", || control.lease_until_ns.load(Relaxed));
        trace.fact("now_ns", || now_ns);
        let is_leased = lease::is_valid(&control.lease_until_ns, now_ns);
        trace
            .require(Rule::Lease, 0..0, is_leased)
            .then_some(Self { store, epoch })
    }

    /// Returns true if everything read since [`Session::begin`] belongs to one epoch.
    pub fn is_unchanged<T: Trace>(&self, trace: &mut T) -> bool {
        fence(Acquire);
        let epoch = self.store.control().epoch.load(Relaxed);
        trace.fact("epoch", || epoch);
        trace.require(Rule::EpochSame, 0..0, epoch == self.epoch)
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
    /// `at` is the offset of the TXID in the request.
    pub fn find<T: Trace>(&self, txid: &Hash, at: usize, trace: &mut T) -> Option<TxLocation> {
        let (block, generation, _) = self.block_of(txid, at, trace)?;
        block_body(block, generation, trace)
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
    pub fn proof<T: Trace>(
        &self,
        txid: &Hash,
        room: usize,
        at: usize,
        trace: &mut T,
    ) -> Result<BlockProof, NoProof> {
        let (block, generation, index) = self.block_of(txid, at, trace).ok_or(NoProof::Missing)?;
        if !has_generation(block, generation, trace) {
            return Err(NoProof::Missing);
        }
        let tree = block.tree.load(Acquire);
        trace.fact("tree_node", || tree);
        if !trace.require(Rule::Tree, 0..0, tree != 0) {
            return Err(NoProof::Missing);
        }
        let depth = (block.depth.load(Relaxed) & 31) as usize;
        trace.fact("path_hashes", || depth as u64);
        trace.fact("room_hashes", || room as u64);
        if !trace.require(Rule::PathFits, 0..0, depth <= room) {
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
        trace
            .require(Rule::BlockUnchanged, 0..0, is_unchanged)
            .then_some(proof)
            .ok_or(NoProof::Missing)
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
    fn block_of<T: Trace>(&self, txid: &Hash, at: usize, trace: &mut T) -> Option<(&'a SpvBlock, u32, u32)> {
        let txid = store::words(txid);
        let mut set = self.store.set(&txid).iter();
        let line = set.find(|line| line.txid[0].load(Relaxed) == txid[0]);
        trace.fact("first_line_of_set", || self.store.set_range(&txid).start as u64);
        trace.fact("lines_of_set", || self.store.set_range(&txid).len() as u64);
        trace
            .require(Rule::KeyWord, at..at + size_of::<Hash>(), line.is_some())
            .then_some(())?;
        let (slot, generation, index) = line_body(line?, &txid, trace)?;
        let mask = self.store.control().block_mask.load(Relaxed);
        trace.fact("block_slot", || u64::from(slot & mask));
        let block = &self.store.blocks.as_slice()[(slot & mask) as usize];
        Some((block, generation, index))
    }
}

/// Returns slot and generation of the block that `line` refers to, and the transaction's index in it, if the line holds
/// `txid` and was not written during the read.
fn line_body<T: Trace>(line: &SpvLine, txid: &[u64; 4], trace: &mut T) -> Option<(u32, u32, u32)> {
    let seq = line.seq.load(Acquire);
    let same = store::load(&line.txid) == *txid;
    let (slot, generation) = (line.block.load(Relaxed), line.generation.load(Relaxed));
    let index = line.index.load(Relaxed);
    fence(Acquire);
    let whole = seq & 1 == 0 && line.seq.load(Relaxed) == seq;
    trace.fact("line_generation", || u64::from(generation));
    trace
        .require(Rule::Line, 0..0, same && whole && generation != 0)
        .then_some((slot, generation, index))
}

/// Returns true if the generation of `block` is `generation`.
fn has_generation<T: Trace>(block: &SpvBlock, generation: u32, trace: &mut T) -> bool {
    let found = block.generation.load(Acquire);
    trace.fact("block_generation", || u64::from(found));
    trace.require(Rule::BlockGeneration, 0..0, found == generation)
}

/// Returns the contents of `block` if its generation is `generation` before and after the read.
fn block_body<T: Trace>(block: &SpvBlock, generation: u32, trace: &mut T) -> Option<TxLocation> {
    if !has_generation(block, generation, trace) {
        return None;
    }
    let location = TxLocation {
        root: store::bytes(&store::load(&block.root)),
        block_hash: store::bytes(&store::load(&block.hash)),
        height: block.height.load(Relaxed),
    };
    fence(Acquire);
    let is_unchanged = block.generation.load(Relaxed) == generation;
    trace.fact("height", || u64::from(location.height));
    trace
        .require(Rule::BlockUnchanged, 0..0, is_unchanged)
        .then_some(location)
}
