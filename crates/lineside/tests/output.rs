//! Commands whose standard output cannot be written: a closed pipe, and a full device.

mod replica;

use lineside_testkit::free_port;
use replica::recorded;
use std::fs::File;
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Returns the writing end of a pipe whose reading end is closed.
fn closed() -> Stdio {
    let (_, writer) = std::io::pipe().unwrap();
    writer.into()
}

fn full() -> Stdio {
    File::options().write(true).open("/dev/full").unwrap().into()
}

fn lineside(words: &[&str], stdout: Stdio) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lineside"));
    let Output { status, stderr, .. } = command.args(words).stdout(stdout).output().unwrap();
    (status.code(), String::from_utf8(stderr).unwrap())
}

#[test]
fn a_closed_pipe_ends_quietly_and_a_full_device_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let (recorded, ledger) = (recorded(), folder.path().join("ledger"));
    let (recorded, ledger) = (recorded.to_str().unwrap(), ledger.to_str().unwrap());
    let configuration = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/config/column.toml");
    let import = ["fabric", "import", "--data", ledger, recorded];
    assert_eq!(lineside(&import, Stdio::null()).0, Some(0));
    let verbs: [&[&str]; 14] = [
        &["--help"],
        &["check-config", configuration],
        &["check-config", configuration, "--json"],
        &["fabric", "replay", recorded],
        &["fabric", "replay", recorded, "--json"],
        &import,
        &["fabric", "status", "--data", ledger],
        &["fabric", "block", "3", "--data", ledger],
        &["fabric", "state", "_lifecycle", "--data", ledger],
        &["fabric", "history", "--data", ledger, "--block", "12"],
        &["fabric", "history", "--data", ledger, "--block", "12", "--json"],
        &["fabric", "verify-ledger", "--data", ledger],
        &["journal", "verify", ledger],
        &["journal", "dump", ledger],
    ];
    for words in verbs {
        assert_eq!(lineside(words, closed()), (Some(141), String::new()), "{words:?}");
        let (code, said) = lineside(words, full());
        assert_eq!(code, Some(1), "{words:?}: {said}");
        let why = "writing to standard output: No space left on device";
        let object = format!("{{\"error\":{{\"code\":\"failed\",\"hint\":null,\"message\":\"{why}");
        let begin = if words.contains(&"--json") {
            object
        } else {
            format!("lineside: {why}")
        };
        assert!(said.starts_with(&begin), "{words:?}: {said}");
    }
    // A standard error that cannot be written does not cause a panic either.
    let mut refused = Command::new(env!("CARGO_BIN_EXE_lineside"));
    let refused = refused.args(["fabric", "replay", ledger]).stderr(full());
    assert_eq!(refused.output().unwrap().status.code(), Some(1));
}

/// Sends SIGTERM once the console answers. Returns the exit code and standard error.
fn end(mut child: Child, console: &str) -> (Option<i32>, String) {
    let until = Instant::now() + Duration::from_secs(60);
    while TcpStream::connect(console).is_err() {
        assert!(child.try_wait().unwrap().is_none(), "it has ended");
        assert!(Instant::now() < until, "it serves nothing");
        std::thread::sleep(Duration::from_millis(5));
    }
    // SAFETY: the process is a child that was not waited for yet, so its id still names it.
    unsafe { libc::kill(child.id() as i32, libc::SIGTERM) };
    let Output { status, stderr, .. } = child.wait_with_output().unwrap();
    (status.code(), String::from_utf8(stderr).unwrap())
}

#[test]
fn a_server_keeps_serving_when_its_output_is_closed_or_full() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().to_str().unwrap();
    let free = format!("127.0.0.1:{}", free_port());
    let recorded = recorded();
    let transfer = [
        "transfer",
        "serve",
        "--datapath",
        "socket",
        "--listen",
        "127.0.0.1:0",
        "--console",
        &free,
        "--data",
        data,
    ];
    let orderer = [
        "fabric",
        "mock-orderer",
        "--listen",
        &free,
        recorded.to_str().unwrap(),
    ];
    let lineside = PathBuf::from(env!("CARGO_BIN_EXE_lineside"));
    let lab = lineside_testkit::binary("lineside-lab");
    for (program, words) in [(&lineside, &transfer[..]), (&lab, &orderer[..])] {
        for (stdout, told) in [(closed(), false), (full(), true)] {
            let mut command = Command::new(program);
            let command = command.args(words).stdout(stdout).stderr(Stdio::piped());
            let (code, said) = end(command.spawn().unwrap(), &free);
            assert_eq!(code, Some(0), "{words:?}: {said}");
            assert_eq!(
                said.contains("the server continues without"),
                told,
                "{words:?}: {said}"
            );
        }
    }
}
