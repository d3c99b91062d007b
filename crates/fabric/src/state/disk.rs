//! The state in a database on the disk, and in memory what the last blocks do to it.
//!
//! What a block does goes to the database when the block is durable in the ledger, all of it in one step with the
//! block's number and hash, the mark. So the database is never ahead of the ledger; after a crash it may be behind,
//! and the blocks after its mark are executed again. A database that cannot be read, or whose mark is not in the
//! ledger, is made anew: everything in it is in the ledger, too.
//!
//! A key is the namespace and the collection, each with its length (u32, big endian) before it, and the key itself, so
//! that the keys of one collection stand together, in order. A value is block and transaction (u64, little endian),
//! whether there is a validation parameter (0 or 1), its length (u32, little endian), its bytes, and the value.

use super::{Entry, Height, Update, Updates};
use fjall::{Database, Guard, Keyspace, KeyspaceCreateOptions, PersistMode};
use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io;
use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

/// Bytes of the database that are held in memory to be read again, at most.
const CACHE_BYTES: u64 = 256 << 20;
/// No namespace is so long: the mark comes after all keys.
const MARK: [u8; 4] = [0xff; 4];
/// First bytes of the mark; the last digit is the layout's version.
const MAGIC: &[u8; 8] = b"LSFSTAT1";
/// How often a database that somebody else has open is tried again.
const TRIES: u32 = 50;
const TRY_AGAIN: Duration = Duration::from_millis(100);

/// The last block whose updates the database has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Mark {
    pub last: u64,
    /// Its header hash.
    pub hash: [u8; 32],
}

impl Mark {
    fn encode(&self) -> Vec<u8> {
        let last = self.last.to_le_bytes();
        [&MAGIC[..], &last, &self.hash].concat()
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.strip_prefix(MAGIC)?;
        let (last, hash) = bytes.split_first_chunk()?;
        Some(Self {
            last: u64::from_le_bytes(*last),
            hash: hash.try_into().ok()?,
        })
    }
}

/// What a block does that is not in the database yet.
struct Pending {
    mark: Mark,
    updates: Updates,
}

/// A state on the disk.
pub(crate) struct Disk {
    database: Database,
    keys: Keyspace,
    directory: PathBuf,
    mark: Option<Mark>,
    /// Oldest first.
    pending: VecDeque<Pending>,
    /// Why it could not be read or written, the first time.
    failure: OnceLock<String>,
}

impl fmt::Debug for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the state in {}, {:?}", self.directory.display(), self.mark)
    }
}

/// The file that says that a read found the database damaged.
fn marker(directory: &Path) -> PathBuf {
    directory.with_extension("damaged")
}

/// fjall panics on some damaged files.
fn guarded<T>(act: impl FnOnce() -> Result<T, fjall::Error>) -> Result<T, fjall::Error> {
    let done = catch_unwind(AssertUnwindSafe(act));
    done.unwrap_or(Err(fjall::Error::Unrecoverable))
}

fn other(error: fjall::Error) -> io::Error {
    match error {
        fjall::Error::Io(error) => error,
        error => io::Error::other(error.to_string()),
    }
}

impl Disk {
    /// Opens the database in `directory`, or makes one; and why it had to be made anew, if it had.
    pub fn open(directory: &Path) -> io::Result<(Self, Option<String>)> {
        let why = match marker(directory).exists() {
            true => "a read has found it damaged".to_owned(),
            false => match Self::existing(directory) {
                Ok(disk) => return Ok((disk, None)),
                Err(fjall::Error::Locked) => {
                    let what = "another process has the state open";
                    return Err(io::Error::new(io::ErrorKind::ResourceBusy, what));
                }
                Err(error) => error.to_string(),
            },
        };
        Self::anew(directory).map(|disk| (disk, Some(why)))
    }

    /// Opens the database in `directory` to be looked at.
    pub fn look(directory: &Path) -> Result<Self, String> {
        if !directory.exists() || marker(directory).exists() {
            return Err(format!("there is no sound state in {}", directory.display()));
        }
        Self::at(directory).map_err(|error| match error {
            fjall::Error::Locked => "another process has the state open".to_owned(),
            error => format!("the state in {}: {error}", directory.display()),
        })
    }

