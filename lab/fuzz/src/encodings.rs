//! Fuzz targets for encodings of signatures, keys and messages. They compare the parsers with RustCrypto's, and hashes
//! of batches with hashes of single messages.

use crate::input::Input;
use crate::signatures::forge::{order, random};
use lineside_verify::encoding::{PointError, Signature, SignatureError, compact, der};
use lineside_verify::hash::{Backend, Hasher, keccak256, sha256};
use lineside_verify::{Curve, KeyError, PublicKey};
use num_bigint::BigUint;

/// Parses any bytes as a signature in DER, and compares the result with RustCrypto's parser.
pub fn der(bytes: &[u8]) {
    let (strict, go) = (der::parse_strict(bytes), der::parse_go(bytes));
    match (strict, go) {
        (Ok(strict), go) => {
            assert_eq!(go, Ok(strict));
            assert_eq!(
                der::write(&strict).as_bytes(),
                bytes,
                "a strict signature has one encoding"
            );
            assert_eq!(compact::parse(&compact::write(&strict)), Ok(strict));
        }
        (Err(SignatureError::TrailingInside), Ok(go)) => written_again(&go),
        (Err(SignatureError::TrailingAfter), Ok(go)) => {
            written_again(&go);
            let written = der::write(&go);
            assert!(
                bytes.starts_with(written.as_bytes()),
                "strict except for trailing bytes"
            );
        }
        (strict, go) => assert_eq!(strict, go),
    }
    // RustCrypto accepts signatures whose numbers are in range.
    let in_range = |curve| {
        let numbers = strict.map(|strict| [strict.r, strict.s].map(|bytes| BigUint::from_bytes_be(&bytes)));
        numbers.is_ok_and(|all| {
            all.iter()
                .all(|number| *number != BigUint::ZERO && *number < order(curve))
        })
    };
    let numbers = strict.map(|strict| compact::write(&strict)).ok();
    let theirs = p256::ecdsa::Signature::from_der(bytes).map(|signature| signature.to_bytes().into());
    assert_eq!(theirs.ok(), numbers.filter(|_| in_range(Curve::P256)));
    let theirs = k256::ecdsa::Signature::from_der(bytes).map(|signature| signature.to_bytes().into());
    assert_eq!(theirs.ok(), numbers.filter(|_| in_range(Curve::Secp256k1)));
}

fn written_again(signature: &Signature) {
    let written = der::write(signature);
    assert_eq!(der::parse_strict(written.as_bytes()), Ok(*signature));
}

/// Returns encodings with numbers at the limits, and encodings that only Go accepts.
pub fn der_seeds() -> Vec<Vec<u8>> {
    let ends = [[0; 32], [0xff; 32], [0x7f; 32], random(1), random(2)];
    let mut seeds: Vec<Vec<u8>> = ends
        .iter()
        .flat_map(|r| ends.map(|s| der::write(&Signature { r: *r, s }).as_bytes().to_vec()))
        .collect();
    seeds.push(vec![0x30, 6, 2, 1, 1, 2, 1, 1, 0]);
    seeds.push(vec![0x30, 8, 2, 1, 1, 2, 1, 1, 5, 0]);
    let long = [&[0x30, 0x81, 0x86, 2, 1, 1, 2, 1, 1, 4, 0x7e][..], &[0; 0x7e]].concat();
    seeds.push(long);
    seeds
}

