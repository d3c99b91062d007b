//! Guard that removes a new data directory, so that a failed start leaves no files.

use super::{DataDir, names};
use std::fs;
use std::path::Path;

/// Removes the contents of a new data directory, and the directories that were created for it, when it is dropped. A
/// directory that held data before is not changed.
#[derive(Debug)]
pub struct NewDirectory(Option<DataDir>);

impl NewDirectory {
    pub(super) fn of(directory: &DataDir) -> Self {
        Self(directory.inner.was_empty.then(|| directory.clone()))
    }

    /// Keeps the directory when this value is dropped, because it may now hold data that was acknowledged to a client
    /// as durable.
    pub fn keep(&mut self) {
        self.0 = None;
    }
}

impl Drop for NewDirectory {
    fn drop(&mut self) {
        let Some(directory) = self.0.take() else {
            return;
        };
        let path = directory.path();
        if directory.check().is_err() {
            // Another directory may have been moved to this path, so nothing is removed.
            return;
        }
        for name in names(path).unwrap_or_default() {
            let entry = path.join(&name);
            // A file that cannot be removed does no harm, because no client depends on it yet.
            let _ = match entry.is_dir() && !entry.is_symlink() {
                true if name == "lost+found" => Ok(()),
                true => fs::remove_dir_all(entry),
                false => fs::remove_file(entry),
            };
        }
        if let Some(top) = &directory.inner.created {
            remove_empty(path, top);
        }
    }
}

/// Removes the empty directory `path`, and its empty ancestors up to `top`.
pub(super) fn remove_empty(path: &Path, top: &Path) {
    for directory in path.ancestors() {
        if fs::remove_dir(directory).is_err() || directory == top {
            return;
        }
    }
}
