//! Rings of records, through which the effects of the fast path reach the journal: one ring for each CPU, written by
//! the fast path and read by the host.
//!
//! The fast path writes a record completely, its seal last, before it releases the locks of the accounts. A reader that
//! sees an effect can therefore find its record. The host moves its position only when a record is in the journal, and
//! the fast path refuses operations for which a ring has no space. The order between records of different rings follows
//! from the versions of the accounts.

use crate::AccountId;
use crate::layout::{TransferRecord, TransferRing};
use crate::paper::PaperRequest;
use crate::store::Store;
use lineside_wire::TransferCode;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// Slot number in a record of the paper's format.
pub const NO_SESSION: u32 = u32::MAX;

/// Record of one executed or refused operation of the fast path. A version of 0 means that the account did not change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// Source: the sender, or the account that is created or changed.
    pub source: AccountId,
    /// Destination.
    pub destination: AccountId,
    /// Requested amount.
    pub amount: u64,
    /// Version of the source after the operation.
    pub source_version: u64,
    /// Version of the destination after the operation.
    pub destination_version: u64,
    /// Balance of the source after the operation, which is the amount in the reply.
    pub source_balance: u64,
    /// Slot of the session, or [`NO_SESSION`].
    pub slot: u32,
    /// The command.
    pub command: u8,
    /// The operation's flags.
    pub flags: u8,
    /// Code of the outcome.
    pub code: u16,
    /// The contract code.
    pub contract: u32,
    /// Index of the operation in its packet.
    pub index: u16,
    /// Number of operations in its packet.
    pub count: u16,
    /// Sequence number in the session, or transaction id.
    pub sequence: u64,
    /// Checksum of the packet's operations.
    pub sum: u64,
    /// Timestamp from the client.
    pub timestamp: u64,
    /// UUID from the client.
    pub uuid: AccountId,
    /// Nonce from the client.
    pub nonce: u32,
    /// CLOCK_MONOTONIC of the fast path, in nanoseconds.
    pub time_ns: u64,
}

impl Record {
    /// Returns the record of a refused request in the paper's format that had a transaction id; `version` is the
    /// version of the source account after it. The time is not set.
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

    /// Returns the request of a record in the paper's format. Fields that are longer in the record lose their upper
    /// bits.
    pub fn paper_request(&self) -> PaperRequest {
        let low = |account: &AccountId| u128::from_be_bytes(account.0) as u32;
        PaperRequest::new(
            self.command,
            self.sequence as u32,
            low(&self.source),
            low(&self.destination),
            self.amount as u32,
        )
    }
}

/// Ring into which the fast path on one CPU writes a record of each executed operation.
#[derive(Clone, Copy)]
pub struct Ring<'a> {
    ring: &'a TransferRing,
    records: &'a [TransferRecord],
}

impl<'a> Ring<'a> {
    /// Returns ring `index` of a store.
    pub fn of(store: &'a Store, index: usize) -> Self {
        let records = store.control().ring_records.load(Relaxed) as usize;
        Self {
            ring: &store.rings.as_slice()[index],
            records: &store.records.as_slice()[index * records..(index + 1) * records],
        }
    }

    /// Returns the number of records in all rings of a store.
    pub fn waiting_in(store: &Store) -> u64 {
        (0..store.rings.as_slice().len())
            .map(|index| Ring::of(store, index).waiting())
            .sum()
    }

    /// Returns the number of records for which there is room. Only the writer may rely on it.
    pub fn free_records(&self) -> u64 {
        self.records.len() as u64 - self.waiting()
    }

    /// Returns the number of records that are not in the journal yet.
    pub fn waiting(&self) -> u64 {
        let tail = self.ring.tail.load(Acquire);
        self.ring.head.load(Acquire).wrapping_sub(tail)
    }

