//! Tests of the Deliver server: positions, statuses and refusals as at a peer, and clients that send wrong requests.

mod common;

use common::{
    CHANNEL, DELIVER, FILTERED, MSP, Network, ask, ask_each, block, blocks, connect, envelope, message,
    recorded, signer,
};
use lineside_fabric::block::Block;
use lineside_fabric::proto::Arena;
use lineside_fabric_grpc::Running;
use lineside_fabric_grpc::client::{Follower, LeaveReason, Options, Service};
use lineside_fabric_grpc::messages::{
    DeliverContent, DeliverResponse, Empty, Envelope, FAIL_IF_NOT_READY, FilteredBlock,
    HEADER_WITH_SIG_BYTES, Position, SeekInfo,
};
use lineside_fabric_grpc::request::{seek, sign};
use lineside_fabric_grpc::serve::{Limits, Role, start};
use lineside_fabric_grpc::source::{MemorySource, ReadAccess};
use lineside_fabric_grpc::{CommittedSource, ServerTls, Signer, filter};
use lineside_grpc::Limits as Transport;
use lineside_verify::Verifier;
use prost::Message;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};
use tonic::Code;

const MEMBER: u64 = 0;
const ADMIN: u64 = 1;

struct Server {
    network: Network,
    memory: Arc<MemorySource>,
    running: Running,
}

impl Server {
    async fn new(count: u64, tls: impl FnOnce(&Network) -> Option<ServerTls>, limits: Limits) -> Self {
        let network = Network::new();
        let access = ReadAccess::Config(network.config(0, MEMBER, &[]), Verifier::default());
        let memory = Arc::new(MemorySource::new(CHANNEL, blocks(count), access));
        let sources: Vec<Arc<dyn CommittedSource>> = vec![memory.clone()];
        let running = start("127.0.0.1:0", tls(&network), Role::Peer, sources, limits)
            .await
            .unwrap();
        Self {
            network,
            memory,
            running,
        }
    }

    async fn plain(count: u64) -> Self {
        Self::new(count, |_| None, Limits::default()).await
    }

    /// Returns the numbers of refused calls that are not 0, by code.
    fn refused(&self) -> Vec<(&'static str, u64)> {
        let counts = self.running.gate.refused_calls.counts();
        counts.filter(|(_, count)| *count > 0).collect()
    }

    async fn ask(&self, path: &'static str, envelope: Envelope) -> Vec<DeliverContent> {
        let channel = connect(self.running.address, None, None).await;
        let (all, status) = ask(&channel, path, vec![envelope]).await;
        assert!(status.is_none(), "{status:?}");
        all
    }

    fn request(&self, seek: &SeekInfo) -> Envelope {
        sign(&self.network.client(), CHANNEL, seek, None, SystemTime::now())
    }
}

/// Returns the expected answer of a request that gets only a status.
fn status(code: i32) -> Vec<DeliverContent> {
    vec![DeliverContent::Status(code)]
}

/// Returns the expected answer of a request that gets these blocks and then a status.
fn served(numbers: std::ops::Range<u64>, code: i32) -> Vec<DeliverContent> {
    let all = blocks(numbers.end);
    let blocks = numbers.map(|number| DeliverContent::Block(all[number as usize].clone()));
    blocks.chain(status(code)).collect()
}

fn positions(start: Position, stop: Position) -> SeekInfo {
    SeekInfo {
        start: Some(start.into()),
        stop: Some(stop.into()),
        ..SeekInfo::default()
    }
}

