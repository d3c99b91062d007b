//! Background writes of block changes to the database.

use super::places::{db_key, decode, encode, expiry_place, link};
use super::{DurableMark, LINKS, MARK, NO_BLOCK, catch_panic, entry_of};
use crate::state::{Update, Updates, expiring};
use fjall::{Database, Keyspace};
use std::sync::Arc;
use std::thread::JoinHandle;

/// Number of blocks at which gathered changes are written. After a crash these blocks are executed again.
const BLOCKS: usize = if cfg!(test) { 3 } else { 512 };
/// Number of changed keys at which gathered changes are written.
const KEYS: usize = 1 << 17;
/// Number of changed keys at which gathered changes are written if some of the keys expire. This number is smaller,
/// because each block scans all gathered changes for keys that expire.
const EXPIRING_KEYS: usize = 1 << 12;
/// Size of changed keys and values, in bytes, at which gathered changes are written.
const BYTES: usize = 32 << 20;

/// Combined changes of durable blocks that are not in the database yet. If a key changed several times, only the last
/// change is written.
#[derive(Default)]
pub(super) struct GatheredChanges {
    pub updates: Updates,
    /// The last block whose changes are gathered.
    pub mark: Option<DurableMark>,
    blocks: usize,
    keys: usize,
    bytes: usize,
}

impl GatheredChanges {
    /// Adds the changes of the next block.
    pub fn add(&mut self, mark: DurableMark, updates: Updates) {
        self.mark = Some(mark);
        self.blocks += 1;
        for (namespace, collections) in updates.lives {
            for (collection, life) in collections {
                self.updates.set_life(&namespace, &collection, life);
            }
        }
        for (namespace, space) in updates.namespaces {
            let all = std::iter::once((String::new(), space.public)).chain(space.collections);
            let to = self.updates.namespaces.entry(namespace).or_default();
            for (collection, keys) in all {
                let to = to.keys_mut(&collection);
                let before = to.len();
                for (key, update) in keys {
                    self.bytes += key.len() + update.value.as_ref().map_or(0, |(value, _)| value.len());
                    to.insert(key, update);
                }
                self.keys += to.len() - before;
            }
        }
    }

    /// Returns whether enough changes are gathered for a write.
    pub fn is_full(&self) -> bool {
        let keys = match self.updates.lives.is_empty() {
            true => KEYS,
            false => EXPIRING_KEYS,
        };
        self.blocks >= BLOCKS || self.keys >= keys || self.bytes >= BYTES
    }
}

/// A background write of changes to the database that is in progress.
pub(super) struct StateWrite {
    pub updates: Arc<Updates>,
    pub mark: DurableMark,
    thread: Option<JoinHandle<Result<(), fjall::Error>>>,
}

impl StateWrite {
    /// Starts the write; `before` is the database's current mark.
    pub fn begin(
        (database, keys): (&Database, &Keyspace),
        (before, mark): (Option<DurableMark>, DurableMark),
        updates: Updates,
    ) -> Result<Self, fjall::Error> {
        let updates = Arc::new(updates);
        let job = (database.clone(), keys.clone(), updates.clone());
        let work = move || {
            let (database, keys, updates) = job;
            catch_panic(|| write((&database, &keys), (before, mark), &updates))
        };
        Ok(Self {
            updates,
            mark,
            thread: Some(std::thread::Builder::new().name("state".into()).spawn(work)?),
        })
    }

    /// Returns whether the write has ended.
    pub fn is_over(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Waits for the end of the write and returns the new mark.
    pub fn end(mut self) -> Result<DurableMark, fjall::Error> {
        let ended = self.thread.take().map_or(Ok(Ok(())), JoinHandle::join);
        ended
            .unwrap_or(Err(fjall::Error::Unrecoverable))
            .map(|()| self.mark)
    }
}

impl Drop for StateWrite {
    fn drop(&mut self) {
        // The database must not be closed while the thread writes to it.
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Writes all changes with the mark in one atomic batch.
fn write(
    (database, keys): (&Database, &Keyspace),
    (before, mark): (Option<DurableMark>, DurableMark),
    updates: &Updates,
) -> Result<(), fjall::Error> {
    let mut batch = database.batch();
    put(&mut batch, keys, updates)?;
    batch.insert(keys, MARK, mark.encode());
    let last_before = before.map_or(NO_BLOCK, |mark| mark.last);
    batch.insert(keys, link(mark.last), last_before.to_be_bytes());
    let forgotten = |last: u64| last.saturating_sub(LINKS);
    for last in forgotten(before.map_or(0, |mark| mark.last))..forgotten(mark.last) {
        batch.remove(keys, link(last));
    }
    batch.commit()
}

/// Adds changes of keys to a batch.
pub(super) fn put(
    batch: &mut fjall::OwnedWriteBatch,
    keys: &Keyspace,
    updates: &Updates,
) -> Result<(), fjall::Error> {
    for (namespace, collection, changes) in updates.collections() {
        let life = updates.lifetime(namespace, collection);
        for (key, update) in changes {
            let db_key = db_key(namespace, collection, key);
            if let Some(life) = life {
                reschedule((batch, keys), &db_key, update, life)?;
            }
            match entry_of(update) {
                Some(entry) => batch.insert(keys, db_key.as_slice(), encode(&entry)),
                None => batch.remove(keys, db_key.as_slice()),
            }
        }
    }
    Ok(())
}

/// Updates the expiry index for a changed key: removes the index entry of the old version and adds the entry of the new
/// version.
fn reschedule(
    (batch, keys): (&mut fjall::OwnedWriteBatch, &Keyspace),
    db_key: &[u8],
    update: &Update,
    life: u64,
) -> Result<(), fjall::Error> {
    if let Some(bytes) = keys.get(db_key)? {
        let before = decode(&bytes).ok_or(fjall::Error::Unrecoverable)?;
        if let Some(block) = expiring::expiry(before.version.block, life) {
            batch.remove(keys, expiry_place(block, db_key));
        }
    }
    if update.value.is_some()
        && let Some(block) = expiring::expiry(update.version.block, life)
    {
        batch.insert(keys, expiry_place(block, db_key), life.to_le_bytes());
    }
    Ok(())
}
