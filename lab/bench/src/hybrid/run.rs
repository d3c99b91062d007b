//! One run: a node with all records, workers that send calls to it, and the results.

use super::workload::{Call, Calls, Key};
use crate::error::{Result, io, void};
use crate::wrong::{WrongReplies, WrongReply, hex};
use bytes::Bytes;
use hdrhistogram::Histogram;
use lineside_client::hybrid::AskError;
use lineside_client::hybrid::grpc::Connection;
use lineside_hybrid::node::{OpenLog, embedded};
use lineside_hybrid::{Code, Mode, Node, Options};
use lineside_hybrid_grpc::serve::Limits;
use lineside_journal::FsDisk;
use lineside_verify::Backend;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// Number of connections that the workers share by default.
pub const CONNECTIONS: usize = 4;

/// Clock of all nodes in milliseconds. It does not advance, so that requests that were signed once can be sent to each
/// node.
static CLOCK_MS: AtomicU64 = AtomicU64::new(0);

/// Sets the clock of all nodes to this time in milliseconds.
pub fn set_clock(now_ms: u64) {
    CLOCK_MS.store(now_ms, Ordering::Relaxed);
}

fn clock() -> u64 {
    CLOCK_MS.load(Ordering::Relaxed)
}

/// Method by which the node verifies signatures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Who {
    /// The node verifies neither digests nor signatures.
    None,
    /// libsecp256k1 verifies one signature at a time, on all cores.
    Scalar,
    /// Lineside verifies signatures in batches.
    Batch,
}

/// Ordering service of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Order {
    /// The node orders requests itself.
    Embedded,
    /// A Kafka broker on the same machine orders requests.
    Kafka,
}

/// Contestant: an ordering service and a method of verification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Contestant {
    /// Ordering service.
    pub order: Order,
    /// Method of verification.
    pub who: Who,
}

impl Contestant {
    /// Lineside's batches with embedded ordering.
    pub const BATCH: Contestant = Contestant {
        order: Order::Embedded,
        who: Who::Batch,
    };

    /// Returns the contestants with this ordering service.
    pub fn all(order: Order) -> [Contestant; 3] {
        [Who::None, Who::Scalar, Who::Batch].map(|who| Contestant { order, who })
    }

    /// Returns the name of the contestant in the report.
    pub fn name(self) -> &'static str {
        match (self.who, self.order) {
            (Who::None, Order::Embedded) => "none",
            (Who::Scalar, Order::Embedded) => "scalar",
            (Who::Batch, Order::Embedded) => "batch",
            (Who::None, Order::Kafka) => "none_kafka",
            (Who::Scalar, Order::Kafka) => "scalar_kafka",
            (Who::Batch, Order::Kafka) => "batch_kafka",
        }
    }
}

impl Who {
    /// Returns the options of the contestant's node.
    pub fn options(self, block_requests: usize) -> Options {
        let (mode, backend) = match self {
            Who::None => (Mode::None, None),
            Who::Scalar => (Mode::Scalar, Some(Backend::Library)),
            Who::Batch => (Mode::Batch, None),
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

/// Result of a run.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Number of successful requests per second.
    pub rps: f64,
    /// Processor time of the whole process per request in microseconds, including the workers.
    pub cpu_us: f64,
    /// Latency of calls in nanoseconds.
    pub latency: Histogram<u64>,
    /// Number of requests without success.
    pub refused: u64,
    /// Requests without success, with their answers.
    pub wrong: WrongReplies,
    /// Number of blocks that the node has created.
    pub blocks: u64,
    /// Average number of signatures in a batch.
    pub batch: f64,
}

/// Starts a node with embedded ordering and its data in `folder`.
pub fn start(folder: &Path, genesis: &[u8], options: Options) -> Result<Arc<Node<FsDisk>>> {
    start_on(folder, genesis, options, embedded())
}

/// Starts a node with the given log and its data in `folder`.
pub fn start_on(folder: &Path, genesis: &[u8], options: Options, log: OpenLog) -> Result<Arc<Node<FsDisk>>> {
    let disk = FsDisk::open(folder).map_err(void)?;
    let key = Arc::new(Key::of(2, options.node.into()));
    let node = Node::start(disk, genesis, key, options, log);
    node.map(Arc::new).map_err(void)
}

/// Serves a node by gRPC on loopback, and sends calls until all are answered. Each worker sends one call at a time. At
/// the end, the last set is durable and can be read.
pub fn send(node: &Arc<Node<FsDisk>>, calls: &Calls) -> Result<Measured> {
    send_over(node, calls, CONNECTIONS)
}

/// Does the work of [`send`] over this number of connections, which the workers share.
pub fn send_over(node: &Arc<Node<FsDisk>>, calls: &Calls, connections: usize) -> Result<Measured> {
    let runtime = two_threads()?;
    measure(node, || {
        runtime.block_on(serve_and_send(node.clone(), calls, connections))
    })
}

/// Returns a runtime like that of `lineside hybrid serve`.
pub fn two_threads() -> Result<Runtime> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(2).enable_all().build();
    runtime.map_err(io("starting threads"))
}

/// Measures the node while `send` runs.
pub fn measure(node: &Node<FsDisk>, send: impl FnOnce() -> Result<Sent>) -> Result<Measured> {
    let before = node.status();
    let sent = send()?;
    let after = node.status();
    let batches = after.batches - before.batches;
    Ok(Measured {
        rps: sent.done as f64 / sent.took.as_secs_f64(),
        cpu_us: sent.cpu_us as f64 / (sent.done + sent.wrong.count).max(1) as f64,
        latency: sent.latency,
        refused: sent.wrong.count,
        wrong: sent.wrong,
        blocks: after.height - before.height,
        batch: (after.verified - before.verified) as f64 / batches.max(1) as f64,
    })
}

/// Counts of all workers together.
pub struct Sent {
    done: u64,
    wrong: WrongReplies,
    latency: Histogram<u64>,
    took: Duration,
    cpu_us: u64,
}

impl Sent {
    /// Returns empty counts.
    pub fn nothing() -> Sent {
        Sent {
            done: 0,
            wrong: WrongReplies::default(),
            latency: new_histogram(),
            took: Duration::ZERO,
            cpu_us: 0,
        }
    }

