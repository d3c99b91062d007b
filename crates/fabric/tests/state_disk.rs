//! Tests of a state on the disk with blocks of a real network: after restarts at any time and any damage of the
//! database, codes, hashes and keys are the same as with a state in memory.

use lineside_fabric::block::Block;
use lineside_fabric::ledger::{
    Blocks, LedgerError, OpenFindings, ReadOnlyLedger, Replica, Report, Setup, StateStore, verify_ledger,
};
use lineside_fabric::proto::{self, Arena};
use lineside_fabric::replay::read;
use lineside_fabric::state::{Entry, State, TxId};
use lineside_fabric::{Error, Options, Stop, TxCode, Validator};
use lineside_journal::{Disk, FsDisk};
use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// A key that some block writes or deletes.
type Key = (String, String, lineside_fabric::state::Key);

/// A recorded block with its results for a state in memory.
struct RecordedBlock {
    bytes: Vec<u8>,
    codes: Vec<TxCode>,
    commit_hash: Option<[u8; 32]>,
    /// Entry of each key of [`Oracle::keys`] after this block; `None` if the key does not exist.
    entries: Vec<Option<Entry>>,
}

struct Oracle {
    blocks: Vec<RecordedBlock>,
    keys: Vec<Key>,
}

fn recording() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let beside = root.join("../../../shared/data/fabric-blocks/dev");
    match beside.join("manifest.json").exists() {
        true => beside,
        false => root.join("tests/data/edge"),
    }
}

fn oracle() -> &'static Oracle {
    static ORACLE: OnceLock<Oracle> = OnceLock::new();
    ORACLE.get_or_init(|| {
        let directory = recording();
        let mut bytes = (0..).map_while(|number| read(&directory, number, "orderer").unwrap());
        let genesis = bytes.next().unwrap();
        let mut validators = [(); 2].map(|()| Validator::new(&genesis, Options::default()).unwrap());
        let mut blocks = vec![RecordedBlock {
            bytes: genesis,
            codes: vec![TxCode::Valid],
            commit_hash: None,
            entries: Vec::new(),
        }];
        let mut keys = BTreeSet::new();
        for bytes in bytes {
            let validated = validators[0].validate(&bytes).unwrap();
            for (namespace, space) in &validated.updates.namespaces {
                let public = std::iter::once(("", &space.public));
                let collections = space.collections.iter().map(|(name, keys)| (name.as_str(), keys));
                for (collection, of) in public.chain(collections) {
                    keys.extend(of.keys().map(|key| {
                        let (namespace, collection) = (namespace.clone(), collection.to_owned());
                        (namespace, collection, key.clone())
                    }));
                }
            }
            blocks.push(RecordedBlock {
                bytes,
                codes: validated.codes.clone(),
                commit_hash: validated.commit_hash,
                entries: Vec::new(),
            });
            validators[0].commit(validated);
        }
        let keys: Vec<Key> = keys.into_iter().collect();
        assert!(blocks.len() > 10 && keys.len() > 10, "{}", keys.len());
        for recorded in &mut blocks {
            let validator = &mut validators[1];
            if recorded.commit_hash.is_some() {
                let validated = validator.validate(&recorded.bytes).unwrap();
                validator.commit(validated);
            }
            recorded.entries = entries(validator.state(), &keys);
        }
        Oracle { blocks, keys }
    })
}

fn entries(state: &State, keys: &[Key]) -> Vec<Option<Entry>> {
    let get = |(namespace, collection, key): &Key| state.get(namespace, collection, key);
    keys.iter()
        .map(|key| get(key).map(|entry| entry.into_owned()))
        .collect()
}

