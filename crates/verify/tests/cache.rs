//! Tests of a verifier's tables, by the numbers in its statistics.

mod signed;

use lineside_verify::{Backend, Builds, Curve, Item, Options, SignatureBytes, Verdict, Verifier};
use signed::{Signed, signed};

fn verifiers(options: Options) -> Vec<Verifier> {
    let with_tables = [Backend::Avx512Ifma, Backend::Portable]
        .into_iter()
        .filter(|backend| backend.is_available());
    with_tables
        .map(|backend| {
            let backend = Some(backend);
            Verifier::new(Options {
                backend,
                ..options.clone()
            })
            .unwrap()
        })
        .collect()
}

/// Returns the number of uses of a key from which on it has a table.
fn first_uses(verifier: &Verifier) -> u64 {
    match verifier.backend() {
        Backend::Avx512Ifma => 8,
        _ => 4,
    }
}

fn all_valid(verifier: &Verifier, signed: &[Signed]) {
    let items: Vec<Item> = signed.iter().map(Signed::item).collect();
    assert!(verifier.verify_batch(&items).into_iter().all(Verdict::is_valid));
}

/// Verifies the signatures one by one in different encodings, and checks that all are valid.
fn all_valid_one_by_one(verifier: &Verifier, signed: &[Signed]) {
    for (i, one) in signed.iter().enumerate() {
        let signature = match i % 2 {
            0 => SignatureBytes::Der(&one.der),
            _ => SignatureBytes::Parsed(one.parsed()),
        };
        assert_eq!(
            verifier.verify(&Item {
                signature,
                ..one.item()
            }),
            Verdict::Valid
        );
    }
}

#[test]
fn a_key_has_no_table_until_it_recurs() {
    let signed = signed(Curve::P256, 1, 1);
    for verifier in verifiers(Options::default()) {
        let first = first_uses(&verifier);
        for use_number in 1..=first + 2 {
            let by_table = (use_number + 1).saturating_sub(first);
            let (by_generic, builds) = (use_number - by_table, by_table.min(1));
            all_valid(&verifier, &signed);
            let stats = verifier.stats();
            assert_eq!(
                (stats.by_generic, stats.by_table, stats.builds),
                (by_generic, by_table, builds)
            );
            assert_eq!(stats.table_hits, stats.by_table);
            assert_eq!(stats.exceptional, 0);
        }
        assert_eq!(verifier.stats().tables, 1);
    }
}

#[test]
fn a_batch_with_enough_of_one_key_builds_its_table_first() {
    for verifier in verifiers(Options::default()) {
        all_valid(&verifier, &signed(Curve::Secp256k1, 1, 8));
        assert_eq!((verifier.stats().builds, verifier.stats().by_table), (1, 8));
    }
}

#[test]
fn only_valid_signatures_make_a_key_protected() {
    let signed = &signed(Curve::P256, 1, 1)[0];
    for verifier in verifiers(Options::default()) {
        let wrong = Item {
            digest: [7; 32],
            ..signed.item()
        };
        for _ in 0..20 {
            assert!(!verifier.verify(&wrong).is_valid());
        }
        assert_eq!(
            verifier.stats().builds,
            0,
            "no key was used often enough for a table"
        );
        for _ in 0..4 {
            verifier.verify_batch(&[wrong; 100]);
        }
        let stats = verifier.stats();
        assert_eq!((stats.tables, stats.protected_keys), (1, 0));
        for uses in 1..=64 {
            assert!(verifier.verify_batch(&[wrong, signed.item()])[1].is_valid());
            assert_eq!(verifier.stats().protected_keys, uses / 64);
        }
        for _ in 65..=256 {
            assert!(verifier.verify(&signed.item()).is_valid());
        }
        assert_eq!(verifier.stats().builds, 1);
        assert!(verifier.verify(&signed.item()).is_valid());
        assert_eq!(verifier.stats().builds, 2, "the 257th use builds a larger table");
    }
}

#[test]
fn deferred_builds_run_when_the_caller_builds() {
    let signed = [signed(Curve::P256, 1, 9), signed(Curve::Secp256k1, 1, 9)];
    let builds = Builds::Deferred;
    for verifier in verifiers(Options {
        builds,
        ..Options::default()
    }) {
        for _ in 0..2 {
            signed.iter().for_each(|signed| all_valid(&verifier, signed));
        }
        let stats = verifier.stats();
        assert_eq!((stats.by_generic, stats.builds, stats.pending_builds), (36, 0, 2));
        assert_eq!(verifier.build_pending(1), 1);
        assert_eq!(verifier.stats().pending_builds, 1);
        assert_eq!(verifier.build_pending(100), 1);
        assert_eq!(verifier.build_pending(100), 0);
        signed
            .iter()
            .for_each(|signed| all_valid_one_by_one(&verifier, signed));
        let stats = verifier.stats();
        assert_eq!((stats.by_table, stats.builds, stats.pending_builds), (18, 2, 0));
    }
}

#[test]
fn bytes_stay_within_the_limit() {
    let keys: Vec<_> = (0..40).map(|key| signed(Curve::P256, key, 4)).collect();
    for table_bytes in [0, 200_000, 1 << 20, 3 << 20] {
        for verifier in verifiers(Options {
            table_bytes,
            ..Options::default()
        }) {
            for round in 0..3 {
                for (n, signed) in keys.iter().enumerate() {
                    let repeat = if n < 3 { 20 } else { 1 };
                    (0..repeat).for_each(|_| all_valid(&verifier, &signed[..1 + (n + round) % 4]));
                    // The smallest tables of the generators, 104 KiB, always exist.
                    assert!(verifier.stats().table_bytes <= table_bytes.max(106_496));
                }
            }
            let stats = verifier.stats();
            assert_eq!(stats.tables == 0, table_bytes == 0, "{stats:?}");
            assert_eq!(stats.signatures, stats.by_table + stats.by_generic);
        }
    }
}

#[test]
fn the_large_generator_table_is_built_after_use_and_shared() {
    // With this limit the large table has width 10 and is built quickly.
    let options = Options {
        table_bytes: 8 << 20,
        builds: Builds::Deferred,
        ..Options::default()
    };
    let signed = signed(Curve::P256, 7, 8);
    for (verifier, other) in verifiers(options.clone()).into_iter().zip(verifiers(options)) {
        all_valid(&verifier, &signed);
        let before = verifier.stats().table_bytes;
        while verifier.build_pending(10) > 0 {}
        let items: Vec<Item> = (0..32_768).map(|i| signed[i % 8].item()).collect();
        if verifier.backend() == Backend::Portable {
            // The backend uses the same code as the one tested before, but takes seconds, so it is skipped.
            continue;
        }
        assert!(verifier.verify_batch(&items).into_iter().all(Verdict::is_valid));
        while verifier.build_pending(10) > 0 {}
        assert!(verifier.stats().table_bytes > before);
        // Another verifier finds the large table and uses it without building one.
        all_valid(&other, &signed);
        let generator = other.stats().table_bytes;
        assert!(generator > before, "{generator}");
        assert!(other.build_pending(10) <= 1);
    }
}
