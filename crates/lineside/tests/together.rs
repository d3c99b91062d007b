//! `lineside run` with `spv` and `transfer` in one process, on one interface and with one console.

mod daemons;

use daemons::{Bpf, alone, lineside};
use lineside_client::transfer::Client;
use lineside_testkit::skipped;
use lineside_testkit::{DemoBlock, DemoChain};
use lineside_transfer::paper::PaperRequest;
use lineside_wire::{
    TRANSFER_COMMAND_CREATE as CREATE, TRANSFER_COMMAND_TRANSFER as TRANSFER, TransferCode as Code,
};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

const WAIT_TIMEOUT: Duration = Duration::from_secs(10);

/// Writes a configuration file into `data`, whose ledger is in the same directory; returns the path of the file.
fn config(data: &TempDir, mode: &str, more: &str) -> String {
    let file = data.path().join("lineside.toml");
    let ledger = data.path().join("ledger");
    let text = format!(
        "{more}[spv]\nenabled = true\n\
         [transfer]\nenabled = true\naccount_bits = 10\nmode = \"{mode}\"\ndata = {ledger:?}\n"
    );
    std::fs::write(&file, text).expect("writing");
    file.to_str().expect("text").to_owned()
}

fn address(port: u16) -> SocketAddr {
    ([127, 0, 0, 1], port).into()
}

fn demo_block() -> DemoBlock {
    DemoChain::new(1, 2048).next().expect("endless")
}

/// Looks up some transactions at `spv`, each of them twice. The second time, the fast path answers.
fn look_up(server: SocketAddr, block: &DemoBlock) {
    let mut client = lineside_client::spv::Client::connect(server, WAIT_TIMEOUT).expect("client");
    for txid in block.txids[..8].iter().chain(&block.txids[..8]) {
        assert_eq!(client.paper_root(txid).expect("an answer"), Some(block.root));
    }
}

/// Transfers 1 from account 1 to account 2, `count` times, with ascending ids from `id` on.
fn move_ones(client: &mut Client, id: u32, count: u32, left: u32) {
    for number in 0..count {
        let request = PaperRequest::new(TRANSFER, id + number, 1, 2, 1);
        let answer = client.paper(&request).expect("an answer");
        assert_eq!(answer.balance, Some((left - number - 1).into()));
    }
}

fn create(client: &mut Client) {
    for (account, amount) in [(1, 1000), (2, 0)] {
        let request = PaperRequest::new(CREATE, 1, account, 0, amount);
        assert_eq!(client.paper(&request).expect("an answer").code, Code::Done);
    }
}

fn status() -> serde_json::Value {
    let status = lineside(&["--json", "status"]);
    serde_json::from_slice(&status.stdout).expect("JSON")
}

fn page(path: &str) -> String {
    let mut console = TcpStream::connect(address(7700)).expect("the console");
    write!(
        console,
        "GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
    )
    .expect("asking");
    let mut said = String::new();
    console.read_to_string(&mut said).expect("an answer");
    said
}

fn audit(data: &TempDir) -> String {
    let ledger = data.path().join("ledger");
    let audit = lineside(&[
        "transfer",
        "audit",
        "--json",
        "--data",
        ledger.to_str().expect("text"),
    ]);
    assert!(
        audit.status.success(),
        "{}",
        String::from_utf8_lossy(&audit.stderr)
    );
    String::from_utf8(audit.stdout).expect("text")
}

#[test]
fn two_services_share_the_xdp_program_of_one_interface() {
    for mode in ["express", "durable"] {
        alone(move || at_the_line(mode));
    }
}

