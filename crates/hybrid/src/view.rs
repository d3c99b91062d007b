//! The view of readers: cells, keys in order, and outcomes of transactions. It contains only durable blocks.

#[cfg(test)]
mod tests;

use crate::answer::Answer;
use crate::execute::Executed;
use crate::membership::Membership;
use crate::state::WriteEffect;
use lineside_messages::hybrid::answer::Cell;
use lineside_messages::hybrid::answer::SharedKey;
use lineside_messages::hybrid::block::{Hash, Header, SignedHead};
use lineside_messages::hybrid::request::{MemberId, Version};
use lineside_util::hex::to_hex;
use lineside_wire::HybridCode as Code;
use std::collections::{BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::Arc;

/// Number of bytes of keys and values in an answer after which a range ends and reports that more keys follow.
const RANGE_BYTES: usize = 1 << 20;
/// Maximum number of cells in the answer to a range request.
const RANGE_CELLS: u32 = 10_000;

/// Position and outcome of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransactionOutcome {
    /// Block of the transaction, and the transaction's index in that block.
    pub version: Version,
    /// Outcome of the transaction.
    pub code: Code,
}

/// Cell and versions of a key that has, or had, a value.
struct Slot {
    cell: Option<Cell>,
    /// Versions of the key's writes before the last one, including deletions.
    before: Vec<Version>,
    /// Version of the key's last write.
    last: Version,
}

/// Content of the durable blocks, as readers see it.
pub struct ReadView {
    slots: HashMap<SharedKey, Slot>,
    /// Keys that have a value.
    order: BTreeSet<SharedKey>,
    transactions: HashMap<Hash, TransactionOutcome>,
    /// Hashes of block `base` and of all blocks after it.
    hashes: Vec<Hash>,
    /// Number of the block that the ledger begins with: 0 (the genesis), or the snapshot's block.
    base: u64,
    tip: Header,
    membership: Arc<Membership>,
}

impl ReadView {
    /// Creates the view of a ledger that has only block 0.
    pub fn new(tip: Header, membership: Membership) -> ReadView {
        ReadView {
            slots: HashMap::new(),
            order: BTreeSet::new(),
            transactions: HashMap::new(),
            hashes: vec![tip.hash()],
            base: tip.number,
            tip,
            membership: Arc::new(membership),
        }
    }

    /// Creates the view after a snapshot's block. It does not know outcomes of earlier transactions, or a key's writes
    /// before its last one.
    pub(crate) fn restored(tip: Header, membership: Membership, cells: Vec<(SharedKey, Cell)>) -> ReadView {
        let mut view = ReadView::new(tip, membership);
        view.slots.reserve(cells.len());
        for (key, cell) in cells {
            let slot = Slot {
                last: cell.version,
                cell: Some(cell),
                before: Vec::new(),
            };
            view.order.insert(key.clone());
            view.slots.insert(key, slot);
        }
        view
    }

    /// Returns the number of the block that the ledger begins with. Earlier blocks and this block itself cannot be
    /// read.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// Returns the header of the newest block.
    pub fn tip(&self) -> &Header {
        &self.tip
    }

    /// Returns the hash of a block; `None` if the view does not have it.
    pub fn hash(&self, number: u64) -> Option<&Hash> {
        let place = number.checked_sub(self.base)?;
        self.hashes.get(usize::try_from(place).ok()?)
    }

    /// Describes the conflict if a node's signed head is for another block than this ledger has. Returns `None` for
    /// blocks before [`Self::base`], because their hashes are not known.
    pub fn disagreement(&self, head: &SignedHead) -> Option<String> {
        let own = self.hash(head.number);
        if own == Some(&head.hash) || head.number < self.base {
            return None;
        }
        let own = own.map_or("no such block".into(), |own| to_hex(own));
        let (node, number, other) = (head.node, head.number, to_hex(&head.hash));
        Some(format!(
            "node {node} has signed {other} for block {number}; in this ledger it is {own}"
        ))
    }

    /// Returns the membership.
    pub fn membership(&self) -> &Arc<Membership> {
        &self.membership
    }

    /// Returns the number of keys that have a value.
    pub fn keys(&self) -> usize {
        self.order.len()
    }

