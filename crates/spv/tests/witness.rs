//! Tests of witness proofs through store, host and client. Each WTXID must equal that of the `bitcoin` crate, and no
//! changed reply may be accepted.

mod real;

use bitcoin::hashes::Hash as _;
use bitcoin::{Block, Transaction};
use lineside_client::spv::reply::{self, WitnessProven};
use lineside_client::spv::{Client, ClientError, ServedWitness};
use lineside_fastpath::{FastPath, Host, Readers, Reply, Source, Verdict, lease};
use lineside_net::{SocketDatapath, SocketOptions};
use lineside_spv::chain::{
    BlockWitness, ChainError, ChainStore, CheckedBlock, DETACHED_HEIGHT, Network, Refused,
};
use lineside_spv::fastpath::SpvFastPath;
use lineside_spv::host::SpvHost;
use lineside_spv::store::{Geometry, Hash, Store};
use lineside_spv::writer::StoreWriter;
use lineside_spv_proof::{Network as ProofNetwork, depth_of};
use lineside_testkit::{DemoBlock, DemoChain, Random, skipped};
use lineside_wire::{SPV_OP_WITNESS_PROOF, SPV_WITNESS_ROOM_MAX, SpvCounter, Status, native};
use std::sync::Arc;
use std::time::Duration;
use zerocopy::IntoBytes;

const FROM: Source = Source {
    address: std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST),
    port: 40000,
};

struct Rig {
    fastpath: Arc<SpvFastPath>,
    host: Arc<SpvHost>,
    readers: Readers,
}

fn rig(network: Network, with_witness: bool) -> Rig {
    let geometry = Geometry {
        line_bits: 12,
        block_bits: 6,
        tree_bits: 14,
        ..Geometry::default()
    };
    let store = Arc::new(Store::anonymous(&geometry).unwrap());
    lease::renew(&store.control().lease_until_ns, 1 << 40);
    let writer = Box::new(StoreWriter::new(Arc::clone(&store)));
    let readers = Readers::default();
    let chain = ChainStore::make(None, network, with_witness).unwrap();
    let host = SpvHost::new(chain, writer, readers.clone(), true).with_witness_tree_cache(100_000);
    Rig {
        fastpath: Arc::new(SpvFastPath::new(store)),
        host: Arc::new(host),
        readers,
    }
}

fn request(txid: &Hash, room: usize) -> Vec<u8> {
    let body = 200 + room;
    let mut request = native::request_header(SPV_OP_WITNESS_PROOF, 77, body as u16)
        .as_bytes()
        .to_vec();
    request.extend_from_slice(txid);
    request.resize(16 + body, 0xcc);
    request
}

impl Rig {
    /// Sends a request to the fast path, which must forward it, and then to the host, whose reply it returns.
    fn ask(&self, txid: &Hash, room: usize) -> Vec<u8> {
        let request = request(txid, room);
        let mut reply = Reply::default();
        let verdict = self.fastpath.answer(FROM, lease::now_ns(), &request, &mut reply);
        assert_eq!(verdict, Verdict::Forward);
        let verdict = self.host.serve(FROM, &request, &mut reply, &self.readers.join());
        assert_eq!(verdict, Verdict::Reply);
        assert_eq!(
            reply.as_bytes().len(),
            request.len(),
            "a reply has the length of its request"
        );
        reply.as_bytes().to_vec()
    }

    fn status(&self, txid: &Hash) -> Status {
        let reply = self.ask(txid, 800);
        let (status, body) = reply::parse(SPV_OP_WITNESS_PROOF, 77, &reply).unwrap();
        assert!(body[..96].iter().chain(&body[132..]).all(|byte| *byte == 0));
        status
    }

    fn served(&self, txid: &Hash, room: usize) -> ServedWitness {
        served(&self.ask(txid, room), room).unwrap()
    }
}

fn proven(reply: &[u8], room: usize) -> Option<WitnessProven> {
    let (status, body) = reply::parse(SPV_OP_WITNESS_PROOF, 77, reply)?;
    reply::witness_proof(status, body, room)
}

fn served(reply: &[u8], room: usize) -> Option<ServedWitness> {
    match proven(reply, room)? {
        WitnessProven::Answered(answer) => answer.result,
        _ => None,
    }
}

