//! A write that fails: nothing is written until the store is opened anew, and then everything durable is there.
//!
//! The limit on file sizes is the process's, so this test stands alone in its file.

use lineside_spv::chain::*;
use lineside_testkit::{DemoBlock, DemoChain};
use std::path::Path;

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
