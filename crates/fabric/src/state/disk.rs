//! The state in a key-value database on the disk, with the changes of the latest blocks in memory.
//!
//! The changes of a block are written when the block is durable in the ledger. Each write is atomic and includes the
//! mark: the number and the hashes of the last block whose changes are written. The database is therefore never ahead
//! of the ledger. After a crash the database may lack the changes of the last blocks; the blocks after its mark are
//! then executed again. A database that is damaged, or whose mark is not in the ledger, is rebuilt from the ledger.
//!
//! Batches of writes are linked: each batch names the last block of the previous batch. The links detect a lost batch,
//! because fjall skips the rest of a log that it cannot read, and continues with the next log.
//!
//! An index lists the keys of collections that expire, by the block that removes them. Its entries are the prefix
//! `EXPIRY`, that block (u64, big endian) and the key's place; the value is the collection's blockToLive (u64, little
//! endian). A batch updates the index together with the keys, so each key that expires is in the index exactly once.
//!
//! The place of a key is the key under which the database stores it: the namespace and the collection, each after its
//! length (u32, big endian), and the key itself. The keys of one collection are therefore adjacent and in order. A
//! value in the database is block and transaction (u64, little endian), a flag for the validation parameter (0 or 1),
//! the parameter's length (u32, little endian), the parameter, and the value.

mod cache;
mod merged;
mod places;
mod writing;

use super::expiring::{self, ExpiringKey};
use super::folder::StateFolder;
use super::{Entry, EntryVisitor, Key, Update, Updates};
use cache::Cache;
use fjall::{Database, Guard, Keyspace, KeyspaceCreateOptions, PersistMode};
use merged::MergedRange;
use places::{after, db_key, decode, expiry_place, link, name, read_due, read_place, short_place};
use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io;
use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;
use writing::{GatheredChanges, StateWrite};

/// Maximum size of the database's block cache, in bytes; entries of keys have a separate cache.
const CACHE_BYTES: u64 = 128 << 20;
/// Database key of the mark, and prefix of the links' database keys. No namespace has this length, so the mark and the
/// links come after all keys.
const MARK: [u8; 4] = [0xff; 4];
/// Prefix of the index of keys that expire; the index is after all keys and before the mark.
const EXPIRY: [u8; 4] = [0xff, 0xff, 0xff, 0xfe];
/// Text of the error for an entry of the expiry index that cannot be decoded.
const NO_INDEX: &str = "the index of expiring keys has an entry with an unknown form";
/// Number of bytes before the key's place in the database key of an index entry.
const EXPIRY_BYTES: usize = EXPIRY.len() + 8;
/// Number of recent blocks for which the database keeps links. A link leads from one batch of blocks to the previous
/// one.
const LINKS: u64 = if cfg!(test) { 16 } else { 1 << 16 };
/// Value of the first link, which has no previous batch.
const NO_BLOCK: u64 = u64::MAX;
/// First bytes of the mark; the last digit is the version of the layout.
const MAGIC: &[u8; 8] = b"LSFSTAT3";
/// First bytes of the mark in the older layout without the index of keys that expire. States in that layout contain no
/// collection whose keys expire, unless they were made from a snapshot.
const MAGIC_WITHOUT_EXPIRY: &[u8; 8] = b"LSFSTAT2";
/// Size of the two lengths in a key's place, in bytes.
const HEAD_BYTES: usize = 8;
/// Maximum size of a key's place, in bytes: fjall stores the length of a database key in 16 bits.
pub(super) const PLACE_BYTES_MAX: usize = u16::MAX as usize;
/// Size of a memtable, in bytes, at which fjall writes it to a table file; a few memtables are in memory.
const MEMTABLE_BYTES: u64 = if cfg!(test) { 16 << 10 } else { 32 << 20 };
/// Maximum total size of fjall's logs, in bytes. All logs are read when the database is opened.
const JOURNALS_BYTES: u64 = 128 << 20;
/// Number of attempts to open a database that another process has open, [`OPEN_RETRY_INTERVAL`] apart.
const OPEN_ATTEMPTS: u32 = 50;
const OPEN_RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// The last block whose changes are in the database.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct DurableMark {
    pub last: u64,
    /// The block's header hash.
    pub hash: [u8; 32],
    /// The block's commit hash, or zeros if it has none. The header hash does not cover the validation codes.
    pub commit_hash: [u8; 32],
}

