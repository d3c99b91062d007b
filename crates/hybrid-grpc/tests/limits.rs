//! Tests of clients that try to use up a server's resources, with raw HTTP/2: batches of empty entries, unfinished
//! calls, idle connections.

#[path = "../../hybrid/tests/common/mod.rs"]
mod common;

use bytes::Bytes;
use common::{Client as Signs, genesis, hold_verifier, member_key, start_with};
use h2::client::{ResponseFuture, SendRequest};
use h2::{RecvStream, SendStream};
use lineside_client::hybrid::grpc::Coded;
use lineside_client::hybrid::grpc::{Client, Identity};
use lineside_hybrid::{Code, Node, Options};
use lineside_hybrid_grpc::{Limits, Running, start};
use lineside_journal::SimDisk;
use lineside_messages::hybrid::genesis::database_id;
use lineside_messages::hybrid::request::Body;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tonic::Code as GrpcCode;
use tonic::codegen::http::{Request, Response};

/// Maximum time for which a test waits for an event that must happen.
const WAIT_TIMEOUT: Duration = Duration::from_secs(30);

async fn serve(limits: Limits) -> (Arc<Node<SimDisk>>, Running) {
    serve_node(limits, Options::default()).await
}

async fn serve_node(limits: Limits, options: Options) -> (Arc<Node<SimDisk>>, Running) {
    let node = Arc::new(start_with(SimDisk::new(1), options));
    let running = start("127.0.0.1:0", None, node.clone(), limits).await;
    (node, running.unwrap())
}

/// An HTTP/2 connection, and the task that drives it.
struct Raw {
    sender: SendRequest<Bytes>,
    driver: JoinHandle<Result<(), h2::Error>>,
}

impl Raw {
    async fn connect(address: SocketAddr) -> Result<Raw, h2::Error> {
        let stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let mut builder = h2::client::Builder::new();
        builder.initial_window_size(1 << 20);
        let (sender, mut connection) = builder.handshake(stream).await?;
        let mut pings = connection.ping_pong().unwrap();
        let driver = tokio::spawn(connection);
        // The client considers the handshake complete before the server has answered, so a ping checks that the server
        // accepts the connection.
        let pong = pings.ping(h2::Ping::opaque());
        tokio::time::timeout(WAIT_TIMEOUT, pong).await.unwrap()?;
        Ok(Raw { sender, driver })
    }

    /// Begins a call of a method without sending its message.
    async fn call(&mut self, method: &str) -> (ResponseFuture, SendStream<Bytes>) {
        let request = Request::post(format!("http://node{method}"))
            .header("content-type", "application/grpc")
            .header("te", "trailers");
        let sender = self.sender.clone().ready().await.unwrap();
        self.sender = sender;
        self.sender
            .send_request(request.body(()).unwrap(), false)
            .unwrap()
    }
}

/// Returns a message after gRPC's prefix of five bytes, which claims that the message has `claimed_bytes` bytes.
fn prefixed(message: &[u8], claimed_bytes: usize) -> Bytes {
    [&[0][..], &(claimed_bytes as u32).to_be_bytes(), message]
        .concat()
        .into()
}

/// Sends bytes as fast as the server's flow-control window allows.
async fn send(stream: &mut SendStream<Bytes>, mut bytes: Bytes, is_end: bool) {
    while !bytes.is_empty() {
        stream.reserve_capacity(bytes.len());
        let capacity = std::future::poll_fn(|context| stream.poll_capacity(context));
        let Some(Ok(capacity)) = capacity.await else {
            return;
        };
        let part = bytes.split_to(capacity.min(bytes.len()));
        let is_last = bytes.is_empty();
        // An error means that the server has already ended the call.
        let _ = stream.send_data(part, is_last && is_end);
    }
}

/// Returns the gRPC status with which a call ended.
async fn status(response: ResponseFuture) -> GrpcCode {
    let ended = async {
        let response: Response<RecvStream> = response.await.unwrap();
        let in_head = response.headers().get("grpc-status").cloned();
        let mut body = response.into_body();
        while let Some(Ok(bytes)) = body.data().await {
            let _ = body.flow_control().release_capacity(bytes.len());
        }
        let trailers = body.trailers().await.ok().flatten();
        in_head.or_else(|| trailers?.get("grpc-status").cloned())
    };
    let status = tokio::time::timeout(WAIT_TIMEOUT, ended).await.unwrap();
    GrpcCode::from_bytes(status.expect("a status").as_bytes())
}

