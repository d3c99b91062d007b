//! Tests of the state on the disk: compare it with a state in memory, with intact and damaged files.

use super::*;
use crate::state::{Height, State};
use lineside_testkit::Random;

const NAMESPACES: [&str; 4] = ["", "a", "ab", "b"];
const COLLECTIONS: [&str; 4] = ["", "", "one", "two"];
const KEYS: [&[u8]; 9] = [
    b"",
    b"\0",
    b"a",
    b"a\0",
    b"ab",
    b"b",
    b"\xff",
    b"\xff\xff",
    b"\xff\xff\xff\xff\xff",
];

fn updates(random: &mut Random, block: u64) -> Updates {
    let mut updates = Updates::default();
    for tx in 0..random.index(12) as u64 {
        let value = (random.index(3) > 0).then(|| {
            let parameter: Option<&[u8]> =
                [None, None, Some(&b""[..]), Some(&b"policy"[..])][random.index(4)];
            let value = &random.next().to_be_bytes()[..random.index(9)];
            (value.into(), parameter.map(Into::into))
        });
        let version = Height { block, tx };
        let (namespace, collection) = (NAMESPACES[random.index(4)], COLLECTIONS[random.index(4)]);
        let key = KEYS[random.index(KEYS.len())];
        updates.put(namespace, collection, key, Update { value, version });
        if collection == "two" {
            updates.set_life(namespace, collection, LIVES[place_of_namespace(namespace)]);
        }
    }
    updates
}

/// `blockToLive` of the collection `two` of each namespace, in the order of `NAMESPACES`.
const LIVES: [u64; 4] = [1, 3, 20, u64::MAX];

fn place_of_namespace(namespace: &str) -> usize {
    NAMESPACES.iter().position(|of| *of == namespace).unwrap()
}

/// Returns the keys that expire with a block, computed from the versions of all keys.
fn due(state: &State, number: u64) -> Vec<ExpiringKey> {
    let mut due = Vec::new();
    state.each(&mut |namespace, collection, key, entry| {
        if collection == "two" {
            let life = LIVES[place_of_namespace(namespace)];
            if u128::from(entry.version.block) + u128::from(life) + 1 == u128::from(number) {
                due.push(ExpiringKey {
                    namespace: namespace.to_owned(),
                    collection: collection.to_owned(),
                    key: Key::from_slice(key),
                    life,
                });
            }
        }
    });
    due.sort();
    due
}

fn same(disk: &State, memory: &State) {
    for namespace in NAMESPACES.into_iter().chain(["none"]) {
        for collection in COLLECTIONS {
            for key in KEYS {
                let [a, b] = [disk, memory].map(|state| state.get(namespace, collection, key));
                assert_eq!(a, b, "{namespace}, {collection}, {key:?}");
            }
        }
        for start in KEYS {
            for end in KEYS {
                let [a, b] =
                    [disk, memory].map(|state| state.range(namespace, start, end).collect::<Vec<_>>());
                assert_eq!(a, b, "{namespace}, {start:?} to {end:?}");
                let [a, b] = [disk, memory].map(|state| {
                    let keys = state.range_of(namespace, "one", start, end);
                    keys.collect::<Vec<_>>()
                });
                assert_eq!(a, b, "{namespace}, collection one, {start:?} to {end:?}");
            }
        }
    }
    let all = |state: &State| {
        let mut all = Vec::new();
        state.each(&mut |namespace, collection, key, entry| {
            all.push((
                namespace.to_owned(),
                collection.to_owned(),
                key.to_vec(),
                format!("{entry:?}"),
            ));
        });
        all.sort();
        all
    };
    assert_eq!(all(disk), all(memory));
    assert_eq!((disk.len(), memory.len()), (all(disk).len(), all(disk).len()));
    for number in 0..90 {
        let expected = due(memory, number);
        for state in [disk, memory] {
            let mut found = state.expiring_with(number);
            found.sort();
            assert_eq!(found, expected, "block {number}");
        }
    }
    // Build another state in memory whose expiry schedule comes only from the versions of the keys.
    let mut again = State::from(memory.in_memory().unwrap().clone());
    for namespace in NAMESPACES {
        again.schedule(namespace, "two", LIVES[place_of_namespace(namespace)]);
    }
    for number in 0..90 {
        let mut found = again.expiring_with(number);
        found.sort();
        assert_eq!(found, due(memory, number), "block {number}");
    }
    disk.check().unwrap();
}

