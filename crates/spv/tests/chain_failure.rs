//! Tests of failed writes. A write that found no free space is repeated as soon as there is free space, in the files of
//! blocks and in the index. After a failure of the index for another reason, the store writes nothing until it is
//! opened again; then it has all durable data.
//!
//! A limit on file sizes takes the place of a full disk. The limit applies to the whole process, so these tests are in
//! their own file and run one after the other.

use lineside_spv::chain::*;
use lineside_testkit::{DemoBlock, DemoChain};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// Lock that a test holds while it sets the limit on file sizes.
static LIMIT: Mutex<()> = Mutex::new(());

/// Limits the size of files that this process writes, in bytes; a write beyond it fails with "file too large".
fn limit_file_size(bytes: u64) {
    // SAFETY: SIG_IGN is a valid disposition for SIGXFSZ, and no handler function is installed that could be unsafe.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    let limit = libc::rlimit {
        rlim_cur: bytes,
        rlim_max: libc::RLIM_INFINITY,
    };
    // SAFETY: the pointer must be valid for reads of an `rlimit`; `limit` lives until after the call.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &limit) }, 0);
}

fn size(dir: &Path) -> u64 {
    ["blocks.dat", "txids.dat"]
        .map(|name| std::fs::metadata(dir.join(name)).unwrap().len())
        .iter()
        .sum()
}

/// Checks that the store finds the transactions of the first `known` blocks, and no others.
fn answers(store: &ChainStore, blocks: &[DemoBlock], known: usize) {
    for (number, block) in blocks.iter().enumerate() {
        for txid in &block.txids {
            let root = store.locate(txid).unwrap().map(|at| at.root);
            assert_eq!(root, (number < known).then_some(block.root));
        }
    }
}

fn take(store: &mut ChainStore, blocks: &[DemoBlock]) {
    for block in blocks {
        store.submit(&block.raw, false).unwrap();
    }
    store.catch_up().unwrap();
}

#[test]
fn files_are_written_when_there_is_free_space_again() {
    let _alone = LIMIT.lock().unwrap_or_else(PoisonError::into_inner);
    let blocks: Vec<DemoBlock> = DemoChain::new(1, 500).take(8).collect();
    // 500 TXIDs are 16,000 bytes in txids.dat, and a record is 128 bytes in blocks.dat. Without `keep`, the limit is
    // reached within the TXIDs; with `keep`, within the bytes of a kept block, because these are written first.
    for (kind, keep, limit) in [
        (IndexKind::Memory, false, 40_000),
        (IndexKind::Disk, false, 40_000),
        (IndexKind::Memory, true, 200_000),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let (mut store, _) = ChainStore::open_with(Some(dir.path()), Network::Regtest, kind).unwrap();
        if keep {
            assert_eq!(store.keep_blocks(dir.path()).unwrap(), 0);
        }
        take(&mut store, &blocks[..2]);
        store.sync().unwrap();
        let mut taken = 2;
        limit_file_size(limit);
        let mut refused = false;
        for block in &blocks[2..6] {
            // A block whose bytes cannot be kept is refused as a whole and submitted again later.
            match store.submit(&block.raw, false) {
                Ok(_) => taken += 1,
                Err(error) => {
                    assert!(matches!(error, Refused::Storage(_)) && keep, "{error}");
                    refused = true;
                    break;
                }
            }
        }
        assert_eq!(refused, keep);
        store.catch_up().unwrap();
        for _ in 0..2 {
            assert!(keep || matches!(store.sync(), Err(ChainError::Write(_))));
        }
        limit_file_size(libc::RLIM_INFINITY);

        take(&mut store, &blocks[taken..]);
        store.sync().unwrap();
        answers(&store, &blocks, 8);
        drop(store);
        let (store, _) = ChainStore::open_with(Some(dir.path()), Network::Regtest, kind).unwrap();
        assert_eq!(store.blocks(), 8, "all blocks are durable");
        answers(&store, &blocks, 8);
        if keep {
            let kept = std::fs::read(dir.path().join("blocks/blk00000.dat")).unwrap();
            let expected = blocks.iter().flat_map(|block| {
                let length = (block.raw.len() as u32).to_le_bytes();
                [&Network::Regtest.magic()[..], &length, &block.raw].concat()
            });
            assert_eq!(kept, expected.collect::<Vec<_>>());
        }
    }
}

/// Returns a store with an index on disk that covers two blocks, and two more durable blocks that the index lacks.
fn with_index(dir: &Path, blocks: &[DemoBlock]) -> ChainStore {
    let (mut store, _) = ChainStore::open_with(Some(dir), Network::Regtest, IndexKind::Disk).unwrap();
    take(&mut store, &blocks[..2]);
    store.sync_index().unwrap();
    take(&mut store, &blocks[2..4]);
    // After this sync only the index has data to write.
    store.sync().unwrap();
    store
}

