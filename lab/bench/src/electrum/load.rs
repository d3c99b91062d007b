//! Client that sends `get_merkle` on many connections, each with a window of requests, and compares every reply with
//! the branch that it has computed itself.

use crate::column::usage;
use crate::error::{BenchError, Result, io};
use crate::wrong::{WrongReplies, WrongReply};
use futures_util::future::try_join_all;
use hdrhistogram::Histogram;
use lineside_testkit::{DemoBlock, Random};
use lineside_util::hex::to_display;
use serde::Deserialize;
use sha2::{Digest, Sha256};
use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Number of connections of the client. Lineside limits each connection to 2,000 requests per second after the first
/// 10,000; with this many connections, that limit does not slow the client.
pub const CONNECTIONS: usize = 64;
/// Number of requests in flight on each connection.
pub const WINDOW: usize = 8;
/// Maximum time to wait for the last replies of a round. ElectrumX delays small replies by up to a second.
const DRAIN: Duration = Duration::from_secs(10);
/// Maximum latency in the histogram, in nanoseconds.
const LATENCY_MAX_NS: u64 = 60_000_000_000;
/// Maximum number of bytes of a wrong reply that the report shows.
const SHOWN_BYTES: usize = 2_000;

/// Requests and the expected replies.
pub struct Questions {
    blocks: Vec<Tree>,
}

/// Merkle tree of a block. Its hashes are in the text form that clients print.
struct Tree {
    height: u32,
    /// First the TXIDs, then each higher level of the tree. If a level has an odd number of hashes, its last hash is
    /// repeated.
    rows: Vec<Vec<String>>,
}

impl Questions {
    /// Returns the requests for `blocks`; the first block has the height `first`.
    pub fn new(blocks: &[DemoBlock], first: u32) -> Self {
        let trees = blocks.iter().zip(first..);
        Self {
            blocks: trees.map(|(block, height)| Tree::new(block, height)).collect(),
        }
    }

    fn draw(&self, random: &mut Random) -> Question {
        let block = random.index(self.blocks.len());
        let position = random.index(self.blocks[block].rows[0].len());
        Question {
            block,
            position,
            asked: Instant::now(),
        }
    }

    fn request(&self, id: usize, question: &Question) -> String {
        let Tree { height, rows } = &self.blocks[question.block];
        let txid = &rows[0][question.position];
        format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"blockchain.transaction.get_merkle\",\
             \"params\":[\"{txid}\",{height}]}}\n"
        )
    }

    /// Returns the expected result as JSON.
    fn expected(&self, question: &Question) -> String {
        let Tree { height, rows } = &self.blocks[question.block];
        let siblings = rows[..rows.len() - 1].iter().enumerate();
        let merkle: Vec<&String> = siblings
            .map(|(row, hashes)| &hashes[(question.position >> row) ^ 1])
            .collect();
        serde_json::json!({"block_height": height, "merkle": merkle, "pos": question.position}).to_string()
    }

    fn is_right(&self, question: &Question, reply: &Branch<'_>) -> bool {
        let Tree { height, rows } = &self.blocks[question.block];
        let siblings = rows[..rows.len() - 1].iter().enumerate();
        let branch = siblings.map(|(row, hashes)| &hashes[(question.position >> row) ^ 1]);
        (reply.block_height, reply.pos) == (*height, question.position)
            && reply.merkle.len() == rows.len() - 1
            && branch.zip(&reply.merkle).all(|(right, given)| right == given)
    }
}

impl Tree {
    fn new(block: &DemoBlock, height: u32) -> Self {
        let mut rows = vec![block.txids.clone()];
        while let Some(row) = rows.last_mut().filter(|row| row.len() > 1) {
            if !row.len().is_multiple_of(2) {
                row.extend(row.last().copied());
            }
            let above = row.chunks_exact(2).map(|pair| sha256d(&pair.concat())).collect();
            rows.push(above);
        }
        assert_eq!(rows.last().and_then(|row| row.first()), Some(&block.root));
        let shown = |row: &Vec<_>| row.iter().map(to_display).collect();
        Self {
            height,
            rows: rows.iter().map(shown).collect(),
        }
    }
}

