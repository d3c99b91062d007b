//! Tests of a node over gRPC: every method, refusals, watchers, TLS, and stopping.

#[path = "../../hybrid/tests/common/mod.rs"]
mod common;

use common::{genesis, member_key, rights, start as start_node};
use lineside_client::hybrid::grpc::{Client, ClientTls, Identity};
use lineside_client::hybrid::grpc::{Coded, Connection, id_of};
use lineside_client::hybrid::{AskError, TransactionOutcome};
use lineside_hybrid::{Code, Node};
use lineside_hybrid_grpc::{Counted, Limits, Running, ServerTls, start};
use lineside_journal::SimDisk;
use lineside_messages::hybrid::answer::code_name;
use lineside_messages::hybrid::block::{HEADER_BYTES, Header, SIGNED_HEAD_BYTES, SignedHead};
use lineside_messages::hybrid::change::Change;
use lineside_messages::hybrid::genesis::database_id;
use lineside_messages::hybrid::grpc::{Placed, Signed};
use lineside_messages::hybrid::proof::StateProof;
use lineside_messages::hybrid::request::{Body, Sees, Version, Write};
use lineside_messages::hybrid::signing::unix_ms;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use tonic::Code as GrpcCode;

fn identity(member: u64) -> Identity {
    Identity {
        database: database_id(&genesis().encode().unwrap()),
        member,
        key: 0,
        lane: 0,
        secret: member_key(member),
    }
}

async fn serve(seed: u64, tls: Option<ServerTls>) -> (Arc<Node<SimDisk>>, Running) {
    let node = Arc::new(start_node(SimDisk::new(seed)));
    let running = start("127.0.0.1:0", tls, node.clone(), Limits::default());
    (node, running.await.unwrap())
}

async fn client(running: &Running, member: u64) -> Client {
    let endpoint = running.address.to_string();
    Client::connect(&endpoint, None, identity(member)).await.unwrap()
}

fn placed(placed: &Placed, code: Code) -> Version {
    assert_eq!(placed.known_code().unwrap(), code);
    assert_eq!(placed.code_name, code_name(code));
    placed.version.map(Version::from).unwrap_or_default()
}

