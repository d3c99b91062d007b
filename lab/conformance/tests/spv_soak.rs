//! Tests that run a hundredth of `make soak`, and check that the soak finds rules that are broken on purpose.

use lineside_conformance::soak::{Options, Report, Sabotage, run};
use lineside_conformance::spv::DatapathKind;
use lineside_testkit::skipped;
use lineside_xdp::XdpError;

const USER: [DatapathKind; 2] = [DatapathKind::Native, DatapathKind::Socket];
const ALL: [DatapathKind; 3] = [DatapathKind::Native, DatapathKind::Xdp, DatapathKind::Socket];

fn options(datapaths: &[DatapathKind], replies: u64) -> Options {
    Options {
        datapaths: datapaths.to_vec(),
        replies,
        seed: 1,
        stop_at_fault: true,
        sabotage: None,
    }
}

/// Runs the soak on every datapath that this machine supports.
fn soak(replies: u64, change: impl Fn(&mut Options)) -> Report {
    let run = |datapaths: &[DatapathKind]| {
        let mut options = options(datapaths, replies);
        change(&mut options);
        run(&options, &mut |_| ())
    };
    match run(&ALL) {
        Err(XdpError::NotAllowed(why)) => {
            skipped(format_args!(
                "BPF is not allowed here ({why}); testing only the other datapaths"
            ));
            run(&USER).expect("a soak")
        }
        other => other.expect("a soak"),
    }
}

#[test]
fn a_million_replies_are_correct_while_the_chain_changes() {
    let report = soak(1_000_000, |_| ());
    assert_eq!(report.faults(), 0, "{:#?}", report.told);
    assert!(report.replies() >= 1_000_000);
    eprintln!("{report:#?}");
    // The soak is meaningful only if changes, conflicts and invalidations have occurred.
    assert!(report.changes > 20, "{report:#?}");
    assert!(
        report.written.conflicts > 1000 && report.written.invalidations > 100,
        "{report:#?}"
    );
    assert!(
        report.written.tree_fills > 100 && report.written.tree_evictions > 100,
        "{report:#?}"
    );
    for (name, counts) in &report.datapaths {
        assert!(
            counts.replies > 100_000 && counts.forwarded > 1000,
            "{name}: {counts:?}"
        );
        assert!(counts.across_change > 0, "{name}: {counts:?}");
        assert!(counts.too_late < counts.replies / 100, "{name}: {counts:?}");
    }
}

#[test]
fn every_sabotage_is_detected() {
    for sabotage in Sabotage::ALL {
        for datapaths in [&USER[..1], &USER[1..]] {
            let mut options = options(datapaths, 4_000_000);
            options.sabotage = Some(sabotage);
            let report = run(&options, &mut |_| ()).expect("a soak");
            assert!(
                report.faults() > 0,
                "{sabotage:?} on {datapaths:?} was not found: {report:#?}"
            );
            eprintln!(
                "{sabotage:?} on {datapaths:?} after {} replies: {:?}",
                report.replies(),
                report.told.first()
            );
        }
    }
}
