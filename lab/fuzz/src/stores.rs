//! Fuzz targets for data that Lineside has stored itself and reads again: files of the chain store, the TXID index, and
//! the fast-path table in pinned maps.

use crate::input::Input;
use lineside_fastpath::lease;
use lineside_spv::chain::{BlockId, ChainStore, IndexKind, Network, Tip};
use lineside_spv::reader::{Session, TxLocation};
use lineside_spv::store::{self, Geometry, Hash, Store};
use lineside_spv::writer::{BlockRef, SpvFill, StoreWriter};
use lineside_testkit::DemoChain;
use lineside_wire::trace::NoTrace;
use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, LazyLock};
use tempfile::TempDir;

/// Calls `act` with an empty folder that only this thread uses, in memory if possible.
pub(crate) fn scratch<T>(act: impl FnOnce(&Path) -> T) -> T {
    let memory = Path::new("/dev/shm");
    let dir = match memory.is_dir() {
        true => TempDir::new_in(memory),
        false => TempDir::new(),
    };
    act(dir.expect("a folder").path())
}

// ---- blocks.dat and txids.dat ----

const RECORD: usize = 128;
/// Bits of the first byte of an input. They select the parts that are repaired before the store is opened.
const HEAD: u8 = 1;
const RECORD_SUMS: u8 = 2;
const TXID_SUMS: u8 = 4;
/// Maximum number of TXIDs in txids.dat in the input. The number follows the first byte.
const TXIDS_MAX: u8 = 32;

/// Computes CRC32C bit by bit, with code that is independent of the store's two implementations.
fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| {
            (sum >> 1) ^ (0x82f6_3b78 & (sum & 1).wrapping_neg())
        })
    })
}

/// Files of a store that has three blocks, a side branch and a detached block.
static FILES: LazyLock<(Vec<u8>, Vec<u8>)> = LazyLock::new(|| {
    scratch(|dir| {
        fill(dir);
        let read = |name| std::fs::read(dir.join(name)).expect("reading");
        (read("blocks.dat"), read("txids.dat"))
    })
});

fn fill(dir: &Path) {
    let mut store = ChainStore::open(Some(dir), Network::Regtest).expect("opening");
    let chain: Vec<_> = DemoChain::new(11, 3).take(3).collect();
    let side = DemoChain::branch(12, 2, chain[0].hash, 1)
        .next()
        .expect("endless");
    let detached = DemoChain::branch(13, 2, [9; 32], 7).next().expect("endless");
    for block in chain.iter().chain([&side, &detached]) {
        store.submit(&block.raw, true).expect("a good block");
    }
    store.sync().expect("writing");
}

pub fn store_files_seeds() -> Vec<Vec<u8>> {
    let (blocks, txids) = &*FILES;
    let count = (txids.len() / 32) as u8;
    let seed = |mode: u8, blocks: &[u8]| [&[mode, count], &txids[..], blocks].concat();
    vec![
        seed(0, blocks),
        seed(HEAD | RECORD_SUMS | TXID_SUMS, blocks),
        seed(HEAD | RECORD_SUMS, &blocks[..RECORD * 4]),
        seed(0, &blocks[..RECORD * 4 + 50]),
        seed(0, &blocks[..RECORD]),
        vec![0, 0],
    ]
}

