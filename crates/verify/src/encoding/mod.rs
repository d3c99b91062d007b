//! Encodings of signatures and public keys.
//!
//! A parser rejects malformed bytes and returns the reason. It checks the form only. The engine checks that r and s are
//! in `[1, n-1]`; [`PublicKey::from_sec1`](crate::PublicKey::from_sec1) checks that coordinates are below p, and that a
//! point is on its curve.
//!
//! | module | encoding | source |
//! |---|---|---|
//! | [`compact`] | `r \|\| s`, 64 bytes | IEEE 1363, also RFC 7518 section 3.4 |
//! | [`der`] | `SEQUENCE { r INTEGER, s INTEGER }`, strict or as Go parses it | RFC 3279 section 2.2.3, X.690 |
//! | [`sec1`] | points, 33 or 65 bytes | SEC 1 section 2.3.4 |
//!
//! The rule that s must be low (at most n/2) does not concern the encoding: `s` and `n - s` are encoded in the same
//! way. A caller that accepts only a low s compares it with n/2 after parsing.

pub mod compact;
pub mod der;
pub mod sec1;

use thiserror::Error;

/// The two numbers of an ECDSA signature for a group order of 256 bits. They may be outside of `[1, n-1]`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Signature {
    /// Number r, in 32 bytes, big-endian.
    pub r: [u8; 32],
    /// Number s, in 32 bytes, big-endian.
    pub s: [u8; 32],
}

/// Part of a DER signature that has a defect.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Part {
    /// The SEQUENCE around both numbers.
    Sequence,
    /// The INTEGER r, the first in the SEQUENCE.
    R,
    /// The INTEGER s, the second in the SEQUENCE.
    S,
}

impl std::fmt::Display for Part {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Part::Sequence => "the SEQUENCE",
            Part::R => "the INTEGER r",
            Part::S => "the INTEGER s",
        })
    }
}

/// Reason why bytes are not a signature: the first defect found.
///
/// Defects are found in the order of the bytes, with two exceptions: a number's value
/// ([`Negative`](Self::IntegerNegative), [`TooLarge`](Self::IntegerTooLarge)) is checked after the forms of both
/// numbers, and trailing bytes last.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Error)]
#[non_exhaustive]
pub enum SignatureError {
    /// The signature has no bytes.
    #[error("the signature has no bytes")]
    Empty,
    /// The SEQUENCE ends where this INTEGER should begin.
    #[error("{0} is missing: the SEQUENCE ends before it")]
    Missing(Part),
    /// The length or the content extends beyond the end of the bytes, or beyond the end of the SEQUENCE.
    #[error("{0} is incomplete: its bytes end too early")]
    Truncated(Part),
    /// The identifier octet is not 0x30 (SEQUENCE) or 0x02 (INTEGER), as required; X.690 sections 8.1.2, 8.3.1, 8.9.1.
    #[error("{part} begins with 0x{found:02x}, not with its tag")]
    WrongTag {
        /// Part of the signature that should begin there.
        part: Part,
        /// Identifier octet that was found.
        found: u8,
    },
    /// The length octet is 0x80, which means that the content ends with an end mark. DER does not allow this (X.690
    /// section 10.1).
    #[error("{0} has an indefinite length")]
    LengthIndefinite(Part),
    /// The length is encoded in more octets than it needs (X.690 section 10.1).
    #[error("{0} has a length encoded in more octets than needed")]
    LengthNotMinimal(Part),
    /// The length is 2^31 bytes or more; the number of bytes that follow is not considered.
    #[error("{0} has a length of 2^31 bytes or more")]
    LengthTooLarge(Part),
    /// The INTEGER has no bytes (X.690 section 8.3.1 requires at least one).
    #[error("{0} is empty")]
    IntegerEmpty(Part),
    /// The first nine bits of the INTEGER are equal, so its first byte is unnecessary (X.690 section 8.3.2).
    #[error("{0} has an unnecessary leading byte")]
    IntegerNotMinimal(Part),
    /// The INTEGER is below zero (X.690 section 8.3.3: two's complement).
    #[error("{0} is negative")]
    IntegerNegative(Part),
    /// The INTEGER is 2^256 or more.
    #[error("{0} does not fit in 32 bytes")]
    IntegerTooLarge(Part),
    /// There are bytes inside the SEQUENCE after s; they may or may not be an element.
    #[error("there are further bytes inside the SEQUENCE after s")]
    TrailingInside,
    /// There are bytes after the SEQUENCE.
    #[error("there are further bytes after the SEQUENCE")]
    TrailingAfter,
    /// The number of bytes is not 64, as [`compact`] requires.
    #[error("the signature has {bytes} bytes, but a compact signature has 64")]
    CompactLength {
        /// Number of bytes given.
        bytes: usize,
    },
}

/// Reason why bytes are not the encoding of a point.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Error)]
#[non_exhaustive]
pub enum PointError {
    /// The point has no bytes.
    #[error("the point has no bytes")]
    Empty,
    /// The only byte is 0x00, which encodes the point at infinity. It is not a public key (SEC 1 section 3.2.2.1).
    #[error("the bytes encode the point at infinity, which is not a public key")]
    Infinity,
    /// The first byte is 0x06 or 0x07: the hybrid form of X9.62, which SEC 1 does not have.
    #[error("the point has the hybrid form of X9.62, which is not supported")]
    Hybrid,
    /// The first byte belongs to no form of a point.
    #[error("the first byte is 0x{found:02x}, which is not the form of a point")]
    UnknownForm {
        /// The first byte.
        found: u8,
    },
    /// The number of bytes does not match the first byte.
    #[error("the point has {bytes} bytes, but a point with this first byte has {expected}")]
    WrongLength {
        /// Number of bytes given.
        bytes: usize,
        /// Number of bytes required, the first included.
        expected: usize,
    },
}
