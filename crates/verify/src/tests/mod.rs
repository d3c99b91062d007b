//! Tests of the engine against simple and slow arithmetic.
//!
//! A test is a function that is generic over `Lanes`. The macro `every_back_end` makes one test of each such function
//! for each backend and curve, so that all backends have the same tests.

#[cfg(all(target_arch = "x86_64", feature = "simd"))]
mod bounds;
mod chain;
mod cost;
mod exceptional;
mod field;
mod formulas;
mod hostile;
#[path = "../../tests/random/mod.rs"]
mod random;
mod recode;
mod reference;
mod scalar;
mod table;
mod tiny;

use crate::lanes::Stage;
use crate::uint::{U256, from_be_bytes};
use num_bigint::BigUint;
use random::Random;

/// Defines tests that run each of the given functions for each backend that this CPU supports. The argument of a
/// function is the backend's token.
macro_rules! every_back_end {
    ($($test:ident),+ $(,)?) => {
        mod portable_p256 {
            $(#[test]
            fn $test() {
                super::$test(crate::portable::Portable::<crate::curve::P256>::new());
            })+
        }
        mod portable_secp256k1 {
            $(#[test]
            fn $test() {
                super::$test(crate::portable::Portable::<crate::curve::Secp256k1>::new());
            })+
        }
        #[cfg(all(target_arch = "x86_64", feature = "simd"))]
        mod avx512ifma_p256 {
            $(#[test]
            fn $test() {
                match crate::avx512ifma::Ifma::<crate::curve::P256>::new() {
                    Some(l) => super::$test(l),
                    None => eprintln!("skipped: this CPU has no AVX-512 IFMA"),
                }
            })+
        }
        #[cfg(all(target_arch = "x86_64", feature = "simd"))]
        mod avx512ifma_secp256k1 {
            $(#[test]
            fn $test() {
                match crate::avx512ifma::Ifma::<crate::curve::Secp256k1>::new() {
                    Some(l) => super::$test(l),
                    None => eprintln!("skipped: this CPU has no AVX-512 IFMA"),
                }
            })+
        }
    };
}
use every_back_end;

/// Random 256-bit numbers for the tests.
trait Draw {
    /// Returns 256 uniform random bits.
    fn bits(&mut self) -> U256;
    /// Returns a nearly uniform random number in [1, modulus).
    fn number(&mut self, modulus: &U256) -> U256;
    /// Returns 256 bits in long runs of zeros and ones, which uniform random numbers practically never have.
    fn runs(&mut self) -> U256;
}

impl Draw for Random {
    fn bits(&mut self) -> U256 {
        std::array::from_fn(|_| self.next())
    }

    fn number(&mut self, modulus: &U256) -> U256 {
        let number = big(&self.bits()) % (big(modulus) - 1u32) + 1u32;
        words(&number)
    }

    fn runs(&mut self) -> U256 {
        let mut bits = U256::default();
        let (mut at, mut one) = (0, self.index(2) == 1);
        while at < 256 {
            let end = (at + 1 + self.index(90)).min(256);
            for bit in at..end {
                bits[bit / 64] |= u64::from(one) << (bit % 64);
            }
            (at, one) = (end, !one);
        }
        bits
    }
}

fn big(number: &U256) -> BigUint {
    BigUint::from_bytes_be(&crate::uint::to_be_bytes(number))
}

fn words(number: &BigUint) -> U256 {
    let bytes = number.to_bytes_be();
    let mut padded = [0; 32];
    padded[32 - bytes.len()..].copy_from_slice(&bytes);
    from_be_bytes(&padded)
}

/// Returns numbers below `modulus` with which carries and borrows propagate over many limbs.
fn edges(modulus: &U256) -> Vec<U256> {
    let m = big(modulus);
    let one = BigUint::from(1u32);
    let mut numbers: Vec<BigUint> = (0u32..4).map(BigUint::from).collect();
    numbers.extend((1u32..5).map(|k| &m - k));
    numbers.extend([(&m - 1u32) / 2u32, (&m + 1u32) / 2u32]);
    for k in [
        1, 26, 32, 51, 52, 53, 63, 64, 65, 96, 104, 128, 156, 192, 208, 224, 255,
    ] {
        let power: BigUint = &one << k;
        numbers.extend([&power - 1u32, power.clone(), &power + 1u32, &m - &power]);
    }
    // Add numbers in which some limbs are all ones, for both sizes of limbs.
    for set in 1u32..32 {
        for (limb, limbs) in [(52, 5), (64, 4)] {
            let ones = (0..limbs).filter(|i| set >> i & 1 == 1);
            numbers.push(ones.map(|i| ((&one << limb) - 1u32) << (limb * i)).sum());
        }
    }
    let mut numbers: Vec<U256> = numbers.iter().map(|number| words(&(number % &m))).collect();
    numbers.sort();
    numbers.dedup();
    numbers
}

/// Stage that runs a closure. The compiler may or may not inline the closure, which affects the time but not the
/// results.
struct Work<F>(F);

impl<T, F: FnOnce() -> T> Stage for Work<F> {
    type Out = T;

    #[inline(always)]
    fn run(self) -> T {
        (self.0)()
    }
}
