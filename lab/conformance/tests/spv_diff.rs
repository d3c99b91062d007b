//! Tests that compare the XDP program of `spv` with the Rust model: in the kernel, and compiled natively.

use lineside_conformance::diff::spv::{Case, State, cases, run};
use lineside_conformance::diff::{DiffCounts, DiffError};
use lineside_conformance::spv::DatapathKind;
use lineside_testkit::skipped;
use lineside_wire::{DropReason, SPV_FAST_PATH, SpvCounter};
use lineside_xdp::XdpError;

const COUNT: u64 = 20_000;

/// Checks that the comparison is meaningful: every verdict that the case allows must have occurred.
fn check_reach(case: &Case, seen: &DiffCounts, counts: &[u64]) {
    let count = |counter: SpvCounter| counts[counter as usize];
    assert_eq!(seen.frames, COUNT);
    assert_eq!(seen.transmitted, count(SpvCounter::Hits));
    assert!(seen.passed > COUNT / 10, "{case:?} {seen:?}");
    let answers = matches!(case.state, State::Answering | State::HalfWritten);
    assert_eq!(seen.transmitted > COUNT / 50, answers, "{case:?} {seen:?}");
    assert_eq!(count(SpvCounter::NotLeased) > 0, !answers, "{case:?} {counts:?}");
    assert_eq!(count(SpvCounter::Misses) > 0, answers, "{case:?} {counts:?}");
    assert!(count(SpvCounter::ForwardedNative) > 0, "{case:?} {counts:?}");
    for reason in DropReason::ALL {
        let expected = match reason {
            DropReason::PaperRefused => !case.geometry.paper_format,
            // Only the host drops packets for this reason.
            DropReason::HopLimit => false,
            _ => true,
        };
        let name = reason.name();
        assert_eq!(
            seen.dropped[reason as usize] > 0,
            expected,
            "{name}: {case:?} {seen:?}"
        );
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
            Err(difference) => panic!("{case:?} seed {seed}: {difference}"),
        }
    }
}

#[test]
fn the_xdp_programs_compiled_natively_answer_like_the_model() {
    let mut all = DiffCounts::default();
    for (seed, case) in cases().iter().enumerate() {
        let (seen, counts) = run(case, DatapathKind::Native, COUNT, 100 + seed as u64)
            .unwrap_or_else(|difference| panic!("{case:?} seed {seed}: {difference}"));
        check_reach(case, &seen, &counts);
        all.add(&seen);
    }
    // spec/ lists nothing that no request reached.
    for op in SPV_FAST_PATH.of("xdp") {
        assert!(all.answered.contains(op), "{op:?}");
    }
}

#[test]
fn the_number_of_verified_instructions_is_bounded() {
    use lineside_spv::datapath as spv;
    use lineside_xdp::XdpDatapath;
    let geometry = lineside_spv::store::Geometry {
        line_bits: 10,
        block_bits: 4,
        ..Default::default()
    };
    let mut datapath = match XdpDatapath::load(vec![spv::program(&geometry, 7701)], None) {
        Err(XdpError::NotAllowed(why)) => return skipped(format_args!("BPF is not allowed here ({why})")),
        other => other.expect("loading"),
    };
    let programs = datapath.verified_instructions().expect("verified_insns");
    assert_eq!(programs.len(), 2);
    for (name, instructions) in programs {
        assert!((1..10_000).contains(&instructions), "{name}: {instructions}");
    }
}
