//! Tests of expiry in generated blocks, for cases that cannot be recorded because peers refuse to endorse them.

use super::network::{Network, message, number, policy, rwset};
use crate::state::Height;
use crate::{Error, Stop, TxCode, Validator};
use TxCode::{MvccReadConflict, Valid};

const CC: &str = "cc";
/// Hash of a private key.
const KEY: &[u8] = b"hash of a key";

/// Encodes collections with these names and `blockToLive` values.
fn collections(all: &[(&str, u64)]) -> Vec<u8> {
    let one = |(name, life): &(&str, u64)| {
        let fixed = [message(&[(1, name.as_bytes())]), number(5, *life)].concat();
        message(&[(1, &message(&[(1, &fixed)]))])
    };
    all.iter().flat_map(one).collect()
}

fn endorsement() -> Vec<u8> {
    policy::application(&policy::n_of(1, &[("Org1MSP", 3), ("Org2MSP", 3)]))
}

/// Creates a channel whose chaincode has these collections.
fn channel(all: &[(&str, u64)]) -> (Network, Validator) {
    let mut network = Network::new();
    let mut validator = network.start(None);
    let definition = network.define(CC, &endorsement(), &collections(all)).build();
    assert_eq!(network.codes(&mut validator, &[definition]), [Valid]);
    (network, validator)
}

/// Creates a transaction that writes the key in a collection.
fn write(network: &mut Network, collection: &str, value: &[u8]) -> Vec<u8> {
    let hashed = message(&[(2, &message(&[(1, KEY), (3, value)]))]);
    let rwset = rwset(&[(CC, b"", &[(collection, hashed)])]);
    network.tx(CC, &rwset).build()
}

/// Creates a transaction that reads the key of a collection at the version of transaction 0 of block `block`.
fn read(network: &mut Network, collection: &str, block: u64) -> Vec<u8> {
    let version = message(&[(2, &number(1, block))]);
    let hashed = message(&[(1, &[message(&[(1, KEY)]), version].concat())]);
    let rwset = rwset(&[(CC, b"", &[(collection, hashed)])]);
    network.tx(CC, &rwset).build()
}

fn version(validator: &Validator, collection: &str) -> Option<u64> {
    let entry = validator.state().get(CC, collection, KEY)?;
    let Height { block, .. } = entry.version;
    Some(block)
}

/// A key exists for blockToLive + 1 blocks after the block that wrote it; reads in the last of these blocks still
/// succeed.
#[test]
fn a_key_is_read_up_to_the_block_that_removes_it() {
    for life in 1..4 {
        let (mut network, mut validator) = channel(&[("mortal", life)]);
        let written = write(&mut network, "mortal", b"1");
        assert_eq!(network.codes(&mut validator, &[written]), [Valid]);
        for _ in 0..=life {
            assert_eq!(version(&validator, "mortal"), Some(2), "blockToLive {life}");
            let reading = read(&mut network, "mortal", 2);
            assert_eq!(network.codes(&mut validator, &[reading]), [Valid]);
        }
        assert_eq!(version(&validator, "mortal"), None, "blockToLive {life}");
        let reading = read(&mut network, "mortal", 2);
        assert_eq!(network.codes(&mut validator, &[reading]), [MvccReadConflict]);
    }
}

/// Peers compute the number of the block that removes a key in 64 bits. If the sum overflows, the key never expires.
#[test]
fn a_lifetime_beyond_the_last_block_number_never_ends() {
    for life in [u64::MAX, u64::MAX - 1, u64::MAX - 3] {
        let (mut network, mut validator) = channel(&[("mortal", life)]);
        let written = write(&mut network, "mortal", b"1");
        assert_eq!(network.codes(&mut validator, &[written]), [Valid]);
        for block in 2..6 {
            let reading = read(&mut network, "mortal", block);
            let rewriting = write(&mut network, "mortal", b"2");
            assert_eq!(
                network.codes(&mut validator, &[rewriting, reading]),
                [Valid, MvccReadConflict]
            );
            assert_eq!(version(&validator, "mortal"), Some(block + 1));
        }
    }
}

/// If two collections have the same name, a peer uses the blockToLive of the first. It ignores the blockToLive of a
/// collection that has the name of an implicit collection.
#[test]
fn the_first_definition_of_a_collection_counts() {
    let implied = "_implicit_org_Org1MSP";
    let (mut network, mut validator) = channel(&[("twice", 0), ("twice", 1), (implied, 1), ("once", 1)]);
    let all = ["twice", implied, "once"];
    let written = all.map(|collection| write(&mut network, collection, b"1"));
    assert_eq!(network.codes(&mut validator, &written), [Valid; 3]);
    for _ in 0..2 {
        let other = write(&mut network, "twice", b"2");
        assert_eq!(network.codes(&mut validator, &[other]), [Valid]);
    }
    assert_eq!(all.map(|of| version(&validator, of)), [Some(4), Some(2), None]);
}

/// An upgrade of a chaincode may add collections. An upgrade that changes a blockToLive stops validation, and the error
/// names the transaction.
#[test]
fn an_upgrade_that_changes_block_to_live_stops_validation() {
    let (mut network, mut validator) = channel(&[("mortal", 3), ("ever", 0)]);
    let other = |all: &[(&str, u64)], network: &mut Network| {
        network.define(CC, &endorsement(), &collections(all)).build()
    };
    let more = other(&[("mortal", 3), ("ever", 0), ("more", 1)], &mut network);
    assert_eq!(network.codes(&mut validator, &[more]), [Valid]);
    let state = format!("{:?}", validator.state());
    for (all, to) in [
        (&[("mortal", 5), ("more", 1)][..], "5"),
        (&[("more", 1)], "0"),
        (&[("mortal", 0)], "0"),
    ] {
        let first = write(&mut network, "ever", b"1");
        let changed = other(all, &mut network);
        let stopped = network.next(&mut validator, &[first, changed]);
        let Err(Error::Stop(Stop::Transaction { index: 1, what })) = &stopped else {
            panic!("{stopped:?}");
        };
        let named = what.contains("collection mor") && what.contains(&format!(" to {to},"));
        assert!(named, "{what}");
    }
    assert_eq!(format!("{:?}", validator.state()), state);
    // An upgrade with too few endorsements is invalid and does not stop validation.
    let one = network.peer(0);
    let changed = network
        .define(CC, &endorsement(), &collections(&[("mortal", 5)]))
        .by(&[&one])
        .build();
    assert_eq!(
        network.codes(&mut validator, &[changed]),
        [TxCode::EndorsementPolicyFailure]
    );
}
