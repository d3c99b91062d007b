//! Recoding of scalars as sums of odd digits.
//!
//! An odd k below 2^(w·m) is the sum over its m windows of dᵢ·2^(w·i) with every dᵢ odd and |dᵢ| < 2^w: with xᵢ as
//! the i-th w bits of (k >> 1) + 2^(w·m - 1), dᵢ = 2xᵢ + 1 - 2^w. No digit is zero, so no table needs the point at
//! infinity and no lane is ever idle; each multiple in a table serves both signs. An even k is replaced by its
//! negative modulo the odd order, which is odd, and all signs are inverted.

use crate::lanes::MAX_LANES;
use crate::uint::{U256, sub};

/// Number of windows for `bits` bits.
pub(crate) const fn windows(bits: u32, width: u32) -> usize {
    bits.div_ceil(width) as usize
}

/// A scalar prepared for extracting digits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Odd {
    /// (k >> 1) + 2^(w·m - 1), followed by a word of zeros so that a window may begin in the last word.
    words: [u64; 6],
    negative: bool,
}

impl Odd {
    /// Prepares `0 < k < order` for `windows` windows of `width` bits; the order is odd.
    #[inline(always)]
    pub(crate) fn of_scalar(k: &U256, order: &U256, width: u32, windows: usize) -> Self {
        let even = k[0] & 1 == 0;
        let odd = if even { sub(order, k).0 } else { *k };
        Self::of_magnitude(&odd, even, width, windows)
    }

    /// Prepares ±`magnitude`, which is odd.
    #[inline(always)]
    pub(crate) fn of_magnitude(magnitude: &U256, negative: bool, width: u32, windows: usize) -> Self {
        debug_assert!(magnitude[0] & 1 == 1);
        let [a, b, c, d] = *magnitude;
        let mut words = [a >> 1 | b << 63, b >> 1 | c << 63, c >> 1 | d << 63, d >> 1, 0, 0];
        let top = width as usize * windows - 1;
        debug_assert!(words[top / 64] >> (top % 64) == 0);
        words[top / 64] |= 1 << (top % 64);
        Self { words, negative }
    }

    /// Digit `i`: the `index` of the odd multiple 2·index + 1, and true if it is negative.
    #[cfg(test)]
    pub(crate) fn digit(&self, i: usize, width: u32) -> (usize, bool) {
        let bit = i * width as usize;
        let (low, high) = (self.words[bit / 64], self.words[bit / 64 + 1]);
        let (index, negative) = digit(low, high, (bit % 64) as u32, width);
        (index, negative ^ self.negative)
    }
}

/// Prepared scalars, one for each lane, so that their digits can be extracted in parallel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OddLanes {
    words: [[u64; MAX_LANES]; 6],
    negative: u8,
}

impl OddLanes {
    /// Prepares the scalars of `lanes` lanes; all must be prepared for the same windows.
    #[inline(always)]
    pub(crate) fn new(lanes: usize, odd: impl Fn(usize) -> Odd) -> Self {
        let mut all = Self {
            words: [[0; MAX_LANES]; 6],
            negative: 0,
        };
        for lane in 0..lanes {
            let odd = odd(lane);
            for (words, word) in all.words.iter_mut().zip(odd.words) {
                words[lane] = word;
            }
            all.negative |= u8::from(odd.negative) << lane;
        }
        all
    }

    /// The words in which digit `i` begins and ends, and the bit at which it begins.
    #[inline(always)]
    pub(crate) fn place(&self, i: usize, width: u32) -> ([&[u64; MAX_LANES]; 2], u32) {
        let bit = i * width as usize;
        (
            [&self.words[bit / 64], &self.words[bit / 64 + 1]],
            (bit % 64) as u32,
        )
    }

    /// Lanes whose signs are inverted.
    #[cfg(all(target_arch = "x86_64", feature = "simd"))]
    #[inline(always)]
    pub(crate) fn negative(&self) -> u8 {
        self.negative
    }

    /// Digit `i` of one lane, like `Odd::digit`.
    #[inline(always)]
    pub(crate) fn digit(&self, lane: usize, i: usize, width: u32) -> (usize, bool) {
        let ([low, high], shift) = self.place(i, width);
        let (index, negative) = digit(low[lane], high[lane], shift, width);
        (index, negative ^ (self.negative >> lane & 1 == 1))
    }
}

/// The digit that begins at bit `shift` of `low`.
#[inline(always)]
fn digit(low: u64, high: u64, shift: u32, width: u32) -> (usize, bool) {
    // Two shifts, because a shift by 64 is not defined.
    let x = low >> shift | high << 1 << (63 - shift);
    let positive = x >> (width - 1) & 1;
    // A negative digit 2x + 1 - 2^w has the magnitude 2·(~x) + 1, computed on the lower w - 1 bits.
    let index = (x ^ positive.wrapping_sub(1)) & ((1 << (width - 1)) - 1);
    (index as usize, positive == 0)
}