impl DurableMark {
    fn encode(&self) -> Vec<u8> {
        let last = self.last.to_le_bytes();
        [&MAGIC[..], &last, &self.hash, &self.commit_hash].concat()
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes
            .strip_prefix(MAGIC)
            .or_else(|| bytes.strip_prefix(MAGIC_WITHOUT_EXPIRY))?;
        let (last, bytes) = bytes.split_first_chunk()?;
        let (hash, commit_hash) = bytes.split_first_chunk()?;
        Some(Self {
            last: u64::from_le_bytes(*last),
            hash: *hash,
            commit_hash: commit_hash.try_into().ok()?,
        })
    }
}

/// Changes of a block that is not known to be durable.
struct PendingChanges {
    mark: DurableMark,
    updates: Updates,
}

/// A state on the disk.
pub(crate) struct Disk {
    database: Database,
    keys: Keyspace,
    folder: StateFolder,
    /// True if the state is open for reading only.
    looked_at: bool,
    mark: Option<DurableMark>,
    /// True if the mark has the older layout, without the index of keys that expire.
    lacks_expiry: bool,
    /// Changes of blocks that are not durable in the ledger yet, oldest first.
    pending: VecDeque<PendingChanges>,
    /// Changes of durable blocks that no write contains yet. These blocks are before the blocks of `pending`.
    gathered: GatheredChanges,
    /// Changes that are being written now. Their blocks are before the blocks of `gathered`.
    writing: Option<StateWrite>,
    /// Cache of entries. An entry in the cache includes all changes in `pending`, `gathered` and `writing`.
    cache: Cache,
    /// The first failure to read or write.
    failure: OnceLock<String>,
}

impl fmt::Debug for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the state in {}, {:?}", self.folder.0.display(), self.mark)
    }
}

/// Calls `act` and returns a panic as an error, because fjall panics on some damaged files.
fn catch_panic<T>(act: impl FnOnce() -> Result<T, fjall::Error>) -> Result<T, fjall::Error> {
    let done = catch_unwind(AssertUnwindSafe(act));
    done.unwrap_or(Err(fjall::Error::Unrecoverable))
}

fn to_io_error(error: fjall::Error) -> io::Error {
    match error {
        fjall::Error::Io(error) => error,
        error => io::Error::other(error.to_string()),
    }
}

fn in_use() -> io::Error {
    io::Error::new(
        io::ErrorKind::ResourceBusy,
        "another process has the state open; stop that process first",
    )
}

/// Returns whether an error means that files are damaged, rather than that they cannot be accessed now.
fn is_damage(error: &fjall::Error) -> bool {
    use io::ErrorKind::{AlreadyExists, InvalidData, NotFound, UnexpectedEof};
    match error {
        fjall::Error::Io(error) | fjall::Error::Storage(fjall::LsmError::Io(error)) => {
            matches!(
                error.kind(),
                AlreadyExists | InvalidData | NotFound | UnexpectedEof
            )
        }
        fjall::Error::Locked | fjall::Error::Poisoned => false,
        _ => true,
    }
}

impl Disk {
    /// Opens the database in a directory, or creates one. Also returns the reason if the database has to be rebuilt.
    pub fn open(directory: &Path) -> io::Result<(Self, Option<String>)> {
        let folder = StateFolder(directory.to_owned());
        folder.claim()?;
        let why = match folder.is_damaged() {
            Some(why) => why.to_owned(),
            None => match Self::existing(&folder) {
                Ok(disk) => return Ok((disk, None)),
                Err(fjall::Error::Locked) => return Err(in_use()),
                Err(error) if is_damage(&error) => error.to_string(),
                Err(error) => return Err(to_io_error(error)),
            },
        };
        Self::create_empty(directory).map(|disk| (disk, Some(why)))
    }

