//! Tests of the history of keys with blocks of a real network: with the index, without it, and with a damaged one.

use lineside_fabric::block::Block;
use lineside_fabric::history::{KeyWrite, of_block, of_key, of_transaction};
use lineside_fabric::ledger::{
    Blocks, ExpectedHashes, ReadOnlyLedger, Replica, Setup, StateStore, export, join,
};
use lineside_fabric::proto::{
    self, Arena, ChaincodeAction, ChaincodeActionPayload, ChannelHeader, Envelope, KvRwSet, Payload,
    ProposalResponsePayload, Transaction, TxReadWriteSet,
};
use lineside_fabric::replay::read;
use lineside_fabric::state::TxId;
use lineside_fabric::{Options, TxCode};
use lineside_journal::SimDisk;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Header type of endorser transactions.
const ENDORSER_TRANSACTION: i32 = 3;

fn edge() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/edge")
}

/// Returns the recorded sets, including those outside the repository if they exist.
fn sets() -> Vec<PathBuf> {
    let mut sets = vec![edge()];
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/fabric-blocks");
    for set in ["dev", "dev-edge"] {
        match root.join(set).join("manifest.json").exists() {
            true => sets.push(root.join(set)),
            false => eprintln!(
                "skipped: there are no recorded blocks at {}",
                root.join(set).display()
            ),
        }
    }
    sets
}

type Key = (String, Vec<u8>);
/// Block number, index of the transaction in the block, and value.
type HistoryEntry = (u64, u64, Option<Vec<u8>>);

/// Collects every write of a block's valid transactions. This function decodes the block itself, independently of the
/// code under test.
fn writes_in(number: u64, bytes: &[u8], codes: &[u8], all: &mut BTreeMap<Key, Vec<HistoryEntry>>) {
    let arena = Arena::new();
    let block = Block::read(bytes, &arena).unwrap();
    for (tx, envelope) in block
        .transactions
        .iter()
        .enumerate()
        .filter(|(tx, _)| codes[*tx] == 0)
    {
        let envelope: Envelope<'_> = proto::decode(envelope, &arena).unwrap();
        let payload: Payload<'_> = proto::decode(envelope.payload, &arena).unwrap();
        let header = payload.header.unwrap().channel_header;
        let header: ChannelHeader<'_> = proto::decode(header, &arena).unwrap();
        if header.kind != ENDORSER_TRANSACTION {
            continue;
        }
        let transaction: Transaction<'_> = proto::decode(payload.data, &arena).unwrap();
        for action in transaction.actions {
            let payload: ChaincodeActionPayload<'_> = proto::decode(action.payload, &arena).unwrap();
            let response = payload.action.unwrap().proposal_response_payload;
            let response: ProposalResponsePayload<'_> = proto::decode(response, &arena).unwrap();
            let action: ChaincodeAction<'_> = proto::decode(response.extension, &arena).unwrap();
            let set: TxReadWriteSet<'_> = proto::decode(action.results, &arena).unwrap();
            for of in set.ns_rwset {
                let keys: KvRwSet<'_> = proto::decode(of.rwset, &arena).unwrap();
                for write in keys.writes {
                    let value = (!write.is_delete && !write.value.is_empty()).then(|| write.value.to_vec());
                    let key = (of.namespace.to_owned(), write.key.as_bytes().to_vec());
                    all.entry(key).or_default().push((number, tx as u64, value));
                }
            }
        }
    }
}

fn replica_of(disk: &SimDisk, index: &Path) -> Replica<SimDisk> {
    let setup = Setup {
        history: Some(index.to_owned()),
        ..Setup::default()
    };
    Replica::open(disk.clone(), setup, None).unwrap().0
}

fn written(writes: &[KeyWrite]) -> Vec<HistoryEntry> {
    writes
        .iter()
        .map(|write| (write.block, write.tx, write.value.clone()))
        .collect()
}

fn compare(blocks: &Blocks<SimDisk>, index: &Path, all: &BTreeMap<Key, Vec<HistoryEntry>>, step: usize) {
    for ((namespace, key), expected) in all.iter().step_by(step) {
        let found = of_key(blocks, index, namespace, key).unwrap();
        assert_eq!(written(&found), *expected, "{namespace} {}", key.escape_ascii());
    }
    assert!(of_key(blocks, index, "kv", b"never written").unwrap().is_empty());
}

#[test]
fn every_write_of_every_key_is_found() {
    for set in sets() {
        let folder = tempfile::tempdir().unwrap();
        let index = folder.path().join("history");
        let disk = SimDisk::new(1);
        let mut all = BTreeMap::new();
        let mut number = 0;
        while let Some(bytes) = read(&set, number, "orderer").unwrap() {
            // A replica that is opened again continues the index; the result is the same as without a restart.
            let mut replica = replica_of(&disk, &index);
            let added = replica.add(bytes.clone()).unwrap();
            replica.stop().unwrap();
            let codes: Vec<u8> = added.codes.iter().map(|code| *code as u8).collect();
            writes_in(number, &bytes, &codes, &mut all);
            number += 1;
        }
        let several = all.values().filter(|writes| writes.len() > 1).count();
        assert!(all.len() > 100 && several > 10, "{} {several}", all.len());
        let look =
            ReadOnlyLedger::open(disk.clone(), &Options::default(), Some(&StateStore::Memory)).unwrap();
        let step = all.len() / 60;
        compare(&look.blocks, &index, &all, step);
        // The last write of a key is its entry in the state.
        for ((namespace, key), writes) in &all {
            let (block, tx, value) = writes.last().unwrap();
            let entry = look.validator.state().get(namespace, "", key);
            assert_eq!(entry.as_ref().map(|entry| entry.value.to_vec()), *value);
            assert!(entry.is_none_or(|entry| (entry.version.block, entry.version.tx) >= (*block, *tx)));
        }
        // The result is the same without the index, and with an index that was made from all blocks in one step.
        let none = folder.path().join("none");
        compare(&look.blocks, &none, &all, step * 4);
        let other = folder.path().join("other");
        replica_of(&disk, &other).stop().unwrap();
        let size = std::fs::metadata(&index).unwrap().len();
        assert_eq!(
            size,
            std::fs::metadata(&other).unwrap().len(),
            "the same number of fingerprints"
        );
        compare(&look.blocks, &other, &all, step * 4);
        // The index has a fingerprint of every key.
        let entries: u64 = size - 40 - 16 * number;
        assert!(
            entries / 4 >= all.len() as u64,
            "{entries} bytes for {} keys",
            all.len()
        );
    }
}

