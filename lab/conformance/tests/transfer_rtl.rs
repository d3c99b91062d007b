//! Tests that compare the simulated NIC of `rtl/transfer` with the Rust model of `transfer`.
#![cfg(feature = "rtl")]

use lineside_conformance::diff::DiffCounts;
use lineside_conformance::diff::transfer::rtl::{executes, nic_cases, run};
use lineside_wire::{DropReason, TRANSFER_FAST_PATH, TransferCounter};

const COUNT: u64 = 10_000;

#[test]
fn the_simulated_nic_executes_like_the_model() {
    let mut all = DiffCounts::default();
    for (seed, case) in nic_cases().unwrap().iter().enumerate() {
        let (seen, counts) = run(case, COUNT, seed as u64)
            .unwrap_or_else(|difference| panic!("{case:?} seed {seed}: {difference}"));
        all.add(&seen);
        let count = |counter: TransferCounter| counts[counter as usize];
        assert_eq!(seen.frames, COUNT);
        assert!(seen.transmitted > COUNT / 50, "{case:?} {seen:?}");
        assert!(count(TransferCounter::Forwarded) > 0, "{case:?} {counts:?}");
        if executes(case) {
            assert!(count(TransferCounter::Repeats) > 0, "{case:?} {counts:?}");
            assert!(count(TransferCounter::Refusals) > 0, "{case:?} {counts:?}");
        }
        assert_eq!(
            count(TransferCounter::RingFull) > 0,
            case.has_slow_records,
            "{case:?} {counts:?}"
        );
        for reason in DropReason::ALL {
            let expected = match reason {
                // With unrest, the policy changes at random.
                DropReason::PaperRefused if case.case.unrest => continue,
                DropReason::PaperRefused => !case.case.geometry.paper_format,
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
    for op in TRANSFER_FAST_PATH.of(lineside_rtl::DATAPATH) {
        assert!(
            all.answered.contains(op),
            "no request of this kind was answered: {op:?}"
        );
    }
}