fn at_the_line(mode: &str) {
    let Some(bpf) = Bpf::new(&format!("together-{mode}")) else {
        return;
    };
    let data = TempDir::new().expect("a directory");
    let file = config(&data, mode, "");
    let arguments = ["--config", &file, "--datapath", "xdp", "--pin-dir", bpf.path()];
    let daemon = match daemons::start(&arguments, None) {
        Err(why) if why.contains("BPF is not allowed") => return skipped(why),
        started => started.expect("daemon"),
    };
    assert_eq!(
        daemon.said[..2],
        [
            "spv on 127.0.0.1:7701 (xdp datapath, generic on lo)",
            "transfer on 127.0.0.1:7702 (xdp datapath, generic on lo)"
        ]
    );
    let block = demo_block();
    let mut client = Client::connect(address(7702), WAIT_TIMEOUT).expect("client");
    look_up(address(7701), &block);
    // In `express` the host grants the fast path its lease after its first poll.
    while status()["services"][1]["lease_left_ms"] == 0 {
        std::thread::yield_now();
    }
    create(&mut client);
    move_ones(&mut client, 2, 50, 1000);
    // The counters and drops of each service count only packets to this service.
    let junk = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    for (port, count) in [(7701, 1), (7702, 2)] {
        for _ in 0..count {
            junk.send_to(b"junk", address(port)).expect("sending");
        }
    }
    let seen = status();
    let [spv, transfer] = ["spv", "transfer"].map(|name| {
        let services = seen["services"].as_array().expect("services");
        let found = services.iter().find(|service| service["name"] == name);
        found.expect(name).clone()
    });
    assert!(spv["counters"]["xdp"]["hits"].as_u64() >= Some(8), "{spv}");
    let at_line = if mode == "express" { 52 } else { 0 };
    assert_eq!(transfer["counters"]["xdp"]["replies"], at_line, "{transfer}");
    assert_eq!(spv["drops"]["xdp"]["not_a_request"], 1);
    assert_eq!(transfer["drops"]["xdp"]["not_a_request"], 2);
    assert!(
        page("/healthz").starts_with("HTTP/1.1 200"),
        "{}",
        page("/healthz")
    );
    let metrics = page("/metrics");
    for wanted in [
        "lineside_spv_hits_total{datapath=\"xdp\"}",
        "lineside_transfer_replies_total{datapath=\"xdp\"}",
        "lineside_drops_total{service=\"spv\",datapath=\"xdp\",reason=\"not_a_request\"} 1",
        "lineside_drops_total{service=\"transfer\",datapath=\"xdp\",reason=\"not_a_request\"} 2",
    ] {
        assert!(metrics.contains(wanted), "no {wanted}: {metrics}");
    }

    // After a kill, the fast paths of both services keep answering, and the next process takes both over.
    daemon.signal(libc::SIGKILL);
    let mut left = 950;
    if mode == "express" {
        move_ones(&mut client, 100, 20, left);
        left -= 20;
    }
    let mut looking = lineside_client::spv::Client::connect(address(7701), WAIT_TIMEOUT).expect("client");
    let root = looking.paper_root(&block.txids[0]);
    assert_eq!(
        root.expect("the fast path answers without its daemon"),
        Some(block.root)
    );
    let daemon = daemons::start(&arguments, None).expect("restart");
    assert!(
        daemon.said[0].contains("with the fast-path table of the previous process"),
        "{:?}",
        daemon.said
    );
    move_ones(&mut client, 200, 30, left);
    look_up(address(7701), &block);
    assert!(!daemon.signal(libc::SIGTERM).contains("lineside: removing"));
    assert!(
        !Path::new(bpf.path()).join("lo").exists(),
        "the server has not removed its pins"
    );
    let operations = 2 + 50 + 30 + if mode == "express" { 20 } else { 0 };
    assert!(
        audit(&data).contains(&format!("\"operations\":{operations}")),
        "{}",
        audit(&data)
    );

    // The next process runs without `transfer`, so requests to its port are not answered.
    let daemon = daemons::start(&arguments[2..], None).expect("spv alone");
    assert_eq!(status()["services"].as_array().expect("services").len(), 1);
    junk.connect(address(7702)).expect("connecting");
    junk.set_read_timeout(Some(WAIT_TIMEOUT)).expect("a timeout");
    junk.send(&[0; 20]).expect("sending");
    let refused = junk
        .recv(&mut [0; 64])
        .expect_err("no socket is open at the port");
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    drop(daemon);
}

#[test]
fn two_services_run_in_user_space_in_one_process() {
    let data = TempDir::new().expect("a directory");
    let ports = "[console]\nlisten = \"127.0.0.1:17740\"\n";
    let file = config(&data, "durable", ports);
    let text = std::fs::read_to_string(&file).expect("the file");
    std::fs::write(&file, text + "listen = \"127.0.0.1:17742\"\n").expect("writing");
    let daemon = daemons::start(
        &[
            "--config",
            &file,
            "--datapath",
            "socket",
            "--set",
            "spv.listen=127.0.0.1:17741",
        ],
        None,
    )
    .expect("daemon");
    assert_eq!(daemon.said[1], "transfer on 127.0.0.1:17742 (socket datapath)");
    look_up(address(17741), &demo_block());
    let mut client = Client::connect(address(17742), WAIT_TIMEOUT).expect("client");
    create(&mut client);
    move_ones(&mut client, 2, 20, 1000);
    daemon.signal(libc::SIGTERM);
    assert!(audit(&data).contains("\"operations\":22"), "{}", audit(&data));
}

#[test]
fn impossible_combinations_of_services_are_refused() {
    let data = TempDir::new().expect("a directory");
    let says = |config: &str, more: &[&str], said: &str| {
        let arguments = [&["--config", config][..], more].concat();
        let why = daemons::start(&arguments, None).err().expect(said);
        assert!(why.contains(said), "{why}");
    };
    let none = data.path().join("none.toml");
    let write = |text: &str| std::fs::write(&none, text).expect("writing");
    let none = none.to_str().expect("text");
    write("[spv]\nenabled = false\n");
    says(none, &[], "no service is enabled");
    write("[transfer]\nenabled = true\n");
    says(none, &[], "needs `data`, which is empty");
    write("[spv]\nenabled = true\n[transfer]\nenabled = true\ndata = \"x\"\nlisten = \"127.0.0.1:7701\"\n");
    says(none, &[], "must have another port than spv");
    let file = config(&data, "durable", "");
    says(
        &file,
        &["--keep-fast-path"],
        "the fast path of transfer always ends with its server",
    );
    let apart = ["--datapath", "xdp", "--set", "spv.listen=127.0.0.2:7701"];
    says(
        &file,
        &apart,
        "give all services at one interface the same address",
    );
}
