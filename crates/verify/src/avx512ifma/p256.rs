//! Reduction modulo p = 2^256 - 2^224 + 2^192 + 2^96 - 1, in Montgomery's domain with R = 2^260.
//!
//! The following bounds are in units of 2^256, in which p is a little less than 1 and R is 16; `tests::chain` checks
//! them through all formulas. The reduced product a·b/R is below ab/16 + 1. Every operand of a multiplication must stay
//! below 16, the range of five limbs.
//! - A normal element is below 2 (exactly 2^257 + 2^230). `mul` returns a normal element if ab is below 16, for example
//!   for a normal element and a factor below 8.
//! - `diff`, which is a - b + 3p, is above 1, because b is below 2, and it is below 5.
//! - In batches of affine additions, a running product c is below 5c/16 + 1, so it is below 1.46; a slope is below 1.4.
//! - For Z, twice a product is below z/4 + 2, so below 2.67, and a product with H is smaller. z² is below 1.45.
//! - In a doubling, the tangent is three times the product of x + z², which is below 3.45, and a `diff`: it is below
//!   6.24. 4xy² is below 4.63, and 4xy² - x + 3p is below 6.63 (`normal` returns at least 1). The tangent and this
//!   difference are the widest operands of a multiplication.
//! - In an addition, the chord's h and r, each a product plus 3p, are below 4.19, so h² is below 2.1 and h³ below 1.55.
//! - Before a subtraction, p·2^260 (16 units) or 4p·2^260 (64 units) is added, which is more than the subtrahend: y·h³
//!   is below 3.1, 8y⁴ is below 12.6. Raw sums are from -9.3 to 8.3; `normal` permits -62 to 62.
//!
//! A sum of four products and 3p is below 11 if the products are normal. Two factors of the wider kind have a product
//! of up to 121/16 + 1; a sum of two such products is too wide for a factor. Only the tangent's formula sums such a
//! product.

use super::limbs::*;
use crate::curve::{P256, Params};
use crate::uint::limbs52;

const P: [u64; 5] = limbs52(&P256::P);

/// Returns `columns / R mod p` as a raw sum.
///
/// p is -1 modulo 2^52, so the quotient digit that clears column i is the column u itself: adding u·p turns column i
/// into u·2^52, the carry included. The other limbs of p are 2^44 in limb 1, 0 in limb 2, 2^36 in limb 3 and
/// 2^48 - 2^16 in limb 4. This takes six multiplications, four of which only shift.
///
/// Bit i of `SHIFT_44` and of `SHIFT_36` selects that, for digit i, shifts and other instructions (5 or 6) replace the
/// two multiplications by 2^44 or 2^36. The processor of the measurements starts one multiplication per cycle, and
/// executes shifts in other units. So while the code waits for multiplications only, the other instructions take no
/// additional time. The best digits for the replacement were found by a search.
#[inline(always)]
fn reduce<const SHIFT_44: u8, const SHIFT_36: u8>(mut columns: Wide) -> Limbs {
    clear::<0, SHIFT_44, SHIFT_36>(&mut columns);
    clear::<1, SHIFT_44, SHIFT_36>(&mut columns);
    clear::<2, SHIFT_44, SHIFT_36>(&mut columns);
    clear::<3, SHIFT_44, SHIFT_36>(&mut columns);
    clear::<4, SHIFT_44, SHIFT_36>(&mut columns);
    [columns[5], columns[6], columns[7], columns[8], columns[9]]
}

/// Clears column `I`. This is a function and not a loop, because the compiler unrolls a loop too late to order its
/// instructions well: a doubling then takes 606 cycles instead of 570.
#[inline(always)]
fn clear<const I: usize, const SHIFT_44: u8, const SHIFT_36: u8>(columns: &mut Wide) {
    let (p1, p3, p4) = (set(P[1] + 1), set(P[3]), set(P[4]));
    let u = columns[I];
    let carry = sar::<52>(u);
    // Shift out the upper bits of u, which are carried into the next column.
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

/// Reduces the columns of a product. With the replacements by shifts, a multiplication with its reduction has 68
/// multiply instructions instead of 80, and takes 73 cycles instead of 82.
#[inline(always)]
pub(super) fn reduce_product(columns: Wide) -> Limbs {
    reduce::<0b11111, 0b00001>(columns)
}

/// Reduces the columns of a square. With the replacements by shifts, a squaring with its reduction has 56 multiply
/// instructions instead of 60. A squaring has more other instructions than a multiplication, so fewer replacements are
/// useful: the squaring itself takes 61 cycles in both cases, but a doubling and an addition become 1 % faster.
#[inline(always)]
pub(super) fn reduce_square(columns: Wide) -> Limbs {
    reduce::<0b10001, 0>(columns)
}

/// Turns a raw sum into a normal element: subtracts a multiple of p so that the result is between p - 2^230 and
/// p - 2^230 + 2^256.
#[inline(always)]
pub(super) fn normal(a: &Limbs) -> Limbs {
    let mut a = *a;
    // The multiple q is the value divided by 2^256, rounded down, minus 1. It may be wrong by one, because limbs 0 to 2
    // are ignored.
    let q = sub(sar::<48>(add(a[4], sar::<52>(a[3]))), set(1));
    a[0] = add(a[0], q);
    a[1] = sub(a[1], shl::<44>(q));
    a[3] = sub(a[3], shl::<36>(q));
    a[4] = add(a[4], sub(shl::<16>(q), shl::<48>(q)));
    carry(a)
}
