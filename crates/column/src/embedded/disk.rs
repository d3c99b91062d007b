//! Storage of cells in a directory. Changes that wait for the disk at the same time are written with one fdatasync, and
//! become visible after it.
//!
//! ```text
//! <directory>/*.log, *.snap, acknowledged   journal: every change, until `tables` has it (docs/journal.md)
//! <directory>/tables                        database of rows, with the number of the last change in it
//! ```
//!
//! The journal decides which changes the table has. A change is written to the journal, made durable, applied to
//! `tables`, and only then acknowledged. A start checks the journal and `tables` before it opens or truncates any file,
//! and applies the changes again that `tables` lacks.

mod checkpoint;
mod log;
mod record;
mod repair;
mod tables;

pub use repair::{Repaired, UnconfirmedRepair, repair};

use super::{CellStore, Limits, View, Visit};
use crate::table::TableError;
use checkpoint::{Checkpoints, Requests};
use fjall::{Keyspace, Readable, Snapshot};
use lineside_journal::FsDisk;
use log::{GROUP_BYTES_MAX, Log, WriteError};
use std::collections::HashMap;
use std::fmt;
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use tables::{Tables, plain};

type Write = (Vec<u8>, Option<Vec<u8>>);

/// Changes that wait for the disk.
#[derive(Default)]
struct Queue {
    /// Changes of the group that is being collected, and their total size in bytes.
    waiting: Vec<Write>,
    waiting_bytes: usize,
    /// Number of the group that is being collected, and number of the first group that is not written yet.
    collecting: u64,
    unwritten: u64,
    /// True while a group is being written.
    is_busy: bool,
    /// Groups that were refused because the disk was full: the number of their writers that have not got the result
    /// yet, and the reason.
    refused: HashMap<u64, (usize, String)>,
    /// True after a group was refused because the disk was full, until a later group is written.
    is_full: bool,
    /// Reason why writing has ended: a write has failed, so it is not known what the disk has. The table writes nothing
    /// before a restart.
    failed: Option<String>,
}

/// State shared with the checkpoint thread.
struct Shared {
    log: Mutex<Log>,
    tables: Tables,
    requests: Requests,
    reserve: Reserve,
}

pub(super) struct Disk {
    /// This field is declared first, so that it is dropped first and the thread ends before the files are closed.
    _checkpoints: Checkpoints,
    shared: Arc<Shared>,
    queue: Mutex<Queue>,
    written: Condvar,
}

impl fmt::Debug for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Disk")
    }
}

fn unreadable(error: fjall::Error) -> TableError {
    TableError::Unavailable(format!("cannot read the table's files: {}", plain(&error)))
}

/// Free space of a disk that changes of the table must not use. fjall writes rows to files some time after the change
/// and takes no changes any more after such a write found no space, so changes are refused while space is left.
struct Reserve {
    disk: FsDisk,
    /// Size of the reserve. It is atomic so that a test can change it while the table is open.
    bytes: AtomicU64,
}

impl Reserve {
    /// Returns the reserve for a table whose rows in memory take `rows_bytes`, which fjall may have to write: twice
    /// that size, but at most a quarter of the disk.
    fn new(disk: FsDisk, rows_bytes: usize) -> Self {
        let all_bytes = disk.space_bytes().map_or(0, |(_, all)| all);
        let bytes = (rows_bytes as u64).saturating_mul(2).min(all_bytes / 4);
        let bytes = AtomicU64::new(bytes);
        Self { disk, bytes }
    }

    /// Returns the reason why changes are refused; `None` if the disk has room, or if the system does not report it.
    fn lack(&self) -> Option<String> {
        let (free_bytes, _) = self.disk.space_bytes().ok()?;
        self.lack_at(free_bytes)
    }

    fn lack_at(&self, free_bytes: u64) -> Option<String> {
        let reserve_bytes = self.bytes.load(Ordering::Relaxed);
        (free_bytes < reserve_bytes).then(|| {
            format!(
                "the disk of the table is full: {} MiB are free, and the table's files need a reserve of {} MiB",
                free_bytes >> 20,
                reserve_bytes.div_ceil(1 << 20)
            )
        })
    }
}

impl Shared {
    fn lock_log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a group of changes durable, and then visible to readers.
    fn commit(&self, group: Vec<Write>) -> Result<(), WriteError> {
        if let Some(why) = self.reserve.lack() {
            return Err(WriteError::Full(why));
        }
        let (last_lsn, bytes) = self.lock_log().write(&group)?;
        let made = self.tables.apply(group, last_lsn);
        made.map_err(|error| WriteError::Ended(plain(&error)))?;
        self.requests.applied(last_lsn, bytes);
        Ok(())
    }
}

