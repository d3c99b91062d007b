//! Tests for each limit of a server, and a test that honest clients are served while hostile clients attack.

mod common;

use common::{Client, TestChain, WAIT_TIMEOUT, is_proof, serve, wait_for};
use lineside_electrum::Server;
use lineside_testkit::Random;
use serde_json::Value;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

const MERKLE: &str = "blockchain.transaction.get_merkle";
const PING: &str = r#"{"id":1,"method":"server.ping"}"#;

fn connect(server: &Server) -> Client {
    Client::connect(server.tcp().expect("TCP"))
}

#[test]
fn a_line_is_limited_in_length_and_time() {
    let chain = TestChain::new(1, &[1]);
    let server = serve(&chain, |config| {
        config.limits.line_bytes = 10_000;
        config.limits.line_time = Duration::from_millis(300);
        config.limits.idle = Duration::from_secs(3600);
    });
    // The first line is complete, and the second one never ends.
    for line in [format!("{}\n", "x".repeat(10_001)), "[".repeat(200_000)] {
        let mut client = connect(&server);
        // An error is ignored, because the server may close the connection while the client still sends.
        let _ = client.stream.get_mut().write_all(line.as_bytes());
        if let Some(reply) = client.line() {
            assert!(reply.contains("a line has at most 10000 bytes"), "{reply}");
        }
        assert_eq!(client.line(), None);
    }
    assert_eq!(server.counters().closed_line, 2);
    let mut longest = connect(&server);
    longest.send(&format!("{PING}{}", " ".repeat(10_000 - PING.len())));
    assert_eq!(longest.receive()["id"], 1);
    // One client sends nothing, and one stops in the middle of its second line.
    let mut silent = connect(&server);
    let mut half = connect(&server);
    half.send(&format!("{PING}\n{{\"id\""));
    half.stream.get_mut().write_all(b"{\"id\"").expect("sent");
    assert_eq!(half.receive()["id"], 1);
    assert_eq!(half.receive()["error"]["code"], -32700);
    assert_eq!((silent.line(), half.line()), (None, None));
    assert_eq!(server.counters().closed_idle, 2);
    assert_eq!(longest.result("server.ping", "[]"), Value::Null);
}

#[test]
fn an_idle_client_is_disconnected() {
    let chain = TestChain::new(2, &[1]);
    let server = serve(&chain, |config| config.limits.idle = Duration::from_millis(200));
    let mut client = connect(&server);
    client.result("server.ping", "[]");
    assert_eq!(client.line(), None);
    assert_eq!(server.counters().closed_idle, 1);
    wait_for("no client", || server.counters().clients == 0);
}

#[test]
fn a_client_that_does_not_read_is_disconnected_and_its_replies_are_limited() {
    let chain = TestChain::new(3, &[1; 2100]);
    let server = serve(&chain, |config| {
        config.limits.stall = Duration::from_millis(500);
        config.limits.queued_bytes = 1 << 20;
    });
    let mut client = connect(&server);
    let stream = client.stream.get_mut();
    stream.set_write_timeout(Some(WAIT_TIMEOUT)).expect("a socket");
    let request = br#"{"id":1,"method":"blockchain.block.headers","params":[0,2016]}
"#;
    // Sends until the server closes the connection: each request has a reply of 322 kB, so the replies fill every
    // buffer.
    let error = (0..10_000_000).find_map(|_| stream.write_all(request).err());
    let kind = error.expect("the server closes").kind();
    assert!(
        matches!(kind, ErrorKind::ConnectionReset | ErrorKind::BrokenPipe),
        "{kind:?}"
    );
    wait_for("the client is closed", || server.counters().closed_stalled == 1);
    let answered = server.counters().answered;
    assert!(
        answered < 200,
        "{answered} replies were computed for a client that does not read"
    );
    assert_eq!(connect(&server).result("server.ping", "[]"), Value::Null);
}