fn sha256d(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(Sha256::digest(bytes)).into()
}

/// Request in flight.
#[derive(Clone, Copy)]
struct Question {
    block: usize,
    position: usize,
    asked: Instant,
}

/// Reply of the server; the reply to a failed request has no result.
#[derive(Deserialize)]
struct Reply<'a> {
    id: usize,
    #[serde(borrow)]
    result: Option<Branch<'a>>,
}

#[derive(Deserialize)]
struct Branch<'a> {
    #[serde(borrow)]
    merkle: Vec<&'a str>,
    pos: usize,
    block_height: u32,
}

/// Server that receives the requests.
pub struct Target {
    name: &'static str,
    address: SocketAddr,
    pid: u32,
}

impl Target {
    pub fn new(name: &'static str, address: SocketAddr, pid: u32) -> Self {
        Self { name, address, pid }
    }
}

/// Result of one round of one contestant.
#[derive(Clone, Debug)]
pub struct Round {
    /// Number of right replies in the counted time.
    pub replies: u64,
    /// Length of the counted time.
    pub took: Duration,
    /// Processor time of the server in the counted time, in seconds.
    pub cpu_s: f64,
    /// Round-trip times in nanoseconds.
    pub latency: Histogram<u64>,
    /// Number of requests sent; `lost` is the number of requests without a reply.
    pub sent: u64,
    pub lost: u64,
    /// Wrong replies.
    pub wrong: WrongReplies,
}

impl Round {
    /// Returns the number of right replies per second.
    pub fn rps(&self) -> f64 {
        self.replies as f64 / self.took.as_secs_f64()
    }

    /// Returns the number of right replies per second of the server's processor time.
    pub fn per_core(&self) -> f64 {
        // The kernel counts processor time in ticks of 10 ms, so 0 means less than a tick.
        self.replies as f64 / self.cpu_s.max(0.01)
    }
}

/// State that the connections of a round share.
struct Shared<'a> {
    target: &'a Target,
    questions: &'a Questions,
    random: RefCell<Random>,
    round: RefCell<Round>,
    is_over: Cell<bool>,
}

/// Sends requests to `target` for `duration` on new connections, and waits for the last replies.
///
/// # Errors
/// Returns the error of a connection, or [`BenchError::Void`] if the server closes one.
pub fn drive(target: &Target, questions: &Questions, seed: u64, duration: Duration) -> Result<Round> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let latency = Histogram::new_with_max(LATENCY_MAX_NS, 3).map_err(crate::error::void)?;
    let shared = Shared {
        target,
        questions,
        random: RefCell::new(Random(seed)),
        round: RefCell::new(Round {
            replies: 0,
            took: Duration::ZERO,
            cpu_s: 0.0,
            latency,
            sent: 0,
            lost: 0,
            wrong: WrongReplies::default(),
        }),
        is_over: Cell::new(false),
    };
    runtime
        .map_err(io("starting the client"))?
        .block_on(all(&shared, duration))?;
    Ok(shared.round.into_inner())
}

async fn all(shared: &Shared<'_>, duration: Duration) -> Result<()> {
    let mut streams = Vec::new();
    for _ in 0..CONNECTIONS {
        streams.push(
            opened(shared.target.address)
                .await
                .map_err(io("opening a connection"))?,
        );
    }
    let before = usage::of(shared.target.pid, "")?.cpu_ns;
    let start = Instant::now();
    let clock = async {
        tokio::time::sleep(duration).await;
        // Replies after this time are checked but not counted.
        shared.is_over.set(true);
        let mut round = shared.round.borrow_mut();
        round.took = start.elapsed();
        round.cpu_s = (usage::of(shared.target.pid, "")?.cpu_ns - before) / 1e9;
        Ok(())
    };
    let connections = try_join_all(streams.into_iter().map(|stream| connection(stream, shared)));
    let (counted, driven) = tokio::join!(clock, connections);
    counted.and(driven.map(drop))
}

