//! Interface by which the host fills and invalidates the fast-path table.

use crate::key::{Interval, Key};
use std::fmt;

/// One cell as it was read from the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Row key.
    pub key: Key,
    /// Value of at most [`VALUE_BYTES_MAX`](crate::key::VALUE_BYTES_MAX) bytes.
    pub value: Vec<u8>,
    /// Timestamp in milliseconds since 1970, which HBase calls the version.
    pub timestamp_ms: u64,
}

/// Index of a column among those that the fast path is configured for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ColumnId(pub u16);

/// Number of a server whose lease the fast path checks. Number 0 is the embedded table, which needs only the lease of
/// the fast path itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ServerId(pub u16);

/// All rows of `interval` in one column, read together.
#[derive(Clone, Debug)]
pub struct Filled<'a> {
    /// Column of the rows.
    pub column: ColumnId,
    /// Interval that was read completely: a key in it that is missing in `rows` has no row.
    pub interval: Interval,
    /// Rows in ascending order of their keys, without duplicates.
    pub rows: &'a [Row],
    /// CLOCK_MONOTONIC time in ns from which on the rows may not be valid any more: the earliest expiry of a cell.
    pub until_ns: u64,
    /// Server whose lease is needed to answer the rows.
    pub server: ServerId,
}

/// Minimum number of rows to read where the fast path holds nothing.
pub const READ_AHEAD_ROWS: usize = 8;

/// Part of the table to read: a number of rows of an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadPlan {
    /// Interval that begins at or before the requested one, and ends at or after its end.
    pub interval: Interval,
    /// Maximum number of rows.
    pub rows: usize,
}

impl ReadPlan {
    /// Returns the reading for an interval about which the fast path holds nothing.
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
    /// Intervals installed.
    pub fills: u64,
    /// Intervals that were not installed because the table was full and most of their rows had been read only once.
    pub cold: u64,
    /// Blocks invalidated.
    pub invalidations: u64,
    /// Blocks evicted to make room for others.
    pub evictions: u64,
    /// Blocks in the index now.
    pub blocks: u64,
    /// Rows in these blocks now.
    pub rows: u64,
}

/// Operations of the host on the fast-path table. Only one thread calls them at a time, while readers continue. The
/// implementation does not decide whether rows may be installed; the caller has done that (see `coherence`).
pub trait ColumnFill: Send + fmt::Debug {
    /// Installs all rows of `filled.interval`. Blocks in the interval that remain valid for at least half as long may
    /// stay, because they are equally true. If there is no room, blocks that were not used recently are evicted when
    /// the interval is read often; otherwise the interval or a part of it is not installed. A block is always installed
    /// completely.
    fn install(&mut self, filled: &Filled<'_>);

    /// Removes everything about `interval`: once this returns, the fast path answers nothing that it held about it.
    /// Rows next to the interval may be removed too.
    fn invalidate(&mut self, column: ColumnId, interval: &Interval);

    /// Removes everything.
    fn clear(&mut self);

    /// Returns the reading for a request of `rows` rows of `asked`. It covers the blocks there that were invalidated or
    /// have expired, or some further rows.
    fn plan_read(&self, _column: ColumnId, asked: &Interval, rows: usize) -> ReadPlan {
        ReadPlan::ahead(asked, rows)
    }

    /// Returns the first `rows` rows of `asked`, and true if there are more, if the fast path can answer all of that
    /// now.
    fn cached_rows(&self, _column: ColumnId, _asked: &Interval, _rows: usize) -> Option<(Vec<Row>, bool)> {
        None
    }

    /// Sets the CLOCK_MONOTONIC time in ns until which rows of `server` are answered; 0 means that they are not.
    fn set_server_lease(&mut self, server: ServerId, until_ns: u64);

    /// Returns the counters, if the implementation counts.
    fn counts(&self) -> FillCounts {
        FillCounts::default()
    }
}
