//! Keys and ECDSA P-256 signatures, generated in large batches.
//!
//! These keys protect nothing: they are derived from a seed, so they are not secret. The nonces of a batch are
//! consecutive numbers k + 1, k + 2, … The curve point of each nonce therefore needs one addition, with a table of
//! multiples of the generator, and a whole batch needs one inversion. Hashing the messages then costs more than signing
//! them. For a verifier, these signatures do not differ from others.

use p256::elliptic_curve::ff::PrimeField;
use p256::elliptic_curve::ops::Reduce;
use p256::elliptic_curve::sec1::ToEncodedPoint;
use p256::pkcs8::{EncodePrivateKey, LineEnding};
use p256::{FieldBytes, FieldElement, ProjectivePoint, Scalar, U256};
use sha2::{Digest, Sha256};
use std::ops::Mul;
use std::sync::OnceLock;

/// Number of multiples of the generator in the table.
const TABLE: usize = 1_024;

type Point = (FieldElement, FieldElement);

fn affine(point: &ProjectivePoint) -> Point {
    let encoded = point.to_affine().to_encoded_point(false);
    let coordinate = |bytes: Option<&FieldBytes>| {
        let bytes = bytes.copied().unwrap_or_default();
        Option::from(FieldElement::from_repr(bytes)).unwrap_or(FieldElement::ZERO)
    };
    (coordinate(encoded.x()), coordinate(encoded.y()))
}

/// Returns the table of the multiples G, 2G, … of the generator G.
fn table() -> &'static [Point] {
    static POINTS: OnceLock<Vec<Point>> = OnceLock::new();
    POINTS.get_or_init(|| {
        let mut point = ProjectivePoint::IDENTITY;
        let next = |_| {
            point += ProjectivePoint::GENERATOR;
            affine(&point)
        };
        (0..TABLE).map(next).collect()
    })
}

/// Replaces all values by their inverses; no value may be 0.
fn invert_all<F: Copy + Mul<Output = F>>(values: &mut [F], one: F, invert: impl Fn(F) -> F) {
    let mut product = one;
    let mut before = Vec::with_capacity(values.len());
    for &value in values.iter() {
        before.push(product);
        product = product * value;
    }
    let mut inverse = invert(product);
    for (value, before) in values.iter_mut().zip(before).rev() {
        let this = inverse * before;
        inverse = inverse * *value;
        *value = this;
    }
}

/// Returns (start + 1)G … (start + count)G; `count` is at most [`TABLE`].
fn consecutive(start: &Scalar, count: usize) -> Vec<Point> {
    let (x, y) = affine(&(ProjectivePoint::GENERATOR * start));
    let multiples = &table()[..count];
    let mut slopes: Vec<FieldElement> = multiples.iter().map(|of| of.0 - x).collect();
    let invert = |value: FieldElement| Option::from(value.invert()).unwrap_or(FieldElement::ZERO);
    invert_all(&mut slopes, FieldElement::ONE, invert);
    let sum = |(multiple, inverse): (&Point, FieldElement)| {
        let slope = (multiple.1 - y) * inverse;
        let sum_x = slope.square() - x - multiple.0;
        (sum_x, slope * (x - sum_x) - y)
    };
    multiples.iter().zip(slopes).map(sum).collect()
}

/// Returns a number below the group's order, derived from a label.
pub(crate) fn scalar(label: &[&[u8]]) -> Scalar {
    let digest = label
        .iter()
        .fold(Sha256::new(), |hash, part| hash.chain_update(part));
    reduced(digest.finalize().into())
}

fn reduced(bytes: [u8; 32]) -> Scalar {
    <Scalar as Reduce<U256>>::reduce_bytes(&FieldBytes::from(bytes))
}

/// Key pair.
#[derive(Clone, Debug)]
pub struct Key {
    secret: Scalar,
    /// Public point, uncompressed: 0x04, x, y.
    pub public: [u8; 65],
}

impl Key {
    /// Returns the first `count` keys of a seed.
    pub fn all(seed: u64, count: usize) -> Vec<Self> {
        let mut keys = Vec::with_capacity(count);
        let mut secret = scalar(&[b"keys", &seed.to_be_bytes()]);
        while keys.len() < count {
            for (x, y) in consecutive(&secret.clone(), TABLE.min(count - keys.len())) {
                secret += Scalar::ONE;
                let mut public = [4; 65];
                public[1..33].copy_from_slice(&x.to_repr());
                public[33..].copy_from_slice(&y.to_repr());
                keys.push(Self { secret, public });
            }
        }
        keys
    }

