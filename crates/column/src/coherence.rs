//! Write-invalidate coherence with a fill fence: the protocol that keeps the fast path from ever being stale.
//!
//! Every change of the table lies between [`Coherence::begin_write`] and [`Coherence::end_write`], and every fill
//! between [`Coherence::begin`] and [`Fill::finish`]. The host calls `begin_write` before any client can see the
//! change: the fast path drops everything that the change affects, and no fill of it may begin until `end_write`. The
//! host calls `end_write` when every client sees the change. A fill begins before the host reads the table. Its rows
//! are installed only if no change of them was in progress when the fill began, and if no `begin_write` has affected
//! them since. Both conditions are checked under one lock. So all rows in the fast path were read after their last
//! change was visible, and before their next change is. A value from a write request never goes into the fast path
//! directly.

use crate::fill::{ColumnFill, ColumnId, FillCounts, Filled, ReadPlan, Row, ServerId};
use crate::key::{Interval, Key};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Maximum number of ranges in change that are recorded. Further changes count as changes of the whole table.
pub const WRITE_INTENTS_MAX: usize = 1024;
/// Maximum number of concurrent fills. Rows that are read while this number is reached are not cached.
pub const FILLS_MAX: usize = 256;
/// Maximum number of changes that may overlap a fill. With more changes, nothing of the fill is installed.
const OVERLAPPING_WRITES_MAX: usize = 32;

/// Maximum time for which a reader waits for another reader of the same rows. If that read takes longer, the waiting
/// reader reads the table itself.
pub const JOIN_WAIT_MAX: Duration = Duration::from_millis(50);

/// Column and interval of keys that a change affects.
pub type ColumnRange = (ColumnId, Interval);

/// A change in progress, between `begin_write` and `end_write`.
#[derive(Debug)]
#[must_use = "the change is under way until `Coherence::end_write`"]
pub struct WriteIntent(u64);

/// A fill in progress. Dropping it abandons the fill.
#[derive(Debug)]
pub struct Fill<'a> {
    coherence: &'a Coherence,
    id: u64,
}

/// Counters and state of the coherence protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Number of fills that were installed.
    pub installed: u64,
    /// Number of fills that were refused, because a change of the whole table or too many fills were in progress.
    pub refused: u64,
    /// Number of fills whose rows were not installed, because a change overlapped them.
    pub overtaken: u64,
    /// Number of reads that waited for another fill.
    pub joined: u64,
    /// Number of reads that were answered from the fast path's rows ([`Coherence::cached_rows`]).
    pub shared: u64,
    /// Number of writes that were begun.
    pub changes: u64,
    /// Number of changes that were treated as changes of the whole table, because too many ranges were being changed.
    pub overflowed: u64,
    /// Number of key ranges that are being changed.
    pub intents: u64,
    /// True if the fast path is switched off.
    pub is_off: bool,
    /// Number of fills, invalidations and evictions of the fast-path table.
    pub fastpath: FillCounts,
}

struct FillInProgress {
    id: u64,
    range: ColumnRange,
    server: ServerId,
    /// Ranges that were being changed when the fill began, or that a change has affected since.
    overlapping_writes: Vec<Interval>,
}

struct Inner {
    fastpath: Box<dyn ColumnFill>,
    fills: Vec<FillInProgress>,
    /// Ranges that are being changed, each with the id of its change.
    intents: Vec<(u64, ColumnRange)>,
    /// Ids of changes in progress that count as changes of the whole table.
    whole_table_writes: Vec<u64>,
    next_id: u64,
    is_off: bool,
    counts: Counts,
}

/// The fast path, and the protocol between reads of the table and fills of the fast path.
pub struct Coherence {
    inner: Mutex<Inner>,
    /// Condition variable that is notified when a fill ends.
    ended: Condvar,
}

impl std::fmt::Debug for Coherence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Coherence").finish_non_exhaustive()
    }
}

fn overlap(one: &ColumnRange, other: &ColumnRange) -> bool {
    one.0 == other.0 && one.1.overlaps(&other.1)
}

