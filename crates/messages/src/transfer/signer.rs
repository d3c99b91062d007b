//! Signing of packets by the owner of the accounts that they debit: ECDSA over P-256 or secp256k1, over the session's
//! packet. The signature covers token and sequence number, so it is valid only for one position in one session.

use lineside_util::hex::{array_from_hex, to_hex};
use lineside_verify::Curve;
use lineside_verify::hash::sha256;
use lineside_wire::{ExecuteHead, Operation, SignedHead, TRANSFER_CURVE_P256, TRANSFER_CURVE_SECP256K1};
use std::fmt;
use zerocopy::{FromZeros, IntoBytes};

/// Prefix of the signed bytes.
const DOMAIN: &[u8] = b"lineside/transfer/1";

/// Fingerprint of a key, by which an account identifies its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId(pub [u8; 16]);

impl KeyId {
    /// Returns the first half of SHA-256 over curve, prefix and x.
    pub fn of(head: &SignedHead) -> Self {
        let mut id = [0; 16];
        id.copy_from_slice(&sha256(&encoded(head))[..16]);
        Self(id)
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&to_hex(&self.0))
    }
}

impl std::str::FromStr for KeyId {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        array_from_hex(text)
            .map(Self)
            .ok_or("a key's fingerprint is 32 hex digits")
    }
}

/// Returns the curve of a public key, followed by the compressed SEC 1 key.
pub fn encoded(head: &SignedHead) -> [u8; 34] {
    let mut bytes = [0; 34];
    (bytes[0], bytes[1]) = (head.curve, head.key_prefix);
    bytes[2..].copy_from_slice(&head.key_x);
    bytes
}

/// Returns the signed bytes of a packet.
pub fn signed_bytes(head: &ExecuteHead, operations: &[Operation]) -> Vec<u8> {
    [DOMAIN, head.as_bytes(), operations.as_bytes()].concat()
}

/// Secret key.
#[derive(Clone)]
pub enum Signer {
    /// Key on P-256.
    P256(p256::ecdsa::SigningKey),
    /// Key on secp256k1.
    Secp256k1(k256::ecdsa::SigningKey),
}

impl Signer {
    /// Returns the key with these bytes; `None` if they are 0 or not below the curve's order.
    pub fn from_bytes(curve: Curve, secret: &[u8; 32]) -> Option<Self> {
        match curve {
            Curve::P256 => p256::ecdsa::SigningKey::from_slice(secret).ok().map(Self::P256),
            Curve::Secp256k1 => k256::ecdsa::SigningKey::from_slice(secret)
                .ok()
                .map(Self::Secp256k1),
        }
    }

    /// Returns the secret bytes.
    pub fn to_bytes(&self) -> [u8; 32] {
        match self {
            Self::P256(key) => key.to_bytes().into(),
            Self::Secp256k1(key) => key.to_bytes().into(),
        }
    }

    /// Returns the curve.
    pub fn curve(&self) -> Curve {
        match self {
            Self::P256(_) => Curve::P256,
            Self::Secp256k1(_) => Curve::Secp256k1,
        }
    }

    /// Returns the fingerprint of its public key.
    pub fn id(&self) -> KeyId {
        KeyId::of(&self.head())
    }

    /// Signs a session's packet.
    pub fn sign(&self, head: &ExecuteHead, operations: &[Operation]) -> SignedHead {
        let digest = sha256(&signed_bytes(head, operations));
        let mut signed = self.head();
        // Signing fails only for digests shorter than half a scalar; this digest has the full length.
        let (r, s) = match self {
            Self::P256(key) => {
                use p256::ecdsa::{Signature, signature::hazmat::PrehashSigner};
                let signature: Result<Signature, _> = key.sign_prehash(&digest);
                let low = signature.map(|made| made.normalize_s().unwrap_or(made));
                low.map_or_else(|_| Default::default(), |made| made.split_bytes())
            }
            Self::Secp256k1(key) => {
                use k256::ecdsa::{Signature, signature::hazmat::PrehashSigner};
                let signature: Result<Signature, _> = key.sign_prehash(&digest);
                signature.map_or_else(|_| Default::default(), |made| made.split_bytes())
            }
        };
        (signed.r, signed.s) = (r.into(), s.into());
        signed
    }

    /// Returns a head with the public key and no signature yet.
    fn head(&self) -> SignedHead {
        let (curve, point) = match self {
            Self::P256(key) => (
                TRANSFER_CURVE_P256,
                key.verifying_key().to_encoded_point(true).as_bytes().to_vec(),
            ),
            Self::Secp256k1(key) => (
                TRANSFER_CURVE_SECP256K1,
                key.verifying_key().to_encoded_point(true).as_bytes().to_vec(),
            ),
        };
        let mut head = SignedHead::new_zeroed();
        head.curve = curve;
        // The encoded point has 33 bytes: SEC 1, section 2.3.3.
        head.key_prefix = point[0];
        head.key_x.copy_from_slice(&point[1..]);
        head
    }
}
