//! How the host writes into the fast path.

use crate::key::{Interval, Key};
use std::fmt;

/// One cell as it was read from the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its row key.
    pub key: Key,
    /// Its value, at most [`VALUE_BYTES_MAX`](crate::key::VALUE_BYTES_MAX) bytes.
    pub value: Vec<u8>,
    /// Its timestamp, milliseconds since 1970: what HBase calls its version.
    pub timestamp_ms: u64,
}

/// Which of the columns that the fast path is configured for, in the configuration's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ColumnId(pub u16);

/// Which of the servers whose leases the fast path watches; 0 is the embedded table, whose lease is the fast path's
/// own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ServerId(pub u16);

/// All rows of `interval` in one column, as they were read together.
#[derive(Clone, Debug)]
pub struct Filled<'a> {
    /// The column.
    pub column: ColumnId,
    /// What was read, whole: a key in it that `rows` has not has no row.
    pub interval: Interval,
    /// In the keys' order, none twice.
    pub rows: &'a [Row],
    /// CLOCK_MONOTONIC time at which it may not be true any more: the earliest end of a cell's or the family's life.
    pub until_ns: u64,
    /// Whose lease it needs.
    pub server: ServerId,
}

/// Rows that are read of what the fast path knows nothing of, at least.
pub const READ_AHEAD_ROWS: usize = 8;

/// What is to be read of the table: so many rows of an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// It begins where what was asked for does, or before, and ends there or behind.
    pub interval: Interval,
    /// Rows at most.
    pub rows: usize,
}

impl Reading {
    /// Of what the fast path knows nothing of.
    pub fn ahead(asked: &Interval, rows: usize) -> Self {
        Self {
            interval: *asked,
            rows: rows.max(READ_AHEAD_ROWS),
        }
    }
}

/// What was done to the fast path, for the metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FillCounts {
    /// Intervals installed.
    pub fills: u64,
    /// Intervals left out: the fast path was full, and most of their rows had been read once.
    pub cold: u64,
    /// Blocks invalidated.
    pub invalidations: u64,
    /// Blocks that gave way to others.
    pub evictions: u64,
    /// Blocks in the index now.
    pub blocks: u64,
    /// Their rows.
    pub rows: u64,
}

/// What the host does to the fast path. One thread's at a time; readers go on meanwhile. Nothing here decides whether a
/// fill is still true: that is the host's, before it calls (`coherence`).
pub trait ColumnFill: Send + fmt::Debug {
    /// Takes over all of `filled.interval`; what the fast path holds there and would answer for half as long may stay,
    /// being as true.
    /// What finds no room evicts what was not used for long, if it is hot itself, or is left out: the fast path then
    /// holds less of the interval, never a part of a row's truth.
    fn install(&mut self, filled: &Filled<'_>);

    /// From its return on the fast path answers nothing that it knew of `interval` before. What lies beside may go too.
    fn invalidate(&mut self, column: ColumnId, interval: &Interval);

    /// The same of all columns.
    fn clear(&mut self);

    /// What to read for who asks for `rows` rows of `asked`, so that the fast path gets back all that changes or time
    /// took from there, or some rows ahead.
    fn reading(&self, _column: ColumnId, asked: &Interval, rows: usize) -> Reading {
        Reading::ahead(asked, rows)
    }

    /// The first `rows` rows of `asked`, and whether it has more, where the fast path answers all of that now.
    fn held(&self, _column: ColumnId, _asked: &Interval, _rows: usize) -> Option<(Vec<Row>, bool)> {
        None
    }

    /// Ranges of `server` are answered until `until_ns` (CLOCK_MONOTONIC); 0: not at all.
    fn set_server_lease(&mut self, server: ServerId, until_ns: u64);

    /// What was done so far, where it is counted.
    fn counts(&self) -> FillCounts {
        FillCounts::default()
    }
}
