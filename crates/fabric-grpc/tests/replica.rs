//! Tests of the ledger of a running replica, as clients see it: a client gets each block when it is durable, and only
//! if the client is permitted to read.

mod common;

use common::{CHANNEL, MSP, Network, signer};
use lineside_fabric::block::Block;
use lineside_fabric::ledger::results::{Publisher, Results};
use lineside_fabric::ledger::{LedgerError, Replica, Setup};
use lineside_fabric::proto::Arena;
use lineside_fabric::{Error, Refused};
use lineside_fabric_grpc::client::{Follower, LeaveReason, Options, Service};
use lineside_fabric_grpc::replica::{CommitNotifier, committed};
use lineside_fabric_grpc::serve::{Limits, Role, start};
use lineside_fabric_grpc::source::MemorySource;
use lineside_fabric_grpc::{CommittedSource, Running, Signer};
use lineside_journal::{FsDisk, Options as JournalOptions, SimDisk};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const MEMBER: u64 = 0;

fn replica(directory: &Path) -> Replica<FsDisk> {
    let disk = FsDisk::open(directory).unwrap();
    Replica::open(disk, Setup::default(), None).unwrap().0
}

#[tokio::test(flavor = "multi_thread")]
async fn blocks_are_seen_with_their_codes_as_they_become_durable() {
    let directory = tempfile::tempdir().unwrap();
    let mut replica = replica(directory.path());
    assert!(committed(&replica).unwrap().is_none(), "there is no channel yet");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fabric/tests/data/edge");
    let delivered = MemorySource::read(&folder, "orderer").unwrap();
    replica.add(delivered[0].to_vec()).unwrap();
    replica.flush().unwrap();
    let teller = committed(&replica).unwrap().unwrap();
    let source = teller.committed();
    let mut heights = source.heights();
    assert_eq!((source.channel(), *heights.borrow()), ("edge", 1));
    for (number, bytes) in (0..).zip(&delivered).skip(1) {
        let added = replica.add(bytes.to_vec()).unwrap();
        teller.block_taken(added.number, replica.validator().unwrap());
        let seen = heights.wait_for(|height| *height > number);
        tokio::time::timeout(Duration::from_secs(30), seen)
            .await
            .unwrap()
            .unwrap();
        // The served block is the orderer's block with codes and commit hash in its metadata.
        let (arena, served) = (Arena::new(), source.block(number).unwrap());
        let served = Block::read(&served, &arena).unwrap();
        let codes: Vec<u8> = added.codes.iter().map(|code| *code as u8).collect();
        assert_eq!(served.metadata[2], codes, "block {number}");
        let commit_hash = added.commit_hash.unwrap();
        assert!(served.metadata[4].ends_with(&commit_hash), "block {number}");
        let of_orderer = Block::read(bytes, &arena).unwrap();
        assert_eq!(served.transactions, of_orderer.transactions);
        assert_eq!(served.metadata[0], of_orderer.metadata[0]);
    }
    assert!(source.block(delivered.len() as u64).is_err());
    drop(teller);
    replica.stop().unwrap();
}

/// Returns the block with a changed last byte of its last signature.
fn wrongly_signed(block: &[u8]) -> Vec<u8> {
    let arena = Arena::new();
    let of = Block::read(block, &arena).unwrap();
    let signature = &of.signatures(|_| None, false).unwrap()[0].signature;
    let at = block
        .windows(signature.len())
        .rposition(|window| window == signature.as_slice())
        .unwrap();
    let mut wrong = block.to_vec();
    wrong[at + signature.len() - 1] ^= 1;
    wrong
}

/// Returns everything that is visible of a replica: the ledger's height, its state, ids, results and delivered blocks.
fn seen(
    replica: &Replica<FsDisk>,
    source: &dyn CommittedSource,
    results: &Results,
    number: u64,
) -> [String; 6] {
    let validator = replica.validator().unwrap();
    [
        format!("{} {}", replica.blocks().count(), replica.durable()),
        format!("{:?} {:?}", validator.last_hash(), validator.commit_hash()),
        format!("{:?} {:?}", validator.state(), validator.ids()),
        format!("{:?}", results.newest().map(|newest| newest.number)),
        format!("{:?}", results.block(number).is_some()),
        format!(
            "{} {:?}",
            *source.heights().borrow(),
            source.block(number).is_ok()
        ),
    ]
}

