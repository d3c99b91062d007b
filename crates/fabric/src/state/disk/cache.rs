//! Cache of recently read or written entries, which saves lookups in the database.

use crate::state::Entry;
use hashbrown::{DefaultHashBuilder, HashTable};
use smallvec::SmallVec;
use std::hash::BuildHasher;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Maximum size of all entries of the cache together, in bytes.
const BYTES_MAX: usize = if cfg!(test) { 256 << 10 } else { 128 << 20 };
/// Number of shards. Each shard has its own lock and drops its older generation independently, so only a small part of
/// the cache is dropped at a time.
const SHARDS: usize = 64;
/// Maximum size of one generation of one shard, in bytes.
const GENERATION_BYTES: usize = BYTES_MAX / SHARDS / 2;
/// Memory of an entry in addition to its key and value, in bytes.
const OVERHEAD_BYTES: usize = 160;

/// A key of the database. Up to 64 bytes are stored inline.
pub(super) type DbKey = SmallVec<[u8; 64]>;

/// Entries of one generation; `None` means that the key does not exist.
#[derive(Default)]
struct Generation {
    entries: HashTable<(DbKey, Option<Entry>)>,
    bytes: usize,
}

/// One shard with two generations. When the newer generation is full, the older generation is dropped, the newer one
/// becomes the older one, and a new generation begins.
#[derive(Default)]
struct Shard {
    newer: Generation,
    older: Generation,
}

pub(super) struct Cache {
    shards: Box<[Mutex<Shard>]>,
    /// Clients choose the keys of the state, so the hash function has a secret key; otherwise they could choose keys
    /// that collide.
    hasher: DefaultHashBuilder,
}

impl Default for Cache {
    fn default() -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            hasher: DefaultHashBuilder::default(),
        }
    }
}

fn bytes_of(place: &[u8], entry: Option<&Entry>) -> usize {
    let value = entry.map_or(0, |entry| {
        let parameter = entry
            .validation_parameter
            .as_ref()
            .map_or(0, |parameter| parameter.len());
        entry.value.len() + parameter
    });
    OVERHEAD_BYTES + place.len() + value
}

impl Cache {
    fn shard(&self, hash: u64) -> MutexGuard<'_, Shard> {
        let shard = &self.shards[(hash >> 32) as usize % SHARDS];
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the cached entry of a key: `None` if it is not cached, `Some(None)` if the key does not exist.
    pub fn get(&self, db_key: &[u8]) -> Option<Option<Entry>> {
        let hash = self.hasher.hash_one(db_key);
        let mut shard = self.shard(hash);
        let is = |(known, _): &(DbKey, Option<Entry>)| known.as_slice() == db_key;
        if let Some((_, entry)) = shard.newer.entries.find(hash, is) {
            return Some(entry.clone());
        }
        let (_, entry) = shard.older.entries.find(hash, is)?;
        let entry = entry.clone();
        self.put_in(&mut shard, hash, db_key, entry.clone());
        Some(entry)
    }

    /// Sets the entry of a key.
    pub fn put(&self, place: &[u8], entry: Option<Entry>) {
        let hash = self.hasher.hash_one(place);
        self.put_in(&mut self.shard(hash), hash, place, entry);
    }

    fn put_in(&self, shard: &mut Shard, hash: u64, db_key: &[u8], entry: Option<Entry>) {
        let bytes = bytes_of(db_key, entry.as_ref());
        let newer = &mut shard.newer;
        match newer
            .entries
            .find_mut(hash, |(known, _)| known.as_slice() == db_key)
        {
            Some((_, cached)) => {
                newer.bytes = newer.bytes - bytes_of(db_key, cached.as_ref()) + bytes;
                *cached = entry;
            }
            None => {
                newer.bytes += bytes;
                let rehash = |(place, _): &(DbKey, Option<Entry>)| self.hasher.hash_one(place.as_slice());
                newer
                    .entries
                    .insert_unique(hash, (DbKey::from_slice(db_key), entry), rehash);
            }
        }
        if newer.bytes > GENERATION_BYTES {
            shard.older = std::mem::take(newer);
        }
    }

    /// Removes all entries.
    pub fn clear(&self) {
        for shard in &self.shards {
            *shard.lock().unwrap_or_else(PoisonError::into_inner) = Shard::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::Height;
    use lineside_testkit::Random;
    use std::collections::HashMap;

    /// The cache returns the last entry that was put, or nothing, and does not exceed its size.
    #[test]
    fn the_cache_returns_the_last_entry_or_nothing() {
        let (cache, mut random, mut map) = (Cache::default(), Random(1), HashMap::new());
        let (mut known, mut forgotten) = (0, 0);
        for round in 0..60_000 {
            let key = random.below(4_000).to_be_bytes();
            if random.below(2) == 0 {
                let entry = (random.below(4) > 0).then(|| Entry {
                    value: vec![7; random.below(300) as usize].into(),
                    validation_parameter: None,
                    version: Height { block: round, tx: 0 },
                });
                cache.put(&key, entry.clone());
                map.insert(key, entry);
            }
            match cache.get(&key) {
                Some(entry) => {
                    assert_eq!(Some(&entry), map.get(&key));
                    known += 1;
                }
                None => forgotten += usize::from(map.contains_key(&key)),
            }
        }
        assert!(known > 10_000 && forgotten > 1_000, "{known} {forgotten}");
        let bytes = |shard: &Mutex<Shard>| {
            let shard = shard.lock().unwrap();
            shard.newer.bytes + shard.older.bytes
        };
        let bytes: usize = cache.shards.iter().map(bytes).sum();
        assert!(bytes < BYTES_MAX + SHARDS * 500, "{bytes}");
        cache.clear();
        assert_eq!(cache.get(&0u64.to_be_bytes()), None);
    }
}
