//! Runs the scenario `spv` in its shortest form: all contestants answer without wrong replies, and the report is
//! complete.

use lineside_bench::report::Outcome;
use lineside_bench::spv::{Options, run};
use lineside_bench::{BenchError, Report};
use lineside_testkit::skipped;
use lineside_xdp::XdpError;
use std::time::Duration;

fn short() -> Option<Report> {
    let options = Options {
        rounds: 1,
        duration: Duration::from_millis(60),
        replacements: 5,
        import_megabytes: 4,
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
    assert_eq!(report.checks.wrong, 0);
    for (name, contestant) in &report.contestants {
        let figures = [
            contestant.gate_case,
            contestant.window_1,
            contestant.af_xdp,
            contestant.af_xdp_window_1,
            contestant.live,
        ];
        let measured: Vec<_> = figures.into_iter().flatten().collect();
        assert_eq!(measured.is_empty(), contestant.not_measured.is_some(), "{name}");
        for figures in measured {
            assert!(figures.rps > 0.0 && figures.p50_us > 0.0, "{name}: {figures:?}");
        }
    }
    let xdp = &report.contestants["xdp"];
    assert!(
        xdp.hot_hit.is_some() && xdp.random_hit.is_some() && xdp.random_proof.is_some(),
        "{:?}",
        report.checks.notes
    );
    assert_eq!(
        report.checks.gates["verified instructions"].outcome,
        Outcome::Passed
    );
    let replacements = &report.checks.replacements;
    assert!(
        replacements.sent > 0 && replacements.lost == 0,
        "{replacements:?}"
    );
    let import = report.checks.import.as_ref();
    assert!(
        import.is_ok_and(|import| import.transactions > 1000) || import.is_err(),
        "{import:?}"
    );
    assert_eq!(report.failures(), Vec::<String>::new());
    let json = report.to_json();
    for place in [
        "/scenario",
        "/seed",
        "/machine/cpu",
        "/contestants/sw/rps",
        "/contestants/sw/p999_us",
        "/contestants/xdp_max/rps",
        "/ratios/xdp_max~1sw",
        "/ratios/latency sw~1xdp",
        "/checks/lost",
        "/checks/replacements/lost",
        "/checks/gates/xdp_max~1sw_cache/outcome",
    ] {
        assert!(json.pointer(place).is_some(), "no {place} in {json:#}");
    }
}
