//! Verification of a packet's signature with the crates of the curves.

use super::Id;
use sha2::{Digest, Sha256};
use std::cell::RefCell;
use std::collections::HashMap;

/// Size of curve, prefix, zeros, x, r and s in bytes.
pub const SIGNED_HEAD: usize = 104;
/// Prefix of the signed bytes.
pub const DOMAIN: &[u8] = b"lineside/transfer/1";

thread_local! {
    /// Signers of the latest packets. They are stored because the oracle checks each packet several times.
    static KNOWN: RefCell<HashMap<Vec<u8>, Option<Id>>> = RefCell::default();
}

/// Returns the fingerprint of a key, from curve, prefix and x, by which an account identifies its owner.
pub fn fingerprint(curve: u8, key: &[u8]) -> Id {
    let hash = Sha256::new().chain_update([curve]).chain_update(key).finalize();
    hash[..16].try_into().unwrap()
}

/// Returns the signer of `packet` according to `head`; `None` if the signature is invalid.
pub fn signer(head: &[u8], packet: &[u8]) -> Option<Id> {
    let name = [head, packet].concat();
    if let Some(known) = KNOWN.with_borrow(|known| known.get(&name).copied()) {
        return known;
    }
    let digest = Sha256::new().chain_update(DOMAIN).chain_update(packet).finalize();
    let (curve, key, signature) = (head[0], [&head[1..2], &head[8..40]].concat(), &head[40..104]);
    let holds = [2, 3].contains(&key[0])
        && match curve {
            1 => holds_p256(&key, &digest, signature),
            2 => holds_k256(&key, &digest, signature),
            _ => false,
        };
    let signer = holds.then(|| fingerprint(curve, &key));
    KNOWN.with_borrow_mut(|known| {
        if known.len() == 4096 {
            known.clear();
        }
        known.insert(name, signer);
    });
    signer
}

fn holds_p256(key: &[u8], digest: &[u8], signature: &[u8]) -> bool {
    use p256::ecdsa::{Signature, VerifyingKey, signature::hazmat::PrehashVerifier};
    let (Ok(key), Ok(made)) = (
        VerifyingKey::from_sec1_bytes(key),
        Signature::from_slice(signature),
    ) else {
        return false;
    };
    made.normalize_s().is_none() && key.verify_prehash(digest, &made).is_ok()
}

fn holds_k256(key: &[u8], digest: &[u8], signature: &[u8]) -> bool {
    use k256::ecdsa::{Signature, VerifyingKey, signature::hazmat::PrehashVerifier};
    let (Ok(key), Ok(made)) = (
        VerifyingKey::from_sec1_bytes(key),
        Signature::from_slice(signature),
    ) else {
        return false;
    };
    made.normalize_s().is_none() && key.verify_prehash(digest, &made).is_ok()
}
