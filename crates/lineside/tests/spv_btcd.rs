//! `lineside spv` in front of btcd, with blocks of many transactions. One test checks proofs with the `electrum-client`
//! crate. Another kills both programs while an Electrum client and a UDP client send requests, and compares every reply
//! with btcd's own chain.

#[path = "../../bitcoin-node/tests/common/mod.rs"]
mod common;
mod ledger;
mod spv_server;

use common::{Btcd, btcd_program, until};
use electrum_client::ElectrumApi;
use electrum_client::raw_client::RawClient;
use ledger::{Block, Hash, Ledger, root_of, send_many};
use lineside_client::spv::Client;
use lineside_testkit::{Random, skipped};
use lineside_util::hex::{from_display, to_display};
use serde_json::{Value, json};
use spv_server::{Electrum, Server, electrum, store};
use std::collections::HashSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

const GET_MERKLE: &str = "blockchain.transaction.get_merkle";
/// Number of blocks after which a coinbase may be spent.
const MATURITY: u32 = 100;

fn started() -> Option<(PathBuf, Btcd, tempfile::TempDir)> {
    let Some(program) = btcd_program() else {
        skipped("btcd is not installed (LINESIDE_BTCD, or btcd on the path)");
        return None;
    };
    let btcd = Btcd::start(&program, false, None);
    let folder = tempfile::tempdir().unwrap();
    store(folder.path(), "simnet");
    Some((program, btcd, folder))
}

fn serve(btcd: &Btcd, folder: &tempfile::TempDir) -> Server {
    Server::start("simnet", &folder.path().join("chain"), &["--node", &btcd.url()])
}

fn wait_for_tip(server: &Server, ledger: &Ledger) {
    let tip = to_display(ledger.best.last().unwrap());
    until("the server has btcd's tip", || {
        (server.tip() == tip).then_some(())
    });
}

#[test]
fn the_electrum_client_crate_validates_every_transaction_of_large_blocks() {
    let Some((_, btcd, folder)) = started() else {
        return;
    };
    btcd.generate(MATURITY + 4);
    let mut ledger = Ledger::default();
    let mut heights = Vec::new();
    for (coinbase, count) in [(1, 1), (2, 6), (3, 257), (4, 700)] {
        send_many(&btcd, coinbase, count);
        btcd.generate(1);
        ledger.record(&btcd);
        let newest = &ledger.blocks[ledger.best.last().unwrap()];
        assert_eq!(
            newest.txids.len(),
            count as usize + 2,
            "the block holds all of them"
        );
        heights.push(newest.height);
    }
    let server = serve(&btcd, &folder);
    wait_for_tip(&server, &ledger);
    let client = RawClient::new(server.address("electrum"), None, None).unwrap();
    for height in heights {
        let header = client.block_header(height as usize).unwrap();
        let hash = ledger.best[height as usize];
        assert_eq!(
            to_display(&hash),
            header.block_hash().to_string(),
            "btcd's block at {height}"
        );
        for (position, txid) in ledger.blocks[&hash].txids.iter().enumerate() {
            let txid: bitcoin::Txid = to_display(txid).parse().unwrap();
            let proof = client.transaction_get_merkle(&txid, height as usize).unwrap();
            assert_eq!((proof.block_height, proof.pos), (height as usize, position));
            let root = &header.merkle_root;
            assert!(
                electrum_client::utils::validate_merkle_proof(&txid, root, &proof),
                "{txid}"
            );
            let mut other = txid.to_string().into_bytes();
            other[7] ^= 1;
            let other = String::from_utf8(other).unwrap();
            if let Ok(other) = other.parse() {
                assert!(!electrum_client::utils::validate_merkle_proof(
                    &other, root, &proof
                ));
            }
        }
    }
}

/// Reply of the server. It is compared with the ledger once the ledger has recorded all blocks.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum LedgerReply {
    /// Reply over UDP: the transaction and the tip; and block, height, index and computed root if the transaction is in
    /// the chain.
    Udp(Hash, Hash, Option<(Hash, u32, u32, Hash)>),
    /// Reply by the Electrum protocol: the transaction, height, position and computed root.
    Electrum(Hash, u32, usize, Hash),
}

