//! Measures the authenticated map with 10^6 keys: the time of inserts, updates and proofs, and the length of proofs.
//! Run it with `cargo run --release -p lineside-hybrid --example map_cost`.

use lineside_testkit::Random;
use std::hint::black_box;
use std::time::Instant;

use lineside_hybrid::map::{Change, Tree};
use lineside_messages::hybrid::map_proof::Proof;
use lineside_verify::hash::keccak256;

const KEYS: u64 = 1_000_000;

fn key(number: u64) -> [u8; 32] {
    keccak256(&number.to_be_bytes())
}

fn set(keys: impl Iterator<Item = [u8; 32]>, random: &mut Random) -> Vec<Change> {
    keys.map(|key| Change {
        key,
        value: Some(keccak256(&random.next().to_be_bytes())),
    })
    .collect()
}

fn main() {
    let random = &mut Random(1);
    let keys: Vec<_> = (0..KEYS).map(key).collect();

    let mut changes = set(keys.iter().copied(), random);
    let mut tree = Tree::new();
    let start = Instant::now();
    tree.update(&mut changes);
    let ns = start.elapsed().as_nanos() as u64;
    println!(
        "insert, {KEYS} into an empty map: {:>6} ns/key ({} ms)",
        ns / KEYS,
        ns / 1_000_000
    );
    drop((tree, changes));

    let mut tree = Tree::new();
    let mut ns = 0;
    for block in keys.chunks(1_000) {
        let mut changes = set(block.iter().copied(), random);
        let start = Instant::now();
        tree.update(&mut changes);
        ns += start.elapsed().as_nanos() as u64;
    }
    println!("insert, 1000 at a time:           {:>6} ns/key", ns / KEYS);
    println!(
        "nodes:                            {:>6} bytes/key",
        tree.node_bytes() as u64 / KEYS
    );

    for count in [100, 1_000, 10_000] {
        let mut rounds: Vec<_> = (0..200_000 / count)
            .map(|_| {
                let some: Vec<_> = (0..count)
                    .map(|_| keys[(random.next() % KEYS) as usize])
                    .collect();
                let mut changes = set(some.into_iter(), random);
                let start = Instant::now();
                tree.update(&mut changes);
                start.elapsed().as_nanos() as u64 / count
            })
            .collect();
        rounds.sort_unstable();
        println!(
            "update, {count:>5} of {KEYS}:         {:>6} ns/key (median; least {})",
            rounds[rounds.len() / 2],
            rounds[0]
        );
    }

    let absent: Vec<_> = (KEYS..KEYS + 100_000).map(key).collect();
    let some: Vec<_> = (0..100_000)
        .map(|_| keys[(random.next() % KEYS) as usize])
        .collect();
    for (name, keys) in [("present", some), ("absent", absent)] {
        let start = Instant::now();
        let proofs: Vec<_> = keys.iter().map(|key| tree.prove(key).encode()).collect();
        let made_ns = start.elapsed().as_nanos() as usize / keys.len();
        let root = tree.root();
        let start = Instant::now();
        for (key, bytes) in keys.iter().zip(&proofs) {
            let shown = Proof::decode(bytes).and_then(|proof| proof.check(&root, key));
            assert!(black_box(shown).is_ok());
        }
        let checked_ns = start.elapsed().as_nanos() as usize / keys.len();
        let mut sizes: Vec<_> = proofs.iter().map(Vec::len).collect();
        sizes.sort_unstable();
        let at = |percent: usize| sizes[(sizes.len() - 1) * percent / 100];
        let mean = sizes.iter().sum::<usize>() / sizes.len();
        let small = sizes.partition_point(|size| *size <= 700) * 100 / sizes.len();
        println!("proof, {name}: made in {made_ns} ns, checked in {checked_ns} ns, encoding included");
        println!(
            "  bytes: mean {mean}, p50 {}, p90 {}, p99 {}, most {}; {small} % have 700 at most",
            at(50),
            at(90),
            at(99),
            at(100)
        );
    }
}
