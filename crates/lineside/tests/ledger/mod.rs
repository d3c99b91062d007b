//! Record of every block that was ever in btcd's best chain, read from btcd, with which replies are compared; and
//! helpers that create blocks of many transactions on btcd.

use crate::common::Btcd;
use bitcoin::absolute::LockTime;
use bitcoin::consensus::encode::serialize_hex;
use bitcoin::hashes::{Hash as _, hash160, sha256d};
use bitcoin::transaction::Version;
use bitcoin::{Amount, OutPoint, ScriptBuf, Sequence, Transaction, TxIn, TxOut, Witness};
use serde_json::{Value, json};
use std::collections::HashMap;

/// Hash in wire byte order.
pub type Hash = [u8; 32];

/// Value of a coinbase on simnet below height 210,000, in satoshi.
const SUBSIDY: u64 = 50_0000_0000;
/// Fee of a transaction, in satoshi.
const FEE: u64 = 10_000;

/// Block, as read from btcd.
#[derive(Clone, Debug)]
pub struct Block {
    pub height: u32,
    pub parent: Hash,
    pub root: Hash,
    pub txids: Vec<Hash>,
}

/// All blocks that were in btcd's best chain when they were recorded.
#[derive(Default)]
pub struct Ledger {
    pub blocks: HashMap<Hash, Block>,
    /// Hashes of the best chain when it was last recorded, by height.
    pub best: Vec<Hash>,
}

fn hash_of(value: &Value) -> Hash {
    lineside_util::hex::from_display(value.as_str().unwrap()).unwrap()
}

impl Ledger {
    /// Reads the best chain from the node, except blocks that were recorded already.
    pub fn record(&mut self, btcd: &Btcd) {
        let mut hash = hash_of(&btcd.call("getbestblockhash", json!([])));
        let mut branch = Vec::new();
        while !self.best.contains(&hash) {
            branch.push(hash);
            let shown = lineside_util::hex::to_display(&hash);
            let block = btcd.call("getblock", json!([shown, 1]));
            let height = block["height"].as_u64().unwrap() as u32;
            let parent = match height {
                0 => [0; 32],
                _ => hash_of(&block["previousblockhash"]),
            };
            let txids = block["tx"].as_array().unwrap().iter().map(hash_of).collect();
            let root = hash_of(&block["merkleroot"]);
            self.blocks.entry(hash).or_insert(Block {
                height,
                parent,
                root,
                txids,
            });
            if height == 0 {
                break;
            }
            hash = parent;
        }
        let kept = self.best.iter().position(|known| *known == hash);
        self.best.truncate(kept.map_or(0, |place| place + 1));
        self.best.extend(branch.iter().rev());
    }

    /// Returns true if `block` is `tip` or one of its ancestors.
    pub fn is_ancestor(&self, block: &Hash, mut tip: Hash) -> bool {
        while let Some(known) = self.blocks.get(&tip) {
            if tip == *block {
                return true;
            }
            tip = known.parent;
        }
        false
    }

    /// Returns the block and position of `txid` in the chain that ends with `tip`.
    pub fn place(&self, txid: &Hash, mut tip: Hash) -> Option<(Hash, usize)> {
        while let Some(known) = self.blocks.get(&tip) {
            if let Some(position) = known.txids.iter().position(|held| held == txid) {
                return Some((tip, position));
            }
            tip = known.parent;
        }
        None
    }

    /// Returns the TXIDs of all blocks, including those of old branches.
    pub fn txids(&self) -> Vec<Hash> {
        let mut all: Vec<_> = self
            .blocks
            .values()
            .flat_map(|block| block.txids.clone())
            .collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}

/// Returns the root of a Merkle path, computed only with rust-bitcoin's hash functions.
pub fn root_of(leaf: &Hash, mut position: usize, path: &[Hash]) -> Hash {
    path.iter().fold(*leaf, |node, sibling| {
        let pair = if position.is_multiple_of(2) {
            [node, *sibling]
        } else {
            [*sibling, node]
        };
        position /= 2;
        sha256d::Hash::hash(&pair.concat()).to_byte_array()
    })
}

/// Sends btcd a transaction that spends the coinbase of the block at `height`, which must be mature, and `count`
/// transactions that spend its outputs. The next block contains all of them.
pub fn send_many(btcd: &Btcd, height: usize, count: u32) {
    let hash = btcd.call("getblockhash", json!([height]));
    let block = btcd.call("getblock", json!([hash, 1]));
    let coinbase: bitcoin::Txid = block["tx"][0].as_str().unwrap().parse().unwrap();
    let each = (SUBSIDY - FEE * u64::from(count + 1)) / u64::from(count);
    let first = anyone(OutPoint::new(coinbase, 0), each, count);
    let txid = first.compute_txid();
    let spend = |vout| anyone(OutPoint::new(txid, vout), each - FEE, 1);
    for transaction in std::iter::once(first.clone()).chain((0..count).map(spend)) {
        btcd.call("sendrawtransaction", json!([serialize_hex(&transaction)]));
    }
}

/// Returns a transaction that spends the output `spent`, which anyone may spend, and pays `value` satoshi to each of
/// `count` further outputs that anyone may spend (pay to the hash of the script OP_TRUE).
fn anyone(spent: OutPoint, value: u64, count: u32) -> Transaction {
    let script = hash160::Hash::hash(&[0x51]).to_byte_array();
    let lock = ScriptBuf::from_bytes([&[0xa9, 20][..], &script, &[0x87]].concat());
    let output = TxOut {
        value: Amount::from_sat(value),
        script_pubkey: lock,
    };
    Transaction {
        version: Version::ONE,
        lock_time: LockTime::ZERO,
        input: vec![TxIn {
            previous_output: spent,
            script_sig: ScriptBuf::from_bytes(vec![1, 0x51]),
            sequence: Sequence::MAX,
            witness: Witness::new(),
        }],
        output: vec![output; count as usize],
    }
}
