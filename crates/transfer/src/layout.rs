// Generated from spec/transfer.toml by `cargo run -p lineside-spec`. Do not edit.

//! Layouts of the fast-path table of `transfer`, in memory that threads, processes and XDP share.

use lineside_fastpath::memory::Shared;
use core::sync::atomic::{AtomicU32, AtomicU64};

/// Account. Its id and validity never change once set; the other fields change only under its lock.
#[repr(C)]
#[derive(Debug)]
pub struct TransferCell {
    /// lock: 1 while a program changes the account
    pub lock: AtomicU32,
    /// cell_valid, cell_frozen, cell_claimed
    pub flags: AtomicU32,
    /// id of the account
    pub id: [AtomicU64; 2],
    /// balance
    pub balance: AtomicU64,
    /// amount reserved by pending transfers from the account; never above the balance
    pub held_out: AtomicU64,
    /// sum of pending transfers to the account; this sum plus the balance never overflows
    pub held_in: AtomicU64,
    /// number of changes of the account
    pub version: AtomicU64,
    /// in a bucket's first cell: 1 while a cell of the bucket is being allocated
    pub bucket_lock: AtomicU32,
    /// reserved: zero
    pub reserved: AtomicU32,
}

const _: () = assert!(size_of::<TransferCell>() == 64);

// SAFETY: the struct is `repr(C)` and contains only atomics. The check of its size above shows that it
// has no padding.
unsafe impl Shared for TransferCell {}

/// Data of an account in the paper's format: last transaction id and reply. Same index as the cell.
#[repr(C)]
#[derive(Debug)]
pub struct TransferPaper {
    /// last accepted transaction id of the account; 0: none
    pub last_id: AtomicU32,
    /// Destination of the request with that id
    pub destination: AtomicU32,
    /// Amount of the request with that id
    pub amount: AtomicU32,
    /// Command of that request in the lower 16 bits, result code of its reply in the upper 16
    pub command: AtomicU32,
    /// Amount of the reply to that request
    pub reply_amount: AtomicU32,
    /// reserved: zero
    pub reserved: AtomicU32,
    /// reserved: zero
    pub reserved_2: AtomicU64,
}

const _: () = assert!(size_of::<TransferPaper>() == 32);

// SAFETY: the struct is `repr(C)` and contains only atomics. The check of its size above shows that it
// has no padding.
unsafe impl Shared for TransferPaper {}

/// One session, with the reply to its last packet.
#[repr(C)]
#[derive(Debug)]
pub struct TransferSession {
    /// 1 while a packet of the session is being executed
    pub lock: AtomicU32,
    /// number of operations in the last packet
    pub count: AtomicU32,
    /// secret token of the session; 0: the session is closed
    pub token: AtomicU64,
    /// sequence number of the last packet; 0: none yet
    pub sequence: AtomicU64,
    /// checksum of the last packet's operations
    pub sum: AtomicU64,
    /// result codes of the last packet's operations, 16 bits each; the first one in the lowest bits
    pub codes: AtomicU64,
    /// Amounts of the last packet's replies
    pub amounts: [AtomicU64; 4],
    /// 1 while the host executes packets of the session or withholds replies; the fast path then forwards
    pub claimed: AtomicU64,
    /// reserved: zero
    pub reserved: [AtomicU64; 6],
}

const _: () = assert!(size_of::<TransferSession>() == 128);

// SAFETY: the struct is `repr(C)` and contains only atomics. The check of its size above shows that it
// has no padding.
unsafe impl Shared for TransferSession {}

/// Effect of a request, on its way from the fast path to the journal.
#[repr(C)]
#[derive(Debug)]
pub struct TransferRecord {
    /// index of the record in the ring plus 1; it is written last, when the record is complete
    pub seal: AtomicU64,
    /// account that pays
    pub source: [AtomicU64; 2],
    /// account that is paid
    pub destination: [AtomicU64; 2],
    /// requested amount
    pub amount: AtomicU64,
    /// version of the source after the operation; 0: not changed
    pub source_version: AtomicU64,
    /// version of the destination after the operation; 0: not changed
    pub destination_version: AtomicU64,
    /// balance of the source after the operation, which is the amount in the reply
    pub source_balance: AtomicU64,
    /// slot of the session; 0xffffffff: paper format
    pub slot: AtomicU32,
    /// command in bits 0 to 7, flags in bits 8 to 15, result code in bits 16 to 31
    pub command: AtomicU32,
    /// contract code
    pub contract: AtomicU32,
    /// index of the operation in its packet; number of operations of the packet in the upper 16 bits
    pub place: AtomicU32,
    /// sequence number of the session; in the paper's format, the transaction id
    pub sequence: AtomicU64,
    /// checksum of the packet's operations
    pub sum: AtomicU64,
    /// value from the client
    pub timestamp: AtomicU64,
    /// value from the client
    pub uuid: [AtomicU64; 2],
    /// value from the client
    pub nonce: AtomicU32,
    /// reserved: zero
    pub timeout_s: AtomicU32,
    /// CLOCK_MONOTONIC time at which the fast path executed the operation
    pub time_ns: AtomicU64,
}

const _: () = assert!(size_of::<TransferRecord>() == 144);

// SAFETY: the struct is `repr(C)` and contains only atomics. The check of its size above shows that it
// has no padding.
unsafe impl Shared for TransferRecord {}

/// Positions to which one CPU's ring was written and read.
#[repr(C)]
#[derive(Debug)]
pub struct TransferRing {
    /// number of records written
    pub head: AtomicU64,
    /// reserved: zero
    pub reserved: [AtomicU64; 7],
    /// number of records that are in the journal
    pub tail: AtomicU64,
    /// reserved: zero
    pub reserved_2: [AtomicU64; 7],
}

const _: () = assert!(size_of::<TransferRing>() == 128);

// SAFETY: the struct is `repr(C)` and contains only atomics. The check of its size above shows that it
// has no padding.
unsafe impl Shared for TransferRing {}

/// State of the fast path: lease, mode, hash key, sizes and policies.
#[repr(C)]
#[derive(Debug)]
pub struct TransferControl {
    /// end of the lease: the fast path answers only before this CLOCK_MONOTONIC time
    pub lease_until_ns: AtomicU64,
    /// key of the index hash: two odd multipliers and a mask
    pub key: [AtomicU64; 3],
    /// id of the ledger with these accounts
    pub ledger: AtomicU64,
    /// 1 durable: the fast path only reads; 2 express: the fast path executes
    pub mode: AtomicU32,
    /// log2 of the number of buckets
    pub bucket_bits: AtomicU32,
    /// number of session slots
    pub sessions: AtomicU32,
    /// number of records in a ring, a power of two
    pub ring_records: AtomicU32,
    /// 1: packets in the paper's format are answered
    pub paper_format: AtomicU32,
    /// 1: unsigned writes are refused
    pub require_signature: AtomicU32,
    /// version of the layout, 1; a server does not take over a store of another version
    pub layout_version: AtomicU32,
    /// number of address ranges below
    pub issuers: AtomicU32,
    /// address ranges that may issue: IPv6, or IPv4 mapped into it
    pub issuer: [AtomicU64; 16],
    /// bits of each address that are compared
    pub issuer_mask: [AtomicU64; 16],
    /// number of refusals in the paper's format that may still be recorded; signed
    pub paper_refusals: AtomicU64,
    /// reserved: zero
    pub reserved: [AtomicU64; 6],
}

const _: () = assert!(size_of::<TransferControl>() == 384);

// SAFETY: the struct is `repr(C)` and contains only atomics. The check of its size above shows that it
// has no padding.
unsafe impl Shared for TransferControl {}

