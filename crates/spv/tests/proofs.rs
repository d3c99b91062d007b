//! Tests of proofs and headers through host, fast path and client: every proof must be valid, and must be from a block
//! that is in the chain.

use lineside_client::spv::Client;
use lineside_client::spv::reply::{self, Proven};
use lineside_fastpath::{FastPath, Host, Readers, Reply, Source, Verdict, lease};
use lineside_net::{SocketDatapath, SocketOptions};
use lineside_spv::chain::{ChainStore, Network};
use lineside_spv::fastpath::SpvFastPath;
use lineside_spv::host::{SpvHost, Tables};
use lineside_spv::store::{Geometry, Hash, Store};
use lineside_spv::writer::{SpvFill, StoreWriter};
use lineside_spv_proof::{Network as ProofNetwork, TransactionProof};
use lineside_testkit::{DemoBlock, DemoChain};
use lineside_wire::{SPV_OP_PROOF, SpvCounter, Status, native};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use zerocopy::IntoBytes;

const FROM: Source = Source {
    address: std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST),
    port: 40000,
};

struct Rig {
    store: Arc<Store>,
    fastpath: Arc<SpvFastPath>,
    host: Arc<SpvHost>,
    readers: Readers,
}

fn rig(tree_bits: u32) -> Rig {
    rig_of(tree_bits, Tables::default())
}

fn rig_of(tree_bits: u32, tables: Tables) -> Rig {
    let geometry = Geometry {
        line_bits: 12,
        block_bits: 6,
        tree_bits,
        ..Geometry::default()
    };
    let store = Arc::new(Store::anonymous(&geometry).unwrap());
    lease::renew(&store.control().lease_until_ns, 1 << 40);
    let writer = Box::new(StoreWriter::new(Arc::clone(&store)));
    let readers = Readers::default();
    let chain = ChainStore::open(None, Network::Regtest).unwrap();
    Rig {
        fastpath: Arc::new(SpvFastPath::new(Arc::clone(&store))),
        host: Arc::new(SpvHost::new(chain, writer, readers.clone(), true).with_tables(tables)),
        store,
        readers,
    }
}

fn request(txid: &Hash, room: usize) -> Vec<u8> {
    let body = 136 + 32 * room;
    let mut request = native::request_header(SPV_OP_PROOF, 77, body as u16)
        .as_bytes()
        .to_vec();
    request.extend_from_slice(txid);
    request.resize(16 + body, 0xcc);
    request
}

fn proven(reply: &[u8], room: usize) -> Proven {
    let (status, body) = reply::parse(SPV_OP_PROOF, 77, reply).unwrap();
    reply::proof(status, body, room).unwrap()
}

impl Rig {
    fn fastpath(&self, request: &[u8]) -> Option<Vec<u8>> {
        let mut reply = Reply::default();
        let verdict = self.fastpath.answer(FROM, lease::now_ns(), request, &mut reply);
        (verdict == Verdict::Reply).then(|| reply.as_bytes().to_vec())
    }

    fn host(&self, request: &[u8]) -> Vec<u8> {
        let mut reply = Reply::default();
        let verdict = self.host.serve(FROM, request, &mut reply, &self.readers.join());
        assert_eq!(verdict, Verdict::Reply);
        assert_eq!(reply.as_bytes().len(), request.len());
        reply.as_bytes().to_vec()
    }
}

/// Returns the proof in a reply, after checking that it is valid and belongs to `block`.
fn check(reply: &[u8], room: usize, block: &DemoBlock, index: usize) -> TransactionProof {
    let Proven::Answered(answer) = proven(reply, room) else {
        panic!("too long");
    };
    let proof = answer.result.unwrap();
    assert_eq!(proof.verify(ProofNetwork::Regtest, &block.txids[index]), Ok(()));
    assert_eq!(proof.header.hash(), block.hash);
    assert_eq!(
        (proof.index as usize, proof.transaction_count as usize),
        (index, block.txids.len())
    );
    proof
}

