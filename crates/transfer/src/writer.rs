//! The host's hand in the fast path, in `durable`: what is on the disk becomes what the fast path refers to.

use crate::AccountId;
use crate::cell::{self, Held};
use crate::claims::Slot;
use crate::ledger::{AHEAD, Change, Session};
use crate::paper::PaperLast;
use crate::store::Store;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, Release};

/// Takes what changed, when it is on the disk.
pub trait TransferFill: Send {
    /// Shows these changes: those of one step all at once, steps in their order. Accounts that find no room stay
    /// unknown to the fast path, which then must not say so: the number of them is returned.
    fn apply(&mut self, changes: &[Change]) -> usize;
}

/// Writes into a [`Store`]. There is one; programs of XDP and the threads of the socket datapath read meanwhile.
pub struct StoreWriter {
    store: Arc<Store>,
    /// The cells of the step at hand, and what they shall hold.
    step: Vec<(usize, Change)>,
}

impl StoreWriter {
    /// The writer of a store that nobody else writes to.
    pub fn new(store: Arc<Store>) -> Self {
        Self {
            store,
            step: Vec::new(),
        }
    }

    /// The cell of an account: a new one where it has none.
    fn cell_of(&self, account: &AccountId) -> Option<usize> {
        if let Some(index) = self.store.find(account) {
            return Some(index);
        }
        let index = self.store.vacancy(self.store.buckets(account.words()))?;
        let cell = &self.store.cells.as_slice()[index];
        for (place, word) in cell.id.iter().zip(account.words()) {
            place.store(word, Relaxed);
        }
        Some(index)
    }

    /// All cells of the step are locked, then all are written: nobody sees one without the others.
    fn show(&mut self) {
        let cells = self.store.cells.as_slice();
        // Where a step changes an account twice, the later one counts; locks are taken in the order of the cells.
        self.step.sort_by_key(|(index, change)| (*index, change.version));
        self.step.dedup_by(|later, earlier| {
            let same = later.0 == earlier.0;
            if same {
                earlier.1 = later.1;
            }
            same
        });
        let held: Vec<Held<'_>> = self
            .step
            .iter()
            .map(|(index, _)| cell::lock_surely(&cells[*index].lock))
            .collect();
        for (index, change) in &self.step {
            cell::save(&cells[*index], &change.holding, change.version);
        }
        drop(held);
        self.step.clear();
    }
}

impl TransferFill for StoreWriter {
    fn apply(&mut self, changes: &[Change]) -> usize {
        let mut homeless = 0;
        let mut found = [None; AHEAD];
        for (at, change) in changes.iter().enumerate() {
            if at % AHEAD == 0 {
                // One after the other each cell would be waited for; looked up together they come side by side.
                for (found, change) in found.iter_mut().zip(&changes[at..]) {
                    *found = self.store.find(&change.account);
                }
            }
            match found[at % AHEAD].or_else(|| self.cell_of(&change.account)) {
                Some(index) => self.step.push((index, *change)),
                None => homeless += 1,
            }
            let step_ends = changes.get(at + 1).is_none_or(|next| next.step != change.step);
            // A new cell is found by its id only once it is shown, so a step that makes two must show the first.
            let makes_a_cell = self.step.last().is_some_and(|(_, change)| change.version == 1);
            if step_ends || makes_a_cell {
                self.show();
            }
        }
        homeless
    }
}

/// Writes down an account's last numbered request. The fast path rests, or the account is claimed; it may have found no
/// room.
pub(crate) fn show_last(store: &Store, account: &AccountId, last: Option<&PaperLast>) {
    if let (Some(index), Some(last)) = (store.find(account), last) {
        cell::save_last(&store.paper.as_slice()[index], last);
    }
}

/// Writes down a session, or that there is none. The fast path rests, or does not know the session yet.
pub(crate) fn show_session(store: &Store, slot: u32, session: Option<&Session>) {
    let Some(place) = store.sessions.as_slice().get(slot as usize) else {
        return;
    };
    // Without a token nobody uses it.
    place.token.store(0, Release);
    let Some(session) = session else { return };
    Slot::of(slot, Some(session)).save(place);
    place.token.store(session.token, Release);
}
