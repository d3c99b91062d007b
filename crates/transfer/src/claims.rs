//! Accounts and sessions that the host has taken from the fast path for a while, in `express`.
//!
//! The fast path only reads what is claimed, and leaves every change of it to the host. So the host executes what the
//! fast path cannot while the fast path goes on with all other accounts. What was done before the claim is in the rings
//! by then, since a record is written before its locks are given back. A claim dies with the host: the next one starts
//! by [`Store::free`].

use crate::cell::{self, Held};
use crate::layout::{TransferCell, TransferSession};
use crate::ledger::{Change, Session};
use crate::store::Store;
use lineside_wire::TRANSFER_CELL_CLAIMED;
use std::fmt::Debug;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, Release};

/// Cells that may be put in one step.
pub const STEP_CELLS_MAX: usize = 32;

/// What a session's slot is to hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slot {
    /// Which.
    pub slot: u32,
    /// Operations of the last packet.
    pub count: u32,
    /// 0: it was closed.
    pub token: u64,
    /// Of the last packet.
    pub sequence: u64,
    /// Of its operations.
    pub sum: u64,
    /// Of its operations, 16 bits each.
    pub codes: u64,
    /// Of its replies.
    pub amounts: [u64; 4],
}

impl Slot {
    /// What the fast path is to hold of a session; `None`: there is none any more.
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

    /// Writes it down, but for the token.
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

/// Takes accounts and sessions from the fast path and gives them back. The host alone has one.
pub trait Claims: Debug {
    /// From now on the fast path changes none of these cells and sessions. All that it has done to them is in the
    /// rings.
    ///
    /// # Errors
    /// A lock that was held all the time; some may be claimed then. What the system says.
    fn claim(&self, cells: &[u32], slots: &[u32]) -> io::Result<()>;

    /// Shows one step, all of it at once: at most [`STEP_CELLS_MAX`] cells that are claimed and stay so, each once, in
    /// their order.
    ///
    /// # Errors
    /// As [`Self::claim`]; nothing was shown then.
    fn put(&self, step: &[(u32, Change)]) -> io::Result<()>;

    /// Shows a session that is claimed and stays so.
    ///
    /// # Errors
    /// As [`Self::claim`]; nothing was shown then.
    fn put_session(&self, slot: &Slot) -> io::Result<()>;

    /// The fast path goes on with these.
    ///
    /// # Errors
    /// As [`Self::claim`].
    fn give_back(&self, cells: &[u32], slots: &[u32]) -> io::Result<()>;
}

/// Claims by the locks of a fast path that is threads of this process.
pub struct StoreClaims(Arc<Store>);

impl StoreClaims {
    /// Claims in this store.
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
        let _held: Vec<Held<'_>> = step
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
