//! `lineside doctor` on this machine: its findings, its refusals, and its exit codes.

use serde_json::Value;
use std::fs::Permissions;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};

/// Runs `lineside --json doctor` on the socket datapath with these further options.
fn doctor(options: &[&str]) -> Output {
    command(options).output().expect("run")
}

fn command(options: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lineside"));
    command
        .args(["--json", "doctor", "--set", "console.listen=127.0.0.1:0"])
        .args(options);
    command
}

/// Returns the results of all findings of `check`.
fn results(output: &Output, check: &str) -> Vec<(String, String)> {
    let text = String::from_utf8_lossy(&output.stdout);
    let lines = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect(line));
    let own = lines.filter(|line| line["check"] == check);
    own.map(|line| {
        assert_eq!(line["result"] == "ok", line["remedy"].is_null(), "{line}");
        let text = |key: &str| line[key].as_str().expect(key).to_owned();
        (text("result"), text("what"))
    })
    .collect()
}

fn transfer_in(data: &Path) -> Vec<String> {
    transfer_at(data, "127.0.0.1:0")
}

fn transfer_at(data: &Path, listen: &str) -> Vec<String> {
    let set = [
        "transfer.enabled=true".to_owned(),
        format!("transfer.data={}", data.display()),
        format!("transfer.listen={listen}"),
    ];
    set.into_iter()
        .flat_map(|value| ["--set".to_owned(), value])
        .collect()
}

#[test]
fn a_machine_without_findings_passes_and_nothing_is_created() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let set = transfer_in(&data);
    let mut options = vec!["--datapath", "socket"];
    options.extend(set.iter().map(String::as_str));
    let output = doctor(&options);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    for check in [
        "kernel",
        "processor",
        "sandbox",
        "open files",
        "memory",
        "datapath",
        "port",
        "data",
    ] {
        let found = results(&output, check);
        assert!(!found.is_empty(), "{check}: {output:?}");
        assert!(
            found.iter().all(|(result, _)| result != "failed"),
            "{check}: {found:?}"
        );
    }
    assert!(!data.exists());
}

/// Regression test: the address of the NIC was reported as one that this machine does not have.
#[test]
fn the_address_of_the_simulated_nic_is_not_one_of_this_machine() {
    let folder = tempfile::tempdir().expect("a folder");
    let set = transfer_at(&folder.path().join("data"), "10.77.0.2:7702");
    let mut options = vec!["--datapath", "rtl"];
    options.extend(set.iter().map(String::as_str));
    let output = doctor(&options);
    let ports = results(&output, "port");
    let found = ports.iter().find(|(_, what)| what.contains("10.77.0.2:7702"));
    let (result, what) = found.unwrap_or_else(|| panic!("{output:?}"));
    assert_eq!(result, "ok", "{what}");
    assert!(what.contains("becomes an address of the NIC"), "{what}");
}

#[test]
fn a_used_port_and_an_unusable_directory_fail_with_a_remedy() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    std::fs::write(&file, "").expect("a file");
    let used = TcpListener::bind("127.0.0.1:0").expect("a port");
    let console = used.local_addr().expect("its address").to_string();
    let set = transfer_in(&file);
    let mut options = vec!["--datapath", "socket", "--set"];
    let listen = format!("console.listen={console}");
    options.push(&listen);
    options.extend(set.iter().map(String::as_str));
    let output = doctor(&options);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let ports = results(&output, "port");
    let in_use = ports
        .iter()
        .any(|(result, what)| result == "failed" && what.contains(&console));
    assert!(in_use, "{ports:?}");
    let data = results(&output, "data");
    assert_eq!(data.len(), 1);
    assert_eq!(
        (data[0].0.as_str(), data[0].1.ends_with("is not a directory")),
        ("failed", true)
    );
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains("2 of ") && said.contains(" checks failed"),
        "{said}"
    );
}

/// Runs `lineside` with these words, and returns its exit code and its standard output.
fn lineside(words: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_lineside"))
        .args(words)
        .output()
        .expect("run");
    (
        output.status.code(),
        String::from_utf8(output.stdout).expect("text"),
    )
}

