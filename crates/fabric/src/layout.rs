// Generated from spec/fabric.toml by `cargo run -p lineside-spec`. Do not edit.

//! Layouts of the fast-path table of `fabric`, in memory that threads, processes and XDP share.

use lineside_fastpath::memory::Shared;
use core::sync::atomic::{AtomicU32, AtomicU64};

/// What became of one block. A file holds some of them, block n in place n modulo their count.
#[repr(C)]
#[derive(Debug)]
pub struct FabricResult {
    /// results_magic
    pub magic: AtomicU64,
    /// odd while being written; 0: nothing was written yet
    pub seq: AtomicU64,
    /// number of the block
    pub number: AtomicU64,
    /// transactions of the block
    pub transactions: AtomicU32,
    /// those that are VALID
    pub valid: AtomicU32,
    /// codes below; fewer than transactions: the others are in the ledger only
    pub codes_bytes: AtomicU32,
    /// 0 for the genesis block, else 1
    pub has_commit_hash: AtomicU32,
    /// the block's header hash
    pub header_hash: [AtomicU64; 4],
    /// the block's commit hash
    pub commit_hash: [AtomicU64; 4],
    /// block and transactions read and hashed
    pub parse_ns: AtomicU64,
    /// identities looked up, signatures verified
    pub verify_ns: AtomicU64,
    /// codes and policies
    pub policy_ns: AtomicU64,
    /// reads checked, writes collected, commit hash
    pub mvcc_ns: AtomicU64,
    /// from the ledger's beginning with it until it was durable
    pub ledger_ns: AtomicU64,
    /// from the whole block until it was durable
    pub total_ns: AtomicU64,
    /// when it was durable, nanoseconds since 1970
    pub durable_unix_ns: AtomicU64,
    /// zero
    pub reserved: [AtomicU64; 4],
    /// codes of its transactions, a byte each, as TRANSACTIONS_FILTER has them
    pub codes: [AtomicU64; 8192],
}

const _: () = assert!(size_of::<FabricResult>() == 65728);

// SAFETY: the struct is `repr(C)`, holds atomics alone, and its size, checked above, leaves no padding.
unsafe impl Shared for FabricResult {}

