//! Keys of a namespace or of one of its collections, in memory. A hash table finds single keys, and an ordered map
//! finds ranges of keys.

use super::{Entry, Update};
use hashbrown::HashTable;
use smallvec::SmallVec;
use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt::{self, Debug, Formatter};
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::ops::{Bound, Deref};

/// Key of the state. A key of at most 24 bytes is stored in the value itself, so a comparison reads no other memory.
/// Nearly all keys are that short.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Key {
    /// The first eight bytes as a big-endian number, filled up with zeros. It decides nearly all comparisons.
    prefix: u64,
    bytes: SmallVec<[u8; 24]>,
}

impl Key {
    /// Returns the key with these bytes.
    pub fn from_slice(bytes: &[u8]) -> Self {
        let mut prefix = [0; 8];
        prefix.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
        Self {
            prefix: u64::from_be_bytes(prefix),
            bytes: SmallVec::from_slice(bytes),
        }
    }
}

impl From<&[u8]> for Key {
    fn from(bytes: &[u8]) -> Self {
        Self::from_slice(bytes)
    }
}

impl Deref for Key {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Borrow<[u8]> for Key {
    fn borrow(&self) -> &[u8] {
        self
    }
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.bytes.hash(state);
    }
}

impl Ord for Key {
    /// Compares the bytes in lexicographic order.
    fn cmp(&self, other: &Self) -> Ordering {
        let by_prefix = self.prefix.cmp(&other.prefix);
        by_prefix.then_with(|| self.bytes.cmp(&other.bytes))
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Debug for Key {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.bytes.fmt(f)
    }
}

/// Keys with their entries: a hash table, and the order of the keys for ranges.
#[derive(Clone, Default, Debug)]
pub struct Keys {
    entries: HashTable<(Key, Entry)>,
    /// Clients choose the keys, so the hash function has a secret key.
    hasher: RandomState,
    /// The keys of `entries` in order, with their hashes. Range queries and checkpoints use these hashes and compute
    /// none.
    order: BTreeMap<Key, u64>,
}

impl Keys {
    /// Returns the hash of a key.
    pub(crate) fn hash(&self, key: &[u8]) -> u64 {
        self.hasher.hash_one(key)
    }

    /// Returns the entry of a key whose hash is known.
    pub(crate) fn find(&self, hash: u64, key: &[u8]) -> Option<&Entry> {
        let found = self.entries.find(hash, |(other, _)| **other == *key);
        found.map(|(_, entry)| entry)
    }

    /// Returns the entry of a key.
    pub fn get(&self, key: &[u8]) -> Option<&Entry> {
        self.find(self.hash(key), key)
    }

    /// Sets the entry of a key.
    pub fn insert(&mut self, key: Key, entry: Entry) {
        let hash = self.hash(&key);
        match self.entries.find_mut(hash, |(other, _)| *other == key) {
            Some((_, existing)) => *existing = entry,
            None => {
                self.order.insert(key.clone(), hash);
                let hasher = &self.hasher;
                self.entries
                    .insert_unique(hash, (key, entry), |(key, _)| hasher.hash_one(&**key));
            }
        }
    }

    /// Applies a block's change of a key.
    pub(super) fn update(&mut self, key: Key, update: Update) {
        match update.value {
            None => self.remove(&key),
            Some((value, validation_parameter)) => {
                let version = update.version;
                self.insert(
                    key,
                    Entry {
                        value,
                        validation_parameter,
                        version,
                    },
                );
            }
        }
    }

    /// Removes a key, if it exists.
    pub fn remove(&mut self, key: &[u8]) {
        let hash = self.hash(key);
        if let Ok(found) = self.entries.find_entry(hash, |(other, _)| **other == *key) {
            found.remove();
            self.order.remove(key);
        }
    }

    /// Returns the number of keys.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns true if there are no keys.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the keys within the bounds, in order.
    pub fn range<'a>(
        &'a self,
        bounds: (Bound<&[u8]>, Bound<&[u8]>),
    ) -> impl Iterator<Item = (&'a Key, &'a Entry)> + use<'a> {
        let keys = self.order.range::<[u8], _>(bounds);
        keys.filter_map(|(key, hash)| Some((key, self.find(*hash, key)?)))
    }
}

