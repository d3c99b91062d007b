//! Tests of a directory of block files that is followed while blocks are appended: in any order, on branches, and after
//! incomplete records.

mod common;

use bitcoin::consensus::serialize;
use bitcoin::constants::genesis_block;
use bitcoin::hashes::Hash as _;
use common::ChainInMemory;
use lineside_bitcoin_node::{
    BlockHash, BlocksDir, Event, Feed, Follower, LessWork, Node, NodeError, NodeFault,
};
use lineside_testkit::{DemoBlock, DemoChain};
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

const MAGIC: [u8; 4] = [0xfa, 0xbf, 0xb5, 0xda];
const KEY: [u8; 8] = [7, 1, 200, 33, 90, 255, 4, 18];

/// Appends the records of `blocks` to a block file, XORed with the key. The last record lacks its last `torn` bytes.
fn append(dir: &Path, number: u32, blocks: &[&[u8]], torn: usize) {
    let path = dir.join(format!("blk{number:05}.dat"));
    let mut file = File::options().create(true).append(true).open(&path).unwrap();
    let mut at = file.metadata().unwrap().len() as usize;
    for block in blocks {
        let mut record = [&MAGIC[..], &(block.len() as u32).to_le_bytes(), block].concat();
        record.truncate(record.len() - torn);
        for byte in &mut record {
            *byte ^= KEY[at % 8];
            at += 1;
        }
        file.write_all(&record).unwrap();
    }
}

fn genesis() -> (Vec<u8>, [u8; 32]) {
    let block = genesis_block(bitcoin::Network::Regtest);
    (serialize(&block), block.block_hash().to_byte_array())
}

fn follow(feed: &mut Feed, local: &mut ChainInMemory) -> Result<(), NodeError> {
    loop {
        match feed.next(local, Duration::from_millis(1)) {
            Event::Step(step) => local.apply(&step),
            Event::AtTip => return Ok(()),
            Event::Away { error, .. } => return Err(error),
            Event::Pausing => {}
        }
    }
}

#[test]
fn appended_blocks_and_branches_are_followed_in_any_order() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("xor.dat"), KEY).unwrap();
    let (first, first_hash) = genesis();
    let chain: Vec<_> = DemoChain::branch(1, 3, first_hash, 1).take(6).collect();
    let raw: Vec<_> = chain.iter().map(|block| block.raw.as_slice()).collect();
    append(dir.path(), 0, &[&first, raw[2], raw[0], raw[1]], 0);
    let node = BlocksDir::new(dir.path(), MAGIC, Duration::from_millis(1));
    let mut feed = Feed::new(
        Box::new(node),
        Follower::new(BlockHash(first_hash), LessWork::Refuse),
    );
    let mut local = ChainInMemory::default();
    let expect = |local: &ChainInMemory, hashes: &[[u8; 32]]| {
        let hashes: Vec<_> = hashes.iter().map(|hash| BlockHash(*hash)).collect();
        assert_eq!(local.hashes(), hashes);
    };
    follow(&mut feed, &mut local).unwrap();
    expect(&local, &[first_hash, chain[0].hash, chain[1].hash, chain[2].hash]);

    // The incomplete record at the end of the first file is not a block. The node writes the block again into the next
    // file.
    append(dir.path(), 0, &[raw[3]], 40);
    append(dir.path(), 1, &[raw[4], raw[3]], 0);
    until_followed(&mut feed, &mut local, chain[4].hash);
    let hashes: Vec<_> = std::iter::once(first_hash)
        .chain(chain[..5].iter().map(|block| block.hash))
        .collect();
    expect(&local, &hashes);

    // Append a branch that leaves the chain after its first block and becomes longer.
    let branch: Vec<_> = DemoChain::branch(2, 3, chain[0].hash, 2).take(5).collect();
    let raw: Vec<_> = branch.iter().rev().map(|block| block.raw.as_slice()).collect();
    append(dir.path(), 1, &raw, 0);
    until_followed(&mut feed, &mut local, branch[4].hash);
    let mut hashes = vec![first_hash, chain[0].hash];
    hashes.extend(branch.iter().map(|block| block.hash));
    expect(&local, &hashes);
    let side = feed.node().header(&BlockHash(chain[3].hash)).unwrap();
    assert_eq!(side.height, None, "a block of a side branch has no height");
}

fn until_followed(feed: &mut Feed, local: &mut ChainInMemory, tip: [u8; 32]) {
    common::until("the appended blocks", || {
        follow(feed, local).unwrap();
        (local.hashes().last() == Some(&BlockHash(tip))).then_some(())
    });
}

