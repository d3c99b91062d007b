//! One run: a node that begins with all records, workers that send calls, and what came of it.

use super::workload::{Calls, Key};
use crate::error::{BenchError, Result};
use bytes::Bytes;
use hdrhistogram::Histogram;
use lineside_hybrid::answer::Answer;
use lineside_hybrid::node::embedded;
use lineside_hybrid::{Code, Mode, Node, Options};
use lineside_journal::FsDisk;
use lineside_verify::Backend;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Instant;

/// All nodes' clock: it stands still, so that what was signed once can be sent to each of them.
static CLOCK_MS: AtomicU64 = AtomicU64::new(0);

/// Sets the clock.
pub fn set_clock(now_ms: u64) {
    CLOCK_MS.store(now_ms, Ordering::Relaxed);
}

fn clock() -> u64 {
    CLOCK_MS.load(Ordering::Relaxed)
}

/// Who verifies, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Contestant {
    /// Nobody: digest and verification are left out.
    None,
    /// libsecp256k1, one signature at a time, on all cores.
    Scalar,
    /// Ours.
    Batch,
}

impl Contestant {
    /// All of them.
    pub const ALL: [Contestant; 3] = [Contestant::None, Contestant::Scalar, Contestant::Batch];

    /// Its name in the report.
    pub fn name(self) -> &'static str {
        match self {
            Contestant::None => "none",
            Contestant::Scalar => "scalar",
            Contestant::Batch => "batch",
        }
    }

    /// How its node works.
    pub fn options(self, block_requests: usize) -> Options {
        let (mode, backend) = match self {
            Contestant::None => (Mode::None, None),
            Contestant::Scalar => (Mode::Scalar, Some(Backend::Library)),
            Contestant::Batch => (Mode::Batch, None),
        };
        Options {
            mode,
            verify: lineside_verify::Options {
                backend,
                ..Default::default()
            },
            block_requests,
            clock,
            ..Options::default()
        }
    }
}

/// What came of a run.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Requests answered with success a second.
    pub rps: f64,
    /// Processor time of the whole process a request, the workers' included.
    pub cpu_us: f64,
    /// Of calls, in ns.
    pub latency: Histogram<u64>,
    /// Answers that were no success.
    pub refused: u64,
    /// Blocks made.
    pub blocks: u64,
    /// Signatures in a batch, on average.
    pub batch: f64,
}

/// Starts a node over a folder.
pub fn start(folder: &Path, genesis: &[u8], options: Options) -> Result<Node<FsDisk>> {
    let disk = FsDisk::open(folder).map_err(|error| BenchError::Void(error.to_string()))?;
    let key = Arc::new(Key::of(2, options.node.into()));
    Node::start(disk, genesis, key, options, embedded()).map_err(|error| BenchError::Void(error.to_string()))
}

/// Sends calls, a worker one at a time, until all are answered.
pub fn send(node: &Node<FsDisk>, calls: &Calls) -> Result<Measured> {
    let before = node.status();
    let (answers, answered) = mpsc::channel::<(usize, Vec<Answer>)>();
    let mut left: Vec<_> = calls.iter().map(|calls| calls.iter()).collect();
    let mut since = vec![Instant::now(); calls.len()];
    let mut latency = new_histogram();
    let (mut done, mut refused, mut open) = (0_u64, 0_u64, 0);
    let cpu = cpu_us();
    let begin = Instant::now();
    let submit = |worker: usize, requests: &Vec<Bytes>| {
        let answers = answers.clone();
        node.submit(requests.clone(), move |all| {
            // The run is over only when all were received.
            let _ = answers.send((worker, all));
        });
    };
    for worker in 0..left.len() {
        if let Some(requests) = left[worker].next() {
            since[worker] = Instant::now();
            submit(worker, requests);
            open += 1;
        }
    }
    while open > 0 {
        let (worker, all) = answered
            .recv()
            .map_err(|_| BenchError::Void("the node has stopped".into()))?;
        latency.saturating_record(since[worker].elapsed().as_nanos() as u64);
        let right = all.iter().filter(|answer| answer.code() == Code::Done).count() as u64;
        done += right;
        refused += all.len() as u64 - right;
        match left[worker].next() {
            Some(requests) => {
                since[worker] = Instant::now();
                submit(worker, requests);
            }
            None => open -= 1,
        }
    }
    let took = begin.elapsed();
    let after = node.status();
    let batches = after.batches - before.batches;
    Ok(Measured {
        rps: done as f64 / took.as_secs_f64(),
        cpu_us: (cpu_us() - cpu) as f64 / (done + refused).max(1) as f64,
        latency,
        refused,
        blocks: after.height - before.height,
        batch: (after.verified - before.verified) as f64 / batches.max(1) as f64,
    })
}

/// From 1 µs to 10 s, three digits.
pub fn new_histogram() -> Histogram<u64> {
    // These bounds are allowed ones.
    Histogram::new_with_bounds(1_000, 10_000_000_000, 3).expect("bounds")
}

/// Processor time of this process so far, user's and system's, in µs.
fn cpu_us() -> u64 {
    let usage = crate::sys::resource_usage();
    let us = |time: libc::timeval| time.tv_sec as u64 * 1_000_000 + time.tv_usec as u64;
    us(usage.ru_utime) + us(usage.ru_stime)
}
