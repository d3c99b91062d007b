//! Tests of audits of a peer's files: block files as Fabric writes them, snapshots, and each kind of difference.

use lineside_fabric::Options;
use lineside_fabric::audit::{AuditError, AuditReference, AuditReport, OwnResults, audit, compare_snapshot};
use lineside_fabric::block::Block;
use lineside_fabric::ledger::{
    ReadOnlyLedger, Replica, Setup, StateStore, export, validator_at, validator_from,
};
use lineside_fabric::peer_ledger::PeerLedger;
use lineside_fabric::proto::{Arena, wire};
use lineside_fabric::replay::read;
use lineside_fabric::snapshot::{SnapshotFolder, SnapshotHead};
use lineside_journal::SimDisk;
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

fn edge() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/edge")
}

/// Returns the blocks of a set as the peer committed them. The set in the repository has only the blocks that the
/// orderer delivered. For that set, this function adds codes and commit hashes that this program computes;
/// `recorded.rs` compares those with the peer's.
fn committed(folder: &Path) -> Vec<Vec<u8>> {
    let one = |number| read(folder, number, "committed").unwrap();
    let blocks: Vec<Vec<u8>> = (0..).map_while(one).collect();
    if !blocks.is_empty() {
        return blocks;
    }
    let count = (0..)
        .take_while(|number| read(folder, *number, "orderer").unwrap().is_some())
        .count();
    let look = ReadOnlyLedger::open(ledger_of(folder, count), &Options::default(), None).unwrap();
    let stored = (0..count as u64).map(|number| look.blocks.block(number).unwrap());
    stored.map(|block| block.committed()).collect()
}

/// Encodes a block as Fabric's `serializeBlock` does, with the length before it.
fn stored(block: &[u8]) -> Vec<u8> {
    let arena = Arena::new();
    let block = Block::read(block, &arena).unwrap();
    let mut bytes = Vec::new();
    let prefixed = |out: &mut Vec<u8>, bytes: &[u8]| {
        wire::put_varint(out, bytes.len() as u64);
        out.extend_from_slice(bytes);
    };
    wire::put_varint(&mut bytes, block.number);
    prefixed(&mut bytes, block.data_hash);
    prefixed(&mut bytes, block.previous_hash);
    for entries in [&block.transactions, &block.metadata] {
        wire::put_varint(&mut bytes, entries.len() as u64);
        for entry in entries {
            prefixed(&mut bytes, entry);
        }
    }
    let mut out = Vec::new();
    prefixed(&mut out, &bytes);
    out
}

/// Writes block files of a peer, with three blocks each, under its file system path.
fn peer_of(blocks: &[Vec<u8>], channel: &str) -> (tempfile::TempDir, PathBuf) {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("ledgersData/chains/chains").join(channel);
    std::fs::create_dir_all(&folder).unwrap();
    for (number, blocks) in blocks.chunks(3).enumerate() {
        let bytes: Vec<u8> = blocks.iter().flat_map(|block| stored(block)).collect();
        std::fs::write(folder.join(format!("blockfile_{number:06}")), bytes).unwrap();
    }
    (root, folder)
}

fn by_rules(folder: &Path) -> Result<AuditReport, AuditError> {
    let mut peer = PeerLedger::open(folder, None)?;
    audit(
        &mut peer,
        AuditReference::Rules(None, Options::default()),
        &mut |_| {},
    )
}

#[test]
fn a_peers_blocks_come_out_byte_for_byte() {
    let mut sets = vec![edge()];
    sets.extend(
        [
            "dev",
            "dev-edge",
            "dev-live/btl",
            "dev-live/ed25519",
            "dev-live/msp",
        ]
        .iter()
        .filter_map(|set| beside(set)),
    );
    for set in sets {
        let blocks = committed(&set);
        let (root, _) = peer_of(&blocks, "some");
        let mut peer = PeerLedger::open(root.path(), Some("some")).unwrap();
        for (number, block) in blocks.iter().enumerate() {
            let found = peer.next().unwrap().unwrap();
            assert!(
                found.bytes == *block && found.number == number as u64,
                "{} {number}",
                set.display()
            );
        }
        assert!(peer.next().unwrap().is_none());
        assert_eq!(peer.unfinished_bytes(), 0);
    }
}

#[test]
fn an_undamaged_peer_has_no_difference() {
    let mut sets = vec![edge()];
    let others = [
        "dev",
        "dev-edge",
        "dev-live/btl",
        "dev-live/ed25519",
        "dev-live/msp",
    ];
    sets.extend(others.iter().filter_map(|set| beside(set)));
    for set in sets {
        let blocks = committed(&set);
        let (root, folder) = peer_of(&blocks, "some");
        for path in [root.path(), &folder] {
            let audited = by_rules(path).unwrap();
            assert_eq!(audited.difference, None, "{}", set.display());
            assert_eq!(
                (audited.blocks, audited.without_commit_hash),
                (blocks.len() as u64, 0)
            );
        }
    }
}

