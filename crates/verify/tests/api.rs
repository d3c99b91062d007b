//! Tests of the whole interface, from encoded keys and signatures to verdicts, on every available backend.

mod signed;

use lineside_verify::encoding::{PointError, SignatureError};
use lineside_verify::{
    Backend, Builds, Curve, Item, KeyError, Options, PublicKey, SignatureBytes, Verdict, Verifier,
    leftmost_256_bits,
};
use signed::{Signed, signed};

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

/// Returns `each` signatures by each of `keys` keys of each curve, in alternating order.
fn mixed(keys: u64, each: u64) -> Vec<Signed> {
    let mut by_key: Vec<_> = (0..keys)
        .flat_map(|key| CURVES.map(|curve| signed(curve, key, each).into_iter()))
        .collect();
    (0..each)
        .flat_map(|_| by_key.iter_mut().map(|of| of.next().unwrap()).collect::<Vec<_>>())
        .collect()
}

fn n_minus(curve: Curve, s: &[u8]) -> [u8; 32] {
    let order: &[u8] = match curve {
        Curve::P256 => b"ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551",
        Curve::Secp256k1 => b"fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141",
    };
    let order = num_bigint::BigUint::parse_bytes(order, 16).unwrap();
    let bytes = (order - num_bigint::BigUint::from_bytes_be(s)).to_bytes_be();
    leftmost_256_bits(&bytes)
}

#[test]
fn an_empty_batch_has_no_verdicts() {
    for verifier in verifiers(Options::default()) {
        let mut verdicts = vec![Verdict::Valid];
        verifier.verify_batch_into(&[], &mut verdicts);
        assert!(verdicts.is_empty());
        assert_eq!(verifier.stats().signatures, 0);
    }
}

#[test]
fn a_thousand_signatures_of_both_curves_in_all_encodings_have_the_right_verdicts() {
    let signed = mixed(5, 100);
    let items: Vec<Item> = signed
        .iter()
        .enumerate()
        .map(|(i, signed)| {
            let mut item = signed.item();
            item.signature = match i / 2 % 4 {
                0 => SignatureBytes::Compact(&signed.compact),
                1 => SignatureBytes::Der(&signed.der),
                2 => SignatureBytes::GoDer(&signed.der),
                _ => SignatureBytes::Parsed(signed.parsed()),
            };
            item.digest[31] ^= u8::from(i % 7 == 3);
            if i % 11 == 5 {
                item.signature = SignatureBytes::Compact(&signed.compact[..63]);
            }
            item
        })
        .collect();
    assert_eq!(items.len(), 1000);
    for verifier in verifiers(Options::default()) {
        for _ in 0..3 {
            let verdicts = verifier.verify_batch(&items);
            for (i, verdict) in verdicts.into_iter().enumerate() {
                let expected = match (i % 11 == 5, i % 7 == 3) {
                    (true, _) => Verdict::Malformed(SignatureError::CompactLength { bytes: 63 }),
                    (_, true) => Verdict::Invalid,
                    _ => Verdict::Valid,
                };
                assert_eq!(verdict, expected, "{i} on {}", verifier.backend());
            }
        }
        let stats = verifier.stats();
        assert_eq!(stats.signatures, 3000);
        assert_eq!(stats.by_form, 3 * 91);
        assert_eq!(
            stats.by_form + stats.by_table + stats.by_generic + stats.by_library,
            3000
        );
    }
}

#[test]
fn batches_of_every_size_have_the_right_verdicts() {
    let signed = mixed(3, 12);
    let items: Vec<Item> = signed.iter().map(Signed::item).collect();
    for verifier in verifiers(Options::default()) {
        for item in &items {
            assert_eq!(verifier.verify(item), Verdict::Valid);
            let wrong = Item {
                digest: [1; 32],
                ..*item
            };
            assert_eq!(verifier.verify(&wrong), Verdict::Invalid);
        }
        for size in 1..40 {
            assert!(
                verifier
                    .verify_batch(&items[..size])
                    .into_iter()
                    .all(Verdict::is_valid)
            );
        }
    }
}

#[test]
fn another_key_or_curve_is_invalid() {
    let (a, b) = (&signed(Curve::P256, 1, 1)[0], &signed(Curve::P256, 2, 1)[0]);
    let c = &signed(Curve::Secp256k1, 1, 1)[0];
    for verifier in verifiers(Options::default()) {
        for key in [&b.key, &c.key] {
            assert_eq!(verifier.verify(&Item { key, ..a.item() }), Verdict::Invalid);
        }
    }
}

#[test]
fn r_and_s_must_be_from_1_to_n_minus_1() {
    for curve in CURVES {
        let signed = &signed(curve, 1, 1)[0];
        let good = signed.parsed();
        let order = n_minus(curve, &[0]);
        for verifier in verifiers(Options::default()) {
            for bad in [[0; 32], order, [0xff; 32]] {
                let mut r = good;
                r.r = bad;
                let mut s = good;
                s.s = bad;
                for signature in [r, s] {
                    let item = Item {
                        signature: SignatureBytes::Parsed(signature),
                        ..signed.item()
                    };
                    assert_eq!(verifier.verify(&item), Verdict::Invalid);
                }
            }
            assert_eq!(verifier.stats().by_form, 6);
        }
    }
}

