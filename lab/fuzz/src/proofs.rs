//! Fuzz targets for the proofs of a light client, its chain of headers, and the file of that chain.

use crate::input::Input;
use bitcoin::hashes::{Hash as _, HashEngine, sha256d};
use lineside_spv_proof::{
    ChainOptions, FileStore, Hash, Header, HeaderChain, MerklePath, Network, Transaction, TransactionProof,
    Tree, WitnessProof,
};
use std::path::Path;

/// Target of every regtest header, in compact form.
const BITS: u32 = 0x207f_ffff;
/// Time that the chain's clock shows, in seconds since 1970.
const NOW: u32 = 1_700_000_000;

// ---- proofs ----

/// Block of the seeds: a coinbase with a witness commitment, and small transactions.
struct Block {
    transactions: Vec<Vec<u8>>,
    txids: Vec<Hash>,
    wtxids: Vec<Hash>,
}

fn transaction(spent: [u8; 36], script: &[u8]) -> Vec<u8> {
    let mut raw = vec![2, 0, 0, 0, 1];
    raw.extend(spent);
    raw.extend([
        4,
        1,
        2,
        3,
        4,
        255,
        255,
        255,
        255,
        1,
        9,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        script.len() as u8,
    ]);
    raw.extend(script);
    raw.extend([0; 4]);
    raw
}

impl Block {
    fn new(count: u8) -> Block {
        let mut transactions: Vec<Vec<u8>> =
            (1..count).map(|tag| transaction([tag; 36], &[0x51; 5])).collect();
        let id = |raw: &Vec<u8>| sha256d::Hash::hash(raw).to_byte_array();
        let wtxids: Vec<Hash> = std::iter::once([0; 32])
            .chain(transactions.iter().map(id))
            .collect();
        let root = Tree::new(&wtxids).expect("a block").root();
        let mut script = vec![0x6a, 0x24, 0xaa, 0x21, 0xa9, 0xed];
        script.extend(sha256d::Hash::hash(&[root, [7; 32]].concat()).to_byte_array());
        let mut nothing = [0; 36];
        nothing[32..].fill(255);
        transactions.insert(0, transaction(nothing, &script));
        let txids = transactions.iter().map(id).collect();
        Block {
            transactions,
            txids,
            wtxids,
        }
    }

    /// Encodes a proof in the input format of [`proof`].
    fn seed(&self, index: u8, kind: u8) -> Vec<u8> {
        let (ids, of_txids) = (&self.txids, Tree::new(&self.txids).expect("a block"));
        let header = mined(Header {
            merkle_root: of_txids.root(),
            ..Network::Regtest.genesis()
        });
        let leaves = if kind == 2 { &self.wtxids } else { ids };
        let tree = Tree::new(leaves).expect("a block");
        let mut seed = vec![kind];
        seed.extend(header.to_bytes());
        seed.extend((ids.len() as u32).to_le_bytes());
        seed.extend(u32::from(index).to_le_bytes());
        let write_path = |tree: &Tree, index: u8, seed: &mut Vec<u8>| {
            let path = tree.merkle_path(index.into()).expect("a path");
            seed.push(path.hashes().len() as u8);
            seed.extend(path.hashes().concat());
        };
        write_path(&tree, index, &mut seed);
        seed.extend(leaves[usize::from(index)]);
        if kind == 2 {
            write_path(&of_txids, 0, &mut seed);
            seed.extend([7; 32]);
            seed.extend(&self.transactions[0]);
        } else {
            seed.extend(&self.transactions[usize::from(index)]);
        }
        seed
    }
}

/// Finds the proof of work of a regtest header.
fn mined(mut header: Header) -> Header {
    while header.check_proof_of_work(Network::Regtest).is_err() {
        header.nonce = header.nonce.wrapping_add(1);
    }
    header
}

fn read_path(input: &mut Input) -> Vec<Hash> {
    let length = input.byte() % 34;
    (0..length).map(|_| input.array()).collect()
}

/// Returns the root to which a path leads, computed with the hash function of another crate.
fn plain_root(leaf: Hash, path: &[Hash], index: u32) -> Hash {
    let step = |(node, index): (Hash, u32), sibling: &Hash| {
        let mut engine = sha256d::Hash::engine();
        let is_right = index % 2 == 1;
        engine.input(if is_right { sibling } else { &node });
        engine.input(if is_right { &node } else { sibling });
        (sha256d::Hash::from_engine(engine).to_byte_array(), index / 2)
    };
    path.iter().fold((leaf, index), step).0
}

