//! Tests with real blocks of the main network and testnet3: every transaction's proof is valid, and no changed one
//! is.

#![cfg(feature = "std")]

mod common;

use bitcoin::hashes::Hash as _;
use common::real_blocks;
use lineside_spv_proof::{
    Hash, Header, MerklePath, Network, ProofError, TransactionProof, Tree, WitnessProof, from_display,
};
use lineside_testkit::{Random, skipped};
use std::path::Path;

const MUTATIONS: u32 = 1_000;

struct RealBlock {
    network: Network,
    height: u32,
    block: bitcoin::Block,
    header: Header,
    /// Merkle root of the block's header, from the manifest.
    root: Hash,
    is_altered: bool,
}

fn blocks(folder: &Path) -> Vec<RealBlock> {
    let manifest = std::fs::read(folder.join("MANIFEST.json")).unwrap();
    let manifest: Vec<serde_json::Value> = serde_json::from_slice(&manifest).unwrap();
    let read = |entry: &serde_json::Value| {
        let text = |key: &str| entry[key].as_str().unwrap();
        let bytes = std::fs::read(folder.join(text("file"))).unwrap();
        // In some files the network's magic and the block's length, 8 bytes in total, precede the block.
        let network: Network = text("network").parse().unwrap();
        let bytes = if bytes.starts_with(&network.magic()) {
            &bytes[8..]
        } else {
            &bytes[..]
        };
        let (block, _) = bitcoin::consensus::deserialize_partial::<bitcoin::Block>(bytes).unwrap();
        let header = Header::from_bytes(bytes[..80].try_into().unwrap());
        assert_eq!(Some(header.hash()), from_display(text("hash")));
        assert_eq!(header.check_proof_of_work(network), Ok(()));
        RealBlock {
            network,
            height: entry["height"].as_u64().unwrap() as u32,
            block,
            header,
            root: from_display(text("merkle_header")).unwrap(),
            is_altered: !entry["merkle_ok"].as_bool().unwrap(),
        }
    };
    manifest.iter().map(read).collect()
}

impl RealBlock {
    fn txids(&self) -> Vec<Hash> {
        self.block
            .txdata
            .iter()
            .map(|tx| tx.compute_txid().to_byte_array())
            .collect()
    }

    fn proof(&self, tree: &Tree, index: u32) -> TransactionProof {
        TransactionProof {
            header: self.header,
            height: self.height,
            transaction_count: tree.transaction_count(),
            index,
            path: tree.merkle_path(index).unwrap(),
        }
    }
}

#[test]
fn every_transaction_of_real_blocks_is_proved_and_no_changed_proof_holds() {
    let Some(folder) = real_blocks() else {
        return skipped("the folder with real blocks does not exist");
    };
    let mut proved = 0;
    for real in blocks(&folder) {
        let txids = real.txids();
        let tree = Tree::new(&txids).unwrap();
        assert!(!tree.is_mutated());
        assert_eq!(
            tree.root() == real.root,
            !real.is_altered,
            "height {}",
            real.height
        );
        for (index, txid) in (0..).zip(&txids) {
            let proof = real.proof(&tree, index);
            let found = proof.verify(real.network, txid);
            if real.is_altered {
                assert_eq!(found, Err(ProofError::WrongRoot));
                continue;
            }
            assert_eq!(found, Ok(()), "{index} of height {}", real.height);
            let raw = bitcoin::consensus::serialize(&real.block.txdata[index as usize]);
            assert_eq!(proof.verify_transaction(real.network, &raw), Ok(*txid));
            proved += 1;
        }
        let mut random = Random(u64::from(real.height));
        for number in 0..MUTATIONS {
            let index = random.index(txids.len()) as u32;
            let (proof, txid) = mutated(&real.proof(&tree, index), &txids, &mut random);
            assert!(proof.verify(real.network, &txid).is_err(), "{number}: {proof:?}");
        }
    }
    assert!(proved > 5_000, "{proved}");
}

/// Changes one essential part of a proof.
fn mutated(proof: &TransactionProof, txids: &[Hash], random: &mut Random) -> (TransactionProof, Hash) {
    let mut txid = txids[proof.index as usize];
    let mut changed = *proof;
    let mut hashes = proof.path.hashes().to_vec();
    let at = random.index(hashes.len());
    match random.below(9) {
        0 => txid[random.index(32)] ^= 1 << random.below(8),
        1 => txid.reverse(),
        2 => hashes[at][random.index(32)] ^= 1 << random.below(8),
        3 => hashes[at].reverse(),
        4 => drop(hashes.remove(at)),
        5 => hashes.insert(at, hashes[at]),
        6 => changed.index ^= 1 << random.below(32),
        7 => {
            let mut bytes = proof.header.to_bytes();
            bytes[random.index(80)] ^= 1 << random.below(8);
            changed.header = Header::from_bytes(&bytes);
        }
        _ => {
            // Uses another transaction's id with the path of this transaction.
            let other = (proof.index as usize + 1 + random.index(txids.len() - 1)) % txids.len();
            txid = txids[other];
        }
    }
    changed.path = MerklePath::new(&hashes).unwrap();
    (changed, txid)
}

#[test]
fn every_wtxid_of_real_blocks_is_proved_through_the_coinbase() {
    let Some(folder) = real_blocks() else {
        return skipped("the folder with real blocks does not exist");
    };
    let mut proved = 0;
    for real in blocks(&folder).into_iter().filter(|real| !real.is_altered) {
        let coinbase = &real.block.txdata[0];
        let Some(reserved) = coinbase.input[0].witness.nth(0) else {
            continue;
        };
        let mut wtxids: Vec<Hash> = real
            .block
            .txdata
            .iter()
            .map(|tx| tx.compute_wtxid().to_byte_array())
            .collect();
        wtxids[0] = [0; 32];
        let (tree, of_txids) = (Tree::new(&wtxids).unwrap(), Tree::new(&real.txids()).unwrap());
        let mut stripped = coinbase.clone();
        stripped.input[0].witness.clear();
        let stripped = bitcoin::consensus::serialize(&stripped);
        let proof = |index: u32| WitnessProof {
            header: real.header,
            height: real.height,
            transaction_count: tree.transaction_count(),
            index,
            path: tree.merkle_path(index).unwrap(),
            coinbase: &stripped,
            coinbase_path: of_txids.merkle_path(0).unwrap(),
            witness_reserved: reserved.try_into().unwrap(),
        };
        for (index, wtxid) in (0..).zip(&wtxids) {
            assert_eq!(
                proof(index).verify(real.network, wtxid),
                Ok(()),
                "{index} of height {}",
                real.height
            );
            proved += 1;
        }
        let mut random = Random(u64::from(real.height));
        for _ in 0..MUTATIONS {
            let index = random.index(wtxids.len());
            let mut wrong = proof(index as u32);
            let mut wtxid = wtxids[index];
            let mut coinbase = stripped.clone();
            match random.below(4) {
                0 => wtxid[random.index(32)] ^= 1 << random.below(8),
                1 => wrong.witness_reserved[random.index(32)] ^= 1 << random.below(8),
                2 => {
                    let at = random.index(coinbase.len());
                    coinbase[at] ^= 1 << random.below(8);
                    wrong.coinbase = &coinbase;
                }
                _ => wrong.index ^= 1 << random.below(12),
            }
            assert!(wrong.verify(real.network, &wtxid).is_err(), "{wrong:?}");
        }
    }
    assert!(proved > 3_000, "{proved}");
}