/// Regression test: `doctor` reported `ok` for a ledger of the other mode, with which the server does not start.
#[test]
fn data_of_another_mode_or_network_fails_and_check_config_warns_of_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let (ledger, chain) = (folder.path().join("ledger"), folder.path().join("chain"));
    let set = transfer_in(&ledger);
    let mut once = vec![
        "run",
        "--once",
        "--datapath",
        "socket",
        "--set",
        "console.listen=127.0.0.1:0",
    ];
    once.extend(set.iter().map(String::as_str));
    assert_eq!(lineside(&once).0, Some(0), "a durable ledger is created");
    let store = chain.to_str().expect("text");
    let init = ["spv", "init", "--network", "regtest", "--data", store];
    assert_eq!(lineside(&init).0, Some(0));

    let file = folder.path().join("lineside.toml");
    let checked = |mode: &str, network: &str, data: [&Path; 2]| {
        let text = format!(
            "[transfer]\nenabled = true\nlisten = \"127.0.0.1:0\"\nmode = \"{mode}\"\ndata = {:?}\n\
             [spv]\nenabled = true\nlisten = \"127.0.0.1:0\"\nnetwork = \"{network}\"\ndata = {:?}\n",
            data[0], data[1]
        );
        std::fs::write(&file, text).expect("a file");
        let file = file.to_str().expect("text");
        let output = doctor(&["--datapath", "socket", "--config", file]);
        let (code, printed) = lineside(&["--json", "check-config", file]);
        assert_eq!(code, Some(0), "{printed}");
        let object: Value = serde_json::from_str(&printed).expect("JSON");
        let warnings = object["warnings"].as_array().expect("a list").clone();
        let about_data: Vec<_> = warnings
            .iter()
            .filter_map(Value::as_str)
            .filter(|warning| warning.contains("] data: "))
            .map(str::to_owned)
            .collect();
        (results(&output, "data"), about_data)
    };
    let (findings, warnings) = checked("durable", "regtest", [&ledger, &chain]);
    assert!(
        findings.iter().all(|(result, _)| result != "failed"),
        "{findings:?}"
    );
    assert_eq!(warnings, [""; 0]);
    let (findings, warnings) = checked("express", "testnet4", [&ledger, &chain]);
    let said = ["holds regtest, not testnet4", "has mode `durable`"];
    for ((result, what), said) in findings.iter().zip(said) {
        assert!(result == "failed" && what.contains(said), "{findings:?}");
    }
    assert_eq!((findings.len(), warnings.len()), (2, 2), "{warnings:?}");
    assert!(
        warnings[0].contains(said[0]) && warnings[1].contains(said[1]),
        "{warnings:?}"
    );
    let (_, warnings) = checked("durable", "regtest", [&chain, &ledger]);
    assert!(
        warnings[0].contains("holds data of the service transfer"),
        "{warnings:?}"
    );
    assert!(
        warnings[1].contains("holds data of the service spv"),
        "{warnings:?}"
    );
}

fn hybrid_in(folder: &Path) -> Vec<String> {
    let at = |key: &str, name: &str| format!("hybrid.{key}={}", folder.join(name).display());
    let set = [
        "hybrid.enabled=true".to_owned(),
        "hybrid.listen=127.0.0.1:0".to_owned(),
        at("data", "data"),
        at("genesis", "genesis.bin"),
        at("node_key", "node.key"),
    ];
    set.into_iter()
        .flat_map(|value| ["--set".to_owned(), value])
        .collect()
}

