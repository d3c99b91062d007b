//! A chain in memory, created by rust-bitcoin, and a client that sends and reads lines.
#![allow(dead_code, reason = "each test uses a part of it")]

use bitcoin::block::{Header, Version};
use bitcoin::hashes::Hash;
use bitcoin::{BlockHash, CompactTarget, TxMerkleNode, Txid, consensus};
use lineside_electrum::{Config, Limits, Location, ProofChain, Server, TipInfo, Unavailable};
use lineside_testkit::Random;
use serde_json::Value;
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// Time limit of every wait.
pub const WAIT_TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Clone)]
pub struct Block {
    pub header: Header,
    pub txids: Arc<[[u8; 32]]>,
}

impl Block {
    pub fn bytes(&self) -> [u8; 80] {
        consensus::serialize(&self.header).try_into().expect("80 bytes")
    }

    pub fn hash(&self) -> [u8; 32] {
        self.header.block_hash().to_byte_array()
    }

    pub fn txid(&self, position: usize) -> Txid {
        Txid::from_byte_array(self.txids[position])
    }

    /// Returns a block of random transactions; rust-bitcoin computes the Merkle root.
    pub fn random(random: &mut Random, previous: BlockHash, transactions: usize) -> Self {
        let mut txid = || {
            let mut bytes = [0; 32];
            bytes
                .chunks_mut(8)
                .for_each(|part| part.copy_from_slice(&random.next().to_le_bytes()));
            bytes
        };
        let txids: Arc<[[u8; 32]]> = (0..transactions).map(|_| txid()).collect();
        let hashes = txids.iter().map(|txid| Txid::from_byte_array(*txid));
        let root = bitcoin::merkle_tree::calculate_root(hashes).expect("a transaction");
        let header = Header {
            version: Version::from_consensus(0x2000_0000),
            prev_blockhash: previous,
            merkle_root: TxMerkleNode::from_raw_hash(root.to_raw_hash()),
            time: 1_700_000_000 + random.below(1 << 20) as u32,
            bits: CompactTarget::from_consensus(0x1d00_ffff),
            nonce: random.next() as u32,
        };
        Self { header, txids }
    }
}

#[derive(Default)]
struct State {
    blocks: Vec<Block>,
    heights: HashMap<[u8; 32], u32>,
    generation: u64,
}

pub type Hook = Box<dyn FnOnce(&TestChain) + Send>;

/// Chain whose blocks the test connects and disconnects.
pub struct TestChain {
    state: Mutex<State>,
    changes: watch::Sender<u64>,
    random: Mutex<Random>,
    /// Function that a test runs during the next call of `txids`; there are such fields for `headers` and `hash_at`
    /// too.
    pub in_txids: Mutex<Option<Hook>>,
    pub in_headers: Mutex<Option<Hook>>,
    pub in_hash_at: Mutex<Option<Hook>>,
    pub fault: Mutex<Option<String>>,
    pub txid_reads: AtomicUsize,
}

impl TestChain {
    /// Returns a chain with one block for each number in `blocks`, which is the block's number of transactions.
    pub fn new(seed: u64, blocks: &[usize]) -> Arc<Self> {
        let chain = Self {
            state: Mutex::default(),
            changes: watch::channel(0).0,
            random: Mutex::new(Random(seed)),
            in_txids: Mutex::default(),
            in_headers: Mutex::default(),
            in_hash_at: Mutex::default(),
            fault: Mutex::default(),
            txid_reads: AtomicUsize::new(0),
        };
        chain.replace(0, blocks);
        Arc::new(chain)
    }

    /// Disconnects the last `depth` blocks and connects new blocks with these numbers of transactions, in one step.
    pub fn replace(&self, depth: usize, blocks: &[usize]) {
        let mut random = self.random.lock().expect("a lock");
        let mut state = self.state.lock().expect("a lock");
        let left = state.blocks.len() - depth;
        state.blocks.truncate(left);
        for transactions in blocks {
            let previous = state.blocks.last().map(|block| block.header.block_hash());
            let previous = previous.unwrap_or(BlockHash::all_zeros());
            let block = Block::random(&mut random, previous, *transactions);
            state.blocks.push(block);
        }
        state.generation += 1;
        let heights = state.blocks.iter().enumerate();
        state.heights = heights
            .map(|(height, block)| (block.hash(), height as u32))
            .collect();
        let generation = state.generation;
        drop(state);
        self.changes.send_replace(generation);
    }

    pub fn blocks(&self) -> Vec<Block> {
        self.state.lock().expect("a lock").blocks.clone()
    }

    fn run(&self, hook: &Mutex<Option<Hook>>) {
        let hook = hook.lock().expect("a lock").take();
        if let Some(hook) = hook {
            hook(self);
        }
    }
}

