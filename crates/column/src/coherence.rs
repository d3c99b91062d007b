//! Write-invalidate coherence with a fill fence: the reason why the fast path is never stale.
//!
//! Every change of the table lies between [`Coherence::pre`] and [`Coherence::post`], and every fill between
//! [`Coherence::begin`] and [`Fill::finish`]. `pre` comes before anyone can see the change: the fast path drops
//! everything that the change affects, and no fill of it may begin until `post`. `post` comes once everyone sees the
//! change. A fill begins before it reads the table. Its rows are installed only if nothing in them was being changed
//! when it began and no `pre` has come since; both are decided under one lock. So everything in the fast path was read
//! after the last change of it was visible, and before the next one is. A value that is written never goes into the
//! fast path directly.

use crate::fill::{ColumnFill, ColumnId, FillCounts, Filled, Reading, Row, ServerId};
use crate::key::{Interval, Key};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Maximum number of ranges under change that are recorded. Further changes count as changes of the whole table.
pub const MARKS_MAX: usize = 1024;
/// Maximum number of concurrent fills. Rows that are read beyond it are not cached.
pub const FILLS_MAX: usize = 256;
/// Maximum number of changes that may overlap a fill so that the rest of it can still be installed.
const SPOILED_MAX: usize = 32;

/// Maximum time for which a reader waits for another reader of the same rows. A read that takes longer is repeated in
/// parallel.
pub const JOIN: Duration = Duration::from_millis(50);

/// Keys of one column that a change affects.
pub type Touched = (ColumnId, Interval);

/// A change in progress, between `pre` and `post`.
#[derive(Debug)]
#[must_use = "the change is under way until `Coherence::post`"]
pub struct Mark(u64);

/// A fill in progress. Dropping it abandons the fill.
#[derive(Debug)]
pub struct Fill<'a> {
    coherence: &'a Coherence,
    id: u64,
}

/// Counters and state of the coherence protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Fills that were installed.
    pub installed: u64,
    /// Fills that were refused because a change of the whole table or too many fills were in progress.
    pub refused: u64,
    /// Fills whose rows were not installed because a change overlapped them.
    pub overtaken: u64,
    /// Reads that waited for another fill.
    pub joined: u64,
    /// Reads that were answered from the [held](Coherence::held) rows.
    pub shared: u64,
    /// Writes that were begun.
    pub changes: u64,
    /// Changes that were treated as changes of the whole table, because too many keys were marked at once.
    pub overflowed: u64,
    /// Key ranges that a change has marked and not released yet.
    pub marks: u64,
    /// True if the fast path is switched off.
    pub is_off: bool,
    /// Fills, invalidations and evictions of the fast-path table.
    pub fastpath: FillCounts,
}

struct UnderWay {
    id: u64,
    touched: Touched,
    server: ServerId,
    /// Ranges that were under change when the fill began, or have been since.
    spoiled: Vec<Interval>,
}

struct Inner {
    fastpath: Box<dyn ColumnFill>,
    fills: Vec<UnderWay>,
    /// Marked ranges, each with the id of its change.
    marks: Vec<(u64, Touched)>,
    /// Changes in progress that did not fit `marks`.
    unmarked: Vec<u64>,
    next_id: u64,
    is_off: bool,
    counts: Counts,
}

/// The fast path, and the protocol between reads of the table and fills of the fast path.
pub struct Coherence {
    inner: Mutex<Inner>,
    /// Notified when a fill ends.
    ended: Condvar,
}

impl std::fmt::Debug for Coherence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Coherence").finish_non_exhaustive()
    }
}

fn meets(one: &Touched, other: &Touched) -> bool {
    one.0 == other.0 && one.1.overlaps(&other.1)
}

