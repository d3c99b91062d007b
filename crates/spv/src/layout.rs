// Generated from spec/spv.toml by `cargo run -p lineside-spec`. Do not edit.

//! Layouts of the fast-path table of `spv`, in memory that threads, processes and XDP share.

use lineside_fastpath::memory::Shared;
use core::sync::atomic::{AtomicU32, AtomicU64};

/// Cache line: one TXID and the block that contains it.
#[repr(C)]
#[derive(Debug)]
pub struct SpvLine {
    /// odd while being written
    pub seq: AtomicU64,
    /// the whole TXID, wire byte order
    pub txid: [AtomicU64; 4],
    /// index into the block table
    pub block: AtomicU32,
    /// generation of that block when filled; 0: empty line
    pub generation: AtomicU32,
    /// position of the transaction in that block
    pub index: AtomicU32,
    /// zero
    pub reserved: AtomicU32,
    /// zero
    pub reserved_2: AtomicU64,
}

const _: () = assert!(size_of::<SpvLine>() == 64);

// SAFETY: the struct is `repr(C)`, holds atomics alone, and its size, checked above, leaves no padding.
unsafe impl Shared for SpvLine {}

/// Block whose transactions may be cached. All its lines become invalid when its generation changes.
#[repr(C)]
#[derive(Debug)]
pub struct SpvBlock {
    /// odd while being written; a line is valid only with the same generation
    pub generation: AtomicU32,
    /// height, or 0xffffffff
    pub height: AtomicU32,
    /// Merkle root, wire byte order
    pub root: [AtomicU64; 4],
    /// sum of the root's eight 32-bit words in memory order, for the checksum of a paper reply
    pub root_sum: AtomicU64,
    /// first node of the block's tree, with its stamp in the upper half; 0: no tree
    pub tree: AtomicU64,
    /// number of transactions in the block; only with a tree
    pub transactions: AtomicU32,
    /// length of the tree's paths; only with a tree
    pub depth: AtomicU32,
    /// block hash, wire byte order
    pub hash: [AtomicU64; 4],
    /// zero
    pub reserved_2: [AtomicU64; 4],
}

const _: () = assert!(size_of::<SpvBlock>() == 128);

// SAFETY: the struct is `repr(C)`, holds atomics alone, and its size, checked above, leaves no padding.
unsafe impl Shared for SpvBlock {}

/// Node of a Merkle tree, or 32 bytes of the header before the tree.
#[repr(C)]
#[derive(Debug)]
pub struct SpvNode {
    /// wire byte order
    pub hash: [AtomicU64; 4],
}

const _: () = assert!(size_of::<SpvNode>() == 32);

// SAFETY: the struct is `repr(C)`, holds atomics alone, and its size, checked above, leaves no padding.
unsafe impl Shared for SpvNode {}

/// State of the whole cache: lease, epoch, tip, hash key and geometry.
#[repr(C)]
#[derive(Debug)]
pub struct SpvControl {
    /// the fast path answers only before this CLOCK_MONOTONIC time
    pub lease_until_ns: AtomicU64,
    /// odd while the chain changes: the fast path forwards everything
    pub epoch: AtomicU64,
    /// key of the index hash: two words of NH, one odd multiplier
    pub key: [AtomicU64; 3],
    /// best block
    pub tip_hash: [AtomicU64; 4],
    /// height of the best block
    pub tip_height: AtomicU32,
    /// log2 of the number of sets
    pub set_bits: AtomicU32,
    /// number of lines in a set: 1, 2 or 4
    pub ways: AtomicU32,
    /// number of block slots - 1
    pub block_mask: AtomicU32,
    /// 1: index by the TXID's low bits, as the paper does; 0: keyed hash
    pub paper_index: AtomicU32,
    /// 1: the paper's packets are answered; 0: dropped
    pub paper_format: AtomicU32,
    /// 3; a cache with another number is not adopted
    pub layout_version: AtomicU32,
    /// number of nodes for trees; 0: none, and only the host answers proofs
    pub tree_nodes: AtomicU32,
    /// state of the chain that filled the lines; a daemon keeps them only if its chain contains it
    pub chain_state: AtomicU64,
    /// zero
    pub reserved_2: [AtomicU64; 8],
}

const _: () = assert!(size_of::<SpvControl>() == 176);

// SAFETY: the struct is `repr(C)`, holds atomics alone, and its size, checked above, leaves no padding.
unsafe impl Shared for SpvControl {}