/// Parses any bytes as a public key over a curve. The first byte of the input selects the curve.
pub fn sec1(bytes: &[u8]) {
    let mut input = Input(bytes);
    let curve = [Curve::P256, Curve::Secp256k1][usize::from(input.byte() & 1)];
    let bytes = input.0;
    let ours = PublicKey::from_sec1(curve, bytes);
    let theirs = match curve {
        Curve::P256 => p256::EncodedPoint::from_bytes(bytes)
            .ok()
            .and_then(|_| p256::ecdsa::VerifyingKey::from_sec1_bytes(bytes).ok())
            .map(|key| key.to_encoded_point(false).as_bytes().to_vec()),
        Curve::Secp256k1 => k256::ecdsa::VerifyingKey::from_sec1_bytes(bytes)
            .ok()
            .map(|key| key.to_encoded_point(false).as_bytes().to_vec()),
    };
    // The tag 5 is a form that only RustCrypto has: an x without a sign.
    if bytes.first() == Some(&5) {
        let unknown = PointError::UnknownForm { found: 5 };
        return assert_eq!(ours, Err(KeyError::Malformed(unknown)));
    }
    assert_eq!(ours.ok().map(|key| key.to_sec1_uncompressed().to_vec()), theirs);
    if let Ok(key) = ours {
        assert_eq!(key.curve(), curve);
        assert_eq!(PublicKey::from_sec1(curve, &key.to_sec1_uncompressed()), Ok(key));
        assert_eq!(PublicKey::from_sec1(curve, &key.to_sec1_compressed()), Ok(key));
    }
}

/// Returns each form of a point on both curves, and coordinates that equal or exceed p.
pub fn sec1_seeds() -> Vec<Vec<u8>> {
    let mut seeds = vec![vec![0], vec![0, 0], vec![1, 0]];
    for (tag, curve) in [(0, Curve::P256), (1, Curve::Secp256k1)] {
        let small = (0..40u8).map(|x| [&[2 + (x & 1)][..], &[0; 31], &[x]].concat());
        let key = small.flat_map(|bytes| PublicKey::from_sec1(curve, &bytes)).last();
        let uncompressed = key.map(|key| key.to_sec1_uncompressed()).unwrap_or([4; 65]);
        for form in [4, 6, 7] {
            seeds.push([&[tag, form][..], &uncompressed[1..]].concat());
        }
        for form in [2, 3, 5] {
            seeds.push([&[tag, form][..], &uncompressed[1..33]].concat());
            seeds.push([&[tag, form][..], &[0xff; 32]].concat());
        }
        seeds.push([&[tag, 4][..], &[0xff; 64]].concat());
    }
    seeds
}

/// Hashes a batch of messages, and compares each digest with that of the single message. The input contains the
/// lengths, and then the bytes of all messages.
pub fn hash(bytes: &[u8]) {
    let mut input = Input(bytes);
    let count = usize::from(input.byte() % 70);
    let lengths: Vec<usize> = input
        .take(count)
        .iter()
        .map(|length| usize::from(*length))
        .collect();
    // A message past the end of the input is empty, which is a valid case.
    let messages: Vec<&[u8]> = lengths.into_iter().map(|length| input.take(length)).collect();
    let available = Backend::ALL.into_iter().filter_map(Hasher::new);
    let mut digests = vec![[0; 32]; messages.len()];
    for hasher in available {
        hasher.sha256_batch(&messages, &mut digests);
        for (message, digest) in messages.iter().zip(&digests) {
            assert_eq!(*digest, sha256(message), "{}", hasher.backend().name());
        }
        hasher.keccak256_batch(&messages, &mut digests);
        for (message, digest) in messages.iter().zip(&digests) {
            assert_eq!(*digest, keccak256(message), "{}", hasher.backend().name());
        }
    }
}

/// Returns batches whose size is close to the number of lanes, with message lengths close to the block size.
pub fn hash_seeds() -> Vec<Vec<u8>> {
    let blocks = [0, 1, 55, 56, 63, 64, 65, 119, 120, 135, 136, 137, 255];
    let seed = |count: u8| {
        let lengths: Vec<u8> = blocks.iter().cycle().take(count.into()).copied().collect();
        let total = lengths.iter().map(|length| usize::from(*length)).sum();
        let text: Vec<u8> = (0..).flat_map(random).take(total).collect();
        [vec![count], lengths, text].concat()
    };
    [1, 7, 8, 9, 15, 16, 17, 33, 69].map(seed).to_vec()
}