/// Checks that `state` has the expected entries after the first `blocks` blocks.
fn compare(state: &State, blocks: u64) {
    let Oracle { blocks: all, keys } = oracle();
    let expected = &all[blocks as usize - 1].entries;
    let found = entries(state, keys);
    for ((key, found), expected) in keys.iter().zip(&found).zip(expected) {
        assert_eq!(found, expected, "{key:?} after {blocks} blocks");
    }
    assert_eq!(state.len(), expected.iter().flatten().count(), "{blocks} blocks");
    let namespaces: BTreeSet<&str> = keys.iter().map(|(namespace, ..)| namespace.as_str()).collect();
    for namespace in namespaces {
        let public: Vec<(&[u8], &Entry)> = keys
            .iter()
            .zip(expected)
            .filter(|((of, collection, _), _)| of == namespace && collection.is_empty())
            .filter_map(|((.., key), entry)| Some((&**key, entry.as_ref()?)))
            .collect();
        let ranges = [(0, public.len()), (1, 3), (public.len() / 2, public.len() / 2)];
        for (from, to) in ranges {
            let Some(of) = public.get(from..to) else { continue };
            let key_at = |at: usize| public.get(at).map_or(&b""[..], |(key, _)| key);
            let (start, end) = (key_at(from), key_at(to));
            let range: Vec<_> = state.range(namespace, start, end).collect();
            let range: Vec<(&[u8], &Entry)> = range.iter().map(|(key, entry)| (&**key, &**entry)).collect();
            assert_eq!(range, of, "{namespace}, {from} to {to}, after {blocks} blocks");
        }
    }
    state.check().unwrap();
}

fn setup(directory: &Path, checkpoint_after: u64) -> Setup {
    Setup {
        checkpoint_after,
        state: StateStore::Disk(directory.join("state")),
        ..Setup::default()
    }
}

fn open(directory: &Path) -> (Replica<FsDisk>, OpenFindings) {
    let disk = FsDisk::open(directory).unwrap();
    Replica::open(disk, setup(directory, 0), None).unwrap()
}

/// Adds blocks up to `until` and compares codes and hashes.
fn add(replica: &mut Replica<FsDisk>, until: u64) {
    for number in replica.next()..until {
        let recorded = &oracle().blocks[number as usize];
        let added = replica.add(recorded.bytes.clone()).unwrap();
        assert_eq!(
            (added.codes, added.commit_hash),
            (recorded.codes.clone(), recorded.commit_hash),
            "block {number}"
        );
    }
}

fn state(replica: &Replica<FsDisk>) -> &State {
    replica.validator().unwrap().state()
}

