//! Tests of the files of witness data across restarts: a write is interrupted at every position, and every byte is
//! damaged.

use lineside_spv::chain::*;
use lineside_testkit::{DemoBlock, DemoChain};
use std::collections::HashSet;
use std::path::Path;

const FILES: [&str; 4] = ["blocks.dat", "txids.dat", "wtxids.dat", "coinbases.dat"];

/// Returns four blocks; the third commits to no witnesses.
fn blocks() -> Vec<DemoBlock> {
    let mut blocks: Vec<_> = DemoChain::new(1, 3).with_witness().take(2).collect();
    blocks.push(DemoChain::branch(2, 4, blocks[1].hash, 2).next().unwrap());
    blocks.push(
        DemoChain::branch(3, 2, blocks[2].hash, 3)
            .with_witness()
            .next()
            .unwrap(),
    );
    blocks
}

fn open(dir: &Path) -> Result<ChainStore, ChainError> {
    ChainStore::open(Some(dir), Network::Regtest)
}

fn take(store: &mut ChainStore, blocks: &[DemoBlock]) {
    for block in blocks {
        store.submit(&block.raw, false).unwrap();
    }
    store.catch_up().unwrap();
}

/// Checks that the store has these blocks, with the witness data that the `bitcoin` crate computes from their bytes.
fn check(store: &ChainStore, blocks: &[DemoBlock]) {
    use bitcoin::hashes::Hash;
    assert!(store.keeps_witness());
    assert_eq!(store.blocks(), blocks.len());
    for block in blocks {
        let id = store.find(&block.hash).unwrap();
        let real: bitcoin::Block = bitcoin::consensus::deserialize(&block.raw).unwrap();
        assert_eq!(store.txids(id), block.txids);
        match store.witness(id).unwrap() {
            BlockWitness::NotKept => panic!("witness data is kept"),
            BlockWitness::NoCommitment => assert!(real.txdata[0].input[0].witness.is_empty()),
            BlockWitness::Committed(found) => {
                let wtxids = real
                    .txdata
                    .iter()
                    .skip(1)
                    .map(|tx| tx.compute_wtxid().to_byte_array());
                let leaves: Vec<_> = std::iter::once([0; 32]).chain(wtxids).collect();
                assert_eq!(*found.wtxids, leaves);
                assert_eq!(real.txdata[0].input[0].witness.nth(0), Some(&found.reserved[..]));
                let mut coinbase = real.txdata[0].clone();
                coinbase.input[0].witness.clear();
                assert_eq!(*found.coinbase, bitcoin::consensus::serialize(&coinbase));
            }
        }
    }
}

/// Returns the bytes of the four files of a store.
fn bytes(dir: &Path) -> Vec<Vec<u8>> {
    FILES.map(|name| std::fs::read(dir.join(name)).unwrap()).to_vec()
}

/// Creates a directory, in /dev/shm if it exists: these tests make thousands of stores durable.
fn scratch() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    match memory.is_dir() {
        true => tempfile::tempdir_in(memory).unwrap(),
        false => tempfile::tempdir().unwrap(),
    }
}

/// Creates a directory with these files.
fn written(files: &[Vec<u8>]) -> tempfile::TempDir {
    let dir = scratch();
    for (name, bytes) in FILES.iter().zip(files) {
        std::fs::write(dir.path().join(name), bytes).unwrap();
    }
    dir
}

/// Returns a store of all blocks, and the bytes of its files after each block.
fn filled(blocks: &[DemoBlock]) -> (tempfile::TempDir, Vec<Vec<Vec<u8>>>) {
    let dir = tempfile::tempdir().unwrap();
    let mut store = ChainStore::make(Some(dir.path()), Network::Regtest, true).unwrap();
    let mut states = vec![bytes(dir.path())];
    for block in blocks {
        take(&mut store, std::slice::from_ref(block));
        store.sync().unwrap();
        states.push(bytes(dir.path()));
    }
    drop(store);
    (dir, states)
}

