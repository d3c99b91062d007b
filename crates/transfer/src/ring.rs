//! What the fast path has done, on its way to the journal: one ring for each CPU, written by the fast path and read by
//! the host.
//!
//! A record is written whole, its seal last, before the locks of what it tells are given back: so whoever sees an
//! effect can find its record. The reader's position moves only when a record is in the journal, and the fast path
//! refuses what finds no room. Order between rings is restored from the accounts' versions.

use crate::AccountId;
use crate::layout::{TransferRecord, TransferRing};
use crate::paper::PaperRequest;
use crate::store::Store;
use lineside_wire::TransferCode;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// The slot of a record in the paper's format.
pub const NO_SESSION: u32 = u32::MAX;

/// One effect, as the fast path writes it down. A version of 0 stands for an account that was not touched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// Who gives, is made or is meant.
    pub source: AccountId,
    /// Who gets.
    pub destination: AccountId,
    /// What was asked for.
    pub amount: u64,
    /// Of the source, after this.
    pub source_version: u64,
    /// Of the destination, after this.
    pub destination_version: u64,
    /// Of the source, after this: the reply's amount.
    pub source_balance: u64,
    /// The session, or [`NO_SESSION`].
    pub slot: u32,
    /// The command.
    pub command: u8,
    /// The operation's flags.
    pub flags: u8,
    /// What became of it.
    pub code: u16,
    /// The contract code.
    pub contract: u32,
    /// Which operation of its packet.
    pub index: u16,
    /// How many its packet has.
    pub count: u16,
    /// The session's sequence, or the transaction id.
    pub sequence: u64,
    /// Of the packet's operations.
    pub sum: u64,
    /// The client's.
    pub timestamp: u64,
    /// The client's.
    pub uuid: AccountId,
    /// The client's.
    pub nonce: u32,
    /// CLOCK_MONOTONIC, as the fast path knows it.
    pub time_ns: u64,
}

impl Record {
    /// The record of a numbered request in the paper's format that was refused; `version` is that of its source after
    /// this. The time is not known.
    pub fn refused(request: &PaperRequest, code: TransferCode, version: u64) -> Self {
        Self {
            source: request.source_id(),
            destination: request.destination_id(),
            amount: request.amount.into(),
            source_version: version,
            slot: NO_SESSION,
            command: request.command as u8,
            code: code as u16,
            count: 1,
            sequence: request.transaction_id.into(),
            ..Self::default()
        }
    }
}

/// One ring.
#[derive(Clone, Copy)]
pub struct Ring<'a> {
    ring: &'a TransferRing,
    records: &'a [TransferRecord],
}

impl<'a> Ring<'a> {
    /// Ring `index` of a store.
    pub fn of(store: &'a Store, index: usize) -> Self {
        let records = store.control().ring_records.load(Relaxed) as usize;
        Self {
            ring: &store.rings.as_slice()[index],
            records: &store.records.as_slice()[index * records..(index + 1) * records],
        }
    }

    /// Records that all rings of a store hold.
    pub fn waiting_in(store: &Store) -> u64 {
        (0..store.rings.as_slice().len())
            .map(|index| Ring::of(store, index).waiting())
            .sum()
    }

    /// Records that find room now. Only the writer may rely on it.
    pub fn room(&self) -> u64 {
        self.records.len() as u64 - self.waiting()
    }

    /// Records that are not in the journal yet.
    pub fn waiting(&self) -> u64 {
        let tail = self.ring.tail.load(Acquire);
        self.ring.head.load(Acquire).wrapping_sub(tail)
    }

    /// Writes a record. There is room, and nobody else writes to this ring.
    pub fn push(&self, record: &Record) {
        let head = self.ring.head.load(Relaxed);
        let place = self.place(head);
        // A reader that finds the old seal must not find new words behind it.
        place.seal.store(0, Release);
        std::sync::atomic::fence(Release);
        save(place, record);
        place.seal.store(head + 1, Release);
        self.ring.head.store(head + 1, Release);
    }

    /// Records written so far.
    pub fn head(&self) -> u64 {
        self.ring.head.load(Acquire)
    }

    /// Where the reader stands: all records before this are in the journal.
    pub fn tail(&self) -> u64 {
        self.ring.tail.load(Acquire)
    }

    /// Record number `at`; `None`: it is not written yet, or its place was written again.
    pub fn read(&self, at: u64) -> Option<Record> {
        if at >= self.ring.head.load(Acquire) {
            return None;
        }
        let place = self.place(at);
        if place.seal.load(Acquire) != at + 1 {
            return None;
        }
        let record = load(place);
        std::sync::atomic::fence(Acquire);
        (place.seal.load(Relaxed) == at + 1).then_some(record)
    }

    /// All records before `at` are in the journal.
    pub fn release(&self, at: u64) {
        self.ring.tail.store(at, Release);
    }

    fn place(&self, at: u64) -> &'a TransferRecord {
        &self.records[at as usize & (self.records.len() - 1)]
    }
}

fn save(place: &TransferRecord, record: &Record) {
    let words = |to: &[std::sync::atomic::AtomicU64; 2], id: &AccountId| {
        let words = id.words();
        to[0].store(words[0], Relaxed);
        to[1].store(words[1], Relaxed);
    };
    words(&place.source, &record.source);
    words(&place.destination, &record.destination);
    words(&place.uuid, &record.uuid);
    place.amount.store(record.amount, Relaxed);
    place.source_version.store(record.source_version, Relaxed);
    place
        .destination_version
        .store(record.destination_version, Relaxed);
    place.source_balance.store(record.source_balance, Relaxed);
    place.slot.store(record.slot, Relaxed);
    let command = u32::from(record.command) | u32::from(record.flags) << 8 | u32::from(record.code) << 16;
    place.command.store(command, Relaxed);
    place.contract.store(record.contract, Relaxed);
    place
        .place
        .store(u32::from(record.index) | u32::from(record.count) << 16, Relaxed);
    place.sequence.store(record.sequence, Relaxed);
    place.sum.store(record.sum, Relaxed);
    place.timestamp.store(record.timestamp, Relaxed);
    place.nonce.store(record.nonce, Relaxed);
    place.time_ns.store(record.time_ns, Relaxed);
}

fn load(place: &TransferRecord) -> Record {
    let words = |from: &[std::sync::atomic::AtomicU64; 2]| {
        AccountId::from_words([from[0].load(Relaxed), from[1].load(Relaxed)])
    };
    let command = place.command.load(Relaxed);
    let at = place.place.load(Relaxed);
    Record {
        source: words(&place.source),
        destination: words(&place.destination),
        amount: place.amount.load(Relaxed),
        source_version: place.source_version.load(Relaxed),
        destination_version: place.destination_version.load(Relaxed),
        source_balance: place.source_balance.load(Relaxed),
        slot: place.slot.load(Relaxed),
        command: command as u8,
        flags: (command >> 8) as u8,
        code: (command >> 16) as u16,
        contract: place.contract.load(Relaxed),
        index: at as u16,
        count: (at >> 16) as u16,
        sequence: place.sequence.load(Relaxed),
        sum: place.sum.load(Relaxed),
        timestamp: place.timestamp.load(Relaxed),
        uuid: words(&place.uuid),
        nonce: place.nonce.load(Relaxed),
        time_ns: place.time_ns.load(Relaxed),
    }
}
