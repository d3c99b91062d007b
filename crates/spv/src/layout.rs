// Generated from spec/spv.toml by `cargo run -p lineside-spec`. Do not edit.

//! Layouts of the fast-path table of `spv`, in memory that threads, processes and XDP share.

use lineside_fastpath::memory::Shared;
use core::sync::atomic::{AtomicU32, AtomicU64};

/// Cache line: one TXID and the block that contains it.
#[repr(C)]
#[derive(Debug)]
pub struct SpvLine {
    /// sequence number; odd while the host writes the entry
    pub seq: AtomicU64,
    /// the whole TXID, wire byte order
    pub txid: [AtomicU64; 4],
    /// index into the block table
    pub block: AtomicU32,
    /// generation of the block when the line was filled; 0: the line is empty
    pub generation: AtomicU32,
    /// position of the transaction in the block
    pub index: AtomicU32,
    /// reserved: zero
    pub reserved: AtomicU32,
    /// reserved: zero
    pub reserved_2: AtomicU64,
}

const _: () = assert!(size_of::<SpvLine>() == 64);

// SAFETY: the struct is `repr(C)` and contains only atomics. The check of its size above shows that it
// has no padding.
unsafe impl Shared for SpvLine {}

/// Block whose transactions may be cached. All its lines become invalid when its generation changes.
#[repr(C)]
#[derive(Debug)]
pub struct SpvBlock {
    /// odd while the host writes the entry; a line is valid only if it names the same generation
    pub generation: AtomicU32,
    /// height of the block; 0xffffffff: unknown
    pub height: AtomicU32,
    /// Merkle root, wire byte order
    pub root: [AtomicU64; 4],
    /// sum of the root's eight 32-bit words in memory order, for the checksum of a paper reply
    pub root_sum: AtomicU64,
    /// index of the tree's first node, with the tree's stamp in the upper half; 0: no tree
    pub tree: AtomicU64,
    /// number of transactions in the block; set only if the block has a tree
    pub transactions: AtomicU32,
    /// number of hashes in a path of the tree; set only if the block has a tree
    pub depth: AtomicU32,
    /// block hash, wire byte order
    pub hash: [AtomicU64; 4],
    /// reserved: zero
    pub reserved_2: [AtomicU64; 4],
}

const _: () = assert!(size_of::<SpvBlock>() == 128);

// SAFETY: the struct is `repr(C)` and contains only atomics. The check of its size above shows that it
// has no padding.
unsafe impl Shared for SpvBlock {}

/// Node of a Merkle tree, or 32 bytes of the header before the tree.
#[repr(C)]
#[derive(Debug)]
pub struct SpvNode {
    /// hash of the node, wire byte order
    pub hash: [AtomicU64; 4],
}

const _: () = assert!(size_of::<SpvNode>() == 32);

// SAFETY: the struct is `repr(C)` and contains only atomics. The check of its size above shows that it
// has no padding.
unsafe impl Shared for SpvNode {}

/// State of the whole cache: lease, epoch, tip, hash key and geometry.
#[repr(C)]
#[derive(Debug)]
pub struct SpvControl {
    /// end of the lease: the fast path answers only before this CLOCK_MONOTONIC time
    pub lease_until_ns: AtomicU64,
    /// epoch; odd while the chain changes, and then the fast path forwards everything
    pub epoch: AtomicU64,
    /// key of the index hash: two words of NH, one odd multiplier
    pub key: [AtomicU64; 3],
    /// hash of the best block
    pub tip_hash: [AtomicU64; 4],
    /// height of the best block at the time of the reply
    pub tip_height: AtomicU32,
    /// log2 of the number of sets
    pub set_bits: AtomicU32,
    /// number of lines in a set: 1, 2 or 4
    pub ways: AtomicU32,
    /// number of block slots minus 1
    pub block_mask: AtomicU32,
    /// 1: the low bits of a TXID choose its set, as in the paper; 0: a keyed hash chooses it
    pub paper_index: AtomicU32,
    /// 1: the paper's packets are answered; 0: dropped
    pub paper_format: AtomicU32,
    /// version of the layout, 3; a server does not take over a cache of another version
    pub layout_version: AtomicU32,
    /// number of tree nodes; 0: there are no trees, and only the host answers proofs
    pub tree_nodes: AtomicU32,
    /// id of the chain state that filled the lines; kept only if the server has this state
    pub chain_state: AtomicU64,
    /// reserved: zero
    pub reserved_2: [AtomicU64; 8],
}

const _: () = assert!(size_of::<SpvControl>() == 176);

// SAFETY: the struct is `repr(C)` and contains only atomics. The check of its size above shows that it
// has no padding.
unsafe impl Shared for SpvControl {}