#[test]
fn clients_are_limited_in_total_and_by_network() {
    let chain = TestChain::new(4, &[1]);
    let server = serve(&chain, |config| config.limits.clients_by_network = 2);
    let mut clients: Vec<Client> = (0..2).map(|_| connect(&server)).collect();
    clients
        .iter_mut()
        .for_each(|client| drop(client.result("server.ping", "[]")));
    assert_eq!(connect(&server).line(), None);
    assert_eq!((server.counters().refused, server.counters().clients), (1, 2));
    clients.pop();
    wait_for("a free place", || server.counters().clients == 1);
    assert_eq!(connect(&server).result("server.ping", "[]"), Value::Null);
}

#[test]
fn a_client_above_its_rate_is_delayed_and_loses_nothing() {
    let chain = TestChain::new(5, &[1]);
    let server = serve(&chain, |config| {
        config.limits.requests_per_second = 200;
        config.limits.burst = 10;
    });
    let mut client = connect(&server);
    let lines: String = (0..100)
        .map(|id| format!("{{\"id\":{id},\"method\":\"server.ping\"}}\n"))
        .collect();
    client.send(lines.trim_end());
    for id in 0..100 {
        assert_eq!(client.receive()["id"], id);
    }
    assert!(server.counters().throttled > 10, "{:?}", server.counters());
}

#[test]
fn memory_is_limited_for_all_clients_together() {
    let chain = TestChain::new(6, &[1]);
    let server = serve(&chain, |config| config.limits.memory_bytes = 4 << 20);
    let mut honest = connect(&server);
    honest.result("server.ping", "[]");
    // Each client starts a line of nearly 1 MiB; one network may use 1 MiB in total.
    let mut hostile: Vec<Client> = (0..4).map(|_| connect(&server)).collect();
    for client in &mut hostile {
        let _ = client.stream.get_mut().write_all(&vec![b' '; 900 << 10]);
    }
    wait_for("clients are closed", || server.counters().closed_memory >= 3);
    assert_eq!(server.counters().closed_memory, 3);
    assert_eq!(honest.result("server.ping", "[]"), Value::Null);
}

#[test]
fn the_length_of_batches_is_limited() {
    let chain = TestChain::new(7, &[1]);
    let server = serve(&chain, |config| config.limits.batch = 10);
    let mut client = connect(&server);
    let batch = |length: usize| format!("[{}]", vec![PING; length].join(","));
    client.send(&batch(11));
    let reply = client.receive();
    assert!(
        reply["error"]["message"]
            .as_str()
            .is_some_and(|text| text.contains("at most 10")),
        "{reply}"
    );
    client.send(&batch(10));
    assert_eq!(client.receive().as_array().map(Vec::len), Some(10));
}

/// Runs one hostile client until `stop`. It connects again when its connection is closed.
fn attack(kind: usize, address: std::net::SocketAddr, stop: &AtomicBool) {
    let headers = r#"{"id":1,"method":"blockchain.block.headers","params":[0,2016]}"#;
    let batch = format!("[{}]\n", vec![headers; 256].join(","));
    let text = match kind {
        // This client requests long replies and never reads them.
        0 | 1 => format!("{headers}\n").repeat(100),
        2 => "{\"id\":1,\"method\":".into(),
        3 => "\u{0}\u{1}garbage{[}]\\\n".repeat(100),
        4 => "[[[[[[[[{\"a\":".repeat(1000),
        5 => batch,
        // These clients send requests as fast as they can, and do not read the replies (except kind 9).
        _ => format!("{PING}\n").repeat(1000),
    };
    while !stop.load(Ordering::Relaxed) {
        let Ok(mut stream) = TcpStream::connect(address) else {
            continue;
        };
        let _ = stream.set_write_timeout(Some(Duration::from_millis(50)));
        let _ = stream.set_read_timeout(Some(Duration::from_millis(1)));
        while !stop.load(Ordering::Relaxed) {
            match stream.write(text.as_bytes()) {
                Ok(_) if kind == 2 => std::thread::sleep(Duration::from_millis(20)),
                Ok(_) => {}
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(_) => break,
            }
            if kind == 9 {
                // This client also reads the replies.
                let _ = stream.read(&mut [0; 1 << 16]);
            }
        }
    }
}

/// Number of honest clients.
const HONEST_CLIENTS: u64 = 990;
const REQUESTS: u64 = 20;

