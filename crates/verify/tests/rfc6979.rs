//! Tests with deterministic signatures on every backend: the vectors of RFC 6979 section A.2.5 for P-256 and, because
//! the RFC has no vectors for secp256k1, signatures that the crate k256 makes by the RFC.

use k256::ecdsa::signature::hazmat::PrehashSigner;
use lineside_verify::encoding::compact;
use lineside_verify::{
    Backend, Curve, Item, Options, PublicKey, SignatureBytes, Verdict, Verifier, hash, leftmost_256_bits,
};
use sha2::Digest;

/// Test vector: a digest, and r || s in hexadecimal digits.
type Vector = (Vec<u8>, String);

const KEY: &str = concat!(
    "0460fed4ba255a9d31c961eb74c6356d68c049b8923b61fa6ce669622e60f29fb6",
    "7903fe1008b8bc99a41ae9e95628bc64f2f1b20c2d7e9f5177a3c294d4462299",
);

/// SHA-1 digests of "sample" and "test", as constants, because no other test needs SHA-1.
const SHA1: [&str; 2] = [
    "8151325dcdbae9e0ff95f9f9658432dbedfdb209",
    "a94a8fe5ccb19ba61c4c0873d391e987982fbbd3",
];

fn vectors() -> Vec<Vector> {
    let signatures = [
        [
            "61340c88c3aaebeb4f6d667f672ca9759a6ccaa9fa8811313039ee4a35471d32\
             6d7f147dac089441bb2e2fe8f7a3fa264b9c475098fdcf6e00d7c996e1b8b7eb",
            "0cbcc86fd6abd1d99e703e1ec50069ee5c0b4ba4b9ac60e409e8ec5910d81a89\
             01b9d7b73dfaa60d5651ec4591a0136f87653e0fd780c3b1bc872ffdeae479b1",
        ],
        [
            "53b2fff5d1752b2c689df257c04c40a587fababb3f6fc2702f1343af7ca9aa3f\
             b9afb64fdc03dc1a131c7d2386d11e349f070aa432a4acc918bea988bf75c74c",
            "c37edb6f0ae79d47c3c27e962fa269bb4f441770357e114ee511f662ec34a692\
             c820053a05791e521fcaad6042d40aea1d6b1a540138558f47d0719800e18f2d",
        ],
        [
            "efd48b2aacb6a8fd1140dd9cd45e81d69d2c877b56aaf991c34d0ea84eaf3716\
             f7cb1c942d657c41d436c7a1b6e29f65f3e900dbb9aff4064dc4ab2f843acda8",
            "f1abb023518351cd71d881567b1ea663ed3efcf6c5132b354f28d3b0b7d38367\
             019f4113742a2b14bd25926b49c649155f267e60d3814b4c0cc84250e46f0083",
        ],
        [
            "0eafea039b20e9b42309fb1d89e213057cbf973dc0cfc8f129edddc800ef7719\
             4861f0491e6998b9455193e34e7b0d284ddd7149a74b95b9261f13abde940954",
            "83910e8b48bb0c74244ebdf7f07a1c5413d61472bd941ef3920e623fbccebeb6\
             8ddbec54cf8cd5874883841d712142a56a8d0f218f5003cb0296b6b509619f2c",
        ],
        [
            "8496a60b5e9b47c825488827e0495b0e3fa109ec4568fd3f8d1097678eb97f00\
             2362ab1adbe2b8adf9cb9edab740ea6049c028114f2460f96554f61fae3302fe",
            "461d93f31b6540894788fd206c07cfa0cc35f46fa3c91816fff1040ad1581a04\
             39af9f15de0db8d97e72719c74820d304ce5226e32dedae67519e840d1194e55",
        ],
    ];
    let mut vectors = Vec::new();
    for (which, message) in ["sample", "test"].into_iter().enumerate() {
        let digests = [
            unhex(SHA1[which]),
            sha2::Sha224::digest(message).to_vec(),
            hash::sha256(message.as_bytes()).to_vec(),
            sha2::Sha384::digest(message).to_vec(),
            sha2::Sha512::digest(message).to_vec(),
        ];
        for (digest, of_both) in digests.into_iter().zip(&signatures) {
            vectors.push((digest, of_both[which].to_owned()));
        }
    }
    vectors
}