#[test]
fn a_directory_that_cannot_be_followed_gives_a_clear_error() {
    let dir = tempfile::tempdir().unwrap();
    let mut node = BlocksDir::new(dir.path(), MAGIC, Duration::from_millis(1));
    let error = node.info().unwrap_err();
    assert!(matches!(error.fault, NodeFault::Files(_)), "{error}");
    assert!(error.to_string().contains("blk00000.dat"), "{error}");
    // A block is requested that is no longer in the files, because the node pruned it or wrote the files again.
    let (first, first_hash) = genesis();
    append(dir.path(), 0, &[&first], 0);
    std::fs::write(dir.path().join("xor.dat"), KEY).unwrap();
    assert_eq!(node.info().unwrap().best, BlockHash(first_hash));
    std::fs::remove_file(dir.path().join("blk00000.dat")).unwrap();
    let error = node.block(&BlockHash(first_hash)).unwrap_err();
    assert!(matches!(error.fault, NodeFault::Files(_)), "{error}");
}

/// Writes a directory whose first file has `blocks`, and then, if `next` is given, a record of which only the first
/// bytes are written, in space that the node has preallocated with zeros.
fn write_with_tail(dir: &Path, blocks: &[&[u8]], next: Option<(&[u8], usize)>) {
    let mut bytes = Vec::new();
    for block in blocks {
        bytes.extend([&MAGIC[..], &(block.len() as u32).to_le_bytes(), block].concat());
    }
    if let Some((block, written)) = next {
        let record = [&MAGIC[..], &(block.len() as u32).to_le_bytes(), block].concat();
        bytes.extend(&record[..written]);
    }
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte ^= KEY[at % 8];
    }
    // The node does not XOR preallocated zeros with the key.
    bytes.resize(bytes.len() + 4096, 0);
    std::fs::write(dir.join("blk00000.dat"), bytes).unwrap();
}

#[test]
fn a_block_that_is_being_written_is_accepted_when_it_is_complete() {
    let (first, first_hash) = genesis();
    let chain: Vec<_> = DemoChain::branch(1, 3, first_hash, 1).take(3).collect();
    let raw: Vec<_> = chain.iter().map(|block| block.raw.as_slice()).collect();
    let record = 8 + raw[1].len();
    // The written part ends within the frame, within the header, within the transactions, and before the last byte that
    // is not zero.
    let last = record - raw[1].iter().rev().take_while(|byte| **byte == 0).count();
    for written in [3, 6, 8, 50, 88, 89, 200, last - 1] {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("xor.dat"), KEY).unwrap();
        write_with_tail(dir.path(), &[&first, raw[0]], Some((raw[1], written)));
        let node = BlocksDir::new(dir.path(), MAGIC, Duration::from_millis(1));
        let follower = Follower::new(BlockHash(first_hash), LessWork::Refuse);
        let mut feed = Feed::new(Box::new(node), follower);
        let mut local = ChainInMemory::default();
        for _ in 0..3 {
            follow(&mut feed, &mut local).unwrap_or_else(|error| panic!("{written} bytes: {error}"));
            let hashes = [first_hash, chain[0].hash].map(BlockHash);
            assert_eq!(local.hashes(), hashes, "{written} bytes");
        }
        write_with_tail(dir.path(), &[&first, raw[0], raw[1]], Some((raw[2], written)));
        until_followed(&mut feed, &mut local, chain[1].hash);
        write_with_tail(dir.path(), &[&first, raw[0], raw[1], raw[2]], None);
        until_followed(&mut feed, &mut local, chain[2].hash);
    }
}

/// Returns a directory whose first file has the genesis block and two further blocks, the node that reads the
/// directory, and the two further blocks.
fn followed() -> (TempDir, BlocksDir, Vec<DemoBlock>) {
    let (first, first_hash) = genesis();
    let chain: Vec<_> = DemoChain::branch(1, 3, first_hash, 1).take(2).collect();
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("xor.dat"), KEY).unwrap();
    write_with_tail(dir.path(), &[&first, &chain[0].raw, &chain[1].raw], None);
    let mut node = BlocksDir::new(dir.path(), MAGIC, Duration::from_millis(1));
    assert_eq!(node.info().unwrap().blocks, 2);
    (dir, node, chain)
}

#[test]
fn the_error_names_a_file_that_became_shorter() {
    let (dir, mut node, _chain) = followed();
    let path = dir.path().join("blk00000.dat");
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    file.set_len(100).unwrap();
    let message = node.info().unwrap_err().to_string();
    assert!(
        message.contains("blk00000.dat") && message.contains("damaged or was replaced"),
        "{message}"
    );
}

#[test]
fn the_error_names_file_and_offset_of_damage_before_the_last_block() {
    let (dir, mut node, chain) = followed();
    let (first, _) = genesis();
    let offset = 8 + first.len() + 8;
    let hash = BlockHash(chain[0].hash);
    let place = node.place_of(&hash).unwrap();
    assert!(
        place.ends_with(&format!("blk00000.dat at byte {offset}")),
        "{place}"
    );
    // Replace the header by another one.
    let path = dir.path().join("blk00000.dat");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[offset + 70] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let error = node.block(&hash).unwrap_err();
    let message = error.to_string();
    assert!(
        message.contains("blk00000.dat") && message.contains(&format!("at byte {offset}")),
        "{message}"
    );
    assert!(!error.fault.is_lie(), "{message}");
}