/// Checks that, for any files, the store opens or returns an error. Refused files must stay unchanged. An opened store
/// must answer for each of its connected blocks, accept the next block, and open again with the same content.
pub fn store_files(data: &[u8]) {
    let mut input = Input(data);
    let mode = input.byte();
    let count = input.byte() % (TXIDS_MAX + 1);
    let txids = input.take(32 * usize::from(count)).to_vec();
    let mut blocks = input.take(16 * RECORD).to_vec();
    mend(mode, &mut blocks, &txids);
    scratch(|dir| {
        let write = |name, bytes: &[u8]| std::fs::write(dir.join(name), bytes).expect("writing");
        let read = |name| std::fs::read(dir.join(name)).expect("reading");
        write("blocks.dat", &blocks);
        write("txids.dat", &txids);
        let Ok(mut store) = ChainStore::open(Some(dir), Network::Regtest) else {
            assert_eq!(
                (read("blocks.dat"), read("txids.dat")),
                (blocks, txids),
                "refused files are kept"
            );
            return;
        };
        check(&store);
        let image = |store: &ChainStore| (store.blocks(), store.transactions(), store.tip(), store.state());
        let before = image(&store);
        drop(store);
        store = ChainStore::open(Some(dir), Network::Regtest)
            .expect("a store that was opened can be opened again");
        assert_eq!(image(&store), before);
        let next = DemoChain::new(99, 2).next().expect("endless");
        store.submit(&next.raw, true).expect("a good block");
        store.catch_up().expect("the store can follow its plan");
        check(&store);
        let after = image(&store);
        drop(store);
        let store = ChainStore::open(Some(dir), Network::Regtest).expect("a store that was closed in order");
        assert_eq!((store.blocks(), store.transactions()), (after.0, after.1));
    });
}

fn mend(mode: u8, blocks: &mut [u8], txids: &[u8]) {
    for (number, record) in blocks.as_chunks_mut::<RECORD>().0.iter_mut().enumerate() {
        if number == 0 {
            if mode & HEAD != 0 {
                record.copy_from_slice(&FILES.0[..RECORD]);
            }
            continue;
        }
        if mode & TXID_SUMS != 0 {
            let first = u64::from_le_bytes(record[80..88].try_into().unwrap_or_default()) as usize;
            let count = u32::from_le_bytes(record[88..92].try_into().unwrap_or_default()) as usize;
            let end = first.checked_add(count).and_then(|end| end.checked_mul(32));
            let covered = end.and_then(|end| txids.get(first * 32..end)).unwrap_or_default();
            record[100..104].copy_from_slice(&crc32c(covered).to_le_bytes());
        }
        if mode & RECORD_SUMS != 0 {
            let sum = crc32c(&record[..RECORD - 4]);
            record[RECORD - 4..].copy_from_slice(&sum.to_le_bytes());
        }
    }
}

fn check(store: &ChainStore) {
    assert!(
        store.plan().is_empty(),
        "the tip of an opened store is its best block"
    );
    let mut transactions = 0;
    for number in 0..store.blocks() as u32 {
        let id = BlockId(number);
        let info = store.block(id).expect("a block");
        let txids = store.txids(id);
        assert_eq!(txids.len(), info.transactions as usize);
        transactions += txids.len();
        assert_eq!(store.find(&info.hash), Some(id));
        if info.connected && !info.detached {
            assert_eq!(store.at_height(info.height), Some(id));
        }
        for txid in txids {
            let found = store.locate(txid).expect("an index in memory");
            assert!(found.is_some() || !info.connected);
            if let Some(found) = found {
                assert!(store.is_connected(found.block));
                assert_eq!(store.txids(found.block)[found.position as usize], *txid);
            }
        }
    }
    assert_eq!(transactions, store.transactions());
    match store.tip() {
        Some(tip) => assert_eq!(store.at_height(tip.height), store.find(&tip.hash)),
        None => assert_eq!(store.at_height(0), None),
    }
}

// ---- the TXID index ----

static INDEXED: LazyLock<TempDir> = LazyLock::new(|| {
    let dir = TempDir::new().expect("a folder");
    fill(dir.path());
    dir
});

/// Returns the pairs of a valid index in the form that the fuzzer changes: length of the key, key, length of the value,
/// value, and so on.
pub fn txid_index_seeds() -> Vec<Vec<u8>> {
    scratch(|dir| {
        copy(dir);
        let open = ChainStore::open_with(Some(dir), Network::Regtest, IndexKind::Disk);
        open.expect("opening").0.sync_index().expect("writing");
        let database = fjall::Database::builder(dir.join("txid-index"))
            .open()
            .expect("opening");
        let keys = database
            .keyspace("txids", fjall::KeyspaceCreateOptions::default)
            .expect("a keyspace");
        let mut seed = Vec::new();
        for pair in keys.iter() {
            let (key, value) = pair.into_inner().expect("a pair");
            for part in [&key, &value] {
                seed.push(part.len() as u8);
                seed.extend(part.iter());
            }
        }
        vec![seed, Vec::new()]
    })
}

