//! Attack `kill` on `fabric` with its state on the disk. A client follows the committed blocks of the replica over all
//! kills. A block that the client received must be in the ledger before the replica runs again, with the validation
//! codes that the generator expects. In the end, the state must equal the state of a replica that was never killed.

use super::{Load, REQUEST_TIMEOUT, under_load};
use crate::channel::{self, Channel};
use crate::service::Service;
use crate::{Report, Scene};
use anyhow::{Context, ensure};
use lineside_fabric::block::Block;
use lineside_fabric::proto::{self, Arena};
use lineside_fabric_grpc::client::{Options, Service as Deliver};
use lineside_fabric_grpc::{Follower, Signer};
use lineside_fabric_maker::{MadeBlock, Workload};
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tokio::runtime::Runtime;

/// Number of transactions in a block.
const BLOCK: usize = 20;
/// Number of transactions in a thousand that a peer marks as invalid.
const FAULTY: usize = 100;
/// Time between two blocks that the orderer delivers.
const PACE: Duration = Duration::from_millis(5);
/// Maximum time to wait for a block before the client checks whether the attack is over.
const BLOCK_WAIT_MAX: Duration = Duration::from_millis(100);
/// Number of transactions that the case looks up by their ids.
const IDS: usize = 20;
/// Maximum number of keys that `lineside fabric state` lists.
const KEYS_MAX: &str = "1000000";

/// Runs the case with the state in the database fjall.
pub fn fabric(scene: &Scene, report: &mut Report) -> anyhow::Result<()> {
    let runtime = Runtime::new()?;
    let load = Load::default();
    let most = scene.scale.of(1_000, 2_000);
    let workload = Workload {
        keys: 400,
        block: BLOCK,
        transactions: scene.scale.of(5_000, 90_000),
        faulty: FAULTY,
        ..Workload::default()
    };
    let channel = Channel::start(&runtime, workload)?;
    let mut service = channel.replica(scene, "state = \"fjall\"\n")?;
    let server = service.start(None)?;
    let seen = AtomicU64::new(0);
    let client = Client {
        signer: Arc::new(channel.reader(&service)?),
        endpoint: server.listen.to_string(),
        blocks: &channel.blocks,
        seen: &seen,
    };
    let _orders = runtime.enter();
    channel.orderer.show_one_every(PACE);
    let clients = [&client].map(|client| {
        let (load, runtime) = (&load, runtime.handle());
        move || runtime.block_on(client.follow(load))
    });
    let look = |service: &Service, report: &mut Report| look_at(service, &seen, report);
    let (server, _) = under_load(&load, clients.into_iter(), || {
        load.kill_and_look(scene, &mut service, server, report, most, look)
    })?;
    load.tell(report);
    report.peak(server.peak_bytes());
    channel.orderer.blocks.show(channel.height());
    runtime.block_on(client.all(report))?;
    server.terminate()?;
    compare(scene, &channel, &service, report)
}

/// Compares the ledger of a replica that was killed with the blocks that the client has received.
fn look_at(service: &Service, seen: &AtomicU64, report: &mut Report) -> anyhow::Result<()> {
    let seen = seen.load(Relaxed);
    let (_, said) = service.command(&["fabric", "--json", "status", "--data", "data"])?;
    let status: Value = serde_json::from_str(said.trim()).with_context(|| said.clone())?;
    let held = status["blocks"]
        .as_u64()
        .context("the status has no height of the ledger")?;
    for number in held..seen {
        report.lose(format!(
            "the client received block {number}, but the ledger has {held} blocks"
        ));
    }
    Ok(())
}

/// Client that follows the blocks of a replica.
struct Client<'a> {
    signer: Arc<Signer>,
    endpoint: String,
    /// Blocks of the channel.
    blocks: &'a [MadeBlock],
    /// Number of blocks that the client has received.
    seen: &'a AtomicU64,
}