    /// Opens the database in a directory for reading only. The error `ResourceBusy` means that another process has it
    /// open.
    pub fn open_read_only(directory: &Path) -> io::Result<Self> {
        let folder = StateFolder(directory.to_owned());
        if !folder.is_one() || folder.is_damaged().is_some() || !folder.database().exists() {
            let what = format!(
                "there is no valid state in {}; a replica that opens the ledger rebuilds it",
                directory.display()
            );
            return Err(io::Error::other(what));
        }
        let opened = Self::at(&folder).map_err(|error| match error {
            fjall::Error::Locked => in_use(),
            error => io::Error::other(format!("the state in {}: {error}", directory.display())),
        })?;
        Ok(Self {
            looked_at: true,
            ..opened
        })
    }

    /// Creates an empty state in `directory`, in place of an existing state.
    pub fn create_empty(directory: &Path) -> io::Result<Self> {
        let folder = StateFolder(directory.to_owned());
        folder.claim()?;
        folder.clear()?;
        Self::existing(&folder).map_err(to_io_error)
    }

    /// Returns whether the directory holds a state, valid or damaged.
    pub fn is_at(directory: &Path) -> bool {
        StateFolder(directory.to_owned()).is_one()
    }

    /// Removes a state that no process has open.
    pub fn remove(directory: &Path) -> io::Result<()> {
        StateFolder(directory.to_owned()).remove()
    }

    /// Returns whether the state in the directory is marked as damaged.
    pub fn is_damaged(directory: &Path) -> bool {
        StateFolder(directory.to_owned()).is_damaged().is_some()
    }

    fn existing(folder: &StateFolder) -> Result<Self, fjall::Error> {
        for _ in 1..OPEN_ATTEMPTS {
            match folder.open(|_| Self::at(folder)) {
                Err(fjall::Error::Locked) => std::thread::sleep(OPEN_RETRY_INTERVAL),
                opened => return opened,
            }
        }
        Self::at(folder)
    }

    fn at(folder: &StateFolder) -> Result<Self, fjall::Error> {
        catch_panic(|| {
            if !folder.has_true_lists()? {
                return Err(fjall::Error::Unrecoverable);
            }
            let database = Database::builder(folder.database())
                .cache_size(CACHE_BYTES)
                .max_journaling_size(JOURNALS_BYTES)
                .open()?;
            let options = || KeyspaceCreateOptions::default().max_memtable_size(MEMTABLE_BYTES);
            let keys = database.keyspace("keys", options)?;
            let stored_mark = keys.get(MARK)?;
            let lacks_expiry = stored_mark
                .as_ref()
                .is_some_and(|bytes| bytes.starts_with(MAGIC_WITHOUT_EXPIRY));
            let mark = match stored_mark {
                Some(bytes) => Some(DurableMark::decode(&bytes).ok_or(fjall::Error::Unrecoverable)?),
                None if keys.is_empty()? => None,
                None => return Err(fjall::Error::Unrecoverable),
            };
            let disk = Self {
                database,
                keys,
                folder: folder.clone(),
                looked_at: false,
                mark,
                lacks_expiry,
                pending: VecDeque::new(),
                gathered: GatheredChanges::default(),
                writing: None,
                cache: Cache::default(),
                failure: OnceLock::new(),
            };
            match disk.has_all_links()? {
                true => Ok(disk),
                false => Err(fjall::Error::Unrecoverable),
            }
        })
    }

    /// Returns whether each linked batch follows the previous batch, and the last batch ends at the mark.
    fn has_all_links(&self) -> Result<bool, fjall::Error> {
        let mut last = None;
        for link in self.keys.range(link(0)..) {
            let (db_key, before) = link.into_inner()?;
            if last.as_deref().is_some_and(|last| last != &*before) {
                return Ok(false);
            }
            last = db_key.strip_prefix(&MARK[..]).map(<[u8]>::to_vec);
        }
        let mark = self.mark.map(|mark| mark.last.to_be_bytes().to_vec());
        Ok(last == mark)
    }

    /// Returns the last block whose changes are in the database.
    pub fn durable_mark(&self) -> Option<DurableMark> {
        self.mark
    }

    /// Returns whether an older version wrote the state, without the index of keys that expire.
    pub fn lacks_expiry(&self) -> bool {
        self.lacks_expiry
    }

