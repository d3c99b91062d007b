//! Tests that run `lineside-lab soak` as a user does.

use std::process::{Command, Output};

fn soak(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_lineside-lab"))
        .args(["soak", "--json", "--datapaths", "native,socket", "--seed", "5"])
        .args(arguments)
        .output()
        .expect("run")
}

#[test]
fn a_short_soak_reports_its_counts() {
    let output = soak(&["--replies", "20000"]);
    assert!(output.status.success(), "{output:?}");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("an object");
    assert!(report["replies"].as_u64() >= Some(20_000));
    assert!(report["datapaths"]["native"]["replies"].as_u64() >= Some(10_000));
    for check in ["torn", "stale", "wrong"] {
        assert_eq!(report["checks"][check], 0);
    }
    assert!(report["changes"].as_u64() > Some(0));
}

#[test]
fn a_sabotaged_soak_ends_with_exit_code_1() {
    let output = soak(&["--replies", "4000000", "--sabotage", "keep-dropped"]);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("torn, stale or wrong"), "{said}");
}

#[test]
fn a_short_soak_of_column_reports_its_counts() {
    let soak = |arguments: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_lineside-lab"))
            .args([
                "soak",
                "column",
                "--json",
                "--seed",
                "5",
                "--datapaths",
                "socket,native",
            ])
            .args(arguments)
            .output()
            .expect("run")
    };
    let output = soak(&["--replies", "200000"]);
    assert!(output.status.success(), "{output:?}");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("an object");
    assert_eq!(report["service"], "column");
    assert!(report["replies"].as_u64() >= Some(200_000), "{report}");
    for datapath in ["socket", "native"] {
        for count in ["replies", "host", "direct", "changes"] {
            assert!(
                report["datapaths"][datapath][count].as_u64() > Some(0),
                "{count}: {report}"
            );
        }
        assert_eq!(report["datapaths"][datapath]["unanswered"], 0);
    }
    assert_eq!(report["checks"], serde_json::json!({"stale": 0, "wrong": 0}));

    let output = soak(&["--replies", "5000000", "--sabotage", "untold"]);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("stale or wrong"), "{said}");
    let output = soak(&["--sabotage", "no-epoch"]);
    assert_eq!(output.status.code(), Some(2), "a rule of another service's");
}