#[tokio::test]
async fn each_seek_position_gets_its_blocks_or_its_status() {
    let server = Server::plain(6).await;
    let (oldest, newest) = (Position::Oldest(Empty {}), Position::Newest(Empty {}));
    let ready = |seek: SeekInfo| SeekInfo {
        behavior: FAIL_IF_NOT_READY,
        ..seek
    };
    for (seek, expected) in [
        (seek(2, 4), served(2..5, 200)),
        (seek(5, 5), served(5..6, 200)),
        (positions(oldest.clone(), newest.clone()), served(0..6, 200)),
        (positions(newest.clone(), newest.clone()), served(5..6, 200)),
        (positions(oldest.clone(), oldest.clone()), served(0..1, 200)),
        (ready(seek(4, u64::MAX)), served(4..6, 404)),
        (ready(seek(6, 9)), status(404)),
        (seek(7, 9), status(404)),
        (seek(u64::MAX, u64::MAX), status(404)),
        (seek(4, 2), status(400)),
        (SeekInfo::default(), status(400)),
        (
            SeekInfo {
                stop: None,
                ..seek(1, 1)
            },
            status(400),
        ),
    ] {
        assert_eq!(
            server.ask(DELIVER, server.request(&seek)).await,
            expected,
            "{seek:?}"
        );
    }
    // A client may send several requests in one call. The call ends when a request is refused.
    let channel = connect(server.running.address, None, None).await;
    let requests = [seek(0, 0), seek(1, 2), seek(9, 9), seek(0, 0)].map(|seek| server.request(&seek));
    let (all, end) = ask(&channel, DELIVER, requests.to_vec()).await;
    let expected = [served(0..1, 200), served(1..3, 200), status(404)].concat();
    assert_eq!(all, expected);
    assert!(end.is_none());
}

/// Waits until a condition is true, for at most a minute.
async fn until(what: &str, is_so: impl Fn() -> bool) {
    let waiting = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(60), waiting).await;
    assert!(waited.is_ok(), "not after a minute: {what}");
}

#[tokio::test]
async fn the_next_commit_is_waited_for() {
    let server = Server::plain(3).await;
    let request = server.request(&positions(Position::NextCommit(Empty {}), Position::block(4)));
    let later = server.memory.clone();
    let pushing = tokio::spawn(async move {
        // A block that is pushed before the request arrives would not be the next block. The server takes its receiver
        // and the height in one step on this thread, so a block that is pushed once the receiver exists comes after
        // both.
        until("the request waits for the next block", || later.followers() > 0).await;
        blocks(5)
            .split_off(3)
            .into_iter()
            .for_each(|block| later.push(block));
    });
    assert_eq!(server.ask(DELIVER, request).await, served(3..5, 200));
    pushing.await.unwrap();
}

#[tokio::test]
async fn only_headers_are_sent_when_only_headers_are_asked_for() {
    let server = Server::plain(2).await;
    let genesis = server.network.genesis(0, MEMBER, &[]);
    server.memory.push(genesis.clone().into());
    let seek = SeekInfo {
        content_type: HEADER_WITH_SIG_BYTES,
        ..seek(1, 2)
    };
    let all = server.ask(DELIVER, server.request(&seek)).await;
    let [
        DeliverContent::Block(bare),
        DeliverContent::Block(config),
        DeliverContent::Status(200),
    ] = &all[..]
    else {
        panic!("{all:?}");
    };
    assert_eq!(config[..], genesis[..]);
    let (full, arena) = (blocks(2), Arena::new());
    let (bare, full) = (
        Block::read(bare, &arena).unwrap(),
        Block::read(&full[1], &arena).unwrap(),
    );
    assert_eq!(
        (bare.header_bytes(), bare.metadata),
        (full.header_bytes(), full.metadata)
    );
    assert!(bare.transactions.is_empty());
}

#[tokio::test]
async fn filtered_blocks_hold_no_payload() {
    let server = Server::plain(3).await;
    let all = server.ask(FILTERED, server.request(&seek(2, 2))).await;
    let [DeliverContent::FilteredBlock(bytes), DeliverContent::Status(200)] = &all[..] else {
        panic!("{all:?}");
    };
    let block = FilteredBlock::decode(bytes.clone()).unwrap();
    assert_eq!((block.channel_id.as_str(), block.number), (CHANNEL, 2));
    let txs: Vec<_> = block.filtered_transactions.iter().collect();
    let told: Vec<_> = txs
        .iter()
        .map(|tx| (tx.txid.as_str(), tx.kind, tx.tx_validation_code))
        .collect();
    assert_eq!(told, [("tx2a", 3, 0), ("tx2b", 3, 10)]);
    let actions = txs[0].transaction_actions.as_ref().unwrap();
    let event = actions.chaincode_actions[0].chaincode_event.as_ref().unwrap();
    assert_eq!(
        (event.chaincode_id.as_str(), event.event_name.as_str()),
        ("cc", "made")
    );
    assert_eq!((event.tx_id.as_str(), event.payload.len()), ("tx2a", 0));
}

