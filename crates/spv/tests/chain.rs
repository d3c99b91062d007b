//! Tests of the chain store: best chain, duplicate transactions, refused blocks, and the store's files across restarts.

use bitcoin::consensus::{deserialize, serialize};
use bitcoin::hashes::Hash;
use lineside_spv::chain::*;
use lineside_testkit::{DemoBlock, DemoChain};
use proptest::prelude::*;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;

fn regtest(dir: Option<&Path>) -> ChainStore {
    ChainStore::open(dir, Network::Regtest).unwrap()
}

fn take(store: &mut ChainStore, block: &DemoBlock) -> BlockId {
    let taken = store.submit(&block.raw, false).unwrap();
    assert_eq!(taken.hash, block.hash);
    taken.id
}

/// Finds a nonce that gives a changed header valid proof of work.
fn mine(block: &mut bitcoin::Block) {
    while !block.header.target().is_met_by(block.block_hash()) {
        block.header.nonce += 1;
    }
}

#[test]
fn every_transaction_of_a_chain_is_located() {
    let mut store = regtest(None);
    let blocks: Vec<DemoBlock> = DemoChain::new(7, 33).take(8).collect();
    for block in &blocks {
        take(&mut store, block);
    }
    assert_eq!(
        store.locate(&blocks[0].txids[0]).unwrap(),
        None,
        "nothing is connected yet"
    );
    assert_eq!(store.catch_up().unwrap(), (0, 8));
    assert_eq!(
        store.tip(),
        Some(Tip {
            hash: blocks[7].hash,
            height: 7
        })
    );
    for (height, block) in blocks.iter().enumerate() {
        for (position, txid) in block.txids.iter().enumerate() {
            let at = store.locate(txid).unwrap().unwrap();
            assert_eq!((at.root, at.block_hash), (block.root, block.hash));
            assert_eq!((at.height as usize, at.position as usize), (height, position));
        }
        assert_eq!(store.txids(store.at_height(height as u32).unwrap()), block.txids);
    }
    assert_eq!(store.locate(&[9; 32]).unwrap(), None);
    assert!(store.submit(&blocks[3].raw, false).unwrap().already_known);
    let again: Vec<DemoBlock> = DemoChain::new(7, 33).take(8).collect();
    assert_eq!(again, blocks, "the same seed gives the same bytes");
}

#[test]
fn a_reorganisation_takes_single_steps_and_restores_duplicate_transactions() {
    let mut store = regtest(None);
    let mut main = DemoChain::new(1, 4);
    let shared = DemoChain::new(99, 2).payment(1);
    let shared_txid = shared.compute_txid().to_byte_array();
    let b0 = main.next_with(std::slice::from_ref(&shared));
    let mut side = DemoChain::branch(2, 4, b0.hash, 1);
    let b1 = main.next_with(std::slice::from_ref(&shared));
    let b2 = main.next().unwrap();
    let ids: Vec<BlockId> = [&b0, &b1, &b2].map(|block| take(&mut store, block)).to_vec();
    store.catch_up().unwrap();
    assert_eq!(
        store.locate(&shared_txid).unwrap().unwrap().root,
        b1.root,
        "of two blocks with the transaction, the higher one is found"
    );

    let sides: Vec<DemoBlock> = side.by_ref().take(3).collect();
    let s: Vec<BlockId> = sides[..2].iter().map(|block| take(&mut store, block)).collect();
    assert!(store.plan().is_empty(), "equal work: the first seen stays");
    let s2 = take(&mut store, &sides[2]);
    let plan = store.plan();
    assert_eq!(
        plan,
        Reorg {
            disconnect: vec![ids[2], ids[1]],
            connect: vec![s[0], s[1], s2]
        }
    );

    assert!(matches!(
        store.disconnect(ids[1]),
        Err(ChainError::IllegalStep { .. })
    ));
    assert!(matches!(store.connect(s[0]), Err(ChainError::IllegalStep { .. })));
    assert!(matches!(
        store.connect(BlockId(77)),
        Err(ChainError::NoSuchBlock(77))
    ));
    store.disconnect(ids[2]).unwrap();
    store.disconnect(ids[1]).unwrap();
    assert!(!store.is_connected(ids[1]));
    assert_eq!(
        store.locate(&shared_txid).unwrap().unwrap().root,
        b0.root,
        "after the higher block is disconnected, the lower one is found"
    );
    assert_eq!(store.locate(&b2.txids[1]).unwrap(), None);
    for id in plan.connect {
        store.connect(id).unwrap();
    }
    assert!(store.plan().is_empty() && store.is_connected(s2) && !store.is_connected(ids[2]));
    assert_eq!(store.locate(&sides[1].txids[2]).unwrap().unwrap().height, 2);

    // The old branch grows and becomes the best one again.
    for block in main.by_ref().take(2) {
        take(&mut store, &block);
    }
    assert_eq!(store.catch_up().unwrap(), (3, 4));
    assert!(store.is_connected(ids[1]));
    assert_eq!(store.tip().unwrap().height, 4);
}

