//! Reading and changing cells that others read and change at the same time.
//!
//! A cell is changed under its lock, a word that is taken by compare-and-exchange and given back by a store. Who needs
//! two takes that of the lower index first. Nobody waits for long: after [`SPINS`] tries the answer is `busy`. XDP
//! programs take the same locks in the same order (`xdp/transfer_cell.h`); they cannot be stopped while they hold one.
//! Why not the kernel's own locks: `docs/decisions/transfer-locks.md`.

use crate::layout::{TransferCell, TransferPaper};
use crate::paper::{PaperAnswer, PaperLast, PaperRequest};
use crate::rules::Holding;
use lineside_wire::{TRANSFER_CELL_CLAIMED, TRANSFER_CELL_FROZEN, TRANSFER_CELL_VALID, TransferCode};
use std::hint::spin_loop;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, fence};

/// Tries until a lock counts as busy: some microseconds, where a change takes a tenth of one.
const SPINS: u32 = 1024;

/// A lock that is held; given back when dropped.
pub(crate) struct Held<'a>(&'a AtomicU32);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.store(0, Release);
    }
}

/// Takes a lock; `None`: somebody else held it all the time.
pub(crate) fn lock(word: &AtomicU32) -> Option<Held<'_>> {
    for _ in 0..SPINS {
        if word.compare_exchange_weak(0, 1, Acquire, Relaxed).is_ok() {
            // Readers that see anything written from here on also see the lock.
            fence(Release);
            return Some(Held(word));
        }
        spin_loop();
    }
    None
}

/// Whether the host has claimed the cell, under its lock.
pub(crate) fn is_claimed(cell: &TransferCell) -> bool {
    cell.flags.load(Relaxed) & TRANSFER_CELL_CLAIMED != 0
}

/// What a cell holds and how often it has changed, under its lock.
pub(crate) fn load(cell: &TransferCell) -> (Holding, u64) {
    let holding = Holding {
        balance: cell.balance.load(Relaxed),
        held_out: cell.held_out.load(Relaxed),
        held_in: cell.held_in.load(Relaxed),
        frozen: cell.flags.load(Relaxed) & TRANSFER_CELL_FROZEN != 0,
    };
    (holding, cell.version.load(Relaxed))
}

/// Changes a cell, under its lock. Every change has another version.
pub(crate) fn save(cell: &TransferCell, holding: &Holding, version: u64) {
    cell.balance.store(holding.balance, Relaxed);
    cell.held_out.store(holding.held_out, Relaxed);
    cell.held_in.store(holding.held_in, Relaxed);
    let frozen = if holding.frozen { TRANSFER_CELL_FROZEN } else { 0 };
    cell.flags.store(TRANSFER_CELL_VALID | frozen, Release);
    cell.version.store(version, Relaxed);
}

/// What a cell holds, without its lock but never in the middle of a change; `None`: it was being changed all the time.
pub(crate) fn read(cell: &TransferCell) -> Option<(Holding, u64)> {
    for _ in 0..SPINS {
        let version = cell.version.load(Acquire);
        if cell.lock.load(Acquire) == 0 {
            let (holding, _) = load(cell);
            fence(Acquire);
            if cell.lock.load(Relaxed) == 0 && cell.version.load(Relaxed) == version {
                return Some((holding, version));
            }
        }
        spin_loop();
    }
    None
}

/// The last numbered request of an account, under its cell's lock.
pub(crate) fn load_last(place: &TransferPaper, source: u32) -> Option<PaperLast> {
    let last_id = place.last_id.load(Relaxed);
    if last_id == 0 {
        return None;
    }
    let command = place.command.load(Relaxed);
    let destination = place.destination.load(Relaxed);
    let amount = place.amount.load(Relaxed);
    Some(PaperLast {
        request: PaperRequest::new(command as u8, last_id, source, destination, amount),
        answer: PaperAnswer {
            code: TransferCode::from_code((command >> 16) as u16).unwrap_or(TransferCode::Busy),
            amount: place.reply_amount.load(Relaxed),
        },
    })
}

/// Keeps a numbered request and its answer, under its cell's lock.
pub(crate) fn save_last(place: &TransferPaper, last: &PaperLast) {
    place.destination.store(last.request.destination, Relaxed);
    place.amount.store(last.request.amount, Relaxed);
    place
        .command
        .store(last.request.command | (last.answer.code as u32) << 16, Relaxed);
    place.reply_amount.store(last.answer.amount, Relaxed);
    place.last_id.store(last.request.transaction_id, Relaxed);
}

/// Takes a lock that nobody holds for long: of a store that only the caller writes to.
pub(crate) fn lock_surely(word: &AtomicU32) -> Held<'_> {
    loop {
        if let Some(held) = lock(word) {
            return held;
        }
        std::thread::yield_now();
    }
}
