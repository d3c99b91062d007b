//! Expiry of private data (blockToLive): the hashed keys that a block removes from the state.
//!
//! A key of a collection with blockToLive b that was written by block W is removed by the commit of block W + b + 1.
//! The removal takes place after that block's endorsements and reads were checked, and after its commit hash was
//! computed, which does not cover the removal. A write in between (of a value, a deletion, or only metadata) gives the
//! key another version or none, and b + 1 is then counted from the block of the new version. A write in block W + b + 1
//! itself precedes the removal. The rule depends only on the versions in the state and the definitions of the
//! collections, so no schedule needs to be stored for a restart.

use crate::error::Stop;
use crate::lifecycle::{LIFECYCLE, lifetimes};
use crate::rules::{Rule, Rules};
use crate::state::{Height, State, Update, Updates, expiry};
use hashbrown::HashMap;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Cache of the lifetimes (`blockToLive`) of collections, by chaincode. The cache is valid for one content of the
/// namespace `_lifecycle`, and must be emptied when a definition changes.
#[derive(Default, Debug)]
pub(crate) struct LifetimeCache(HashMap<String, Arc<BTreeMap<String, u64>>>);

impl LifetimeCache {
    /// Empties the cache, because a definition has changed.
    pub fn forget(&mut self) {
        self.0.clear();
    }

    /// Returns true if the lifetimes of a chaincode's collections were read before.
    pub fn has(&self, namespace: &str) -> bool {
        self.0.contains_key(namespace)
    }

    /// Returns the `blockToLive` of each collection of a chaincode whose keys expire, from the cache or from `state`.
    pub fn of(&mut self, namespace: &str, state: &State) -> Result<Arc<BTreeMap<String, u64>>, Stop> {
        if let Some(known) = self.0.get(namespace) {
            return Ok(known.clone());
        }
        let found = Arc::new(lifetimes(namespace, &|key| {
            let entry = state.get(LIFECYCLE, "", key.as_bytes());
            entry.map(|entry| entry.value.clone())
        })?);
        self.0.insert(namespace.to_owned(), found.clone());
        Ok(found)
    }
}

/// Completes `updates`, the writes of the transactions of block `number`: it sets the lifetime of each collection that
/// they write, and adds the deletion of the keys that expire with the block. `state` is the state before the block. The
/// block's commit hash does not cover these deletions, so it must be computed before this call.
pub(crate) fn expire(
    number: u64,
    state: &State,
    known: &mut LifetimeCache,
    updates: &mut Updates,
    rules: Rules,
) -> Result<(), Stop> {
    let mut found = Vec::new();
    for (namespace, space) in &updates.namespaces {
        if namespace == LIFECYCLE || space.collections.is_empty() {
            continue;
        }
        let lives = known.of(namespace, state)?;
        for collection in space.collections.keys() {
            let life = lives.get(collection);
            found.extend(life.map(|life| (namespace.clone(), collection.clone(), *life)));
        }
    }
    for (namespace, collection, life) in found {
        updates.set_life(&namespace, &collection, life);
    }
    if !rules.hold(Rule::Expiry) {
        return Ok(());
    }
    // If a test disables the rule `ExpiryBlock`, keys expire one block too early.
    let due = state.expiring_with(number + u64::from(!rules.hold(Rule::ExpiryBlock)));
    for key in due {
        let (namespace, collection) = (key.namespace.as_str(), key.collection.as_str());
        let is_written = updates.get(namespace, collection, &key.key).is_some();
        if is_written && rules.hold(Rule::ExpirySparesWritten) {
            continue;
        }
        let entry = state.get(namespace, collection, &key.key);
        let written = entry.map(|entry| entry.version.block);
        if rules.hold(Rule::ExpiryBlock) && written.and_then(|block| expiry(block, key.life)) != Some(number)
        {
            // If the state on the disk could not be read, return that failure instead of the error below.
            state.check().map_err(|what| Stop::State { what })?;
            let what = format!(
                "the index of expiring keys lists a key of {namespace} {collection} that does not expire with block \
                 {number}; remove the state directory and start again"
            );
            return Err(Stop::State { what });
        }
        // Peers give the deletion of an expired key this version.
        let version = Height {
            block: number,
            tx: u64::MAX,
        };
        updates.set_life(namespace, collection, key.life);
        let update = Update { value: None, version };
        updates.put(namespace, collection, &key.key, update);
    }
    Ok(())
}

/// Returns an error for a block that changes the `blockToLive` of an existing collection. Peers refuse to endorse a
/// definition that changes a `blockToLive`. If a majority endorses it nevertheless, peers keep using the cached value
/// until they restart, so they disagree.
pub(crate) fn lives_stay(state: &State, known: &mut LifetimeCache, updates: &Updates) -> Result<(), Stop> {
    let Some(space) = updates.namespaces.get(LIFECYCLE) else {
        return Ok(());
    };
    let after = |key: &str| match updates.get(LIFECYCLE, "", key.as_bytes()) {
        Some(update) => update.value.as_ref().map(|(value, _)| value.clone()),
        None => {
            let entry = state.get(LIFECYCLE, "", key.as_bytes());
            entry.map(|entry| entry.value.clone())
        }
    };
    for (key, update) in &space.public {
        let Some(name) = defined(key) else { continue };
        let before = known.of(name, state)?;
        if before.is_empty() {
            continue;
        }
        let after = lifetimes(name, &after)?;
        if let Some((collection, life)) = before.iter().find(|(name, life)| after.get(*name) != Some(*life)) {
            let other = after.get(collection).copied().unwrap_or_default();
            return Err(Stop::Transaction {
                index: usize::try_from(update.version.tx).unwrap_or_default(),
                what: format!(
                    "the transaction changes the blockToLive of collection {collection} of chaincode {name} from \
                     {life} to {other}, but peers keep using the earlier value until they restart"
                ),
            });
        }
    }
    Ok(())
}

/// Returns the name of the chaincode whose collections a key of `_lifecycle` defines.
fn defined(key: &[u8]) -> Option<&str> {
    let key = std::str::from_utf8(key).ok()?;
    let fields = key.strip_prefix("namespaces/fields/");
    match fields.and_then(|rest| rest.strip_suffix("/Collections")) {
        Some(name) => Some(name),
        None => key.strip_prefix("namespaces/metadata/"),
    }
}

/// Schedules the expiry of all keys of a state in memory, because checkpoints do not contain the schedule.
pub(crate) fn schedule(state: &mut State) -> Result<(), Stop> {
    let namespaces = state.in_memory().into_iter().flatten();
    let with_collections = namespaces.filter(|(_, space)| !space.collections.is_empty());
    let names: Vec<String> = with_collections.map(|(name, _)| name.clone()).collect();
    let mut known = LifetimeCache::default();
    for name in names {
        for (collection, life) in &*known.of(&name, state)? {
            state.schedule(&name, collection, *life);
        }
    }
    Ok(())
}