#[test]
fn transactions_of_detached_blocks_are_found_at_once() {
    let mut store = regtest(None);
    let shared = DemoChain::new(99, 2).payment(1);
    let mut chain = DemoChain::branch(5, 3, [7; 32], 100);
    let parent = chain.next_with(std::slice::from_ref(&shared));
    let child = chain.next_with(std::slice::from_ref(&shared));
    assert!(matches!(store.submit(&parent.raw, false), Err(Refused::UnknownParent(hash)) if hash == [7; 32]));
    let taken = store.submit(&parent.raw, true).unwrap();
    assert_eq!(taken.height, DETACHED_HEIGHT);
    assert_eq!(
        store.submit(&child.raw, false).unwrap().height,
        DETACHED_HEIGHT,
        "a detached block's child"
    );
    let at = store
        .locate(&shared.compute_txid().to_byte_array())
        .unwrap()
        .unwrap();
    assert_eq!(
        (at.root, at.height),
        (child.root, DETACHED_HEIGHT),
        "of several detached blocks, the last one is found"
    );
    assert!(store.plan().is_empty() && store.tip().is_none());
    assert!(matches!(
        store.disconnect(taken.id),
        Err(ChainError::IllegalStep { .. })
    ));
}

#[test]
fn a_refused_block_leaves_nothing_in_the_store() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = regtest(Some(dir.path()));
    let mut chain = DemoChain::new(3, 3);
    take(&mut store, &chain.next().unwrap());
    store.catch_up().unwrap();
    store.sync().unwrap();
    let good = chain.next().unwrap();
    let sizes = || ["blocks.dat", "txids.dat"].map(|f| std::fs::metadata(dir.path().join(f)).unwrap().len());
    let (before, blocks) = (sizes(), store.blocks());
    let block: bitcoin::Block = deserialize(&good.raw).unwrap();
    let mut refuse = |raw: &[u8], expected: &str| {
        let error = store.submit(raw, false).unwrap_err();
        let found = format!("{error:?}");
        assert!(found.starts_with(expected), "{found}, not {expected}");
        assert!(!error.to_string().is_empty());
        store.sync().unwrap();
        assert_eq!(
            (sizes(), store.blocks(), store.transactions()),
            (before, blocks, 3),
            "{expected}"
        );
        assert_eq!(store.locate(&good.txids[1]).unwrap(), None);
    };

    refuse(b"", "Malformed");
    for len in [79, 80, 81, 100, good.raw.len() - 1] {
        refuse(&good.raw[..len], "Malformed");
    }
    refuse(&[&good.raw[..80], &[0]].concat(), "Malformed");
    refuse(&[&good.raw[..], &[0, 0]].concat(), "TrailingBytes(2)");

    let mut other = block.clone();
    other.txdata[1].output[0].value += bitcoin::Amount::ONE_SAT;
    refuse(&serialize(&other), "WrongMerkleRoot");

    let mut mutated = block.clone();
    mutated.txdata.push(block.txdata[2].clone());
    refuse(&serialize(&mutated), "MutatedTree");

    // Six transactions, of which the last two are repeated, have two equal nodes one level above the leaves.
    let six = DemoChain::branch(8, 6, good.hash, 2).next().unwrap();
    let mut mutated: bitcoin::Block = deserialize(&six.raw).unwrap();
    mutated.txdata.extend_from_within(4..);
    refuse(&serialize(&mutated), "MutatedTree");

    let mut no_work = block.clone();
    while no_work.header.target().is_met_by(no_work.block_hash()) {
        no_work.header.nonce += 1;
    }
    refuse(&serialize(&no_work), "WrongProofOfWork");

    let mut easy = block.clone();
    easy.header.bits = bitcoin::CompactTarget::from_consensus(0x2100_ffff);
    refuse(&serialize(&easy), "TargetAboveLimit");
    for bits in [0x2080_0001, 0x2200_7fff, 0xff12_3456, 0x207f_ffff | 0x0080_0000] {
        easy.header.bits = bitcoin::CompactTarget::from_consensus(bits);
        assert!(CheckedBlock::check(&serialize(&easy), Network::Regtest).is_err());
    }
    assert!(matches!(
        CheckedBlock::check(&good.raw, Network::Mainnet),
        Err(Refused::TargetAboveLimit(Network::Mainnet))
    ));

    let mut orphan = block.clone();
    orphan.header.prev_blockhash = bitcoin::BlockHash::from_byte_array([5; 32]);
    mine(&mut orphan);
    refuse(&serialize(&orphan), "UnknownParent");

    let mut headless = block.clone();
    headless.txdata.remove(0);
    headless.header.merkle_root = headless.compute_merkle_root().unwrap();
    mine(&mut headless);
    refuse(&serialize(&headless), "NoCoinbase");

    assert!(!store.submit(&good.raw, false).unwrap().already_known);
}

