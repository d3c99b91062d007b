//! The fast-path table: cells, what the paper's format needs beside them, session slots, rings and the control word, in
//! memory that the host, the socket datapath and the XDP program share. Field by field in `spec/transfer.toml`.
//!
//! An account lies in one of two buckets of four cells. Its id never changes once it is there, so it is found without
//! a lock; what it holds is read and written under its cell's lock.

use crate::AccountId;
use crate::layout::{
    TransferCell, TransferControl, TransferPaper, TransferRecord, TransferRing, TransferSession,
};
use lineside_fastpath::memory::Table;
use lineside_fastpath::{address_words, hash};
use lineside_wire::{
    TRANSFER_BUCKET_CELLS, TRANSFER_CELL_CLAIMED, TRANSFER_CELL_VALID, TRANSFER_DURABLE, TRANSFER_EXPRESS,
    TRANSFER_ISSUERS_MAX,
};
use std::io;
use std::net::IpAddr;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

pub use lineside_fastpath::Range;

/// Version of the layout; memory of another version is not adopted.
pub const LAYOUT_VERSION: u32 = 2;

/// Cells that one bucket has taken before the other one is looked at too: of 2^20 accounts in 2^22 cells, one in ten
/// then lies in its second bucket and none finds both full.
const CROWDED: usize = 2;

/// Who executes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The host, which answers when it is on the disk; the fast path only refers.
    Durable,
    /// The fast path, at once; the journal follows.
    Express,
}

impl Mode {
    /// As replies tell it.
    pub const fn durability(self) -> u16 {
        match self {
            Self::Durable => TRANSFER_DURABLE,
            Self::Express => TRANSFER_EXPRESS,
        }
    }

    /// The mode that replies tell so.
    pub const fn from_durability(durability: u16) -> Option<Self> {
        match durability {
            TRANSFER_DURABLE => Some(Self::Durable),
            TRANSFER_EXPRESS => Some(Self::Express),
            _ => None,
        }
    }
}

/// How large a store is, and its policies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// log2 of the number of accounts that surely find room; there are four cells for each.
    pub account_bits: u32,
    /// Session slots.
    pub sessions: u32,
    /// Rings: one for each CPU, or for each thread that executes.
    pub rings: u32,
    /// log2 of the records of one ring.
    pub ring_bits: u32,
    /// Who executes.
    pub mode: Mode,
    /// Answer the paper's packets.
    pub paper_format: bool,
    /// Refuse writes that are not signed.
    pub require_signature: bool,
    /// Who may issue; at most 8.
    pub issuers: Vec<Range>,
}

impl Default for Geometry {
    fn default() -> Self {
        Self {
            account_bits: 20,
            sessions: 4096,
            rings: 1,
            ring_bits: 13,
            mode: Mode::Durable,
            paper_format: true,
            require_signature: false,
            issuers: Range::LOOPBACK.to_vec(),
        }
    }
}

impl Geometry {
    /// Number of cells.
    pub const fn cells(&self) -> usize {
        4 << self.account_bits
    }

    /// log2 of the number of buckets.
    pub const fn bucket_bits(&self) -> u32 {
        self.account_bits + 2 - TRANSFER_BUCKET_CELLS.trailing_zeros()
    }

    /// Records of one ring.
    pub const fn ring_records(&self) -> usize {
        1 << self.ring_bits
    }

    /// What is wrong with it, if anything.
    pub fn fault(&self) -> Option<&'static str> {
        if !(1..=26).contains(&self.account_bits) {
            Some("account_bits must be 1 to 26")
        } else if !(1..=1 << 20).contains(&self.sessions) {
            Some("sessions must be 1 to 1048576")
        } else if !(1..=1024).contains(&self.rings) {
            Some("rings must be 1 to 1024")
        } else if !(3..=20).contains(&self.ring_bits) {
            Some("ring_bits must be 3 to 20")
        } else if self.issuers.len() > TRANSFER_ISSUERS_MAX {
            Some("at most 8 issuers")
        } else {
            None
        }
    }
}

/// The tables of a fast-path table.
#[derive(Debug)]
pub struct Store {
    /// Accounts; the cells of a bucket stand together.
    pub cells: Table<TransferCell>,
    /// One for each cell.
    pub paper: Table<TransferPaper>,
    /// Session slots.
    pub sessions: Table<TransferSession>,
    /// One for each ring.
    pub rings: Table<TransferRing>,
    /// The records of the rings, one ring after the other.
    pub records: Table<TransferRecord>,
    /// One entry.
    pub control: Table<TransferControl>,
}

