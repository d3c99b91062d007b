//! Secret keys of clients and nodes. The RustCrypto crates k256 and p256 compute signatures, with deterministic nonces
//! (RFC 6979).

use super::change::KeyBytes;
use super::request::SIGNATURE_BYTES;
use super::sign::Signer;
use k256::ecdsa::signature::hazmat::PrehashSigner;
use lineside_verify::{Curve, PublicKey};

/// A secret key of either curve.
#[derive(Clone)]
pub enum SecretKey {
    /// Key of secp256k1.
    Secp256k1(k256::ecdsa::SigningKey),
    /// Key of P-256.
    P256(p256::ecdsa::SigningKey),
}

impl SecretKey {
    /// Reads a key from 32 bytes, big-endian. Returns `None` for 0 and for values that are not below the curve's order.
    pub fn from_bytes(curve: Curve, bytes: &[u8; 32]) -> Option<SecretKey> {
        match curve {
            Curve::Secp256k1 => k256::ecdsa::SigningKey::from_slice(bytes)
                .ok()
                .map(SecretKey::Secp256k1),
            Curve::P256 => p256::ecdsa::SigningKey::from_slice(bytes)
                .ok()
                .map(SecretKey::P256),
        }
    }

    /// Encodes the key in 32 bytes.
    pub fn to_bytes(&self) -> [u8; 32] {
        match self {
            SecretKey::Secp256k1(key) => key.to_bytes().into(),
            SecretKey::P256(key) => key.to_bytes().into(),
        }
    }

    /// Returns the public key in the encoding of the genesis and of changes.
    pub fn public(&self) -> KeyBytes {
        let (curve, point) = match self {
            SecretKey::Secp256k1(key) => {
                let point = key.verifying_key().to_encoded_point(true);
                (Curve::Secp256k1, point.as_bytes().to_vec())
            }
            SecretKey::P256(key) => {
                let point = key.verifying_key().to_encoded_point(true);
                (Curve::P256, point.as_bytes().to_vec())
            }
        };
        let mut bytes = [0; 33];
        bytes.copy_from_slice(&point);
        KeyBytes { curve, bytes }
    }

    /// Returns the public key.
    pub fn public_key(&self) -> Option<PublicKey> {
        self.public().key()
    }
}

impl Signer for SecretKey {
    fn curve(&self) -> Curve {
        match self {
            SecretKey::Secp256k1(_) => Curve::Secp256k1,
            SecretKey::P256(_) => Curve::P256,
        }
    }

    fn sign(&self, digest: &[u8; 32]) -> [u8; SIGNATURE_BYTES] {
        // Every key can sign a digest of 32 bytes; signing fails only with a probability of 2^-128.
        match self {
            SecretKey::Secp256k1(key) => {
                let signature: k256::ecdsa::Signature =
                    key.sign_prehash(digest).expect("the digest has 32 bytes");
                signature.normalize_s().unwrap_or(signature).to_bytes().into()
            }
            SecretKey::P256(key) => {
                let signature: p256::ecdsa::Signature =
                    key.sign_prehash(digest).expect("the digest has 32 bytes");
                signature.normalize_s().unwrap_or(signature).to_bytes().into()
            }
        }
    }
}