/// Returns a peer's block with a changed metadata entry.
fn with_metadata(block: &[u8], place: usize, change: &dyn Fn(&mut Vec<u8>)) -> Vec<u8> {
    let arena = Arena::new();
    let read = Block::read(block, &arena).unwrap();
    let mut changed = read.metadata[place].to_vec();
    change(&mut changed);
    let at = read.metadata[place].as_ptr() as usize - block.as_ptr() as usize;
    let end = at + read.metadata[place].len();
    [&block[..at], &changed, &block[end..]].concat()
}

/// Number of the block, the change in it, and the expected text of the finding.
type Case<'a> = (usize, &'a dyn Fn(&[u8]) -> Vec<u8>, &'a str);

#[test]
fn the_first_block_that_differs_is_named() {
    let blocks = committed(&edge());
    let cases: [Case<'_>; 3] = [
        (
            7,
            &|block| with_metadata(block, 2, &|codes| codes[3] = 11),
            "transaction 3: the peer's code is MVCC_READ_CONFLICT, ours is VALID",
        ),
        (
            9,
            &|block| with_metadata(block, 4, &|hash| *hash.last_mut().unwrap() ^= 1),
            "commit hash",
        ),
        (
            5,
            &|block| {
                // Change a byte of a transaction; header hash and codes stay the same.
                let arena = Arena::new();
                let envelope = Block::read(block, &arena).unwrap().transactions[2];
                let at = envelope.as_ptr() as usize - block.as_ptr() as usize + envelope.len() - 1;
                let mut block = block.to_vec();
                block[at] ^= 1;
                block
            },
            "data hash",
        ),
    ];
    let ours = ledger_of(&edge(), blocks.len());
    for (number, change, expected) in cases {
        let mut blocks = blocks.clone();
        blocks[number] = change(&blocks[number]);
        // A later block differs too, but the audit must name the first block that differs.
        blocks[12] = with_metadata(&blocks[12], 2, &|codes| codes[0] = 255);
        let (root, _) = peer_of(&blocks, "some");
        let audited = by_rules(root.path()).unwrap();
        let difference = audited.difference.unwrap();
        assert_eq!(
            (difference.number, audited.blocks),
            (number as u64, number as u64)
        );
        assert!(
            difference.what.iter().any(|what| what.contains(expected)),
            "{difference:?}"
        );
        assert!(
            difference
                .location
                .contains(&format!("blockfile_{:06}", number / 3)),
            "{difference:?}"
        );
        // A comparison with a ledger finds the same block.
        let mut get = |number| ours_of(&ours, number);
        let mut peer = PeerLedger::open(root.path(), None).unwrap();
        let audited = audit(&mut peer, AuditReference::Ledger(0, &mut get), &mut |_| {}).unwrap();
        assert_eq!(audited.difference.unwrap().number, number as u64);
    }
}

fn ledger_of(folder: &Path, count: usize) -> SimDisk {
    let disk = SimDisk::new(1);
    let (mut replica, _) = Replica::open(disk.clone(), Setup::default(), None).unwrap();
    for number in 0..count as u64 {
        replica
            .add(read(folder, number, "orderer").unwrap().unwrap())
            .unwrap();
    }
    replica.stop().unwrap();
    disk
}

fn ours_of(disk: &SimDisk, number: u64) -> Result<Option<OwnResults>, String> {
    let look = ReadOnlyLedger::open(disk.clone(), &Options::default(), None).unwrap();
    let stored = look.blocks.block(number).map_err(|error| error.to_string())?;
    Ok(Some(OwnResults {
        hash: stored.hash,
        codes: stored.codes,
        commit_hash: stored.commit_hash,
    }))
}

#[test]
fn truncated_and_missing_block_files_are_reported() {
    let blocks = committed(&edge());
    let (root, folder) = peer_of(&blocks, "some");
    let last = folder.join(format!("blockfile_{:06}", (blocks.len() - 1) / 3));
    let whole = std::fs::read(&last).unwrap();
    std::fs::write(&last, &whole[..whole.len() - 5]).unwrap();
    let audited = by_rules(root.path()).unwrap();
    assert_eq!(
        (audited.difference, audited.blocks),
        (None, blocks.len() as u64 - 1)
    );
    assert!(audited.unfinished_bytes > 0);
    std::fs::write(&last, &whole).unwrap();
    // An incomplete block in a file that is not the last one is damage.
    let middle = folder.join("blockfile_000001");
    let bytes = std::fs::read(&middle).unwrap();
    std::fs::write(&middle, &bytes[..bytes.len() - 5]).unwrap();
    let error = by_rules(root.path()).unwrap_err().to_string();
    assert!(
        error.contains("blockfile_000001") && error.contains("incomplete"),
        "{error}"
    );
    std::fs::remove_file(&middle).unwrap();
    let error = by_rules(root.path()).unwrap_err().to_string();
    assert!(error.contains("blockfile_000001 is missing"), "{error}");
    std::fs::write(&middle, &bytes).unwrap();
    // With two channels, the caller must select one.
    std::fs::create_dir(folder.with_file_name("other")).unwrap();
    let error = by_rules(root.path()).unwrap_err().to_string();
    assert!(error.contains("--channel"), "{error}");
    // One block is missing between the others.
    let (without, _) = peer_of(&[&blocks[..4], &blocks[5..]].concat(), "some");
    let error = by_rules(without.path()).unwrap_err().to_string();
    assert!(error.contains("found block 5, expected block 4"), "{error}");
}

