//! The only writer of the fast-path table. Any number of threads read the table at the same time.

use crate::chain::Tip;
use crate::layout::{SpvBlock, SpvLine};
use crate::ring::Ring;
use crate::store::{self, Hash, Store};
use lineside_spv_proof::{Tree, depth_of};
use lineside_wire::SPV_HEADER_BYTES;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{Ordering::Relaxed, Ordering::Release, fence};

/// Data of a block that the fast path needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockRef {
    /// Hash of the header.
    pub hash: Hash,
    /// Merkle root.
    pub root: Hash,
    /// Height, or [`lineside_wire::SPV_HEIGHT_UNKNOWN`].
    pub height: u32,
}

/// Slot of a block in the fast path, valid until the block is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    slot: u32,
    generation: u32,
}

impl Ticket {
    /// Returns the slot of the block.
    pub(crate) const fn slot(self) -> u32 {
        self.slot
    }
}

/// Counters of a writer, for the metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriterCounts {
    /// Number of cache lines written.
    pub fills: u64,
    /// Number of fills that replaced a valid line of another TXID.
    pub conflicts: u64,
    /// Number of cleared lines and dropped blocks.
    pub invalidations: u64,
    /// Number of fills that were refused because their block had been dropped.
    pub late_fills: u64,
    /// Number of Merkle trees written.
    pub tree_fills: u64,
    /// Number of trees that a newer tree overwrote.
    pub tree_evictions: u64,
    /// Number of slots of the block table that are in use now.
    pub used_blocks: u64,
    /// Number of nodes of trees that are in use now.
    pub used_nodes: u64,
}

/// Interface by which the host writes into the fast-path table of `spv`.
pub trait SpvFill {
    /// Makes the fast path forward everything until [`SpvFill::commit`].
    fn begin(&mut self);
    /// Makes the fast path answer again, at this tip, after a change of the chain. `chain_state` is the value of
    /// `Chain::state`.
    fn commit(&mut self, tip: &Tip, chain_state: u64);
    /// Returns a ticket for the slot of `block`, which keeps this slot until it is dropped.
    fn admit(&mut self, block: &BlockRef) -> Ticket;
    /// Caches that `txid` is in the block of `ticket`, at position `index`. Returns false if the block has been
    /// dropped, or if its Merkle root equals `txid`: in the paper's format this reply would itself be a valid request,
    /// so only the host sends it, at a limited rate.
    fn fill(&mut self, txid: &Hash, ticket: Ticket, index: u32) -> bool;
    /// Caches the tree of the block of `ticket`, so that the fast path can prove the block's cached TXIDs. The tree
    /// overwrites the oldest trees. Returns false if the block has been dropped, or if its tree does not fit.
    fn fill_tree(&mut self, ticket: Ticket, header: &[u8; SPV_HEADER_BYTES], tree: &Tree) -> bool;
    /// Returns the number of nodes available for all cached trees; 0: trees are not cached.
    fn tree_nodes(&self) -> u32;
    /// Removes `txid`; returns true if it was cached.
    fn invalidate(&mut self, txid: &Hash) -> bool;
    /// Removes the block with all its lines; returns true if the block had a slot.
    fn drop_block(&mut self, hash: &Hash) -> bool;
    /// Returns the counters.
    fn counts(&self) -> WriterCounts;
}

/// Writer of a [`Store`] in shared memory: anonymous memory or BPF maps.
pub struct StoreWriter {
    store: Arc<Store>,
    slots: HashMap<Hash, u32>,
    owners: HashMap<u32, Hash>,
    next_slot: u32,
    ring: Ring,
    random: u64,
    counts: WriterCounts,
}

impl StoreWriter {
    /// Clears `store` and returns its only writer.
    pub fn new(store: Arc<Store>) -> Self {
        let writer = Self::over(store, 0x9e37_79b9_7f4a_7c15);
        writer.clear();
        writer
    }

    fn over(store: Arc<Store>, random: u64) -> Self {
        // The sizes are those of the memory, because the geometry may not be written into the table yet.
        let nodes = match store.trees.as_slice().len() as u32 {
            store::TREE_ALIGN => 0,
            nodes => nodes,
        };
        Self {
            store,
            slots: HashMap::new(),
            owners: HashMap::new(),
            next_slot: 0,
            ring: Ring::new(nodes),
            random,
            counts: WriterCounts::default(),
        }
    }

