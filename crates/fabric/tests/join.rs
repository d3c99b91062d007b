//! Tests of ledgers that begin with a snapshot: a peer's own files, the blocks that follow, and every kind of damage.

use lineside_fabric::Options;
use lineside_fabric::block::Block;
use lineside_fabric::ledger::{
    ExpectedHashes, LedgerError, ReadOnlyLedger, Replica, Setup, StateStore, export, join, verify_ledger,
};
use lineside_fabric::listing::Listing;
use lineside_fabric::proto::Arena;
use lineside_fabric::replay::read;
use lineside_fabric::snapshot::{ADDITIONAL, Files, SIGNABLE, SnapshotHead, check};
use lineside_fabric::state::State;
use lineside_fabric::state::TxId;
use lineside_journal::{Disk, FsDisk, Options as JournalOptions, SimDisk};
use std::collections::BTreeMap;
use std::io::{self, Read};
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

const LIVE: [&str; 3] = ["btl", "ed25519", "msp"];

fn bytes_of(hex: &str) -> Vec<u8> {
    let pairs = hex.as_bytes().chunks(2);
    let text = |pair| std::str::from_utf8(pair).unwrap();
    pairs
        .map(|pair| u8::from_str_radix(text(pair), 16).unwrap())
        .collect()
}

fn on_disk(folder: &Path) -> Setup {
    Setup {
        state: StateStore::Disk(folder.to_owned()),
        ..Setup::default()
    }
}

fn look<D: Disk>(disk: &D) -> ReadOnlyLedger<D> {
    ReadOnlyLedger::open(disk.clone(), &Options::default(), Some(&StateStore::Memory)).unwrap()
}

/// Source of a snapshot's files that are in memory, so that a test can change them.
#[derive(Clone)]
struct SnapshotInMemory(BTreeMap<String, Vec<u8>>);

impl SnapshotInMemory {
    fn of(folder: &Path) -> Self {
        let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap());
        let named = files.map(|file| {
            (
                file.file_name().into_string().unwrap(),
                std::fs::read(file.path()).unwrap(),
            )
        });
        Self(named.collect())
    }

    fn to(&self, folder: &Path) {
        for (name, bytes) in &self.0 {
            std::fs::write(folder.join(name), bytes).unwrap();
        }
    }

    /// Checks the snapshot. Returns the name of the first file that is refused and the reason; `None` if the snapshot
    /// is valid.
    fn refused(&mut self) -> Option<(String, String)> {
        let checked = SnapshotHead::read(self).and_then(|head| check(self, &head));
        checked.err().map(|error| (error.file, error.what))
    }
}

impl Files for SnapshotInMemory {
    fn open<'f>(&'f mut self, name: &str) -> io::Result<Box<dyn Read + 'f>> {
        let bytes = self.0.get(name).ok_or(io::ErrorKind::NotFound)?;
        Ok(Box::new(bytes.as_slice()))
    }
}

