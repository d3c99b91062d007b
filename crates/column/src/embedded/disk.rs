//! Cells in a directory. Changes that wait for the disk together go to it together, with one fdatasync; they are seen
//! after it.

use super::{Limits, Shelf, View, Visit};
use crate::table::TableError;
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode, Readable, Snapshot};
use std::fmt;
use std::ops::Bound;
use std::path::Path;
use std::sync::{Condvar, Mutex, PoisonError};

type Write = (Vec<u8>, Option<Vec<u8>>);

/// Who waits for the disk.
#[derive(Default)]
struct Queue {
    /// The group that is being collected.
    waiting: Vec<Write>,
    /// Its number, and that of the first one that is not on the disk.
    collecting: u64,
    unwritten: u64,
    /// Somebody is writing.
    is_busy: bool,
    /// Writing has ended: what is on the disk is not known. Never tried again before a restart.
    failed: Option<String>,
}

pub(super) struct Disk {
    database: Database,
    cells: Keyspace,
    queue: Mutex<Queue>,
    written: Condvar,
}

impl fmt::Debug for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Disk")
    }
}

fn unreadable(error: impl fmt::Display) -> TableError {
    TableError::Unavailable(format!("reading the table's files: {error}"))
}

impl Disk {
    pub(super) fn open(directory: &Path, limits: &Limits) -> Result<Self, TableError> {
        let refused = |error: fjall::Error| {
            TableError::Refused(match error {
                fjall::Error::Locked => "another process has it open".to_owned(),
                error => error.to_string(),
            })
        };
        // A quarter for the cache; of the rest five tables of new rows, which are written at an eighth.
        let memtable_bytes = (limits.rows_bytes / 8) as u64;
        let database = Database::builder(directory)
            .cache_size((limits.rows_bytes / 4) as u64)
            .open()
            .map_err(refused)?;
        let options = || KeyspaceCreateOptions::default().max_memtable_size(memtable_bytes);
        let cells = database.keyspace("cells", options).map_err(refused)?;
        Ok(Self {
            database,
            cells,
            queue: Mutex::default(),
            written: Condvar::new(),
        })
    }

    fn commit(&self, group: Vec<Write>) -> Result<(), fjall::Error> {
        // The batch is applied, and so seen, only after its journal was synced.
        let mut batch = self.database.batch().durability(Some(PersistMode::SyncData));
        for (place, stored) in group {
            match stored {
                Some(stored) => batch.insert(&self.cells, place, stored),
                None => batch.remove(&self.cells, place),
            }
        }
        batch.commit()
    }
}

impl Shelf for Disk {
    fn failed(&self) -> Option<String> {
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.failed.clone()
    }

    fn read(&self, act: &mut dyn FnMut(&dyn View) -> Result<(), TableError>) -> Result<(), TableError> {
        act(&Seen {
            snapshot: self.database.snapshot(),
            cells: &self.cells,
        })
    }

    fn write(&self, place: Vec<u8>, stored: Option<Vec<u8>>) -> Result<(), TableError> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(why) = &queue.failed {
            return Err(TableError::Ended(why.clone()));
        }
        queue.waiting.push((place, stored));
        let ours = queue.collecting;
        loop {
            if queue.unwritten > ours {
                return Ok(());
            }
            if let Some(why) = &queue.failed {
                return Err(TableError::Unknown(why.clone()));
            }
            if queue.is_busy {
                queue = self.written.wait(queue).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            queue.is_busy = true;
            queue.collecting += 1;
            let group = std::mem::take(&mut queue.waiting);
            drop(queue);
            let committed = self.commit(group);
            queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
            queue.is_busy = false;
            match committed {
                Ok(()) => queue.unwritten = queue.collecting,
                Err(error) => {
                    tracing::error!(%error, "the table's files cannot be written: nothing is, until the next start");
                    queue.failed = Some(error.to_string());
                }
            }
            self.written.notify_all();
        }
    }
}

struct Seen<'a> {
    snapshot: Snapshot,
    cells: &'a Keyspace,
}

impl View for Seen<'_> {
    fn get(&self, place: &[u8]) -> Result<Option<Vec<u8>>, TableError> {
        let found = self.snapshot.get(self.cells, place).map_err(unreadable)?;
        Ok(found.map(|stored| stored.to_vec()))
    }

    fn range(
        &self,
        bounds: (Bound<&[u8]>, Bound<&[u8]>),
        reverse: bool,
        visit: Visit<'_>,
    ) -> Result<(), TableError> {
        let mut cells = self.snapshot.range::<&[u8], _>(self.cells, bounds);
        while let Some(cell) = if reverse { cells.next_back() } else { cells.next() } {
            let (place, stored) = cell.into_inner().map_err(unreadable)?;
            if visit(&place, &stored).is_break() {
                break;
            }
        }
        Ok(())
    }
}
