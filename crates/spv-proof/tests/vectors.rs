//! Tests of the Rust library and the C header with the vectors computed by `vectors/make_spv_proof.py`.

#![cfg(feature = "std")]

mod common;

use common::{HeaderVector, Hex, ProofVector, code, vectors};
use lineside_spv_proof::{
    Ancestor, Header, MerklePath, Network, ProofError, TransactionProof, Tree, depth_of, required_bits,
    retarget, sha256d,
};
use lineside_testkit::skipped;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const PROOFS: [&str; 3] = ["good", "bad", "witness"];

fn proofs() -> impl Iterator<Item = ProofVector> {
    PROOFS.into_iter().flat_map(vectors)
}

/// Returns the name that the vectors use for an error code.
fn name_of(code: i32) -> &'static str {
    let found = ProofError::ALL.iter().find(|reason| reason.code() == code);
    found.map_or("ok", |reason| reason.name())
}

#[test]
fn rust_verdicts_on_proofs_equal_those_of_the_vectors() {
    let mut codes = BTreeSet::new();
    let mut depths = BTreeSet::new();
    for vector in proofs() {
        let found = code(vector.verify());
        assert_eq!(name_of(found), vector.expect, "{}", vector.what);
        assert_eq!(found, vector.code, "{}", vector.what);
        if found == 0 {
            depths.insert((vector.wtxid.is_some(), depth_of(vector.transaction_count)));
        }
        codes.insert(found);
    }
    assert_eq!(codes, (0..=15).collect(), "a reason has no vector");
    let of_txids: Vec<usize> = depths
        .iter()
        .filter(|(is_witness, _)| !is_witness)
        .map(|(_, depth)| *depth)
        .collect();
    assert_eq!(of_txids, (0..=12).collect::<Vec<_>>());
}

#[test]
fn every_error_has_its_own_number_and_message() {
    for (index, reason) in (1..).zip(ProofError::ALL) {
        assert_eq!(reason.code(), index);
        let said: BTreeSet<String> = ProofError::ALL.iter().map(ToString::to_string).collect();
        assert_eq!(said.len(), 15);
    }
}

#[test]
fn headers_have_the_hash_target_and_work_of_the_vectors() {
    for vector in vectors::<HeaderVector>("headers") {
        let header = Header::from_bytes(&vector.header.array());
        let network: Network = vector.network.parse().unwrap();
        assert_eq!(header.hash(), vector.hash.array(), "{}", vector.what);
        assert_eq!(
            code(header.check_proof_of_work(network)),
            vector.code,
            "{}",
            vector.what
        );
        let target = header
            .target()
            .map_or("0".repeat(64), |target| target.to_string());
        assert_eq!(target, vector.target, "{}", vector.what);
        assert_eq!(header.work().to_string(), vector.work, "{}", vector.what);
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum DifficultyVector {
    Chain {
        what: String,
        network: String,
        gaps: Vec<i64>,
        changes: Vec<u32>,
    },
    Period {
        what: String,
        network: String,
        timespan: i64,
        bits: u32,
        after: u32,
    },
}

/// Follows a chain of 8,000 headers and compares every target.
fn follow(what: &str, network: Network, gaps: &[i64], changes: &[u32]) {
    let genesis = network.genesis();
    let mut chain = vec![Ancestor {
        time: genesis.time,
        bits: genesis.bits,
    }];
    let mut changes = changes.chunks_exact(2).peekable();
    for run in gaps.chunks_exact(2) {
        for _ in 0..run[1] {
            let parent = chain[chain.len() - 1];
            let height = chain.len() as u32;
            let time = (i64::from(parent.time) + run[0]) as u32;
            let found = required_bits(network, height - 1, time, |height| chain[height as usize]);
            let expected = match changes.next_if(|change| change[0] == height) {
                Some(change) => change[1],
                None => parent.bits,
            };
            assert_eq!(found, expected, "{what}, height {height}");
            chain.push(Ancestor { time, bits: found });
        }
    }
    assert!(chain.len() > 8_000 && changes.next().is_none(), "{what}");
}

#[test]
fn targets_along_chains_equal_those_of_the_vectors() {
    for vector in vectors("difficulty") {
        match vector {
            DifficultyVector::Chain {
                what,
                network,
                gaps,
                changes,
            } => {
                follow(&what, network.parse().unwrap(), &gaps, &changes);
            }
            DifficultyVector::Period {
                what,
                network,
                timespan,
                bits,
                after,
            } => {
                assert_eq!(
                    retarget(network.parse().unwrap(), bits, timespan),
                    after,
                    "{what}"
                );
            }
        }
    }
}

// ---- the C header ----

fn clients() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../clients/c")
}

/// Compiles `files` with the C compiler. Returns false and prints a line if there is no C compiler.
fn compile(arguments: &[&str], files: &[&Path]) -> bool {
    let mut command = Command::new("cc");
    command.args(["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic"]);
    match command.args(arguments).args(files).output() {
        Ok(done) => assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr)),
        Err(error) => {
            skipped(format_args!("the C compiler `cc` cannot be run ({error})"));
            return false;
        }
    }
    true
}

