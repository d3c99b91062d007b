//! Tests with recorded sets of a real Fabric v3.1.5 network with private data that expires, Ed25519 identities and
//! revocation lists. The tests compare codes, commit hashes, and the peer's listings of its state, which include hashed
//! private keys.

use lineside_fabric::ledger::{Replica, Setup, StateStore};
use lineside_fabric::listing::Listing;
use lineside_fabric::replay::{read, replay};
use lineside_fabric::state::State;
use lineside_fabric::{Options, TxCode};
use lineside_journal::FsDisk;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Recording of a real network: a number of blocks, and listings of a peer's state after some of them.
struct Set {
    name: &'static str,
    blocks: u64,
    listings: usize,
}

const BTL: Set = Set {
    name: "btl",
    blocks: 75,
    listings: 8,
};
const ED25519: Set = Set {
    name: "ed25519",
    blocks: 25,
    listings: 1,
};
const MSP: Set = Set {
    name: "msp",
    blocks: 43,
    listings: 1,
};

impl Set {
    /// Returns the folder of the whole set outside the repository, if it exists.
    fn whole(&self) -> Option<PathBuf> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
        let directory = root.join("shared/data/fabric-blocks/dev-live").join(self.name);
        if directory.join("manifest.json").exists() {
            return Some(directory);
        }
        eprintln!("skipped: there are no recorded blocks at {}", directory.display());
        None
    }

    /// Returns the folder of the set's first blocks in the repository.
    fn part(&self) -> PathBuf {
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
        data.join(self.name)
    }
}

/// Replays a recorded set of blocks, whose results must equal the recorded ones. Returns the number of blocks, of
/// listings, and of transactions with each code.
fn replayed(directory: &Path) -> (u64, usize, BTreeMap<TxCode, usize>) {
    let (mut blocks, mut listings) = (0, 0);
    let (mut codes, mut differences) = (BTreeMap::new(), Vec::new());
    let validator = replay(directory, Options::default(), &mut |block| {
        blocks += 1;
        assert!(block.compared, "block {} was compared with nothing", block.number);
        listings += usize::from(Listing::read(directory, block.number).unwrap().is_some());
        let found = block.differences.iter();
        differences.extend(found.map(|what| format!("block {}: {what}", block.number)));
        for &code in &block.codes {
            *codes.entry(code).or_insert(0) += 1;
        }
        true
    });
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    assert!(validator.unwrap().is_some());
    (blocks, listings, codes)
}

fn codes_of(directory: &Path, set: &Set) -> Vec<(TxCode, usize)> {
    let (blocks, listings, codes) = replayed(directory);
    assert_eq!((blocks, listings), (set.blocks, set.listings), "{}", set.name);
    codes.into_iter().collect()
}

#[test]
fn keys_expire_as_the_peer_expires_them() {
    let Some(directory) = BTL.whole() else { return };
    let expected = [
        (TxCode::Valid, 219),
        (TxCode::EndorsementPolicyFailure, 18),
        (TxCode::MvccReadConflict, 58),
    ];
    assert_eq!(codes_of(&directory, &BTL), expected);
}

/// The set has creators and endorsers with Ed25519 keys before and after the capability V3_0, keys and signatures of
/// unusual forms, and revocation lists of a CA with an Ed25519 key.
#[test]
fn ed25519_identities_count_from_v3_0_on() {
    let Some(directory) = ED25519.whole() else { return };
    let expected = [
        (TxCode::Valid, 59),
        (TxCode::BadCreatorSignature, 37),
        (TxCode::EndorsementPolicyFailure, 30),
    ];
    assert_eq!(codes_of(&directory, &ED25519), expected);
}

/// The set has revocation lists with and without an authority key identifier, of root and of intermediate CAs, and an
/// organisation without NodeOUs.
#[test]
fn revocation_lists_and_intermediate_cas_give_the_peers_codes() {
    let Some(directory) = MSP.whole() else { return };
    let expected = [
        (TxCode::Valid, 100),
        (TxCode::BadCreatorSignature, 20),
        (TxCode::EndorsementPolicyFailure, 11),
    ];
    assert_eq!(codes_of(&directory, &MSP), expected);
}