/// A peer that was joined from a snapshot has no genesis block.
#[test]
fn a_peer_that_begins_after_a_snapshot_is_audited_with_that_snapshot() {
    let blocks = committed(&edge());
    let out = tempfile::tempdir().unwrap();
    let snapshot = out.path().join("snapshot");
    let memory = Some(&StateStore::Memory);
    let look = ReadOnlyLedger::open(ledger_of(&edge(), 6), &Options::default(), memory).unwrap();
    export(&look, &snapshot).unwrap();
    let (root, _) = peer_of(&blocks[6..], "some");
    let error = by_rules(root.path()).unwrap_err().to_string();
    assert!(
        error.contains("first block is 6") && error.contains("--snapshot"),
        "{error}"
    );
    let from = validator_from(&snapshot, Options::default()).unwrap();
    let mut peer = PeerLedger::open(root.path(), None).unwrap();
    let against = AuditReference::Rules(Some(Box::new(from)), Options::default());
    let audited = audit(&mut peer, against, &mut |_| {}).unwrap();
    assert_eq!(
        (audited.difference, audited.blocks),
        (None, blocks.len() as u64 - 6)
    );
}

#[test]
fn a_snapshot_is_compared_with_a_ledger() {
    let out = tempfile::tempdir().unwrap();
    let memory = Some(&StateStore::Memory);
    let export_of = |count: usize, name: &str| {
        let look = ReadOnlyLedger::open(ledger_of(&edge(), count), &Options::default(), memory).unwrap();
        let folder = out.path().join(name);
        export(&look, &folder).unwrap();
        folder
    };
    let (five, nine) = (export_of(5, "five"), export_of(9, "nine"));
    let look = ReadOnlyLedger::open(ledger_of(&edge(), 14), &Options::default(), None).unwrap();
    for (folder, last) in [(&five, 4), (&nine, 8)] {
        let head = SnapshotHead::read(&mut SnapshotFolder(folder.clone())).unwrap();
        assert_eq!(head.last, last);
        let ours = validator_at(&look.blocks, &Options::default(), last).unwrap();
        let compared = compare_snapshot(&mut SnapshotFolder(folder.clone()), &head, &ours).unwrap();
        assert_eq!((compared.count, compared.first_block), (0, None), "{compared:?}");
        assert_eq!(compared.keys, ours.state().len() as u64);
        assert_eq!(compared.ids, ours.ids().len() as u64);
    }
    // Compared at another block, every key that was written between the two blocks differs.
    let head = SnapshotHead::read(&mut SnapshotFolder(five.clone())).unwrap();
    let ours = validator_at(&look.blocks, &Options::default(), 8).unwrap();
    let compared = compare_snapshot(&mut SnapshotFolder(five), &head, &ours).unwrap();
    let newer = |of: &lineside_fabric::state::Entry| of.version.block > 4;
    let written = ours
        .state()
        .range("kv", b"", b"")
        .filter(|(_, entry)| newer(entry))
        .count();
    assert!(
        compared.count > written as u64 && compared.differences.len() <= 20,
        "{compared:?}"
    );
    assert!(compared.first_block.is_some());
}

/// The snapshot of a real peer equals the state that this program computes from all blocks, including keys that
/// expired.
#[test]
fn real_snapshots_are_what_the_blocks_give() {
    for (set, count) in [("btl", 75), ("ed25519", 25), ("msp", 43)] {
        let Some(folder) = beside(&format!("dev-live/{set}")) else {
            return;
        };
        let look = ReadOnlyLedger::open(ledger_of(&folder, count), &Options::default(), None).unwrap();
        let mut files = SnapshotFolder(folder.join("snapshot"));
        let head = SnapshotHead::read(&mut files).unwrap();
        let ours = validator_at(&look.blocks, &Options::default(), head.last).unwrap();
        let compared = compare_snapshot(&mut files, &head, &ours).unwrap();
        assert_eq!(
            (compared.count, compared.first_block),
            (0, None),
            "{set}: {compared:?}"
        );
        assert_eq!(compared.keys, ours.state().len() as u64, "{set}");
        assert_eq!(compared.ids, ours.ids().len() as u64, "{set}");
    }
}
