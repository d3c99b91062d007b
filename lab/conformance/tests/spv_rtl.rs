//! Tests that compare the simulated NIC of `rtl/` with the Rust model of `spv`.
#![cfg(feature = "rtl")]

use lineside_conformance::diff::rtl::run;
use lineside_conformance::diff::spv::{State, cases};
use lineside_wire::{DropReason, SpvCounter};

const COUNT: u64 = 10_000;

#[test]
fn the_simulated_nic_answers_like_the_model() {
    for (seed, case) in cases().iter().enumerate() {
        let (seen, counts) = run(case, COUNT, seed as u64)
            .unwrap_or_else(|difference| panic!("{case:?} seed {seed}: {difference}"));
        let count = |counter: SpvCounter| counts[counter as usize];
        let answers = matches!(case.state, State::Answering | State::HalfWritten);
        assert_eq!(seen.frames, COUNT);
        assert_eq!(seen.transmitted > COUNT / 100, answers, "{case:?} {seen:?}");
        assert_eq!(count(SpvCounter::NotLeased) > 0, !answers, "{case:?} {counts:?}");
        assert!(count(SpvCounter::ForwardedNative) > 0, "{case:?} {counts:?}");
        for reason in DropReason::ALL {
            let expected = match reason {
                DropReason::PaperRefused => !case.geometry.paper_format,
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
}
