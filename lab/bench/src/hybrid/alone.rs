//! Measurements without other requests: proofs over a million keys, a node that catches up with a log, and an audit.

use super::run::{Who, start};
use super::workload::{Key, Maker, record};
use crate::error::{Result, void};
use crate::gate::median;
use crate::transfer::drain::Removed;
use lineside_hybrid::audit::{self, audit};
use lineside_hybrid::execute::{Chain, SignatureCheck};
use lineside_hybrid::ledger::StoredBlock;
use lineside_hybrid::log::{Deliver, Entry, Log, LogError};
use lineside_hybrid::signatures::Digests;
use lineside_hybrid::{Node, Options};
use lineside_journal::{FsDisk, Reader};
use lineside_messages::hybrid::block::{Hash, Message, Sender, request_message};
use lineside_messages::hybrid::proof::StateProof;
use lineside_messages::hybrid::request::Body;
use serde::Serialize;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Number of keys in the map that is proved.
const PROOF_KEYS: u64 = 1_000_000;
/// Number of times that the benchmark reads a ledger.
const ROUNDS: usize = 3;
/// Number of proofs that are created and checked.
const PROOFS: u64 = 2_000;

/// Cost of creating and of checking a proof.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Proofs {
    /// Number of keys that have a value.
    pub keys: u64,
    /// Median time in microseconds to create a proof and encode it.
    pub made_us: f64,
    /// Median time in microseconds to decode a proof and check it against a block's hash.
    pub checked_us: f64,
    /// Median size of a proof in bytes, without key and value.
    pub bytes: f64,
    /// Maximum size of a proof in bytes, without key and value.
    pub bytes_max: usize,
}

/// Measures proofs that a key has a value, over `keys` keys, in one thread.
pub fn proofs(maker: &Maker, quick: bool) -> Result<Proofs> {
    let keys = if quick { PROOF_KEYS / 10 } else { PROOF_KEYS };
    let mut chain = Chain::begin(&maker.genesis).map_err(void)?;
    let node = Key::of(2, 1);
    let value = [b'v'; 100];
    let numbers: Vec<u64> = (0..keys).collect();
    for (block, numbers) in (1..).zip(numbers.chunks(1000)) {
        let set = |number: &u64| {
            let key = record(*number);
            maker.unsigned(1, 0, *number + 1, Body::set(key.as_bytes(), None, &value))
        };
        let requests: Vec<_> = numbers.iter().map(set).collect();
        let sender = Sender {
            node: 1,
            sequence: block,
            time_ms: 0,
        };
        let message = request_message(chain.database(), sender, &requests, &node);
        let message = Message::decode(&message).map_err(void)?;
        let signed = vec![SignatureCheck::Valid; requests.len()];
        let executed = chain.execute(block, &message, &signed, &Digests::of(&message));
        executed.map_err(void)?;
    }
    let hash = *chain.tip_hash();
    let (mut made, mut checked, mut bytes) = (Vec::new(), Vec::new(), Vec::new());
    for proof in 0..PROOFS {
        let key = record(proof * 7919 % keys);
        let begin = Instant::now();
        let proof = StateProof {
            header: *chain.tip(),
            version: chain.state().version(key.as_bytes()),
            path: chain.state().prove(key.as_bytes()),
        };
        let encoded = proof.encode();
        made.push(begin.elapsed().as_nanos() as f64 / 1e3);
        let begin = Instant::now();
        let right = StateProof::decode(&encoded, Some(&value))
            .and_then(|proof| proof.check(&hash, key.as_bytes(), Some(&value)));
        checked.push(begin.elapsed().as_nanos() as f64 / 1e3);
        right.map_err(void)?;
        bytes.push(encoded.len());
    }
    let of = |values: Vec<f64>| median(values.into_iter()).unwrap_or_default();
    Ok(Proofs {
        keys,
        made_us: of(made),
        checked_us: of(checked),
        bytes_max: bytes.iter().copied().max().unwrap_or_default(),
        bytes: of(bytes.into_iter().map(|bytes| bytes as f64).collect()),
    })
}

/// Rates at which a ledger is read.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ReadRates {
    /// Number of requests in the ledger.
    pub transactions: u64,
    /// Size of its records in bytes.
    pub bytes: u64,
    /// Rate in requests per second at which an empty node reads the messages from a log, verifies all signatures,
    /// executes the requests and stores them.
    pub catch_up_tps: f64,
    /// Rate of the audit in megabytes per second.
    pub audit_mb_s: f64,
    /// Rate of the audit in requests per second.
    pub audit_tps: f64,
    /// Rate in requests per second at which the ledger is opened again without verification.
    pub restart_tps: f64,
}

