//! The fast-path table: lines, block table, Merkle trees and control word, in memory that the host, the socket datapath
//! and the XDP program share. Field by field in `spec/spv.toml`.
//!
//! A line names a block and that block's generation, so ending a block's generation ends all its lines at once, and a
//! fill that comes late for a dropped block writes a line that nobody reads. A block names its tree by the tree's first
//! node and a stamp that no tree before had.

use crate::layout::{SpvBlock, SpvControl, SpvLine, SpvNode};
use lineside_fastpath::hash;
use lineside_fastpath::memory::Table;
use lineside_wire::{SPV_HEADER_BYTES, SPV_PROOF_DEPTH_MAX, SPV_TREE_HEAD_NODES};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A TXID, block hash or Merkle root in wire byte order: as it is hashed, not as explorers print it.
pub type Hash = [u8; 32];

/// Version of the layout below; memory of another version is not adopted.
pub const LAYOUT_VERSION: u32 = 3;

/// How large a store is and how it places a TXID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// log2 of the number of lines; the paper has 22.
    pub line_bits: u32,
    /// Lines a set: 1, 2 or 4.
    pub ways: u32,
    /// log2 of the number of blocks that cached lines can belong to.
    pub block_bits: u32,
    /// log2 of the number of nodes of 32 bytes for Merkle trees; 0: none, and proofs are the host's.
    pub tree_bits: u32,
    /// Place by the TXID's low bits as the paper does, instead of by keyed hash.
    pub paper_index: bool,
    /// Answer the paper's packets.
    pub paper_format: bool,
}

impl Default for Geometry {
    fn default() -> Self {
        Self {
            line_bits: 22,
            ways: 4,
            block_bits: 18,
            tree_bits: 20,
            paper_index: false,
            paper_format: true,
        }
    }
}

impl Geometry {
    /// Number of lines.
    pub const fn lines(&self) -> usize {
        1 << self.line_bits
    }

    /// Number of block slots.
    pub const fn blocks(&self) -> usize {
        1 << self.block_bits
    }

    /// Number of nodes for Merkle trees; 0: none.
    pub const fn tree_nodes(&self) -> usize {
        if self.tree_bits == 0 {
            0
        } else {
            1 << self.tree_bits
        }
    }

    /// Nodes in the table's memory, which is never empty.
    pub const fn tree_entries(&self) -> usize {
        match self.tree_nodes() {
            0 => TREE_ALIGN as usize,
            nodes => nodes,
        }
    }

    /// log2 of the number of sets.
    pub const fn set_bits(&self) -> u32 {
        self.line_bits - self.ways.trailing_zeros()
    }

    /// What is wrong with it, if anything.
    pub fn fault(&self) -> Option<&'static str> {
        if ![1, 2, 4].contains(&self.ways) {
            Some("ways must be 1, 2 or 4")
        } else if !(3..=28).contains(&self.line_bits) {
            Some("line_bits must be 3 to 28")
        } else if !(1..=24).contains(&self.block_bits) {
            Some("block_bits must be 1 to 24")
        } else if self.tree_bits != 0 && !(TREE_BITS_MIN..=26).contains(&self.tree_bits) {
            Some("tree_bits must be 0 or 4 to 26")
        } else {
            None
        }
    }
}

/// Smallest log2 of the number of nodes, but for 0.
const TREE_BITS_MIN: u32 = 4;

/// A tree begins at a multiple of this number of nodes, so that its header lies in two cache lines.
pub const TREE_ALIGN: u32 = 4;

/// The four tables of a fast-path table.
#[derive(Debug)]
pub struct Store {
    /// Cache lines; the lines of a set stand together.
    pub lines: Table<SpvLine>,
    /// Blocks that lines refer to.
    pub blocks: Table<SpvBlock>,
    /// Merkle trees, each in one piece.
    pub trees: Table<SpvNode>,
    /// One entry.
    pub control: Table<SpvControl>,
}

impl Store {
    /// An empty store in this process alone.
    ///
    /// # Errors
    /// What the kernel says of the mapping, or `InvalidInput` for a geometry that cannot be.
    pub fn anonymous(geometry: &Geometry) -> io::Result<Self> {
        let store = Self {
            lines: Table::anonymous(geometry.lines())?,
            blocks: Table::anonymous(geometry.blocks())?,
            trees: Table::anonymous(geometry.tree_entries())?,
            control: Table::anonymous(1)?,
        };
        store.format(geometry)?;
        Ok(store)
    }