    /// Returns the first failure to read or write.
    pub fn failure(&self) -> Option<&str> {
        self.failure.get().map(String::as_str)
    }

    fn fail(&self, error: &fjall::Error) {
        self.failed(error, is_damage(error));
    }

    /// Records a failure. A damaged state is marked, so that the next process that opens it rebuilds it.
    fn failed(&self, what: &dyn fmt::Display, is_damaged: bool) {
        if is_damaged && !self.looked_at {
            self.folder.set_damaged(&what.to_string());
        }
        self.failure
            .get_or_init(|| format!("the state in {}: {what}", self.folder.0.display()));
    }

    /// Returns the size in bytes of the largest place (database key) among the keys in `updates`, if it exceeds the
    /// maximum.
    pub fn too_long(&self, updates: &Updates) -> Option<usize> {
        let all = updates.collections();
        let bytes = all.flat_map(|(namespace, collection, keys)| {
            let index = updates
                .lifetime(namespace, collection)
                .map_or(0, |_| EXPIRY_BYTES);
            let head = index + HEAD_BYTES + namespace.len() + collection.len();
            keys.keys().map(move |key| head + key.len())
        });
        bytes.max().filter(|bytes| *bytes > PLACE_BYTES_MAX)
    }

    /// Returns the keys that expire with block `number`.
    pub fn expiring_with(&self, number: u64) -> Vec<ExpiringKey> {
        let mut due = Vec::new();
        for (at, updates) in self.waiting().enumerate() {
            for (namespace, collection, keys) in updates.collections() {
                let Some(life) = updates.lifetime(namespace, collection) else {
                    continue;
                };
                let expires = |update: &Update| {
                    update.value.is_some() && expiring::expiry(update.version.block, life) == Some(number)
                };
                let keys = keys.iter().filter(|(_, update)| expires(update));
                let newest = keys.filter(|(key, _)| !self.is_waiting(at + 1, (namespace, collection), key));
                due.extend(newest.map(|(key, _)| ExpiringKey {
                    namespace: namespace.to_owned(),
                    collection: collection.to_owned(),
                    key: key.clone(),
                    life,
                }));
            }
        }
        let from = expiry_place(number, &[]);
        let end = after(&from);
        let listed = catch_panic(|| {
            let listed = self.keys.range::<Vec<u8>, _>(from..end);
            listed.map(Guard::into_inner).collect::<Result<Vec<_>, _>>()
        });
        for (db_key, life) in listed.unwrap_or_else(|error| {
            self.fail(&error);
            Vec::new()
        }) {
            let Some(expiring) = read_due(&db_key, &life) else {
                self.failed(&NO_INDEX, true);
                return Vec::new();
            };
            if !self.is_waiting(0, (&expiring.namespace, &expiring.collection), &expiring.key) {
                due.push(expiring);
            }
        }
        due
    }

    /// Returns all keys in the database that expire, each with the number of the block that it expires with. Changes
    /// that are not written yet are ignored.
    pub fn all_due(&self) -> Vec<(u64, ExpiringKey)> {
        let listed = catch_panic(|| {
            let listed = self.keys.range::<&[u8], _>(&EXPIRY[..]..&MARK[..]);
            listed.map(Guard::into_inner).collect::<Result<Vec<_>, _>>()
        });
        let listed = listed.unwrap_or_else(|error| {
            self.fail(&error);
            Vec::new()
        });
        let read = listed.iter().map(|(place, life)| {
            let block = place.get(EXPIRY.len()..)?.first_chunk()?;
            Some((u64::from_be_bytes(*block), read_due(place, life)?))
        });
        read.collect::<Option<Vec<_>>>().unwrap_or_else(|| {
            self.failed(&NO_INDEX, true);
            Vec::new()
        })
    }

    /// Returns the changes that are not in the database yet, oldest first.
    fn waiting(&self) -> impl DoubleEndedIterator<Item = &Updates> {
        let writing = self.writing.as_ref().map(|writing| &*writing.updates);
        let pending = self.pending.iter().map(|pending| &pending.updates);
        writing
            .into_iter()
            .chain(std::iter::once(&self.gathered.updates))
            .chain(pending)
    }

