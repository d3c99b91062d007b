//! Verification of few signatures with tables: the points are added one after the other, in Jacobian coordinates.
//!
//! A tree of affine additions (`precomputed`) has an inversion for each of its levels, six of 0.9 µs for any batch.
//! With few signatures to share them, that is most of the time. Mixed additions take 11 multiplications instead of 6,
//! and no inversion.
//!
//! If a sum meets the same or the opposite point, Z is zero from there on, and the signature is left undecided.

use crate::jacobian::{self, from_affine, zeros_of_factor};
use crate::lanes::{Affine, Lanes, MAX_LANES};
use crate::uint::U256;

/// Number of vectors up to which this is faster than the tree. In AVX-512, batches of 8, 16, 24 and 32 take 13.9,
/// 24.6, 35.4 and 46.3 µs instead of 19.4, 27.2, 35.1 and 43.0. In the portable backend, 1, 2, 3 and 4 take 8.3,
/// 15.5, 22.9 and 29.6 instead of 13.3, 17.9, 23.4 and 28.2.
pub(crate) const VECTORS: usize = 2;

/// Returns the lanes in which the sum of all points has x = r, and the undecided lanes.
#[inline(always)]
pub(crate) fn compare<L: Lanes>(l: L, points: &[Affine<L::Fe>], r: &[U256; MAX_LANES]) -> (u8, u8) {
    let Some((first, rest)) = points.split_first() else {
        return (0, u8::MAX);
    };
    let mut sum = from_affine(l, first);
    for point in rest {
        sum = jacobian::add(l, &sum, point);
    }
    let product = l.mul_raw(&l.load(&r[..L::LANES]), &l.sqr(&sum.z));
    let equal = l.zeros(&l.normal(&l.raw_sub(&product, &l.raw(&sum.x))));
    (equal, zeros_of_factor(l, &sum.z))
}
