//! The state that valid transactions leave: keys of chaincodes, hashed keys of their collections, transaction ids.

mod disk;
mod expiring;
mod folder;
mod ids;
mod keys;

pub(crate) use disk::{Disk, Mark};
use expiring::Expiring;
pub(crate) use expiring::{Due, expiry};
use hashbrown::HashMap;
pub use ids::{KnownIds, TxId, TxIds};
pub use keys::{Key, Keys};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

/// Where a value was written.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct Height {
    /// The block.
    pub block: u64,
    /// The transaction in it.
    pub tx: u64,
}

/// A value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Its bytes; of a collection, the hash of them.
    pub value: Arc<[u8]>,
    /// The metadata VALIDATION_PARAMETER: who has to endorse a write. Other metadata is not kept.
    pub validation_parameter: Option<Arc<[u8]>>,
    /// Who wrote it.
    pub version: Height,
}

/// A value, and its metadata VALIDATION_PARAMETER.
pub type Written = (Arc<[u8]>, Option<Arc<[u8]>>);

/// What a block does to a key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Update {
    /// `None`: it is deleted.
    pub value: Option<Written>,
    /// By whom.
    pub version: Height,
}

/// A namespace: `K` is what holds keys, public ones and those of each collection.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Space<K> {
    /// The chaincode's own.
    pub public: K,
    /// By the collection's name; keys are hashes.
    pub collections: BTreeMap<String, K>,
}

impl<K: Default> Space<K> {
    /// The keys of a collection, if there is such a one; `collection` is empty for the public ones.
    pub fn keys(&self, collection: &str) -> Option<&K> {
        match collection {
            "" => Some(&self.public),
            name => self.collections.get(name),
        }
    }

    fn keys_mut(&mut self, collection: &str) -> &mut K {
        if collection.is_empty() {
            return &mut self.public;
        }
        self.collections.entry(collection.to_owned()).or_default()
    }
}

/// Keys and what a block does to them, in order.
pub type Changes = BTreeMap<Key, Update>;

/// What a block does to the state, in the order of the commit hash: by namespace, key, collection.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Updates {
    /// By namespace.
    pub namespaces: BTreeMap<String, Space<Changes>>,
    /// The blockToLive of each collection that is changed here and whose keys expire.
    pub(crate) lives: Lives,
}

/// blockToLive, greater than 0, by namespace and collection.
pub(crate) type Lives = BTreeMap<String, BTreeMap<String, u64>>;

impl Updates {
    /// What the block does to a key.
    pub fn get(&self, namespace: &str, collection: &str, key: &[u8]) -> Option<&Update> {
        self.namespaces.get(namespace)?.keys(collection)?.get(key)
    }

    /// Does it; what was done before is forgotten.
    pub fn put(&mut self, namespace: &str, collection: &str, key: &[u8], update: Update) {
        if !self.namespaces.contains_key(namespace) {
            self.namespaces.insert(namespace.to_owned(), Space::default());
        }
        if let Some(space) = self.namespaces.get_mut(namespace) {
            space.keys_mut(collection).insert(key.into(), update);
        }
    }

    /// Each namespace's public keys (the empty collection), then those of its collections.
    pub(crate) fn collections(&self) -> impl Iterator<Item = (&str, &str, &Changes)> {
        self.namespaces.iter().flat_map(|(namespace, space)| {
            let public = std::iter::once(("", &space.public));
            let collections = space.collections.iter().map(|(name, keys)| (name.as_str(), keys));
            public
                .chain(collections)
                .map(|(name, keys)| (namespace.as_str(), name, keys))
        })
    }

    /// The blockToLive of a collection that is changed here; `None` if its keys do not expire.
    pub(crate) fn life(&self, namespace: &str, collection: &str) -> Option<u64> {
        self.lives.get(namespace)?.get(collection).copied()
    }

    /// Says that the keys of a collection expire.
    pub(crate) fn set_life(&mut self, namespace: &str, collection: &str, life: u64) {
        let lives = self.lives.entry(namespace.to_owned()).or_default();
        lives.insert(collection.to_owned(), life);
    }

    /// Keys written or deleted.
    pub fn len(&self) -> usize {
        self.collections().map(|(_, _, keys)| keys.len()).sum()
    }