fn decoded(block: &DemoBlock) -> Block {
    bitcoin::consensus::deserialize(&block.raw).unwrap()
}

/// Returns the leaf at `index` of the block's witness tree, computed by the `bitcoin` crate.
fn leaf(block: &Block, index: usize) -> Hash {
    match index {
        0 => [0; 32],
        _ => block.txdata[index].compute_wtxid().to_byte_array(),
    }
}

/// Checks a served proof with the verifier, and against the block as the `bitcoin` crate decodes it.
fn check(served: &ServedWitness, block: &Block, index: usize, network: ProofNetwork) {
    let wtxid = leaf(block, index);
    assert_eq!(served.wtxid, wtxid);
    assert_eq!(served.proof().verify(network, &wtxid), Ok(()));
    assert_eq!(served.header.hash(), block.block_hash().to_byte_array());
    assert_eq!(
        (served.index as usize, served.transaction_count as usize),
        (index, block.txdata.len())
    );
    let mut coinbase = block.txdata[0].clone();
    coinbase.input[0].witness.clear();
    assert_eq!(served.coinbase, bitcoin::consensus::serialize(&coinbase));
    assert_eq!(
        served
            .coinbase_path
            .root(&coinbase.compute_txid().to_byte_array(), 0),
        Ok(block.compute_merkle_root().unwrap().to_byte_array())
    );
    let root = block.witness_root().unwrap().to_byte_array();
    assert_eq!(served.path.root(&wtxid, index as u32), Ok(root));
}

fn txid(transaction: &Transaction) -> Hash {
    transaction.compute_txid().to_byte_array()
}

#[test]
fn every_transaction_of_blocks_with_witnesses_is_proved_by_its_wtxid() {
    for transactions in [1, 2, 3, 4, 5, 8, 9, 50] {
        let rig = rig(Network::Regtest, true);
        let blocks: Vec<_> = DemoChain::new(1, transactions).with_witness().take(2).collect();
        for block in &blocks {
            rig.host.submit(&block.raw, false).unwrap();
        }
        for (height, block) in (0..).zip(&blocks) {
            let real = decoded(block);
            assert!(real.check_witness_commitment());
            let differ = |tx: &Transaction| txid(tx) != tx.compute_wtxid().to_byte_array();
            assert!(real.txdata.iter().any(differ), "there are witnesses");
            for (index, txid) in block.txids.iter().enumerate() {
                let served = rig.served(txid, SPV_WITNESS_ROOM_MAX);
                check(&served, &real, index, ProofNetwork::Regtest);
                assert_eq!(served.height, height);
            }
        }
        let counts = rig.fastpath.counters();
        let asked = 2 * u64::from(transactions);
        assert_eq!(counts[SpvCounter::ForwardedNative as usize], asked);
    }
}

#[test]
fn a_request_with_too_little_space_gets_the_necessary_length() {
    let rig = rig(Network::Regtest, true);
    let block = DemoChain::new(1, 9).with_witness().next().unwrap();
    rig.host.submit(&block.raw, false).unwrap();
    let real = decoded(&block);
    let needed = 64 * depth_of(9) + real.txdata[0].base_size();
    for room in [0, 1, 64, needed - 1] {
        let reply = rig.ask(&block.txids[3], room);
        let told = WitnessProven::TooLong(needed as u64);
        assert_eq!(proven(&reply, room), Some(told), "{room}");
    }
    for room in [needed, needed + 1, SPV_WITNESS_ROOM_MAX] {
        check(
            &rig.served(&block.txids[3], room),
            &real,
            3,
            ProofNetwork::Regtest,
        );
    }
    // A request of another length is refused with a status.
    for body in [0, 32, 199, 200 + SPV_WITNESS_ROOM_MAX + 1] {
        let mut request = native::request_header(SPV_OP_WITNESS_PROOF, 5, body as u16)
            .as_bytes()
            .to_vec();
        request.resize(16 + body, 1);
        let mut reply = Reply::default();
        let verdict = rig.host.serve(FROM, &request, &mut reply, &rig.readers.join());
        assert_eq!(verdict, Verdict::Reply);
        let (status, _) = reply::parse(SPV_OP_WITNESS_PROOF, 5, reply.as_bytes()).unwrap();
        assert_eq!((status, reply.as_bytes().len()), (Status::BadRequest, 16));
    }
}