fn count() -> u64 {
    oracle().blocks.len() as u64
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

#[test]
fn a_replica_restarted_before_every_block_gives_the_same_results() {
    let directory = tempfile::tempdir().unwrap();
    for number in 0..count() {
        let (mut replica, opened) = open(directory.path());
        assert_eq!(opened.ledger.damaged, Vec::<String>::new());
        assert_eq!(opened.ledger.state_remade, None);
        add(&mut replica, number + 1);
        compare(state(&replica), number + 1);
        if number % 5 == 4 {
            replica.checkpoint().unwrap();
            compare(state(&replica), number + 1);
        }
        replica.stop().unwrap();
    }
    let report = verify(directory.path());
    assert_eq!(report.findings, Vec::<String>::new());
    assert_eq!((report.blocks, report.checkpoints), (count(), 1));
    assert_eq!(report.state_keys, Some(keys_after(count())));
}

fn verify(directory: &Path) -> Report {
    let disk = FsDisk::look(directory).unwrap();
    let state = StateStore::Disk(directory.join("state"));
    verify_ledger(&disk, &state, &Options::default(), &mut |_| {}).unwrap()
}

/// Returns the number of keys after the first `blocks` blocks.
fn keys_after(blocks: u64) -> u64 {
    oracle().blocks[blocks as usize - 1]
        .entries
        .iter()
        .flatten()
        .count() as u64
}

/// Applies `act` to the database of a ledger's state.
fn change(directory: &Path, act: impl FnOnce(&fjall::Keyspace)) {
    let database = fjall::Database::builder(directory.join("state/keys"))
        .open()
        .unwrap();
    let keys = database
        .keyspace("keys", fjall::KeyspaceCreateOptions::default)
        .unwrap();
    act(&keys);
    database.persist(fjall::PersistMode::SyncAll).unwrap();
}

#[test]
fn the_state_is_verified_with_its_ledger() {
    let (directory, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let half = count() / 2;
    let (mut replica, _) = open(directory.path());
    add(&mut replica, half);
    replica.stop().unwrap();
    copy(directory.path(), other.path());
    let (mut replica, _) = open(directory.path());
    add(&mut replica, count());
    let in_use = verify(directory.path());
    assert!(in_use.is_sound() && in_use.state_in_use && in_use.state_keys.is_none());
    replica.stop().unwrap();
    let found = |directory: &Path| {
        let report = verify(directory);
        assert!(!report.state_in_use);
        (report.state_keys, report.findings)
    };
    let all = keys_after(count());
    assert_eq!(found(directory.path()), (Some(all), vec![]));

    // A state that is older than the ledger is compared after its own last block. A state that is newer than the ledger
    // is reported as that of another ledger.
    let [state, older] = [&directory, &other].map(|of| of.path().join("state"));
    let newer = other.path().join("newer");
    fs::rename(&state, &newer).unwrap();
    copy(&older, &state);
    assert_eq!(found(directory.path()), (Some(keys_after(half)), vec![]));
    fs::remove_dir_all(&older).unwrap();
    copy(&newer, &older);
    let (keys, findings) = found(other.path());
    assert!(
        keys.is_none() && findings.len() == 1 && findings[0].contains("not among"),
        "{findings:?}"
    );

    // The report names a changed value, an additional key and a missing key.
    fs::remove_dir_all(&state).unwrap();
    copy(&newer, &state);
    let entry = |keys: &fjall::Keyspace| keys.iter().next().unwrap().into_inner().unwrap();
    let says = |what: &str| {
        let (keys, findings) = found(directory.path());
        assert!(
            keys == Some(all) && findings.len() == 1 && findings[0].contains(what),
            "{findings:?}"
        );
    };
    let mut kept = None;
    change(directory.path(), |keys| {
        let (place, value) = entry(keys);
        let mut bytes = value.to_vec();
        // Change the version in the entry; the entry remains well-formed.
        *bytes.last_mut().unwrap() ^= 1;
        keys.insert(place.clone(), bytes).unwrap();
        kept = Some((place, value));
    });
    says("another entry for key");
    let (place, value) = kept.unwrap();
    change(directory.path(), |keys| {
        keys.insert(place.clone(), value.clone()).unwrap();
        let longer = [&place[..], b"+"].concat();
        keys.insert(longer, value.clone()).unwrap();
    });
    says(&format!("{} keys, but the blocks give {all} keys", all + 1));
    change(directory.path(), |keys| {
        let longer = [&place[..], b"+"].concat();
        keys.remove(longer).unwrap();
        keys.remove(place).unwrap();
    });
    let (_, findings) = found(directory.path());
    assert!(
        findings.len() == 2 && findings[1].contains(&format!("{} keys", all - 1)),
        "{findings:?}"
    );
    fs::remove_dir_all(directory.path().join("state/keys")).unwrap();
    let (keys, findings) = found(directory.path());
    assert!(
        keys.is_none() && findings[0].contains("no valid state"),
        "{findings:?}"
    );
}

/// Reads blocks ahead while earlier blocks are executed, with checkpoints in between. The results must equal those with
/// a state in memory.
#[test]
fn replicas_with_a_state_on_the_disk_follow_one_another_across_checkpoints() {
    let directory = tempfile::tempdir().unwrap();
    let disk = FsDisk::open(directory.path()).unwrap();
    let (mut replica, _) = Replica::open(disk, setup(directory.path(), 20), None).unwrap();
    add(&mut replica, 1);
    let mut done = Vec::new();
    for recorded in &oracle().blocks[1..] {
        done.extend(replica.finish_after(recorded.bytes.clone()).unwrap());
    }
    while let Some(added) = replica.finish().unwrap() {
        done.push(added);
    }
    for (added, recorded) in done.iter().zip(&oracle().blocks[1..]) {
        assert_eq!(added.codes, recorded.codes, "block {}", added.number);
        assert_eq!(added.commit_hash, recorded.commit_hash, "block {}", added.number);
    }
    assert_eq!(replica.next(), count());
    compare(state(&replica), count());
    replica.stop().unwrap();
    let (replica, opened) = open(directory.path());
    assert!(
        opened.ledger.checkpoint > 0 && opened.ledger.replayed < count() - 1,
        "{opened:?}"
    );
    compare(state(&replica), count());
}

/// Combines a ledger and a state from different times. A state that is older than the ledger occurs after a crash; one
/// that is newer should never occur.
#[test]
fn a_state_behind_the_ledger_catches_up_and_one_ahead_of_it_is_rebuilt() {
    let moments = [1, count() / 3, count() / 2, count() - 1];
    let directory = tempfile::tempdir().unwrap();
    let copies = tempfile::tempdir().unwrap();
    let at = |moment: u64| copies.path().join(moment.to_string());
    let (mut replica, _) = open(directory.path());
    for (index, moment) in moments.into_iter().enumerate() {
        add(&mut replica, moment);
        if index == 2 {
            replica.checkpoint().unwrap();
        }
        // The database has the changes of all blocks after the replica has stopped.
        replica.stop().unwrap();
        copy(directory.path(), &at(moment));
        replica = open(directory.path()).0;
    }
    drop(replica);
    for ledger in moments {
        for of_state in moments {
            let mixed = tempfile::tempdir().unwrap();
            copy(&at(ledger), mixed.path());
            fs::remove_dir_all(mixed.path().join("state")).unwrap();
            copy(&at(of_state).join("state"), &mixed.path().join("state"));
            let (mut replica, opened) = open(mixed.path());
            assert_eq!(replica.next(), ledger);
            compare(state(&replica), ledger);
            if of_state <= ledger {
                assert_eq!(opened.ledger.state_remade, None, "{of_state} at {ledger}");
            } else {
                let why = opened.ledger.state_remade.unwrap();
                assert!(why.contains("not in the ledger"), "{why}");
            }
            add(&mut replica, count());
            compare(state(&replica), count());
            replica.stop().unwrap();
        }
    }
}

#[test]
fn memory_and_disk_take_turns_over_one_ledger() {
    let directory = tempfile::tempdir().unwrap();
    let steps = 6;
    for step in 1..=steps {
        let in_memory = step % 2 == 0;
        let mut setup = setup(directory.path(), 0);
        if in_memory {
            setup.state = StateStore::Memory;
        }
        let disk = FsDisk::open(directory.path()).unwrap();
        let (mut replica, opened) = Replica::open(disk, setup, None).unwrap();
        if step > 1 {
            // A checkpoint of a state in memory cannot be used for a state on the disk, and the other way round.
            assert_eq!((opened.ledger.checkpoint, opened.ledger.damaged.len()), (0, 1));
            compare(state(&replica), replica.next());
        }
        add(&mut replica, count() * step / steps);
        compare(state(&replica), replica.next());
        replica.checkpoint().unwrap();
        replica.stop().unwrap();
    }
}

/// Changes bytes of the database's files. The state is then still correct, or is rebuilt.
#[test]
fn a_damaged_database_is_never_used() {
    let directory = tempfile::tempdir().unwrap();
    let (mut replica, _) = open(directory.path());
    let blocks = count() / 2;
    add(&mut replica, blocks);
    replica.checkpoint().unwrap();
    replica.stop().unwrap();
    let mut files = Vec::new();
    let mut folders = vec![directory.path().join("state")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.metadata().unwrap().len() > 0 {
                files.push(path);
            }
        }
    }
    assert!(!files.is_empty());
    let mut tried = 0;
    for file in files {
        let bytes = fs::read(&file).unwrap();
        let used = bytes
            .iter()
            .rposition(|byte| *byte != 0)
            .map_or(0, |last| last + 1);
        for at in (0..used).step_by(used.div_ceil(8).max(1)) {
            let damaged = tempfile::tempdir().unwrap();
            copy(directory.path(), damaged.path());
            let mut bytes = bytes.clone();
            bytes[at] ^= 0x10;
            let file = damaged.path().join(file.strip_prefix(directory.path()).unwrap());
            fs::write(&file, bytes).unwrap();
            let (mut replica, _) = open(damaged.path());
            compare(state(&replica), blocks);
            add(&mut replica, blocks + 2);
            tried += 1;
        }
    }
    assert!(tried > 20, "{tried}");
}

/// Overwrites the value of every key with bytes that no version of this program writes.
fn spoil(directory: &Path) {
    let database = fjall::Database::builder(directory.join("keys")).open().unwrap();
    let keys = database
        .keyspace("keys", fjall::KeyspaceCreateOptions::default)
        .unwrap();
    let all: Vec<_> = keys.iter().map(|guard| guard.key().unwrap()).collect();
    assert!(all.len() > 10);
    // The mark and the links come after the keys.
    for key in all.into_iter().filter(|key| !key.starts_with(&[0xff; 4])) {
        keys.insert(key, b"not a value").unwrap();
    }
}

#[test]
fn a_state_that_cannot_be_read_stops_the_replica() {
    let directory = tempfile::tempdir().unwrap();
    let (mut replica, _) = open(directory.path());
    let blocks = count() / 2;
    add(&mut replica, blocks);
    replica.checkpoint().unwrap();
    replica.stop().unwrap();
    spoil(&directory.path().join("state"));
    let (mut replica, _) = open(directory.path());
    let mut refused = None;
    for number in blocks..count() {
        match replica.add(oracle().blocks[number as usize].bytes.clone()) {
            Ok(added) => assert_eq!(added.codes, oracle().blocks[number as usize].codes),
            Err(error) => {
                refused = Some(error);
                break;
            }
        }
    }
    let Some(LedgerError::Validation {
        number,
        source: Error::Stop(Stop::State { what }),
    }) = refused
    else {
        panic!("{refused:?}");
    };
    assert!(what.contains("unknown form"), "{what}");
    // Further blocks fail too, but stored blocks can still be read.
    assert!(
        replica
            .add(oracle().blocks[number as usize].bytes.clone())
            .is_err()
    );
    assert_eq!(replica.next(), number);
    let stored = replica.blocks();
    replica.flush().unwrap();
    assert!(stored.block(number - 1).unwrap().bytes == oracle().blocks[number as usize - 1].bytes);
    drop((replica, stored));
    let (mut replica, opened) = open(directory.path());
    let why = opened.ledger.state_remade.unwrap();
    assert!(why.contains("damaged"), "{why}");
    compare(state(&replica), number);
    add(&mut replica, count());
    compare(state(&replica), count());
}

#[test]
fn a_ledger_can_be_read_while_a_replica_writes_it() {
    let directory = tempfile::tempdir().unwrap();
    let (mut replica, _) = open(directory.path());
    add(&mut replica, 8);
    replica.checkpoint().unwrap();
    let look = |state: Option<&StateStore>| {
        let disk = FsDisk::look(directory.path()).unwrap();
        ReadOnlyLedger::open(disk, &Options::default(), state)
    };
    let on_disk = StateStore::Disk(directory.path().join("state"));
    match look(Some(&on_disk)).map(|_| ()) {
        Err(LedgerError::State { what }) => assert!(what.contains("another process"), "{what}"),
        other => panic!("{other:?}"),
    }
    compare(look(Some(&StateStore::Memory)).unwrap().validator.state(), 8);
    // The transaction ids are in the state's folder, and can be read without the state.
    let blocks = {
        let disk = FsDisk::look(directory.path()).unwrap();
        ReadOnlyLedger::open_without_state(disk, &Options::default(), &directory.path().join("state"))
            .unwrap()
    };
    assert!(blocks.found.checkpoint > 0);
    ids_are_known(&blocks.blocks, 8);
    assert_eq!(look(None).unwrap().found.checkpoint, 0);
    assert_eq!(blocks.blocks.count(), 8);
    assert!(blocks.validator.state().check().is_err());
    replica.stop().unwrap();
    let looked = look(Some(&on_disk)).unwrap();
    assert!(looked.found.checkpoint > 0);
    compare(looked.validator.state(), 8);
    // A ledger that is opened for reading only does not rebuild a missing state.
    drop(looked);
    fs::remove_dir_all(directory.path().join("state")).unwrap();
    assert!(matches!(look(Some(&on_disk)), Err(LedgerError::State { .. })));
    assert!(!directory.path().join("state").exists());
}

/// Returns the ids of a block's transactions, if they can be parsed.
fn ids_of(bytes: &[u8]) -> Vec<Option<TxId>> {
    let arena = Arena::new();
    let block = Block::read(bytes, &arena).unwrap();
    let id = |envelope: &[u8]| {
        let envelope: proto::Envelope<'_> = proto::decode(envelope, &arena).ok()?;
        let payload: proto::Payload<'_> = proto::decode(envelope.payload, &arena).ok()?;
        let header: proto::ChannelHeader<'_> = proto::decode(payload.header?.channel_header, &arena).ok()?;
        (!header.tx_id.is_empty()).then(|| TxId::new(header.tx_id))
    };
    block.transactions.iter().map(|envelope| id(envelope)).collect()
}

/// Compares position and code of each transaction in the first `count` blocks with the ledger's index.
fn ids_are_known<D: Disk>(blocks: &Blocks<D>, count: u64) {
    let mut first = HashMap::new();
    for number in 0..count {
        let recorded = &oracle().blocks[number as usize];
        for (index, id) in ids_of(&recorded.bytes).into_iter().enumerate() {
            if let Some(id) = id {
                first
                    .entry(id)
                    .or_insert((number, index as u64, recorded.codes[index]));
            }
        }
    }
    assert!(first.len() > 20, "{}", first.len());
    for (id, place) in first {
        let found = blocks
            .transaction(&id)
            .unwrap()
            .map(|of| (of.block, of.index, of.code));
        assert_eq!(found, Some(place), "{id:?} after {count} blocks");
    }
    assert_eq!(blocks.transaction(&TxId::Hash([7; 32])).unwrap(), None);
}

/// Creates a ledger of all blocks with a checkpoint after half of them.
fn half_checkpointed() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let (mut replica, _) = open(directory.path());
    add(&mut replica, count() / 2);
    replica.checkpoint().unwrap();
    add(&mut replica, count());
    replica.stop().unwrap();
    directory
}

