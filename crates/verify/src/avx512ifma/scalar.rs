//! Arithmetic modulo a group's order n, by Montgomery reduction with R = 2^260. All values are below 2^257.

use super::limbs::*;
use super::{Invertible, invert_lanes};
use crate::curve::Params;
use crate::uint::{U256, limbs52, negated_inverse, power_of_two};
use crate::unroll::unroll;
use std::marker::PhantomData;

pub(super) struct Order<C>(PhantomData<C>);

impl<C: Params> Order<C> {
    const N: [u64; 5] = limbs52(&C::N);
    /// Constant of the Montgomery reduction: `-1/n mod 2^52`.
    const K: u64 = negated_inverse(C::N[0]) & MASK52;

    #[inline(always)]
    pub(super) fn mul(a: &Limbs, b: &Limbs) -> Limbs {
        assert_limbs(a, 50);
        assert_limbs(b, 50);
        let mut columns = [zero(); 10];
        add_product(&mut columns, a, b);
        let n = splat(&Self::N);
        unroll!(i in [0, 1, 2, 3, 4] {
            let u = lo(zero(), columns[i], set(Self::K));
            unroll!(j in [0, 1, 2, 3, 4] {
                columns[i + j] = lo(columns[i + j], u, n[j]);
                columns[i + j + 1] = hi(columns[i + j + 1], u, n[j]);
            });
            columns[i + 1] = add(columns[i + 1], sar::<52>(columns[i]));
        });
        carry([columns[5], columns[6], columns[7], columns[8], columns[9]])
    }

    /// Returns the value modulo n, below n.
    #[inline(always)]
    pub(super) fn reduced(a: &Limbs) -> Limbs {
        reduce_twice(a, &splat(&Self::N))
    }

    /// Returns `R/a` modulo n.
    #[inline(always)]
    pub(super) fn invert(a: &Limbs) -> Limbs {
        // `invert_lanes` treats a as an element of Montgomery's domain and returns R²/a; the product with 1 divides by
        // R.
        let inverse = invert_lanes::<Self>(a);
        Self::mul(&inverse, &splat(&[1, 0, 0, 0, 0]))
    }
}

impl<C: Params> Invertible for Order<C> {
    const MODULUS: U256 = C::N;
    const BY: [u64; 5] = limbs52(&power_of_two(3 * 260, &C::N));

    #[inline(always)]
    fn mul(a: &Limbs, b: &Limbs) -> Limbs {
        Self::mul(a, b)
    }
}
