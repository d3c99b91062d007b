//! Tests of forwarding requests to another Electrum server, which a thread simulates.

mod common;

use common::{Client, TestChain, WAIT_TIMEOUT, is_proof, loopback, serve, wait_for};
use lineside_electrum::{Server, Upstream, UpstreamTls};
use rustls::pki_types::pem::PemObject;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// State of the simulated upstream server: the lines that it has read, and its connections.
#[derive(Default)]
struct UpstreamLog {
    lines: Mutex<Vec<Value>>,
    streams: Mutex<Vec<TcpStream>>,
    connections: AtomicUsize,
    stopped: AtomicBool,
}

impl UpstreamLog {
    fn methods(&self) -> Vec<String> {
        let lines = self.lines.lock().expect("a lock");
        let name = |line: &Value| line["method"].as_str().expect("a method").to_owned();
        lines.iter().map(name).collect()
    }

    fn count(&self, method: &str) -> usize {
        self.methods().iter().filter(|name| *name == method).count()
    }

    /// Ends all connections.
    fn cut(&self) {
        let streams = std::mem::take(&mut *self.streams.lock().expect("a lock"));
        for stream in streams {
            // An error is ignored, because the connection may have ended already.
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
    }

    /// Sends a line to all clients.
    fn tell(&self, line: &Value) {
        for mut stream in self.streams.lock().expect("a lock").iter() {
            stream.write_all(format!("{line}\n").as_bytes()).expect("sent");
        }
    }
}

/// Simulates an Electrum server on one connection.
fn play(mut writer: impl Write, reader: impl BufRead, seen: &UpstreamLog) {
    let mut held = Vec::new();
    for line in reader.lines() {
        let Ok(line) = line else { return };
        let request: Value = serde_json::from_str(&line).expect("a request");
        seen.lines.lock().expect("a lock").push(request.clone());
        let first = request["params"][0].clone();
        let result = |result: Value| json!({"jsonrpc": "2.0", "id": request["id"], "result": result});
        let reply = match request["method"].as_str().expect("a method") {
            "server.version" => result(json!(["player", request["params"][1][1]])),
            "blockchain.scripthash.get_balance" => result(json!({"confirmed": first})),
            "blockchain.scripthash.subscribe" => result(json!(format!("status of {first}"))),
            "fail" => json!({"id": request["id"], "error": {"code": 5, "message": "no"}}),
            "swallow" => continue,
            "hold" => {
                held.push(result(first));
                continue;
            }
            "release" => {
                held.push(result(first));
                let text: String = held.drain(..).rev().map(|reply| format!("{reply}\n")).collect();
                writer.write_all(text.as_bytes()).expect("sent");
                continue;
            }
            "garbage" => Value::Null,
            "close" => return seen.cut(),
            _ => result(Value::Null),
        };
        if writer.write_all(format!("{reply}\n").as_bytes()).is_err() {
            return;
        }
    }
}

fn listen(listener: TcpListener) -> Arc<UpstreamLog> {
    let seen = Arc::new(UpstreamLog::default());
    let shared = Arc::clone(&seen);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.expect("a connection");
            if shared.stopped.load(Ordering::SeqCst) {
                return;
            }
            shared.connections.fetch_add(1, Ordering::SeqCst);
            let writer = stream.try_clone().expect("a stream");
            shared
                .streams
                .lock()
                .expect("a lock")
                .push(stream.try_clone().expect("a stream"));
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || play(writer, BufReader::new(stream), &shared));
        }
    });
    seen
}

fn start(
    chain: &Arc<TestChain>,
    upstream: SocketAddr,
    change: impl FnOnce(&mut lineside_electrum::Config),
) -> Server {
    serve(chain, |config| {
        config.upstream = Some(Upstream {
            address: upstream.to_string(),
            tls: None,
        });
        change(config);
    })
}

