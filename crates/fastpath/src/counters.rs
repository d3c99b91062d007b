//! Sharded counters: many threads add, few read.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

const SHARDS: usize = 16;

#[repr(align(128))]
#[derive(Debug)]
struct Shard<const N: usize>([AtomicU64; N]);

/// `N` counters in cache-line-aligned shards, so that threads on different cores rarely write the same cache line.
#[derive(Debug)]
pub struct Counters<const N: usize> {
    shards: [Shard<N>; SHARDS],
}

static NEXT_SHARD: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static SHARD: Cell<usize> = Cell::new(NEXT_SHARD.fetch_add(1, Ordering::Relaxed) % SHARDS);
}

/// Returns a small number that identifies the calling thread's shard. With more than 16 threads, several share a
/// number.
pub fn thread_index() -> usize {
    SHARD.get()
}

impl<const N: usize> Default for Counters<N> {
    fn default() -> Self {
        Self {
            shards: std::array::from_fn(|_| Shard(std::array::from_fn(|_| AtomicU64::new(0)))),
        }
    }
}

impl<const N: usize> Counters<N> {
    /// Adds one to counter `index`.
    pub fn add_one(&self, index: usize) {
        self.shards[SHARD.get()].0[index].fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the sums over all threads.
    pub fn read(&self) -> [u64; N] {
        std::array::from_fn(|index| {
            self.shards
                .iter()
                .map(|shard| shard.0[index].load(Ordering::Relaxed))
                .sum()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_over_threads() {
        let counters = Counters::<3>::default();
        std::thread::scope(|scope| {
            for _ in 0..20 {
                scope.spawn(|| (0..1000).for_each(|_| counters.add_one(2)));
            }
        });
        assert_eq!(counters.read(), [0, 0, 20_000]);
    }
}