/// Compares a state on the disk, through writes and restarts at random moments, with a state in memory.
#[test]
fn a_state_on_the_disk_equals_one_in_memory() {
    let mut random = Random(1);
    for _ in 0..6 {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state");
        let (opened, remade) = Disk::open(&path).unwrap();
        assert_eq!(remade, None);
        let (mut disk, mut memory) = (State::from(opened), State::default());
        let mut blocks: Vec<Updates> = Vec::new();
        for number in 1..60 {
            let next = updates(&mut random, number);
            disk.apply(DurableMark::of(number), next.clone());
            memory.apply(DurableMark::of(number), next.clone());
            blocks.push(next);
            if random.index(3) == 0 {
                let durable = number + 1 - random.index(4).min(number as usize) as u64;
                match random.index(4) {
                    0 => disk.write_durable(durable).unwrap(),
                    often => disk.settle_behind(durable, often == 1).unwrap(),
                }
            }
            if random.index(8) == 0 {
                drop(disk);
                disk = State::from(Disk::open(&path).unwrap().0);
                for (number, updates) in (1..).zip(&blocks) {
                    disk.apply(DurableMark::of(number), updates.clone());
                }
            }
            if random.index(4) == 0 {
                same(&disk, &memory);
            }
        }
        same(&disk, &memory);
        disk.write_durable(60).unwrap();
        assert_eq!(disk.namespaces(), memory.namespaces());
        assert!(disk.namespaces().len() > 8, "{:?}", disk.namespaces());
    }
}

#[test]
fn a_database_without_its_mark_is_rebuilt() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("state");
    let (disk, _) = Disk::open(&path).unwrap();
    disk.keys.insert(db_key("a", "", b"key"), b"value").unwrap();
    drop(disk);
    let (disk, remade) = Disk::open(&path).unwrap();
    assert!(remade.is_some() && disk.durable_mark().is_none());
    assert_eq!(disk.get("a", "", b"key"), None);
}

/// Stores the longest possible key, and queries longer ones.
#[test]
fn the_longest_keys_that_fjall_accepts_are_stored() {
    let directory = tempfile::tempdir().unwrap();
    let (disk, _) = Disk::open(directory.path()).unwrap();
    let (mut disk, mut memory) = (State::from(disk), State::default());
    let longest = PLACE_BYTES_MAX - HEAD_BYTES - "a".len();
    let keys: Vec<Vec<u8>> = [longest - 1, longest, longest + 1, longest + 2, 2 * longest]
        .into_iter()
        .flat_map(|length| [b'k', b'l'].map(|byte| vec![byte; length]))
        .collect();
    let update = Update {
        value: Some((b"value"[..].into(), None)),
        version: Height { block: 1, tx: 0 },
    };
    let mut updates = Updates::default();
    for key in &keys {
        let mut one = Updates::default();
        one.put("a", "", key, update.clone());
        let too_long = disk.too_long(&one);
        assert_eq!(too_long.is_some(), key.len() > longest, "{}", key.len());
        assert_eq!(memory.too_long(&one), None);
        if too_long.is_none() {
            updates.put("a", "", key, update.clone());
        }
    }
    disk.apply(DurableMark::of(1), updates.clone());
    memory.apply(DurableMark::of(1), updates);
    for settled in [1, 2] {
        disk.write_durable(settled).unwrap();
        for key in &keys {
            assert_eq!(disk.get("a", "", key), memory.get("a", "", key));
            for end in keys.iter().map(Vec::as_slice).chain([&b""[..]]) {
                let [a, b] = [&disk, &memory].map(|of| of.range("a", key, end).collect::<Vec<_>>());
                assert!(
                    a == b,
                    "{} to {}, {} of {}",
                    key.len(),
                    end.len(),
                    a.len(),
                    b.len()
                );
            }
        }
        disk.check().unwrap();
    }
}

/// Writes enough that logs are rotated and tables written. Returns the expected state after each block.
fn grown(path: &Path) -> Vec<State> {
    let (mut disk, _) = Disk::open(path).unwrap();
    let mut all = vec![State::default()];
    let mut updates = Vec::new();
    for number in 1..=90 {
        let mut next = Updates::default();
        for tx in 0..10 {
            let key = (number * 7 + tx * 13) % 120;
            let value = vec![number as u8; 90];
            let version = Height { block: number, tx };
            let value = (tx < 8).then(|| (value.into(), None));
            next.put("a", "", &key.to_be_bytes(), Update { value, version });
        }
        updates.push(next.clone());
        disk.apply(DurableMark::of(number), next);
        disk.write_durable(number + 1).unwrap();
        let mut memory = State::default();
        for (number, updates) in (1..).zip(&updates) {
            memory.apply(DurableMark::of(number), updates.clone());
        }
        all.push(memory);
    }
    disk.sync()().unwrap();
    all
}

fn files(folder: &Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let all = entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] });
    all.collect()
}

fn copy(from: &Path, to: &Path) {
    for file in files(from) {
        let copied = to.join(file.strip_prefix(from).unwrap());
        std::fs::create_dir_all(copied.parent().unwrap()).unwrap();
        std::fs::copy(file, copied).unwrap();
    }
}

