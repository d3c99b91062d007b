//! Backend over a field of less than 200 elements, so small that tests can try all points of a group (as libsecp256k1
//! does).
//!
//! The backend also records, for each element, whether it is a factor and how many terms a raw sum has, which the real
//! backends do not know. So it finds formulas that break the rules of `Lanes` even if their results happen to be
//! correct.

use crate::curve::{Curve, Params};
use crate::lanes::{Affine, Lanes, Stage, TablePoint};
use crate::uint::U256;
use std::marker::PhantomData;

/// Curve y² = x³ - 3x + 51 modulo 163, of prime order 173. It has points with x = 0.
#[derive(Clone, Copy, Debug)]
pub(super) struct MinusThree;

/// Curve y² = x³ + 3 modulo 199, of prime order 211.
#[derive(Clone, Copy, Debug)]
pub(super) struct Zero;

impl Params for MinusThree {
    const CURVE: Curve = Curve::P256;
    const P: U256 = [163, 0, 0, 0];
    const N: U256 = [173, 0, 0, 0];
    const A_IS_MINUS_3: bool = true;
    const B: U256 = [51, 0, 0, 0];
    const G: (U256, U256) = ([0, 0, 0, 0], [41, 0, 0, 0]);
    const HAS_ENDOMORPHISM: bool = false;
}

impl Params for Zero {
    const CURVE: Curve = Curve::Secp256k1;
    const P: U256 = [199, 0, 0, 0];
    const N: U256 = [211, 0, 0, 0];
    const A_IS_MINUS_3: bool = false;
    const B: U256 = [3, 0, 0, 0];
    const G: (U256, U256) = ([1, 0, 0, 0], [2, 0, 0, 0]);
    const HAS_ENDOMORPHISM: bool = false;
}

/// Backend with `WIDTH` lanes, at most eight.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tiny<C, const WIDTH: usize>(PhantomData<C>);

