//! Tests of AVX-512 IFMA at the bounds of its redundant form, with operands as wide as `avx512ifma` allows, which
//! honest operations may never reach. Results must be correct modulo p, and within the bounds themselves, because the
//! next operation relies on them.

mod factors;

use super::{Draw, Random, Work, big, words};
use crate::avx512ifma::{Ifma, Reduction};
use crate::curve::{P256, Secp256k1};
use crate::lanes::{Affine, Lanes, TablePoint};
use crate::uint::U256;
use factors::{factors, factors_of_the_widest_sums, products_of_the_widest_factors};
use num_bigint::{BigInt, BigUint};
use std::arch::x86_64::__m512i;

macro_rules! both_curves {
    ($($test:ident),+ $(,)?) => {
        both_curves! { @curve p256, P256, $($test),+ }
        both_curves! { @curve secp256k1, Secp256k1, $($test),+ }
    };
    (@curve $name:ident, $curve:ident, $($test:ident),+) => {
        mod $name {
            $(#[test]
            fn $test() {
                match super::Ifma::<super::$curve>::new() {
                    Some(l) => super::$test(l),
                    None => eprintln!("skipped: this CPU has no AVX-512 IFMA"),
                }
            })+
        }
    };
}

both_curves! {
    products_of_the_widest_operands,
    products_of_the_widest_factors,
    factors_of_the_widest_sums,
    sums_of_sixteen_of_the_widest_terms,
    sums_next_to_multiples_of_two_to_the_256,
    zero_is_seen_in_each_of_its_forms,
    the_widest_elements_are_inverted_and_stored,
    negated_lines_are_normal,
    the_widest_scalars,
}

type Limbs = [__m512i; 5];
/// Numbers of the eight lanes.
type Numbers = [BigUint; 8];

fn power(exponent: u32) -> BigUint {
    BigUint::from(1u32) << exponent
}

/// Returns the exclusive upper bound of normal elements.
fn normal_bound() -> BigUint {
    power(257) + power(230)
}

/// Returns the exclusive upper bound of the results of `diff`: 2^258.4.
fn diff_bound(p: &BigUint) -> BigUint {
    normal_bound() + p * 3u32
}

fn limbs(numbers: &Numbers) -> Limbs {
    std::array::from_fn(|i| {
        let limb = |number: &BigUint| {
            let limb = number >> (52 * i);
            let limb = if i == 4 { limb } else { limb % power(52) };
            u64::try_from(limb).expect("the last limb has at most 52 bits")
        };
        // SAFETY: both types have 64 bytes, and every bit pattern is valid for both.
        unsafe { std::mem::transmute(numbers.each_ref().map(limb)) }
    })
}

/// Returns the numbers in the lanes of `limbs`, whose carries must be propagated.
fn numbers(limbs: &Limbs) -> Numbers {
    // SAFETY: both types have 64 bytes, and every bit pattern is valid for both.
    let limbs = limbs.map(|limb| unsafe { std::mem::transmute::<__m512i, [u64; 8]>(limb) });
    std::array::from_fn(|lane| {
        assert!(
            limbs[..4].iter().all(|limb| limb[lane] >> 52 == 0),
            "a limb has a carry that was not propagated"
        );
        assert!(limbs[4][lane] >> 63 == 0, "negative");
        (0..5).map(|i| BigUint::from(limbs[i][lane]) << (52 * i)).sum()
    })
}

/// Returns numbers below `bound`: close to the bound, close to multiples of p, with limbs of all ones, or random.
fn wide(random: &mut Random, bound: &BigUint, p: &BigUint) -> Numbers {
    std::array::from_fn(|_| {
        let top = bound - 1u32;
        let fastpath = BigUint::from(random.index(4));
        let number = match random.index(8) {
            0 => top,
            1 => top - fastpath,
            2 => p * (random.index(6) as u32) + fastpath,
            3 => (p * (1 + random.index(5) as u32)) - fastpath,
            4 => power(256 + random.index(3) as u32) - fastpath,
            5 => (big(&random.runs()) << 3u32) % bound,
            6 => bound - (big(&random.runs()) >> (20 + random.index(230))) - 1u32,
            _ => (big(&random.bits()) << 4u32) % bound,
        };
        if number < *bound { number } else { bound - 1u32 }
    })
}

