//! The portable backend: one lane in plain Rust, with 64-bit words and 128-bit products.

mod p256;
mod scalar;
mod secp256k1;
mod wide;

use crate::curve::{P256, Params, Secp256k1};
use crate::lanes::{Affine, Lanes, Stage, TablePoint};
use crate::uint::{U256, add, is_zero, power_of_two, sub};
use crate::unroll::array;
use scalar::Order;
use std::marker::PhantomData;

/// Portable backend over the curve `C`. Elements are below p, in Montgomery's domain or the plain one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Portable<C>(PhantomData<C>);

impl<C> Portable<C> {
    pub(crate) const fn new() -> Self {
        Self(PhantomData)
    }
}

/// Operations and constants that depend on the curve.
pub(crate) trait Reduction: Params {
    /// Constant by which a plain element is multiplied to bring it into the domain.
    const ENTER_BY: U256;
    /// Constant by which the integer inverse of an element is multiplied, so that the result is in the domain again.
    const INVERSE_BY: U256;
    /// Reduces the product of two elements.
    fn reduce(wide: [u64; 8]) -> U256;
}

impl Reduction for P256 {
    const ENTER_BY: U256 = power_of_two(2 * 256, &P256::P);
    const INVERSE_BY: U256 = power_of_two(3 * 256, &P256::P);

    #[inline(always)]
    fn reduce(wide: [u64; 8]) -> U256 {
        p256::reduce(wide)
    }
}

impl Reduction for Secp256k1 {
    const ENTER_BY: U256 = [1, 0, 0, 0];
    const INVERSE_BY: U256 = [1, 0, 0, 0];

    #[inline(always)]
    fn reduce(wide: [u64; 8]) -> U256 {
        secp256k1::reduce(wide)
    }
}

/// Returns `m` if `whether` is true, otherwise 0. The function uses no branch, because the processor cannot predict the
/// condition.
#[inline(always)]
fn masked(m: &U256, whether: bool) -> U256 {
    let mask = u64::from(whether).wrapping_neg();
    array!(i in [0, 1, 2, 3] => m[i] & mask)
}

/// Returns `a`, plus 2^256 if there is a carry, minus `m` if the result is not negative.
#[inline(always)]
fn subtract_where_above(a: &U256, carry: bool, m: &U256) -> U256 {
    let (reduced, negative) = sub(a, m);
    let keep = u64::from(negative & !carry).wrapping_neg();
    array!(i in [0, 1, 2, 3] => (a[i] & keep) | (reduced[i] & !keep))
}

impl<C: Reduction> Portable<C> {
    #[inline(always)]
    fn times(a: &U256, b: &U256) -> U256 {
        C::reduce(wide::product(a, b))
    }

    #[inline(always)]
    fn times_itself(a: &U256) -> U256 {
        C::reduce(wide::square(a))
    }

    #[inline(always)]
    fn minus(a: &U256, b: &U256) -> U256 {
        let (difference, negative) = sub(a, b);
        add(&difference, &masked(&C::P, negative)).0
    }

    #[inline(always)]
    fn plus(a: &U256, b: &U256) -> U256 {
        let (sum, carry) = add(a, b);
        subtract_where_above(&sum, carry, &C::P)
    }
}

impl<C: Reduction> Lanes for Portable<C> {
    type Curve = C;
    type Fe = U256;
    type Raw = U256;
    type Sc = U256;
    const LANES: usize = 1;

    #[inline(always)]
    fn splat(self, plain: &U256) -> U256 {
        Self::times(plain, &C::ENTER_BY)
    }

    #[inline(always)]
    fn mul(self, a: &U256, b: &U256) -> U256 {
        Self::times(a, b)
    }

    #[inline(always)]
    fn sqr(self, a: &U256) -> U256 {
        Self::times_itself(a)
    }

    #[inline(always)]
    fn product(self, a: &U256, b: &U256) -> U256 {
        Self::times(a, b)
    }

    #[inline(always)]
    fn square(self, a: &U256) -> U256 {
        Self::times_itself(a)
    }

    #[inline(always)]
    fn factor(self, a: &U256) -> U256 {
        *a
    }

    #[inline(always)]
    fn factor_less(self, a: &U256, b: &U256) -> U256 {
        Self::minus(a, b)
    }