    /// An empty one, whatever there is.
    pub fn anew(directory: &Path) -> io::Result<Self> {
        for path in [directory, &marker(directory)] {
            let removed = match path.is_dir() {
                true => std::fs::remove_dir_all(path),
                false => std::fs::remove_file(path),
            };
            match removed {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Self::existing(directory).map_err(other)
    }

    fn existing(directory: &Path) -> Result<Self, fjall::Error> {
        for _ in 1..TRIES {
            match Self::at(directory) {
                Err(fjall::Error::Locked) => std::thread::sleep(TRY_AGAIN),
                opened => return opened,
            }
        }
        Self::at(directory)
    }

    fn at(directory: &Path) -> Result<Self, fjall::Error> {
        guarded(|| {
            let database = Database::builder(directory).cache_size(CACHE_BYTES).open()?;
            let keys = database.keyspace("keys", KeyspaceCreateOptions::default)?;
            let mark = match keys.get(MARK)? {
                Some(bytes) => Some(Mark::decode(&bytes).ok_or(fjall::Error::Unrecoverable)?),
                None if keys.is_empty()? => None,
                None => return Err(fjall::Error::Unrecoverable),
            };
            Ok(Self {
                database,
                keys,
                directory: directory.to_owned(),
                mark,
                pending: VecDeque::new(),
                failure: OnceLock::new(),
            })
        })
    }

    /// The last block whose updates the database has.
    pub fn mark(&self) -> Option<Mark> {
        self.mark
    }

    /// Why it could not be read or written, if it could not.
    pub fn failure(&self) -> Option<&str> {
        self.failure.get().map(String::as_str)
    }

    fn fail(&self, what: &dyn fmt::Display) {
        // Whoever opens it next makes it anew; if that cannot be said, a read will say it again.
        let _ = std::fs::write(marker(&self.directory), what.to_string());
        self.failure
            .get_or_init(|| format!("the state in {}: {what}", self.directory.display()));
    }

    /// What there is under a key.
    pub fn get(&self, namespace: &str, collection: &str, key: &[u8]) -> Option<Entry> {
        let mut pending = self.pending.iter().rev();
        if let Some(update) = pending.find_map(|pending| pending.updates.get(namespace, collection, key)) {
            return entry_of(update);
        }
        let place = place(namespace, collection, key);
        match guarded(|| self.keys.get(place)) {
            Ok(None) => None,
            Ok(Some(bytes)) => self.decode(&bytes),
            Err(error) => {
                self.fail(&error);
                None
            }
        }
    }

    fn decode(&self, bytes: &[u8]) -> Option<Entry> {
        let entry = decode(bytes);
        if entry.is_none() {
            self.fail(&"a value that this program does not write");
        }
        entry
    }

    /// Public keys from `start` on, before `end`; an empty `end` is none.
    pub fn range<'a>(
        &'a self,
        namespace: &str,
        start: &'a [u8],
        end: &'a [u8],
    ) -> impl Iterator<Item = (Cow<'a, [u8]>, Entry)> + use<'a> {
        let mut changed: BTreeMap<&[u8], &Update> = BTreeMap::new();
        let spaces = self.pending.iter();
        for space in spaces.filter_map(|pending| pending.updates.namespaces.get(namespace)) {
            changed.extend(super::range(&space.public, start, end).map(|(key, update)| (&**key, update)));
        }
        let first = place(namespace, "", start);
        let head = first.len() - start.len();
        let behind = match end {
            [] => after(first.get(..head).unwrap_or_default()),
            end => place(namespace, "", end.max(start)),
        };
        let bounds = (Bound::Included(first), Bound::Excluded(behind));
        Merged {
            disk: self,
            head,
            kept: self.keys.range::<Vec<u8>, _>(bounds),
            next: None,
            changed,
        }
    }

    /// Block `mark` does this.
    pub fn apply(&mut self, mark: Mark, updates: Updates) {
        if self.mark.is_none_or(|kept| kept.last < mark.last) {
            self.pending.push_back(Pending { mark, updates });
        }
    }

    /// Writes what the first `durable` blocks do.
    pub fn settle(&mut self, durable: u64) -> Result<(), String> {
        let count = self
            .pending
            .iter()
            .take_while(|pending| pending.mark.last < durable)
            .count();
        let settled = self.pending.iter().take(count);
        let Some(mark) = settled.clone().next_back().map(|pending| pending.mark) else {
            return Ok(());
        };
        // Of what a batch does to one key, nothing says which was last.
        let mut places = BTreeMap::new();
        for (namespace, collection, keys) in settled.flat_map(|pending| pending.updates.collections()) {
            let keys = keys.iter();
            places.extend(keys.map(|(key, update)| (place(namespace, collection, key), update)));
        }
        let written = guarded(|| {
            let mut batch = self.database.batch();
            for (place, update) in places {
                match entry_of(update) {
                    Some(entry) => batch.insert(&self.keys, place, encode(&entry)),
                    None => batch.remove(&self.keys, place),
                }
            }
            batch.insert(&self.keys, MARK, mark.encode());
            batch.commit()
        });
        if let Err(error) = written {
            // It is as it was before, or after: a restart will see.
            let what = format!("writing the state in {}: {error}", self.directory.display());
            return Err(self.failure.get_or_init(|| what).clone());
        }
        self.mark = Some(mark);
        self.pending.drain(..count);
        Ok(())
    }

    /// Makes what was written so far outlast a power cut; for another thread.
    pub fn sync(&self) -> impl FnOnce() -> io::Result<()> + Send + use<> {
        let database = self.database.clone();
        move || guarded(|| database.persist(PersistMode::SyncAll)).map_err(other)
    }

    /// All keys, public ones and those of collections, counted one by one.
    pub fn len(&self) -> usize {
        let marks = usize::from(self.mark.is_some());
        let mut count = match guarded(|| self.keys.len()) {
            Ok(keys) => keys - marks,
            Err(error) => {
                self.fail(&error);
                return 0;
            }
        };
        let mut changed = BTreeMap::new();
        let pending = self.pending.iter();
        for (namespace, collection, keys) in pending.flat_map(|pending| pending.updates.collections()) {
            let keys = keys.iter();
            changed.extend(
                keys.map(|(key, update)| (place(namespace, collection, key), update.value.is_some())),
            );
        }
        for (place, is_there) in changed {
            let was_there = guarded(|| self.keys.contains_key(place)).unwrap_or_else(|error| {
                self.fail(&error);
                false
            });
            count = count + usize::from(is_there) - usize::from(was_there);
        }
        count
    }
}

/// Keys of the database, and over them what was changed since.
struct Merged<'a> {
    disk: &'a Disk,
    /// Bytes before the key.
    head: usize,
    kept: fjall::Iter,
    next: Option<(Vec<u8>, Entry)>,
    changed: BTreeMap<&'a [u8], &'a Update>,
}

impl Merged<'_> {
    /// The next one of the database.
    fn read(&mut self) -> Option<(Vec<u8>, Entry)> {
        match guarded(|| self.kept.next().map(Guard::into_inner).transpose()) {
            Ok(None) => None,
            Ok(Some((place, bytes))) => {
                let key = place.get(self.head..).unwrap_or_default().to_vec();
                Some((key, self.disk.decode(&bytes)?))
            }
            Err(error) => {
                self.disk.fail(&error);
                None
            }
        }
    }
}

