//! Construction of signatures with a known secret key, so that u₁ and u₂ can be chosen, and RustCrypto's verdict on
//! each signature.

#[path = "../random/mod.rs"]
mod random;

use lineside_verify::{Curve, PublicKey};
use num_bigint::BigUint;
use random::Random;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

/// Specification of a sample: curve and key, u₁, u₂, the mutation and its parameter, and a seed for random parts.
pub type Spec = [u8; 6];

/// Signature with its key and digest, and RustCrypto's verdict, for which a high s does not matter.
pub struct Sample {
    pub key: PublicKey,
    pub digest: [u8; 32],
    pub r: [u8; 32],
    pub s: [u8; 32],
    pub valid: bool,
}

impl Sample {
    /// Returns true if s is above n/2 and both numbers are in [1, n-1].
    pub fn is_high(&self) -> bool {
        let n = order(self.key.curve());
        let [r, s] = [self.r, self.s].map(|bytes| BigUint::from_bytes_be(&bytes));
        let in_range = |number: &BigUint| *number != BigUint::ZERO && *number < n;
        in_range(&r) && in_range(&s) && s > &n / 2u8
    }
}

/// Returns the curve's order.
pub fn order(curve: Curve) -> BigUint {
    number(match curve {
        Curve::P256 => "ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551",
        Curve::Secp256k1 => "fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141",
    })
}

/// Returns the field's prime.
fn prime(curve: Curve) -> BigUint {
    number(match curve {
        Curve::P256 => "ffffffff00000001000000000000000000000000ffffffffffffffffffffffff",
        Curve::Secp256k1 => "fffffffffffffffffffffffffffffffffffffffffffffffffffffffefffffc2f",
    })
}

/// Returns λ of secp256k1's endomorphism; on P-256 this is just an arbitrary number.
fn lambda() -> BigUint {
    number("5363ad4cc05c30e0a5261c028812645a122e22ea20816678df02967c1b23bd72")
}

fn number(hex: &str) -> BigUint {
    BigUint::parse_bytes(hex.as_bytes(), 16).unwrap_or_default()
}

/// Returns a number modulo 2^256 as big-endian bytes.
fn bytes(number: &BigUint) -> [u8; 32] {
    let all = number.to_bytes_be();
    let mut bytes = [0; 32];
    let taken = all.len().min(32);
    bytes[32 - taken..].copy_from_slice(&all[all.len() - taken..]);
    bytes
}

/// Returns 32 bytes derived from a seed.
pub fn random(seed: u64) -> [u8; 32] {
    let mut bytes = [0; 32];
    Random(seed).fill(&mut bytes);
    bytes
}

/// Defines functions on top of RustCrypto for one curve. `$lower` converts s into a value that RustCrypto accepts.
macro_rules! rust_crypto {
    ($name:ident, $library:ident, $lower:expr) => {
        mod $name {
            use $library::ecdsa::signature::hazmat::PrehashVerifier;
            use $library::ecdsa::{Signature, VerifyingKey};
            use $library::elliptic_curve::PrimeField;
            use $library::elliptic_curve::sec1::{FromEncodedPoint, ToEncodedPoint};
            use $library::{AffinePoint, EncodedPoint, ProjectivePoint, Scalar};

            /// Returns `a·G + b·R` for the point R with this x and an even y; `None` if the sum is the point at
            /// infinity, or if no point has this x.
            pub fn combine(a: [u8; 32], b: [u8; 32], x: [u8; 32]) -> Option<[u8; 65]> {
                let compressed = [&[2][..], &x].concat();
                let point = EncodedPoint::from_bytes(&compressed).ok()?;
                let point = Option::<AffinePoint>::from(AffinePoint::from_encoded_point(&point))?;
                let [a, b] = [a, b].map(|scalar| Option::<Scalar>::from(Scalar::from_repr(scalar.into())));
                let sum = ProjectivePoint::GENERATOR * a? + ProjectivePoint::from(point) * b?;
                sum.to_affine()
                    .to_encoded_point(false)
                    .as_bytes()
                    .try_into()
                    .ok()
            }

            /// Returns `a·G`; `None` for the point at infinity.
            pub fn times_g(a: [u8; 32]) -> Option<[u8; 65]> {
                let a = Option::<Scalar>::from(Scalar::from_repr(a.into()))?;
                let product = (ProjectivePoint::GENERATOR * a).to_affine();
                product.to_encoded_point(false).as_bytes().try_into().ok()
            }

            pub fn verify(key: &[u8], digest: &[u8; 32], r: [u8; 32], s: [u8; 32]) -> bool {
                let lower: fn(Signature) -> Signature = $lower;
                let (Ok(key), Ok(signature)) = (
                    VerifyingKey::from_sec1_bytes(key),
                    Signature::from_scalars(r, s),
                ) else {
                    return false;
                };
                key.verify_prehash(digest, &lower(signature)).is_ok()
            }
        }
    };
}