/// Checks that the fast path gets no data for kinds of requests that are not in `tables`, neither when the host answers
/// nor when the newest blocks are loaded at the start.
#[test]
fn the_fast_path_has_data_only_for_the_configured_tables() {
    let none = Tables {
        roots: false,
        proofs: false,
        witnesses: false,
        headers: false,
    };
    let blocks: Vec<_> = DemoChain::new(1, 5).take(3).collect();
    for (roots, proofs) in [(false, false), (true, false), (true, true)] {
        let rig = rig_of(
            12,
            Tables {
                roots,
                proofs,
                ..none
            },
        );
        for block in &blocks {
            rig.host.submit(&block.raw, false).unwrap();
        }
        let asked = &blocks[0].txids[1];
        let mut reply = Reply::default();
        for request in [asked.to_vec(), request(asked, 7)] {
            rig.host.serve(FROM, &request, &mut reply, &rig.readers.join());
        }
        let written = rig.host.writer_counts();
        assert_eq!(
            (written.fills > 0, written.tree_fills > 0),
            (roots, proofs),
            "{written:?}"
        );
        rig.host.prefill(3);
        for txid in blocks.iter().flat_map(|block| &block.txids) {
            assert_eq!(rig.fastpath(&request(txid, 7)).is_some(), proofs);
            assert_eq!(rig.fastpath(txid).is_some(), roots);
        }
        let written = rig.host.writer_counts();
        assert_eq!(
            (written.fills > 0, written.tree_fills > 0),
            (roots, proofs),
            "{written:?}"
        );
    }
}

#[test]
fn after_a_proof_of_the_host_the_fast_path_sends_the_same_bytes() {
    for transactions in [2, 3, 8, 9, 50] {
        let rig = rig(12);
        let block = DemoChain::new(1, transactions).next().unwrap();
        rig.host.submit(&block.raw, false).unwrap();
        for (index, txid) in block.txids.iter().enumerate() {
            let request = request(txid, 7);
            assert_eq!(rig.fastpath(&request), None);
            let by_host = rig.host(&request);
            check(&by_host, 7, &block, index);
            assert_eq!(rig.fastpath(&request), Some(by_host));
        }
        assert_eq!(rig.host.writer_counts().tree_fills, 1);
        let counts = rig.fastpath.counters();
        assert_eq!(counts[SpvCounter::Hits as usize], block.txids.len() as u64);
        assert_eq!(counts[SpvCounter::Misses as usize], block.txids.len() as u64);
    }
}

#[test]
fn a_reply_to_a_request_without_enough_space_has_the_length_of_the_path() {
    let rig = rig(12);
    let block = DemoChain::new(1, 9).next().unwrap();
    rig.host.submit(&block.raw, false).unwrap();
    let depth = lineside_spv_proof::depth_of(block.txids.len() as u32);
    for room in 0..depth {
        let reply = rig.host(&request(&block.txids[1], room));
        assert_eq!(proven(&reply, room), Proven::TooLong(depth as u32));
    }
    assert_eq!(
        rig.host.writer_counts().tree_fills,
        0,
        "no tree was computed for a refused request"
    );
    check(&rig.host(&request(&block.txids[1], depth)), depth, &block, 1);
}

#[test]
fn a_reorganisation_leaves_no_proof_of_the_old_branch() {
    let rig = rig(12);
    let blocks: Vec<_> = DemoChain::new(1, 20).take(3).collect();
    for block in &blocks {
        rig.host.submit(&block.raw, false).unwrap();
    }
    rig.host.prefill(3);
    for block in &blocks {
        let reply = rig
            .fastpath(&request(&block.txids[7], 6))
            .expect("the fast path was filled when the service started");
        check(&reply, 6, block, 7);
    }
    for block in DemoChain::branch(2, 20, blocks[1].hash, 2).take(2) {
        rig.host.submit(&block.raw, false).unwrap();
    }
    for txid in &blocks[2].txids {
        assert_eq!(rig.fastpath(&request(txid, 6)), None);
        let reply = rig.host(&request(txid, 6));
        let (status, _) = reply::parse(SPV_OP_PROOF, 77, &reply).unwrap();
        assert_eq!(status, Status::Unknown);
    }
    check(
        &rig.fastpath(&request(&blocks[1].txids[7], 6)).unwrap(),
        6,
        &blocks[1],
        7,
    );
}

