//! Expiry index of a state in memory: the keys of collections that expire, by the block that wrote them.
//!
//! The index lists each key of these collections exactly once, under the block of the key's version, so the index is
//! never larger than the collections themselves. It can be computed from the state and the collections' blockToLive,
//! and is not stored.

use super::Key;
use std::collections::{BTreeMap, BTreeSet};

/// A key that expires with a certain block.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct ExpiringKey {
    pub namespace: String,
    pub collection: String,
    pub key: Key,
    /// `blockToLive` of the collection.
    pub life: u64,
}

/// Returns the number of the block whose keys expire with block `number`: `number` - `life` - 1. `None` if there is no
/// such block.
pub(crate) fn expiring_block(number: u64, life: u64) -> Option<u64> {
    number.checked_sub(life)?.checked_sub(1)
}

/// Returns the number of the block that removes a key which block `written` wrote; `None` if the key never expires.
pub(crate) fn expiry(written: u64, life: u64) -> Option<u64> {
    written.checked_add(life)?.checked_add(1)
}

/// Keys of one collection, grouped by the block that wrote them last.
#[derive(Debug)]
struct KeysByBlock {
    life: u64,
    blocks: BTreeMap<u64, BTreeSet<Key>>,
}

/// Keys of all collections whose keys expire.
#[derive(Default, Debug)]
pub(super) struct Expiring(BTreeMap<String, BTreeMap<String, KeysByBlock>>);

impl Expiring {
    /// Moves a key from the group of block `before`, which wrote it last, to that of block `after`, which writes it
    /// now. `before` is `None` for a new key, and `after` is `None` for a deleted key.
    pub fn rewrite(
        &mut self,
        (namespace, collection): (&str, &str),
        life: u64,
        key: &Key,
        (before, after): (Option<u64>, Option<u64>),
    ) {
        if !self.0.contains_key(namespace) {
            self.0.insert(namespace.to_owned(), BTreeMap::new());
        }
        let Some(collections) = self.0.get_mut(namespace) else {
            return;
        };
        if !collections.contains_key(collection) {
            let blocks = BTreeMap::new();
            collections.insert(collection.to_owned(), KeysByBlock { life, blocks });
        }
        let Some(written) = collections.get_mut(collection) else {
            return;
        };
        if let Some(before) = before
            && let Some(keys) = written.blocks.get_mut(&before)
        {
            keys.remove(key);
            if keys.is_empty() {
                written.blocks.remove(&before);
            }
        }
        if let Some(after) = after {
            written.blocks.entry(after).or_default().insert(key.clone());
        }
    }

    /// Returns all keys, each with the number of the block that removes it.
    pub fn all(&self) -> Vec<(u64, ExpiringKey)> {
        let mut all = Vec::new();
        for (namespace, collections) in &self.0 {
            for (collection, of) in collections {
                for (written, keys) in &of.blocks {
                    let Some(block) = expiry(*written, of.life) else {
                        continue;
                    };
                    all.extend(keys.iter().map(|key| {
                        let due = ExpiringKey {
                            namespace: namespace.clone(),
                            collection: collection.clone(),
                            key: key.clone(),
                            life: of.life,
                        };
                        (block, due)
                    }));
                }
            }
        }
        all
    }

    /// Returns the keys that expire with block `number`.
    pub fn expiring_with(&self, number: u64) -> Vec<ExpiringKey> {
        let mut due = Vec::new();
        for (namespace, collections) in &self.0 {
            for (collection, of) in collections {
                let keys = expiring_block(number, of.life).and_then(|block| of.blocks.get(&block));
                due.extend(keys.into_iter().flatten().map(|key| ExpiringKey {
                    namespace: namespace.clone(),
                    collection: collection.clone(),
                    key: key.clone(),
                    life: of.life,
                }));
            }
        }
        due
    }
}
