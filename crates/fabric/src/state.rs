//! The state that valid transactions produce: the public keys and values of chaincodes ("public" as opposed to private
//! data), hashed keys of their private data collections, and the index of transaction ids. The state is stored in
//! memory or in a database on the disk.

mod disk;
mod expiring;
mod folder;
mod ids;
mod keys;

pub(crate) use disk::{Disk, DurableMark};
use expiring::Expiring;
pub(crate) use expiring::{ExpiringKey, expiry};
use hashbrown::HashMap;
pub use ids::{KnownIds, TxId, TxIds};
pub use keys::{Key, Keys};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

/// Position of a transaction in the chain; the version of the values that it wrote.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct Height {
    /// Block number.
    pub block: u64,
    /// Index of the transaction in the block.
    pub tx: u64,
}

/// The value of a key, with its metadata.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The value; for a collection, its hash.
    pub value: Arc<[u8]>,
    /// The metadata entry VALIDATION_PARAMETER, the key's endorsement policy. Other metadata entries are not stored.
    pub validation_parameter: Option<Arc<[u8]>>,
    /// Position of the transaction that wrote the value.
    pub version: Height,
}

/// A value, and the metadata entry VALIDATION_PARAMETER of its key.
pub type StateValue = (Arc<[u8]>, Option<Arc<[u8]>>);

/// Change of a key by a block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Update {
    /// The new value; `None` deletes the key.
    pub value: Option<StateValue>,
    /// Position of the transaction that made the change.
    pub version: Height,
}

/// A namespace. `K` is the type that contains the keys of the public state, and the keys of each collection.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct NamespaceState<K> {
    /// The chaincode's keys in the public state.
    pub public: K,
    /// Keys of each collection, by the collection's name; these keys are hashes.
    pub collections: BTreeMap<String, K>,
}

impl<K: Default> NamespaceState<K> {
    /// Returns the keys of a collection, if the collection exists. With an empty name, returns the keys of the public
    /// state.
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

/// Changed keys of a block, in key order.
pub type Changes = BTreeMap<Key, Update>;

/// Changes of the state by a block, in the order of the commit hash: namespace, collection, key.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Updates {
    /// Changes by namespace.
    pub namespaces: BTreeMap<String, NamespaceState<Changes>>,
    /// `blockToLive` of each changed collection whose keys expire.
    pub(crate) lives: CollectionLifetimes,
}

/// `blockToLive`, greater than 0, by namespace and collection.
pub(crate) type CollectionLifetimes = BTreeMap<String, BTreeMap<String, u64>>;

impl Updates {
    /// Returns the change of a key.
    pub fn get(&self, namespace: &str, collection: &str, key: &[u8]) -> Option<&Update> {
        self.namespaces.get(namespace)?.keys(collection)?.get(key)
    }

    /// Sets the change of a key, in place of an earlier one.
    pub fn put(&mut self, namespace: &str, collection: &str, key: &[u8], update: Update) {
        if !self.namespaces.contains_key(namespace) {
            self.namespaces
                .insert(namespace.to_owned(), NamespaceState::default());
        }
        if let Some(space) = self.namespaces.get_mut(namespace) {
            space.keys_mut(collection).insert(key.into(), update);
        }
    }

    /// Returns each namespace's keys in the public state (with an empty collection name), then the keys of its
    /// collections.
    pub(crate) fn collections(&self) -> impl Iterator<Item = (&str, &str, &Changes)> {
        self.namespaces.iter().flat_map(|(namespace, space)| {
            let public = std::iter::once(("", &space.public));
            let collections = space.collections.iter().map(|(name, keys)| (name.as_str(), keys));
            public
                .chain(collections)
                .map(|(name, keys)| (namespace.as_str(), name, keys))
        })
    }

    /// Returns the `blockToLive` of a changed collection; `None` if its keys do not expire.
    pub(crate) fn lifetime(&self, namespace: &str, collection: &str) -> Option<u64> {
        self.lives.get(namespace)?.get(collection).copied()
    }

    /// Sets the `blockToLive` of a collection.
    pub(crate) fn set_life(&mut self, namespace: &str, collection: &str, life: u64) {
        let lives = self.lives.entry(namespace.to_owned()).or_default();
        lives.insert(collection.to_owned(), life);
    }

