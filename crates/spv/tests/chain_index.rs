//! Tests of both TXID indexes (memory, disk) against a simple model, across reorganisations, restarts, kills and
//! damage.

use bitcoin::Transaction;
use bitcoin::hashes::Hash;
use lineside_spv::chain::*;
use lineside_testkit::{DemoBlock, DemoChain};
use proptest::prelude::*;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

type Txid = [u8; 32];

/// Model of an index: finds a TXID by a search of all blocks.
#[derive(Default)]
struct Model {
    blocks: Vec<DemoBlock>,
    /// Parent and height of each block; `None` for a detached block.
    places: Vec<Option<(Option<usize>, u32)>>,
    best: Option<usize>,
}

impl Model {
    fn add(&mut self, block: DemoBlock, place: Option<(Option<usize>, u32)>) {
        let number = self.blocks.len();
        self.blocks.push(block);
        self.places.push(place);
        let height = |number: usize| self.places[number].map(|(_, height)| height);
        if place.is_some() && self.best.is_none_or(|best| height(number) > height(best)) {
            self.best = Some(number);
        }
    }

    fn connected(&self) -> Vec<usize> {
        let mut connected: Vec<usize> = (0..self.blocks.len())
            .filter(|b| self.places[*b].is_none())
            .collect();
        let mut next = self.best;
        while let Some(block) = next {
            connected.push(block);
            next = self.places[block].and_then(|(parent, _)| parent);
        }
        connected
    }

    /// Returns the block and the position of every TXID that an index must find.
    fn answers(&self) -> HashMap<Txid, (usize, usize)> {
        let rank = |block: usize| (self.places[block].map(|(_, height)| height), block);
        let mut answers: HashMap<Txid, (usize, usize)> = HashMap::new();
        for block in self.connected() {
            for (position, txid) in self.blocks[block].txids.iter().enumerate() {
                let held = answers.get(txid).copied();
                // If one block holds a TXID twice, its first position counts.
                if held.is_none_or(|(other, _)| rank(block) > rank(other)) {
                    answers.insert(*txid, (block, position));
                }
            }
        }
        answers
    }

    fn compare(&self, store: &ChainStore) {
        let answers = self.answers();
        assert_eq!(store.blocks(), self.blocks.len());
        assert_eq!(
            store.tip().map(|tip| tip.hash),
            self.best.map(|best| self.blocks[best].hash)
        );
        for txid in self
            .blocks
            .iter()
            .flat_map(|block| &block.txids)
            .chain([&[7; 32], &[0; 32], &[255; 32]])
        {
            let found = store.locate(txid).unwrap();
            let found = found.map(|at| {
                assert_eq!((at.root, at.block_hash), {
                    let block = &self.blocks[at.block.0 as usize];
                    (block.root, block.hash)
                });
                (at.block.0 as usize, at.position as usize)
            });
            assert_eq!(found, answers.get(txid).copied());
        }
    }
}

fn open(dir: &Path, kind: IndexKind) -> ChainStore {
    let (store, rebuilt) = ChainStore::open_with(Some(dir), Network::Regtest, kind).unwrap();
    assert_eq!(rebuilt, None);
    store
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for (name, _, _) in listing(from) {
        let target = to.join(&name);
        std::fs::create_dir_all(target.parent().unwrap()).unwrap();
        std::fs::copy(from.join(&name), target).unwrap();
    }
}

/// Returns every file below `dir`, with its length and the time of its last write.
fn listing(dir: &Path) -> Vec<(PathBuf, u64, SystemTime)> {
    let mut files = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(dir.join(&folder)).unwrap() {
            let entry = entry.unwrap();
            let name = folder.join(entry.file_name());
            match entry.metadata() {
                Ok(metadata) if metadata.is_dir() => folders.push(name),
                Ok(metadata) => files.push((name, metadata.len(), metadata.modified().unwrap())),
                Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::NotFound),
            }
        }
    }
    files.sort();
    files
}

/// Copies the files of an open index as they would be after a kill. The index's own threads may write or remove files
/// during the copy. A kill cannot leave a mixture of two states, so a copy during which files changed is repeated.
fn copy_unchanged(from: &Path, to: &Path) {
    for _ in 0..1000 {
        let before = listing(from);
        let mut whole = true;
        for (name, _, _) in &before {
            let target = to.join(name);
            std::fs::create_dir_all(target.parent().unwrap()).unwrap();
            whole &= std::fs::copy(from.join(name), target).is_ok();
        }
        if whole && listing(from) == before {
            return;
        }
        std::fs::remove_dir_all(to).unwrap();
    }
    panic!("{from:?} changed during each of 1000 copies");
}