#[test]
fn a_reply_without_a_witness_proof_has_the_reason() {
    let with = DemoChain::new(1, 5).with_witness().next().unwrap();
    let without = rig(Network::Regtest, false);
    without.host.submit(&with.raw, false).unwrap();
    assert_eq!(without.status(&with.txids[1]), Status::NotKept);
    assert_eq!(without.status(&[9; 32]), Status::NotKept);
    let rig = rig(Network::Regtest, true);
    rig.host.submit(&with.raw, false).unwrap();
    let plain = DemoChain::branch(2, 5, with.hash, 1).next().unwrap();
    rig.host.submit(&plain.raw, false).unwrap();
    assert_eq!(rig.status(&plain.txids[0]), Status::NoCommitment);
    assert_eq!(rig.status(&plain.txids[4]), Status::NoCommitment);
    assert_eq!(rig.status(&[9; 32]), Status::Unknown);
    let after = DemoChain::branch(3, 5, plain.hash, 2)
        .with_witness()
        .next()
        .unwrap();
    rig.host.submit(&after.raw, false).unwrap();
    for block in [&with, &after] {
        let served = rig.served(&block.txids[4], 800);
        check(&served, &decoded(block), 4, ProofNetwork::Regtest);
    }
}

#[test]
fn a_reorganisation_leaves_no_witness_proof_of_the_old_branch() {
    let rig = rig(Network::Regtest, true);
    let shared = DemoChain::new(50, 2).payment(1);
    let shared_txid = txid(&shared);
    let mut old = DemoChain::new(1, 6).with_witness();
    let first = old.next().unwrap();
    let gone = old.next_with(std::slice::from_ref(&shared));
    for block in [&first, &gone] {
        rig.host.submit(&block.raw, false).unwrap();
        rig.served(&block.txids[2], 900);
    }
    check(
        &rig.served(&shared_txid, 900),
        &decoded(&gone),
        6,
        ProofNetwork::Regtest,
    );
    let mut new = DemoChain::branch(2, 9, first.hash, 1).with_witness();
    let here = new.next_with(std::slice::from_ref(&shared));
    for block in [&here, &new.next().unwrap()] {
        rig.host.submit(&block.raw, false).unwrap();
    }
    for txid in gone.txids.iter().filter(|txid| **txid != shared_txid) {
        assert_eq!(rig.status(txid), Status::Unknown);
    }
    // A transaction in both branches is proved in the connected one.
    check(
        &rig.served(&shared_txid, 900),
        &decoded(&here),
        9,
        ProofNetwork::Regtest,
    );
    check(
        &rig.served(&first.txids[5], 900),
        &decoded(&first),
        5,
        ProofNetwork::Regtest,
    );
}

/// Flips each bit of a reply, and tries each prefix of it. The result must be malformed, or the verifier must refuse
/// it, or the proof in it must be unchanged.
#[test]
fn every_changed_reply_is_refused_or_has_the_same_meaning() {
    let rig = rig(Network::Regtest, true);
    let block = DemoChain::new(4, 11).with_witness().next().unwrap();
    rig.host.submit(&block.raw, false).unwrap();
    let (index, room) = (7, 700);
    let reply = rig.ask(&block.txids[index], room);
    let honest = served(&reply, room).unwrap();
    let wtxid = leaf(&decoded(&block), index);
    let (mut refused, mut no_answer, mut same) = (0, 0, Vec::new());
    for bit in 0..reply.len() * 8 {
        let mut changed = reply.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        let Some(answer) = served(&changed, room) else {
            no_answer += 1;
            continue;
        };
        // A client compares the header with its own chain, and the WTXID with the one it knows. (A proof of work alone
        // proves little here: on regtest half of all headers have a valid one.)
        if answer.header != honest.header
            || answer.wtxid != wtxid
            || answer.proof().verify(ProofNetwork::Regtest, &wtxid).is_err()
        {
            refused += 1;
            continue;
        }
        let said = ServedWitness {
            height: honest.height,
            transaction_count: honest.transaction_count,
            ..answer
        };
        assert_eq!(said, honest, "bit {bit}");
        same.push(bit / 8 - 16);
    }
    // Only these fields may differ: the height, which a client takes from its own header; the number of transactions,
    // as long as the trees have the same shape; and the tip and its height, which are not part of the proof.
    let is_no_part = |at: &usize| (80..88).contains(at) || (96..132).contains(at);
    assert!(same.iter().all(is_no_part), "{same:?}");
    assert!(refused > 2_000 && no_answer > 500, "{refused}, {no_answer}");
    for length in 0..reply.len() {
        assert!(served(&reply[..length], room).is_none(), "{length}");
    }
}