impl<C, const WIDTH: usize> Tiny<C, WIDTH> {
    pub(super) const fn new() -> Self {
        Self(PhantomData)
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Element<const WIDTH: usize> {
    values: [u64; WIDTH],
    kind: Kind,
}

/// Kind of an element, which limits the allowed operations; see `Lanes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Normal,
    Factor,
    WiderFactor,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Sum<const WIDTH: usize> {
    values: [u64; WIDTH],
    terms: u32,
    has_subtracted: bool,
}

const MOST_TERMS: u32 = 16;
const MOST_FACTOR_TERMS: u32 = 4;

impl<C: Params, const WIDTH: usize> Tiny<C, WIDTH> {
    const MODULUS: u64 = C::P[0];

    fn normal_element(values: [u64; WIDTH]) -> Element<WIDTH> {
        Element {
            values,
            kind: Kind::Normal,
        }
    }

    /// Returns the product as an element of this kind; at most one of the operands may be a wider factor.
    fn narrow_product(a: &Element<WIDTH>, b: &Element<WIDTH>, kind: Kind) -> Element<WIDTH> {
        assert!(
            a.kind.min(b.kind) < Kind::WiderFactor,
            "both operands are wider factors"
        );
        Element {
            values: Self::product(a, b),
            kind,
        }
    }

    fn wider_factor(values: [u64; WIDTH]) -> Element<WIDTH> {
        Element {
            values,
            kind: Kind::WiderFactor,
        }
    }

    fn product(a: &Element<WIDTH>, b: &Element<WIDTH>) -> [u64; WIDTH] {
        std::array::from_fn(|i| a.values[i] * b.values[i] % Self::MODULUS)
    }

    fn plus(a: &[u64; WIDTH], b: &[u64; WIDTH]) -> [u64; WIDTH] {
        std::array::from_fn(|i| (a[i] + b[i]) % Self::MODULUS)
    }

    fn minus(a: &[u64; WIDTH], b: &[u64; WIDTH]) -> [u64; WIDTH] {
        std::array::from_fn(|i| (a[i] + Self::MODULUS - b[i]) % Self::MODULUS)
    }

    fn must_be_normal(elements: &[&Element<WIDTH>]) {
        assert!(
            elements.iter().all(|element| element.kind == Kind::Normal),
            "a factor is used where only normal elements are allowed"
        );
    }
}

fn terms(a: u32, b: u32) -> u32 {
    assert!(a + b <= MOST_TERMS, "the sum has too many terms");
    a + b
}

impl<C: Params, const WIDTH: usize> Lanes for Tiny<C, WIDTH> {
    type Curve = C;
    type Fe = Element<WIDTH>;
    type Raw = Sum<WIDTH>;
    type Sc = ();
    const LANES: usize = WIDTH;

    fn run<S: Stage>(self, stage: S) -> S::Out {
        stage.run()
    }

    fn splat(self, plain: &U256) -> Self::Fe {
        self.load(&[*plain; WIDTH])
    }

    fn load(self, plain: &[U256]) -> Self::Fe {
        assert_eq!(plain.len(), WIDTH);
        assert!(
            plain
                .iter()
                .all(|number| number[0] < Self::MODULUS && number[1..] == [0; 3])
        );
        Self::normal_element(std::array::from_fn(|lane| plain[lane][0]))
    }

    fn store(self, a: &Self::Fe, plain: &mut [U256]) {
        Self::must_be_normal(&[a]);
        assert_eq!(plain.len(), WIDTH);
        for (plain, value) in plain.iter_mut().zip(a.values) {
            *plain = [value, 0, 0, 0];
        }
    }

    fn mul(self, a: &Self::Fe, b: &Self::Fe) -> Self::Fe {
        Self::narrow_product(a, b, Kind::Normal)
    }

    fn sqr(self, a: &Self::Fe) -> Self::Fe {
        Self::narrow_product(a, a, Kind::Normal)
    }

    fn product(self, a: &Self::Fe, b: &Self::Fe) -> Self::Fe {
        Self::narrow_product(a, b, Kind::Factor)
    }

    /// Returns the square as a factor. The bounds permit the square of a wider factor as a factor.
    fn square(self, a: &Self::Fe) -> Self::Fe {
        Element {
            values: Self::product(a, a),
            kind: Kind::Factor,
        }
    }

    fn diff(self, a: &Self::Fe, b: &Self::Fe) -> Self::Fe {
        Self::must_be_normal(&[a, b]);
        Self::wider_factor(Self::minus(&a.values, &b.values))
    }

    fn factor(self, a: &Self::Raw) -> Self::Fe {
        assert!(
            a.terms <= MOST_FACTOR_TERMS && !a.has_subtracted,
            "the sum has too many terms for a factor, or a subtracted term"
        );
        Self::wider_factor(a.values)
    }

    fn factor_less(self, a: &Self::Raw, b: &Self::Fe) -> Self::Fe {
        Self::must_be_normal(&[b]);
        assert!(
            a.terms <= MOST_FACTOR_TERMS && !a.has_subtracted,
            "the sum has too many terms for a factor, or a subtracted term"
        );
        Self::wider_factor(Self::minus(&a.values, &b.values))
    }

    fn raw(self, a: &Self::Fe) -> Self::Raw {
        Self::must_be_normal(&[a]);
        Sum {
            values: a.values,
            terms: 1,
            has_subtracted: false,
        }
    }

    fn mul_raw(self, a: &Self::Fe, b: &Self::Fe) -> Self::Raw {
        self.raw(&Self::normal_element(Self::product(a, b)))
    }

    fn sqr_raw(self, a: &Self::Fe) -> Self::Raw {
        self.raw(&Self::normal_element(Self::product(a, a)))
    }

    fn mul_sub_mul(self, a: &Self::Fe, b: &Self::Fe, c: &Self::Fe, d: &Self::Fe) -> Self::Fe {
        assert!(c.kind.max(d.kind) < Kind::WiderFactor);
        Self::normal_element(Self::minus(&Self::product(a, b), &Self::product(c, d)))
    }

    fn mul_sub_8_squares(self, a: &Self::Fe, b: &Self::Fe, c: &Self::Fe) -> Self::Fe {
        assert!(c.kind < Kind::WiderFactor);
        let squares = Self::product(c, c).map(|square| 8 * square % Self::MODULUS);
        Self::normal_element(Self::minus(&Self::product(a, b), &squares))
    }

    fn raw_add(self, a: &Self::Raw, b: &Self::Raw) -> Self::Raw {
        Sum {
            values: Self::plus(&a.values, &b.values),
            terms: terms(a.terms, b.terms),
            has_subtracted: a.has_subtracted | b.has_subtracted,
        }
    }

    fn raw_sub(self, a: &Self::Raw, b: &Self::Raw) -> Self::Raw {
        Sum {
            values: Self::minus(&a.values, &b.values),
            terms: terms(a.terms, b.terms),
            has_subtracted: true,
        }
    }

    fn normal(self, a: &Self::Raw) -> Self::Fe {
        Self::normal_element(a.values)
    }

    fn invert(self, a: &Self::Fe) -> Option<Self::Fe> {
        assert!(
            a.kind < Kind::WiderFactor,
            "the operand must not be a wider factor"
        );
        if a.values.contains(&0) {
            return None;
        }
        let inverse = |value| (1..Self::MODULUS).find(|inverse| inverse * value % Self::MODULUS == 1);
        Some(Self::normal_element(
            a.values
                .map(|value| inverse(value).expect("the modulus is prime")),
        ))
    }

    fn zeros(self, a: &Self::Fe) -> u8 {
        Self::must_be_normal(&[a]);
        (0..WIDTH).fold(0, |mask, lane| mask | u8::from(a.values[lane] == 0) << lane)
    }

    fn select(self, mask: u8, a: &Self::Fe, b: &Self::Fe) -> Self::Fe {
        Element {
            values: std::array::from_fn(|lane| {
                if mask >> lane & 1 == 1 {
                    a.values[lane]
                } else {
                    b.values[lane]
                }
            }),
            kind: a.kind.max(b.kind),
        }
    }

    fn prefetch(self, _: &TablePoint) {}

    fn load_table_points(self, table_points: &[&TablePoint], negate: u8) -> Affine<Self::Fe> {
        assert_eq!(table_points.len(), WIDTH);
        let y = Self::normal_element(std::array::from_fn(|lane| table_points[lane].0[4]));
        let minus_y = Self::normal_element(Self::minus(&[0; WIDTH], &y.values));
        Affine {
            x: Self::normal_element(std::array::from_fn(|lane| table_points[lane].0[0])),
            y: self.select(negate, &minus_y, &y),
        }
    }

    fn store_table_points(self, points: &Affine<Self::Fe>, table_points: &mut [TablePoint]) {
        Self::must_be_normal(&[&points.x, &points.y]);
        for (lane, table_point) in table_points.iter_mut().enumerate() {
            *table_point = TablePoint([points.x.values[lane], 0, 0, 0, points.y.values[lane], 0, 0, 0]);
        }
    }

    fn scalars(self, _: &[U256]) -> Self::Sc {}

    fn store_scalars(self, _: &Self::Sc, _: &mut [U256]) {
        unreachable!("the formulas do not use scalars");
    }

    fn scalar_mul(self, _: &Self::Sc, _: &Self::Sc) -> Self::Sc {}

    fn scalar_invert(self, _: &Self::Sc) -> Self::Sc {}
}

/// All points of a group: the multiples of its generator, beginning with the point at infinity. They are computed by
/// the textbook rule of chord and tangent.
pub(super) struct Group {
    pub(super) points: Vec<Option<(u64, u64)>>,
    p: u64,
    a: u64,
}

impl Group {
    pub(super) fn of<C: Params>() -> Self {
        let p = C::P[0];
        let mut group = Self {
            points: vec![None],
            p,
            a: if C::A_IS_MINUS_3 { p - 3 } else { 0 },
        };
        let generator = Some((C::G.0[0], C::G.1[0]));
        let mut next = generator;
        while next.is_some() {
            group.points.push(next);
            next = group.sum(next, generator);
        }
        group.check::<C>();
        group
    }

    /// Checks that the group is the whole curve, and that its order is prime.
    fn check<C: Params>(&self) {
        let order = self.points.len() as u64;
        assert_eq!(order, C::N[0]);
        assert!((2..order).all(|divisor| !order.is_multiple_of(divisor)));
        let on_curve = |&(x, y): &(u64, u64)| (y * y) % self.p == (x * x * x + self.a * x + C::B[0]) % self.p;
        let all: Vec<_> = (0..self.p * self.p)
            .map(|xy| (xy / self.p, xy % self.p))
            .filter(on_curve)
            .collect();
        let mut points: Vec<_> = self.points.iter().flatten().copied().collect();
        points.sort();
        assert_eq!(points, all);
    }

    pub(super) fn inverse(&self, value: u64) -> u64 {
        (1..self.p)
            .find(|inverse| inverse * value % self.p == 1)
            .expect("not zero")
    }

    fn sum(&self, a: Option<(u64, u64)>, b: Option<(u64, u64)>) -> Option<(u64, u64)> {
        let (Some((x1, y1)), Some((x2, y2))) = (a, b) else {
            return a.or(b);
        };
        let p = self.p;
        if x1 == x2 && (y1 + y2) % p == 0 {
            return None;
        }
        let slope = if x1 == x2 {
            (3 * x1 * x1 + self.a) % p * self.inverse(2 * y1 % p)
        } else {
            (y2 + p - y1) % p * self.inverse((x2 + p - x1) % p)
        } % p;
        let x3 = (slope * slope + 2 * p - x1 - x2) % p;
        let y3 = (slope * ((x1 + p - x3) % p) + p - y1) % p;
        Some((x3, y3))
    }
}
