//! Tests that compare the simulated NIC of `rtl/` with the Rust model of `spv`.
#![cfg(feature = "rtl")]

use lineside_conformance::diff::DiffCounts;
use lineside_conformance::diff::rtl::run;
use lineside_conformance::diff::spv::{State, cases};
use lineside_conformance::rtl::RtlDatapath;
use lineside_conformance::spv::Spv;
use lineside_conformance::vectors::load;
use lineside_conformance::vectors::pcap::{Expected, endpoint, expected, filled};
use lineside_fastpath::lease;
use lineside_rtl::sim::{Pauses, SimVerdict};
use lineside_wire::{DropReason, SPV_FAST_PATH, SPV_PORT, SpvCounter};

const COUNT: u64 = 10_000;

#[test]
fn the_simulated_nic_answers_like_the_model() {
    let mut all = DiffCounts::default();
    for (seed, case) in cases().iter().enumerate() {
        let (seen, counts) = run(case, COUNT, seed as u64)
            .unwrap_or_else(|difference| panic!("{case:?} seed {seed}: {difference}"));
        all.add(&seen);
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
    for op in SPV_FAST_PATH.of(lineside_rtl::DATAPATH) {
        assert!(
            all.answered.contains(op),
            "no request of this kind was answered: {op:?}"
        );
    }
}

/// The frames of each file pass the NIC back to back.
#[test]
fn the_simulated_nic_gives_what_the_vectors_say() {
    for file in load("spv").unwrap() {
        let (store, _writer) = filled(&file).unwrap();
        let endpoint = endpoint(&file).unwrap();
        let mut nic = RtlDatapath::<Spv>::over(&store, &endpoint, SPV_PORT).unwrap();
        let frames: Vec<_> = file.vectors.iter().map(|vector| vector.frame()).collect();
        let left = nic
            .run_batch(lease::now_ns(), &frames, Pauses::default())
            .unwrap();
        for (vector, (verdict, frame)) in file.vectors.iter().zip(left) {
            let found = match verdict {
                SimVerdict::Reply => Expected {
                    network: Some(frame),
                    host: None,
                },
                SimVerdict::Forward => Expected {
                    network: None,
                    host: Some(frame),
                },
                SimVerdict::Drop => Expected::default(),
            };
            assert_eq!(found, expected(vector), "{}: {}", file.name, vector.what);
        }
    }
}
