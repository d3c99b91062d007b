//! Reduction modulo p = 2^256 - 2^224 + 2^192 + 2^96 - 1, in Montgomery's domain with R = 2^260.
//!
//! Bounds, in units of 2^256, where p is a little less than 1 and R is 16 (`tests::chain` checks them through the
//! formulas): a·b over R is below ab/16 + 1. No operand of a multiplication may reach 16, the range of five limbs.
//! - Normal elements are below 2 (2^257 + 2^230). `mul` returns a normal element while ab is below 16, for example for
//!   a normal element and a factor below 8.
//! - `diff`, a - b + 3p, is above 1, because b is below 2, and it is below 5.
//! - Batches of affine additions: a running product c is below 5c/16 + 1, so below 1.46; a slope below 1.4.
//! - Z: twice a product is below z/4 + 2, so below 2.67, and a product with H is smaller. z² is below 1.45.
//! - Doubling: the tangent is three products of x + z², below 3.45, and a `diff`: below 6.24. 4xy² is below 4.63, and
//!   minus x plus 3p below 6.63 (`normal` returns at least 1). These two are the widest operands of a multiplication.
//! - Addition: the chord's h and r, a product plus 3p, are below 4.19, so h² is below 2.1 and h³ below 1.55.
//! - A subtrahend stays below the multiple of p·2^260, 16 and 64 here, that is added before the subtraction: y·h³ is
//!   below 3.1, 8y⁴ below 12.6. Raw sums are from -9.3 to 8.3; `normal` permits -62 to 62.
//!
//! A sum of four products and 3p is below 11 while the products are normal. Two wider factors have a product of up to
//! 121/16 + 1; a sum of two of these is too wide for a factor. Only the tangent's formula sums a product of that kind.

use super::limbs::*;
use crate::curve::{P256, Params};
use crate::uint::limbs52;

const P: [u64; 5] = limbs52(&P256::P);

/// Computes `columns / R mod p`, raw.
///
/// p is -1 modulo 2^52, so the quotient digit that clears column i is the column itself, u: adding u·p turns it into
/// u·2^52, the carry included. The rest of p is 2^44 in limb 1, nothing in limb 2, 2^36 in limb 3 and 2^48 - 2^16 in
/// limb 4: six multiplications, of which four shift.
///
/// Bit i of `SHIFT_44` and of `SHIFT_36` replaces, for digit i, the two multiplications by that power by 5 or 6 other
/// instructions. The processor of the measurements starts one multiplication per cycle, and shifts use other pipes.
/// So if the code waits for multiplications only, the other instructions take no time. The best digits were found by
/// a search.
#[inline(always)]
fn reduce<const SHIFT_44: u8, const SHIFT_36: u8>(mut columns: Wide) -> Limbs {
    clear::<0, SHIFT_44, SHIFT_36>(&mut columns);
    clear::<1, SHIFT_44, SHIFT_36>(&mut columns);
    clear::<2, SHIFT_44, SHIFT_36>(&mut columns);
    clear::<3, SHIFT_44, SHIFT_36>(&mut columns);
    clear::<4, SHIFT_44, SHIFT_36>(&mut columns);
    [columns[5], columns[6], columns[7], columns[8], columns[9]]
}

/// Clears column `I`. It is a function and not a loop: a loop is unrolled too late to be ordered well, and a doubling
/// then takes 606 cycles instead of 570.
#[inline(always)]
fn clear<const I: usize, const SHIFT_44: u8, const SHIFT_36: u8>(columns: &mut Wide) {
    let (p1, p3, p4) = (set(P[1] + 1), set(P[3]), set(P[4]));
    let u = columns[I];
    let carry = sar::<52>(u);
    // Without the bits that are carried.
    let high = shl::<12>(u);
    if SHIFT_44 >> I & 1 == 1 {
        columns[I + 1] = add(columns[I + 1], add(carry, low_limb(shl::<44>(u))));
        columns[I + 2] = add(columns[I + 2], shr::<20>(high));
    } else {
        columns[I + 1] = lo(add(columns[I + 1], carry), u, p1);
        columns[I + 2] = hi(columns[I + 2], u, p1);
    }
    if SHIFT_36 >> I & 1 == 1 {
        columns[I + 3] = add(columns[I + 3], low_limb(shl::<36>(u)));
        columns[I + 4] = add(columns[I + 4], shr::<28>(high));
    } else {
        columns[I + 3] = lo(columns[I + 3], u, p3);
        columns[I + 4] = hi(columns[I + 4], u, p3);
    }
    columns[I + 4] = lo(columns[I + 4], u, p4);
    columns[I + 5] = hi(columns[I + 5], u, p4);
}

#[inline(always)]
fn low_limb(a: Z) -> Z {
    and(a, set(MASK52))
}

/// For a product: 68 multiplications instead of 80, and 73 cycles instead of 82.
#[inline(always)]
pub(super) fn reduce_product(columns: Wide) -> Limbs {
    reduce::<0b11111, 0b00001>(columns)
}

/// For a square: 56 multiplications instead of 60. A square already has more other instructions than a product. Alone
/// it takes 61 cycles either way, but a doubling and an addition become 1 % faster.
#[inline(always)]
pub(super) fn reduce_square(columns: Wide) -> Limbs {
    reduce::<0b10001, 0>(columns)
}

/// Turns a raw sum into a normal element: subtracts the multiple of p that leaves a value from p - 2^230 up to 2^256
/// more.
#[inline(always)]
pub(super) fn normal(a: &Limbs) -> Limbs {
    let mut a = *a;
    // The value over 2^256, rounded down, less 1. It may be one off, because limbs 0 to 2 are ignored.
    let q = sub(sar::<48>(add(a[4], sar::<52>(a[3]))), set(1));
    a[0] = add(a[0], q);
    a[1] = sub(a[1], shl::<44>(q));
    a[3] = sub(a[3], shl::<36>(q));
    a[4] = add(a[4], sub(shl::<16>(q), shl::<48>(q)));
    carry(a)
}
