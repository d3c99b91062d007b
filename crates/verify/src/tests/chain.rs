//! Tests of the bounds of every element on every path of the formulas, for all inputs. The tests run the formulas with
//! a backend whose elements are intervals, in units of 2^256, which contain all values that the AVX-512 IFMA backend
//! can produce. R is 16 of these units.
//!
//! Bounds are floating-point numbers. They are rounded outwards by far more than their error, and by far less than the
//! available margin.

use super::tiny::{MinusThree, Zero};
use crate::affine::{Pair, add_pairs, double_all};
use crate::jacobian::{self, Jacobian};
use crate::lanes::{Affine, Lanes, Stage, TablePoint};
use crate::uint::{ONE, U256};
use std::cell::Cell;
use std::marker::PhantomData;

/// Upper limit of the relative error that comes from rounding, from ignoring 2^230 next to 2^257, and from taking p as
/// 2^256.
const SLACK: f64 = 1e-6;

#[derive(Clone, Copy, Debug, PartialEq)]
struct Interval {
    low: f64,
    high: f64,
}

impl Interval {
    fn new(low: f64, high: f64) -> Self {
        Self {
            low: low - SLACK,
            high: high + SLACK,
        }
    }

    fn plus(&self, other: &Self) -> Self {
        Self::new(self.low + other.low, self.high + other.high)
    }

    fn minus(&self, other: &Self) -> Self {
        Self::new(self.low - other.high, self.high - other.low)
    }

