//! Why the fast path is never stale: every change of the table stands between PRE and POST, and every fill between its
//! begin and its finish.
//!
//! PRE, before anyone can see the change: the fast path forgets what the change touches, and until POST no fill of it
//! may begin. POST, once everyone sees it. A fill begins before it reads the table, and what it read is installed only
//! where nothing was under change at its begin and no PRE has come since; both are decided under one lock. So what the
//! fast path holds was read after the last change of it was visible, and before the next one is. A written value never
//! goes into the fast path.

use crate::fill::{ColumnFill, ColumnId, FillCounts, Filled, Reading, Row, ServerId};
use crate::key::{Interval, Key};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Stretches under change that are kept apart; beyond, a change counts as one of everything.
pub const MARKS_MAX: usize = 1024;
/// Fills at once; beyond, what is read is not kept.
pub const FILLS_MAX: usize = 256;
/// Changes that a fill may meet and still be of use where they were not.
const SPOILED_MAX: usize = 32;

/// Who asks for what is being read already waits so long: a read that takes longer is tried side by side.
pub const JOIN: Duration = Duration::from_millis(50);

/// What a change touches.
pub type Touched = (ColumnId, Interval);

/// A change that is under way, from PRE to POST.
#[derive(Debug)]
#[must_use = "the change is under way until `Coherence::post`"]
pub struct Mark(u64);

/// A fill that is under way; given up when dropped.
#[derive(Debug)]
pub struct Fill<'a> {
    coherence: &'a Coherence,
    id: u64,
}

/// What was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Fills that were installed.
    pub installed: u64,
    /// Fills that were not begun: a change of everything was under way, or too many fills.
    pub refused: u64,
    /// Fills that met a change.
    pub overtaken: u64,
    /// Reads that waited for a fill under way.
    pub joined: u64,
    /// Reads that were answered by what was [held](Coherence::held).
    pub shared: u64,
    /// Changes.
    pub changes: u64,
    /// Changes that were treated as changes of the whole table, because too many keys were marked at once.
    pub overflowed: u64,
    /// Key ranges that a change has marked and not released yet.
    pub marks: u64,
    /// Whether the fast path is switched off.
    pub is_off: bool,
    /// Fills, invalidations and evictions of the fast-path table.
    pub fastpath: FillCounts,
}

struct UnderWay {
    id: u64,
    touched: Touched,
    server: ServerId,
    /// What was under change at its begin or since.
    spoiled: Vec<Interval>,
}

struct Inner {
    fastpath: Box<dyn ColumnFill>,
    fills: Vec<UnderWay>,
    /// Those of one change have one id.
    marks: Vec<(u64, Touched)>,
    /// Changes under way that found no room in `marks`.
    unmarked: Vec<u64>,
    next_id: u64,
    is_off: bool,
    counts: Counts,
}

/// The fast path, and everything that may come between a read of the table and the fast path.
pub struct Coherence {
    inner: Mutex<Inner>,
    /// A fill has ended.
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
    /// Over a fast path that holds nothing yet.
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

    /// PRE: `touched` is about to change. From the return on the fast path answers nothing of it, until it was read
    /// again after [`Coherence::post`].
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

    /// PRE of everything.
    pub fn pre_all(&self) -> Mark {
        let mut inner = self.inner();
        let id = inner.next_id();
        inner.counts.changes += 1;
        inner.unmarked.push(id);
        inner.forget_all();
        Mark(id)
    }

    /// POST: everyone sees the change, or it will never be made.
    pub fn post(&self, mark: Mark) {
        let mut inner = self.inner();
        inner.marks.retain(|(id, _)| *id != mark.0);
        inner.unmarked.retain(|id| *id != mark.0);
    }

    /// To be called before the table is read; `None`: what will be read must not be kept.
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

    /// See [`ColumnFill::held`]: what the table has at this moment, whoever has changed it.
    pub fn held(&self, column: ColumnId, asked: &Interval, rows: usize) -> Option<(Vec<Row>, bool)> {
        let mut inner = self.inner();
        let held = inner.fastpath.held(column, asked, rows);
        inner.counts.shared += u64::from(held.is_some());
        held
    }

    /// Waits until the fill under way that began at `low` has ended, for [`JOIN`] at most; one that met a change is not
    /// waited for.
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

    /// The fast path forgets everything, and fills are refused while it is `off`. Nothing happens where it is so
    /// already.
    pub fn switch(&self, off: bool) {
        let mut inner = self.inner();
        if std::mem::replace(&mut inner.is_off, off) != off {
            inner.forget_all();
        }
    }

    /// The fast path answers ranges of `server` until `until_ns` (CLOCK_MONOTONIC).
    pub fn set_server_lease(&self, server: ServerId, until_ns: u64) {
        self.inner().fastpath.set_server_lease(server, until_ns);
    }

    /// Ends what was read from `server`, also what is being read: it is never answered again unless `server` is given
    /// a lease again.
    pub fn end_server(&self, server: ServerId) {
        let mut inner = self.inner();
        inner.fastpath.set_server_lease(server, 0);
        inner.fills.retain(|fill| fill.server != server);
    }

    /// The fast path forgets everything; fills under way are dead.
    pub fn clear(&self) {
        self.inner().forget_all();
    }

    /// What was counted so far.
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
    /// Installs what was read since the begin, which lies in what was begun; `false`: it met a change, and the fast
    /// path is as it was.
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
            "a fill of more than was begun"
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
