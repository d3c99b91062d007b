//! Tests of a peer's services other than Deliver: answers, and clients that are wrong, refused, or do not read.

mod common;

use bytes::Bytes;
use common::requests::{proposal, signed};
use common::{CHANNEL, MSP, Network, block, blocks, connect, large_event, signer, with_event};
use lineside_fabric::access::SignedBy;
use lineside_fabric::block::Block;
use lineside_fabric::ledger::{Replica, Setup, TxPosition};
use lineside_fabric::proto::Arena;
use lineside_fabric_grpc::gateway::messages::{
    BlockchainInfo, ChaincodeEventsRequest, ChaincodeEventsResponse, ChaincodeResponse, ChannelQueryResponse,
    CommitStatusRequest, CommitStatusResponse, EvaluateRequest, EvaluateResponse, ProcessedTransaction,
    ProposalResponse, SignedProposal, SignedRequest,
};
use lineside_fabric_grpc::messages::{ChaincodeEvent, Empty, Position};
use lineside_fabric_grpc::replica::{CommittedBlocks, committed};
use lineside_fabric_grpc::serve::{Limits, Role, start};
use lineside_fabric_grpc::source::{MemorySource, ReadAccess, Unavailable};
use lineside_fabric_grpc::{CommittedSource, Running, Signer};
use lineside_grpc::Limits as Transport;
use lineside_journal::SimDisk;
use lineside_verify::Verifier;
use prost::Message;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Channel;
use tonic::{Code, Request, Status, Streaming};
use tonic_prost::ProstCodec;

const MEMBER: u64 = 0;
const ADMIN: u64 = 1;
const COMMIT: &str = "/gateway.Gateway/CommitStatus";
const EVENTS: &str = "/gateway.Gateway/ChaincodeEvents";
const EVALUATE: &str = "/gateway.Gateway/Evaluate";
const PROPOSE: &str = "/protos.Endorser/ProcessProposal";
/// Time after which a test fails because an expected event did not occur.
const EVENT_TIMEOUT: Duration = Duration::from_secs(30);

struct Server {
    network: Network,
    memory: Arc<MemorySource>,
    running: Running,
}

impl Server {
    async fn new(blocks: Vec<Bytes>, acls: &[(&str, &str)], limits: Limits) -> Self {
        let network = Network::new();
        let access = ReadAccess::Config(network.config(0, MEMBER, acls), Verifier::default());
        let memory = Arc::new(MemorySource::new(CHANNEL, blocks, access));
        let sources: Vec<Arc<dyn CommittedSource>> = vec![memory.clone()];
        let running = start("127.0.0.1:0", None, Role::Peer, sources, limits);
        Self {
            running: running.await.unwrap(),
            network,
            memory,
        }
    }

    async fn plain(count: u64) -> Self {
        Self::new(blocks(count), &[], Limits::default()).await
    }

    async fn channel(&self) -> Channel {
        connect(self.running.address, None, None).await
    }

    /// Permits only administrators to read from now on.
    fn revoke(&self) {
        let config = self.network.config(1, ADMIN, &[]);
        self.memory
            .set_access(ReadAccess::Config(config, Verifier::default()));
    }

    fn events(&self, signer: &Signer, change: impl FnOnce(&mut ChaincodeEventsRequest)) -> SignedRequest {
        let mut request = ChaincodeEventsRequest {
            channel_id: CHANNEL.into(),
            chaincode_id: "cc".into(),
            identity: signer.identity().to_vec(),
            start_position: Some(Position::block(0).into()),
            after_transaction_id: String::new(),
        };
        change(&mut request);
        signed(signer, &request)
    }

    fn commit(&self, signer: &Signer, id: &str) -> SignedRequest {
        let request = CommitStatusRequest {
            transaction_id: id.into(),
            channel_id: CHANNEL.into(),
            identity: signer.identity().to_vec(),
        };
        signed(signer, &request)
    }
}

