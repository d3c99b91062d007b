//! Tests with blocks of a real Fabric v3.1.5 network: every code and every commit hash must equal the peer's.

use lineside_fabric::replay::replay;
use lineside_fabric::{Options, TxCode};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Returns the folder of a recorded set outside the repository, if it exists.
fn beside(set: &str) -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let directory = root.join("shared/data/fabric-blocks").join(set);
    if directory.join("manifest.json").exists() {
        return Some(directory);
    }
    eprintln!("skipped: there are no recorded blocks at {}", directory.display());
    None
}

/// Replays a recorded set of blocks, whose results must equal the recorded ones. Returns the number of blocks and of
/// transactions with each code.
fn codes(directory: &Path, threads: usize) -> (u64, BTreeMap<TxCode, usize>) {
    let mut codes = BTreeMap::new();
    let (mut blocks, mut differences) = (0, Vec::new());
    let options = Options {
        threads,
        ..Options::default()
    };
    let validator = replay(directory, options, &mut |block| {
        blocks += 1;
        assert!(block.compared, "block {} was compared with nothing", block.number);
        differences.extend(
            block
                .differences
                .iter()
                .map(|what| format!("block {}: {what}", block.number)),
        );
        for &code in &block.codes {
            *codes.entry(code).or_insert(0) += 1;
        }
        true
    });
    let shown = differences.join("\n");
    assert!(
        differences.is_empty(),
        "{} differences:\n{shown}",
        differences.len()
    );
    assert!(validator.unwrap().is_some());
    (blocks, codes)
}

#[test]
fn the_recorded_set_dev_is_reproduced() {
    let Some(directory) = beside("dev") else { return };
    let (blocks, codes) = codes(&directory, 2);
    assert_eq!(blocks, 36);
    assert_eq!(codes.values().sum::<usize>(), 4_865);
    assert_eq!((codes.len(), codes[&TxCode::Valid]), (13, 4_603));
}

#[test]
fn the_recorded_set_dev_edge_is_reproduced() {
    let Some(directory) = beside("dev-edge") else {
        return;
    };
    let (blocks, codes) = codes(&directory, 1);
    assert_eq!(blocks, 18);
    assert_eq!(codes.values().sum::<usize>(), 1_164);
    assert_eq!((codes.len(), codes[&TxCode::Valid]), (4, 1_041));
}

#[test]
fn the_recorded_set_in_the_repository_is_reproduced() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/edge");
    for threads in [1, 3] {
        let (blocks, codes) = codes(&directory, threads);
        assert_eq!(blocks, 14);
        let counts: Vec<_> = codes.into_iter().collect();
        let expected = [
            (TxCode::Valid, 736),
            (TxCode::BadCreatorSignature, 10),
            (TxCode::EndorsementPolicyFailure, 18),
        ];
        assert_eq!(counts, expected);
    }
}
