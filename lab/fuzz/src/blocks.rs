//! Fuzz targets for blocks from outside, single and in files.

use crate::input::Input;
use crate::stores::scratch;
use bitcoin::consensus::encode::{deserialize, serialize};
use bitcoin::hashes::Hash;
use bitcoin::{Block, TxMerkleNode};
use lineside_spv::chain::{ChainStore, CheckedBlock, ImportOptions, Network, Refused, merkle_root};
use lineside_testkit::DemoChain;

const MAGIC: [u8; 4] = [0xfa, 0xbf, 0xb5, 0xda]; // regtest's

/// Bit 0 of the first byte of an input: the target repairs the block's header, so that the checks reach a changed body.
const MEND: u8 = 1;

pub fn block_seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for transactions in [1, 2, 3, 7] {
        let block = DemoChain::new(3, transactions).next().expect("endless");
        for mode in [0, MEND] {
            seeds.push([&[mode][..], &block.raw].concat());
        }
        let mut with_witness: Block = deserialize(&block.raw).expect("a block");
        with_witness.txdata[0].input[0].witness.push([7; 32]);
        seeds.push([&[MEND][..], &serialize(&with_witness)].concat());
        let mut twice: Block = deserialize(&block.raw).expect("a block");
        twice.txdata.extend(twice.txdata.clone());
        seeds.push([&[MEND][..], &serialize(&twice)].concat());
    }
    seeds
}

/// Checks that a block is accepted exactly if the `bitcoin` crate reads all of it, only its first transaction has the
/// form of a coinbase, its work and root are right, and its tree has no equal pair. Its TXIDs, hash and root must then
/// equal those of that crate.
pub fn block(data: &[u8]) {
    let mut input = Input(data);
    let mode = input.byte();
    let mut raw = input.0.to_vec();
    if mode & MEND != 0 {
        mend(&mut raw);
    }
    let theirs = deserialize::<Block>(&raw)
        .ok()
        .filter(|block| !block.txdata.is_empty());
    let ours = CheckedBlock::check(&raw, Network::Regtest);
    let Some(theirs) = theirs else {
        assert!(ours.is_err(), "the bitcoin crate rejects this block");
        return;
    };
    let txids: Vec<[u8; 32]> = theirs
        .txdata
        .iter()
        .map(|tx| tx.compute_txid().to_byte_array())
        .collect();
    let mutated = equal_pair(&txids);
    let target = theirs.header.target();
    let worked = theirs.header.validate_pow(target).is_ok()
        && target <= Network::Regtest.easiest_target()
        && target.to_compact_lossy() == theirs.header.bits;
    let good = worked && theirs.check_merkle_root() && !mutated && theirs.txdata[0].is_coinbase();
    match ours {
        Ok(block) => {
            assert!(good, "taken: worked {worked}, mutated {mutated}");
            assert_eq!(block.txids(), txids);
            assert_eq!(block.hash(), theirs.block_hash().to_byte_array());
            let root = theirs.header.merkle_root.to_byte_array();
            assert_eq!(merkle_root(&txids), (root, false));
        }
        Err(Refused::Malformed(why)) => assert!(!good, "{why}"),
        Err(why) => assert!(!good, "{why}"),
    }
}

/// Sets the root and the nonce so that they match the transactions, if the block has transactions.
fn mend(raw: &mut [u8]) {
    let Ok(mut block) = deserialize::<Block>(raw) else {
        return;
    };
    let txids: Vec<[u8; 32]> = block
        .txdata
        .iter()
        .map(|tx| tx.compute_txid().to_byte_array())
        .collect();
    block.header.merkle_root = TxMerkleNode::from_byte_array(merkle_root(&txids).0);
    let target = block.header.target();
    for nonce in 0..64 {
        block.header.nonce = nonce;
        if block.header.validate_pow(target).is_ok() {
            break;
        }
    }
    raw[..80].copy_from_slice(&serialize(&block.header));
}

/// Returns whether a level of the tree has two equal neighbours. It is a recursive implementation, independent of
/// `merkle_root`.
fn equal_pair(level: &[[u8; 32]]) -> bool {
    if level.len() < 2 {
        return false;
    }
    let pairs = level.chunks(2);
    let hit = pairs.clone().any(|pair| pair.len() == 2 && pair[0] == pair[1]);
    let above: Vec<[u8; 32]> = pairs
        .map(|pair| {
            let both = [pair[0], *pair.last().unwrap_or(&pair[0])].concat();
            bitcoin::hashes::sha256d::Hash::hash(&both).to_byte_array()
        })
        .collect();
    hit || equal_pair(&above)
}