async fn one<In, Out>(channel: &Channel, path: &'static str, request: In) -> Result<Out, Status>
where
    In: Message + Default + Send + Sync + 'static,
    Out: Message + Default + Send + Sync + 'static,
{
    let mut grpc = Grpc::new(channel.clone());
    grpc.ready().await.unwrap();
    let codec = ProstCodec::<In, Out>::default();
    let path = PathAndQuery::from_static(path);
    let answered = tokio::time::timeout(EVENT_TIMEOUT, grpc.unary(Request::new(request), path, codec)).await;
    answered
        .expect("the call is not answered")
        .map(tonic::Response::into_inner)
}

async fn status_of(channel: &Channel, request: SignedRequest) -> Result<CommitStatusResponse, Code> {
    one(channel, COMMIT, request)
        .await
        .map_err(|status| status.code())
}

async fn propose(channel: &Channel, proposal: SignedProposal) -> ChaincodeResponse {
    let answer: ProposalResponse = one(channel, PROPOSE, proposal).await.unwrap();
    answer.response.unwrap()
}

async fn stream(channel: &Channel, request: SignedRequest) -> Streaming<ChaincodeEventsResponse> {
    let mut grpc = Grpc::new(channel.clone());
    grpc.ready().await.unwrap();
    let codec = ProstCodec::<SignedRequest, ChaincodeEventsResponse>::default();
    let path = PathAndQuery::from_static(EVENTS);
    let stream = grpc.server_streaming(Request::new(request), path, codec).await;
    stream.unwrap().into_inner()
}

/// Returns the next response: its block, and the transactions and names of its events.
async fn next(stream: &mut Streaming<ChaincodeEventsResponse>) -> Result<(u64, Vec<String>), Code> {
    let message = tokio::time::timeout(EVENT_TIMEOUT, stream.message()).await;
    let message = message.expect("no event comes").map_err(|status| status.code())?;
    let response = message.expect("the stream ended without a status");
    let events = response.events.into_iter().map(|bytes| {
        let event = ChaincodeEvent::decode(bytes).unwrap();
        assert_eq!(event.payload, &b"secret"[..]);
        format!("{}:{}:{}", event.chaincode_id, event.tx_id, event.event_name)
    });
    Ok((response.block_number, events.collect()))
}

async fn ended(channel: &Channel, request: SignedRequest) -> Code {
    let mut stream = stream(channel, request).await;
    next(&mut stream).await.unwrap_err()
}

#[tokio::test]
async fn commit_status_is_the_code_at_once_or_when_it_is_committed() {
    let server = Server::plain(3).await;
    let (channel, user) = (server.channel().await, server.network.client());
    for (id, code, block) in [("tx0a", 0, 0), ("tx2a", 0, 2), ("tx2b", 10, 2)] {
        let answer = status_of(&channel, server.commit(&user, id)).await.unwrap();
        assert_eq!((answer.result, answer.block_number), (code, block), "{id}");
    }
    let request = server.commit(&user, "tx4b");
    let waiting = tokio::spawn({
        let channel = channel.clone();
        async move { status_of(&channel, request).await }
    });
    let later = blocks(5);
    server.memory.push(later[3].clone());
    assert!(!waiting.is_finished());
    server.memory.push(later[4].clone());
    let answer = waiting.await.unwrap().unwrap();
    assert_eq!((answer.result, answer.block_number), (10, 4));
}

#[tokio::test]
async fn requests_that_a_peer_refuses_are_refused() {
    let server = Server::plain(3).await;
    let (channel, user) = (server.channel().await, server.network.client());
    let denied = Err(Code::PermissionDenied);
    let good = server.commit(&user, "tx1a");
    assert!(status_of(&channel, good.clone()).await.is_ok());
    // Refused are the signature of another message, a signature of another CA's client, and an empty signature.
    let other = server.commit(&user, "tx1b");
    let swapped = SignedRequest {
        signature: other.signature.clone(),
        ..good.clone()
    };
    assert_eq!(status_of(&channel, swapped).await, denied);
    let stranger = signer(MSP, &server.network.other_ca.pair("stranger", "client"));
    assert_eq!(
        status_of(&channel, server.commit(&stranger, "tx1a")).await,
        denied
    );
    let unsigned = SignedRequest {
        signature: Bytes::new(),
        ..good.clone()
    };
    assert_eq!(status_of(&channel, unsigned).await, denied);
    // The organisational unit of this certificate is not a role of the MSP's NodeOUs.
    let without_role = signer(MSP, &server.network.ca.pair("user", "no-role"));
    assert_eq!(
        status_of(&channel, server.commit(&without_role, "tx1a")).await,
        denied
    );
    let expired = signer(MSP, &server.network.ca.ending("user", Duration::ZERO));
    assert_eq!(status_of(&channel, server.commit(&expired, "tx1a")).await, denied);
    let elsewhere = CommitStatusRequest {
        transaction_id: "tx1a".into(),
        channel_id: "other".into(),
        identity: user.identity().to_vec(),
    };
    assert_eq!(status_of(&channel, signed(&user, &elsewhere)).await, denied);
    let invalid = Err(Code::InvalidArgument);
    assert_eq!(status_of(&channel, server.commit(&user, "")).await, invalid);
    assert_eq!(status_of(&channel, SignedRequest::default()).await, invalid);
    let garbage = SignedRequest {
        request: Bytes::from_static(b"\xff\xff"),
        ..good
    };
    assert_eq!(status_of(&channel, garbage).await, invalid);

    let at =
        |position: Position| server.events(&user, |request| request.start_position = Some(position.into()));
    assert_eq!(
        ended(&channel, at(Position::Oldest(Empty {}))).await,
        Code::InvalidArgument
    );
    assert_eq!(
        ended(&channel, at(Position::Newest(Empty {}))).await,
        Code::InvalidArgument
    );
    assert_eq!(
        ended(&channel, server.events(&stranger, |_| {})).await,
        Code::PermissionDenied
    );
    let elsewhere = server.events(&user, |request| request.channel_id = "other".into());
    assert_eq!(ended(&channel, elsewhere).await, Code::PermissionDenied);
    let tampered = SignedRequest {
        signature: other.signature,
        ..server.events(&user, |_| {})
    };
    assert_eq!(ended(&channel, tampered).await, Code::PermissionDenied);
}

#[tokio::test]
async fn each_method_has_an_acl_of_its_own() {
    let admins = "/Channel/Application/Admins";
    let acls = [
        ("gateway/ChaincodeEvents", admins),
        ("qscc/GetBlockByNumber", admins),
    ];
    let server = Server::new(blocks(2), &acls, Limits::default()).await;
    let (channel, user) = (server.channel().await, server.network.client());
    assert!(status_of(&channel, server.commit(&user, "tx1a")).await.is_ok());
    assert_eq!(
        ended(&channel, server.events(&user, |_| {})).await,
        Code::PermissionDenied
    );
    let info = propose(&channel, proposal(&user, "", "qscc", &[b"GetChainInfo", b"lab"])).await;
    assert_eq!(info.status, 200);
    let block = propose(
        &channel,
        proposal(&user, "", "qscc", &[b"GetBlockByNumber", b"lab", b"0"]),
    )
    .await;
    assert_eq!((block.status, block.payload.len()), (500, 0));
    assert!(
        block
            .message
            .starts_with("access denied for [GetBlockByNumber][lab]"),
        "{}",
        block.message
    );
}

#[tokio::test]
async fn a_client_that_is_revoked_gets_nothing_more() {
    let server = Server::plain(2).await;
    let (channel, user) = (server.channel().await, server.network.client());
    let mut events = stream(&channel, server.events(&user, |_| {})).await;
    for number in 0..2 {
        assert_eq!(next(&mut events).await.unwrap().0, number);
    }
    let request = server.commit(&user, "tx2a");
    let waiting = tokio::spawn({
        let channel = channel.clone();
        async move { status_of(&channel, request).await }
    });
    // The call for the status waits for the block once it is counted in addition to the stream of events.
    server.revoke();
    server.memory.push(blocks(3)[2].clone());
    assert_eq!(next(&mut events).await, Err(Code::PermissionDenied));
    assert_eq!(waiting.await.unwrap(), Err(Code::PermissionDenied));
    let info = propose(&channel, proposal(&user, "", "qscc", &[b"GetChainInfo", b"lab"])).await;
    assert_eq!(info.status, 500);
    let channels = propose(&channel, proposal(&user, "", "cscc", &[b"GetChannels"])).await;
    assert_eq!(channels.status, 500);
}

/// Returns a block with two transactions with events of the chaincode `cc`, one with an event of another chaincode, one
/// with an event without a name, and an invalid one.
fn busy(number: u64) -> Bytes {
    let of = |id: &str, chaincode: &str, name: &str| {
        let transaction = with_event(&format!("tx{number}{id}"), name);
        match chaincode {
            "cc" => transaction,
            other => replaced(&transaction, b"cc", other.as_bytes()),
        }
    };
    let transactions = [
        of("a", "cc", "made"),
        of("b", "cc", "sold"),
        of("c", "dd", "made"),
        of("d", "cc", ""),
    ];
    let invalid = with_event(&format!("tx{number}e"), "made");
    let all: Vec<Vec<u8>> = transactions.into_iter().chain([invalid]).collect();
    block(number, &[0, 0, 0, 0, 11], &all).into()
}

/// Returns `bytes` with the first occurrence of `from` replaced by `to`, which has the same length.
fn replaced(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let at = bytes
        .windows(from.len())
        .position(|window| window == from)
        .unwrap();
    let mut bytes = bytes.to_vec();
    bytes[at..at + to.len()].copy_from_slice(to);
    bytes
}

#[tokio::test]
async fn events_are_of_the_chaincode_in_valid_transactions_from_the_position_on() {
    let server = Server::new((0..3).map(busy).collect(), &[], Limits::default()).await;
    let (channel, user) = (server.channel().await, server.network.client());
    let both = |number: u64| {
        (
            number,
            vec![format!("cc:tx{number}a:made"), format!("cc:tx{number}b:sold")],
        )
    };
    let first = |number: u64, id: &str, name: &str| (number, vec![format!("cc:tx{number}{id}:{name}")]);
    let start = |number: u64| Some(Position::block(number).into());
    let request = |start: Option<_>, after: &str| {
        server.events(&user, |request| {
            request.start_position = start;
            request.after_transaction_id = after.into();
        })
    };
    for (case, expected) in [
        (request(start(0), ""), vec![both(0), both(1), both(2)]),
        (request(start(2), ""), vec![both(2)]),
        // If the request names a known transaction, that transaction takes precedence over the position.
        (request(start(0), "tx1a"), vec![first(1, "b", "sold"), both(2)]),
        (request(None, "tx1b"), vec![both(2)]),
        // The named transaction may have no event, or may be invalid.
        (request(start(0), "tx1d"), vec![both(2)]),
        (request(start(0), "tx1e"), vec![both(2)]),
    ] {
        let mut events = stream(&channel, case).await;
        for response in expected {
            assert_eq!(next(&mut events).await.unwrap(), response);
        }
    }
    let other = server.events(&user, |request| request.chaincode_id = "dd".into());
    let mut other = stream(&channel, other).await;
    assert_eq!(
        next(&mut other).await.unwrap(),
        (0, vec!["dd:tx0c:made".to_owned()])
    );

    // The request may name a transaction of a block that is not committed yet, or the number of such a block.
    let late = [
        (request(None, "tx3a"), first(3, "b", "sold")),
        (request(start(4), ""), both(4)),
    ];
    let mut streams = Vec::new();
    for (request, expected) in late {
        streams.push((stream(&channel, request).await, expected));
    }
    server.memory.push(busy(3));
    server.memory.push(busy(4));
    for (mut events, expected) in streams {
        assert_eq!(next(&mut events).await.unwrap(), expected);
    }

    // Events from the next commit on, requested by name or by omitting the position. The test cannot know when the
    // server has the call, so it commits blocks until an event arrives, which is of a block after the call.
    let mut number = 5;
    for position in [Some(Position::NextCommit(Empty {}).into()), None] {
        let mut events = stream(&channel, request(position, "")).await;
        let earliest = number;
        let mut coming = std::pin::pin!(next(&mut events));
        let found = loop {
            server.memory.push(busy(number));
            number += 1;
            assert!(number < 500, "no event comes");
            if let Ok(found) = tokio::time::timeout(Duration::from_millis(100), &mut coming).await {
                break found.unwrap();
            }
        };
        assert!(found.0 >= earliest, "{found:?}");
        assert_eq!(found, both(found.0));
    }
}

/// Source of a replica's committed blocks that permits every client, because the tests have no key of a client of the
/// recorded channel.
struct OpenSource(Arc<CommittedBlocks<SimDisk>>);

impl CommittedSource for OpenSource {
    fn channel(&self) -> &str {
        self.0.channel()
    }

    fn heights(&self) -> watch::Receiver<u64> {
        self.0.heights()
    }

    fn block(&self, number: u64) -> Result<Bytes, Unavailable> {
        self.0.block(number)
    }

    fn transaction(&self, id: &str) -> Result<Option<TxPosition>, Unavailable> {
        self.0.transaction(id)
    }

    fn number_of(&self, header_hash: &[u8; 32]) -> Option<u64> {
        self.0.number_of(header_hash)
    }

    fn config_sequence(&self) -> u64 {
        0
    }

    fn permits(&self, _resource: &str, _by: SignedBy<'_>) -> bool {
        true
    }
}

/// Returns a replica with the recorded blocks of a real network, its source, and the blocks as the replica committed
/// them.
fn recorded() -> (Replica<SimDisk>, Arc<dyn CommittedSource>, Vec<Bytes>) {
    let (mut replica, _) = Replica::open(SimDisk::new(1), Setup::default(), None).unwrap();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fabric/tests/data/edge");
    for block in MemorySource::read(&folder, "orderer").unwrap() {
        replica.add(block.to_vec()).unwrap();
    }
    replica.flush().unwrap();
    let teller = committed(&replica).unwrap().unwrap();
    let source: Arc<dyn CommittedSource> = Arc::new(OpenSource(teller.committed()));
    let blocks = (0..replica.durable()).map(|number| source.block(number).unwrap());
    let blocks: Vec<Bytes> = blocks.collect();
    assert_eq!(blocks.len(), 14);
    (replica, source, blocks)
}

#[tokio::test(flavor = "multi_thread")]
async fn queries_give_the_blocks_and_transactions_of_a_ledger() {
    let (replica, source, blocks) = recorded();
    let user = Network::new().client();
    let running = start("127.0.0.1:0", None, Role::Peer, vec![source], Limits::default());
    let running = running.await.unwrap();
    let channel = connect(running.address, None, None).await;
    let ask = async |function: &[u8], of: &[u8]| {
        propose(&channel, proposal(&user, "", "qscc", &[function, b"edge", of])).await
    };
    let newest = blocks.len() - 1;
    for (number, bytes) in blocks.iter().enumerate() {
        let response = ask(b"GetBlockByNumber", number.to_string().as_bytes()).await;
        assert_eq!(
            (response.status, &response.payload),
            (200, bytes),
            "block {number}"
        );
        let arena = Arena::new();
        let block = Block::read(bytes, &arena).unwrap();
        if let Some(before) = number.checked_sub(1) {
            let response = ask(b"GetBlockByHash", block.previous_hash).await;
            assert_eq!(response.payload, blocks[before]);
        }
    }
    let info = BlockchainInfo::decode(ask(b"GetChainInfo", b"").await.payload).unwrap();
    let arena = Arena::new();
    let last = Block::read(&blocks[newest], &arena).unwrap();
    assert_eq!(info.height, blocks.len() as u64);
    assert_eq!(info.previous_block_hash, last.previous_hash);
    let by_hash = ask(b"GetBlockByHash", &info.current_block_hash).await;
    assert_eq!(by_hash.payload, blocks[newest]);
    assert_eq!(
        ask(b"GetBlockByNumber", b"18446744073709551615").await.payload,
        blocks[newest]
    );

    let filtered = lineside_fabric_grpc::filter(&blocks[newest]).unwrap();
    for (index, transaction) in filtered.filtered_transactions.iter().enumerate().take(5) {
        let id = transaction.txid.as_bytes();
        assert_eq!(ask(b"GetBlockByTxID", id).await.payload, blocks[newest]);
        let processed = ProcessedTransaction::decode(ask(b"GetTransactionByID", id).await.payload).unwrap();
        assert_eq!(processed.transaction_envelope, last.transactions[index]);
        assert_eq!(processed.validation_code, transaction.tx_validation_code);
    }
    let config = propose(
        &channel,
        proposal(&user, "", "cscc", &[b"GetConfigBlock", b"edge"]),
    )
    .await;
    let is_config = |bytes: &&Bytes| Block::read(bytes, &Arena::new()).unwrap().is_config();
    assert_eq!(Some(&config.payload), blocks.iter().rfind(is_config));
    replica.stop().unwrap();
}

/// If the channel's configuration is no longer known, waiting and new calls end, even of clients that could read.
#[tokio::test(flavor = "multi_thread")]
async fn no_query_is_answered_when_the_configuration_is_unknown() {
    let network = Network::new();
    let (mut replica, _) = Replica::open(SimDisk::new(5), Setup::default(), None).unwrap();
    replica.add(network.genesis(0, MEMBER, &[])).unwrap();
    replica.flush().unwrap();
    let teller = committed(&replica).unwrap().unwrap();
    let sources: Vec<Arc<dyn CommittedSource>> = vec![teller.committed()];
    let server = start("127.0.0.1:0", None, Role::Peer, sources, Limits::default());
    let server = server.await.unwrap();
    let (channel, user) = (connect(server.address, None, None).await, network.client());
    let commit = CommitStatusRequest {
        transaction_id: "none".into(),
        channel_id: CHANNEL.into(),
        identity: user.identity().to_vec(),
    };
    let events = ChaincodeEventsRequest {
        channel_id: CHANNEL.into(),
        chaincode_id: "cc".into(),
        identity: user.identity().to_vec(),
        start_position: Some(Position::block(0).into()),
        after_transaction_id: String::new(),
    };
    let (commit, events) = (signed(&user, &commit), signed(&user, &events));
    let waiting = tokio::spawn({
        let (channel, commit) = (channel.clone(), commit.clone());
        async move { status_of(&channel, commit).await }
    });
    let streaming = tokio::spawn({
        let (channel, events) = (channel.clone(), events.clone());
        async move { ended(&channel, events).await }
    });
    let info = || proposal(&user, "", "qscc", &[b"GetChainInfo", CHANNEL.as_bytes()]);
    let channels = || proposal(&user, "", "cscc", &[b"GetChannels"]);
    assert_eq!(propose(&channel, info()).await.status, 200);
    assert_eq!(propose(&channel, channels()).await.status, 200);
    assert!(!waiting.is_finished() && !streaming.is_finished());

    teller.withhold();
    assert_eq!(waiting.await.unwrap(), Err(Code::Unavailable));
    assert_eq!(streaming.await.unwrap(), Code::Unavailable);
    assert_eq!(status_of(&channel, commit).await, Err(Code::Unavailable));
    assert_eq!(ended(&channel, events).await, Code::Unavailable);
    let refused = one::<_, ProposalResponse>(&channel, PROPOSE, info())
        .await
        .unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable);
    assert!(
        refused.message().contains("configuration is not known"),
        "{refused}"
    );
    assert_eq!(propose(&channel, channels()).await.status, 500);
    server.stop().await.unwrap();
}

