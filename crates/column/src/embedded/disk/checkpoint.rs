//! The checkpoint thread. It regularly writes all changes up to some point into the files of `tables`, so that the
//! journal up to that point can be removed.

use super::Shared;
use super::log::CHECKPOINT_BYTES;
use super::tables::plain;
use lineside_journal::Lsn;
use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Interval at which the thread checks whether a flush in progress has ended.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// Progress of changes since the last checkpoint, by which the thread decides when the next one is due.
#[derive(Debug, Default)]
struct Progress {
    /// Number of the last change that was applied to `tables`, in its files or in its memory.
    applied_lsn: Lsn,
    /// Number of bytes that were added to the journal since the last checkpoint began.
    bytes: u64,
    is_stopping: bool,
}

/// State that writers and the checkpoint thread share.
#[derive(Debug, Default)]
pub(super) struct Requests {
    progress: Mutex<Progress>,
    changed: Condvar,
}

/// Handle of the checkpoint thread. Dropping it ends the thread.
pub(super) struct Checkpoints {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Requests {
    /// Records that changes up to number `lsn` were applied; these take `bytes` bytes of the journal.
    pub(super) fn applied(&self, lsn: Lsn, bytes: u64) {
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        progress.applied_lsn = lsn;
        progress.bytes += bytes;
        if progress.bytes >= CHECKPOINT_BYTES {
            self.changed.notify_one();
        }
    }

    /// Waits until a checkpoint is due. Returns the number of the last change that the checkpoint must contain, or
    /// `None` if the thread must end.
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

    /// Waits for a short time. Returns false if the thread must end.
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
    /// Starts the checkpoint thread.
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
            // If the thread has panicked, the panic was already printed, and the journal still has all changes.
            let _ = thread.join();
        }
    }
}

fn run(shared: &Shared) {
    while let Some(lsn) = shared.requests.next() {
        if let Err(why) = checkpoint(shared, lsn) {
            tracing::warn!(
                "column: cannot shorten the table's journal: {why}; the journal keeps growing until a later attempt \
                 succeeds"
            );
        }
    }
}

/// Makes the files in `tables` contain all changes up to number `lsn`, records this durably in a snapshot, and removes
/// the part of the journal that the previous snapshot covers.
fn checkpoint(shared: &Shared, lsn: Lsn) -> Result<(), String> {
    shared.tables.begin_flush().map_err(|error| plain(&error))?;
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
