//! `lineside transfer serve --mode express` on XDP. The server is killed, journals the operations that its fast path
//! executed in the meantime, takes the fast path over, and detaches it.

mod transfer_server;

use lineside_spv::chain::{ChainStore, Network};
use lineside_transfer::paper::PaperRequest;
use lineside_wire::{
    TRANSFER_COMMAND_CREATE as CREATE, TRANSFER_COMMAND_TRANSFER as TRANSFER, TransferCode as Code,
};
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;
use transfer_server::{Server, lineside, move_ones, operation, text};

#[test]
fn an_xdp_fast_path_in_express_mode_executes_without_its_server_which_journals_it_later() {
    let name = std::thread::current()
        .name()
        .map(String::from)
        .unwrap_or_default();
    let thread = std::thread::Builder::new().name(name).spawn(|| {
        // SAFETY: the call takes only a number, and it changes the network namespace of this thread alone.
        if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
            lineside_testkit::skipped("no right to make network namespaces here (root is needed)");
            return;
        }
        let up = Command::new("ip").args(["link", "set", "lo", "up"]).status();
        assert!(up.expect("ip (iproute2)").success());
        at_the_line();
    });
    if let Err(panic) = thread.expect("a thread").join() {
        std::panic::resume_unwind(panic);
    }
}

/// Asserts that no other datapath, ledger or service can take over the fast path that a killed server left.
fn no_other_server_takes_over_the_fastpath(data: &Path, pins: &str, express: &[&str]) {
    let refused = |data: &Path, more: &[&str], why: &str| {
        let told = Server::start_with(data, "127.0.0.1:7702", more)
            .map(|_| ())
            .unwrap_err();
        assert!(told.contains(why), "{more:?}: {told}");
    };
    let socket = ["--datapath", "socket", "--mode", "express", "--pin-dir", pins];
    refused(data, &socket, "still attached at");
    let other = TempDir::new().unwrap();
    refused(other.path(), express, "another ledger");
    let chain = other.path().join("chain");
    ChainStore::open(Some(&chain), Network::Regtest).unwrap();
    let spv_data = format!("spv.data=\"{}\"", chain.display());
    let spv = lineside()
        .args([
            "run",
            "--once",
            "--datapath",
            "xdp",
            "--interface",
            "lo",
            "--pin-dir",
            pins,
        ])
        .args([
            "--console",
            "127.0.0.1:0",
            "--set",
            "spv.enabled=true",
            "--set",
            &spv_data,
        ])
        .output()
        .unwrap();
    assert!(
        !spv.status.success() && text(&spv).contains("start the server of `transfer`"),
        "{}",
        text(&spv)
    );
}

