//! Ownership of a data directory: at most one process and one service own it, and the owner checks that it is still in
//! place.
//!
//! The owner holds a `flock` on the directory itself, so that a second owner is refused even after the lock file was
//! removed. The directory has mode 0700, so that only its user (and root) can open it and take that lock. A
//! [marker](Kind) names the service that the directory belongs to. The process reads the marker before it writes
//! anything.
//!
//! [`Watch`] runs one thread that checks every second whether every directory that this process owns is still in place.
//! If a directory is not, [`DataDir::check`] fails for it from then on, and [`problems`] names it.

mod marker;
mod new_directory;
mod owner;
mod watch;

pub use marker::{Kind, MARKER};
pub use new_directory::NewDirectory;
pub use owner::{check_owner, explain_denied};
pub use watch::{Watch, WatchedFiles, made_directories, problems};

use crate::file_lock;
use rustix::process::geteuid;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use thiserror::Error;

/// Permission bits of group and others.
const OTHERS: u32 = 0o077;
/// The sticky bit, which is set on directories that all users share, such as `/tmp`.
const STICKY: u32 = 0o1000;

/// Reason why a data directory cannot be used. Nothing in it was changed.
#[derive(Debug, Error)]
pub enum DataDirError {
    /// The directory does not exist and may not be created.
    #[error("{} does not exist", path.display())]
    Missing {
        /// Path of the data directory.
        path: PathBuf,
    },
    /// Another owner, in this or another process, holds the directory.
    #[error(
        "{} is in use: another process holds its lock; stop that process, or give another directory",
        path.display()
    )]
    Locked {
        /// The directory, or its lock file.
        path: PathBuf,
    },
    /// The directory has a newer format of the same service than this program knows.
    #[error("{} holds {found}, and this version knows only {expected}: install a newer version", path.display())]
    Newer {
        /// Path of the data directory.
        path: PathBuf,
        /// Kind named in its marker.
        found: String,
        /// Kind that this program knows.
        expected: String,
    },
    /// The directory belongs to another service, or has an older format that this program does not know.
    #[error("{} holds {found}, not {expected}: give another directory", path.display())]
    OtherKind {
        /// Path of the data directory.
        path: PathBuf,
        /// Kind named in its marker.
        found: String,
        /// Kind that was requested.
        expected: String,
    },
    /// The directory contains files but no marker that names their service.
    #[error(
        "{} has files, such as {file}, but no marker `{MARKER}` that says which service they belong to: give an empty \
         directory. If the directory holds {expected} from a version without markers, write the marker: printf \
         '{text}' > {}/{MARKER}",
        path.display(), path.display()
    )]
    Unmarked {
        /// Path of the data directory.
        path: PathBuf,
        /// One of its files.
        file: String,
        /// Kind that was requested.
        expected: String,
        /// Text of the marker, as `printf` takes it.
        text: String,
    },
    /// The marker of the directory is damaged.
    #[error(
        "{}/{MARKER}, the file that says which service the directory belongs to, cannot be read. If the directory \
         holds {expected}, write the file again: printf '{text}' > {}/{MARKER}",
        path.display(), path.display()
    )]
    BadMarker {
        /// Path of the data directory.
        path: PathBuf,
        /// Kind that was requested.
        expected: String,
        /// Text of the marker, as `printf` takes it.
        text: String,
    },
    /// Group or others may use the directory, and this process may not change that because another user owns it.
    #[error(
        "{} has mode {mode:04o}, so that other users may read it or hold its lock, and belongs to user {owner}: chmod \
         700 it, or run as that user",
        path.display()
    )]
    Exposed {
        /// Path of the data directory.
        path: PathBuf,
        /// Permission bits.
        mode: u32,
        /// User id of the owner.
        owner: u32,
    },
    /// This process runs as root and another user owns the directory, so that user could not open the files that this
    /// process would create.
    #[error(
        "{} belongs to user {}, who could not open the files that root would create there; run the command as that \
         user: {} lineside …; or, if only root uses the directory, give it to root: chown -R root {}",
        path.display(), owner::shown_user(*owner), owner::run_as(*owner), path.display()
    )]
    Foreign {
        /// Path of the data directory.
        path: PathBuf,
        /// User id of the owner.
        owner: u32,
    },
    /// The directory is one that all users of the machine share.
    #[error(
        "{} is shared by all users (sticky bit): create a directory below it, and give the new directory",
        path.display()
    )]
    Shared {
        /// Path of the data directory.
        path: PathBuf,
    },
    /// A system call failed.
    #[error("cannot {op} {}: {source}", path.display())]
    Io {
        /// Operation that failed, such as `open`.
        op: &'static str,
        /// File or directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

impl DataDirError {
    /// Returns true if the operator must give another directory or run the command as another user: the directory
    /// belongs to another service, to no service or to another user, or all users share it.
    pub const fn is_wrong_argument(&self) -> bool {
        matches!(
            self,
            Self::OtherKind { .. }
                | Self::Newer { .. }
                | Self::Unmarked { .. }
                | Self::Shared { .. }
                | Self::Foreign { .. }
        )
    }

    fn io(op: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path: PathBuf = path.into();
        move |source| {
            let source = explain_denied(&path, source);
            Self::Io { op, path, source }
        }
    }
}

/// A data directory that this process owns as long as this handle or one of its clones exists.
#[derive(Clone, Debug)]
pub struct DataDir {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    /// The open directory, locked by `flock`.
    directory: File,
    /// Lock files, which must stay at their paths. Some are locked by this process.
    files: Mutex<Vec<(PathBuf, File)>>,
    /// Files that stay in the directory until this process removes them.
    watched: Mutex<WatchedFiles>,
    /// Topmost directory that was created to create this one; `None` if this directory existed before.
    created: Option<PathBuf>,
    /// True if the directory contained no data of a service when it was claimed.
    was_empty: bool,
    /// True if the directory had its marker when it was claimed.
    was_marked: bool,
    /// Reason why the directory no longer belongs to this process.
    lost_reason: OnceLock<String>,
}

impl DataDir {
    /// Claims the directory `path` for a service. Creates it if it is missing, and writes its marker if it is empty.
    ///
    /// # Errors
    /// Any [`DataDirError`] but [`DataDirError::Missing`].
    pub fn claim(path: &Path, kind: &Kind) -> Result<Self, DataDirError> {
        Self::take(path, Some(kind), true)
    }

    /// Claims an existing directory. Its marker must be of `kind`; an empty directory needs no marker.
    ///
    /// # Errors
    /// Any [`DataDirError`].
    pub fn claim_existing(path: &Path, kind: &Kind) -> Result<Self, DataDirError> {
        Self::take(path, Some(kind), false)
    }

    /// Claims the directory `path` whatever service it belongs to, and creates it if it is missing. Writes no marker.
    ///
    /// # Errors
    /// Any [`DataDirError`] except those about kinds.
    pub fn claim_any(path: &Path) -> Result<Self, DataDirError> {
        Self::take(path, None, true)
    }

    fn take(path: &Path, kind: Option<&Kind>, may_make: bool) -> Result<Self, DataDirError> {
        let created = match path.is_dir() {
            true => None,
            false if may_make => Some(make(path).map_err(DataDirError::io("create", path))?),
            false => return Err(DataDirError::Missing { path: path.into() }),
        };
        let result = Self::take_made(path, kind, created.clone());
        if result.is_err()
            && let Some(top) = created
        {
            new_directory::remove_empty(path, &top);
        }
        result
    }

    fn take_made(path: &Path, kind: Option<&Kind>, created: Option<PathBuf>) -> Result<Self, DataDirError> {
        let directory = File::open(path).map_err(DataDirError::io("open", path))?;
        // The lock comes first, because a command may ask the server that holds it instead of writing.
        lock(&directory, path)?;
        let about = directory.metadata().map_err(DataDirError::io("read", path))?;
        owner::refuse_foreign(&about, path)?;
        let was_marked = match kind {
            Some(kind) => marker::check_marked(path, kind)?,
            None => is_marked(path),
        };
        let was_empty = marker::check(path, kind)?;
        secure(&directory, path)?;
        if let Some(kind) = kind {
            marker::write(path, kind).map_err(DataDirError::io("write the marker of", path))?;
        }
        let inner = Inner {
            path: path.into(),
            directory,
            files: Mutex::default(),
            watched: Mutex::default(),
            created,
            was_empty,
            was_marked,
            lost_reason: OnceLock::new(),
        };
        let inner = Arc::new(inner);
        watch::register(&inner);
        Ok(Self { inner })
    }

    /// Creates the lock file `name` with mode 0600 if it is missing, locks it, and holds the lock while the directory
    /// is owned.
    ///
    /// # Errors
    /// [`DataDirError::Locked`], [`DataDirError::Io`].
    pub fn lock_file(&self, name: &str) -> Result<(), DataDirError> {
        let (path, file) = self.open_closed(name)?;
        lock(&file, &path)?;
        self.keep_watch_of(path, file);
        Ok(())
    }

    /// Creates the lock file `name` with mode 0600 if it is missing, and watches it like the lock files that this value
    /// holds. The library that owns the lock file locks it.
    ///
    /// # Errors
    /// [`DataDirError::Io`].
    pub fn watch_file(&self, name: &str) -> Result<(), DataDirError> {
        let (path, file) = self.open_closed(name)?;
        self.keep_watch_of(path, file);
        Ok(())
    }

    /// Opens the file `name` so that only this user may use it; creates it if it is missing.
    fn open_closed(&self, name: &str) -> Result<(PathBuf, File), DataDirError> {
        let path = self.inner.path.join(name);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let file = options
            .mode(0o600)
            .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits() as i32)
            .open(&path)
            .map_err(DataDirError::io("open", &path))?;
        close_to_others(&file).map_err(DataDirError::io("chmod 600", &path))?;
        Ok((path, file))
    }

    fn keep_watch_of(&self, path: PathBuf, file: File) {
        let files = self.inner.files.lock();
        files.unwrap_or_else(PoisonError::into_inner).push((path, file));
    }

    /// Returns true if the directory had a marker when it was claimed, which means that a server has used it.
    pub fn was_marked(&self) -> bool {
        self.inner.was_marked
    }

    /// Runs `change`, which creates, renames or removes watched files and records this in its argument. The watch
    /// thread does not check the directory while `change` runs.
    pub fn change_kept<T>(&self, change: impl FnOnce(&mut WatchedFiles) -> T) -> T {
        change(&mut self.inner.watched())
    }

    /// Returns the path of the directory.
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// Returns the open directory.
    pub fn directory(&self) -> &File {
        &self.inner.directory
    }

    /// Returns a guard that removes the contents of the directory if it was empty or missing before, unless
    /// [`NewDirectory::keep`] is called.
    pub fn new_directory(&self) -> NewDirectory {
        NewDirectory::of(self)
    }

    /// Fails once the directory or its lock file was removed or replaced. Costs one atomic load. Data that was written
    /// after the removal may be lost, so no write may be acknowledged after this call has failed.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] with the reason.
    pub fn check(&self) -> io::Result<()> {
        match self.inner.lost_reason.get() {
            None => Ok(()),
            Some(why) => Err(io::Error::new(io::ErrorKind::NotFound, why.clone())),
        }
    }
}

