//! Arithmetic modulo a group's order n, by Montgomery reduction with R = 2^256. Results are below n; inputs may be
//! greater.

use super::subtract_where_above;
use super::wide::{add_carry, multiply_add};
use crate::curve::Params;
use crate::uint::{U256, ZERO, negated_inverse, power_of_two, reduce_once};
use crate::unroll::unroll;
use std::marker::PhantomData;

pub(super) struct Order<C>(PhantomData<C>);

impl<C: Params> Order<C> {
    const K: u64 = negated_inverse(C::N[0]);
    const R2: U256 = power_of_two(2 * 256, &C::N);

    /// Computes `a·b/R mod n`; one of a and b must be below n, the other is arbitrary.
    #[inline(always)]
    pub(super) fn mul(a: &U256, b: &U256) -> U256 {
        let mut r = [0; 4];
        // The carry out of the words is at most one, because the sum stays below 2n.
        let mut over = false;
        unroll!(i in [0, 1, 2, 3] {
            let mut carry = 0;
            unroll!(j in [0, 1, 2, 3] {
                (r[j], carry) = multiply_add(a[i], b[j], r[j], carry);
            });
            let (top, over_top) = add_carry(carry, u64::from(over), false);
            let u = r[0].wrapping_mul(Self::K);
            let (_, mut carry) = multiply_add(u, C::N[0], r[0], 0);
            unroll!(j in [1, 2, 3] {
                (r[j - 1], carry) = multiply_add(u, C::N[j], r[j], carry);
            });
            (r[3], over) = add_carry(top, carry, false);
            over |= over_top;
        });
        subtract_where_above(&r, over, &C::N)
    }

    #[inline(always)]
    pub(super) fn reduced(a: &U256) -> U256 {
        reduce_once(a, &C::N)
    }

    /// Returns `R/a` modulo n.
    pub(super) fn invert(a: &U256) -> U256 {
        let inverse = crate::inverse::invert(&Self::reduced(a), &C::N);
        debug_assert_ne!(inverse, ZERO);
        Self::mul(&inverse, &Self::R2)
    }
}