    #[inline(always)]
    fn diff(self, a: &U256, b: &U256) -> U256 {
        Self::minus(a, b)
    }

    #[inline(always)]
    fn raw(self, a: &U256) -> U256 {
        *a
    }

    #[inline(always)]
    fn mul_raw(self, a: &U256, b: &U256) -> U256 {
        Self::times(a, b)
    }

    #[inline(always)]
    fn sqr_raw(self, a: &U256) -> U256 {
        Self::times_itself(a)
    }

    #[inline(always)]
    fn mul_sub_mul(self, a: &U256, b: &U256, c: &U256, d: &U256) -> U256 {
        Self::minus(&Self::times(a, b), &Self::times(c, d))
    }

    #[inline(always)]
    fn mul_sub_8_squares(self, a: &U256, b: &U256, c: &U256) -> U256 {
        let square = Self::times_itself(c);
        let twice = Self::plus(&square, &square);
        let four_times = Self::plus(&twice, &twice);
        Self::minus(&Self::times(a, b), &Self::plus(&four_times, &four_times))
    }

    #[inline(always)]
    fn raw_add(self, a: &U256, b: &U256) -> U256 {
        Self::plus(a, b)
    }

    #[inline(always)]
    fn raw_sub(self, a: &U256, b: &U256) -> U256 {
        Self::minus(a, b)
    }

    #[inline(always)]
    fn normal(self, a: &U256) -> U256 {
        *a
    }

    #[inline(always)]
    fn run<S: Stage>(self, stage: S) -> S::Out {
        stage.run()
    }

    #[inline(always)]
    fn load(self, plain: &[U256]) -> U256 {
        Self::times(&plain[0], &C::ENTER_BY)
    }

    #[inline(always)]
    fn store(self, a: &U256, plain: &mut [U256]) {
        let leave_by = if C::ENTER_BY == [1, 0, 0, 0] {
            *a
        } else {
            Self::times(a, &[1, 0, 0, 0])
        };
        plain[0] = leave_by;
    }

    #[inline(always)]
    fn invert(self, a: &U256) -> Option<U256> {
        if is_zero(a) {
            return None;
        }
        Some(Self::times(&crate::inverse::invert(a, &C::P), &C::INVERSE_BY))
    }

    #[inline(always)]
    fn zeros(self, a: &U256) -> u8 {
        u8::from(is_zero(a))
    }

    #[inline(always)]
    fn select(self, mask: u8, a: &U256, b: &U256) -> U256 {
        if mask & 1 != 0 { *a } else { *b }
    }

    #[inline(always)]
    fn prefetch(self, table_point: &TablePoint) {
        crate::memory::prefetch(table_point);
    }

    #[inline(always)]
    fn load_table_points(self, points: &[&TablePoint], negate: u8) -> Affine<U256> {
        let [x0, x1, x2, x3, y0, y1, y2, y3] = points[0].0;
        let y = [y0, y1, y2, y3];
        // y is not zero, because the group's order is odd, so p - y is below p.
        let minus_y = sub(&C::P, &y).0;
        let mask = u64::from(negate & 1).wrapping_neg();
        Affine {
            x: [x0, x1, x2, x3],
            y: std::array::from_fn(|i| (minus_y[i] & mask) | (y[i] & !mask)),
        }
    }

    #[inline(always)]
    fn store_table_points(self, points: &Affine<U256>, table_points: &mut [TablePoint]) {
        let ([x0, x1, x2, x3], [y0, y1, y2, y3]) = (points.x, points.y);
        table_points[0] = TablePoint([x0, x1, x2, x3, y0, y1, y2, y3]);
    }

    #[inline(always)]
    fn scalars(self, plain: &[U256]) -> U256 {
        plain[0]
    }

    #[inline(always)]
    fn store_scalars(self, a: &U256, plain: &mut [U256]) {
        plain[0] = Order::<C>::reduced(a);
    }

    #[inline(always)]
    fn scalar_mul(self, a: &U256, b: &U256) -> U256 {
        Order::<C>::mul(a, b)
    }

    #[inline(always)]
    fn scalar_invert(self, a: &U256) -> U256 {
        Order::<C>::invert(a)
    }
}