rust_crypto!(over_p256, p256, |signature| signature);
rust_crypto!(over_k256, k256, |signature| signature
    .normalize_s()
    .unwrap_or(signature));

fn times_g(curve: Curve, scalar: &BigUint) -> Option<[u8; 65]> {
    match curve {
        Curve::P256 => over_p256::times_g(bytes(scalar)),
        Curve::Secp256k1 => over_k256::times_g(bytes(scalar)),
    }
}

fn x_of(point: &[u8; 65]) -> BigUint {
    BigUint::from_bytes_be(&point[1..33])
}

/// Digest z, and r and s of a signature.
type Triple = [BigUint; 3];

enum Owner {
    Secret(BigUint),
    /// The secret key is not known, because the public key was constructed for this one signature.
    Fitted(Triple),
}

const KEYS: usize = 32;

static OWNERS: LazyLock<[Vec<(PublicKey, Owner)>; 2]> = LazyLock::new(|| {
    [Curve::P256, Curve::Secp256k1].map(|curve| (0..KEYS).map(|i| owner(curve, i)).collect())
});

fn owner(curve: Curve, index: usize) -> (PublicKey, Owner) {
    if index >= KEYS - 4 {
        return fitted(curve, index - (KEYS - 4));
    }
    let n = order(curve);
    let secret = match index {
        0..8 => BigUint::from([1u8, 2, 3, 4, 5, 8, 16, 32][index]),
        8..12 => &n - (index - 7),
        12 => lambda(),
        13 => &n - lambda(),
        14 => BigUint::from(1u8) << 128,
        15 => lambda() * lambda() % &n,
        _ => BigUint::from_bytes_be(&random(index as u64)) % &n,
    };
    let point = times_g(curve, &secret).expect("not zero");
    (parse(curve, &point), Owner::Secret(secret))
}

fn parse(curve: Curve, point: &[u8; 65]) -> PublicKey {
    PublicKey::from_sec1(curve, point).expect("RustCrypto returns points of the curve")
}

/// Returns a key with a signature whose R has an x of n or more, which practically never occurs in signing, or an x so
/// small that x + n is also below p.
fn fitted(curve: Curve, which: usize) -> (PublicKey, Owner) {
    let n = order(curve);
    let base = if which < 2 { n.clone() } else { BigUint::ZERO };
    let [z, s] = [1, 2].map(|i| BigUint::from_bytes_be(&random(i)) % &n);
    for small in 1 + 100 * which as u64.. {
        let x = &base + small;
        let over_r = BigUint::from(small).modinv(&n).expect("n is prime");
        let a = bytes(&((&n - &z) * &over_r % &n));
        let b = bytes(&(&s * &over_r % &n));
        let point = match curve {
            Curve::P256 => over_p256::combine(a, b, bytes(&x)),
            Curve::Secp256k1 => over_k256::combine(a, b, bytes(&x)),
        };
        if let Some(point) = point {
            return (parse(curve, &point), Owner::Fitted([z, BigUint::from(small), s]));
        }
    }
    unreachable!("half of all x have a point")
}

/// Returns the sample of a specification. The same specification always gives the same sample.
pub fn sample(spec: Spec) -> Arc<Sample> {
    static SAMPLES: LazyLock<Mutex<HashMap<Spec, Arc<Sample>>>> = LazyLock::new(Mutex::default);
    const MOST: usize = 1 << 16;
    let samples = || SAMPLES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(sample) = samples().get(&spec) {
        return Arc::clone(sample);
    }
    let sample = Arc::new(forge(spec));
    let mut samples = samples();
    if samples.len() == MOST {
        samples.clear();
    }
    samples.insert(spec, Arc::clone(&sample));
    sample
}