    /// Returns the number of changed keys.
    pub fn len(&self) -> usize {
        self.collections().map(|(_, _, keys)| keys.len()).sum()
    }

    /// Returns whether no key is changed.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The state: the values of the keys of the public state and of the keys of collections.
#[derive(Debug)]
pub struct State {
    storage: StateStorage,
}

/// Storage of a state.
#[derive(Debug)]
enum StateStorage {
    Memory(Memory),
    Disk(Box<Disk>),
    /// The state is not opened: lookups return nothing, and [`State::check`] returns an error.
    Elsewhere,
}

/// A state in memory.
#[derive(Default, Debug)]
struct Memory {
    namespaces: HashMap<String, NamespaceState<Keys>>,
    expiring: Expiring,
}

impl Default for State {
    /// Returns an empty state in memory.
    fn default() -> Self {
        Self::from(HashMap::new())
    }
}

impl From<HashMap<String, NamespaceState<Keys>>> for State {
    fn from(namespaces: HashMap<String, NamespaceState<Keys>>) -> Self {
        let kept = StateStorage::Memory(Memory {
            namespaces,
            expiring: Expiring::default(),
        });
        Self { storage: kept }
    }
}

impl From<Disk> for State {
    fn from(disk: Disk) -> Self {
        let kept = StateStorage::Disk(Box::new(disk));
        Self { storage: kept }
    }
}

/// Callback that receives namespace, collection (empty: public), key and entry.
pub type EntryVisitor<'a> = dyn FnMut(&str, &str, &[u8], &Entry) + 'a;

/// Iterator over the keys and entries of a range, in key order.
type Range<'a> = Box<dyn Iterator<Item = (Cow<'a, [u8]>, Cow<'a, Entry>)> + 'a>;

impl State {
    /// Returns a placeholder for a state that is not opened: lookups return nothing, and changes are ignored.
    pub(crate) fn placeholder() -> Self {
        let kept = StateStorage::Elsewhere;
        Self { storage: kept }
    }

    /// Returns the keys by namespace, if the state is in memory.
    pub(crate) fn in_memory(&self) -> Option<&HashMap<String, NamespaceState<Keys>>> {
        match &self.storage {
            StateStorage::Memory(memory) => Some(&memory.namespaces),
            StateStorage::Disk(_) | StateStorage::Elsewhere => None,
        }
    }