/// The first blocks of each set are in the repository, so this test always runs.
#[test]
fn the_recorded_live_sets_in_the_repository_are_reproduced() {
    for (set, blocks, listings, codes) in [
        (BTL, 18, 4, [70, 0, 7, 20]),
        (ED25519, 14, 0, [33, 20, 13, 0]),
        (MSP, 14, 0, [29, 11, 7, 0]),
    ] {
        let (found_blocks, found_listings, found) = replayed(&set.part());
        assert_eq!((found_blocks, found_listings), (blocks, listings), "{}", set.name);
        let all = [
            TxCode::Valid,
            TxCode::BadCreatorSignature,
            TxCode::EndorsementPolicyFailure,
            TxCode::MvccReadConflict,
        ];
        assert_eq!(
            all.map(|code| found.get(&code).copied().unwrap_or_default()),
            codes
        );
        assert_eq!(found.values().sum::<usize>(), codes.iter().sum::<usize>());
    }
}

/// Source of the state after a restart.
#[derive(Clone, Copy, PartialEq, Debug)]
enum StateSource {
    /// The state is in memory, rebuilt from all blocks.
    Blocks,
    /// The state is in memory, from a checkpoint after each block.
    Checkpoint,
    /// The state is in a database on the disk.
    Disk,
}

fn open(directory: &Path, kept: StateSource) -> Replica<FsDisk> {
    let setup = Setup {
        checkpoint_after: u64::from(kept == StateSource::Checkpoint),
        state: match kept {
            StateSource::Disk => StateStore::Disk(directory.join("state")),
            StateSource::Blocks | StateSource::Checkpoint => StateStore::Memory,
        },
        ..Setup::default()
    };
    let disk = FsDisk::open(directory).unwrap();
    let (replica, opened) = Replica::open(disk, setup, None).unwrap();
    assert_eq!(opened.ledger.damaged, Vec::<String>::new());
    assert_eq!(opened.ledger.state_remade, None);
    replica
}

fn compare(directory: &Path, number: u64, state: &State) -> bool {
    let Some(listing) = Listing::read(directory, number).unwrap() else {
        return false;
    };
    let differences = listing.differences(state);
    assert!(
        differences.is_empty(),
        "after block {number}:\n{}",
        differences.join("\n")
    );
    true
}

/// Adds the blocks of a set with a restart before each. Compares the state after each listed block, before and after
/// the restart. Returns the number of compared listings.
fn a_replica_restarted_before_every_block_gives_the_same_results(from: &Path, kept: StateSource) -> usize {
    let ledger = tempfile::tempdir().unwrap();
    let mut listings = 0;
    for number in 0.. {
        let Some(block) = read(from, number, "orderer").unwrap() else {
            break;
        };
        let mut replica = open(ledger.path(), kept);
        assert_eq!(replica.next(), number);
        if let Some(last) = number.checked_sub(1) {
            compare(from, last, replica.validator().unwrap().state());
        }
        let added = replica.add(block).unwrap();
        if let Some(committed) = read(from, number, "committed").unwrap() {
            let arena = lineside_fabric::proto::Arena::new();
            let committed = lineside_fabric::block::Block::read(&committed, &arena).unwrap();
            let codes: Vec<u8> = added.codes.iter().map(|code| *code as u8).collect();
            assert_eq!(codes, committed.filter(), "block {number}");
            assert_eq!(
                added.commit_hash.map(|hash| hash.to_vec()),
                committed.commit_hash()
            );
        }
        listings += usize::from(compare(from, number, replica.validator().unwrap().state()));
        // Dropping the replica leaves the ledger as after a crash; after every third block, the replica is stopped
        // properly instead.
        if number % 3 == 0 {
            replica.stop().unwrap();
        } else {
            replica.flush().unwrap();
        }
    }
    listings
}

#[test]
fn keys_expire_across_restarts() {
    for kept in [StateSource::Blocks, StateSource::Checkpoint, StateSource::Disk] {
        let listings = a_replica_restarted_before_every_block_gives_the_same_results(&BTL.part(), kept);
        assert_eq!(listings, 4, "{kept:?}");
    }
    for set in [BTL, ED25519, MSP] {
        let Some(directory) = set.whole() else { return };
        for kept in [StateSource::Checkpoint, StateSource::Disk] {
            let listings = a_replica_restarted_before_every_block_gives_the_same_results(&directory, kept);
            assert_eq!(listings, set.listings, "{kept:?}");
        }
    }
}
