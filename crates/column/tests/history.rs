//! Checks that no read is stale, with a hundredth of the reads of `make soak`, and that the check finds injected
//! faults.

use lineside_conformance::history::{Options, Report, Sabotage, run};

fn check(reads: u64, sabotage: Option<Sabotage>) -> Report {
    let options = Options {
        reads,
        seed: 7,
        stop_at_fault: sabotage.is_some(),
        sabotage,
    };
    run(&options, &mut |_| {}).expect("memory")
}

#[test]
fn no_read_is_stale_while_the_table_changes() {
    let report = check(1_000_000, None);
    assert_eq!((report.stale, report.wrong), (0, 0), "{:#?}", report.told);
    assert!(
        report.fastpath >= 1_000_000 && report.unanswered == 0,
        "{report:#?}"
    );
    // Enough answers came from the fast path and not only from the host, and many changes were made.
    assert!(
        report.fastpath > report.reads / 10 && report.changes > 1000,
        "{report:#?}"
    );
    assert!(
        report.coherence.iter().all(|counts| counts.installed > 100),
        "{report:#?}"
    );
    assert!(
        report.coherence.iter().any(|counts| counts.overtaken > 0),
        "{report:#?}"
    );
}

#[test]
fn an_injected_violation_of_coherence_is_detected() {
    for sabotage in [Sabotage::Untold, Sabotage::Hasty, Sabotage::NoClock] {
        let report = check(5_000_000, Some(sabotage));
        assert!(
            report.stale > 0,
            "the check did not find the fault {sabotage:?}: {report:#?}"
        );
    }
}
