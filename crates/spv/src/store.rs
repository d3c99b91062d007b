//! The fast-path table: cache lines, block table, Merkle trees and the state of the whole table, in memory that the
//! host, the socket datapath and the XDP program share. `spec/spv.toml` describes every field.
//!
//! A cache line names a block and the block's generation. Increasing a block's generation invalidates all its lines at
//! once. If a line is filled for a block that was dropped in the meantime, no reader accepts the line. A block refers
//! to its tree by the tree's first node and a stamp that no earlier tree had.

use crate::layout::{SpvBlock, SpvControl, SpvLine, SpvNode};
use lineside_fastpath::hash;
use lineside_fastpath::memory::Table;
use lineside_wire::{SPV_HEADER_BYTES, SPV_PROOF_DEPTH_MAX, SPV_TREE_HEAD_NODES};
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// TXID, block hash or Merkle root in wire byte order: the order of hashing, not the reversed order that explorers
/// show.
pub type Hash = [u8; 32];

/// Version of the table's layout. The contents of memory with another version are not used.
pub const LAYOUT_VERSION: u32 = 3;

/// Maximum number of lines that an estimate of the table's use reads.
const SAMPLES: usize = 1 << 15;

/// Sizes of a store's tables, and the rule that selects the cache lines of a TXID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Binary logarithm of the number of lines; 22 in the paper.
    pub line_bits: u32,
    /// Number of lines in a set: 1, 2 or 4.
    pub ways: u32,
    /// Binary logarithm of the number of blocks that cached lines can refer to.
    pub block_bits: u32,
    /// Binary logarithm of the number of nodes for Merkle trees, of 32 bytes each; 0: the table has no trees, and only
    /// the host answers proofs.
    pub tree_bits: u32,
    /// True: the low bits of the TXID choose the set, as in the paper; false: a keyed hash.
    pub paper_index: bool,
    /// True if requests in the paper's format are answered.
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
    /// Returns the number of lines.
    pub const fn lines(&self) -> usize {
        1 << self.line_bits
    }

    /// Returns the number of block slots.
    pub const fn blocks(&self) -> usize {
        1 << self.block_bits
    }

    /// Returns the number of nodes for Merkle trees; 0: the table has no trees.
    pub const fn tree_nodes(&self) -> usize {
        if self.tree_bits == 0 {
            0
        } else {
            1 << self.tree_bits
        }
    }

    /// Returns the number of nodes in the table's memory. It is not 0 even without trees, because a BPF map cannot be
    /// empty.
    pub const fn tree_entries(&self) -> usize {
        match self.tree_nodes() {
            0 => TREE_ALIGN as usize,
            nodes => nodes,
        }
    }

    /// Returns the binary logarithm of the number of sets.
    pub const fn set_bits(&self) -> u32 {
        self.line_bits - self.ways.trailing_zeros()
    }

    /// Returns the fault of the geometry; `None` if it is valid.
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

/// Smallest allowed [`Geometry::tree_bits`] other than 0.
const TREE_BITS_MIN: u32 = 4;

/// Alignment of a tree in nodes, so that its header lies in two cache lines of the processor.
pub const TREE_ALIGN: u32 = 4;

/// Memory of a fast-path table: four arrays.
#[derive(Debug)]
pub struct Store {
    /// Cache lines; the lines of a set are adjacent.
    pub lines: Table<SpvLine>,
    /// Blocks that lines refer to.
    pub blocks: Table<SpvBlock>,
    /// Merkle trees, each in consecutive nodes.
    pub trees: Table<SpvNode>,
    /// State of the whole table (lease, epoch, tip, geometry), in one entry.
    pub control: Table<SpvControl>,
}

impl Store {
    /// Returns an empty store in private memory of this process.
    ///
    /// # Errors
    /// The kernel's error for the mapping, or `InvalidInput` for an invalid geometry.
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

