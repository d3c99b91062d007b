//! Tests of every field operation against big integers, with edge values and random values that differ in each lane.

use super::{Draw, Random, Work, big, edges, every_back_end, words};
use crate::curve::Params;
use crate::lanes::{Lanes, MAX_LANES, Stage, TablePoint};
use crate::uint::{ONE, U256};
use num_bigint::BigInt;

every_back_end! {
    every_operation_on_every_pair_of_edges,
    every_operation_on_random_numbers,
    sixteen_terms_of_either_sign,
    all_lanes_are_inverted_or_none,
    zero_is_seen_in_every_form,
    select_takes_each_lane_by_its_bit,
    lines_keep_points_and_negate_them,
}

/// Stage that computes the results of all operations on vectors of four operands.
struct Operations<'a, L> {
    l: L,
    operands: [&'a [U256]; 4],
}

type Expected = fn(&[BigInt; 4]) -> BigInt;

/// The expected results of `Operations`, in the same order.
const EXPECTED: &[(&str, Expected)] = &[
    ("load", |[a, ..]| a.clone()),
    ("mul", |[a, b, ..]| a * b),
    ("sqr", |[a, ..]| a * a),
    ("diff, then mul", |[a, b, c, _]| (a - b) * c),
    ("mul by diff", |[a, b, c, _]| c * (a - b)),
    ("mul_raw", |[a, b, ..]| a * b),
    ("mul_raw by diff", |[a, b, c, _]| a * (b - c)),
    ("sqr_raw", |[a, ..]| a * a),
    ("raw_add", |[a, b, ..]| a + b),
    ("raw_sub", |[a, b, ..]| a - b),
    ("raw_sub of products", |[a, b, c, d]| a * b - c * d),
    ("diff", |[a, b, ..]| a - b),
    ("mul_sub_mul", |[a, b, c, d]| a * b - c * d),
    ("mul_sub_mul with a diff", |[a, b, c, d]| a * (b - c) - c * d),
    ("mul_sub_8_squares", |[a, b, c, _]| a * b - 8 * c * c),
    ("normal, then sqr", |[a, b, ..]| (a + b) * (a + b)),
    ("normal, then mul", |[a, b, c, d]| (a - b) * (c + d)),
    ("product", |[a, b, ..]| a * b),
    ("product of factors", |[a, b, c, d]| (a - b) * (c * d)),
    ("square", |[a, ..]| a * a),
    ("square of a diff", |[a, b, ..]| (a - b) * (a - b)),
    ("sqr of a square", |[a, ..]| a * a * a * a),
    ("mul_raw of diffs", |[a, b, c, d]| (a - b) * (c - d)),
    ("sqr_raw of a diff", |[a, b, ..]| (a - b) * (a - b)),
    ("factor of an element", |[a, ..]| a.clone()),
    ("factor of 2 elements", |[a, b, ..]| a + b),
    ("factor of 3 products", |[a, b, c, d]| a * b + c * d + a * a),
    ("factor of 4 elements", |[a, b, c, d]| a + b + c + d),
    ("factor of 4 times a product", |[a, b, ..]| 4 * a * b),
    ("factor_less of a product", |[a, b, c, _]| a * b - c),
    ("factor_less of 4 terms", |[a, b, c, d]| a * b + c * c + c + a - d),
    ("mul_raw of factors", |[a, b, c, d]| (a + b) * (a * b - d - c)),
    ("sqr_raw of a factor", |[a, b, ..]| 9 * a * b * a * b),
    ("mul_sub_mul with factors", |[a, b, c, d]| {
        (a - b) * (a * b - d) - a * b * (c * c)
    }),
    ("mul_sub_8_squares with factors", |[a, b, c, d]| {
        (a - b) * (c + d) - 8 * (c * d) * (c * d)
    }),
];