#[test]
fn a_reopened_store_has_every_block_and_transaction() {
    let dir = tempfile::tempdir().unwrap();
    let blocks: Vec<DemoBlock> = DemoChain::new(11, 5).take(6).collect();
    let side = DemoChain::branch(12, 5, blocks[2].hash, 3).next().unwrap();
    let lone = DemoChain::branch(13, 5, [8; 32], 3).next().unwrap();
    let mut store = regtest(Some(dir.path()));
    assert!(matches!(
        ChainStore::open(Some(dir.path()), Network::Regtest),
        Err(ChainError::Locked { .. })
    ));
    for block in blocks[..3].iter() {
        take(&mut store, block);
    }
    store.sync().unwrap();
    take(&mut store, &side);
    store.submit(&lone.raw, true).unwrap();
    for block in blocks[3..].iter() {
        take(&mut store, block);
    }
    store.catch_up().unwrap();
    for block in blocks.iter().chain([&lone]) {
        assert!(block.txids.iter().all(|txid| {
            store
                .locate(txid)
                .unwrap()
                .is_some_and(|at| at.root == block.root)
        }));
    }
    drop(store);

    assert!(matches!(
        ChainStore::open(Some(dir.path()), Network::Signet),
        Err(ChainError::OtherNetwork {
            found: Network::Regtest,
            ..
        })
    ));
    let store = regtest(Some(dir.path()));
    assert_eq!((store.blocks(), store.transactions()), (8, 40));
    assert_eq!(
        store.tip(),
        Some(Tip {
            hash: blocks[5].hash,
            height: 5
        })
    );
    for block in blocks.iter().chain([&lone]) {
        assert!(block.txids.iter().all(|txid| {
            store
                .locate(txid)
                .unwrap()
                .is_some_and(|at| at.root == block.root)
        }));
    }
    assert_eq!(store.locate(&side.txids[1]).unwrap(), None);
    assert_eq!(
        store.locate(&lone.txids[1]).unwrap().unwrap().height,
        DETACHED_HEIGHT
    );
}