/// Checks a proof by TXID, by the bytes of a transaction, or by WTXID.
pub fn proof(bytes: &[u8]) {
    judge(bytes);
}

/// Checks a proof and everything that follows from it. Returns whether the proof is valid.
fn judge(bytes: &[u8]) -> bool {
    let mut input = Input(bytes);
    let kind = input.byte() % 3;
    let header = Header::from_bytes(&input.array());
    let (transaction_count, index) = (input.word(), input.word());
    let hashes = read_path(&mut input);
    let id: Hash = input.array();
    let Ok(path) = MerklePath::new(&hashes) else {
        assert_eq!(hashes.len(), 33);
        return false;
    };
    let proof = TransactionProof {
        header,
        height: 0,
        transaction_count,
        index,
        path,
    };
    let holds = match kind {
        0 => proof.verify(Network::Regtest, &id).is_ok(),
        1 => by_bytes(&proof, input.0),
        _ => by_wtxid(&proof, &id, &mut input),
    };
    if holds {
        let oracle: bitcoin::block::Header =
            bitcoin::consensus::deserialize(&header.to_bytes()).expect("80 bytes");
        assert!(oracle.validate_pow(oracle.target()).is_ok());
        assert!(index < transaction_count && transaction_count.next_power_of_two() == 1 << hashes.len());
    }
    if holds && kind == 0 {
        assert_eq!(plain_root(id, &hashes, index), header.merkle_root);
    }
    holds
}

fn by_bytes(proof: &TransactionProof, raw: &[u8]) -> bool {
    let oracle = bitcoin::consensus::deserialize::<bitcoin::Transaction>(raw).ok();
    let oracle = oracle.filter(|tx| !tx.input.is_empty() && !tx.output.is_empty());
    assert_eq!(Transaction::parse(raw).is_ok(), oracle.is_some());
    let Ok(txid) = proof.verify_transaction(Network::Regtest, raw) else {
        return false;
    };
    let oracle = oracle.expect("a transaction");
    assert_eq!(oracle.compute_txid().to_byte_array(), txid);
    assert_ne!(oracle.base_size(), 64);
    assert_eq!(
        plain_root(txid, proof.path.hashes(), proof.index),
        proof.header.merkle_root
    );
    true
}

fn by_wtxid(proof: &TransactionProof, wtxid: &Hash, input: &mut Input) -> bool {
    let Ok(coinbase_path) = MerklePath::new(&read_path(input)) else {
        return false;
    };
    let witness_reserved = input.array();
    let witness = WitnessProof {
        header: proof.header,
        height: 0,
        transaction_count: proof.transaction_count,
        index: proof.index,
        path: proof.path,
        coinbase: input.0,
        coinbase_path,
        witness_reserved,
    };
    if witness.verify(Network::Regtest, wtxid).is_err() {
        return false;
    }
    let coinbase: bitcoin::Transaction = bitcoin::consensus::deserialize(input.0).expect("a transaction");
    assert!(coinbase.is_coinbase());
    let txid = coinbase.compute_txid().to_byte_array();
    assert_eq!(
        plain_root(txid, coinbase_path.hashes(), 0),
        proof.header.merkle_root
    );
    let root = plain_root(*wtxid, proof.path.hashes(), proof.index);
    let commitment = sha256d::Hash::hash(&[root, witness_reserved].concat()).to_byte_array();
    assert!(
        coinbase
            .output
            .iter()
            .any(|output| output.script_pubkey.as_bytes().get(6..38) == Some(&commitment))
    );
    true
}

/// Returns proofs of blocks of 1 to 9 transactions.
pub fn proof_seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for count in [1, 2, 3, 5, 9] {
        let block = Block::new(count);
        for index in [0, count / 2, count - 1] {
            seeds.extend((0..3).map(|kind| block.seed(index, kind)));
        }
    }
    assert!(
        seeds.iter().all(|seed| judge(seed)),
        "every seed is a valid proof"
    );
    seeds
}

// ---- headers ----