    /// Writes the geometry and a new hash key into zeroed memory.
    ///
    /// # Errors
    /// `InvalidInput` for an invalid geometry or tables of other sizes; the kernel's error for its random numbers.
    pub fn format(&self, geometry: &Geometry) -> io::Result<()> {
        let sizes_fit = self.lines.as_slice().len() == geometry.lines()
            && self.blocks.as_slice().len() == geometry.blocks()
            && self.trees.as_slice().len() == geometry.tree_entries()
            && self.control.as_slice().len() == 1;
        let fault = geometry
            .fault()
            .or((!sizes_fit).then_some("the memory has tables of another size"));
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

    /// Returns true if the memory was formatted with this geometry by this version; false for new memory.
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

    /// Returns the state of the whole table: lease, epoch, tip, geometry.
    pub fn control(&self) -> &SpvControl {
        &self.control.as_slice()[0]
    }

    /// Returns true if requests in the paper's format are answered.
    pub fn paper_format(&self) -> bool {
        self.control().paper_format.load(Relaxed) != 0
    }

    /// Returns the number of cache lines in use. If the table has more than [`SAMPLES`] lines, the number is estimated
    /// from this number of lines at equal distances. The hash spreads lines evenly, so the error is below 1 % of the
    /// table.
    pub fn used_lines(&self) -> u64 {
        let (lines, blocks) = (self.lines.as_slice(), self.blocks.as_slice());
        let step = lines.len().div_ceil(SAMPLES).max(1);
        let is_used = |line: &&SpvLine| {
            let generation = line.generation.load(Relaxed);
            let block = blocks.get(line.block.load(Relaxed) as usize);
            generation != 0 && block.is_some_and(|block| block.generation.load(Relaxed) == generation)
        };
        // The lines of a set (1, 2 or 4) are not filled equally: an odd distance samples each position in a set equally
        // often.
        let samples = || lines.iter().step_by(if step > 1 { step | 1 } else { 1 });
        let (used, all) = (samples().filter(is_used).count(), samples().count());
        (used as u64 * lines.len() as u64) / (all as u64).max(1)
    }

    /// Returns the number of lines, of block slots, and of nodes for trees.
    pub fn capacities(&self) -> [u64; 3] {
        let control = self.control();
        [
            self.lines.as_slice().len() as u64,
            u64::from(control.block_mask.load(Relaxed)) + 1,
            u64::from(control.tree_nodes.load(Relaxed)),
        ]
    }

    /// Returns the lines of the set to which `txid` belongs. The hash covers the first 16 bytes of the TXID: to find
    /// two TXIDs with equal first 16 bytes, an attacker makes about 2^64 transactions. To overflow a set, the attacker
    /// needs five such TXIDs, which costs far more.
    pub fn set(&self, txid: &[u64; 4]) -> &[SpvLine] {
        &self.lines.as_slice()[self.set_range(txid)]
    }

    /// Returns the numbers of the lines of the set to which `txid` belongs.
    pub(crate) fn set_range(&self, txid: &[u64; 4]) -> Range<usize> {
        let control = self.control();
        let set_bits = control.set_bits.load(Relaxed);
        let ways = control.ways.load(Relaxed) as usize;
        let set = if control.paper_index.load(Relaxed) != 0 {
            txid[0] as usize & ((1 << set_bits) - 1)
        } else {
            (hash::index_hash([txid[0], txid[1]], &control.key) >> (64 - set_bits)) as usize
        };
        set * ways..(set + 1) * ways
    }
}

/// Returns the number of nodes that the tree of a block with `transactions` occupies in the table, its header included;
/// `None` for a block without transactions, or with paths longer than a packet holds.
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

/// Returns a block's header as the three nodes before its tree.
pub(crate) fn head_nodes(header: &[u8; SPV_HEADER_BYTES]) -> [Hash; SPV_TREE_HEAD_NODES] {
    let mut nodes = [[0; 32]; SPV_TREE_HEAD_NODES];
    nodes.as_flattened_mut()[..SPV_HEADER_BYTES].copy_from_slice(header);
    nodes
}

/// Returns the contribution of a Merkle root to the checksum of the datagram that carries it.
pub fn root_sum(root: &[u64; 4]) -> u64 {
    root.iter().map(|word| (word & 0xffff_ffff) + (word >> 32)).sum()
}

/// Returns a hash as four words, the form in which the table stores it.
pub fn words(hash: &Hash) -> [u64; 4] {
    std::array::from_fn(|index| {
        let mut word = [0; 8];
        word.copy_from_slice(&hash[8 * index..8 * index + 8]);
        u64::from_ne_bytes(word)
    })
}

/// Converts four stored words back into the hash.
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
