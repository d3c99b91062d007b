//! The backend `library`: verification by other libraries, one signature at a time. Tests and benchmarks compare the
//! other backends with it; programs do not need it at run time.

use crate::curve::Curve;
use crate::key::PublicKey;
use aws_lc_rs::digest::{Digest, SHA256};
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};
use secp256k1::{Message, SECP256K1, ecdsa};

/// Returns true if r and s, big-endian, are a valid signature of the digest. The function encodes the key and lets the
/// library decode it for each signature, as in a program that stores encoded keys.
pub(crate) fn verify(key: &PublicKey, digest: &[u8; 32], r: &[u8; 32], s: &[u8; 32]) -> bool {
    let mut signature = [0; 64];
    signature[..32].copy_from_slice(r);
    signature[32..].copy_from_slice(s);
    let point = key.to_sec1_uncompressed();
    match key.curve() {
        Curve::P256 => verify_p256(&point, digest, &signature),
        Curve::Secp256k1 => verify_secp256k1(&point, digest, &signature),
    }
}

/// Verifies a signature with aws-lc-rs. The library accepts a digest only together with the name of its hash function.
/// ECDSA does not depend on the function, so any 256-bit hash can be named.
fn verify_p256(point: &[u8; 65], digest: &[u8; 32], signature: &[u8; 64]) -> bool {
    let Ok(digest) = Digest::import_less_safe(digest, &SHA256) else {
        return false;
    };
    UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point)
        .verify_digest(&digest, signature)
        .is_ok()
}

/// Verifies a signature with libsecp256k1. The library rejects a high s (above n/2), which this crate refuses only if
/// the options demand it, so the function replaces a high s by n - s.
fn verify_secp256k1(point: &[u8; 65], digest: &[u8; 32], signature: &[u8; 64]) -> bool {
    let key = secp256k1::PublicKey::from_slice(point);
    let (Ok(key), Ok(mut signature)) = (key, ecdsa::Signature::from_compact(signature)) else {
        return false;
    };
    signature.normalize_s();
    SECP256K1
        .verify_ecdsa(&Message::from_digest(*digest), &signature, &key)
        .is_ok()
}