#[test]
fn an_unreadable_transaction_does_not_end_a_filtered_stream() {
    let envelopes = [
        b"\xff".to_vec(),
        envelope(3, "broken", b"\xff\xff"),
        message(&[(1, b""), (2, b"signature")]),
        envelope(1, "", b"a configuration"),
    ];
    let filtered = filter(&block(7, &[1, 5], &envelopes)).unwrap();
    let told = filtered.filtered_transactions.iter();
    let told: Vec<_> = told
        .map(|tx| {
            (
                tx.txid.as_str(),
                tx.kind,
                tx.tx_validation_code,
                tx.transaction_actions.is_some(),
            )
        })
        .collect();
    assert_eq!(told, [("broken", 3, 5, true), ("", 1, 254, false)]);
}

#[test]
fn filtered_blocks_of_the_recorded_sets_have_their_ids_and_codes() {
    let Some(folder) = recorded("dev") else { return };
    let manifest = std::fs::read_to_string(folder.join("manifest.json")).unwrap();
    let ids: Vec<&str> = manifest
        .split("\"txid\": \"")
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
        .collect();
    let mut found = Vec::new();
    for bytes in MemorySource::read(&folder, "committed").unwrap() {
        let arena = Arena::new();
        let codes = Block::read(&bytes, &arena).unwrap().filter();
        let filtered = filter(&bytes).unwrap().filtered_transactions;
        assert_eq!(filtered.len(), codes.len());
        for (tx, code) in filtered.into_iter().zip(codes) {
            assert_eq!(tx.tx_validation_code, i32::from(*code));
            found.push(tx.txid);
        }
    }
    assert_eq!(found, ids);
}

#[tokio::test]
async fn a_client_without_the_right_to_read_is_refused() {
    let server = Server::plain(3).await;
    let now = SystemTime::now();
    let network = &server.network;
    let of = |signer: &Signer| sign(signer, CHANNEL, &seek(0, 0), None, now);
    let good = of(&network.client());
    assert_eq!(server.ask(DELIVER, good.clone()).await, served(0..1, 200));
    // Identities that are refused: of another CA, of another MSP, without a role, and expired.
    let foreign = signer(MSP, &network.other_ca.pair("user", "client"));
    let unknown = signer("Org2MSP", &network.ca.pair("user", "client"));
    let without_role = signer(MSP, &network.ca.pair("user", "no-role"));
    for refused in [&foreign, &unknown, &without_role] {
        assert_eq!(server.ask(DELIVER, of(refused)).await, status(403));
        assert_eq!(server.ask(FILTERED, of(refused)).await, status(403));
    }
    let ended = signer(MSP, &network.ca.ending("user", Duration::ZERO));
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    assert_eq!(server.ask(DELIVER, of(&ended)).await, status(403));
    // Signatures that are refused: of another client, empty, malformed, and with a high s.
    let other = of(&network.client()).signature;
    for signature in [
        other,
        bytes::Bytes::new(),
        bytes::Bytes::from_static(b"0"),
        high_s(&good.signature),
    ] {
        let envelope = Envelope {
            signature,
            ..good.clone()
        };
        assert_eq!(server.ask(DELIVER, envelope).await, status(403));
    }
    assert_eq!(server.refused(), [("PERMISSION_DENIED", 11)]);
}

/// Returns the signature with n - s in place of s.
fn high_s(signature: &[u8]) -> bytes::Bytes {
    let signature = p256::ecdsa::Signature::from_der(signature).unwrap();
    let (r, s) = signature.split_scalars();
    let high = p256::ecdsa::Signature::from_scalars(r, -*s).unwrap();
    bytes::Bytes::copy_from_slice(high.to_der().as_bytes())
}

