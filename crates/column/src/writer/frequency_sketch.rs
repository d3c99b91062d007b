//! Frequency sketch: an estimate of how often each row was read from the table. When the fast path is full, rows that
//! are read once must not evict rows that are read repeatedly.
//!
//! It is a count-min sketch (Cormode, Muthukrishnan: "An improved data stream summary", 2005) of the rows in fills. All
//! counters are halved regularly, as in TinyLFU (Einziger, Friedman, Manes, 2017).

use crate::fill::{ColumnId, Filled};
use crate::key::Key;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

/// Number of counters that each key increments. The smallest of them is an upper bound on the key's number of reads.
const COUNTERS_PER_ROW: usize = 4;
/// Number of counters in each of the sketch's [`COUNTERS_PER_ROW`] rows, for each table row for which the fast path has
/// room.
const WIDTH_PER_ROW: usize = 4;
/// Number of counted reads after which all counters are halved, for each row for which the fast path has room.
const HALVE_AFTER_PER_ROW: u64 = 8;
/// Number of reads from which on a row counts as read often (hot).
const HOT_READS: u8 = 2;

/// Estimate of the number of reads of each row.
#[derive(Debug)]
pub(super) struct FrequencySketch {
    counters: Vec<[u8; COUNTERS_PER_ROW]>,
    /// Hash function without a secret key. An attacker who causes collisions can only make rarely read rows look hot.
    hasher: BuildHasherDefault<DefaultHasher>,
    counted: u64,
    halve_at: u64,
}

impl FrequencySketch {
    /// Creates an empty sketch for a fast path with room for `rows` rows.
    pub(super) fn new(rows: usize) -> Self {
        Self {
            counters: vec![[0; COUNTERS_PER_ROW]; (rows * WIDTH_PER_ROW).next_power_of_two()],
            hasher: BuildHasherDefault::default(),
            counted: 0,
            halve_at: rows as u64 * HALVE_AFTER_PER_ROW,
        }
    }

    /// Counts one read of each row in a fill. Returns true if at least half of the rows are hot. If there are no rows,
    /// counts the interval's low key and returns true if that is hot.
    pub(super) fn count(&mut self, filled: &Filled<'_>) -> bool {
        if filled.rows.is_empty() {
            return self.count_key(filled.column, &filled.interval.low) >= HOT_READS;
        }
        let mut hot = 0;
        for row in filled.rows {
            hot += usize::from(self.count_key(filled.column, &row.key) >= HOT_READS);
        }
        2 * hot >= filled.rows.len()
    }

    /// Counts one read of a key. Returns the estimated number of its reads so far.
    fn count_key(&mut self, column: ColumnId, key: &Key) -> u8 {
        let hash = self.hasher.hash_one((column, key.as_bytes()));
        let mask = self.counters.len() - 1;
        // All places are computed from the two halves of one hash (Kirsch, Mitzenmacher, 2006).
        let (first, step) = (hash as u32 as usize, (hash >> 32) as usize | 1);
        let places: [usize; COUNTERS_PER_ROW] = std::array::from_fn(|depth| (first + depth * step) & mask);
        let least = (0..COUNTERS_PER_ROW)
            .map(|depth| self.counters[places[depth]][depth])
            .min();
        let count = least.unwrap_or(0).saturating_add(1);
        for (depth, slot) in places.into_iter().enumerate() {
            let counter = &mut self.counters[slot][depth];
            *counter = (*counter).max(count);
        }
        self.counted += 1;
        if self.counted >= self.halve_at {
            self.counted = 0;
            for counter in self.counters.as_flattened_mut() {
                *counter /= 2;
            }
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fill::{Row, ServerId};
    use crate::key::Interval;

    fn read(sketch: &mut FrequencySketch, numbers: std::ops::Range<u64>) -> bool {
        let key = |number: u64| Key::new(&number.to_be_bytes()).unwrap();
        let rows: Vec<_> = numbers
            .clone()
            .map(|number| Row {
                key: key(number),
                value: Vec::new(),
                timestamp_ms: 0,
            })
            .collect();
        sketch.count(&Filled {
            column: ColumnId(0),
            interval: Interval {
                low: key(numbers.start),
                high: Some(key(numbers.end)),
            },
            rows: &rows,
            until_ns: u64::MAX,
            server: ServerId(0),
        })
    }

    #[test]
    fn a_range_is_hot_when_most_of_it_was_read_before() {
        let mut sketch = FrequencySketch::new(1024);
        assert!(!read(&mut sketch, 0..8));
        assert!(read(&mut sketch, 4..12), "half of the rows");
        assert!(!read(&mut sketch, 100..108));
        assert!(!read(&mut sketch, 107..115), "an eighth of the rows");
        // For an interval without rows, the low key is counted.
        assert!(!read(&mut sketch, 500..500));
        assert!(read(&mut sketch, 500..500));
        assert!(!read(&mut sketch, 501..501));
    }

    #[test]
    fn a_row_read_long_ago_is_no_longer_hot() {
        let mut sketch = FrequencySketch::new(64);
        assert!(!read(&mut sketch, 0..8));
        assert!(read(&mut sketch, 0..8));
        // The counters are halved twice: 2 becomes 1, then 0.
        for pass in 0..2 * HALVE_AFTER_PER_ROW {
            read(&mut sketch, 1000 + 64 * pass..1064 + 64 * pass);
        }
        assert!(!read(&mut sketch, 0..1));
    }

    #[test]
    fn few_rows_that_were_read_once_count_as_hot() {
        let mut sketch = FrequencySketch::new(1 << 14);
        let seeming = (0..1 << 14).filter(|number| read(&mut sketch, number * 3..number * 3 + 1));
        let seeming = seeming.count();
        assert!(seeming < 1 << 9, "{seeming} of 16,384");
    }
}
