//! ECDSA over P-224, P-384 and P-521, one signature at a time. Few identities have keys over these curves, so there is
//! neither a batch nor a table for them. P-256 is implemented in the crate `verify`.

use crate::der::{Reader, tag};
use p384::ecdsa::signature::hazmat::PrehashVerifier;
use std::fmt;

/// secp224r1: 1.3.132.0.33.
const P224: &[u8] = &[0x2b, 0x81, 0x04, 0x00, 0x21];
/// secp384r1: 1.3.132.0.34.
const P384: &[u8] = &[0x2b, 0x81, 0x04, 0x00, 0x22];
/// secp521r1: 1.3.132.0.35.
const P521: &[u8] = &[0x2b, 0x81, 0x04, 0x00, 0x23];
/// Size of a number below the order of P-224, of P-384 and of P-521, in bytes.
const P224_BYTES: usize = 28;
const P384_BYTES: usize = 48;
const P521_BYTES: usize = 66;

/// Public key over another NIST curve than P-256.
#[derive(Clone)]
pub enum OtherCurveKey {
    /// A key over P-224.
    P224(p224::ecdsa::VerifyingKey),
    /// A key over P-384.
    P384(p384::ecdsa::VerifyingKey),
    /// A key over P-521.
    P521(p521::ecdsa::VerifyingKey),
}

impl fmt::Debug for OtherCurveKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::P224(_) => "a key over P-224",
            Self::P384(_) => "a key over P-384",
            Self::P521(_) => "a key over P-521",
        })
    }
}

/// Returns true if the identifier of a curve is that of P-224, P-384 or P-521.
pub(crate) fn is_other_curve(curve: &[u8]) -> bool {
    [P224, P384, P521].contains(&curve)
}

/// A parsed DER signature: two positive numbers, big endian, without leading zeros.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct DerSignature {
    r: Vec<u8>,
    s: Vec<u8>,
}

impl DerSignature {
    /// Parses a signature as peers parse the signatures of members: bytes after the two numbers are ignored.
    pub fn parse_go(bytes: &[u8]) -> Option<Self> {
        Self::parse(bytes).map(|(numbers, _)| numbers)
    }

    /// Parses a signature as Go's `crypto/ecdsa` does for certificates: bytes after the two numbers are an error.
    pub fn parse_strict(bytes: &[u8]) -> Option<Self> {
        Self::parse(bytes).and_then(|(numbers, is_all)| is_all.then_some(numbers))
    }

    fn parse(bytes: &[u8]) -> Option<(Self, bool)> {
        let mut outer = Reader::new(bytes);
        let mut inner = outer.inside(tag::SEQUENCE)?;
        let numbers = Self {
            r: magnitude(inner.integer()?)?,
            s: magnitude(inner.integer()?)?,
        };
        Some((numbers, inner.is_empty() && outer.is_empty()))
    }
}

/// Returns the bytes of a positive number from the content of a minimal INTEGER.
fn magnitude(content: &[u8]) -> Option<Vec<u8>> {
    match content {
        [] | [0] | [0x80..=0xff, ..] => None,
        [0, rest @ ..] => Some(rest.to_vec()),
        all => Some(all.to_vec()),
    }
}

/// Pads a number with leading zeros; `None` if it is too long.
fn padded<const N: usize>(number: &[u8]) -> Option<[u8; N]> {
    let mut padded = [0; N];
    let from = N.checked_sub(number.len())?;
    padded.get_mut(from..)?.copy_from_slice(number);
    Some(padded)
}

/// Returns r and s one after the other, each padded to `N` bytes, which is the form that the library takes. `N` is the
/// size of the curve's order, in bytes.
fn concatenated<const N: usize>(numbers: &DerSignature) -> Option<Vec<u8>> {
    Some([padded::<N>(&numbers.r)?, padded::<N>(&numbers.s)?].concat())
}

/// Evaluates an expression for the curve of a key. In the expression, `Signature` is the library's type for that curve,
/// and `BYTES` is the size of r and of s, in bytes.
macro_rules! by_curve {
    ($of:expr, $key:pat => $body:expr) => {
        match $of {
            Self::P224($key) => {
                use p224::ecdsa::Signature;
                const BYTES: usize = P224_BYTES;
                $body
            }
            Self::P384($key) => {
                use p384::ecdsa::Signature;
                const BYTES: usize = P384_BYTES;
                $body
            }
            Self::P521($key) => {
                use p521::ecdsa::Signature;
                const BYTES: usize = P521_BYTES;
                $body
            }
        }
    };
}

impl OtherCurveKey {
    /// Parses a point of the curve with this identifier in uncompressed form; `None` if it is invalid.
    pub fn from_sec1(curve: &[u8], point: &[u8]) -> Option<Self> {
        // Go accepts only the uncompressed form.
        if point.first() != Some(&4) {
            return None;
        }
        match curve {
            P224 => p224::ecdsa::VerifyingKey::from_sec1_bytes(point)
                .ok()
                .map(Self::P224),
            P384 => p384::ecdsa::VerifyingKey::from_sec1_bytes(point)
                .ok()
                .map(Self::P384),
            P521 => p521::ecdsa::VerifyingKey::from_sec1_bytes(point)
                .ok()
                .map(Self::P521),
            _ => None,
        }
    }

    /// Returns whether s is at most half of the order, which peers require of members. Returns false for numbers that
    /// are not a signature over this curve.
    pub(crate) fn is_low_s(&self, numbers: &DerSignature) -> bool {
        by_curve!(self, _ => {
            let signature = concatenated::<BYTES>(numbers).and_then(|bytes| Signature::from_slice(&bytes).ok());
            signature.is_some_and(|signature| signature.normalize_s().is_none())
        })
    }

    /// Returns whether the signature is valid for a digest, which may have any length.
    pub(crate) fn verify(&self, digest: &[u8], numbers: &DerSignature) -> bool {
        by_curve!(self, key => {
            let signature = concatenated::<BYTES>(numbers).and_then(|bytes| Signature::from_slice(&bytes).ok());
            signature
                .zip(leftmost_bytes::<BYTES>(digest))
                .is_some_and(|(signature, digest)| key.verify_prehash(&digest, &signature).is_ok())
        })
    }

    /// Returns the signature in DER with a low s; `None` if its s is low already, or the numbers are not a signature.
    pub(crate) fn with_low_s(&self, numbers: &DerSignature) -> Option<Vec<u8>> {
        by_curve!(self, _ => {
            let signature = Signature::from_slice(&concatenated::<BYTES>(numbers)?).ok()?;
            Some(signature.normalize_s()?.to_der().as_bytes().to_vec())
        })
    }
}

/// Returns the leftmost bytes of a digest, with leading zeros if it is shorter: the library rejects digests shorter
/// than half of the order.
fn leftmost_bytes<const N: usize>(digest: &[u8]) -> Option<[u8; N]> {
    padded(digest.get(..N).unwrap_or(digest))
}
