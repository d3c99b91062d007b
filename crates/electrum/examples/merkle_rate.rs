//! Measures the rate of `blockchain.transaction.get_merkle` over one TCP connection, on which the client always has 64
//! unanswered requests.
//!
//!     cargo run --release -p lineside-electrum --example merkle_rate [SECONDS]
//!
//! The server has one thread, and the client has another. The program prints the requests per second that the client
//! measures, and the requests per second of the server's CPU time. The second number does not depend on the load of
//! other programs on the machine.

use lineside_electrum::{
    BlockTree, Config, HEADER_BYTES, Limits, Location, ProofChain, Server, TipInfo, Unavailable, sha256d,
};
use lineside_testkit::Random;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;

const BLOCKS: u32 = 64;
const TRANSACTIONS: usize = 2048;
const IN_FLIGHT: usize = 64;

struct Block {
    header: [u8; HEADER_BYTES],
    hash: [u8; 32],
    txids: Arc<[[u8; 32]]>,
}

/// Chain that does not change.
struct Fixed {
    blocks: Vec<Block>,
    changes: watch::Sender<u64>,
}

impl Fixed {
    fn new() -> Self {
        let mut random = Random(1);
        let block = |_| {
            let txids: Arc<[[u8; 32]]> = (0..TRANSACTIONS)
                .map(|_| sha256d(&random.next().to_le_bytes()))
                .collect();
            let mut header = [0; HEADER_BYTES];
            header[36..68].copy_from_slice(&root(&txids));
            Block {
                hash: sha256d(&header),
                header,
                txids,
            }
        };
        Self {
            blocks: (0..BLOCKS).map(block).collect(),
            changes: watch::channel(0).0,
        }
    }
}

fn root(txids: &[[u8; 32]]) -> [u8; 32] {
    let mut level = txids.to_vec();
    while level.len() > 1 {
        level = level.chunks(2).map(|pair| sha256d(&pair.concat())).collect();
    }
    level[0]
}

impl ProofChain for Fixed {
    fn generation(&self) -> u64 {
        0
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    fn tip(&self) -> Option<TipInfo> {
        None
    }

    fn header_at(&self, height: u32) -> Option<[u8; HEADER_BYTES]> {
        self.blocks.get(height as usize).map(|block| block.header)
    }

    fn hash_at(&self, height: u32) -> Option<[u8; 32]> {
        self.blocks.get(height as usize).map(|block| block.hash)
    }

    fn headers(&self, _start: u32, _count: u32, _into: &mut Vec<u8>) -> u32 {
        0
    }

    fn height_of(&self, _hash: &[u8; 32]) -> Option<u32> {
        None
    }

    fn locate(&self, _txid: &[u8; 32]) -> Result<Option<Location>, Unavailable> {
        Ok(None)
    }

    fn txids(&self, height: u32, _hash: &[u8; 32]) -> Result<Option<Arc<[[u8; 32]]>>, Unavailable> {
        Ok(self
            .blocks
            .get(height as usize)
            .map(|block| Arc::clone(&block.txids)))
    }
}

/// Returns the CPU time of the server's threads in seconds, from `/proc/self/task`.
fn server_seconds() -> f64 {
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else {
        return f64::NAN;
    };
    let ticks = tasks.flatten().filter_map(|task| {
        let stat = std::fs::read_to_string(task.path().join("stat")).ok()?;
        let (name, rest) = stat.split_once('(')?.1.rsplit_once(')')?;
        let mut fields = rest.split_ascii_whitespace().skip(11);
        let mut ticks = || fields.next()?.parse::<u64>().ok();
        name.starts_with("lineside-electr").then_some(ticks()? + ticks()?)
    });
    // Linux reports processor times to programs in hundredths of a second, independently of its internal clock.
    ticks.sum::<u64>() as f64 / 100.0
}

/// Returns requests for random transactions, as text.
fn requests(chain: &Fixed) -> Vec<String> {
    let mut random = Random(2);
    let request = |id: u32| {
        let height = random.below(u64::from(BLOCKS)) as usize;
        let txid = random.pick(&chain.blocks[height].txids);
        let txid: String = txid.iter().rev().map(|byte| format!("{byte:02x}")).collect();
        format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"blockchain.transaction.get_merkle\",\
             \"params\":[\"{txid}\",{height}]}}\n"
        )
    };
    (0..1 << 14).map(request).collect()
}

/// Sends requests and reads replies until `end`. Returns the number of replies.
fn run(stream: &mut TcpStream, requests: &[String], end: Instant) -> u64 {
    let (mut next, mut replies) = (0, 0);
    let mut answer = vec![0; 1 << 20];
    let mut to_send = IN_FLIGHT;
    let mut lines = Vec::new();
    while Instant::now() < end {
        lines.clear();
        for _ in 0..to_send {
            lines.extend_from_slice(requests[next % requests.len()].as_bytes());
            next += 1;
        }
        stream.write_all(&lines).expect("requests are sent");
        let read = stream.read(&mut answer).expect("replies");
        assert!(read > 0, "the server closed the connection");
        to_send = memchr::memchr_iter(b'\n', &answer[..read]).count();
        replies += to_send as u64;
    }
    replies
}

fn main() {
    let seconds = std::env::args()
        .nth(1)
        .map_or(5, |text| text.parse().expect("seconds"));
    let chain = Arc::new(Fixed::new());
    let requests = requests(&chain);
    let tree = BlockTree::build(chain.blocks[0].header, &chain.blocks[0].txids).expect("a tree");
    let config = Config {
        tcp: Some(TcpListener::bind("127.0.0.1:0").expect("a port")),
        threads: 1,
        limits: Limits {
            requests_per_second: u32::MAX,
            ..Limits::default()
        },
        ..Config::default()
    };
    let server = Server::start(config, chain).expect("a server");
    let mut stream = TcpStream::connect(server.tcp().expect("an address")).expect("a connection");
    stream.set_nodelay(true).expect("a socket");
    run(&mut stream, &requests, Instant::now() + Duration::from_secs(1));
    let (before, start) = (server_seconds(), Instant::now());
    let replies = run(&mut stream, &requests, start + Duration::from_secs(seconds));
    let (wall, cpu) = (start.elapsed().as_secs_f64(), server_seconds() - before);
    println!(
        "{BLOCKS} blocks of {TRANSACTIONS} transactions ({} bytes a tree), {IN_FLIGHT} in flight: \
         {:.0} get_merkle/s; {:.0} for each second of the server's CPU time ({:.0} % of one core)",
        tree.memory_bytes(),
        replies as f64 / wall,
        replies as f64 / cpu,
        100.0 * cpu / wall
    );
    assert_eq!(server.counters().errors, 0, "each request has a proof");
}
