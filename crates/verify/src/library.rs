//! The backend `library`: verification by other libraries, one signature at a time. It is an oracle for tests and a
//! competitor in benchmarks; nothing needs it at run time.

use crate::curve::Curve;
use crate::key::PublicKey;
use aws_lc_rs::digest::{Digest, SHA256};
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};
use secp256k1::{Message, SECP256K1, ecdsa};

/// Returns true if r and s, big-endian, sign the digest. The key is decoded each time, as by a caller of the library
/// that keeps encoded keys.
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

/// Verifies with aws-lc-rs. It accepts a digest only with the name of a hash, which does not matter to ECDSA: any
/// 256-bit hash will do.
fn verify_p256(point: &[u8; 65], digest: &[u8; 32], signature: &[u8; 64]) -> bool {
    let Ok(digest) = Digest::import_less_safe(digest, &SHA256) else {
        return false;
    };
    UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point)
        .verify_digest(&digest, signature)
        .is_ok()
}

/// Verifies with libsecp256k1. It rejects a high s, which is a policy here, so it gets the lower one.
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
