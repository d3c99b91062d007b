//! Keys, messages and signatures of the scenario, all derived from the seed. Their generation is not measured.

use aws_lc_rs::agreement::{ECDH_P256, PrivateKey};
use lineside_testkit::Random;
use lineside_verify::{Curve, Item, PublicKey, SignatureBytes};
use p256::elliptic_curve::PrimeField;
use p256::elliptic_curve::ops::Reduce;
use p256::{Scalar, U256};
use secp256k1::{Message, SECP256K1, SecretKey};

/// One of this many signatures is invalid. Invalid signatures expose a verifier that accepts everything.
const SPOILT_ONE_OF: usize = 16;

/// Signature and its expected verdict.
pub(super) struct Signed {
    /// Index in the pool of the key that the signature is checked with.
    pub(super) key: usize,
    /// Message, for libraries that hash it themselves; `digest` is its SHA-256.
    pub(super) message: [u8; 32],
    pub(super) digest: [u8; 32],
    /// Signature as `r || s`.
    pub(super) signature: [u8; 64],
    pub(super) valid: bool,
}

/// Signatures of some keys in the order of verification, in which the keys take turns.
pub(super) struct Pool {
    pub(super) keys: Vec<PublicKey>,
    pub(super) signed: Vec<Signed>,
}

/// Number of signatures of each kind.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    /// Number of signatures over 16 keys. The table entries of these keys do not fit into a second-level cache.
    pub(super) few: usize,
    /// Number of signatures over 256 keys.
    pub(super) many: usize,
    /// Number of signatures that each have a different key.
    pub(super) unknown: usize,
}

impl Default for Sizes {
    fn default() -> Self {
        Self {
            few: 16_384,
            many: 16_384,
            unknown: 4_096,
        }
    }
}

/// All pools of signatures for one curve.
pub(super) struct Workload {
    pub(super) few: Pool,
    pub(super) many: Pool,
    pub(super) unknown: Pool,
}

impl Workload {
    pub(super) fn new(curve: Curve, seed: u64, sizes: Sizes) -> Self {
        Self {
            few: Pool::new(curve, seed ^ (1 << 60), 16, sizes.few),
            many: Pool::new(curve, seed ^ (2 << 60), 256, sizes.many),
            unknown: Pool::new(curve, seed ^ (3 << 60), sizes.unknown, sizes.unknown),
        }
    }
}

impl Pool {
    fn new(curve: Curve, seed: u64, keys: usize, signatures: usize) -> Self {
        let mut random = Random(seed);
        let secrets: Vec<Secret> = (0..keys)
            .map(|_| Secret::new(curve, bytes32(&mut random)))
            .collect();
        let signed = (0..signatures).map(|index| {
            let key = index % keys;
            let mut signed = Signed::new(key, &secrets[key], bytes32(&mut random), bytes32(&mut random));
            // The invalid signatures are not every 16th one: since keys take turns, that would affect the signatures of
            // one key only.
            if (index + index / SPOILT_ONE_OF).is_multiple_of(SPOILT_ONE_OF) {
                signed.spoil(index / SPOILT_ONE_OF);
            }
            signed
        });
        let signed = signed.collect();
        let keys = secrets.iter().map(Secret::public).collect();
        Self { keys, signed }
    }

    /// Returns the signatures in the form of Lineside's verifier.
    pub(super) fn items(&self) -> Vec<Item<'_>> {
        let item = |signed: &'_ Signed| (signed.key, signed.digest);
        let pairs = self.signed.iter().map(|signed| (signed, item(signed)));
        pairs
            .map(|(signed, (key, digest))| Item {
                key: &self.keys[key],
                digest,
                signature: SignatureBytes::Compact(&signed.signature),
            })
            .collect()
    }

    /// Returns the expected verdicts.
    pub(super) fn expected(&self) -> Vec<bool> {
        self.signed.iter().map(|signed| signed.valid).collect()
    }
}

impl Signed {
    fn new(key: usize, secret: &Secret, message: [u8; 32], nonce: [u8; 32]) -> Self {
        let digest = lineside_verify::hash::sha256(&message);
        Self {
            key,
            message,
            digest,
            signature: secret.sign(&digest, &nonce),
            valid: true,
        }
    }

    /// Makes the signature invalid by changing a bit of s or of the message; `how` selects one of the ways.
    fn spoil(&mut self, how: usize) {
        if how.is_multiple_of(2) {
            self.signature[63] ^= 2;
        } else {
            self.message[0] ^= 1;
            self.digest = lineside_verify::hash::sha256(&self.message);
        }
        self.valid = false;
    }
}

enum Secret {
    P256(Scalar, PublicKey),
    Secp256k1(SecretKey, PublicKey),
}

impl Secret {
    /// Returns a key pair. The number in `bytes` is below the order of both curves, except with a probability of 2^-32.
    fn new(curve: Curve, bytes: [u8; 32]) -> Self {
        let public = |point: &[u8]| PublicKey::from_sec1(curve, point).expect("a multiple of the generator");
        match curve {
            Curve::P256 => Secret::P256(scalar(&bytes), public(&p256_multiple(&bytes))),
            Curve::Secp256k1 => {
                let secret = SecretKey::from_slice(&bytes).expect("a random number is below the order");
                let point = secret.public_key(SECP256K1).serialize_uncompressed();
                Secret::Secp256k1(secret, public(&point))
            }
        }
    }

    fn public(&self) -> PublicKey {
        match self {
            Secret::P256(_, public) | Secret::Secp256k1(_, public) => *public,
        }
    }

    /// Returns `r || s`. For P-256 the signature is computed from its definition, with multiples of the generator from
    /// aws-lc-rs: RustCrypto would take longer than the whole measurement, and aws-lc-rs does not accept a nonce. The
    /// signed data is public.
    fn sign(&self, digest: &[u8; 32], nonce: &[u8; 32]) -> [u8; 64] {
        let mut signature = [0; 64];
        match self {
            Secret::P256(secret, _) => {
                let point = p256_multiple(nonce);
                let mut x = [0; 32];
                x.copy_from_slice(&point[1..33]);
                let r = scalar(&x);
                let inverse = scalar(nonce).invert().unwrap_or(Scalar::ONE);
                let s = inverse * (scalar(digest) + r * secret);
                signature[..32].copy_from_slice(&r.to_repr());
                signature[32..].copy_from_slice(&s.to_repr());
            }
            Secret::Secp256k1(secret, _) => {
                let message = Message::from_digest(*digest);
                signature = SECP256K1.sign_ecdsa(&message, secret).serialize_compact();
            }
        }
        signature
    }
}

fn scalar(bytes: &[u8; 32]) -> Scalar {
    <Scalar as Reduce<U256>>::reduce_bytes(&(*bytes).into())
}

/// Returns the point 0x04, x, y that is a multiple of the generator.
fn p256_multiple(scalar: &[u8; 32]) -> [u8; 65] {
    let key = PrivateKey::from_private_key(&ECDH_P256, scalar).expect("a random number is below the order");
    let point = key.compute_public_key().expect("a key has a point");
    let mut bytes = [0; 65];
    bytes.copy_from_slice(point.as_ref());
    bytes
}

fn bytes32(random: &mut Random) -> [u8; 32] {
    let mut bytes = [0; 32];
    random.fill(&mut bytes);
    bytes
}
