//! What readers see: the cells, the order of keys, where transactions are. Only what is durable is in it.

#[cfg(test)]
mod tests;

use crate::answer::{Answer, Cell};
use crate::block::{Hash, Header, SignedHead};
use crate::execute::Executed;
use crate::request::{MemberId, Version};
use crate::roster::Roster;
use crate::state::{SharedKey, Written};
use lineside_util::hex::to_hex;
use lineside_wire::HybridCode as Code;
use std::collections::{BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::Arc;

/// Bytes of keys and values in one answer, beyond which a range says that there is more.
const RANGE_BYTES: usize = 1 << 20;
/// Cells in one answer, at most.
const RANGE_CELLS: u32 = 10_000;

/// Where a transaction stands, and what became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its block, and its place there.
    pub version: Version,
    /// What became of it.
    pub code: Code,
}

/// A key that has, or had, a value.
struct Slot {
    cell: Option<Cell>,
    /// Versions of its writes before the last one, deletions among them.
    before: Vec<Version>,
    /// Of the last one.
    last: Version,
}

/// What readers see.
pub struct View {
    slots: HashMap<SharedKey, Slot>,
    /// Keys that have a value.
    order: BTreeSet<SharedKey>,
    transactions: HashMap<Hash, Place>,
    /// Of every block, from `base` on.
    hashes: Vec<Hash>,
    /// The block that the ledger begins with: genesis, or that of a snapshot.
    base: u64,
    tip: Header,
    roster: Arc<Roster>,
}

impl View {
    /// Of block 0.
    pub fn new(tip: Header, roster: Roster) -> View {
        View {
            slots: HashMap::new(),
            order: BTreeSet::new(),
            transactions: HashMap::new(),
            hashes: vec![tip.hash()],
            base: tip.number,
            tip,
            roster: Arc::new(roster),
        }
    }

    /// Of a snapshot's block. What became of transactions before it is not known, nor which writes came before each
    /// key's last.
    pub(crate) fn restored(tip: Header, roster: Roster, cells: Vec<(SharedKey, Cell)>) -> View {
        let mut view = View::new(tip, roster);
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

    /// The block that the ledger begins with; blocks up to it are not there to be read.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// The newest block's header.
    pub fn tip(&self) -> &Header {
        &self.tip
    }

    /// A block's hash.
    pub fn hash(&self, number: u64) -> Option<&Hash> {
        let place = number.checked_sub(self.base)?;
        self.hashes.get(usize::try_from(place).ok()?)
    }

    /// What there is to say where a node has signed another block of a number than is here. Of blocks before
    /// [`Self::base`] nothing is known.
    pub fn disagreement(&self, head: &SignedHead) -> Option<String> {
        let own = self.hash(head.number);
        if own == Some(&head.hash) || head.number < self.base {
            return None;
        }
        let own = own.map_or("no such block".into(), |own| to_hex(own));
        let (node, number, other) = (head.node, head.number, to_hex(&head.hash));
        Some(format!(
            "node {node} has signed {other} for block {number}; here it is {own}"
        ))
    }

    /// Who may do what.
    pub fn roster(&self) -> &Arc<Roster> {
        &self.roster
    }

    /// How many keys have a value.
    pub fn keys(&self) -> usize {
        self.order.len()
    }

    /// Where a transaction is.
    pub fn transaction(&self, id: &Hash) -> Option<Place> {
        self.transactions.get(id).copied()
    }

    /// A key's cell.
    pub fn cell(&self, key: &[u8]) -> Option<&Cell> {
        self.slots.get(key)?.cell.as_ref()
    }

    /// Versions of a key's writes behind [`Self::base`], the newest first.
    ///
    /// Versions are older than `than`, where it is given.
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

    /// Cells of keys from `start` on, before `stop` (empty: to the end), which the member may read; others are left
    /// out.
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
                if !self.roster.rights(member, key).read {
                    // Past all of them at once: there may be many, and blocks wait meanwhile.
                    next = self
                        .roster
                        .behind(key)
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

    /// Takes a block that is durable. `ids` are those of its requests.
    pub fn apply(&mut self, executed: Executed, ids: &[Hash]) {
        let number = executed.header.number;
        for written in executed.writes {
            self.write(written);
        }
        for ((id, code), index) in ids.iter().zip(&executed.codes).zip(0..) {
            if is_final(*code) {
                let version = Version { block: number, index };
                self.transactions.insert(*id, Place { version, code: *code });
            }
        }
        self.tip = executed.header;
        self.hashes.push(executed.hash);
        if let Some(roster) = executed.roster {
            self.roster = Arc::new(roster);
        }
    }

    fn write(&mut self, written: Written) {
        let Written { key, version, value } = written;
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

/// Whether a request with this code has used its nonce up: it stands here, and nowhere else.
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
