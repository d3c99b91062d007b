//! Digests that are signed: their domain-separation tags, the hash functions, and the signatures over them.

use super::request::{DatabaseId, SIGNATURE_BYTES};
use lineside_verify::hash::{keccak256, sha256};
use lineside_verify::{Curve, Item, PublicKey, SignatureBytes, Verifier};

/// Tag in front of the signed bytes of a request, before they are hashed.
pub const REQUEST_TAG: &[u8] = b"lineside/hybrid/1";
/// Tag in front of the signed bytes of a log message, before they are hashed.
pub const MESSAGE_TAG: &[u8] = b"lineside/hybrid/message/1";
/// Tag in front of a block's header, before it is hashed.
pub const BLOCK_TAG: &[u8] = b"lineside/hybrid/block/1";
/// Tag in front of the content of a signed head, before it is hashed.
pub const HEAD_TAG: &[u8] = b"lineside/hybrid/head/1";
/// Tag in front of the content of a member's attestation, before it is hashed.
pub const ATTESTATION_TAG: &[u8] = b"lineside/hybrid/word/1";

/// Interface to a secret key that signs digests; this crate never sees the secret. A signature has 64 bytes, `r || s`,
/// with s at most half the curve's order.
pub trait Signer: Send + Sync {
    /// Curve of the key.
    fn curve(&self) -> Curve;
    /// Signs a digest.
    fn sign(&self, digest: &[u8; 32]) -> [u8; SIGNATURE_BYTES];
}

/// Hashes bytes with the hash function of a key's curve: Keccak-256 for secp256k1, SHA-256 for P-256.
pub fn digest(curve: Curve, bytes: &[u8]) -> [u8; 32] {
    match curve {
        Curve::Secp256k1 => keccak256(bytes),
        Curve::P256 => sha256(bytes),
    }
}

/// Returns the digest of a request that a key of this curve signs.
pub fn request_digest(curve: Curve, signed: &[u8]) -> [u8; 32] {
    digest(curve, &[REQUEST_TAG, signed].concat())
}

/// Returns true if the key has signed the digest. `verifier` refuses signatures whose s is above half the curve's
/// order.
pub fn is_signed(
    digest: &[u8; 32],
    key: &PublicKey,
    signature: &[u8; SIGNATURE_BYTES],
    verifier: &Verifier,
) -> bool {
    verifier
        .verify(&Item {
            key,
            digest: *digest,
            signature: SignatureBytes::Compact(signature),
        })
        .is_valid()
}

/// Returns the id of a transaction: Keccak-256 of the tag and the signed bytes. It does not depend on the signature.
pub fn transaction_id(signed: &[u8]) -> [u8; 32] {
    keccak256(&[REQUEST_TAG, signed].concat())
}

/// Returns the digest of a log message that has this [`transactions_hash`](super::block::transactions_hash).
pub fn message_digest(curve: Curve, database: &DatabaseId, hash: &[u8; 32]) -> [u8; 32] {
    digest(curve, &[MESSAGE_TAG, database, hash].concat())
}

/// Signs a request. Returns the bytes to send.
pub fn sign_request(signer: &dyn Signer, signed: &[u8]) -> Vec<u8> {
    let signature = signer.sign(&request_digest(signer.curve(), signed));
    [&signature, signed].concat()
}
