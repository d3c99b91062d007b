//! Runs the scenario `transfer` in its shortest form: all contestants answer without wrong replies, no money is lost or
//! created, and the report is complete.

use lineside_bench::BenchError;
use lineside_bench::transfer::report::Report;
use lineside_bench::transfer::{Options, run};
use lineside_testkit::skipped;
use lineside_xdp::XdpError;
use std::time::Duration;

fn short(figure: Option<u8>) -> Option<Report> {
    let options = Options {
        rounds: 1,
        duration: Duration::from_millis(30),
        durable_rounds: 1,
        durable_duration: Duration::from_millis(100),
        packet_rounds: 1,
        packet_sizes: 1,
        recovered: 20_000,
        figure,
        ..Options::default()
    };
    match run(&options, &mut |_| ()) {
        Err(BenchError::NotAllowed(why)) => skipped(format_args!("root is needed ({why})")),
        Err(BenchError::Xdp(XdpError::NotAllowed(why))) => {
            skipped(format_args!("BPF is not permitted ({why})"))
        }
        Err(BenchError::TooFewCores) => skipped("this needs two cores"),
        Err(BenchError::NotMeasured(why)) => skipped(why),
        other => return Some(other.expect("the scenario runs")),
    }
    None
}

#[test]
fn all_contestants_answer_and_the_sum_of_balances_is_conserved() {
    let Some(report) = short(None) else { return };
    eprintln!("{report}");
    assert_eq!(report.failures(), Vec::<String>::new());
    for name in ["sw", "socket", "xdp", "xdp_max", "durable", "redis", "postgres"] {
        let contestant = &report.contestants[name];
        assert!(
            contestant.gate_case.is_some() != contestant.not_measured.is_some(),
            "{name}"
        );
        for figures in contestant.gate_case.iter().chain(contestant.by.values()) {
            assert!(figures.rps > 0.0 && figures.p50_us > 0.0, "{name}: {figures:?}");
        }
    }
    let recovered = report.recovery.as_ref().and_then(|found| found.as_ref().ok());
    assert!(
        recovered.is_some_and(|found| found.operations >= 20_000),
        "{recovered:?}"
    );
    let json = report.to_json();
    for place in [
        "/scenario",
        "/seed",
        "/machine/cpu",
        "/contestants/sw/rps",
        "/contestants/xdp_max/rps",
        "/contestants/xdp_max/by/refer/p999_us",
        "/contestants/xdp/drained/records",
        "/contestants/durable/by/transfer, native batches/rps",
        "/ratios/xdp_max~1sw",
        "/ratios/latency sw~1xdp",
        "/checks/lost",
        "/checks/doubled",
        "/checks/created",
        "/checks/gates/refer xdp_max~1sw/outcome",
    ] {
        assert!(json.pointer(place).is_some(), "no {place} in {json:#}");
    }
}

#[test]
fn a_figure_of_the_paper_has_all_its_rows() {
    let Some(report) = short(Some(7)) else { return };
    let figure = report.figure.as_ref().expect("the figure was requested");
    assert_eq!(figure.rows.len(), 5);
    for row in &figure.rows {
        assert!(row.sw > 0.0 && row.live_xdp > 0.0, "{row:?}");
    }
    assert_eq!(report.failures(), Vec::<String>::new());
}