    /// Returns the key pair in PKCS #8 and PEM, as in a keystore.
    pub fn pem(&self) -> String {
        let scalar = p256::elliptic_curve::ScalarPrimitive::from(self.secret);
        let pem = p256::SecretKey::new(scalar).to_pkcs8_pem(LineEnding::LF);
        pem.expect("a valid key can be encoded").to_string()
    }
}

/// Signature with s in the lower half.
#[derive(Clone, Copy, Debug)]
pub struct Signature {
    r: Scalar,
    s: Scalar,
}

impl Signature {
    /// Returns the signature with s in the upper half: it is mathematically valid, and Fabric refuses it.
    pub fn high_s(self) -> Self {
        Self { s: -self.s, ..self }
    }

    /// Returns the signature in DER.
    pub fn der(self) -> Vec<u8> {
        let mut der = Vec::with_capacity(72);
        der.extend([0x30, 0]);
        for number in [self.r, self.s] {
            let bytes: [u8; 32] = number.to_bytes().into();
            let zeros = bytes.iter().take_while(|&&byte| byte == 0).count();
            let bytes = &bytes[zeros..];
            let sign = bytes.first().is_none_or(|&byte| byte >= 0x80);
            der.extend([2, bytes.len() as u8 + u8::from(sign)]);
            der.extend(sign.then_some(0));
            der.extend(bytes);
        }
        der[1] = der.len() as u8 - 2;
        der
    }
}

/// Signs each digest with its key. The label determines the nonces, so each batch of a seed must have a different
/// label.
pub(crate) fn sign_all(label: &[&[u8]], claims: &[(&Key, [u8; 32])]) -> Vec<Signature> {
    let mut nonce = scalar(label);
    let mut signatures = Vec::with_capacity(claims.len());
    for claims in claims.chunks(TABLE) {
        let points = consecutive(&nonce, claims.len());
        let mut inverses: Vec<Scalar> = Vec::with_capacity(claims.len());
        for _ in claims {
            nonce += Scalar::ONE;
            inverses.push(nonce);
        }
        let invert = |value: Scalar| Option::from(value.invert()).unwrap_or(Scalar::ZERO);
        invert_all(&mut inverses, Scalar::ONE, invert);
        let all = claims.iter().zip(points).zip(inverses);
        signatures.extend(all.map(|(((key, digest), (x, _)), inverse)| {
            let r = reduced(x.to_repr().into());
            let s = (reduced(*digest) + r * key.secret) * inverse;
            let upper = p256::elliptic_curve::scalar::IsHigh::is_high(&s);
            Signature {
                r,
                s: if upper.into() { -s } else { s },
            }
        }));
    }
    signatures
}

#[cfg(test)]
mod tests {
    use super::*;
    use p256::ecdsa::signature::hazmat::PrehashVerifier;
    use p256::ecdsa::{Signature as Other, VerifyingKey};

    #[test]
    fn signatures_are_accepted_by_another_implementation() {
        let keys = Key::all(7, TABLE + 3);
        let digest = |number: usize| -> [u8; 32] { Sha256::digest(number.to_be_bytes()).into() };
        let claims: Vec<_> = keys.iter().enumerate().map(|(n, key)| (key, digest(n))).collect();
        let signatures = sign_all(&[b"test"], &claims);
        assert_eq!(signatures.len(), claims.len());
        for (number, ((key, digest), signature)) in claims.iter().zip(&signatures).enumerate() {
            if number % 97 != 0 && number < TABLE - 2 {
                continue;
            }
            let key = VerifyingKey::from_sec1_bytes(&key.public).unwrap();
            let low = Other::from_der(&signature.der()).unwrap();
            assert!(key.verify_prehash(digest, &low).is_ok(), "signature {number}");
            assert!(low.normalize_s().is_none());
            let high = Other::from_der(&signature.high_s().der()).unwrap();
            assert!(high.normalize_s().is_some());
        }
    }
}
