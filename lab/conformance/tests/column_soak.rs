//! Tests that `column` never returns outdated rows, on every datapath that processes whole frames, and that the check
//! finds a rule that is broken on purpose. The tests of the model are in `lineside-column`.

use lineside_conformance::frames::DatapathKind;
use lineside_conformance::history::{Options, Report, Sabotage};
use lineside_conformance::soak::column::run;
use lineside_testkit::skipped;
use lineside_xdp::XdpError;

fn check(kind: DatapathKind, reads: u64, sabotage: Option<Sabotage>) -> Option<Report> {
    let options = Options {
        reads,
        seed: 3,
        stop_at_fault: sabotage.is_some(),
        sabotage,
    };
    match run(kind, &options, &mut |_| ()) {
        Err(XdpError::NotAllowed(why)) => {
            skipped(format_args!("BPF is not allowed here ({why})"));
            None
        }
        report => Some(report.expect("a soak")),
    }
}

#[test]
fn no_read_is_stale_while_the_table_changes() {
    for kind in [DatapathKind::Native, DatapathKind::Xdp] {
        let Some(report) = check(kind, 100_000, None) else {
            return;
        };
        assert_eq!(
            (report.stale, report.wrong),
            (0, 0),
            "{kind:?}: {:#?}",
            report.told
        );
        assert_eq!(report.unanswered, 0, "{kind:?}");
        assert!(
            report.fastpath >= 100_000 && report.changes > 100,
            "{kind:?}: {report:#?}"
        );
    }
}

#[test]
fn an_injected_violation_of_coherence_is_detected() {
    for kind in [DatapathKind::Native, DatapathKind::Xdp] {
        // On these datapaths, finding a broken rule about the table's servers takes minutes, so only this rule is
        // tested.
        let Some(report) = check(kind, 5_000_000, Some(Sabotage::Untold)) else {
            return;
        };
        assert!(
            report.stale > 0,
            "{kind:?}: the broken rule was not found: {report:#?}"
        );
    }
}