    /// Returns the only writer of `store`, after an earlier writer that may have ended at any point. If the chain is in
    /// the state in which the store was filled, valid entries are kept. Otherwise, or if the earlier writer ended
    /// during a change of the chain, the store is cleared. The second value is true if the contents were kept.
    pub fn adopt(store: Arc<Store>, chain_state: u64) -> (Self, bool) {
        let control = store.control();
        let is_current =
            control.epoch.load(Relaxed) & 1 == 0 && control.chain_state.load(Relaxed) == chain_state;
        if !is_current {
            return (Self::new(store), false);
        }
        let mut writer = Self::over(Arc::clone(&store), control.epoch.load(Relaxed) | 1);
        writer.begin();
        for line in store.lines.as_slice() {
            let generation = line.generation.load(Relaxed);
            let block = store.blocks.as_slice().get(line.block.load(Relaxed) as usize);
            let of_block = block.map(|block| block.generation.load(Relaxed));
            let is_valid = generation == 0 || (generation & 1 == 0 && of_block == Some(generation));
            // A line that is invalid now must not become valid when a block's generation is increased below.
            if line.seq.load(Relaxed) & 1 != 0 || !is_valid {
                write_line(line, line.seq.load(Relaxed) & !1, &[0; 4], LineContent::NONE);
            }
        }
        for (slot, block) in store.blocks.as_slice().iter().enumerate() {
            let generation = block.generation.load(Relaxed);
            let hash = store::bytes(&store::load(&block.hash));
            let is_kept = generation & 1 == 0 && generation != 0 && !writer.slots.contains_key(&hash);
            if is_kept {
                writer.slots.insert(hash, slot as u32);
                writer.owners.insert(slot as u32, hash);
                writer.next_slot = (slot as u32 + 1) & control.block_mask.load(Relaxed);
            } else if generation != 0 {
                block.generation.store(next_generation(generation), Release);
            }
            if !is_kept || !writer.adopt_tree(slot as u32) {
                block.tree.store(0, Relaxed);
            }
        }
        let epoch = control.epoch.load(Relaxed);
        control.epoch.store(epoch.wrapping_add(1), Release);
        (writer, true)
    }

    /// Takes over the tree that an earlier writer stored for the block in `slot`. A writer stores a block's reference
    /// to a tree after the tree and clears it before the nodes change, so a tree with a reference is complete.
    fn adopt_tree(&mut self, slot: u32) -> bool {
        let block = self.block(slot);
        let (word, count) = (block.tree.load(Relaxed), block.transactions.load(Relaxed));
        let depth = block.depth.load(Relaxed) as usize;
        match store::nodes_of(count) {
            Some(nodes) if word != 0 && depth == depth_of(count) => self.ring.adopt(nodes, slot, word),
            _ => false,
        }
    }

    /// Returns the slot of the block with this hash; `None` if the block has no slot.
    pub(crate) fn slot_of(&self, hash: &Hash) -> Option<u32> {
        self.slots.get(hash).copied()
    }

    fn clear(&self) {
        let control = self.store.control();
        let epoch = control.epoch.load(Relaxed) | 1;
        control.epoch.store(epoch, Relaxed);
        fence(Release);
        for block in self.store.blocks.as_slice() {
            let generation = block.generation.load(Relaxed);
            if generation != 0 {
                block.generation.store(next_generation(generation), Release);
            }
            block.tree.store(0, Relaxed);
        }
        for line in self.store.lines.as_slice() {
            let seq = line.seq.load(Relaxed);
            if line.generation.load(Relaxed) != 0 || seq & 1 != 0 {
                write_line(line, seq & !1, &[0; 4], LineContent::NONE);
            }
        }
        control.epoch.store(epoch.wrapping_add(1), Release);
    }

    fn block(&self, slot: u32) -> &SpvBlock {
        &self.store.blocks.as_slice()[slot as usize]
    }

    fn is_valid(&self, line: &SpvLine) -> bool {
        let generation = line.generation.load(Relaxed);
        generation != 0 && self.block(line.block.load(Relaxed)).generation.load(Relaxed) == generation
    }

    /// Chooses at random which line of a full set is replaced (xorshift64).
    fn random_way(&mut self, ways: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random as usize % ways
    }

    fn end_generation(&mut self, slot: u32) {
        let block = self.block(slot);
        let generation = block.generation.load(Relaxed);
        block.generation.store(next_generation(generation), Release);
        block.tree.store(0, Relaxed);
        self.counts.invalidations += 1;
    }
}

/// Returns the next even generation; odd generations mark a block that is being written.
fn next_generation(generation: u32) -> u32 {
    match (generation | 1).wrapping_add(1) {
        0 => 2,
        next => next,
    }
}

/// Contents of a line except its TXID.
#[derive(Clone, Copy)]
struct LineContent {
    block: u32,
    generation: u32,
    index: u32,
}

impl LineContent {
    /// Contents of an empty line.
    const NONE: Self = Self {
        block: 0,
        generation: 0,
        index: 0,
    };
}

fn write_line(line: &SpvLine, seq: u64, txid: &[u64; 4], spot: LineContent) {
    line.seq.store(seq | 1, Relaxed);
    fence(Release);
    store::save(&line.txid, txid);
    line.block.store(spot.block, Relaxed);
    line.generation.store(spot.generation, Relaxed);
    line.index.store(spot.index, Relaxed);
    line.seq.store((seq | 1).wrapping_add(1), Release);
}

impl SpvFill for StoreWriter {
    fn begin(&mut self) {
        let control = self.store.control();
        let epoch = control.epoch.load(Relaxed) | 1;
        control.epoch.store(epoch, Relaxed);
        fence(Release);
    }