    /// Whether the block changes nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The state: what is under each key, public ones and those of collections.
#[derive(Debug)]
pub struct State {
    kept: Kept,
}

/// Where it is kept.
#[derive(Debug)]
enum Kept {
    Memory(Memory),
    Disk(Box<Disk>),
    /// Somewhere that is not looked at: nothing can be asked.
    Elsewhere,
}

/// A state in memory.
#[derive(Default, Debug)]
struct Memory {
    namespaces: HashMap<String, Space<Keys>>,
    expiring: Expiring,
}

impl Default for State {
    /// Nothing, in memory.
    fn default() -> Self {
        Self::from(HashMap::new())
    }
}

impl From<HashMap<String, Space<Keys>>> for State {
    fn from(namespaces: HashMap<String, Space<Keys>>) -> Self {
        let kept = Kept::Memory(Memory {
            namespaces,
            expiring: Expiring::default(),
        });
        Self { kept }
    }
}

impl From<Disk> for State {
    fn from(disk: Disk) -> Self {
        let kept = Kept::Disk(Box::new(disk));
        Self { kept }
    }
}

/// A function that is called with namespace, collection (empty: public), key, and what is under it.
pub type Each<'a> = dyn FnMut(&str, &str, &[u8], &Entry) + 'a;

/// The keys and values of a range, in order.
type Range<'a> = Box<dyn Iterator<Item = (Cow<'a, [u8]>, Cow<'a, Entry>)> + 'a>;

impl State {
    /// One that cannot be asked, and is not changed.
    pub(crate) fn elsewhere() -> Self {
        let kept = Kept::Elsewhere;
        Self { kept }
    }

    /// What is in memory, by namespace, if it is.
    pub(crate) fn in_memory(&self) -> Option<&HashMap<String, Space<Keys>>> {
        match &self.kept {
            Kept::Memory(memory) => Some(&memory.namespaces),
            Kept::Disk(_) | Kept::Elsewhere => None,
        }
    }

    /// Schedules the keys of a collection that are in memory for their expiry. A checkpoint does not have the
    /// schedule, which follows from the versions.
    pub(crate) fn schedule(&mut self, namespace: &str, collection: &str, life: u64) {
        let Kept::Memory(memory) = &mut self.kept else {
            return;
        };
        let space = memory.namespaces.get(namespace);
        let Some(keys) = space.and_then(|space| space.collections.get(collection)) else {
            return;
        };
        for (key, entry) in keys.range((Bound::Unbounded, Bound::Unbounded)) {
            let written = Some(entry.version.block);
            memory
                .expiring
                .rewrite((namespace, collection), life, key, (None, written));
        }
    }

    /// Keys of collections that expire with block `number`, unless that block itself writes them.
    /// [`check`](Self::check) says whether these are all.
    pub(crate) fn due(&self, number: u64) -> Vec<Due> {
        match &self.kept {
            Kept::Memory(memory) => memory.expiring.due(number),
            Kept::Disk(disk) => disk.due(number),
            Kept::Elsewhere => Vec::new(),
        }
    }

    /// All keys that expire, each after the number of the block that it expires with, in order. On the disk, what
    /// blocks that are not written to it yet change is left out. [`check`](Self::check) says whether these are all.
    pub(crate) fn all_due(&self) -> BTreeSet<(u64, Due)> {
        let all = match &self.kept {
            Kept::Memory(memory) => memory.expiring.all(),
            Kept::Disk(disk) => disk.all_due(),
            Kept::Elsewhere => Vec::new(),
        };
        all.into_iter().collect()
    }

    /// All that is in memory: namespace, collection (empty: public), key, and what is under it. In no order.
    pub(crate) fn all_in_memory(&self) -> impl Iterator<Item = (&str, &str, &Key, &Entry)> {
        let spaces = self.in_memory().into_iter().flatten();
        spaces.flat_map(|(namespace, space)| {
            let collections = space.collections.iter().map(|(name, keys)| (name.as_str(), keys));
            let all = std::iter::once(("", &space.public)).chain(collections);
            all.flat_map(move |(collection, keys)| {
                let keys = keys.range((Bound::Unbounded, Bound::Unbounded));
                keys.map(move |(key, entry)| (namespace.as_str(), collection, key, entry))
            })
        })
    }

    /// Calls `each` with all that is in the state: namespace, collection (empty: public), key, and what is under it.
    /// The order is not defined. [`check`](Self::check) says whether that was all.
    pub fn each(&self, each: &mut Each<'_>) {
        match &self.kept {
            Kept::Memory(_) => {
                for (namespace, collection, key, entry) in self.all_in_memory() {
                    each(namespace, collection, key, entry);
                }
            }
            Kept::Disk(disk) => disk.each(each),
            Kept::Elsewhere => {}
        }
    }