    /// Writes a record. The caller has checked that there is room, and is the only writer of this ring.
    pub fn push(&self, record: &Record) {
        let head = self.ring.head.load(Relaxed);
        let place = self.slot(head);
        // The seal is cleared first, so that a reader that finds the old seal does not find new words with it.
        place.seal.store(0, Release);
        std::sync::atomic::fence(Release);
        save(place, record);
        place.seal.store(head + 1, Release);
        self.ring.head.store(head + 1, Release);
    }

    /// Returns the number of records written so far.
    pub fn head(&self) -> u64 {
        self.ring.head.load(Acquire)
    }

    /// Returns the reader's position: all records before it are in the journal.
    pub fn tail(&self) -> u64 {
        self.ring.tail.load(Acquire)
    }

    /// Returns record number `at`; `None` if it is not written yet, or was overwritten.
    pub fn read(&self, at: u64) -> Option<Record> {
        if at >= self.ring.head.load(Acquire) {
            return None;
        }
        let slot = self.slot(at);
        if slot.seal.load(Acquire) != at + 1 {
            return None;
        }
        let record = load(slot);
        std::sync::atomic::fence(Acquire);
        (slot.seal.load(Relaxed) == at + 1).then_some(record)
    }

    /// Moves the reader's position to `at`: all records before it are in the journal.
    pub fn release(&self, at: u64) {
        self.ring.tail.store(at, Release);
    }

    fn slot(&self, at: u64) -> &'a TransferRecord {
        &self.records[at as usize & (self.records.len() - 1)]
    }
}

fn save(slot: &TransferRecord, record: &Record) {
    let words = |to: &[std::sync::atomic::AtomicU64; 2], id: &AccountId| {
        let words = id.words();
        to[0].store(words[0], Relaxed);
        to[1].store(words[1], Relaxed);
    };
    words(&slot.source, &record.source);
    words(&slot.destination, &record.destination);
    words(&slot.uuid, &record.uuid);
    slot.amount.store(record.amount, Relaxed);
    slot.source_version.store(record.source_version, Relaxed);
    slot.destination_version
        .store(record.destination_version, Relaxed);
    slot.source_balance.store(record.source_balance, Relaxed);
    slot.slot.store(record.slot, Relaxed);
    let command = u32::from(record.command) | u32::from(record.flags) << 8 | u32::from(record.code) << 16;
    slot.command.store(command, Relaxed);
    slot.contract.store(record.contract, Relaxed);
    slot.place
        .store(u32::from(record.index) | u32::from(record.count) << 16, Relaxed);
    slot.sequence.store(record.sequence, Relaxed);
    slot.sum.store(record.sum, Relaxed);
    slot.timestamp.store(record.timestamp, Relaxed);
    slot.nonce.store(record.nonce, Relaxed);
    slot.time_ns.store(record.time_ns, Relaxed);
}

fn load(slot: &TransferRecord) -> Record {
    let words = |from: &[std::sync::atomic::AtomicU64; 2]| {
        AccountId::from_words([from[0].load(Relaxed), from[1].load(Relaxed)])
    };
    let command = slot.command.load(Relaxed);
    let at = slot.place.load(Relaxed);
    Record {
        source: words(&slot.source),
        destination: words(&slot.destination),
        amount: slot.amount.load(Relaxed),
        source_version: slot.source_version.load(Relaxed),
        destination_version: slot.destination_version.load(Relaxed),
        source_balance: slot.source_balance.load(Relaxed),
        slot: slot.slot.load(Relaxed),
        command: command as u8,
        flags: (command >> 8) as u8,
        code: (command >> 16) as u16,
        contract: slot.contract.load(Relaxed),
        index: at as u16,
        count: (at >> 16) as u16,
        sequence: slot.sequence.load(Relaxed),
        sum: slot.sum.load(Relaxed),
        timestamp: slot.timestamp.load(Relaxed),
        uuid: words(&slot.uuid),
        nonce: slot.nonce.load(Relaxed),
        time_ns: slot.time_ns.load(Relaxed),
    }
}