#[test]
fn nothing_of_a_block_is_seen_before_it_is_whole_and_signed() {
    let directory = tempfile::tempdir().unwrap();
    let results = Publisher::anonymous(8).unwrap();
    let shown = results.results();
    let disk = FsDisk::open(directory.path()).unwrap();
    let (mut replica, _) = Replica::open(disk, Setup::default(), Some(results)).unwrap();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fabric/tests/data/edge");
    let delivered = MemorySource::read(&folder, "orderer").unwrap();
    assert!(replica.early().unwrap().is_none(), "there is no channel yet");
    replica.add(delivered[0].to_vec()).unwrap();
    replica.flush().unwrap();
    let early = replica.early().unwrap().unwrap();
    let teller = committed(&replica).unwrap().unwrap();
    let source = teller.committed();
    let mut used = 0;
    for (number, bytes) in (0..).zip(&delivered).skip(1) {
        let before = seen(&replica, &*source, &shown, number);
        let arena = Arena::new();
        let transactions = Block::read(bytes, &arena).unwrap().transactions;
        let come = || {
            let verified = early.counts().verified + transactions.len() as u64;
            for (index, envelope) in (0..).zip(&transactions) {
                early.put(number, index, envelope);
            }
            let began = Instant::now();
            while early.counts().verified < verified {
                assert!(began.elapsed() < Duration::from_secs(30), "{:?}", early.counts());
                std::thread::yield_now();
            }
        };
        come();
        assert_eq!(seen(&replica, &*source, &shown, number), before, "block {number}");
        // All transactions of the block arrived early, but the block has no valid signature of an orderer.
        let refused = replica.add(wrongly_signed(bytes)).unwrap_err();
        assert!(
            matches!(
                refused,
                LedgerError::Validation {
                    source: Error::Refused(Refused::Signature),
                    ..
                }
            ),
            "{refused}"
        );
        assert_eq!(
            early.memory_bytes(),
            0,
            "the early transactions of a refused block must be dropped"
        );
        assert_eq!(seen(&replica, &*source, &shown, number), before, "block {number}");
        if number % 2 == 0 {
            come();
            used += transactions.len() as u64;
        }
        let added = replica.add(bytes.to_vec()).unwrap();
        assert_eq!(early.counts().used, used);
        teller.block_taken(added.number, replica.validator().unwrap());
        replica.flush().unwrap();
        let began = Instant::now();
        while *source.heights().borrow() <= number || shown.block(number).is_none() {
            assert!(began.elapsed() < Duration::from_secs(30));
            std::thread::yield_now();
        }
    }
    assert!(used > 0);
    drop(teller);
    replica.stop().unwrap();
}

