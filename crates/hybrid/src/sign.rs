//! Digests: the bytes that are hashed, their domain-separation tags, and the signatures over them.

use crate::request::{DatabaseId, SIGNATURE_BYTES};
use lineside_verify::hash::{keccak256, sha256};
use lineside_verify::{Curve, Item, PublicKey, SignatureBytes, Verifier};

/// Prefix of the digest of a request.
pub const REQUEST_TAG: &[u8] = b"lineside/hybrid/1";
/// Prefix of the digest of a log message.
pub const MESSAGE_TAG: &[u8] = b"lineside/hybrid/message/1";
/// Prefix of the hash of a block.
pub const BLOCK_TAG: &[u8] = b"lineside/hybrid/block/1";
/// Prefix of the digest of a signed head.
pub const HEAD_TAG: &[u8] = b"lineside/hybrid/head/1";
/// Prefix of the digest of a member's attestation.
pub const ATTESTATION_TAG: &[u8] = b"lineside/hybrid/word/1";

/// Signs digests with a secret that this crate never sees. A signature has 64 bytes, `r || s`, with s at most half
/// the curve's order.
pub trait Signer: Send + Sync {
    /// Curve of the key.
    fn curve(&self) -> Curve;
    /// Signs a digest.
    fn sign(&self, digest: &[u8; 32]) -> [u8; SIGNATURE_BYTES];
}

/// Digest that a key of this curve signs: Keccak-256 for secp256k1, SHA-256 for P-256.
pub fn digest(curve: Curve, bytes: &[u8]) -> [u8; 32] {
    match curve {
        Curve::Secp256k1 => keccak256(bytes),
        Curve::P256 => sha256(bytes),
    }
}

/// Digest of a request that a key of this curve signs.
pub fn request_digest(curve: Curve, signed: &[u8]) -> [u8; 32] {
    digest(curve, &[REQUEST_TAG, signed].concat())
}

/// Returns true if the key has signed the digest; `verifier` refuses a high s.
pub(crate) fn is_signed(
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

/// Id of a transaction: Keccak-256 of the signed bytes, independent of the signature.
pub fn transaction_id(signed: &[u8]) -> [u8; 32] {
    keccak256(&[REQUEST_TAG, signed].concat())
}

/// Digest of a log message with this [`transactions_hash`](crate::block::transactions_hash).
pub fn message_digest(curve: Curve, database: &DatabaseId, hash: &[u8; 32]) -> [u8; 32] {
    digest(curve, &[MESSAGE_TAG, database, hash].concat())
}

/// Signs a request. Returns the bytes to send.
pub fn sign_request(signer: &dyn Signer, signed: &[u8]) -> Vec<u8> {
    let signature = signer.sign(&request_digest(signer.curve(), signed));
    [&signature, signed].concat()
}