fn copy(dir: &Path) {
    for name in ["blocks.dat", "txids.dat"] {
        std::fs::copy(INDEXED.path().join(name), dir.join(name)).expect("copying");
    }
}

/// Checks that, for any pairs in the index, an answer is an error or a position at which the transaction really is. If
/// the index verifies, its answers must equal those of the index in memory.
pub fn txid_index(data: &[u8]) {
    scratch(|dir| {
        copy(dir);
        {
            let database = fjall::Database::builder(dir.join("txid-index"))
                .open()
                .expect("opening");
            let keys = database
                .keyspace("txids", fjall::KeyspaceCreateOptions::default)
                .expect("a keyspace");
            let mut input = Input(data);
            while !input.is_empty() {
                let length = usize::from(input.byte());
                let key = input.take(length);
                let length = usize::from(input.byte());
                let value = input.take(length);
                if !key.is_empty() {
                    keys.insert(key, value).expect("writing");
                }
            }
            database.persist(fjall::PersistMode::Buffer).expect("writing");
        }
        let (memory, _) = open(dir, IndexKind::Memory);
        let truth = |txid: &Hash| memory.locate(txid).expect("an index in memory");
        let txids: Vec<Hash> = (0..memory.blocks())
            .flat_map(|b| memory.txids(BlockId(b as u32)).to_vec())
            .collect();
        let expected: HashMap<Hash, _> = txids.iter().map(|txid| (*txid, truth(txid))).collect();
        drop(memory);
        let (disk, rebuilt) = open(dir, IndexKind::Disk);
        let mut exact = true;
        for (txid, expected) in &expected {
            match disk.locate(txid) {
                Ok(Some(found)) => {
                    assert_eq!(disk.txids(found.block)[found.position as usize], *txid);
                    exact &= expected
                        .is_some_and(|there| (there.block, there.position) == (found.block, found.position));
                }
                Ok(None) => exact &= expected.is_none(),
                Err(_) => exact = false,
            }
        }
        assert!(
            exact || (!rebuilt && disk.verify_index().is_err()),
            "the index verifies, but its answer is wrong"
        );
    });
}

fn open(dir: &Path, kind: IndexKind) -> (ChainStore, bool) {
    let opened = ChainStore::open_with(Some(dir), Network::Regtest, kind);
    let (store, rebuilt) = opened.unwrap_or_else(|error| panic!("{error}"));
    (store, rebuilt.is_some())
}

// ---- the fast path, adopted ----

const GEOMETRY: Geometry = Geometry {
    line_bits: 4,
    ways: 4,
    block_bits: 2,
    tree_bits: 5,
    paper_index: true,
    paper_format: true,
};

pub fn adopt_seeds() -> Vec<Vec<u8>> {
    let line = |seq: u64, txid: u8, block: u32, generation: u32| {
        [
            &seq.to_le_bytes()[..],
            &[txid; 32],
            &block.to_le_bytes(),
            &generation.to_le_bytes(),
        ]
        .concat()
    };
    let block = |generation: u32, number: u8| [&generation.to_le_bytes()[..], &[number; 68]].concat();
    let lines: Vec<u8> = (0..16)
        .flat_map(|n| line(2 * n, n as u8, n as u32 % 4, 2))
        .collect();
    let odd: Vec<u8> = (0..16)
        .flat_map(|n| line(n, n as u8, n as u32, n as u32 % 4))
        .collect();
    let blocks: Vec<u8> = (0..4).flat_map(|n| block(2, n)).collect();
    let steps: Vec<u8> = (0..60).flat_map(|n: u8| [n.wrapping_mul(37), n % 5]).collect();
    let control = [4u64.to_le_bytes(), 1u64.to_le_bytes()].concat();
    vec![
        [&control[..], &lines, &blocks, &steps].concat(),
        [&control[..], &odd, &blocks, &steps].concat(),
        [
            &control[..],
            &lines,
            &block(3, 1),
            &block(0, 1),
            &block(2, 1),
            &block(2, 1),
            &steps,
        ]
        .concat(),
        [
            &5u64.to_le_bytes()[..],
            &1u64.to_le_bytes(),
            &lines,
            &blocks,
            &steps,
        ]
        .concat(),
        steps,
    ]
}

