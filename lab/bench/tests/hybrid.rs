//! Runs the scenario `hybrid` in its shortest form: no request is refused, and the report is complete.

use lineside_bench::BenchError;
use lineside_bench::hybrid::{Options, Report, run};
use std::fs;
use std::path::PathBuf;

fn folder(name: &str) -> PathBuf {
    let root = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let folder = root.join(format!("hybrid-{name}-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn short(name: &str, options: Options) -> Option<Report> {
    let folder = folder(name);
    let options = Options {
        folder: folder.clone(),
        records: 1_000,
        requests: 6_400,
        case: 200,
        ..options
    };
    let report = match run(&options, &mut |_| ()) {
        Err(BenchError::NotMeasured(why)) => {
            eprintln!("skipped: {why}");
            None
        }
        other => Some(other.expect("the scenario runs")),
    };
    let left: Vec<_> = fs::read_dir(&folder).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
    fs::remove_dir(&folder).unwrap();
    report
}

fn has_figures(report: &Report, case: &str) {
    for who in ["none", "scalar", "batch"] {
        let figures = &report.contestants[who][case];
        assert!(
            figures.rps > 0.0 && figures.p50_us > 0.0,
            "{who}, {case}: {figures:?}"
        );
    }
}

#[test]
fn all_contestants_answer_and_no_request_is_refused() {
    let Some(report) = short("own", Options::quick()) else {
        return;
    };
    eprintln!("{report}");
    assert_eq!(report.failures(), Vec::<String>::new());
    for case in [
        "",
        "workload B",
        "workload C",
        "1 keys",
        "256 keys",
        "10000 keys",
        "calls of 1",
    ] {
        has_figures(&report, case);
    }
    let json = report.to_json();
    for place in [
        "/contestants/batch/lone set/p50_us",
        "/contestants/batch/lone get/p50_us",
        "/contestants/batch/lone get by UDP/p50_us",
        "/ratios/batch~1scalar",
        "/proofs/made_us",
        "/proofs/bytes_max",
        "/again/catch_up_tps",
        "/again/audit_mb_s",
        "/again/restart_tps",
        "/checks/refused",
        "/checks/gates/catch-up, transactions~1s/value",
    ] {
        let value = json.pointer(place);
        assert!(value.is_some_and(|value| value.is_number()), "{place}: {value:?}");
    }
}

#[test]
fn operations_that_ycsb_chose_are_answered() {
    let ycsb = Options {
        ycsb: true,
        ..Options::quick()
    };
    let Some(report) = short("ycsb", ycsb) else { return };
    eprintln!("{report}");
    assert_eq!(report.failures(), Vec::<String>::new());
    for case in ["workload A", "workload B", "workload C"] {
        has_figures(&report, case);
    }
}

#[test]
fn the_cases_with_gates_can_be_run_alone() {
    let judged = Options {
        judged: true,
        ..Options::quick()
    };
    let Some(report) = short("judged", judged) else {
        return;
    };
    assert_eq!(report.failures(), Vec::<String>::new());
    has_figures(&report, "");
    let cases: Vec<&str> = report.contestants["batch"].keys().map(String::as_str).collect();
    let lone = ["lone get", "lone get by UDP", "lone set", "lone set by UDP"];
    assert_eq!(cases, [&[""][..], &lone].concat());
    for (name, gate) in &report.checks.gates {
        assert!(gate.value.is_some(), "{name}: {gate:?}");
    }
    assert_eq!(report.checks.gates.len(), 9);
}