async fn honest(running: &Running) -> Client {
    let identity = Identity {
        database: database_id(&genesis().encode().unwrap()),
        member: 5,
        key: 0,
        lane: 0,
        secret: member_key(5),
    };
    Client::connect(&running.address.to_string(), None, identity)
        .await
        .unwrap()
}

async fn eventually(mut is_so: impl FnMut() -> bool) {
    let waited = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(WAIT_TIMEOUT, waited).await.unwrap();
}

const BATCH_SET: &str = "/lineside.hybrid.v1.Node/BatchSet";

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_of_empty_entries_is_refused_and_the_server_continues() {
    let (node, running) = serve(Limits::default()).await;
    let mut raw = Raw::connect(running.address).await.unwrap();
    let message = [0x0a, 0].repeat((4 << 20) / 2 - 8);
    for method in [
        BATCH_SET,
        "/lineside.hybrid.v1.Node/BatchGet",
        "/lineside.hybrid.v1.Node/Set",
    ] {
        let (response, mut stream) = raw.call(method).await;
        send(&mut stream, prefixed(&message, message.len()), true).await;
        assert_eq!(status(response).await, GrpcCode::OutOfRange, "{method}");
    }
    // A database that is not in the paper's mode does not serve the paper's service.
    let (response, mut stream) = raw.call("/controller.Node/BatchSet").await;
    send(&mut stream, prefixed(&[], 0), true).await;
    assert_eq!(status(response).await, GrpcCode::Unimplemented);
    assert_eq!(node.status().verified, 0);
    honest(&running).await.head().await.unwrap();
    running.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn half_sent_calls_of_all_connections_share_one_bound() {
    let memory_bytes = 16 << 20;
    let limits = Limits {
        memory_bytes,
        trusted: Arc::new(|_| false),
        ..Limits::default()
    };
    let (_, running) = serve(limits).await;
    let gate = &running.gate;
    let part = prefixed(&vec![0x0a; 1 << 20], 4 << 20);
    let (mut connections, mut held, mut refused) = (Vec::new(), Vec::new(), 0);
    for _ in 0..3 {
        let mut raw = Raw::connect(running.address).await.unwrap();
        for _ in 0..20 {
            let (response, mut stream) = raw.call(BATCH_SET).await;
            send(&mut stream, part.clone(), false).await;
            let mut response = Box::pin(status(response));
            loop {
                let turn = tokio::time::timeout(Duration::from_millis(5), &mut response).await;
                assert!(gate.bytes_under_way() <= memory_bytes / 4);
                if let Ok(code) = turn {
                    assert_eq!(code, GrpcCode::ResourceExhausted);
                    refused += 1;
                    break;
                }
                if gate.bytes_under_way() == (held.len() + 1) * part.len() {
                    held.push((response, stream));
                    break;
                }
            }
        }
        connections.push(raw);
    }
    // An untrusted source may use a quarter of the bytes: three of its 60 calls are accepted.
    assert_eq!((held.len(), refused), (3, 57));
    honest(&running).await.head().await.unwrap();
    drop((held, connections));
    eventually(|| gate.bytes_under_way() == 0).await;
    running.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_does_not_arrive_ends_its_call() {
    let limits = Limits {
        message_wait: Duration::from_millis(50),
        ..Limits::default()
    };
    let (_, running) = serve(limits).await;
    let mut raw = Raw::connect(running.address).await.unwrap();
    let (response, mut stream) = raw.call(BATCH_SET).await;
    send(&mut stream, prefixed(&[0x0a], 4 << 20), false).await;
    assert_eq!(status(response).await, GrpcCode::DeadlineExceeded);
    // A complete message, but the client does not end the call.
    let (response, mut stream) = raw.call(BATCH_SET).await;
    send(&mut stream, prefixed(&[], 0), false).await;
    assert_eq!(status(response).await, GrpcCode::DeadlineExceeded);
    eventually(|| running.gate.bytes_under_way() == 0).await;
    running.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_above_the_byte_limit_of_the_node_are_answered_busy() {
    let options = Options {
        verify_threads: 1,
        waiting_bytes: 2000,
        ..Options::default()
    };
    let (node, running) = serve_node(Limits::default(), options).await;
    let (client, value) = (honest(&running).await, [b'v'; 900]);
    let mut signs = Signs::new();
    let held = hold_verifier(&node, signs.sign(8, Body::Head));
    let (send, receive) = oneshot::channel();
    let first = Body::set(b"first", None, &value);
    node.submit(vec![signs.sign(6, first)], move |answers| {
        send.send(answers[0].code()).unwrap();
    });
    let set = client.set(b"long", None, &value);
    let refused = tokio::time::timeout(WAIT_TIMEOUT, set).await.unwrap().unwrap();
    assert_eq!(refused.known_code().unwrap(), Code::Busy);
    let batch = (0..3u8).map(|key| signs.sign(7, Body::set(&[key], None, &value)));
    let batch = client.connection().batch_set(batch.collect());
    let refused = tokio::time::timeout(WAIT_TIMEOUT, batch).await.unwrap().unwrap();
    let codes: Vec<_> = refused
        .iter()
        .map(|answer| answer.known_code().unwrap())
        .collect();
    assert_eq!(codes, [Code::Busy; 3]);
    drop(held);
    assert_eq!(receive.await, Ok(Code::Done));
    let done = client.set(b"long", None, &value).await.unwrap();
    assert_eq!(done.known_code().unwrap(), Code::Done);
    running.stop().await.unwrap();
}

/// Limits of 16 connections, of which one source may have two. A connection without calls may be closed after `idle`.
fn few(idle: Duration) -> Limits {
    Limits {
        connections: 16,
        idle,
        trusted: Arc::new(|_| false),
        ..Limits::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_source_cannot_take_all_connections() {
    let (_, running) = serve(few(Duration::MAX)).await;
    let _first = Raw::connect(running.address).await.unwrap();
    let _second = Raw::connect(running.address).await.unwrap();
    let third = Raw::connect(running.address).await;
    assert!(third.is_err(), "the source has used its share");
    let standing = running.gate.standing();
    assert_eq!((standing.connections, standing.refused), (2, 1));
    assert!(standing.problems.is_empty(), "another source can still connect");
    running.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_without_a_call_is_closed_in_order_when_room_is_needed() {
    let idle = Duration::from_millis(50);
    let (_, running) = serve(few(idle)).await;
    let stream = tokio::net::TcpStream::connect(running.address).await.unwrap();
    let (sender, mut connection) = h2::client::handshake(stream).await.unwrap();
    let mut pings = connection.ping_pong().unwrap();
    let driver = tokio::spawn(connection);
    let busy = Raw::connect(running.address).await.unwrap();
    let begun = std::time::Instant::now();
    // The client sends pings, which do not count as use of the connection.
    while begun.elapsed() < 2 * idle {
        let pong = pings.ping(h2::Ping::opaque());
        tokio::time::timeout(WAIT_TIMEOUT, pong).await.unwrap().unwrap();
    }
    let _third = Raw::connect(running.address).await.unwrap();
    let ended = tokio::time::timeout(WAIT_TIMEOUT, driver).await.unwrap().unwrap();
    if let Err(error) = ended {
        assert!(
            error.is_go_away() && error.reason() == Some(h2::Reason::NO_ERROR),
            "{error}"
        );
    }
    assert_eq!(running.gate.standing().connections, 2);
    assert!(!busy.driver.is_finished());
    drop(sender);
    running.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_does_not_read_its_answer_loses_its_connection() {
    let (_, running) = serve(few(Duration::ZERO)).await;
    let mut waiting = Vec::new();
    for _ in 0..2 {
        let stream = tokio::net::TcpStream::connect(running.address).await.unwrap();
        let mut builder = h2::client::Builder::new();
        builder.initial_window_size(0);
        let (sender, connection) = builder.handshake(stream).await.unwrap();
        let driver = tokio::spawn(connection);
        let mut raw = Raw { sender, driver };
        let (response, mut stream) = raw.call(BATCH_SET).await;
        send(&mut stream, prefixed(&[0x0a, 0], 2), true).await;
        let head = tokio::time::timeout(WAIT_TIMEOUT, response).await.unwrap();
        waiting.push((raw, head.unwrap()));
    }
    let asked = async {
        while Raw::connect(running.address).await.is_err() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(WAIT_TIMEOUT, asked).await.unwrap();
    eventually(|| waiting.iter().any(|(raw, _)| raw.driver.is_finished())).await;
    running.stop().await.unwrap();
}