#[test]
fn witness_data_is_readable_before_it_is_written_and_after_each_restart() {
    let blocks = blocks();
    for unsynced in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let mut store = ChainStore::make(Some(dir.path()), Network::Regtest, true).unwrap();
        for number in 0..blocks.len() {
            take(&mut store, &blocks[number..=number]);
            check(&store, &blocks[..=number]);
            if !unsynced {
                store.sync().unwrap();
                check(&store, &blocks[..=number]);
                drop(store);
                store = open(dir.path()).unwrap();
                check(&store, &blocks[..=number]);
            }
        }
        drop(store);
        for kind in [IndexKind::Memory, IndexKind::Disk] {
            let (store, _) = ChainStore::open_with(Some(dir.path()), Network::Regtest, kind).unwrap();
            check(&store, &blocks);
        }
    }
    let mut store = ChainStore::make(None, Network::Regtest, true).unwrap();
    take(&mut store, &blocks);
    check(&store, &blocks);
}

/// Returns the WTXIDs after the coinbase of a block that commits to them, computed by the `bitcoin` crate, with their
/// positions.
fn wtxids(block: &DemoBlock) -> Vec<(u32, [u8; 32])> {
    use bitcoin::hashes::Hash;
    let real: bitcoin::Block = bitcoin::consensus::deserialize(&block.raw).unwrap();
    if real.txdata[0].input[0].witness.is_empty() {
        return Vec::new();
    }
    let wtxid = |tx: &bitcoin::Transaction| tx.compute_wtxid().to_byte_array();
    (0..).zip(real.txdata.iter().map(wtxid)).skip(1).collect()
}

#[test]
fn a_transaction_is_found_by_its_wtxid_while_its_block_is_connected() {
    let blocks = blocks();
    let find = |store: &ChainStore, wtxid: &[u8; 32]| {
        let found = store.locate_wtxid(wtxid).unwrap();
        found.map(|found| (found.block_hash, found.height, found.position))
    };
    let found_up_to = |store: &ChainStore, known: usize| {
        let mut count = 0;
        for (height, block) in (0..).zip(&blocks) {
            for (position, wtxid) in wtxids(block) {
                let expected = (block.hash, height, position);
                assert_eq!(
                    find(store, &wtxid),
                    ((height as usize) < known).then_some(expected)
                );
                count += 1;
            }
        }
        assert!(count >= 5, "{count}");
        assert_eq!(find(store, &[0; 32]), None, "a coinbase");
        let plain = store.txids(store.find(&blocks[2].hash).unwrap())[1];
        assert_eq!(
            find(store, &plain),
            None,
            "a transaction whose block commits to no witnesses is not found"
        );
    };
    for kind in [IndexKind::Memory, IndexKind::Disk] {
        let dir = tempfile::tempdir().unwrap();
        let mut store = ChainStore::make(Some(dir.path()), Network::Regtest, true).unwrap();
        take(&mut store, &blocks[..2]);
        assert_eq!(
            find(&store, &wtxids(&blocks[0])[0].1),
            None,
            "there is no index yet"
        );
        drop(store);
        // Some blocks exist when the index is built; others are added later.
        let mut store = ChainStore::open_with(Some(dir.path()), Network::Regtest, kind)
            .unwrap()
            .0;
        assert!(store.index_wtxids(Some(dir.path()), kind).unwrap().is_none());
        take(&mut store, &blocks[2..]);
        found_up_to(&store, 4);
        store.sync_index().unwrap();
        store.verify_index().unwrap();
        drop(store);
        let mut store = ChainStore::open_with(Some(dir.path()), Network::Regtest, kind)
            .unwrap()
            .0;
        assert!(store.index_wtxids(Some(dir.path()), kind).unwrap().is_none());
        found_up_to(&store, 4);
        let tip = store.find(&blocks[3].hash).unwrap();
        store.disconnect(tip).unwrap();
        found_up_to(&store, 3);
        store.connect(tip).unwrap();
        found_up_to(&store, 4);
    }
    let mut without = ChainStore::open(None, Network::Regtest).unwrap();
    take(&mut without, &blocks);
    without.index_wtxids(None, IndexKind::Memory).unwrap();
    assert_eq!(find(&without, &wtxids(&blocks[0])[0].1), None);
}

