//! Encodings of signatures and public keys.
//!
//! A parser rejects malformed bytes and returns the reason. It checks the form only: the engine checks that r and s
//! lie in `[1, n-1]`, that coordinates are below p, and that a point lies on its curve.
//!
//! | module | is | source |
//! |---|---|---|
//! | [`compact`] | `r \|\| s`, 64 bytes | IEEE 1363, also RFC 7518 section 3.4 |
//! | [`der`] | `SEQUENCE { r INTEGER, s INTEGER }`, strict or as Go parses it | RFC 3279 section 2.2.3, X.690 |
//! | [`sec1`] | points, 33 or 65 bytes | SEC 1 section 2.3.4 |
//!
//! The rule of low s does not concern the encoding: `s` and `n - s` are encoded alike. A caller that accepts only the
//! lower one has a policy, and compares after parsing.

pub mod compact;
pub mod der;
pub mod sec1;

use thiserror::Error;

/// An ECDSA signature's two numbers for a group order of 256 bits, not yet known to be in `[1, n-1]`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Signature {
    /// r, 32 bytes, big-endian.
    pub r: [u8; 32],
    /// s, 32 bytes, big-endian.
    pub s: [u8; 32],
}

/// The part of a DER signature at fault.
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
    /// No bytes at all.
    #[error("no bytes")]
    Empty,
    /// The SEQUENCE ends where this INTEGER should begin.
    #[error("{0} is missing: the SEQUENCE ends before it")]
    Missing(Part),
    /// The length or the content extends past the bytes, or past the SEQUENCE.
    #[error("{0} is cut short")]
    Truncated(Part),
    /// Another identifier octet than 0x30 (SEQUENCE) or 0x02 (INTEGER); X.690 sections 8.1.2, 8.3.1, 8.9.1.
    #[error("{part} begins with 0x{found:02x}, not with its tag")]
    WrongTag {
        /// The part that was expected.
        part: Part,
        /// The identifier octet there.
        found: u8,
    },
    /// The length octet 0x80: content up to an end mark, which DER does not have (X.690 section 10.1).
    #[error("{0} has an indefinite length")]
    LengthIndefinite(Part),
    /// More length octets than the length needs (X.690 section 10.1).
    #[error("{0} has a length encoded in more octets than needed")]
    LengthNotMinimal(Part),
    /// A length of 2^31 bytes or more, without regard to the bytes that follow.
    #[error("{0} has a length of 2^31 bytes or more")]
    LengthTooLarge(Part),
    /// An INTEGER without bytes (X.690 section 8.3.1 requires at least one).
    #[error("{0} is empty")]
    IntegerEmpty(Part),
    /// The first nine bits are equal (X.690 section 8.3.2).
    #[error("{0} has an unnecessary leading byte")]
    IntegerNotMinimal(Part),
    /// Below zero (X.690 section 8.3.3: two's complement).
    #[error("{0} is negative")]
    IntegerNegative(Part),
    /// 2^256 or more.
    #[error("{0} does not fit in 32 bytes")]
    IntegerTooLarge(Part),
    /// Bytes inside the SEQUENCE after s, whether an element or not.
    #[error("bytes inside the SEQUENCE after s")]
    TrailingInside,
    /// Bytes after the SEQUENCE.
    #[error("bytes after the SEQUENCE")]
    TrailingAfter,
    /// Not the 64 bytes of [`compact`].
    #[error("{bytes} bytes, a compact signature has 64")]
    CompactLength {
        /// Number of bytes given.
        bytes: usize,
    },
}

/// Reason why bytes are not the encoding of a point.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Error)]
#[non_exhaustive]
pub enum PointError {
    /// No bytes at all.
    #[error("no bytes")]
    Empty,
    /// The one byte 0x00: the point at infinity, which is not a public key (SEC 1 section 3.2.2.1).
    #[error("the point at infinity")]
    Infinity,
    /// 0x06 or 0x07: the hybrid form of X9.62, which SEC 1 does not have.
    #[error("the hybrid form of a point, which is not supported")]
    Hybrid,
    /// A first byte that no form has.
    #[error("the first byte is 0x{found:02x}, which is not the form of a point")]
    UnknownForm {
        /// The first byte.
        found: u8,
    },
    /// The number of bytes does not match the first byte.
    #[error("{bytes} bytes, a point that begins like this has {expected}")]
    WrongLength {
        /// Number of bytes given.
        bytes: usize,
        /// Number of bytes required, the first included.
        expected: usize,
    },
}