#[test]
fn the_state_after_a_peers_snapshot_is_the_peers() {
    for set in LIVE {
        let Some(folder) = beside(&format!("dev-live/{set}")) else {
            return;
        };
        let state_folder = tempfile::tempdir().unwrap();
        let disk = SimDisk::new(1);
        join(
            disk.clone(),
            &Setup::default(),
            &folder.join("snapshot"),
            &ExpectedHashes::default(),
            &mut |_| {},
        )
        .unwrap();
        let other = SimDisk::new(2);
        let setup = on_disk(state_folder.path());
        let joined = join(
            other.clone(),
            &setup,
            &folder.join("snapshot"),
            &ExpectedHashes::default(),
            &mut |_| {},
        )
        .unwrap();
        let last = joined.head.last;
        // The snapshot was taken after the last recorded block; the hashes of that block confirm this.
        let committed = read(&folder, last, "committed").unwrap().unwrap();
        let arena = Arena::new();
        let block = Block::read(&committed, &arena).unwrap();
        assert_eq!(joined.head.last_hash, block.hash());
        assert_eq!(joined.head.previous_hash.unwrap(), *block.previous_hash);
        assert_eq!(joined.head.commit_hash.unwrap(), *block.commit_hash().unwrap());
        for (kind, look) in [
            ("memory", look(&disk)),
            (
                "fjall",
                ReadOnlyLedger::open(other.clone(), &Options::default(), Some(&setup.state)).unwrap(),
            ),
        ] {
            assert_eq!(look.found.replayed, 0);
            assert_eq!(look.validator.last(), last);
            assert!(
                compare_listed(&folder, last, look.validator.state()),
                "{set} {kind}"
            );
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    lineside_fabric::replay::hex(bytes)
}

/// A peer's snapshot, read and written again, must have the same bytes.
#[test]
fn a_peers_snapshot_is_written_again_byte_for_byte() {
    for set in LIVE {
        let Some(folder) = beside(&format!("dev-live/{set}")) else {
            return;
        };
        let theirs = folder.join("snapshot");
        let disk = SimDisk::new(1);
        join(
            disk.clone(),
            &Setup::default(),
            &theirs,
            &ExpectedHashes::default(),
            &mut |_| {},
        )
        .unwrap();
        let out = tempfile::tempdir().unwrap();
        let ours = out.path().join("snapshot");
        export(&look(&disk), &ours).unwrap();
        let (theirs, ours) = (SnapshotInMemory::of(&theirs), SnapshotInMemory::of(&ours));
        let mut compared = 0;
        for (name, bytes) in &theirs.0 {
            if name.starts_with("confighistory") {
                assert!(!ours.0.contains_key(name));
            } else if !name.ends_with(".json") || !theirs.0.contains_key("confighistory.data") {
                assert!(ours.0.get(name) == Some(bytes), "{set}: {name} differs");
                compared += 1;
            }
        }
        assert!(compared >= 6, "{set}: {compared}");
    }
}

/// A block as it was delivered, with the peer's results.
struct RecordedBlock {
    bytes: Vec<u8>,
    codes: Option<Vec<u8>>,
    /// Bytes of the committed block, if they were recorded.
    committed: Option<Vec<u8>>,
    commit_hash: Option<Vec<u8>>,
}

/// Returns the blocks of a set. The peer's codes and commit hashes are in its committed blocks, or in the manifest.
fn blocks(folder: &Path) -> Vec<RecordedBlock> {
    let manifest = std::fs::read(folder.join("manifest.json")).unwrap();
    let manifest: serde_json::Value = serde_json::from_slice(&manifest).unwrap();
    let mut all = Vec::new();
    while let Some(bytes) = read(folder, all.len() as u64, "orderer").unwrap() {
        let committed = read(folder, all.len() as u64, "committed").unwrap();
        let of = &manifest["blocks"][all.len()];
        let recorded = match &committed {
            Some(committed) => {
                let arena = Arena::new();
                let block = Block::read(committed, &arena).unwrap();
                (Some(block.filter().to_vec()), block.commit_hash())
            }
            // Without the codes, the comparison of the commit hash is sufficient, because the commit hash covers the
            // codes.
            None => (None, of["commit_hash"].as_str().map(bytes_of)),
        };
        let (codes, commit_hash) = recorded;
        assert!(
            commit_hash.is_some() || all.is_empty(),
            "block {} is compared with nothing",
            all.len()
        );
        all.push(RecordedBlock {
            bytes,
            codes,
            committed,
            commit_hash,
        });
    }
    all
}

/// Writes a snapshot after the given blocks to `out`.
fn snapshot_of(blocks: &[RecordedBlock], out: &Path) -> SnapshotHead {
    let disk = SimDisk::new(7);
    let (mut replica, _) = Replica::open(disk.clone(), Setup::default(), None).unwrap();
    for recorded in blocks {
        replica.add(recorded.bytes.clone()).unwrap();
    }
    replica.stop().unwrap();
    export(&look(&disk), out).unwrap()
}

/// Compares a state with the peer's listing after a block; returns whether there is a listing.
fn compare_listed(folder: &Path, number: u64, state: &State) -> bool {
    let listing = Listing::read(folder, number).unwrap();
    let differences = listing.as_ref().map(|listing| listing.differences(state));
    let folder = folder.display();
    assert_eq!(
        differences.unwrap_or_default(),
        Vec::<String>::new(),
        "{folder}, block {number}"
    );
    listing.is_some()
}

/// Adds blocks and compares codes, commit hashes and, where listed, the state with the peer's records. Returns the
/// number of compared states.
fn add_compared<D: Disk>(
    replica: &mut Replica<D>,
    blocks: &[RecordedBlock],
    set: &str,
    folder: &Path,
) -> usize {
    let mut listed = 0;
    for recorded in blocks {
        let added = replica.add(recorded.bytes.clone()).unwrap();
        if let Some(recorded) = &recorded.codes {
            let codes: Vec<u8> = added.codes.iter().map(|code| *code as u8).collect();
            assert_eq!(codes, *recorded, "{set}: codes of block {}", added.number);
        }
        let hash = recorded.commit_hash.as_deref();
        assert_eq!(
            added.commit_hash.as_ref().map(|hash| &hash[..]),
            hash,
            "{set}: block {}",
            added.number
        );
        let state = replica.validator().unwrap().state();
        listed += usize::from(compare_listed(folder, added.number, state));
    }
    listed
}

/// For each block number in `cuts`, takes a snapshot after that block, joins from it, and adds the later blocks.
/// Returns the number of states that were compared with the peer's.
fn blocks_after(set: &str, folder: &Path, cuts: &[usize]) -> usize {
    let all = blocks(folder);
    let mut listed = 0;
    for cut in cuts {
        let out = tempfile::tempdir().unwrap();
        let snapshot = out.path().join("snapshot");
        let head = snapshot_of(&all[..=*cut], &snapshot);
        assert_eq!(head.last, *cut as u64);
        for state in [StateStore::Memory, StateStore::Disk(out.path().join("state"))] {
            let setup = Setup {
                state: state.clone(),
                ..Setup::default()
            };
            let disk = SimDisk::new(3);
            join(
                disk.clone(),
                &setup,
                &snapshot,
                &ExpectedHashes::default(),
                &mut |_| {},
            )
            .unwrap();
            let (mut replica, opened) = Replica::open(disk.clone(), setup.clone(), None).unwrap();
            assert!(
                opened.ledger.checkpoint > 0 && opened.ledger.damaged.is_empty(),
                "{opened:?}"
            );
            assert_eq!(replica.next(), head.last + 1);
            compare_listed(folder, head.last, replica.validator().unwrap().state());
            let half = (cut + 1 + all.len()) / 2;
            listed += add_compared(&mut replica, &all[cut + 1..half], set, folder);
            replica.stop().unwrap();
            disk.power_cut();
            // Without a checkpoint, the state is read again from the snapshot in the ledger.
            for name in disk.list().unwrap() {
                if name.ends_with(".snap") {
                    disk.remove(&name).unwrap();
                }
            }
            let (mut replica, opened) = Replica::open(disk.clone(), setup.clone(), None).unwrap();
            assert_eq!(opened.ledger.checkpoint, 0);
            assert_eq!(opened.ledger.replayed, (half - cut - 1) as u64);
            listed += add_compared(&mut replica, &all[half..], set, folder);
            replica.checkpoint().unwrap();
            let stored = replica.blocks();
            assert_eq!(
                (stored.first(), stored.count()),
                (head.last + 1, all.len() as u64)
            );
            for (number, recorded) in all.iter().enumerate() {
                match stored.block(number as u64) {
                    Ok(block) => {
                        assert!(block.bytes == recorded.bytes, "{set}: block {number}");
                        let committed = recorded.committed.as_ref();
                        assert!(committed.is_none_or(|committed| block.committed() == *committed));
                    }
                    Err(LedgerError::BeforeSnapshot { first, .. }) => assert!((number as u64) < first),
                    Err(error) => panic!("{error}"),
                }
            }
            replica.stop().unwrap();
            let report = verify_ledger(&disk, &state, &Options::default(), &mut |_| {}).unwrap();
            assert!(report.is_sound(), "{report:?}");
            assert_eq!(report.joined_after, Some(head.last));
            assert_eq!(
                (report.blocks, report.checkpoints),
                ((all.len() - cut - 1) as u64, 1)
            );
            assert_eq!(report.state_keys.is_some(), state != StateStore::Memory);
        }
    }
    listed
}

#[test]
fn blocks_after_a_snapshot_get_the_peers_codes_and_commit_hashes() {
    let edge = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/edge");
    blocks_after("edge", &edge, &[0, 4, 12]);
    for (set, cuts) in [("dev", &[3, 17, 30][..]), ("dev-edge", &[9][..])] {
        if let Some(folder) = beside(set) {
            blocks_after(set, &folder, cuts);
        }
    }
}

/// Keys of a snapshot expire in later blocks. The test covers a state in memory and a state in a database, and states
/// that come from the checkpoint of the join or from the snapshot in the ledger.
#[test]
fn keys_of_a_snapshot_expire_in_the_blocks_after_it() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    for (set, cuts, listed) in [
        ("btl", &[7, 8, 13][..], 4 + 3 + 2),
        ("ed25519", &[5], 0),
        ("msp", &[6], 0),
    ] {
        assert_eq!(blocks_after(set, &data.join(set), cuts), 2 * listed, "{set}");
    }
    for (set, cuts, listed) in [
        ("btl", &[8, 31, 58, 72][..], 7 + 3 + 2 + 1),
        ("ed25519", &[12], 1),
        ("msp", &[15], 1),
    ] {
        let Some(folder) = beside(&format!("dev-live/{set}")) else {
            return;
        };
        assert_eq!(blocks_after(set, &folder, cuts), 2 * listed, "{set}");
    }
}

/// A replica that validated all blocks exports the peer's snapshot.
#[test]
fn a_replayed_channel_gives_the_peers_snapshot() {
    for set in LIVE {
        let Some(folder) = beside(&format!("dev-live/{set}")) else {
            return;
        };
        let disk = SimDisk::new(1);
        let (mut replica, _) = Replica::open(disk.clone(), Setup::default(), None).unwrap();
        add_compared(&mut replica, &blocks(&folder), set, &folder);
        replica.stop().unwrap();
        let out = tempfile::tempdir().unwrap();
        let ours = out.path().join("snapshot");
        export(&look(&disk), &ours).unwrap();
        for (name, bytes) in &SnapshotInMemory::of(&ours).0 {
            let theirs = std::fs::read(folder.join("snapshot").join(name)).unwrap();
            assert!(
                name.ends_with(".json") || theirs == *bytes,
                "{set}: {name} differs"
            );
        }
    }
}

#[test]
fn ids_before_a_snapshot_are_duplicates_without_a_position() {
    let edge = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/edge");
    let all = blocks(&edge);
    let out = tempfile::tempdir().unwrap();
    let snapshot = out.path().join("snapshot");
    snapshot_of(&all[..6], &snapshot);
    let disk = SimDisk::new(1);
    let joined = join(
        disk.clone(),
        &Setup::default(),
        &snapshot,
        &ExpectedHashes::default(),
        &mut |_| {},
    )
    .unwrap();
    let (mut replica, _) = Replica::open(disk.clone(), Setup::default(), None).unwrap();
    let ids = SnapshotInMemory::of(&snapshot).0["txids.data"].clone();
    let ids: Vec<&str> = ids[1..]
        .chunks(65)
        .map(|id| std::str::from_utf8(&id[1..]).unwrap())
        .collect();
    assert_eq!(ids.len() as u64, joined.transactions);
    let stored = replica.blocks();
    for id in &ids {
        let id = TxId::new(id);
        assert!(stored.is_before_snapshot(&id) && stored.transaction(&id).unwrap().is_none());
        assert!(replica.validator().unwrap().ids().contains(&id));
    }
    assert_eq!(stored.transactions(), 0);
    // Ids of the next block are found, and are not before the snapshot.
    let added = replica.add(all[6].bytes.clone()).unwrap();
    replica.flush().unwrap();
    assert_eq!(stored.transactions(), added.codes.len() as u64);
    assert!(!stored.is_before_snapshot(&TxId::new("another")));
    // With these sizes, each file takes several records, groups and segments of the journal. The snapshot's metadata
    // does not name the additional file.
    std::fs::write(snapshot.join("confighistory.data"), "other").unwrap();
    let small = Setup {
        journal: JournalOptions {
            segment_bytes: 64 << 10,
            record_bytes_max: 4 << 10,
            group_bytes_max: 24 << 10,
            ..JournalOptions::default()
        },
        ..Setup::default()
    };
    let (disk, mut commits) = (SimDisk::new(4), 0);
    let mut count = |step: &str| commits += u64::from(step == "files copied");
    join(
        disk.clone(),
        &small,
        &snapshot,
        &ExpectedHashes::default(),
        &mut count,
    )
    .unwrap();
    assert!(commits > 1, "{commits}");
    let (mut cut, _) = Replica::open(disk, small, None).unwrap();
    cut.add(all[6].bytes.clone()).unwrap();
    assert_eq!(
        cut.validator().unwrap().commit_hash(),
        replica.validator().unwrap().commit_hash()
    );
    // A block that does not follow the snapshot's last block is refused.
    let (mut other, _) = {
        let disk = SimDisk::new(2);
        join(
            disk.clone(),
            &Setup::default(),
            &snapshot,
            &ExpectedHashes::default(),
            &mut |_| {},
        )
        .unwrap();
        Replica::open(disk, Setup::default(), None).unwrap()
    };
    assert!(other.add(all[7].bytes.clone()).is_err());
    assert!(other.add(all[5].bytes.clone()).is_err());
    other.add(all[6].bytes.clone()).unwrap();
}

/// If any byte of any file changes, the snapshot is refused and the file is named. Only the digits of the commit hash
/// are not covered; a change of them is refused if the operator gives the expected hash.
fn every_byte_counts(set: &str, whole: &SnapshotInMemory, stride: usize) {
    assert_eq!(whole.clone().refused(), None, "{set}");
    let (mut refused, mut uncovered) = (0, 0);
    for (name, bytes) in &whole.0 {
        let text = String::from_utf8_lossy(bytes).into_owned();
        let digits = match name.as_str() {
            ADDITIONAL => text.rfind(": \"").unwrap() + 3..text.rfind('"').unwrap(),
            _ => 0..0,
        };
        let mut damaged = whole.clone();
        for at in (0..bytes.len()).step_by(if bytes.len() < 4_000 { 1 } else { stride }) {
            for flip in [1, 0x80] {
                damaged.0.get_mut(name).unwrap()[at] ^= flip;
                match damaged.refused() {
                    Some((file, what)) => {
                        // A damaged digest may be reported for the file that it belongs to.
                        let is_named = file == *name || what.contains(name.as_str()) || name == SIGNABLE;
                        assert!(is_named, "{set}: {name} byte {at}: {file}: {what}");
                        refused += 1;
                    }
                    None => {
                        assert!(
                            digits.contains(&at),
                            "{set}: a change of byte {at} of {name} was not found"
                        );
                        let (now, then) = (
                            SnapshotHead::read(&mut damaged).unwrap(),
                            SnapshotHead::read(&mut whole.clone()).unwrap(),
                        );
                        assert_ne!(now.commit_hash, then.commit_hash);
                        uncovered += 1;
                    }
                }
                damaged.0.get_mut(name).unwrap()[at] ^= flip;
            }
        }
        // The snapshot is also refused if a file is truncated, longer or missing.
        damaged.0.get_mut(name).unwrap().pop();
        assert!(damaged.refused().is_some(), "{set}: {name} cut");
        damaged.0.insert(name.clone(), [bytes.as_slice(), b"\n"].concat());
        assert!(damaged.refused().is_some(), "{set}: {name} longer");
        damaged.0.remove(name);
        let (file, _) = damaged.refused().unwrap();
        assert_eq!(file, *name, "{set}: {name} missing");
    }
    assert!(
        refused > 1_000 && uncovered > 0 && uncovered <= 64,
        "{set}: {refused} {uncovered}"
    );
}

#[test]
fn a_damaged_snapshot_is_refused_and_the_file_named() {
    let edge = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/edge");
    let out = tempfile::tempdir().unwrap();
    let ours = out.path().join("snapshot");
    snapshot_of(&blocks(&edge)[..4], &ours);
    every_byte_counts("edge", &SnapshotInMemory::of(&ours), 97);
    for set in LIVE {
        if let Some(folder) = beside(&format!("dev-live/{set}")) {
            every_byte_counts(set, &SnapshotInMemory::of(&folder.join("snapshot")), 97);
        }
    }
}

/// A file, the change in it, and the expected text of the refusal.
type Case<'a> = (&'a str, &'a dyn Fn(&mut Vec<u8>), &'a str);

