//! Tests of the paper's gRPC service, with a database in the paper's mode and with one that is not.

#[path = "../../hybrid/tests/common/mod.rs"]
mod common;

use common::{genesis, member_key, node_key};
use lineside_client::hybrid::AskError;
use lineside_client::hybrid::grpc::Coded;
use lineside_client::hybrid::grpc::Identity;
use lineside_client::hybrid::grpc::paper::Client;
use lineside_hybrid::node::embedded;
use lineside_hybrid::{Code, Node, Options};
use lineside_hybrid_grpc::{Limits, Running, start};
use lineside_journal::SimDisk;
use lineside_messages::hybrid::genesis::{Genesis, database_id};
use lineside_messages::hybrid::grpc::paper::{GetRequest, SetRequest};
use lineside_messages::hybrid::request::Sees;
use lineside_messages::hybrid::secret::SecretKey;
use lineside_verify::Curve;
use std::sync::Arc;
use tonic::Code as GrpcCode;

async fn serve(paper: bool) -> (Arc<Node<SimDisk>>, Running) {
    serve_within(paper, Limits::default()).await
}

async fn serve_within(paper: bool, limits: Limits) -> (Arc<Node<SimDisk>>, Running) {
    let bytes = Genesis { paper, ..genesis() }.encode().unwrap();
    let key = Arc::new(node_key(1));
    let node = Node::start(SimDisk::new(1), &bytes, key, Options::default(), embedded()).unwrap();
    let node = Arc::new(node);
    let running = start("127.0.0.1:0", None, node.clone(), limits).await;
    (node, running.unwrap())
}

async fn client(running: &Running, secret: SecretKey) -> Client {
    let endpoint = running.address.to_string();
    Client::connect(&endpoint, None, secret).await.unwrap()
}

/// Returns the gRPC status code of a failed call.
fn broken<T: std::fmt::Debug>(answer: Result<T, AskError>) -> GrpcCode {
    match answer {
        Err(AskError::Broken(status)) => status.code(),
        other => panic!("{other:?}"),
    }
}