/// Checks that `got` times `divisor` equals `expected` modulo p in each lane, where `expected` has the plain values.
fn check(
    what: &str,
    got: &Limbs,
    bound: &BigUint,
    p: &BigUint,
    divisor: &BigUint,
    expected: impl Fn(usize) -> BigInt,
) {
    check_numbers(what, &numbers(got), bound, p, divisor, expected);
}

fn check_numbers(
    what: &str,
    got: &Numbers,
    bound: &BigUint,
    p: &BigUint,
    divisor: &BigUint,
    expected: impl Fn(usize) -> BigInt,
) {
    let p = BigInt::from(p.clone());
    for (lane, got) in got.iter().enumerate() {
        assert!(got < bound, "{what}: {got:x} is not within its bound");
        let difference = BigInt::from(got * divisor) - expected(lane);
        assert_eq!(difference % &p, BigInt::ZERO, "{what}, lane {lane}: {got:x}");
    }
}

fn products_of_the_widest_operands<C: Reduction>(l: Ifma<C>) {
    let (p, r, one) = (&big(&C::P), &big(&C::R), &power(0));
    let (normal, factor) = (&normal_bound(), &diff_bound(p));
    let mut random = Random(11);
    for _ in 0..3000 {
        let [a, b, c, d] = std::array::from_fn(|_| wide(&mut random, normal, p));
        let f = wide(&mut random, factor, p);
        let [la, lb, lc, ld, lf] = [&a, &b, &c, &d, &f].map(limbs);
        let results = l.run(Work(|| {
            [
                l.mul(&la, &lb),
                l.mul(&la, &lf),
                l.mul(&lf, &la),
                l.sqr(&la),
                l.normal(&l.mul_raw(&la, &lf)),
                l.normal(&l.sqr_raw(&la)),
                l.mul_sub_mul(&la, &lb, &lc, &ld),
                l.mul_sub_mul(&la, &lf, &lc, &ld),
                l.mul_sub_8_squares(&la, &lb, &lc),
                l.mul_sub_8_squares(&la, &lf, &lc),
            ]
        }));
        let [a, b, c, d, f] = [&a, &b, &c, &d, &f].map(|numbers| numbers.clone().map(BigInt::from));
        let is = |k: usize, what: &str, expected: &dyn Fn(usize) -> BigInt| {
            check(what, &results[k], normal, p, r, expected);
        };
        is(0, "mul", &|i| &a[i] * &b[i]);
        is(1, "mul by a factor", &|i| &a[i] * &f[i]);
        is(2, "mul of a factor", &|i| &a[i] * &f[i]);
        is(3, "sqr", &|i| &a[i] * &a[i]);
        is(4, "mul_raw", &|i| &a[i] * &f[i]);
        is(5, "sqr_raw", &|i| &a[i] * &a[i]);
        is(6, "mul_sub_mul", &|i| &a[i] * &b[i] - &c[i] * &d[i]);
        is(7, "mul_sub_mul with a factor", &|i| &a[i] * &f[i] - &c[i] * &d[i]);
        is(8, "mul_sub_8_squares", &|i| &a[i] * &b[i] - 8 * &c[i] * &c[i]);
        is(9, "mul_sub_8_squares with a factor", &|i| {
            &a[i] * &f[i] - 8 * &c[i] * &c[i]
        });
        let diff = factors(&l.run(Work(|| l.diff(&la, &lb))));
        check_numbers("diff", &diff, factor, p, one, |i| &a[i] - &b[i]);
    }
}

