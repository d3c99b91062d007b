//! Random numbers that a seed determines.

/// Generator of seeded random numbers: SplitMix64 (Steele, Lea and Flood, OOPSLA 2014). The same seed gives the same
/// numbers on every machine. The numbers are not suitable for secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Random(pub u64);

impl Random {
    /// Returns the next number.
    #[allow(
        clippy::should_implement_trait,
        reason = "an endless sequence needs no Option"
    )]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    /// Returns a number below `end`, or 0 if `end` is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(end)) >> 64) as u64
    }

    /// Returns an index below `end`, or 0 if `end` is 0.
    pub fn index(&mut self, end: usize) -> usize {
        self.below(end as u64) as usize
    }

    /// Returns true once in `chances` calls on average.
    pub fn one_in(&mut self, chances: u64) -> bool {
        self.below(chances) == 0
    }

    /// Returns true in `percent` of 100 calls on average.
    pub fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// Returns one of `values`.
    ///
    /// # Panics
    /// Panics if `values` is empty.
    pub fn pick<'a, T>(&mut self, values: &'a [T]) -> &'a T {
        &values[self.index(values.len())]
    }

    /// Fills `bytes` with random bytes.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let word = self.next().to_le_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_is_splitmix64() {
        // These are the first numbers for the seed 1234567 in the reference implementation (Vigna, splitmix64.c).
        let mut random = Random(1_234_567);
        let first = [random.next(), random.next(), random.next()];
        assert_eq!(
            first,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423
            ]
        );
    }

    #[test]
    fn numbers_below_a_bound_reach_all_of_it_and_no_more() {
        let mut random = Random(1);
        let mut seen = [0; 6];
        for _ in 0..600 {
            seen[random.index(6)] += 1;
        }
        assert!(seen.iter().all(|count| *count > 50), "{seen:?}");
        assert_eq!((random.below(0), random.index(0)), (0, 0));
        assert!((0..100).all(|_| random.percent(100) && !random.percent(0)));
        assert!(
            [1, 2, 3]
                .iter()
                .all(|value| (0..100).any(|_| random.pick(&[1, 2, 3]) == value))
        );
    }
}