#[tokio::test]
async fn queries_without_an_answer_say_why() {
    let server = Server::plain(2).await;
    let (channel, user) = (server.channel().await, server.network.client());
    for (of, chaincode, args, said) in [
        (
            "",
            "qscc",
            &[&b"GetBlockByNumber"[..], b"lab", b"2"][..],
            "no such block number [2]",
        ),
        (
            "",
            "qscc",
            &[b"GetBlockByNumber", b"lab", b"+1"],
            "Failed to parse block number",
        ),
        ("", "qscc", &[b"GetBlockByNumber", b"lab"], "missing 3rd argument"),
        (
            "",
            "qscc",
            &[b"GetBlockByHash", b"lab", b"short"],
            "no such block hash",
        ),
        (
            "",
            "qscc",
            &[b"GetTransactionByID", b"lab", b"tx9"],
            "no such transaction ID [tx9]",
        ),
        (
            "",
            "qscc",
            &[b"GetChainInfo", b"other"],
            "Invalid chain ID, other",
        ),
        (
            "other",
            "qscc",
            &[b"GetChainInfo", b"lab"],
            "channel 'other' not found",
        ),
        (
            "",
            "qscc",
            &[b"Drop", b"lab", b""],
            "Requested function Drop not found",
        ),
        ("", "qscc", &[], "Requested function  not found"),
        (
            "",
            "cscc",
            &[b"JoinChain", b"block"],
            "a replica takes its channels from its configuration",
        ),
        (
            "",
            "cscc",
            &[b"GetConfigBlock", b"other"],
            "Unknown channel ID, other",
        ),
        ("lab", "cscc", &[b"Other"], "Requested function Other not found"),
    ] {
        let response = propose(&channel, proposal(&user, of, chaincode, args)).await;
        assert!(
            response.status == 500 && response.message.contains(said) && response.payload.is_empty(),
            "{said} is not in {response:?}"
        );
    }
    let query = proposal(&user, "lab", "qscc", &[b"GetChainInfo", b"lab"]);
    assert_eq!(propose(&channel, query.clone()).await.status, 200);
    // A proposal with a signature of another key, and a proposal with the signature of another proposal, are refused.
    let other = proposal(&user, "lab", "cscc", &[b"GetChannels"]);
    let swapped = SignedProposal {
        signature: other.signature.clone(),
        ..query.clone()
    };
    let refused = propose(&channel, swapped).await;
    assert!(
        refused
            .message
            .starts_with("access denied for [GetChainInfo][lab]"),
        "{}",
        refused.message
    );
    let listed = propose(&channel, other).await;
    let listed = ChannelQueryResponse::decode(listed.payload).unwrap();
    assert_eq!(
        listed
            .channels
            .iter()
            .map(|channel| channel.channel_id.as_str())
            .collect::<Vec<_>>(),
        [CHANNEL]
    );
    // Repeat the query with the gateway's Evaluate.
    let request = EvaluateRequest {
        proposed_transaction: Some(query),
    };
    let evaluated: EvaluateResponse = one(&channel, EVALUATE, request).await.unwrap();
    let info = BlockchainInfo::decode(evaluated.result.unwrap().payload).unwrap();
    assert_eq!(info.height, 2);
}