impl LedgerReply {
    /// Returns the reason why the reply never agreed with btcd's chain; `None` if it agreed at some time.
    fn fault(&self, ledger: &Ledger) -> Option<&'static str> {
        match self {
            LedgerReply::Udp(txid, tip, found) => {
                if !ledger.blocks.contains_key(tip) {
                    return Some("a tip that btcd never had");
                }
                let place = ledger.place(txid, *tip);
                match (found, place) {
                    (None, None) => None,
                    (None, Some(_)) => Some("a transaction of that chain is called unknown"),
                    (Some(_), None) => Some("a transaction that is not in that chain has a proof"),
                    (Some((block, height, index, root)), Some((hash, position))) => {
                        let known = &ledger.blocks[&hash];
                        let same = (*block, *height, *index as usize, *root)
                            == (hash, known.height, position, known.root);
                        let holds = same && ledger.is_ancestor(block, *tip);
                        (!holds).then_some("another block, height, position or root")
                    }
                }
            }
            LedgerReply::Electrum(txid, height, position, root) => {
                let mut blocks = ledger.blocks.values();
                let holds = blocks.any(|block| {
                    (block.height, block.root) == (*height, *root) && block.txids.get(*position) == Some(txid)
                });
                (!holds)
                    .then_some("no block of btcd's chain at that height has this transaction and root there")
            }
        }
    }
}

#[test]
fn the_check_of_the_chaos_test_finds_each_wrong_answer() {
    let block = |height, parent, txids: &[u8]| Block {
        height,
        parent: [parent; 32],
        root: [height as u8 + 100; 32],
        txids: txids.iter().map(|txid| [*txid; 32]).collect(),
    };
    // Block 3 follows block 2; block 4 is another branch from block 1.
    let blocks = [
        ([1; 32], block(0, 0, &[10])),
        ([2; 32], block(1, 1, &[20, 21])),
        ([3; 32], block(2, 2, &[30])),
        ([4; 32], block(3, 1, &[40])),
    ];
    let ledger = Ledger {
        blocks: blocks.into_iter().collect(),
        best: Vec::new(),
    };
    let udp = |txid: u8, tip: u8, found: Option<(u8, u32, u32, u8)>| {
        let found = found.map(|(block, height, index, root)| ([block; 32], height, index, [root; 32]));
        LedgerReply::Udp([txid; 32], [tip; 32], found).fault(&ledger)
    };
    assert_eq!(udp(21, 3, Some((2, 1, 1, 101))), None);
    assert_eq!(udp(40, 3, None), None);
    for (txid, tip, found) in [
        (21, 4, Some((2, 1, 1, 101))),
        (21, 9, Some((2, 1, 1, 101))),
        (21, 3, None),
        (21, 3, Some((3, 1, 1, 101))),
        (21, 3, Some((2, 2, 1, 101))),
        (21, 3, Some((2, 1, 0, 101))),
        (21, 3, Some((2, 1, 1, 102))),
        (40, 3, Some((4, 3, 0, 103))),
    ] {
        assert!(udp(txid, tip, found).is_some(), "{txid} {tip} {found:?}");
    }
    let electrum = |height, position, root: u8| {
        LedgerReply::Electrum([21; 32], height, position, [root; 32]).fault(&ledger)
    };
    assert_eq!(electrum(1, 1, 101), None);
    for (height, position, root) in [(2, 1, 101), (1, 0, 101), (1, 2, 101), (1, 1, 102)] {
        assert!(
            electrum(height, position, root).is_some(),
            "{height} {position} {root}"
        );
    }
}

/// State shared by the threads of the two clients and the test: addresses, known transactions, and replies.
struct ClientsShared {
    servers: Mutex<Option<(SocketAddr, SocketAddr)>>,
    txids: Mutex<Vec<(Hash, u32)>>,
    seen: Mutex<HashSet<LedgerReply>>,
    stop: AtomicBool,
}

impl ClientsShared {
    fn start(&self, server: &Server) {
        *self.servers.lock().unwrap() = Some((server.udp(), server.address("electrum")));
    }

    fn some_txid(&self, random: &mut Random) -> (Hash, u32) {
        *random.pick(&self.txids.lock().unwrap())
    }

