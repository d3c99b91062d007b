//! Tests that the digits of a scalar add up to the scalar, and that the two halves of a scalar on secp256k1 do.

use super::reference::Reference;
use super::{Draw, Random, big, edges, words};
use crate::curve::{P256, Params, Secp256k1, hex};
use crate::endomorphism::{BETA, HALF_BITS, Half, split};
use crate::recode::{Odd, windows};
use crate::uint::U256;
use num_bigint::{BigInt, BigUint};

pub(super) const LAMBDA: U256 = hex("5363ad4cc05c30e0a5261c028812645a122e22ea20816678df02967c1b23bd72");

/// Returns the sum of the digits of all windows, each with its weight.
fn digits(odd: &Odd, width: u32, windows: usize) -> BigInt {
    let mut sum = BigInt::ZERO;
    for window in 0..windows {
        let (index, negative) = odd.digit(window, width);
        assert!(
            index < 1 << (width - 1),
            "digit {window} is beyond the end of the table"
        );
        let digit = BigInt::from(2 * index + 1) << (window as u32 * width);
        sum += if negative { -digit } else { digit };
    }
    sum
}

/// Returns scalars in [1, n - 1]: edge values and random ones.
fn scalars<C: Params>(random: &mut Random, count: usize) -> Vec<U256> {
    let n = big(&C::N);
    let mut scalars = edges(&C::N);
    scalars.extend((0..count).map(|_| random.number(&C::N)));
    scalars.extend((0..count).map(|_| words(&(big(&random.runs()) % &n))));
    // Add scalars with repeated patterns of bits, so that neighbouring windows have equal digits.
    scalars.extend(
        (1u32..64)
            .map(BigUint::from)
            .flat_map(|k| [words(&k), words(&(&n - &k))]),
    );
    scalars.retain(|scalar| *scalar != [0; 4]);
    scalars
}

fn digits_add_up_on<C: Params>() {
    let mut random = Random(31);
    let n = BigInt::from(big(&C::N));
    for scalar in scalars::<C>(&mut random, 250) {
        let k = BigInt::from(big(&scalar));
        // The digits of an even scalar k represent k - n.
        let expected = if scalar[0] & 1 == 1 { k } else { k - &n };
        for width in 2..=16 {
            let windows = windows(256, width);
            let odd = Odd::of_scalar(&scalar, &C::N, width, windows);
            assert_eq!(
                digits(&odd, width, windows),
                expected,
                "{scalar:x?} of width {width}"
            );
        }
    }
}

#[test]
fn the_digits_of_a_scalar_add_up_to_it() {
    digits_add_up_on::<P256>();
    digits_add_up_on::<Secp256k1>();
}

#[test]
fn the_digits_of_halves_add_up_to_them() {
    let mut random = Random(32);
    let mask = (BigUint::from(1u32) << HALF_BITS) - 1u32;
    for round in 0..2000 {
        let bits = if round % 2 == 0 {
            random.bits()
        } else {
            random.runs()
        };
        let mut magnitude = words(&(big(&bits) & &mask));
        magnitude[0] |= 1;
        if round == 0 {
            magnitude = words(&mask);
        }
        for negative in [false, true] {
            let value = BigInt::from(big(&magnitude));
            let expected = if negative { -value } else { value };
            for width in 2..=16 {
                let windows = windows(HALF_BITS, width);
                let odd = Odd::of_magnitude(&magnitude, negative, width, windows);
                assert_eq!(digits(&odd, width, windows), expected);
            }
        }
    }
}

fn signed(half: &Half) -> BigInt {
    let magnitude = BigInt::from(big(&half.magnitude));
    if half.negative { -magnitude } else { magnitude }
}

/// Returns scalars at which the nearest lattice point changes: (j + 1/2)·n/b, near the middle between two lattice
/// points.
fn between_lattice_points(random: &mut Random) -> Vec<BigUint> {
    let n = big(&Secp256k1::N);
    let short = [
        "3086d221a7d46bcde86c90e49284eb15",
        "e4437ed6010e88286f547fa90abfe4c3",
    ];
    let mut scalars = Vec::new();
    for b in short.map(|digits| BigUint::parse_bytes(digits.as_bytes(), 16).expect("digits")) {
        for round in 0..400u32 {
            let j = if round < 4 {
                BigUint::from(round)
            } else {
                big(&random.bits()) % &b
            };
            let j = if round % 50 == 49 { &b - 1u32 } else { j };
            let middle = (j * 2u32 + 1u32) * &n / (&b * 2u32);
            scalars.extend((0u32..4).map(|k| (&middle + k) % &n));
            scalars.push(&middle - 1u32);
        }
    }
    scalars
}

#[test]
fn the_halves_of_a_scalar_add_up_to_it_and_are_short() {
    let mut random = Random(33);
    let (n, lambda) = (big(&Secp256k1::N), big(&LAMBDA));
    assert_eq!((&lambda * &lambda + &lambda + 1u32) % &n, BigUint::ZERO);
    let mut all: Vec<BigUint> = scalars::<Secp256k1>(&mut random, 20_000)
        .iter()
        .map(big)
        .collect();
    all.extend([
        BigUint::ZERO,
        lambda.clone(),
        &n - &lambda,
        &lambda * &lambda % &n,
        &n / 2u32,
    ]);
    all.extend(between_lattice_points(&mut random));
    for j in 0u32..200 {
        // Add scalars that are the sum of short halves by construction.
        all.push((&lambda * j + j / 7) % &n);
        all.push((&n - &lambda * j % &n + j) % &n);
    }
    let mut longest = 0;
    for k in &all {
        let halves = split(&words(k));
        for half in &halves {
            assert!(half.magnitude[0] & 1 == 1, "{k:x} has an even half");
            longest = longest.max(big(&half.magnitude).bits());
        }
        let [k1, k2] = halves.each_ref().map(signed);
        let rest = k1 + k2 * BigInt::from(lambda.clone()) - BigInt::from(k.clone());
        assert_eq!(rest % BigInt::from(n.clone()), BigInt::ZERO, "{k:x}");
    }
    assert!(longest <= u64::from(HALF_BITS), "{longest} bits");
}

#[test]
fn multiplication_by_lambda_multiplies_x_by_beta() {
    let p = big(&Secp256k1::P);
    let mut random = Random(34);
    for _ in 0..20 {
        let point = Secp256k1::multiply(&random.number(&Secp256k1::N), &Secp256k1::G).expect("not zero");
        let by_lambda = Secp256k1::multiply(&LAMBDA, &point).expect("not zero");
        assert_eq!(by_lambda, (words(&(big(&point.0) * big(&BETA) % &p)), point.1));
    }
}