    /// Counts the answer to a call: the codes of its answers, and descriptions of the answers. `requests` are the
    /// signed requests of the call.
    pub fn answered(&mut self, asked: Instant, requests: &[Bytes], answers: &[(u32, String)]) {
        self.latency.saturating_record(asked.elapsed().as_nanos() as u64);
        let done = Code::Done as u32;
        for (place, request) in requests.iter().enumerate() {
            match answers.get(place) {
                Some((code, _)) if *code == done => self.done += 1,
                other => self.wrong.add(|| {
                    let reply = other.map_or("no answer", |(_, reply)| reply.as_str());
                    WrongReply::new(hex(request), reply, format!("code {done}"))
                }),
            }
        }
    }

    fn add(&mut self, other: &Sent) {
        self.done += other.done;
        self.wrong.extend(&other.wrong);
        // Both histograms have the same bounds.
        self.latency
            .add(&other.latency)
            .expect("both histograms have the same bounds");
    }
}

/// Stopwatch for elapsed time and for the processor time of this process.
pub struct Took(Instant, u64);

impl Took {
    /// Starts the stopwatch.
    pub fn begin() -> Took {
        Took(Instant::now(), cpu_us())
    }

    /// Stores the times since the start in `sent`, and returns it.
    pub fn end(&self, sent: Sent) -> Sent {
        Sent {
            took: self.0.elapsed(),
            cpu_us: cpu_us() - self.1,
            ..sent
        }
    }
}

async fn serve_and_send(node: Arc<Node<FsDisk>>, calls: &Calls, most: usize) -> Result<Sent> {
    let server = lineside_hybrid_grpc::serve::start("127.0.0.1:0", None, node, Limits::default()).await;
    let server = server.map_err(void)?;
    let mut connections = Vec::new();
    for _ in 0..most.min(calls.len()) {
        let connection = Connection::open(&server.address.to_string(), None).await;
        connections.push(connection.map_err(void)?);
    }
    let clock = Took::begin();
    let mut workers = tokio::task::JoinSet::new();
    for (worker, calls) in calls.iter().enumerate() {
        workers.spawn(work(
            connections[worker % connections.len()].clone(),
            calls.clone(),
        ));
    }
    let mut all = Sent::nothing();
    while let Some(sent) = workers.join_next().await {
        let sent = sent.map_err(void)?.map_err(void)?;
        all.add(&sent);
    }
    let all = clock.end(all);
    drop(connections);
    server.stop().await.map_err(void)?;
    Ok(all)
}

/// Returns the text of an answer that is not `done`; empty if it is.
fn described(code: u32, answer: &impl std::fmt::Debug) -> String {
    match code == Code::Done as u32 {
        true => String::new(),
        false => format!("{answer:?}"),
    }
}

/// Sends the calls one after the other on this connection.
pub async fn work(connection: Connection, calls: Vec<Call>) -> std::result::Result<Sent, AskError> {
    let mut sent = Sent::nothing();
    for Call { sets, requests } in calls {
        let (kept, begin) = (requests.clone(), Instant::now());
        // The requests of a call stay in order, and so do their answers.
        let answers: Vec<(u32, String)> = match sets {
            true => connection
                .batch_set(requests)
                .await?
                .iter()
                .map(|answer| (answer.code, described(answer.code, answer)))
                .collect(),
            false => connection
                .batch_get(requests)
                .await?
                .iter()
                .map(|answer| (answer.code, described(answer.code, answer)))
                .collect(),
        };
        sent.answered(begin, &kept, &answers);
    }
    Ok(sent)
}

/// Returns a histogram for times from 1 µs to 10 s with a precision of three digits.
pub fn new_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1_000, 10_000_000_000, 3).expect("the bounds are valid")
}

/// Returns the processor time of this process in user and kernel mode, in microseconds.
fn cpu_us() -> u64 {
    let usage = crate::sys::resource_usage();
    let us = |time: libc::timeval| time.tv_sec as u64 * 1_000_000 + time.tv_usec as u64;
    us(usage.ru_utime) + us(usage.ru_stime)
}
