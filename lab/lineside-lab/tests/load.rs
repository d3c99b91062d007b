//! Tests that run `lineside-lab load` against real servers: directly, and through a relay that loses, delays and
//! falsifies datagrams. The relay counts its faults, which the reports must show.

use lineside_spv::chain::{ChainStore, Network};
use lineside_testkit::{ClosedPort, RegtestChain, binary};
use lineside_wire::{
    COLUMN_OP_GET, HYBRID_ANSWER_CELLS, NATIVE_REPLY_BIT, SPV_OP_PROOF, SPV_OP_ROOT,
    TRANSFER_COMMAND_TRANSFER, TRANSFER_OP_EXECUTE,
};
use serde_json::Value;
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;
use tempfile::TempDir;

/// Bytes of the native header, which is before the body.
const HEADER: usize = 16;

/// Running server; killed when dropped.
struct Server {
    child: Child,
    said: Value,
    _out: BufReader<ChildStdout>,
}

impl Server {
    fn start(folder: &Path, words: &[&str]) -> Self {
        let mut child = Command::new(binary("lineside"))
            .args(words)
            .args(["--json", "--listen", "127.0.0.1:0", "--console", "127.0.0.1:0"])
            .current_dir(folder)
            .env("RUST_LOG", "warn")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        Self {
            child,
            said: serde_json::from_str(&line).expect("the server says where it serves"),
            _out: out,
        }
    }

    /// Returns the sum of a metric over its series whose labels contain `label`.
    fn metric(&self, name: &str, label: &str) -> u64 {
        let console = self.said["console"]
            .as_str()
            .unwrap()
            .trim_start_matches("http://");
        let mut stream = TcpStream::connect(console).unwrap();
        stream
            .write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            .unwrap();
        let mut page = String::new();
        stream.read_to_string(&mut page).unwrap();
        let series = page.lines().filter_map(|line| line.strip_prefix(name));
        let values = series.filter_map(|rest| {
            let (labels, value) = rest.rsplit_once(' ')?;
            let is_named = labels.is_empty() || labels.starts_with('{');
            (is_named && labels.contains(label)).then(|| value.parse::<u64>().unwrap())
        });
        let values: Vec<u64> = values.collect();
        assert!(!values.is_empty(), "no {name} with {label}: {page}");
        values.iter().sum()
    }

    /// Returns the number of requests of a service that the server has received.
    fn requests(&self, service: &str) -> u64 {
        self.metric("lineside_requests_total", &format!("service=\"{service}\""))
    }

