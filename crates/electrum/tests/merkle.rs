//! Tests for trees, paths and partial trees, compared with rust-bitcoin and the `electrum-client` crate.

mod common;

use bitcoin::{BlockHash, MerkleBlock, Txid, consensus, hashes::Hash};
use common::Block;
use lineside_electrum::{BlockTree, TreeError};
use lineside_testkit::Random;

fn block(random: &mut Random, transactions: usize) -> Block {
    Block::random(random, BlockHash::all_zeros(), transactions)
}

#[test]
fn paths_lead_to_the_root_that_rust_bitcoin_computes() {
    let mut random = Random(1);
    for transactions in (1..70).chain([255, 256, 257, 2047, 2048, 2049]) {
        let block = block(&mut random, transactions);
        let tree = BlockTree::build(block.bytes(), &block.txids).expect("a tree");
        assert_eq!(tree.root(), &block.header.merkle_root.to_byte_array());
        assert_eq!(tree.hash(), &block.hash());
        for position in 0..transactions {
            let reply = electrum_client::GetMerkleRes {
                block_height: 5,
                pos: position,
                merkle: tree
                    .path(position as u32)
                    .map(|(sibling, _)| {
                        let mut shown = *sibling;
                        shown.reverse();
                        shown
                    })
                    .collect(),
            };
            let root = &block.header.merkle_root;
            let proves = |txid: &Txid| electrum_client::utils::validate_merkle_proof(txid, root, &reply);
            assert!(proves(&block.txid(position)), "{position} of {transactions}");
            assert!(transactions == 1 || !proves(&block.txid((position + 1) % transactions)));
            assert_eq!(tree.position(&block.txids[position]), Some(position as u32));
        }
        assert_eq!(tree.txid(transactions as u32), None);
        assert_eq!(tree.position(&[7; 32]), None);
    }
}

#[test]
fn partial_trees_equal_those_of_rust_bitcoin() {
    let mut random = Random(2);
    for transactions in (1..40).chain([1000, 2048]) {
        let block = block(&mut random, transactions);
        let tree = BlockTree::build(block.bytes(), &block.txids).expect("a tree");
        let txids: Vec<Txid> = (0..transactions).map(|position| block.txid(position)).collect();
        let step = if transactions > 100 { 97 } else { 1 };
        for position in (0..transactions).step_by(step) {
            let bytes = tree
                .merkle_block(position as u32)
                .expect("a position of the block");
            let expected = MerkleBlock::from_header_txids_with_predicate(&block.header, &txids, |txid| {
                *txid == txids[position]
            });
            assert_eq!(
                bytes,
                consensus::serialize(&expected),
                "{position} of {transactions}"
            );
            let read: MerkleBlock = consensus::deserialize(&bytes).expect("a merkleblock");
            let (mut matches, mut indexes) = (Vec::new(), Vec::new());
            read.extract_matches(&mut matches, &mut indexes)
                .expect("a true proof");
            assert_eq!((matches, indexes), (vec![txids[position]], vec![position as u32]));
        }
        assert_eq!(tree.merkle_block(transactions as u32), None);
    }
}

#[test]
fn txids_of_another_block_are_refused() {
    let mut random = Random(3);
    let (one, other) = (block(&mut random, 7), block(&mut random, 7));
    let build = |header: &Block, txids: &[[u8; 32]]| BlockTree::build(header.bytes(), txids).map(|_| ());
    assert_eq!(build(&one, &one.txids), Ok(()));
    assert_eq!(build(&one, &other.txids), Err(TreeError::OtherRoot));
    assert_eq!(build(&one, &one.txids[..6]), Err(TreeError::OtherRoot));
    assert_eq!(build(&one, &[]), Err(TreeError::Empty));
    // Seven transactions and a copy of the last one have the same root as the seven (CVE-2012-2459).
    let mut mutated = one.txids.to_vec();
    mutated.push(one.txids[6]);
    assert_eq!(build(&one, &mutated), Err(TreeError::Mutated));
    let many = vec![[1; 32]; BlockTree::TRANSACTIONS_MAX + 1];
    assert_eq!(build(&one, &many), Err(TreeError::TooMany));
}