impl Disk {
    pub(super) fn open(disk: FsDisk, limits: &Limits) -> Result<Self, TableError> {
        let reserve = Reserve::new(disk.clone(), limits.rows_bytes);
        let opened = log::open(disk, limits)?;
        let shared = Arc::new(Shared {
            log: Mutex::new(opened.log),
            tables: opened.tables,
            requests: Requests::default(),
            reserve,
        });
        shared.requests.applied(opened.last_lsn, opened.journal_bytes);
        let checkpoints = Checkpoints::start(Arc::clone(&shared));
        Ok(Self {
            _checkpoints: checkpoints.map_err(|error| TableError::Refused(error.to_string()))?,
            shared,
            queue: Mutex::default(),
            written: Condvar::new(),
        })
    }

    fn lock_queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, queue: MutexGuard<'a, Queue>) -> MutexGuard<'a, Queue> {
        self.written.wait(queue).unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes the collected group, while other writers collect the next one.
    fn lead<'a>(&'a self, mut queue: MutexGuard<'a, Queue>) -> MutexGuard<'a, Queue> {
        queue.is_busy = true;
        let number = queue.collecting;
        queue.collecting += 1;
        queue.waiting_bytes = 0;
        let group = std::mem::take(&mut queue.waiting);
        let writers = group.len();
        drop(queue);
        let committed = self.shared.commit(group);
        queue = self.lock_queue();
        queue.is_busy = false;
        match committed {
            Ok(()) => {
                queue.unwritten = queue.collecting;
                if std::mem::take(&mut queue.is_full) {
                    tracing::info!("column: the disk has space again, and the table takes changes again");
                }
            }
            Err(WriteError::Full(why)) => {
                queue.unwritten = queue.collecting;
                if !std::mem::replace(&mut queue.is_full, true) {
                    tracing::error!(
                        why,
                        "column: the table refuses changes (no_room); make space on the disk, and it takes changes \
                         again without a restart"
                    );
                }
                queue.refused.insert(number, (writers, why));
            }
            Err(WriteError::Ended(why)) => {
                tracing::error!(
                    why,
                    "column: cannot write the table's files, so the table takes no changes until the next start; make \
                     space if the disk is full, or repair it; then restart the server"
                );
                queue.failed = Some(why);
            }
        }
        self.written.notify_all();
        queue
    }
}

impl Queue {
    /// Returns the result of a processed group for one of its writers.
    fn outcome(&mut self, group: u64) -> Result<(), TableError> {
        let Some((writers, why)) = self.refused.get_mut(&group) else {
            return Ok(());
        };
        let error = TableError::Full(why.clone());
        *writers -= 1;
        if *writers == 0 {
            self.refused.remove(&group);
        }
        Err(error)
    }
}

impl CellStore for Disk {
    fn failed(&self) -> Option<String> {
        self.lock_queue().failed.clone()
    }

    fn full(&self) -> Option<String> {
        self.shared.reserve.lack()
    }

    fn read(&self, act: &mut dyn FnMut(&dyn View) -> Result<(), TableError>) -> Result<(), TableError> {
        act(&Seen {
            snapshot: self.shared.tables.database.snapshot(),
            cells: &self.shared.tables.cells,
        })
    }

    fn write(&self, place: Vec<u8>, stored: Option<Vec<u8>>) -> Result<(), TableError> {
        let bytes = place.len() + stored.as_ref().map_or(0, Vec::len);
        let mut queue = self.lock_queue();
        loop {
            if let Some(why) = &queue.failed {
                return Err(TableError::Ended(why.clone()));
            }
            // If the group has room, this writer joins it. Otherwise it waits: one of the group's own writers writes
            // the group as soon as the previous group is written.
            if queue.waiting.is_empty() || queue.waiting_bytes + bytes <= GROUP_BYTES_MAX {
                break;
            }
            queue = self.wait(queue);
        }
        queue.waiting.push((place, stored));
        queue.waiting_bytes += bytes;
        let ours = queue.collecting;
        loop {
            if queue.unwritten > ours {
                return queue.outcome(ours);
            }
            if let Some(why) = &queue.failed {
                return Err(TableError::Unknown(why.clone()));
            }
            queue = match queue.is_busy {
                true => self.wait(queue),
                false => self.lead(queue),
            };
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

#[cfg(test)]
mod tests;
