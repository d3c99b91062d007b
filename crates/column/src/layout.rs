// Generated from spec/column.toml by `cargo run -p lineside-spec`. Do not edit.

//! Layouts of the fast-path table of `column`, in memory that threads, processes and XDP share.

use lineside_fastpath::memory::Shared;
use core::sync::atomic::{AtomicU32, AtomicU64};

/// State of the fast path: lease, hash key, sizes and policies.
#[repr(C)]
#[derive(Debug)]
pub struct ColumnControl {
    /// end of the lease: the fast path answers only before this CLOCK_MONOTONIC time
    pub lease_until_ns: AtomicU64,
    /// key of the names' hash: two words of NH, one odd multiplier
    pub key: [AtomicU64; 3],
    /// number of entries of the table of names minus 1
    pub name_mask: AtomicU32,
    /// number of columns
    pub columns: AtomicU32,
    /// number of pages in the pool
    pub pages: AtomicU32,
    /// number of blocks in the pool
    pub blocks: AtomicU32,
    /// log2 of the maximum number of rows in a block
    pub block_rows: AtomicU32,
    /// bytes of one block's records in column_data, including padding
    pub data_bytes: AtomicU32,
    /// 1: packets in the paper's format are answered
    pub paper_format: AtomicU32,
    /// 1: replies have the flag may_be_stale
    pub may_be_stale: AtomicU32,
    /// 1: an invalid block makes its whole column miss, as in the paper
    pub literal_flags: AtomicU32,
    /// version of the layout, 1; a server does not take over a store of another version
    pub layout_version: AtomicU32,
    /// number of address ranges below
    pub ranges: AtomicU32,
    /// reserved: zero
    pub reserved: AtomicU32,
    /// ranges whose changes make the fast path invalidate a block: IPv6, or IPv4 mapped into it
    pub range: [AtomicU64; 16],
    /// bits of each address that are compared
    pub range_mask: [AtomicU64; 16],
}

const _: () = assert!(size_of::<ColumnControl>() == 336);

// SAFETY: the struct is `repr(C)` and contains only atomics. The check of its size above shows that it
// has no padding.
unsafe impl Shared for ColumnControl {}

/// End of the lease of each server.
#[repr(C)]
#[derive(Debug)]
pub struct ColumnServers {
    /// end of the lease as CLOCK_MONOTONIC time
    pub until_ns: [AtomicU64; 64],
}

const _: () = assert!(size_of::<ColumnServers>() == 512);

// SAFETY: the struct is `repr(C)` and contains only atomics. The check of its size above shows that it
// has no padding.
unsafe impl Shared for ColumnServers {}

/// Entry of the table of names.
#[repr(C)]
#[derive(Debug)]
pub struct ColumnName {
    /// family:qualifier, padded with zeros
    pub name: [AtomicU64; 4],
    /// number of the column plus 1; 0: unused
    pub column: AtomicU32,
    /// reserved: zero
    pub reserved: AtomicU32,
}

const _: () = assert!(size_of::<ColumnName>() == 40);

// SAFETY: the struct is `repr(C)` and contains only atomics. The check of its size above shows that it
// has no padding.
unsafe impl Shared for ColumnName {}

/// Fast-path table of one column.
#[repr(C)]
#[derive(Debug)]
pub struct ColumnTable {
    /// sequence number; odd while the tops, pages or blocks of the column change
    pub seq: AtomicU64,
    /// number of blocks with the flag invalid
    pub invalid_blocks: AtomicU64,
    /// number of pages in use
    pub pages: AtomicU32,
    /// number of key bytes that the heads in the tops skip
    pub skip: AtomicU32,
    /// reserved: zero
    pub reserved: [AtomicU64; 5],
}

const _: () = assert!(size_of::<ColumnTable>() == 64);

// SAFETY: the struct is `repr(C)` and contains only atomics. The check of its size above shows that it
// has no padding.
unsafe impl Shared for ColumnTable {}

/// Pages of one column in the order of keys.
#[repr(C)]
#[derive(Debug)]
pub struct ColumnTops {
    /// head of the low key of each page's first block; 0 for the first page
    pub head: [AtomicU64; 4096],
    /// indexes of the pages
    pub page: [AtomicU32; 4096],
}

const _: () = assert!(size_of::<ColumnTops>() == 49152);

// SAFETY: the struct is `repr(C)` and contains only atomics. The check of its size above shows that it
// has no padding.
unsafe impl Shared for ColumnTops {}

/// Up to 64 blocks in the order of keys.
#[repr(C)]
#[derive(Debug)]
pub struct ColumnPage {
    /// number of blocks
    pub count: AtomicU32,
    /// number of key bytes that the heads skip
    pub skip: AtomicU32,
    /// reserved: zero
    pub reserved: [AtomicU64; 7],
    /// head of the low key of each block; 0 for the first block
    pub head: [AtomicU64; 64],
    /// indexes of the blocks
    pub block: [AtomicU32; 64],
}

const _: () = assert!(size_of::<ColumnPage>() == 832);

// SAFETY: the struct is `repr(C)` and contains only atomics. The check of its size above shows that it
// has no padding.
unsafe impl Shared for ColumnPage {}

/// All rows of one interval of keys.
#[repr(C)]
#[derive(Debug)]
pub struct ColumnBlock {
    /// block_invalid, block_continues
    pub flags: AtomicU32,
    /// number of rows
    pub rows: AtomicU32,
    /// bits 0-7: bytes of the low key; 8-15: of the high key (0xff: none); 16-31: skip of the heads
    pub lengths: AtomicU32,
    /// index of the server whose lease the block needs
    pub server: AtomicU32,
    /// CLOCK_MONOTONIC time at which the first row may expire
    pub until_ns: AtomicU64,
    /// 1: a request has read the block since the writer's last check
    pub used: AtomicU32,
    /// reserved: zero
    pub reserved: AtomicU32,
    /// end of each record in the block's data, in bytes
    pub end: [AtomicU32; 8],
    /// head of each row's key
    pub head: [AtomicU64; 8],
    /// low key (inclusive) and high key (exclusive), word by word in turn
    pub bound: [AtomicU64; 16],
    /// sums of the records' 32-bit words up to the end of each record
    pub sum: [AtomicU64; 8],
    /// timestamp of each row, ms since 1970
    pub version_ms: [AtomicU64; 8],
}

const _: () = assert!(size_of::<ColumnBlock>() == 384);

// SAFETY: the struct is `repr(C)` and contains only atomics. The check of its size above shows that it
// has no padding.
unsafe impl Shared for ColumnBlock {}

/// 64 bytes of records. The records of one block are contiguous.
#[repr(C)]
#[derive(Debug)]
pub struct ColumnLine {
    /// records: each is a column_row, its key, its value and padding
    pub words: [AtomicU64; 8],
}

const _: () = assert!(size_of::<ColumnLine>() == 64);

// SAFETY: the struct is `repr(C)` and contains only atomics. The check of its size above shows that it
// has no padding.
unsafe impl Shared for ColumnLine {}

