//! Claims on an XDP fast path that executes operations, made by test runs of the program `ls_transfer_claims`
//! (`xdp/transfer_claims.h`): a BPF program cannot be preempted while it holds a lock, but a process can.

use crate::claims::{Claims, STEP_CELLS_MAX, Slot};
use crate::ledger::Change;
use lineside_fastpath::FrameVerdict;
use lineside_wire::{TRANSFER_CELL_CLAIMED, TRANSFER_CELL_FROZEN, TRANSFER_CELL_VALID};
use lineside_xdp::{Runner, XdpDatapath, XdpError};
use std::fmt;
use std::io;

/// Maximum number of items in one order, the input of one run of the claims program; `TRANSFER_ORDER_ITEMS_MAX` in C.
const ITEMS_MAX: usize = 32;
const _: () = assert!(STEP_CELLS_MAX <= ITEMS_MAX);

/// Number of 64-bit words in `struct transfer_order_item`.
const ITEM_WORDS: usize = 10;

/// Maximum number of runs of the claims program for one order. A run fails while an XDP program holds one of the locks,
/// which takes about 0.1 µs.
const ORDER_ATTEMPTS_MAX: usize = 100;

/// Kind of an order, the input of the claims program; `enum transfer_order_kind` in C.
#[derive(Clone, Copy)]
enum OrderKind {
    ClaimCells,
    ClaimSessions,
    PutCells,
    PutSessions,
    GiveBackCells,
    GiveBackSessions,
}

type Item = [u64; ITEM_WORDS];

/// Claims in the maps on which XDP programs execute operations.
pub struct LineClaims<R> {
    run: R,
}

impl LineClaims<Runner> {
    /// Creates claims in the maps of this datapath.
    ///
    /// # Errors
    /// Returns [`XdpError::Map`] if the datapath has no program of `transfer`, and errors of the system.
    pub fn of(datapath: &mut XdpDatapath) -> Result<Self, XdpError> {
        let run = datapath.runner_of("ls_transfer_claims")?;
        Ok(Self { run })
    }
}

/// Runner of the claims program. A run returns `true` if the program carried out the order.
pub trait RunOrder {
    /// Runs the program once.
    ///
    /// # Errors
    /// Error of the system.
    fn run_order(&self, order: &[u8]) -> io::Result<bool>;
}

impl RunOrder for Runner {
    fn run_order(&self, order: &[u8]) -> io::Result<bool> {
        let verdict = self.run(order, &mut Vec::new()).map_err(io::Error::other)?;
        Ok(verdict == FrameVerdict::Pass)
    }
}

impl<R: RunOrder> LineClaims<R> {
    /// Creates claims whose orders `run` carries out.
    pub fn by(run: R) -> Self {
        Self { run }
    }

    /// Splits the items into orders of at most [`ITEMS_MAX`], and carries out one after the other.
    fn order(&self, kind: OrderKind, items: impl IntoIterator<Item = Item>) -> io::Result<()> {
        let items: Vec<Item> = items.into_iter().collect();
        items.chunks(ITEMS_MAX).try_for_each(|items| {
            let head = [kind as u64, items.len() as u64];
            let words = head.iter().chain(items.as_flattened());
            let order: Vec<u8> = words.flat_map(|word| word.to_ne_bytes()).collect();
            for _ in 0..ORDER_ATTEMPTS_MAX {
                if self.run.run_order(&order)? {
                    return Ok(());
                }
                std::thread::yield_now();
            }
            Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "a lock of the fast-path table stayed locked; restart the server",
            ))
        })
    }
}

fn only(index: &u32) -> Item {
    let mut item = [0; ITEM_WORDS];
    item[0] = (*index).into();
    item
}

fn cell((index, change): &(u32, Change)) -> Item {
    let holding = &change.holding;
    let frozen = if holding.frozen { TRANSFER_CELL_FROZEN } else { 0 };
    [
        (*index).into(),
        (TRANSFER_CELL_VALID | TRANSFER_CELL_CLAIMED | frozen).into(),
        holding.balance,
        holding.held_out,
        holding.held_in,
        change.version,
        0,
        0,
        0,
        0,
    ]
}

fn session(slot: &Slot) -> Item {
    let [first, second, third, fourth] = slot.amounts;
    [
        slot.slot.into(),
        slot.count.into(),
        slot.token,
        slot.sequence,
        slot.sum,
        slot.codes,
        first,
        second,
        third,
        fourth,
    ]
}

impl<R: RunOrder> Claims for LineClaims<R> {
    fn claim(&self, cells: &[u32], slots: &[u32]) -> io::Result<()> {
        self.order(OrderKind::ClaimCells, cells.iter().map(only))?;
        self.order(OrderKind::ClaimSessions, slots.iter().map(only))
    }

    fn put(&self, step: &[(u32, Change)]) -> io::Result<()> {
        self.order(OrderKind::PutCells, step.iter().map(cell))
    }

    fn put_session(&self, slot: &Slot) -> io::Result<()> {
        self.order(OrderKind::PutSessions, [session(slot)])
    }

    fn give_back(&self, cells: &[u32], slots: &[u32]) -> io::Result<()> {
        self.order(OrderKind::GiveBackCells, cells.iter().map(only))?;
        self.order(OrderKind::GiveBackSessions, slots.iter().map(only))
    }
}

impl<R> fmt::Debug for LineClaims<R> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("LineClaims")
    }
}
