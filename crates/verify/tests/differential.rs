//! A bounded run of the fuzz target `ecdsa`: batches of every size and kind against RustCrypto and, with the feature
//! `library`, against aws-lc-rs and libsecp256k1.

mod driver;

use driver::{BUDGETS, Report, SIZES, check, ecdsa_seeds};
use lineside_verify::{Backend, Stats};

/// Appends a step to a program: a batch of `SIZES[size]` items.
fn batch(program: &mut Vec<u8>, size: usize, builds: u8) {
    program.extend([6, size as u8, 7 | builds << 3]);
}

/// Returns programs with all sizes of batches, all limits for tables, all choices of the building thread, and both
/// policies for s.
fn programs() -> Vec<Vec<u8>> {
    let program = |round: u8| {
        let (flags, budget) = (round & 3 | (round & 3) << 2, round % BUDGETS.len() as u8);
        let mut program = vec![flags, budget, round, 6];
        for step in 0..SIZES.len() {
            // Small and large batches alternate.
            let size = if step % 2 == 0 {
                step / 2
            } else {
                SIZES.len() - 1 - step / 2
            };
            batch(&mut program, size, 3 + budget);
        }
        program
    };
    (0..10).map(program).collect()
}

fn sum(reports: &[Report], backend: Backend, of: fn(&Stats) -> u64) -> u64 {
    let stats = reports.iter().flat_map(|report| &report.stats);
    stats
        .filter(|(which, _)| *which == backend)
        .map(|(_, stats)| of(stats))
        .sum()
}

#[test]
fn every_verdict_equals_that_of_rust_crypto() {
    let reports: Vec<Report> = programs().iter().map(|program| check(program)).collect();
    let total = |of: fn(&Report) -> usize| reports.iter().map(of).sum::<usize>();
    let counts = [
        total(|report| report.items),
        total(|report| report.valid),
        total(|report| report.invalid),
        total(|report| report.high_s),
        total(|report| report.malformed),
    ];
    assert_eq!(counts, [35_710, 11_086, 9_008, 6_540, 9_076]);
    for backend in Backend::ALL
        .iter()
        .copied()
        .filter(|backend| backend.is_available())
    {
        check_coverage(&reports, backend);
    }
}

/// Checks that the programs used every way of verification often enough. The numbers are only bounds, because it
/// depends on a random secret of each verifier which keys get tables.
fn check_coverage(reports: &[Report], backend: Backend) {
    let of = |of| sum(reports, backend, of);
    let by_library = of(|stats| stats.by_library);
    if by_library > 0 {
        assert_eq!(
            by_library + of(|stats| stats.by_form),
            of(|stats| stats.signatures)
        );
        return;
    }
    let ways = [
        ("by table", of(|stats| stats.by_table), 5_000),
        ("without", of(|stats| stats.by_generic), 5_000),
        ("exceptional", of(|stats| stats.exceptional), 500),
        ("builds", of(|stats| stats.builds), 100),
        ("evictions", of(|stats| stats.evictions), 20),
        ("refusals", of(|stats| stats.refusals), 100),
    ];
    for (way, count, least) in ways {
        assert!(count >= least, "{backend}, {way}: {count}");
    }
}

#[test]
fn verdicts_for_the_seeds_of_the_fuzz_target_are_right() {
    for seed in ecdsa_seeds() {
        let report = check(&seed);
        assert!(report.items > 0);
    }
}