#[tokio::test]
async fn requests_with_headers_that_a_peer_refuses_are_refused() {
    let server = Server::plain(3).await;
    let client = server.network.client();
    let now = SystemTime::now();
    let minutes = |minutes: u64| Duration::from_secs(minutes * 60);
    for (at, expected) in [
        (now - minutes(14), served(0..1, 200)),
        (now + minutes(14), served(0..1, 200)),
        (now - minutes(16), status(400)),
        (now + minutes(16), status(400)),
    ] {
        assert_eq!(
            server
                .ask(DELIVER, sign(&client, CHANNEL, &seek(0, 0), None, at))
                .await,
            expected
        );
    }
    let elsewhere = sign(&client, "elsewhere", &seek(0, 0), None, now);
    assert_eq!(server.ask(DELIVER, elsewhere).await, status(404));
    // A request without a timestamp is refused.
    let payload = envelope(5, "", b"");
    let envelope = Envelope::decode(&payload[..]).unwrap();
    assert_eq!(server.ask(DELIVER, envelope).await, status(400));
    assert_eq!(server.refused(), [("INVALID_ARGUMENT", 3), ("NOT_FOUND", 1)]);
}

#[tokio::test]
async fn a_new_configuration_ends_streams_of_clients_that_lost_the_right_to_read() {
    let server = Server::plain(2).await;
    let mut options = Options::new(
        vec![server.running.address.to_string()],
        server.network.client(),
        CHANNEL,
        0,
    );
    options.service = Service::Peer;
    let left = Arc::new(Mutex::new(Vec::new()));
    let told = left.clone();
    options.on_left = Some(Arc::new(move |_, why| told.lock().unwrap().push(why.clone())));
    let mut follower = Follower::new(options);
    assert_eq!(follower.next().await.number, 0);
    assert_eq!(follower.next().await.number, 1);
    // A new configuration with the same rules does not end the stream.
    let network = &server.network;
    let config =
        |sequence, role| ReadAccess::Config(network.config(sequence, role, &[]), Verifier::default());
    server.memory.set_access(config(1, MEMBER));
    server.memory.push(blocks(3)[2].clone());
    assert_eq!(follower.next().await.number, 2);
    server.memory.set_access(config(2, ADMIN));
    server.memory.push(blocks(4)[3].clone());
    let waiting = tokio::time::timeout(Duration::from_secs(2), follower.next()).await;
    assert!(waiting.is_err());
    assert_eq!(left.lock().unwrap()[0], LeaveReason::Status(403));
    let admin = signer(MSP, &network.ca.pair("admin", "admin"));
    let request = sign(&admin, CHANNEL, &seek(3, 3), None, SystemTime::now());
    assert_eq!(server.ask(DELIVER, request).await, served(3..4, 200));
}

#[tokio::test]
async fn an_expiring_certificate_ends_its_stream() {
    let server = Server::plain(1).await;
    let client = signer(MSP, &server.network.ca.ending("user", Duration::from_secs(3)));
    let later = server.memory.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(4_500)).await;
        later.push(blocks(2)[1].clone());
    });
    let request = sign(&client, CHANNEL, &seek(0, u64::MAX), None, SystemTime::now());
    assert_eq!(server.ask(DELIVER, request).await, served(0..1, 403));
}

#[tokio::test]
async fn acls_guard_each_resource() {
    let server = Server::plain(1).await;
    for (policy, expected) in [
        ("Readers", served(0..1, 200)),
        ("Admins", status(403)),
        ("/Channel/Application/Admins", status(403)),
        ("/Channel/Application/Org1/Readers", served(0..1, 200)),
        ("/Elsewhere/Readers", status(403)),
        ("", served(0..1, 200)),
    ] {
        let config = server.network.config(1, MEMBER, &[("event/Block", policy)]);
        server
            .memory
            .set_access(ReadAccess::Config(config, Verifier::default()));
        let request = server.request(&seek(0, 0));
        assert_eq!(server.ask(DELIVER, request.clone()).await, expected, "{policy}");
        assert_eq!(server.ask(FILTERED, request).await.len(), 2);
    }
}

