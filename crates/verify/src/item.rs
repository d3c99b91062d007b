//! What is verified, and what comes of it.

use crate::encoding::{Signature, SignatureError, compact, der};
use crate::key::PublicKey;

/// A signature, in one of the forms in which they come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum SignatureBytes<'a> {
    /// `r || s`, 64 bytes: [`compact::parse`].
    Compact(&'a [u8]),
    /// DER, as BIP 66 wants it: [`der::parse_strict`].
    Der(&'a [u8]),
    /// DER, as Go's `encoding/asn1` takes it, and so Hyperledger Fabric: [`der::parse_go`].
    GoDer(&'a [u8]),
    /// Parsed already.
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

/// One signature to verify. The items of a batch may differ in everything.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Item<'a> {
    /// Who is said to have signed; says the curve, too.
    pub key: &'a PublicKey,
    /// The digest that was signed, of SHA-256 or another hash of 256 bits; of others, [`leftmost_256_bits`].
    pub digest: [u8; 32],
    /// The signature.
    pub signature: SignatureBytes<'a>,
}

/// What there is to say about one signature.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Verdict {
    /// The key's owner signed the digest.
    Valid,
    /// Not this digest, or not this key; or r or s is not in `[1, n-1]`, for n the curve's order.
    Invalid,
    /// s is above n/2, and [`Options::low_s`](crate::Options::low_s) is set. Not looked at further.
    HighS,
    /// The bytes are no signature.
    Malformed(SignatureError),
}

impl Verdict {
    /// Whether this is [`Verdict::Valid`].
    pub fn is_valid(self) -> bool {
        self == Verdict::Valid
    }
}

/// What ECDSA over a curve of 256 bits signs of a digest of any length: the leftmost 256 bits of a longer one, a
/// shorter one as the same number (FIPS 186-5 section 6.4.2).
pub fn leftmost_256_bits(digest: &[u8]) -> [u8; 32] {
    let taken = digest.len().min(32);
    let mut bits = [0; 32];
    bits[32 - taken..].copy_from_slice(&digest[..taken]);
    bits
}