    /// Returns the position and outcome of a transaction.
    pub fn transaction(&self, id: &Hash) -> Option<TransactionOutcome> {
        self.transactions.get(id).copied()
    }

    /// Returns the cell of a key.
    pub fn cell(&self, key: &[u8]) -> Option<&Cell> {
        self.slots.get(key)?.cell.as_ref()
    }

    /// Returns the versions of a key's writes after [`Self::base`], the newest first. If `than` is given, returns only
    /// versions older than it.
    pub fn versions(&self, key: &[u8], than: Option<Version>) -> impl Iterator<Item = Version> {
        let base = self.base;
        let is_older = move |version: &Version| than.is_none_or(|than| *version < than);
        let slot = self.slots.get(key);
        let before = slot.map(|slot| {
            let older = slot.before.partition_point(is_older);
            slot.before.iter().take(older).rev().copied()
        });
        slot.map(|slot| slot.last)
            .filter(is_older)
            .into_iter()
            .chain(before.into_iter().flatten())
            .take_while(move |version| version.block > base)
    }

    /// Returns the cells of keys from `start` (inclusive) to `stop` (exclusive; empty: no end). Leaves out cells that
    /// the member may not read.
    pub fn range(&self, member: MemberId, start: &[u8], stop: &[u8], limit: u32) -> Answer {
        let stop_at = match stop {
            [] => Bound::Unbounded,
            stop if stop <= start => {
                return Answer::Range {
                    cells: Vec::new(),
                    more: false,
                };
            }
            stop => Bound::Excluded(stop),
        };
        let limit = limit.min(RANGE_CELLS) as usize;
        let (mut cells, mut bytes) = (Vec::new(), 0);
        let mut next = Some(start.to_vec());
        while let Some(from) = next.take() {
            for key in self.order.range::<[u8], _>((Bound::Included(&from[..]), stop_at)) {
                if !self.membership.rights(member, key).read {
                    // Skips all unreadable keys in one step: there may be many, and new blocks wait for the view's lock
                    // meanwhile.
                    next = self
                        .membership
                        .next_rule_boundary(key)
                        .filter(|next| stop.is_empty() || &next[..] < stop);
                    break;
                }
                let Some(cell) = self.cell(key) else { continue };
                bytes += key.len() + cell.value.len();
                if cells.len() == limit || bytes > RANGE_BYTES && !cells.is_empty() {
                    return Answer::Range { cells, more: true };
                }
                cells.push((key.clone(), cell.clone()));
            }
        }
        Answer::Range { cells, more: false }
    }

    /// Adds a durable block to the view. `ids` are the ids of the block's requests.
    pub fn apply(&mut self, executed: Executed, ids: &[Hash]) {
        let number = executed.header.number;
        for written in executed.writes {
            self.write(written);
        }
        for ((id, code), index) in ids.iter().zip(&executed.codes).zip(0..) {
            if is_final(*code) {
                let version = Version { block: number, index };
                self.transactions
                    .insert(*id, TransactionOutcome { version, code: *code });
            }
        }
        self.tip = executed.header;
        self.hashes.push(executed.hash);
        if let Some(membership) = executed.membership {
            self.membership = Arc::new(membership);
        }
    }

    fn write(&mut self, written: WriteEffect) {
        let WriteEffect { key, version, value } = written;
        let cell = value.map(|value| Cell { version, value });
        let has = cell.is_some();
        let had = match self.slots.get_mut(&key) {
            None => {
                let slot = Slot {
                    cell,
                    before: Vec::new(),
                    last: version,
                };
                self.slots.insert(key.clone(), slot);
                false
            }
            Some(slot) => {
                slot.before.push(slot.last);
                slot.last = version;
                std::mem::replace(&mut slot.cell, cell).is_some()
            }
        };
        match (had, has) {
            (false, true) => {
                self.order.insert(key);
            }
            (true, false) => {
                self.order.remove(&key);
            }
            _ => {}
        }
    }
}

/// Returns true if a request with this code has used up its nonce. Such a request has exactly one outcome in the
/// ledger, which the view then has.
pub fn is_final(code: Code) -> bool {
    matches!(
        code,
        Code::Done
            | Code::Recorded
            | Code::Conflict
            | Code::NotAllowed
            | Code::BadChange
            | Code::TooManyVotes
    )
}
