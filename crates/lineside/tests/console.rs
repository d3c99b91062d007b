//! Runs `lineside status` and `lineside check-config` and checks their output.

use lineside_console::{Console, ServiceStatus, Snapshot};
use std::process::{Command, Output};
use std::sync::Arc;

fn lineside(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_lineside"))
        .args(arguments)
        .output()
        .expect("run")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn status_prints_what_the_console_reports() {
    let snapshot = || Snapshot {
        version: "9.8.7".into(),
        services: vec![ServiceStatus {
            name: "spv".into(),
            datapath: "socket".into(),
            listen: "127.0.0.1:7701".into(),
            ..ServiceStatus::default()
        }],
        ..Snapshot::default()
    };
    let console = Console::start("127.0.0.1:0".parse().unwrap(), Arc::new(snapshot)).unwrap();
    let address = console.local_addr().to_string();
    let output = lineside(&["status", "--console", &address]);
    assert!(output.status.success(), "{output:?}");
    let said = text(&output.stdout);
    assert!(
        said.starts_with("lineside 9.8.7") && said.contains("spv on 127.0.0.1:7701"),
        "{said}"
    );
    let output = lineside(&["status", "--json", "--console", &address]);
    let json: Snapshot = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json, snapshot());
    drop(console);
    let output = lineside(&["status", "--console", &address]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stderr).contains(&format!("no status from {address}")),
        "{output:?}"
    );
}

#[test]
fn check_config_accepts_a_good_file_and_names_the_wrong_lines_of_a_bad_one() {
    let shown = concat!(env!("CARGO_MANIFEST_DIR"), "/../../lineside.toml");
    let output = lineside(&["check-config", shown]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let said = text(&output.stderr);
    assert!(
        said.contains("lineside.toml: no service is enabled; set `enabled = true` in one or"),
        "{said}"
    );
    let json = lineside(&["--json", "check-config", shown]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json["ok"], false);
    assert_eq!(json["faults"].as_array().map(Vec::len), Some(1), "{json}");

    let folder = tempfile::tempdir().unwrap();
    let whole = std::fs::read_to_string(shown).unwrap();
    let (before, column) = whole.split_once("\n[column]\n").unwrap();
    let column = column.replacen("enabled = false", "enabled = true", 1);
    let good = folder.path().join("good.toml");
    std::fs::write(&good, format!("{before}\n[column]\n{column}")).unwrap();
    let output = lineside(&["check-config", good.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(text(&output.stdout).ends_with("good.toml: ok\n"));

    let file = folder.path().join("bad.toml");
    let bad = file.to_str().unwrap();
    std::fs::write(&file, "[spv]\nways = 3\nlease_s = 0\n").unwrap();
    let output = lineside(&["check-config", bad]);
    assert_eq!(output.status.code(), Some(2));
    let said = text(&output.stderr);
    assert!(
        said.contains("bad.toml:2: [spv] ways = 3: must be 1, 2 or 4"),
        "{said}"
    );
    assert!(said.contains("bad.toml:3: [spv] lease_s = 0"), "{said}");

    let output = lineside(&["--json", "check-config", bad]);
    assert_eq!(output.status.code(), Some(2));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["ok"], false);
    assert_eq!(json["faults"][1]["line"], 3);

    let told = "[column]\nenabled = true\nstore = \"hbase://127.0.0.1:1/t\"\ncoherence = \"coprocessor\"\n\
                servers = [\"127.0.0.1:7706\"]\nnotify_key_file = \"/nowhere/key\"\n";
    std::fs::write(&file, told).unwrap();
    let output = lineside(&["check-config", bad]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let said = text(&output.stdout);
    assert!(
        said.contains("notify_key_file cannot be used here: cannot read /nowhere/key"),
        "{said}"
    );

    let output = lineside(&["check-config", folder.path().join("none.toml").to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("none.toml: No such file"));
}

#[test]
fn a_console_address_that_is_taken_leaves_no_directory() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let console = taken.local_addr().unwrap().to_string();
    let folder = tempfile::tempdir().unwrap();
    for service in ["transfer", "column"] {
        let data = folder.path().join(service);
        let output = lineside(&[
            service,
            "serve",
            "--data",
            data.to_str().unwrap(),
            "--listen",
            "127.0.0.1:0",
            "--datapath",
            "socket",
            "--console",
            &console,
        ]);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let said = text(&output.stderr);
        assert!(said.contains("the console cannot listen on"), "{said}");
        assert!(!data.exists(), "{service}: a directory is left");
    }
}