    /// What is on the disk, if it is.
    pub(crate) fn on_disk(&self) -> Option<&Disk> {
        match &self.kept {
            Kept::Disk(disk) => Some(disk),
            Kept::Memory(_) | Kept::Elsewhere => None,
        }
    }

    /// Whether it has what block `number` does already.
    pub(crate) fn has(&self, number: u64) -> bool {
        match &self.kept {
            Kept::Memory(_) => false,
            Kept::Disk(disk) => disk.mark().is_some_and(|mark| number <= mark.last),
            Kept::Elsewhere => true,
        }
    }

    /// Whether all that was asked was answered: a state on the disk may not be readable, and then says that nothing
    /// is there.
    ///
    /// # Errors
    /// Why not, the first time. It does not get better before the ledger is opened again.
    pub fn check(&self) -> Result<(), String> {
        match &self.kept {
            Kept::Memory(_) => Ok(()),
            Kept::Disk(disk) => disk.failure().map_or(Ok(()), |what| Err(what.to_owned())),
            Kept::Elsewhere => Err("the state is not looked at here".to_owned()),
        }
    }

    /// What there is under a key. [`check`](Self::check) says whether that is so.
    pub fn get(&self, namespace: &str, collection: &str, key: &[u8]) -> Option<Cow<'_, Entry>> {
        match &self.kept {
            Kept::Memory(Memory { namespaces, .. }) => {
                let keys = namespaces.get(namespace)?.keys(collection)?;
                keys.get(key).map(Cow::Borrowed)
            }
            Kept::Disk(disk) => disk.get(namespace, collection, key).map(Cow::Owned),
            Kept::Elsewhere => None,
        }
    }