impl<L: Lanes> Stage for Operations<'_, L> {
    type Out = Vec<L::Fe>;

    #[inline(always)]
    fn run(self) -> Self::Out {
        let l = self.l;
        let [a, b, c, d] = &self.operands.map(|plain| l.load(plain));
        let [raw_a, raw_b, raw_c, raw_d] = &[a, b, c, d].map(|x| l.raw(x));
        let (sum, difference) = (l.raw_add(raw_a, raw_b), l.raw_sub(raw_a, raw_b));
        let product = l.mul_raw(a, b);
        let twice = l.raw_add(&product, &product);
        let four = l.raw_add(&l.raw_add(&product, &l.sqr_raw(c)), &l.raw_add(raw_c, raw_a));
        // A factor cannot be stored, so it is multiplied by one or by another element first.
        let one = &l.splat(&ONE);
        vec![
            *a,
            l.mul(a, b),
            l.sqr(a),
            l.mul(&l.diff(a, b), c),
            l.mul(c, &l.diff(a, b)),
            l.normal(&product),
            l.normal(&l.mul_raw(a, &l.diff(b, c))),
            l.normal(&l.sqr_raw(a)),
            l.normal(&sum),
            l.normal(&difference),
            l.normal(&l.raw_sub(&product, &l.mul_raw(c, d))),
            l.mul(&l.diff(a, b), one),
            l.mul_sub_mul(a, b, c, d),
            l.mul_sub_mul(a, &l.diff(b, c), c, d),
            l.mul_sub_8_squares(a, b, c),
            l.sqr(&l.normal(&sum)),
            l.mul(&l.normal(&difference), &l.normal(&l.raw_add(raw_c, raw_d))),
            l.mul(&l.product(a, b), one),
            l.mul(&l.product(&l.diff(a, b), &l.product(c, d)), one),
            l.mul(&l.square(a), one),
            l.mul(&l.square(&l.diff(a, b)), one),
            l.sqr(&l.square(a)),
            l.normal(&l.mul_raw(&l.diff(a, b), &l.diff(c, d))),
            l.normal(&l.sqr_raw(&l.diff(a, b))),
            l.mul(&l.factor(raw_a), one),
            l.mul(&l.factor(&sum), one),
            l.mul(
                &l.factor(&l.raw_add(&l.raw_add(&product, &l.mul_raw(c, d)), &l.sqr_raw(a))),
                one,
            ),
            l.mul(&l.factor(&l.raw_add(&sum, &l.raw_add(raw_c, raw_d))), one),
            l.mul(&l.factor(&l.raw_add(&twice, &twice)), one),
            l.mul(&l.factor_less(&product, c), one),
            l.mul(&l.factor_less(&four, d), one),
            l.normal(&l.mul_raw(
                &l.factor(&sum),
                &l.diff(&l.normal(&l.raw_sub(&product, raw_d)), c),
            )),
            l.normal(&l.sqr_raw(&l.factor(&l.raw_add(&twice, &product)))),
            l.mul_sub_mul(
                &l.diff(a, b),
                &l.factor_less(&product, d),
                &l.product(a, b),
                &l.square(c),
            ),
            l.mul_sub_8_squares(
                &l.diff(a, b),
                &l.factor(&l.raw_add(raw_c, raw_d)),
                &l.product(c, d),
            ),
        ]
    }
}

fn modulus<L: Lanes>() -> BigInt {
    BigInt::from(big(&L::Curve::P))
}

fn signed(number: &U256) -> BigInt {
    BigInt::from(big(number))
}

/// Returns `value mod p`, which is never negative.
fn reduced(value: &BigInt, p: &BigInt) -> U256 {
    words(&((value % p + p) % p).to_biguint().expect("not negative"))
}

fn stored<L: Lanes>(l: L, element: &L::Fe) -> Vec<U256> {
    let mut plain = vec![[0; 4]; L::LANES];
    l.store(element, &mut plain);
    plain
}

fn check_operations<L: Lanes>(l: L, rows: &[[U256; 4]]) {
    let p = modulus::<L>();
    for rows in rows.chunks(L::LANES) {
        let row = |lane: usize| rows[lane % rows.len()];
        let operands: [Vec<U256>; 4] =
            std::array::from_fn(|i| (0..L::LANES).map(|lane| row(lane)[i]).collect());
        let results = l.run(Operations {
            l,
            operands: operands.each_ref().map(|operand| &operand[..]),
        });
        assert_eq!(results.len(), EXPECTED.len());
        for (result, (name, expected)) in results.iter().zip(EXPECTED) {
            for (lane, got) in stored(l, result).iter().enumerate() {
                let row = row(lane);
                let expected = reduced(&expected(&row.each_ref().map(signed)), &p);
                assert_eq!(*got, expected, "{name}, lane {lane}, of {row:x?}");
            }
        }
    }
}

