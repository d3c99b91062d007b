//! Checks of packets that are signed by the owner of the accounts that they debit. Signing is in the crate
//! `lineside-client`.

use hashbrown::HashMap;
use lineside_messages::transfer::signer::{KeyId, encoded};
use lineside_verify::hash::sha256_batch;
use lineside_verify::{Curve, Item, Options, PublicKey, SignatureBytes, Verifier};
use lineside_wire::{SignedHead, TRANSFER_CURVE_P256, TRANSFER_CURVE_SECP256K1};

/// Maximum number of keys that the checker remembers as decoded points.
const KEYS: usize = 4096;
/// Default memory for tables of recurring keys, in bytes.
pub const TABLE_BYTES: usize = 32 << 20;

/// Signature and the bytes that it covers.
pub struct SignedBytes<'a> {
    /// Key and signature.
    pub head: &'a SignedHead,
    /// Bytes that the signature covers; see [`signed_bytes`](lineside_messages::transfer::signer::signed_bytes).
    pub bytes: Vec<u8>,
}

/// Checks signatures in batches. A signature with a key that was used before costs less time.
pub struct SignatureChecker {
    verifier: Verifier,
    keys: HashMap<[u8; 34], PublicKey>,
}

impl Default for SignatureChecker {
    fn default() -> Self {
        Self::new(TABLE_BYTES)
    }
}

impl SignatureChecker {
    /// Returns a checker whose precomputed tables for public keys take at most `table_bytes` bytes.
    pub fn new(table_bytes: usize) -> Self {
        let options = Options {
            table_bytes,
            // Only the form with a low s is valid, so that each signature has one valid form.
            low_s: true,
            ..Options::default()
        };
        Self {
            // Creation fails only if the options require a backend that the CPU does not support, and they require
            // none.
            verifier: Verifier::new(options).unwrap_or_default(),
            keys: HashMap::new(),
        }
    }

    /// Returns the signing key of each item; `None` if the signature is invalid.
    pub fn check(&mut self, signed: &[SignedBytes<'_>]) -> Vec<Option<KeyId>> {
        let messages: Vec<&[u8]> = signed.iter().map(|signed| signed.bytes.as_slice()).collect();
        let mut digests = vec![[0; 32]; messages.len()];
        sha256_batch(&messages, &mut digests);
        let keys: Vec<Option<PublicKey>> = signed.iter().map(|signed| self.key(signed.head)).collect();
        let signatures: Vec<[u8; 64]> = signed.iter().map(|signed| compact(signed.head)).collect();
        let with_keys = || (0..signed.len()).filter_map(|at| keys[at].as_ref().map(|key| (at, key)));
        let items: Vec<Item<'_>> = with_keys()
            .map(|(at, key)| Item {
                key,
                digest: digests[at],
                signature: SignatureBytes::Compact(&signatures[at]),
            })
            .collect();
        let mut results = vec![None; signed.len()];
        let verdicts = self.verifier.verify_batch(&items);
        for ((at, _), verdict) in with_keys().zip(verdicts) {
            results[at] = verdict.is_valid().then(|| KeyId::of(signed[at].head));
        }
        results
    }

    fn key(&mut self, head: &SignedHead) -> Option<PublicKey> {
        let curve = match head.curve {
            TRANSFER_CURVE_P256 => Curve::P256,
            TRANSFER_CURVE_SECP256K1 => Curve::Secp256k1,
            _ => return None,
        };
        let encoded = encoded(head);
        if let Some(key) = self.keys.get(&encoded) {
            return Some(*key);
        }
        let key = PublicKey::from_sec1(curve, &encoded[1..]).ok()?;
        if self.keys.len() == KEYS {
            self.keys.clear();
        }
        self.keys.insert(encoded, key);
        Some(key)
    }
}

fn compact(head: &SignedHead) -> [u8; 64] {
    let mut bytes = [0; 64];
    bytes[..32].copy_from_slice(&head.r);
    bytes[32..].copy_from_slice(&head.s);
    bytes
}