#[tokio::test]
async fn mutual_tls_binds_requests_to_the_certificate() {
    let server = Server::new(2, |network| Some(network.server_tls(true)), Limits::default()).await;
    let network = &server.network;
    let (one, two) = (
        network.tls_ca.pair("one", "client"),
        network.tls_ca.pair("two", "client"),
    );
    let hash = |pair| network.client_tls(Some(pair)).certificate_hash();
    let channel = connect(server.running.address, Some(network), Some(&one)).await;
    let client = network.client();
    for (hash, expected) in [
        (hash(&one), served(0..1, 200)),
        (hash(&two), status(400)),
        (None, status(400)),
    ] {
        let request = sign(&client, CHANNEL, &seek(0, 0), hash, SystemTime::now());
        let (all, end) = ask(&channel, DELIVER, vec![request]).await;
        assert!(end.is_none());
        assert_eq!(all, expected);
    }
    // A client without a certificate, or with a certificate of another CA, cannot connect.
    let stranger = network.other_ca.pair("stranger", "client");
    for own in [None, Some(&stranger)] {
        let mut options = Options::new(
            vec![server.running.address.to_string()],
            client.clone(),
            CHANNEL,
            0,
        );
        options.service = Service::Peer;
        options.tls = Some(network.client_tls(own));
        let mut follower = Follower::new(options);
        let waiting = tokio::time::timeout(Duration::from_millis(300), follower.next()).await;
        assert!(waiting.is_err());
    }
}

#[tokio::test]
async fn requests_for_private_data_are_refused() {
    let server = Server::plain(1).await;
    let channel = connect(server.running.address, None, None).await;
    let request = server.request(&seek(0, 0));
    for path in [
        "/protos.Deliver/DeliverWithPrivateData",
        "/orderer.AtomicBroadcast/Deliver",
    ] {
        let (all, end) = ask(&channel, path, vec![request.clone()]).await;
        assert!(all.is_empty());
        assert_eq!(end.unwrap().code(), Code::Unimplemented);
    }
    // The server has no handler for a service of orderers, so only the first call reaches its counters.
    assert_eq!(server.refused(), [("UNIMPLEMENTED", 1)]);
}

#[tokio::test]
async fn forged_requests_use_little_processor_time() {
    let server = Server::plain(2).await;
    let channel = connect(server.running.address, None, None).await;
    let good = server.request(&seek(0, 0));
    // A request that is truncated anywhere, or in which any byte is changed, is refused.
    for length in (0..good.payload.len()).step_by(37) {
        let payload = good.payload.slice(..length);
        let (all, end) = ask(
            &channel,
            DELIVER,
            vec![Envelope {
                payload,
                ..good.clone()
            }],
        )
        .await;
        assert!(
            matches!(all[..], [DeliverContent::Status(400 | 403 | 404)]),
            "{length}: {all:?} {end:?}"
        );
    }
    for at in (0..good.payload.len()).step_by(41) {
        let mut payload = good.payload.to_vec();
        payload[at] ^= 0x55;
        let payload = payload.into();
        let (all, end) = ask(
            &channel,
            DELIVER,
            vec![Envelope {
                payload,
                ..good.clone()
            }],
        )
        .await;
        assert!(
            matches!(all[..], [DeliverContent::Status(400 | 403 | 404)]),
            "{at}: {all:?} {end:?}"
        );
    }
    let huge = Envelope {
        payload: vec![0; 1 << 20].into(),
        ..good.clone()
    };
    let (all, end) = ask(&channel, DELIVER, vec![huge]).await;
    assert!(all.is_empty());
    assert_eq!(end.unwrap().code(), Code::OutOfRange);
    let (all, end) = ask(&channel, DELIVER, vec![]).await;
    assert!(all.is_empty() && end.is_none());
    // The server still answers.
    let (all, _) = ask(&channel, DELIVER, vec![good]).await;
    assert_eq!(all, served(0..1, 200));
}

