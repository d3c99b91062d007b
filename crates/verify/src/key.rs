//! Public keys: points that were checked to be on their curve.

use crate::curve::{Curve, P256, Secp256k1};
use crate::encoding::PointError;
use crate::encoding::sec1::{self, COMPRESSED_BYTES, Encoded, UNCOMPRESSED_BYTES};
use crate::lanes::Lanes;
use crate::portable::{Portable, Reduction};
use crate::uint::{ONE, U256, add, at_least, from_be_bytes, sub, to_be_bytes};
use thiserror::Error;

/// A public key: a curve and a point on it, never the point at infinity.
///
/// Keys are compared by their points: two keys with the same point are equal, whatever their encodings were.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct PublicKey {
    curve: Curve,
    x: U256,
    y: U256,
}

/// Reason why bytes are not a public key.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The bytes do not have the form of a point.
    #[error("the public key is malformed: {0}")]
    Malformed(#[from] PointError),
    /// A coordinate is not below the field's prime p. SEC 1 section 2.3.4 requires this, so that an element has only
    /// one encoding.
    #[error("a coordinate of the public key is not below the field's prime")]
    CoordinateTooLarge,
    /// No point of the curve has these coordinates or, for a compressed point, this x.
    #[error("the public key is not on the curve")]
    NotOnCurve,
}

impl PublicKey {
    /// Decodes a key by SEC 1 section 2.3.4: 65 bytes that begin with 0x04, or 33 bytes that begin with 0x02 or 0x03.
    ///
    /// Only this function checks that the point is on the curve. For a compressed key it also computes a square root,
    /// which takes 254 squarings.
    pub fn from_sec1(curve: Curve, bytes: &[u8]) -> Result<Self, KeyError> {
        let (x, y) = match curve {
            Curve::P256 => point::<P256>(&sec1::parse(bytes)?)?,
            Curve::Secp256k1 => point::<Secp256k1>(&sec1::parse(bytes)?)?,
        };
        Ok(Self { curve, x, y })
    }

    /// Returns the curve of the key.
    pub fn curve(&self) -> Curve {
        self.curve
    }

    /// Returns the encoding 0x04, x, y; the coordinates are big-endian (SEC 1 section 2.3.3).
    pub fn to_sec1_uncompressed(&self) -> [u8; UNCOMPRESSED_BYTES] {
        let mut bytes = [0x04; UNCOMPRESSED_BYTES];
        bytes[1..33].copy_from_slice(&to_be_bytes(&self.x));
        bytes[33..].copy_from_slice(&to_be_bytes(&self.y));
        bytes
    }

    /// Returns the compressed encoding: 0x02 if y is even, otherwise 0x03, and then x, big-endian (SEC 1 section
    /// 2.3.3).
    pub fn to_sec1_compressed(&self) -> [u8; COMPRESSED_BYTES] {
        let mut bytes = [0x02 | (self.y[0] & 1) as u8; COMPRESSED_BYTES];
        bytes[1..].copy_from_slice(&to_be_bytes(&self.x));
        bytes
    }

    /// Creates a key without checks, for tests that only compare keys.
    #[cfg(test)]
    pub(crate) fn unchecked(curve: Curve, x: U256, y: U256) -> Self {
        Self { curve, x, y }
    }

    /// Returns the plain coordinates of the point.
    pub(crate) fn point(&self) -> (U256, U256) {
        (self.x, self.y)
    }
}

impl std::fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PublicKey({:?}, ", self.curve)?;
        for byte in self.to_sec1_compressed() {
            write!(f, "{byte:02x}")?;
        }
        write!(f, ")")
    }
}

fn point<C: Reduction>(encoded: &Encoded) -> Result<(U256, U256), KeyError> {
    let below_p = |bytes| {
        let value = from_be_bytes(bytes);
        if at_least(&value, &C::P) {
            Err(KeyError::CoordinateTooLarge)
        } else {
            Ok(value)
        }
    };
    let l = Portable::<C>::new();
    match encoded {
        Encoded::Uncompressed { x, y } => {
            let (x, y) = (below_p(x)?, below_p(y)?);
            let square = l.sqr(&l.splat(&y));
            if square == right_side::<C>(&l.splat(&x)) {
                Ok((x, y))
            } else {
                Err(KeyError::NotOnCurve)
            }
        }
        Encoded::Compressed { x, y_is_odd } => {
            let x = below_p(x)?;
            let root = square_root::<C>(&right_side::<C>(&l.splat(&x))).ok_or(KeyError::NotOnCurve)?;
            let mut plain = [ONE];
            l.store(&root, &mut plain);
            let [y] = plain;
            // y is not zero, because the order is odd and so no point is its own negative. One of y and p - y is odd.
            Ok((
                x,
                if (y[0] & 1 == 1) == *y_is_odd {
                    y
                } else {
                    sub(&C::P, &y).0
                },
            ))
        }
    }
}

/// Returns x³ + ax + b, the right side of the curve's equation.
fn right_side<C: Reduction>(x: &U256) -> U256 {
    let l = Portable::<C>::new();
    let mut sum = l.raw_add(&l.mul(&l.sqr(x), x), &l.splat(&C::B));
    if C::A_IS_MINUS_3 {
        for _ in 0..3 {
            sum = l.raw_sub(&sum, x);
        }
    }
    sum
}

/// Returns a square root of `a`; `None` if `a` is not a square. The root is `a^((p + 1)/4)`, because the primes of both
/// curves are 3 modulo 4.
fn square_root<C: Reduction>(a: &U256) -> Option<U256> {
    let l = Portable::<C>::new();
    let (exponent, _) = add(&C::P, &ONE);
    let mut root = l.splat(&ONE);
    for bit in (2..256).rev() {
        root = l.sqr(&root);
        if exponent[bit / 64] >> (bit % 64) & 1 == 1 {
            root = l.mul(&root, a);
        }
    }
    (l.sqr(&root) == *a).then_some(root)
}
