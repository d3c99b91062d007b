//! Generator of valid signatures, which RustCrypto's implementations make, with keys and digests derived from a seed.

#[path = "../random/mod.rs"]
mod random;

use k256::ecdsa::signature::hazmat::PrehashSigner;
use lineside_verify::encoding::{Signature, compact, der};
use lineside_verify::{Curve, Item, PublicKey, SignatureBytes};
use random::Random;

/// One signature in each of the supported encodings.
pub struct Signed {
    pub key: PublicKey,
    pub digest: [u8; 32],
    pub compact: [u8; 64],
    pub der: Vec<u8>,
}

impl Signed {
    pub fn item(&self) -> Item<'_> {
        Item {
            key: &self.key,
            digest: self.digest,
            signature: SignatureBytes::Compact(&self.compact),
        }
    }

    pub fn parsed(&self) -> Signature {
        compact::parse(&self.compact).unwrap()
    }
}

/// Returns 32 bytes derived from a seed.
pub fn bytes(seed: u64) -> [u8; 32] {
    let mut bytes = [0; 32];
    Random(seed).fill(&mut bytes);
    bytes
}

/// Returns `signatures` signatures by key number `key` of a curve.
pub fn signed(curve: Curve, key: u64, signatures: u64) -> Vec<Signed> {
    let secret = bytes(1_000_003 * (key + 1));
    let digests = (0..signatures).map(|i| bytes(key << 32 | (i + 1)));
    match curve {
        Curve::P256 => {
            let secret = p256::ecdsa::SigningKey::from_bytes(&secret.into()).unwrap();
            let point = secret.verifying_key().to_encoded_point(true);
            let sign = |digest: &[u8; 32]| -> [u8; 64] {
                let signature: p256::ecdsa::Signature = secret.sign_prehash(digest).unwrap();
                signature.to_bytes().into()
            };
            collect(curve, point.as_bytes(), digests, sign)
        }
        Curve::Secp256k1 => {
            let secret = k256::ecdsa::SigningKey::from_bytes(&secret.into()).unwrap();
            let point = secret.verifying_key().to_encoded_point(true);
            let sign = |digest: &[u8; 32]| -> [u8; 64] {
                let signature: k256::ecdsa::Signature = secret.sign_prehash(digest).unwrap();
                signature.to_bytes().into()
            };
            collect(curve, point.as_bytes(), digests, sign)
        }
    }
}

fn collect(
    curve: Curve,
    key: &[u8],
    digests: impl Iterator<Item = [u8; 32]>,
    sign: impl Fn(&[u8; 32]) -> [u8; 64],
) -> Vec<Signed> {
    let key = PublicKey::from_sec1(curve, key).unwrap();
    let signed = |digest| {
        let compact = sign(&digest);
        let der = der::write(&compact::parse(&compact).unwrap()).as_ref().to_vec();
        Signed {
            key,
            digest,
            compact,
            der,
        }
    };
    digests.map(signed).collect()
}