    /// Sends requests over UDP until the test sets `stop`. Repeats a request that was not answered. Returns the number
    /// of replies.
    fn ask_by_udp(&self, mut random: Random) -> u64 {
        let mut answers = 0;
        while !self.stop.load(Relaxed) {
            let server = self.servers.lock().unwrap().map(|(udp, _)| udp);
            let Some(mut client) =
                server.and_then(|server| Client::connect(server, Duration::from_millis(300)).ok())
            else {
                std::thread::sleep(Duration::from_millis(5));
                continue;
            };
            loop {
                let (txid, _) = self.some_txid(&mut random);
                let Ok(answer) = client.proof(&txid) else { break };
                let found = answer.result.map(|proof| {
                    let root = root_of(&txid, proof.index as usize, proof.path.hashes());
                    (proof.header.hash(), proof.height, proof.index, root)
                });
                self.seen
                    .lock()
                    .unwrap()
                    .insert(LedgerReply::Udp(txid, answer.tip.hash, found));
                answers += 1;
                if self.stop.load(Relaxed) {
                    break;
                }
            }
        }
        answers
    }

    /// Sends requests by the Electrum protocol until the test sets `stop`. An error reply is not recorded, because it
    /// names no tip. Returns the number of replies.
    fn ask_by_electrum(&self, mut random: Random) -> u64 {
        let mut answers = 0;
        while !self.stop.load(Relaxed) {
            let server = self.servers.lock().unwrap().map(|(_, tcp)| tcp);
            let Some(Ok(mut client)) = server.map(Electrum::connect) else {
                std::thread::sleep(Duration::from_millis(5));
                continue;
            };
            while !self.stop.load(Relaxed) {
                let (txid, height) = self.some_txid(&mut random);
                let Ok(answer) = client.call(GET_MERKLE, &json!([to_display(&txid), height])) else {
                    break;
                };
                if let Some(seen) = electrum_answer(&txid, &answer) {
                    self.seen.lock().unwrap().insert(seen);
                    answers += 1;
                }
            }
        }
        answers
    }
}

fn electrum_answer(txid: &Hash, answer: &Value) -> Option<LedgerReply> {
    let result = answer.get("result")?;
    let path = result["merkle"].as_array().unwrap().iter();
    let path: Vec<Hash> = path
        .map(|hash| from_display(hash.as_str().unwrap()).unwrap())
        .collect();
    let position = result["pos"].as_u64().unwrap() as usize;
    let height = result["block_height"].as_u64().unwrap() as u32;
    Some(LedgerReply::Electrum(
        *txid,
        height,
        position,
        root_of(txid, position, &path),
    ))
}

/// Processes, ledger and random number generator of one run.
struct Chaos<'a> {
    program: PathBuf,
    btcd: Btcd,
    folder: tempfile::TempDir,
    server: Option<Server>,
    ledger: Ledger,
    random: Random,
    shared: &'a ClientsShared,
    coinbase: usize,
}

