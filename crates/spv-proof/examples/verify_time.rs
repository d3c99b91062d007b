//! Measures how long a client takes to check a proof: 2,048 transactions, 11 hashes, the header's hash and its proof of
//! work. Prints the median and the best of many rounds, in microseconds.
//!
//!     cargo run --release -p lineside-spv-proof --example verify_time

use lineside_spv_proof::{Header, Network, ProofError, TransactionProof, Tree, sha256d};
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
}
