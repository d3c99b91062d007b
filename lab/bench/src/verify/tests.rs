//! Tests that run the scenario in its shortest form, and check that it detects faults.

use super::*;
use crate::gate::Outcome;

fn tiny() -> Options {
    Options {
        rounds: 3,
        slice: Duration::from_micros(50),
        cold_every: 2,
        percent: 2,
        ..Options::default()
    }
}

fn small() -> Sizes {
    Sizes {
        few: 256,
        many: 256,
        unknown: 320,
    }
}

/// Returns all contestants of a curve by name.
fn everybody<'a>(curve: Curve, pool: &'a Pool, unknown: &'a Pool) -> Vec<(&'static str, Box<dyn Work + 'a>)> {
    let mut all = match curve {
        Curve::P256 => vec![
            (AWS_LC_RS, contestants::aws_lc_rs(pool)),
            (RING, contestants::ring(pool)),
            (AWS_LC_RS, whole::aws_lc_rs(unknown, false)),
            (AWS_LC_RS, whole::aws_lc_rs(pool, true)),
        ],
        Curve::Secp256k1 => vec![(LIBSECP256K1, contestants::libsecp256k1(pool))],
    };
    for backend in [Backend::Avx512Ifma, Backend::Portable] {
        if !backend.is_available() {
            continue;
        }
        let verifier = contestants::fresh(backend);
        assert_eq!(contestants::warm(&verifier, pool, 64, 3).mismatches, 0);
        all.push(("hot", contestants::with_tables(&verifier, pool, 64)));
        all.push(("single", contestants::with_tables(&verifier, pool, 1)));
        all.push(("unknown", contestants::unknown(backend, unknown, 64)));
        all.push(("cold", contestants::from_cold(backend, pool, 64, 200)));
        if curve == Curve::P256 {
            all.push((SEEN_ONCE, whole::seen_once(backend, unknown, 64)));
            all.push((COME_BACK, whole::come_back(backend, pool, 64)));
            all.push((PREPARE, whole::prepare(backend, pool)));
        }
    }
    all
}

fn slice_of<'a>(work: Box<dyn Work + 'a>) -> SliceResults {
    let name = Name {
        primitive: "p256",
        contestant: "somebody",
        case: "hot",
    };
    let mut runner = Runner {
        name,
        work,
        every: 1,
        seen: SliceResults::default(),
    };
    measure::run_slice(&mut runner, Duration::from_millis(20), &mut None);
    runner.seen
}

#[test]
fn a_report_has_the_documented_keys_and_no_failure() {
    let mut steps = Vec::new();
    let report = run(&tiny(), &mut |at| steps.push((at.done, at.of)));
    assert_eq!(report.checks.mismatches, 0);
    assert_eq!(report.failures(), Vec::<String>::new());
    assert_eq!(steps.last(), Some(&(11, 12)));
    let json = report.to_json();
    for place in [
        "/scenario",
        "/seed",
        "/machine/cpu",
        "/contestants/aws-lc-rs/p256/single/best_ns",
        "/contestants/ring/p256/single/median_ns",
        "/contestants/libsecp256k1/secp256k1/single/best_per_s",
        "/contestants/portable/p256/hot/slices",
        "/contestants/portable/secp256k1/cold/mismatches",
        "/contestants/sha2/sha256/messages_1k/best_ns",
        "/contestants/sha3/keccak256/messages_short/best_ns",
        "/contestants/crypto_mb/not_measured",
        "/contestants/aws-lc-rs/p256/seen_once/best_ns",
        "/contestants/portable/p256/come_back/mismatches",
        "/contestants/portable/p256/prepare/best_ns",
        "/ratios/p256 portable~1aws-lc-rs",
        "/ratios/p256 seen_once portable~1aws-lc-rs",
        "/ratios/p256 come_back portable~1aws-lc-rs",
        "/ratios/secp256k1 unknown portable~1libsecp256k1",
        "/median_ratios/p256 batch_8 portable~1ring",
        "/checks/mismatches",
        "/checks/limits/additions",
        "/checks/gates/p256 ifma~1aws-lc-rs/outcome",
        "/checks/gates/p256 batch_8 ifma, us a batch/value",
    ] {
        assert!(json.pointer(place).is_some(), "no {place} in {json:#}");
    }
    let ifma = Backend::Avx512Ifma.is_available();
    assert_eq!(json.pointer("/ratios/p256 ifma~1aws-lc-rs").is_some(), ifma);
    assert_eq!(json.pointer("/contestants/ifma/not_measured").is_none(), ifma);
    // After few uses, tables are small. The limits assume large tables, so no limit is computed.
    assert!(report.checks.limits.port.is_none());
    let text = report.to_string();
    assert!(
        text.contains("\nP-256, a signature") && text.contains("wrong verdicts or digests: 0"),
        "{text}"
    );
}

