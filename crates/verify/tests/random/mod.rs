//! Random numbers that a seed determines, for the unit tests and the tests in this folder.
//!
//! The crate has its own generator, because a copy of its folder must build without other crates of the repository.

#![allow(dead_code, reason = "each test program uses some of the functions")]

/// Generator of seeded random numbers: SplitMix64 (Steele, Lea and Flood, OOPSLA 2014). The same seed gives the same
/// numbers on every machine. The numbers are not suitable for secrets.
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

    /// Returns an index below `end`, or 0 if `end` is 0.
    pub fn index(&mut self, end: usize) -> usize {
        ((u128::from(self.next()) * end as u128) >> 64) as usize
    }

    /// Returns true once in `chances` calls on average.
    pub fn one_in(&mut self, chances: usize) -> bool {
        self.index(chances) == 0
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
