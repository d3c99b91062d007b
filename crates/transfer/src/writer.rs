//! Publishes committed balances to the fast-path table (mode `durable`).

use crate::AccountId;
use crate::cell::{self, CellGuard};
use crate::claims::Slot;
use crate::ledger::{Change, Ledger, PREFETCHED_OPERATIONS, Session};
use crate::paper::PaperLast;
use crate::store::Store;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, Release};

/// Receiver of changes that have become durable.
pub trait TransferFill: Send {
    /// Writes `changes` into the fast-path table, in the order of their steps. A reader sees all changes of a step or
    /// none; only a step that creates accounts may become visible in parts. Returns the number of changes that were not
    /// written because the table had no free cell for their account. The fast path does not know these accounts, and
    /// must not report that they do not exist.
    fn apply(&mut self, changes: &[Change]) -> usize;
}

/// Writes into a [`Store`]. There is only one writer; XDP programs and threads of the socket datapath read meanwhile.
pub struct StoreWriter {
    store: Arc<Store>,
    /// Cells of the current step, with their new content.
    step: Vec<(usize, Change)>,
}

impl StoreWriter {
    /// Creates the writer of a store, which must be the only one.
    pub fn new(store: Arc<Store>) -> Self {
        Self {
            store,
            step: Vec::new(),
        }
    }

    /// Returns the index of an account's cell; allocates a cell if the account has none.
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

    /// Locks all cells of the step and then writes all, so that no reader sees a part of the step.
    fn publish(&mut self) {
        let cells = self.store.cells.as_slice();
        // If a step changes an account twice, the later change counts. Locks are taken in the order of the cells.
        self.step.sort_by_key(|(index, change)| (*index, change.version));
        self.step.dedup_by(|later, earlier| {
            let same = later.0 == earlier.0;
            if same {
                earlier.1 = later.1;
            }
            same
        });
        let guards: Vec<CellGuard<'_>> = self
            .step
            .iter()
            .map(|(index, _)| cell::lock_surely(&cells[*index].lock))
            .collect();
        for (index, change) in &self.step {
            cell::save(&cells[*index], &change.holding, change.version);
        }
        drop(guards);
        self.step.clear();
    }
}

impl TransferFill for StoreWriter {
    fn apply(&mut self, changes: &[Change]) -> usize {
        let mut homeless = 0;
        let mut cells = [None; PREFETCHED_OPERATIONS];
        for (at, change) in changes.iter().enumerate() {
            if at % PREFETCHED_OPERATIONS == 0 {
                // Looking up several cells together lets their cache misses overlap.
                for (cell, change) in cells.iter_mut().zip(&changes[at..]) {
                    *cell = self.store.find(&change.account);
                }
            }
            match cells[at % PREFETCHED_OPERATIONS].or_else(|| self.cell_of(&change.account)) {
                Some(index) => self.step.push((index, *change)),
                None => homeless += 1,
            }
            let step_ends = changes.get(at + 1).is_none_or(|next| next.step != change.step);
            // The lookup finds a new cell only after the cell was written, so a step that creates two accounts must
            // write the first one early.
            let makes_a_cell = self.step.last().is_some_and(|(_, change)| change.version == 1);
            if step_ends || makes_a_cell {
                self.publish();
            }
        }
        homeless
    }
}

/// Publishes a whole ledger to the table of a fast path that is not executing: writes the accounts with `fill` and, if
/// the fast path is one that executes (mode `express`), also the last requests of the accounts and the sessions.
/// Returns the number of accounts that were not written because the table had no free cell for them.
pub fn show_ledger(ledger: &Ledger, store: &Store, fill: &mut dyn TransferFill) -> usize {
    let homeless = fill.apply(&ledger.all_as_changes());
    if store.is_express() {
        for (id, account) in ledger.accounts() {
            show_last(store, id, account.last.as_ref());
        }
        for slot in 0..ledger.limits().sessions {
            show_session(store, slot, ledger.session(slot));
        }
    }
    homeless
}

/// Writes an account's last request with a transaction id, if the account has a cell. The fast path must be paused, or
/// the host must have claimed the account.
pub(crate) fn show_last(store: &Store, account: &AccountId, last: Option<&PaperLast>) {
    if let (Some(index), Some(last)) = (store.find(account), last) {
        cell::save_last(&store.paper.as_slice()[index], last);
    }
}

/// Writes a session, or removes it. The fast path must be paused, or not know the session yet.
pub(crate) fn show_session(store: &Store, slot: u32, session: Option<&Session>) {
    let Some(place) = store.sessions.as_slice().get(slot as usize) else {
        return;
    };
    // The fast path ignores a slot without a token.
    place.token.store(0, Release);
    let Some(session) = session else { return };
    Slot::of(slot, Some(session)).save(place);
    place.token.store(session.token, Release);
}