/// Checks that any content of the maps is adopted or emptied, without half-written entries. After that, the table must
/// answer for a filled TXID, and not for a removed TXID or a dropped block.
pub fn adopt(data: &[u8]) {
    let mut input = Input(data);
    let store = Arc::new(Store::anonymous(&GEOMETRY).expect("memory"));
    let control = store.control();
    let epoch = input.long();
    control.epoch.store(epoch, Relaxed);
    let state = input.long();
    control.chain_state.store(state, Relaxed);
    for line in store.lines.as_slice() {
        line.seq.store(input.long(), Relaxed);
        line.txid
            .iter()
            .for_each(|word| word.store(input.long(), Relaxed));
        line.block.store(input.word(), Relaxed);
        line.generation.store(input.word(), Relaxed);
    }
    for block in store.blocks.as_slice() {
        block.generation.store(input.word(), Relaxed);
        block
            .root
            .iter()
            .chain(&block.hash)
            .for_each(|word| word.store(input.long(), Relaxed));
        block.height.store(input.word(), Relaxed);
    }
    assert!(store.has_geometry(&GEOMETRY));
    lease::renew(&control.lease_until_ns, 1 << 50);
    let (mut writer, kept) = StoreWriter::adopt(Arc::clone(&store), 1);
    assert_eq!(kept, epoch & 1 == 0 && state == 1);
    assert_eq!(control.epoch.load(Relaxed) & 1, 0, "the chain is at rest");
    for line in store.lines.as_slice() {
        assert_eq!(line.seq.load(Relaxed) & 1, 0, "no line is half-written");
        assert!(kept || line.generation.load(Relaxed) == 0, "emptied");
    }
    for block in store.blocks.as_slice() {
        assert_eq!(block.generation.load(Relaxed) & 1, 0, "no block is half-written");
    }
    let find = |txid: &Hash| {
        let session = Session::begin(&store, lease::now_ns(), &mut NoTrace)?;
        session.find(txid, 0, &mut NoTrace)
    };
    let is_a_root = |txid: &Hash| {
        let mut blocks = store.blocks.as_slice().iter();
        let root =
            |block: &lineside_spv::layout::SpvBlock| block.root.each_ref().map(|word| word.load(Relaxed));
        blocks.any(|block| root(block) == store::words(txid))
    };
    while !input.is_empty() {
        step(&mut writer, &mut input, &find, &is_a_root);
    }
}

fn step(
    writer: &mut StoreWriter,
    input: &mut Input<'_>,
    find: &dyn Fn(&Hash) -> Option<TxLocation>,
    is_a_root: &dyn Fn(&Hash) -> bool,
) {
    let (number, action) = (input.byte(), input.byte());
    let txid = [number; 32];
    let block = BlockRef {
        hash: [number % 7; 32],
        root: [number % 7 + 100; 32],
        height: u32::from(number % 7),
    };
    match action % 5 {
        0 | 1 => {
            // The table may have contained another root for this block; admitting the block again keeps its slot.
            let ticket = writer.admit(&block);
            assert_eq!(writer.admit(&block), ticket);
            if writer.fill(&txid, ticket, u32::from(number)) {
                assert_eq!(find(&txid).map(|place| place.block_hash), Some(block.hash));
            } else {
                // The block was just admitted, so the fill can be refused only because a root equals the TXID.
                assert!(
                    is_a_root(&txid),
                    "the TXID was not filled, although it equals no root"
                );
            }
        }
        2 => {
            writer.invalidate(&txid);
            assert_eq!(find(&txid), None);
        }
        3 => {
            writer.drop_block(&block.hash);
            for number in 0..=255 {
                assert_ne!(
                    find(&[number; 32]).map(|place| place.block_hash),
                    Some(block.hash)
                );
            }
        }
        _ => {
            writer.begin();
            assert_eq!(find(&txid), None);
            let tip = Tip {
                hash: store::bytes(&[1, 2, 3, 4]),
                height: 5,
            };
            writer.commit(&tip, 1);
        }
    }
}
