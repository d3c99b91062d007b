//! A directory of a file system.

use crate::disk::{Disk, DiskFile};
use crate::error::{Error, Result};
use rustix::fs::{FallocateFlags, fallocate};
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Name of the lock file.
const LOCK: &str = "lock";

/// A directory, owned by this handle and its clones as long as one of them or of their journals lives.
#[derive(Clone, Debug)]
pub struct FsDisk {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    directory: File,
    /// Held, and with it the directory, until the last handle is gone; `None`: only for looking.
    lock: Option<File>,
}

impl FsDisk {
    /// Opens `path`, which is made when it is missing, and takes its lock.
    ///
    /// # Errors
    /// [`Error::Locked`] when anyone has it open, this process included; [`Error::Io`].
    pub fn open(path: impl AsRef<Path>) -> Result<FsDisk> {
        let path = path.as_ref();
        let shown = path.display().to_string();
        make_dir(path).map_err(Error::io("make directory", &shown))?;
        let directory = File::open(path).map_err(Error::io("open", &shown))?;
        let lock_path = path.join(LOCK);
        let lock = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&lock_path)
            .map_err(Error::io("open", LOCK))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(Error::Locked { path: lock_path }),
            Err(TryLockError::Error(error)) => return Err(Error::io("lock", LOCK)(error)),
        }
        let inner = Inner {
            path: path.to_path_buf(),
            directory,
            lock: Some(lock),
        };
        Ok(FsDisk {
            inner: Arc::new(inner),
        })
    }

    /// Opens `path` for reading only, whoever else has it open: what is read may be added to meanwhile.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn look(path: impl AsRef<Path>) -> Result<FsDisk> {
        let path = path.as_ref();
        let directory = File::open(path).map_err(Error::io("open", &path.display().to_string()))?;
        let inner = Inner {
            path: path.to_path_buf(),
            directory,
            lock: None,
        };
        Ok(FsDisk {
            inner: Arc::new(inner),
        })
    }

    fn may_write(&self) -> io::Result<()> {
        match self.inner.lock {
            Some(_) => Ok(()),
            None => Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "opened for reading only",
            )),
        }
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// Bytes of the file system that are free for us, and all of them.
    ///
    /// # Errors
    /// What the system says.
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
                "not a plain file name",
            ));
        }
        Ok(self.inner.path.join(name))
    }
}

/// Makes the directory and those above it; a new one's name is made durable, or the journal would go with it.
fn make_dir(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    make_dir(parent)?;
    match std::fs::create_dir(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    File::open(parent)?.sync_all()
}

impl Disk for FsDisk {
    type File = FsFile;

    fn create(&self, name: &str) -> io::Result<FsFile> {
        self.may_write()?;
        let mut options = OpenOptions::new();
        // What a journal holds may be secret, such as sessions' tokens.
        options.read(true).write(true).create_new(true).mode(0o600);
        options.open(self.at(name)?).map(FsFile)
    }

    fn open(&self, name: &str) -> io::Result<FsFile> {
        self.may_write()?;
        let mut options = OpenOptions::new();
        options.read(true).write(true).open(self.at(name)?).map(FsFile)
    }

    fn open_read(&self, name: &str) -> io::Result<FsFile> {
        File::open(self.at(name)?).map(FsFile)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.may_write()?;
        std::fs::rename(self.at(from)?, self.at(to)?)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.may_write()?;
        std::fs::remove_file(self.at(name)?)
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

    fn sync_dir(&self) -> io::Result<()> {
        self.inner.directory.sync_all()
    }
}

/// A file of an [`FsDisk`].
#[derive(Debug)]
pub struct FsFile(File);

impl DiskFile for FsFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        self.0.read_at(into, offset)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        self.0.write_at(bytes, offset)
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.0.set_len(length)
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        match fallocate(&self.0, FallocateFlags::empty(), 0, length) {
            Ok(()) => Ok(()),
            Err(rustix::io::Errno::OPNOTSUPP) => self.fill(length),
            Err(error) => Err(error.into()),
        }
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }
}

impl FsFile {
    /// Takes the space by writing zeros behind the end, where the file system knows no fallocate (NFS 3, ZFS).
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