impl Client<'_> {
    fn follower(&self, from: u64) -> Follower {
        let (endpoints, signer) = (vec![self.endpoint.clone()], Arc::clone(&self.signer));
        let mut options = Options::new(endpoints, signer, channel::NAME, from);
        options.service = Deliver::Peer;
        options.backoff = Duration::from_millis(20);
        options.on_left = Some(Arc::new(|_, _| {}));
        Follower::new(options)
    }

    /// Receives blocks until the attack is over. A received block acknowledges its transactions.
    async fn follow(&self, load: &Load) {
        let mut follower = self.follower(0);
        while !load.is_over() {
            let Ok(received) = tokio::time::timeout(BLOCK_WAIT_MAX, follower.next()).await else {
                continue;
            };
            let made = &self.blocks[received.number as usize];
            if let Some(fault) = difference(made, &received.bytes) {
                load.fault(fault);
            }
            self.seen.store(received.number + 1, Relaxed);
            load.acknowledge(made.codes.len() as u64);
        }
    }

    /// Reads all blocks, beginning with the first one.
    async fn all(&self, report: &mut Report) -> anyhow::Result<()> {
        let mut follower = self.follower(0);
        for block in self.blocks {
            let next = tokio::time::timeout(REQUEST_TIMEOUT, follower.next()).await;
            let next = next.with_context(|| format!("block {} did not arrive", block.number))?;
            report.count("blocks", 1);
            if let Some(fault) = difference(block, &next.bytes) {
                report.fault(fault);
            }
        }
        Ok(())
    }
}

/// Returns a description of the difference between the codes in a block of the replica and the expected codes.
fn difference(made: &MadeBlock, received: &[u8]) -> Option<String> {
    let arena = Arena::new();
    let codes = match Block::read(received, &arena) {
        Ok(block) => block.filter().to_vec(),
        Err(error) => return Some(format!("block {}: {error}", made.number)),
    };
    let expected: Vec<u8> = made.codes.iter().map(|code| *code as u8).collect();
    (codes != expected).then(|| {
        format!(
            "block {}: the codes are {codes:?}, but should be {expected:?}",
            made.number
        )
    })
}

/// Verifies the ledger, and compares its state with that of a replica that was never killed.
fn compare(scene: &Scene, channel: &Channel, killed: &Service, report: &mut Report) -> anyhow::Result<()> {
    let (is_right, said) = killed.command(&["fabric", "verify-ledger", "--data", "data"])?;
    ensure!(is_right, "`lineside fabric verify-ledger`: {said}");
    ids(channel, killed, report)?;
    let mut twin = channel.replica(scene, "state = \"memory\"\n")?;
    let server = twin.start(None)?;
    channel::wait_for(&server, channel.height(), REQUEST_TIMEOUT)?;
    server.terminate()?;
    let (expected, found) = (state(&twin)?, state(killed)?);
    report.count("keys", expected.len() as u64);
    ensure!(!expected.is_empty(), "the channel has no keys");
    for line in expected.iter().filter(|line| !found.contains(line)) {
        report.fault(format!("the state lacks {line}"));
    }
    ensure!(
        expected.len() == found.len(),
        "the state has {} keys, not {}",
        found.len(),
        expected.len()
    );
    Ok(())
}

/// Looks up the first transaction of some blocks in the ledger. Each must be present with its code.
fn ids(channel: &Channel, killed: &Service, report: &mut Report) -> anyhow::Result<()> {
    let step = (channel.blocks.len() / IDS).max(1);
    for block in channel.blocks.iter().step_by(step) {
        let Some(id) = first_id(&block.bytes) else {
            continue;
        };
        let (is_there, said) = killed.command(&["fabric", "--json", "tx", &id, "--data", "data"])?;
        ensure!(is_there, "transaction {id} of block {}: {said}", block.number);
        let found: Value = serde_json::from_str(said.trim()).with_context(|| said.clone())?;
        report.count("ids", 1);
        // If an id occurs in several blocks, it belongs to the first one.
        let number = found["block"]
            .as_u64()
            .context("the transaction has no block number")?;
        if number > block.number {
            report.fault(format!(
                "transaction {id} is in block {}, but the ledger says block {number}",
                block.number
            ));
        }
    }
    Ok(())
}

/// Returns the id of a block's first transaction.
fn first_id(block: &[u8]) -> Option<String> {
    let arena = Arena::new();
    let block = Block::read(block, &arena).ok()?;
    let envelope: proto::Envelope<'_> = proto::decode(block.transactions.first()?, &arena).ok()?;
    let payload: proto::Payload<'_> = proto::decode(envelope.payload, &arena).ok()?;
    let header: proto::ChannelHeader<'_> = proto::decode(payload.header?.channel_header, &arena).ok()?;
    (!header.tx_id.is_empty()).then(|| header.tx_id.to_owned())
}

/// Returns the keys of the chaincode with their values and versions, one key per line.
fn state(replica: &Service) -> anyhow::Result<Vec<String>> {
    let name = Workload::default().chaincode.name();
    let words = [
        "fabric", "--json", "state", name, "--data", "data", "--limit", KEYS_MAX,
    ];
    let (is_listed, said) = replica.command(&words)?;
    ensure!(is_listed, "`lineside {}`: {said}", words.join(" "));
    Ok(said.lines().map(str::to_owned).collect())
}
