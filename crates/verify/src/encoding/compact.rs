//! Compact encoding of a signature, `r || s`: two numbers of 32 bytes, big-endian, and nothing else.
//!
//! IEEE 1363 defines this encoding as the concatenation of r and s (P1363 in Wycheproof); RFC 7518 section 3.4 uses it
//! for ES256.

use super::{Signature, SignatureError};

/// Number of bytes of a compact signature.
pub const BYTES: usize = 64;

/// Parses `r || s`. Returns [`SignatureError::CompactLength`] unless there are 64 bytes; any 64 bytes are accepted.
pub fn parse(bytes: &[u8]) -> Result<Signature, SignatureError> {
    let error = SignatureError::CompactLength { bytes: bytes.len() };
    let (r, s) = bytes.split_first_chunk::<32>().ok_or(error)?;
    let s = s.try_into().map_err(|_| error)?;
    Ok(Signature { r: *r, s })
}

/// Returns the compact encoding of a signature, `r || s`.
pub fn write(signature: &Signature) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    let (r, s) = bytes.split_at_mut(32);
    r.copy_from_slice(&signature.r);
    s.copy_from_slice(&signature.s);
    bytes
}
