//! Tests that the validator gives each generated transaction the code that the generator expects.

use lineside_fabric::{Error, Options as Validation, Refused, TxCode, Validator};
use lineside_fabric_maker::{
    BlockFault, Blocks, Chaincode, Fault, MadeBlock, Network, Options, Policy, Workload, cache, spoil,
};
use std::collections::BTreeMap;
use std::sync::Arc;

fn network(seed: u64, orgs: usize, peers: usize) -> Arc<Network> {
    let options = Options {
        orgs,
        peers,
        orderers: orgs,
        ..Options::default()
    };
    Arc::new(Network::new(seed, options))
}

/// Validates a chain, compares each code, and returns the counts of the codes and the last commit hash.
fn codes(
    mut blocks: impl Iterator<Item = MadeBlock>,
    threads: usize,
) -> (BTreeMap<TxCode, usize>, Option<[u8; 32]>) {
    let options = Validation {
        threads,
        ..Validation::default()
    };
    let mut validator = Validator::new(&blocks.next().unwrap().bytes, options).unwrap();
    let mut counts = BTreeMap::new();
    for block in blocks {
        let validated = match validator.validate(&block.bytes) {
            Ok(validated) => validated,
            Err(error) => panic!("block {}: {error}", block.number),
        };
        let pairs = validated.codes.iter().zip(&block.codes).enumerate();
        for (index, (found, made)) in pairs {
            assert_eq!(found, made, "block {} transaction {index}", block.number);
        }
        assert_eq!(validated.codes.len(), block.codes.len());
        for &code in &block.codes {
            *counts.entry(code).or_insert(0) += 1;
        }
        validator.commit(validated);
    }
    (counts, validator.commit_hash())
}

#[test]
fn every_fault_occurs_and_gives_its_code() {
    for seed in 1..=4 {
        for (chaincode, endorsements) in [(Chaincode::Smallbank, 2), (Chaincode::Drm, 4)] {
            let workload = Workload {
                chaincode,
                endorsements,
                keys: 400,
                block: 60,
                transactions: 600,
                ranges: 50,
                faulty: 500,
                config_every: 3,
                ..Workload::default()
            };
            let network = network(seed, 2, 2);
            let (counts, hash) = codes(Blocks::new(Arc::clone(&network), workload.clone(), 1), 1);
            let wanted: std::collections::BTreeSet<_> = Fault::ALL.iter().map(|fault| fault.code()).collect();
            let found = counts.keys().copied().collect();
            assert_eq!(wanted, found, "seed {seed}, {chaincode:?}");
            let again = codes(Blocks::new(network, workload, 2), 2);
            assert_eq!((counts, hash), again, "seed {seed}, {chaincode:?}");
        }
    }
}

#[test]
fn each_fault_alone_gives_its_code() {
    let network = network(9, 2, 1);
    for &fault in Fault::ALL {
        let workload = Workload {
            keys: 200,
            block: 10,
            transactions: 30,
            faulty: 400,
            faults: vec![fault],
            ..Workload::default()
        };
        let (counts, _) = codes(Blocks::new(Arc::clone(&network), workload, 1), 1);
        assert!(counts.contains_key(&fault.code()), "{fault:?}: {counts:?}");
        assert!(
            counts
                .keys()
                .all(|&code| code == fault.code() || code == TxCode::Valid),
            "{fault:?}: {counts:?}"
        );
    }
}

#[test]
fn one_to_four_endorsements_of_one_to_four_organisations_are_valid() {
    for orgs in 1..=4 {
        for endorsements in 1..=4usize {
            let network = network(20 + orgs as u64, orgs, endorsements.div_ceil(orgs));
            let workload = Workload {
                endorsements,
                keys: 2_000,
                block: 100,
                transactions: 200,
                ..Workload::default()
            };
            let (counts, _) = codes(Blocks::new(network, workload, 2), 2);
            let all: usize = counts.values().sum();
            assert!(counts[&TxCode::Valid] * 100 >= all * 95, "{counts:?}");
        }
    }
}

