//! Lock-free histogram whose bucket bounds are powers of two. Recording a value costs two relaxed atomic additions,
//! which is cheap enough for every request.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Maximum number of bounds of a histogram.
const BOUNDS_MAX: usize = 27;

/// Histogram of numbers. The upper bound of bucket `i` is 2^(`first_bits` + i) and belongs to the bucket; one more
/// bucket counts the values above the last bound.
#[derive(Debug)]
pub struct Histogram {
    first_bits: u32,
    bounds: usize,
    buckets: [AtomicU64; BOUNDS_MAX + 1],
    sum: AtomicU64,
}

/// Content of a histogram at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Buckets {
    /// Upper bounds of the buckets, each bound included in its bucket, in ascending order.
    pub bounds: Vec<u64>,
    /// Number of values of each bucket. It has one item more than `bounds`, because the last bucket has no bound.
    pub counts: Vec<u64>,
    /// Sum of all values, modulo 2^64.
    pub sum: u64,
}

impl Histogram {
    /// Returns an empty histogram of times in nanoseconds, with bounds from 1 µs to 69 s.
    pub const fn of_times() -> Self {
        Self::with_bounds(10, BOUNDS_MAX)
    }

    /// Returns an empty histogram of counts, with bounds from 1 to 65,536.
    pub const fn of_counts() -> Self {
        Self::with_bounds(0, 17)
    }

    const fn with_bounds(first_bits: u32, bounds: usize) -> Self {
        assert!(bounds <= BOUNDS_MAX);
        Self {
            first_bits,
            bounds,
            buckets: [const { AtomicU64::new(0) }; BOUNDS_MAX + 1],
            sum: AtomicU64::new(0),
        }
    }

    /// Adds one value, in nanoseconds for a histogram of times.
    pub fn record(&self, value: u64) {
        self.record_many(value, 1);
    }

    /// Adds the same value `count` times.
    pub fn record_many(&self, value: u64, count: u64) {
        self.buckets[self.bucket(value)].fetch_add(count, Relaxed);
        self.sum.fetch_add(value.wrapping_mul(count), Relaxed);
    }

    fn bucket(&self, value: u64) -> usize {
        let bits = u64::BITS - value.saturating_sub(1).leading_zeros();
        (bits.saturating_sub(self.first_bits) as usize).min(self.bounds)
    }

    /// Returns the content. A value that another thread adds during the call may be counted in its bucket and not in
    /// the sum.
    pub fn read(&self) -> Buckets {
        Buckets {
            bounds: (0..self.bounds as u32)
                .map(|index| 1 << (self.first_bits + index))
                .collect(),
            counts: (self.buckets[..=self.bounds].iter())
                .map(|bucket| bucket.load(Relaxed))
                .collect(),
            sum: self.sum.load(Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the bucket of a value, found by a search through the bounds.
    fn expected(buckets: &Buckets, value: u64) -> usize {
        let is_within = |bound: &u64| value <= *bound;
        let found = buckets.bounds.iter().position(is_within);
        found.unwrap_or(buckets.bounds.len())
    }

    #[test]
    fn every_value_is_in_the_first_bucket_whose_bound_it_does_not_exceed() {
        for new in [Histogram::of_times, Histogram::of_counts] {
            let edges = (0..64).flat_map(|bits| [(1 << bits) - 1, 1 << bits, (1 << bits) + 1]);
            for value in edges.chain([0, 1_500, 999_999_999, u64::MAX]) {
                let histogram = new();
                histogram.record(value);
                let read = histogram.read();
                assert_eq!(read.sum, value);
                let mut counts = vec![0; read.bounds.len() + 1];
                counts[expected(&read, value)] = 1;
                assert_eq!(read.counts, counts, "{value}");
            }
        }
        let times = Histogram::of_times().read();
        assert_eq!((times.bounds[0], times.bounds[26]), (1_024, 68_719_476_736));
        let counts = Histogram::of_counts().read();
        assert_eq!((counts.bounds[0], counts.bounds.last()), (1, Some(&65_536)));
    }

    #[test]
    fn no_value_of_several_threads_is_lost() {
        let histogram = Histogram::of_counts();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let histogram = &histogram;
                scope.spawn(move || (0..1000).for_each(|value| histogram.record_many(value, thread + 1)));
            }
        });
        let read = histogram.read();
        assert_eq!(read.counts.iter().sum::<u64>(), 10_000);
        assert_eq!(read.sum, 10 * 999 * 1000 / 2);
    }
}
