//! Backend with eight lanes in AVX-512 IFMA, for Intel Ice Lake, AMD Zen 4 and newer processors.

mod limbs;
mod p256;
mod scalar;
mod secp256k1;
mod table_points;

use crate::curve::{P256, Params, Secp256k1};
use crate::lanes::{Affine, Lanes, Stage, TablePoint};
use crate::recode::OddLanes;
use crate::uint::{U256, is_zero, limbs52, power_of_two};
use crate::unroll::array;
use limbs::*;
use scalar::Order;
use std::marker::PhantomData;

/// Backend over the curve `C`. A value of this type is a token that proves that the CPU has the required features.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ifma<C>(PhantomData<C>);

/// Returns true if this CPU has the features that the backend needs, and the crate is compiled with optimisation
/// (`build.rs` says why).
pub(crate) fn is_available() -> bool {
    !cfg!(unoptimised)
        && is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512ifma")
        && is_x86_feature_detected!("avx512vbmi2")
        && is_x86_feature_detected!("bmi2")
}

impl<C> Ifma<C> {
    pub(crate) fn new() -> Option<Self> {
        is_available().then_some(Self(PhantomData))
    }
}

/// Runs a stage. The stage, and all functions that are inlined into it, are compiled for the CPU features that
/// `is_available` checks.
///
/// # Safety
/// `is_available` must return true.
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,avx512ifma,avx512vbmi2,bmi2")]
#[inline(never)]
unsafe fn run<S: Stage>(stage: S) -> S::Out {
    stage.run()
}

/// Operations and constants that depend on the curve.
pub(crate) trait Reduction: Params {
    /// Representation of 1 in the domain of the elements: R modulo p for Montgomery's domain, 1 for the plain domain.
    const R: U256;
    /// Constant by which the integer inverse of an element is multiplied, so that the result is in the domain again.
    const INVERSE_BY: [u64; 5];
    /// Constant by which a plain element is multiplied to bring it into the domain.
    const ENTER_BY: [u64; 5];
    fn reduce_product(columns: Wide) -> Limbs;
    fn reduce_square(columns: Wide) -> Limbs;
    fn normal(raw: &Limbs) -> Limbs;
}

impl Reduction for P256 {
    const R: U256 = power_of_two(260, &P256::P);
    const INVERSE_BY: [u64; 5] = limbs52(&power_of_two(3 * 260, &P256::P));
    const ENTER_BY: [u64; 5] = limbs52(&power_of_two(2 * 260, &P256::P));

    #[inline(always)]
    fn reduce_product(columns: Wide) -> Limbs {
        p256::reduce_product(columns)
    }

    #[inline(always)]
    fn reduce_square(columns: Wide) -> Limbs {
        p256::reduce_square(columns)
    }

    #[inline(always)]
    fn normal(raw: &Limbs) -> Limbs {
        p256::normal(raw)
    }
}

impl Reduction for Secp256k1 {
    const R: U256 = [1, 0, 0, 0];
    const INVERSE_BY: [u64; 5] = [1, 0, 0, 0, 0];
    const ENTER_BY: [u64; 5] = [1, 0, 0, 0, 0];

    #[inline(always)]
    fn reduce_product(columns: Wide) -> Limbs {
        secp256k1::reduce(columns)
    }

    #[inline(always)]
    fn reduce_square(columns: Wide) -> Limbs {
        secp256k1::reduce(columns)
    }

    #[inline(always)]
    fn normal(raw: &Limbs) -> Limbs {
        secp256k1::normal(raw)
    }
}

/// Ring in which eight lanes are inverted: the field's elements or the scalars. This is a trait and not a closure,
/// because the compiler does not guarantee to inline closures.
trait Invertible {
    const MODULUS: U256;
    /// Constant by which the integer inverse of the product of eight lanes is multiplied, so that the result is in the
    /// domain again.
    const BY: [u64; 5];
    fn mul(a: &Limbs, b: &Limbs) -> Limbs;
}

/// Inverts each lane with one inversion of the product of all lanes. Three exchanges of lanes multiply all lanes
/// together. The inverse of a lane is the inverse of this product times the product of the other lanes. If the product
/// is zero, all results are zero.
#[inline(always)]
fn invert_lanes<M: Invertible>(a: &Limbs) -> Limbs {
    let others = exchange(a, 1);
    let pairs = M::mul(a, &others);
    let other_pairs = exchange(&pairs, 2);
    let quads = M::mul(&pairs, &other_pairs);
    let other_quads = exchange(&quads, 4);
    let product = M::mul(&quads, &other_quads);
    let lacking = M::mul(&M::mul(&others, &other_pairs), &other_quads);
    let reduced = reduce_twice(&product, &splat(&limbs52(&M::MODULUS)));
    let product = table_points::pack(&reduced).map(|words| lanes(words)[0]);
    let inverse = if is_zero(&product) {
        product
    } else {
        crate::inverse::invert(&product, &M::MODULUS)
    };
    M::mul(&lacking, &M::mul(&splat(&limbs52(&inverse)), &splat(&M::BY)))
}