impl Coherence {
    /// Creates the protocol, and empties the fast path.
    pub fn new(mut fastpath: Box<dyn ColumnFill>) -> Self {
        fastpath.clear();
        Self {
            inner: Mutex::new(Inner {
                fastpath,
                fills: Vec::new(),
                marks: Vec::new(),
                unmarked: Vec::new(),
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

    /// Begins a write: `touched` is about to change. Once this returns, the fast path answers nothing about it until it
    /// was read again after [`Coherence::post`].
    pub fn pre(&self, touched: &[Touched]) -> Mark {
        let mut inner = self.inner();
        let id = inner.next_id();
        inner.counts.changes += 1;
        if inner.marks.len() + touched.len() > MARKS_MAX {
            inner.counts.overflowed += 1;
            inner.unmarked.push(id);
            inner.forget_all();
        } else {
            for one in touched {
                inner.marks.push((id, *one));
                inner.forget(one);
            }
        }
        Mark(id)
    }

    /// Begins a write of the whole table.
    pub fn pre_all(&self) -> Mark {
        let mut inner = self.inner();
        let id = inner.next_id();
        inner.counts.changes += 1;
        inner.unmarked.push(id);
        inner.forget_all();
        Mark(id)
    }

    /// Ends a write: the change is visible to everyone, or will never be made.
    pub fn post(&self, mark: Mark) {
        let mut inner = self.inner();
        inner.marks.retain(|(id, _)| *id != mark.0);
        inner.unmarked.retain(|id| *id != mark.0);
    }

    /// Begins a fill. Must be called before the table is read. Returns `None` if the rows that will be read must not be
    /// cached.
    pub fn begin(&self, column: ColumnId, interval: Interval, server: ServerId) -> Option<Fill<'_>> {
        let touched = (column, interval);
        let mut inner = self.inner();
        let under_change = inner.marks.iter().filter(|(_, mark)| meets(mark, &touched));
        let spoiled: Vec<Interval> = under_change.map(|(_, mark)| mark.1).collect();
        let is_free = !inner.is_off
            && inner.unmarked.is_empty()
            && inner.fills.len() < FILLS_MAX
            && spoiled.len() <= SPOILED_MAX;
        if !is_free {
            inner.counts.refused += 1;
            return None;
        }
        let id = inner.next_id();
        inner.fills.push(UnderWay {
            id,
            touched,
            server,
            spoiled,
        });
        Some(Fill { coherence: self, id })
    }

    /// See [`ColumnFill::reading`].
    pub fn reading(&self, column: ColumnId, asked: &Interval, rows: usize) -> Reading {
        self.inner().fastpath.reading(column, asked, rows)
    }

    /// See [`ColumnFill::held`]. The rows are those that the table has at this moment.
    pub fn held(&self, column: ColumnId, asked: &Interval, rows: usize) -> Option<(Vec<Row>, bool)> {
        let mut inner = self.inner();
        let held = inner.fastpath.held(column, asked, rows);
        inner.counts.shared += u64::from(held.is_some());
        held
    }

    /// Waits at most [`JOIN`] until a fill in progress that began at `low` has ended. Does not wait for a fill that a
    /// change has overlapped.
    pub fn join(&self, column: ColumnId, low: &Key) {
        let is_reading = |inner: &mut Inner| {
            let mut same = inner.fills.iter().filter(|fill| fill.touched.0 == column);
            same.any(|fill| fill.touched.1.low == *low && fill.spoiled.is_empty())
        };
        let mut inner = self.inner();
        if is_reading(&mut inner) {
            inner.counts.joined += 1;
            drop(self.ended.wait_timeout_while(inner, JOIN, is_reading));
        }
    }

    /// Empties the fast path, and refuses fills while it is `off`. Has no effect if it already is in that state.
    pub fn switch(&self, off: bool) {
        let mut inner = self.inner();
        if std::mem::replace(&mut inner.is_off, off) != off {
            inner.forget_all();
        }
    }

    /// Sets the CLOCK_MONOTONIC time in ns until which the fast path answers rows of `server`.
    pub fn set_server_lease(&self, server: ServerId, until_ns: u64) {
        self.inner().fastpath.set_server_lease(server, until_ns);
    }

    /// Ends the lease of `server`, and drops fills of its rows that are in progress. Rows that were read from it are
    /// never answered again unless the same number gets a new lease.
    pub fn end_server(&self, server: ServerId) {
        let mut inner = self.inner();
        inner.fastpath.set_server_lease(server, 0);
        inner.fills.retain(|fill| fill.server != server);
    }

    /// Empties the fast path, and drops all fills in progress.
    pub fn clear(&self) {
        self.inner().forget_all();
    }

    /// Returns the counters and the state.
    pub fn counts(&self) -> Counts {
        let inner = self.inner();
        Counts {
            marks: (inner.marks.len() + inner.unmarked.len()) as u64,
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

    fn forget(&mut self, touched: &Touched) {
        self.fastpath.invalidate(touched.0, &touched.1);
        self.fills.retain_mut(|fill| {
            if meets(&fill.touched, touched) {
                fill.spoiled.push(touched.1);
            }
            fill.spoiled.len() <= SPOILED_MAX
        });
    }

    fn forget_all(&mut self) {
        self.fastpath.clear();
        self.fills.clear();
    }
}

impl Fill<'_> {
    /// Installs rows that were read since the fill began, within its interval. Returns false, and changes nothing, if a
    /// change has overlapped them.
    pub fn finish(self, filled: &Filled<'_>) -> bool {
        let mut inner = self.coherence.inner();
        let mut fills = inner.fills.iter();
        let is_met = |fill: &&UnderWay| fill.spoiled.iter().any(|one| one.overlaps(&filled.interval));
        let Some(begun) = fills.find(|fill| fill.id == self.id).filter(|fill| !is_met(fill)) else {
            inner.counts.overtaken += 1;
            return false;
        };
        debug_assert!(
            begun.touched.0 == filled.column && begun.touched.1.covers(&filled.interval),
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
