//! Tests that run `lineside-lab demo` as a user does.

use lineside_testkit::{Daemon, RegtestChain, binary};
use std::io::Read;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

const SIGTERM: i32 = 15;

fn lab(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_lineside-lab"))
        .args(arguments)
        .output()
        .expect("run")
}

/// Returns a hash in the form that users write: hexadecimal, with the last byte first.
fn display(hash: &[u8; 32]) -> String {
    hash.iter().rev().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn the_demonstration_needs_no_files_and_ends_after_one_round_with_once() {
    let free = "127.0.0.1:0";
    let asked = [
        "--datapath",
        "socket",
        "--listen",
        free,
        "--console",
        free,
        "--once",
    ];
    let output = lab(&[&["--json", "demo"][..], &asked].concat());
    assert!(output.status.success(), "{output:?}");
    let said: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let shown = &said["demonstration"];
    // The newest 8 of 64 blocks are in the fast-path table before the server starts. The host adds the transactions
    // that were queried.
    assert_eq!(
        (
            &shown["asked"],
            &shown["fastpath_first"],
            &shown["fastpath_again"]
        ),
        (&4096.into(), &512.into(), &4096.into())
    );
    let answers = shown["answers"].as_array().unwrap();
    let by = |when: &str| -> Vec<_> {
        let name = |answer: &serde_json::Value| answer[when].as_str().unwrap().to_owned();
        answers.iter().map(name).collect()
    };
    assert_eq!(by("first"), ["host", "host", "host", "host", "user_space"]);
    assert_eq!(by("again"), ["user_space"; 5]);
    let mut chain = RegtestChain::new(1);
    chain.next(&[], 0);
    let block = (0..12).map(|_| chain.next(&[], 2046)).last().unwrap();
    assert_eq!(answers[0]["txid"], display(&block.txids[1024]));
    assert_eq!(answers[0]["root"], display(&block.root));
    let ratio = |which: &str| shown["round_trip"][which].as_f64().unwrap();
    assert!(0.0 < ratio("ratio_min") && ratio("ratio_min") <= ratio("ratio_max"));
    assert!(shown.get("commands").is_none(), "the server has ended: {shown}");

    let temporary = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_lineside-lab"))
        .args([&["demo"][..], &asked].concat())
        .env("TMPDIR", temporary.path())
        .output()
        .expect("run");
    let left: Vec<_> = std::fs::read_dir(temporary.path()).unwrap().flatten().collect();
    assert!(left.is_empty(), "{left:?}");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    for part in [
        "socket datapath",
        "from the host; asked again: from the fast path in user space",
        "100.0 % asked again",
    ] {
        assert!(said.contains(part), "{said}");
    }
    // Regression test: commands were printed for a server that ends at once, with a path in a folder that is removed.
    for part in ["another terminal", "headers", " spv get ", " spv verify "] {
        assert!(!said.contains(part), "{part}: {said}");
    }
    let end = "a demonstration, not a measurement of a network card\n";
    assert!(said.ends_with(end), "{said}");
}

#[test]
fn the_commands_that_the_demonstration_prints_can_be_pasted() {
    let program = binary("lineside");
    let mut demo = Command::new(env!("CARGO_BIN_EXE_lineside-lab"));
    demo.args(["demo", "--datapath", "socket", "--listen", "127.0.0.1:0"])
        .args(["--console", "127.0.0.1:0"]);
    let demo = Daemon::start(&mut demo).unwrap();
    let paste = |verb: &str| {
        let line = demo.said.iter().find(|line| line.contains(verb));
        let line = line.unwrap_or_else(|| panic!("no {verb}: {:#?}", demo.said));
        let words = line.split_whitespace().skip_while(|word| *word != "spv");
        let output = Command::new(&program).args(words).output().expect("run");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{line}: {output:?}");
        text
    };
    let found = paste(" spv get ");
    assert!(found.contains("height 61"), "{found}");
    let verified = paste(" spv verify ");
    assert!(verified.contains("height 61"), "{verified}");
    demo.signal(SIGTERM);
}

/// Ctrl-C while the demonstration still writes its chain leaves no directory.
#[test]
fn a_signal_before_the_server_has_started_leaves_no_files() {
    let folder = tempfile::tempdir().unwrap();
    let mut demo = Command::new(env!("CARGO_BIN_EXE_lineside-lab"))
        .args([
            "demo",
            "--datapath",
            "socket",
            "--listen",
            "127.0.0.1:0",
            "--console",
            "127.0.0.1:0",
        ])
        .env("TMPDIR", folder.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let is_empty = || std::fs::read_dir(folder.path()).unwrap().next().is_none();
    let deadline = Instant::now() + Duration::from_secs(30);
    while is_empty() {
        assert!(Instant::now() < deadline, "the demonstration makes its directory");
        std::thread::yield_now();
    }
    let sent = Command::new("kill")
        .args(["-INT", &demo.id().to_string()])
        .status()
        .unwrap();
    assert!(sent.success());
    let mut said = String::new();
    demo.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(demo.wait().unwrap().success(), "{said}");
    assert!(
        !said.contains("ends it"),
        "the signal came before the server had started: {said}"
    );
    assert!(is_empty());
}