/// Damage with a correct SHA-256 is found while reading; the file is named.
#[test]
fn a_damaged_snapshot_file_is_refused_and_named() {
    let edge = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/edge");
    let out = tempfile::tempdir().unwrap();
    let ours = out.path().join("snapshot");
    let head = snapshot_of(&blocks(&edge)[..4], &ours);
    let whole = SnapshotInMemory::of(&ours);
    let join_changed = |name: &str, change: &dyn Fn(&mut Vec<u8>)| {
        let mut files = whole.clone();
        change(files.0.get_mut(name).unwrap());
        sign(&mut files);
        let folder = tempfile::tempdir().unwrap();
        files.to(folder.path());
        join(
            SimDisk::new(1),
            &Setup::default(),
            folder.path(),
            &ExpectedHashes::default(),
            &mut |_| {},
        )
    };
    join_changed("txids.data", &|_| {}).unwrap();
    let wrong: [Case<'_>; 9] = [
        (
            "txids.data",
            &|bytes| bytes.truncate(bytes.len() - 1),
            "the file ends within an entry",
        ),
        (
            "txids.data",
            &|bytes| bytes.push(0),
            "bytes follow the last entry",
        ),
        (
            "txids.data",
            &|bytes| bytes.copy_within(1..66, 66),
            "a transaction id occurs twice",
        ),
        ("txids.data", &|bytes| bytes[0] = 2, "format 2"),
        (
            "txids.metadata",
            &|bytes| bytes.push(0),
            "bytes follow the last entry",
        ),
        (
            "public_state.data",
            &|bytes| bytes.truncate(100),
            "the file ends within an entry",
        ),
        (
            "public_state.data",
            &|bytes| {
                let at = bytes
                    .windows(14)
                    .position(|text| text == b"CHANNEL_CONFIG")
                    .unwrap();
                bytes[at] ^= 1;
            },
            "a key of the channel is unknown",
        ),
        (
            "public_state.metadata",
            &|bytes| bytes[1] = 0xff,
            "the file ends within an entry",
        ),
        (
            "public_state.data",
            &|bytes| bytes[1..11].fill(0xff),
            "the file contains a number of more than 64 bits",
        ),
    ];
    for (name, change, expected) in wrong {
        match join_changed(name, change) {
            Err(LedgerError::Snapshot(error)) => {
                assert!(
                    error.file == name && error.what.contains(expected),
                    "{name} {expected}: {error}"
                );
            }
            other => panic!("{name} {expected}: {other:?}"),
        }
    }
    // The snapshot is refused if a hash differs from the hash that the operator gave.
    for expected in [
        ExpectedHashes {
            snapshot_hash: Some([1; 32]),
            commit_hash: None,
        },
        ExpectedHashes {
            snapshot_hash: Some(head.hash),
            commit_hash: Some([1; 32]),
        },
    ] {
        let joined = join(SimDisk::new(1), &Setup::default(), &ours, &expected, &mut |_| {});
        assert!(matches!(joined, Err(LedgerError::Snapshot(_))), "{joined:?}");
    }
    let expected = ExpectedHashes {
        snapshot_hash: Some(head.hash),
        commit_hash: head.commit_hash,
    };
    join(SimDisk::new(1), &Setup::default(), &ours, &expected, &mut |_| {}).unwrap();
}

