//! Public keys of identities and CAs, and the signatures that they verify: ECDSA over P-256 in batches, ECDSA over
//! P-224, P-384 and P-521 and Ed25519 one by one.

use crate::ecdsa::{DerSignature, OtherCurveKey};
use crate::rules::{Rule, Rules};
use crate::x509::is_low_s;
use lineside_verify::encoding::der;
use lineside_verify::{Item, PublicKey, SignatureBytes, Verifier, ed25519};

/// A public key of a type that peers support.
#[derive(Clone, Debug)]
pub enum Key {
    /// ECDSA over P-256.
    P256(PublicKey),
    /// ECDSA over P-224, P-384 or P-521.
    OtherCurve(OtherCurveKey),
    /// Ed25519. The bytes are checked to be a point of the curve only when a signature is verified.
    Ed25519([u8; ed25519::KEY_BYTES]),
}

/// A well-formed signature with its key and message.
#[derive(Clone, Debug)]
pub(crate) enum UnverifiedSignature<'a> {
    /// ECDSA over P-256, over a digest.
    Ecdsa(Item<'a>),
    /// ECDSA over P-224, P-384 or P-521.
    OtherCurve {
        key: &'a OtherCurveKey,
        digest: Vec<u8>,
        signature: DerSignature,
    },
    /// Ed25519, over a message in parts.
    Ed25519 {
        key: &'a [u8; ed25519::KEY_BYTES],
        message: Vec<&'a [u8]>,
        signature: &'a [u8],
    },
}

impl<'a> UnverifiedSignature<'a> {
    /// Prepares a member's signature over a message for verification. `digest` is the message's SHA-256, and `parts`
    /// returns its bytes. `None` if the form is invalid: ECDSA signatures must be DER as Go parses it, with a low s;
    /// Ed25519 accepts any bytes.
    pub fn new(
        key: &'a Key,
        digest: [u8; 32],
        parts: impl FnOnce() -> Vec<&'a [u8]>,
        signature: &'a [u8],
        rules: Rules,
    ) -> Option<Self> {
        match key {
            Key::P256(key) => {
                let parsed = if rules.hold(Rule::TrailingBytesAfterDer) {
                    der::parse_go(signature)
                } else {
                    der::parse_strict(signature)
                };
                let low = |parsed: &_| is_low_s(parsed) || !rules.hold(Rule::LowS);
                let signature = SignatureBytes::Parsed(parsed.ok().filter(low)?);
                Some(Self::Ecdsa(Item {
                    key,
                    digest,
                    signature,
                }))
            }
            Key::OtherCurve(key) => {
                let signature = if rules.hold(Rule::TrailingBytesAfterDer) {
                    DerSignature::parse_go(signature)?
                } else {
                    DerSignature::parse_strict(signature)?
                };
                let is_low = key.is_low_s(&signature) || !rules.hold(Rule::LowS);
                is_low.then(|| Self::OtherCurve {
                    key,
                    digest: digest.to_vec(),
                    signature,
                })
            }
            Key::Ed25519(key) => Some(Self::Ed25519 {
                key,
                message: parts(),
                signature,
            }),
        }
    }
}

/// Returns whether each signature is valid.
pub(crate) fn verify_all(all: &[UnverifiedSignature<'_>], verifier: &Verifier, rules: Rules) -> Vec<bool> {
    let items = all.iter().filter_map(|one| match one {
        UnverifiedSignature::Ecdsa(item) => Some(*item),
        UnverifiedSignature::OtherCurve { .. } | UnverifiedSignature::Ed25519 { .. } => None,
    });
    // Nearly all signatures are ECDSA over P-256, so `batch` gets memory for all of them.
    let mut batch = Vec::with_capacity(all.len());
    batch.extend(items);
    let mut verdicts = verifier.verify_batch(&batch).into_iter();
    let verify = |one: &UnverifiedSignature<'_>| match one {
        UnverifiedSignature::Ecdsa(_) => verdicts.next().is_some_and(|verdict| verdict.is_valid()),
        UnverifiedSignature::OtherCurve {
            key,
            digest,
            signature,
        } => key.verify(digest, signature),
        UnverifiedSignature::Ed25519 {
            key,
            message,
            signature,
        } => verify_ed25519(key, message, signature, rules),
    };
    all.iter().map(verify).collect()
}

/// Returns whether a member signed a message with Ed25519. The signature is over the message itself, not its hash.
pub(crate) fn verify_ed25519(
    key: &[u8; ed25519::KEY_BYTES],
    message: &[&[u8]],
    signature: &[u8],
    rules: Rules,
) -> bool {
    if !rules.hold(Rule::Ed25519OverMessage) {
        let digest = lineside_verify::hash::sha256(&message.concat());
        return ed25519::verify(key, &[&digest], signature);
    }
    ed25519::verify(key, message, signature)
}
