//! Interface through which the host fills and invalidates the fast-path table.

use crate::key::{Interval, Key};
use std::fmt;

/// One cell as it was read from the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Key of the row.
    pub key: Key,
    /// Value of at most [`VALUE_BYTES_MAX`](crate::key::VALUE_BYTES_MAX) bytes.
    pub value: Vec<u8>,
    /// Timestamp in milliseconds since 1970, which HBase calls the version.
    pub timestamp_ms: u64,
}

/// Index of a column in the list of columns that the fast path may cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ColumnId(pub u16);

/// Number that the fast path gives to a server, to check that server's lease. Number 0 is the embedded table, whose
/// rows need only the lease of the fast path itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ServerId(pub u16);

/// All rows of `interval` in one column. The host has read them together.
#[derive(Clone, Debug)]
pub struct Filled<'a> {
    /// Column of the rows.
    pub column: ColumnId,
    /// Interval that was read completely: if `rows` lacks a key of the interval, the table has no row with that key.
    pub interval: Interval,
    /// Rows in ascending order of their keys, without duplicates.
    pub rows: &'a [Row],
    /// CLOCK_MONOTONIC time in nanoseconds at which the first of the cells may expire. The rows are not answered after
    /// it.
    pub until_ns: u64,
    /// Server whose lease the fast path needs to answer the rows.
    pub server: ServerId,
}

/// Minimum number of rows that the host reads where the fast path has no rows.
pub const READ_AHEAD_ROWS: usize = 8;

/// Part of the table that the host will read: up to a number of rows of an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadPlan {
    /// Interval to read. It contains the requested interval, and may begin before it and end after it.
    pub interval: Interval,
    /// Maximum number of rows to read.
    pub rows: usize,
}

impl ReadPlan {
    /// Returns the part to read for an interval of which the fast path has nothing.
    pub fn ahead(asked: &Interval, rows: usize) -> Self {
        Self {
            interval: *asked,
            rows: rows.max(READ_AHEAD_ROWS),
        }
    }
}

/// Counters of changes of the fast-path table, for the metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FillCounts {
    /// Number of intervals that were installed.
    pub fills: u64,
    /// Number of intervals that were not installed, because the table was full and most of their rows had been read
    /// only once.
    pub cold: u64,
    /// Number of blocks that were invalidated.
    pub invalidations: u64,
    /// Number of blocks that were evicted to make room for others.
    pub evictions: u64,
    /// Number of blocks that are in the index now.
    pub blocks: u64,
    /// Number of rows in the blocks of the index.
    pub rows: u64,
}

/// Operations of the host on the fast-path table. Only one thread calls them at a time, while other threads read the
/// table. An implementation does not check whether rows may be installed; [`Coherence`](crate::coherence::Coherence)
/// has done that.
pub trait ColumnFill: Send + fmt::Debug {
    /// Installs all rows of `filled.interval`. An existing block in the interval may stay if it remains valid for at
    /// least half as long, because its rows are equally current. If the table is full and the interval is read often,
    /// evicts blocks that were not used recently; otherwise, does not install the interval or a part of it. A block is
    /// always installed completely.
    fn install(&mut self, filled: &Filled<'_>);

    /// Removes all rows of `interval`. When this function has returned, the fast path answers nothing about this
    /// interval. Rows next to the interval may be removed, too.
    fn invalidate(&mut self, column: ColumnId, interval: &Interval);

    /// Removes all rows of all columns.
    fn clear(&mut self);

    /// Returns the part of the table to read for a request of `rows` rows of `asked`. It covers the blocks in that
    /// range that were invalidated or have expired; if there are none, it covers some rows more than requested.
    fn plan_read(&self, _column: ColumnId, asked: &Interval, rows: usize) -> ReadPlan {
        ReadPlan::ahead(asked, rows)
    }

    /// Returns the first `rows` rows of `asked`, and true if more rows follow. Returns `None` unless the fast path can
    /// answer all of them now.
    fn cached_rows(&self, _column: ColumnId, _asked: &Interval, _rows: usize) -> Option<(Vec<Row>, bool)> {
        None
    }

    /// Sets the CLOCK_MONOTONIC time in nanoseconds until which rows of `server` are answered; 0: they are not
    /// answered.
    fn set_server_lease(&mut self, server: ServerId, until_ns: u64);

    /// Returns the counters; all are 0 if the implementation does not count.
    fn counts(&self) -> FillCounts {
        FillCounts::default()
    }
}