/// Repeats writes that must fail because of the index, and checks that nothing is written and that lookups still find
/// every transaction.
fn writes_nothing(store: &mut ChainStore, dir: &Path, blocks: &[DemoBlock]) {
    let before = size(dir);
    for _ in 0..3 {
        assert!(matches!(store.sync_index(), Err(ChainError::Index(_))));
        assert!(matches!(store.sync(), Err(ChainError::Index(_))));
        let refused = store.submit(&blocks[4].raw, false);
        assert!(matches!(refused, Err(Refused::Storage(_))), "{refused:?}");
        answers(store, blocks, 4);
    }
    assert_eq!(size(dir), before, "nothing was written after the failure");
}

#[test]
fn an_index_is_written_when_there_is_free_space_again() {
    let _alone = LIMIT.lock().unwrap_or_else(PoisonError::into_inner);
    let blocks: Vec<DemoBlock> = DemoChain::new(1, 500).take(8).collect();
    // 1,000 TXIDs are about 20,000 bytes in a run of the index. Writing resumes with a new block, or with the failed
    // write.
    for (limit, next) in [(4_000, 5), (10_000, 4)] {
        let dir = tempfile::tempdir().unwrap();
        let mut store = with_index(dir.path(), &blocks);
        limit_file_size(limit);
        let failed = store.sync_index();
        assert!(matches!(failed, Err(ChainError::Index(_))), "{failed:?}");
        writes_nothing(&mut store, dir.path(), &blocks);
        limit_file_size(libc::RLIM_INFINITY);
        take(&mut store, &blocks[4..next]);
        store.sync_index().unwrap();
        assert_eq!(store.indexed_blocks() as usize, next);
        take(&mut store, &blocks[next..]);
        store.sync_index().unwrap();
        store.verify_index().unwrap();
        answers(&store, &blocks, 8);
        drop(store);
        let opened = ChainStore::open_with(Some(dir.path()), Network::Regtest, IndexKind::Disk).unwrap();
        assert_eq!((opened.0.indexed_blocks(), opened.1), (8, None));
        answers(&opened.0, &blocks, 8);
    }
}

#[test]
fn after_another_failed_write_of_the_index_nothing_is_written_until_reopened() {
    let _alone = LIMIT.lock().unwrap_or_else(PoisonError::into_inner);
    let blocks: Vec<DemoBlock> = DemoChain::new(1, 500).take(8).collect();
    let dir = tempfile::tempdir().unwrap();
    let mut store = with_index(dir.path(), &blocks);
    // A directory to which the index writes is renamed during one write, which therefore fails.
    let keyspaces = dir.path().join("txid-index/keyspaces");
    let away = dir.path().join("away");
    std::fs::rename(&keyspaces, &away).unwrap();
    let failed = store.sync_index();
    std::fs::rename(&away, &keyspaces).unwrap();
    assert!(matches!(failed, Err(ChainError::Index(_))), "{failed:?}");
    writes_nothing(&mut store, dir.path(), &blocks);
    drop(store);

    let kind = IndexKind::Disk;
    let (mut store, _) = ChainStore::open_with(Some(dir.path()), Network::Regtest, kind).unwrap();
    assert_eq!(store.blocks(), 4, "all durable blocks are in the store");
    answers(&store, &blocks, 4);
    take(&mut store, &blocks[4..]);
    store.sync_index().unwrap();
    store.verify_index().unwrap();
    answers(&store, &blocks, 8);
}

#[test]
fn a_block_whose_bytes_were_not_kept_is_not_in_the_reopened_store() {
    let _alone = LIMIT.lock().unwrap_or_else(PoisonError::into_inner);
    let blocks: Vec<DemoBlock> = DemoChain::new(1, 500).take(4).collect();
    let dir = tempfile::tempdir().unwrap();
    let mut store = ChainStore::open(Some(dir.path()), Network::Regtest).unwrap();
    assert_eq!(store.keep_blocks(dir.path()).unwrap(), 0);
    take(&mut store, &blocks[..2]);
    limit_file_size(2 * blocks[0].raw.len() as u64 + 1_000);
    for _ in 0..2 {
        let refused = store.submit(&blocks[2].raw, false);
        assert!(matches!(refused, Err(Refused::Storage(_))), "{refused:?}");
    }
    drop(store);
    limit_file_size(libc::RLIM_INFINITY);
    let mut store = ChainStore::open(Some(dir.path()), Network::Regtest).unwrap();
    assert_eq!(
        store.blocks(),
        2,
        "a block without kept bytes is not in the store"
    );
    assert_eq!(store.keep_blocks(dir.path()).unwrap(), 0);
    take(&mut store, &blocks[2..]);
    for block in &blocks {
        assert_eq!(store.kept_block(&block.hash).unwrap().as_ref(), Some(&block.raw));
    }
    // After the file is truncated, the store reports its last two blocks as missing, the lowest first.
    drop(store);
    let path = dir.path().join("blocks/blk00000.dat");
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(
        &path,
        &bytes[..16 + blocks[0].raw.len() + blocks[1].raw.len() + 100],
    )
    .unwrap();
    let mut store = ChainStore::open(Some(dir.path()), Network::Regtest).unwrap();
    assert_eq!(store.keep_blocks(dir.path()).unwrap(), 2);
    assert_eq!(store.first_unkept(), Some(blocks[2].hash));
    store.submit(&blocks[2].raw, false).unwrap();
    assert_eq!(store.first_unkept(), Some(blocks[3].hash));
    store.give_up_unkept(&blocks[3].hash);
    assert_eq!(store.first_unkept(), None);
}

