//! The scenario `electrum`, as short as it can be: our server answers, never wrongly, and the report says what it must.
//! Without ElectrumX its ratio is not measured.

use lineside_bench::BenchError;
use lineside_bench::electrum::{Options, run};
use lineside_bench::report::Outcome;
use lineside_testkit::{binary, skipped};
use std::time::Duration;

#[test]
fn our_proofs_are_right_and_a_block_is_answered_by_the_fast_path() {
    let options = Options {
        blocks: 2,
        rounds: 1,
        duration: Duration::from_millis(200),
        announcements: 2,
        ..Options::new(binary("lineside"))
    };
    let report = match run(&options, &mut |_| ()) {
        Err(BenchError::TooFewCores) => return skipped("this needs two cores"),
        other => other.expect("the scenario runs"),
    };
    eprintln!("{report}");
    assert_eq!(report.failures(), Vec::<String>::new());
    let ours = report.contestants["lineside"]
        .get_merkle
        .expect("ours is measured");
    assert!(ours.rps > 0.0 && ours.p50_us > 0.0 && ours.sent > 0, "{ours:?}");
    assert!(report.announced.first_answer_ms >= report.announced.any_answer_ms);
    let theirs = &report.contestants["electrumx"];
    let gate = report.checks.gates["per core lineside/electrumx"].outcome;
    if theirs.not_measured.is_some() {
        assert_eq!((gate, report.ratios.len()), (Outcome::NotMeasured, 0));
        skipped("a part: ElectrumX is not installed (LINESIDE_ELECTRUMX, or electrumx_server on the path)");
    } else {
        assert!(theirs.get_merkle.is_some_and(|figures| figures.rps > 0.0));
        assert_ne!(gate, Outcome::NotMeasured);
    }
    let json = report.to_json();
    for key in ["scenario", "seed", "machine", "contestants", "ratios", "checks"] {
        assert!(json.get(key).is_some(), "{key}");
    }
}
