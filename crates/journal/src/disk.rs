//! All that the journal asks of a disk: files by name in one flat directory.

use std::io;
use std::path::PathBuf;

/// One flat directory. Handles are cheap to clone and share what they stand for.
///
/// What an implementation must promise is what Linux promises: written bytes are durable after
/// [`DiskFile::sync_data`] returned `Ok`, created, renamed and removed names after [`Disk::sync_dir`] did, and nothing
/// before. A failed sync says nothing about the bytes, and a second one that succeeds says nothing about the first's.
///
/// A full disk is an error of the kind `StorageFull` (or `QuotaExceeded`).
pub trait Disk: Clone + Send + Sync + 'static {
    /// An open file.
    type File: DiskFile;

    /// Makes a new, empty file. `AlreadyExists` when there is one of this name.
    fn create(&self, name: &str) -> io::Result<Self::File>;
    /// Opens a file to read and write it. `NotFound` when there is none.
    fn open(&self, name: &str) -> io::Result<Self::File>;
    /// Opens a file to read it. `NotFound` when there is none.
    fn open_read(&self, name: &str) -> io::Result<Self::File>;
    /// Gives `from` the name `to`, in place of a file that may have it; at no time is there none of that name.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a name. `NotFound` when there is none.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// The names of all plain files, sorted.
    fn list(&self) -> io::Result<Vec<String>>;
    /// The directory, if a server has used it before it was opened: a journal that is not in it was removed.
    fn used_before(&self) -> Option<PathBuf> {
        None
    }
    /// Makes created, renamed and removed names durable.
    fn sync_dir(&self) -> io::Result<()>;
}

/// An open file of a [`Disk`]. Closed when dropped; that makes nothing durable.
pub trait DiskFile: Send + Sync + 'static {
    /// Its length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Whether it has no bytes.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
    /// Reads at most `into.len()` bytes from `offset`; 0 at the end of the file.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize>;
    /// Writes at most `bytes.len()` bytes at `offset` and says how many; a file grows as needed.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<usize>;
    /// Cuts or extends (with zeros that need no space yet).
    fn set_len(&self, length: u64) -> io::Result<()>;
    /// Takes space for the first `length` bytes and makes the file at least so long; new bytes read as zeros.
    fn allocate(&self, length: u64) -> io::Result<()>;
    /// Makes what was written, and the length, durable.
    fn sync_data(&self) -> io::Result<()>;
}

/// Writes all of `bytes`, in as many writes as the disk needs.
pub(crate) fn write_all(file: &impl DiskFile, mut offset: u64, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.write_at(offset, bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                offset += written as u64;
                bytes = bytes.get(written..).unwrap_or_default();
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Reads from `offset` until `into` is full or the file ends. Returns the number of bytes read.
///
/// # Errors
/// The system's reason.
pub fn read_full(file: &impl DiskFile, offset: u64, into: &mut [u8]) -> io::Result<usize> {
    let mut done = 0;
    while done < into.len() {
        match file.read_at(offset + done as u64, &mut into[done..]) {
            Ok(0) => break,
            Ok(read) => done += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// Whether `error` means that there is no space, or no descriptor for a file, which may come back.
pub(crate) fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{QuotaExceeded, StorageFull};
    use rustix::io::Errno;
    let no_descriptor = [Errno::MFILE, Errno::NFILE].map(Errno::raw_os_error);
    matches!(error.kind(), StorageFull | QuotaExceeded)
        || error
            .raw_os_error()
            .is_some_and(|code| no_descriptor.contains(&code))
}
