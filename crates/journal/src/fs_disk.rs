//! Implementation of [`Disk`] in a directory of a file system.

use crate::acknowledged::MARK;
use crate::disk::{Disk, DiskFile};
use crate::error::{Error, Result};
use crate::segment::lsn_of;
use lineside_util::data_dir::{
    DataDir, Kind, NewDirectory, WatchedFiles, check_kind, explain_denied, is_marked,
};
use lineside_util::histogram::Histogram;
use rustix::fs::{FallocateFlags, fallocate};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// Name of the lock file.
const LOCK: &str = "lock";

/// Returns whether a running journal needs the file with this name, because it is a segment or the mark.
fn is_kept(name: &str) -> bool {
    name == MARK || lsn_of(name, ".log").is_some()
}

/// Directory of a file system. This handle and its clones own it as long as one of them, or a journal on one of them,
/// exists.
#[derive(Clone, Debug)]
pub struct FsDisk {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    directory: File,
    /// Owner of the directory while a handle exists; `None` if it was opened only for reading.
    owner: Option<DataDir>,
    sync_times: Arc<Histogram>,
}

impl FsDisk {
    /// Opens `path` for any service and takes the lock of the directory. Creates the directory if it is missing.
    ///
    /// # Errors
    /// [`Error::Locked`] when any process, this one included, has it open; [`Error::Directory`]; [`Error::Io`].
    pub fn open(path: impl AsRef<Path>) -> Result<FsDisk> {
        Self::owned(DataDir::claim_any(path.as_ref()).map_err(Error::directory)?)
    }

    /// Opens `path` for the service that `kind` names, and takes the lock of the directory. Creates a missing
    /// directory. A new or empty directory gets a marker file that names `kind`.
    ///
    /// # Errors
    /// [`Error::Locked`] when any process, this one included, has it open; [`Error::Directory`], also when it belongs
    /// to another service; [`Error::Io`].
    pub fn claim(path: impl AsRef<Path>, kind: &Kind) -> Result<FsDisk> {
        Self::owned(DataDir::claim(path.as_ref(), kind).map_err(Error::directory)?)
    }

    /// Opens an existing directory like [`FsDisk::claim`], and never creates one.
    ///
    /// # Errors
    /// The errors of [`FsDisk::claim`].
    pub fn claim_existing(path: impl AsRef<Path>, kind: &Kind) -> Result<FsDisk> {
        Self::owned(DataDir::claim_existing(path.as_ref(), kind).map_err(Error::directory)?)
    }

    fn owned(owner: DataDir) -> Result<FsDisk> {
        let shown = owner.path().display().to_string();
        owner.lock_file(LOCK).map_err(Error::directory)?;
        let directory = owner.directory().try_clone().map_err(Error::io("open", &shown))?;
        let inner = Inner {
            path: owner.path().to_path_buf(),
            directory,
            owner: Some(owner),
            sync_times: Arc::new(Histogram::of_times()),
        };
        Ok(FsDisk {
            inner: Arc::new(inner),
        })
    }

    /// Opens `path` for reading only, even if another process has it open. The owner may add data meanwhile.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn look(path: impl AsRef<Path>) -> Result<FsDisk> {
        let path = path.as_ref();
        let directory = File::open(path).map_err(Error::io("open", &path.display().to_string()))?;
        let inner = Inner {
            path: path.to_path_buf(),
            directory,
            owner: None,
            sync_times: Arc::new(Histogram::of_times()),
        };
        Ok(FsDisk {
            inner: Arc::new(inner),
        })
    }

    /// Opens `path` like [`FsDisk::look`], unless its marker names another service.
    ///
    /// # Errors
    /// [`Error::Directory`], [`Error::Io`].
    pub fn look_at(path: impl AsRef<Path>, kind: &Kind) -> Result<FsDisk> {
        check_kind(path.as_ref(), kind).map_err(Error::directory)?;
        Self::look(path)
    }

    /// Returns a guard that removes the content of a new directory unless [`NewDirectory::keep`] is called; `None` for
    /// a directory that was opened for reading only.
    pub fn new_directory(&self) -> Option<NewDirectory> {
        self.inner.owner.as_ref().map(DataDir::new_directory)
    }

    fn may_write(&self) -> io::Result<()> {
        match &self.inner.owner {
            Some(owner) => owner.check(),
            None => Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "the directory was opened for reading only",
            )),
        }
    }

    /// Returns the durations of the fdatasync calls of the directory's files, in nanoseconds. The histogram may outlive
    /// the handle.
    pub fn sync_times(&self) -> Arc<Histogram> {
        Arc::clone(&self.inner.sync_times)
    }

    /// Returns the path of the directory.
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// Fails if the directory, its lock, a segment or the mark was removed or replaced. Data written since then may be
    /// lost, so a sync after that must count as failed.
    fn check(&self) -> io::Result<()> {
        self.inner.owner.as_ref().map_or(Ok(()), DataDir::check)
    }

    /// Runs `change`, which may change files that are watched for removal. Its argument is `None` if this handle only
    /// reads, because such a handle watches no files.
    fn change_kept<T>(&self, change: impl FnOnce(Option<&mut WatchedFiles>) -> T) -> T {
        match &self.inner.owner {
            Some(owner) => owner.change_kept(|kept| change(Some(kept))),
            None => change(None),
        }
    }

    /// Opens a file and, if the journal needs it, watches it from then on. The function holds the lock of the watch
    /// list while it opens the file, so that a concurrent removal by this process waits.
    fn open_kept(&self, name: &str, options: &OpenOptions) -> io::Result<FsFile> {
        let path = self.at(name)?;
        let open = || options.open(&path).map_err(|error| explain_denied(&path, error));
        let file = match is_kept(name) {
            false => open()?,
            true => self.change_kept(|kept| {
                let file = open()?;
                if let Some(kept) = kept {
                    kept.watch(&path, &file);
                }
                io::Result::Ok(file)
            })?,
        };
        Ok(self.file(file))
    }

    fn file(&self, file: File) -> FsFile {
        FsFile {
            file,
            disk: self.clone(),
        }
    }

    /// Returns the bytes of the file system that are free for this user, and its total size.
    ///
    /// # Errors
    /// Error of `fstatvfs`.
    pub fn space_bytes(&self) -> io::Result<(u64, u64)> {
        let found = rustix::fs::fstatvfs(&self.inner.directory)?;
        Ok((
            found.f_bavail.saturating_mul(found.f_frsize),
            found.f_blocks.saturating_mul(found.f_frsize),
        ))
    }

    fn at(&self, name: &str) -> io::Result<PathBuf> {
        if name.is_empty() || name.starts_with('.') || name.contains(['/', '\0']) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "the file name is empty, begins with a dot, or contains a slash or NUL",
            ));
        }
        Ok(self.inner.path.join(name))
    }
}

