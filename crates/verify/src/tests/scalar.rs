//! Tests of scalars, inversion modulo all four primes, and 256-bit integers, against big integers.

use super::{Draw, Random, Work, big, edges, every_back_end, words};
use crate::curve::{P256, Params, Secp256k1};
use crate::inverse;
use crate::lanes::Lanes;
use crate::uint::{self, U256};
use num_bigint::BigUint;

every_back_end! {
    scalars_are_multiplied,
    scalars_are_inverted,
    a_scalar_over_another,
}

const MODULI: [U256; 4] = [P256::P, P256::N, Secp256k1::P, Secp256k1::N];

/// Returns edge values and random numbers up to 2^256 - 1, because a digest is not reduced modulo n.
fn any_256_bits<C: Params>(random: &mut Random) -> Vec<U256> {
    let mut numbers = edges(&C::N);
    let n = big(&C::N);
    numbers.extend((0u32..3).map(|k| words(&(&n + k))));
    numbers.extend([[u64::MAX; 4], [u64::MAX - 1, u64::MAX, u64::MAX, u64::MAX]]);
    numbers.extend((0..300).map(|_| random.bits()));
    numbers.extend((0..300).map(|_| random.runs()));
    numbers
}

fn below_n<C: Params>(numbers: &[U256]) -> Vec<U256> {
    let n = big(&C::N);
    numbers.iter().map(|number| words(&(big(number) % &n))).collect()
}

/// Applies `f` to the scalars in two lists, `LANES` of each list at a time, and returns all results.
fn in_lanes<L: Lanes>(l: L, a: &[U256], b: &[U256], f: impl Fn(&L::Sc, &L::Sc) -> L::Sc) -> Vec<U256> {
    let mut out = Vec::new();
    for (a, b) in a.chunks_exact(L::LANES).zip(b.chunks_exact(L::LANES)) {
        let mut plain = vec![[0; 4]; L::LANES];
        l.run(Work(|| {
            l.store_scalars(&f(&l.scalars(a), &l.scalars(b)), &mut plain)
        }));
        out.extend(plain);
    }
    out
}

/// Returns 1/R for the R of the backend's Montgomery product, which is the Montgomery product of 1 and 1.
fn over_r<L: Lanes>(l: L) -> BigUint {
    let ones = vec![uint::ONE; L::LANES];
    big(&in_lanes(l, &ones, &ones, |a, b| l.scalar_mul(a, b))[0])
}

fn scalars_are_multiplied<L: Lanes>(l: L) {
    let (mut random, n) = (Random(21), big(&L::Curve::N));
    let over_r = over_r(l);
    assert!(
        [256u32, 260]
            .iter()
            .any(|&bits| (&over_r << bits) % &n == BigUint::from(1u32))
    );
    let all = any_256_bits::<L::Curve>(&mut random);
    let stored = in_lanes(l, &all, &all, |a, _| *a);
    for (number, stored) in all.iter().zip(&stored) {
        assert_eq!(big(stored), big(number) % &n, "{number:x?}");
    }
    // Multiply each number by a number below n. A shift of 0 multiplies it by itself.
    for shift in [0, 1, 7, 100, 333] {
        let mut others = below_n::<L::Curve>(&all);
        others.rotate_left(shift);
        for (a, b) in [(&all, &others), (&others, &all)] {
            for (k, product) in in_lanes(l, a, b, |a, b| l.scalar_mul(a, b)).iter().enumerate() {
                let expected = big(&a[k]) * big(&b[k]) % &n * &over_r % &n;
                assert_eq!(big(product), expected, "{:x?} by {:x?}", a[k], b[k]);
            }
        }
    }
}

fn scalars_are_inverted<L: Lanes>(l: L) {
    let (mut random, n) = (Random(22), big(&L::Curve::N));
    let over_r = over_r(l);
    let mut all = any_256_bits::<L::Curve>(&mut random);
    all.retain(|number| big(number) % &n != BigUint::ZERO);
    for (number, inverse) in all.iter().zip(in_lanes(l, &all, &all, |a, _| l.scalar_invert(a))) {
        // The inverse is R/a, so that a·(R/a)/R must be 1.
        assert_eq!(
            big(number) * big(&inverse) % &n * &over_r % &n,
            1u32.into(),
            "{number:x?}"
        );
    }
}

