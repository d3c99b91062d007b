//! What is hashed, under which words, and what a signature means.

use crate::request::{DatabaseId, SIGNATURE_BYTES};
use lineside_verify::hash::{keccak256, sha256};
use lineside_verify::{Curve, Item, PublicKey, SignatureBytes, Verifier};

/// Begins what the digest of a request covers.
pub const REQUEST_TAG: &[u8] = b"lineside/hybrid/1";
/// Begins what the digest of a log message covers.
pub const MESSAGE_TAG: &[u8] = b"lineside/hybrid/message/1";
/// Begins what a block's hash covers.
pub const BLOCK_TAG: &[u8] = b"lineside/hybrid/block/1";
/// Begins what the digest of a signed head covers.
pub const HEAD_TAG: &[u8] = b"lineside/hybrid/head/1";
/// Begins what the digest of a member's word covers.
pub const WORD_TAG: &[u8] = b"lineside/hybrid/word/1";

/// Signs a digest with a secret that this crate never sees: 64 bytes, `r || s`, s at most half the curve's order.
pub trait Signer: Send + Sync {
    /// The curve of its key.
    fn curve(&self) -> Curve;
    /// Signs.
    fn sign(&self, digest: &[u8; 32]) -> [u8; SIGNATURE_BYTES];
}

/// The digest that a key of this curve signs: Keccak-256 for secp256k1, SHA-256 for P-256.
pub fn digest(curve: Curve, bytes: &[u8]) -> [u8; 32] {
    match curve {
        Curve::Secp256k1 => keccak256(bytes),
        Curve::P256 => sha256(bytes),
    }
}

/// The digest of a request that a key of this curve signs.
pub fn request_digest(curve: Curve, signed: &[u8]) -> [u8; 32] {
    digest(curve, &[REQUEST_TAG, signed].concat())
}

/// Whether the key has signed the digest; `verifier` refuses a high s.
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

/// The name of a transaction: Keccak-256 of what is signed, whatever signs it and however often.
pub fn transaction_id(signed: &[u8]) -> [u8; 32] {
    keccak256(&[REQUEST_TAG, signed].concat())
}

/// The digest of a log message whose [`transactions_hash`](crate::block::transactions_hash) this is.
pub fn message_digest(curve: Curve, database: &DatabaseId, hash: &[u8; 32]) -> [u8; 32] {
    digest(curve, &[MESSAGE_TAG, database, hash].concat())
}

/// Signs a request: its bytes as they are sent.
pub fn sign_request(signer: &dyn Signer, signed: &[u8]) -> Vec<u8> {
    let signature = signer.sign(&request_digest(signer.curve(), signed));
    [&signature, signed].concat()
}
