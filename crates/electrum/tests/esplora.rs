//! Tests for Esplora's paths over HTTP, with a chain in memory.

mod common;

use bitcoin::{MerkleBlock, consensus};
use common::{TestChain, is_proof, loopback, serve, wait_for};
use lineside_electrum::Server;
use lineside_util::hex::{from_hex, to_display, to_hex};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;

fn start(chain: &Arc<TestChain>, change: impl FnOnce(&mut lineside_electrum::Config)) -> Server {
    serve(chain, |config| {
        config.http = Some(loopback());
        change(config);
    })
}

/// Sends `request` on a new connection, and returns the whole answer.
fn exchange(server: &Server, request: &str) -> String {
    let mut stream = TcpStream::connect(server.http().expect("HTTP")).expect("a connection");
    stream
        .set_read_timeout(Some(common::WAIT_TIMEOUT))
        .expect("a socket");
    stream.write_all(request.as_bytes()).expect("a request is sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

/// Returns the status and the body of the answer to a request for `path`.
fn get(server: &Server, path: &str) -> (u16, String) {
    let answer = exchange(
        server,
        &format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"),
    );
    let (head, body) = answer.split_once("\r\n\r\n").expect("HTTP");
    assert!(
        head.to_ascii_lowercase().contains("cache-control: no-store"),
        "{head}"
    );
    (head[9..12].parse().expect("a status"), body.to_owned())
}

fn value(server: &Server, path: &str) -> Value {
    let (status, body) = get(server, path);
    assert_eq!(status, 200, "{path}: {body}");
    serde_json::from_str(&body).expect("JSON")
}

#[test]
fn paths_answer_as_esplora_does() {
    let chain = TestChain::new(1, &[1, 300, 7]);
    let server = start(&chain, |_| {});
    let blocks = chain.blocks();
    let ok = |path: &str| match get(&server, path) {
        (200, body) => body,
        other => panic!("{path}: {other:?}"),
    };
    assert_eq!(ok("/blocks/tip/height"), "2");
    assert_eq!(ok("/blocks/tip/hash"), to_display(&blocks[2].hash()));
    for (height, block) in blocks.iter().enumerate() {
        let hash = to_display(&block.hash());
        assert_eq!(ok(&format!("/block-height/{height}")), hash);
        assert_eq!(ok(&format!("/block/{hash}/header")), to_hex(&block.bytes()));
        for position in (0..block.txids.len()).step_by(7) {
            let txid = block.txid(position);
            let proof = value(&server, &format!("/tx/{txid}/merkle-proof"));
            assert_eq!(
                (&proof["block_height"], &proof["pos"]),
                (&json!(height), &json!(position))
            );
            assert!(is_proof(&proof, &txid, &block.header));
            let hex = ok(&format!("/tx/{txid}/merkleblock-proof"));
            let read: MerkleBlock =
                consensus::deserialize(&from_hex(&hex).expect("hex")).expect("a merkleblock");
            let (mut matches, mut indexes) = (Vec::new(), Vec::new());
            read.extract_matches(&mut matches, &mut indexes)
                .expect("a true proof");
            assert_eq!(
                (read.header, matches, indexes),
                (block.header, vec![txid], vec![position as u32])
            );
            assert_eq!(
                value(&server, &format!("/tx/{txid}/status")),
                json!({"confirmed": true, "block_height": height, "block_hash": hash, "block_time": block.header.time})
            );
        }
    }
    let hash = to_display(&blocks[1].hash());
    let header = &blocks[1].header;
    let mut times = [blocks[0].header.time, header.time];
    times.sort_unstable();
    assert_eq!(
        value(&server, &format!("/block/{hash}")),
        json!({
            "id": hash, "height": 1, "version": 0x2000_0000, "timestamp": header.time, "tx_count": 300,
            "merkle_root": header.merkle_root.to_string(), "previousblockhash": to_display(&blocks[0].hash()),
            "mediantime": times[1], "nonce": header.nonce, "bits": 0x1d00_ffff, "difficulty": 1.0,
        })
    );
    assert_eq!(
        value(&server, &format!("/block/{hash}/status")),
        json!({"in_best_chain": true, "height": 1, "next_best": to_display(&blocks[2].hash())})
    );
    assert_eq!(
        value(&server, &format!("/tx/{}/status", "00".repeat(32))),
        json!({"confirmed": false})
    );
}

#[test]
fn wrong_paths_have_esploras_texts() {
    let chain = TestChain::new(2, &[1, 3]);
    let server = start(&chain, |_| {});
    let no = "ab".repeat(32);
    for (path, status, body) in [
        (
            format!("/tx/{no}/merkle-proof"),
            404,
            "Transaction not found or is unconfirmed",
        ),
        (
            format!("/tx/{no}/merkleblock-proof"),
            404,
            "Transaction not found or is unconfirmed",
        ),
        ("/tx/xyz/merkle-proof".into(), 400, "Invalid hex string"),
        ("/tx/ab/status".into(), 400, "Invalid hex string"),
        (format!("/block/{no}"), 404, "Block not found"),
        (format!("/block/{no}/header"), 404, "Block not found"),
        ("/block/%20/header".into(), 400, "Invalid hex string"),
        ("/block-height/2".into(), 404, "Block not found"),
        ("/block-height/99999999999".into(), 404, "Block not found"),
        ("/block-height/-1".into(), 400, "Invalid number"),
        ("/block-height/+1".into(), 400, "Invalid number"),
        ("/address/x".into(), 404, "endpoint does not exist \"/address/x\""),
        ("/".into(), 404, "endpoint does not exist \"/\""),
    ] {
        assert_eq!(get(&server, &path), (status, body.to_owned()), "{path}");
    }
    assert_eq!(
        value(&server, &format!("/block/{no}/status")),
        json!({"in_best_chain": false})
    );
    let post =
        "POST /blocks/tip/height HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
    assert!(exchange(&server, post).starts_with("HTTP/1.1 405"));
    let body = "GET /blocks/tip/height HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc";
    assert!(exchange(&server, body).starts_with("HTTP/1.1 413"));
    *chain.fault.lock().expect("a lock") = Some("the index is damaged".into());
    let (status, body) = get(&server, &format!("/tx/{no}/merkle-proof"));
    assert_eq!(
        (status, &*body),
        (
            503,
            "this server cannot answer from its chain of blocks now: the index is damaged"
        )
    );
}

#[test]
fn no_proof_of_a_disconnected_block_is_sent() {
    let chain = TestChain::new(3, &[1, 4]);
    let server = start(&chain, |_| {});
    let old = chain.blocks()[1].clone();
    // The block is replaced while the server reads the block's TXIDs, and below while the server computes a proof from
    // the cached tree.
    *chain.in_txids.lock().expect("a lock") = Some(Box::new(|chain| chain.replace(1, &[5])));
    let proof = |block: &common::Block| get(&server, &format!("/tx/{}/merkle-proof", block.txid(1)));
    assert_eq!(proof(&old).0, 404);
    let new = chain.blocks()[1].clone();
    assert_eq!(proof(&new).0, 200);
    *chain.in_hash_at.lock().expect("a lock") = Some(Box::new(|chain| chain.replace(1, &[6])));
    assert_eq!(proof(&new).0, 404);
    assert_eq!(
        get(&server, &format!("/block/{}", to_display(&new.hash()))).0,
        404
    );
    assert!(server.counters().recomputed >= 1);
}

#[test]
fn the_number_of_connections_is_limited() {
    let chain = TestChain::new(4, &[1]);
    let server = start(&chain, |config| config.limits.http_clients_by_network = 3);
    let address = server.http().expect("HTTP");
    let idle: Vec<TcpStream> = (0..3)
        .map(|_| TcpStream::connect(address).expect("a connection"))
        .collect();
    wait_for("three connections", || server.counters().http_clients == 3);
    let mut fourth = TcpStream::connect(address).expect("a connection");
    assert_eq!(fourth.read(&mut [0; 8]).expect("the end"), 0);
    assert_eq!(server.counters().refused, 1);
    idle[0].shutdown(Shutdown::Both).expect("a socket");
    wait_for("a free place", || server.counters().http_clients == 2);
    assert_eq!(get(&server, "/blocks/tip/height"), (200, "0".into()));
    let long = format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(20_000));
    wait_for("a free place", || server.counters().http_clients == 2);
    let answer = exchange(&server, &long);
    assert!(answer.starts_with("HTTP/1.1 4"), "{answer}");
}

#[test]
fn a_client_has_its_rate_over_all_its_connections() {
    let chain = TestChain::new(5, &[1, 300]);
    let server = start(&chain, |config| {
        config.limits.http_requests_per_second = 1;
        config.limits.http_burst = 30;
    });
    // Each of these requests uses its own connection.
    for _ in 0..5 {
        assert_eq!(get(&server, "/blocks/tip/height").0, 200);
    }
    // This request needs a tree, which counts as many requests.
    let proof = format!("/tx/{}/merkle-proof", chain.blocks()[1].txid(7));
    assert_eq!(get(&server, &proof).0, 200);
    let refused = (0..30).find_map(|_| {
        let answer = exchange(
            &server,
            "GET /blocks/tip/height HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
        );
        (!answer.starts_with("HTTP/1.1 200")).then_some(answer)
    });
    let refused = refused.expect("a refusal").to_ascii_lowercase();
    assert!(refused.starts_with("http/1.1 429"), "{refused}");
    let seconds = refused
        .lines()
        .find_map(|line| line.strip_prefix("retry-after: ")?.trim().parse::<u64>().ok());
    // The burst has 30 tokens, and one token is added each second.
    assert!(
        seconds.is_some_and(|seconds| (1..=30).contains(&seconds)),
        "{refused}"
    );
    let counters = server.counters();
    assert_eq!(counters.http_throttled, 1);
    assert!(
        counters.http_requests < 30,
        "the tree was counted as one request only: {counters:?}"
    );
    // After the time in the header `Retry-After`, a request is answered again.
    wait_for("an answer", || get(&server, "/blocks/tip/height").0 == 200);
    // Electrum clients have a separate rate.
    let mut wallet = common::Client::connect(server.tcp().expect("TCP"));
    assert_eq!(wallet.result("server.ping", "[]"), Value::Null);
}

/// Returns the answer to a request for the tip's height with this `X-Forwarded-For`.
fn forwarded(server: &Server, forwarded_for: &str) -> String {
    let request = format!(
        "GET /blocks/tip/height HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\
         X-Forwarded-For: {forwarded_for}\r\n\r\n"
    );
    exchange(server, &request)
}

#[test]
fn each_client_of_a_trusted_proxy_has_its_own_rate_and_the_proxy_has_many_connections() {
    let chain = TestChain::new(6, &[1]);
    let limited = |config: &mut lineside_electrum::Config| {
        config.limits.http_requests_per_second = 1;
        config.limits.http_burst = 3;
        config.limits.http_clients_by_network = 2;
    };
    let server = start(&chain, |config| {
        limited(config);
        config.trusted_proxies = Arc::new(|address| address.is_loopback());
    });
    // These are 20 clients, more than the number of requests that one client may send at once.
    for client in 0..20 {
        let answer = forwarded(&server, &format!("198.51.100.7, 192.0.2.{client}"));
        assert!(answer.starts_with("HTTP/1.1 200"), "{client}: {answer}");
    }
    // A client cannot avoid its limit by writing other addresses into the header before its own.
    let answers = (0..9).map(|number| forwarded(&server, &format!("198.51.100.{number}, 203.0.113.1")));
    let refused = answers.filter(|answer| answer.starts_with("HTTP/1.1 429"));
    assert!(refused.count() >= 1);
    let idle: Vec<TcpStream> = (0..5)
        .map(|_| TcpStream::connect(server.http().expect("HTTP")).expect("a connection"))
        .collect();
    wait_for("five connections of one proxy", || {
        server.counters().http_clients == 5
    });
    drop(idle);

    // The header is ignored if the peer is not a trusted proxy.
    let server = start(&chain, limited);
    let mut answers = (0..30).map(|client| forwarded(&server, &format!("192.0.2.{client}")));
    assert!(answers.any(|answer| answer.starts_with("HTTP/1.1 429")));
}

#[test]
fn web_pages_of_every_origin_may_read_the_answers() {
    let chain = TestChain::new(7, &[1]);
    let server = start(&chain, |_| {});
    let head_of = |method: &str, path: &str| {
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nOrigin: https://explorer.example\r\n\r\n"
        );
        let answer = exchange(&server, &request);
        let (head, _) = answer.split_once("\r\n\r\n").expect("HTTP");
        head.to_ascii_lowercase()
    };
    for (method, path, status) in [
        ("GET", "/blocks/tip/height", 200),
        ("GET", "/address/x", 404),
        ("POST", "/blocks/tip/height", 405),
        ("OPTIONS", "/blocks/tip/height", 204),
    ] {
        let head = head_of(method, path);
        assert!(head.starts_with(&format!("http/1.1 {status}")), "{head}");
        assert!(
            head.contains("access-control-allow-origin: *"),
            "{method} {path}: {head}"
        );
    }
    let preflight = head_of("OPTIONS", "/block/x/header");
    assert!(
        preflight.contains("access-control-allow-methods: get, head, options"),
        "{preflight}"
    );
}
