//! Endomorphism of secp256k1: λ·(x, y) = (β·x, y). With it, a scalar k is split into k₁ + k₂·λ with halves of at most
//! 130 bits, which halves the number of doublings (Gallant, Lambert, Vanstone, CRYPTO 2001; Guide to Elliptic Curve
//! Cryptography, algorithm 3.74).
//!
//! The vectors v₁ = (a₁, b₁) and v₂ = (a₂, b₂) are short vectors with a + b·λ = 0 mod n. The halves are (k, 0) minus
//! the nearest lattice point c₁v₁ + c₂v₂, where c₁ = k·b₂/n and c₂ = -k·b₁/n are rounded; this difference is short. The
//! divisions by n are computed as multiplications by the rounded constants 2^384·b/n. The recoding into odd digits
//! (`recode`) needs odd halves. The vectors v₁, v₂ and v₁ + v₂ have all parities except (even, even), so adding one of
//! them makes both halves odd.

use crate::curve::hex;
use crate::uint::{U256, add, sub};

/// Constant β of the endomorphism λ·(x, y) = (β·x, y).
pub(crate) const BETA: U256 = hex("7ae96a2b657c07106e64479eac3434e99cf0497512f58995c1396c28719501ee");

const A1: U256 = hex("000000000000000000000000000000003086d221a7d46bcde86c90e49284eb15");
const MINUS_B1: U256 = hex("00000000000000000000000000000000e4437ed6010e88286f547fa90abfe4c3");
const A2: U256 = hex("0000000000000000000000000000000114ca50f7a8e2f3f657c1108d9d44cfd8");
const B2: U256 = A1;
/// Constants for the divisions by n: 2^384·b₂/n (`G1`) and -2^384·b₁/n (`G2`), rounded.
const G1: U256 = hex("3086d221a7d46bcde86c90e49284eb153daa8a1471e8ca7fe893209a45dbb031");
const G2: U256 = hex("e4437ed6010e88286f547fa90abfe4c4221208ac9df506c61571b4ae8ac47f71");

/// Maximum number of bits of a half.
pub(crate) const HALF_BITS: u32 = 130;

/// Half of a split scalar: `magnitude`, which is odd, with a sign.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Half {
    pub(crate) magnitude: U256,
    pub(crate) negative: bool,
}

/// Returns the halves k₁ and k₂ of a scalar `k` below n.
pub(crate) fn split(k: &U256) -> [Half; 2] {
    let c1 = rounded_top(k, &G1);
    let c2 = rounded_top(k, &G2);
    // The halves are computed modulo 2^256, as two's complement numbers.
    let mut k1 = sub(&sub(k, &product(&c1, &A1)).0, &product(&c2, &A2)).0;
    let mut k2 = sub(&product(&c1, &MINUS_B1), &product(&c2, &B2)).0;
    let (odd1, odd2) = (k1[0] & 1 == 1, k2[0] & 1 == 1);
    // The parities of v₁ are (odd, odd), those of v₂ are (even, odd).
    if !odd1 {
        k1 = add(&k1, &A1).0;
        k2 = sub(&k2, &MINUS_B1).0;
    }
    if odd1 != odd2 {
        k1 = add(&k1, &A2).0;
        k2 = add(&k2, &B2).0;
    }
    [half(&k1), half(&k2)]
}

fn half(k: &U256) -> Half {
    let negative = k[3] >> 63 == 1;
    let magnitude = if negative { sub(&[0; 4], k).0 } else { *k };
    debug_assert!(magnitude[0] & 1 == 1 && magnitude[3] == 0 && magnitude[2] >> (HALF_BITS - 128) == 0);
    Half { magnitude, negative }
}

/// Returns `a·b / 2^384`, rounded.
fn rounded_top(a: &U256, b: &U256) -> U256 {
    let wide = wide_product(a, b);
    let round = wide[5] >> 63;
    let (low, carry) = wide[6].overflowing_add(round);
    [low, wide[7] + u64::from(carry), 0, 0]
}

/// Returns `a·b` modulo 2^256.
fn product(a: &U256, b: &U256) -> U256 {
    let wide = wide_product(a, b);
    [wide[0], wide[1], wide[2], wide[3]]
}

fn wide_product(a: &U256, b: &U256) -> [u64; 8] {
    let mut wide = [0u64; 8];
    for i in 0..4 {
        let mut carry = 0u64;
        for j in 0..4 {
            let t = u128::from(a[i]) * u128::from(b[j]) + u128::from(wide[i + j]) + u128::from(carry);
            wide[i + j] = t as u64;
            carry = (t >> 64) as u64;
        }
        wide[i + 4] = carry;
    }
    wide
}