#[test]
fn a_store_keeps_its_choice_of_witness_data() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path()).unwrap();
    take(&mut store, &blocks());
    drop(store);
    let before = ["blocks.dat", "txids.dat"].map(|name| std::fs::read(dir.path().join(name)).unwrap());
    // The header of an older version has zero in byte 9, and its records have zeros in the last 20 bytes before the
    // checksum.
    assert_eq!(before[0][9], 0);
    assert!(before[0].chunks(128).all(|record| record[104..124] == [0; 20]));
    let store = ChainStore::make(Some(dir.path()), Network::Regtest, true).unwrap();
    assert!(!store.keeps_witness());
    let id = store.at_height(0).unwrap();
    assert_eq!(store.witness(id).unwrap(), BlockWitness::NotKept);
    drop(store);
    let after = ["blocks.dat", "txids.dat"].map(|name| std::fs::read(dir.path().join(name)).unwrap());
    assert_eq!(after, before);
    assert!(!dir.path().join("wtxids.dat").exists() && !dir.path().join("coinbases.dat").exists());

    let dir = tempfile::tempdir().unwrap();
    drop(ChainStore::make(Some(dir.path()), Network::Signet, true).unwrap());
    assert_eq!(
        ChainStore::network_of(dir.path()).unwrap(),
        Some(Network::Signet.into())
    );
    let opened = ChainStore::open(Some(dir.path()), Network::Signet).unwrap();
    assert!(opened.keeps_witness());
    drop(opened);
    assert!(matches!(
        open(dir.path()),
        Err(ChainError::OtherNetwork {
            found: Network::Signet,
            ..
        })
    ));
}

/// Checks every state that a crash during a sync can leave. A sync writes TXIDs, then witness data, then records, and
/// makes each durable before it writes the next. With any part of the file that was being written, the store must open
/// with the blocks that it had before the sync.
#[test]
fn a_write_interrupted_at_any_byte_is_removed_and_can_be_repeated() {
    let blocks = blocks();
    let (_dir, states) = filled(&blocks);
    let order = ["txids.dat", "wtxids.dat", "coinbases.dat", "blocks.dat"];
    let place = |name: &str| FILES.iter().position(|file| *file == name).unwrap();
    let mut cases = 0;
    for (number, pair) in states.windows(2).enumerate() {
        let (old, new) = (&pair[0], &pair[1]);
        for (step, name) in order.into_iter().enumerate() {
            let at = place(name);
            for length in old[at].len()..new[at].len() {
                let mut files = old.clone();
                for before in &order[..step] {
                    files[place(before)].clone_from(&new[place(before)]);
                }
                files[at] = new[at][..length].to_vec();
                let dir = written(&files);
                let mut store = open(dir.path()).unwrap();
                check(&store, &blocks[..number]);
                take(&mut store, &blocks[number..]);
                drop(store);
                assert_eq!(bytes(dir.path()), states[blocks.len()], "{name} {length}");
                cases += 1;
            }
        }
    }
    assert!(cases > 1_000, "{cases}");
}

/// Checks that whole records without their witness data are refused. An interrupted write cannot leave them, because
/// witness data becomes durable before its record.
#[test]
fn records_without_their_witness_data_are_refused_and_files_stay_unchanged() {
    let blocks = blocks();
    let (_dir, states) = filled(&blocks);
    let whole = &states[blocks.len()];
    for (name, what) in [("wtxids.dat", "WTXIDs"), ("coinbases.dat", "a coinbase")] {
        let at = FILES.iter().position(|file| *file == name).unwrap();
        let mut named = HashSet::new();
        for length in 0..whole[at].len() {
            let mut files = whole.clone();
            files[at].truncate(length);
            // The result must be the same if there is also a torn record at the end.
            files[0].extend([7; 50]);
            let dir = written(&files);
            let error = open(dir.path()).map(|_| ()).unwrap_err();
            let said = error.to_string();
            assert!(matches!(error, ChainError::Corrupt { .. }), "{said}");
            assert!(said.contains(&format!("{name}: block record")), "{said}");
            assert!(said.contains(&format!("has {what} that")), "{said}");
            assert_eq!(bytes(dir.path()), files, "nothing was changed");
            if let ChainError::Corrupt { record, .. } = error {
                named.insert(record);
            }
        }
        let expected: &[u64] = if name == "wtxids.dat" {
            &[0, 1, 2, 3]
        } else {
            &[0, 1, 3]
        };
        assert_eq!(named, expected.iter().copied().collect());
    }
}

