//! Reduction modulo p = 2^256 - 2^224 + 2^192 + 2^96 - 1, in Montgomery's domain with R = 2^256.

use super::subtract_where_above;
use super::wide::{add_carry, multiply_add};
use crate::curve::{P256, Params};
use crate::uint::U256;
use crate::unroll::unroll;

/// Computes `wide / R mod p` for the product of two numbers below p.
///
/// p is -1 modulo 2^64, so the quotient digit for the lowest word u is u itself, and u·p is added. The lower part of
/// u·p is u·2^96 - u: its second term clears the word, and its first term is computed with two shifts. The upper part
/// is u·(2^64 - 2^32 + 1) at word 3. After four words, the rest of the lower half is at most p, and the upper half is
/// below p.
#[inline(always)]
pub(super) fn reduce(wide: [u64; 8]) -> U256 {
    let [mut a, mut b, mut c, mut d, high @ ..] = wide;
    unroll!(_i in [0, 1, 2, 3] {
        let u = a;
        let (low, top) = multiply_add(u, P256::P[3], 0, 0);
        let carry;
        (a, carry) = add_carry(b, u << 32, false);
        let (next, carry) = add_carry(c, u >> 32, carry);
        b = next;
        let (next, carry) = add_carry(d, low, carry);
        c = next;
        d = top + u64::from(carry);
    });
    let (a, carry) = add_carry(a, high[0], false);
    let (b, carry) = add_carry(b, high[1], carry);
    let (c, carry) = add_carry(c, high[2], carry);
    let (d, carry) = add_carry(d, high[3], carry);
    subtract_where_above(&[a, b, c, d], carry, &P256::P)
}