impl Store {
    /// An empty store in this process alone.
    ///
    /// # Errors
    /// What the kernel says of the mapping, or `InvalidInput` for a geometry that cannot be.
    pub fn anonymous(geometry: &Geometry) -> io::Result<Self> {
        let store = Self {
            cells: Table::anonymous(geometry.cells())?,
            paper: Table::anonymous(geometry.cells())?,
            sessions: Table::anonymous(geometry.sessions as usize)?,
            rings: Table::anonymous(geometry.rings as usize)?,
            records: Table::anonymous(geometry.rings as usize * geometry.ring_records())?,
            control: Table::anonymous(1)?,
        };
        store.format(geometry)?;
        Ok(store)
    }

    /// Writes geometry, policies and a fresh hash key into zeroed memory.
    ///
    /// # Errors
    /// `InvalidInput` for a geometry that cannot be or tables of other sizes; what the kernel says of its random
    /// numbers.
    pub fn format(&self, geometry: &Geometry) -> io::Result<()> {
        let fault = geometry
            .fault()
            .or((!self.sizes_fit(geometry)).then_some("tables of another size"));
        if let Some(fault) = fault {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, fault));
        }
        let control = self.control();
        hash::new_key(&control.key)?;
        control.bucket_bits.store(geometry.bucket_bits(), Relaxed);
        control.sessions.store(geometry.sessions, Relaxed);
        control
            .ring_records
            .store(geometry.ring_records() as u32, Relaxed);
        self.set_policies(geometry);
        // No limit before a host sets one.
        self.set_paper_refusals(i64::MAX);
        control.layout_version.store(LAYOUT_VERSION, Relaxed);
        Ok(())
    }

    /// Takes away what a process that was killed may have left held: locks and claims. Nobody may be running. What such
    /// a process was writing is only half there, and must be written anew.
    pub fn free(&self) {
        for cell in self.cells.as_slice() {
            cell.lock.store(0, Relaxed);
            cell.bucket_lock.store(0, Relaxed);
            cell.flags.fetch_and(!TRANSFER_CELL_CLAIMED, Relaxed);
        }
        for session in self.sessions.as_slice() {
            session.lock.store(0, Relaxed);
            session.claimed.store(0, Relaxed);
        }
    }

    /// Zeroes everything. Nobody may be reading: the lease has ended, and all answers under way have left.
    pub fn clear(&self) {
        for table in [
            self.cells.as_words(),
            self.paper.as_words(),
            self.sessions.as_words(),
            self.rings.as_words(),
            self.records.as_words(),
            self.control.as_words(),
        ] {
            table.iter().for_each(|word| word.store(0, Relaxed));
        }
    }

    /// Writes what may change between two daemons over the same memory. The mode may not: a data directory has one.
    pub fn set_policies(&self, geometry: &Geometry) {
        let control = self.control();
        control.mode.store(geometry.mode.durability().into(), Relaxed);
        control.paper_format.store(geometry.paper_format.into(), Relaxed);
        control
            .require_signature
            .store(geometry.require_signature.into(), Relaxed);
        // While ranges change there are none.
        control.issuers.store(0, Relaxed);
        for (index, range) in geometry.issuers.iter().take(TRANSFER_ISSUERS_MAX).enumerate() {
            let (address, mask) = range.words();
            for half in 0..2 {
                control.issuer[2 * index + half].store(address[half], Relaxed);
                control.issuer_mask[2 * index + half].store(mask[half], Relaxed);
            }
        }
        control.issuers.store(
            geometry.issuers.len() as u32,
            std::sync::atomic::Ordering::Release,
        );
    }

    fn sizes_fit(&self, geometry: &Geometry) -> bool {
        self.cells.as_slice().len() == geometry.cells()
            && self.paper.as_slice().len() == geometry.cells()
            && self.sessions.as_slice().len() == geometry.sessions as usize
            && self.rings.as_slice().len() == geometry.rings as usize
            && self.records.as_slice().len() == geometry.rings as usize * geometry.ring_records()
            && self.control.as_slice().len() == 1
    }

    /// Whether it was formatted so by this version; fresh memory was not.
    pub fn has_geometry(&self, geometry: &Geometry) -> bool {
        let control = self.control();
        control.layout_version.load(Relaxed) == LAYOUT_VERSION
            && control.bucket_bits.load(Relaxed) == geometry.bucket_bits()
            && control.sessions.load(Relaxed) == geometry.sessions
            && control.ring_records.load(Relaxed) as usize == geometry.ring_records()
            && control.mode.load(Relaxed) == u32::from(geometry.mode.durability())
            && self.sizes_fit(geometry)
    }

    /// The control word.
    pub fn control(&self) -> &TransferControl {
        &self.control.as_slice()[0]
    }

    /// Whether the fast path executes.
    pub fn is_express(&self) -> bool {
        self.control().mode.load(Relaxed) == u32::from(TRANSFER_EXPRESS)
    }

    /// Whether the paper's packets are answered.
    pub fn paper_format(&self) -> bool {
        self.control().paper_format.load(Relaxed) != 0
    }

    /// Whether writes must be signed.
    pub fn requires_signature(&self) -> bool {
        self.control().require_signature.load(Relaxed) != 0
    }

    /// Whether a sender at `address` may CREATE, ISSUE, FREEZE and UNFREEZE.
    pub fn may_issue(&self, address: IpAddr) -> bool {
        let own = address_words(address);
        let control = self.control();
        (0..(control.issuers.load(Acquire) as usize).min(TRANSFER_ISSUERS_MAX)).any(|index| {
            (0..2).all(|half| {
                let mask = control.issuer_mask[2 * index + half].load(Relaxed);
                own[half] & mask == control.issuer[2 * index + half].load(Relaxed)
            })
        })
    }

    /// Takes one refusal of a numbered request in the paper's format from the credit that the host gives; `false`:
    /// there is none, and the request is as if it had not come. CPUs that take the last one together overdraw the
    /// credit by one each.
    pub(crate) fn take_paper_refusal(&self) -> bool {
        let may = self.has_paper_refusals();
        if may {
            self.control().paper_refusals.fetch_sub(1, Relaxed);
        }
        may
    }

    /// Whether the refusal of a numbered request in the paper's format may be written down.
    pub(crate) fn has_paper_refusals(&self) -> bool {
        self.paper_refusals() > 0
    }

    /// Refusals of numbered requests in the paper's format that may still be written down; negative: a debt.
    pub fn paper_refusals(&self) -> i64 {
        self.control().paper_refusals.load(Relaxed).cast_signed()
    }

    /// Sets how many refusals of numbered requests in the paper's format may be written down.
    pub fn set_paper_refusals(&self, credit: i64) {
        self.control()
            .paper_refusals
            .store(credit.cast_unsigned(), Relaxed);
    }

    /// Adds to the credit of [`Store::take_paper_refusal`] while the fast path takes from it; at most `full` is left.
    pub(crate) fn add_paper_refusals(&self, more: i64, full: i64) {
        let more = more.min(full.saturating_sub(self.paper_refusals()));
        if more > 0 {
            self.control()
                .paper_refusals
                .fetch_add(more.cast_unsigned(), Relaxed);
        }
    }

    /// The first cells of the two buckets that `id` may lie in.
    pub(crate) fn buckets(&self, id: [u64; 2]) -> [usize; 2] {
        let control = self.control();
        let bits = control.bucket_bits.load(Relaxed);
        let hash = hash::index_hash(id, &control.key);
        let first = hash >> (64 - bits);
        let second = (hash >> (64 - 2 * bits)) & ((1 << bits) - 1);
        // A bucket of one's own, always: the hash is no better than its bits.
        let second = if second == first { first ^ 1 } else { second };
        [first, second].map(|bucket| bucket as usize * TRANSFER_BUCKET_CELLS)
    }

    /// The cells of the bucket that begins at `first`.
    pub(crate) fn bucket(&self, first: usize) -> &[TransferCell] {
        &self.cells.as_slice()[first..first + TRANSFER_BUCKET_CELLS]
    }

    /// The index of the cell of `id`.
    pub fn find(&self, id: &AccountId) -> Option<usize> {
        let id = id.words();
        self.buckets(id).into_iter().find_map(|first| {
            let at = self.bucket(first).iter().position(|cell| holds(cell, id))?;
            Some(first + at)
        })
    }

    /// Where a new account of these buckets belongs, both locked: in the first while it is not crowded, else where
    /// there is more room; `None` when both are full.
    pub(crate) fn vacancy(&self, buckets: [usize; 2]) -> Option<usize> {
        let taken = buckets.map(|first| self.bucket(first).iter().filter(|cell| is_taken(cell)).count());
        let choice = if taken[0] < CROWDED || taken[0] <= taken[1] {
            0
        } else {
            1
        };
        let first = buckets[choice];
        let at = self.bucket(first).iter().position(|cell| !is_taken(cell))?;
        Some(first + at)
    }
}

fn is_taken(cell: &TransferCell) -> bool {
    cell.flags.load(Acquire) & TRANSFER_CELL_VALID != 0
}

fn holds(cell: &TransferCell, id: [u64; 2]) -> bool {
    is_taken(cell) && cell.id[0].load(Relaxed) == id[0] && cell.id[1].load(Relaxed) == id[1]
}