impl<'a> Iterator for Merged<'a> {
    type Item = (Cow<'a, [u8]>, Entry);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if self.next.is_none() {
                self.next = self.read();
            }
            let changed = self.changed.first_key_value().map(|(key, _)| *key);
            let (key, update) = match (&self.next, changed) {
                (Some((kept, _)), Some(changed)) if changed <= kept.as_slice() => {
                    if changed == kept.as_slice() {
                        self.next = None;
                    }
                    self.changed.pop_first()?
                }
                (None, Some(_)) => self.changed.pop_first()?,
                (Some(_), _) => {
                    let (key, entry) = self.next.take()?;
                    return Some((Cow::Owned(key), entry));
                }
                (None, None) => return None,
            };
            if let Some(entry) = entry_of(update) {
                return Some((Cow::Borrowed(key), entry));
            }
        }
    }
}

fn entry_of(update: &Update) -> Option<Entry> {
    let (value, validation_parameter) = update.value.clone()?;
    Some(Entry {
        value,
        validation_parameter,
        version: update.version,
    })
}

fn place(namespace: &str, collection: &str, key: &[u8]) -> Vec<u8> {
    let mut place = Vec::with_capacity(8 + namespace.len() + collection.len() + key.len());
    for name in [namespace, collection] {
        place.extend_from_slice(&(name.len() as u32).to_be_bytes());
        place.extend_from_slice(name.as_bytes());
    }
    place.extend_from_slice(key);
    place
}

/// What comes after all that begins so.
fn after(head: &[u8]) -> Vec<u8> {
    let mut after = head.to_vec();
    while let Some(last) = after.last_mut() {
        if *last < 0xff {
            *last += 1;
            break;
        }
        after.pop();
    }
    after
}

