//! Reduction modulo p = 2^256 - c with c = 2^32 + 977, in the plain domain.

use super::wide::{add_carry, multiply_add};
use crate::uint::U256;
use crate::unroll::{array, unroll};

const C: u64 = (1 << 32) + 977;

/// Returns `wide` modulo p. The upper half is multiplied by c and added to the lower half; then the part of the sum
/// above 2^256 is multiplied by c and added too.
#[inline(always)]
pub(super) fn reduce(wide: [u64; 8]) -> U256 {
    let mut r = [0; 4];
    let mut carry = 0;
    unroll!(i in [0, 1, 2, 3] {
        (r[i], carry) = multiply_add(wide[4 + i], C, wide[i], carry);
    });
    // The carry is below 2^34, so its product with c fits into two words.
    let (low, high) = multiply_add(carry, C, 0, 0);
    let (r, over) = add_words(&r, low, high);
    // r - p is r + c - 2^256, so r is at least p if the addition carries.
    let (reduced, reaches) = add_words(&r, C, 0);
    let keep = u64::from(!(over | reaches)).wrapping_neg();
    array!(i in [0, 1, 2, 3] => (r[i] & keep) | (reduced[i] & !keep))
}

#[inline(always)]
fn add_words(a: &U256, low: u64, high: u64) -> (U256, bool) {
    let (w0, carry) = add_carry(a[0], low, false);
    let (w1, carry) = add_carry(a[1], high, carry);
    let (w2, carry) = add_carry(a[2], 0, carry);
    let (w3, carry) = add_carry(a[3], 0, carry);
    ([w0, w1, w2, w3], carry)
}