/// If the channel's policy requires a majority of three organisations, one endorsement is not enough.
#[test]
fn a_majority_policy_refuses_one_endorsement_of_three() {
    let workload = Workload {
        keys: 10_000,
        transactions: 2_000,
        policy: Policy::Majority,
        faulty: 200,
        ..Workload::default()
    };
    let (counts, _) = codes(Blocks::new(network(13, 3, 1), workload, 2), 2);
    assert!(counts[&TxCode::EndorsementPolicyFailure] > 50, "{counts:?}");
    assert!(counts[&TxCode::Valid] > 1_400, "{counts:?}");
}

#[test]
fn a_block_of_65535_transactions_is_valid() {
    let workload = Workload {
        keys: 20_000,
        endorsements: 1,
        block: 65_535,
        transactions: 65_535,
        ..Workload::default()
    };
    let last = Blocks::new(network(3, 1, 1), workload, 2).last().unwrap();
    assert_eq!(last.codes.len(), 65_535);
    assert!(last.bytes.len() > 150 << 20);
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let workload = Workload {
        keys: 300,
        block: 300,
        transactions: 900,
        faulty: 200,
        config_every: 2,
        ..Workload::default()
    };
    let made = |seed, threads| -> Vec<MadeBlock> {
        Blocks::new(network(seed, 2, 1), workload.clone(), threads).collect()
    };
    let one = made(5, 1);
    assert_eq!(one, made(5, 1));
    assert_eq!(one, made(5, 3));
    let other = made(6, 1);
    assert!(
        one.iter()
            .zip(&other)
            .all(|(one, other)| one.bytes != other.bytes)
    );

    let directory = tempfile::tempdir().unwrap();
    let options = network(5, 2, 1).options.clone();
    for _ in 0..2 {
        let read = cache::open(directory.path(), 5, &options, &workload, 1).unwrap();
        let read: Vec<MadeBlock> = read.map(Result::unwrap).collect();
        assert_eq!(one, read);
    }
    let path = cache::path(directory.path(), 5, &options, &workload);
    let kept = std::fs::metadata(&path).unwrap().len();
    let whole: usize = one.iter().map(|block| block.bytes.len()).sum();
    assert!(kept < whole as u64 / 4, "{kept} of {whole}");
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
    let mut cut = cache::open(directory.path(), 5, &options, &workload, 1).unwrap();
    assert!(cut.any(|block| block.is_err()), "an error for a truncated file");
}

#[test]
fn damaged_blocks_are_refused() {
    let network = network(11, 2, 1);
    let workload = Workload {
        keys: 100,
        transactions: 20,
        ..Workload::default()
    };
    let blocks: Vec<MadeBlock> = Blocks::new(Arc::clone(&network), workload, 1).collect();
    let (last, before) = blocks.split_last().unwrap();
    let mut validator = Validator::new(&before[0].bytes, Validation::default()).unwrap();
    for block in &before[1..] {
        let validated = validator.validate(&block.bytes).unwrap();
        validator.commit(validated);
    }
    for fault in BlockFault::ALL {
        let found = match validator.validate(&spoil(&network, &last.bytes, fault)) {
            Err(Error::Refused(refused)) => refused,
            other => panic!("{fault:?}: {other:?}"),
        };
        let as_wanted = match fault {
            BlockFault::Number => matches!(found, Refused::Number { .. }),
            BlockFault::PreviousHash => found == Refused::PreviousHash,
            BlockFault::DataHash => found == Refused::DataHash,
            BlockFault::Signature | BlockFault::NoSignature | BlockFault::SignedByPeer => {
                found == Refused::Signature
            }
            BlockFault::NoTransactions => found == Refused::Empty,
            BlockFault::Channel => found == Refused::Channel,
            BlockFault::EmptySignature | BlockFault::TrailingBytes => {
                matches!(found, Refused::Envelope { index: 0, .. })
            }
        };
        assert!(as_wanted, "{fault:?}: {found}");
    }
    assert!(validator.validate(&last.bytes).is_ok());
}
