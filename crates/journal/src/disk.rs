//! Interface of the disk that the journal needs: named files in one flat directory.

use std::io;
use std::path::PathBuf;

/// Flat directory of files. Handles are cheap to clone; all clones refer to the same directory.
///
/// An implementation must give Linux's guarantees: written bytes are durable once [`DiskFile::sync_data`] has returned
/// `Ok`, and created, renamed and removed names are durable once [`Disk::sync_dir`] has returned `Ok`. Before that,
/// nothing is durable. After a failed sync the state of the bytes is unknown, and a later successful sync does not
/// change that.
///
/// A full disk returns an error of kind `StorageFull` or `QuotaExceeded`.
pub trait Disk: Clone + Send + Sync + 'static {
    /// Type of an open file.
    type File: DiskFile;

    /// Creates an empty file. Fails with `AlreadyExists` if the name is in use.
    fn create(&self, name: &str) -> io::Result<Self::File>;
    /// Opens a file for reading and writing. Fails with `NotFound` if it does not exist.
    fn open(&self, name: &str) -> io::Result<Self::File>;
    /// Opens a file for reading. Fails with `NotFound` if it does not exist.
    fn open_read(&self, name: &str) -> io::Result<Self::File>;
    /// Renames `from` to `to`, and replaces a file of that name atomically.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a file. Fails with `NotFound` if it does not exist.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Returns the names of all plain files, sorted.
    fn list(&self) -> io::Result<Vec<String>>;
    /// Returns the path of the directory if a server had used it before this process opened it. If such a directory
    /// contains no journal, its journal was removed.
    fn used_before(&self) -> Option<PathBuf> {
        None
    }
    /// Makes created, renamed and removed names durable.
    fn sync_dir(&self) -> io::Result<()>;
}

/// Open file of a [`Disk`]. Dropping it closes the file and makes nothing durable.
pub trait DiskFile: Send + Sync + 'static {
    /// Returns the length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Returns whether the length is 0.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
    /// Reads at most `into.len()` bytes from `offset`, and returns their number: 0 at the end of the file.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize>;
    /// Writes at most `bytes.len()` bytes at `offset`, and returns their number. The file grows as needed.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<usize>;
    /// Truncates the file, or extends it with zeros that take no space yet.
    fn set_len(&self, length: u64) -> io::Result<()>;
    /// Allocates space for the first `length` bytes and extends a shorter file to that length; new bytes read as
    /// zeros.
    fn allocate(&self, length: u64) -> io::Result<()>;
    /// Makes written bytes and the length durable.
    fn sync_data(&self) -> io::Result<()>;
}

/// Writes all of `bytes` from `offset` on, in as many calls as needed.
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
/// Error of the read that failed.
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

/// Returns whether `error` means a lack of space or file descriptors, which may become available again.
pub(crate) fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{QuotaExceeded, StorageFull};
    use rustix::io::Errno;
    let no_descriptor = [Errno::MFILE, Errno::NFILE].map(Errno::raw_os_error);
    matches!(error.kind(), StorageFull | QuotaExceeded)
        || error
            .raw_os_error()
            .is_some_and(|code| no_descriptor.contains(&code))
}
