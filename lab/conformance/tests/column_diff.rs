//! Tests that compare the XDP program of `column` with the Rust model: in the kernel, and compiled natively.

use lineside_column::datapath as column;
use lineside_column::store::Geometry;
use lineside_conformance::column::DatapathKind;
use lineside_conformance::diff::column::{Case, cases, run};
use lineside_conformance::diff::{DiffCounts, DiffError};
use lineside_testkit::skipped;
use lineside_wire::{ColumnCounter, DropReason};
use lineside_xdp::{XdpDatapath, XdpError};

const COUNT: u64 = 25_000;

/// Checks that the comparison is meaningful: every outcome that the case allows must have occurred.
fn check_reach(case: &Case, seen: &DiffCounts, counts: &[u64]) {
    let count = |counter: ColumnCounter| counts[counter as usize];
    assert_eq!(seen.frames, COUNT);
    assert_eq!(seen.transmitted, count(ColumnCounter::Hits));
    // In a case with few blocks, the table contains few rows.
    assert!(seen.transmitted > COUNT / 80, "{} {seen:?} {counts:?}", case.name);
    assert!(seen.passed > COUNT / 10, "{} {seen:?}", case.name);
    for counter in ColumnCounter::ALL {
        let expected = match counter {
            ColumnCounter::Changing => case.unrest,
            ColumnCounter::LineInvalidations => !case.geometry.trusted_sources.is_empty(),
            _ => true,
        };
        assert_eq!(
            count(counter) > 0,
            expected,
            "{counter:?} {} {counts:?}",
            case.name
        );
    }
    for reason in DropReason::ALL {
        let expected = match reason {
            DropReason::PaperRefused => !case.geometry.paper_format || case.unrest,
            // Only the host drops packets for this reason.
            DropReason::HopLimit => false,
            _ => true,
        };
        let dropped = seen.dropped[reason as usize] > 0;
        assert_eq!(dropped, expected, "{reason:?}: {} {seen:?}", case.name);
    }
}

#[test]
fn the_xdp_programs_in_the_kernel_answer_like_the_model() {
    for (seed, case) in cases().iter().enumerate() {
        match run(case, DatapathKind::Xdp, COUNT, seed as u64) {
            Ok((seen, counts)) => check_reach(case, &seen, &counts),
            Err(DiffError::Xdp(XdpError::NotAllowed(why))) => {
                skipped(format_args!("BPF is not allowed here ({why})"));
                return;
            }
            Err(difference) => panic!("{} seed {seed}: {difference}", case.name),
        }
    }
}

#[test]
fn the_xdp_programs_compiled_natively_answer_like_the_model() {
    for (seed, case) in cases().iter().enumerate() {
        let (seen, counts) = run(case, DatapathKind::Native, COUNT, 100 + seed as u64)
            .unwrap_or_else(|difference| panic!("{} seed {seed}: {difference}", case.name));
        check_reach(case, &seen, &counts);
    }
}

#[test]
fn the_number_of_verified_instructions_is_bounded() {
    for value_bits in [0, 5] {
        let geometry = Geometry {
            row_bits: 8,
            value_bits,
            columns: vec!["entry:foo".into()],
            ..Geometry::default()
        };
        let mut datapath = match XdpDatapath::load(vec![column::program(&geometry, 7703)], None) {
            Err(XdpError::NotAllowed(why)) => {
                return skipped(format_args!("BPF is not allowed here ({why})"));
            }
            other => other.expect("loading"),
        };
        for (name, instructions) in datapath.verified_instructions().expect("verified_insns") {
            println!("{name}: {instructions} instructions");
            assert!((1..20_000).contains(&instructions), "{name}: {instructions}");
        }
    }
}
