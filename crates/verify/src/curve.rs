//! The two curves and their constants.

use crate::uint::{U256, from_be_bytes};

/// A curve of the form y² = x³ + ax + b, of prime order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Curve {
    /// NIST P-256, also secp256r1 and prime256v1; FIPS 186-5, SP 800-186 section 3.2.1.3.
    P256,
    /// secp256k1; SEC 2 version 2, section 2.4.1.
    Secp256k1,
}

/// Parameters of a curve. The arithmetic is generic over this trait.
pub(crate) trait Params: Copy + Send + Sync + 'static {
    const CURVE: Curve;
    /// Prime p of the field.
    const P: U256;
    /// Order n of the group, a prime.
    const N: U256;
    /// True if the coefficient a is -3; false if it is 0.
    const A_IS_MINUS_3: bool;
    /// Coefficient b.
    const B: U256;
    /// Coordinates x and y of the generator.
    const G: (U256, U256);
    /// True for secp256k1, whose endomorphism the module `endomorphism` uses.
    const HAS_ENDOMORPHISM: bool;
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct P256;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Secp256k1;

impl Params for P256 {
    const CURVE: Curve = Curve::P256;
    const P: U256 = hex("ffffffff00000001000000000000000000000000ffffffffffffffffffffffff");
    const N: U256 = hex("ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551");
    const A_IS_MINUS_3: bool = true;
    const B: U256 = hex("5ac635d8aa3a93e7b3ebbd55769886bc651d06b0cc53b0f63bce3c3e27d2604b");
    const G: (U256, U256) = (
        hex("6b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296"),
        hex("4fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5"),
    );
    const HAS_ENDOMORPHISM: bool = false;
}

impl Params for Secp256k1 {
    const CURVE: Curve = Curve::Secp256k1;
    const P: U256 = hex("fffffffffffffffffffffffffffffffffffffffffffffffffffffffefffffc2f");
    const N: U256 = hex("fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141");
    const A_IS_MINUS_3: bool = false;
    const B: U256 = [7, 0, 0, 0];
    const G: (U256, U256) = (
        hex("79be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798"),
        hex("483ada7726a3c4655da4fbfc0e1108a8fd17b448a68554199c47d08ffb10d4b8"),
    );
    const HAS_ENDOMORPHISM: bool = true;
}

/// Parses 64 hexadecimal digits, as the standards print them.
pub(crate) const fn hex(digits: &str) -> U256 {
    let digits = digits.as_bytes();
    assert!(digits.len() == 64);
    let mut bytes = [0; 32];
    let mut i = 0;
    while i < 64 {
        let digit = match digits[i] {
            d @ b'0'..=b'9' => d - b'0',
            d @ b'a'..=b'f' => d - b'a' + 10,
            _ => panic!("the text contains a character that is not a hexadecimal digit"),
        };
        bytes[i / 2] = bytes[i / 2] << 4 | digit;
        i += 1;
    }
    from_be_bytes(&bytes)
}
