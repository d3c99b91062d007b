//! A disk in memory whose power can be cut at any operation.

use crate::disk::{Disk, DiskFile};
use std::io;
use std::sync::{Arc, Mutex};

/// What a fault can be set on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// [`DiskFile::read_at`].
    Read,
    /// [`DiskFile::write_at`].
    Write,
    /// [`DiskFile::set_len`].
    SetLen,
    /// [`DiskFile::allocate`].
    Allocate,
    /// [`DiskFile::sync_data`].
    SyncData,
    /// [`Disk::create`].
    Create,
    /// [`Disk::rename`].
    Rename,
    /// [`Disk::remove`].
    Remove,
    /// [`Disk::sync_dir`].
    SyncDir,
}

/// Operations since the disk was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Lengths set.
    pub set_lens: u64,
    /// Allocations.
    pub allocates: u64,
    /// File syncs.
    pub sync_datas: u64,
    /// Files made.
    pub creates: u64,
    /// Files renamed.
    pub renames: u64,
    /// Files removed.
    pub removes: u64,
    /// Directory syncs.
    pub sync_dirs: u64,
}

/// A disk in memory. Clones are the same disk. The same seed and the same calls give the same disk.
///
/// At a power cut each 512-byte sector that was written and not synced is, by chance, what it was, what it is, or what
/// it was in between; lengths and directory entries likewise. After a sync that failed, the bytes it was for may be
/// gone at the next cut although they can be read until then, and although a later sync succeeds (as on Linux).
#[derive(Clone, Debug)]
pub struct SimDisk {
    state: Arc<Mutex<u64>>,
}

impl SimDisk {
    /// An empty disk without limits and faults.
    pub fn new(seed: u64) -> SimDisk {
        SimDisk {
            state: Arc::new(Mutex::new(seed)),
        }
    }

    /// The power goes, and comes back. Files that are open are dead: each use of them is an error.
    pub fn power_cut(&self) {}

    /// The process ends without cleaning up, the machine goes on: what was written can still be read, though it is no
    /// more durable than before. Files that are open are dead.
    pub fn kill(&self) {}

    /// The power goes within the `n`-th operation from now that changes or syncs anything (from 1), which may have
    /// happened or not; from then on every operation fails until [`Self::power_cut`], which decides what is left.
    pub fn cut_at(&self, n: u64) {
        let _ = n;
    }

    /// Whether a cut that was set by [`Self::cut_at`] has happened.
    pub fn is_dead(&self) -> bool {
        false
    }

    /// The `n`-th operation `op` from now (from 1) fails with EIO. A write that fails may have written a part.
    pub fn fail_nth(&self, op: Op, n: u64) {
        let _ = (op, n);
    }

    /// The `n`-th [`Op::SyncData`] or [`Op::SyncDir`] from now (from 1) does nothing and says that all went well.
    pub fn skip_nth(&self, op: Op, n: u64) {
        let _ = (op, n);
    }

    /// Ends all faults that were set and have not happened yet.
    pub fn clear_faults(&self) {}

    /// Whether writes write a random part only, as write(2) may.
    pub fn set_short_writes(&self, short: bool) {
        let _ = short;
    }

    /// How much space there is for all files together, in bytes; `None`: without end. What lies there already stays.
    pub fn set_capacity_bytes(&self, capacity: Option<u64>) {
        let _ = capacity;
    }

    /// Space taken by all files.
    pub fn used_bytes(&self) -> u64 {
        0
    }

    /// Inverts bits of a byte, on the disk and in memory: bit rot. Whether there is such a byte.
    pub fn rot(&self, name: &str, offset: u64, xor: u8) -> bool {
        let _ = (name, offset, xor);
        false
    }

    /// What a file reads as now.
    pub fn content(&self, name: &str) -> Option<Vec<u8>> {
        let _ = name;
        None
    }

    /// Puts a file there, durable at once; `None` takes it away.
    pub fn put(&self, name: &str, content: Option<Vec<u8>>) {
        let _ = (name, content);
    }

    /// A copy of the whole disk as it is, with a life of its own.
    pub fn fork(&self, seed: u64) -> SimDisk {
        SimDisk::new(seed)
    }

    /// Operations so far.
    pub fn counts(&self) -> Counts {
        let _ = &self.state;
        Counts::default()
    }
}

/// A file of a [`SimDisk`].
#[derive(Debug)]
pub struct SimFile {
    disk: SimDisk,
}

impl Disk for SimDisk {
    type File = SimFile;

    fn create(&self, _: &str) -> io::Result<SimFile> {
        Ok(SimFile { disk: self.clone() })
    }

    fn open(&self, _: &str) -> io::Result<SimFile> {
        Err(io::ErrorKind::NotFound.into())
    }

    fn open_read(&self, name: &str) -> io::Result<SimFile> {
        self.open(name)
    }

    fn rename(&self, _: &str, _: &str) -> io::Result<()> {
        Ok(())
    }

    fn remove(&self, _: &str) -> io::Result<()> {
        Ok(())
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(Vec::new())
    }

    fn sync_dir(&self) -> io::Result<()> {
        Ok(())
    }
}

impl DiskFile for SimFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.disk.used_bytes())
    }

    fn read_at(&self, _: u64, _: &mut [u8]) -> io::Result<usize> {
        Ok(0)
    }

    fn write_at(&self, _: u64, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }

    fn set_len(&self, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn allocate(&self, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }
}