    /// Returns whether changes that are not in the database yet affect a key. The oldest `from` sets of changes are
    /// skipped.
    fn is_waiting(&self, from: usize, (namespace, collection): (&str, &str), key: &Key) -> bool {
        let mut waiting = self.waiting().skip(from);
        waiting.any(|updates| updates.get(namespace, collection, key).is_some())
    }

    /// Returns the entry of a key.
    pub fn get(&self, namespace: &str, collection: &str, key: &[u8]) -> Option<Entry> {
        let db_key = short_place(namespace, collection, key);
        if let Some(cached) = self.cache.get(&db_key) {
            return cached;
        }
        let mut waiting = self.waiting().rev();
        let entry = match waiting.find_map(|updates| updates.get(namespace, collection, key)) {
            Some(update) => entry_of(update),
            None if db_key.len() > PLACE_BYTES_MAX => return None,
            None => match catch_panic(|| self.keys.get(db_key.as_slice())) {
                Ok(None) => None,
                Ok(Some(bytes)) => Some(self.decode(&bytes)?),
                Err(error) => {
                    self.fail(&error);
                    return None;
                }
            },
        };
        self.cache.put(&db_key, entry.clone());
        entry
    }

    fn decode(&self, bytes: &[u8]) -> Option<Entry> {
        let entry = decode(bytes);
        if entry.is_none() {
            self.failed(&"a value has an unknown form", true);
        }
        entry
    }

