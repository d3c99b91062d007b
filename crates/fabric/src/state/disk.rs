//! The state in a database on the disk, and in memory what the last blocks do to it.
//!
//! What a block does goes to the database when the block is durable in the ledger, all of it in one step with the
//! block's number and hashes, the mark. So the database is never ahead of the ledger; after a crash it may be behind,
//! and the blocks after its mark are executed again. A database that is damaged, or whose mark is not in the ledger, is
//! made anew: everything in it is in the ledger, too.
//!
//! Batches are linked: each names the block that the one before it ended with. fjall leaves out the rest of a log that
//! it cannot read, and goes on with the next log.
//!
//! The keys of collections that expire are listed a second time, by the block that removes them: after the prefix
//! `EXPIRY` come that block (u64, big endian) and the key's place; the value is the collection's blockToLive (u64,
//! little endian). A batch changes that index in the same step as the keys, so each key that expires is in it exactly
//! once.
//!
//! A key is the namespace and the collection, each with its length (u32, big endian) before it, and the key itself, so
//! that the keys of one collection stand together, in order. A value is block and transaction (u64, little endian),
//! whether there is a validation parameter (0 or 1), its length (u32, little endian), its bytes, and the value.

mod cache;
mod merged;
mod places;
mod writing;

use super::expiring::{self, Due};
use super::folder::Folder;
use super::{Each, Entry, Key, Update, Updates};
use cache::Cache;
use fjall::{Database, Guard, Keyspace, KeyspaceCreateOptions, PersistMode};
use merged::Merged;
use places::{after, decode, expiry_place, link, name, place, read_due, read_place, short_place};
use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io;
use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;
use writing::{Gathered, Writing};

/// Bytes of the database's blocks that are held in memory to be read again, at most; keys have a cache of their own.
const CACHE_BYTES: u64 = 128 << 20;
/// No namespace is so long: the mark comes after all keys, and behind it the links.
const MARK: [u8; 4] = [0xff; 4];
/// First bytes of the index of keys that expire, after all keys and before the mark.
const EXPIRY: [u8; 4] = [0xff, 0xff, 0xff, 0xfe];
/// Description of a damaged index.
const NO_INDEX: &str = "an index of expiring keys that this program does not write";
/// Bytes before the key's place in that index.
const EXPIRY_BYTES: usize = EXPIRY.len() + 8;
/// How many blocks back there are links.
const LINKS: u64 = if cfg!(test) { 16 } else { 1 << 16 };
/// What the first link names as the block before it.
const NO_BLOCK: u64 = u64::MAX;
/// First bytes of the mark; the last digit is the layout's version.
const MAGIC: &[u8; 8] = b"LSFSTAT3";
/// First bytes of the mark in a state of versions without the index of keys that expire: no key in it does, unless it
/// was made from a snapshot.
const MAGIC_WITHOUT_EXPIRY: &[u8; 8] = b"LSFSTAT2";
/// Bytes that say how long the names before a key are.
const HEAD_BYTES: usize = 8;
/// Bytes of a place, at most: fjall holds their number in 16 bits.
pub(super) const PLACE_BYTES_MAX: usize = u16::MAX as usize;
/// Bytes of what is not in tables yet, at which another table is written; a few such are held in memory.
const MEMTABLE_BYTES: u64 = if cfg!(test) { 16 << 10 } else { 32 << 20 };
/// Bytes of logs, at most, that are read when the database is opened.
const JOURNALS_BYTES: u64 = 128 << 20;
/// How often a database that somebody else has open is tried again.
const TRIES: u32 = 50;
const TRY_AGAIN: Duration = Duration::from_millis(100);

/// The last block whose updates the database has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Mark {
    pub last: u64,
    /// Its header hash.
    pub hash: [u8; 32],
    /// Its commit hash; zeros where it has none. The header says nothing of codes.
    pub commit_hash: [u8; 32],
}

