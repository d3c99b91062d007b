//! Tests of expiry in ledgers that begin with a snapshot: the expiry index after joining, and ledgers of versions
//! without expiry.

use super::image::{Image, LAYOUT_WITHOUT_EXPIRY};
use super::{
    ExpectedHashes, ReadOnlyLedger, Replica, Setup, StateStore, WritableLedger, export, join, validator_from,
};
use crate::listing::Listing;
use crate::replay::read;
use crate::state::{Disk as StateDisk, ExpiringKey, Key, State};
use crate::validate::Options;
use lineside_journal::SimDisk;
use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};

/// `blockToLive` of the collections in the recorded set `btl`, as listed in its README.
const LIVES: [(&str, &str, u64); 6] = [
    ("kv", "once", 1),
    ("kv", "thrice", 3),
    ("kv", "thriceown", 3),
    ("kv", "newonce", 1),
    ("kv", "newtwice", 2),
    ("kx", "once", 3),
];

/// Returns the keys of a state that expire, computed only from their versions.
fn by_versions(state: &State) -> BTreeSet<(u64, ExpiringKey)> {
    let mut due = BTreeSet::new();
    state.each(&mut |namespace, collection, key, entry| {
        let of = |(chaincode, name, _): &&(&str, &str, u64)| (*chaincode, *name) == (namespace, collection);
        if let Some((.., life)) = LIVES.iter().find(of) {
            let key = ExpiringKey {
                namespace: namespace.to_owned(),
                collection: collection.to_owned(),
                key: Key::from_slice(key),
                life: *life,
            };
            due.insert((entry.version.block + life + 1, key));
        }
    });
    due
}

#[test]
fn the_index_after_a_peers_snapshot_follows_from_its_versions() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let snapshot = root.join("shared/data/fabric-blocks/dev-live/btl/snapshot");
    if !snapshot.exists() {
        eprintln!("skipped: there is no snapshot at {}", snapshot.display());
        return;
    }
    let validator = validator_from(&snapshot, Options::default()).unwrap();
    let expected = by_versions(&validator.state);
    assert_eq!(expected.len(), 4);
    assert_eq!(validator.state.all_due(), expected);
    let folder = tempfile::tempdir().unwrap();
    for state in [StateStore::Memory, StateStore::Disk(folder.path().join("state"))] {
        let setup = Setup {
            state,
            ..Setup::default()
        };
        let disk = SimDisk::new(1);
        join(
            disk.clone(),
            &setup,
            &snapshot,
            &ExpectedHashes::default(),
            &mut |_| {},
        )
        .unwrap();
        let look = ReadOnlyLedger::open(disk, &Options::default(), Some(&setup.state)).unwrap();
        assert_eq!(look.validator.state.all_due(), expected, "{:?}", setup.state);
    }
}

fn recorded() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/btl")
}

fn block(number: u64) -> Vec<u8> {
    read(&recorded(), number, "orderer").unwrap().unwrap()
}

/// Writes a snapshot of the recorded channel after block 8 to `folder`. Some keys in the snapshot expire with block 9.
fn snapshot_of_eight(folder: &Path) {
    let disk = SimDisk::new(7);
    let (mut replica, _) = Replica::open(disk.clone(), Setup::default(), None).unwrap();
    for number in 0..=8 {
        replica.add(block(number)).unwrap();
    }
    replica.stop().unwrap();
    let look = ReadOnlyLedger::open(disk, &Options::default(), Some(&StateStore::Memory)).unwrap();
    export(&look, folder).unwrap();
}

/// Writes a checkpoint of a ledger in the layout of a version without expiry.
fn write_older_checkpoint(disk: &SimDisk, setup: &Setup) {
    let begun = WritableLedger::open(disk.clone(), setup.journal, &setup.validation, &setup.state).unwrap();
    let blocks = begun.writer.blocks();
    let image = Image::new(begun.validator.as_ref().unwrap(), begun.config_block);
    let mut bytes = Vec::new();
    image.write(&blocks, &mut bytes).unwrap();
    bytes[8..12].copy_from_slice(&LAYOUT_WITHOUT_EXPIRY.to_le_bytes());
    let end = blocks.end_of(image.last);
    begun.snapshots.write(end, |out| out.write_all(&bytes)).unwrap();
}

