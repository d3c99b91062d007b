//! Tests for proofs of headers for a checkpoint, compared with rust-bitcoin's Merkle root over the hashes of the
//! headers.

mod common;

use bitcoin::hashes::Hash;
use bitcoin::{TxMerkleNode, Txid};
use common::{Block, Client, TestChain, serve};
use electrum_client::GetMerkleRes;
use lineside_electrum::sha256d;
use lineside_testkit::Random;
use lineside_util::hex::{array_from_hex, to_hex};
use serde_json::Value;

/// Returns the hash in a JSON string, in wire byte order.
fn hash(shown: &Value) -> [u8; 32] {
    let mut hash: [u8; 32] = array_from_hex(shown.as_str().expect("a hash")).expect("64 digits");
    hash.reverse();
    hash
}

/// Computes the root from a leaf and its branch, as the `electrum-client` crate does for transactions, and compares it
/// with `root`.
fn leads(leaf: [u8; 32], height: usize, branch: &Value, root: [u8; 32]) -> bool {
    let shown = |sibling: &Value| array_from_hex(sibling.as_str().expect("a hash")).expect("64 digits");
    let branch = GetMerkleRes {
        block_height: 0,
        pos: height,
        merkle: branch.as_array().expect("a branch").iter().map(shown).collect(),
    };
    let root = TxMerkleNode::from_byte_array(root);
    electrum_client::utils::validate_merkle_proof(&Txid::from_byte_array(leaf), &root, &branch)
}

fn check(client: &mut Client, blocks: &[Block], height: usize, cp_height: usize) {
    let reply = client.result("blockchain.block.header", &format!("[{height},{cp_height}]"));
    let hashes = blocks[..=cp_height]
        .iter()
        .map(|block| Txid::from_byte_array(block.hash()));
    let root = bitcoin::merkle_tree::calculate_root(hashes)
        .expect("a header")
        .to_byte_array();
    assert_eq!(hash(&reply["root"]), root, "{height} of {cp_height}");
    assert_eq!(reply["header"], to_hex(&blocks[height].bytes()));
    assert!(
        leads(blocks[height].hash(), height, &reply["branch"], root),
        "{height} of {cp_height}"
    );
    let depth = (cp_height + 1).next_power_of_two().ilog2() as usize;
    assert_eq!(
        reply["branch"].as_array().map(Vec::len),
        Some(depth),
        "{height} of {cp_height}"
    );
}

/// Tests the example in the protocol's documentation: the root follows from its branch as in `leads`.
#[test]
fn the_documented_example_of_a_merkle_path_is_reproduced() {
    let header = "0100000085144a84488ea88d221c8bd6c059da090e88f8a2c99690ee55dbba4e00000000e11c48fecdd9e72510ca84f02\
                  3370c9a38bf91ac5cae88019bee94d24528526344c36649ffff001d1d03e477";
    let branch = [
        "000000004ebadb55ee9096c9a2f8880e09da59c0d68b1c228da88e48844a1485",
        "96cbbc84783888e4cc971ae8acf86dd3c1a419370336bb3c634c97695a8c5ac9",
        "965ac94082cebbcffe458075651e9cc33ce703ab0115c72d9e8b1a9906b2b636",
        "89e5daa6950b895190716dd26054432b564ccdc2868188ba1da76de8e1dc7591",
    ];
    let root = hash(&"e347b1c43fd9b5415bf0d92708db8284b78daf4d0e24f9c3405f45feb85e25db".into());
    let header: [u8; 80] = array_from_hex(header).expect("a header");
    let branch = Value::from(branch.to_vec());
    assert!(leads(sha256d(&header), 5, &branch, root));
    assert!(!leads(sha256d(&header), 4, &branch, root));
}

#[test]
fn proofs_are_valid_for_headers_near_the_ends_of_chunks() {
    let chain = TestChain::new(1, &vec![1; 2200]);
    let server = serve(&chain, |_| {});
    let mut client = Client::connect(server.tcp().expect("TCP"));
    let blocks = chain.blocks();
    for cp_height in [
        1, 2, 5, 255, 510, 511, 512, 513, 1022, 1023, 1024, 1535, 2047, 2048, 2199,
    ] {
        let heights = [0, 1, cp_height / 2, 511, 512, 1023, cp_height - 1, cp_height];
        for height in heights.into_iter().filter(|height| *height <= cp_height) {
            check(&mut client, &blocks, height, cp_height);
        }
    }
    let mut random = Random(2);
    for _ in 0..100 {
        let cp_height = 1 + random.index(blocks.len() - 1);
        check(&mut client, &blocks, random.index(cp_height + 1), cp_height);
    }
    let reply = client.result("blockchain.block.headers", "[600,3,2000]");
    let alone = client.result("blockchain.block.header", "[602,2000]");
    assert_eq!(
        (&reply["root"], &reply["branch"]),
        (&alone["root"], &alone["branch"])
    );
    assert!(
        client
            .result("blockchain.block.headers", "[600,0,2000]")
            .get("root")
            .is_none()
    );
}

#[test]
fn a_reorganisation_of_many_blocks_changes_the_proofs() {
    let chain = TestChain::new(3, &vec![1; 1600]);
    let server = serve(&chain, |_| {});
    let mut client = Client::connect(server.tcp().expect("TCP"));
    check(&mut client, &chain.blocks(), 700, 1590);
    chain.replace(900, &vec![1; 901]);
    check(&mut client, &chain.blocks(), 700, 1590);
    check(&mut client, &chain.blocks(), 650, 1600);
    // The chain changes while the server reads headers. The proof must not mix headers of the two chains.
    *chain.in_headers.lock().expect("a lock") = Some(Box::new(|chain| chain.replace(1000, &vec![1; 1000])));
    let reply = client.result("blockchain.block.header", "[10,1600]");
    let blocks = chain.blocks();
    let hashes = blocks.iter().map(|block| Txid::from_byte_array(block.hash()));
    let root = bitcoin::merkle_tree::calculate_root(hashes)
        .expect("a header")
        .to_byte_array();
    assert_eq!(hash(&reply["root"]), root);
}