    /// Adds the keys of a collection to the expiry schedule, if the state is in memory. Checkpoints do not contain the
    /// schedule, because it follows from the versions of the keys.
    pub(crate) fn schedule(&mut self, namespace: &str, collection: &str, life: u64) {
        let StateStorage::Memory(memory) = &mut self.storage else {
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

    /// Returns the keys of collections that expire with block `number`, unless that block itself writes them. The
    /// result is complete only if [`check`](Self::check) succeeds.
    pub(crate) fn expiring_with(&self, number: u64) -> Vec<ExpiringKey> {
        match &self.storage {
            StateStorage::Memory(memory) => memory.expiring.expiring_with(number),
            StateStorage::Disk(disk) => disk.expiring_with(number),
            StateStorage::Elsewhere => Vec::new(),
        }
    }

    /// Returns all keys that expire, ordered by the number of the block that removes them. For a state on the disk,
    /// changes that are not in the database yet are ignored. The result is complete only if [`check`](Self::check)
    /// succeeds.
    pub(crate) fn all_due(&self) -> BTreeSet<(u64, ExpiringKey)> {
        let all = match &self.storage {
            StateStorage::Memory(memory) => memory.expiring.all(),
            StateStorage::Disk(disk) => disk.all_due(),
            StateStorage::Elsewhere => Vec::new(),
        };
        all.into_iter().collect()
    }

    /// Returns namespace, collection (empty: public), key and entry of all keys in memory, in no defined order.
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

    /// Calls `each` with namespace, collection (empty: public), key and entry of every key, in no defined order. The
    /// result is complete only if [`check`](Self::check) succeeds.
    pub fn each(&self, each: &mut EntryVisitor<'_>) {
        match &self.storage {
            StateStorage::Memory(_) => {
                for (namespace, collection, key, entry) in self.all_in_memory() {
                    each(namespace, collection, key, entry);
                }
            }
            StateStorage::Disk(disk) => disk.each(each),
            StateStorage::Elsewhere => {}
        }
    }

    /// Returns the database, if the state is on the disk.
    pub(crate) fn on_disk(&self) -> Option<&Disk> {
        match &self.storage {
            StateStorage::Disk(disk) => Some(disk),
            StateStorage::Memory(_) | StateStorage::Elsewhere => None,
        }
    }

    /// Returns whether the state already contains the changes of block `number`.
    pub(crate) fn has(&self, number: u64) -> bool {
        match &self.storage {
            StateStorage::Memory(_) => false,
            StateStorage::Disk(disk) => disk.durable_mark().is_some_and(|mark| number <= mark.last),
            StateStorage::Elsewhere => true,
        }
    }

    /// Returns an error if an earlier lookup failed. A state on the disk that cannot be read reports keys as missing,
    /// so the results of lookups are valid only if this method returns `Ok`.
    ///
    /// # Errors
    /// The first failure. It persists until the ledger is opened again.
    pub fn check(&self) -> Result<(), String> {
        match &self.storage {
            StateStorage::Memory(_) => Ok(()),
            StateStorage::Disk(disk) => disk.failure().map_or(Ok(()), |what| Err(what.to_owned())),
            StateStorage::Elsewhere => {
                Err("the ledger was opened without its state, so keys cannot be looked up".to_owned())
            }
        }
    }

    /// Returns the entry of a key. The result is valid only if [`check`](Self::check) succeeds.
    pub fn get(&self, namespace: &str, collection: &str, key: &[u8]) -> Option<Cow<'_, Entry>> {
        match &self.storage {
            StateStorage::Memory(Memory { namespaces, .. }) => {
                let keys = namespaces.get(namespace)?.keys(collection)?;
                keys.get(key).map(Cow::Borrowed)
            }
            StateStorage::Disk(disk) => disk.get(namespace, collection, key).map(Cow::Owned),
            StateStorage::Elsewhere => None,
        }
    }

    /// Returns the keys of the public state from `start` (inclusive) to `end` (exclusive); an empty `end` means no
    /// upper bound. The result is complete only if [`check`](Self::check) succeeds.
    pub fn range<'a>(&'a self, namespace: &str, start: &'a [u8], end: &'a [u8]) -> Range<'a> {
        self.range_of(namespace, "", start, end)
    }

