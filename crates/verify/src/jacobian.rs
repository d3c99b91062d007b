//! Jacobian coordinates: (X, Y, Z) stands for (X/Z², Y/Z³), and any point with Z = 0 for infinity. No inversions, so this
//! is for doublings that follow each other. Formulas: the Explicit-Formulas Database (Bernstein, Lange), "dbl-2001-b"
//! for a = -3, "dbl-2009-l" for a = 0, and "madd" with the sums of products reduced once.

use crate::curve::Params;
use crate::lanes::{Affine, Lanes};
use crate::uint::{ONE, ZERO};

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

/// Twice the point; right for every point of a group of odd order, infinity included.
#[inline(always)]
pub(crate) fn double<L: Lanes>(l: L, point: &Jacobian<L::Fe>) -> Jacobian<L::Fe> {
    let Jacobian { x, y, z } = point;
    let y2 = l.sqr(y);
    let xy2 = l.mul(x, &y2);
    let tangent = if L::Curve::A_IS_MINUS_3 {
        let z2 = l.sqr(z);
        // 3x² - 3z⁴ = 3(x - z²)(x + z²).
        let minus = l.diff(x, &z2);
        let plus = l.normal(&l.raw_add(&l.raw(x), &l.raw(&z2)));
        let product = l.mul_raw(&plus, &minus);
        l.normal(&l.raw_add(&l.raw_add(&product, &product), &product))
    } else {
        let square = l.sqr_raw(x);
        l.normal(&l.raw_add(&l.raw_add(&square, &square), &square))
    };
    let xy2_2 = l.raw_add(&l.raw(&xy2), &l.raw(&xy2));
    let xy2_4 = l.raw_add(&xy2_2, &xy2_2);
    let xy2_8 = l.raw_add(&xy2_4, &xy2_4);
    let x3 = l.normal(&l.raw_sub(&l.sqr_raw(&tangent), &xy2_8));
    let rise = l.normal(&l.raw_sub(&xy2_4, &l.raw(&x3)));
    let y3 = l.mul_sub_8_squares(&tangent, &rise, &y2);
    let yz = l.mul_raw(y, z);
    let z3 = l.normal(&l.raw_add(&yz, &yz));
    Jacobian { x: x3, y: y3, z: z3 }
}

/// What an addition is made of: H = X₂Z₁² - X₁ and R = Y₂Z₁³ - Y₁. H is zero where the points are the same or opposite,
/// or the first one is infinity with X = 0.
struct Chord<Fe> {
    h: Fe,
    r: Fe,
}

#[inline(always)]
fn chord<L: Lanes>(l: L, a: &Jacobian<L::Fe>, b: &Affine<L::Fe>) -> Chord<L::Fe> {
    let z2 = l.sqr(&a.z);
    let z3 = l.mul(&a.z, &z2);
    Chord {
        h: l.normal(&l.raw_sub(&l.mul_raw(&b.x, &z2), &l.raw(&a.x))),
        r: l.normal(&l.raw_sub(&l.mul_raw(&b.y, &z3), &l.raw(&a.y))),
    }
}

#[inline(always)]
fn add_along<L: Lanes>(l: L, a: &Jacobian<L::Fe>, chord: &Chord<L::Fe>) -> Jacobian<L::Fe> {
    let Chord { h, r } = chord;
    let h2 = l.sqr(h);
    let h3 = l.mul(h, &h2);
    let v = l.mul(&a.x, &h2);
    let v_twice = l.raw_add(&l.raw(&v), &l.raw(&v));
    let x3 = l.normal(&l.raw_sub(&l.sqr_raw(r), &l.raw_add(&v_twice, &l.raw(&h3))));
    let y3 = l.mul_sub_mul(r, &l.diff(&v, &x3), &a.y, &h3);
    Jacobian {
        x: x3,
        y: y3,
        z: l.mul(&a.z, h),
    }
}

/// `a + b`, wrong where `a` is infinity, `b` or `-b`: there Z becomes 0, and stays 0 whatever is done after.
#[inline(always)]
pub(crate) fn add<L: Lanes>(l: L, a: &Jacobian<L::Fe>, b: &Affine<L::Fe>) -> Jacobian<L::Fe> {
    add_along(l, a, &chord(l, a, b))
}

/// `a + b`, right always. Infinity has X = Y = Z = 0 here.
#[inline(always)]
pub(crate) fn add_complete<L: Lanes>(l: L, a: &Jacobian<L::Fe>, b: &Affine<L::Fe>) -> Jacobian<L::Fe> {
    let chord = chord(l, a, b);
    let sum = add_along(l, a, &chord);
    let same_x = l.zeros(&chord.h);
    if same_x == 0 {
        return sum;
    }
    let a_is_infinity = l.zeros(&a.z);
    let same = same_x & !a_is_infinity & l.zeros(&chord.r);
    let opposite = same_x & !a_is_infinity & !same;
    let sum = select(l, a_is_infinity, &from_affine(l, b), &sum);
    let sum = select(l, same, &double(l, a), &sum);
    select(l, opposite, &infinity(l), &sum)
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
