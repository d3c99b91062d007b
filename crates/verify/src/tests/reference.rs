//! Second implementation of points, for comparison: RustCrypto's crates p256 and k256.

use super::words;
use crate::curve::{P256, Params, Secp256k1};
use crate::uint::{self, U256};
use num_bigint::BigUint;

/// Curve that the second implementation supports.
pub(super) trait Reference: Params {
    /// Returns `a·P + b·Q` for scalars below n, or `None` if the sum is the point at infinity. Panics unless the points
    /// are on the curve.
    fn combine(a: &U256, p: &(U256, U256), b: &U256, q: &(U256, U256)) -> Option<(U256, U256)>;

    fn multiply(a: &U256, p: &(U256, U256)) -> Option<(U256, U256)> {
        Self::combine(a, p, &uint::ZERO, p)
    }
}

macro_rules! reference {
    ($curve:ident, $krate:ident) => {
        impl Reference for $curve {
            fn combine(a: &U256, p: &(U256, U256), b: &U256, q: &(U256, U256)) -> Option<(U256, U256)> {
                use $krate::elliptic_curve::PrimeField;
                use $krate::elliptic_curve::sec1::{FromEncodedPoint, ToEncodedPoint};
                let scalar = |scalar: &U256| {
                    let scalar = $krate::Scalar::from_repr(uint::to_be_bytes(scalar).into());
                    Option::<$krate::Scalar>::from(scalar).expect("below n")
                };
                let point = |(x, y): &(U256, U256)| {
                    let (x, y) = (uint::to_be_bytes(x).into(), uint::to_be_bytes(y).into());
                    let encoded = $krate::EncodedPoint::from_affine_coordinates(&x, &y, false);
                    let point = Option::<$krate::AffinePoint>::from($krate::AffinePoint::from_encoded_point(
                        &encoded,
                    ));
                    $krate::ProjectivePoint::from(point.expect("the point is on the curve"))
                };
                let mut sum = point(p) * scalar(a);
                if !uint::is_zero(b) {
                    sum += point(q) * scalar(b);
                }
                let encoded = sum.to_affine().to_encoded_point(false);
                let coordinate = |bytes: &$krate::FieldBytes| uint::from_be_bytes(&(*bytes).into());
                Some((coordinate(encoded.x()?), coordinate(encoded.y()?)))
            }
        }
    };
}

reference! { P256, p256 }
reference! { Secp256k1, k256 }

/// Returns a point with this x; `None` if the curve has no such point. Because p is 3 modulo 4, a square root is the
/// power (p + 1)/4.
pub(super) fn lift_x<C: Params>(x: &BigUint) -> Option<(U256, U256)> {
    let p = super::big(&C::P);
    let a = if C::A_IS_MINUS_3 { &p - 3u32 } else { BigUint::ZERO };
    let square = (x * x % &p * x + a * x + super::big(&C::B)) % &p;
    let root = square.modpow(&((&p + 1u32) >> 2), &p);
    (&root * &root % &p == square).then(|| (words(x), words(&root)))
}