// ---- files of blocks ----

const KEYED: u8 = 1;
const RAW: u8 = 2;

pub fn block_file_seeds() -> Vec<Vec<u8>> {
    let blocks: Vec<_> = DemoChain::new(5, 2).take(3).collect();
    let framed = |raw: &[u8]| [&MAGIC[..], &(raw.len() as u32).to_le_bytes(), raw].concat();
    let whole: Vec<u8> = blocks.iter().flat_map(|block| framed(&block.raw)).collect();
    let backwards: Vec<u8> = blocks.iter().rev().flat_map(|block| framed(&block.raw)).collect();
    let padded = [&whole[..], &[0; 50], &framed(&blocks[0].raw), &[0; 9]].concat();
    let key = [9, 0, 200, 4, 5, 6, 7, 8];
    let bodies = [
        whole.clone(),
        backwards,
        padded,
        whole[..whole.len() - 5].to_vec(),
        vec![0; 100],
    ];
    let mut seeds: Vec<Vec<u8>> = bodies.iter().map(|body| [&[0][..], body].concat()).collect();
    seeds.extend(bodies.iter().map(|body| [&[KEYED][..], &key, body].concat()));
    seeds.push([&[RAW][..], &blocks[0].raw].concat());
    seeds.push([&[RAW][..], &whole].concat());
    seeds
}

/// Checks that the scan finds the same blocks as a simple scan, in files of a node with and without a key and in other
/// files. The store must contain the accepted blocks and no others; a second import must accept none.
pub fn block_file(data: &[u8]) {
    let mut input = Input(data);
    let mode = input.byte();
    let raw = mode & RAW != 0;
    let key = if mode & KEYED != 0 && !raw {
        input.array()
    } else {
        [0; 8]
    };
    let content = input.0;
    let found = if raw && !content.starts_with(&MAGIC) {
        usize::from(content.len() >= 80)
    } else {
        plain_scan(content)
    };
    let foreign = raw
        && Network::ALL
            .iter()
            .any(|n| *n != Network::Regtest && content.starts_with(&n.magic()));

    scratch(|dir| {
        let keyed: Vec<u8> = content
            .iter()
            .zip(key.iter().cycle())
            .map(|(byte, key)| byte ^ key)
            .collect();
        let (file, key_file) = (
            dir.join(if raw { "some.dat" } else { "blk00000.dat" }),
            dir.join("xor.dat"),
        );
        std::fs::write(&file, keyed).expect("writing");
        std::fs::write(&key_file, key).expect("writing");
        let mut store = ChainStore::open(None, Network::Regtest).expect("memory");
        let mut import = || {
            let options = ImportOptions { detached: true };
            let report = store
                .import(std::slice::from_ref(&file), options, &mut |_| ())
                .expect("importing");
            (report, store.blocks() as u64)
        };
        let (first, blocks) = import();
        let hashed = first
            .refused
            .iter()
            .filter(|refused| refused.hash.is_some())
            .count() as u64;
        let expected = if foreign { 0 } else { found as u64 };
        assert_eq!(
            first.blocks + first.already_stored + hashed,
            expected,
            "blocks found"
        );
        assert_eq!(first.blocks, blocks);
        assert_eq!(first.connected + first.side, first.blocks);
        for refused in &first.refused {
            assert!(
                refused.offset < content.len() as u64 || content.is_empty(),
                "{refused:?}"
            );
        }
        let (second, blocks_then) = import();
        assert_eq!((second.blocks, blocks_then), (0, blocks));
        assert_eq!(second.already_stored, first.already_stored + first.blocks);
    });
}

/// Returns the number of non-overlapping positions that have the magic number, a possible length and that number of
/// bytes.
fn plain_scan(bytes: &[u8]) -> usize {
    let (mut at, mut found) = (0, 0);
    while let Some(frame) = bytes.get(at..at + 8) {
        let length = u32::from_le_bytes([frame[4], frame[5], frame[6], frame[7]]) as usize;
        let block = frame.starts_with(&MAGIC) && (80..=128 << 20).contains(&length);
        if block && bytes.len() - at - 8 >= length {
            found += 1;
            at += 8 + length;
        } else {
            at += 1;
        }
    }
    found
}