#[test]
fn a_table_with_little_or_no_space_for_trees_forwards_proofs() {
    let blocks: Vec<_> = DemoChain::new(1, 20).take(6).collect();
    let whole = |tree_bits| {
        let rig = rig(tree_bits);
        for block in &blocks {
            rig.host.submit(&block.raw, false).unwrap();
        }
        rig.host.prefill(6);
        let proven = |block: &&DemoBlock| rig.fastpath(&request(&block.txids[3], 6)).is_some();
        let there = blocks.iter().filter(proven).count();
        for block in &blocks {
            check(&rig.host(&request(&block.txids[3], 6)), 6, block, 3);
        }
        assert!(rig.fastpath(&request(&blocks[5].txids[3], 6)).is_some() == (tree_bits > 4));
        there
    };
    assert_eq!(whole(0), 0);
    assert_eq!(whole(4), 0, "a tree of 48 nodes does not fit into 16 nodes");
    assert_eq!(whole(7), 2);
    assert_eq!(whole(12), 6);
}

#[test]
fn adoption_keeps_whole_trees_and_no_others() {
    let rig = rig(12);
    let blocks: Vec<_> = DemoChain::new(1, 20).take(3).collect();
    for block in &blocks {
        rig.host.submit(&block.raw, false).unwrap();
    }
    rig.host.prefill(3);
    let ask = |number: usize| rig.fastpath(&request(&blocks[number].txids[3], 6));
    let before = [0, 1, 2].map(ask);
    assert!(before.iter().all(Option::is_some));
    // The reference to a tree leads beyond the end of the table; no earlier writer can have left such a reference.
    let place = rig.store.blocks.as_slice().iter();
    let mut place = place.filter(|place| place.height.load(Relaxed) == 1 && place.tree.load(Relaxed) != 0);
    place.next().unwrap().tree.store(9 << 32 | 4090, Relaxed);
    let state = rig.store.control().chain_state.load(Relaxed);
    let (mut writer, kept) = StoreWriter::adopt(Arc::clone(&rig.store), state);
    assert!(kept);
    assert_eq!([0, 1, 2].map(ask), [before[0].clone(), None, before[2].clone()]);
    assert!(writer.drop_block(&blocks[0].hash));
    assert_eq!(ask(0), None);
}

#[test]
fn a_client_gets_proofs_and_headers() {
    let rig = rig(14);
    let small: Vec<_> = DemoChain::new(1, 20).take(17).collect();
    for block in &small {
        rig.host.submit(&block.raw, false).unwrap();
    }
    let large = DemoChain::branch(3, 5000, small[16].hash, 17).next().unwrap();
    rig.host.submit(&large.raw, false).unwrap();
    let options = SocketOptions {
        listen: "127.0.0.1:0".parse().unwrap(),
        threads: 1,
        queue: 64,
    };
    let (fastpath, host) = (Arc::clone(&rig.fastpath), Arc::clone(&rig.host));
    let datapath = SocketDatapath::start(options, fastpath, host, &rig.readers).unwrap();
    let mut client = Client::connect(datapath.local_addr(), Duration::from_secs(20)).unwrap();
    // A block of 5,000 transactions has paths of 13 hashes, more than the first request reserves space for.
    for (block, index) in [(&small[2], 4), (&large, 4321), (&large, 17), (&small[2], 4)] {
        let answer = client.proof(&block.txids[index]).unwrap();
        let proof = answer.result.unwrap();
        assert_eq!(proof.verify(ProofNetwork::Regtest, &block.txids[index]), Ok(()));
        assert_eq!((answer.tip.hash, proof.header.hash()), (large.hash, block.hash));
    }
    assert_eq!(client.proof(&[7; 32]).unwrap().result, None);
    assert!(rig.fastpath.counters()[SpvCounter::Hits as usize] >= 1);
    let first = client.headers(0, 14).unwrap();
    let second = client.headers(14, 14).unwrap();
    let hashes: Vec<_> = first
        .result
        .iter()
        .chain(&second.result)
        .map(|header| header.hash())
        .collect();
    let due: Vec<_> = small.iter().chain([&large]).map(|block| block.hash).collect();
    assert_eq!(hashes, due);
    assert_eq!((second.tip.hash, second.tip.height), (large.hash, 17));
    assert!(client.headers(18, 1).unwrap().result.is_empty());
    assert!(client.headers(0, 0).is_err() && client.headers(0, 15).is_err());
}