impl<C: Reduction> Invertible for Ifma<C> {
    const MODULUS: U256 = C::P;
    const BY: [u64; 5] = C::INVERSE_BY;

    #[inline(always)]
    fn mul(a: &Limbs, b: &Limbs) -> Limbs {
        Lanes::mul(Self(PhantomData), a, b)
    }
}

impl<C: Reduction> Ifma<C> {
    const P: [u64; 5] = limbs52(&C::P);
    const NORMAL_BITS: u32 = 50;
    const FACTOR_BITS: u32 = 52;

    #[inline(always)]
    fn reduced(a: &Limbs) -> Limbs {
        reduce_twice(a, &splat(&Self::P))
    }

    /// Returns `a·b + TIMES·p·2^260 - minus`.
    #[inline(always)]
    fn product_less<const TIMES: u64>(a: &Limbs, b: &Limbs, minus: &Wide) -> Limbs {
        assert_factor(a, Self::FACTOR_BITS);
        assert_factor(b, Self::FACTOR_BITS);
        let mut columns: Wide = array!(i in [0, 1, 2, 3, 4, 5, 6, 7, 8, 9] => match i {
            0..5 => sub(zero(), minus[i]),
            _ => sub(set(TIMES * Self::P[i - 5]), minus[i]),
        });
        add_product(&mut columns, a, b);
        C::normal(&C::reduce_product(columns))
    }
}

impl<C: Reduction> Lanes for Ifma<C> {
    type Curve = C;
    type Fe = Limbs;
    type Raw = Limbs;
    type Sc = Limbs;
    const LANES: usize = 8;

    #[inline(always)]
    fn splat(self, plain: &U256) -> Limbs {
        self.mul(&splat(&limbs52(plain)), &splat(&C::ENTER_BY))
    }

    #[inline(always)]
    fn mul(self, a: &Limbs, b: &Limbs) -> Limbs {
        if is_one(&C::R) {
            C::normal(&self.mul_raw(a, b))
        } else {
            carry(self.mul_raw(a, b))
        }
    }

    #[inline(always)]
    fn sqr(self, a: &Limbs) -> Limbs {
        if is_one(&C::R) {
            C::normal(&self.sqr_raw(a))
        } else {
            carry(self.sqr_raw(a))
        }
    }

    #[inline(always)]
    fn product(self, a: &Limbs, b: &Limbs) -> Limbs {
        if is_one(&C::R) {
            C::normal(&self.mul_raw(a, b))
        } else {
            carry_on(self.mul_raw(a, b))
        }
    }

    #[inline(always)]
    fn square(self, a: &Limbs) -> Limbs {
        if is_one(&C::R) {
            C::normal(&self.sqr_raw(a))
        } else {
            carry_on(self.sqr_raw(a))
        }
    }

    /// Returns the sum as a factor. In the plain domain products are wide, so the sum is reduced first.
    #[inline(always)]
    fn factor(self, a: &Limbs) -> Limbs {
        let factor = if is_one(&C::R) { C::normal(a) } else { carry_on(*a) };
        assert_factor(&factor, Self::FACTOR_BITS);
        factor
    }

    #[inline(always)]
    fn factor_less(self, a: &Limbs, b: &Limbs) -> Limbs {
        if is_one(&C::R) {
            C::normal(&sub_limbs(a, b))
        } else {
            self.diff(a, b)
        }
    }

    /// Returns a - b + 3p, which is not negative, because 3p is above every normal element.
    #[inline(always)]
    fn diff(self, a: &Limbs, b: &Limbs) -> Limbs {
        let p3 = splat(&Self::P.map(|limb| 3 * limb));
        let difference = carry_on(sub_limbs(&add_limbs(a, &p3), b));
        assert_factor(&difference, Self::FACTOR_BITS);
        difference
    }

    #[inline(always)]
    fn raw(self, a: &Limbs) -> Limbs {
        assert_limbs(a, Self::NORMAL_BITS);
        *a
    }

    #[inline(always)]
    fn mul_raw(self, a: &Limbs, b: &Limbs) -> Limbs {
        assert_factor(a, Self::FACTOR_BITS);
        assert_factor(b, Self::FACTOR_BITS);
        let mut columns = [zero(); 10];
        add_product(&mut columns, a, b);
        C::reduce_product(columns)
    }

    #[inline(always)]
    fn sqr_raw(self, a: &Limbs) -> Limbs {
        assert_factor(a, Self::FACTOR_BITS);
        C::reduce_square(square(a))
    }

    /// Computes `a·b - c·d` with one reduction for both products. It adds p·2^260, which is above every product c·d, so
    /// that the sum is not negative.
    #[inline(always)]
    fn mul_sub_mul(self, a: &Limbs, b: &Limbs, c: &Limbs, d: &Limbs) -> Limbs {
        assert_factor(c, Self::NORMAL_BITS);
        assert_factor(d, Self::NORMAL_BITS);
        let mut minus = [zero(); 10];
        add_product(&mut minus, c, d);
        Self::product_less::<1>(a, b, &minus)
    }