/// The files that the configuration names are opened with the rights of the user who runs the command.
#[test]
fn a_file_that_is_missing_or_closed_to_this_user_fails_and_the_user_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let (key, genesis) = (folder.path().join("node.key"), folder.path().join("genesis.bin"));
    let set = hybrid_in(folder.path());
    let mut options = vec!["--datapath", "socket"];
    options.extend(set.iter().map(String::as_str));
    let output = doctor(&options);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let files = results(&output, "files");
    assert_eq!(files.len(), 2, "each file is reported once: {files:?}");
    for ((result, what), file) in files.iter().zip([&genesis, &key]) {
        assert!(
            result == "failed" && what.starts_with(&format!("{} (", file.display())),
            "{what}"
        );
        assert!(what.ends_with("does not exist"), "{what}");
    }

    std::fs::write(&genesis, "no genesis").expect("a file");
    std::fs::write(&key, "no key").expect("a file");
    std::fs::set_permissions(&key, Permissions::from_mode(0o600)).expect("a mode");
    std::fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).expect("a mode");
    let files = results(&doctor(&options), "files");
    let readable = files
        .iter()
        .filter(|(result, what)| result == "ok" && what.ends_with("can be read"));
    assert_eq!(readable.count(), 2, "{files:?}");
    let wrong = files
        .iter()
        .filter(|(result, what)| result == "failed" && what.contains("cannot be used"));
    assert_eq!(wrong.count(), 2, "{files:?}");

    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can run the command as another user");
        return;
    }
    let mut command = command(&options);
    let output = command
        .uid(65_534)
        .gid(65_534)
        .env("INVOCATION_ID", "1")
        .output()
        .expect("run");
    let files = results(&output, "files");
    let (result, what) = &files[1];
    assert_eq!(result, "failed", "{files:?}");
    assert!(what.starts_with(&key.display().to_string()), "{what}");
    assert!(
        what.contains("cannot be read by ") && what.contains("user 65534): Permission denied"),
        "{what}"
    );
    let (result, what) = &results(&output, "user")[0];
    assert!(
        result == "ok" && what.ends_with("user 65534), the user of this unit of systemd"),
        "{what}"
    );
}

#[test]
fn a_configuration_without_services_fails_and_the_machine_alone_is_a_warning() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("none.toml");
    std::fs::write(&file, "[spv]\nenabled = false\n").expect("a file");
    let output = doctor(&["--datapath", "socket", "--config", file.to_str().expect("text")]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert_eq!(results(&output, "services")[0].0, "failed");
    let output = doctor(&["--datapath", "socket"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let (result, what) = &results(&output, "services")[0];
    assert!(
        result == "warning" && what.starts_with("no service is enabled"),
        "{what}"
    );
}

#[test]
fn a_missing_interface_fails_for_xdp_and_is_a_warning_where_sockets_are_allowed() {
    for (datapath, result, code) in [("xdp", "failed", 1), ("auto", "warning", 0)] {
        let output = doctor(&["--datapath", datapath, "--interface", "no-such-if0"]);
        let found = results(&output, "interface");
        assert_eq!(found.len(), 1, "{output:?}");
        assert_eq!(found[0].0, result);
        assert!(found[0].1.contains("no interface no-such-if0"), "{found:?}");
        assert_eq!(output.status.code(), Some(code));
    }
    let output = doctor(&["--datapath", "xdp", "--interface", "no-such-if0,no-such-if1"]);
    let found = results(&output, "interface");
    let has = |place: usize, name: &str| found[place].1.contains(&format!("no interface {name}"));
    assert!(
        found.len() == 2 && has(0, "no-such-if0") && has(1, "no-such-if1"),
        "{found:?}"
    );
}

#[test]
fn a_wrong_configuration_is_refused_with_exit_code_2() {
    let output = doctor(&["--set", "transfer.nonsense=1", "--set", "transfer.enabled=true"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}

/// Two options that give the same value are refused, so neither of them silently replaces the other.
#[test]
fn a_value_is_given_by_one_option_only() {
    for option in [
        &["--console", "127.0.0.1:0"][..],
        &["--datapath", "socket", "--set", "datapath.kind=socket"],
    ] {
        let output = doctor(option);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            said.contains("give the same value") && said.contains(option[0]),
            "{said}"
        );
    }
}

#[test]
fn top_needs_a_terminal() {
    let output = Command::new(env!("CARGO_BIN_EXE_lineside"))
        .arg("top")
        .output()
        .expect("run");
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains("needs a terminal") && said.contains("lineside status"),
        "{said}"
    );
}