#[derive(Clone, Debug)]
enum Step {
    /// Submits a block: distance of its parent from the newest block on the chain; number of its own transactions; its
    /// transactions that other blocks also hold.
    Block {
        back: usize,
        own: u32,
        shared: Vec<usize>,
    },
    Detached {
        own: u32,
        shared: Vec<usize>,
    },
    Sync,
    SyncIndex,
    Reopen,
    /// Opens a copy of the files, as after a kill, while the original store stays open.
    Kill,
}

fn step() -> impl Strategy<Value = Step> {
    let shared = || prop::collection::vec(0usize..6, 0..3);
    prop_oneof![
        12 => (prop_oneof![3 => Just(0usize), 2 => 1usize..7], 1u32..5, shared())
            .prop_map(|(back, own, shared)| Step::Block { back, own, shared }),
        1 => (1u32..4, shared()).prop_map(|(own, shared)| Step::Detached { own, shared }),
        1 => Just(Step::Sync),
        2 => Just(Step::SyncIndex),
        1 => Just(Step::Reopen),
        1 => Just(Step::Kill),
    ]
}

/// Returns those of a few transactions that `chosen` names by number; many blocks hold them. The first one is repeated
/// at the end of the list, where it is never the sibling of its copy in the Merkle tree.
fn shared_transactions(chosen: &[usize]) -> Vec<Transaction> {
    let mut chosen = chosen.to_vec();
    chosen.dedup();
    if chosen.len() == 2 {
        chosen.push(chosen[0]);
    }
    chosen
        .iter()
        .map(|i| DemoChain::new(1000 + *i as u64, 2).payment(1))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]
    #[test]
    fn indexes_in_memory_and_on_disk_equal_the_model(steps in prop::collection::vec(step(), 1..45)) {
        let dir = tempfile::tempdir().unwrap();
        let (disk_dir, memory_dir) = (dir.path().join("disk"), dir.path().join("memory"));
        let mut disk = Some(open(&disk_dir, IndexKind::Disk));
        let mut memory = Some(open(&memory_dir, IndexKind::Memory));
        let mut model = Model::default();
        for (number, step) in steps.into_iter().enumerate() {
            let seed = number as u64;
            let (block, place) = match step {
                Step::Block { back, own, shared } => {
                    let on_chain: Vec<usize> =
                        (0..model.blocks.len()).rev().filter(|b| model.places[*b].is_some()).collect();
                    let parent = on_chain.get(back).copied();
                    let height = parent.and_then(|p| model.places[p]).map_or(0, |(_, height)| height + 1);
                    let prev = parent.map_or([0; 32], |parent| model.blocks[parent].hash);
                    let mut chain = DemoChain::branch(seed, own, prev, height);
                    (chain.next_with(&shared_transactions(&shared)), Some((parent, height)))
                }
                Step::Detached { own, shared } => {
                    let mut chain = DemoChain::branch(seed, own, [9; 32], 5);
                    (chain.next_with(&shared_transactions(&shared)), None)
                }
                Step::Sync => {
                    [&mut disk, &mut memory].into_iter().flatten().for_each(|store| store.sync().unwrap());
                    continue;
                }
                Step::SyncIndex => {
                    let store = disk.as_mut().unwrap();
                    store.sync_index().unwrap();
                    prop_assert_eq!(store.indexed_blocks() as usize, model.blocks.len());
                    store.verify_index().unwrap();
                    continue;
                }
                Step::Reopen => {
                    drop((disk.take(), memory.take()));
                    disk = Some(open(&disk_dir, IndexKind::Disk));
                    memory = Some(open(&memory_dir, IndexKind::Memory));
                    model.compare(disk.as_ref().unwrap());
                    model.compare(memory.as_ref().unwrap());
                    continue;
                }
                Step::Kill => {
                    let copied = dir.path().join(format!("killed{number}"));
                    copy_unchanged(&disk_dir, &copied);
                    let killed = open(&copied, IndexKind::Disk);
                    let plain = dir.path().join(format!("plain{number}"));
                    copy_unchanged(&disk_dir, &plain);
                    let plain = open(&plain, IndexKind::Memory);
                    prop_assert!(killed.blocks() <= model.blocks.len());
                    prop_assert_eq!((killed.blocks(), killed.tip()), (plain.blocks(), plain.tip()));
                    for txid in model.blocks.iter().flat_map(|block| &block.txids) {
                        prop_assert_eq!(killed.locate(txid).unwrap(), plain.locate(txid).unwrap());
                    }
                    continue;
                }
            };
            for store in [&mut disk, &mut memory].into_iter().flatten() {
                let taken = store.submit(&block.raw, place.is_none()).unwrap();
                prop_assert!(!taken.already_known);
                store.catch_up().unwrap();
            }
            model.add(block, place);
        }
        model.compare(disk.as_ref().unwrap());
        model.compare(memory.as_ref().unwrap());
    }
}