#[tokio::test]
async fn calls_and_connections_of_a_client_are_limited() {
    let limits = Limits {
        transport: Transport {
            calls: 1,
            connections: 2,
            ..Transport::default()
        },
        ..Limits::default()
    };
    let server = Server::new(1, |_| None, limits).await;
    let (one, two) = (
        connect(server.running.address, None, None).await,
        connect(server.running.address, None, None).await,
    );
    let endless = server.request(&seek(0, u64::MAX));
    let held = tokio::spawn(async move { ask(&one, DELIVER, vec![endless]).await });
    until("the stream is served", || server.memory.followers() > 0).await;
    let (_, end) = ask(&two, DELIVER, vec![server.request(&seek(0, 0))]).await;
    assert_eq!(end.unwrap().code(), Code::ResourceExhausted);
    // The server closes the third connection without an answer.
    let mut third = tokio::net::TcpStream::connect(server.running.address)
        .await
        .unwrap();
    let mut buffer = [0; 16];
    let read = tokio::io::AsyncReadExt::read(&mut third, &mut buffer);
    let read = tokio::time::timeout(Duration::from_secs(10), read).await.unwrap();
    assert!(matches!(read, Ok(0) | Err(_)));
    held.abort();
    let _ = held.await;
    let freed = async {
        loop {
            let (all, _) = ask(&two, DELIVER, vec![server.request(&seek(0, 0))]).await;
            if all == served(0..1, 200) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), freed)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_client_that_sends_nothing_is_disconnected() {
    let limits = || Limits {
        transport: Transport {
            handshake: Duration::from_millis(200),
            ..Transport::default()
        },
        request_wait: Duration::from_millis(200),
        ..Limits::default()
    };
    let plain = Server::new(1, |_| None, limits()).await;
    let secret = Server::new(1, |network| Some(network.server_tls(false)), limits()).await;
    for server in [&plain, &secret] {
        let mut silent = tokio::net::TcpStream::connect(server.running.address)
            .await
            .unwrap();
        // The server may send its HTTP/2 settings before it closes the connection.
        let mut all = Vec::new();
        let read = tokio::io::AsyncReadExt::read_to_end(&mut silent, &mut all);
        assert!(tokio::time::timeout(Duration::from_secs(10), read).await.is_ok());
    }
    // A call without a request ends after the time limit.
    let channel = connect(plain.running.address, None, None).await;
    let mut grpc = tonic::client::Grpc::new(channel);
    grpc.ready().await.unwrap();
    let codec = tonic_prost::ProstCodec::<Envelope, DeliverResponse>::default();
    let path = tonic::codegen::http::uri::PathAndQuery::from_static(DELIVER);
    let response = grpc
        .streaming(tonic::Request::new(tokio_stream::pending()), path, codec)
        .await;
    let end = response.unwrap().into_inner().message().await;
    assert_eq!(end.unwrap_err().code(), Code::DeadlineExceeded);
}

#[test]
fn mutated_blocks_are_filtered_or_refused() {
    let good = blocks(3)[2].to_vec();
    let mut filtered = 0;
    for at in 0..good.len() {
        for flip in [0x01, 0x08, 0x80, 0xff] {
            let mut bytes = good.clone();
            bytes[at] ^= flip;
            filtered += u32::from(filter(&bytes).is_ok());
            let _ = filter(&bytes[..at]);
        }
    }
    assert!(filtered > 0);
}

#[tokio::test]
async fn a_stopping_server_says_so() {
    let server = Server::plain(1).await;
    let channel = connect(server.running.address, None, None).await;
    let request = server.request(&seek(0, u64::MAX));
    let received = Arc::new(AtomicUsize::new(0));
    let count = received.clone();
    let held = tokio::spawn(async move {
        ask_each(&channel, DELIVER, vec![request], || {
            count.fetch_add(1, Ordering::Relaxed);
        })
        .await
    });
    until("the client has the block", || {
        received.load(Ordering::Relaxed) == 1
    })
    .await;
    server.running.stop().await.unwrap();
    assert_eq!(held.await.unwrap().0, served(0..1, 503));
}
