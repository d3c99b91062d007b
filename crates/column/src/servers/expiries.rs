//! Expiries of cells, as the servers announce them when the cells are written. A read does not return the expiry of a
//! cell.

use crate::coherence::ColumnRange;
use crate::fill::ColumnId;
use crate::key::Interval;

/// Maximum number of expiring cells that are recorded one by one. Beyond it, each row counts as one that may expire.
const EXPIRIES_MAX: usize = 4096;
/// Time in milliseconds for which an expiry is remembered after it has passed, because the clocks of servers differ.
const CLOCK_DIFFERENCE_MAX_MS: u64 = 1000;

#[derive(Debug, Default)]
pub(super) struct Expiries {
    by_range: Vec<(ColumnRange, u64)>,
    /// First and last expiry of the cells that are not recorded one by one. After the first expiry, any row may have
    /// expired.
    others: Option<(u64, u64)>,
}

impl Expiries {
    pub(super) fn add(&mut self, touched: &[ColumnRange], end_ms: u64, now_ms: u64) {
        if self.by_range.len() + touched.len() > EXPIRIES_MAX {
            self.by_range.retain(|(_, end_ms)| may_be(*end_ms, now_ms));
        }
        self.others = self.others.filter(|(_, last_ms)| may_be(*last_ms, now_ms));
        if self.by_range.len() + touched.len() <= EXPIRIES_MAX {
            self.by_range.extend(touched.iter().map(|one| (*one, end_ms)));
        } else {
            let (first_ms, last_ms) = self.others.unwrap_or((end_ms, end_ms));
            self.others = Some((first_ms.min(end_ms), last_ms.max(end_ms)));
        }
    }

    pub(super) fn first_expiry_ms(&self, column: ColumnId, interval: &Interval, read_ms: u64) -> Option<u64> {
        let is_there = |end_ms: u64| may_be(end_ms, read_ms);
        let of = (self.by_range.iter())
            .filter(|((of, at), end_ms)| *of == column && at.overlaps(interval) && is_there(*end_ms));
        let others = self.others.filter(|(_, last_ms)| is_there(*last_ms));
        let others = others.map(|(first_ms, _)| first_ms);
        of.map(|(_, end_ms)| *end_ms).chain(others).min()
    }
}

/// Returns true if a cell that expires at `end_ms` may still exist at the time `at_ms` of another machine's clock.
const fn may_be(end_ms: u64, at_ms: u64) -> bool {
    at_ms <= end_ms.saturating_add(CLOCK_DIFFERENCE_MAX_MS)
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMN: ColumnId = ColumnId(0);

    fn row(number: usize) -> Interval {
        Interval::of_row(format!("{number:05}").as_bytes())
    }

    #[test]
    fn the_first_expiry_in_a_range_is_found() {
        let mut expiries = Expiries::default();
        expiries.add(&[(COLUMN, row(1)), (COLUMN, row(5))], 300, 100);
        expiries.add(&[(COLUMN, row(3))], 200, 100);
        let first = |low, high| {
            let (low, high) = (row(low).low, Some(row(high).low));
            expiries.first_expiry_ms(COLUMN, &Interval { low, high }, 150)
        };
        assert_eq!(
            (first(0, 9), first(0, 2), first(4, 9)),
            (Some(200), Some(300), Some(300))
        );
        assert_eq!((first(2, 3), first(6, 9)), (None, None));
        assert_eq!(expiries.first_expiry_ms(ColumnId(1), &row(1), 150), None);
    }

    #[test]
    fn cells_beyond_the_limit_count_for_every_row_until_they_expire() {
        let mut expiries = Expiries::default();
        for number in 0..EXPIRIES_MAX {
            expiries.add(&[(COLUMN, row(number))], 1_000, 0);
        }
        expiries.add(&[(COLUMN, row(7))], 500, 0);
        assert_eq!(expiries.first_expiry_ms(COLUMN, &row(99_999), 0), Some(500));
        assert_eq!(expiries.by_range.len(), EXPIRIES_MAX);
        let now_ms = 1_001 + CLOCK_DIFFERENCE_MAX_MS;
        expiries.add(&[(COLUMN, row(8))], now_ms + 1, now_ms);
        assert_eq!(expiries.first_expiry_ms(COLUMN, &row(99_999), now_ms), None);
        assert_eq!(
            expiries.first_expiry_ms(COLUMN, &row(8), now_ms),
            Some(now_ms + 1)
        );
        // The cell has expired by every server's clock, so later reads do not find it.
        assert_eq!(
            expiries.first_expiry_ms(COLUMN, &row(8), now_ms + 2 + CLOCK_DIFFERENCE_MAX_MS),
            None
        );
    }
}