/// After a change of any byte, the state equals the state after some block, or reading reports a failure.
#[test]
fn a_damaged_database_is_rebuilt_or_has_the_state_of_some_block() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("state");
    let moments = grown(&path);
    let all = files(&path);
    let of = |what: &str| {
        all.iter()
            .filter(|file| file.to_str().unwrap().contains(what))
            .count()
    };
    assert!(of("/tables/") > 0 && of(".jnl") > 0, "{all:?}");
    let (mut remade, mut refused, mut right) = (0, 0, 0);
    for file in all {
        let bytes = std::fs::read(&file).unwrap();
        let used = bytes
            .iter()
            .rposition(|byte| *byte != 0)
            .map_or(0, |last| last + 1);
        // More bytes are changed in short files. They include the lists of tables, which record which of two tables is
        // newer.
        let tries = if used < 2_048 { 48 } else { 12 };
        for at in (0..used).step_by(used.div_ceil(tries).max(1)) {
            let damaged = tempfile::tempdir().unwrap();
            copy(&path, damaged.path());
            let mut bytes = bytes.clone();
            bytes[at] ^= 0x10;
            let place = file.strip_prefix(&path).unwrap();
            std::fs::write(damaged.path().join(place), bytes).unwrap();
            let (disk, why) = Disk::open(damaged.path()).unwrap();
            let mark = disk.durable_mark();
            assert_eq!(why.is_some(), mark.is_none(), "{place:?} at {at}");
            let disk = State::from(disk);
            let memory = &moments[mark.map_or(0, |mark| mark.last as usize)];
            let range = |state: &State| {
                let keys = state.range("a", b"", b"");
                keys.map(|(key, entry)| (key.into_owned(), entry.into_owned()))
                    .collect::<Vec<_>>()
            };
            let found = range(&disk);
            if disk.check().is_err() {
                refused += 1;
            } else {
                assert!(found == range(memory), "{place:?} at {at}, {mark:?}");
                *(if why.is_some() { &mut remade } else { &mut right }) += 1;
            }
        }
    }
    assert!(remade > 0 && refused + right > 0, "{remade}, {refused}, {right}");
}

/// After the loss of a batch in the middle of a log, later batches are not used.
#[test]
fn a_missing_batch_is_noticed() {
    for missing in [75, 80, 89, 90] {
        let directory = tempfile::tempdir().unwrap();
        grown(directory.path());
        let (disk, why) = Disk::open(directory.path()).unwrap();
        assert_eq!((why, disk.durable_mark()), (None, Some(DurableMark::of(90))));
        disk.keys.remove(link(missing)).unwrap();
        drop(disk);
        let (disk, why) = Disk::open(directory.path()).unwrap();
        assert!(why.is_some() && disk.durable_mark().is_none(), "{missing}");
    }
}

#[test]
fn files_without_our_marker_are_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let other = directory.path().join("file");
    std::fs::write(&other, "somebody's").unwrap();
    assert!(!Disk::is_at(directory.path()));
    for opened in [
        Disk::open(directory.path()).map(drop),
        Disk::create_empty(directory.path()).map(drop),
    ] {
        assert_eq!(opened.unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    }
    assert!(Disk::open_read_only(directory.path()).is_err());
    assert!(Disk::remove(directory.path()).is_err());
    assert_eq!(std::fs::read(&other).unwrap(), b"somebody's");
    // If the state directory is given as a symbolic link, the content of the directory is changed, not the link.
    let (there, link) = (directory.path().join("there"), directory.path().join("link"));
    std::fs::create_dir(&there).unwrap();
    std::os::unix::fs::symlink(&there, &link).unwrap();
    drop(Disk::open(&link).unwrap());
    assert!(Disk::is_at(&there));
    drop(Disk::create_empty(&link).unwrap());
    Disk::remove(&link).unwrap();
    assert!(link.is_symlink() && std::fs::read_dir(&there).unwrap().next().is_none());
    // A state directory that is not a link is removed completely.
    drop(Disk::open(&there).unwrap());
    Disk::remove(&there).unwrap();
    assert!(!there.exists());
}

#[test]
fn a_database_that_crashes_its_reader_is_rebuilt() {
    let directory = tempfile::tempdir().unwrap();
    let folder = StateFolder(directory.path().to_owned());
    drop(grown(directory.path()));
    for (endings, remade) in [(0, false), (1, false), (2, true), (1, false)] {
        std::fs::write(directory.path().join("opening"), endings.to_string()).unwrap();
        let (_, why) = Disk::open(directory.path()).unwrap();
        assert_eq!(why.is_some(), remade, "{endings}: {why:?}");
    }
    assert!(folder.is_damaged().is_none());
    // An error that only prevents access, such as a missing permission, does not count as damage.
    for error in [io::ErrorKind::PermissionDenied, io::ErrorKind::StorageFull] {
        assert!(!is_damage(&fjall::Error::Io(error.into())));
    }
    assert!(is_damage(&fjall::Error::Io(io::ErrorKind::UnexpectedEof.into())));
}

#[test]
fn the_end_of_a_prefixs_range_is_the_next_prefix() {
    assert_eq!(after(&[1, 2]), [1, 3]);
    assert_eq!(after(&[1, 0xff]), [2]);
    assert!(after(&[0xff]).is_empty());
}