fn sums_of_sixteen_of_the_widest_terms<C: Reduction>(l: Ifma<C>) {
    let (p, r) = (&big(&C::P), &big(&C::R));
    let (normal, factor) = (&normal_bound(), &diff_bound(p));
    let mut random = Random(12);
    for round in 0..2000 {
        let count = [16, 1 + random.index(16)][round % 2];
        let signs = [0, u64::MAX, random.next()][round % 3];
        // The terms are only elements, only products, only squares, or of all kinds.
        let kinds: Vec<usize> = (0..count)
            .map(|_| [0, 1, 2, random.index(3)][round / 6 % 4])
            .collect();
        let terms: Vec<_> = kinds
            .iter()
            .map(|&kind| {
                let a = wide(&mut random, normal, p);
                let b = wide(&mut random, if kind == 1 { factor } else { normal }, p);
                (kind, limbs(&a), limbs(&b), a, b)
            })
            .collect();
        let sum = l.run(Work(|| {
            let value = |(kind, a, b, ..): &(usize, Limbs, Limbs, Numbers, Numbers)| match kind {
                0 => l.raw(a),
                1 => l.mul_raw(a, b),
                _ => l.sqr_raw(a),
            };
            let zero = limbs(&std::array::from_fn(|_| BigUint::ZERO));
            let mut sum = l.raw(&zero);
            for (k, term) in terms.iter().enumerate() {
                sum = if signs >> k & 1 == 1 {
                    l.raw_sub(&sum, &value(term))
                } else {
                    l.raw_add(&sum, &value(term))
                };
            }
            l.normal(&sum)
        }));
        check("normal of a sum", &sum, normal, p, r, |lane| {
            let mut expected = BigInt::ZERO;
            for (k, (kind, _, _, a, b)) in terms.iter().enumerate() {
                let value = BigInt::from(match kind {
                    0 => &a[lane] * r,
                    1 => &a[lane] * &b[lane],
                    _ => &a[lane] * &a[lane],
                });
                expected += if signs >> k & 1 == 1 { -value } else { value };
            }
            expected
        });
    }
}

/// Checks sums close to the multiples of 2^256 at which `normal` changes to another multiple of p. The limbs of these
/// sums are chosen so that the highest limb alone does not show the size of the sum.
fn sums_next_to_multiples_of_two_to_the_256<C: Reduction>(l: Ifma<C>) {
    let (p, one, normal) = (&big(&C::P), &power(0), &normal_bound());
    let mut random = Random(13);
    for round in 0..4000 {
        let pairs = 1 + round % 8;
        let target = power(256) * (1 + round as u32 / 8 % 2);
        let mut terms: Vec<(bool, Numbers)> = Vec::new();
        for _ in 0..pairs {
            let a = wide(&mut random, &target, p);
            let b = a.each_ref().map(|a| &target - a);
            // The sum is a + (target - a) or a - (a - target), so that half of the limbs are negative.
            terms.push((true, a));
            terms.push((true, b));
        }
        if round % 3 == 0 {
            terms.iter_mut().for_each(|(positive, _)| *positive = false);
        } else if round % 3 == 1 {
            terms
                .iter_mut()
                .for_each(|(positive, _)| *positive = random.index(2) == 1);
        }
        let nudge = random.index(3) as u32;
        let nudged = &mut terms[0].1;
        *nudged = nudged.each_ref().map(|number| {
            if number + nudge < *normal {
                number + nudge
            } else {
                number.clone()
            }
        });
        let loaded: Vec<_> = terms
            .iter()
            .map(|(positive, numbers)| (positive, limbs(numbers)))
            .collect();
        let sum = l.run(Work(|| {
            let mut sum = l.raw(&limbs(&std::array::from_fn(|_| BigUint::ZERO)));
            for (positive, term) in &loaded {
                sum = if **positive {
                    l.raw_add(&sum, &l.raw(term))
                } else {
                    l.raw_sub(&sum, &l.raw(term))
                };
            }
            l.normal(&sum)
        }));
        check(
            "normal next to a multiple of 2^256",
            &sum,
            normal,
            p,
            one,
            |lane| {
                let signed = terms.iter().map(|(positive, numbers)| {
                    let value = BigInt::from(numbers[lane].clone());
                    if *positive { value } else { -value }
                });
                signed.sum()
            },
        );
    }
}