fn unhex(digits: &str) -> Vec<u8> {
    let byte = |pair: usize| u8::from_str_radix(&digits[2 * pair..2 * pair + 2], 16).unwrap();
    (0..digits.len() / 2).map(byte).collect()
}

fn verifiers() -> impl Iterator<Item = Verifier> {
    let available = Backend::ALL.iter().filter(|backend| backend.is_available());
    available.map(|backend| {
        Verifier::new(Options {
            backend: Some(*backend),
            ..Options::default()
        })
        .unwrap()
    })
}

#[test]
fn signatures_of_rfc_6979_section_a_2_5_are_valid() {
    let key = PublicKey::from_sec1(Curve::P256, &unhex(KEY)).unwrap();
    let vectors: Vec<([u8; 32], Vec<u8>)> = vectors()
        .iter()
        .map(|(digest, signature)| (leftmost_256_bits(digest), unhex(signature)))
        .collect();
    assert_eq!(vectors.len(), 10);
    for verifier in verifiers() {
        // Verify one signature at a time: the first few without a table of the key, the others with it.
        for (digest, signature) in &vectors {
            let item = |digest| Item {
                key: &key,
                digest,
                signature: SignatureBytes::Compact(signature),
            };
            assert_eq!(verifier.verify(&item(*digest)), Verdict::Valid);
        }
        // Verify each signature with each digest in one batch; only its own digest is right.
        let items: Vec<Item> = (0..100)
            .map(|i| Item {
                key: &key,
                digest: vectors[i / 10].0,
                signature: SignatureBytes::Compact(&vectors[i % 10].1),
            })
            .collect();
        for (i, verdict) in verifier.verify_batch(&items).into_iter().enumerate() {
            assert_eq!(
                verdict.is_valid(),
                i / 10 == i % 10,
                "{i} on {}",
                verifier.backend()
            );
        }
        let stats = verifier.stats();
        if stats.by_library == 0 {
            // The key's table is built within the first ten uses. The exact number depends on the backend.
            assert!((1..10).contains(&stats.by_generic), "{stats:?}");
            assert_eq!(stats.by_generic + stats.by_table, 110);
        }
    }
}

/// Signature in a test vector that several implementations of RFC 6979 for secp256k1 use (Trezor, Bitcoin Core). The
/// secret key is 1, and the hash is SHA-256.
const SATOSHI: &str = "934b1ea10a4b3c1757e2b0c017d0b6143ce3c9a7e6a4a49860d7a6ab210ee3d8\
                       2442ce9d2b916064108014783e923ec36b49743e2ffa1c4496f01a512aafd9e5";

#[test]
fn signatures_of_k256_are_valid() {
    let mut secret = [0; 32];
    secret[31] = 1;
    let mut signed = Vec::new();
    for round in 0..50u8 {
        let signer = k256::ecdsa::SigningKey::from_bytes(&secret.into()).unwrap();
        let digest = match round {
            0 => hash::sha256(b"Satoshi Nakamoto"),
            _ => hash::sha256(&[round]),
        };
        let signature: k256::ecdsa::Signature = signer.sign_prehash(&digest).unwrap();
        let compact: [u8; 64] = signature.to_bytes().into();
        if round == 0 {
            assert_eq!(compact[..], unhex(SATOSHI));
        }
        let point = signer.verifying_key().to_encoded_point(round % 2 == 0);
        let key = PublicKey::from_sec1(Curve::Secp256k1, point.as_bytes()).unwrap();
        signed.push((key, digest, compact::parse(&compact).unwrap()));
        // Each key makes five signatures.
        if round % 5 == 4 {
            secret = hash::sha256(&secret);
        }
    }
    let items: Vec<Item> = signed
        .iter()
        .map(|(key, digest, signature)| Item {
            key,
            digest: *digest,
            signature: SignatureBytes::Parsed(*signature),
        })
        .collect();
    for verifier in verifiers() {
        assert!(items.iter().all(|item| verifier.verify(item).is_valid()));
        assert!(verifier.verify_batch(&items).into_iter().all(Verdict::is_valid));
    }
}
