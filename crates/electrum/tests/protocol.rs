//! Tests of the protocol over a connection: versions, replies, errors, batches, and recorded conversations.

mod common;

use bitcoin::hashes::Hash;
use common::{Client, TestChain, is_proof, serve};
use electrum_client::ElectrumApi;
use electrum_client::raw_client::RawClient;
use lineside_electrum::Host;
use serde_json::Value;

const TSC: &str = "blockchain.transaction.get_tsc_merkle";
const MERKLE: &str = "blockchain.transaction.get_merkle";

#[test]
fn an_independent_client_accepts_every_proof() {
    let chain = TestChain::new(1, &[1, 1000, 7, 2048, 3]);
    let server = serve(&chain, |_| {});
    let client = RawClient::new(server.tcp().expect("TCP"), None, None).expect("a client");
    let features = client.server_features().expect("features");
    let blocks = chain.blocks();
    assert_eq!(features.genesis_hash.map(|byte| byte), {
        let mut shown = blocks[0].hash();
        shown.reverse();
        shown
    });
    client.ping().expect("a ping");
    let tip = client.block_headers_subscribe().expect("a tip");
    assert_eq!((tip.height, tip.header), (4, blocks[4].header));
    let headers = client.block_headers(1, 10).expect("headers");
    assert_eq!(headers.count, 4);
    assert_eq!(
        headers.headers,
        blocks[1..].iter().map(|block| block.header).collect::<Vec<_>>()
    );
    assert_eq!(client.block_header(2).expect("a header"), blocks[2].header);
    for (height, block) in blocks.iter().enumerate() {
        for position in (0..block.txids.len()).step_by(13) {
            let txid = block.txid(position);
            let proof = client.transaction_get_merkle(&txid, height).expect("a proof");
            assert_eq!((proof.block_height, proof.pos), (height, position));
            let root = &block.header.merkle_root;
            assert!(electrum_client::utils::validate_merkle_proof(&txid, root, &proof));
            assert_eq!(client.txid_from_pos(height, position).expect("a TXID"), txid);
        }
    }
    assert_eq!(server.counters().errors, 0);
}