#[tokio::test]
async fn what_a_replica_cannot_do_is_unimplemented_and_says_what_to_use() {
    let server = Server::plain(1).await;
    let (channel, user) = (server.channel().await, server.network.client());
    for (path, said) in [
        (
            "/gateway.Gateway/Endorse",
            "send Endorse and Submit to a peer's gateway",
        ),
        (
            "/gateway.Gateway/Submit",
            "send Endorse and Submit to a peer's gateway",
        ),
        (
            "/protos.Deliver/DeliverWithPrivateData",
            "a replica holds no private data",
        ),
        ("/protos.Endorser/Other", "only ProcessProposal is served"),
        (
            "/discovery.Discovery/Discover",
            "a replica takes no part in discovery",
        ),
    ] {
        let status = one::<_, Empty>(&channel, path, SignedRequest::default())
            .await
            .unwrap_err();
        assert_eq!(status.code(), Code::Unimplemented, "{path}");
        assert!(status.message().contains(said), "{path}: {status:?}");
    }
    let call = proposal(&user, "lab", "basic", &[b"GetAllAssets"]);
    let request = EvaluateRequest {
        proposed_transaction: Some(call.clone()),
    };
    for status in [
        one::<_, Empty>(&channel, PROPOSE, call).await.unwrap_err(),
        one::<_, Empty>(&channel, EVALUATE, request).await.unwrap_err(),
    ] {
        assert_eq!(status.code(), Code::Unimplemented);
        assert!(
            status.message().contains("a replica executes no chaincode"),
            "{status:?}"
        );
    }
}

