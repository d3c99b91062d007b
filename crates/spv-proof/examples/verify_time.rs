//! Measures how long a client takes to check a proof from a block of 2,048 transactions: the 11 hashes of the path, the
//! header's hash and its proof of work. Prints the median and the best of many rounds, in microseconds. Then prints the
//! time to compute the whole Merkle tree of such a block, and the time in which a chain accepts a header.
//!
//!     cargo run --release -p lineside-spv-proof --example verify_time

use lineside_spv_proof::{
    ChainOptions, Header, HeaderChain, Network, ProofError, TransactionProof, Tree, sha256d,
};
use std::hint::black_box;
use std::time::Instant;

const ROUNDS: usize = 2_000;
const CHECKS: u32 = 100;

fn main() {
    let txids: Vec<_> = (0..2048_u32).map(|index| sha256d(&index.to_le_bytes())).collect();
    let tree = Tree::new(&txids).expect("a block");
    let index = 1_234;
    let mut header = Header {
        merkle_root: tree.root(),
        ..Network::Regtest.genesis()
    };
    while header.check_proof_of_work(Network::Regtest) == Err(ProofError::WrongProofOfWork) {
        header.nonce += 1;
    }
    let proof = TransactionProof {
        header,
        height: 1,
        transaction_count: 2048,
        index,
        path: tree.merkle_path(index).expect("a path"),
    };
    let txid = txids[index as usize];
    let mut times_us: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let begin = Instant::now();
            for _ in 0..CHECKS {
                let checked = black_box(&proof).verify(Network::Regtest, black_box(&txid));
                assert_eq!(checked, Ok(()));
            }
            begin.elapsed().as_secs_f64() * 1e6 / f64::from(CHECKS)
        })
        .collect();
    times_us.sort_by(f64::total_cmp);
    println!("a proof of 11 hashes, header and proof of work included:");
    println!(
        "median {:.2} us, best {:.2} us",
        times_us[ROUNDS / 2],
        times_us[0]
    );
    let begin = Instant::now();
    let rounds = 200;
    for _ in 0..rounds {
        black_box(Tree::new(black_box(&txids)).expect("a block"));
    }
    let tree_us = begin.elapsed().as_secs_f64() * 1e6 / f64::from(rounds);
    println!("the tree of 2,048 transactions: {tree_us:.0} us");
    accept_headers();
}

/// Measures how long a chain takes to accept a header, and how much memory it needs.
fn accept_headers() {
    let mut parent = Network::Regtest.genesis();
    let headers: Vec<Header> = (0..200_000)
        .map(|_| {
            parent = Header {
                previous: parent.hash(),
                time: parent.time + 1,
                nonce: 0,
                ..parent
            };
            while parent.check_proof_of_work(Network::Regtest).is_err() {
                parent.nonce += 1;
            }
            parent
        })
        .collect();
    let mut chain = HeaderChain::in_memory(Network::Regtest, ChainOptions::default());
    let begin = Instant::now();
    chain.accept_range(&headers, u32::MAX).expect("good headers");
    let each_us = begin.elapsed().as_secs_f64() * 1e6 / headers.len() as f64;
    let bytes = chain.memory_bytes() / headers.len();
    println!("a header accepted: {each_us:.2} us, {bytes} bytes");
}
