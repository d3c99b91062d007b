//! Multiplication modulo p = 2^256 - 2^224 + 2^192 + 2^96 - 1, in Montgomery's domain with R = 2^256.

use super::{add_carry, multiply_add, subtract_where_above};
use crate::curve::{P256, Params};
use crate::uint::U256;

/// p is -1 modulo 2^64, so the quotient digit is the lowest word u itself. u·p is u·2^96 - u, of which the second
/// clears the word and the first is two shifts, and u·(2^64 - 2^32 + 1) at word 3.
#[inline(always)]
pub(super) fn mul(a: &U256, b: &U256) -> U256 {
    let mut r = [0u64; 5];
    for &digit in a {
        let mut carry = 0;
        for j in 0..4 {
            (r[j], carry) = multiply_add(digit, b[j], r[j], carry);
        }
        let (top, over) = add_carry(r[4], carry, 0);
        let u = r[0];
        let (w0, c) = add_carry(r[1], u << 32, 0);
        let (w1, c) = add_carry(r[2], u >> 32, c);
        let (w2, c) = multiply_add(u, P256::P[3], r[3], c);
        let (w3, c) = add_carry(top, c, 0);
        r = [w0, w1, w2, w3, over + c];
    }
    subtract_where_above(&[r[0], r[1], r[2], r[3]], r[4], &P256::P)
}
