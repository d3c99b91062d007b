//! A simple model of a fast path: a list of intervals with the rows in them.

#![allow(dead_code)]

pub mod orders;

use lineside_column::fill::{ColumnFill, ColumnId, Filled, Row, ServerId};
use lineside_column::key::{Interval, Key};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

#[derive(Debug, Clone)]
struct Range {
    column: ColumnId,
    interval: Interval,
    rows: BTreeMap<Key, Row>,
    until_ns: u64,
    server: ServerId,
}

#[derive(Debug, Default)]
struct Held {
    ranges: Vec<Range>,
    leases_ns: HashMap<u16, u64>,
    exact_only: bool,
}

/// Model of a fast path. All clones share the same rows.
#[derive(Debug, Default, Clone)]
pub struct ModelFastPath(Arc<Mutex<Held>>);

/// Answer of the model about a row: `None` if it does not know the row, `Some(None)` if the table has no such row.
pub type Answer = Option<Option<Row>>;

impl ModelFastPath {
    fn held<T>(&self, act: impl FnOnce(&mut Held) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Injects a fault: an invalidation removes only intervals that have a row in the invalidated range, and so keeps
    /// gaps between rows.
    pub fn forget_rows_only(&self) {
        self.held(|held| held.exact_only = true);
    }

    /// Returns the model's answer about `key` at the time `now_ns`.
    pub fn get(&self, column: ColumnId, key: &Key, now_ns: u64) -> Answer {
        self.held(|held| {
            held.live(column, now_ns)
                .find(|range| range.interval.contains(key))
                .map(|range| range.rows.get(key).cloned())
        })
    }

    /// Returns all rows of `interval`; `None` if the model does not know the whole interval.
    pub fn scan(&self, column: ColumnId, interval: &Interval, now_ns: u64) -> Option<Vec<Row>> {
        self.held(|held| {
            let (mut at, mut rows) = (interval.low, Vec::new());
            loop {
                let range = held
                    .live(column, now_ns)
                    .find(|range| range.interval.contains(&at))?;
                let wanted = range.rows.values().filter(|row| interval.contains(&row.key));
                rows.extend(wanted.filter(|row| row.key >= at).cloned());
                match (range.interval.high, interval.high) {
                    (None, _) => return Some(rows),
                    (Some(high), Some(end)) if high >= end => return Some(rows),
                    (Some(high), _) => at = high,
                }
            }
        })
    }

    /// Returns the number of intervals in the model, including those that may not be answered now.
    pub fn len(&self) -> usize {
        self.held(|held| held.ranges.len())
    }
}

impl Held {
    fn live(&self, column: ColumnId, now_ns: u64) -> impl Iterator<Item = &Range> {
        self.ranges.iter().filter(move |range| {
            let lease_ns = match range.server.0 {
                0 => u64::MAX,
                id => self.leases_ns.get(&id).copied().unwrap_or(0),
            };
            range.column == column && now_ns < range.until_ns && now_ns < lease_ns
        })
    }
}

impl ColumnFill for ModelFastPath {
    fn install(&mut self, filled: &Filled<'_>) {
        self.invalidate(filled.column, &filled.interval);
        let rows = filled.rows.iter().map(|row| (row.key, row.clone())).collect();
        self.held(|held| {
            held.ranges.push(Range {
                column: filled.column,
                interval: filled.interval,
                rows,
                until_ns: filled.until_ns,
                server: filled.server,
            });
        });
    }

    fn invalidate(&mut self, column: ColumnId, interval: &Interval) {
        self.held(|held| {
            let exact_only = held.exact_only;
            held.ranges.retain(|range| {
                let is_hit = match exact_only {
                    true => range.rows.keys().any(|key| interval.contains(key)),
                    false => range.interval.overlaps(interval),
                };
                range.column != column || !is_hit
            });
        });
    }

    fn clear(&mut self) {
        self.held(|held| held.ranges.clear());
    }

    fn set_server_lease(&mut self, server: ServerId, until_ns: u64) {
        self.held(|held| held.leases_ns.insert(server.0, until_ns));
    }
}