fn zero_is_seen_in_each_of_its_forms<C: Reduction>(l: Ifma<C>) {
    let (p, normal) = (&big(&C::P), &normal_bound());
    let mut random = Random(14);
    for _ in 0..2000 {
        let mut values = wide(&mut random, normal, p);
        for value in &mut values {
            if random.index(3) == 0 {
                *value = p * (random.index(3) as u32);
            }
        }
        let expected = (0..8).fold(0, |mask, lane| {
            mask | u8::from(&values[lane] % p == BigUint::ZERO) << lane
        });
        let element = limbs(&values);
        assert_eq!(l.run(Work(|| l.zeros(&element))), expected, "{values:x?}");
        assert_eq!(l.run(Work(|| l.invert(&element))).is_none(), expected != 0);
        let difference = l.run(Work(|| l.diff(&element, &element)));
        let one = l.splat(&[1, 0, 0, 0]);
        assert_eq!(l.run(Work(|| l.zeros(&l.mul(&difference, &one)))), 0xff);
    }
}

fn the_widest_elements_are_inverted_and_stored<C: Reduction>(l: Ifma<C>) {
    let (p, r, normal) = (&big(&C::P), &big(&C::R), &normal_bound());
    let mut random = Random(15);
    for _ in 0..600 {
        let values = wide(&mut random, normal, p);
        let element = limbs(&values);
        let mut plain = [[0; 4]; 8];
        l.run(Work(|| l.store(&element, &mut plain)));
        let mut table_points = [TablePoint([0; 8]); 8];
        l.run(Work(|| {
            l.store_table_points(
                &Affine {
                    x: element,
                    y: element,
                },
                &mut table_points,
            )
        }));
        for lane in 0..8 {
            assert!(big(&plain[lane]) < *p);
            assert_eq!(big(&plain[lane]) * r % p, &values[lane] % p);
            let reduced = words(&(&values[lane] % p));
            assert_eq!(
                (&table_points[lane].0[..4], &table_points[lane].0[4..]),
                (&reduced[..], &reduced[..])
            );
        }
        if let Some(inverse) = l.run(Work(|| l.invert(&element))) {
            // The product of a·R and (1/a)·R must be R².
            let product = |(a, b): (&BigUint, &BigUint)| a * b % p;
            let inverses = numbers(&inverse);
            assert!(inverses.iter().all(|inverse| inverse < normal));
            assert!(
                values
                    .iter()
                    .zip(&inverses)
                    .map(product)
                    .all(|product| product == r * r % p)
            );
        }
    }
}

fn negated_lines_are_normal<C: Reduction>(l: Ifma<C>) {
    let (p, one, normal) = (&big(&C::P), &power(0), &normal_bound());
    let mut random = Random(16);
    for _ in 0..1000 {
        let [x, y] = std::array::from_fn(|_| wide(&mut random, p, p));
        let table_points: [TablePoint; 8] = std::array::from_fn(|lane| {
            let ([x0, x1, x2, x3], [y0, y1, y2, y3]) = (words(&x[lane]), words(&y[lane]));
            TablePoint([x0, x1, x2, x3, y0, y1, y2, y3])
        });
        let negate = random.next() as u8;
        let point = l.run(Work(|| l.load_table_points(&table_points.each_ref()[..], negate)));
        check("x of a line", &point.x, p, p, one, |lane| x[lane].clone().into());
        check("y of a line", &point.y, normal, p, one, |lane| {
            let y = BigInt::from(y[lane].clone());
            if negate >> lane & 1 == 1 { -y } else { y }
        });
    }
}

fn the_widest_scalars<C: Reduction>(l: Ifma<C>) {
    let n = &big(&C::N);
    let mut random = Random(17);
    for _ in 0..2000 {
        let [a, b] = std::array::from_fn(|_| wide(&mut random, &power(257), n));
        let product = l.run(Work(|| l.scalar_mul(&limbs(&a), &limbs(&b))));
        let expected = |lane: usize| BigInt::from(&a[lane] * &b[lane]);
        check("scalar_mul", &product, &power(257), n, &power(260), expected);
        let mut plain: [U256; 8] = Default::default();
        l.store_scalars(&limbs(&a), &mut plain);
        assert!((0..8).all(|lane| big(&plain[lane]) == &a[lane] % n));
    }
}