fn at_the_line() {
    let Some(pins) = lineside_testkit::bpffs::below_bpffs("transfer") else {
        return;
    };
    let pins = pins.to_str().unwrap();
    let data = TempDir::new().unwrap();
    let express = [
        "--datapath",
        "xdp",
        "--interface",
        "lo",
        "--mode",
        "express",
        "--pin-dir",
        pins,
    ];
    let server = match Server::start_with(data.path(), "127.0.0.1:7702", &express) {
        Ok(server) => server,
        Err(why) if why.contains("BPF is not allowed") => {
            lineside_testkit::skipped("BPF is not allowed here");
            return;
        }
        Err(why) => panic!("{why}"),
    };
    let mut client = server.client();
    for account in 1..=2 {
        let done = client
            .paper(&PaperRequest::new(CREATE, 1, account, 0, 10_000))
            .unwrap();
        assert_eq!(done.code, Code::Done);
    }
    let mut session = client.open().unwrap();
    move_ones(&mut client, 2, 100, 10_000);
    let executed = client
        .execute(&mut session, &[operation(TRANSFER, 1, 2, 100)])
        .unwrap();
    assert!(!executed.is_durable && executed.outcomes[0].balance == Some(9_800));
    drop(server);

    // No server runs, so XDP answers these requests.
    move_ones(&mut client, 200, 100, 9_800);
    let executed = client
        .execute(&mut session, &[operation(TRANSFER, 1, 2, 100)])
        .unwrap();
    assert_eq!(executed.outcomes[0].balance, Some(9_600));
    no_other_server_takes_over_the_fastpath(data.path(), pins, &express);
    let mut server = Server::start_with(data.path(), "127.0.0.1:7702", &express).unwrap();
    let repeated = client.paper(&PaperRequest::new(TRANSFER, 299, 1, 2, 1)).unwrap();
    assert_eq!(
        repeated.balance,
        Some(9_700),
        "the reply to the repeated request is that of the first time"
    );
    // The host executes operations that XDP cannot execute, on the same accounts.
    let mut chain = [operation(TRANSFER, 1, 2, 50), operation(TRANSFER, 2, 1, 20)];
    chain[0].flags = 1;
    let executed = client.execute(&mut session, &chain).unwrap();
    let amounts: Vec<u64> = executed
        .outcomes
        .iter()
        .filter_map(|outcome| outcome.balance)
        .collect();
    assert_eq!(amounts, [9_550, 10_430]);
    let [claims, rests] =
        ["claims", "rests"].map(|what| server.metric(&format!("lineside_transfer_{what}_total")));
    // A client that waits long repeats its request, and the host locks the accounts for each repetition.
    assert!(
        claims > 0 && rests == 0,
        "the fast path keeps executing in the meantime: {claims} claims, {rests} pauses"
    );
    move_ones(&mut client, 400, 100, 9_570);
    // After another kill, detaching the fast path must not discard its operations.
    drop(server);
    move_ones(&mut client, 500, 10, 9_470);
    let detach = |more: &[&str]| {
        let mut command = lineside();
        command
            .args(["xdp", "detach", "lo", "--pin-dir", pins])
            .args(more);
        command.output().unwrap()
    };
    let refused = detach(&[]);
    assert!(!refused.status.success(), "{}", text(&refused));
    assert!(
        text(&refused).contains("not in the journal"),
        "{}",
        text(&refused)
    );
    server = Server::start_with(data.path(), "127.0.0.1:7702", &express).unwrap();
    move_ones(&mut client, 600, 10, 9_460);
    // SAFETY: `kill` takes only numbers. The test started the process and has not waited for it, so the kernel has not
    // given its id to another process.
    assert_eq!(unsafe { libc::kill(server.child.id() as i32, libc::SIGTERM) }, 0);
    server.child.wait().unwrap();
    let audit = lineside()
        .args(["transfer", "audit", "--json", "--data"])
        .arg(data.path())
        .output()
        .unwrap();
    assert!(text(&audit).contains(r#""operations":326"#), "{}", text(&audit));
    assert!(
        !Path::new(pins).join("lo").exists(),
        "the server has not removed its pins"
    );
    a_durable_fastpath_left_by_a_killed_server_must_be_detached_first(pins);
    // `xdp detach` removes the pins but not the directory.
    let _ = std::fs::remove_dir(pins);
}

/// The fast path of a killed server in the mode `durable` must not keep answering old balances while a server on
/// another datapath changes the balances.
fn a_durable_fastpath_left_by_a_killed_server_must_be_detached_first(pins: &str) {
    let (data, other) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let line = ["--datapath", "xdp", "--interface", "lo", "--pin-dir", pins];
    let socket = ["--datapath", "socket"];
    let start = |data: &Path, more: &[&str]| Server::start_with(data, "127.0.0.1:7702", more);
    drop(start(data.path(), &line).unwrap());
    let message = start(data.path(), &socket).map(|_| ()).unwrap_err();
    assert!(message.contains("still attached at lo"), "{message}");
    // With another table size, `auto` cannot take the pinned maps over. The server has given up its capabilities before
    // it decides, but it must name the cause and the command all the same.
    let output = lineside()
        .args(["transfer", "serve", "--datapath", "auto", "--account-bits", "11"])
        .args(["--interface", "lo", "--pin-dir", pins])
        .args(["--listen", "127.0.0.1:7702", "--console", "127.0.0.1:0", "--data"])
        .arg(data.path())
        .output()
        .unwrap();
    let message = text(&output);
    assert_eq!(output.status.code(), Some(1), "{message}");
    let command = format!("`lineside xdp detach lo --pin-dir {pins}`");
    for said in ["another size or layout", "still attached at lo", &command] {
        assert!(message.contains(said), "{message} does not say {said}");
    }
    assert!(!message.contains("not permitted"), "{message}");
    // A server of another ledger may take over the interface, because every operation that the fast path holds is in
    // the journal.
    start(other.path(), &line).unwrap().end();
    start(data.path(), &socket).unwrap().end();
    // A kill leaves the fast path once more, and this time the operator detaches it.
    drop(start(data.path(), &line).unwrap());
    let mut detach = lineside();
    detach.args(["xdp", "detach", "lo", "--pin-dir", pins]);
    assert!(detach.output().unwrap().status.success());
    start(data.path(), &socket).unwrap().end();
}