    fn or(&self, other: &Self) -> Self {
        Self {
            low: self.low.min(other.low),
            high: self.high.max(other.high),
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Element {
    value: Interval,
    is_normal: bool,
}

#[derive(Clone, Copy, Debug)]
struct Sum {
    value: Interval,
    /// Greatest absolute value of a limb, in units of 2^52.
    limb: f64,
}

/// Backend of intervals over a tiny curve. For `MinusThree` the bounds are those of P-256, whose products are divided
/// by R; for `Zero` they are those of secp256k1, whose products are all wide.
#[derive(Clone, Copy, Debug)]
struct Bounds<C>(PhantomData<C>);

thread_local! {
    static HAS_ZEROS: Cell<bool> = const { Cell::new(false) };
    static WIDEST: Cell<[f64; 3]> = const { Cell::new([0.0; 3]) };
}

fn widest(k: usize, value: f64) {
    let mut all = WIDEST.get();
    all[k] = all[k].max(value);
    WIDEST.set(all);
}

/// Returns a factor with this value, after checking that its last limb has no bit above 52, because such bits are lost.
fn factor(value: Interval) -> Element {
    assert!(value.low > -0.01 && value.high < 16.0, "{value:?}");
    widest(0, value.high);
    let value = Interval {
        low: value.low.max(0.0),
        ..value
    };
    Element {
        value,
        is_normal: false,
    }
}

impl<C: crate::curve::Params> Bounds<C> {
    const IS_MONTGOMERYS: bool = C::A_IS_MINUS_3;

    /// Reduces columns, given their value over 2^512.
    fn reduced(columns: Interval, column: f64) -> Sum {
        // The columns are signed. Together with the terms that the reduction adds to them, they must fit into 63 bits.
        assert!(column + 20.0 < 2048.0 / 2.0);
        let value = if Self::IS_MONTGOMERYS {
            Interval::new(columns.low / 16.0, columns.high / 16.0 + 1.0)
        } else {
            // The upper half is multiplied without propagating its last carry, so it must not be negative, and its last
            // column must fit into 52 bits.
            assert!(columns.low > -0.01 && columns.high < 256.0, "{columns:?}");
            Interval::new(0.0, 32.0)
        };
        Sum {
            value,
            limb: column + 20.0,
        }
    }

    fn multiplied(a: &Element, b: &Element) -> Interval {
        Interval::new(a.value.low * b.value.low, a.value.high * b.value.high)
    }

    /// Returns `a·b + times·p·2^260 - minus`.
    fn product_less(l: Self, a: &Element, b: &Element, times: f64, minus: Interval, column: f64) -> Element {
        let shift = Interval::new(16.0 * times, 16.0 * times);
        let columns = Self::multiplied(a, b).plus(&shift).minus(&minus);
        assert!(columns.low > 0.0, "{columns:?}");
        l.normal(&Self::reduced(columns, 10.0 + times + column))
    }

    fn narrow(element: &Element) {
        widest(1, element.value.high);
        assert!(element.value.high < 4.0, "{element:?}");
    }
}

impl<C: crate::curve::Params> Lanes for Bounds<C> {
    type Curve = C;
    type Fe = Element;
    type Raw = Sum;
    type Sc = ();
    const LANES: usize = 1;

    fn run<S: Stage>(self, stage: S) -> S::Out {
        stage.run()
    }
    fn splat(self, _: &U256) -> Element {
        self.load(&[])
    }
    /// Returns the bounds of a loaded element: a product of any 256-bit number and a constant below p.
    fn load(self, _: &[U256]) -> Element {
        let any = factor(Interval::new(0.0, 1.0));
        self.mul(&any, &any)
    }
    fn store(self, a: &Element, _: &mut [U256]) {
        self.raw(a);
    }
    fn mul(self, a: &Element, b: &Element) -> Element {
        let sum = self.mul_raw(a, b);
        if !Self::IS_MONTGOMERYS {
            return self.normal(&sum);
        }
        assert!(sum.value.high < 2.0, "{a:?} times {b:?} is not normal");
        widest(2, sum.value.high);
        Element {
            value: Interval {
                low: sum.value.low.max(0.0),
                ..sum.value
            },
            is_normal: true,
        }
    }
    fn sqr(self, a: &Element) -> Element {
        self.mul(a, a)
    }
    fn product(self, a: &Element, b: &Element) -> Element {
        self.factor(&self.mul_raw(a, b))
    }
    fn square(self, a: &Element) -> Element {
        self.product(a, a)
    }
    fn diff(self, a: &Element, b: &Element) -> Element {
        let three = Interval::new(3.0, 3.0);
        factor(self.raw(a).value.plus(&three).minus(&self.raw(b).value))
    }
    fn factor(self, a: &Sum) -> Element {
        if Self::IS_MONTGOMERYS {
            factor(a.value)
        } else {
            self.normal(a)
        }
    }
    fn factor_less(self, a: &Sum, b: &Element) -> Element {
        if Self::IS_MONTGOMERYS {
            let three = Interval::new(3.0, 3.0);
            factor(a.value.plus(&three).minus(&self.raw(b).value))
        } else {
            self.normal(&self.raw_sub(a, &self.raw(b)))
        }
    }
    fn raw(self, a: &Element) -> Sum {
        assert!(
            a.is_normal,
            "a factor is used where only normal elements are allowed"
        );
        let value = a.value;
        Sum { value, limb: 1.0 }
    }
    fn mul_raw(self, a: &Element, b: &Element) -> Sum {
        Self::reduced(Self::multiplied(a, b), 10.0)
    }
    fn sqr_raw(self, a: &Element) -> Sum {
        self.mul_raw(a, a)
    }
    fn mul_sub_mul(self, a: &Element, b: &Element, c: &Element, d: &Element) -> Element {
        Self::narrow(c);
        Self::narrow(d);
        Self::product_less(self, a, b, 1.0, Self::multiplied(c, d), 10.0)
    }
    fn mul_sub_8_squares(self, a: &Element, b: &Element, c: &Element) -> Element {
        Self::narrow(c);
        let Interval { low, high } = Self::multiplied(c, c);
        Self::product_less(self, a, b, 4.0, Interval::new(8.0 * low, 8.0 * high), 80.0)
    }
    fn raw_add(self, a: &Sum, b: &Sum) -> Sum {
        let limb = a.limb + b.limb;
        assert!(limb < 2048.0 / 2.0);
        let value = a.value.plus(&b.value);
        Sum { value, limb }
    }
    fn raw_sub(self, a: &Sum, b: &Sum) -> Sum {
        let limb = a.limb + b.limb;
        assert!(limb < 2048.0 / 2.0);
        let value = a.value.minus(&b.value);
        Sum { value, limb }
    }
    /// Checks that the quotient q is small enough for its multiplications: q·2^224 must be below 2^230, or q·977 must
    /// fit into 32 bits. Returns the bounds of a normal element.
    fn normal(self, a: &Sum) -> Element {
        let most = if Self::IS_MONTGOMERYS { 62.0 } else { 1e6 };
        assert!(a.value.high.max(-a.value.low) < most, "{a:?}");
        Element {
            value: Interval {
                low: 1.0 - SLACK,
                high: 2.0 + SLACK,
            },
            is_normal: true,
        }
    }
    fn invert(self, a: &Element) -> Option<Element> {
        if HAS_ZEROS.take() {
            return None;
        }
        // These are the products by which `avx512ifma` multiplies all lanes together.
        let pairs = self.mul(a, a);
        let quads = self.mul(&pairs, &pairs);
        self.raw(&self.mul(&quads, &quads));
        let lacking = self.mul(&self.mul(a, &pairs), &quads);
        Some(self.mul(&lacking, &self.splat(&ONE)))
    }
    fn zeros(self, a: &Element) -> u8 {
        self.raw(a);
        1
    }
    fn select(self, _: u8, a: &Element, b: &Element) -> Element {
        Element {
            value: a.value.or(&b.value),
            is_normal: a.is_normal & b.is_normal,
        }
    }
    fn prefetch(self, _: &TablePoint) {}
    fn load_table_points(self, _: &[&TablePoint], _: u8) -> Affine<Element> {
        unreachable!("the formulas do not use table points");
    }
    fn store_table_points(self, _: &Affine<Element>, _: &mut [TablePoint]) {}
    fn scalars(self, _: &[U256]) {}
    fn store_scalars(self, _: &(), _: &mut [U256]) {}
    fn scalar_mul(self, _: &(), _: &()) {}
    fn scalar_invert(self, _: &()) {}
}

/// Returns the bounds of any normal element.
fn any() -> Element {
    Element {
        value: Interval::new(0.0, 2.0),
        is_normal: true,
    }
}

fn formulas<C: crate::curve::Params>() {
    let l = Bounds::<C>(PhantomData);
    let point = Affine { x: any(), y: any() };
    // Compute doublings and additions in any order until the bounds of Z stop growing. Each round begins with the union
    // of all results of the previous round.
    let mut any_sum = jacobian::from_affine(l, &point);
    any_sum = jacobian::select(l, 1, &any_sum, &jacobian::infinity(l));
    for round in 0.. {
        let mut next = any_sum;
        for sum in [
            jacobian::double(l, &any_sum),
            jacobian::add(l, &any_sum, &point),
            jacobian::add_complete(l, &any_sum, &point),
        ] {
            next = jacobian::select(l, 1, &next, &sum);
        }
        let Jacobian { x, y, z } = next;
        l.raw(&x);
        l.raw(&y);
        // These are the operations on Z when tables are built and when r is checked.
        l.sqr(&z);
        l.mul(&any(), &z);
        if next.z.value == any_sum.z.value {
            println!("{:?}: {z:?} after {round} rounds", C::CURVE);
            break;
        }
        assert!(round < 200, "the bounds of Z grow without limit: {z:?}");
        any_sum = next;
    }
    println!("{:?}: factor, narrow, product: {:?}", C::CURVE, WIDEST.take());
    // The batch has long running products; their bounds do not change any more after a few steps.
    for has_zeros in [false, true] {
        HAS_ZEROS.set(has_zeros);
        let pairs: Vec<Pair> = (0..300)
            .map(|k| Pair {
                to: 2 * k,
                from: 2 * k + 1,
                group: 0,
            })
            .collect();
        add_pairs(l, &mut [point; 600], &pairs, &mut Vec::new(), &mut [0], &mut ());
        double_all(l, &mut [point; 300], &mut Vec::new());
    }
    println!("{:?}: factor, narrow, product: {:?}", C::CURVE, WIDEST.take());
}

#[test]
fn formula_bounds_hold_on_p256() {
    formulas::<MinusThree>();
}

#[test]
fn formula_bounds_hold_on_secp256k1() {
    formulas::<Zero>();
}