fn forge(spec: Spec) -> Sample {
    let [which, u1, u2, mutation, parameter, seed] = spec;
    let curve = [Curve::P256, Curve::Secp256k1][usize::from(which & 1)];
    let owners = &OWNERS[usize::from(which & 1)];
    let (key, owner) = &owners[usize::from(which >> 1) % KEYS];
    let triple = match owner {
        Owner::Fitted(triple) => triple.clone(),
        Owner::Secret(secret) => sign(curve, secret, u1, u2, seed),
    };
    let other = &owners[usize::from(parameter) % KEYS].0;
    let key = if mutation == 9 { *other } else { *key };
    let [digest, r, s] = mutate(curve, triple, mutation, parameter);
    let point = key.to_sec1_uncompressed();
    let valid = match curve {
        Curve::P256 => over_p256::verify(&point, &digest, r, s),
        Curve::Secp256k1 => over_k256::verify(&point, &digest, r, s),
    };
    Sample {
        key,
        digest,
        r,
        s,
        valid,
    }
}

/// Returns a signature with the chosen u₁ and u₂: r is the x of u₁·G + u₂·Q, s is r/u₂, and z is u₁·s.
fn sign(curve: Curve, secret: &BigUint, u1: u8, u2: u8, seed: u8) -> Triple {
    let n = order(curve);
    let one = BigUint::from(1u8);
    let noise = |salt: u64| BigUint::from_bytes_be(&random(salt << 8 | u64::from(seed))) % &n;
    let u2 = match u2 {
        0 => one.clone(),
        1 => &n - &one,
        2 => BigUint::from(2u8),
        3 => lambda(),
        4 => secret.modinv(&n).expect("n is prime"),
        5 => &n - secret.modinv(&n).expect("n is prime"),
        6..=15 => (&one << seed) - u8::from(u2 & 1 == 1 && seed > 0),
        _ => noise(1000 + u64::from(u2)),
    } % &n;
    // u₂·Q is `half`·G. The sum consists of u₁·G and this multiple of G.
    let half = &u2 * secret % &n;
    let u1 = match u1 {
        0 => BigUint::ZERO,
        1 => one.clone(),
        2 => &n - &one,
        3 => half.clone(),
        4 => &n - &half,
        5 => &half + (seed & 7),
        6 => &n - &half + (seed & 7),
        7..=15 => (&one << seed) - u8::from(u1 & 1 == 1),
        // Use one of a few nonces, so that a nonce recurs with other messages and keys.
        16..=23 => &n - &half + BigUint::from_bytes_be(&random(u64::from(u1))) % &n,
        _ => noise(2000 + u64::from(u1)),
    } % &n;
    let r = match times_g(curve, &((&u1 + &half) % &n)) {
        Some(point) => x_of(&point) % &n,
        // The point at infinity has no x, so no r may be accepted; use any r.
        None => BigUint::from(1 + u16::from(seed)),
    };
    let s = &r * u2.modinv(&n).expect("n is prime") % &n;
    [&u1 * &s % &n, r, s]
}

/// Returns digest, r and s, with at most one of them changed.
fn mutate(curve: Curve, [z, r, s]: Triple, mutation: u8, parameter: u8) -> [[u8; 32]; 3] {
    let n = order(curve);
    let flip = |number: &BigUint| {
        let mut bytes = bytes(number);
        bytes[usize::from(parameter >> 3)] ^= 1 << (parameter & 7);
        bytes
    };
    let special = || bytes(&special(curve, parameter));
    let [z0, r0, s0] = [&z, &r, &s].map(bytes);
    match mutation {
        0 => [flip(&z), r0, s0],
        1 => [z0, flip(&r), s0],
        2 => [z0, r0, flip(&s)],
        3 => [special(), r0, s0],
        4 => [z0, special(), s0],
        5 => [z0, r0, special()],
        6 => [bytes(&(z + n)), r0, s0],
        7 => [z0, bytes(&(r + n)), s0],
        8 => [z0, r0, bytes(&(s + n))],
        10 => [z0, s0, r0],
        11 => [bytes(&(&n - z)), r0, s0],
        12 => [z0, bytes(&(n - r)), s0],
        13..=16 => [z0, r0, bytes(&(n - s))],
        17 => [special(), special(), special()],
        _ => [z0, r0, s0],
    }
}

/// Returns a number at an edge of one of the ranges of r, s and z.
fn special(curve: Curve, which: u8) -> BigUint {
    let (n, p) = (order(curve), prime(curve));
    match which % 16 {
        0 => BigUint::ZERO,
        1 => BigUint::from(1u8),
        2 => n - 1u8,
        3 => n,
        4 => n + 1u8,
        5 => p,
        6 => p - 1u8,
        7 => p + 1u8,
        8 => (BigUint::from(1u8) << 256) - 1u8,
        9 => n / 2u8,
        10 => n / 2u8 + 1u8,
        11 => p - n,
        12 => p - n - 1u8,
        13 => BigUint::from(1u8) << 255,
        14 => lambda(),
        _ => BigUint::from(2u8),
    }
}