/// Runs an honest client, each of whose requests must get a correct answer. Returns the time that each answer took.
async fn honest(address: std::net::SocketAddr, seed: u64, chain: Arc<TestChain>) -> Vec<Duration> {
    let mut waited = Vec::new();
    let blocks = chain.blocks();
    let mut random = Random(seed);
    let stream = tokio::net::TcpStream::connect(address)
        .await
        .expect("a connection");
    let mut stream = BufReader::new(stream);
    for number in 0..REQUESTS {
        let height = 2100 + random.index(blocks.len() - 2100);
        let block = &blocks[height];
        let position = random.index(block.txids.len());
        let txid = block.txid(position);
        let request =
            format!("{{\"id\":{number},\"method\":\"{MERKLE}\",\"params\":[\"{txid}\",{height}]}}\n");
        let start = Instant::now();
        stream
            .write_all(request.as_bytes())
            .await
            .expect("a request is sent");
        let mut line = String::new();
        let reading = tokio::time::timeout(WAIT_TIMEOUT, stream.read_line(&mut line));
        reading.await.expect("a reply in time").expect("a reply");
        waited.push(start.elapsed());
        let reply: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert_eq!(
            (&reply["id"], &reply["result"]["pos"]),
            (&number.into(), &position.into()),
            "{line}"
        );
        assert!(is_proof(&reply["result"], &txid, &block.header));
    }
    waited
}

/// Runs all honest clients at the same time. Returns the sorted times that all answers took.
fn all_honest(address: std::net::SocketAddr, chain: &Arc<TestChain>) -> Vec<Duration> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let begin = |seed| tokio::spawn(honest(address, seed, Arc::clone(chain)));
        let clients: Vec<_> = (0..HONEST_CLIENTS).map(begin).collect();
        let mut waited = Vec::new();
        for client in clients {
            waited.extend(client.await.expect("an honest client is served"));
        }
        waited.sort_unstable();
        waited
    })
}

#[test]
fn honest_clients_are_served_while_ten_of_a_thousand_are_hostile() {
    let mut sizes = vec![1; 2100];
    sizes.extend([300; 20]);
    let chain = TestChain::new(8, &sizes);
    let server = serve(&chain, |config| {
        config.limits.requests_per_second = 2_000;
        config.limits.burst = 1_000;
        config.limits.stall = Duration::from_secs(2);
        config.limits.line_time = Duration::from_secs(6);
        // All clients of this test belong to one network, which may use a quarter of this memory.
        config.limits.memory_bytes = 1 << 30;
    });
    let address = server.tcp().expect("TCP");
    let calm = all_honest(address, &chain);
    let stop = AtomicBool::new(false);
    let attacked = std::thread::scope(|scope| {
        for kind in 0..10 {
            let stop = &stop;
            scope.spawn(move || attack(kind, address, stop));
        }
        wait_for("hostile clients", || server.counters().clients >= 8);
        let honest = std::panic::AssertUnwindSafe(|| all_honest(address, &chain));
        let result = std::panic::catch_unwind(honest);
        // Checks that the attack has an effect, and that it ends.
        if result.is_ok() {
            wait_for("stalled clients are closed", || {
                server.counters().closed_stalled >= 1
            });
            wait_for("a client with an incomplete line is disconnected", || {
                server.counters().closed_idle >= 1
            });
        }
        stop.store(true, Ordering::Relaxed);
        result.expect("each honest client has all its answers")
    });
    assert_eq!(
        [calm.len(), attacked.len()],
        [(HONEST_CLIENTS * REQUESTS) as usize; 2]
    );
    let of = |waited: &[Duration]| [50, 99, 100].map(|percent| waited[(waited.len() - 1) * percent / 100]);
    let (calm, attacked) = (of(&calm), of(&attacked));
    println!(
        "median, 99th percentile and longest time of honest clients: {calm:?} without hostile clients, \
         {attacked:?} with ten"
    );
    // The times are compared with those of the same clients on the same machine without hostile clients. The factor is
    // large, because ten hostile clients also use CPU time of the machine.
    for (calm, attacked) in calm.into_iter().zip(attacked) {
        assert!(
            attacked <= calm * 10 + Duration::from_secs(2),
            "{attacked:?} for {calm:?}"
        );
    }
    let counters = server.counters();
    assert!(counters.throttled > 0 && counters.errors > 0, "{counters:?}");
}