#[test]
fn a_reply_with_a_wrong_length_is_no_answer() {
    let rig = rig(Network::Regtest, true);
    let block = DemoChain::new(4, 5).with_witness().next().unwrap();
    rig.host.submit(&block.raw, false).unwrap();
    let reply = rig.ask(&block.txids[1], 500);
    for (at, word) in [
        (92, 4),
        (92, 33),
        (92, u32::MAX),
        (92, 1 << 27),
        (132, 0xffff_ffff),
        (132, 501),
    ] {
        let mut lying = reply.clone();
        lying[16 + at..][..4].copy_from_slice(&u32::to_be_bytes(word));
        let believed = served(&lying, 500).is_some_and(|said| {
            let wtxid = said.wtxid;
            said.proof().verify(ProofNetwork::Regtest, &wtxid).is_ok()
        });
        assert!(!believed, "{word} at {at}");
    }
    // The status "too long" in reply to a request with enough space is malformed. Otherwise a client would repeat the
    // request forever.
    let mut lying = reply.clone();
    lying[5] = Status::TooLong as u8;
    assert_eq!(proven(&lying, 500), None);
    assert_eq!(proven(&reply, 499), None);
}

#[test]
fn a_client_gets_witness_proofs_or_the_reason_why_there_is_none() {
    let ask = |rig: &Rig| {
        let options = SocketOptions {
            listen: "127.0.0.1:0".parse().unwrap(),
            threads: 1,
            queue: 64,
        };
        let (fastpath, host) = (Arc::clone(&rig.fastpath), Arc::clone(&rig.host));
        let datapath = SocketDatapath::start(options, fastpath, host, &rig.readers).unwrap();
        let client = Client::connect(datapath.local_addr(), Duration::from_secs(20)).unwrap();
        (datapath, client)
    };
    let served = rig(Network::Regtest, true);
    let mut chain = DemoChain::new(1, 600).with_witness();
    let large = chain.next().unwrap();
    // This block's coinbase has many outputs, so that no reply has enough space for it.
    let mut long = decoded(
        &DemoChain::branch(2, 2, large.hash, 1)
            .with_witness()
            .next()
            .unwrap(),
    );
    let output = long.txdata[0].output[0].clone();
    long.txdata[0].output.splice(0..0, vec![output; 40]);
    let long = mined(long);
    for raw in [&large.raw, &long.1] {
        served.host.submit(raw, false).unwrap();
    }
    let (_datapath, mut client) = ask(&served);
    let real = decoded(&large);
    for index in [0, 1, 2, 599] {
        let answer = client.witness_proof(&large.txids[index]).unwrap();
        assert_eq!(answer.tip.hash, long.0);
        check(&answer.result.unwrap(), &real, index, ProofNetwork::Regtest);
    }
    assert_eq!(client.witness_proof(&[7; 32]).unwrap().result, None);
    let error = client.witness_proof(&long.2).unwrap_err();
    assert!(
        matches!(error, ClientError::LongWitnessProof { bytes, .. } if bytes > 1236),
        "{error}"
    );

    let plain = DemoChain::new(3, 4).next().unwrap();
    for (with_witness, expected) in [(true, "commits to no witnesses"), (false, "spv init --witness")] {
        let rig = rig(Network::Regtest, with_witness);
        rig.host.submit(&plain.raw, false).unwrap();
        let (_datapath, mut client) = ask(&rig);
        let error = client.witness_proof(&plain.txids[2]).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

/// Sets the Merkle root and the proof of work of a changed block. Returns the block's hash, its bytes, and the TXID of
/// its second transaction.
fn mined(mut block: Block) -> (Hash, Vec<u8>, Hash) {
    block.header.merkle_root = block.compute_merkle_root().unwrap();
    while !block.header.target().is_met_by(block.block_hash()) {
        block.header.nonce += 1;
    }
    let hash = block.block_hash().to_byte_array();
    let second = block.txdata.get(1).map_or([0; 32], txid);
    (hash, bitcoin::consensus::serialize(&block), second)
}

/// Checks blocks whose witnesses were changed. TXIDs do not cover witnesses, so the Merkle root is still right.
#[test]
fn blocks_with_other_witnesses_than_the_coinbase_commits_to_are_refused() {
    let good = decoded(&DemoChain::new(1, 6).with_witness().next().unwrap());
    let mut store = ChainStore::make(None, Network::Regtest, true).unwrap();
    let mut refused = |change: &dyn Fn(&mut Block)| {
        let mut block = good.clone();
        change(&mut block);
        let (_, raw, _) = mined(block);
        CheckedBlock::check(&raw, Network::Regtest).unwrap();
        let error = store.submit(&raw, false).unwrap_err();
        assert_eq!(store.blocks(), 0);
        format!("{error:?}")
    };
    let items = |block: &mut Block, index: usize, items: &[&[u8]]| {
        block.txdata[index].input[0].witness = bitcoin::Witness::from_slice(items);
    };
    let wrong = "WrongWitnessCommitment";
    assert_eq!(refused(&|block| items(block, 1, &[&[1; 64], &[2; 33]])), wrong);
    assert_eq!(refused(&|block| items(block, 1, &[])), wrong);
    assert_eq!(refused(&|block| items(block, 3, &[&[1; 64]])), wrong);
    assert_eq!(refused(&|block| items(block, 0, &[])), wrong);
    assert_eq!(refused(&|block| items(block, 0, &[&[1; 32]])), wrong);
    assert_eq!(refused(&|block| items(block, 0, &[&[1; 31]])), wrong);
    assert_eq!(refused(&|block| items(block, 0, &[&[1; 32], &[1; 32]])), wrong);
    let without = refused(&|block| drop(block.txdata[0].output.pop()));
    assert_eq!(without, "UnexpectedWitness");
    let strip = |block: &mut Block| (0..6).for_each(|index| items(block, index, &[]));
    assert_eq!(refused(&strip), "WitnessesMissing");
    let (_, raw, _) = mined(good.clone());
    let unchecked = CheckedBlock::check(&raw, Network::Regtest).unwrap();
    assert!(matches!(
        store.accept(&unchecked, false),
        Err(Refused::WitnessesNotChecked)
    ));
    let taken = store.submit(&raw, false).unwrap();
    assert!(matches!(
        store.witness(taken.id).unwrap(),
        BlockWitness::Committed(_)
    ));
    assert!(matches!(
        store.witness(lineside_spv::chain::BlockId(5)),
        Err(ChainError::NoSuchBlock(5))
    ));
}

#[test]
fn real_blocks_have_witness_proofs_unless_they_are_before_segwit() {
    let Some(blocks) = real::blocks() else {
        return skipped("the folder with recorded blocks does not exist");
    };
    let mut proved = 0;
    for real in blocks.iter().filter(|block| !block.is_altered) {
        let rig = rig(real.network, true);
        let taken = rig.host.submit(&real.raw, true).unwrap();
        assert_eq!(taken.height, DETACHED_HEIGHT);
        let block: Block = bitcoin::consensus::deserialize(&real.raw).unwrap();
        let is_committed = block.witness_root().is_some() && !block.txdata[0].input[0].witness.is_empty();
        let mut random = Random(u64::from(real.height));
        let mut indexes: Vec<usize> = (0..40).map(|_| random.index(block.txdata.len())).collect();
        indexes.extend([0, block.txdata.len() - 1]);
        for index in indexes {
            let asked = txid(&block.txdata[index]);
            if !is_committed {
                assert_eq!(rig.status(&asked), Status::NoCommitment, "height {}", real.height);
                continue;
            }
            let needed = 64 * depth_of(block.txdata.len() as u32) + block.txdata[0].base_size();
            if needed > SPV_WITNESS_ROOM_MAX {
                let reply = rig.ask(&asked, 0);
                assert_eq!(proven(&reply, 0), Some(WitnessProven::TooLong(needed as u64)));
                continue;
            }
            let served = rig.served(&asked, needed);
            check(&served, &block, index, real.network.rules());
            proved += 1;
        }
    }
    assert!(proved > 40, "{proved}");
}