fn refusal<T: std::fmt::Debug>(answer: Result<T, AskError>) -> Code {
    match answer {
        Err(AskError::Refused(code)) => code,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_paper_client_gets_the_documented_answers() {
    let (node, running) = serve(true).await;
    let client = client(&running, member_key(5)).await;
    assert_eq!(refusal(client.get(client.sign_get("a")).await), Code::Unknown);
    assert_eq!(refusal(client.verify("a").await), Code::Unknown);
    let first = client.sign_set("a", "1", 0).unwrap();
    assert_eq!(client.set(first.clone()).await.unwrap().txid, "txid1tx0");
    let got = client.get(client.sign_get("a")).await.unwrap();
    assert_eq!((got.value.as_str(), got.version), ("1", 1));
    assert_eq!((got.pubkey.as_str(), got.signature.as_str()), ("", ""));
    // A repeated request gets the position of its first execution. Another request with an old version is refused.
    assert_eq!(client.set(first).await.unwrap().txid, "txid1tx0");
    assert_eq!(
        refusal(client.set(client.sign_set("a", "2", 0).unwrap()).await),
        Code::OldVersion
    );
    let verified = client.verify("a").await.unwrap();
    assert_eq!(verified.block_id, "1");
    assert_eq!((verified.block_hash.len(), verified.txn_hash.len()), (64, 64));

    let sets = vec![
        client.sign_set("b", "x", 0).unwrap(),
        client.sign_set("b", "y", 0).unwrap(),
        SetRequest::default(),
        client.sign_set("c", "z", 6).unwrap(),
    ];
    let answers = client.batch_set(sets).await.unwrap();
    let codes: Vec<u32> = answers.iter().map(|answer| answer.code).collect();
    let [done, old, malformed] = [Code::Done, Code::OldVersion, Code::Malformed].map(|code| code as u32);
    assert_eq!(codes, [done, old, malformed, done]);
    assert_eq!(
        (answers[0].txid.as_str(), answers[1].txid.as_str()),
        ("txid3tx0", "")
    );
    let gets = ["c", "none", "b"].map(|key| client.sign_get(key)).into();
    let answers = client.batch_get(gets).await.unwrap();
    let values: Vec<_> = answers
        .iter()
        .map(|answer| (answer.value.as_str(), answer.version, answer.code))
        .collect();
    assert_eq!(
        values,
        [("z", 7, done), ("", 0, Code::Unknown as u32), ("x", 1, done)]
    );
    assert!(node.status().paper);
    running.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn malformed_requests_are_refused() {
    let (node, running) = serve(true).await;
    let five = client(&running, member_key(5)).await;
    let good = five.sign_get("a");
    let with = |change: &dyn Fn(&mut GetRequest)| {
        let mut request = good.clone();
        change(&mut request);
        request
    };
    let malformed = [
        with(&|request| request.pubkey.clear()),
        with(&|request| request.pubkey.replace_range(..2, "0x")),
        with(&|request| request.signature.truncate(126)),
        // The paper's micro-benchmark passes signatures of 65 bytes to its verifier, which refuses them without a
        // check.
        with(&|request| request.signature.push_str("00")),
        with(&|request| request.key.clear()),
        with(&|request| request.key = "k".repeat(1025)),
    ];
    for request in malformed {
        assert_eq!(refusal(five.get(request).await), Code::Malformed);
    }
    let upper = with(&|request| request.signature = request.signature.to_uppercase());
    assert_eq!(refusal(five.get(upper).await), Code::Unknown);
    let other = with(&|request| request.key = "b".into());
    assert_eq!(refusal(five.get(other).await), Code::BadSignature);
    let mut negative = five.sign_set("a", "1", 0).unwrap();
    negative.version = -1;
    assert_eq!(refusal(five.set(negative).await), Code::Malformed);
    let highest = five.sign_set("a", "1", i64::MAX as u64).unwrap();
    assert_eq!(refusal(five.set(highest).await), Code::Malformed);
    assert!(matches!(
        five.sign_set("a", "1", u64::MAX),
        Err(AskError::Malformed(_))
    ));
    let nobody = SecretKey::from_bytes(Curve::Secp256k1, &[9; 32]).unwrap();
    let nobody = client(&running, nobody).await;
    assert_eq!(
        refusal(nobody.get(nobody.sign_get("a")).await),
        Code::UnknownMember
    );
    let endpoint = running.address.to_string();
    let p256 = Client::connect(&endpoint, None, member_key(4)).await;
    assert!(matches!(p256, Err(AskError::Malformed(_))));
    assert_eq!(node.status().height, 0);
    running.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn batches_and_calls_are_bounded() {
    let (node, running) = serve(true).await;
    let asking = client(&running, member_key(5)).await;
    let gets = vec![GetRequest::default(); 10_001];
    assert_eq!(broken(asking.batch_get(gets.clone()).await), GrpcCode::OutOfRange);
    let sets = vec![SetRequest::default(); 10_001];
    assert_eq!(broken(asking.batch_set(sets).await), GrpcCode::OutOfRange);
    let answers = asking.batch_get(gets[1..].to_vec()).await.unwrap();
    assert_eq!(answers.len(), 10_000);
    assert!(answers.iter().all(|answer| answer.code == Code::Malformed as u32));
    assert_eq!(node.status().height, 0);
    running.stop().await.unwrap();

    let none = Limits {
        calls: 0,
        ..Limits::default()
    };
    let (_, running) = serve_within(true, none).await;
    let asking = client(&running, member_key(5)).await;
    let got = asking.get(asking.sign_get("a")).await;
    assert_eq!(broken(got), GrpcCode::ResourceExhausted);
    let got = asking.batch_get(Vec::new()).await;
    assert_eq!(broken(got), GrpcCode::ResourceExhausted);
    running.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn each_mode_refuses_requests_of_the_other_mode() {
    let (_, plain) = serve(false).await;
    let paper = client(&plain, member_key(5)).await;
    // The node does not serve the paper's service, and the client reports this as a code.
    assert_eq!(refusal(paper.get(paper.sign_get("a")).await), Code::WrongMode);
    let set = paper.sign_set("a", "1", 0).unwrap();
    assert_eq!(refusal(paper.set(set.clone()).await), Code::WrongMode);
    assert_eq!(refusal(paper.verify("a").await), Code::WrongMode);
    assert_eq!(refusal(paper.batch_set(vec![set]).await), Code::WrongMode);

    let (_, running) = serve(true).await;
    let identity = Identity {
        database: database_id(
            &Genesis {
                paper: true,
                ..genesis()
            }
            .encode()
            .unwrap(),
        ),
        member: 5,
        key: 0,
        lane: 0,
        secret: member_key(5),
    };
    let endpoint = running.address.to_string();
    let native = lineside_client::hybrid::grpc::Client::connect(&endpoint, None, identity)
        .await
        .unwrap();
    let placed = native.set(b"a", None, b"1").await.unwrap();
    assert_eq!(placed.known_code().unwrap(), Code::WrongMode);
    let cells = native.get(Sees::Local, &[b"a"]).await.unwrap();
    assert_eq!(cells.known_code().unwrap(), Code::WrongMode);
    let head = native.head().await.unwrap();
    assert_eq!(head.known_code().unwrap(), Code::Done);
    // A native method does not accept the bytes of the paper's requests either.
    let bytes = bytes::Bytes::from(vec![2; 200]);
    let placed = native.connection().set(bytes).await.unwrap();
    assert_eq!(placed.known_code().unwrap(), Code::Malformed);
}