/// Passes regtest headers to a chain, and compares the results with those of a simple model.
pub fn headers(bytes: &[u8]) {
    let mut input = Input(bytes);
    let mut chain = HeaderChain::in_memory(Network::Regtest, ChainOptions::default());
    // Accepted headers, each with the times of all headers from the genesis header to it.
    let mut known: Vec<(Vec<u32>, Header)> =
        vec![(vec![Network::Regtest.genesis().time], Network::Regtest.genesis())];
    let mut best = 0;
    let mut tag = 0;
    while !input.is_empty() && tag < 40 {
        tag += 1;
        let (times, parent) = known[known.len() - 1 - usize::from(input.byte()) % known.len()].clone();
        let flags = input.byte();
        let time = match flags & 3 {
            0 => input.word(),
            1 => NOW + 7190 + u32::from(input.byte() % 20),
            2 => times[times.len() - 1].wrapping_sub(input.byte().into()),
            _ => times[times.len() - 1].wrapping_add(input.byte().into()),
        };
        let mut merkle_root = [0; 32];
        merkle_root[0] = tag;
        let mut header = mined(Header {
            version: 4,
            previous: parent.hash(),
            merkle_root,
            time,
            bits: if flags & 0x1c == 4 { 0x2000_ffff } else { BITS },
            nonce: 0,
        });
        if flags & 0xe0 == 0x20 {
            header.previous[3] ^= 1;
        }
        let mut last: Vec<u32> = times.iter().rev().take(11).copied().collect();
        last.sort_unstable();
        let is_good = header.previous == parent.hash()
            && header.bits == BITS
            && time > last[last.len() / 2]
            && time <= NOW + 7200
            && header.check_proof_of_work(Network::Regtest).is_ok();
        let accepted = chain.accept(&header, NOW);
        assert_eq!(accepted.is_ok(), is_good, "{header:?}: {accepted:?}");
        if is_good {
            known.push(([times, vec![time]].concat(), header));
            if known[known.len() - 1].0.len() > known[best].0.len() {
                best = known.len() - 1;
            }
        }
        let tip = chain.tip();
        assert_eq!(
            (tip.height as usize, tip.hash),
            (known[best].0.len() - 1, known[best].1.hash())
        );
    }
    assert_eq!(chain.header_count() as usize, known.len());
}

/// Returns steps of every kind.
pub fn header_seeds() -> Vec<Vec<u8>> {
    let mut seeds = vec![[0, 3, 60].repeat(20), [0, 3, 60, 3, 3, 9].repeat(12)];
    seeds.push(
        [
            [0, 3, 60].repeat(12),
            vec![0, 2, 200, 0, 1, 5, 0, 7, 9, 0, 0x23, 9],
        ]
        .concat(),
    );
    seeds.push([1, 0, 0, 0, 0, 0x60, 0, 3, 1].repeat(5));
    seeds
}

/// Opens an original or changed file of headers. Either the file has valid headers, or it is refused and not changed.
pub fn header_file(bytes: &[u8]) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("headers.dat");
    std::fs::write(&path, bytes).expect("written");
    match open(folder.path()) {
        None => {
            let after = std::fs::read(&path).expect("a file");
            assert_eq!(after, bytes, "a refused file was changed");
        }
        Some(chain) => {
            let count = u64::from(chain.header_count());
            let tip = chain.tip();
            let mut header = chain.header_at(tip.height).expect("the tip");
            header.previous = tip.hash;
            header.time += 600;
            drop(chain);
            let mut again = open(folder.path()).expect("a file that was opened can be opened again");
            assert_eq!((again.tip(), u64::from(again.header_count())), (tip, count));
            if header.time < NOW {
                assert_eq!(
                    again.accept(&mined(header), NOW).expect("the next header").added,
                    1
                );
                drop(again);
                let last = open(folder.path()).expect("a written file can be opened");
                assert_eq!(last.tip().height, tip.height + 1);
            }
        }
    }
}

fn open(folder: &Path) -> Option<HeaderChain<FileStore>> {
    let store = FileStore::create(folder, Network::Regtest).ok()?;
    HeaderChain::open(Network::Regtest, store, ChainOptions::default()).ok()
}

/// Returns a file with one branch and a file with two branches.
pub fn header_file_seeds() -> Vec<Vec<u8>> {
    let genesis = Network::Regtest.genesis();
    let mut seeds = vec![Vec::new()];
    for branches in 1..=2_u8 {
        let folder = tempfile::tempdir().expect("a folder");
        let mut chain = open(folder.path()).expect("an empty folder");
        for branch in 0..branches {
            let mut parent = genesis;
            for _ in 0..4 + branch {
                let mut merkle_root = [0; 32];
                merkle_root[0] = branch;
                let (previous, time) = (parent.hash(), parent.time + 600);
                parent = mined(Header {
                    previous,
                    merkle_root,
                    time,
                    ..parent
                });
                chain.accept(&parent, NOW).expect("a good header");
            }
        }
        drop(chain);
        seeds.push(std::fs::read(folder.path().join("headers.dat")).expect("a file"));
    }
    seeds
}
