//! Runs the scenario `fabric` in its shortest form: all contestants give the codes that the generator expects.

use lineside_bench::BenchError;
use lineside_bench::fabric::{Options, PAPER_STEPS, PaperOptions, for_paper, run};
use std::path::Path;

#[test]
fn all_contestants_return_the_expected_validation_codes() {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let folder = root.join(format!("fabric-{}", std::process::id()));
    let options = Options {
        folder: folder.clone(),
        keys: 2_000,
        sustained: 5_000,
        delivered: 2_000,
        open: 1_000,
        udp: 1_500,
        compared: 1_000,
        cases: false,
        rounds: 1,
        ..Options::default()
    };
    let report = match run(&options, &mut |_| ()) {
        Err(BenchError::NotMeasured(why)) => return eprintln!("skipped: {why}"),
        other => other.expect("the scenario runs"),
    };
    eprintln!("{report}");
    assert_eq!(report.failures(), Vec::<String>::new());
    assert!(report.checks.compared >= 8_000);
    for name in ["ifma", "portable", "library"] {
        let contestant = &report.contestants[name];
        assert!(
            contestant.gate_case.is_some() != contestant.not_measured.is_some(),
            "{name}"
        );
    }
    for figures in report.contestants.values().filter_map(|of| of.gate_case) {
        assert!(figures.tps > 0.0 && figures.cpu_ms_per_tx > 0.0, "{figures:?}");
        assert!((50.0..100.0).contains(&figures.valid_percent), "{figures:?}");
    }
    assert_eq!(report.sustained.tenths_tps.len(), 10);
    assert_eq!(report.latency.blocks, 2);
    let json = report.to_json();
    for place in [
        "/contestants/portable/tps",
        "/contestants/library/stages/verify",
        "/ratios/portable~1library",
        "/sustained/tps",
        "/checks/wrong",
        "/restart/seconds",
        "/delivered/feeder_cpu_ms_per_tx",
        "/udp/0/sockets/p99_ms",
        "/early/whole/p99_ms",
        "/early/early/p99_ms",
        "/udp/1/simulated_lossy/p99_ms",
    ] {
        assert!(
            json.pointer(place).is_some_and(|value| value.is_number()),
            "{place}"
        );
    }
    let gates = &json["checks"]["gates"];
    assert_eq!(gates["restart, s"]["outcome"], "not_measured");
    // A slow disk leaves latencies (p99) out.
    let not_latencies = gates
        .as_object()
        .unwrap()
        .iter()
        .filter(|(key, _)| !key.starts_with("p99"));
    let not_measured = not_latencies.filter(|(_, gate)| gate["outcome"] == "not_measured");
    let missing = usize::from(!report.ratios.contains_key("ifma/library"));
    // The restart, and the two cases that this run leaves out, are not measured.
    assert_eq!(not_measured.count(), 3 + missing, "{gates}");
    let delivered = report.delivered.figures;
    assert!(
        delivered.tps > 0.0 && delivered.transactions == 2_000,
        "{delivered:?}"
    );
    assert_eq!(report.early["whole"].verified, 0);
    let early = &report.early["early"];
    assert!(early.used > 0 && early.used <= early.verified, "{early:?}");
    for udp in &report.udp {
        assert_eq!(udp.transactions, 1_500);
        // Certificates are sent only once; without them, less than a quarter of a transaction remains.
        assert!((75.0..95.0).contains(&udp.saved_percent), "{udp:?}");
        assert!(udp.tps > 0.0 && udp.tps_no_data_hash > 0.0, "{udp:?}");
        assert!(udp.simulated_lossy.max_ms > udp.simulated.p50_ms, "{udp:?}");
    }
    let kept: Vec<_> = std::fs::read_dir(&folder).unwrap().flatten().collect();
    assert_eq!(kept.len(), 1, "only the blocks stay: {kept:?}");
    std::fs::remove_dir_all(&folder).unwrap();
}

/// The measurements for the paper compare every validation code and every block that is sent.
#[test]
fn the_papers_measurements_are_right_and_complete() {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let folder = root.join(format!("fabric-paper-{}", std::process::id()));
    let options = PaperOptions {
        seed: 1,
        folder: folder.clone(),
        validated: 1_000,
        sent: 500,
        rounds: 1,
    };
    let mut steps = Vec::new();
    let figures = for_paper(&options, &mut |progress| steps.push(progress.done)).expect("the measurements");
    assert_eq!(steps, (0..PAPER_STEPS).collect::<Vec<_>>());
    let names: Vec<_> = figures.end_to_end.iter().map(|one| one.chaincode).collect();
    assert_eq!(names, ["smallbank", "drm"]);
    for one in &figures.end_to_end {
        assert_eq!((one.wrong, one.transactions), (0, 1_000), "{one:?}");
        assert!(one.tps > 0.0 && one.cpu_us_per_tx > 0.0, "{one:?}");
        assert!(one.p50_ms > 0.0 && one.p50_ms <= one.p99_ms, "{one:?}");
    }
    assert_eq!(figures.transfers.len(), 2);
    for one in &figures.transfers {
        // Deliver sends the block's bytes and headers; UDP leaves out repeated identities.
        let deliver = one.deliver_bytes_per_tx / one.block_bytes_per_tx;
        assert!((1.06..1.2).contains(&deliver), "{one:?}");
        assert!(one.udp_bytes_per_tx < one.block_bytes_per_tx / 2.0, "{one:?}");
        for latency in [one.deliver, one.udp] {
            assert!(
                latency.p50_ms > 0.0 && latency.p50_ms <= latency.max_ms,
                "{one:?}"
            );
        }
    }
    let left = std::fs::read_dir(&folder).expect("the folder").count();
    assert_eq!(left, 0, "generated blocks and ledgers are removed");
    std::fs::remove_dir(&folder).expect("the empty folder");
}
