//! Concurrent reading and writing of the cells of the fast-path table; each cell contains one account.
//!
//! A cell is changed under its lock, a word that is acquired by compare-and-exchange and released by a store. A thread
//! that needs two locks takes that of the lower index first. No thread waits for long: after [`SPINS`] attempts the
//! result is `busy`. XDP programs take the same locks in the same order (`xdp/transfer_cell.h`); the kernel does not
//! preempt them while they hold one. `docs/decisions/transfer-locks.md` explains why these are not the kernel's own
//! locks.

use crate::layout::{TransferCell, TransferPaper};
use crate::paper::{PaperAnswer, PaperLast, PaperRequest};
use crate::rules::Holding;
use lineside_wire::{TRANSFER_CELL_CLAIMED, TRANSFER_CELL_FROZEN, TRANSFER_CELL_VALID, TransferCode};
use std::hint::spin_loop;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, fence};

/// Number of attempts after which a lock counts as busy. They take some microseconds; a change holds the lock for about
/// 0.1 µs.
const SPINS: u32 = 1024;

/// Acquired lock; dropping it releases the lock.
pub(crate) struct CellGuard<'a>(&'a AtomicU32);

impl Drop for CellGuard<'_> {
    fn drop(&mut self) {
        self.0.store(0, Release);
    }
}

/// Acquires a lock; returns `None` if another thread held it during all attempts.
pub(crate) fn lock(word: &AtomicU32) -> Option<CellGuard<'_>> {
    for _ in 0..SPINS {
        if word.compare_exchange_weak(0, 1, Acquire, Relaxed).is_ok() {
            // A reader that sees a value written after this fence also sees that the cell is locked.
            fence(Release);
            return Some(CellGuard(word));
        }
        spin_loop();
    }
    None
}

/// Returns whether the host has claimed the cell. The caller holds its lock.
pub(crate) fn is_claimed(cell: &TransferCell) -> bool {
    cell.flags.load(Relaxed) & TRANSFER_CELL_CLAIMED != 0
}

/// Returns the content and the version of a cell. The caller holds its lock.
pub(crate) fn load(cell: &TransferCell) -> (Holding, u64) {
    let holding = Holding {
        balance: cell.balance.load(Relaxed),
        held_out: cell.held_out.load(Relaxed),
        held_in: cell.held_in.load(Relaxed),
        frozen: cell.flags.load(Relaxed) & TRANSFER_CELL_FROZEN != 0,
    };
    (holding, cell.version.load(Relaxed))
}

/// Writes a cell. The caller holds its lock. Every change has a new version.
pub(crate) fn save(cell: &TransferCell, holding: &Holding, version: u64) {
    cell.balance.store(holding.balance, Relaxed);
    cell.held_out.store(holding.held_out, Relaxed);
    cell.held_in.store(holding.held_in, Relaxed);
    let frozen = if holding.frozen { TRANSFER_CELL_FROZEN } else { 0 };
    cell.flags.store(TRANSFER_CELL_VALID | frozen, Release);
    cell.version.store(version, Relaxed);
}

/// Returns a consistent copy of a cell's content and version, without its lock; `None` if the cell was being changed
/// during all attempts.
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

/// Returns an account's last request that had a transaction id, with its reply; `None` if no request had one. The
/// caller holds the lock of the account's cell.
pub(crate) fn load_last(slot: &TransferPaper, source: u32) -> Option<PaperLast> {
    let last_id = slot.last_id.load(Relaxed);
    if last_id == 0 {
        return None;
    }
    let command = slot.command.load(Relaxed);
    let destination = slot.destination.load(Relaxed);
    let amount = slot.amount.load(Relaxed);
    Some(PaperLast {
        request: PaperRequest::new(command as u8, last_id, source, destination, amount),
        answer: PaperAnswer {
            code: TransferCode::from_code((command >> 16) as u16).unwrap_or(TransferCode::Busy),
            amount: slot.reply_amount.load(Relaxed),
        },
    })
}

/// Stores a request that has a transaction id, with its reply. The caller holds the lock of the account's cell.
pub(crate) fn save_last(place: &TransferPaper, last: &PaperLast) {
    place.destination.store(last.request.destination, Relaxed);
    place.amount.store(last.request.amount, Relaxed);
    place
        .command
        .store(last.request.command | (last.answer.code as u32) << 16, Relaxed);
    place.reply_amount.store(last.answer.amount, Relaxed);
    place.last_id.store(last.request.transaction_id, Relaxed);
}

/// Waits until a lock is free and acquires it. Use it only for a store to which no other process writes: the threads
/// of one process are not killed one by one, so each of them releases its locks after a short time.
pub(crate) fn lock_surely(word: &AtomicU32) -> CellGuard<'_> {
    loop {
        if let Some(held) = lock(word) {
            return held;
        }
        std::thread::yield_now();
    }
}
