//! Claims: accounts and sessions that the host has taken from the fast path for a while, in `express`.
//!
//! The fast path only reads claimed accounts, and forwards every request that would change them to the host. The host
//! can therefore execute requests that the fast path cannot, while the fast path continues with all other accounts.
//! When the host has a claim, the rings contain everything that the fast path did to these accounts before, because the
//! fast path writes a record before it releases the locks. A claim ends with the host process: the next host starts
//! with [`Store::free`].

use crate::AccountId;
use crate::cell::{self, CellGuard};
use crate::layout::{TransferCell, TransferSession};
use crate::ledger::{Change, Session};
use crate::store::Store;
use lineside_wire::TRANSFER_CELL_CLAIMED;
use std::fmt::Debug;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, Release};

/// Maximum number of cells in one [`Claims::put`].
pub const STEP_CELLS_MAX: usize = 32;

/// New content of a session's slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slot {
    /// Index of the slot.
    pub slot: u32,
    /// Number of operations of the last packet.
    pub count: u32,
    /// Token of the session; 0 if it was closed.
    pub token: u64,
    /// Sequence number of the last packet.
    pub sequence: u64,
    /// Checksum of its operations ([`crate::native::sum`]).
    pub sum: u64,
    /// Codes of its operations, 16 bits each.
    pub codes: u64,
    /// Amounts in its replies.
    pub amounts: [u64; 4],
}

impl Slot {
    /// Returns the content for a session; `None` means that the session no longer exists.
    pub(crate) fn of(slot: u32, session: Option<&Session>) -> Self {
        let mut own = Self {
            slot,
            ..Self::default()
        };
        if let Some(session) = session {
            for (index, outcome) in session.outcomes.iter().take(own.amounts.len()).enumerate() {
                own.codes |= u64::from(outcome.code as u16) << (16 * index);
                own.amounts[index] = outcome.amount;
            }
            own.count = session.outcomes.len() as u32;
            own.token = session.token;
            own.sequence = session.sequence;
            own.sum = session.sum;
        }
        own
    }

    /// Writes everything except the token into the session's slot of the fast-path table.
    pub(crate) fn save(&self, place: &TransferSession) {
        for (to, amount) in place.amounts.iter().zip(self.amounts) {
            to.store(amount, Relaxed);
        }
        place.codes.store(self.codes, Relaxed);
        place.count.store(self.count, Relaxed);
        place.sum.store(self.sum, Relaxed);
        place.sequence.store(self.sequence, Relaxed);
    }
}

/// Takes accounts and sessions from the fast path and gives them back. Only the host has an implementation.
pub trait Claims: Debug {
    /// Claims cells and sessions. From then on the fast path does not change them, and everything that it has done to
    /// them is in the rings.
    ///
    /// # Errors
    /// Fails if a lock was held during all attempts; some cells may be claimed then. Returns errors of the system.
    fn claim(&self, cells: &[u32], slots: &[u32]) -> io::Result<()>;

    /// Writes one step atomically: at most [`STEP_CELLS_MAX`] cells that are and remain claimed, each once, in
    /// ascending order.
    ///
    /// # Errors
    /// Fails as [`Self::claim`] does; in that case nothing was written.
    fn put(&self, step: &[(u32, Change)]) -> io::Result<()>;

    /// Writes a session that is and remains claimed.
    ///
    /// # Errors
    /// Fails as [`Self::claim`] does; in that case nothing was written.
    fn put_session(&self, slot: &Slot) -> io::Result<()>;

    /// Informs the fast path that the host has written these accounts and sessions into the table in memory: they are
    /// claimed, the fast path is paused, or it did not know the sessions. A fast path that answers from this memory
    /// needs nothing.
    fn shown(&self, _accounts: &[AccountId], _slots: &[u32]) {}

    /// Ends the claim: the fast path may change these cells and sessions again.
    ///
    /// # Errors
    /// Fails as [`Self::claim`] does.
    fn give_back(&self, cells: &[u32], slots: &[u32]) -> io::Result<()>;
}

/// Claims through the locks of a fast path that consists of threads of this process.
pub struct StoreClaims(Arc<Store>);

impl StoreClaims {
    /// Creates claims on accounts and sessions of this store.
    pub fn new(store: Arc<Store>) -> Self {
        Self(store)
    }

    fn cell(&self, index: u32) -> &TransferCell {
        &self.0.cells.as_slice()[index as usize]
    }

    fn session(&self, slot: u32) -> &TransferSession {
        &self.0.sessions.as_slice()[slot as usize]
    }
}

impl Debug for StoreClaims {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("StoreClaims")
    }
}

impl Claims for StoreClaims {
    fn claim(&self, cells: &[u32], slots: &[u32]) -> io::Result<()> {
        for cell in cells.iter().map(|index| self.cell(*index)) {
            let _held = cell::lock_surely(&cell.lock);
            cell.flags.fetch_or(TRANSFER_CELL_CLAIMED, Relaxed);
        }
        for session in slots.iter().map(|slot| self.session(*slot)) {
            let _held = cell::lock_surely(&session.lock);
            session.claimed.store(1, Relaxed);
        }
        Ok(())
    }

    fn put(&self, step: &[(u32, Change)]) -> io::Result<()> {
        let _held: Vec<CellGuard<'_>> = step
            .iter()
            .map(|(index, _)| cell::lock_surely(&self.cell(*index).lock))
            .collect();
        for (index, change) in step {
            let cell = self.cell(*index);
            cell::save(cell, &change.holding, change.version);
            cell.flags.fetch_or(TRANSFER_CELL_CLAIMED, Relaxed);
        }
        Ok(())
    }

    fn put_session(&self, slot: &Slot) -> io::Result<()> {
        let session = self.session(slot.slot);
        let _held = cell::lock_surely(&session.lock);
        slot.save(session);
        session.token.store(slot.token, Release);
        Ok(())
    }

    fn give_back(&self, cells: &[u32], slots: &[u32]) -> io::Result<()> {
        for cell in cells.iter().map(|index| self.cell(*index)) {
            let _held = cell::lock_surely(&cell.lock);
            cell.flags.fetch_and(!TRANSFER_CELL_CLAIMED, Relaxed);
        }
        for session in slots.iter().map(|slot| self.session(*slot)) {
            let _held = cell::lock_surely(&session.lock);
            session.claimed.store(0, Relaxed);
        }
        Ok(())
    }
}