/// Fills the store in `dir` with a chain and a side branch, with an index on disk.
fn filled(dir: &Path, seed: u64) -> Model {
    let mut model = Model::default();
    let mut store = open(dir, IndexKind::Disk);
    let mut chain = DemoChain::new(seed, 40);
    for height in 0..12u32 {
        let block = chain.next_with(&shared_transactions(&[height as usize % 3]));
        store.submit(&block.raw, false).unwrap();
        model.add(
            block,
            Some((height.checked_sub(1).map(|parent| parent as usize), height)),
        );
        if height == 5 {
            store.sync_index().unwrap();
        }
    }
    let side = DemoChain::branch(seed + 1, 9, model.blocks[3].hash, 4)
        .next()
        .unwrap();
    store.submit(&side.raw, false).unwrap();
    model.add(side, Some((Some(3), 4)));
    store.sync_index().unwrap();
    store.verify_index().unwrap();
    assert_eq!(store.indexed_blocks(), 13);
    model
}

#[test]
fn an_index_of_other_blocks_is_rebuilt_and_reported() {
    let dir = tempfile::tempdir().unwrap();
    let (ours, theirs) = (dir.path().join("ours"), dir.path().join("theirs"));
    let model = filled(&ours, 1);
    filled(&theirs, 50);
    let index = |dir: &Path| dir.join("txid-index");
    let reopen = |expected: Option<&str>| {
        let (store, rebuilt) = ChainStore::open_with(Some(&ours), Network::Regtest, IndexKind::Disk).unwrap();
        let said = rebuilt.map(|rebuilt| rebuilt.to_string());
        match (expected, &said) {
            (None, None) => {}
            (Some(expected), Some(said)) => assert!(said.contains(expected), "{said}"),
            _ => panic!("{expected:?}, {said:?}"),
        }
        model.compare(&store);
        store.verify_index().unwrap();
    };
    reopen(None);

    std::fs::remove_dir_all(index(&ours)).unwrap();
    copy(&index(&theirs), &index(&ours));
    reopen(Some("other blocks"));
    reopen(None);

    std::fs::remove_dir_all(index(&ours)).unwrap();
    std::fs::write(index(&ours), b"a file").unwrap();
    reopen(Some("was rebuilt"));

    // The index covers more blocks than the files, which were truncated to an older state.
    let blocks = std::fs::OpenOptions::new()
        .write(true)
        .open(ours.join("blocks.dat"))
        .unwrap();
    blocks.set_len(128 * 8).unwrap();
    let (store, rebuilt) = ChainStore::open_with(Some(&ours), Network::Regtest, IndexKind::Disk).unwrap();
    assert!(rebuilt.unwrap().why.contains("more blocks"));
    assert_eq!(store.blocks(), 7);
    assert_eq!(store.locate(&model.blocks[9].txids[3]).unwrap(), None);
    assert_eq!(
        store.locate(&model.blocks[6].txids[3]).unwrap().unwrap().root,
        model.blocks[6].root
    );

    assert!(matches!(
        ChainStore::open_with(None, Network::Regtest, IndexKind::Disk),
        Err(ChainError::IndexNeedsDirectory)
    ));
}

#[test]
fn an_older_index_adds_the_missing_blocks_and_a_lost_one_is_rebuilt() {
    let dir = tempfile::tempdir().unwrap();
    let (data, old) = (dir.path().join("data"), dir.path().join("old"));
    let mut model = filled(&data, 1);
    copy(&data.join("txid-index"), &old);
    // More blocks are accepted with the index in memory.
    let mut store = open(&data, IndexKind::Memory);
    let tip = store.tip().unwrap();
    for (i, block) in DemoChain::branch(90, 7, tip.hash, 12).take(4).enumerate() {
        store.submit(&block.raw, false).unwrap();
        let parent = if i == 0 { 11 } else { 12 + i };
        model.add(block, Some((Some(parent), 12 + i as u32)));
    }
    drop(store);
    for _ in 0..2 {
        let mut store = open(&data, IndexKind::Disk);
        assert_eq!(store.indexed_blocks(), 13);
        model.compare(&store);
        store.sync_index().unwrap();
        assert_eq!(store.indexed_blocks(), 17);
        store.verify_index().unwrap();
        model.compare(&store);
        drop(store);
        std::fs::remove_dir_all(data.join("txid-index")).unwrap();
        copy(&old, &data.join("txid-index"));
    }
    std::fs::remove_dir_all(data.join("txid-index")).unwrap();
    model.compare(&open(&data, IndexKind::Disk));
}

