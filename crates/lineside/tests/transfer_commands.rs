//! Commands of `lineside transfer` for many operations and for looking at a ledger: idempotency keys, batches of any
//! length, `accounts`, `history`, and the decoded journal.

mod transfer_server;

use std::path::Path;
use std::process::Output;
use tempfile::TempDir;
use transfer_server::{Server, lineside, text};

const KEY: &str = "7d444840-9dc0-11d1-b245-5ffdce74fad2";

/// Runs a command that reads the ledger's directory.
fn look(words: &[&str], data: &Path) -> Output {
    lineside().args(words).arg("--data").arg(data).output().unwrap()
}

/// Runs a verb of `transfer session` on a session file.
fn session(server: &Server, verb: &str, file: &str) -> Output {
    let address = server.address.to_string();
    lineside()
        .args(["transfer", "session", verb, "--server", &address, file])
        .output()
        .unwrap()
}

fn succeeds(output: &Output, expected: &str) {
    assert!(
        output.status.success() && text(output).contains(expected),
        "{}",
        text(output)
    );
}

fn fails(output: &Output, expected: &str) {
    assert!(
        !output.status.success() && text(output).contains(expected),
        "{}",
        text(output)
    );
}

#[test]
fn an_operation_with_an_idempotency_key_is_executed_once_also_after_a_kill() {
    let data = TempDir::new().unwrap();
    let server = Server::start(data.path(), "127.0.0.1:0").unwrap();
    succeeds(&server.ask(&["create", "1", "100"]), "done: balance 100");
    succeeds(&server.ask(&["create", "2"]), "done: balance 0");
    let pay = ["transfer", "1", "2", "30", "--idempotency-key", KEY];
    succeeds(&server.ask(&pay), "done: balance 70, operation 3, durable");
    succeeds(&server.ask(&pay), "done: balance 70, operation 3, durable");
    drop(server); // kills it
    let server = Server::start(data.path(), "127.0.0.1:0").unwrap();
    succeeds(&server.ask(&pay), "done: balance 70, operation 3, durable");
    let other = ["transfer", "1", "2", "31", "--idempotency-key", KEY];
    fails(&server.ask(&other), "refused (id_reused)");
    fails(
        &server.ask(&["issue", "1", "1", "--idempotency-key", &"0".repeat(32)]),
        "an idempotency key is a UUID, or 32 hex digits that are not all zero",
    );
    succeeds(&server.ask(&["refer", "1", "2"]), "1: 70\n2: 30");
}

#[test]
fn a_batch_of_many_lines_is_sent_in_packets_and_a_wrong_line_is_named() {
    let data = TempDir::new().unwrap();
    let server = Server::start(data.path(), "127.0.0.1:0").unwrap();
    let file = data.path().join("accounts.csv");
    let file_name = file.to_str().unwrap();
    let accounts: String = (1..=500)
        .map(|account| format!("create,{account},10,\n"))
        .collect();
    std::fs::write(&file, format!("{accounts}transfer 1 2 11\n")).unwrap();
    let output = server.ask(&["batch", file_name]);
    fails(&output, "line 501: transfer 1 2 11: refused (insufficient_funds)");
    fails(&output, "1 of 501 operations refused");
    succeeds(&server.ask(&["refer", "500"]), "500: 10");

    // Nothing is sent if any line is wrong.
    std::fs::write(&file, format!("{}\ntransfer,1,x,3\n", "issue 1 1\n".repeat(30))).unwrap();
    fails(
        &server.ask(&["batch", file_name]),
        "accounts.csv: line 32: `transfer,1,x,3`: x: ",
    );
    succeeds(&server.ask(&["refer", "1"]), "1: 10");

    // A session file and more packets than one.
    let session_file = data.path().join("session");
    let kept = session_file.to_str().unwrap();
    succeeds(&session(&server, "open", kept), "next sequence 1");
    std::fs::write(&file, "issue 1 1\n".repeat(40)).unwrap();
    succeeds(
        &server.ask(&["batch", "--session", kept, file_name]),
        "done, balance 50",
    );
    succeeds(&session(&server, "show", kept), "next sequence 4");
}

#[test]
fn accounts_and_history_are_read_from_the_directory_of_a_running_server() {
    let data = TempDir::new().unwrap();
    let server = Server::start(data.path(), "127.0.0.1:0").unwrap();
    for words in [
        &["create", "1", "100"][..],
        &["create", "2"],
        &["create", "3"],
        &["transfer", "1", "2", "30"],
        &["transfer", "2", "3", "5"],
        &["freeze", "3"],
    ] {
        succeeds(&server.ask(words), "done");
    }
    fails(&server.ask(&["transfer", "2", "1", "500"]), "refused");
    let accounts = look(&["transfer", "accounts"], data.path());
    succeeds(&accounts, "1: 70\n2: 25\n3: 5, frozen\n");
    let history = look(&["transfer", "history", "2"], data.path());
    let lines: Vec<String> = text(&history)
        .lines()
        .map(|line| line.rsplit_once(", ").unwrap().0.to_owned())
        .collect();
    let expected = [
        "operation 2: create 2, balance 0",
        "operation 4: transfer 1 2 30",
        "operation 5: transfer 2 3 5, balance 25",
    ];
    assert_eq!(lines, expected, "{}", text(&history));
    let json = look(&["transfer", "history", "3", "--json"], data.path());
    succeeds(&json, r#""number":5,"operation":"transfer""#);
    fails(
        &look(&["transfer", "history", "9"], data.path()),
        "no executed operation names this account",
    );
}

#[test]
fn the_dump_of_a_ledger_is_decoded_and_has_no_session_token() {
    let data = TempDir::new().unwrap();
    let server = Server::start(data.path(), "127.0.0.1:0").unwrap();
    let session_file = data.path().join("session");
    let kept = session_file.to_str().unwrap();
    succeeds(&session(&server, "open", kept), "next sequence 1");
    succeeds(&server.ask(&["create", "1", "100", "--session", kept]), "done");
    let stored: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&session_file).unwrap()).unwrap();
    let token = stored["token"].as_u64().unwrap();
    for words in [&["journal", "dump"][..], &["journal", "dump", "--json"]] {
        let output = lineside().args(words).arg(data.path()).output().unwrap();
        succeeds(&output, "open_session");
        succeeds(&output, r#""address":"127.0.0.1""#);
        succeeds(&output, r#""result":"done""#);
        succeeds(&output, r#""command":"create""#);
        let printed = text(&output);
        for token in [
            format!("{token:016x}"),
            format!("{:016x}", token.swap_bytes()),
            token.to_string(),
        ] {
            assert!(!printed.contains(&token), "{token} in {printed}");
        }
    }
}