#[test]
fn a_missing_file_is_named_and_not_created() {
    let blocks = blocks();
    for name in ["wtxids.dat", "coinbases.dat"] {
        let (dir, _) = filled(&blocks);
        std::fs::remove_file(dir.path().join(name)).unwrap();
        let said = open(dir.path()).map(|_| ()).unwrap_err().to_string();
        assert!(said.contains(name) && said.contains("missing"), "{said}");
        assert!(!dir.path().join(name).exists());
    }
    // A power failure may happen after the header of a new store is durable but before the directory entries of the
    // other files are.
    let dir = tempfile::tempdir().unwrap();
    drop(ChainStore::make(Some(dir.path()), Network::Regtest, true).unwrap());
    for name in ["wtxids.dat", "coinbases.dat", "txids.dat"] {
        std::fs::remove_file(dir.path().join(name)).unwrap();
    }
    let mut store = open(dir.path()).unwrap();
    take(&mut store, &blocks);
    check(&store, &blocks);
    // The creation itself was interrupted.
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("blocks.dat"), b"LSCHAIN1\x04\x01").unwrap();
    assert_eq!(ChainStore::network_of(dir.path()).unwrap(), None);
    let mut store = ChainStore::make(Some(dir.path()), Network::Regtest, true).unwrap();
    take(&mut store, &blocks);
    check(&store, &blocks);
}

#[test]
fn every_damaged_byte_of_witness_data_is_refused_and_files_stay_unchanged() {
    let blocks = blocks();
    let (_dir, states) = filled(&blocks);
    let whole = &states[blocks.len()];
    // The leaves of the block without a commitment are not read.
    let unread = 32 * 6..32 * 10;
    for (name, at) in [("wtxids.dat", 2), ("coinbases.dat", 3)] {
        for place in 0..whole[at].len() {
            let mut files = whole.clone();
            files[at][place] ^= 1 << (place % 8);
            let dir = written(&files);
            let opened = open(dir.path());
            if name == "wtxids.dat" && unread.contains(&place) {
                check(&opened.unwrap(), &blocks);
                continue;
            }
            let said = opened.map(|_| ()).unwrap_err().to_string();
            assert!(said.contains("damaged here"), "{name} {place}: {said}");
            assert_eq!(bytes(dir.path()), files, "nothing was changed");
        }
    }
    // A damaged last record counts as an interrupted write; a damaged record before whole records counts as damage.
    for place in 128..whole[0].len() {
        let mut files = whole.clone();
        files[0][place] ^= 1 << (place % 8);
        let dir = written(&files);
        match open(dir.path()) {
            Ok(store) => {
                assert!(place >= 128 * 4, "{place}");
                check(&store, &blocks[..3]);
            }
            Err(error) => {
                assert!(place < 128 * 4, "{place}");
                assert!(error.to_string().contains("is damaged"), "{error}");
                assert_eq!(bytes(dir.path()), files, "nothing was changed");
            }
        }
    }
}

/// Writes the checksum of a header or record.
fn seal(record: &mut [u8]) {
    let crc = record[..124].iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            (crc >> 1) ^ (0x82f6_3b78 & (crc & 1).wrapping_neg())
        })
    });
    record[124..].copy_from_slice(&(!crc).to_le_bytes());
}

#[test]
fn witness_locations_that_contradict_each_other_are_refused() {
    type Change = fn(&mut [u8]);
    let blocks = blocks();
    let (_dir, states) = filled(&blocks);
    // Each entry: number of the record, or 0 for the header; change; expected part of the error.
    let changes: [(usize, Change, &str); 7] = [
        (2, |record| record[104] ^= 1, "does not begin where"),
        (2, |record| record[104..112].fill(0xff), ""),
        (2, |record| record[112..116].fill(0xff), "missing here"),
        (2, |record| record[112..116].fill(0), "contradicts itself"),
        (3, |record| record[120] = 1, "contradicts itself"),
        (3, |record| record[112] = 1, "does not begin where"),
        (0, |head| head[9] = 0, "was created without witness data"),
    ];
    for (number, change, expected) in changes {
        let mut files = states[blocks.len()].clone();
        let record = &mut files[0][128 * number..][..128];
        change(record);
        seal(record);
        let dir = written(&files);
        let error = open(dir.path()).map(|_| ()).unwrap_err();
        let said = error.to_string();
        assert!(matches!(error, ChainError::Corrupt { .. }), "{said}");
        assert!(said.contains(expected), "{number}: {said}");
        assert_eq!(bytes(dir.path()), files, "nothing was changed");
    }
    // The header is of a later version, whose stores keep more kinds of data.
    let mut files = states[blocks.len()].clone();
    files[0][9] = 2;
    seal(&mut files[0][..128]);
    assert!(matches!(
        open(written(&files).path()),
        Err(ChainError::NotAStore { .. })
    ));
}
