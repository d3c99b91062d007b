//! Locks of files and directories that have one owner at a time.

use std::fs::{File, TryLockError};
use std::time::{Duration, Instant};

/// Time for which a lock is waited for.
pub(crate) const LOCK_WAIT: Duration = Duration::from_millis(500);
/// Time between two attempts to take a lock.
const LOCK_PAUSE: Duration = Duration::from_millis(5);

/// Takes the lock of a file or directory. Waits for at most half a second: a process that was killed keeps its locks
/// until the kernel has closed its files, and a process that is started keeps those of its parent until its own program
/// begins.
///
/// # Errors
/// [`TryLockError::WouldBlock`] if another owner has the lock; the system's error.
pub fn take(file: &File) -> Result<(), TryLockError> {
    let begin = Instant::now();
    loop {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) if begin.elapsed() < LOCK_WAIT => std::thread::sleep(LOCK_PAUSE),
            taken => return taken,
        }
    }
}