#[test]
fn recorded_conversations_are_reproduced() {
    for (name, version) in [("1.4", r#""1.4""#), ("1.6", r#"["1.4", "1.7"], "more""#)] {
        let chain = TestChain::new(7, &[1, 5, 4]);
        let blocks = chain.blocks();
        let server = serve(&chain, |config| {
            config.banner = "Proofs \"only\"".into();
            config.donation_address = "bc1q".into();
            config.hosts = vec![Host {
                name: "example.org".into(),
                tcp_port: Some(50001),
                ssl_port: None,
            }];
        });
        let (txid, last) = (blocks[1].txid(2), blocks[1].txid(4));
        let requests = [
            format!(
                r#"{{"jsonrpc":"2.0","id":0,"method":"server.version","params":["recorder",{version}]}}"#
            ),
            r#"{"jsonrpc":"2.0","id":1,"method":"server.features"}"#.into(),
            r#"{"jsonrpc":"2.0","id":2,"method":"server.banner","params":[]}"#.into(),
            r#"{"jsonrpc":"2.0","id":3,"method":"server.donation_address","params":[]}"#.into(),
            r#"{"jsonrpc":"2.0","id":4,"method":"server.peers.subscribe","params":[]}"#.into(),
            r#"{"jsonrpc":"2.0","id":"ping","method":"server.ping"}"#.into(),
            r#"{"jsonrpc":"2.0","id":5,"method":"blockchain.headers.subscribe","params":[]}"#.into(),
            r#"{"jsonrpc":"2.0","id":6,"method":"blockchain.block.header","params":[1]}"#.into(),
            r#"{"jsonrpc":"2.0","id":7,"method":"blockchain.block.headers","params":[1,5]}"#.into(),
            r#"{"id":8,"method":"blockchain.block.headers","params":{"start_height":9,"count":1}}"#.into(),
            format!(r#"{{"jsonrpc":"2.0","id":9,"method":"{MERKLE}","params":["{txid}",1]}}"#),
            format!(r#"{{"jsonrpc":"2.0","id":10,"method":"{MERKLE}","params":["{txid}",2]}}"#),
            r#"{"jsonrpc":"2.0","id":11,"method":"blockchain.transaction.id_from_pos","params":[1,4]}"#
                .into(),
            r#"{"jsonrpc":"2.0","id":12,"method":"blockchain.transaction.id_from_pos","params":[1,4,true]}"#
                .into(),
            format!(r#"{{"id":13,"method":"blockchain.transaction.get_tsc_merkle","params":["{last}",1]}}"#),
            format!(r#"{{"id":14,"method":"{TSC}","params":["{last}",1,"txid","merkle_root"]}}"#),
            r#"{"jsonrpc":"2.0","id":15,"method":"blockchain.scripthash.get_balance","params":["00"]}"#
                .into(),
            r#"{"jsonrpc":"2.0","id":16,"method":"server.version","params":["recorder","1.4"]}"#.into(),
            r#"[{"id":17,"method":"server.ping"},{"method":"server.ping"},{"id":18,"method":"x"}]"#.into(),
        ];
        let mut client = Client::connect(server.tcp().expect("TCP"));
        let mut said = String::new();
        for request in requests {
            client.send(&request);
            said += &format!("--> {request}\n<-- {}\n", client.line().expect("a reply"));
        }
        chain.replace(1, &[2, 1]);
        said += &format!("<-- {}\n", client.line().expect("a notification"));
        let path = format!("{}/tests/transcripts/{name}.txt", env!("CARGO_MANIFEST_DIR"));
        if std::env::var_os("LINESIDE_WRITE_TRANSCRIPTS").is_some() {
            std::fs::write(&path, &said).expect("written");
        }
        assert_eq!(said, std::fs::read_to_string(&path).unwrap_or_default(), "{path}");
    }
}

#[test]
fn each_error_has_its_code_and_describes_the_fault() {
    let chain = TestChain::new(2, &[1, 5, 4]);
    let server = serve(&chain, |_| {});
    let mut client = Client::connect(server.tcp().expect("TCP"));
    let txid = chain.blocks()[1].txid(0);
    let no = "ab".repeat(32);
    for (method, params, code, message) in [
        (
            MERKLE,
            format!(r#"["{txid}",3]"#),
            1,
            "height 3 out of range".into(),
        ),
        (
            MERKLE,
            format!(r#"["{txid}",2]"#),
            1,
            format!("tx {txid} not in block at height 2"),
        ),
        (
            MERKLE,
            format!(r#"["{no}",1]"#),
            1,
            format!("tx {no} not in block at height 1"),
        ),
        (
            MERKLE,
            r#"["abc",1]"#.into(),
            1,
            "abc should be a transaction hash".into(),
        ),
        (
            MERKLE,
            format!(r#"["{txid}"]"#),
            -32602,
            "expected tx_hash and height".into(),
        ),
        (MERKLE, format!(r#"["{txid}",-1]"#), -32602, "integer `-1`".into()),
        (MERKLE, format!(r#"["{txid}",1,2]"#), -32602, "trailing".into()),
        (
            MERKLE,
            r#"{"height":1}"#.into(),
            -32602,
            "missing field `tx_hash`".into(),
        ),
        (
            "blockchain.transaction.id_from_pos",
            "[1,5]".into(),
            1,
            "no tx at position 5".into(),
        ),
        (
            "blockchain.transaction.id_from_pos",
            "[1,1,2]".into(),
            -32602,
            "boolean".into(),
        ),
        (
            "blockchain.transaction.get_tsc_merkle",
            format!(r#"["{txid}",1,"tx"]"#),
            1,
            "not supported".into(),
        ),
        (
            "blockchain.transaction.get_tsc_merkle",
            format!(r#"["{txid}",1,"txid","x"]"#),
            1,
            "target_type".into(),
        ),
        (
            "blockchain.block.header",
            "[3]".into(),
            1,
            "height 3 out of range".into(),
        ),
        (
            "blockchain.block.header",
            "[1,3]".into(),
            1,
            "require header height 1 <= cp_height 3 <= chain height 2".into(),
        ),
        (
            "blockchain.block.headers",
            "[0,3,1]".into(),
            1,
            "require header height 2 <= cp_height 1 <= chain height 2".into(),
        ),
        (
            "blockchain.headers.subscribe",
            "[1]".into(),
            -32602,
            "invalid parameters".into(),
        ),
        (
            "blockchain.scripthash.subscribe",
            r#"["00"]"#.into(),
            -32601,
            "electrum_upstream".into(),
        ),
        (
            "nothing",
            "[]".into(),
            -32601,
            "nothing is not answered by this server".into(),
        ),
    ] {
        let (said_code, said) = client.error(method, &params);
        assert!(
            said_code == code && said.contains(&message),
            "{method} {params}: {said_code} {said}"
        );
    }
    let upper = txid.to_string().to_uppercase();
    let proof = client.result(MERKLE, &format!(r#"["{upper}",1]"#));
    assert!(is_proof(&proof, &txid, &chain.blocks()[1].header));
    client.send("garbage");
    let reply = client.receive();
    assert_eq!(
        (&reply["error"]["code"], &reply["id"]),
        (&Value::from(-32700), &Value::Null)
    );
    assert_eq!(client.result("server.ping", "[]"), Value::Null);
}

#[test]
fn the_version_is_negotiated_once_as_the_first_request() {
    let chain = TestChain::new(3, &[1, 1]);
    let server = serve(&chain, |_| {});
    let connect = || Client::connect(server.tcp().expect("TCP"));
    let version =
        |client: &mut Client, offer: &str| client.ask("server.version", &format!(r#"["x",{offer}]"#));
    let mut client = connect();
    assert_eq!(version(&mut client, r#"["1.4","1.6"]"#)["result"][1], "1.6");
    assert_eq!(
        version(&mut client, r#""1.4""#)["error"]["message"],
        "server.version already sent"
    );
    assert!(client.result("blockchain.block.headers", "[0,1]")["headers"].is_array());

    let mut late = connect();
    late.result("server.ping", "[]");
    assert_eq!(version(&mut late, r#"["1.4","1.6"]"#)["result"][1], "1.4.3");
    assert!(late.result("blockchain.block.headers", "[0,1]")["hex"].is_string());

    for offer in [r#"["1.6","1.6"]"#, r#""2.0""#, "7"] {
        let mut client = connect();
        if offer.contains("1.6") {
            client.result("server.ping", "[]");
        }
        let reply = version(&mut client, offer);
        assert_eq!(reply["error"]["code"], 1, "{reply}");
        assert_eq!(client.line(), None, "the connection ends after {offer}");
    }
}

#[test]
fn a_batch_is_answered_in_one_line() {
    let chain = TestChain::new(4, &[1, 50, 60]);
    let server = serve(&chain, |config| config.limits.queued_bytes = 20_000);
    let mut client = Client::connect(server.tcp().expect("TCP"));
    let blocks = chain.blocks();
    let of = |position: usize| {
        let txid = blocks[1].txid(position);
        format!(r#"{{"id":{position},"method":"{MERKLE}","params":["{txid}",1]}}"#)
    };
    let batch: Vec<String> = (0..20).map(of).collect();
    client.send(&format!("[{},7,{{\"method\":\"server.ping\"}}]", batch.join(",")));
    let reply = client.receive();
    let replies = reply.as_array().expect("an array");
    assert_eq!(replies.len(), 21);
    for position in 0..20 {
        let one = replies
            .iter()
            .find(|reply| reply["id"] == position)
            .expect("a reply");
        assert!(is_proof(
            &one["result"],
            &blocks[1].txid(position),
            &blocks[1].header
        ));
    }
    assert!(replies.iter().any(|reply| reply["error"]["code"] == -32600));
    // A batch of notifications has no reply; the next line is the reply to the ping.
    client.send(r#"[{"method":"server.ping"}]"#);
    assert_eq!(client.result("server.ping", "[]"), Value::Null);
    // If all replies together are too long, an error replaces each further reply.
    let batch: Vec<String> = (0..50).map(of).collect();
    client.send(&format!("[{}]", batch.join(",")));
    let reply = client.receive();
    let replies = reply.as_array().expect("an array");
    let refused = replies
        .iter()
        .filter(|reply| reply.get("error").is_some())
        .count();
    assert!(
        replies.len() == 50 && refused > 0 && refused < 50,
        "{refused} of {}",
        replies.len()
    );
}

#[test]
fn requests_before_the_end_of_the_stream_are_answered() {
    let chain = TestChain::new(5, &[1, 3000]);
    let server = serve(&chain, |_| {});
    let mut client = Client::connect(server.tcp().expect("TCP"));
    let txid = chain.blocks()[1].txid(1234);
    client.send(&format!(
        r#"{{"id":1,"method":"{MERKLE}","params":["{txid}",1]}}"#
    ));
    client.send(r#"{"id":2,"method":"server.ping"}"#);
    let stream = client.stream.get_ref();
    stream.shutdown(std::net::Shutdown::Write).expect("a socket");
    assert_eq!(client.receive()["result"]["pos"], 1234);
    assert_eq!(client.receive()["id"], 2);
    assert_eq!(client.line(), None);
}

#[test]
fn an_empty_or_unavailable_chain_gives_an_error() {
    let chain = TestChain::new(6, &[]);
    let server = serve(&chain, |_| {});
    let mut client = Client::connect(server.tcp().expect("TCP"));
    for method in ["blockchain.headers.subscribe", "server.features"] {
        assert_eq!(client.error(method, "[]"), (2, "there is no block yet".into()));
    }
    assert_eq!(client.result("blockchain.block.headers", "[0,5]")["count"], 0);
    chain.replace(0, &[4]);
    *chain.fault.lock().expect("a lock") = Some("the index is damaged".into());
    let txid = chain.blocks()[0].txid(1);
    let params = format!(r#"["{txid}",0]"#);
    let (code, message) = client.error(MERKLE, &params);
    assert_eq!(
        (code, &*message),
        (
            2,
            "this server cannot answer from its chain of blocks now: the index is damaged"
        )
    );
    *chain.fault.lock().expect("a lock") = None;
    assert_eq!(client.result(MERKLE, &params)["pos"], 1);
    assert_eq!(txid.to_byte_array(), chain.blocks()[0].txids[1]);
}