#[tokio::test]
async fn requests_that_are_too_long_or_empty_are_refused() {
    let server = Server::plain(1).await;
    let (channel, user) = (server.channel().await, server.network.client());
    let long = SignedRequest {
        request: vec![0; 64 << 10].into(),
        signature: Bytes::new(),
    };
    for path in [COMMIT, EVENTS, EVALUATE, PROPOSE] {
        let status = one::<_, Empty>(&channel, path, long.clone()).await.unwrap_err();
        assert_eq!(status.code(), Code::OutOfRange, "{path}: {status:?}");
    }
    let many = vec![&b"x"[..]; 20_000];
    let response = propose(&channel, proposal(&user, "", "qscc", &many)).await;
    assert_eq!(response.status, 500);
    let status = one::<_, Empty>(&channel, PROPOSE, SignedProposal::default())
        .await
        .unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
}

#[tokio::test(flavor = "multi_thread")]
async fn unread_streams_use_bounded_memory_and_other_clients_are_served() {
    const EVENT_BYTES: usize = 100 << 10;
    let large: Vec<Bytes> = (0..50).map(|number| large_event(number, EVENT_BYTES)).collect();
    let limits = Limits {
        transport: Transport {
            memory_bytes: 10 * EVENT_BYTES,
            ..Transport::default()
        },
        ..Limits::default()
    };
    let server = Server::new(large, &[], limits).await;
    let user = server.network.client();
    let lazy = server.channel().await;
    let mut unread = Vec::new();
    for _ in 0..30 {
        unread.push(stream(&lazy, server.events(&user, |_| {})).await);
    }
    let gate = &server.running.gate;
    let filled = async {
        while gate.bytes_under_way() < 2 * EVENT_BYTES {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(EVENT_TIMEOUT, filled).await.unwrap();
    // The limit counted messages when they were encoded, and a message may exist twice for a moment.
    assert!(
        gate.bytes_under_way() <= 2 * 10 * EVENT_BYTES,
        "{}",
        gate.bytes_under_way()
    );
    let other = server.channel().await;
    let answered = async {
        loop {
            match status_of(&other, server.commit(&user, "tx7")).await {
                // At this moment, the streams use all bytes that may be in transit.
                Err(Code::ResourceExhausted) => tokio::time::sleep(Duration::from_millis(5)).await,
                answer => return answer.unwrap(),
            }
        }
    };
    assert_eq!(
        tokio::time::timeout(EVENT_TIMEOUT, answered)
            .await
            .unwrap()
            .block_number,
        7
    );
    // A client that reads again gets all events.
    let mut events = unread.pop().unwrap();
    drop(unread);
    for number in 0..50 {
        let message = tokio::time::timeout(EVENT_TIMEOUT, events.message())
            .await
            .unwrap()
            .unwrap()
            .unwrap();
        assert_eq!(message.block_number, number);
        assert!(message.events[0].len() > EVENT_BYTES);
    }
}
