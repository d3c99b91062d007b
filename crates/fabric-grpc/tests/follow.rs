//! Tests of following an orderer: recorded blocks, and all kinds of failures.

mod common;

use common::{CHANNEL, Network, blocks, recorded};
use lineside_fabric::block::Block;
use lineside_fabric::listing::Listing;
use lineside_fabric::proto::Arena;
use lineside_fabric::{Options as Validation, Validator, replay};
use lineside_fabric_grpc::client::{
    BlockVerdict, Follower, LeaveReason, Options, ReadAheadVerdict, ReceivedBlock, follow, follow_ahead,
};
use lineside_fabric_grpc::mock::{Blocks, Orderer};
use lineside_fabric_grpc::source::{MemorySource, ReadAccess};
use lineside_testkit::ClosedPort;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

type LeaveReasons = Arc<Mutex<Vec<LeaveReason>>>;

fn options(network: &Network, endpoints: Vec<String>, from: u64) -> (Options, LeaveReasons) {
    let seen = LeaveReasons::default();
    let mut options = Options::new(endpoints, network.client(), CHANNEL, from);
    options.backoff = Duration::from_millis(5);
    let told = seen.clone();
    options.on_left = Some(Arc::new(move |_, left| told.lock().unwrap().push(left.clone())));
    (options, seen)
}

async fn orderer(count: u64) -> Orderer {
    let blocks = Blocks::new(CHANNEL, blocks(count), ReadAccess::Everybody);
    let orderer = Orderer::start("127.0.0.1:0", None, blocks).await.unwrap();
    orderer.blocks.show(u64::MAX);
    orderer
}

/// Follows until the block with number `last`, and returns the received blocks.
async fn take(options: Options, last: u64) -> Vec<ReceivedBlock> {
    let mut all = Vec::new();
    let follow = follow(options, |received| {
        let end = received.number == last;
        all.push(received);
        if end {
            BlockVerdict::Stop
        } else {
            BlockVerdict::Taken
        }
    });
    tokio::time::timeout(Duration::from_secs(60), follow)
        .await
        .unwrap();
    all
}

fn check(received: &[ReceivedBlock], from: u64, count: u64) {
    let expected = blocks(count);
    let numbers: Vec<u64> = received.iter().map(|received| received.number).collect();
    assert_eq!(numbers, (from..count).collect::<Vec<_>>());
    for received in received {
        assert_eq!(received.bytes, expected[received.number as usize]);
    }
}