    /// Loads the entries of public keys, given with their namespaces, into the processor's caches, if they are in
    /// memory.
    ///
    /// The lookups do not depend on one another, so the processor waits once for the memory of several keys, where
    /// validation, which decides about each key, would wait for each of them.
    pub(crate) fn prefetch<'k>(&self, keys: impl Iterator<Item = (&'k str, &'k [u8])>) {
        let Kept::Memory(Memory { namespaces, .. }) = &self.kept else {
            return;
        };
        let hashed = keys.filter_map(|(namespace, key)| {
            let of = &namespaces.get(namespace)?.public;
            Some((of, of.hash(key), key))
        });
        let hashed: Vec<(&Keys, u64, &[u8])> = hashed.collect();
        for (keys, hash, key) in hashed {
            keys.prefetch(hash, key);
        }
    }

    /// Public keys from `start` on, before `end`; an empty `end` is none. [`check`](Self::check) says whether that is
    /// so.
    pub fn range<'a>(&'a self, namespace: &str, start: &'a [u8], end: &'a [u8]) -> Range<'a> {
        self.range_of(namespace, "", start, end)
    }

    /// Keys of a collection, which are hashes, or public ones where it is empty: from `start` on, before `end`; an
    /// empty `end` is none. [`check`](Self::check) says whether that is so.
    pub fn range_of<'a>(
        &'a self,
        namespace: &str,
        collection: &str,
        start: &'a [u8],
        end: &'a [u8],
    ) -> Range<'a> {
        match &self.kept {
            Kept::Memory(Memory { namespaces, .. }) => {
                let space = namespaces.get(namespace).and_then(|space| space.keys(collection));
                let keys = space.map(|keys| keys.range(bounds(start, end)));
                let keys = keys.into_iter().flatten();
                Box::new(keys.map(|(key, entry)| (Cow::Borrowed(&**key), Cow::Borrowed(entry))))
            }
            Kept::Disk(disk) => {
                let keys = disk.range(namespace, collection, start, end);
                Box::new(keys.map(|(key, entry)| (key, Cow::Owned(entry))))
            }
            Kept::Elsewhere => Box::new(std::iter::empty()),
        }
    }

    /// Returns the namespaces and collections (empty: public keys) that have keys, in order. On the disk, those whose
    /// last keys are deleted by blocks that are not written to it yet are among them. [`check`](Self::check) says
    /// whether that is so.
    pub fn spaces(&self) -> BTreeSet<(String, String)> {
        match &self.kept {
            Kept::Memory(Memory { namespaces, .. }) => {
                let spaces = namespaces.iter().flat_map(|(namespace, space)| {
                    let collections = space.collections.iter().map(|(name, keys)| (name.as_str(), keys));
                    let all = std::iter::once(("", &space.public)).chain(collections);
                    let used = all.filter(|(_, keys)| !keys.is_empty());
                    used.map(move |(collection, _)| (namespace.clone(), collection.to_owned()))
                });
                spaces.collect()
            }
            Kept::Disk(disk) => disk.spaces().into_iter().collect(),
            Kept::Elsewhere => BTreeSet::new(),
        }
    }

    /// What stands in the way of keeping this: more bytes of a key than can be kept, and how many can be.
    pub(crate) fn too_long(&self, updates: &Updates) -> Option<(usize, usize)> {
        let found = self.on_disk()?.too_long(updates)?;
        Some((found, disk::PLACE_BYTES_MAX))
    }

    /// Block `mark` does this.
    pub(crate) fn apply(&mut self, mark: Mark, updates: Updates) {
        match &mut self.kept {
            Kept::Memory(memory) => memory.apply(updates),
            Kept::Disk(disk) => disk.apply(mark, updates),
            Kept::Elsewhere => {}
        }
    }

    /// Puts keys into a state that is made from a snapshot. A state on the disk is damaged until [`Self::apply`] and
    /// [`Self::settle`] say which block it is of.
    ///
    /// # Errors
    /// Why it cannot be written.
    pub(crate) fn load(&mut self, updates: Updates) -> Result<(), String> {
        if let Kept::Disk(disk) = &self.kept {
            return match disk.too_long(&updates) {
                Some(bytes) => Err(format!(
                    "a key of {bytes} bytes with the names before it, and {} fit the state on the disk",
                    disk::PLACE_BYTES_MAX
                )),
                None => disk.load(&updates),
            };
        }
        let mark = Mark {
            last: 0,
            hash: [0; 32],
            commit_hash: [0; 32],
        };
        self.apply(mark, updates);
        Ok(())
    }

    /// The first `durable` blocks are durable in the ledger: what they do may go to the disk.
    ///
    /// # Errors
    /// Why it cannot be written. It does not get better before the ledger is opened again.
    pub(crate) fn settle(&mut self, durable: u64) -> Result<(), String> {
        match &mut self.kept {
            Kept::Disk(disk) => disk.settle(durable),
            Kept::Memory(_) | Kept::Elsewhere => Ok(()),
        }
    }

    /// The first `durable` blocks are durable in the ledger: what they do goes to the disk some time, where `soon` as
    /// soon as it can.
    ///
    /// # Errors
    /// The reason why it cannot be written. The state is to be opened again then.
    pub(crate) fn settle_behind(&mut self, durable: u64, soon: bool) -> Result<(), String> {
        match &mut self.kept {
            Kept::Disk(disk) => disk.settle_behind(durable, soon),
            Kept::Memory(_) | Kept::Elsewhere => Ok(()),
        }
    }

    /// Public keys of all namespaces, and keys of all collections. On the disk they are counted one by one.
    pub fn len(&self) -> usize {
        let collections = |space: &Space<Keys>| space.collections.values().map(Keys::len).sum::<usize>();
        match &self.kept {
            Kept::Memory(memory) => memory
                .namespaces
                .values()
                .map(|space| space.public.len() + collections(space))
                .sum(),
            Kept::Disk(disk) => disk.len(),
            Kept::Elsewhere => 0,
        }
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Memory {
    fn apply(&mut self, updates: Updates) {
        let Updates { namespaces, lives } = updates;
        for (namespace, updates) in namespaces {
            let lives = lives.get(&namespace);
            let space = self.namespaces.entry(namespace.clone()).or_default();
            let collections = updates.collections.into_iter();
            for (collection, updates) in std::iter::once((String::new(), updates.public)).chain(collections) {
                let keys = space.keys_mut(&collection);
                let life = lives.and_then(|lives| lives.get(&collection));
                for (key, update) in updates {
                    if let Some(life) = life {
                        let before = keys.get(&key).map(|entry| entry.version.block);
                        let after = update.value.is_some().then_some(update.version.block);
                        self.expiring
                            .rewrite((&namespace, &collection), *life, &key, (before, after));
                    }
                    keys.update(key, update);
                }
            }
        }
    }
}

/// From `start` on, before `end`; an empty `end` is none.
fn bounds<'a>(start: &'a [u8], end: &'a [u8]) -> (Bound<&'a [u8]>, Bound<&'a [u8]>) {
    let end = match end {
        [] => Bound::Unbounded,
        // `range` panics where the end is before the start; there is nothing in between.
        end => Bound::Excluded(end.max(start)),
    };
    (Bound::Included(start), end)
}

/// What is done to the keys from `start` on, before `end`.
pub(crate) fn range<'a>(
    changes: &'a Changes,
    start: &'a [u8],
    end: &'a [u8],
) -> impl Iterator<Item = (&'a Key, &'a Update)> {
    changes.range::<[u8], _>(bounds(start, end))
}
