//! Tests of the commands on the FPGA datapath, with and without the cargo feature `rtl`.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn lab(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_lineside-lab"))
        .args(arguments)
        .output()
        .expect("run")
}

/// Returns the first capture of requests below this folder.
fn first_capture(folder: &Path) -> PathBuf {
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let capture = folder.join("packets_in.pcap");
        if capture.is_file() {
            return capture;
        }
        let inside = std::fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap().path());
        folders.extend(inside.filter(|path| path.is_dir()));
    }
    panic!("no capture below {}", folder.display())
}

#[cfg(not(feature = "rtl"))]
#[test]
fn a_build_without_the_simulated_nic_says_how_to_build_it() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("vectors");
    let written = lab(&["vectors", "pcap", "--out", out.to_str().unwrap()]);
    assert!(written.status.success(), "{written:?}");
    let capture = first_capture(&out.join("spv"));
    let capture = capture.to_str().unwrap();
    for arguments in [
        &["diff", "--datapaths", "socket,rtl", "--count", "100"][..],
        &["replay", "--datapath", "rtl", capture],
        &["bench", "rtl", "--quick"],
    ] {
        let output = lab(arguments);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            said.contains("make rtl-setup") && said.contains("--features rtl"),
            "{said}"
        );
    }
}

/// Regression test: frames for `transfer` were given to `spv`, which dropped them.
#[test]
fn a_capture_of_transfer_is_not_replayed_as_one_of_spv() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("vectors");
    let written = lab(&["vectors", "pcap", "--out", out.to_str().unwrap()]);
    assert!(written.status.success(), "{written:?}");
    let capture = first_capture(&out.join("transfer"));
    let replay = |more: &[&str]| {
        let arguments = ["replay", "--datapath", "socket", capture.to_str().unwrap()];
        lab(&[&arguments[..], more].concat())
    };
    let refused = replay(&[]);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("the port of another service"));
    assert!(replay(&["--service", "transfer"]).status.success());
}

#[test]
fn a_comparison_needs_the_model_and_another_datapath() {
    for datapaths in ["socket", "native", "socket,socket", "socket,socket,native"] {
        let output = lab(&["diff", "--datapaths", datapaths, "--count", "10"]);
        assert_eq!(output.status.code(), Some(2), "{datapaths}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("give socket once"), "{said}");
    }
    // The comparison with `native` must not run first.
    for datapaths in ["socket,rtl", "socket,native,rtl"] {
        let output = lab(&["diff", "column", "--datapaths", datapaths, "--count", "10"]);
        assert_eq!(output.status.code(), Some(2), "{datapaths}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("answers only spv"));
        assert!(output.stdout.is_empty(), "{output:?}");
    }
}

fn objects(output: &Output) -> Vec<Value> {
    assert!(output.status.success(), "{output:?}");
    let stream = serde_json::Deserializer::from_slice(&output.stdout).into_iter();
    stream.map(|object| object.expect("JSON")).collect()
}

#[test]
fn the_report_names_the_operations_that_spec_lists() {
    let with_rtl = cfg!(feature = "rtl");
    let datapaths = match with_rtl {
        true => "socket,native,rtl",
        false => "socket,native",
    };
    let count = "22000";
    let output = lab(&["--json", "diff", "--datapaths", datapaths, "--count", count]);
    let reports = objects(&output);
    assert_eq!(reports.len(), 1 + usize::from(with_rtl));
    let all = ["paper format", "root", "roots", "proof"];
    for (report, (name, operations)) in reports.iter().zip([("native", &all[..]), ("rtl", &all[..3])]) {
        assert_eq!(report["datapaths"], serde_json::json!(["socket", name]));
        assert_eq!(report["operations"], serde_json::json!(operations));
        assert_eq!(report["operations_not_seen"], serde_json::json!([]));
        assert!(report["answered"].as_u64() > Some(1000), "{report}");
        assert_eq!(report["differences"], 0);
    }
}

/// Regression test: the software of the comparison was bound to the address of the NIC, so the command failed.
#[cfg(feature = "rtl")]
#[test]
fn the_demonstration_runs_on_the_simulated_nic() {
    if !lineside_testkit::can_create_tap() {
        return;
    }
    let Some(own) = lineside_testkit::netns::Namespace::new() else {
        return;
    };
    let run = |json: bool| {
        own.run(move || {
            let arguments = ["demo", "--once", "--datapath", "rtl", "--json"];
            lab(&arguments[..arguments.len() - usize::from(!json)])
        })
    };
    let said = &objects(&run(true))[0]["demonstration"];
    let servers = &said["round_trip"];
    assert_eq!(servers["lineside_server"], "10.77.0.2:7701");
    let software = servers["sw_server"].as_str().expect("an address");
    assert!(software.starts_with("127.0.0.1:"), "{software}");
    let answers = said["answers"].as_array().expect("answers");
    assert!(
        answers.iter().any(|answer| answer["again"] == "nic"),
        "{answers:?}"
    );
    let text = run(false);
    let text = String::from_utf8_lossy(&text.stdout);
    assert!(text.contains("to the software at 127.0.0.1 over lo"), "{text}");
}

#[cfg(feature = "rtl")]
#[test]
fn the_bench_reaches_every_gate_of_cycles() {
    let reports = objects(&lab(&["--json", "bench", "rtl", "--quick"]));
    let [report] = &reports[..] else {
        panic!("one report: {reports:?}")
    };
    assert_eq!(report["scenario"], "rtl");
    let cases = &report["contestants"]["rtl"]["cases"];
    assert_eq!(cases["one_beat"]["cycles_per_frame"], 1.0);
    assert_eq!(cases["paper_hit"]["beats"], 2);
    assert_eq!(cases["long_1514"]["cycles_per_frame"], 24.0);
    let gates = report["checks"]["gates"].as_object().expect("gates");
    let (tap, cycles): (Vec<_>, Vec<_>) = gates.iter().partition(|(key, _)| key.starts_with("TAP"));
    assert_eq!(cycles.len(), 6);
    for (key, gate) in cycles {
        let outcome = gate["outcome"].as_str();
        assert!(matches!(outcome, Some("passed" | "stretch")), "{key}: {gate}");
    }
    // The rate depends on the machine, so it is not judged here. Each reply was checked.
    let rate = tap[0].1["value"].as_f64();
    let reason = report["contestants"]["rtl"]["no_tap"]["reason"].as_str();
    match lineside_testkit::can_create_tap() {
        true => assert!(rate > Some(0.0), "{reason:?}"),
        false => assert!(rate.is_none() && reason.is_some()),
    }
}