    /// Writes the geometry and a fresh hash key into zeroed memory.
    ///
    /// # Errors
    /// `InvalidInput` for a geometry that cannot be or tables of other sizes; what the kernel says of
    /// its random numbers.
    pub fn format(&self, geometry: &Geometry) -> io::Result<()> {
        let sizes_fit = self.lines.as_slice().len() == geometry.lines()
            && self.blocks.as_slice().len() == geometry.blocks()
            && self.trees.as_slice().len() == geometry.tree_entries()
            && self.control.as_slice().len() == 1;
        let fault = geometry
            .fault()
            .or((!sizes_fit).then_some("tables of another size"));
        if let Some(fault) = fault {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, fault));
        }
        let control = self.control();
        hash::new_key(&control.key)?;
        control.set_bits.store(geometry.set_bits(), Relaxed);
        control.ways.store(geometry.ways, Relaxed);
        control.block_mask.store(geometry.blocks() as u32 - 1, Relaxed);
        control.tree_nodes.store(geometry.tree_nodes() as u32, Relaxed);
        control.paper_index.store(geometry.paper_index.into(), Relaxed);
        control.paper_format.store(geometry.paper_format.into(), Relaxed);
        control.layout_version.store(LAYOUT_VERSION, Relaxed);
        Ok(())
    }

    /// Whether it was formatted so by this version; fresh memory was not.
    pub fn has_geometry(&self, geometry: &Geometry) -> bool {
        let control = self.control();
        control.layout_version.load(Relaxed) == LAYOUT_VERSION
            && control.set_bits.load(Relaxed) == geometry.set_bits()
            && control.ways.load(Relaxed) == geometry.ways
            && control.block_mask.load(Relaxed) == geometry.blocks() as u32 - 1
            && control.tree_nodes.load(Relaxed) == geometry.tree_nodes() as u32
            && (control.paper_index.load(Relaxed) != 0) == geometry.paper_index
            && self.paper_format() == geometry.paper_format
    }

    /// The control word.
    pub fn control(&self) -> &SpvControl {
        &self.control.as_slice()[0]
    }

    /// Whether the paper's packets are answered.
    pub fn paper_format(&self) -> bool {
        self.control().paper_format.load(Relaxed) != 0
    }

    /// The lines of the set that `txid` belongs to. Two TXIDs that do not differ in their first 16 bytes, which are
    /// what is hashed, cost 2^64 transactions to find, and five of them, more than a set holds, far more.
    pub fn set(&self, txid: &[u64; 4]) -> &[SpvLine] {
        let control = self.control();
        let set_bits = control.set_bits.load(Relaxed);
        let ways = control.ways.load(Relaxed) as usize;
        let set = if control.paper_index.load(Relaxed) != 0 {
            txid[0] as usize & ((1 << set_bits) - 1)
        } else {
            (hash::index_hash([txid[0], txid[1]], &control.key) >> (64 - set_bits)) as usize
        };
        &self.lines.as_slice()[set * ways..(set + 1) * ways]
    }
}

/// Number of nodes that the tree of a block with `transactions` takes in the table, its header too; `None` for a block
/// whose paths are longer than a packet holds, or without transactions.
pub fn nodes_of(transactions: u32) -> Option<u32> {
    if transactions == 0 || transactions > 1 << SPV_PROOF_DEPTH_MAX {
        return None;
    }
    let (mut nodes, mut width) = (SPV_TREE_HEAD_NODES as u32 + transactions, transactions);
    while width > 1 {
        width = width.div_ceil(2);
        nodes += width;
    }
    Some(nodes.next_multiple_of(TREE_ALIGN))
}

/// A block's header as the three nodes that lie before its tree.
pub(crate) fn head_nodes(header: &[u8; SPV_HEADER_BYTES]) -> [Hash; SPV_TREE_HEAD_NODES] {
    let mut nodes = [[0; 32]; SPV_TREE_HEAD_NODES];
    nodes.as_flattened_mut()[..SPV_HEADER_BYTES].copy_from_slice(header);
    nodes
}

/// What a Merkle root adds to the checksum of the datagram that carries it.
pub fn root_sum(root: &[u64; 4]) -> u64 {
    root.iter().map(|word| (word & 0xffff_ffff) + (word >> 32)).sum()
}

/// A hash as the four words it is stored in.
pub fn words(hash: &Hash) -> [u64; 4] {
    std::array::from_fn(|index| {
        let mut word = [0; 8];
        word.copy_from_slice(&hash[8 * index..8 * index + 8]);
        u64::from_ne_bytes(word)
    })
}

/// The hash of four words.
pub fn bytes(words: &[u64; 4]) -> Hash {
    let mut hash = [0; 32];
    for (place, word) in hash.chunks_exact_mut(8).zip(words) {
        place.copy_from_slice(&word.to_ne_bytes());
    }
    hash
}

pub(crate) fn load(words: &[AtomicU64; 4]) -> [u64; 4] {
    std::array::from_fn(|index| words[index].load(Relaxed))
}

pub(crate) fn save(place: &[AtomicU64; 4], words: &[u64; 4]) {
    for (place, word) in place.iter().zip(words) {
        place.store(*word, Relaxed);
    }
}