#[test]
fn a_damaged_or_foreign_history_index_is_rebuilt() {
    let folder = tempfile::tempdir().unwrap();
    let index = folder.path().join("history");
    let disk = SimDisk::new(1);
    let mut all = BTreeMap::new();
    let mut replica = replica_of(&disk, &index);
    for number in 0..10 {
        let bytes = read(&edge(), number, "orderer").unwrap().unwrap();
        let codes: Vec<u8> = replica
            .add(bytes.clone())
            .unwrap()
            .codes
            .iter()
            .map(|code| *code as u8)
            .collect();
        writes_in(number, &bytes, &codes, &mut all);
    }
    let blocks = replica.blocks();
    replica.stop().unwrap();
    let whole = std::fs::read(&index).unwrap();
    let step = all.len() / 5;
    for at in (0..whole.len()).step_by(whole.len() / 40) {
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        std::fs::write(&index, &damaged).unwrap();
        compare(&blocks, &index, &all, step);
        std::fs::write(&index, &whole[..at]).unwrap();
        compare(&blocks, &index, &all, step);
        if at % 7 == 0 {
            // A replica repairs the index.
            std::fs::write(&index, damaged).unwrap();
            replica_of(&disk, &index).stop().unwrap();
            assert_eq!(std::fs::read(&index).unwrap().len(), whole.len());
            compare(&blocks, &index, &all, step);
        }
    }
}

#[test]
fn blocks_are_found_by_number_by_hash_and_by_transaction() {
    let disk = SimDisk::new(1);
    let (mut replica, _) = Replica::open(disk.clone(), Setup::default(), None).unwrap();
    for number in 0..14 {
        let bytes = read(&edge(), number, "orderer").unwrap().unwrap();
        replica.add(bytes).unwrap();
    }
    replica.flush().unwrap();
    let blocks = replica.blocks();
    let (mut transactions, mut again) = (0, 0);
    for number in 0..14 {
        let mut all = BTreeMap::new();
        let stored = blocks.block(number).unwrap();
        writes_in(number, &stored.bytes, &stored.codes, &mut all);
        let found = of_block(&blocks, number).unwrap();
        assert_eq!(found.len(), all.values().map(Vec::len).sum::<usize>());
        for write in &found {
            let place = blocks.transaction(&TxId::new(&write.id)).unwrap().unwrap();
            // If several transactions of a block have the same id, the first one is found, although a later one may be
            // the valid one.
            assert_eq!(place.block, number);
            assert!(place.index == write.tx && place.code == TxCode::Valid || place.index < write.tx);
            again += u64::from(place.index < write.tx);
            assert!(write.time.0 > 1_500_000_000, "{:?}", write.time);
            let of = of_transaction(&blocks, &TxId::new(&write.id)).unwrap();
            assert!(of.contains(write) && of.iter().all(|other| other.id == write.id));
            transactions += 1;
        }
    }
    assert!(transactions > 500 && again > 0, "{transactions} {again}");
    let error = of_transaction(&blocks, &TxId::new("none"))
        .unwrap_err()
        .to_string();
    assert!(error.contains("no transaction with the id none"), "{error}");
}

/// In a joined ledger, the history begins with the block after the snapshot.
#[test]
fn a_joined_ledger_has_the_history_of_its_own_blocks() {
    let folder = tempfile::tempdir().unwrap();
    let disk = SimDisk::new(1);
    let (mut replica, _) = Replica::open(disk.clone(), Setup::default(), None).unwrap();
    let bytes = |number| read(&edge(), number, "orderer").unwrap().unwrap();
    for number in 0..6 {
        replica.add(bytes(number)).unwrap();
    }
    replica.stop().unwrap();
    let snapshot = folder.path().join("snapshot");
    let look = ReadOnlyLedger::open(disk, &Options::default(), Some(&StateStore::Memory)).unwrap();
    export(&look, &snapshot).unwrap();
    let disk = SimDisk::new(2);
    join(
        disk.clone(),
        &Setup::default(),
        &snapshot,
        &ExpectedHashes::default(),
        &mut |_| {},
    )
    .unwrap();
    let index = folder.path().join("history");
    let mut replica = replica_of(&disk, &index);
    let mut all = BTreeMap::new();
    for number in 6..14 {
        let codes: Vec<u8> = replica
            .add(bytes(number))
            .unwrap()
            .codes
            .iter()
            .map(|code| *code as u8)
            .collect();
        writes_in(number, &bytes(number), &codes, &mut all);
    }
    replica.flush().unwrap();
    let blocks = replica.blocks();
    replica.stop().unwrap();
    compare(&blocks, &index, &all, all.len() / 40);
}