impl Coherence {
    /// Creates the protocol for this fast path, and empties it.
    pub fn new(mut fastpath: Box<dyn ColumnFill>) -> Self {
        fastpath.clear();
        Self {
            inner: Mutex::new(Inner {
                fastpath,
                fills: Vec::new(),
                intents: Vec::new(),
                whole_table_writes: Vec::new(),
                next_id: 0,
                is_off: false,
                counts: Counts::default(),
            }),
            ended: Condvar::new(),
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a write that will change `ranges`. When this function has returned, the fast path answers nothing about
    /// these ranges until they have been read again after [`Coherence::end_write`].
    pub fn begin_write(&self, ranges: &[ColumnRange]) -> WriteIntent {
        let mut inner = self.inner();
        let id = inner.next_id();
        inner.counts.changes += 1;
        if inner.intents.len() + ranges.len() > WRITE_INTENTS_MAX {
            inner.counts.overflowed += 1;
            inner.whole_table_writes.push(id);
            inner.invalidate_all();
        } else {
            for one in ranges {
                inner.intents.push((id, *one));
                inner.invalidate(one);
            }
        }
        WriteIntent(id)
    }

    /// Begins a write of the whole table.
    pub fn begin_write_all(&self) -> WriteIntent {
        let mut inner = self.inner();
        let id = inner.next_id();
        inner.counts.changes += 1;
        inner.whole_table_writes.push(id);
        inner.invalidate_all();
        WriteIntent(id)
    }

    /// Ends a write: every client now sees the change, or the change will never be made.
    pub fn end_write(&self, intent: WriteIntent) {
        let mut inner = self.inner();
        inner.intents.retain(|(id, _)| *id != intent.0);
        inner.whole_table_writes.retain(|id| *id != intent.0);
    }

    /// Begins a fill. The caller must call this before it reads the table. Returns `None` if the rows that will be read
    /// must not be cached.
    pub fn begin(&self, column: ColumnId, interval: Interval, server: ServerId) -> Option<Fill<'_>> {
        let range = (column, interval);
        let mut inner = self.inner();
        let under_change = inner.intents.iter().filter(|(_, intent)| overlap(intent, &range));
        let overlapping_writes: Vec<Interval> = under_change.map(|(_, intent)| intent.1).collect();
        let is_free = !inner.is_off
            && inner.whole_table_writes.is_empty()
            && inner.fills.len() < FILLS_MAX
            && overlapping_writes.len() <= OVERLAPPING_WRITES_MAX;
        if !is_free {
            inner.counts.refused += 1;
            return None;
        }
        let id = inner.next_id();
        inner.fills.push(FillInProgress {
            id,
            range,
            server,
            overlapping_writes,
        });
        Some(Fill { coherence: self, id })
    }

    /// Returns the part of the table to read for a request, see [`ColumnFill::plan_read`].
    pub fn plan_read(&self, column: ColumnId, asked: &Interval, rows: usize) -> ReadPlan {
        self.inner().fastpath.plan_read(column, asked, rows)
    }

    /// Returns rows from the fast path, see [`ColumnFill::cached_rows`]. They equal the table's rows at this moment.
    pub fn cached_rows(&self, column: ColumnId, asked: &Interval, rows: usize) -> Option<(Vec<Row>, bool)> {
        let mut inner = self.inner();
        let cached_rows = inner.fastpath.cached_rows(column, asked, rows);
        inner.counts.shared += u64::from(cached_rows.is_some());
        cached_rows
    }

    /// If another fill that began at `low` is in progress, waits until it ends, but at most [`JOIN_WAIT_MAX`]. Does not
    /// wait for a fill that a change has overlapped.
    pub fn join(&self, column: ColumnId, low: &Key) {
        let is_reading = |inner: &mut Inner| {
            let mut same = inner.fills.iter().filter(|fill| fill.range.0 == column);
            same.any(|fill| fill.range.1.low == *low && fill.overlapping_writes.is_empty())
        };
        let mut inner = self.inner();
        if is_reading(&mut inner) {
            inner.counts.joined += 1;
            drop(self.ended.wait_timeout_while(inner, JOIN_WAIT_MAX, is_reading));
        }
    }

    /// Switches the fast path off (and so empties it), or on again. While it is off, fills are refused. Has no effect
    /// if the fast path is already in that state.
    pub fn switch(&self, off: bool) {
        let mut inner = self.inner();
        if std::mem::replace(&mut inner.is_off, off) != off {
            inner.invalidate_all();
        }
    }

    /// Sets the CLOCK_MONOTONIC time in nanoseconds until which the fast path answers rows of `server`.
    pub fn set_server_lease(&self, server: ServerId, until_ns: u64) {
        self.inner().fastpath.set_server_lease(server, until_ns);
    }

    /// Ends the lease of `server`, and abandons fills of its rows that are in progress. The fast path never answers
    /// rows again that were read from this server, unless the same number gets a new lease.
    pub fn end_server(&self, server: ServerId) {
        let mut inner = self.inner();
        inner.fastpath.set_server_lease(server, 0);
        inner.fills.retain(|fill| fill.server != server);
    }

    /// Empties the fast path, and abandons all fills in progress.
    pub fn clear(&self) {
        self.inner().invalidate_all();
    }

    /// Returns the counters and the state.
    pub fn counts(&self) -> Counts {
        let inner = self.inner();
        Counts {
            intents: (inner.intents.len() + inner.whole_table_writes.len()) as u64,
            is_off: inner.is_off,
            fastpath: inner.fastpath.counts(),
            ..inner.counts
        }
    }
}

impl Inner {
    fn next_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    fn invalidate(&mut self, range: &ColumnRange) {
        self.fastpath.invalidate(range.0, &range.1);
        self.fills.retain_mut(|fill| {
            if overlap(&fill.range, range) {
                fill.overlapping_writes.push(range.1);
            }
            fill.overlapping_writes.len() <= OVERLAPPING_WRITES_MAX
        });
    }

    fn invalidate_all(&mut self) {
        self.fastpath.clear();
        self.fills.clear();
    }
}

impl Fill<'_> {
    /// Installs rows that were read since the fill began and lie in the fill's interval. If a change has overlapped
    /// them, installs nothing and returns false.
    pub fn finish(self, filled: &Filled<'_>) -> bool {
        let mut inner = self.coherence.inner();
        let mut fills = inner.fills.iter();
        let is_met = |fill: &&FillInProgress| {
            fill.overlapping_writes
                .iter()
                .any(|one| one.overlaps(&filled.interval))
        };
        let Some(begun) = fills.find(|fill| fill.id == self.id).filter(|fill| !is_met(fill)) else {
            inner.counts.overtaken += 1;
            return false;
        };
        debug_assert!(
            begun.range.0 == filled.column && begun.range.1.covers(&filled.interval),
            "the rows are outside the interval of the fill"
        );
        debug_assert_eq!(begun.server, filled.server);
        inner.fastpath.install(filled);
        inner.counts.installed += 1;
        true
    }
}

impl Drop for Fill<'_> {
    fn drop(&mut self) {
        self.coherence.inner().fills.retain(|fill| fill.id != self.id);
        self.coherence.ended.notify_all();
    }
}
