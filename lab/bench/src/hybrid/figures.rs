//! Single runs of the contestants of `hybrid` with any parameters, for the figures of the paper.

use super::cases::BLOCK;
use super::delayed::delayed;
use super::run::{CONNECTIONS, Contestant, Order, send, send_over, set_clock, start, start_on};
use super::workload::{Calls, GATE, Maker};
use super::{copy, primitives};
use crate::error::{Result, void};
use crate::transfer::disk::Disk;
use crate::transfer::drain::Removed;
use crate::wrong::WrongReplies;
use lineside_hybrid::Code;
use lineside_messages::hybrid::signing::unix_ms;
use std::path::Path;
use std::time::Duration;

pub use super::run::Who;
pub use super::workload::{Distribution, Shape};
pub use primitives::{Primitive, Work};

/// Parameters of the requests of the judged case: YCSB's workload A, zipfian, values of 100 bytes, calls of 100
/// requests, 16 keys, 16 calls in flight.
pub const JUDGED: Shape = GATE;

/// Returns the name of a contestant in the reports.
pub fn name(who: Who) -> &'static str {
    let order = Order::Embedded;
    Contestant { order, who }.name()
}

/// Parameters of the node and of its clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conditions {
    /// Maximum number of requests in a block.
    pub block: usize,
    /// Number of clients. Each has a connection, and the calls in flight are divided among them.
    pub clients: usize,
    /// Time that the log takes to deliver a message to the node.
    pub delay: Duration,
}

impl Default for Conditions {
    fn default() -> Self {
        Self {
            block: BLOCK,
            clients: CONNECTIONS,
            delay: Duration::ZERO,
        }
    }
}

/// Signed requests, in the calls of each worker.
pub struct Requests {
    calls: Calls,
    forged: u64,
}

impl Requests {
    /// Returns the number of requests.
    pub fn count(&self) -> usize {
        let calls = self.calls.iter().flatten();
        calls.map(|call| call.requests.len()).sum()
    }

    /// Returns the number of requests whose signature is wrong.
    pub fn forged(&self) -> u64 {
        self.forged
    }

    /// Changes the lowest bit of s in one signature of each call, so that the signature is wrong. It keeps its length,
    /// and its s remains below half of the curve's order.
    pub fn forge_one_of_each_call(&mut self) {
        for (number, call) in self.calls.iter_mut().flatten().enumerate() {
            let place = number % call.requests.len().max(1);
            if let Some(request) = call.requests.get_mut(place) {
                let mut bytes = request.to_vec();
                bytes[63] ^= 1;
                *request = bytes.into();
                self.forged += 1;
            }
        }
    }
}

/// Result of one run of a contestant.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Number of successful requests per second. The time ends when the last set is durable and can be read.
    pub rps: f64,
    /// Average latency of a call in µs.
    pub mean_us: f64,
    /// Median latency of a call in µs.
    pub p50_us: f64,
    /// 99th percentile of the latency of a call in µs.
    pub p99_us: f64,
    /// Number of requests without success, wrong signatures included.
    pub refused: u64,
    /// Number of requests that were refused because their signature is wrong.
    pub bad_signatures: u64,
    /// Number of blocks.
    pub blocks: u64,
    /// First requests without success, with their answers.
    pub wrong: WrongReplies,
}

/// Ledger with all records, of which each run gets a copy.
pub struct Setting {
    maker: Maker,
    disk: Disk,
    seed: u64,
    loaded: Removed,
    ledgers: Removed,
    runs: usize,
}

impl Setting {
    /// Creates the ledger in a folder of its own below `folder`, and sets `records` records. The folder is removed at
    /// the end.
    ///
    /// # Errors
    /// Fails if `folder` is in memory, or if the node does not start; returns errors of the operating system.
    pub fn new(folder: &Path, seed: u64, records: u64) -> Result<Self> {
        let disk = Disk::look(folder)?;
        let now_ms = unix_ms();
        set_clock(now_ms);
        let maker = Maker::new(GATE.keys, 1, now_ms, records);
        let ledgers = Removed::of_this_run(folder)?;
        let loaded = Removed::make(&ledgers.0.join("0"))?;
        let node = start(&loaded.0, &maker.genesis, Who::None.options(BLOCK))?;
        let sent = send(&node, &maker.load(GATE.value_bytes))?;
        if sent.refused > 0 {
            let refused = sent.refused;
            return Err(void(format!("{refused} of {records} records could not be set")));
        }
        Ok(Self {
            maker,
            disk,
            seed,
            loaded,
            ledgers,
            runs: 0,
        })
    }

    /// Returns the disk of the ledgers.
    pub fn disk(&self) -> &Disk {
        &self.disk
    }

    /// Signs at least `requests` requests with these parameters; each worker gets at least `calls` calls. The number of
    /// signing keys is always that of [`JUDGED`].
    pub fn sign(&self, shape: Shape, requests: usize, calls: usize) -> Requests {
        let shape = Shape {
            keys: GATE.keys,
            ..shape
        };
        let round = shape.per_call * shape.workers;
        let requests = requests.div_ceil(round).max(calls) * round;
        Requests {
            calls: self.maker.requests(&shape, self.seed, requests),
            forged: 0,
        }
    }

    /// Starts a node on a copy of the ledger, sends the requests to it, and stops it.
    ///
    /// # Errors
    /// The node does not start or does not answer; returns errors of the operating system.
    pub fn run(&mut self, who: Who, requests: &Requests, conditions: Conditions) -> Result<Sample> {
        self.runs += 1;
        let folder = Removed::make(&self.ledgers.0.join(self.runs.to_string()))?;
        copy(&self.loaded.0, &folder.0)?;
        let Conditions {
            block,
            clients,
            delay,
        } = conditions;
        let node = start_on(&folder.0, &self.maker.genesis, who.options(block), delayed(delay))?;
        let bad_signatures = || {
            let codes = node.status().codes;
            let of_code = codes.into_iter().filter(|(code, _)| *code == Code::BadSignature);
            of_code.map(|(_, count)| count).sum::<u64>()
        };
        let before = bad_signatures();
        let measured = send_over(&node, &requests.calls, clients)?;
        let quantile = |at| measured.latency.value_at_quantile(at) as f64 / 1e3;
        Ok(Sample {
            rps: measured.rps,
            mean_us: measured.latency.mean() / 1e3,
            p50_us: quantile(0.5),
            p99_us: quantile(0.99),
            refused: measured.refused,
            bad_signatures: bad_signatures() - before,
            blocks: measured.blocks,
            wrong: measured.wrong,
        })
    }
}