fn codes(answers: &[impl Coded]) -> Vec<Code> {
    answers
        .iter()
        .map(|answer| answer.known_code().unwrap())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_method_answers() {
    let (node, running) = serve(1, None).await;
    let client = client(&running, 5).await;
    let absent = Some(Version::ABSENT);
    let first = placed(&client.set(b"a", absent, b"1").await.unwrap(), Code::Done);
    placed(&client.set(b"a", absent, b"2").await.unwrap(), Code::Conflict);
    let second = placed(&client.set(b"a", Some(first), b"2").await.unwrap(), Code::Done);
    placed(&client.set(b"b", None, &[7; 5000]).await.unwrap(), Code::Done);

    let keys: [&[u8]; 3] = [b"a", b"absent", b"b"];
    let cells = client.get(Sees::Linearizable, &keys).await.unwrap();
    assert_eq!(cells.known_code().unwrap(), Code::Done);
    assert_eq!(Version::from(cells.cells[0].version.unwrap()), second);
    assert_eq!(&cells.cells[0].value[..], b"2");
    assert_eq!((cells.cells[1].version, cells.cells[1].value.len()), (None, 0));
    assert_eq!(&cells.cells[2].value[..], [7; 5000]);

    let range = client.range(Sees::Local, b"", b"", 1).await.unwrap();
    assert_eq!((range.cells.len(), range.more), (1, true));
    assert_eq!(&range.cells[0].key[..], b"a");

    placed(&client.delete(b"a", Some(second)).await.unwrap(), Code::Done);
    let history = client.history(b"a", 10, None).await.unwrap();
    let values: Vec<_> = history
        .writes
        .iter()
        .map(|write| write.value.as_deref())
        .collect();
    assert_eq!(values, [None, Some(&b"2"[..]), Some(&b"1"[..])]);

    let head = client.head().await.unwrap();
    let header: &[u8; HEADER_BYTES] = head.header[..].try_into().unwrap();
    let signed: &[u8; SIGNED_HEAD_BYTES] = head.head[..].try_into().unwrap();
    let (header, signed) = (Header::from_bytes(header), SignedHead::read(signed).unwrap());
    assert_eq!((header.hash(), header.number), (signed.hash, signed.number));
    assert_eq!(header.number, node.status().height);
    for (key, value) in [(&b"b"[..], Some(&[7; 5000][..])), (b"a", None)] {
        let proof = client.prove(key).await.unwrap();
        let proof = StateProof::decode(&proof.proof, value).unwrap();
        proof.check(&signed.hash, key, value).unwrap();
    }

    let until_ms = unix_ms() + 60_000;
    let change = Change::SetRule {
        prefix: b"new/",
        member: 5,
        rights: rights(true, true),
    };
    for (admin, code) in [(1, Code::Recorded), (2, Code::Done)] {
        let admin = self::client(&running, admin).await;
        let request = admin.signing().sign(Body::Change { until_ms, change }).unwrap();
        let id = id_of(&request);
        let at = placed(&admin.connection().change(request).await.unwrap(), code);
        assert_eq!(placed(&admin.read_outcome(id, None).await.unwrap(), code), at);
        let outcome = admin.outcome(id, None).await.unwrap();
        assert!(matches!(outcome, TransactionOutcome::Placed { code: found, .. } if found == code));
    }
    placed(&client.read_outcome([9; 32], None).await.unwrap(), Code::Unknown);
    for (expiry_ms, outcome) in [
        (None, TransactionOutcome::NotYet),
        (Some(unix_ms() + 20_000), TransactionOutcome::NotYet),
        (Some(unix_ms() - 60_000), TransactionOutcome::NotExecuted),
    ] {
        assert_eq!(client.outcome([9; 32], expiry_ms).await.unwrap(), outcome);
    }
    running.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn each_request_of_a_call_is_counted() {
    let node = Arc::new(start_node(SimDisk::new(3)));
    let counted = Counted::new(node);
    let counts = counted.counts();
    let running = start("127.0.0.1:0", None, Arc::new(counted), Limits::default());
    let running = running.await.unwrap();
    let client = client(&running, 5).await;
    let now = || {
        let latency = counts.latency.read();
        let passed = counts.passed.load(Relaxed);
        (passed, counts.answered.load(Relaxed), latency.counts.iter().sum())
    };
    assert_eq!(now(), (0, 0, 0));
    placed(&client.set(b"a", None, b"1").await.unwrap(), Code::Done);
    assert_eq!(now(), (1, 1, 1));
    let get = |key: &'static [u8]| {
        let (sees, keys) = (Sees::Local, vec![key]);
        let body = Body::Get { sees, keys };
        client.signing().sign(body).unwrap()
    };
    let requests = vec![get(b"a"), get(b"b"), get(b"c")];
    client.connection().batch_get(requests).await.unwrap();
    assert_eq!(now(), (4, 4, 4));
    let watching = client.watch(b"").await.unwrap();
    assert_eq!(now(), (5, 5, 5));
    drop(watching);
    // The server refuses a request that does not fit its method before the database sees it, and counts it by its code.
    let refused = client.connection().set(get(b"a")).await.unwrap();
    assert_eq!(refused.known_code().unwrap(), Code::Malformed);
    assert_eq!(now(), (5, 5, 5));
    assert_eq!(counts.refused(Code::Malformed), 1);
    let set = client.signing().sign(Body::set(b"a", None, b"v")).unwrap();
    client
        .connection()
        .batch_get(vec![set.clone(), get(b"a"), set])
        .await
        .unwrap();
    assert_eq!((now(), counts.refused(Code::Malformed)), ((6, 6, 6), 3));
    assert_eq!(
        raw(&running, "Put", Signed::default()).await,
        Err(GrpcCode::Unimplemented)
    );
    assert_eq!((now(), counts.refused(Code::Malformed)), ((6, 6, 6), 4));
    // Longer than a message to the server may be.
    let too_long = Signed {
        request: vec![0; 5 << 20].into(),
    };
    assert_eq!(raw(&running, "Set", too_long).await, Err(GrpcCode::OutOfRange));
    assert_eq!((now(), counts.refused(Code::TooLarge)), ((6, 6, 6), 1));
    running.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn batches_are_answered_one_by_one_in_their_order() {
    let (_node, running) = serve(2, None).await;
    let client = client(&running, 5).await;
    let sign = |body: Body<'_>| client.signing().sign(body).unwrap();
    let set = |number: u32| sign(Body::set(&number.to_be_bytes(), None, b"v"));
    let mut requests: Vec<_> = (0..100).map(set).collect();
    requests[20] = sign(Body::Head);
    requests[30] = requests[30].slice(..70);
    requests[40] = requests[40].slice(..10);
    requests[50] = requests[49].clone();
    let answers = client.connection().batch_set(requests).await.unwrap();
    for (number, code) in codes(&answers).into_iter().enumerate() {
        let expected = match number {
            20 | 30 | 40 => Code::Malformed,
            _ => Code::Done,
        };
        assert_eq!(code, expected, "{number}");
    }
    assert_eq!(answers[50].version, answers[49].version);

    // The answers together are longer than a message may be.
    let keys: Vec<_> = (0..20)
        .map(|number| format!("long {number:02}").into_bytes())
        .collect();
    for key in &keys {
        placed(&client.set(key, None, &[1; 250_000]).await.unwrap(), Code::Done);
    }
    let sees = Sees::Local;
    let get = |key| Body::Get {
        sees,
        keys: vec![key],
    };
    let requests = keys.iter().map(|key| sign(get(key))).collect();
    let found = codes(&client.connection().batch_get(requests).await.unwrap());
    let (whole, refused) = found.split_at(16);
    assert!(whole.iter().all(|code| *code == Code::Done), "{found:?}");
    assert!(refused.iter().all(|code| *code == Code::TooLarge), "{found:?}");
    let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    let cells = client.get(sees, &keys).await.unwrap();
    assert_eq!(cells.known_code().unwrap(), Code::TooLarge);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_method_takes_its_own_operation_only() {
    let (node, running) = serve(3, None).await;
    let client = client(&running, 5).await;
    let node_at = client.connection();
    let sign = |body: Body<'_>| client.signing().sign(body).unwrap();
    let set = sign(Body::set(b"a", None, b"v"));
    let refused = node_at.get(set.clone()).await.unwrap();
    assert_eq!(refused.known_code().unwrap(), Code::Malformed);
    placed(&node_at.delete(set).await.unwrap(), Code::Malformed);
    let write = |key, value| Write { key, value };
    let both = sign(Body::Write {
        reads: Vec::new(),
        writes: vec![write(b"a", None), write(b"b", Some(b"x"))],
    });
    placed(&node_at.delete(both.clone()).await.unwrap(), Code::Malformed);
    assert_eq!(node.status().height, 0);
    placed(&node_at.set(both).await.unwrap(), Code::Done);
    let head = sign(Body::Head);
    placed(&node_at.set(head).await.unwrap(), Code::Malformed);

    // The server has every method of the .proto file, and no other.
    let proto = include_str!("../proto/hybrid.proto");
    let methods = proto
        .lines()
        .filter_map(|line| line.trim().strip_prefix("rpc ")?.split_once('('));
    let methods: Vec<_> = methods.map(|(method, _)| method).collect();
    assert_eq!(methods.len(), 12);
    for method in methods {
        assert_eq!(raw(&running, method, Signed::default()).await, Ok(()), "{method}");
    }
    assert_eq!(
        raw(&running, "Put", Signed::default()).await,
        Err(GrpcCode::Unimplemented)
    );
}

/// Sends a request to a method, without the limits of the client. Returns Ok if the node answers at all.
async fn raw(running: &Running, method: &str, request: Signed) -> Result<(), GrpcCode> {
    let endpoint = format!("http://{}", running.address);
    let endpoint = tonic::transport::Endpoint::from_shared(endpoint).unwrap();
    let mut grpc = tonic::client::Grpc::new(endpoint.connect().await.unwrap());
    grpc.ready().await.unwrap();
    let path = format!("/lineside.hybrid.v1.Node/{method}").parse().unwrap();
    let codec = tonic_prost::ProstCodec::<Signed, Signed>::default();
    let called = grpc.server_streaming(tonic::Request::new(request), path, codec);
    called.await.map(drop).map_err(|status| status.code())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watcher_is_notified_of_writes_and_of_the_end() {
    let (_node, running) = serve(4, None).await;
    let writer = client(&running, 5).await;
    let watcher = client(&running, 6).await;
    let mut events = watcher.watch(b"a/").await.unwrap();
    let begin = events.message().await.unwrap().unwrap();
    assert_eq!(begin.known_code().unwrap(), Code::Done);
    assert_eq!(begin.version.unwrap().block, 0);
    let at = placed(&writer.set(b"a/1", None, b"v").await.unwrap(), Code::Done);
    placed(&writer.set(b"b", None, b"v").await.unwrap(), Code::Done);
    placed(&writer.delete(b"a/1", None).await.unwrap(), Code::Done);
    let event = events.message().await.unwrap().unwrap();
    assert_eq!(
        (&event.key[..], event.value.as_deref()),
        (&b"a/1"[..], Some(&b"v"[..]))
    );
    assert_eq!(Version::from(event.version.unwrap()), at);
    let event = events.message().await.unwrap().unwrap();
    assert_eq!((&event.key[..], event.value), (&b"a/1"[..], None));

    // A client that does not read its events gets `busy` at the end, so it knows that it has missed events.
    let mut slow = watcher.watch(b"").await.unwrap();
    for _ in 0..80 {
        placed(&writer.set(b"c", None, &[0; 250_000]).await.unwrap(), Code::Done);
    }
    let mut last = Code::Done;
    while let Some(event) = slow.message().await.unwrap() {
        last = event.known_code().unwrap();
    }
    assert_eq!(last, Code::Busy);

    let stopped = tokio::spawn(running.stop());
    assert_eq!(events.message().await.unwrap_err().code(), GrpcCode::Unavailable);
    drop((events, slow, writer, watcher));
    stopped.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_accepts_only_clients_of_its_ca() {
    let ca_key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = params.self_signed(&ca_key).unwrap().pem();
    let issuer = Issuer::new(params, ca_key);
    let pair = |name: &str| {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &issuer).unwrap().pem();
        (certificate, key.serialize_pem())
    };
    let (certificate, key) = pair("localhost");
    let tls = ServerTls::from_pem(certificate.as_bytes(), key.as_bytes(), Some(ca.as_bytes()));
    let (_node, running) = serve(5, Some(tls.unwrap())).await;
    let endpoint = running.address.to_string();

    let (certificate, key) = pair("client");
    let own = Some((certificate.as_bytes(), key.as_bytes()));
    let tls = |own| {
        ClientTls::from_pem(ca.as_bytes(), own)
            .unwrap()
            .server_name("localhost")
    };
    let client = Client::connect(&endpoint, Some(&tls(own)), identity(5))
        .await
        .unwrap();
    placed(&client.set(b"a", None, b"v").await.unwrap(), Code::Done);

    let nobody = match Client::connect(&endpoint, Some(&tls(None)), identity(5)).await {
        Ok(client) => client.head().await.err(),
        Err(error) => Some(error),
    };
    assert!(matches!(
        nobody,
        Some(AskError::Connect { .. } | AskError::Broken(_))
    ));
    assert!(Connection::open("127.0.0.1:1", None).await.is_err());
}
