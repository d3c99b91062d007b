//! Writing what blocks do to the database, on a thread of its own.

use super::places::{decode, encode, expiry_place, link, place};
use super::{LINKS, MARK, Mark, NO_BLOCK, entry_of, guarded};
use crate::state::{Update, Updates, expiring};
use fjall::{Database, Keyspace};
use std::sync::Arc;
use std::thread::JoinHandle;

/// Blocks whose updates are gathered before they are written, at most: after a crash these are executed again.
const BLOCKS: usize = if cfg!(test) { 3 } else { 512 };
/// Keys of them.
const KEYS: usize = 1 << 17;
/// Keys of them where some expire: each block looks through all that are gathered.
const EXPIRING_KEYS: usize = 1 << 12;
/// Bytes of keys and values.
const BYTES: usize = 32 << 20;

/// Updates of durable blocks that are not in the database yet, all of them together: of several changes of a key, only
/// the last is written.
#[derive(Default)]
pub(super) struct Gathered {
    pub updates: Updates,
    /// The last block.
    pub mark: Option<Mark>,
    blocks: usize,
    keys: usize,
    bytes: usize,
}

impl Gathered {
    /// Adds what the next block does.
    pub fn add(&mut self, mark: Mark, updates: Updates) {
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

    /// Returns true if it is enough to be written.
    pub fn is_full(&self) -> bool {
        let keys = match self.updates.lives.is_empty() {
            true => KEYS,
            false => EXPIRING_KEYS,
        };
        self.blocks >= BLOCKS || self.keys >= keys || self.bytes >= BYTES
    }
}

/// Updates that are being written to the database.
pub(super) struct Writing {
    pub updates: Arc<Updates>,
    pub mark: Mark,
    thread: Option<JoinHandle<Result<(), fjall::Error>>>,
}

impl Writing {
    /// Begins to write; `before` is the database's mark.
    pub fn begin(
        (database, keys): (&Database, &Keyspace),
        (before, mark): (Option<Mark>, Mark),
        updates: Updates,
    ) -> Result<Self, fjall::Error> {
        let updates = Arc::new(updates);
        let job = (database.clone(), keys.clone(), updates.clone());
        let work = move || {
            let (database, keys, updates) = job;
            guarded(|| write((&database, &keys), (before, mark), &updates))
        };
        Ok(Self {
            updates,
            mark,
            thread: Some(std::thread::Builder::new().name("state".into()).spawn(work)?),
        })
    }

    /// Returns true if it has ended.
    pub fn is_over(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Waits for its end.
    pub fn end(mut self) -> Result<Mark, fjall::Error> {
        let ended = self.thread.take().map_or(Ok(Ok(())), JoinHandle::join);
        ended
            .unwrap_or(Err(fjall::Error::Unrecoverable))
            .map(|()| self.mark)
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        // The database is closed only when nothing writes to it.
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Writes all of it in one step, with the mark.
fn write(
    (database, keys): (&Database, &Keyspace),
    (before, mark): (Option<Mark>, Mark),
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

/// Adds what is done to keys to a batch.
pub(super) fn put(
    batch: &mut fjall::OwnedWriteBatch,
    keys: &Keyspace,
    updates: &Updates,
) -> Result<(), fjall::Error> {
    for (namespace, collection, changes) in updates.collections() {
        let life = updates.life(namespace, collection);
        for (key, update) in changes {
            let place = place(namespace, collection, key);
            if let Some(life) = life {
                reschedule((batch, keys), &place, update, life)?;
            }
            match entry_of(update) {
                Some(entry) => batch.insert(keys, place.as_slice(), encode(&entry)),
                None => batch.remove(keys, place.as_slice()),
            }
        }
    }
    Ok(())
}

/// Moves a key of a collection that expires from the block that removed it before to the one that does now.
fn reschedule(
    (batch, keys): (&mut fjall::OwnedWriteBatch, &Keyspace),
    place: &[u8],
    update: &Update,
    life: u64,
) -> Result<(), fjall::Error> {
    if let Some(bytes) = keys.get(place)? {
        let before = decode(&bytes).ok_or(fjall::Error::Unrecoverable)?;
        if let Some(block) = expiring::expiry(before.version.block, life) {
            batch.remove(keys, expiry_place(block, place));
        }
    }
    if update.value.is_some()
        && let Some(block) = expiring::expiry(update.version.block, life)
    {
        batch.insert(keys, expiry_place(block, place), life.to_le_bytes());
    }
    Ok(())
}