/// Checks the engine's computation of u₁ and u₂ from digest, r and s.
fn a_scalar_over_another<L: Lanes>(l: L) {
    let (mut random, n) = (Random(23), big(&L::Curve::N));
    let dividends = any_256_bits::<L::Curve>(&mut random);
    let divisors: Vec<U256> = dividends.iter().map(|_| random.number(&L::Curve::N)).collect();
    let quotients = in_lanes(l, &dividends, &divisors, |a, b| {
        l.scalar_mul(a, &l.scalar_invert(b))
    });
    for (k, quotient) in quotients.iter().enumerate() {
        assert_eq!(big(quotient) * big(&divisors[k]) % &n, big(&dividends[k]) % &n);
    }
}

#[test]
fn inverses_are_right_modulo_every_prime() {
    let mut random = Random(24);
    for modulus in MODULI {
        let m = big(&modulus);
        let mut numbers = edges(&modulus);
        numbers.retain(|number| !uint::is_zero(number));
        numbers.extend((0..1500).map(|_| random.number(&modulus)));
        numbers.extend(
            (0..1500)
                .map(|_| words(&(big(&random.runs()) % &m)))
                .filter(|x| !uint::is_zero(x)),
        );
        // Add short numbers, which take the fewest steps.
        numbers.extend((0..500).map(|k| [random.next() >> (k % 64) | 1, 0, 0, 0]));
        for number in &numbers {
            let expected = big(number).modinv(&m).expect("the modulus is prime");
            let inverse = inverse::invert(number, &modulus);
            assert_eq!(big(&inverse), expected, "1/{number:x?} modulo {modulus:x?}");
            assert_eq!(inverse::invert(&inverse, &modulus), *number);
        }
    }
}

#[test]
fn integers_are_added_subtracted_and_compared_correctly() {
    let (mut random, whole) = (Random(25), BigUint::from(1u32) << 256);
    let mut numbers = edges(&[u64::MAX; 4]);
    numbers.extend([[u64::MAX; 4]]);
    numbers.extend((0..60).map(|k| if k % 2 == 0 { random.bits() } else { random.runs() }));
    for a in &numbers {
        let bytes = uint::to_be_bytes(a);
        assert_eq!(uint::from_be_bytes(&bytes), *a);
        assert_eq!(uint::is_zero(a), big(a) == BigUint::ZERO);
        let limbs = uint::limbs52(a);
        let value: BigUint = (0..5).map(|i| BigUint::from(limbs[i]) << (52 * i)).sum();
        assert!(value == big(a) && limbs.iter().all(|limb| limb >> 52 == 0));
        for b in &numbers {
            let sum = big(a) + big(b);
            assert_eq!(uint::add(a, b), (words(&(&sum % &whole)), sum >= whole));
            let difference = big(a) + &whole - big(b);
            assert_eq!(
                uint::sub(a, b),
                (words(&(&difference % &whole)), difference < whole)
            );
            assert_eq!(uint::at_least(a, b), big(a) >= big(b));
        }
    }
    for m in MODULI {
        for a in numbers.iter().filter(|a| big(a) < big(&m) * 2u32) {
            assert_eq!(big(&uint::reduce_once(a, &m)), big(a) % big(&m));
        }
    }
}

#[test]
fn powers_of_two_and_negated_inverses_are_right() {
    let mut random = Random(26);
    for modulus in MODULI {
        let m = big(&modulus);
        for exponent in (0..300).chain([511, 512, 513, 520, 768, 780, 1000]) {
            let expected = (BigUint::from(1u32) << exponent) % &m;
            assert_eq!(big(&uint::power_of_two(exponent, &modulus)), expected);
        }
        assert_eq!(
            uint::negated_inverse(modulus[0]).wrapping_mul(modulus[0]),
            u64::MAX
        );
    }
    for _ in 0..2000 {
        let odd = random.next() | 1;
        assert_eq!(uint::negated_inverse(odd).wrapping_mul(odd), u64::MAX);
    }
}
