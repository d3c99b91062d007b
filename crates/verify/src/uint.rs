//! 256-bit integers as four 64-bit words, least significant first, and a few common operations.

use crate::unroll::unroll;

/// 256-bit integer: four words, least significant first.
pub(crate) type U256 = [u64; 4];

pub(crate) const ZERO: U256 = [0; 4];
pub(crate) const ONE: U256 = [1, 0, 0, 0];

pub(crate) const fn from_be_bytes(bytes: &[u8; 32]) -> U256 {
    let (words, _) = bytes.as_chunks::<8>();
    [
        u64::from_be_bytes(words[3]),
        u64::from_be_bytes(words[2]),
        u64::from_be_bytes(words[1]),
        u64::from_be_bytes(words[0]),
    ]
}

pub(crate) fn to_be_bytes(value: &U256) -> [u8; 32] {
    let mut bytes = [0; 32];
    for (chunk, word) in bytes.chunks_exact_mut(8).zip(value.iter().rev()) {
        chunk.copy_from_slice(&word.to_be_bytes());
    }
    bytes
}

pub(crate) const fn is_zero(a: &U256) -> bool {
    a[0] | a[1] | a[2] | a[3] == 0
}

/// Returns `a >= b`.
pub(crate) const fn at_least(a: &U256, b: &U256) -> bool {
    !sub(a, b).1
}

/// Returns `a + b` modulo 2^256, and true if it overflowed.
pub(crate) const fn add(a: &U256, b: &U256) -> (U256, bool) {
    let mut sum = ZERO;
    let mut carry = 0;
    unroll!(i in [0, 1, 2, 3] {
        let t = a[i] as u128 + b[i] as u128 + carry;
        sum[i] = t as u64;
        carry = t >> 64;
    });
    (sum, carry != 0)
}

/// Returns `a - b` modulo 2^256, and true if it was negative.
pub(crate) const fn sub(a: &U256, b: &U256) -> (U256, bool) {
    let mut difference = ZERO;
    let mut borrow = false;
    unroll!(i in [0, 1, 2, 3] {
        let (t, under) = a[i].overflowing_sub(b[i]);
        let (t, under_again) = t.overflowing_sub(borrow as u64);
        difference[i] = t;
        borrow = under | under_again;
    });
    (difference, borrow)
}

/// Returns `a mod m` for `a < 2m`.
pub(crate) const fn reduce_once(a: &U256, m: &U256) -> U256 {
    let (reduced, negative) = sub(a, m);
    if negative { *a } else { reduced }
}

/// Returns `2^exponent mod m`, for an `m` above 2^255.
pub(crate) const fn power_of_two(exponent: u32, m: &U256) -> U256 {
    let mut value = ONE;
    let mut i = 0;
    while i < exponent {
        let (doubled, carry) = add(&value, &value);
        let (reduced, negative) = sub(&doubled, m);
        value = if carry || !negative { reduced } else { doubled };
        i += 1;
    }
    value
}

/// Returns `-m^-1 mod 2^64` for an odd `m`. The inverse is computed by Newton's iteration, which begins with three
/// correct bits and doubles their number in each step.
pub(crate) const fn negated_inverse(m: u64) -> u64 {
    let mut inverse = m;
    let mut i = 0;
    while i < 5 {
        inverse = inverse.wrapping_mul(2u64.wrapping_sub(m.wrapping_mul(inverse)));
        i += 1;
    }
    inverse.wrapping_neg()
}

/// Returns the five 52-bit limbs of a value below 2^256.
#[cfg(any(test, all(target_arch = "x86_64", feature = "simd")))]
pub(crate) const fn limbs52(a: &U256) -> [u64; 5] {
    const MASK: u64 = (1 << 52) - 1;
    [
        a[0] & MASK,
        (a[0] >> 52 | a[1] << 12) & MASK,
        (a[1] >> 40 | a[2] << 24) & MASK,
        (a[2] >> 28 | a[3] << 36) & MASK,
        a[3] >> 16,
    ]
}