fn encode(entry: &Entry) -> Vec<u8> {
    let parameter = entry.validation_parameter.as_deref();
    let parameter_bytes = parameter.unwrap_or_default();
    let mut bytes = Vec::with_capacity(21 + parameter_bytes.len() + entry.value.len());
    bytes.extend_from_slice(&entry.version.block.to_le_bytes());
    bytes.extend_from_slice(&entry.version.tx.to_le_bytes());
    bytes.push(u8::from(parameter.is_some()));
    bytes.extend_from_slice(&(parameter_bytes.len() as u32).to_le_bytes());
    bytes.extend_from_slice(parameter_bytes);
    bytes.extend_from_slice(&entry.value);
    bytes
}

fn decode(bytes: &[u8]) -> Option<Entry> {
    let (block, bytes) = bytes.split_first_chunk()?;
    let (tx, bytes) = bytes.split_first_chunk()?;
    let (has_parameter, bytes) = bytes.split_first()?;
    let (length, bytes) = bytes.split_first_chunk()?;
    let (parameter, value) = bytes.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    Some(Entry {
        value: value.into(),
        validation_parameter: (*has_parameter == 1).then(|| parameter.into()),
        version: Height {
            block: u64::from_le_bytes(*block),
            tx: u64::from_le_bytes(*tx),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::State;

    fn random(seed: &mut u64, below: usize) -> usize {
        *seed ^= *seed << 13;
        *seed ^= *seed >> 7;
        *seed ^= *seed << 17;
        (*seed % below as u64) as usize
    }

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

    fn updates(seed: &mut u64, block: u64) -> Updates {
        let mut updates = Updates::default();
        for tx in 0..random(seed, 12) as u64 {
            let value = (random(seed, 3) > 0).then(|| {
                let parameter: Option<&[u8]> =
                    [None, None, Some(&b""[..]), Some(&b"policy"[..])][random(seed, 4)];
                let value = &seed.to_be_bytes()[..random(seed, 9)];
                (value.into(), parameter.map(Into::into))
            });
            let version = Height { block, tx };
            let (namespace, collection) = (NAMESPACES[random(seed, 4)], COLLECTIONS[random(seed, 4)]);
            let key = KEYS[random(seed, KEYS.len())];
            updates.put(namespace, collection, key, Update { value, version });
        }
        updates
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
                }
            }
        }
        assert_eq!(disk.len(), memory.len());
        disk.check().unwrap();
    }

    /// Settled, opened again and asked at any moment, it has what a state in memory has.
    #[test]
    fn it_is_as_one_in_memory() {
        let mut seed = 0x9e37_79b9_7f4a_7c15;
        for _ in 0..6 {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("state");
            let (opened, remade) = Disk::open(&path).unwrap();
            assert_eq!(remade, None);
            let (mut disk, mut memory) = (State::from(opened), State::default());
            let mut blocks: Vec<Updates> = Vec::new();
            for number in 1..60 {
                let next = updates(&mut seed, number);
                disk.apply(number, [number as u8; 32], next.clone());
                memory.apply(number, [number as u8; 32], next.clone());
                blocks.push(next);
                if random(&mut seed, 3) == 0 {
                    disk.settle(number + 1 - random(&mut seed, 4).min(number as usize) as u64)
                        .unwrap();
                }
                if random(&mut seed, 8) == 0 {
                    drop(disk);
                    disk = State::from(Disk::open(&path).unwrap().0);
                    for (number, updates) in (1..).zip(&blocks) {
                        disk.apply(number, [number as u8; 32], updates.clone());
                    }
                }
                if random(&mut seed, 4) == 0 {
                    same(&disk, &memory);
                }
            }
            same(&disk, &memory);
        }
    }

    #[test]
    fn keys_without_a_mark_are_not_believed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state");
        let (disk, _) = Disk::open(&path).unwrap();
        disk.keys.insert(place("a", "", b"key"), b"value").unwrap();
        drop(disk);
        let (disk, remade) = Disk::open(&path).unwrap();
        assert!(remade.is_some() && disk.mark().is_none());
        assert_eq!(disk.get("a", "", b"key"), None);
    }

    #[test]
    fn what_comes_after_a_beginning() {
        assert_eq!(after(&[1, 2]), [1, 3]);
        assert_eq!(after(&[1, 0xff]), [2]);
        assert!(after(&[0xff]).is_empty());
    }
}