impl Disk for FsDisk {
    type File = FsFile;

    fn create(&self, name: &str) -> io::Result<FsFile> {
        self.may_write()?;
        let mut options = OpenOptions::new();
        // Only the owner may read the file, because a journal may contain secrets such as session tokens.
        options.read(true).write(true).create_new(true).mode(0o600);
        options.open(self.at(name)?).map(|file| self.file(file))
    }

    fn open(&self, name: &str) -> io::Result<FsFile> {
        self.may_write()?;
        let mut options = OpenOptions::new();
        self.open_kept(name, options.read(true).write(true))
    }

    fn open_read(&self, name: &str) -> io::Result<FsFile> {
        self.open_kept(name, OpenOptions::new().read(true))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.may_write()?;
        let (from_path, to_path) = (self.at(from)?, self.at(to)?);
        self.change_kept(|kept| {
            std::fs::rename(&from_path, &to_path)?;
            match (is_kept(to), kept) {
                (true, Some(kept)) => kept.rename(&from_path, &to_path),
                (false, Some(kept)) => kept.forget(&from_path),
                (_, None) => {}
            }
            Ok(())
        })
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.may_write()?;
        let path = self.at(name)?;
        self.change_kept(|kept| {
            std::fs::remove_file(&path)?;
            if let Some(kept) = kept {
                kept.forget(&path);
            }
            Ok(())
        })
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.inner.path)? {
            let entry = entry?;
            if let (true, Ok(name)) = (entry.file_type()?.is_file(), entry.file_name().into_string()) {
                names.push(name);
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn used_before(&self) -> Option<PathBuf> {
        let was_marked = match &self.inner.owner {
            Some(owner) => owner.was_marked(),
            None => is_marked(&self.inner.path),
        };
        was_marked.then(|| self.inner.path.clone())
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.inner.directory.sync_all()?;
        self.check()
    }
}

/// File of an [`FsDisk`].
#[derive(Debug)]
pub struct FsFile {
    file: File,
    disk: FsDisk,
}

impl DiskFile for FsFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        self.file.read_at(into, offset)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        self.file.write_at(bytes, offset)
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.file.set_len(length)
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        match fallocate(&self.file, FallocateFlags::empty(), 0, length) {
            Ok(()) => Ok(()),
            Err(rustix::io::Errno::OPNOTSUPP) => self.fill(length),
            Err(error) => Err(error.into()),
        }
    }

    fn sync_data(&self) -> io::Result<()> {
        let started = Instant::now();
        self.file.sync_data()?;
        let took_ns = started.elapsed().as_nanos() as u64;
        self.disk.inner.sync_times.record(took_ns);
        self.disk.check()
    }
}

impl FsFile {
    /// Allocates space by writing zeros after the end, for file systems without fallocate (NFS 3, ZFS).
    fn fill(&self, length: u64) -> io::Result<()> {
        let zeros = [0u8; 1 << 16];
        let mut at = self.len()?;
        while at < length {
            let part = (length - at).min(zeros.len() as u64) as usize;
            crate::disk::write_all(self, at, &zeros[..part])?;
            at += part as u64;
        }
        Ok(())
    }
}