/// Damages every file of the index in several ways. Each answer must be right or an error; if it was an error, the
/// answer after the next opening of the store must be right.
#[test]
fn a_damaged_index_never_gives_a_wrong_answer() {
    let dir = tempfile::tempdir().unwrap();
    let good = dir.path().join("good");
    let model = filled(&good, 1);
    let mut files = Vec::new();
    let mut folders = vec![good.join("txid-index")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path)
            } else {
                files.push(path)
            }
        }
    }
    assert!(files.len() >= 3, "{files:?}");
    let answers = model.answers();
    let (mut rebuilds, mut errors) = (0, 0);
    for (number, file) in files.iter().enumerate() {
        let name = file.strip_prefix(&good).unwrap();
        let bytes = std::fs::read(file).unwrap();
        for way in 0..4 {
            let mut damaged = bytes.clone();
            match way {
                0 => damaged.truncate(bytes.len() / 2),
                1 => damaged.iter_mut().step_by(61).for_each(|byte| *byte ^= 0x40),
                2 if !damaged.is_empty() => damaged[bytes.len() / 3] ^= 1,
                _ => damaged.fill(0),
            }
            if damaged == bytes {
                continue;
            }
            let data = dir.path().join(format!("{number}-{way}"));
            copy(&good, &data);
            std::fs::write(data.join(name), damaged).unwrap();
            let (store, rebuilt) =
                ChainStore::open_with(Some(&data), Network::Regtest, IndexKind::Disk).unwrap();
            rebuilds += u32::from(rebuilt.is_some());
            let mut failed = store.verify_index().is_err();
            for txid in model.blocks.iter().flat_map(|block| &block.txids) {
                match store.locate(txid) {
                    Ok(found) => {
                        let found = found.map(|at| (at.block.0 as usize, at.position as usize));
                        // If `verify_index` found that an entry is missing, the transaction may be unknown until the
                        // next opening.
                        assert!(found == answers.get(txid).copied() || (failed && found.is_none()));
                    }
                    Err(ChainError::Index(_)) => failed = true,
                    Err(error) => panic!("{error}"),
                }
            }
            errors += u32::from(failed);
            drop(store);
            let (store, rebuilt) =
                ChainStore::open_with(Some(&data), Network::Regtest, IndexKind::Disk).unwrap();
            assert_eq!(rebuilt.is_some(), failed, "{name:?} {way}");
            model.compare(&store);
            store.verify_index().unwrap();
        }
    }
    println!(
        "{} files: the index was rebuilt {rebuilds} times, and lookups found damage {errors} times",
        files.len()
    );
    assert!(rebuilds > 0);
    // Each shared TXID is in four blocks, so the model has duplicates.
    let shared = shared_transactions(&[0])[0].compute_txid().to_byte_array();
    assert_eq!(answers[&shared].0, 9);
}

/// Checks damage in a part of the index that the opening does not sample: lookups that read this part return an error,
/// and the next opening rebuilds the index.
#[test]
fn damage_that_opening_does_not_sample_is_an_error_when_read() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let mut store = open(&data, IndexKind::Disk);
    let blocks: Vec<DemoBlock> = DemoChain::new(4, 3000).take(4).collect();
    blocks
        .iter()
        .for_each(|block| _ = store.submit(&block.raw, false).unwrap());
    store.catch_up().unwrap();
    store.sync_index().unwrap();
    drop(store);
    // The largest file contains the keys.
    let mut folders = vec![data.join("txid-index")];
    let mut largest = (0, Default::default());
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            if entry.path().is_dir() {
                folders.push(entry.path());
            } else if entry.path().components().any(|part| part.as_os_str() == "tables") {
                largest = largest.max((entry.metadata().unwrap().len(), entry.path()));
            }
        }
    }
    let mut bytes = std::fs::read(&largest.1).unwrap();
    assert!(bytes.len() > 200_000, "{largest:?}");
    bytes[100_000] ^= 4;
    std::fs::write(&largest.1, bytes).unwrap();
    let store = open(&data, IndexKind::Disk);
    let (mut right, mut errors) = (0, 0);
    for block in &blocks {
        for txid in &block.txids {
            match store.locate(txid) {
                Ok(found) => {
                    assert_eq!(found.unwrap().root, block.root);
                    right += 1;
                }
                Err(ChainError::Index(_)) => errors += 1,
                Err(error) => panic!("{error}"),
            }
        }
    }
    assert!(errors > 0 && right > 11_000, "{right} right, {errors} errors");
    assert!(matches!(store.verify_index(), Err(ChainError::Index(_))));
    drop(store);
    let (store, rebuilt) = ChainStore::open_with(Some(&data), Network::Regtest, IndexKind::Disk).unwrap();
    assert!(
        rebuilt
            .unwrap()
            .why
            .contains("an earlier lookup found that the index is damaged")
    );
    store.verify_index().unwrap();
    for block in &blocks {
        assert!(
            block
                .txids
                .iter()
                .all(|txid| store.locate(txid).unwrap().unwrap().root == block.root)
        );
    }
}