fn every_operation_on_every_pair_of_edges<L: Lanes>(l: L) {
    let edges = edges(&L::Curve::P);
    // A test of all pairs would take too long. Each value is paired with every `stride`-th value, and neighbouring
    // values are paired with different values.
    let stride = edges.len() / 24 + 1;
    let mut rows = Vec::new();
    for (i, a) in edges.iter().enumerate() {
        for (j, b) in edges.iter().enumerate().skip(i % stride).step_by(stride) {
            rows.push([
                *a,
                *b,
                edges[(i + 5 * j) % edges.len()],
                edges[(7 * i + j) % edges.len()],
            ]);
        }
    }
    assert!(rows.len() > 2000);
    check_operations(l, &rows);
}

fn every_operation_on_random_numbers<L: Lanes>(l: L) {
    let (mut random, p) = (Random(1), big(&L::Curve::P));
    let rows: Vec<[U256; 4]> = (0..4000)
        .map(|k| {
            std::array::from_fn(|i| {
                let number = if (k + i) % 3 == 0 {
                    random.runs()
                } else {
                    random.bits()
                };
                words(&(big(&number) % &p))
            })
        })
        .collect();
    check_operations(l, &rows);
}

/// Checks sums of 16 terms, the maximum: elements, products and squares, with every relevant pattern of signs.
fn sixteen_terms_of_either_sign<L: Lanes>(l: L) {
    let (mut random, p, edges) = (Random(2), modulus::<L>(), edges(&L::Curve::P));
    for round in 0..600 {
        let mut terms = Vec::new();
        let mut expected = vec![BigInt::ZERO; L::LANES];
        let signs = match round % 4 {
            0 => 0,
            1 => u64::MAX,
            _ => random.next(),
        };
        for term in 0..16 {
            let mut any = |_| match random.index(3) {
                0 => random.number(&L::Curve::P),
                1 => edges[random.index(edges.len())],
                _ => edges[edges.len() - 1],
            };
            let [a, b]: [Vec<U256>; 2] = std::array::from_fn(|_| (0..L::LANES).map(&mut any).collect());
            let kind = random.index(3);
            for (expected, (a, b)) in expected.iter_mut().zip(a.iter().zip(&b)) {
                let (a, b) = (signed(a), signed(b));
                let value = [&a - BigInt::ZERO, &a * &a, &a * &b][kind].clone();
                *expected += if signs >> term & 1 == 1 { -value } else { value };
            }
            terms.push((a, b, kind));
        }
        let sum = l.run(Work(|| {
            let mut sum = l.raw_sub(&l.raw(&l.splat(&[7, 0, 0, 0])), &l.raw(&l.splat(&[7, 0, 0, 0])));
            for (term, (a, b, kind)) in terms.iter().enumerate() {
                let (a, b) = (l.load(a), l.load(b));
                let value = match kind {
                    0 => l.raw(&a),
                    1 => l.sqr_raw(&a),
                    _ => l.mul_raw(&a, &b),
                };
                sum = if signs >> term & 1 == 1 {
                    l.raw_sub(&sum, &value)
                } else {
                    l.raw_add(&sum, &value)
                };
            }
            l.normal(&sum)
        }));
        for (lane, got) in stored(l, &sum).iter().enumerate() {
            assert_eq!(*got, reduced(&expected[lane], &p), "round {round}, lane {lane}");
        }
    }
}

fn all_lanes_are_inverted_or_none<L: Lanes>(l: L) {
    let (mut random, p) = (Random(3), big(&L::Curve::P));
    let mut numbers: Vec<U256> = edges(&L::Curve::P).into_iter().filter(|x| *x != [0; 4]).collect();
    numbers.extend((0..800).map(|_| random.number(&L::Curve::P)));
    for numbers in numbers.chunks_exact(L::LANES) {
        let inverse = l
            .run(Work(|| l.invert(&l.load(numbers))))
            .expect("no lane is zero");
        for (number, inverse) in numbers.iter().zip(stored(l, &inverse)) {
            assert_eq!(big(number) * big(&inverse) % &p, 1u32.into(), "1/{number:x?}");
        }
    }
    for zeros in 1u32..1 << L::LANES {
        let numbers: Vec<U256> = (0..L::LANES)
            .map(|lane| {
                if zeros >> lane & 1 == 1 {
                    [0; 4]
                } else {
                    random.number(&L::Curve::P)
                }
            })
            .collect();
        assert!(
            l.run(Work(|| l.invert(&l.load(&numbers)))).is_none(),
            "zeros {zeros:b}"
        );
    }
}