/// Returns the disk, a replica whose disk is full, the replica's notifier, and the number of its last block, which is
/// not durable.
fn full() -> (SimDisk, Replica<SimDisk>, CommitNotifier<SimDisk>, u64) {
    let sizes = JournalOptions {
        segment_bytes: 64 << 10,
        record_bytes_max: 4 << 10,
        group_bytes_max: 24 << 10,
        ..JournalOptions::default()
    };
    let setup = Setup {
        journal: sizes,
        checkpoint_after: 0,
        ..Setup::default()
    };
    let disk = SimDisk::new(9);
    let (mut replica, _) = Replica::open(disk.clone(), setup, None).unwrap();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fabric/tests/data/edge");
    let delivered = MemorySource::read(&folder, "orderer").unwrap();
    replica.add(delivered[0].to_vec()).unwrap();
    replica.flush().unwrap();
    let teller = committed(&replica).unwrap().unwrap();
    disk.set_capacity_bytes(Some(disk.used_bytes()));
    loop {
        let bytes = delivered[replica.next() as usize].to_vec();
        let number = replica.add(bytes).unwrap().number;
        teller.block_taken(number, replica.validator().unwrap());
        if let Err(LedgerError::Full { .. }) = replica.wait(number) {
            return (disk, replica, teller, number);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_block_is_visible_once_a_full_disk_has_stored_it() {
    let (disk, replica, teller, last) = full();
    let mut heights = teller.committed().heights();
    let patience = Duration::from_secs(30);
    for height in [last, last + 1] {
        let seen = heights.wait_for(|seen| *seen >= height);
        assert_eq!(
            *tokio::time::timeout(patience, seen).await.unwrap().unwrap(),
            height
        );
        // Meanwhile the thread has checked the disk several times. There is still no space, so no block becomes
        // visible.
        let more = tokio::time::timeout(Duration::from_millis(300), heights.changed()).await;
        assert!(more.is_err());
        disk.set_capacity_bytes(None);
    }
    drop(teller);
    replica.stop().unwrap();
}

#[test]
fn a_commit_notifier_ends_also_with_a_full_disk() {
    let (_disk, replica, teller, _) = full();
    drop(teller);
    assert!(replica.stop().is_err());
}

/// Follows the server at `endpoint` and returns the first event: the bytes of a block, or the reason why the follower
/// left the server.
async fn first(endpoint: String, by: Arc<Signer>) -> Result<bytes::Bytes, LeaveReason> {
    let (left, told) = (Arc::new(Mutex::new(None)), Arc::new(tokio::sync::Notify::new()));
    let mut options = Options::new(vec![endpoint], by, CHANNEL, 0);
    options.service = Service::Peer;
    let (left_too, told_too) = (Arc::clone(&left), Arc::clone(&told));
    options.on_left = Some(Arc::new(move |_, why| {
        *left_too.lock().unwrap() = Some(why.clone());
        told_too.notify_one();
    }));
    let mut follower = Follower::new(options);
    tokio::select! {
        received = follower.next() => Ok(received.bytes),
        () = told.notified() => Err(left.lock().unwrap().clone().unwrap()),
    }
}

/// Adds the genesis block of `network` to the replica, and serves it as a peer does.
async fn serve_genesis(
    replica: &mut Replica<FsDisk>,
    network: &Network,
) -> (CommitNotifier<FsDisk>, Running) {
    replica.add(network.genesis(0, MEMBER, &[])).unwrap();
    replica.flush().unwrap();
    let teller = committed(replica).unwrap().unwrap();
    let sources: Vec<Arc<dyn CommittedSource>> = vec![teller.committed()];
    let server = start("127.0.0.1:0", None, Role::Peer, sources, Limits::default());
    (teller, server.await.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn only_readers_of_the_channel_are_served() {
    let directory = tempfile::tempdir().unwrap();
    let mut replica = replica(directory.path());
    let network = Network::new();
    let (teller, server) = serve_genesis(&mut replica, &network).await;
    let endpoint = server.address.to_string();
    let block = first(endpoint.clone(), network.client()).await.unwrap();
    assert_eq!(block, teller.committed().block(0).unwrap());
    let stranger = signer(MSP, &Network::new().ca.pair("user", "client"));
    assert_eq!(first(endpoint, stranger).await, Err(LeaveReason::Status(403)));
    server.stop().await.unwrap();
}

/// If the channel's configuration is no longer known, streams that wait for a block and new calls end with 503, even
/// those of clients that could read before.
#[tokio::test(flavor = "multi_thread")]
async fn no_client_is_served_when_the_configuration_is_unknown() {
    let directory = tempfile::tempdir().unwrap();
    let mut replica = replica(directory.path());
    let network = Network::new();
    let (teller, server) = serve_genesis(&mut replica, &network).await;
    let endpoint = server.address.to_string();
    let (left, mut told) = tokio::sync::mpsc::unbounded_channel();
    let mut options = Options::new(vec![endpoint.clone()], network.client(), CHANNEL, 0);
    options.service = Service::Peer;
    options.on_left = Some(Arc::new(move |_, why| drop(left.send(why.clone()))));
    let mut follower = Follower::new(options);
    assert_eq!(follower.next().await.number, 0);
    let waiting = tokio::spawn(async move { follower.next().await.number });
    teller.withhold();
    let patience = Duration::from_secs(30);
    let ended = tokio::time::timeout(patience, told.recv()).await.unwrap();
    assert_eq!(ended, Some(LeaveReason::Status(503)));
    assert_eq!(
        first(endpoint, network.client()).await,
        Err(LeaveReason::Status(503))
    );
    waiting.abort();
    server.stop().await.unwrap();
}
