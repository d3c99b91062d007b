//! Decides which rows around a requested range are read from the table, and reads rows from the fast path for the host.

use super::ColumnWriter;
use crate::fill::{READ_AHEAD_ROWS, ReadPlan, Row};
use crate::key::{Interval, Key};
use crate::reader::Record;
use lineside_fastpath::lease;
use lineside_wire::{COLUMN_BLOCK_INVALID, COLUMN_SERVERS_MAX};
use std::sync::atomic::Ordering::Relaxed;

impl ColumnWriter {
    /// Returns the blocks in the order of their keys, starting with the first block that ends after `low`.
    fn blocks_from(&self, column: usize, low: &Key) -> impl Iterator<Item = u32> {
        let (page, position) = self.position_of(column, low);
        let pages = self.columns[column].iter().enumerate().skip(page);
        let blocks = pages.flat_map(move |(number, page_of)| {
            let first = if number == page {
                position.saturating_sub(1)
            } else {
                0
            };
            page_of.blocks[first..].iter().copied()
        });
        let low = *low;
        blocks.skip_while(move |index| self.interval(*index).high.is_some_and(|high| high <= low))
    }

    fn rows(&self, index: u32) -> usize {
        self.block(index).rows.load(Relaxed) as usize
    }

    /// Returns the number of rows of a block whose keys are below `key`.
    fn rows_below(&self, index: u32, key: &Key) -> usize {
        let is_below = |row: &usize| self.first_key(index, *row) < *key;
        (0..self.rows(index)).take_while(is_below).count()
    }

    /// Returns true if the block's rows cannot be answered any more, because the block was invalidated or has expired.
    fn is_lost(&self, index: u32, now_ns: u64) -> bool {
        let block = self.block(index);
        block.flags.load(Relaxed) & COLUMN_BLOCK_INVALID != 0 || !lease::is_valid(&block.until_ns, now_ns)
    }

    /// Implements [`ColumnFill::plan_read`](crate::fill::ColumnFill::plan_read).
    pub(super) fn plan_read_around(&self, column: usize, requested: &Interval, rows: usize) -> ReadPlan {
        let now_ns = lease::now_ns();
        let mut interval = *requested;
        // Numbers of rows from the start of the interval: those that must be read, those in the blocks visited so far,
        // and those up to the end of the last invalidated or expired block.
        let (mut rows_left, mut rows_seen, mut rows_lost) = (rows, 0, 0);
        let mut next = requested.low;
        for index in self.blocks_from(column, &requested.low) {
            let cached = *self.interval(index);
            if cached.low > next {
                break;
            }
            // A row may have been added to an invalidated block, so one more row is read.
            let is_lost = self.is_lost(index, now_ns);
            rows_seen += self.rows(index) + usize::from(is_lost);
            if cached.low < requested.low {
                let below = self.rows_below(index, &requested.low);
                if is_lost {
                    interval.low = cached.low;
                    rows_left += below;
                } else {
                    rows_seen -= below;
                }
            }
            if is_lost {
                rows_lost = rows_seen;
                interval.high = match (interval.high, cached.high) {
                    (Some(requested), Some(cached)) => Some(requested.max(cached)),
                    _ => None,
                };
            }
            let is_end = |end: Key| requested.high.is_some_and(|high| high <= end);
            match cached.high {
                Some(end) if rows_seen < rows_left && !is_end(end) => next = end,
                _ => {
                    let rows = rows_left.max(rows_lost);
                    return ReadPlan { interval, rows };
                }
            }
        }
        let rows = rows_left.max(rows_seen + READ_AHEAD_ROWS);
        ReadPlan { interval, rows }
    }

    /// Implements [`ColumnFill::cached_rows`](crate::fill::ColumnFill::cached_rows).
    pub(super) fn cached_rows_of(
        &self,
        column: usize,
        requested: &Interval,
        rows: usize,
    ) -> Option<(Vec<Row>, bool)> {
        let now_ns = lease::now_ns();
        let mut cached_rows = Vec::new();
        let mut next = requested.low;
        for index in self.blocks_from(column, &requested.low) {
            let cached = self.interval(index);
            let server = self.block(index).server.load(Relaxed) as usize % COLUMN_SERVERS_MAX;
            let is_leased = lease::is_valid(&self.store.servers().until_ns[server], now_ns);
            if cached.low > next || self.is_lost(index, now_ns) || !is_leased {
                return None;
            }
            for row in 0..self.rows(index) {
                let row = self.row(index, row)?;
                if !requested.contains(&row.key) {
                    continue;
                }
                if cached_rows.len() == rows {
                    return Some((cached_rows, true));
                }
                cached_rows.push(row);
            }
            match (cached.high, requested.high) {
                (Some(end), Some(high)) if end < high => next = end,
                (Some(end), None) => next = end,
                _ => return Some((cached_rows, false)),
            }
        }
        None
    }

    fn row(&self, index: u32, row: usize) -> Option<Row> {
        let block = self.block(index);
        let begin = row
            .checked_sub(1)
            .map_or(0, |before| block.end[before].load(Relaxed));
        let words = begin as usize / 8..block.end[row].load(Relaxed) as usize / 8;
        let record = Record::read(self.store.records(index as usize).get(words)?)?;
        Some(Row {
            key: Key::new(record.key())?,
            value: record.value().to_vec(),
            timestamp_ms: block.version_ms[row].load(Relaxed),
        })
    }
}
