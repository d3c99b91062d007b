//! Multiplication modulo p = 2^256 - c with c = 2^32 + 977, in the plain domain.

use super::{add_carry, multiply_add, subtract_where_above};
use crate::curve::{Params, Secp256k1};
use crate::uint::U256;

const C: u64 = (1 << 32) + 977;

/// The upper half of the product comes back times c, and so does what is then above 2^256.
#[inline(always)]
pub(super) fn mul(a: &U256, b: &U256) -> U256 {
    let mut wide = [0u64; 8];
    for i in 0..4 {
        let mut carry = 0;
        for j in 0..4 {
            (wide[i + j], carry) = multiply_add(a[i], b[j], wide[i + j], carry);
        }
        wide[i + 4] = carry;
    }
    let mut r = [0u64; 4];
    let mut carry = 0;
    for i in 0..4 {
        (r[i], carry) = multiply_add(wide[4 + i], C, wide[i], carry);
    }
    // Below 2^34, so that times c it fits two words.
    let (w0, c) = multiply_add(carry, C, r[0], 0);
    let (w1, c) = add_carry(r[1], c, 0);
    let (w2, c) = add_carry(r[2], c, 0);
    let (w3, c) = add_carry(r[3], c, 0);
    subtract_where_above(&[w0, w1, w2, w3], c, &Secp256k1::P)
}
