//! Writers that break a rule of the store on purpose. If a soak finds no fault with one of them, the soak does not
//! work.

use lineside_spv::chain::Tip;
use lineside_spv::store::{self, Hash, Store};
use lineside_spv::writer::{BlockRef, SpvFill, StoreWriter, Ticket, WriterCounts};
use lineside_spv_proof::Tree;
use lineside_wire::SPV_HEADER_BYTES;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, Release};

/// Rule that a writer breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sabotage {
    /// Lines of a disconnected block are not removed.
    KeepDropped,
    /// A line for a transaction is not replaced when a higher block contains the same transaction.
    KeepDuplicates,
    /// The epoch does not change when the chain changes.
    NoEpoch,
    /// A line is rewritten without a change of its sequence number.
    NoSequence,
    /// The table entry of a block is rewritten without a new generation.
    NoGeneration,
    /// A change does not wait for answers that still use the old data.
    NoGrace,
    /// A block keeps its tree when another block overwrites it.
    KeepTree,
}

impl Sabotage {
    /// All rules.
    pub const ALL: [Self; 7] = [
        Self::KeepDropped,
        Self::KeepDuplicates,
        Self::NoEpoch,
        Self::NoSequence,
        Self::NoGeneration,
        Self::NoGrace,
        Self::KeepTree,
    ];
}

/// Writer that breaks one rule.
pub struct Saboteur {
    store: Arc<Store>,
    inner: StoreWriter,
    fault: Sabotage,
    before: Option<(Hash, Ticket)>,
    last: Option<BlockRef>,
}

impl Saboteur {
    /// Returns the only writer of `store`, and empties the store.
    pub fn new(store: Arc<Store>, fault: Sabotage) -> Self {
        Self {
            inner: StoreWriter::new(Arc::clone(&store)),
            store,
            fault,
            before: None,
            last: None,
        }
    }

    /// Waits about as long as other writes take, so that a reader may read between two writes.
    fn dawdle() {
        for _ in 0..200 {
            std::hint::spin_loop();
        }
        std::thread::yield_now();
    }

    /// Makes the line of `txid` contain another transaction for a while, together with the block of `txid`.
    fn swap_line(&self, txid: &Hash, other: &Hash) {
        let (words, other) = (store::words(txid), store::words(other));
        let set = self.store.set(&other);
        let Some(line) = set.iter().find(|line| line.txid[0].load(Relaxed) == other[0]) else {
            return;
        };
        let (block, generation) = (line.block.load(Relaxed), line.generation.load(Relaxed));
        let own = self
            .store
            .set(&words)
            .iter()
            .find(|line| line.txid[0].load(Relaxed) == words[0]);
        let Some(own) = own.filter(|own| !std::ptr::eq(*own, line)) else {
            return;
        };
        // This imitates a writer that writes the block of the new line before its TXID.
        line.block.store(own.block.load(Relaxed), Relaxed);
        line.generation.store(own.generation.load(Relaxed), Release);
        Self::dawdle();
        line.block.store(block, Relaxed);
        line.generation.store(generation, Release);
    }

    /// Makes the table entry of a block contain half of another root for a while.
    fn mix_root(&self, block: &BlockRef, other: &BlockRef) {
        let root = store::words(&block.root);
        let places = self.store.blocks.as_slice().iter();
        let mut places = places.filter(|place| place.root[1].load(Relaxed) == root[1]);
        if let Some(place) = places.next() {
            place.root[3].store(store::words(&other.root)[3], Release);
            Self::dawdle();
            place.root[3].store(root[3], Release);
        }
    }
}

impl SpvFill for Saboteur {
    fn begin(&mut self) {
        if self.fault != Sabotage::NoEpoch {
            self.inner.begin();
        }
    }

    fn commit(&mut self, tip: &Tip, chain_state: u64) {
        if self.fault == Sabotage::NoEpoch {
            let control = self.store.control();
            control.tip_height.store(tip.height, Release);
            Self::dawdle();
            for (place, word) in control.tip_hash.iter().zip(store::words(&tip.hash)) {
                place.store(word, Release);
                Self::dawdle();
            }
        }
        self.inner.commit(tip, chain_state);
    }

    fn admit(&mut self, block: &BlockRef) -> Ticket {
        let ticket = self.inner.admit(block);
        if let (Sabotage::NoGeneration, Some(other)) = (self.fault, self.last.replace(*block)) {
            self.mix_root(block, &other);
        }
        ticket
    }

    fn fill(&mut self, txid: &Hash, ticket: Ticket, index: u32) -> bool {
        let filled = self.inner.fill(txid, ticket, index);
        if let (Sabotage::NoSequence, Some((other, of))) = (self.fault, self.before.replace((*txid, ticket)))
            && of != ticket
        {
            self.swap_line(txid, &other);
        }
        filled
    }

    fn fill_tree(&mut self, ticket: Ticket, header: &[u8; SPV_HEADER_BYTES], tree: &Tree) -> bool {
        let blocks = self.store.blocks.as_slice();
        let before: Vec<u64> = match self.fault {
            Sabotage::KeepTree => blocks.iter().map(|block| block.tree.load(Relaxed)).collect(),
            _ => Vec::new(),
        };
        let filled = self.inner.fill_tree(ticket, header, tree);
        for (block, tree) in blocks.iter().zip(before) {
            if tree != 0 && block.tree.load(Relaxed) == 0 {
                block.tree.store(tree, Release);
            }
        }
        filled
    }

    fn tree_nodes(&self) -> u32 {
        self.inner.tree_nodes()
    }

    fn invalidate(&mut self, txid: &Hash) -> bool {
        self.fault == Sabotage::KeepDuplicates || self.inner.invalidate(txid)
    }

    fn drop_block(&mut self, hash: &Hash) -> bool {
        self.fault == Sabotage::KeepDropped || self.inner.drop_block(hash)
    }

    fn counts(&self) -> WriterCounts {
        self.inner.counts()
    }
}