impl ProofChain for TestChain {
    fn generation(&self) -> u64 {
        self.state.lock().expect("a lock").generation
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    fn tip(&self) -> Option<TipInfo> {
        let state = self.state.lock().expect("a lock");
        let block = state.blocks.last()?;
        Some(TipInfo {
            height: state.blocks.len() as u32 - 1,
            hash: block.hash(),
            header: block.bytes(),
        })
    }

    fn header_at(&self, height: u32) -> Option<[u8; 80]> {
        let state = self.state.lock().expect("a lock");
        state.blocks.get(height as usize).map(Block::bytes)
    }

    fn hash_at(&self, height: u32) -> Option<[u8; 32]> {
        let state = self.state.lock().expect("a lock");
        let hash = state.blocks.get(height as usize).map(Block::hash);
        drop(state);
        self.run(&self.in_hash_at);
        hash
    }

    fn headers(&self, start: u32, count: u32, into: &mut Vec<u8>) -> u32 {
        let state = self.state.lock().expect("a lock");
        let wanted = state.blocks.iter().skip(start as usize).take(count as usize);
        let before = into.len();
        wanted.for_each(|block| into.extend_from_slice(&block.bytes()));
        drop(state);
        self.run(&self.in_headers);
        ((into.len() - before) / 80) as u32
    }

    fn height_of(&self, hash: &[u8; 32]) -> Option<u32> {
        self.state.lock().expect("a lock").heights.get(hash).copied()
    }

    fn locate(&self, txid: &[u8; 32]) -> Result<Option<Location>, Unavailable> {
        if let Some(fault) = &*self.fault.lock().expect("a lock") {
            return Err(Unavailable(fault.clone()));
        }
        let state = self.state.lock().expect("a lock");
        let mut places = state.blocks.iter().enumerate().rev();
        Ok(places.find_map(|(height, block)| {
            let position = block.txids.iter().position(|other| other == txid)?;
            Some(Location {
                height: height as u32,
                position: position as u32,
            })
        }))
    }

    fn txids(&self, height: u32, hash: &[u8; 32]) -> Result<Option<Arc<[[u8; 32]]>>, Unavailable> {
        self.txid_reads.fetch_add(1, Ordering::Relaxed);
        if let Some(fault) = &*self.fault.lock().expect("a lock") {
            return Err(Unavailable(fault.clone()));
        }
        let state = self.state.lock().expect("a lock");
        let block = state.blocks.get(height as usize);
        let txids = block
            .filter(|block| block.hash() == *hash)
            .map(|block| Arc::clone(&block.txids));
        drop(state);
        self.run(&self.in_txids);
        Ok(txids)
    }
}

pub fn loopback() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").expect("a port")
}

/// Returns limits that are so high that the tests do not reach them.
pub fn wide() -> Limits {
    Limits {
        clients_by_network: 10_000,
        clients: 10_000,
        requests_per_second: u32::MAX,
        http_requests_per_second: 1_000_000_000,
        http_burst: u32::MAX,
        ..Limits::default()
    }
}

pub fn serve(chain: &Arc<TestChain>, change: impl FnOnce(&mut Config)) -> Server {
    let mut config = Config {
        tcp: Some(loopback()),
        limits: wide(),
        server_version: "Lineside test".into(),
        ..Config::default()
    };
    change(&mut config);
    Server::start(config, Arc::clone(chain) as Arc<dyn ProofChain>).expect("a server")
}

/// Waits until `condition` holds.
pub fn wait_for(what: &str, condition: impl Fn() -> bool) {
    let until = Instant::now() + WAIT_TIMEOUT;
    while !condition() {
        assert!(Instant::now() < until, "timeout: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Client with one connection.
pub struct Client {
    pub stream: BufReader<TcpStream>,
}

impl Client {
    pub fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("a connection");
        stream.set_read_timeout(Some(WAIT_TIMEOUT)).expect("a socket");
        stream.set_nodelay(true).expect("a socket");
        Self {
            stream: BufReader::new(stream),
        }
    }

    pub fn send(&mut self, line: &str) {
        self.stream
            .get_mut()
            .write_all(format!("{line}\n").as_bytes())
            .expect("a line is sent");
    }

    /// Returns the next line; `None` at the end of the stream.
    pub fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        match self.stream.read_line(&mut line) {
            Ok(0) => None,
            Ok(_) => Some(line.trim_end_matches('\n').to_owned()),
            // A reset counts as the end of the stream: it happens if the server closes a connection while the client
            // still sends.
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => None,
            Err(error) => panic!("{error}"),
        }
    }

    pub fn receive(&mut self) -> Value {
        let line = self.line().expect("a line");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    /// Returns the reply to one request.
    pub fn ask(&mut self, method: &str, params: &str) -> Value {
        self.send(&format!(
            r#"{{"jsonrpc":"2.0","id":7,"method":"{method}","params":{params}}}"#
        ));
        self.receive()
    }

    /// Returns the result of one request.
    pub fn result(&mut self, method: &str, params: &str) -> Value {
        let mut reply = self.ask(method, params);
        assert_eq!(reply["id"], 7, "{reply}");
        assert!(reply.get("error").is_none(), "{method} {params}: {reply}");
        reply["result"].take()
    }

    /// Returns the code and the message of one request that fails.
    pub fn error(&mut self, method: &str, params: &str) -> (i64, String) {
        let reply = self.ask(method, params);
        assert!(reply.get("result").is_none(), "{method} {params}: {reply}");
        let error = &reply["error"];
        (
            error["code"].as_i64().expect("a code"),
            error["message"].as_str().expect("a message").to_owned(),
        )
    }
}

/// Verifies a proof in the format of `get_merkle` against a header, with the `electrum-client` crate.
pub fn is_proof(reply: &Value, txid: &Txid, header: &Header) -> bool {
    let reply: electrum_client::GetMerkleRes =
        serde_json::from_value(reply.clone()).expect("get_merkle's form");
    electrum_client::utils::validate_merkle_proof(txid, &header.merkle_root, &reply)
}
