//! Tests for the operation of `lineside spv`: nodes that do not answer, missing files, and wrong options.

#[path = "spv_operator/keeping.rs"]
mod keeping;
mod spv_server;

use lineside_testkit::{CoreMini, DemoBlock, RegtestChain, free_port};
use lineside_util::hex::to_display;
use serde_json::Value;
use spv_server::{Server, lineside, store, succeeded};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Maximum time to wait for a server to end; its calls to the node have a time limit of 15 s.
const END: Duration = Duration::from_secs(10);

#[test]
fn a_server_stops_on_a_signal_while_its_node_does_not_answer() {
    let folder = tempfile::tempdir().unwrap();
    let data = store(folder.path(), "regtest");
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("bitcoind://user:secret@{}", silent.local_addr().unwrap());
    let (sent, received) = mpsc::channel();
    std::thread::spawn(move || {
        let (mut stream, _) = silent.accept().unwrap();
        stream.read_exact(&mut [0; 4]).unwrap();
        sent.send(()).unwrap();
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let mut server = Server::start("regtest", &data, &["--node", &url]);
    received.recv_timeout(END).expect("the server asks its node");
    // SAFETY: the process is a child that was not waited for yet, so its id still names it.
    unsafe { libc::kill(server.child.id() as i32, libc::SIGTERM) };
    let end = Instant::now() + END;
    let status = loop {
        if let Some(status) = server.child.try_wait().unwrap() {
            break status;
        }
        assert!(Instant::now() < end, "the server waits for its node");
        std::thread::sleep(Duration::from_millis(10));
    };
    assert!(status.success(), "{status}");
}

/// Starts `spv serve` with arguments that it must refuse. Returns its exit code and its standard error.
fn refused(arguments: &[&str]) -> (Option<i32>, String) {
    let common = [
        "spv",
        "serve",
        "--datapath",
        "socket",
        "--listen",
        "127.0.0.1:0",
        "--console",
        "127.0.0.1:0",
    ];
    let output = lineside(&[&common[..], arguments].concat());
    (
        output.status.code(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    )
}

#[test]
fn missing_credentials_and_a_wrong_cookie_file_are_refused_with_a_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let data = store(folder.path(), "regtest");
    let data = data.to_str().unwrap();
    let node = ["--data", data, "--node", "bitcoind://127.0.0.1:1"];
    let (code, said) = refused(&node);
    assert_eq!(code, Some(2), "{said}");
    for way in ["--node-cookie", "--node-password", "LINESIDE_NODE_PASSWORD"] {
        assert!(said.contains(way), "{said}");
    }
    let cookie = folder.path().join("nowhere/.cookie");
    let cookie = cookie.to_str().unwrap();
    let (code, said) = refused(&[&node[..], &["--node-cookie", cookie]].concat());
    assert_eq!(code, Some(1), "{said}");
    for words in [cookie, "exists", "-datadir"] {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert!(!said.contains("this user"), "{said}");
}

/// Returns the state of the node in the status of a server.
fn node_of(server: &Server) -> Value {
    let status: Value = serde_json::from_str(&server.console("/status")).unwrap();
    status["services"][0]["spv"]["node"].clone()
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < end, "timeout: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_cookie_that_the_node_writes_later_is_used() {
    let folder = tempfile::tempdir().unwrap();
    let data = store(folder.path(), "regtest");
    let mut chain = RegtestChain::new(3);
    let blocks = std::iter::once(RegtestChain::genesis()).chain((0..3).map(|_| chain.next(&[], 0)));
    let node = CoreMini::start(blocks.collect()).unwrap();
    node.require("__cookie__:first");
    let cookie = folder.path().join(".cookie");
    let url = node.url().replace("lineside:secret@", "");
    let arguments = ["--node", &*url, "--node-cookie", cookie.to_str().unwrap()];
    let server = Server::start("regtest", &data, &arguments);
    until("the missing file is named", || {
        let why = node_of(&server)["why_away"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        why.contains(cookie.to_str().unwrap())
            && why.contains("the file does not exist")
            && why.contains("start the node")
    });
    std::fs::write(&cookie, "__cookie__:first").unwrap();
    until("the node is followed", || node_of(&server)["at_tip"] == true);
    // The node restarts: it writes another cookie, and its connections are closed.
    std::fs::remove_file(&cookie).unwrap();
    node.require("__cookie__:second");
    node.close_all();
    until("the node is unreachable", || node_of(&server)["at_tip"] == false);
    std::fs::write(&cookie, "__cookie__:second").unwrap();
    until("the node is followed again", || {
        node_of(&server)["at_tip"] == true
    });

    // The text status shows the node and the addresses of the servers, but no secret.
    let console = server.said["console"]
        .as_str()
        .unwrap()
        .strip_prefix("http://")
        .unwrap();
    let text = succeeded(&lineside(&["status", "--console", console]));
    for words in [
        &*url,
        "connected for",
        "height 3",
        "Electrum on 127.0.0.1:",
        "HTTP on 127.0.0.1:",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert!(!text.contains("second"), "{text}");
}

#[test]
fn every_verb_reads_the_network_from_the_store_or_requires_the_option() {
    let folder = tempfile::tempdir().unwrap();
    let data = store(folder.path(), "regtest");
    let data = data.to_str().unwrap();
    let nowhere = folder.path().join("nowhere");
    let new = nowhere.to_str().unwrap();
    let txid = "7".repeat(64);
    let block = folder.path().join("block");
    std::fs::write(&block, &RegtestChain::genesis().raw).unwrap();
    let block = block.to_str().unwrap();

    succeeded(&lineside(&["spv", "import", "--data", data, block]));
    let coinbase = RegtestChain::genesis().txids[0];
    let coinbase = lineside_util::hex::to_display(&coinbase);
    let located = succeeded(&lineside(&["spv", "locate", "--data", data, &coinbase]));
    assert!(located.contains("height 0"), "{located}");
    let server = Server::start_without_network(Path::new(data), &[]);
    assert_eq!(server.tip().len(), 64);
    drop(server);

    for (arguments, code) in [
        (&["init", "--data", new][..], 2),
        (&["import", "--data", new, block], 2),
        (&["sync", "--headers", new], 2),
        (&["verify", "--headers", new, &txid], 2),
        (&["locate", "--data", data, "--network", "mainnet", &coinbase], 2),
        (&["import", "--data", data, "--network", "signet", block], 2),
    ] {
        let output = lineside(&[&["spv"], arguments].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
        assert!(said.contains("--network"), "{arguments:?}: {said}");
        assert!(!nowhere.exists(), "{arguments:?} made a store");
    }
}

#[test]
fn a_store_of_one_signet_refuses_blocks_of_another() {
    let folder = tempfile::tempdir().unwrap();
    let (default, custom) = (folder.path().join("default"), folder.path().join("custom"));
    let init = |data: &Path, more: &[&str]| {
        let arguments = [
            "spv",
            "init",
            "--network",
            "signet",
            "--data",
            data.to_str().unwrap(),
        ];
        lineside(&[&arguments[..], more].concat())
    };
    succeeded(&init(&default, &[]));
    // The challenge is from a log of Bitcoin Core, which also shows the magic number computed from the challenge.
    let challenge = [
        "--signet-challenge",
        "00140b24b854187ee6dcd5a0a7063156b83a4605443c",
    ];
    assert!(succeeded(&init(&custom, &challenge)).contains("4605eff3"));
    let other = folder.path().join("other");
    for wrong in [&["--signet-challenge", "xyz"][..], &["--signet-challenge", ""]] {
        assert_eq!(init(&other, wrong).status.code(), Some(2), "{wrong:?}");
    }

    // The block files of both signets have the same first block, but after a different magic.
    let genesis = bitcoin::consensus::serialize(&bitcoin::constants::genesis_block(bitcoin::Network::Signet));
    for (data, magic, is_taken) in [
        (&default, [0x0a, 0x03, 0xcf, 0x40], true),
        (&custom, [0x46, 0x05, 0xef, 0xf3], true),
        (&default, [0x46, 0x05, 0xef, 0xf3], false),
        (&custom, [0x0a, 0x03, 0xcf, 0x40], false),
    ] {
        let blocks = tempfile::tempdir().unwrap();
        let record = [&magic[..], &(genesis.len() as u32).to_le_bytes(), &genesis].concat();
        std::fs::write(blocks.path().join("blk00000.dat"), record).unwrap();
        let blocks = blocks.path().to_str().unwrap();
        let data = data.to_str().unwrap();
        let imported = lineside(&["spv", "import", "--data", data, blocks]);
        assert_eq!(imported.status.success(), is_taken, "{imported:?}");
        if !is_taken {
            let (_, said) = refused(&["--data", data, "--node", &format!("blocks-dir:{blocks}")]);
            assert!(said.contains("does not begin with the magic"), "{said}");
        }
    }
}

/// Returns regtest's first block and `count` further ones, and a node that has them.
fn node(count: usize) -> (CoreMini, RegtestChain, Vec<DemoBlock>) {
    let mut chain = RegtestChain::new(3);
    let next = (0..count).map(|_| chain.next(&[], 0));
    let blocks: Vec<_> = std::iter::once(RegtestChain::genesis()).chain(next).collect();
    (CoreMini::start(blocks.clone()).unwrap(), chain, blocks)
}

/// Returns the HTTP status code of a page of the console.
fn code(server: &Server, path: &str) -> String {
    let console = server.said["console"]
        .as_str()
        .unwrap()
        .strip_prefix("http://")
        .unwrap();
    let mut stream = TcpStream::connect(console).unwrap();
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {console}\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split(' ').nth(1).unwrap().to_owned()
}

#[test]
fn a_server_without_any_block_is_not_healthy() {
    let folder = tempfile::tempdir().unwrap();
    let data = store(folder.path(), "regtest");
    // The node accepts the connection and sends nothing, so no call has failed yet.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("bitcoind://user:secret@{}", silent.local_addr().unwrap());
    let server = Server::start("regtest", &data, &["--node", &url]);
    assert_eq!(code(&server, "/healthz"), "503");
    assert!(server.console("/healthz").contains("no block is served"));
    drop(server);
    let server = Server::start("regtest", &data, &[]);
    assert_eq!(code(&server, "/healthz"), "503");
    assert!(
        server
            .console("/healthz")
            .contains("the chain store has no block")
    );
}

#[test]
fn an_unreachable_electrum_server_is_reported_while_the_rest_is_served() {
    let folder = tempfile::tempdir().unwrap();
    let data = store(folder.path(), "regtest");
    let (node, _, _) = node(2);
    let upstream = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let (url, address) = (node.url(), upstream.to_string());
    let server = Server::start(
        "regtest",
        &data,
        &["--node", &url, "--electrum-upstream", &address],
    );
    until("it is unreachable", || {
        server.console("/healthz").contains("the Electrum server")
    });
    until("the node is followed", || node_of(&server)["at_tip"] == true);
    assert_eq!(code(&server, "/healthz"), "200", "only forwarded requests fail");
    assert!(
        server
            .console("/healthz")
            .contains("\"warnings\":[\"spv: the Electrum server")
    );
    assert!(
        server
            .console("/metrics")
            .contains("\nlineside_spv_electrum_upstream_up 0\n")
    );
    let listener = TcpListener::bind(upstream).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut line = [0; 1024];
            let _ = stream.read(&mut line);
            let _ = stream.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":0,\"result\":[\"x\",\"1.4\"]}\n");
        }
    });
    until("it answers", || {
        server
            .console("/metrics")
            .contains("\nlineside_spv_electrum_upstream_up 1\n")
    });
    let health = server.console("/healthz");
    assert!(
        health.starts_with("{\"status\":\"ok\",") && health.ends_with("\"warnings\":[]}\n"),
        "{health}"
    );
}

#[test]
fn wrong_options_are_named_and_leave_no_files() {
    let folder = tempfile::tempdir().unwrap();
    let data = store(folder.path(), "regtest");
    let (node, _, blocks) = node(4);
    let server = Server::start("regtest", &data, &["--node", &node.url()]);
    until("the node is followed", || node_of(&server)["at_tip"] == true);
    let txid = to_display(&blocks[2].txids[0]);
    // The command gives the server by its host name.
    let by_name = format!("localhost:{}", server.udp().port());
    succeeded(&lineside(&["spv", "get", "--server", &by_name, &txid]));
    let headers = folder.path().join("headers");
    let headers = headers.to_str().unwrap();
    let wrong = to_display(&[7; 32]);
    let at = |height: u32, hash: &str| format!("{height}:{hash}");
    let sync = |more: &[&str]| {
        let words = ["spv", "sync", "--server", &*by_name, "--headers", headers];
        let output = lineside(&[&words[..], more].concat());
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        )
    };
    let (code, said) = sync(&["--network", "simnet"]);
    assert!(
        code == Some(1) && said.contains("the server serves regtest, not simnet"),
        "{said}"
    );
    let (code, said) = sync(&["--network", "regtest", "--checkpoint", &at(0, &wrong)]);
    assert!(
        code == Some(2) && said.contains("the first block of regtest is"),
        "{said}"
    );
    assert!(!Path::new(headers).exists());
    let (code, said) = sync(&["--network", "regtest", "--checkpoint", &at(3, &wrong)]);
    assert!(
        code == Some(1) && said.contains("correct the checkpoint, or ask another server"),
        "{said}"
    );
    let (code, said) = sync(&["--checkpoint", &at(3, &to_display(&blocks[3].hash))]);
    assert_eq!(code, Some(0), "{said}");
    let (code, said) = sync(&["--checkpoint", &at(2, &wrong)]);
    assert!(
        code == Some(1) && said.contains("has ") && said.contains("correct the"),
        "{said}"
    );
    assert!(!said.contains("fetch them again"), "{said}");
    let (code, said) = sync(&["--checkpoint", &at(900, &wrong)]);
    assert!(
        code == Some(0) && said.contains("ends at height 4, below the checkpoint"),
        "{said}"
    );

    let data = data.to_str().unwrap();
    for (words, part) in [
        (&["get", "abc"][..], "64 hex digits"),
        (&["locate", "--data", data, "abc"], "64 hex digits"),
        (&["verify", "--headers", headers], "TXID"),
        (&["import", "--data", data], "--node URL"),
        (&["get", "--server", "localhost", &txid], "NAME:PORT"),
    ] {
        let output = lineside(&[&["spv"], words].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2), "{words:?}: {said}");
        assert!(said.contains(part), "{words:?}: {said}");
    }
}