#[test]
fn a_run_without_avx512_compares_the_portable_code_with_the_libraries() {
    let options = Options {
        avx512: false,
        ..tiny()
    };
    let json = run(&options, &mut |_| {}).to_json();
    for contestant in [IFMA, "avx512"] {
        let why = json.pointer(&format!("/contestants/{contestant}/not_measured"));
        assert_eq!(why.and_then(|why| why.as_str()), Some(LEFT_OUT), "{contestant}");
        let measured = |primitive: &str| json.pointer(&format!("/contestants/{contestant}/{primitive}"));
        assert!(
            ["p256", "secp256k1", "sha256", "keccak256"]
                .into_iter()
                .all(|primitive| measured(primitive).is_none())
        );
    }
    for case in ["", " seen_once", " come_back", " unknown"] {
        let ratio = format!("/ratios/p256{case} portable~1aws-lc-rs");
        assert!(
            json.pointer(&ratio)
                .is_some_and(|ratio| ratio.as_f64() > Some(0.0)),
            "{ratio} in {json:#}"
        );
    }
    assert_eq!(
        json.pointer("/checks/gates/p256 ifma~1aws-lc-rs/outcome"),
        Some(&"not_measured".into())
    );
}

#[test]
fn the_same_seed_gives_the_same_signatures_and_some_are_invalid() {
    for curve in [Curve::P256, Curve::Secp256k1] {
        let [a, b] = [7, 7].map(|seed| Workload::new(curve, seed, small()));
        let other = Workload::new(curve, 8, small());
        let signatures = |pool: &Pool| pool.signed.iter().map(|s| s.signature).collect::<Vec<_>>();
        assert_eq!(signatures(&a.few), signatures(&b.few));
        assert_ne!(signatures(&a.few), signatures(&other.few));
        assert_ne!(signatures(&a.few), signatures(&a.many));
        for key in 0..16 {
            let of_key = || a.few.signed.iter().filter(move |signed| signed.key == key);
            assert!(
                of_key().any(|s| !s.valid) && of_key().any(|s| s.valid),
                "key {key} has no invalid signature"
            );
        }
        let spoilt = a.few.signed.iter().filter(|signed| !signed.valid).count();
        assert_eq!(spoilt, 256 / 16);
        let keys: std::collections::HashSet<_> = a.unknown.keys.iter().collect();
        assert_eq!(keys.len(), small().unknown);
    }
}

#[test]
fn all_contestants_return_the_expected_verdicts() {
    for curve in [Curve::P256, Curve::Secp256k1] {
        let workload = Workload::new(curve, 3, small());
        for (name, work) in everybody(curve, &workload.few, &workload.unknown) {
            let seen = slice_of(work);
            assert!(seen.count > 0 && seen.ns.len() == 1, "{curve:?}, {name}");
            assert_eq!(seen.mismatches, 0, "{curve:?}, {name}");
        }
    }
}

#[test]
fn unexpected_verdicts_of_every_contestant_are_counted() {
    for curve in [Curve::P256, Curve::Secp256k1] {
        let mut workload = Workload::new(curve, 3, small());
        // The expected verdicts are inverted, so every verdict must count as a mismatch.
        for pool in [&mut workload.few, &mut workload.unknown] {
            pool.signed
                .iter_mut()
                .for_each(|signed| signed.valid = !signed.valid);
        }
        let (pool, unknown) = (&workload.few, &workload.unknown);
        let verifier = contestants::fresh(Backend::Portable);
        let warm = contestants::warm(&verifier, pool, 64, 3);
        assert_eq!(warm.mismatches, warm.count);
        let mut all = vec![
            contestants::with_tables(&verifier, pool, 64),
            contestants::with_tables(&verifier, pool, 1),
            contestants::unknown(Backend::Portable, unknown, 64),
            contestants::from_cold(Backend::Portable, pool, 64, 200),
        ];
        match curve {
            Curve::P256 => all.extend([
                contestants::aws_lc_rs(pool),
                contestants::ring(pool),
                whole::aws_lc_rs(unknown, false),
                whole::aws_lc_rs(pool, true),
                whole::seen_once(Backend::Portable, unknown, 64),
                whole::come_back(Backend::Portable, pool, 64),
            ]),
            Curve::Secp256k1 => all.push(contestants::libsecp256k1(pool)),
        }
        for work in all {
            let seen = slice_of(work);
            assert!(seen.mismatches >= seen.count, "{seen:?}");
        }
    }
}

#[test]
fn a_cold_run_verifies_the_complete_pool_and_unknown_keys_get_no_tables() {
    let workload = Workload::new(Curve::P256, 3, small());
    let mut cold = contestants::from_cold(Backend::Portable, &workload.few, 64, 200);
    for _ in 0..2 {
        cold.prepare();
        let mut count = 0;
        while !cold.is_over(true) {
            count += cold.step().count;
        }
        assert_eq!(count, 200);
    }
    let mut unknown = contestants::unknown(Backend::Portable, &workload.unknown, 64);
    let mut count = unknown.prepare().count;
    let seen_once = slice_of(whole::seen_once(Backend::Portable, &workload.unknown, 64));
    assert!(seen_once.count <= 256, "{seen_once:?}");
    assert!(unknown.is_over(true), "a slice is over when its time is used up");
    while !unknown.is_over(false) {
        count += unknown.step().count;
    }
    assert_eq!(count, 320, "no key occurs twice");
}