    fn address(&self, name: &str) -> SocketAddr {
        self.said[name].as_str().unwrap().parse().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Fault that a relay makes in one datagram.
enum Fault {
    None,
    /// The datagram is not forwarded.
    Lose,
    /// The byte at this place is changed.
    Change(usize),
    /// The relay stops for this time.
    Stop(Duration),
}

/// Relay between clients and a server. Dropping it ends its threads.
struct Relay {
    address: SocketAddr,
    lost: Arc<AtomicU64>,
    changed: Arc<AtomicU64>,
    over: Arc<AtomicBool>,
}

impl Relay {
    /// Starts a relay to `server`. `fault` decides about each datagram.
    fn start(server: SocketAddr, fault: impl Fn(&[u8]) -> Fault + Send + Sync + 'static) -> Self {
        let front = Arc::new(UdpSocket::bind("127.0.0.1:0").unwrap());
        let relay = Self {
            address: front.local_addr().unwrap(),
            lost: Arc::default(),
            changed: Arc::default(),
            over: Arc::default(),
        };
        let (lost, changed, over) = (relay.lost.clone(), relay.changed.clone(), relay.over.clone());
        let judge = Arc::new(move |bytes: &mut [u8]| match fault(bytes) {
            Fault::None => true,
            Fault::Lose => {
                lost.fetch_add(1, SeqCst);
                false
            }
            Fault::Change(place) => {
                bytes[place] ^= 0x10;
                changed.fetch_add(1, SeqCst);
                true
            }
            Fault::Stop(time) => {
                std::thread::sleep(time);
                true
            }
        });
        front.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        std::thread::spawn(move || {
            let mut clients: HashMap<SocketAddr, Arc<UdpSocket>> = HashMap::new();
            let mut bytes = [0; 2048];
            while !over.load(SeqCst) {
                let Ok((count, client)) = front.recv_from(&mut bytes) else {
                    continue;
                };
                let back = clients.entry(client).or_insert_with(|| {
                    let back = Arc::new(UdpSocket::bind("127.0.0.1:0").unwrap());
                    back.connect(server).unwrap();
                    back.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
                    let (front, judge, over) = (front.clone(), judge.clone(), over.clone());
                    let from = back.clone();
                    std::thread::spawn(move || {
                        let mut bytes = [0; 2048];
                        while !over.load(SeqCst) {
                            if let Ok(count) = from.recv(&mut bytes)
                                && judge(&mut bytes[..count])
                            {
                                let _ = front.send_to(&bytes[..count], client);
                            }
                        }
                    });
                    back
                });
                if judge(&mut bytes[..count]) {
                    let _ = back.send(&bytes[..count]);
                }
            }
        });
        relay
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.over.store(true, SeqCst);
    }
}

fn load(folder: &Path, words: &[&str], server: SocketAddr) -> Output {
    let (service, rest) = words.split_first().unwrap();
    Command::new(env!("CARGO_BIN_EXE_lineside-lab"))
        .args(["load", service, "--json", "--server", &server.to_string()])
        .args(rest)
        .current_dir(folder)
        .output()
        .unwrap()
}

/// Returns the report of a load that must end with this exit code.
fn report(output: &Output, code: i32) -> Value {
    let text = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{text}{error}");
    serde_json::from_str(&text).unwrap_or_else(|_| panic!("no report: {text}{error}"))
}

fn count(report: &Value, name: &str) -> u64 {
    let count = report[name].as_u64().or(report["counts"][name].as_u64());
    count.unwrap_or_else(|| panic!("no {name}: {report}"))
}

/// Asserts that all of `sent` requests were answered and right.
fn assert_clean(report: &Value, sent: u64) {
    assert_eq!(count(report, "sent"), sent, "{report}");
    for fault in ["lost", "unsent", "wrong"] {
        assert_eq!(count(report, fault), 0, "{fault}: {report}");
    }
    assert_eq!(report["contradictions"], serde_json::json!([]));
    assert_eq!(count(report, "answered"), sent, "{report}");
    let latency = |name: &str| report["latency_us"][name].as_f64().unwrap();
    assert!(0.0 < latency("p50") && latency("p50") <= latency("p99_9"));
    assert!(latency("p99_9") <= latency("max"));
}

/// Starts a server of `spv` with a chain of some blocks, whose TXIDs are in the file `txids`.
fn spv(folder: &Path) -> Server {
    let mut store = ChainStore::open(Some(&folder.join("chain")), Network::Regtest).unwrap();
    let mut chain = RegtestChain::new(3);
    let first = [RegtestChain::genesis(), chain.next(&[], 0)];
    let rest: Vec<_> = (0..20).map(|_| chain.next(&[], 40)).collect();
    let mut txids = String::from("# TXIDs of a generated chain\n\n");
    for block in first.iter().chain(&rest) {
        store.submit(&block.raw, false).unwrap();
        for txid in &block.txids {
            txids += &lineside_util::hex::to_display(txid);
            txids += "\n";
        }
    }
    store.catch_up().unwrap();
    drop(store);
    std::fs::write(folder.join("txids"), txids).unwrap();
    let words = [
        "spv",
        "serve",
        "--data",
        "chain",
        "--datapath",
        "socket",
        "--line-bits",
        "12",
    ];
    Server::start(folder, &[&words[..], &["--electrum", "127.0.0.1:0"]].concat())
}

#[test]
fn a_load_on_spv_checks_every_answer_and_counts_losses_and_wrong_answers() {
    let folder = TempDir::new().unwrap();
    let server = spv(folder.path());
    let address = server.address("listen");
    let by_file = [
        "spv",
        "--txids",
        "txids",
        "--duration",
        "1",
        "--proofs",
        "30",
        "--verify-every",
        "2",
    ];
    let more = ["--rate", "2000", "--threads", "2", "--timeout-ms", "20000"];
    let before = server.requests("spv");
    let clean = report(&load(folder.path(), &[&by_file[..], &more].concat(), address), 0);
    assert_clean(&clean, 2000);
    // The load also fetches the headers: one request for those of 22 blocks, one for none, and repeated ones.
    let received = server.requests("spv") - before;
    assert!((2002..2100).contains(&received), "{received}");
    assert_eq!(count(&clean, "locations") + count(&clean, "proofs"), 2000);
    assert!(count(&clean, "proofs_verified") >= 200, "{clean}");
    assert_eq!(count(&clean, "blocks_not_checked"), 0);

    let electrum = server.said["services"][0]["also"]["electrum"].as_str().unwrap();
    let fetched = [
        "spv",
        "--electrum",
        electrum,
        "--count",
        "50",
        "--rate",
        "max",
        "--window",
        "8",
        "--threads",
        "2",
        "--connections",
        "5",
        "--duration",
        "0.2",
        "--timeout-ms",
        "20000",
    ];
    let closed = report(&load(folder.path(), &fetched, address), 0);
    assert_clean(&closed, count(&closed, "sent"));
    assert!(count(&closed, "sent") > 8, "{closed}");

    // Of the replies, one in 50 is lost, one in 40 gets another id, one in 45 another block.
    let (ids, blocks) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (counted_ids, counted_blocks, replies) = (ids.clone(), blocks.clone(), AtomicU64::new(0));
    let relay = Relay::start(address, move |bytes| {
        let is_reply = [SPV_OP_ROOT, SPV_OP_PROOF]
            .map(|op| op | NATIVE_REPLY_BIT)
            .contains(&bytes[3]);
        if !is_reply {
            return Fault::None;
        }
        match replies.fetch_add(1, SeqCst) {
            number if number % 50 == 1 => Fault::Lose,
            number if number % 40 == 3 => {
                counted_ids.fetch_add(1, SeqCst);
                Fault::Change(8 + (number as usize / 40) % 8)
            }
            number if number % 45 == 7 => {
                counted_blocks.fetch_add(1, SeqCst);
                // The Merkle root is the first field of a location, and the header the first one of a proof.
                Fault::Change(HEADER + 5)
            }
            _ => Fault::None,
        }
    });
    let words = [&by_file[..], &["--rate", "1000", "--timeout-ms", "3000"]].concat();
    let faulty = report(&load(folder.path(), &words, relay.address), 1);
    let [lost, ids, blocks] = [&relay.lost, &ids, &blocks].map(|count| count.load(SeqCst));
    assert!(lost > 5 && ids > 5 && blocks > 5, "{lost} {ids} {blocks}");
    assert_eq!(count(&faulty, "lost"), lost + ids, "{faulty}");
    assert_eq!(count(&faulty, "wrong"), ids + blocks, "{faulty}");
    assert_eq!(count(&faulty, "answered"), 1000 - lost - ids - blocks);
    let shown = faulty["wrong_answers"].as_array().unwrap();
    assert_eq!(shown.len(), 5);
    let cases = ["root", "proof", "unknown"];
    assert!(
        shown
            .iter()
            .all(|wrong| cases.contains(&wrong["case"].as_str().unwrap()))
    );
    assert!(
        shown
            .iter()
            .all(|wrong| wrong["answer"].as_str().unwrap().len() > 2 * HEADER)
    );
}

#[test]
fn a_stopped_server_shows_in_the_latencies_of_an_open_loop() {
    let folder = TempDir::new().unwrap();
    let server = spv(folder.path());
    let relay = Relay::start(server.address("listen"), |bytes| {
        static STOPPED: AtomicBool = AtomicBool::new(false);
        match bytes[3] == SPV_OP_ROOT && !STOPPED.swap(true, SeqCst) {
            true => Fault::Stop(Duration::from_millis(600)),
            false => Fault::None,
        }
    });
    let words = [
        "spv",
        "--txids",
        "txids",
        "--rate",
        "200",
        "--duration",
        "1",
        "--proofs",
        "0",
        "--timeout-ms",
        "20000",
    ];
    let stopped = report(&load(folder.path(), &words, relay.address), 0);
    assert_clean(&stopped, 200);
    // The relay stops at the first request for 600 ms, in which 120 of 200 requests are scheduled. In a closed loop,
    // one request would be late.
    assert!(
        stopped["latency_us"]["p50"].as_f64() > Some(50_000.0),
        "{stopped}"
    );
}

#[test]
fn a_load_without_a_server_fails() {
    let folder = TempDir::new().unwrap();
    let closed = ClosedPort::new();
    let unused = closed.address();
    let words = ["transfer", "--duration", "0.1", "--timeout-ms", "200"];
    let output = load(folder.path(), &words, unused);
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("no answer from"), "{error}");
    let output = load(
        folder.path(),
        &["transfer", "--sessions", "1", "--threads", "2"],
        unused,
    );
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn a_load_on_transfer_knows_every_balance_and_repeats_what_was_lost() {
    let folder = TempDir::new().unwrap();
    let words = [
        "transfer",
        "serve",
        "--data",
        "ledger",
        "--datapath",
        "socket",
        "--account-bits",
        "10",
    ];
    let server = Server::start(folder.path(), &words);
    let address = server.address("listen");
    let batches = [
        "transfer",
        "--accounts",
        "64",
        "--sessions",
        "8",
        "--batch",
        "10",
        "--duration",
        "1",
    ];
    let clean = [
        &batches[..],
        &["--rate", "200", "--threads", "2", "--timeout-ms", "20000"],
        &["--duplicates", "50", "--distribution", "zipf"],
    ]
    .concat();
    // Half of all packets are sent twice. The server has executed each one once, and created 64 accounts; the second
    // run finds these.
    let executed = || server.metric("lineside_transfer_operations_total", "");
    for created in [64, 0] {
        let (executed_before, received_before) = (executed(), server.requests("transfer"));
        let clean = report(&load(folder.path(), &clean, address), 0);
        assert_clean(&clean, 200);
        assert_eq!(count(&clean, "operations"), 2000);
        assert_eq!(executed() - executed_before, 2000 + created);
        let duplicated = count(&clean, "duplicated");
        assert!(duplicated > 50, "{clean}");
        assert!(server.requests("transfer") - received_before >= 200 + duplicated);
    }
    let is_transfer = |bytes: &[u8]| {
        let command = bytes.get(HEADER + 24).copied();
        bytes[3] & !NATIVE_REPLY_BIT == TRANSFER_OP_EXECUTE && command == Some(TRANSFER_COMMAND_TRANSFER)
    };
    let transfers = AtomicU64::new(0);
    let relay = Relay::start(address, move |bytes| {
        match is_transfer(bytes) && transfers.fetch_add(1, SeqCst) % 7 == 1 {
            true => Fault::Lose,
            false => Fault::None,
        }
    });
    let lossy = [
        &batches[..],
        &["--rate", "100", "--timeout-ms", "20000", "--duplicates", "0"],
    ]
    .concat();
    let executed_before = executed();
    let lossy = report(&load(folder.path(), &lossy, relay.address), 0);
    assert_clean(&lossy, 100);
    assert_eq!(executed() - executed_before, 1000);
    let lost = relay.lost.load(SeqCst);
    assert!(lost > 5 && count(&lossy, "resent") >= lost, "{lost}: {lossy}");
    drop(relay);

    // One reply has another balance. The session that gets it ends; the sum and all other balances are as expected.
    let relay = Relay::start(address, move |bytes| {
        static CHANGED: AtomicBool = AtomicBool::new(false);
        let is_reply = bytes[3] & NATIVE_REPLY_BIT != 0;
        match is_transfer(bytes) && is_reply && !CHANGED.swap(true, SeqCst) {
            // The last byte of the first operation's amount.
            true => Fault::Change(HEADER + 24 + 47),
            false => Fault::None,
        }
    });
    let wrong = [&batches[..], &["--rate", "100", "--timeout-ms", "20000"]].concat();
    let wrong = report(&load(folder.path(), &wrong, relay.address), 1);
    assert_eq!(
        (count(&wrong, "wrong"), count(&wrong, "sessions_lost")),
        (1, 1),
        "{wrong}"
    );
    assert_eq!(wrong["contradictions"], serde_json::json!([]));
    let why = wrong["wrong_answers"][0]["why"].as_str().unwrap();
    assert!(why.contains("after the operation"), "{why}");
}

#[test]
fn a_load_on_column_checks_every_value() {
    let folder = TempDir::new().unwrap();
    let words = ["column", "serve", "--data", "table", "--datapath", "socket"];
    let server = Server::start(folder.path(), &words);
    let address = server.address("listen");
    let rows = [
        "column",
        "--keys",
        "200",
        "--sessions",
        "8",
        "--puts",
        "20",
        "--duration",
        "1",
    ];
    let clean = [
        &rows[..],
        &["--rate", "500", "--threads", "2", "--timeout-ms", "20000"],
    ]
    .concat();
    let before = server.requests("column");
    let hits = server.metric("lineside_column_hits_total", "");
    let clean = report(&load(folder.path(), &clean, address), 0);
    assert_clean(&clean, 500);
    // The load also opens 8 sessions with two requests each, and writes 200 rows.
    assert!(server.requests("column") - before >= 500 + 16 + 200 + count(&clean, "duplicated"));
    let hits = server.metric("lineside_column_hits_total", "") - hits;
    assert_eq!(hits, count(&clean, "gets_by_fast_path"), "{clean}");
    assert!(
        count(&clean, "puts") > 50 && count(&clean, "gets_by_fast_path") > 0,
        "{clean}"
    );

    let gets = AtomicU64::new(0);
    let relay = Relay::start(address, move |bytes| {
        let key = bytes.windows(5).position(|some| some == b"load/");
        let Some(key) = key.filter(|_| bytes[3] == COLUMN_OP_GET | NATIVE_REPLY_BIT) else {
            return Fault::None;
        };
        match gets.fetch_add(1, SeqCst) % 50 {
            1 => Fault::Lose,
            // A byte of the value, which follows the key of 13 bytes.
            2 => Fault::Change(key + 13 + 20),
            _ => Fault::None,
        }
    });
    let faulty = [&rows[..], &["--rate", "500", "--timeout-ms", "3000"]].concat();
    let faulty = report(&load(folder.path(), &faulty, relay.address), 1);
    let (lost, changed) = (relay.lost.load(SeqCst), relay.changed.load(SeqCst));
    assert!(lost > 2 && changed > 2, "{lost} {changed}");
    assert_eq!(
        (count(&faulty, "lost"), count(&faulty, "wrong")),
        (lost, changed),
        "{faulty}"
    );
    let why = faulty["wrong_answers"][0]["why"].as_str().unwrap();
    assert!(why.contains("checksum"), "{why}");
}

#[test]
fn a_load_on_hybrid_signs_its_requests_and_checks_every_value() {
    let folder = TempDir::new().unwrap();
    let init = [
        "hybrid",
        "init",
        "--member",
        "alice=alice.key:admin",
        "--rule",
        "=*:rw",
    ];
    let init = Command::new(binary("lineside"))
        .args(init)
        .current_dir(folder.path())
        .output();
    assert!(init.unwrap().status.success());
    let server = Server::start(
        folder.path(),
        &["hybrid", "serve", "--data", "ledger", "--udp", "127.0.0.1:0"],
    );
    let address = server.address("udp");
    let keys = [
        "hybrid",
        "--key",
        "alice.key",
        "--keys",
        "64",
        "--lanes",
        "16",
        "--sets",
        "30",
        "--duration",
        "1",
    ];
    let clean = [
        &keys[..],
        &["--rate", "200", "--threads", "2", "--timeout-ms", "20000"],
    ]
    .concat();
    let done = || server.metric("lineside_hybrid_requests_total", "code=\"done\"");
    let before = done();
    let clean = report(&load(folder.path(), &clean, address), 0);
    assert_clean(&clean, 200);
    // The load also writes 64 keys.
    assert!(done() - before >= 200 + 64, "{}", done() - before);
    assert!(
        count(&clean, "sets") > 20 && count(&clean, "gets") > 50,
        "{clean}"
    );

    let gets = AtomicU64::new(0);
    let relay = Relay::start(address, move |bytes| {
        let is_reply = bytes[3] & NATIVE_REPLY_BIT != 0;
        if !is_reply || bytes.get(HEADER + 2) != Some(&HYBRID_ANSWER_CELLS) {
            return Fault::None;
        }
        match gets.fetch_add(1, SeqCst) % 20 {
            1 => Fault::Lose,
            // The last byte of the value.
            2 => Fault::Change(bytes.len() - 1),
            _ => Fault::None,
        }
    });
    let faulty = [&keys[..], &["--rate", "200", "--timeout-ms", "3000"]].concat();
    let faulty = report(&load(folder.path(), &faulty, relay.address), 1);
    let (lost, changed) = (relay.lost.load(SeqCst), relay.changed.load(SeqCst));
    assert!(lost > 2 && changed > 2, "{lost} {changed}");
    assert_eq!(
        (count(&faulty, "lost"), count(&faulty, "wrong")),
        (lost, changed),
        "{faulty}"
    );
}
