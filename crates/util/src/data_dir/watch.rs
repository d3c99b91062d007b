//! Thread that checks whether the data directories of this process are still in place.

use super::Inner;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

/// Interval between two checks of all directories.
const INTERVAL: Duration = Duration::from_secs(1);

/// All directories that this process owns.
static OWNED: Mutex<Vec<Weak<Inner>>> = Mutex::new(Vec::new());

fn owned() -> MutexGuard<'static, Vec<Weak<Inner>>> {
    OWNED.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn register(directory: &Arc<Inner>) {
    let mut owned = owned();
    owned.retain(|one| one.strong_count() > 0);
    owned.push(Arc::downgrade(directory));
}

/// Returns the open directories. The list is not locked any more when this function returns, because dropping a
/// directory needs the lock if that ends its ownership.
fn open_directories() -> Vec<Arc<Inner>> {
    owned().iter().filter_map(Weak::upgrade).collect()
}

/// Returns each data directory of this process that was removed or replaced, with a sentence that says so.
pub fn problems() -> Vec<(PathBuf, String)> {
    let open = open_directories();
    open.iter()
        .filter_map(|one| Some((one.path.clone(), one.lost_reason.get()?.clone())))
        .collect()
}

/// Returns, for each data directory that this process created, the topmost directory that it had to create.
pub fn made_directories() -> Vec<PathBuf> {
    let open = open_directories();
    open.iter().filter_map(|one| one.created.clone()).collect()
}

/// Device number and inode number of a file.
type Identity = (u64, u64);

/// Watched file: its identity, and the length in bytes that it had when the watch began. The owner never shortens the
/// file.
#[derive(Clone, Copy, Debug)]
struct Watched {
    identity: Identity,
    bytes: u64,
}

/// Watched files of a data directory, which only the process that owns the directory may remove or shorten.
#[derive(Debug, Default)]
pub struct WatchedFiles(BTreeMap<PathBuf, Watched>);

/// Change of a file by another process.
#[derive(Clone, Copy, Debug)]
enum Harm {
    Moved,
    Truncated,
}

impl Harm {
    fn text(self) -> &'static str {
        match self {
            Self::Moved => "removed, moved or replaced",
            Self::Truncated => "truncated",
        }
    }
}

impl WatchedFiles {
    /// Watches the file at `path` from now on; `file` is the open file. A file whose identity the system does not
    /// report is not watched. If the file was watched before, the greater of the two lengths counts as its minimum
    /// length.
    pub fn watch(&mut self, path: &Path, file: &File) {
        if let Ok(about) = file.metadata() {
            let before = self
                .0
                .get(path)
                .filter(|before| before.identity == identity(&about));
            let bytes = about.len().max(before.map_or(0, |before| before.bytes));
            self.insert(path, &about, bytes);
        }
    }

    fn insert(&mut self, path: &Path, about: &fs::Metadata, bytes: u64) {
        let identity = identity(about);
        self.0.insert(path.into(), Watched { identity, bytes });
    }

    /// Watches the file `from` under its new path `to` from now on. A file that was at `to` before is no longer
    /// watched.
    pub fn rename(&mut self, from: &Path, to: &Path) {
        self.0.remove(from);
        if let Ok(about) = fs::metadata(to) {
            self.insert(to, &about, about.len());
        }
    }

    /// Stops watching the file at `path`.
    pub fn forget(&mut self, path: &Path) {
        self.0.remove(path);
    }

    /// Returns a file that is no longer at its path, or that has become shorter, if there is one.
    fn harmed(&self) -> Option<(&Path, Harm)> {
        self.0.iter().find_map(|(path, held)| {
            let harm = match fs::metadata(path) {
                Ok(about) if identity(&about) != held.identity => Harm::Moved,
                Ok(about) if about.len() < held.bytes => Harm::Truncated,
                Err(error) if is_gone(&error) => Harm::Moved,
                _ => return None,
            };
            Some((path.as_path(), harm))
        })
    }
}

fn identity(about: &fs::Metadata) -> Identity {
    (about.dev(), about.ino())
}

impl Inner {
    pub(super) fn watched(&self) -> MutexGuard<'_, WatchedFiles> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks whether the directory, its lock files and its watched files are still at their paths, and whether the
    /// watched files have at least their recorded lengths. Records the first one for which this is not true.
    pub(super) fn check(&self) {
        if self.lost_reason.get().is_some() {
            return;
        }
        let files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let files = files.iter().map(|(path, file)| (path.as_path(), file));
        let moved = [(self.path.as_path(), &self.directory)]
            .into_iter()
            .chain(files)
            .find(|(path, file)| !is_in_place(path, file));
        let watched = self.watched();
        let moved = moved.map(|(path, _)| (path, Harm::Moved));
        if let Some((path, harm)) = moved.or_else(|| watched.harmed()) {
            let why = format!(
                "{} was {} while it was in use: no write to {} is acknowledged any more; bring it back and restart",
                path.display(),
                harm.text(),
                self.path.display()
            );
            tracing::error!("{why}");
            let _ = self.lost_reason.set(why);
        }
    }
}

/// Returns true if `path` still names the open `file`. An error counts as true unless it proves the contrary; an
/// example is a network file system that does not respond.
fn is_in_place(path: &Path, file: &File) -> bool {
    file.metadata().map_or(true, |held| is_at(path, identity(&held)))
}

/// Returns true if `path` names the file with the identity `held`. Errors count as in [`is_in_place`].
fn is_at(path: &Path, held: Identity) -> bool {
    match fs::metadata(path) {
        Ok(at_path) => identity(&at_path) == held,
        Err(error) => !is_gone(&error),
    }
}

/// Returns true if an error proves that a path names no file.
fn is_gone(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

/// Thread that checks every directory of this process each second. Dropping this ends the thread.
#[derive(Debug)]
pub struct Watch(Option<(Sender<()>, JoinHandle<()>)>);

impl Watch {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system's error if the thread cannot be started.
    pub fn start() -> io::Result<Self> {
        let (stop, stopped) = channel::<()>();
        let run = move || {
            while stopped.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                open_directories().iter().for_each(|one| one.check());
            }
        };
        let thread = std::thread::Builder::new().name("data-dirs".into()).spawn(run)?;
        Ok(Self(Some((stop, thread))))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.0.take() {
            drop(stop);
            // A thread that panicked has already printed its message.
            let _ = thread.join();
        }
    }
}
