//! A ledger that is being written, as clients see it: block by block, when each is durable, and only who may read it.

mod common;

use common::{CHANNEL, MSP, Network, signer};
use lineside_fabric::block::Block;
use lineside_fabric::ledger::{LedgerError, Replica, Setup};
use lineside_fabric::proto::Arena;
use lineside_fabric_grpc::client::{Follower, Left, Options, Service};
use lineside_fabric_grpc::replica::{Teller, committed};
use lineside_fabric_grpc::serve::{Limits, Role, start};
use lineside_fabric_grpc::source::Memory;
use lineside_fabric_grpc::{Signer, Source};
use lineside_journal::{FsDisk, Options as JournalOptions, SimDisk};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

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
    let delivered = Memory::read(&folder, "orderer").unwrap();
    replica.add(delivered[0].to_vec()).unwrap();
    replica.flush().unwrap();
    let teller = committed(&replica).unwrap().unwrap();
    let source = teller.committed();
    let mut heights = source.heights();
    assert_eq!((source.channel(), *heights.borrow()), ("edge", 1));
    for (number, bytes) in (0..).zip(&delivered).skip(1) {
        let added = replica.add(bytes.to_vec()).unwrap();
        teller.taken(added.number, replica.validator().unwrap());
        let seen = heights.wait_for(|height| *height > number);
        tokio::time::timeout(Duration::from_secs(30), seen)
            .await
            .unwrap()
            .unwrap();
        // The orderer's block, with codes and commit hash in their places.
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

/// A replica whose disk is full, its teller, and its last block, which is not durable.
fn full() -> (SimDisk, Replica<SimDisk>, Teller<SimDisk>, u64) {
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
    let delivered = Memory::read(&folder, "orderer").unwrap();
    replica.add(delivered[0].to_vec()).unwrap();
    replica.flush().unwrap();
    let teller = committed(&replica).unwrap().unwrap();
    disk.set_capacity_bytes(Some(disk.used_bytes()));
    loop {
        let bytes = delivered[replica.next() as usize].to_vec();
        let number = replica.add(bytes).unwrap().number;
        teller.taken(number, replica.validator().unwrap());
        if let Err(LedgerError::Full { .. }) = replica.wait(number) {
            return (disk, replica, teller, number);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_block_is_shown_when_a_full_disk_has_taken_it() {
    let (disk, replica, teller, last) = full();
    let mut heights = teller.committed().heights();
    let patience = Duration::from_secs(30);
    for height in [last, last + 1] {
        let seen = heights.wait_for(|seen| *seen >= height);
        assert_eq!(
            *tokio::time::timeout(patience, seen).await.unwrap().unwrap(),
            height
        );
        // It has looked, and was told that there is no space; no other block comes.
        let more = tokio::time::timeout(Duration::from_millis(300), heights.changed()).await;
        assert!(more.is_err());
        disk.set_capacity_bytes(None);
    }
    drop(teller);
    replica.stop().unwrap();
}

#[test]
fn a_full_disk_keeps_no_teller_from_ending() {
    let (_disk, replica, teller, _) = full();
    drop(teller);
    assert!(replica.stop().is_err());
}

/// What comes first from a server at `endpoint`: a block's bytes, or why it was left.
async fn first(endpoint: String, by: Arc<Signer>) -> Result<bytes::Bytes, Left> {
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

#[tokio::test(flavor = "multi_thread")]
async fn only_readers_of_the_channel_are_served() {
    let directory = tempfile::tempdir().unwrap();
    let mut replica = replica(directory.path());
    let network = Network::new();
    replica.add(network.genesis(0, MEMBER, &[])).unwrap();
    replica.flush().unwrap();
    let teller = committed(&replica).unwrap().unwrap();
    let sources: Vec<Arc<dyn Source>> = vec![teller.committed()];
    let server = start("127.0.0.1:0", None, Role::Peer, sources, Limits::default())
        .await
        .unwrap();
    let endpoint = server.address.to_string();
    let block = first(endpoint.clone(), network.client()).await.unwrap();
    assert_eq!(block, teller.committed().block(0).unwrap());
    let stranger = signer(MSP, &Network::new().ca.pair("user", "client"));
    assert_eq!(first(endpoint, stranger).await, Err(Left::Status(403)));
    server.stop().await.unwrap();
}