impl Mark {
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

/// What a block does that is not in the database yet.
struct Pending {
    mark: Mark,
    updates: Updates,
}

/// A state on the disk.
pub(crate) struct Disk {
    database: Database,
    keys: Keyspace,
    folder: Folder,
    /// It is only looked at: nothing is written to it.
    looked_at: bool,
    mark: Option<Mark>,
    /// A version without the index of keys that expire wrote its mark.
    lacks_expiry: bool,
    /// Blocks that are not durable in the ledger yet, oldest first.
    pending: VecDeque<Pending>,
    /// Durable blocks before them that are not in the database yet.
    gathered: Gathered,
    /// Those before these, which are being written.
    writing: Option<Writing>,
    /// Newer than all these for every key that it has.
    cache: Cache,
    /// Why it could not be read or written, the first time.
    failure: OnceLock<String>,
}

impl fmt::Debug for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the state in {}, {:?}", self.folder.0.display(), self.mark)
    }
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

fn in_use() -> io::Error {
    io::Error::new(io::ErrorKind::ResourceBusy, "another process has the state open")
}

/// Whether it says that files are not as they were written, rather than that something stands in the way.
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
    /// Opens the database in a folder, or makes one; and why it had to be made anew, if it had.
    pub fn open(directory: &Path) -> io::Result<(Self, Option<String>)> {
        let folder = Folder(directory.to_owned());
        folder.claim()?;
        let why = match folder.is_damaged() {
            Some(why) => why.to_owned(),
            None => match Self::existing(&folder) {
                Ok(disk) => return Ok((disk, None)),
                Err(fjall::Error::Locked) => return Err(in_use()),
                Err(error) if is_damage(&error) => error.to_string(),
                Err(error) => return Err(other(error)),
            },
        };
        Self::create_empty(directory).map(|disk| (disk, Some(why)))
    }

    /// Opens the database in a folder to be looked at. `ResourceBusy`: another process has it open.
    pub fn look(directory: &Path) -> io::Result<Self> {
        let folder = Folder(directory.to_owned());
        if !folder.is_one() || folder.is_damaged().is_some() || !folder.database().exists() {
            let what = format!("there is no sound state in {}", directory.display());
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

    /// Creates an empty state in `directory`, in place of a state that may be there.
    pub fn create_empty(directory: &Path) -> io::Result<Self> {
        let folder = Folder(directory.to_owned());
        folder.claim()?;
        folder.clear()?;
        Self::existing(&folder).map_err(other)
    }

    /// Whether there is a state, sound or not.
    pub fn is_at(directory: &Path) -> bool {
        Folder(directory.to_owned()).is_one()
    }

    /// Removes a state that nobody has open.
    pub fn remove(directory: &Path) -> io::Result<()> {
        Folder(directory.to_owned()).remove()
    }

    /// Whether a state was found there to be damaged.
    pub fn is_damaged(directory: &Path) -> bool {
        Folder(directory.to_owned()).is_damaged().is_some()
    }

    fn existing(folder: &Folder) -> Result<Self, fjall::Error> {
        for _ in 1..TRIES {
            match folder.open(|_| Self::at(folder)) {
                Err(fjall::Error::Locked) => std::thread::sleep(TRY_AGAIN),
                opened => return opened,
            }
        }
        Self::at(folder)
    }

    fn at(folder: &Folder) -> Result<Self, fjall::Error> {
        guarded(|| {
            if !folder.has_true_lists()? {
                return Err(fjall::Error::Unrecoverable);
            }
            let database = Database::builder(folder.database())
                .cache_size(CACHE_BYTES)
                .max_journaling_size(JOURNALS_BYTES)
                .open()?;
            let options = || KeyspaceCreateOptions::default().max_memtable_size(MEMTABLE_BYTES);
            let keys = database.keyspace("keys", options)?;
            let found = keys.get(MARK)?;
            let lacks_expiry = found
                .as_ref()
                .is_some_and(|bytes| bytes.starts_with(MAGIC_WITHOUT_EXPIRY));
            let mark = match found {
                Some(bytes) => Some(Mark::decode(&bytes).ok_or(fjall::Error::Unrecoverable)?),
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
                gathered: Gathered::default(),
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

    /// Whether each batch that is known stands on the one before it, and the last one has the mark.
    fn has_all_links(&self) -> Result<bool, fjall::Error> {
        let mut last = None;
        for link in self.keys.range(link(0)..) {
            let (place, before) = link.into_inner()?;
            if last.as_deref().is_some_and(|last| last != &*before) {
                return Ok(false);
            }
            last = place.strip_prefix(&MARK[..]).map(<[u8]>::to_vec);
        }
        let mark = self.mark.map(|mark| mark.last.to_be_bytes().to_vec());
        Ok(last == mark)
    }

    /// The last block whose updates the database has.
    pub fn mark(&self) -> Option<Mark> {
        self.mark
    }

    /// Whether a version wrote it that knew of no key that expires.
    pub fn lacks_expiry(&self) -> bool {
        self.lacks_expiry
    }

    /// Why it could not be read or written, if it could not.
    pub fn failure(&self) -> Option<&str> {
        self.failure.get().map(String::as_str)
    }

    fn fail(&self, error: &fjall::Error) {
        self.failed(error, is_damage(error));
    }

    /// Whoever opens it next makes it anew, if it is damaged.
    fn failed(&self, what: &dyn fmt::Display, is_damaged: bool) {
        if is_damaged && !self.looked_at {
            self.folder.set_damaged(&what.to_string());
        }
        self.failure
            .get_or_init(|| format!("the state in {}: {what}", self.folder.0.display()));
    }

    /// The most bytes that a key of these has with the names before it, if that is more than is taken.
    pub fn too_long(&self, updates: &Updates) -> Option<usize> {
        let all = updates.collections();
        let bytes = all.flat_map(|(namespace, collection, keys)| {
            let index = updates.life(namespace, collection).map_or(0, |_| EXPIRY_BYTES);
            let head = index + HEAD_BYTES + namespace.len() + collection.len();
            keys.keys().map(move |key| head + key.len())
        });
        bytes.max().filter(|bytes| *bytes > PLACE_BYTES_MAX)
    }

    /// Keys that expire with block `number`.
    pub fn due(&self, number: u64) -> Vec<Due> {
        let mut due = Vec::new();
        for (at, updates) in self.waiting().enumerate() {
            for (namespace, collection, keys) in updates.collections() {
                let Some(life) = updates.life(namespace, collection) else {
                    continue;
                };
                let expires = |update: &Update| {
                    update.value.is_some() && expiring::expiry(update.version.block, life) == Some(number)
                };
                let keys = keys.iter().filter(|(_, update)| expires(update));
                let newest = keys.filter(|(key, _)| !self.is_waiting(at + 1, (namespace, collection), key));
                due.extend(newest.map(|(key, _)| Due {
                    namespace: namespace.to_owned(),
                    collection: collection.to_owned(),
                    key: key.clone(),
                    life,
                }));
            }
        }
        let from = expiry_place(number, &[]);
        let behind = after(&from);
        let listed = guarded(|| {
            let listed = self.keys.range::<Vec<u8>, _>(from..behind);
            listed.map(Guard::into_inner).collect::<Result<Vec<_>, _>>()
        });
        for (place, life) in listed.unwrap_or_else(|error| {
            self.fail(&error);
            Vec::new()
        }) {
            let Some(found) = read_due(&place, &life) else {
                self.failed(&NO_INDEX, true);
                return Vec::new();
            };
            if !self.is_waiting(0, (&found.namespace, &found.collection), &found.key) {
                due.push(found);
            }
        }
        due
    }

    /// All keys that expire, each after the number of the block that it expires with. Only what is in the database
    /// counts.
    pub fn all_due(&self) -> Vec<(u64, Due)> {
        let listed = guarded(|| {
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

    /// Updates that are not in the database yet, oldest first.
    fn waiting(&self) -> impl DoubleEndedIterator<Item = &Updates> {
        let writing = self.writing.as_ref().map(|writing| &*writing.updates);
        let pending = self.pending.iter().map(|pending| &pending.updates);
        writing
            .into_iter()
            .chain(std::iter::once(&self.gathered.updates))
            .chain(pending)
    }

    /// Returns true if updates that are not in the database yet, but for the `from` oldest parts of them, change a key.
    fn is_waiting(&self, from: usize, (namespace, collection): (&str, &str), key: &Key) -> bool {
        let mut waiting = self.waiting().skip(from);
        waiting.any(|updates| updates.get(namespace, collection, key).is_some())
    }

    /// What there is under a key.
    pub fn get(&self, namespace: &str, collection: &str, key: &[u8]) -> Option<Entry> {
        let place = short_place(namespace, collection, key);
        if let Some(known) = self.cache.get(&place) {
            return known;
        }
        let mut waiting = self.waiting().rev();
        let entry = match waiting.find_map(|updates| updates.get(namespace, collection, key)) {
            Some(update) => entry_of(update),
            None if place.len() > PLACE_BYTES_MAX => return None,
            None => match guarded(|| self.keys.get(place.as_slice())) {
                Ok(None) => None,
                Ok(Some(bytes)) => Some(self.decode(&bytes)?),
                Err(error) => {
                    self.fail(&error);
                    return None;
                }
            },
        };
        self.cache.put(&place, entry.clone());
        entry
    }

    fn decode(&self, bytes: &[u8]) -> Option<Entry> {
        let entry = decode(bytes);
        if entry.is_none() {
            self.failed(&"a value that this program does not write", true);
        }
        entry
    }

    /// Keys of a collection (empty: public ones) from `start` on, before `end`; an empty `end` is none.
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
        let first = place(namespace, collection, start);
        let head = first.len() - start.len();
        let behind = match end {
            [] => after(first.get(..head).unwrap_or_default()),
            end => place(namespace, collection, end.max(start)),
        };
        Merged {
            disk: self,
            head,
            kept: self.kept(first, behind),
            next: None,
            changed,
        }
    }

    /// Namespaces and collections (empty: public keys) that have keys, in no order, some twice. Those whose last keys
    /// are deleted by blocks that are not in the database yet are among them.
    pub fn spaces(&self) -> Vec<(String, String)> {
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

    /// The namespace and the collection of the first key from a place on, and what its places begin with.
    fn first_space(&self, from: &[u8]) -> Option<((String, String), Vec<u8>)> {
        // Nothing but keys begins with a length below 2^24, as every name's is.
        let first = guarded(|| {
            let mut keys = self.keys.range::<Vec<u8>, _>(from.to_vec()..vec![1]);
            keys.next().map(Guard::key).transpose()
        });
        let key = first.map_err(|error| self.fail(&error)).ok()??;
        let (namespace, rest) = name(&key)?;
        let (collection, _) = name(rest)?;
        Some((
            (namespace.to_owned(), collection.to_owned()),
            place(namespace, collection, &[]),
        ))
    }

    /// What the database has from `first` on, before `behind`.
    fn kept(&self, mut first: Vec<u8>, mut behind: Vec<u8>) -> Option<fjall::Iter> {
        // No place is so long: what is before one that is longer is what is not behind its beginning.
        let [first_is_long, behind_is_long] = [&mut first, &mut behind].map(|place| {
            let is_long = place.len() > PLACE_BYTES_MAX;
            place.truncate(PLACE_BYTES_MAX);
            is_long
        });
        if first > behind || first == behind && (first_is_long || !behind_is_long) {
            return None;
        }
        let bounds = (
            if first_is_long {
                Bound::Excluded(first)
            } else {
                Bound::Included(first)
            },
            if behind_is_long {
                Bound::Included(behind)
            } else {
                Bound::Excluded(behind)
            },
        );
        let kept = guarded(|| Ok(self.keys.range::<Vec<u8>, _>(bounds)));
        kept.map_err(|error| self.fail(&error)).ok()
    }

    /// Block `mark` does this.
    pub fn apply(&mut self, mark: Mark, updates: Updates) {
        if self.mark.is_none_or(|kept| kept.last < mark.last) {
            for (namespace, collection, keys) in updates.collections() {
                for (key, update) in keys {
                    self.cache
                        .put(&short_place(namespace, collection, key), entry_of(update));
                }
            }
            self.pending.push_back(Pending { mark, updates });
        }
    }

    /// Writes what the first `durable` blocks do, unless it is only looked at, and waits for that.
    pub fn settle(&mut self, durable: u64) -> Result<(), String> {
        self.gather(durable);
        while !self.looked_at && (self.writing.is_some() || self.gathered.mark.is_some()) {
            self.end_writing()?;
            self.begin_writing()?;
        }
        Ok(())
    }

    /// Takes what the first `durable` blocks do from those that wait, and goes on with writing: when enough is
    /// gathered, or where `soon`, on another thread.
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
        let begun = Writing::begin((&self.database, &self.keys), (self.mark, mark), gathered.updates);
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

    /// After this the database is as it was before, or after: a restart will see. fjall names the cause only once.
    fn not_written(&self, error: &fjall::Error) -> String {
        self.fail(error);
        let folder = self.folder.0.display();
        format!(
            "writing the state in {folder}: {error}; if that comes again after a restart, remove the folder: it is \
             made again from the ledger"
        )
    }

    /// Writes keys without a mark: what is there is no state before it has one.
    pub fn load(&self, updates: &Updates) -> Result<(), String> {
        let written = guarded(|| {
            let mut batch = self.database.batch();
            writing::put(&mut batch, &self.keys, updates)?;
            batch.commit()
        });
        // What was looked for before is not what is there now.
        self.cache.clear();
        written.map_err(|error| {
            self.fail(&error);
            format!("writing the state in {}: {error}", self.folder.0.display())
        })
    }

    /// Makes what was written so far outlast a power cut; for another thread.
    pub fn sync(&self) -> impl FnOnce() -> io::Result<()> + Send + use<> {
        let database = self.database.clone();
        move || guarded(|| database.persist(PersistMode::SyncAll)).map_err(other)
    }

    /// Calls `each` with all keys, public ones and those of collections.
    pub fn each(&self, each: &mut Each<'_>) {
        let mut changed = BTreeMap::new();
        for (namespace, collection, keys) in self.waiting().flat_map(Updates::collections) {
            changed.extend(
                keys.iter()
                    .map(|(key, update)| (place(namespace, collection, key), entry_of(update))),
            );
        }
        let mut show = |place: &[u8], entry: &Entry| match read_place(place) {
            Some((namespace, collection, key)) => each(namespace, collection, key, entry),
            None => self.failed(&"a key that this program does not write", true),
        };
        let kept = guarded(|| Ok(self.keys.range(..&EXPIRY[..])));
        let mut kept = match kept {
            Ok(kept) => kept,
            Err(error) => return self.fail(&error),
        };
        loop {
            let (place, bytes) = match guarded(|| kept.next().map(Guard::into_inner).transpose()) {
                Ok(Some(next)) => next,
                Ok(None) => break,
                Err(error) => return self.fail(&error),
            };
            if !changed.contains_key(&*place)
                && let Some(entry) = self.decode(&bytes)
            {
                show(&place, &entry);
            }
        }
        for (place, entry) in &changed {
            if let Some(entry) = entry {
                show(place, entry);
            }
        }
    }

    /// The number of keys, public ones and those of collections, counted one by one.
    ///
    /// The database may gain the waiting changes while this counts: of a key that changes, only the change counts.
    pub fn len(&self) -> usize {
        let mut changed = BTreeMap::new();
        for (namespace, collection, keys) in self.waiting().flat_map(Updates::collections) {
            let keys = keys.iter();
            changed.extend(
                keys.map(|(key, update)| (place(namespace, collection, key), update.value.is_some())),
            );
        }
        let kept = || {
            self.keys.range(..&EXPIRY[..]).try_fold(0, |count, key| {
                let key = key.key()?;
                Ok(count + usize::from(!changed.contains_key(&*key)))
            })
        };
        let kept: usize = match guarded(kept) {
            Ok(count) => count,
            Err(error) => {
                self.fail(&error);
                return 0;
            }
        };
        kept + changed.values().filter(|is_there| **is_there).count()
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
    /// Gives the state the mark of a version without the index of keys that expire, and removes the index.
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
impl Mark {
    /// One that tests give a block.
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