#[test]
fn a_high_s_is_refused_if_the_options_say_so() {
    for curve in CURVES {
        let signed = &signed(curve, 1, 1)[0];
        let mut one = signed.parsed();
        let mut other = one;
        other.s = n_minus(curve, &one.s);
        if one.s > other.s {
            std::mem::swap(&mut one, &mut other);
        }
        let [low, high] = [one, other].map(|signature| Item {
            signature: SignatureBytes::Parsed(signature),
            ..signed.item()
        });
        for verifier in verifiers(Options::default()) {
            assert_eq!(
                verifier.verify_batch(&[low, high]),
                [Verdict::Valid, Verdict::Valid]
            );
        }
        for verifier in verifiers(Options {
            low_s: true,
            ..Options::default()
        }) {
            assert_eq!(
                verifier.verify_batch(&[low, high]),
                [Verdict::Valid, Verdict::HighS]
            );
        }
    }
}

#[test]
fn the_greatest_low_s_is_half_the_order() {
    for curve in CURVES {
        let signed = &signed(curve, 1, 1)[0];
        // Use the two values of s next to n/2: (n - 1)/2 and (n + 1)/2.
        let order = num_bigint::BigUint::from_bytes_be(&n_minus(curve, &[0]));
        for verifier in verifiers(Options {
            low_s: true,
            ..Options::default()
        }) {
            for (above, verdict) in [(0u8, Verdict::Invalid), (1, Verdict::HighS)] {
                let mut signature = signed.parsed();
                signature.s = leftmost_256_bits(&(&order / 2u8 + above).to_bytes_be());
                let item = Item {
                    signature: SignatureBytes::Parsed(signature),
                    ..signed.item()
                };
                assert_eq!(verifier.verify(&item), verdict);
            }
        }
    }
}

#[test]
fn all_encodings_of_a_point_give_equal_keys() {
    for curve in CURVES {
        for key in 0..20 {
            let key = signed(curve, key, 1)[0].key;
            assert_eq!(PublicKey::from_sec1(curve, &key.to_sec1_uncompressed()), Ok(key));
            assert_eq!(PublicKey::from_sec1(curve, &key.to_sec1_compressed()), Ok(key));
            assert_eq!(key.curve(), curve);
        }
    }
}

#[test]
fn invalid_encodings_of_keys_are_refused() {
    for curve in CURVES {
        let parse = |bytes: &[u8]| PublicKey::from_sec1(curve, bytes);
        assert_eq!(parse(&[]), Err(KeyError::Malformed(PointError::Empty)));
        assert_eq!(parse(&[0]), Err(KeyError::Malformed(PointError::Infinity)));
        let good = signed(curve, 1, 1)[0].key.to_sec1_uncompressed();
        let mut off = good;
        off[64] ^= 1;
        assert_eq!(parse(&off), Err(KeyError::NotOnCurve));
        let mut large = good;
        large[1..33].fill(0xff);
        assert_eq!(parse(&large), Err(KeyError::CoordinateTooLarge));
        large = good;
        large[33..].fill(0xff);
        assert_eq!(parse(&large), Err(KeyError::CoordinateTooLarge));
        assert_eq!(
            parse(&large[..33]).map_err(|error| matches!(error, KeyError::Malformed(_))),
            Err(true)
        );
        // Find values of x for which the curve has no point; about half of all x are such values.
        let without = (0..100u8).filter(|&x| {
            let mut bytes = [0; 33];
            (bytes[0], bytes[32]) = (2, x);
            parse(&bytes) == Err(KeyError::NotOnCurve)
        });
        assert!((25..75).contains(&without.count()));
    }
}

#[test]
fn digests_of_other_lengths_are_converted() {
    let long: Vec<u8> = (0..64).collect();
    assert_eq!(leftmost_256_bits(&long)[..], long[..32]);
    let mut short = [0; 32];
    short[12..].copy_from_slice(&long[..20]);
    assert_eq!(leftmost_256_bits(&long[..20]), short);
}

#[test]
fn backends_have_names() {
    for backend in Backend::ALL {
        assert_eq!(Backend::from_name(backend.name()), Some(*backend));
        assert_eq!(
            Verifier::new(Options {
                backend: Some(*backend),
                ..Options::default()
            })
            .is_ok(),
            backend.is_available()
        );
    }
    assert_eq!(Backend::from_name("abacus"), None);
    assert!(Backend::best().is_available());
    assert_eq!(Verifier::default().backend(), Backend::best());
}

#[test]
fn threads_share_a_verifier() {
    let signed = mixed(6, 40);
    for builds in [Builds::Inline, Builds::Deferred] {
        for verifier in verifiers(Options {
            builds,
            ..Options::default()
        }) {
            std::thread::scope(|scope| {
                for thread in 0..4 {
                    let (verifier, signed) = (verifier.clone(), &signed);
                    scope.spawn(move || {
                        for round in 0..4 {
                            let items: Vec<Item> =
                                signed[thread * round * 7..].iter().map(Signed::item).collect();
                            assert!(verifier.verify_batch(&items).into_iter().all(Verdict::is_valid));
                            verifier.build_pending(thread);
                        }
                    });
                }
            });
            let stats = verifier.stats();
            let sum = stats.by_form + stats.by_table + stats.by_generic + stats.by_library;
            assert_eq!(stats.signatures, sum);
            assert!(stats.tables <= 12, "a key never has two tables");
        }
    }
}
