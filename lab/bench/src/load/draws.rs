//! Keys drawn uniformly or by Zipf's law.

use lineside_testkit::Random;

/// Exponent of Zipf's law; the default of YCSB.
const SKEW: f64 = 0.99;

/// Distribution of keys. Cheap to clone.
#[derive(Clone, Debug)]
pub enum Draws {
    /// Every key is drawn equally often. The field is the number of keys.
    Uniform(u64),
    /// Key number r, in an order that scatters neighbours, is drawn r^-0.99 times as often as the first one. The field
    /// has the sums of the weights.
    Zipf(std::sync::Arc<[f64]>),
}

impl Draws {
    /// Returns the distribution over `keys` keys, at least 1.
    pub fn new(keys: u64, is_zipf: bool) -> Self {
        if !is_zipf {
            return Self::Uniform(keys.max(1));
        }
        let mut above = 0.0;
        let weights = (1..=keys.max(1)).map(|rank| (rank as f64).powf(-SKEW));
        let sums = weights.map(|weight| {
            above += weight;
            above
        });
        Self::Zipf(sums.collect())
    }

    /// Draws a key.
    pub fn draw(&self, random: &mut Random) -> u64 {
        match self {
            Self::Uniform(keys) => random.below(*keys),
            Self::Zipf(sums) => {
                let keys = sums.len() as u64;
                let at = random.next() as f64 / u64::MAX as f64 * sums[sums.len() - 1];
                let rank = sums.partition_point(|sum| *sum < at).min(sums.len() - 1) as u64;
                // A factor without a common divisor with the number of keys makes this a permutation.
                let factor = [7_919, 7_927, 7_933]
                    .into_iter()
                    .find(|prime| !keys.is_multiple_of(*prime));
                rank * factor.unwrap_or(1) % keys
            }
        }
    }
}

/// Every key once, for one thread: the first key and then each key at the distance of the number of threads.
#[derive(Clone, Copy, Debug)]
pub struct Once {
    next: u64,
    step: u64,
    left: u64,
}

impl Once {
    /// Returns the keys below `keys` of thread number `thread`.
    pub fn new(keys: u64, thread: u64, threads: u64) -> Self {
        Self {
            next: thread,
            step: threads,
            left: keys.saturating_sub(thread).div_ceil(threads),
        }
    }

    /// Reserves a key; returns false if none is left. Each reserved key is then taken with [`Once::take`].
    pub fn reserve(&mut self) -> bool {
        let has_more = self.left > 0;
        self.left -= u64::from(has_more);
        has_more
    }

    /// Returns the next key.
    pub fn take(&mut self) -> u64 {
        let key = self.next;
        self.next += self.step;
        key
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_threads_together_have_every_key_once() {
        let mut seen = Vec::new();
        for thread in 0..3 {
            let mut keys = Once::new(10, thread, 3);
            while keys.reserve() {
                seen.push(keys.take());
            }
        }
        seen.sort_unstable();
        assert_eq!(seen, (0..10).collect::<Vec<_>>());
        assert!(!Once::new(2, 2, 3).reserve());
    }

    #[test]
    fn zipf_draws_few_keys_often_and_all_keys_sometimes() {
        let (draws, mut random) = (Draws::new(50, true), Random(1));
        let mut counts = [0u32; 50];
        for _ in 0..100_000 {
            counts[draws.draw(&mut random) as usize] += 1;
        }
        assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
        // The weights are known: the first key has 1 / H(50, 0.99) of all draws, about 22 %.
        assert!((20_000..25_000).contains(&counts[0]), "{counts:?}");
        let even = Draws::new(50, false);
        let mut counts = [0u32; 50];
        for _ in 0..100_000 {
            counts[even.draw(&mut random) as usize] += 1;
        }
        assert!(
            counts.iter().all(|count| (1_700..2_300).contains(count)),
            "{counts:?}"
        );
    }
}
