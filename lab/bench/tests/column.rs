//! Runs the scenario `column` in its shortest form: all contestants answer without wrong or stale replies, and the
//! report is complete. Without Java, HBase is left out.

use lineside_bench::BenchError;
use lineside_bench::column::{Options, Report, run};
use lineside_bench::report::Outcome;
use lineside_testkit::skipped;
use lineside_xdp::XdpError;
use std::time::Duration;

fn short() -> Option<Report> {
    let options = Options {
        rounds: 1,
        calls: 1 << 12,
        contest_rounds: 1,
        duration: Duration::from_millis(40),
        warm_up: Duration::from_millis(50),
        point: Duration::from_millis(150),
        puts: 50,
        ..Options::default()
    };
    match run(&options, &mut |_| ()) {
        Err(BenchError::NotAllowed(why)) => skipped(format_args!("root is needed ({why})")),
        Err(BenchError::Xdp(XdpError::NotAllowed(why))) => {
            skipped(format_args!("BPF is not permitted ({why})"))
        }
        Err(BenchError::TooFewCores) => skipped("this needs two cores"),
        other => return Some(other.expect("the scenario runs")),
    }
    None
}

#[test]
fn all_contestants_answer_and_no_answer_is_wrong() {
    let Some(report) = short() else { return };
    eprintln!("{report}");
    assert_eq!(report.failures(), Vec::<String>::new());
    for (name, contestant) in &report.contestants {
        assert!(
            contestant.gate_case.is_some() != contestant.not_measured.is_some(),
            "{name}"
        );
        for figures in contestant.gate_case.iter().chain(contestant.by.values()) {
            assert!(figures.rps > 0.0 && figures.p50_us > 0.0, "{name}: {figures:?}");
        }
    }
    let sweeps = report.sweeps.as_ref().expect("all points are measured");
    let hits: Vec<f64> = sweeps.points[..5].iter().map(|point| point.hit_rate).collect();
    assert!(hits[0] == 0.0 && hits[4] == 1.0, "{hits:?}");
    // With few requests, the hit rate equals the share of rows in the table only approximately.
    assert!(
        hits[0] < hits[1] && hits[1] < hits[2] && hits[2] < hits[4],
        "{hits:?}"
    );
    assert!(sweeps.points.iter().all(|point| point.figures.rps > 0.0));
    assert_eq!(
        report.checks.gates["verified instructions"].outcome,
        Outcome::Passed
    );
    let has_peer = report.contestants["thrift2"].gate_case.is_some();
    if !has_peer {
        eprintln!("without HBase: {:?}", report.contestants["thrift2"].not_measured);
    }
    assert_eq!(report.write_cost.is_some(), has_peer);
    assert_eq!(report.told_cost.is_some(), has_peer);
    let json = report.to_json();
    for place in [
        "/scenario",
        "/seed",
        "/machine/cpu",
        "/contestants/xdp/rps",
        "/contestants/xdp_max/by/scan8/p999_us",
        "/contestants/socket/by/get, live frames/rps",
        "/ratios/get xdp_max~1socket",
        "/sweeps/points/0/hit_rate",
        "/sweeps/points/0/p50_us",
        "/checks/stale",
        "/checks/gates/scan8 xdp_max~1thrift2/outcome",
    ] {
        assert!(json.pointer(place).is_some(), "no {place} in {json:#}");
    }
    assert_eq!(json.pointer("/ratios/get xdp_max~1thrift2").is_some(), has_peer);
}
