//! Items to verify (a signature, a digest and a key), and their verdicts.

use crate::encoding::{Signature, SignatureError, compact, der};
use crate::key::PublicKey;

/// A signature in one of its encodings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum SignatureBytes<'a> {
    /// Compact encoding `r || s` of 64 bytes, parsed by [`compact::parse`].
    Compact(&'a [u8]),
    /// DER as BIP 66 requires it, parsed by [`der::parse_strict`].
    Der(&'a [u8]),
    /// DER as Go's `encoding/asn1` and therefore Hyperledger Fabric accept it, parsed by [`der::parse_go`].
    GoDer(&'a [u8]),
    /// Signature that the caller has parsed already.
    Parsed(Signature),
}

impl SignatureBytes<'_> {
    #[inline]
    pub(crate) fn parse(&self) -> Result<Signature, SignatureError> {
        match self {
            SignatureBytes::Compact(bytes) => compact::parse(bytes),
            SignatureBytes::Der(bytes) => der::parse_strict(bytes),
            SignatureBytes::GoDer(bytes) => der::parse_go(bytes),
            SignatureBytes::Parsed(signature) => Ok(*signature),
        }
    }
}

/// One signature to verify. The items of a batch may have different keys, curves, digests and encodings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Item<'a> {
    /// Key of the claimed signer, which also determines the curve.
    pub key: &'a PublicKey,
    /// The signed digest, of SHA-256 or another 256-bit hash. For digests of other lengths, see [`leftmost_256_bits`].
    pub digest: [u8; 32],
    /// The signature.
    pub signature: SignatureBytes<'a>,
}

/// Verdict on one signature.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Verdict {
    /// The signature is valid: the key's owner has signed the digest.
    Valid,
    /// The signature is not valid: it belongs to another digest or key, or r or s is not in `[1, n-1]`, where n is the
    /// curve's order.
    Invalid,
    /// s is above n/2, and [`Options::low_s`](crate::Options::low_s) is set. Nothing else was checked.
    HighS,
    /// The bytes are not a signature.
    Malformed(SignatureError),
}

impl Verdict {
    /// Returns true for [`Verdict::Valid`].
    pub fn is_valid(self) -> bool {
        self == Verdict::Valid
    }
}

/// Converts a digest of any length for ECDSA over a curve of 256 bits (FIPS 186-5 section 6.4.2): of a longer digest
/// the function returns the leftmost 256 bits; a shorter digest is extended by zeros in front, so that the number stays
/// the same.
pub fn leftmost_256_bits(digest: &[u8]) -> [u8; 32] {
    let taken = digest.len().min(32);
    let mut bits = [0; 32];
    bits[32 - taken..].copy_from_slice(&digest[..taken]);
    bits
}