/// Updates the hashes in the JSON files, as a forger of a snapshot would.
fn sign(files: &mut SnapshotInMemory) {
    use sha2::{Digest, Sha256};
    let mut signable = String::from_utf8(files.0[SIGNABLE].clone()).unwrap();
    for (name, bytes) in files.0.iter().filter(|(name, _)| !name.ends_with(".json")) {
        let at = signable.find(&format!("\"{name}\": \"")).unwrap() + name.len() + 5;
        signable.replace_range(at..at + 64, &hex(&Sha256::digest(bytes)));
    }
    let mut additional = String::from_utf8(files.0[ADDITIONAL].clone()).unwrap();
    let at = additional.find("\"snapshot_hash\": \"").unwrap() + 18;
    additional.replace_range(at..at + 64, &hex(&Sha256::digest(&signable)));
    files.0.insert(SIGNABLE.into(), signable.into_bytes());
    files.0.insert(ADDITIONAL.into(), additional.into_bytes());
}

/// A damaged byte in the ledger's copy of the snapshot prevents opening the ledger without a checkpoint. With a
/// checkpoint the ledger opens, but `verify_ledger` finds the damage.
#[test]
fn damage_in_the_ledgers_own_copy_is_found() {
    let edge = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/edge");
    let out = tempfile::tempdir().unwrap();
    let ours = out.path().join("snapshot");
    snapshot_of(&blocks(&edge)[..4], &ours);
    let folder = out.path().join("ledger");
    join(
        FsDisk::open(&folder).unwrap(),
        &Setup::default(),
        &ours,
        &ExpectedHashes::default(),
        &mut |_| {},
    )
    .unwrap();
    let log = std::fs::read_dir(&folder)
        .unwrap()
        .map(|file| file.unwrap().path());
    let log = log
        .into_iter()
        .find(|path| path.extension().is_some_and(|of| of == "log"))
        .unwrap();
    let mut bytes = std::fs::read(&log).unwrap();
    let id = SnapshotInMemory::of(&ours).0["txids.data"][2..66].to_vec();
    let at = bytes.windows(64).position(|window| window == id).unwrap();
    bytes[at] ^= 1;
    std::fs::write(&log, bytes).unwrap();
    let disk = FsDisk::look(&folder).unwrap();
    let report = verify_ledger(&disk, &StateStore::Memory, &Options::default(), &mut |_| {});
    assert!(!report.is_ok_and(|report| report.is_sound()));
}