async fn opened(address: SocketAddr) -> std::io::Result<TcpStream> {
    let mut stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let hello =
        b"{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"server.version\",\"params\":[\"bench\",\"1.4\"]}\n";
    stream.write_all(hello).await?;
    // The greeting is read byte by byte, because only one request was sent and nothing after its reply may be consumed.
    while stream.read_u8().await? != b'\n' {}
    Ok(stream)
}

/// Keeps a window of requests in flight until the time is over, then receives the last replies.
async fn connection(mut stream: TcpStream, shared: &Shared<'_>) -> Result<()> {
    let mut window = Window {
        under_way: vec![None; WINDOW],
        requests: String::new(),
    };
    (0..WINDOW).for_each(|id| window.ask(id, shared));
    let mut replies = Vec::with_capacity(1 << 16);
    let mut read_all = async || -> Result<()> {
        while window.under_way.iter().any(Option::is_some) {
            stream
                .write_all(window.requests.as_bytes())
                .await
                .map_err(io("asking"))?;
            window.requests.clear();
            if stream
                .read_buf(&mut replies)
                .await
                .map_err(io("reading replies"))?
                == 0
            {
                let name = shared.target.name;
                return Err(BenchError::Void(format!("{name} closed a connection")));
            }
            let whole = replies
                .iter()
                .rposition(|byte| *byte == b'\n')
                .map_or(0, |end| end + 1);
            for line in replies[..whole]
                .split(|byte| *byte == b'\n')
                .filter(|line| !line.is_empty())
            {
                window.take(line, shared);
            }
            replies.drain(..whole);
        }
        Ok(())
    };
    tokio::select! {
        ended = read_all() => ended?,
        () = late(shared) => {}
    }
    let lost = window.under_way.iter().flatten().count();
    shared.round.borrow_mut().lost += lost as u64;
    Ok(())
}

/// Returns when the time for the last replies after the end of the round is over.
async fn late(shared: &Shared<'_>) {
    while !shared.is_over.get() {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    tokio::time::sleep(DRAIN).await;
}

/// Requests in flight on one connection. The id of a request is its index in this list.
struct Window {
    under_way: Vec<Option<Question>>,
    /// Request lines that have to be sent.
    requests: String,
}

impl Window {
    fn ask(&mut self, id: usize, shared: &Shared<'_>) {
        let question = shared.questions.draw(&mut shared.random.borrow_mut());
        self.requests.push_str(&shared.questions.request(id, &question));
        self.under_way[id] = Some(question);
        shared.round.borrow_mut().sent += 1;
    }

    fn take(&mut self, line: &[u8], shared: &Shared<'_>) {
        let reply: Option<Reply<'_>> = serde_json::from_slice(line).ok();
        let place = reply.as_ref().and_then(|reply| self.under_way.get_mut(reply.id));
        let question = place.and_then(Option::take);
        let result = reply.as_ref().and_then(|reply| reply.result.as_ref());
        let is_right = question
            .zip(result)
            .is_some_and(|(question, result)| shared.questions.is_right(&question, result));
        let mut round = shared.round.borrow_mut();
        if !is_right {
            round.wrong.add(|| {
                let asked = question.map(|question| shared.questions.request(0, &question));
                let asked = asked.unwrap_or_else(|| "no request with that id".into());
                let reply = String::from_utf8_lossy(&line[..line.len().min(SHOWN_BYTES)]).into_owned();
                let expected = question.map(|question| shared.questions.expected(&question));
                WrongReply::new(
                    asked.trim_end(),
                    reply.trim_end(),
                    expected.unwrap_or_else(|| "no reply".into()),
                )
            });
            round.wrong.name(shared.target.name, "get_merkle");
        } else if !shared.is_over.get() {
            round.replies += 1;
            let asked = question.map_or_else(Instant::now, |question| question.asked);
            round.latency.saturating_record(asked.elapsed().as_nanos() as u64);
        }
        drop(round);
        if let (Some(reply), false) = (reply, shared.is_over.get())
            && reply.id < WINDOW
            && question.is_some()
        {
            self.ask(reply.id, shared);
        }
    }
}
