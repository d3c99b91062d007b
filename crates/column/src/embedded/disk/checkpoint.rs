//! Checkpoint thread: occasionally flushes the files in `tables`, so that the journal before that can be removed.

use super::Shared;
use super::log::CHECKPOINT_BYTES;
use lineside_journal::Lsn;
use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Interval at which a flush in progress is checked.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// Progress of the changes, for the checkpoint thread.
#[derive(Debug, Default)]
struct Progress {
    /// Number of the last record whose change was applied to `tables`, in files or in memory.
    applied_lsn: Lsn,
    /// Bytes that were added to the journal since the last checkpoint began.
    bytes: u64,
    is_stopping: bool,
}

/// Requests for checkpoints.
#[derive(Debug, Default)]
pub(super) struct Requests {
    progress: Mutex<Progress>,
    changed: Condvar,
}

/// Handle of the checkpoint thread. Dropping this ends the thread.
pub(super) struct Checkpoints {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Requests {
    /// Records that changes up to `lsn` were applied, which take `bytes` of the journal.
    pub(super) fn applied(&self, lsn: Lsn, bytes: u64) {
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        progress.applied_lsn = lsn;
        progress.bytes += bytes;
        if progress.bytes >= CHECKPOINT_BYTES {
            self.changed.notify_one();
        }
    }

    /// Waits until a checkpoint is due, and returns the number of the last change that it must hold. Returns `None` at
    /// the end.
    fn next(&self) -> Option<Lsn> {
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        while progress.bytes < CHECKPOINT_BYTES && !progress.is_stopping {
            progress = self
                .changed
                .wait(progress)
                .unwrap_or_else(PoisonError::into_inner);
        }
        progress.bytes = 0;
        (!progress.is_stopping).then_some(progress.applied_lsn)
    }

    /// Waits for a short time. Returns false at the end.
    fn pause(&self) -> bool {
        let progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self
            .changed
            .wait_timeout_while(progress, LOOK_AGAIN, |progress| !progress.is_stopping);
        let (progress, _) = waited.unwrap_or_else(PoisonError::into_inner);
        !progress.is_stopping
    }
}

impl Checkpoints {
    /// Starts the thread.
    pub(super) fn start(shared: Arc<Shared>) -> io::Result<Self> {
        let theirs = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("column-files".into())
            .spawn(move || run(&theirs))?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }
}

impl Drop for Checkpoints {
    fn drop(&mut self) {
        let requests = &self.shared.requests;
        let mut progress = requests.progress.lock().unwrap_or_else(PoisonError::into_inner);
        progress.is_stopping = true;
        drop(progress);
        requests.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was already printed; the journal holds everything.
            let _ = thread.join();
        }
    }
}

fn run(shared: &Shared) {
    while let Some(lsn) = shared.requests.next() {
        if let Err(why) = checkpoint(shared, lsn) {
            tracing::warn!(
                "the table's journal could not be shortened, and is kept until the next attempt: {why}"
            );
        }
    }
}

/// Makes the files in `tables` hold all changes up to `lsn`, records that durably as a snapshot, and removes the part
/// of the journal that the snapshot before this one covers.
fn checkpoint(shared: &Shared, lsn: Lsn) -> Result<(), String> {
    shared.tables.begin_flush().map_err(|error| error.to_string())?;
    while !shared.tables.is_flushed() {
        if !shared.requests.pause() {
            return Ok(());
        }
    }
    let snapshots = shared.lock_log().journal.snapshots();
    let older = snapshots.latest().map_err(|error| error.to_string())?.snapshot;
    if older.as_ref().is_some_and(|older| older.lsn >= lsn) {
        return Ok(());
    }
    let text = b"The files of rows in `tables` hold all changes up to this one.";
    let written = snapshots.write(lsn, |file| io::Write::write_all(file, text));
    written.map_err(|error| error.to_string())?;
    tracing::info!(change = lsn, "column: wrote a checkpoint of the table");
    if let Some(older) = older {
        let pruned = shared.lock_log().journal.prune(older.lsn);
        pruned.map_err(|error| error.to_string())?;
    }
    Ok(())
}