/// Returns a chain whose coinbases have many outputs. `coinbases.dat` grows faster than the other files of its store,
/// so under a limit of the file size its writes fail first.
fn long_coinbases(count: u32) -> Vec<bitcoin::Block> {
    use bitcoin::hashes::Hash;
    let (mut blocks, mut parent) = (Vec::new(), [0; 32]);
    for height in 0..count {
        let demo = DemoChain::branch(1, 3, parent, height)
            .with_witness()
            .next()
            .unwrap();
        let mut block: bitcoin::Block = bitcoin::consensus::deserialize(&demo.raw).unwrap();
        let output = block.txdata[0].output[0].clone();
        block.txdata[0].output.splice(0..0, vec![output; 300]);
        block.header.merkle_root = block.compute_merkle_root().unwrap();
        while !block.header.target().is_met_by(block.block_hash()) {
            block.header.nonce += 1;
        }
        parent = block.block_hash().to_byte_array();
        blocks.push(block);
    }
    blocks
}

/// Checks that witness data is written before the records that need it: if witness data cannot be written, no record is
/// written.
#[test]
fn no_record_is_written_before_its_witness_data() {
    let _alone = LIMIT.lock().unwrap_or_else(PoisonError::into_inner);
    let raw = long_coinbases(6);
    let raw: Vec<_> = raw.iter().map(bitcoin::consensus::serialize).collect();
    let dir = tempfile::tempdir().unwrap();
    let length = |name: &str| std::fs::metadata(dir.path().join(name)).unwrap().len();
    let take = |store: &mut ChainStore, range: std::ops::Range<usize>| {
        raw[range]
            .iter()
            .for_each(|block| _ = store.submit(block, false).unwrap());
        store.catch_up().unwrap();
    };
    let are_there = |store: &ChainStore, count: u32| {
        for height in 0..count {
            let witness = store.witness(store.at_height(height).unwrap()).unwrap();
            assert!(matches!(&witness, BlockWitness::Committed(found) if found.coinbase.len() > 10_000));
        }
    };
    let mut store = ChainStore::make(Some(dir.path()), Network::Regtest, true).unwrap();
    take(&mut store, 0..2);
    store.sync().unwrap();
    take(&mut store, 2..5);
    // Five coinbases are more than 50,000 bytes; the other files have less than 1,000.
    limit_file_size(30_000);
    for _ in 0..2 {
        let failed = store.sync();
        assert!(matches!(failed, Err(ChainError::Write(_))), "{failed:?}");
        assert_eq!(length("blocks.dat"), 128 * 3, "no record");
        are_there(&store, 5);
    }
    drop(store);
    limit_file_size(libc::RLIM_INFINITY);
    assert_eq!(length("blocks.dat"), 128 * 3);
    assert!(
        length("wtxids.dat") > 32 * 3 * 2 && length("coinbases.dat") == 30_000,
        "torn"
    );

    let mut store = ChainStore::open(Some(dir.path()), Network::Regtest).unwrap();
    assert_eq!((store.blocks(), length("wtxids.dat")), (2, 32 * 3 * 2));
    are_there(&store, 2);
    take(&mut store, 2..5);
    // Repeat the failure; this time there is free space again while the store is open.
    limit_file_size(30_000);
    assert!(store.sync().is_err());
    limit_file_size(libc::RLIM_INFINITY);
    take(&mut store, 5..6);
    store.sync().unwrap();
    are_there(&store, 6);
    drop(store);
    let store = ChainStore::open(Some(dir.path()), Network::Regtest).unwrap();
    assert_eq!(store.blocks(), 6);
    are_there(&store, 6);
}