/// Checks that `zeros` detects zero in every form in which an operation returns it.
fn zero_is_seen_in_every_form<L: Lanes>(l: L) {
    let mut random = Random(4);
    let edges = edges(&L::Curve::P);
    for round in 0..400 {
        let all = if L::LANES == 8 {
            0xff
        } else {
            (1u32 << L::LANES) - 1
        };
        let mask = (random.next() as u32 & all) as u8;
        let a: Vec<U256> = (0..L::LANES).map(|_| random.number(&L::Curve::P)).collect();
        let b: Vec<U256> = (0..L::LANES)
            .map(|lane| {
                if mask >> lane & 1 == 1 {
                    a[lane]
                } else {
                    [a[lane][0] ^ 1, a[lane][1], a[lane][2], a[lane][3]]
                }
            })
            .collect();
        let c: Vec<U256> = (0..L::LANES)
            .map(|lane| edges[1 + (round + lane) % (edges.len() - 1)])
            .collect();
        let found = l.run(Work(|| {
            let (a, b, c) = (l.load(&a), l.load(&b), l.load(&c));
            let difference = l.normal(&l.raw_sub(&l.raw(&a), &l.raw(&b)));
            let opposite = l.normal(&l.raw_sub(&l.raw(&b), &l.raw(&a)));
            [
                l.zeros(&difference),
                l.zeros(&opposite),
                l.zeros(&l.mul(&l.diff(&a, &b), &l.splat(&ONE))),
                l.zeros(&l.mul(&l.factor_less(&l.raw(&a), &b), &l.splat(&ONE))),
                l.zeros(&l.mul(&l.square(&l.diff(&a, &b)), &c)),
                l.zeros(&l.mul(&l.product(&l.diff(&a, &b), &c), &c)),
                l.zeros(&l.mul(&l.diff(&a, &b), &c)),
                l.zeros(&l.mul(&difference, &c)),
                l.zeros(&l.sqr(&opposite)),
                l.zeros(&l.mul_sub_mul(&a, &c, &b, &c)),
                l.zeros(&l.normal(&l.raw_sub(&l.mul_raw(&a, &c), &l.mul_raw(&b, &c)))),
                l.zeros(&l.normal(&l.raw_add(&l.raw(&difference), &l.raw(&opposite)))) & mask,
            ]
        }));
        assert_eq!(found, [mask; 12], "round {round}");
    }
}

fn select_takes_each_lane_by_its_bit<L: Lanes>(l: L) {
    let mut random = Random(5);
    for mask in 0..1u32 << L::LANES {
        let [a, b]: [Vec<U256>; 2] =
            std::array::from_fn(|_| (0..L::LANES).map(|_| random.number(&L::Curve::P)).collect());
        let selected = l.run(Work(|| l.select(mask as u8, &l.load(&a), &l.load(&b))));
        for (lane, got) in stored(l, &selected).iter().enumerate() {
            assert_eq!(*got, if mask >> lane & 1 == 1 { a[lane] } else { b[lane] });
        }
        let same = l.splat(&a[0]);
        assert!(stored(l, &same).iter().all(|got| *got == a[0]));
    }
}

fn lines_keep_points_and_negate_them<L: Lanes>(l: L) {
    let (mut random, p, edges) = (Random(6), modulus::<L>(), edges(&L::Curve::P));
    for round in 0..400 {
        let mut any = |_| match random.index(2) {
            0 => random.number(&L::Curve::P),
            _ => edges[1 + random.index(edges.len() - 1)],
        };
        let [x, y]: [Vec<U256>; 2] = std::array::from_fn(|_| (0..L::LANES).map(&mut any).collect());
        let negate = random.next() as u8;
        let mut table_points = [TablePoint([0; 8]); MAX_LANES];
        let point = l.run(Work(|| {
            // Table points store results of formulas, so store the widest normal elements.
            let zero = l.splat(&[0; 4]);
            let wide = |plain: &[U256]| l.normal(&l.raw_add(&l.raw(&l.load(plain)), &l.raw(&zero)));
            let point = crate::lanes::Affine {
                x: wide(&x),
                y: wide(&y),
            };
            l.store_table_points(&point, &mut table_points[..L::LANES]);
            l.load_table_points(&table_points.each_ref()[..L::LANES], negate)
        }));
        let (got_x, got_y) = (stored(l, &point.x), stored(l, &point.y));
        for lane in 0..L::LANES {
            let expected = if negate >> lane & 1 == 1 {
                -signed(&y[lane])
            } else {
                signed(&y[lane])
            };
            assert_eq!(
                (got_x[lane], got_y[lane]),
                (x[lane], reduced(&expected, &p)),
                "round {round}"
            );
        }
    }
}
