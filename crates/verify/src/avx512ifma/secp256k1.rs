//! Reduction modulo p = 2^256 - c with c = 2^32 + 977, in the plain domain: the part of a number above 2^256 is
//! multiplied by c and added to the part below.
//!
//! The following bounds are in units of 2^256 (see `p256` and `tests::chain`). Normal elements are below 2 (exactly
//! 2^257 + 2^166). Every product, square and sum is made normal, because a raw product may reach 32 and must be reduced
//! before it is multiplied. `diff`, which is a - b + 3p, is below 5. The value of a product is at most 25 units of
//! 2^512, and at most 89 with 4p·2^260 added. Column 9, of weight 2^468, stays below 2^51. It must not be negative:
//! p·2^260 is added before a product c·d below 4 is subtracted, and 4p·2^260 before 8c², which is below 8·4.

use super::limbs::*;
use crate::unroll::unroll;

const C: u64 = (1 << 32) + 977;

/// Returns `columns mod p` as a raw sum below 2^262. Columns 5 to 9 have weights from 2^260 up, and 2^260 is 16c modulo
/// p.
#[inline(always)]
pub(super) fn reduce(mut columns: Wide) -> Limbs {
    let (mask, c16) = (set(MASK52), set(16 * C));
    // The carries must be propagated before columns become factors of a multiplication, which ignores their upper bits.
    columns[5] = add(columns[5], sar::<52>(columns[4]));
    columns[4] = and(columns[4], mask);
    unroll!(i in [5, 6, 7, 8] {
        columns[i + 1] = add(columns[i + 1], sar::<52>(columns[i]));
    });
    let mut a = [columns[0], columns[1], columns[2], columns[3], columns[4]];
    unroll!(i in [0, 1, 2, 3] {
        a[i] = lo(a[i], columns[5 + i], c16);
        a[i + 1] = hi(a[i + 1], columns[5 + i], c16);
    });
    a[4] = lo(a[4], columns[9], c16);
    // `top` is below 2^(51 + 37 - 52), because the highest column is below 2^51.
    let top = hi(zero(), columns[9], c16);
    a[0] = lo(a[0], top, c16);
    a[1] = hi(a[1], top, c16);
    a
}

/// Turns a raw sum into a normal element: subtracts a multiple of p so that the result is between p and p + 2^256.
#[inline(always)]
pub(super) fn normal(a: &Limbs) -> Limbs {
    let mut a = *a;
    let q = sub(sar::<48>(add(a[4], sar::<52>(a[3]))), set(1));
    // Add q·c, which is q·2^32 + q·977. Shifts for q·977 (512 + 256 + 128 + 64 + 16 + 1) would take more instructions
    // than the signed multiplication.
    a[0] = add(a[0], add(shl::<32>(q), mul32(q, set(977))));
    a[4] = sub(a[4], shl::<48>(q));
    carry(a)
}