/// Log of recorded messages. A thread delivers them as fast as the node accepts them.
struct Replay(std::sync::Mutex<Option<std::thread::JoinHandle<()>>>);

impl Replay {
    fn start(messages: Vec<Entry>, deliver: Deliver) -> std::io::Result<Replay> {
        let thread = std::thread::Builder::new().name("log".into()).spawn(move || {
            for entry in messages {
                if !deliver(entry) {
                    return;
                }
            }
        })?;
        Ok(Replay(std::sync::Mutex::new(Some(thread))))
    }
}

impl Log for Replay {
    fn append(&self, _: Vec<u8>) -> std::result::Result<(), LogError> {
        Err(LogError("read only".into()))
    }
}

impl Drop for Replay {
    fn drop(&mut self) {
        let thread = self.0.get_mut().ok().and_then(Option::take);
        thread.map(std::thread::JoinHandle::join);
    }
}

fn disk(folder: &Path) -> Result<FsDisk> {
    FsDisk::open(folder).map_err(void)
}

/// Measures in turn how long catching up, auditing and opening the ledger in `folder` take, and returns the medians.
/// The node of the ledger must have stopped. `empty` creates new folders.
pub fn again(maker: &Maker, folder: &Path, mut empty: impl FnMut() -> Result<Removed>) -> Result<ReadRates> {
    let (messages, transactions) = messages_of(folder)?;
    let rate = |took: Duration| transactions as f64 / took.as_secs_f64();
    let (mut caught_up, mut audited, mut opened) = (Vec::new(), Vec::new(), Vec::new());
    let mut bytes = 0;
    for _ in 0..ROUNDS {
        let empty = empty()?;
        let (took, height, tip_hash) = catch_up(maker, &messages, &empty.0)?;
        caught_up.push(rate(took));
        let begin = Instant::now();
        let found = audit(disk(folder)?, audit::Options::default(), |_| {}).map_err(void)?;
        audited.push(rate(begin.elapsed()));
        if let Some(finding) = found.finding {
            return Err(void(format!("the audit found: {}", finding.what)));
        }
        if found.tip != (height, tip_hash) {
            return Err(void(
                "the last block of the node that caught up differs from the ledger's last block",
            ));
        }
        bytes = found.bytes;
        let begin = Instant::now();
        let node = start(folder, &maker.genesis, Who::Batch.options(1000))?;
        opened.push(rate(begin.elapsed()));
        drop(node);
    }
    let of = |rates: Vec<f64>| median(rates.into_iter()).unwrap_or_default();
    let audit_tps = of(audited);
    Ok(ReadRates {
        transactions,
        bytes,
        catch_up_tps: of(caught_up),
        audit_mb_s: audit_tps * bytes as f64 / transactions as f64 / 1e6,
        audit_tps,
        restart_tps: of(opened),
    })
}

/// Returns the messages of a ledger's log, and the number of requests in them.
fn messages_of(folder: &Path) -> Result<(Vec<Entry>, u64)> {
    let (mut messages, mut transactions) = (Vec::new(), 0);
    let reader = Reader::open(disk(folder)?).map_err(void)?;
    let mut records = reader.records(2).map_err(void)?;
    while let Some(record) = records.next().map_err(void)? {
        let Ok(stored) = StoredBlock::decode(record.payload) else {
            continue;
        };
        transactions += u64::from(stored.header.transactions);
        let (position, message) = (stored.header.position, stored.message.to_vec());
        messages.push(Entry { position, message });
    }
    Ok((messages, transactions))
}

/// Returns the time that a node with an empty folder needs to execute all of these messages, and its last block.
fn catch_up(maker: &Maker, messages: &[Entry], empty: &Path) -> Result<(Duration, u64, Hash)> {
    let (height, messages) = (messages.len() as u64, messages.to_vec());
    let options = Options {
        node: 2,
        ..Who::Batch.options(1000)
    };
    let disk = disk(empty)?;
    let begin = Instant::now();
    let node = Node::start(
        disk,
        &maker.genesis,
        Arc::new(Key::of(2, 2)),
        options,
        Box::new(|start| {
            let replay =
                Replay::start(messages, start.deliver).map_err(|error| LogError(error.to_string()))?;
            Ok(Arc::new(replay))
        }),
    );
    let node = node.map_err(void)?;
    while node.status().height < height {
        if begin.elapsed() > Duration::from_secs(120) {
            return Err(void("the node did not catch up in time"));
        }
        std::thread::park_timeout(Duration::from_micros(200));
    }
    let took = begin.elapsed();
    let tip_hash = node.status().tip_hash;
    node.stop();
    Ok((took, height, tip_hash))
}
