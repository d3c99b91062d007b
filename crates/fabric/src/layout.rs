// Generated from spec/fabric.toml by `cargo run -p lineside-spec`. Do not edit.

//! Layouts of the fast-path table of `fabric`, in memory that threads, processes and XDP share.

use lineside_fastpath::memory::Shared;
use core::sync::atomic::{AtomicU32, AtomicU64};

/// Result of one block. A file has several of them, block n at index n modulo their number.
#[repr(C)]
#[derive(Debug)]
pub struct FabricResult {
    /// constant results_magic
    pub magic: AtomicU64,
    /// sequence number; odd while the entry is written; 0: the entry was never written
    pub seq: AtomicU64,
    /// number of the block
    pub number: AtomicU64,
    /// number of transactions of the block
    pub transactions: AtomicU32,
    /// number of VALID transactions
    pub valid: AtomicU32,
    /// number of codes below; if fewer than transactions, the others are only in the ledger
    pub codes_bytes: AtomicU32,
    /// 0 for the genesis block, else 1
    pub has_commit_hash: AtomicU32,
    /// the block's header hash
    pub header_hash: [AtomicU64; 4],
    /// the block's commit hash
    pub commit_hash: [AtomicU64; 4],
    /// time in nanoseconds for reading and hashing the block and its transactions
    pub parse_ns: AtomicU64,
    /// time in nanoseconds for looking up identities and verifying signatures
    pub verify_ns: AtomicU64,
    /// time in nanoseconds for computing validation codes and checking policies
    pub policy_ns: AtomicU64,
    /// time in nanoseconds for checking reads, collecting writes and computing the commit hash
    pub mvcc_ns: AtomicU64,
    /// time in nanoseconds from the start of the ledger's write until the block was durable
    pub ledger_ns: AtomicU64,
    /// time in nanoseconds from the arrival of the complete block until the block was durable
    pub total_ns: AtomicU64,
    /// time at which the block was durable, in nanoseconds since 1970
    pub durable_unix_ns: AtomicU64,
    /// reserved: zero
    pub reserved: [AtomicU64; 4],
    /// validation codes of the transactions, one byte each, as in TRANSACTIONS_FILTER
    pub codes: [AtomicU64; 8192],
}

const _: () = assert!(size_of::<FabricResult>() == 65728);

// SAFETY: the struct is `repr(C)` and contains only atomics. The check of its size above shows that it
// has no padding.
unsafe impl Shared for FabricResult {}

