//! The fast-path table: cells, data for the paper's format, session slots, rings and the control word, in memory that
//! the host, the socket datapath and the XDP program share. `spec/transfer.toml` describes each field.
//!
//! An account is in one of two buckets of four cells. Its id never changes, so a reader finds it without a lock; its
//! content is read and written under the lock of its cell.

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

/// Version of the layout; a server does not adopt memory of another version.
pub const LAYOUT_VERSION: u32 = 2;

/// Number of used cells in the first bucket from which a new account may also go into the second bucket. With 2^20
/// accounts in 2^22 cells, one account in ten is then in its second bucket, and no account finds both full.
const CROWDED: usize = 2;

/// Decides whether the host or the fast path executes operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The host executes operations and replies once they are on the disk; the fast path only answers REFER.
    Durable,
    /// The fast path executes operations and replies at once; the journal follows.
    Express,
}

impl Mode {
    /// Returns the code of the mode in replies.
    pub const fn durability(self) -> u16 {
        match self {
            Self::Durable => TRANSFER_DURABLE,
            Self::Express => TRANSFER_EXPRESS,
        }
    }

    /// Returns the mode with this code in replies.
    pub const fn from_durability(durability: u16) -> Option<Self> {
        match durability {
            TRANSFER_DURABLE => Some(Self::Durable),
            TRANSFER_EXPRESS => Some(Self::Express),
            _ => None,
        }
    }
}

/// Sizes and policies of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// log2 of the number of accounts that certainly find a cell; there are four cells for each of these accounts.
    pub account_bits: u32,
    /// Number of session slots.
    pub sessions: u32,
    /// Number of rings: one for each CPU, or for each thread that executes operations.
    pub rings: u32,
    /// log2 of the number of records in one ring.
    pub ring_bits: u32,
    /// Mode, which decides whether the host or the fast path executes operations.
    pub mode: Mode,
    /// True if the service answers packets in the paper's format.
    pub paper_format: bool,
    /// True if writes must be signed.
    pub require_signature: bool,
    /// Address ranges whose senders may create assets; at most 8 ranges.
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
    /// Returns the number of cells.
    pub const fn cells(&self) -> usize {
        4 << self.account_bits
    }

    /// Returns log2 of the number of buckets.
    pub const fn bucket_bits(&self) -> u32 {
        self.account_bits + 2 - TRANSFER_BUCKET_CELLS.trailing_zeros()
    }

    /// Returns the number of records in one ring.
    pub const fn ring_records(&self) -> usize {
        1 << self.ring_bits
    }

    /// Returns the fault of the geometry, if it has one.
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
            Some("issuers must be at most 8 address ranges")
        } else {
            None
        }
    }
}

/// Tables that together are the fast-path table.
#[derive(Debug)]
pub struct Store {
    /// Accounts; the cells of a bucket are adjacent.
    pub cells: Table<TransferCell>,
    /// Data for the paper's format, one entry for each cell.
    pub paper: Table<TransferPaper>,
    /// Session slots.
    pub sessions: Table<TransferSession>,
    /// Positions of writer and reader, one entry for each ring.
    pub rings: Table<TransferRing>,
    /// Records of all rings, one ring after the other.
    pub records: Table<TransferRecord>,
    /// Control word, one entry.
    pub control: Table<TransferControl>,
}

impl Store {
    /// Creates an empty store in the memory of this process.
    ///
    /// # Errors
    /// Errors of the kernel when it maps the memory; `InvalidInput` for an invalid geometry.
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

    /// Writes geometry, policies and a new hash key into zeroed memory.
    ///
    /// # Errors
    /// `InvalidInput` for an invalid geometry, or if the tables have other sizes; errors of the kernel's random number
    /// generator.
    pub fn format(&self, geometry: &Geometry) -> io::Result<()> {
        let fault = geometry
            .fault()
            .or((!self.sizes_fit(geometry)).then_some("the tables do not have the size of the geometry"));
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
        // The number of refusals is not limited until a host sets a limit.
        self.set_paper_refusals(i64::MAX);
        control.layout_version.store(LAYOUT_VERSION, Relaxed);
        Ok(())
    }

    /// Releases locks and claims that a killed process may have left. No process may use the store. Entries that the
    /// killed process was writing may be inconsistent, and must be written again.
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

    /// Fills all tables with zeros. There must be no reader: the lease has ended, and all replies in progress have been
    /// sent.
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

