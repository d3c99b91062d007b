//! `lineside transfer serve` end to end. The server is killed repeatedly, and used over UDP, over TCP and through the C
//! header. Proofs and an audit check its results.

mod transfer_server;

use lineside_client::transfer::Client;
use lineside_transfer::AccountId;
use lineside_transfer::paper::PaperRequest;
use lineside_wire::{
    ExecuteHead, Operation, TRANSFER_COMMAND_CREATE as CREATE, TRANSFER_COMMAND_TRANSFER as TRANSFER,
    TRANSFER_OP_EXECUTE, TransferCode as Code, native,
};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use tempfile::TempDir;
use transfer_server::{REPLY_TIMEOUT, Server, lineside, operation, text};
use zerocopy::{FromBytes, IntoBytes};

#[test]
fn a_server_killed_repeatedly_loses_and_repeats_no_operation() {
    const ROUNDS: u64 = 8;
    let data = TempDir::new().unwrap();
    let server = Server::start(data.path(), "127.0.0.1:0").unwrap();
    let address = server.address;
    let mut first = server.client();
    for account in 1..=4 {
        let done = first
            .paper(&PaperRequest::new(CREATE, 1, account, 0, 1_000_000))
            .unwrap();
        assert_eq!(done.code, Code::Done);
    }
    let (stop, answered) = (AtomicBool::new(false), AtomicU64::new(0));
    let client = || Client::connect(address, REPLY_TIMEOUT).unwrap();
    let (by_paper, by_session) = std::thread::scope(|scope| {
        let by_paper = scope.spawn(|| {
            let (mut client, mut done) = (client(), 0);
            while !stop.load(SeqCst) {
                let request = PaperRequest::new(TRANSFER, done + 2, 1, 2, 1);
                let answer = client.paper(&request).unwrap();
                done += 1;
                assert_eq!(answer.balance, Some((1_000_000 - done).into()));
                answered.fetch_add(1, SeqCst);
            }
            u64::from(done)
        });
        let by_session = scope.spawn(|| {
            let mut client = client();
            let (mut session, mut done) = (client.open().unwrap(), 0);
            while !stop.load(SeqCst) {
                let packet = [operation(TRANSFER, 3, 4, 1), operation(TRANSFER, 3, 4, 2)];
                let executed = client.execute(&mut session, &packet).unwrap();
                assert!(executed.is_durable);
                let amounts: Vec<u64> = executed
                    .outcomes
                    .iter()
                    .filter_map(|outcome| outcome.balance)
                    .collect();
                done += 3;
                assert_eq!(amounts, [1_000_000 - done + 2, 1_000_000 - done]);
                answered.fetch_add(1, SeqCst);
            }
            done
        });
        let mut server = server;
        for round in 1..=ROUNDS {
            // The server is killed while it works, after at least some operations were answered.
            while answered.load(SeqCst) < 40 * round {
                std::thread::yield_now();
            }
            drop(server);
            server = Server::start(data.path(), &address.to_string()).unwrap();
        }
        stop.store(true, SeqCst);
        let done = (by_paper.join().unwrap(), by_session.join().unwrap());
        let balances = server
            .client()
            .refer(&[1, 2, 3, 4].map(AccountId::from_paper))
            .unwrap();
        let balances: Vec<u64> = balances
            .into_iter()
            .map(|balance| balance.unwrap().balance)
            .collect();
        let million = 1_000_000;
        assert_eq!(
            balances,
            [
                million - done.0,
                million + done.0,
                million - done.1,
                million + done.1
            ]
        );
        done
    });
    assert!(by_paper > 0 && by_session > 0);
    let audit = lineside()
        .args(["transfer", "audit", "--json", "--data"])
        .arg(data.path())
        .output()
        .unwrap();
    assert!(audit.status.success(), "{}", text(&audit));
    assert!(text(&audit).contains(r#""held":"4000000""#), "{}", text(&audit));
}

#[test]
fn a_second_server_and_a_damaged_settlement_key_are_refused() {
    let data = TempDir::new().unwrap();
    let server = Server::start(data.path(), "127.0.0.1:0").unwrap();
    let why = Server::start(data.path(), "127.0.0.1:0").err().unwrap();
    assert!(why.contains("is in use"), "{why}");
    drop(server);
    std::fs::write(data.path().join("settlement.key"), "not a key").unwrap();
    let why = Server::start(data.path(), "127.0.0.1:0").err().unwrap();
    assert!(why.contains("contains no private key"), "{why}");
    let keep = ["--datapath", "socket", "--keep-fast-path"];
    let why = Server::start_with(data.path(), "127.0.0.1:0", &keep)
        .err()
        .unwrap();
    assert!(
        why.contains("the fast path of transfer always ends with its server"),
        "{why}"
    );
}

#[test]
fn the_verbs_print_their_outcomes_as_text_and_as_json() {
    let data = TempDir::new().unwrap();
    let server = Server::start(data.path(), "127.0.0.1:0").unwrap();
    let says = |words: &[&str], expected: &str| {
        let output = server.ask(words);
        assert!(text(&output).contains(expected), "{words:?}: {}", text(&output));
        output.status.success()
    };
    assert!(says(
        &["create", "1", "100"],
        "done: balance 100, operation 1, durable"
    ));
    assert!(says(
        &["create", "00000000000000000000000000000002"],
        "done: balance 0"
    ));
    assert!(says(
        &["transfer", "1", "2", "30"],
        "done: balance 70, operation 3"
    ));
    assert!(!says(
        &["transfer", "1", "2", "71"],
        "refused (insufficient_funds)"
    ));
    // The ledger does not contain a refused operation, so it has no number there and is not durable either.
    assert!(!says(
        &["transfer", "1", "2", "71", "--json"],
        r#""durable":null,"meaning":"#
    ));
    assert!(!says(
        &["transfer", "1", "2", "71", "--json"],
        r#""number":null,"result":"insufficient_funds""#
    ));
    assert!(!says(
        &["transfer", "1", "2", "71", "--json"],
        r#""balance":null"#
    ));
    assert!(says(&["create", "5", "--json"], r#""durable":true,"meaning":"#));
    assert!(says(&["issue", "--paper", "1", "5"], "done: balance 75"));
    assert!(says(
        &["transfer", "--paper", "--id", "9", "1", "2", "5"],
        "done: balance 70"
    ));
    assert!(says(
        &["transfer", "--paper", "--id", "9", "1", "2", "5"],
        "done: balance 70"
    ));
    assert!(!says(
        &["transfer", "--paper", "--id", "9", "1", "2", "6"],
        "refused (id_reused)"
    ));
    assert!(says(&["refer", "1", "2", "--json"], r#""balance":70"#));
    assert!(!says(&["refer", "1", "77"], "77: no such account"));
    assert!(says(&["freeze", "1"], "done: balance 70"));
    assert!(!says(&["transfer", "2", "1", "1"], "refused (frozen)"));
    assert!(says(&["refer", "1"], "1: 70, frozen"));
    assert!(says(&["unfreeze", "1"], "done: balance 70"));
    assert!(!says(&["freeze", "77"], "refused (unknown_account)"));
    assert!(!says(&["freeze", "--paper", "1"], "no such command"));

    let file = data.path().join("session");
    let session = |verb| {
        let address = server.address.to_string();
        let output = lineside()
            .args(["transfer", "session", verb, "--server", &address])
            .arg(&file)
            .output()
            .unwrap();
        (output.status.success(), text(&output))
    };
    assert_eq!(session("open"), (true, "session 0, next sequence 1\n".into()));
    assert!(!session("open").0, "the file already holds a session");
    let kept = file.to_str().unwrap();
    assert!(says(
        &["transfer", "--session", kept, "1", "2", "1"],
        "done: balance 69"
    ));
    let batch = data.path().join("batch");
    let lines =
        "linked transfer 1 2 1\ntransfer 1 2 1000\n# a remark\npending rent 1 2 10 60\npost rent 1 2\n";
    std::fs::write(&batch, lines).unwrap();
    assert!(!says(
        &["batch", "--session", kept, batch.to_str().unwrap()],
        "post rent 1 2: done, balance 59"
    ));
    assert_eq!(session("show"), (true, "session 0, next sequence 3\n".into()));
    assert!(session("close").0 && !file.exists());
}

#[test]
fn requests_without_a_required_signature_are_refused() {
    let data = TempDir::new().unwrap();
    let ledger = data.path().join("ledger");
    let key = |name: &str, curve: &str| {
        let file = data.path().join(name);
        let make = |verb: &[&str]| {
            lineside()
                .args(["transfer", "key"])
                .args(verb)
                .arg(&file)
                .output()
                .unwrap()
        };
        let made = make(&["new", "--curve", curve]);
        assert!(made.status.success(), "{}", text(&made));
        assert!(!make(&["new"]).status.success(), "a key is never written over");
        assert_eq!(text(&make(&["show"])), text(&made));
        let id = text(&made).split(' ').next().unwrap().to_owned();
        (file.to_str().unwrap().to_owned(), id)
    };
    let (alice, alice_id) = key("alice", "p256");
    let (mint, mint_id) = key("mint", "secp256k1");
    let config = data.path().join("lineside.toml");
    let issuers = format!("[transfer]\nissuers = [\"key:{mint_id}\"]\n");
    std::fs::write(&config, issuers).unwrap();
    let more = [
        "--datapath",
        "socket",
        "--require-signature",
        "--config",
        config.to_str().unwrap(),
    ];
    let server = Server::start_with(&ledger, "127.0.0.1:0", &more).unwrap();
    let says = |words: &[&str], expected: &str| {
        let output = server.ask(words);
        assert!(text(&output).contains(expected), "{words:?}: {}", text(&output));
    };
    says(&["create", "1", "100", "--owner", &alice_id], "has not signed it");
    says(
        &["create", "1", "100", "--owner", &alice_id, "--sign", &alice],
        "may not do this",
    );
    says(
        &["create", "1", "100", "--owner", &alice_id, "--sign", &mint],
        "done: balance 100",
    );
    says(&["create", "2", "--sign", &mint], "done: balance 0");
    says(&["transfer", "1", "2", "30"], "has not signed it");
    // A refusal of the whole packet has a name that stays the same, as the refusal of an operation has.
    says(&["transfer", "1", "2", "30"], "refused (unauthorised): ");
    says(
        &["transfer", "1", "2", "30", "--json"],
        r#""result":"unauthorised""#,
    );
    says(&["transfer", "--paper", "1", "2", "30"], "refused (unauthorised)");
    says(
        &["transfer", "1", "2", "30", "--sign", &mint],
        "refused (unauthorised)",
    );
    says(
        &["transfer", "1", "2", "30", "--sign", &alice],
        "done: balance 70",
    );
    says(&["refer", "1", "2"], "1: 70\n2: 30");
    let batch = data.path().join("batch");
    let lines = format!("create 3 7 {alice_id}\ncreate 4 8\n");
    std::fs::write(&batch, lines).unwrap();
    says(
        &["batch", "--sign", &mint, batch.to_str().unwrap()],
        "create 4 8: done, balance 8",
    );
    drop(server);
    let audit = lineside()
        .args(["transfer", "audit", "--data"])
        .arg(&ledger)
        .output()
        .unwrap();
    assert!(text(&audit).contains(" signatures and "), "{}", text(&audit));
    let server = Server::start_with(&ledger, "127.0.0.1:0", &more).unwrap();
    let again = server.ask(&["transfer", "3", "2", "7", "--sign", &alice]);
    assert!(text(&again).contains("done: balance 0"), "{}", text(&again));
}

#[test]
fn blocks_are_settled_to_a_file_and_proofs_are_checked_against_it() {
    let data = TempDir::new().unwrap();
    let (ledger, file) = (data.path().join("ledger"), data.path().join("blocks"));
    let config = data.path().join("lineside.toml");
    std::fs::write(&config, "[transfer]\nblock_operations = 1\n").unwrap();
    let more = [
        "--datapath",
        "socket",
        "--settle-to",
        file.to_str().unwrap(),
        "--config",
        config.to_str().unwrap(),
    ];
    for account in 1..=2 {
        let server = Server::start_with(&ledger, "127.0.0.1:0", &more).unwrap();
        let made = server.ask(&["create", &account.to_string(), "5"]);
        assert!(text(&made).contains("done"), "{}", text(&made));
        server.end();
    }
    let blocks = std::fs::read_to_string(&file).unwrap();
    let hashes: Vec<&str> = blocks
        .lines()
        .map(|line| line.split(' ').nth(1).unwrap())
        .collect();
    assert_eq!(
        hashes.len(),
        2,
        "one block for each operation, also across a restart"
    );
    let prove = lineside()
        .args(["transfer", "prove", "2", "--data"])
        .arg(&ledger)
        .output()
        .unwrap();
    let proof = data.path().join("proof");
    std::fs::write(&proof, &prove.stdout).unwrap();
    let verify = |hash: &str| {
        let mut command = lineside();
        command
            .args(["transfer", "verify-proof", "--block-hash", hash])
            .arg(&proof);
        command.output().unwrap().status.success()
    };
    assert!(verify(hashes[1]) && !verify(hashes[0]));
}

#[test]
fn a_proof_is_accepted_and_a_changed_one_is_refused() {
    let data = TempDir::new().unwrap();
    let server = Server::start(data.path(), "127.0.0.1:0").unwrap();
    let mut client = server.client();
    let mut session = client.open().unwrap();
    let mut create: Vec<Operation> = (1..=16)
        .map(|account| operation(CREATE, account, 0, 10))
        .collect();
    for operation in &mut create {
        operation.destination = [0; 16];
    }
    client.execute(&mut session, &create).unwrap();
    drop(server);
    // The block that waits for more operations is sealed once a server with this configuration runs.
    let config = data.path().join("config.toml");
    std::fs::write(&config, "[transfer]\nblock_operations = 1\n").unwrap();
    let config = ["--datapath", "socket", "--config", config.to_str().unwrap()];
    let sealing = Server::start_with(data.path(), "127.0.0.1:0", &config).unwrap();
    let prove = || {
        lineside()
            .args(["transfer", "prove", "7", "--data"])
            .arg(data.path())
            .output()
            .unwrap()
    };
    let proof = loop {
        let proof = prove();
        if proof.status.success() {
            break proof.stdout;
        }
        assert!(text(&proof).contains("in no sealed block"), "{}", text(&proof));
    };
    drop(sealing);
    let file = data.path().join("proof.json");
    let key = std::fs::read_to_string(data.path().join("settlement.pub")).unwrap();
    let verify = |proof: &[u8], more: &[&str]| {
        std::fs::write(&file, proof).unwrap();
        let output = lineside()
            .args(["transfer", "verify-proof"])
            .arg(&file)
            .args(more)
            .output()
            .unwrap();
        (output.status.success(), text(&output))
    };
    let (is_right, said) = verify(&proof, &["--key", &key]);
    assert!(
        is_right && said.contains("operation 7 of block 1: create with the amount 10 from 7"),
        "{said}"
    );
    let (is_right, said) = verify(&proof, &[]);
    assert!(!is_right && said.contains("--block-hash"), "{said}");
    let (is_right, _) = verify(&proof, &["--block-hash", &"00".repeat(32)]);
    assert!(!is_right);
    let shown = String::from_utf8(proof).unwrap();
    let hash = shown.find("\"block_hash\": \"").unwrap() + 15;
    let mut wrong = shown.clone().into_bytes();
    wrong[hash] = if wrong[hash] == b'0' { b'1' } else { b'0' };
    let (is_right, said) = verify(&wrong, &["--key", &key]);
    assert!(
        !is_right && said.contains("it says that its block's hash is"),
        "{said}"
    );
    let digit = shown.find("\"operation\": \"01").unwrap() + 40;
    let changed = format!(
        "{}{}{}",
        &shown[..digit],
        if &shown[digit..=digit] == "0" { "1" } else { "0" },
        &shown[digit + 1..]
    );
    let (is_right, said) = verify(changed.as_bytes(), &["--key", &key]);
    assert!(!is_right, "{said}");

    // Without the key that sealed its blocks, the server does not start, and it creates no new key.
    let sealed_with = data.path().join("settlement.key");
    std::fs::remove_file(&sealed_with).unwrap();
    let why = Server::start(data.path(), "127.0.0.1:0").err().unwrap();
    assert!(why.contains("settlement.key is missing"), "{why}");
    assert!(!sealed_with.exists());
}

#[test]
fn batches_larger_than_a_datagram_go_over_tcp() {
    let data = TempDir::new().unwrap();
    let server = Server::start(data.path(), "127.0.0.1:0").unwrap();
    let mut client = server.client();
    let session = client.open().unwrap();
    let mut operations = vec![operation(CREATE, 1, 0, 1_000), operation(CREATE, 2, 0, 0)];
    for operation in &mut operations {
        operation.destination = [0; 16];
    }
    operations.resize(744, operation(TRANSFER, 1, 2, 1));
    let head = ExecuteHead {
        token: session.token.into(),
        sequence: session.next.into(),
        slot: session.slot.into(),
        count: 744.into(),
        durability: 0.into(),
    };
    let bytes = size_of::<ExecuteHead>() + 744 * size_of::<Operation>();
    let header = native::request_header(TRANSFER_OP_EXECUTE, 5, bytes as u16);
    let packet = [header.as_bytes(), head.as_bytes(), operations.as_bytes()].concat();
    let mut replies = Vec::new();
    // The same packet is sent over two connections. It is executed once, and both connections get the same reply.
    for _ in 0..2 {
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream.set_read_timeout(Some(REPLY_TIMEOUT)).unwrap();
        // The packet is sent in two parts, because a stream may deliver it so.
        stream.write_all(&packet[..20]).unwrap();
        stream.write_all(&packet[20..]).unwrap();
        let mut reply = vec![0; packet.len()];
        stream.read_exact(&mut reply).unwrap();
        replies.push(reply);
    }
    assert_eq!(replies[0], replies[1]);
    let outcomes = <[Operation]>::ref_from_bytes(&replies[0][40..]).unwrap();
    assert!(outcomes.iter().all(|outcome| outcome.code.get() == 0));
    assert_eq!(outcomes[743].amount.get(), 1_000 - 742);
    let mut junk = TcpStream::connect(server.address).unwrap();
    junk.set_read_timeout(Some(REPLY_TIMEOUT)).unwrap();
    junk.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let ended = junk.read(&mut [0; 16]);
    assert!(
        matches!(ended, Ok(0))
            || ended.is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionReset)
    );
    let balance = client.refer(&[AccountId::from_paper(2)]).unwrap()[0]
        .unwrap()
        .balance;
    assert_eq!(balance, 742);
}

#[test]
fn a_c_program_sends_requests_with_the_header_for_devices() {
    let data = TempDir::new().unwrap();
    let server = Server::start(data.path(), "127.0.0.1:0").unwrap();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../clients/c/test");
    let ask = data.path().join("ask");
    let built = Command::new("cc")
        .args([
            "-std=c99",
            "-D_DEFAULT_SOURCE",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-pedantic",
            "-o",
        ])
        .arg(&ask)
        .arg(folder.join("ask.c"))
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", text(&built));
    let port = server.address.port().to_string();
    let says = |words: [&str; 5]| {
        let output = Command::new(&ask)
            .args(["127.0.0.1", &port])
            .args(words)
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(says(["1", "1", "1", "0", "100"]), "0 100\n");
    assert_eq!(says(["1", "1", "2", "0", "0"]), "0 0\n");
    for _ in 0..2 {
        assert_eq!(says(["3", "2", "1", "2", "40"]), "0 60\n");
    }
    assert_eq!(says(["3", "2", "1", "2", "41"]), "11 0\n");
    assert_eq!(says(["3", "3", "1", "2", "61"]), "3 0\n");
    assert_eq!(says(["4", "0", "2", "0", "0"]), "0 40\n");
    assert_eq!(says(["4", "0", "3", "0", "0"]), "1 0\n");
}

#[test]
fn a_killed_express_server_conserves_the_sum_of_balances() {
    const MILLION: u64 = 1_000_000;
    let data = TempDir::new().unwrap();
    let express = ["--datapath", "socket", "--mode", "express"];
    let mut server = Server::start_with(data.path(), "127.0.0.1:0", &express).unwrap();
    let address = server.address;
    let mut client = server.client();
    for account in 1..=2 {
        let done = client
            .paper(&PaperRequest::new(CREATE, 1, account, 0, MILLION as u32))
            .unwrap();
        assert_eq!(done.code, Code::Done);
    }
    let audit = || {
        let mut audit = lineside();
        audit
            .args(["transfer", "audit", "--json", "--data"])
            .arg(data.path());
        audit.output().unwrap()
    };
    // Operations that are not in the journal when the server is killed are lost. Transfers may be lost, but the
    // accounts must be in the journal before the kill.
    while !text(&audit()).contains(r#""accounts":2"#) {
        assert!(server.child.try_wait().unwrap().is_none(), "it ended");
    }
    let mut answered = 0;
    for round in 1..=3u32 {
        for id in 1..=200 {
            let request = PaperRequest::new(TRANSFER, 1_000 * round + id, 1, 2, 1);
            answered += u64::from(client.paper(&request).unwrap().code == Code::Done);
        }
        drop(server);
        server = Server::start_with(data.path(), &address.to_string(), &express).unwrap();
    }
    let balances = client.refer(&[1, 2].map(AccountId::from_paper)).unwrap();
    let balances: Vec<u64> = balances
        .into_iter()
        .map(|balance| balance.unwrap().balance)
        .collect();
    // The newest answered operations may be lost with the process, but none is executed twice.
    assert_eq!(balances.iter().sum::<u64>(), 2 * MILLION);
    assert!(
        balances[1] <= MILLION + answered && balances[1] >= MILLION,
        "{balances:?}, {answered} answered"
    );
    let why = Server::start(data.path(), "127.0.0.1:0").err().unwrap();
    assert!(why.contains("is in use"), "{why}");
    drop(server);
    let why = Server::start(data.path(), "127.0.0.1:0").err().unwrap();
    assert!(why.contains("`express`"), "{why}");
    let audit = audit();
    assert!(audit.status.success(), "{}", text(&audit));
}