impl PartialEq for Keys {
    fn eq(&self, other: &Self) -> bool {
        let all = (Bound::Unbounded, Bound::Unbounded);
        self.range(all).eq(other.range(all))
    }
}

impl Eq for Keys {}

impl FromIterator<(Key, Entry)> for Keys {
    /// Makes a map of entries whose keys differ.
    fn from_iter<I: IntoIterator<Item = (Key, Entry)>>(entries: I) -> Self {
        let entries: Vec<(Key, Entry)> = entries.into_iter().collect();
        let hasher = RandomState::new();
        let hashes: Vec<u64> = entries.iter().map(|(key, _)| hasher.hash_one(&**key)).collect();
        // `collect` is fast for entries that are already sorted, as those of a checkpoint are.
        let hashed = entries
            .iter()
            .map(|(key, _)| key.clone())
            .zip(hashes.iter().copied());
        let order = hashed.collect();
        let mut table = HashTable::with_capacity(entries.len());
        for ((key, entry), hash) in entries.into_iter().zip(hashes) {
            table.insert_unique(hash, (key, entry), |(key, _): &(Key, Entry)| {
                hasher.hash_one(&**key)
            });
        }
        Self {
            entries: table,
            hasher,
            order,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::{Height, bounds};
    use lineside_testkit::Random;

    /// Keys are in the order of their bytes, also those with zeros, and those with a common prefix.
    #[test]
    fn keys_have_the_order_of_their_bytes() {
        let mut random = Random(1);
        let mut bytes = || -> Vec<u8> {
            let length = random.below(12);
            (0..length)
                .map(|_| [0, 0, 1, 255][random.below(4) as usize])
                .collect()
        };
        let mut equal = 0;
        for _ in 0..20_000 {
            let (one, other) = (bytes(), bytes());
            let keys = (Key::from_slice(&one), Key::from_slice(&other));
            assert_eq!(keys.0.cmp(&keys.1), one.cmp(&other), "{one:?} {other:?}");
            assert_eq!(keys.0 == keys.1, one == other);
            equal += u32::from(keys.0.prefix == keys.1.prefix && one != other);
        }
        assert!(equal > 50, "{equal}");
    }

    /// Compares the container with an ordered map in random insertions, removals and queries.
    #[test]
    fn keys_behave_as_an_ordered_map() {
        let (mut keys, mut map) = (Keys::default(), BTreeMap::new());
        let mut random = Random(1);
        let (mut replaced, mut removed, mut found) = (0, 0, 0);
        for number in 0..20_000 {
            // Some keys are longer than 24 bytes, and some are prefixes of others.
            let mut key = || vec![b'k'; random.below(40) as usize];
            let (mut one, mut other) = (key(), key());
            one.extend([random.below(4) as u8].into_iter().filter(|last| *last > 0));
            other.extend([random.below(4) as u8].into_iter().filter(|last| *last > 0));
            if random.below(3) == 0 {
                keys.remove(&one);
                removed += usize::from(map.remove(&one).is_some());
            } else {
                let entry = Entry {
                    value: one.as_slice().into(),
                    validation_parameter: None,
                    version: Height { block: number, tx: 0 },
                };
                keys.insert(Key::from_slice(&one), entry.clone());
                replaced += usize::from(map.insert(one.clone(), entry).is_some());
            }
            assert_eq!(keys.get(&other), map.get(&other));
            assert_eq!((keys.len(), keys.is_empty()), (map.len(), map.is_empty()));
            let expected = map.iter().filter(|(key, _)| {
                one.as_slice() <= key.as_slice() && (other.is_empty() || key.as_slice() < other.as_slice())
            });
            let expected: Vec<_> = expected.map(|(key, entry)| (key.as_slice(), entry)).collect();
            let range = keys.range(bounds(&one, &other));
            assert_eq!(
                range.map(|(key, entry)| (&**key, entry)).collect::<Vec<_>>(),
                expected
            );
            found += expected.len();
        }
        assert!(replaced > 1_000 && removed > 1_000 && found > 10_000);
        let again: Keys = map
            .into_iter()
            .map(|(key, entry)| (Key::from_slice(&key), entry))
            .collect();
        assert_eq!(again, keys);
    }
}
