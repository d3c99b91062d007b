//! Deliberately broken rules of the host. The simulation must detect each of them; this tests the simulation itself.

use lineside_spv::chain::Tip;
use lineside_spv::store::Hash;
use lineside_spv::writer::{BlockRef, SpvFill, StoreWriter, Ticket, WriterCounts};
use lineside_spv_proof::Tree;
use lineside_wire::SPV_HEADER_BYTES;
use std::collections::HashMap;

/// Rule of the host that a simulation breaks, and the resulting behaviour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sabotage {
    /// A block is disconnected after the next blocks are connected, not before.
    LateDisconnect,
    /// Fills in progress arrive after their block was disconnected.
    LateFill,
    /// Replies contain the tip of the previous state of the chain.
    OldTip,
    /// Requests are answered from blocks that do not have enough confirmations yet.
    Unconfirmed,
    /// A lost notification is never compensated by polling.
    NoPolling,
    /// A chain with less work is accepted.
    LessWork,
}

impl Sabotage {
    pub const ALL: [Self; 6] = [
        Self::LateDisconnect,
        Self::LateFill,
        Self::OldTip,
        Self::Unconfirmed,
        Self::NoPolling,
        Self::LessWork,
    ];
}

/// Cache lines and tree of a block that the host wrote into the fast path.
struct Filled {
    block: BlockRef,
    lines: Vec<(Hash, u32)>,
    tree: Option<([u8; SPV_HEADER_BYTES], Tree)>,
}

/// Writer of the fast path with at most one deliberate fault.
pub struct Saboteur {
    inner: StoreWriter,
    fault: Option<Sabotage>,
    /// Blocks that earlier changes dropped, or should have dropped. The first list is of the time since the last new
    /// tip, the second of the time before it.
    late: [Vec<Hash>; 2],
    filled: HashMap<Hash, Filled>,
    /// Block of the last ticket.
    admitted: Option<BlockRef>,
    tip: Option<Tip>,
}

impl Saboteur {
    pub fn new(inner: StoreWriter, fault: Option<Sabotage>) -> Self {
        Self {
            inner,
            fault,
            late: Default::default(),
            filled: HashMap::new(),
            admitted: None,
            tip: None,
        }
    }

    fn note(&mut self) -> Option<&mut Filled> {
        let block = self.admitted.filter(|_| self.fault == Some(Sabotage::LateFill))?;
        Some(self.filled.entry(block.hash).or_insert_with(|| Filled {
            block,
            lines: Vec::new(),
            tree: None,
        }))
    }

    /// Writes the earlier lines and tree of a block again.
    fn fill_again(&mut self, hash: &Hash) {
        let Some(filled) = self.filled.remove(hash) else {
            return;
        };
        let ticket = self.inner.admit(&filled.block);
        for (txid, index) in &filled.lines {
            self.inner.fill(txid, ticket, *index);
        }
        if let Some((header, tree)) = &filled.tree {
            self.inner.fill_tree(ticket, header, tree);
        }
    }
}

impl SpvFill for Saboteur {
    fn begin(&mut self) {
        self.inner.begin();
    }

    fn commit(&mut self, tip: &Tip, chain_state: u64) {
        let before = self.tip.replace(*tip).unwrap_or(*tip);
        let said = if self.fault == Some(Sabotage::OldTip) {
            before
        } else {
            *tip
        };
        self.inner.commit(&said, chain_state);
        if tip.height < before.height {
            // The new blocks are connected before the old one is dropped, so do not drop it yet.
            return;
        }
        let [now, before] = &mut self.late;
        match self.fault {
            Some(Sabotage::LateFill) => {
                for hash in std::mem::take(now) {
                    self.fill_again(&hash);
                }
            }
            // Drop the blocks of the previous change. Until now the fast path answered from them at the new tip.
            _ => {
                for hash in std::mem::replace(before, std::mem::take(now)) {
                    self.inner.drop_block(&hash);
                }
            }
        }
    }

    fn admit(&mut self, block: &BlockRef) -> Ticket {
        self.admitted = Some(*block);
        self.inner.admit(block)
    }

    fn fill(&mut self, txid: &Hash, ticket: Ticket, index: u32) -> bool {
        if let Some(filled) = self.note() {
            filled.lines.push((*txid, index));
        }
        self.inner.fill(txid, ticket, index)
    }

    fn fill_tree(&mut self, ticket: Ticket, header: &[u8; SPV_HEADER_BYTES], tree: &Tree) -> bool {
        if let Some(filled) = self.note() {
            filled.tree = Some((*header, tree.clone()));
        }
        self.inner.fill_tree(ticket, header, tree)
    }

    fn tree_nodes(&self) -> u32 {
        self.inner.tree_nodes()
    }

    fn invalidate(&mut self, txid: &Hash) -> bool {
        self.inner.invalidate(txid)
    }

    fn drop_block(&mut self, hash: &Hash) -> bool {
        match self.fault {
            Some(Sabotage::LateDisconnect) => {
                self.late[0].push(*hash);
                true
            }
            Some(Sabotage::LateFill) => {
                self.late[0].push(*hash);
                self.inner.drop_block(hash)
            }
            _ => self.inner.drop_block(hash),
        }
    }

    fn counts(&self) -> WriterCounts {
        self.inner.counts()
    }
}
