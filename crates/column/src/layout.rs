// Generated from spec/column.toml by `cargo run -p lineside-spec`. Do not edit.

//! Layouts of the fast-path table of `column`, in memory that threads, processes and XDP share.

use lineside_fastpath::memory::Shared;
use core::sync::atomic::{AtomicU32, AtomicU64};

/// What the fast path stands on: lease, hash key, sizes and policies.
#[repr(C)]
#[derive(Debug)]
pub struct ColumnControl {
    /// the fast path answers only before this CLOCK_MONOTONIC time
    pub lease_until_ns: AtomicU64,
    /// key of the names' hash: two words of NH, one odd multiplier
    pub key: [AtomicU64; 3],
    /// places in the names' table - 1
    pub name_mask: AtomicU32,
    /// number of columns
    pub columns: AtomicU32,
    /// pages in the pool
    pub pages: AtomicU32,
    /// blocks in the pool
    pub blocks: AtomicU32,
    /// rows of a block at most: 2^b
    pub block_rows: AtomicU32,
    /// bytes of one block's records in column_data, the room behind them included
    pub data_bytes: AtomicU32,
    /// 1: the paper's packets are answered
    pub paper_format: AtomicU32,
    /// 1: replies say so
    pub may_be_stale: AtomicU32,
    /// 1: an invalid block makes its whole column miss, as the paper reads
    pub literal_flags: AtomicU32,
    /// 1; another one is not adopted
    pub layout_version: AtomicU32,
    /// address ranges below
    pub ranges: AtomicU32,
    /// zero
    pub reserved: AtomicU32,
    /// address ranges whose changes make the fast path invalidate a block: IPv6, IPv4 mapped into it
    pub range: [AtomicU64; 16],
    /// the bits of each that count
    pub range_mask: [AtomicU64; 16],
}

const _: () = assert!(size_of::<ColumnControl>() == 336);

// SAFETY: the struct is `repr(C)`, holds atomics alone, and its size, checked above, leaves no padding.
unsafe impl Shared for ColumnControl {}

/// Until when the rows of each server may be answered.
#[repr(C)]
#[derive(Debug)]
pub struct ColumnServers {
    /// CLOCK_MONOTONIC time
    pub until_ns: [AtomicU64; 64],
}

const _: () = assert!(size_of::<ColumnServers>() == 512);

// SAFETY: the struct is `repr(C)`, holds atomics alone, and its size, checked above, leaves no padding.
unsafe impl Shared for ColumnServers {}

/// One place in the table of names.
#[repr(C)]
#[derive(Debug)]
pub struct ColumnName {
    /// family:qualifier, zeros behind it
    pub name: [AtomicU64; 4],
    /// the column's number and 1; 0: nothing
    pub column: AtomicU32,
    /// zero
    pub reserved: AtomicU32,
}

const _: () = assert!(size_of::<ColumnName>() == 40);

// SAFETY: the struct is `repr(C)`, holds atomics alone, and its size, checked above, leaves no padding.
unsafe impl Shared for ColumnName {}

/// One column.
#[repr(C)]
#[derive(Debug)]
pub struct ColumnTable {
    /// odd while its tops, pages or blocks change
    pub seq: AtomicU64,
    /// blocks with the flag invalid
    pub invalid_blocks: AtomicU64,
    /// pages in use
    pub pages: AtomicU32,
    /// bytes of a key that its tops skip
    pub skip: AtomicU32,
    /// zero
    pub reserved: [AtomicU64; 5],
}

const _: () = assert!(size_of::<ColumnTable>() == 64);

// SAFETY: the struct is `repr(C)`, holds atomics alone, and its size, checked above, leaves no padding.
unsafe impl Shared for ColumnTable {}

/// The pages of one column in the keys' order.
#[repr(C)]
#[derive(Debug)]
pub struct ColumnTops {
    /// of each page's first low key; of the first page 0
    pub head: [AtomicU64; 4096],
    /// index into the pages
    pub page: [AtomicU32; 4096],
}

const _: () = assert!(size_of::<ColumnTops>() == 49152);

// SAFETY: the struct is `repr(C)`, holds atomics alone, and its size, checked above, leaves no padding.
unsafe impl Shared for ColumnTops {}

/// Up to 64 blocks in the keys' order.
#[repr(C)]
#[derive(Debug)]
pub struct ColumnPage {
    /// blocks
    pub count: AtomicU32,
    /// bytes of a key that the heads skip
    pub skip: AtomicU32,
    /// zero
    pub reserved: [AtomicU64; 7],
    /// of each block's low key; of the first block 0
    pub head: [AtomicU64; 64],
    /// index into the blocks
    pub block: [AtomicU32; 64],
}

const _: () = assert!(size_of::<ColumnPage>() == 832);

// SAFETY: the struct is `repr(C)`, holds atomics alone, and its size, checked above, leaves no padding.
unsafe impl Shared for ColumnPage {}

/// All rows of one interval of keys.
#[repr(C)]
#[derive(Debug)]
pub struct ColumnBlock {
    /// block_invalid, block_continues
    pub flags: AtomicU32,
    /// rows
    pub rows: AtomicU32,
    /// bytes of the low key; of the high key (0xff: none) 8 bits higher; the heads' skip 16 bits higher
    pub lengths: AtomicU32,
    /// whose lease it needs
    pub server: AtomicU32,
    /// CLOCK_MONOTONIC time at which a row may end to be
    pub until_ns: AtomicU64,
    /// 1: read since the writer last looked
    pub used: AtomicU32,
    /// zero
    pub reserved: AtomicU32,
    /// where each record ends in the block's data, bytes
    pub end: [AtomicU32; 8],
    /// of each row's key
    pub head: [AtomicU64; 8],
    /// low key (inclusive) and high key (exclusive), word by word in turn
    pub bound: [AtomicU64; 16],
    /// of the records' 32-bit words up to the end of each
    pub sum: [AtomicU64; 8],
    /// timestamp of each row, ms since 1970
    pub version_ms: [AtomicU64; 8],
}

const _: () = assert!(size_of::<ColumnBlock>() == 384);

// SAFETY: the struct is `repr(C)`, holds atomics alone, and its size, checked above, leaves no padding.
unsafe impl Shared for ColumnBlock {}

/// 64 bytes of records; a block's stand together.
#[repr(C)]
#[derive(Debug)]
pub struct ColumnLine {
    /// column_row, key, value, padding; then the next
    pub words: [AtomicU64; 8],
}

const _: () = assert!(size_of::<ColumnLine>() == 64);

// SAFETY: the struct is `repr(C)`, holds atomics alone, and its size, checked above, leaves no padding.
unsafe impl Shared for ColumnLine {}

