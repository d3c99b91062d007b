//! Guard of a directory that is new: a start that fails leaves nothing behind.

use super::{DataDir, names};
use std::fs;
use std::path::Path;

/// Removes, when it is dropped, what a new data directory holds, and the directories that were made for it. A directory
/// that held data before stays as it is.
#[derive(Debug)]
pub struct NewDirectory(Option<DataDir>);

impl NewDirectory {
    pub(super) fn of(directory: &DataDir) -> Self {
        Self(directory.inner.was_empty.then(|| directory.clone()))
    }

    /// Says that the directory stays: from here on it may hold what a client was told is durable.
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
            // Another directory may lie at the path.
            return;
        }
        for name in names(path).unwrap_or_default() {
            let entry = path.join(&name);
            // What cannot be removed does no harm; no client has been told anything of it.
            let _ = match entry.is_dir() && !entry.is_symlink() {
                true if name == "lost+found" => Ok(()),
                true => fs::remove_dir_all(entry),
                false => fs::remove_file(entry),
            };
        }
        if let Some(top) = &directory.inner.made {
            remove_empty(path, top);
        }
    }
}

/// Removes the empty directory `path`, and those above it up to `top`.
pub(super) fn remove_empty(path: &Path, top: &Path) {
    for directory in path.ancestors() {
        if fs::remove_dir(directory).is_err() || directory == top {
            return;
        }
    }
}