/// Returns true if the directory has a marker of any service.
pub fn is_marked(path: &Path) -> bool {
    path.join(MARKER).is_file()
}

/// Refuses a directory that has the marker of another service. Changes nothing.
///
/// # Errors
/// [`DataDirError::OtherKind`], [`DataDirError::Io`].
pub fn check_kind(path: &Path, kind: &Kind) -> Result<(), DataDirError> {
    marker::check_marked(path, kind).map(drop)
}

/// Returns the name of the service in the directory's marker; `None` if the marker is missing or cannot be read.
pub fn service_of(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path.join(MARKER)).ok()?;
    Some(text.lines().next()?.strip_prefix("service ")?.to_owned())
}

/// Returns true if the directory has the marker of a server but no other file of a server: these were removed, or the
/// first start was interrupted. Changes nothing.
///
/// # Errors
/// The directory cannot be read.
pub fn has_only_marker(path: &Path) -> io::Result<bool> {
    Ok(marker::is_alone(&names(path)?))
}

/// Creates `path` and its missing ancestors with mode 0700, and makes their names durable. Returns the topmost
/// directory that was created.
fn make(path: &Path) -> io::Result<PathBuf> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    let made_above = match parent.metadata() {
        Ok(_) => None,
        // The parent of `.` is `.` itself; this user may not be able to enter that directory.
        Err(error) if error.kind() == io::ErrorKind::NotFound && parent != path => Some(make(parent)?),
        Err(error) => return Err(error),
    };
    DirBuilder::new().mode(0o700).create(path)?;
    File::open(parent)?.sync_all()?;
    Ok(made_above.unwrap_or_else(|| path.into()))
}