/// Returns the names of the threads of a server.
fn threads(server: &Server) -> Vec<String> {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", server.child.id())).unwrap();
    let name =
        |task: std::io::Result<std::fs::DirEntry>| std::fs::read_to_string(task.unwrap().path().join("comm"));
    tasks
        .filter_map(|task| name(task).ok())
        .map(|name| name.trim().to_owned())
        .collect()
}

#[test]
fn a_server_catches_up_over_several_connections() {
    let folder = tempfile::tempdir().unwrap();
    let data = store(folder.path(), "regtest");
    let (node, _, _) = node(120);
    let url = node.url();
    let server = Server::start("regtest", &data, &["--node", &url]);
    until("the node is followed", || node_of(&server)["at_tip"] == true);
    // During the download, the server has one connection and three additional ones. When it has reached the tip, it
    // closes the additional connections and their threads end.
    assert!(node.clients().1 >= 4, "{:?}", node.clients());
    let fetches = |server: &Server| threads(server).iter().any(|name| name == "spv-blocks");
    until("the further connections are closed", || {
        !fetches(&server) && node.clients().0 == 1
    });
    // The server lacks blocks again, so it opens the additional connections again.
    let before = node.clients().1;
    let mut base = RegtestChain::new(3);
    (0..20).for_each(|_| drop(base.next(&[], 0)));
    let mut branch = base.branch(5);
    node.reorganise(20, (0..130).map(|_| branch.next(&[], 0)).collect());
    until("the branch is served", || {
        server.page(server.address("http"), "/blocks/tip/height") == "150"
    });
    assert!(node.clients().1 >= before + 3, "{:?}", node.clients());
    until("the further connections are closed", || {
        !fetches(&server) && node.clients().0 == 1
    });
    drop(server);
    // For a single new block, the server needs no additional connections.
    let server = Server::start("regtest", &data, &["--node", &url]);
    node.connect(branch.next(&[], 0));
    until("one more block", || {
        server.page(server.address("http"), "/blocks/tip/height") == "151"
    });
    assert!(threads(&server).iter().all(|name| name != "spv-blocks"));
}
