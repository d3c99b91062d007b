// Generated from spec/transfer.toml by `cargo run -p lineside-spec`. Do not edit.

//! Layouts of the fast-path table of `transfer`, in memory that threads, processes and XDP share.

use lineside_fastpath::memory::Shared;
use core::sync::atomic::{AtomicU32, AtomicU64};

/// One account. Its id and validity never change once set; the rest only under its lock.
#[repr(C)]
#[derive(Debug)]
pub struct TransferCell {
    /// 1 while it is being changed
    pub lock: AtomicU32,
    /// cell_valid, cell_frozen, cell_claimed
    pub flags: AtomicU32,
    /// the account
    pub id: [AtomicU64; 2],
    /// what it holds
    pub balance: AtomicU64,
    /// set aside by pending transfers out of it: never above balance
    pub held_out: AtomicU64,
    /// pending for it: balance and this never overflow
    pub held_in: AtomicU64,
    /// how often it has changed
    pub version: AtomicU64,
    /// of a bucket's first cell: 1 while a cell of the bucket is being taken
    pub bucket_lock: AtomicU32,
    /// zero
    pub reserved: AtomicU32,
}

const _: () = assert!(size_of::<TransferCell>() == 64);

// SAFETY: the struct is `repr(C)`, holds atomics alone, and its size, checked above, leaves no padding.
unsafe impl Shared for TransferCell {}

/// What the paper's format needs of an account besides: its last transaction id and reply. At the cell's index.
#[repr(C)]
#[derive(Debug)]
pub struct TransferPaper {
    /// last transaction id that counted; 0: none
    pub last_id: AtomicU32,
    /// of that request
    pub destination: AtomicU32,
    /// of that request
    pub amount: AtomicU32,
    /// of that request; the reply's code 16 bits higher
    pub command: AtomicU32,
    /// Amount of its reply
    pub reply_amount: AtomicU32,
    /// zero
    pub reserved: AtomicU32,
    /// zero
    pub reserved_2: AtomicU64,
}

const _: () = assert!(size_of::<TransferPaper>() == 32);

// SAFETY: the struct is `repr(C)`, holds atomics alone, and its size, checked above, leaves no padding.
unsafe impl Shared for TransferPaper {}

/// One session, with the reply to its last packet.
#[repr(C)]
#[derive(Debug)]
pub struct TransferSession {
    /// 1 while a packet of the session is executed
    pub lock: AtomicU32,
    /// operations of the last packet
    pub count: AtomicU32,
    /// 0: closed
    pub token: AtomicU64,
    /// of the last packet; 0: none yet
    pub sequence: AtomicU64,
    /// of the last packet's operations
    pub sum: AtomicU64,
    /// of the last packet's operations, 16 bits each, the first lowest
    pub codes: AtomicU64,
    /// of the last packet's replies
    pub amounts: [AtomicU64; 4],
    /// 1 while the host executes or withholds packets of the session: the fast path leaves them to it
    pub claimed: AtomicU64,
    /// zero
    pub reserved: [AtomicU64; 6],
}

const _: () = assert!(size_of::<TransferSession>() == 128);

// SAFETY: the struct is `repr(C)`, holds atomics alone, and its size, checked above, leaves no padding.
unsafe impl Shared for TransferSession {}

/// One effect, on its way from the fast path to the journal.
#[repr(C)]
#[derive(Debug)]
pub struct TransferRecord {
    /// its place in the ring, plus 1; written last
    pub seal: AtomicU64,
    /// account
    pub source: [AtomicU64; 2],
    /// account
    pub destination: [AtomicU64; 2],
    /// asked for
    pub amount: AtomicU64,
    /// of the source after this; 0: not touched
    pub source_version: AtomicU64,
    /// of the destination after this; 0: not touched
    pub destination_version: AtomicU64,
    /// after this: the reply's amount
    pub source_balance: AtomicU64,
    /// session; 0xffffffff: paper format
    pub slot: AtomicU32,
    /// command; flags 8 bits higher, code 16 bits higher
    pub command: AtomicU32,
    /// contract code
    pub contract: AtomicU32,
    /// which operation of its packet; how many there are 16 bits higher
    pub place: AtomicU32,
    /// the session's, or the transaction id
    pub sequence: AtomicU64,
    /// of the packet's operations
    pub sum: AtomicU64,
    /// the client's
    pub timestamp: AtomicU64,
    /// the client's
    pub uuid: [AtomicU64; 2],
    /// the client's
    pub nonce: AtomicU32,
    /// zero
    pub timeout_s: AtomicU32,
    /// the fast path's clock, CLOCK_MONOTONIC
    pub time_ns: AtomicU64,
}

const _: () = assert!(size_of::<TransferRecord>() == 144);

// SAFETY: the struct is `repr(C)`, holds atomics alone, and its size, checked above, leaves no padding.
unsafe impl Shared for TransferRecord {}

/// How far one CPU's ring has been written and read.
#[repr(C)]
#[derive(Debug)]
pub struct TransferRing {
    /// records written so far
    pub head: AtomicU64,
    /// zero
    pub reserved: [AtomicU64; 7],
    /// records that are in the journal
    pub tail: AtomicU64,
    /// zero
    pub reserved_2: [AtomicU64; 7],
}

const _: () = assert!(size_of::<TransferRing>() == 128);

// SAFETY: the struct is `repr(C)`, holds atomics alone, and its size, checked above, leaves no padding.
unsafe impl Shared for TransferRing {}

/// What the fast path stands on: lease, mode, hash key, sizes and policies.
#[repr(C)]
#[derive(Debug)]
pub struct TransferControl {
    /// the fast path answers only before this CLOCK_MONOTONIC time
    pub lease_until_ns: AtomicU64,
    /// key of the index hash: two odd multipliers and a mask
    pub key: [AtomicU64; 3],
    /// the ledger whose accounts these are
    pub ledger: AtomicU64,
    /// 1 durable: the fast path only refers; 2 express: the fast path executes
    pub mode: AtomicU32,
    /// log2 of the number of buckets
    pub bucket_bits: AtomicU32,
    /// number of session slots
    pub sessions: AtomicU32,
    /// records of one ring, a power of two
    pub ring_records: AtomicU32,
    /// 1: the paper's packets are answered
    pub paper_format: AtomicU32,
    /// 1: unsigned writes are refused
    pub require_signature: AtomicU32,
    /// 1; another one is not adopted
    pub layout_version: AtomicU32,
    /// address ranges below
    pub issuers: AtomicU32,
    /// address ranges that may issue: IPv6, IPv4 mapped into it
    pub issuer: [AtomicU64; 16],
    /// the bits of each that count
    pub issuer_mask: [AtomicU64; 16],
    /// refusals in the paper format that may still be written down; signed
    pub paper_refusals: AtomicU64,
    /// zero
    pub reserved: [AtomicU64; 6],
}

const _: () = assert!(size_of::<TransferControl>() == 384);

// SAFETY: the struct is `repr(C)`, holds atomics alone, and its size, checked above, leaves no padding.
unsafe impl Shared for TransferControl {}