/// Compiles the C test program with the compiler options `arguments`, gives it `lines` and returns its verdicts, one
/// for each line. Returns `None` if there is no C compiler.
fn judged_in_c(arguments: &[&str], lines: &[String]) -> Option<Vec<String>> {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("check");
    let mut all = vec!["-D_DEFAULT_SOURCE", "-o"];
    let path = program.to_str().unwrap();
    all.push(path);
    all.extend(arguments);
    if !compile(&all, &[&clients().join("test/check.c")]) {
        return None;
    }
    let mut child = Command::new(&program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let text = lines.join("\n") + "\n";
    let writer = std::thread::spawn(move || input.write_all(text.as_bytes()));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(output.status.success(), "{:?}", output.status);
    let said = String::from_utf8(output.stdout).unwrap();
    Some(said.lines().map(String::from).collect())
}

/// Runs the C client's test program twice: with and without the compiler's checks for invalid reads and undefined
/// arithmetic.
#[test]
fn c_verdicts_on_proofs_equal_those_of_the_vectors() {
    let proofs: Vec<ProofVector> = proofs().collect();
    let headers: Vec<HeaderVector> = vectors("headers");
    let of_header = |vector: &HeaderVector| {
        let network: Network = vector.network.parse().unwrap();
        format!(
            "header {:08x} {}",
            network.limit_bits(),
            common::hex(&vector.header.0)
        )
    };
    let mut lines: Vec<String> = proofs.iter().map(ProofVector::line).collect();
    lines.extend(headers.iter().map(of_header));
    for arguments in [
        &["-O2"][..],
        &[
            "-O1",
            "-ffreestanding",
            "-fsanitize=undefined",
            "-fno-sanitize-recover",
        ],
    ] {
        let Some(said) = judged_in_c(arguments, &lines) else {
            return;
        };
        assert_eq!(said.len(), lines.len());
        for (vector, said) in proofs.iter().zip(&said) {
            assert_eq!(*said, vector.code.to_string(), "{}", vector.what);
        }
        for (vector, said) in headers.iter().zip(&said[proofs.len()..]) {
            assert_eq!(
                *said,
                format!("{} {}", vector.code, common::hex(&vector.hash.0)),
                "{}",
                vector.what
            );
        }
    }
}

#[test]
fn the_c_header_compiles_alone_and_freestanding() {
    let header = clients().join("lineside_spv.h");
    for arguments in [
        &["-fsyntax-only", "-x", "c"][..],
        &["-ffreestanding", "-fsyntax-only", "-x", "c"],
    ] {
        compile(arguments, &[&header]);
    }
}

/// Checks that the numbers of the C header equal those of the Rust enum, by name.
#[test]
fn the_c_header_has_the_numbers_of_the_rust_enum() {
    let text = std::fs::read_to_string(clients().join("lineside_spv.h")).unwrap();
    for reason in ProofError::ALL {
        let name = reason.name().to_uppercase().replace(' ', "_");
        let line = format!("#define LINESIDE_SPV_{name} {}", reason.code());
        let found = text
            .lines()
            .any(|found| found.split("/*").next().unwrap().trim_end() == line);
        assert!(found, "no line {line}");
    }
    for network in Network::ALL {
        let name = network.name().to_uppercase();
        assert!(text.contains(&format!(
            "#define LINESIDE_SPV_{name} {:#010x}u\n",
            network.limit_bits()
        )));
    }
    assert!(text.contains(&format!(
        "TRANSACTIONS_MAX {} ",
        lineside_spv_proof::MAX_TRANSACTIONS
    )));
}

/// Flips bits of proofs, which gives cases without a vector, and checks them in Rust and in C. Both must give the same
/// verdict, and no wrong proof may be valid.
#[test]
fn rust_and_c_give_the_same_verdict_on_changed_proofs() {
    let mut changed = Vec::new();
    let seeds: Vec<ProofVector> = proofs()
        .filter(|vector| vector.code == 0 && vector.path.len() < 5)
        .collect();
    let mut random = lineside_testkit::Random(11);
    for _ in 0..6_000 {
        let seed = &seeds[random.index(seeds.len())];
        let mut vector = seed.clone();
        let before = vector.line();
        while vector.line() == before {
            mutate(&mut vector, &mut random);
        }
        changed.push((seed, vector));
    }
    let lines: Vec<String> = changed.iter().map(|(_, vector)| vector.line()).collect();
    let Some(said) = judged_in_c(&["-O2"], &lines) else {
        return;
    };
    let mut holding = Vec::new();
    for ((seed, vector), said) in changed.iter().zip(&said) {
        let found = code(vector.verify());
        assert_eq!(*said, found.to_string(), "{vector:?}");
        holding.extend((found == 0).then_some((*seed, vector)));
    }
    // Some changes leave a proof valid: another transaction count with the same depth, another witness of a
    // transaction, and other fields than the root in a header whose target is easy to reach.
    for (seed, vector) in &holding {
        let root = |vector: &ProofVector| vector.header.0[36..68].to_vec();
        let path = |vector: &ProofVector| {
            vector
                .path
                .iter()
                .flat_map(|hash| hash.0.clone())
                .collect::<Vec<_>>()
        };
        let all = |vector: &ProofVector| (vector.index, path(vector), root(vector));
        assert_eq!(all(vector), all(seed), "{vector:?}");
        let of_coinbase = |vector: &ProofVector| vector.coinbase.as_ref().map(|raw| raw.0.clone());
        assert_eq!(of_coinbase(vector), of_coinbase(seed), "{vector:?}");
        let is_header = vector.header.0 != seed.header.0;
        let is_count = vector.transaction_count != seed.transaction_count;
        assert!(is_header || is_count || vector.raw.is_some(), "{vector:?}");
    }
    assert!(!holding.is_empty() && holding.len() < 600, "{}", holding.len());
}

fn mutate(vector: &mut ProofVector, random: &mut lineside_testkit::Random) {
    let flip = |bytes: &mut Vec<u8>, random: &mut lineside_testkit::Random| {
        if !bytes.is_empty() {
            let at = random.index(bytes.len());
            bytes[at] ^= 1 << random.below(8);
        }
    };
    let flip_some = |hex: &mut Option<Hex>, random: &mut lineside_testkit::Random| {
        if let Some(hex) = hex {
            flip(&mut hex.0, random);
        }
    };
    match random.below(9) {
        0 => flip(&mut vector.header.0, random),
        1 => vector.index ^= 1 << random.below(32),
        2 => vector.transaction_count ^= 1 << random.below(32),
        3 => drop(vector.path.pop()),
        4 if !vector.path.is_empty() => {
            let at = random.index(vector.path.len());
            flip(&mut vector.path[at].0, random);
        }
        5 => flip_some(&mut vector.raw, random),
        6 => flip_some(&mut vector.coinbase, random),
        7 => flip_some(&mut vector.witness_reserved, random),
        _ => {
            // In a vector with a raw transaction, the TXID follows from the bytes, so it is changed only in others.
            flip_some(&mut vector.wtxid, random);
            if vector.raw.is_none() {
                flip_some(&mut vector.txid, random);
            }
        }
    }
}

#[test]
fn the_longest_proof_that_a_block_can_have_holds() {
    let leaves: Vec<_> = (0..lineside_spv_proof::MAX_TRANSACTIONS)
        .map(|index| sha256d(&index.to_le_bytes()))
        .collect();
    let tree = Tree::new(&leaves).unwrap();
    let index = 16_665;
    let header = Header {
        merkle_root: tree.root(),
        ..Network::Mainnet.genesis()
    };
    let path: MerklePath = tree.merkle_path(index).unwrap();
    assert_eq!(path.hashes().len(), 15);
    let proof = TransactionProof {
        header,
        height: 0,
        transaction_count: 16_666,
        index,
        path,
    };
    assert_eq!(proof.verify_path(&leaves[index as usize]), Ok(()));
}