#[test]
fn a_torn_end_is_removed_and_damage_is_refused() {
    let blocks: Vec<DemoBlock> = DemoChain::new(21, 4).take(5).collect();
    let fill = || {
        let dir = tempfile::tempdir().unwrap();
        let mut store = regtest(Some(dir.path()));
        blocks.iter().for_each(|block| _ = take(&mut store, block));
        drop(store);
        dir
    };
    let open = |dir: &tempfile::TempDir, name| {
        OpenOptions::new()
            .read(true)
            .write(true)
            .open(dir.path().join(name))
            .unwrap()
    };
    let heals = |dir: tempfile::TempDir, left: usize| {
        let mut store = regtest(Some(dir.path()));
        assert_eq!(store.blocks(), left);
        blocks[left..]
            .iter()
            .for_each(|block| _ = take(&mut store, block));
        drop(store);
        let store = regtest(Some(dir.path()));
        assert_eq!(store.tip().unwrap().hash, blocks[4].hash);
        assert_eq!(
            store.locate(&blocks[4].txids[3]).unwrap().unwrap().root,
            blocks[4].root
        );
    };
    for torn in [1, 64, 127, 128] {
        let dir = fill();
        open(&dir, "blocks.dat").set_len(128 * 6 - torn).unwrap();
        heals(dir, 4);
    }
    // The last records are zeros, because they were not written: one record, or all records of one write.
    for lost in [1, 3] {
        let dir = fill();
        let zeros = vec![0; 128 * lost];
        open(&dir, "blocks.dat")
            .write_all_at(&zeros, 128 * (6 - lost as u64))
            .unwrap();
        heals(dir, 5 - lost);
    }
    // The last TXIDs have no record.
    let dir = fill();
    let txids = open(&dir, "txids.dat");
    txids
        .write_all_at(&[3; 45], txids.metadata().unwrap().len())
        .unwrap();
    heals(dir, 5);
    // The creation of the store was interrupted.
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("blocks.dat"), b"LSCH").unwrap();
    heals(dir, 0);

    // Files of other programs are not changed.
    for name in ["blocks.dat", "txids.dat"] {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(name), [7; 32]).unwrap();
        assert!(matches!(
            ChainStore::open(Some(dir.path()), Network::Regtest),
            Err(ChainError::NotAStore { .. })
        ));
        assert_eq!(std::fs::read(dir.path().join(name)).unwrap(), [7; 32]);
    }

    // Damage before valid records is refused.
    for (name, at) in [("blocks.dat", 128 * 2 + 10), ("txids.dat", 32 * 5)] {
        let dir = fill();
        open(&dir, name).write_all_at(&[0xee], at).unwrap();
        assert!(matches!(
            ChainStore::open(Some(dir.path()), Network::Regtest),
            Err(ChainError::Corrupt { record: 1, .. })
        ));
    }
    let dir = fill();
    open(&dir, "blocks.dat").write_all_at(b"no", 0).unwrap();
    assert!(matches!(
        ChainStore::open(Some(dir.path()), Network::Regtest),
        Err(ChainError::NotAStore { .. })
    ));
}

