//! Reduction modulo p = 2^256 - 2^224 + 2^192 + 2^96 - 1, in Montgomery's domain with R = 2^260.
//!
//! Bounds: normal elements are below 2^257 + 2^230, factors below 2^258.5. The product of a normal element and a factor,
//! over R, plus p, is below 2^256 + 2^255.6 and so normal again.

use super::limbs::*;
use crate::curve::{P256, Params};
use crate::uint::limbs52;

const P: [u64; 5] = limbs52(&P256::P);

/// `columns / R mod p`, raw.
///
/// p is -1 modulo 2^52, so the quotient digit that clears column i is the column itself, u: adding u·p turns it into
/// u·2^52, the carry included. The rest of p is 2^44 in limb 1, nothing in limb 2, 2^36 in limb 3 and 2^48 - 2^16 in limb
/// 4: six multiplications, of which four shift.
#[inline(always)]
pub(super) fn reduce(mut columns: Wide) -> Limbs {
    let (p1, p3, p4) = (set(P[1] + 1), set(P[3]), set(P[4]));
    for i in 0..5 {
        let u = columns[i];
        columns[i + 1] = add(columns[i + 1], sar::<52>(u));
        columns[i + 1] = lo(columns[i + 1], u, p1);
        columns[i + 2] = hi(columns[i + 2], u, p1);
        columns[i + 3] = lo(columns[i + 3], u, p3);
        columns[i + 4] = hi(columns[i + 4], u, p3);
        columns[i + 4] = lo(columns[i + 4], u, p4);
        columns[i + 5] = hi(columns[i + 5], u, p4);
    }
    [columns[5], columns[6], columns[7], columns[8], columns[9]]
}

/// Any raw sum to a normal element: the multiple of p is subtracted that leaves a value from p - 2^230 up to 2^256 more.
#[inline(always)]
pub(super) fn normal(a: &Limbs) -> Limbs {
    let mut a = *a;
    // The value over 2^256, rounded down (to within one: limbs 0 to 2 are not looked at), less 1.
    let q = sub(sar::<48>(add(a[4], sar::<52>(a[3]))), set(1));
    a[0] = add(a[0], q);
    a[1] = sub(a[1], shl::<44>(q));
    a[3] = sub(a[3], shl::<36>(q));
    a[4] = add(a[4], sub(shl::<16>(q), shl::<48>(q)));
    carry(a)
}