impl Chaos<'_> {
    fn record(&mut self) {
        self.ledger.record(&self.btcd);
        let mut txids = Vec::new();
        for block in self
            .ledger
            .blocks
            .values()
            .filter(|block| block.height > MATURITY)
        {
            txids.extend(block.txids.iter().map(|txid| (*txid, block.height)));
        }
        *self.shared.txids.lock().unwrap() = txids;
    }

    /// Mines blocks with transactions, or replaces the newest blocks.
    fn change_the_chain(&mut self) {
        if self.random.one_in(3) {
            let depth = 1 + self.random.index(3);
            let gone = self.ledger.best[self.ledger.best.len() - depth];
            self.btcd.call("invalidateblock", json!([to_display(&gone)]));
            self.btcd.generate(depth as u32 + 1);
        } else {
            let count = 1 + self.random.below(20) as u32;
            send_many(&self.btcd, self.coinbase, count);
            self.coinbase += 1;
            self.btcd.generate(1 + self.random.below(3) as u32);
        }
        self.record();
    }

    fn pause(&mut self) {
        std::thread::sleep(Duration::from_millis(self.random.below(40)));
    }

    fn kill_the_server(&mut self) {
        *self.shared.servers.lock().unwrap() = None;
        self.server = None;
        self.pause();
        let server = serve(&self.btcd, &self.folder);
        self.shared.start(&server);
        self.server = Some(server);
    }

    /// Kills btcd, which may lose its newest blocks, and mines until its chain is longer than before.
    fn kill_the_node(&mut self) {
        let before = self.ledger.best.len();
        self.btcd.kill();
        self.pause();
        self.btcd.restart(&self.program);
        loop {
            self.record();
            if self.ledger.best.len() > before {
                return;
            }
            self.btcd.generate((before - self.ledger.best.len()) as u32 + 1);
        }
    }

    /// Asserts that every reply so far was true at some time, and that replies to new requests are true now.
    fn check(&mut self) {
        let server = self.server.as_ref().unwrap();
        wait_for_tip(server, &self.ledger);
        for seen in self.shared.seen.lock().unwrap().drain() {
            if let Some(fault) = seen.fault(&self.ledger) {
                panic!("{fault}: {seen:?}");
            }
        }
        let mut client = Client::connect(server.udp(), Duration::from_secs(10)).unwrap();
        let mut wallet = Electrum::connect(server.address("electrum")).unwrap();
        let tip = *self.ledger.best.last().unwrap();
        let all = self.ledger.txids();
        for _ in 0..200 {
            let txid = *self.random.pick(&all);
            let place = self.ledger.place(&txid, tip);
            let answer = client.proof(&txid).unwrap();
            assert_eq!(answer.tip.hash, tip);
            assert_eq!(
                answer.result.map(|proof| proof.header.hash()),
                place.map(|(block, _)| block)
            );
            if let Some((block, position)) = place {
                let known = &self.ledger.blocks[&block];
                let params = json!([to_display(&txid), known.height]);
                let answer = wallet.call(GET_MERKLE, &params).unwrap();
                let expected = LedgerReply::Electrum(txid, known.height, position, known.root);
                assert_eq!(electrum_answer(&txid, &answer), Some(expected), "{answer}");
            }
        }
    }
}

#[test]
fn kill_9_of_server_and_node_never_gives_an_answer_that_btcds_chain_does_not() {
    let Some((program, btcd, folder)) = started() else {
        return;
    };
    let seed =
        std::env::var("LINESIDE_SEED").map_or(5, |seed| seed.parse().expect("LINESIDE_SEED is a number"));
    let rounds = std::env::var("LINESIDE_ROUNDS").map_or(8, |rounds| rounds.parse().expect("a number"));
    btcd.generate(MATURITY + 20);
    let server = serve(&btcd, &folder);
    let shared = ClientsShared {
        servers: Mutex::new(None),
        txids: Mutex::new(Vec::new()),
        seen: Mutex::new(HashSet::new()),
        stop: AtomicBool::new(false),
    };
    shared.start(&server);
    let mut chaos = Chaos {
        program,
        btcd,
        folder,
        server: Some(server),
        ledger: Ledger::default(),
        random: Random(seed + 2),
        shared: &shared,
        coinbase: 1,
    };
    chaos.record();
    chaos.check();
    let answers = std::thread::scope(|scope| {
        let by_udp = scope.spawn(|| shared.ask_by_udp(Random(seed)));
        let by_electrum = scope.spawn(|| shared.ask_by_electrum(Random(seed + 1)));
        let stop = StopWhenDropped(&shared.stop);
        for round in 0..rounds {
            chaos.change_the_chain();
            chaos.pause();
            match round % 3 {
                0 => chaos.kill_the_server(),
                1 => chaos.kill_the_node(),
                _ => {
                    chaos.kill_the_node();
                    chaos.kill_the_server();
                }
            }
            chaos.check();
        }
        chaos.change_the_chain();
        chaos.check();
        drop(stop);
        let unknown = json!(["77".repeat(32), 1]);
        let server = chaos.server.as_ref().unwrap();
        assert!(electrum(server.address("electrum"), GET_MERKLE, &unknown)["error"].is_object());
        (by_udp.join().unwrap(), by_electrum.join().unwrap())
    });
    assert!(
        answers.0 > 100 && answers.1 > 100,
        "the clients were answered: {answers:?}"
    );
}

/// Sets the stop flag of the clients when it is dropped, so that they also stop when the test fails.
struct StopWhenDropped<'a>(&'a AtomicBool);

impl Drop for StopWhenDropped<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}