    /// Returns the keys of a collection, which are hashes, from `start` (inclusive) to `end` (exclusive); an empty
    /// `end` means no upper bound. An empty `collection` means the public state. The result is complete only if
    /// [`check`](Self::check) succeeds.
    pub fn range_of<'a>(
        &'a self,
        namespace: &str,
        collection: &str,
        start: &'a [u8],
        end: &'a [u8],
    ) -> Range<'a> {
        match &self.storage {
            StateStorage::Memory(Memory { namespaces, .. }) => {
                let space = namespaces.get(namespace).and_then(|space| space.keys(collection));
                let keys = space.map(|keys| keys.range(bounds(start, end)));
                let keys = keys.into_iter().flatten();
                Box::new(keys.map(|(key, entry)| (Cow::Borrowed(&**key), Cow::Borrowed(entry))))
            }
            StateStorage::Disk(disk) => {
                let keys = disk.range(namespace, collection, start, end);
                Box::new(keys.map(|(key, entry)| (key, Cow::Owned(entry))))
            }
            StateStorage::Elsewhere => Box::new(std::iter::empty()),
        }
    }

    /// Returns the namespaces and collections (empty: the public state) that have keys, in order. For a state on the
    /// disk, the result also includes collections whose last keys were deleted by changes that are not in the database
    /// yet. The result is complete only if [`check`](Self::check) succeeds.
    pub fn namespaces(&self) -> BTreeSet<(String, String)> {
        match &self.storage {
            StateStorage::Memory(Memory { namespaces, .. }) => {
                let spaces = namespaces.iter().flat_map(|(namespace, space)| {
                    let collections = space.collections.iter().map(|(name, keys)| (name.as_str(), keys));
                    let all = std::iter::once(("", &space.public)).chain(collections);
                    let used = all.filter(|(_, keys)| !keys.is_empty());
                    used.map(move |(collection, _)| (namespace.clone(), collection.to_owned()))
                });
                spaces.collect()
            }
            StateStorage::Disk(disk) => disk.namespaces().into_iter().collect(),
            StateStorage::Elsewhere => BTreeSet::new(),
        }
    }

    /// Returns the size of the longest changed key and the maximum, in bytes, if the state on the disk cannot store
    /// that key.
    pub(crate) fn too_long(&self, updates: &Updates) -> Option<(usize, usize)> {
        let found = self.on_disk()?.too_long(updates)?;
        Some((found, disk::PLACE_BYTES_MAX))
    }

    /// Applies `updates`, the changes of the block that `mark` names.
    pub(crate) fn apply(&mut self, mark: DurableMark, updates: Updates) {
        match &mut self.storage {
            StateStorage::Memory(memory) => memory.apply(updates),
            StateStorage::Disk(disk) => disk.apply(mark, updates),
            StateStorage::Elsewhere => {}
        }
    }

    /// Adds keys to a state that is being restored from a snapshot. A state on the disk counts as damaged until
    /// [`Self::apply`] and [`Self::write_durable`] set the block that it belongs to.
    ///
    /// # Errors
    /// The state cannot be written.
    pub(crate) fn load(&mut self, updates: Updates) -> Result<(), String> {
        if let StateStorage::Disk(disk) = &self.storage {
            return match disk.too_long(&updates) {
                Some(bytes) => Err(format!(
                    "a key with its namespace and collection has {bytes} bytes, but a state on the disk stores at \
                     most {}; use a state in memory (`--state memory`)",
                    disk::PLACE_BYTES_MAX
                )),
                None => disk.load(&updates),
            };
        }
        let mark = DurableMark {
            last: 0,
            hash: [0; 32],
            commit_hash: [0; 32],
        };
        self.apply(mark, updates);
        Ok(())
    }

    /// Writes the changes of the first `durable` blocks to the disk. These blocks must be durable in the ledger.
    ///
    /// # Errors
    /// The state cannot be written. The failure persists until the ledger is opened again.
    pub(crate) fn write_durable(&mut self, durable: u64) -> Result<(), String> {
        match &mut self.storage {
            StateStorage::Disk(disk) => disk.write_durable(durable),
            StateStorage::Memory(_) | StateStorage::Elsewhere => Ok(()),
        }
    }

    /// Passes the changes of the first `durable` blocks to the database, which writes them in the background: when
    /// enough changes are gathered, or as soon as possible if `soon` is true. These blocks must be durable in the
    /// ledger.
    ///
    /// # Errors
    /// The state cannot be written. The ledger must be opened again.
    pub(crate) fn settle_behind(&mut self, durable: u64, soon: bool) -> Result<(), String> {
        match &mut self.storage {
            StateStorage::Disk(disk) => disk.settle_behind(durable, soon),
            StateStorage::Memory(_) | StateStorage::Elsewhere => Ok(()),
        }
    }

    /// Returns the number of keys: keys of the public state and of collections. For a state on the disk, this method
    /// counts the keys one by one.
    pub fn len(&self) -> usize {
        let collections =
            |space: &NamespaceState<Keys>| space.collections.values().map(Keys::len).sum::<usize>();
        match &self.storage {
            StateStorage::Memory(memory) => memory
                .namespaces
                .values()
                .map(|space| space.public.len() + collections(space))
                .sum(),
            StateStorage::Disk(disk) => disk.len(),
            StateStorage::Elsewhere => 0,
        }
    }

    /// Returns whether the state has no keys.
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

/// Returns the bounds from `start` (inclusive) to `end` (exclusive); an empty `end` means no upper bound.
fn bounds<'a>(start: &'a [u8], end: &'a [u8]) -> (Bound<&'a [u8]>, Bound<&'a [u8]>) {
    let end = match end {
        [] => Bound::Unbounded,
        // `range` panics if the end is before the start, so the end is raised to the start; the range is then empty.
        end => Bound::Excluded(end.max(start)),
    };
    (Bound::Included(start), end)
}

/// Returns the changes of keys from `start` (inclusive) to `end` (exclusive); an empty `end` means no upper bound.
pub(crate) fn range<'a>(
    changes: &'a Changes,
    start: &'a [u8],
    end: &'a [u8],
) -> impl Iterator<Item = (&'a Key, &'a Update)> {
    changes.range::<[u8], _>(bounds(start, end))
}