/// Adds block 9 and compares the state after that block with the peer's recorded state.
fn add_nine(replica: &mut Replica<SimDisk>) {
    replica.add(block(9)).unwrap();
    let listing = Listing::read(&recorded(), 9).unwrap().unwrap();
    let differences = listing.differences(replica.validator().unwrap().state());
    assert_eq!(differences, Vec::<String>::new());
}

/// A checkpoint that a version without expiry wrote is used if the ledger begins with the genesis block. If the ledger
/// begins with a snapshot, the checkpoint is not used, because it may contain keys of the snapshot that had expired.
#[test]
fn a_checkpoint_of_a_version_without_expiry_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let (snapshot, setup) = (folder.path().join("snapshot"), Setup::default());
    snapshot_of_eight(&snapshot);
    let joined = SimDisk::new(1);
    join(
        joined.clone(),
        &setup,
        &snapshot,
        &ExpectedHashes::default(),
        &mut |_| {},
    )
    .unwrap();
    write_older_checkpoint(&joined, &setup);
    let (mut replica, opened) = Replica::open(joined, setup.clone(), None).unwrap();
    let [damaged] = opened.ledger.damaged.as_slice() else {
        panic!("{opened:?}");
    };
    assert!(damaged.contains("kept expired keys of the snapshot"), "{damaged}");
    assert_eq!(opened.ledger.checkpoint, 0);
    add_nine(&mut replica);

    let disk = SimDisk::new(2);
    let (mut replica, _) = Replica::open(disk.clone(), setup.clone(), None).unwrap();
    for number in 0..=8 {
        replica.add(block(number)).unwrap();
    }
    replica.stop().unwrap();
    write_older_checkpoint(&disk, &setup);
    let report = super::verify_ledger(&disk, &StateStore::Memory, &Options::default(), &mut |_| {}).unwrap();
    assert!(report.is_sound() && report.checkpoints == 1, "{report:?}");
    let (mut replica, opened) = Replica::open(disk, setup, None).unwrap();
    assert!(
        opened.ledger.checkpoint > 0 && opened.ledger.damaged.is_empty(),
        "{opened:?}"
    );
    add_nine(&mut replica);
}

/// A state database that a version without expiry wrote is rebuilt if the ledger begins with a snapshot, and upgraded
/// otherwise.
#[test]
fn a_database_of_a_version_without_expiry_is_upgraded_or_rebuilt() {
    let folder = tempfile::tempdir().unwrap();
    let snapshot = folder.path().join("snapshot");
    snapshot_of_eight(&snapshot);
    for is_joined in [true, false] {
        let directory = folder.path().join(format!("state-{is_joined}"));
        let setup = Setup {
            state: StateStore::Disk(directory.clone()),
            ..Setup::default()
        };
        let disk = SimDisk::new(1);
        if is_joined {
            join(
                disk.clone(),
                &setup,
                &snapshot,
                &ExpectedHashes::default(),
                &mut |_| {},
            )
            .unwrap();
        } else {
            let (mut replica, _) = Replica::open(disk.clone(), setup.clone(), None).unwrap();
            for number in 0..=3 {
                replica.add(block(number)).unwrap();
            }
            replica.stop().unwrap();
        }
        let (older, _) = StateDisk::open(&directory).unwrap();
        older.make_older();
        drop(older);
        let look = ReadOnlyLedger::open(disk.clone(), &Options::default(), Some(&setup.state));
        let what = look.map_or_else(|error| error.to_string(), |_| String::new());
        assert_eq!(what.contains("kept expired keys"), is_joined, "{what}");
        let (mut replica, opened) = Replica::open(disk, setup, None).unwrap();
        let why = opened.ledger.state_remade.unwrap_or_default();
        assert_eq!(why.contains("kept expired keys"), is_joined, "{why}");
        for number in replica.next()..9 {
            replica.add(block(number)).unwrap();
        }
        add_nine(&mut replica);
    }
}