/// Validates the recorded sets through Deliver: codes and commit hashes equal the peer's.
async fn validated(folder: PathBuf) {
    let manifest = std::fs::read_to_string(folder.join("manifest.json")).unwrap();
    // The genesis block has no commit hash.
    let hashes = manifest
        .split("\"commit_hash\": \"")
        .map(|rest| rest.split('"').next().unwrap());
    let hashes: Vec<&str> = hashes.collect();
    let delivered = MemorySource::read(&folder, "orderer").unwrap();
    let network = Network::new();
    let channel = Block::read(&delivered[0], &Arena::new())
        .unwrap()
        .channel()
        .unwrap();
    let blocks = Blocks::new(&channel, delivered.clone(), ReadAccess::Everybody);
    let orderer = Orderer::start("127.0.0.1:0", Some(network.server_tls(true)), blocks)
        .await
        .unwrap();
    orderer.blocks.show(10);
    orderer.show_one_every(Duration::from_millis(1));
    orderer.blocks.cut_before(7);
    let (mut options, seen) = options(&network, vec![orderer.endpoint()], 0);
    options.channel = channel;
    options.tls = Some(network.client_tls(Some(&network.tls_ca.pair("user", "client"))));
    let mut validator: Option<Validator> = None;
    let last = delivered.len() as u64 - 1;
    let follow = follow(options, |received| {
        let number = received.number;
        assert!(
            received.bytes == delivered[number as usize],
            "block {number} changed on the way"
        );
        let Some(validator) = &mut validator else {
            validator = Some(Validator::new(&received.bytes, Validation::default()).unwrap());
            return BlockVerdict::Taken;
        };
        let validated = validator.validate(&received.bytes).unwrap();
        assert_eq!(
            replay::hex(&validated.commit_hash.unwrap()),
            hashes[number as usize],
            "block {number}"
        );
        if let Some(committed) = replay::read(&folder, number, "committed").unwrap() {
            let arena = Arena::new();
            assert_eq!(
                validated.filter(),
                Block::read(&committed, &arena).unwrap().filter()
            );
        }
        validator.commit(validated);
        if let Some(listing) = Listing::read(&folder, number).unwrap() {
            let differences = listing.differences(validator.state());
            assert_eq!(differences, Vec::<String>::new(), "after block {number}");
        }
        if number == last {
            BlockVerdict::Stop
        } else {
            BlockVerdict::Taken
        }
    });
    tokio::time::timeout(Duration::from_secs(120), follow)
        .await
        .unwrap();
    assert!(matches!(seen.lock().unwrap()[..], [LeaveReason::Broken(_)]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_blocks_in_the_repository_validated_from_deliver() {
    let data = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../fabric/tests/data");
    for set in ["edge", "btl", "ed25519", "msp"] {
        validated(data.join(set)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_recorded_sets_validated_from_deliver() {
    let live = ["dev-live/btl", "dev-live/ed25519", "dev-live/msp"];
    for set in ["dev", "dev-edge"].into_iter().chain(live) {
        let Some(folder) = recorded(set) else { return };
        validated(folder).await;
    }
}

#[tokio::test]
async fn blocks_come_as_they_are_and_from_where_they_are_asked() {
    let network = Network::new();
    let orderer = orderer(20).await;
    for from in [0, 7, 19] {
        let (options, seen) = options(&network, vec![orderer.endpoint()], from);
        check(&take(options, 19).await, from, 20);
        assert!(seen.lock().unwrap().is_empty());
    }
}

#[tokio::test]
async fn a_block_that_is_not_there_yet_is_waited_for() {
    let network = Network::new();
    let blocks = Blocks::new(CHANNEL, blocks(5), ReadAccess::Everybody);
    let orderer = Orderer::start("127.0.0.1:0", None, blocks).await.unwrap();
    orderer.blocks.show(2);
    let (options, seen) = options(&network, vec![orderer.endpoint()], 0);
    let mut follower = Follower::new(options);
    assert_eq!(follower.next().await.number, 0);
    assert_eq!(follower.next().await.number, 1);
    let waiting = tokio::time::timeout(Duration::from_millis(50), follower.next()).await;
    assert!(waiting.is_err());
    orderer.blocks.show(5);
    for number in 2..5 {
        assert_eq!(follower.next().await.number, number);
    }
    assert!(seen.lock().unwrap().is_empty());
}

#[tokio::test]
async fn cut_streams_are_taken_up_at_the_next_block() {
    let network = Network::new();
    let orderer = orderer(30).await;
    for number in [0, 3, 4, 17, 29] {
        orderer.blocks.cut_before(number);
    }
    let (options, seen) = options(&network, vec![orderer.endpoint()], 0);
    check(&take(options, 29).await, 0, 30);
    assert_eq!(seen.lock().unwrap().len(), 5);
    assert_eq!(orderer.blocks.requests(), 6);
}

/// Starts a relay to a server and returns its address. The relay passes 100 bytes to the client and then drops both
/// connections; each further connection passes 1,777 bytes more than the one before.
async fn relay(to: std::net::SocketAddr) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        for connection in 0.. {
            let (mut client, _) = listener.accept().await.unwrap();
            let mut server = TcpStream::connect(to).await.unwrap();
            let (mut left, mut buffer) = (100 + connection * 1_777, [0; 512]);
            let (mut from_client, mut to_client) = client.split();
            let (mut from_server, mut to_server) = server.split();
            let up = tokio::io::copy(&mut from_client, &mut to_server);
            let down = async {
                while left > 0 {
                    let length = from_server.read(&mut buffer).await.unwrap_or(0);
                    if length == 0 {
                        return;
                    }
                    let passed = length.min(left);
                    left -= passed;
                    if to_client.write_all(&buffer[..passed]).await.is_err() {
                        return;
                    }
                }
            };
            tokio::select! { _ = up => {}, () = down => {} }
        }
    });
    address
}

#[tokio::test]
async fn connections_that_break_anywhere_lose_nothing() {
    let network = Network::new();
    let orderer = orderer(60).await;
    let relay = relay(orderer.running.address).await;
    let (options, seen) = options(&network, vec![relay], 0);
    check(&take(options, 59).await, 0, 60);
    assert!(seen.lock().unwrap().len() > 2);
}

#[tokio::test]
async fn a_follower_asks_another_endpoint_when_one_fails() {
    let network = Network::new();
    let closed = ClosedPort::new();
    let (forbids, works) = (orderer(10).await, orderer(10).await);
    forbids.blocks.forbid(true);
    let endpoints = vec![
        closed.address().to_string(),
        "::not a name::".to_owned(),
        forbids.endpoint(),
        works.endpoint(),
    ];
    let (options, seen) = options(&network, endpoints, 0);
    check(&take(options, 9).await, 0, 10);
    let seen = seen.lock().unwrap();
    assert!(
        matches!(
            seen[..],
            [
                LeaveReason::Connect(_),
                LeaveReason::Connect(_),
                LeaveReason::Status(403)
            ]
        ),
        "{seen:?}"
    );
}

#[tokio::test]
async fn a_wrong_block_is_asked_for_again_elsewhere() {
    let network = Network::new();
    let (one, two) = (orderer(10).await, orderer(10).await);
    one.blocks.send_instead(3, blocks(9)[8].clone());
    two.blocks.send_instead(5, bytes::Bytes::from_static(b"no block"));
    let (options, seen) = options(&network, vec![one.endpoint(), two.endpoint()], 0);
    check(&take(options, 9).await, 0, 10);
    let seen = seen.lock().unwrap();
    assert!(
        matches!(seen[..], [LeaveReason::NotNext(_), LeaveReason::NotNext(_)]),
        "{seen:?}"
    );
    assert_eq!((one.blocks.requests(), two.blocks.requests()), (2, 1));
}

#[tokio::test]
async fn a_refused_block_is_asked_for_again_elsewhere() {
    let network = Network::new();
    let (one, two) = (orderer(10).await, orderer(10).await);
    let (options, seen) = options(&network, vec![one.endpoint(), two.endpoint()], 0);
    let (mut all, mut refused) = (Vec::new(), false);
    let follow = follow(options, |received| {
        let number = received.number;
        if number == 4 && !std::mem::replace(&mut refused, true) {
            return BlockVerdict::Refused("its data hash is wrong".to_owned());
        }
        all.push(received);
        if number == 9 {
            BlockVerdict::Stop
        } else {
            BlockVerdict::Taken
        }
    });
    tokio::time::timeout(Duration::from_secs(60), follow)
        .await
        .unwrap();
    check(&all, 0, 10);
    assert!(matches!(seen.lock().unwrap()[..], [LeaveReason::Refused(_)]));
    assert_eq!(two.blocks.requests(), 1);
}

/// If a block is refused and there is no other endpoint, the follower requests the block again at growing intervals.
#[tokio::test]
async fn a_block_refused_again_and_again_is_waited_for_longer() {
    const TIMES: u32 = 6;
    let network = Network::new();
    let only = orderer(10).await;
    let (mut options, seen) = options(&network, vec![only.endpoint()], 0);
    options.backoff = Duration::from_millis(20);
    let (mut refused, began) = (0, std::time::Instant::now());
    let follow = follow(options, |received| match received.number {
        4 if refused < TIMES => {
            refused += 1;
            BlockVerdict::Refused("its data hash is wrong".to_owned())
        }
        9 => BlockVerdict::Stop,
        _ => BlockVerdict::Taken,
    });
    tokio::time::timeout(Duration::from_secs(60), follow)
        .await
        .unwrap();
    // The first pause is 20 ms, and each further pause is twice as long; a quarter of each pause is random.
    assert!(
        began.elapsed() >= Duration::from_millis(20 * 63 * 3 / 4),
        "{:?}",
        began.elapsed()
    );
    assert_eq!(seen.lock().unwrap().len() as u32, TIMES);
}

/// A caller that processes a block only when the next block has arrived refuses a block late; the follower then
/// delivers both blocks again. When no further block is available, the follower notifies the caller, so that the caller
/// processes the last block too.
#[tokio::test]
async fn a_block_refused_late_is_requested_again_with_the_blocks_after_it() {
    let network = Network::new();
    let (one, two) = (orderer(10).await, orderer(10).await);
    let (options, seen) = options(&network, vec![one.endpoint(), two.endpoint()], 0);
    let (mut all, mut begun, mut refused) = (Vec::new(), None::<ReceivedBlock>, false);
    let read = Notify::new();
    let follow = follow_ahead(options, &read, |received| {
        let before = match received {
            Some(next) => {
                read.notify_one();
                begun.replace(next)
            }
            None => begun.take(),
        };
        let Some(before) = before else {
            return ReadAheadVerdict::On;
        };
        let number = before.number;
        if number == 4 && !std::mem::replace(&mut refused, true) {
            begun = None;
            return ReadAheadVerdict::Back(4, "its data hash is wrong".to_owned());
        }
        all.push(before);
        if number == 9 {
            ReadAheadVerdict::Stop
        } else {
            ReadAheadVerdict::On
        }
    });
    tokio::time::timeout(Duration::from_secs(60), follow)
        .await
        .unwrap();
    check(&all, 0, 10);
    assert!(matches!(seen.lock().unwrap()[..], [LeaveReason::Refused(_)]));
    assert_eq!(two.blocks.requests(), 1);
}

#[tokio::test]
async fn a_follower_leaves_an_orderer_that_withholds_blocks() {
    let network = Network::new();
    let withholds = Blocks::new(CHANNEL, blocks(10), ReadAccess::Everybody);
    let withholds = Orderer::start("127.0.0.1:0", None, withholds).await.unwrap();
    withholds.blocks.show(4);
    let works = orderer(10).await;
    let (mut options, seen) = options(&network, vec![withholds.endpoint(), works.endpoint()], 0);
    options.patience = Duration::from_millis(300);
    check(&take(options, 9).await, 0, 10);
    assert!(seen.lock().unwrap().contains(&LeaveReason::Silent));
}

#[tokio::test]
async fn no_request_is_sent_to_an_untrusted_server() {
    let (network, other) = (Network::new(), Network::new());
    let blocks = Blocks::new(CHANNEL, blocks(3), ReadAccess::Everybody);
    let orderer = Orderer::start("127.0.0.1:0", Some(other.server_tls(false)), blocks)
        .await
        .unwrap();
    let (mut options, seen) = options(&network, vec![orderer.endpoint()], 0);
    options.tls = Some(network.client_tls(None));
    let mut follower = Follower::new(options);
    let waiting = tokio::time::timeout(Duration::from_millis(500), follower.next()).await;
    assert!(waiting.is_err());
    assert!(matches!(seen.lock().unwrap()[0], LeaveReason::Connect(_)));
    assert_eq!(orderer.blocks.requests(), 0);
}

/// Follows an orderer until the follower leaves it for a reason that contains `said`; returns that reason.
async fn left_because(
    address: &str,
    tls: Option<lineside_fabric_grpc::ClientTls>,
    said: &str,
) -> LeaveReason {
    let network = Network::new();
    let (mut options, seen) = options(&network, vec![address.to_owned()], 0);
    options.tls = tls;
    let mut follower = Follower::new(options);
    let found = || {
        let seen = seen.lock().unwrap();
        seen.iter().find(|left| left.to_string().contains(said)).cloned()
    };
    let waiting = async {
        loop {
            // The alert about a refused certificate may arrive after the connection has failed. The loop therefore lets
            // the follower try again.
            let _ = tokio::time::timeout(Duration::from_millis(50), follower.next()).await;
            if let Some(left) = found() {
                return left;
            }
        }
    };
    let left = tokio::time::timeout(Duration::from_secs(30), waiting).await;
    left.unwrap_or_else(|_| panic!("{said} is not among {:?}", seen.lock().unwrap()))
}

#[tokio::test]
async fn permanent_refusals_say_what_to_do() {
    let (network, other) = (Network::new(), Network::new());
    let blocks = Blocks::new(CHANNEL, blocks(3), ReadAccess::Everybody);
    blocks.forbid(true);
    let orderer = Orderer::start("127.0.0.1:0", Some(network.server_tls(true)), blocks);
    let orderer = orderer.await.unwrap();
    let address = orderer.endpoint();
    let pair = network.tls_ca.pair("client", "client");
    let foreign = other.tls_ca.pair("client", "client");
    let good = || network.client_tls(Some(&pair));
    for (tls, said) in [
        (network.client_tls(None), "give tls_certificate and tls_key"),
        (
            network.client_tls(Some(&foreign)),
            "does not accept the TLS certificate",
        ),
        (
            other.client_tls(Some(&pair)),
            "tls_ca does not hold the CA of the endpoint's certificate",
        ),
        (
            good().server_name("elsewhere"),
            "has another host name: give it as tls_host_name",
        ),
        (good(), "status 403: the channel's policy"),
    ] {
        let left = left_because(&address, Some(tls), said).await;
        assert!(left.is_final(), "{left:?}");
    }
    assert!(!LeaveReason::Status(503).is_final() && !LeaveReason::Silent.is_final());
    assert!(!LeaveReason::Connect("tcp connect error: Connection refused (os error 111)".into()).is_final());
}

#[tokio::test]
async fn an_orderer_without_a_newer_block_holds_the_request() {
    let network = Network::new();
    let orderer = orderer(3).await;
    let (mut options, seen) = options(&network, vec![orderer.endpoint()], 3);
    let held = Arc::new(Notify::new());
    let told = held.clone();
    options.on_held = Some(Arc::new(move |_| told.notify_one()));
    let mut follower = Follower::new(options);
    tokio::select! {
        received = follower.next() => panic!("{received:?}"),
        () = held.notified() => {}
        () = tokio::time::sleep(Duration::from_secs(30)) => panic!("the endpoint is not reported to hold the request"),
    }
    assert_eq!(seen.lock().unwrap()[..], []);
}