    /// Writes the policies, which may change between two daemons on the same memory. The mode may not change, because
    /// it is fixed for a data directory.
    pub fn set_policies(&self, geometry: &Geometry) {
        let control = self.control();
        control.mode.store(geometry.mode.durability().into(), Relaxed);
        control.paper_format.store(geometry.paper_format.into(), Relaxed);
        control
            .require_signature
            .store(geometry.require_signature.into(), Relaxed);
        // While the ranges change, the store has none.
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

    /// Returns whether this version formatted the memory with this geometry; fresh memory is not formatted.
    pub fn has_geometry(&self, geometry: &Geometry) -> bool {
        let control = self.control();
        control.layout_version.load(Relaxed) == LAYOUT_VERSION
            && control.bucket_bits.load(Relaxed) == geometry.bucket_bits()
            && control.sessions.load(Relaxed) == geometry.sessions
            && control.ring_records.load(Relaxed) as usize == geometry.ring_records()
            && control.mode.load(Relaxed) == u32::from(geometry.mode.durability())
            && self.sizes_fit(geometry)
    }

    /// Returns the control word.
    pub fn control(&self) -> &TransferControl {
        &self.control.as_slice()[0]
    }

    /// Returns whether the fast path executes operations.
    pub fn is_express(&self) -> bool {
        self.control().mode.load(Relaxed) == u32::from(TRANSFER_EXPRESS)
    }

    /// Returns whether the service answers packets in the paper's format.
    pub fn paper_format(&self) -> bool {
        self.control().paper_format.load(Relaxed) != 0
    }

    /// Returns whether writes must be signed.
    pub fn requires_signature(&self) -> bool {
        self.control().require_signature.load(Relaxed) != 0
    }

    /// Returns whether a sender at `address` may CREATE, ISSUE, FREEZE and UNFREEZE.
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

    /// Takes one refusal of a request with a transaction id in the paper's format from the host's credit. Returns
    /// `false` if the credit is used up; the request then counts as not received. CPUs that take the last credit at the
    /// same time may overdraw it by one each.
    pub(crate) fn take_paper_refusal(&self) -> bool {
        let may = self.has_paper_refusals();
        if may {
            self.control().paper_refusals.fetch_sub(1, Relaxed);
        }
        may
    }

    /// Returns whether there is credit to record the refusal of a request with a transaction id in the paper's format.
    pub(crate) fn has_paper_refusals(&self) -> bool {
        self.paper_refusals() > 0
    }

    /// Returns the number of refusals of requests with a transaction id in the paper's format that may still be
    /// recorded; negative if the credit is overdrawn.
    pub fn paper_refusals(&self) -> i64 {
        self.control().paper_refusals.load(Relaxed).cast_signed()
    }

    /// Sets the number of refusals of requests with a transaction id in the paper's format that may be recorded.
    pub fn set_paper_refusals(&self, credit: i64) {
        self.control()
            .paper_refusals
            .store(credit.cast_unsigned(), Relaxed);
    }

    /// Adds to the credit of [`Store::take_paper_refusal`] while the fast path takes from it; the credit does not
    /// exceed `full`.
    pub(crate) fn add_paper_refusals(&self, more: i64, full: i64) {
        let more = more.min(full.saturating_sub(self.paper_refusals()));
        if more > 0 {
            self.control()
                .paper_refusals
                .fetch_add(more.cast_unsigned(), Relaxed);
        }
    }

    /// Returns the index of the first cell of both buckets of `id`.
    pub(crate) fn buckets(&self, id: [u64; 2]) -> [usize; 2] {
        let control = self.control();
        let bits = control.bucket_bits.load(Relaxed);
        let hash = hash::index_hash(id, &control.key);
        let first = hash >> (64 - bits);
        let second = (hash >> (64 - 2 * bits)) & ((1 << bits) - 1);
        // The two buckets of an account always differ, even if the hash gives the same number for both.
        let second = if second == first { first ^ 1 } else { second };
        [first, second].map(|bucket| bucket as usize * TRANSFER_BUCKET_CELLS)
    }

    /// Returns the cells of the bucket that begins at `first`.
    pub(crate) fn bucket(&self, first: usize) -> &[TransferCell] {
        &self.cells.as_slice()[first..first + TRANSFER_BUCKET_CELLS]
    }

    /// Returns the index of the cell of `id`.
    pub fn find(&self, id: &AccountId) -> Option<usize> {
        let id = id.words();
        self.buckets(id).into_iter().find_map(|first| {
            let at = self.bucket(first).iter().position(|cell| has_account(cell, id))?;
            Some(first + at)
        })
    }

    /// Returns a free cell for a new account in these buckets, which are both locked: in the first bucket while it is
    /// not crowded, otherwise in the bucket with more free cells; `None` if both are full.
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

fn has_account(cell: &TransferCell, id: [u64; 2]) -> bool {
    is_taken(cell) && cell.id[0].load(Relaxed) == id[0] && cell.id[1].load(Relaxed) == id[1]
}