#[test]
fn a_wrong_digest_is_counted_as_a_mismatch() {
    let mut messages = Messages::new(Hash::Keccak256, 5);
    assert_eq!(slice_of(messages.by_crates()).mismatches, 0);
    messages.spoil_one();
    assert_eq!(slice_of(messages.by_crates()).mismatches, 1);
}

/// Returns the findings of a run in which Lineside's work takes `ns` nanoseconds and the libraries' work takes 1,000.
fn findings(ns: f64) -> Findings {
    let mut findings = Findings::default();
    let mut add = |primitive, contestant, case, ns| {
        let seen = SliceResults {
            ns: vec![2.0 * ns, ns, 3.0 * ns],
            count: 3,
            ..SliceResults::default()
        };
        let figures = Figures::of(&seen).expect("there are slices");
        findings.figures.insert((primitive, contestant, case), figures);
    };
    add("p256", AWS_LC_RS, "single", 1_000.0);
    for case in ["hot", "batch_8", "unknown"] {
        add("p256", IFMA, case, ns);
    }
    findings
}

fn outcomes(findings: Findings) -> impl Fn(&str) -> Outcome {
    let report = Report::new(1, Machine::read(), findings);
    move |key| report.checks.gates[key].outcome
}

#[test]
fn gates_are_judged_by_the_fastest_slices() {
    let outcome = outcomes(findings(25.0));
    assert_eq!(outcome("p256 ifma/aws-lc-rs"), Outcome::Passed);
    assert_eq!(outcome("p256 batch_8 ifma, us a batch"), Outcome::Passed);
    assert_eq!(outcome("p256 portable/aws-lc-rs"), Outcome::NotMeasured);
    assert_eq!(outcome("secp256k1 ifma/libsecp256k1"), Outcome::NotMeasured);
    assert_eq!(outcome("p256 ifma port share, %"), Outcome::NotMeasured);
    let outcome = outcomes(findings(20.0));
    assert_eq!(outcome("p256 ifma/aws-lc-rs"), Outcome::Stretch);
    let outcome = outcomes(findings(200.0));
    assert_eq!(outcome("p256 ifma/aws-lc-rs"), Outcome::Missed);
    assert_eq!(outcome("p256 unknown ifma/aws-lc-rs"), Outcome::Missed);
}

#[test]
fn one_wrong_verdict_makes_all_gates_void() {
    let mut wrong = findings(25.0);
    wrong.mismatches = 1;
    let report = Report::new(1, Machine::read(), wrong);
    assert_eq!(report.failures().len(), 1);
    let gates = report.checks.gates.values();
    let void = gates.filter(|gate| gate.value.is_some());
    assert!(void.clone().count() > 0 && void.clone().all(|gate| gate.outcome == Outcome::Void));
}

#[test]
fn shares_of_the_limit_are_computed_only_for_full_tables() {
    let rates = Rates {
        clock_ghz: Some(4.0),
        multiplications_per_ns: Some(4.0),
    };
    let full = 112 << 20;
    let limits = Limits::new(Some(1_000.0), Some(full), rates);
    let port = limits.port.expect("measured");
    assert!(
        (port.limit_ns - 35.0 * 725.0 / 8.0 / 8.0).abs() < 1e-9,
        "{port:?}"
    );
    assert!((port.share_percent - port.limit_ns / 10.0).abs() < 1e-9);
    let multiplier = limits.multiplier.expect("measured");
    assert!((multiplier.limit_ns - 35.0 * 460.0 / 8.0 / 4.0).abs() < 1e-9);
    assert_eq!(limits.multiplications_per_cycle, Some(1.0));
    assert!(Limits::new(Some(1_000.0), Some(full - 1), rates).port.is_none());
    assert!(Limits::new(Some(1_000.0), None, rates).multiplier.is_none());
    assert!(
        Limits::new(Some(1_000.0), Some(full), Rates::default())
            .port
            .is_none()
    );
}

#[test]
fn the_clock_rate_and_the_instruction_counter_are_plausible() {
    if let Some(clock) = cpu::clock_ghz() {
        assert!(clock > 0.05 && clock < 20.0, "{clock} GHz");
    }
    let ifma = Backend::Avx512Ifma.is_available();
    assert!(cpu::multiplications_per_ns().is_some() || !ifma);
    match Instructions::new() {
        Ok(mut counter) => {
            let before = counter.read().expect("it counts");
            std::hint::black_box((0..10_000u64).fold(0, |sum, i| sum ^ std::hint::black_box(i)));
            assert!(counter.read().expect("it counts") > before + 10_000);
        }
        Err(error) => eprintln!("SKIPPED: no counter of instructions ({error})"),
    }
}