/// Returns an upstream server, a server that forwards to it, and a chain.
fn both(change: impl FnOnce(&mut lineside_electrum::Config)) -> (Arc<UpstreamLog>, Server, Arc<TestChain>) {
    let listener = loopback();
    let address = listener.local_addr().expect("an address");
    let seen = listen(listener);
    let chain = TestChain::new(1, &[1, 5]);
    let server = start(&chain, address, change);
    (seen, server, chain)
}

fn connect(server: &Server) -> Client {
    Client::connect(server.tcp().expect("TCP"))
}

#[test]
fn identifiers_and_replies_belong_to_their_clients() {
    let (seen, server, _chain) = both(|_| {});
    let mut clients = [connect(&server), connect(&server)];
    assert_eq!(
        seen.connections.load(Ordering::SeqCst),
        0,
        "a link is opened only when a request needs it"
    );
    for (number, client) in clients.iter_mut().enumerate() {
        client.ask("server.version", r#"["x",["1.4","1.6"]]"#);
        for id in ["7", "\"seven\"", "null", "-1.5e3"] {
            client.send(&format!(
                r#"{{"id":{id},"method":"blockchain.scripthash.get_balance","params":["{number}"]}}"#
            ));
            let line = client.line().expect("a reply");
            let expected = format!(r#"{{"jsonrpc":"2.0","result":{{"confirmed":"{number}"}},"id":{id}}}"#);
            assert_eq!(line, expected);
        }
    }
    assert_eq!(seen.connections.load(Ordering::SeqCst), 2, "one for each client");
    let first = seen.lines.lock().expect("a lock")[0].clone();
    assert_eq!(first["params"], json!(["lineside", ["1.4", "1.6"]]));
    // Replies of the upstream server arrive in another order, between replies that the server computes itself.
    let client = &mut clients[0];
    client.send(r#"{"id":"a","method":"hold","params":[1]}"#);
    client.send(r#"{"id":"b","method":"hold","params":[2]}"#);
    assert_eq!(client.result("server.ping", "[]"), Value::Null);
    client.send(r#"{"id":"c","method":"release","params":[3]}"#);
    let replies: Vec<(Value, Value)> = (0..3)
        .map(|_| client.receive())
        .map(|reply| (reply["id"].clone(), reply["result"].clone()))
        .collect();
    assert_eq!(
        replies,
        [("c", 3), ("b", 2), ("a", 1)].map(|(id, result)| (json!(id), json!(result)))
    );
    assert_eq!(clients[1].error("fail", "[]"), (5, "no".into()));
}

#[test]
fn a_batch_waits_for_its_last_reply() {
    let (_seen, server, chain) = both(|_| {});
    let block = &chain.blocks()[1];
    let mut client = connect(&server);
    client.send(
        &format!(
            r#"[{{"id":1,"method":"hold","params":["x"]}},{{"id":2,"method":"server.ping"}},{{"id":3,"method":
        "blockchain.transaction.get_merkle","params":["{}",1]}},{{"id":4,"method":"fail"}}]"#,
            block.txid(2)
        )
        .replace('\n', " "),
    );
    assert_eq!(
        client.result("server.ping", "[]"),
        Value::Null,
        "an incomplete batch is not sent"
    );
    client.send(r#"{"id":9,"method":"release","params":["y"]}"#);
    let mut replies = [client.receive(), client.receive()];
    if replies[0].is_array() {
        replies.swap(0, 1);
    }
    let batch = replies[1].as_array().expect("a batch");
    let of = |id: u64| batch.iter().find(|reply| reply["id"] == id).expect("a reply");
    assert_eq!((replies[0]["id"].clone(), batch.len()), (json!(9), 4));
    assert_eq!(
        (&of(1)["result"], &of(2)["result"], &of(4)["error"]["code"]),
        (&json!("x"), &Value::Null, &json!(5))
    );
    assert!(is_proof(&of(3)["result"], &block.txid(2), &block.header));
}

#[test]
fn notifications_reach_the_client_that_subscribed() {
    let (seen, server, chain) = both(|_| {});
    let mut client = connect(&server);
    let mut other = connect(&server);
    other.result("blockchain.headers.subscribe", "[]");
    assert_eq!(
        client.result("blockchain.scripthash.subscribe", r#"["aa"]"#),
        json!("status of \"aa\"")
    );
    // The upstream server's notification of its tip is not forwarded, because the tip may differ from that of the chain
    // from which proofs are computed.
    seen.tell(
        &json!({"jsonrpc": "2.0", "method": "blockchain.headers.subscribe", "params": [{"height": 99}]}),
    );
    let notification =
        json!({"method": "blockchain.scripthash.subscribe", "params": ["aa", "new"], "jsonrpc": "2.0"});
    seen.tell(&notification);
    assert_eq!(client.receive(), notification);
    chain.replace(0, &[1]);
    assert_eq!(other.receive()["params"][0]["height"], 2);
    assert_eq!(
        other.result("server.ping", "[]"),
        Value::Null,
        "no other message was sent"
    );
}

#[test]
fn a_client_outlives_its_upstream_server() {
    let port = loopback();
    let address = port.local_addr().expect("an address");
    drop(port);
    let chain = TestChain::new(2, &[1, 5]);
    let server = start(&chain, address, |_| {});
    let mut client = connect(&server);
    let (code, message) = client.error("blockchain.scripthash.get_balance", r#"["aa"]"#);
    assert!(
        code == 2 && message.contains(&address.to_string()) && message.contains("refused"),
        "{message}"
    );
    assert_eq!(client.result("server.ping", "[]"), Value::Null);
    let seen = listen(TcpListener::bind(address).expect("the same port"));
    let ask = |client: &mut Client| client.ask("blockchain.scripthash.get_balance", r#"["aa"]"#);
    let client = Mutex::new(client);
    wait_for("the upstream server is found again", || {
        ask(&mut client.lock().expect("a lock"))["result"]["confirmed"] == "aa"
    });
    let mut client = client.into_inner().expect("a lock");
    // The upstream server ends the connection during a call, and sends data that is not JSON-RPC.
    let (code, message) = client.error("close", "[]");
    assert!(
        code == 2 && message.contains("closed the connection"),
        "{message}"
    );
    let again = Mutex::new(client);
    wait_for("the upstream server is found again", || {
        ask(&mut again.lock().expect("a lock"))["result"]["confirmed"] == "aa"
    });
    let mut client = again.into_inner().expect("a lock");
    let (code, message) = client.error("garbage", "[]");
    assert!(code == 2 && message.contains("not JSON-RPC"), "{message}");
    assert!(server.counters().upstream_failures >= 3);
    assert_eq!(client.result("server.ping", "[]"), Value::Null);
    seen.stopped.store(true, Ordering::SeqCst);
}

#[test]
fn the_upstream_server_is_probed_without_a_client() {
    const PROBE: Duration = Duration::from_millis(20);
    let port = loopback();
    let address = port.local_addr().expect("an address");
    drop(port);
    let chain = TestChain::new(2, &[1, 5]);
    let server = start(&chain, address, |config| config.upstream_probe = Some(PROBE));
    let state = || server.upstream().expect("there is one");
    wait_for("it is unreachable", || state().away.is_some());
    let away = state();
    let (why, since) = away.away.expect("it is unreachable");
    assert!(why.contains("refused") && !away.has_answered, "{why}");
    assert_eq!(away.address, address.to_string());
    // The server is reported as unreachable since the first attempt, not since the last one. Then it starts, stops and
    // starts again.
    std::thread::sleep(3 * PROBE);
    assert_eq!(state().away.expect("it is unreachable").1, since);
    for _ in 0..2 {
        let seen = listen(TcpListener::bind(address).expect("the same port"));
        wait_for("it answers", || state().away.is_none());
        assert!(state().has_answered);
        wait_for("it is probed repeatedly", || seen.count("server.version") >= 3);
        seen.stopped.store(true, Ordering::SeqCst);
        wait_for("it is unreachable again", || state().away.is_some());
        assert!(state().away.is_some_and(|(_, again)| again > since));
    }
    drop(server);
    // If no client needs the upstream server and it is not probed, nothing is known about it.
    let quiet = start(&chain, address, |_| {});
    let state = quiet.upstream().expect("there is one");
    assert!(!state.has_answered && state.away.is_none());
    assert!(serve(&chain, |_| {}).upstream().is_none());
}

#[test]
fn subscriptions_are_renewed_after_the_upstream_server_was_unreachable() {
    let (seen, server, _chain) = both(|_| {});
    let mut client = connect(&server);
    for name in ["aa", "bb", "cc"] {
        client.result("blockchain.scripthash.subscribe", &format!("[\"{name}\"]"));
    }
    client.result("blockchain.scripthash.unsubscribe", r#"["bb"]"#);
    seen.cut();
    // Each status is sent again, because it may have changed in the meantime.
    let mut told = [client.receive(), client.receive()];
    told.sort_by_key(|line| line["params"][0].to_string());
    for (line, name) in told.iter().zip(["aa", "cc"]) {
        let expected = json!([name, format!("status of \"{name}\"")]);
        assert_eq!(
            (&line["params"], &line["method"]),
            (&expected, &json!("blockchain.scripthash.subscribe"))
        );
    }
    assert_eq!(seen.connections.load(Ordering::SeqCst), 2);
    assert_eq!(client.result("server.ping", "[]"), Value::Null);
}

#[test]
fn forwarded_calls_are_limited_in_time_and_number() {
    let (seen, server, _chain) = both(|config| {
        config.limits.call_time = Duration::from_millis(500);
        config.limits.in_flight = 4;
        config.limits.subscriptions = 2;
    });
    let mut client = connect(&server);
    let (code, message) = client.error("swallow", "[]");
    assert!(
        code == 2 && message.contains("did not answer in time"),
        "{message}"
    );
    // The client sends ten calls. At most four are forwarded at the same time; the others wait until these reach their
    // time limit. The count of 5 is these four and the call above.
    let calls: Vec<String> = (0..10)
        .map(|id| format!("{{\"id\":{id},\"method\":\"swallow\"}}"))
        .collect();
    client.send(&calls.join("\n"));
    wait_for("four calls", || seen.count("swallow") == 5);
    let mut replies: Vec<u64> = (0..4)
        .map(|_| client.receive()["id"].as_u64().expect("an id"))
        .collect();
    assert!(seen.count("swallow") <= 9);
    replies.extend((0..6).map(|_| client.receive()["id"].as_u64().expect("an id")));
    assert_eq!(replies, (0..10).collect::<Vec<_>>());
    for name in ["aa", "bb", "aa"] {
        client.result("blockchain.scripthash.subscribe", &format!("[\"{name}\"]"));
    }
    let (code, message) = client.error("blockchain.scripthash.subscribe", r#"["cc"]"#);
    assert!(code == 1 && message.contains("2 subscriptions"), "{message}");
    client.result("blockchain.scripthash.unsubscribe", r#"["aa"]"#);
    client.result("blockchain.scripthash.subscribe", r#"["cc"]"#);
}

/// Checks that the time in which a client must read its replies starts when a reply is ready, and does not include the
/// time for which the connection was idle before.
#[test]
fn a_reply_after_a_long_idle_time_is_delivered() {
    let (seen, server, _chain) = both(|config| {
        config.limits.stall = Duration::from_millis(100);
        config.limits.call_time = Duration::from_millis(300);
    });
    let mut client = connect(&server);
    client.result("blockchain.scripthash.subscribe", r#"["aa"]"#);
    // If the time started earlier, about half of the rounds would end the connection.
    for round in 0..8 {
        let (code, message) = client.error("swallow", "[]");
        assert!(
            code == 2 && message.contains("did not answer in time"),
            "round {round}: {message}"
        );
        std::thread::sleep(Duration::from_millis(150));
        seen.tell(
            &json!({"jsonrpc": "2.0", "method": "blockchain.scripthash.subscribe",
            "params": ["aa", format!("status {round}")]}),
        );
        let told = client.receive();
        assert_eq!(told["params"][1], format!("status {round}"));
    }
}

/// Returns a certificate and key for localhost, in PEM.
fn certificate() -> (String, String) {
    let key = rcgen::KeyPair::generate().expect("a key");
    let params = rcgen::CertificateParams::new(vec!["localhost".into()]).expect("a name");
    let certificate = params.self_signed(&key).expect("a certificate");
    (certificate.pem(), key.serialize_pem())
}

#[test]
fn tls_is_used_to_clients_and_to_the_upstream_server() {
    let (certificate, key) = certificate();
    let tls =
        || lineside_grpc::ServerTls::from_pem(certificate.as_bytes(), key.as_bytes(), None).expect("TLS");
    // The upstream server is another server of this crate, with its own chain, and with TLS.
    let second = serve(&TestChain::new(3, &[1, 2]), |config| {
        config.tls = Some((loopback(), tls()));
        config.server_version = "second".into();
    });
    let chain = TestChain::new(4, &[1, 2, 3]);
    let server = serve(&chain, |config| {
        config.tls = Some((loopback(), tls()));
        config.upstream = Some(Upstream {
            address: second.tls().expect("TLS").to_string(),
            tls: Some(UpstreamTls::from_pem(certificate.as_bytes(), "localhost").expect("TLS")),
        });
    });
    let mut roots = rustls::RootCertStore::empty();
    let root = rustls::pki_types::CertificateDer::from_pem_slice(certificate.as_bytes()).expect("PEM");
    roots.add(root).expect("a root");
    let config =
        rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
    let name = "localhost".try_into().expect("a name");
    let mut session = rustls::ClientConnection::new(Arc::new(config), name).expect("a client");
    let mut socket = TcpStream::connect(server.tls().expect("TLS")).expect("a connection");
    socket.set_read_timeout(Some(WAIT_TIMEOUT)).expect("a socket");
    let mut stream = BufReader::new(rustls::Stream::new(&mut session, &mut socket));
    let mut ask = |line: &str| -> Value {
        stream
            .get_mut()
            .write_all(format!("{line}\n").as_bytes())
            .expect("sent");
        let mut reply = String::new();
        stream.read_line(&mut reply).expect("a reply");
        serde_json::from_str(&reply).expect("JSON")
    };
    let tip = ask(r#"{"id":1,"method":"blockchain.headers.subscribe"}"#);
    assert_eq!(tip["result"]["height"], 2);
    // A client that does not use TLS is counted as a failed handshake.
    let mut plain = TcpStream::connect(server.tls().expect("TLS")).expect("a connection");
    plain
        .write_all(b"{\"id\":0,\"method\":\"server.ping\"}\n")
        .expect("sent");
    wait_for("the failed handshake", || server.counters().closed_handshake == 1);
    // The reply is longer than the buffers of TLS.
    let many: Vec<String> = (0..256)
        .map(|id| format!(r#"{{"id":{id},"method":"blockchain.block.headers","params":[0,3]}}"#))
        .collect();
    assert_eq!(
        ask(&format!("[{}]", many.join(","))).as_array().map(Vec::len),
        Some(256)
    );
    // The second server has no upstream server, and answers with this error.
    let reply = ask(r#"{"id":2,"method":"blockchain.estimatefee","params":[2]}"#);
    assert_eq!(reply["error"]["code"], -32601, "{reply}");
    assert_eq!(second.counters().accepted, 1);
}

#[test]
fn an_unreadable_certificate_or_name_is_an_error_of_upstream_tls() {
    let (certificate, _) = certificate();
    for (pem, name) in [
        ("", "localhost"),
        ("nothing", "localhost"),
        (&*certificate, "not a name"),
    ] {
        let error = UpstreamTls::from_pem(pem.as_bytes(), name)
            .map(|_| ())
            .expect_err("refused");
        assert!(
            error
                .to_string()
                .starts_with("TLS to the upstream Electrum server "),
            "{error}"
        );
    }
}