    /// Returns the keys of a collection (empty: the public state) from `start` (inclusive) to `end` (exclusive); an
    /// empty `end` means no upper bound.
    pub fn range<'a>(
        &'a self,
        namespace: &str,
        collection: &str,
        start: &'a [u8],
        end: &'a [u8],
    ) -> impl Iterator<Item = (Cow<'a, [u8]>, Entry)> + use<'a> {
        let mut changed: BTreeMap<&[u8], &Update> = BTreeMap::new();
        for space in self
            .waiting()
            .filter_map(|updates| updates.namespaces.get(namespace))
        {
            let Some(keys) = space.keys(collection) else {
                continue;
            };
            changed.extend(super::range(keys, start, end).map(|(key, update)| (&**key, update)));
        }
        let first = db_key(namespace, collection, start);
        let head = first.len() - start.len();
        let end_key = match end {
            [] => after(first.get(..head).unwrap_or_default()),
            end => db_key(namespace, collection, end.max(start)),
        };
        MergedRange {
            disk: self,
            head,
            on_disk: self.database_range(first, end_key),
            next: None,
            changed,
        }
    }

    /// Returns the namespaces and collections (empty: the public state) that have keys, in no order and with
    /// duplicates. The result also includes collections whose last keys were deleted by changes that are not in the
    /// database yet.
    pub fn namespaces(&self) -> Vec<(String, String)> {
        let written = |keys: &super::Changes| keys.values().any(|update| update.value.is_some());
        let waiting = self.waiting().flat_map(Updates::collections);
        let waiting = waiting.filter(|(_, _, keys)| written(keys));
        let mut spaces: Vec<_> = waiting
            .map(|(namespace, collection, _)| (namespace.to_owned(), collection.to_owned()))
            .collect();
        let mut from = vec![0];
        while let Some((space, head)) = self.first_space(&from) {
            from = after(&head);
            spaces.push(space);
        }
        spaces
    }

    /// Returns namespace and collection of the first key at or after a place, and the common prefix of their places.
    fn first_space(&self, from: &[u8]) -> Option<((String, String), Vec<u8>)> {
        // Only the places of keys begin with a zero byte, because they begin with the length of a name, which is below
        // 2^24. The range therefore ends before the expiry index, the mark and the links.
        let first = catch_panic(|| {
            let mut keys = self.keys.range::<Vec<u8>, _>(from.to_vec()..vec![1]);
            keys.next().map(Guard::key).transpose()
        });
        let key = first.map_err(|error| self.fail(&error)).ok()??;
        let (namespace, rest) = name(&key)?;
        let (collection, _) = name(rest)?;
        Some((
            (namespace.to_owned(), collection.to_owned()),
            db_key(namespace, collection, &[]),
        ))
    }

    /// Returns the entries of the database from `first` (inclusive) to `end` (exclusive).
    fn database_range(&self, mut first: Vec<u8>, mut end: Vec<u8>) -> Option<fjall::Iter> {
        // No place in the database is longer than the maximum. A longer bound is truncated, and the place that equals
        // the truncated bound is then excluded (`first`) or included (`end`).
        let [first_is_long, behind_is_long] = [&mut first, &mut end].map(|place| {
            let is_long = place.len() > PLACE_BYTES_MAX;
            place.truncate(PLACE_BYTES_MAX);
            is_long
        });
        if first > end || first == end && (first_is_long || !behind_is_long) {
            return None;
        }
        let bounds = (
            if first_is_long {
                Bound::Excluded(first)
            } else {
                Bound::Included(first)
            },
            if behind_is_long {
                Bound::Included(end)
            } else {
                Bound::Excluded(end)
            },
        );
        let on_disk = catch_panic(|| Ok(self.keys.range::<Vec<u8>, _>(bounds)));
        on_disk.map_err(|error| self.fail(&error)).ok()
    }

    /// Adds `updates`, the changes of the block that `mark` names.
    pub fn apply(&mut self, mark: DurableMark, updates: Updates) {
        if self.mark.is_none_or(|kept| kept.last < mark.last) {
            for (namespace, collection, keys) in updates.collections() {
                for (key, update) in keys {
                    self.cache
                        .put(&short_place(namespace, collection, key), entry_of(update));
                }
            }
            self.pending.push_back(PendingChanges { mark, updates });
        }
    }

    /// Writes the changes of the first `durable` blocks and waits for the end of the write. A read-only state is not
    /// changed.
    pub fn write_durable(&mut self, durable: u64) -> Result<(), String> {
        self.gather(durable);
        while !self.looked_at && (self.writing.is_some() || self.gathered.mark.is_some()) {
            self.end_writing()?;
            self.begin_writing()?;
        }
        Ok(())
    }

    /// Gathers the changes of the first `durable` blocks and continues writing on another thread. A write begins when
    /// enough changes are gathered, or immediately if `soon` is true.
    pub fn settle_behind(&mut self, durable: u64, soon: bool) -> Result<(), String> {
        self.gather(durable);
        if self.looked_at {
            return Ok(());
        }
        let is_due = soon || self.gathered.is_full();
        match &self.writing {
            Some(writing) if !writing.is_over() && !self.gathered.is_full() => return Ok(()),
            Some(_) => self.end_writing()?,
            None => {}
        }
        match is_due {
            true => self.begin_writing(),
            false => Ok(()),
        }
    }

    fn gather(&mut self, durable: u64) {
        while self
            .pending
            .front()
            .is_some_and(|pending| pending.mark.last < durable)
            && let Some(pending) = self.pending.pop_front()
        {
            self.gathered.add(pending.mark, pending.updates);
        }
    }

    fn begin_writing(&mut self) -> Result<(), String> {
        let Some(mark) = self.gathered.mark else {
            return Ok(());
        };
        let gathered = std::mem::take(&mut self.gathered);
        let begun = StateWrite::begin((&self.database, &self.keys), (self.mark, mark), gathered.updates);
        self.writing = Some(begun.map_err(|error| self.not_written(&error))?);
        Ok(())
    }

    fn end_writing(&mut self) -> Result<(), String> {
        if let Some(writing) = self.writing.take() {
            let written = writing.end();
            self.mark = Some(written.map_err(|error| self.not_written(&error))?);
        }
        Ok(())
    }

    /// Returns the message of a failed write. The database is then either as before the write or as after it; the next
    /// start determines which. fjall reports the cause of the failure only once.
    fn not_written(&self, error: &fjall::Error) -> String {
        self.fail(error);
        let folder = self.folder.0.display();
        format!(
            "cannot write the state in {folder}: {error}; if this happens again after a restart, remove the folder: it \
             is rebuilt from the ledger"
        )
    }

    /// Writes keys without a mark. The directory does not hold a valid state until a mark is written.
    pub fn load(&self, updates: &Updates) -> Result<(), String> {
        let written = catch_panic(|| {
            let mut batch = self.database.batch();
            writing::put(&mut batch, &self.keys, updates)?;
            batch.commit()
        });
        // The cache may have recorded keys as missing that exist now.
        self.cache.clear();
        written.map_err(|error| {
            self.fail(&error);
            format!("cannot write the state in {}: {error}", self.folder.0.display())
        })
    }

    /// Returns a function that makes everything that was written before durable. Another thread may call the function.
    pub fn sync(&self) -> impl FnOnce() -> io::Result<()> + Send + use<> {
        let database = self.database.clone();
        move || catch_panic(|| database.persist(PersistMode::SyncAll)).map_err(to_io_error)
    }

    /// Calls `each` with all keys: keys of the public state and of collections.
    pub fn each(&self, each: &mut EntryVisitor<'_>) {
        let mut changed = BTreeMap::new();
        for (namespace, collection, keys) in self.waiting().flat_map(Updates::collections) {
            changed.extend(
                keys.iter()
                    .map(|(key, update)| (db_key(namespace, collection, key), entry_of(update))),
            );
        }
        let mut show = |place: &[u8], entry: &Entry| match read_place(place) {
            Some((namespace, collection, key)) => each(namespace, collection, key, entry),
            None => self.failed(&"a key has an unknown form", true),
        };
        let on_disk = catch_panic(|| Ok(self.keys.range(..&EXPIRY[..])));
        let mut on_disk = match on_disk {
            Ok(on_disk) => on_disk,
            Err(error) => return self.fail(&error),
        };
        loop {
            let (db_key, bytes) = match catch_panic(|| on_disk.next().map(Guard::into_inner).transpose()) {
                Ok(Some(next)) => next,
                Ok(None) => break,
                Err(error) => return self.fail(&error),
            };
            if !changed.contains_key(&*db_key)
                && let Some(entry) = self.decode(&bytes)
            {
                show(&db_key, &entry);
            }
        }
        for (db_key, entry) in &changed {
            if let Some(entry) = entry {
                show(db_key, entry);
            }
        }
    }

    /// Returns the number of keys: keys of the public state and of collections. The method counts the keys one by one.
    ///
    /// Changes that are not written yet may reach the database during the count. Keys with such changes are therefore
    /// counted separately.
    pub fn len(&self) -> usize {
        let mut changed = BTreeMap::new();
        for (namespace, collection, keys) in self.waiting().flat_map(Updates::collections) {
            let keys = keys.iter();
            changed.extend(
                keys.map(|(key, update)| (db_key(namespace, collection, key), update.value.is_some())),
            );
        }
        let count_on_disk = || {
            self.keys.range(..&EXPIRY[..]).try_fold(0, |count, key| {
                let key = key.key()?;
                Ok(count + usize::from(!changed.contains_key(&*key)))
            })
        };
        let on_disk: usize = match catch_panic(count_on_disk) {
            Ok(count) => count,
            Err(error) => {
                self.fail(&error);
                return 0;
            }
        };
        on_disk + changed.values().filter(|is_there| **is_there).count()
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

#[cfg(test)]
impl Disk {
    /// Turns the database into one in the older layout: replaces the mark, and removes the index of keys that expire.
    pub fn make_older(&self) {
        let mark = self.mark.unwrap().encode();
        let older = [&MAGIC_WITHOUT_EXPIRY[..], &mark[MAGIC.len()..]].concat();
        self.keys.insert(MARK, older).unwrap();
        let listed = self.keys.range::<&[u8], _>(&EXPIRY[..]..&MARK[..]);
        for place in listed.map(|listed| listed.key().unwrap()).collect::<Vec<_>>() {
            self.keys.remove(place).unwrap();
        }
        self.sync()().unwrap();
    }
}

#[cfg(test)]
impl DurableMark {
    /// Returns the mark that tests use for block `last`.
    pub fn of(last: u64) -> Self {
        Self {
            last,
            hash: [last as u8; 32],
            commit_hash: [!last as u8; 32],
        }
    }
}

#[cfg(test)]
mod tests;