    /// Computes `a·b - 8·c²` like `mul_sub_mul`. It adds 4p·2^260, which is above every 8c².
    #[inline(always)]
    fn mul_sub_8_squares(self, a: &Limbs, b: &Limbs, c: &Limbs) -> Limbs {
        assert_factor(c, Self::NORMAL_BITS);
        Self::product_less::<4>(a, b, &square(c).map(shl::<3>))
    }

    #[inline(always)]
    fn raw_add(self, a: &Limbs, b: &Limbs) -> Limbs {
        add_limbs(a, b)
    }

    #[inline(always)]
    fn raw_sub(self, a: &Limbs, b: &Limbs) -> Limbs {
        sub_limbs(a, b)
    }

    #[inline(always)]
    fn normal(self, a: &Limbs) -> Limbs {
        let a = C::normal(a);
        assert_limbs(&a, Self::NORMAL_BITS);
        a
    }

    #[inline(always)]
    fn run<S: Stage>(self, stage: S) -> S::Out {
        // SAFETY: `run` needs that `is_available` returns true, and the token `self` exists only in this case.
        unsafe { run(stage) }
    }

    #[inline(always)]
    fn load(self, plain: &[U256]) -> Limbs {
        self.mul(&self.scalars(plain), &splat(&C::ENTER_BY))
    }

    #[inline(always)]
    fn store(self, a: &Limbs, plain: &mut [U256]) {
        let out = if is_one(&C::R) {
            *a
        } else {
            self.mul(a, &splat(&[1, 0, 0, 0, 0]))
        };
        store_words(&Self::reduced(&out), plain);
    }

    #[inline(always)]
    fn invert(self, a: &Limbs) -> Option<Limbs> {
        let inverse = invert_lanes::<Self>(a);
        // If a lane is zero, the product of all lanes is zero, and `invert_lanes` returns zeros.
        (self.zeros(&inverse) == 0).then_some(inverse)
    }

    #[inline(always)]
    fn zeros(self, a: &Limbs) -> u8 {
        assert_limbs(a, Self::NORMAL_BITS);
        equal_limbs(&Self::reduced(a), &[zero(); 5])
    }

    #[inline(always)]
    fn select(self, mask: u8, a: &Limbs, b: &Limbs) -> Limbs {
        blend_limbs(mask, a, b)
    }

    #[inline(always)]
    fn prefetch(self, table_point: &TablePoint) {
        crate::memory::prefetch(table_point);
    }

    #[inline(always)]
    fn load_table_points(self, points: &[&TablePoint], negate: u8) -> Affine<Limbs> {
        let (x, y) = table_points::load(points);
        // The limbs of p - y may be negative, so their carries are propagated; `normal` would cost as much as `carry`.
        let minus_y = carry(sub_limbs(&splat(&Self::P), &y));
        Affine {
            x,
            y: blend_limbs(negate, &minus_y, &y),
        }
    }

    #[inline(always)]
    fn store_table_points(self, points: &Affine<Limbs>, out: &mut [TablePoint]) {
        table_points::store(&Self::reduced(&points.x), &Self::reduced(&points.y), out);
    }

    #[inline(always)]
    fn digits(self, scalars: &OddLanes, i: usize, width: u32) -> ([u64; 8], u8) {
        let ([low, high], shift) = scalars.place(i, width);
        let x = bits_from(from_lanes(*low), from_lanes(*high), shift);
        let positive = any_bit(x, set(1 << (width - 1)));
        // The computation is that of `recode::digit`, for eight lanes.
        let index = and(invert_where(!positive, x), set((1 << (width - 1)) - 1));
        (lanes(index), !positive ^ scalars.negative())
    }

    #[inline(always)]
    fn scalars(self, plain: &[U256]) -> Limbs {
        let words: [Z; 4] = std::array::from_fn(|i| from_lanes(std::array::from_fn(|lane| plain[lane][i])));
        table_points::unpack(&words)
    }

    #[inline(always)]
    fn store_scalars(self, a: &Limbs, plain: &mut [U256]) {
        store_words(&Order::<C>::reduced(a), plain);
    }

    #[inline(always)]
    fn scalar_mul(self, a: &Limbs, b: &Limbs) -> Limbs {
        Order::<C>::mul(a, b)
    }

    #[inline(always)]
    fn scalar_invert(self, a: &Limbs) -> Limbs {
        Order::<C>::invert(a)
    }
}

#[inline(always)]
fn is_one(r: &U256) -> bool {
    *r == [1, 0, 0, 0]
}

#[inline(always)]
fn store_words(reduced: &Limbs, plain: &mut [U256]) {
    let words = table_points::pack(reduced).map(lanes);
    for (lane, out) in plain.iter_mut().enumerate() {
        *out = words.map(|word| word[lane]);
    }
}
