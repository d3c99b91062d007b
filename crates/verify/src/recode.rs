//! Recoding of scalars as sums of odd digits.
//!
//! An odd k below 2^(w·m) is the sum of dᵢ·2^(w·i) over its m windows of w bits, with odd digits dᵢ and |dᵢ| < 2^w. If
//! xᵢ is the number in the i-th window of (k >> 1) + 2^(w·m - 1), then dᵢ = 2xᵢ + 1 - 2^w. No digit is zero, so no
//! table needs the point at infinity, and every lane has an addition for every digit. A table needs only the multiples
//! for positive digits, because points are easily negated. An even k is replaced by its negative modulo the order,
//! which is odd because the order is odd, and the signs of all digits are inverted.

use crate::lanes::MAX_LANES;
use crate::uint::{U256, sub};

/// Returns the number of windows of `width` bits for a scalar of `bits` bits.
pub(crate) const fn windows(bits: u32, width: u32) -> usize {
    bits.div_ceil(width) as usize
}

/// Scalar in a form from which digits can be extracted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Odd {
    /// Number (k >> 1) + 2^(w·m - 1), followed by a word of zeros, so that a window may begin in the last word.
    words: [u64; 6],
    negative: bool,
}

impl Odd {
    /// Prepares a scalar `k` with `0 < k < order` for `windows` windows of `width` bits; the order is odd.
    #[inline(always)]
    pub(crate) fn of_scalar(k: &U256, order: &U256, width: u32, windows: usize) -> Self {
        let even = k[0] & 1 == 0;
        let odd = if even { sub(order, k).0 } else { *k };
        Self::of_magnitude(&odd, even, width, windows)
    }

    /// Prepares the odd scalar `magnitude`, or its negative if `negative` is true, for `windows` windows of `width`
    /// bits.
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

    /// Returns digit `i`: the index of the odd multiple 2·index + 1, and true if the digit is negative.
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
    /// Collects the scalars of `lanes` lanes; all must be prepared for the same number and width of windows.
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

    /// Returns the words of all lanes in which digit `i` begins and ends, and the bit at which it begins.
    #[inline(always)]
    pub(crate) fn place(&self, i: usize, width: u32) -> ([&[u64; MAX_LANES]; 2], u32) {
        let bit = i * width as usize;
        (
            [&self.words[bit / 64], &self.words[bit / 64 + 1]],
            (bit % 64) as u32,
        )
    }

    /// Returns the mask of the lanes whose signs are inverted.
    #[cfg(all(target_arch = "x86_64", feature = "simd"))]
    #[inline(always)]
    pub(crate) fn negative(&self) -> u8 {
        self.negative
    }

    /// Returns digit `i` of one lane, in the form of `Odd::digit`.
    #[inline(always)]
    pub(crate) fn digit(&self, lane: usize, i: usize, width: u32) -> (usize, bool) {
        let ([low, high], shift) = self.place(i, width);
        let (index, negative) = digit(low[lane], high[lane], shift, width);
        (index, negative ^ (self.negative >> lane & 1 == 1))
    }
}

/// Returns the digit that begins at bit `shift` of `low` and may continue in `high`.
#[inline(always)]
fn digit(low: u64, high: u64, shift: u32, width: u32) -> (usize, bool) {
    // `high` is shifted in two steps, because a shift by 64 bits is not defined.
    let x = low >> shift | high << 1 << (63 - shift);
    let positive = x >> (width - 1) & 1;
    // A negative digit 2x + 1 - 2^w has the magnitude 2·(~x) + 1, computed on the lower w - 1 bits.
    let index = (x ^ positive.wrapping_sub(1)) & ((1 << (width - 1)) - 1);
    (index as usize, positive == 0)
}