/// After a restart, ids and codes come from their files and from the blocks after the checkpoint. The validator holds
/// no ids in memory, but finds all ids.
#[test]
fn ids_are_known_after_restarts_without_all_blocks() {
    let directory = half_checkpointed();
    let (mut replica, opened) = open(directory.path());
    assert_eq!(opened.ledger.damaged, Vec::<String>::new());
    assert_eq!(
        (opened.ledger.replayed, opened.ledger.ids_remade.len()),
        (count() - count() / 2, 0)
    );
    let validator = replica.validator().unwrap();
    assert_eq!(validator.ids().len(), 0);
    ids_are_known(&replica.blocks(), count());
    for recorded in &oracle().blocks {
        for id in ids_of(&recorded.bytes).iter().flatten() {
            assert!(validator.ids().contains(id), "{id:?}");
        }
    }
    assert!(!validator.ids().contains(&TxId::Hash([7; 32])));
    replica.checkpoint().unwrap();
    drop(replica);
    let (replica, opened) = open(directory.path());
    assert_eq!(opened.ledger.replayed, 0);
    ids_are_known(&replica.blocks(), count());
    drop(replica);
    assert_eq!(verify(directory.path()).findings, Vec::<String>::new());
}

/// If a file of ids is missing or changed, a report names it and the ids are rebuilt from the blocks. The state is not
/// rebuilt.
#[test]
fn files_of_ids_that_are_damaged_are_named() {
    let sound = half_checkpointed();
    let file = |directory: &Path| directory.join("state/ids/transactions");
    let length = fs::metadata(file(sound.path())).unwrap().len();
    for (at, what) in [
        (None, "No such file"),
        (Some(3), "does not begin"),
        (Some(4_096 + 10), "page 0 "),
        (Some(length - 1), "page"),
    ] {
        let directory = tempfile::tempdir().unwrap();
        copy(sound.path(), directory.path());
        let path = file(directory.path());
        match at {
            None => fs::remove_file(&path).unwrap(),
            Some(at) => {
                let mut bytes = fs::read(&path).unwrap();
                bytes[at as usize] ^= 1;
                fs::write(&path, bytes).unwrap();
            }
        }
        let findings = verify(directory.path()).findings;
        let (replica, opened) = open(directory.path());
        // Entries after the checkpoint are ignored at the start and added again by the replay, so damage to their page
        // is not reported; other damage is, and all blocks are replayed.
        let said = opened.ledger.damaged.join(" ");
        if opened.ledger.replayed == count() {
            assert!(said.contains("ids/transactions") && said.contains(what), "{said}");
            assert!(findings[0].contains("ids/transactions"), "{findings:?}");
        } else {
            assert!(at == Some(length - 1) && said.is_empty(), "{said}");
        }
        assert_eq!(opened.ledger.state_remade, None);
        ids_are_known(&replica.blocks(), count());
        compare(state(&replica), count());
        drop(replica);
        let (_, again) = open(directory.path());
        assert_eq!(again.ledger.state_remade, None);
    }
}
