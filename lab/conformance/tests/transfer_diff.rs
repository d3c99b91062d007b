//! Tests that compare the XDP program of `transfer` with the Rust model: in the kernel, and compiled natively.

use lineside_conformance::diff::transfer::{Case, cases, run};
use lineside_conformance::diff::{DiffCounts, DiffError};
use lineside_conformance::transfer::DatapathKind;
use lineside_testkit::skipped;
use lineside_transfer::datapath as transfer;
use lineside_transfer::store::{Geometry, Mode};
use lineside_wire::{DropReason, TransferCounter};
use lineside_xdp::{XdpDatapath, XdpError};

const COUNT: u64 = 25_000;

/// Checks that the comparison is meaningful: every outcome that the case allows must have occurred.
fn check_reach(case: &Case, seen: &DiffCounts, counts: &[u64]) {
    let count = |counter: TransferCounter| counts[counter as usize];
    let express = case.geometry.mode == Mode::Express;
    let executes = express && !case.geometry.require_signature;
    assert_eq!(seen.frames, COUNT);
    assert_eq!(seen.transmitted, count(TransferCounter::Replies));
    assert!(seen.transmitted > COUNT / 50, "{case:?} {seen:?}");
    assert!(seen.passed > COUNT / 10, "{case:?} {seen:?}");
    for counter in TransferCounter::ALL {
        let expected = match counter {
            TransferCounter::Repeats => executes,
            TransferCounter::RingFull => executes && case.geometry.ring_bits < 6,
            TransferCounter::NotLeased => case.unrest,
            TransferCounter::Busy => executes && (case.unrest || case.geometry.ring_bits < 6),
            TransferCounter::Refusals => case.geometry.paper_format || executes,
            TransferCounter::Replies | TransferCounter::Forwarded => true,
        };
        // A ring may become full in every case that executes requests.
        let may = matches!(counter, TransferCounter::RingFull | TransferCounter::Busy) && executes;
        assert!(
            (count(counter) > 0) == expected || may,
            "{counter:?} {case:?} {counts:?}"
        );
    }
    if case.paper_refusals < i64::MAX {
        assert!(count(TransferCounter::Busy) > 100, "{case:?} {counts:?}");
    }
    for reason in DropReason::ALL {
        let expected = match reason {
            DropReason::PaperRefused => !case.geometry.paper_format || case.unrest,
            // Only the host drops packets for this reason.
            DropReason::HopLimit => false,
            _ => true,
        };
        assert_eq!(
            seen.dropped[reason as usize] > 0,
            expected,
            "{reason:?}: {case:?} {seen:?}"
        );
    }
}

#[test]
fn recorded_steps_change_no_verdict_no_byte_and_no_table() {
    for (seed, case) in cases().expect("cases").iter().enumerate() {
        let (seen, counts) = run(case, DatapathKind::Explained, COUNT, 200 + seed as u64)
            .unwrap_or_else(|error| panic!("{}: {error}", case.name));
        check_reach(case, &seen, &counts);
    }
}

#[test]
fn the_xdp_programs_in_the_kernel_answer_like_the_model() {
    for (seed, case) in cases().expect("cases").iter().enumerate() {
        match run(case, DatapathKind::Xdp, COUNT, seed as u64) {
            Ok((seen, counts)) => check_reach(case, &seen, &counts),
            Err(DiffError::Xdp(XdpError::NotAllowed(why))) => {
                skipped(format_args!("BPF is not allowed here ({why})"));
                return;
            }
            Err(difference) => panic!("{case:?} seed {seed}: {difference}"),
        }
    }
}

#[test]
fn the_xdp_programs_compiled_natively_answer_like_the_model() {
    for (seed, case) in cases().expect("cases").iter().enumerate() {
        let (seen, counts) = run(case, DatapathKind::Native, COUNT, 100 + seed as u64)
            .unwrap_or_else(|difference| panic!("{case:?} seed {seed}: {difference}"));
        check_reach(case, &seen, &counts);
    }
}

#[test]
fn the_number_of_verified_instructions_is_bounded() {
    for mode in [Mode::Durable, Mode::Express] {
        let geometry = Geometry {
            account_bits: 4,
            mode,
            ..Geometry::default()
        };
        let mut datapath = match XdpDatapath::load(vec![transfer::program(&geometry, 7702)], None) {
            Err(XdpError::NotAllowed(why)) => {
                return skipped(format_args!("BPF is not allowed here ({why})"));
            }
            other => other.expect("loading"),
        };
        for (name, instructions) in datapath.verified_instructions().expect("verified_insns") {
            assert!(
                (1..20_000).contains(&instructions),
                "{mode:?} {name}: {instructions}"
            );
        }
    }
}
