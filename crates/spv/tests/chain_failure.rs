//! A write that fails: nothing is written until the store is opened anew, and then everything durable is there.
//!
//! The limit on file sizes is the process's, so these tests have a file of their own, and run one after the other.

use lineside_spv::chain::*;
use lineside_testkit::{DemoBlock, DemoChain};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// Held by the test that sets the limit.
static LIMIT: Mutex<()> = Mutex::new(());

/// Limits the size that files may grow to; a longer write fails with "file too large".
fn limit_file_size(bytes: u64) {
    // SAFETY: ignoring a signal installs no handler.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    let limit = libc::rlimit {
        rlim_cur: bytes,
        rlim_max: libc::RLIM_INFINITY,
    };
    // SAFETY: `limit` is a live `rlimit` that the call reads.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &limit) }, 0);
}

fn size(dir: &Path) -> u64 {
    ["blocks.dat", "txids.dat"]
        .map(|name| std::fs::metadata(dir.join(name)).unwrap().len())
        .iter()
        .sum()
}

#[test]
fn after_a_failed_write_nothing_is_written_until_reopened() {
    let _alone = LIMIT.lock().unwrap_or_else(PoisonError::into_inner);
    let blocks: Vec<DemoBlock> = DemoChain::new(1, 500).take(8).collect();
    let answers = |store: &ChainStore, known: usize| {
        for (number, block) in blocks.iter().enumerate() {
            for txid in &block.txids {
                let root = store.locate(txid).unwrap().map(|at| at.root);
                assert_eq!(root, (number < known).then_some(block.root));
            }
        }
    };
    // (what fails, the limit): 500 TXIDs are 16,000 bytes in txids.dat and about 10,000 in a run of the index.
    for (kind, limit, index_fails) in [
        (IndexKind::Memory, 40_000, false),
        (IndexKind::Disk, 40_000, false),
        (IndexKind::Disk, 20_000, true),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let (mut store, _) = ChainStore::open_with(Some(dir.path()), Network::Regtest, kind).unwrap();
        let take = |store: &mut ChainStore, range: std::ops::Range<usize>| {
            blocks[range]
                .iter()
                .for_each(|block| _ = store.submit(&block.raw, false).unwrap());
            store.catch_up().unwrap();
        };
        take(&mut store, 0..2);
        store.sync().unwrap();
        take(&mut store, 2..4);
        if index_fails {
            // Nothing else is left to be written then.
            store.sync().unwrap();
        }
        limit_file_size(limit);
        let failed = if index_fails {
            store.sync_index()
        } else {
            store.sync()
        };
        assert!(
            matches!(failed, Err(ChainError::Write(_) | ChainError::Index(_))),
            "{kind:?} {limit} {failed:?}"
        );
        limit_file_size(libc::RLIM_INFINITY);

        // There is room again, but nobody knows what the disk has kept.
        let before = size(dir.path());
        for _ in 0..2 {
            assert!(store.sync().is_err() && store.sync_index().is_err());
            assert!(matches!(
                store.submit(&blocks[4].raw, false),
                Err(Refused::Storage(_))
            ));
        }
        answers(&store, 4);
        drop(store);
        assert_eq!(size(dir.path()), before, "nothing was written after the failure");

        let (mut store, _) = ChainStore::open_with(Some(dir.path()), Network::Regtest, kind).unwrap();
        let kept = store.blocks();
        assert!(
            if index_fails { kept == 4 } else { kept >= 2 },
            "what was durable is there"
        );
        answers(&store, kept);
        take(&mut store, kept..8);
        store.sync_index().unwrap();
        store.verify_index().unwrap();
        answers(&store, 8);
    }
}

/// A chain whose coinbases have so many outputs that `coinbases.dat` is the first file to reach a limit.
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

/// Witness data is written before the records that need it: where it cannot be, no record is.
#[test]
fn no_record_is_written_whose_witness_data_could_not_be() {
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
    let failed = store.sync();
    limit_file_size(libc::RLIM_INFINITY);
    assert!(matches!(failed, Err(ChainError::Write(_))), "{failed:?}");
    assert_eq!(length("blocks.dat"), 128 * 3, "no record");
    are_there(&store, 5);
    assert!(store.sync().is_err() && store.submit(&raw[5], false).is_err());
    drop(store);
    assert_eq!(length("blocks.dat"), 128 * 3);
    assert!(
        length("wtxids.dat") > 32 * 3 * 2 && length("coinbases.dat") == 30_000,
        "torn"
    );

    let mut store = ChainStore::open(Some(dir.path()), Network::Regtest).unwrap();
    assert_eq!((store.blocks(), length("wtxids.dat")), (2, 32 * 3 * 2));
    are_there(&store, 2);
    take(&mut store, 2..6);
    drop(store);
    let store = ChainStore::open(Some(dir.path()), Network::Regtest).unwrap();
    assert_eq!(store.blocks(), 6);
    are_there(&store, 6);
}
