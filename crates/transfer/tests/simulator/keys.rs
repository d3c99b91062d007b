//! Keys of both curves, and packets signed with them.

use crate::oracle::{DOMAIN, HEAD, Id, SIGNED_HEAD, fingerprint};
use lineside_wire::TRANSFER_OP_SIGNED;
use sha2::{Digest, Sha256};
use std::sync::OnceLock;

/// Number of keys.
pub const KEYS: u16 = 4;

/// Returns curve, prefix and x of key number 1 to [`KEYS`], and its signature r and s over a digest.
fn key(number: u16, digest: &[u8]) -> (u8, Vec<u8>, Vec<u8>) {
    let secret = [number as u8; 32];
    if number % 2 == 1 {
        use p256::ecdsa::{Signature, SigningKey, signature::hazmat::PrehashSigner};
        let key = SigningKey::from_slice(&secret).unwrap();
        let made: Signature = key.sign_prehash(digest).unwrap();
        let public = key.verifying_key().to_encoded_point(true).as_bytes().to_vec();
        (1, public, made.normalize_s().unwrap_or(made).to_bytes().to_vec())
    } else {
        use k256::ecdsa::{Signature, SigningKey, signature::hazmat::PrehashSigner};
        let key = SigningKey::from_slice(&secret).unwrap();
        let made: Signature = key.sign_prehash(digest).unwrap();
        let public = key.verifying_key().to_encoded_point(true).as_bytes().to_vec();
        (2, public, made.normalize_s().unwrap_or(made).to_bytes().to_vec())
    }
}

/// Returns the fingerprints of all keys.
pub fn owners() -> &'static [Id] {
    static OWNERS: OnceLock<Vec<Id>> = OnceLock::new();
    let owner = |number| {
        let (curve, public, _) = key(number, &[0; 32]);
        fingerprint(curve, &public)
    };
    OWNERS.get_or_init(|| (1..=KEYS).map(owner).collect())
}

/// Returns a packet of a session, signed with key `number`.
pub fn sign(number: u16, packet: &[u8]) -> Vec<u8> {
    let digest = Sha256::new()
        .chain_update(DOMAIN)
        .chain_update(&packet[HEAD..])
        .finalize();
    let (curve, public, signature) = key(number, &digest);
    let head = [&[curve, public[0]], &[0; 6][..], &public[1..], &signature].concat();
    with_signature(&head, packet)
}

/// Returns a packet of a session with a signature in front.
pub fn with_signature(signature: &[u8], packet: &[u8]) -> Vec<u8> {
    assert_eq!(signature.len(), SIGNED_HEAD);
    let mut signed = [&packet[..HEAD], signature, &packet[HEAD..]].concat();
    signed[3] = TRANSFER_OP_SIGNED;
    let length = (signed.len() - HEAD) as u16;
    signed[6..8].copy_from_slice(&length.to_be_bytes());
    signed
}