fn lock(file: &File, path: &Path) -> Result<(), DataDirError> {
    file_lock::take(file).map_err(|error| match error {
        TryLockError::WouldBlock => DataDirError::Locked { path: path.into() },
        TryLockError::Error(error) => DataDirError::io("lock", path)(error),
    })
}

/// Removes the permissions of group and others from a directory of this user. Refuses a directory of another user if
/// group or others have any permissions.
fn secure(directory: &File, path: &Path) -> Result<(), DataDirError> {
    let about = directory.metadata().map_err(DataDirError::io("read", path))?;
    let mode = about.mode() & 0o7777;
    if mode & STICKY != 0 {
        return Err(DataDirError::Shared { path: path.into() });
    }
    if mode & OTHERS != 0 && about.uid() != geteuid().as_raw() {
        let (path, owner) = (path.into(), about.uid());
        return Err(DataDirError::Exposed { path, mode, owner });
    }
    close_to_others(directory).map_err(DataDirError::io("chmod 700", path))
}

/// Removes the permissions of group and others from a file.
fn close_to_others(file: &File) -> io::Result<()> {
    let mode = file.metadata()?.mode() & 0o7777;
    if mode & OTHERS == 0 {
        return Ok(());
    }
    file.set_permissions(Permissions::from_mode(mode & !OTHERS))
}

/// Returns the names of the entries of a directory.
fn names(path: &Path) -> io::Result<Vec<String>> {
    let entries = fs::read_dir(path)?;
    let name = |entry: io::Result<fs::DirEntry>| Ok(entry?.file_name().to_string_lossy().into_owned());
    entries.map(name).collect()
}

#[cfg(test)]
mod tests;