    fn commit(&mut self, tip: &Tip, chain_state: u64) {
        let control = self.store.control();
        store::save(&control.tip_hash, &store::words(&tip.hash));
        control.tip_height.store(tip.height, Relaxed);
        control.chain_state.store(chain_state, Relaxed);
        let epoch = control.epoch.load(Relaxed) | 1;
        control.epoch.store(epoch.wrapping_add(1), Release);
    }

    fn admit(&mut self, block: &BlockRef) -> Ticket {
        if let Some(&slot) = self.slots.get(&block.hash) {
            return Ticket {
                slot,
                generation: self.block(slot).generation.load(Relaxed),
            };
        }
        let slot = self.next_slot;
        self.next_slot = (slot + 1) & self.store.control().block_mask.load(Relaxed);
        if let Some(old) = self.owners.insert(slot, block.hash) {
            self.slots.remove(&old);
        }
        let entry = self.block(slot);
        let generation = next_generation(entry.generation.load(Relaxed));
        entry.generation.store(generation - 1, Relaxed);
        fence(Release);
        let root = store::words(&block.root);
        store::save(&entry.root, &root);
        entry.root_sum.store(store::root_sum(&root), Relaxed);
        store::save(&entry.hash, &store::words(&block.hash));
        entry.height.store(block.height, Relaxed);
        entry.tree.store(0, Relaxed);
        entry.generation.store(generation, Release);
        self.slots.insert(block.hash, slot);
        Ticket { slot, generation }
    }

    fn fill(&mut self, txid: &Hash, ticket: Ticket, index: u32) -> bool {
        if self.block(ticket.slot).generation.load(Relaxed) != ticket.generation {
            self.counts.late_fills += 1;
            return false;
        }
        let txid = store::words(txid);
        if store::load(&self.block(ticket.slot).root) == txid {
            return false;
        }
        let store = Arc::clone(&self.store);
        let set = store.set(&txid);
        // A set never holds two lines with the same first word: readers use the first line that matches it.
        let same = set.iter().find(|line| line.txid[0].load(Relaxed) == txid[0]);
        let line = match same.or_else(|| set.iter().find(|line| !self.is_valid(line))) {
            Some(line) => {
                let other = self.is_valid(line) && store::load(&line.txid) != txid;
                self.counts.conflicts += u64::from(other);
                line
            }
            None => {
                self.counts.conflicts += 1;
                &set[self.random_way(set.len())]
            }
        };
        let spot = LineContent {
            block: ticket.slot,
            generation: ticket.generation,
            index,
        };
        write_line(line, line.seq.load(Relaxed), &txid, spot);
        self.counts.fills += 1;
        true
    }

    fn fill_tree(&mut self, ticket: Ticket, header: &[u8; SPV_HEADER_BYTES], tree: &Tree) -> bool {
        let store = Arc::clone(&self.store);
        let block = &store.blocks.as_slice()[ticket.slot as usize];
        if block.generation.load(Relaxed) != ticket.generation {
            self.counts.late_fills += 1;
            return false;
        }
        if block.tree.load(Relaxed) != 0 {
            // The table already has the tree of this block.
            return true;
        }
        let count = tree.transaction_count();
        let taken_region = store::nodes_of(count).and_then(|nodes| self.ring.take(nodes, ticket.slot));
        let Some((word, evicted)) = taken_region else {
            return false;
        };
        for region in evicted {
            let old = self.block(region.slot);
            if old.tree.load(Relaxed) == region.word {
                old.tree.store(0, Relaxed);
                self.counts.tree_evictions += 1;
            }
        }
        // A reader that sees a new node also sees that the reference to the overwritten tree was cleared.
        fence(Release);
        let places = &store.trees.as_slice()[word as u32 as usize..];
        let head = store::head_nodes(header);
        for (slot, node) in places.iter().zip(head.iter().chain(tree.nodes())) {
            store::save(&slot.hash, &store::words(node));
        }
        block.transactions.store(count, Relaxed);
        block.depth.store(tree.depth() as u32, Relaxed);
        block.tree.store(word, Release);
        self.counts.tree_fills += 1;
        true
    }

    fn tree_nodes(&self) -> u32 {
        self.ring.nodes()
    }

    fn invalidate(&mut self, txid: &Hash) -> bool {
        let txid = store::words(txid);
        let mut has_cleared = false;
        for line in self.store.set(&txid) {
            if line.generation.load(Relaxed) != 0 && store::load(&line.txid) == txid {
                write_line(line, line.seq.load(Relaxed), &[0; 4], LineContent::NONE);
                has_cleared = true;
            }
        }
        self.counts.invalidations += u64::from(has_cleared);
        has_cleared
    }

    fn drop_block(&mut self, hash: &Hash) -> bool {
        match self.slots.remove(hash) {
            Some(slot) => {
                self.owners.remove(&slot);
                self.end_generation(slot);
                true
            }
            None => false,
        }
    }

    fn counts(&self) -> WriterCounts {
        WriterCounts {
            used_blocks: self.slots.len() as u64,
            used_nodes: self.ring.used(),
            ..self.counts
        }
    }
}
