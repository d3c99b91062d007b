//! Points in Jacobian coordinates: (X, Y, Z) represents (X/Z², Y/Z³), and every point with Z = 0 is the point at
//! infinity. Operations on these coordinates need no inversion, so they suit a sequence of doublings. The formulas are
//! those of the Explicit-Formulas Database (Bernstein, Lange): "dbl-2001-b" for a = -3, "dbl-2009-l" for a = 0, and
//! "madd" for additions, with a single reduction for a sum of products.

use crate::curve::Params;
use crate::lanes::{Affine, Lanes};
use crate::uint::{ONE, ZERO};

/// Point in Jacobian coordinates. X and Y are normal elements, Z is a factor (see `Lanes`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Jacobian<Fe> {
    pub(crate) x: Fe,
    pub(crate) y: Fe,
    pub(crate) z: Fe,
}

#[inline(always)]
pub(crate) fn from_affine<L: Lanes>(l: L, point: &Affine<L::Fe>) -> Jacobian<L::Fe> {
    Jacobian {
        x: point.x,
        y: point.y,
        z: l.splat(&ONE),
    }
}

/// Doubles a point. The result is correct for every point of a group of odd order, the point at infinity included.
#[inline(always)]
pub(crate) fn double<L: Lanes>(l: L, point: &Jacobian<L::Fe>) -> Jacobian<L::Fe> {
    let Jacobian { x, y, z } = point;
    let y2 = l.square(y);
    let tangent = tangent(l, x, z);
    let xy2 = l.mul_raw(x, &y2);
    let xy2_2 = l.raw_add(&xy2, &xy2);
    let xy2_4 = l.raw_add(&xy2_2, &xy2_2);
    let xy2_8 = l.raw_add(&xy2_4, &xy2_4);
    let x3 = l.normal(&l.raw_sub(&l.sqr_raw(&tangent), &xy2_8));
    let rise = l.factor_less(&xy2_4, &x3);
    let y3 = l.mul_sub_8_squares(&tangent, &rise, &y2);
    let yz = l.mul_raw(y, z);
    let z3 = l.factor(&l.raw_add(&yz, &yz));
    Jacobian { x: x3, y: y3, z: z3 }
}

/// Returns 3x² + a·z⁴, the numerator of the tangent's slope, as a factor.
#[inline(always)]
fn tangent<L: Lanes>(l: L, x: &L::Fe, z: &L::Fe) -> L::Fe {
    let third = if L::Curve::A_IS_MINUS_3 {
        // For a = -3 the numerator is 3(x² - z⁴) = 3(x - z²)(x + z²).
        let z2 = l.sqr(z);
        let plus = l.factor(&l.raw_add(&l.raw(x), &l.raw(&z2)));
        l.mul_raw(&plus, &l.diff(x, &z2))
    } else {
        l.sqr_raw(x)
    };
    l.factor(&l.raw_add(&l.raw_add(&third, &third), &third))
}

/// Intermediate results of an addition: H = X₂Z₁² - X₁ and R = Y₂Z₁³ - Y₁, both factors. H is zero if the points are
/// equal or opposite, or if the first point is the point at infinity with X = 0.
struct Chord<Fe> {
    h: Fe,
    r: Fe,
}

#[inline(always)]
fn chord<L: Lanes>(l: L, a: &Jacobian<L::Fe>, b: &Affine<L::Fe>) -> Chord<L::Fe> {
    let z2 = l.square(&a.z);
    let z3 = l.product(&z2, &a.z);
    Chord {
        h: l.factor_less(&l.mul_raw(&b.x, &z2), &a.x),
        r: l.factor_less(&l.mul_raw(&b.y, &z3), &a.y),
    }
}

#[inline(always)]
fn add_along<L: Lanes>(l: L, a: &Jacobian<L::Fe>, chord: &Chord<L::Fe>) -> Jacobian<L::Fe> {
    let Chord { h, r } = chord;
    let h2 = l.square(h);
    let h3 = l.mul(&h2, h);
    let v = l.mul(&a.x, &h2);
    let v_twice = l.raw_add(&l.raw(&v), &l.raw(&v));
    let x3 = l.normal(&l.raw_sub(&l.sqr_raw(r), &l.raw_add(&v_twice, &l.raw(&h3))));
    let y3 = l.mul_sub_mul(r, &l.diff(&v, &x3), &a.y, &h3);
    Jacobian {
        x: x3,
        y: y3,
        z: l.product(&a.z, h),
    }
}

/// Returns `a + b`. If `a` is the point at infinity, `b` or `-b`, the result is wrong: its Z is 0, and Z stays 0 in all
/// later operations.
#[inline(always)]
pub(crate) fn add<L: Lanes>(l: L, a: &Jacobian<L::Fe>, b: &Affine<L::Fe>) -> Jacobian<L::Fe> {
    add_along(l, a, &chord(l, a, b))
}

/// Returns `a + b`, which is correct for all points. The point at infinity must have X = Y = Z = 0.
#[inline(always)]
pub(crate) fn add_complete<L: Lanes>(l: L, a: &Jacobian<L::Fe>, b: &Affine<L::Fe>) -> Jacobian<L::Fe> {
    let chord = chord(l, a, b);
    let sum = add_along(l, a, &chord);
    let same_x = zeros_of_factor(l, &chord.h);
    if same_x == 0 {
        return sum;
    }
    let a_is_infinity = zeros_of_factor(l, &a.z);
    let same = same_x & !a_is_infinity & zeros_of_factor(l, &chord.r);
    let opposite = same_x & !a_is_infinity & !same;
    let sum = select(l, a_is_infinity, &from_affine(l, b), &sum);
    let sum = select(l, same, &double(l, a), &sum);
    select(l, opposite, &infinity(l), &sum)
}

/// Returns the mask of the lanes in which a factor is zero.
#[inline(always)]
pub(crate) fn zeros_of_factor<L: Lanes>(l: L, a: &L::Fe) -> u8 {
    l.zeros(&l.mul(a, &l.splat(&ONE)))
}

#[inline(always)]
pub(crate) fn infinity<L: Lanes>(l: L) -> Jacobian<L::Fe> {
    let zero = l.splat(&ZERO);
    Jacobian {
        x: zero,
        y: zero,
        z: zero,
    }
}

#[inline(always)]
pub(crate) fn select<L: Lanes>(l: L, mask: u8, a: &Jacobian<L::Fe>, b: &Jacobian<L::Fe>) -> Jacobian<L::Fe> {
    Jacobian {
        x: l.select(mask, &a.x, &b.x),
        y: l.select(mask, &a.y, &b.y),
        z: l.select(mask, &a.z, &b.z),
    }
}