#[test]
fn whole_records_without_their_txids_are_refused_and_files_stay_unchanged() {
    type Damage = fn(&std::fs::File);
    // Each entry: damage to the 20 TXIDs of five blocks; number of the first affected record; word in the error.
    let damages: [(Damage, u64, &str); 6] = [
        (|txids| txids.set_len(0).unwrap(), 0, "missing"),
        (|txids| txids.set_len(32 * 4 * 3 + 5).unwrap(), 3, "missing"),
        (|txids| txids.set_len(32 * 20 - 1).unwrap(), 4, "missing"),
        (
            |txids| txids.write_all_at(&[0; 64], 32 * 18).unwrap(),
            4,
            "damaged",
        ),
        (|txids| txids.write_all_at(&[0xee], 32 * 5).unwrap(), 1, "damaged"),
        (
            |txids| txids.write_all_at(&[0; 32 * 20], 0).unwrap(),
            0,
            "damaged",
        ),
    ];
    for (number, (damage, concerned, how)) in damages.into_iter().enumerate() {
        // The result must be the same if there is also a torn record at the end.
        for torn in [0, 50] {
            let dir = tempfile::tempdir().unwrap();
            let mut store = regtest(Some(dir.path()));
            DemoChain::new(23, 4)
                .take(5)
                .for_each(|block| _ = take(&mut store, &block));
            drop(store);
            let paths = ["blocks.dat", "txids.dat"].map(|name| dir.path().join(name));
            let [blocks, txids] = paths
                .each_ref()
                .map(|path| OpenOptions::new().write(true).open(path).unwrap());
            blocks.write_all_at(&vec![7; torn], 128 * 6).unwrap();
            damage(&txids);
            let read = || paths.each_ref().map(|path| std::fs::read(path).unwrap());
            let before = read();
            for kind in [IndexKind::Memory, IndexKind::Disk] {
                match ChainStore::open_with(Some(dir.path()), Network::Regtest, kind).map(|_| ()) {
                    Err(error @ ChainError::Corrupt { .. }) => {
                        let said = error.to_string();
                        let expected =
                            format!("txids.dat: block record {concerned} has TXIDs that are {how} here;");
                        assert!(said.contains(&expected), "damage {number}: {said}");
                    }
                    other => panic!("damage {number}, torn {torn}: {other:?}"),
                }
                assert_eq!(read(), before, "damage {number}, torn {torn}");
            }
        }
    }
}

proptest! {
    #[test]
    fn arbitrary_and_mutated_blocks_never_panic(
        junk in prop::collection::vec(any::<u8>(), 0..300),
        at in 80usize..1000,
        byte: u8,
    ) {
        prop_assert!(CheckedBlock::check(&junk, Network::Regtest).is_err());
        let mut raw = DemoChain::new(1, 6).next().unwrap().raw;
        let at = at % raw.len();
        let same = raw[at] == byte;
        raw[at] = byte;
        if at >= 80 && !same {
            prop_assert!(CheckedBlock::check(&raw, Network::Regtest).is_err());
        }
    }
}

/// Applies `change` to a record of `blocks.dat`, and writes it with its new checksum.
fn rewrite(dir: &tempfile::TempDir, record: usize, change: impl FnOnce(&mut [u8])) {
    let path = dir.path().join("blocks.dat");
    let mut bytes = std::fs::read(&path).unwrap();
    let record = &mut bytes[128 * (record + 1)..][..128];
    change(record);
    let crc = record[..124].iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            (crc >> 1) ^ (0x82f6_3b78 & (crc & 1).wrapping_neg())
        })
    });
    record[124..].copy_from_slice(&(!crc).to_le_bytes());
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn records_that_contradict_each_other_are_refused_and_files_stay_unchanged() {
    type Change = fn(&mut [u8]);
    let changes: [(usize, Change); 4] = [
        (1, |record| record[92] ^= 1),           // another height
        (1, |record| record[4] ^= 1), // another parent, which is unknown, and invalid proof of work
        (0, |record| record[72..76].fill(0xff)), // invalid target: a sum of work overflows
        (2, |record| record[96] = 1), // detached, though its parent is known
    ];
    for (number, change) in changes {
        let dir = tempfile::tempdir().unwrap();
        let mut store = regtest(Some(dir.path()));
        DemoChain::new(22, 3)
            .take(4)
            .for_each(|block| _ = take(&mut store, &block));
        drop(store);
        rewrite(&dir, number, change);
        // Append a torn record, which a successful opening would remove.
        let path = dir.path().join("blocks.dat");
        OpenOptions::new()
            .append(true)
            .open(&path)
            .unwrap()
            .write_all_at(&[7; 50], 5 * 128)
            .unwrap();
        let before = std::fs::read(&path).unwrap();
        assert!(matches!(
            ChainStore::open(Some(dir.path()), Network::Regtest),
            Err(ChainError::Corrupt { record, .. }) if record == number as u64
        ));
        assert_eq!(std::fs::read(&path).unwrap(), before);
    }
}
