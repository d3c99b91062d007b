//! Disk in memory for tests. It simulates power cuts and faults at any operation.

mod inode;
mod rng;
mod state;

use crate::disk::{Disk, DiskFile};
use state::{Fate, State, io_error};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Operation for which a fault can be set.
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

/// Number of operations of each kind since the disk was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Number of reads.
    pub reads: u64,
    /// Number of writes.
    pub writes: u64,
    /// Number of times that a length was set.
    pub set_lens: u64,
    /// Number of allocations.
    pub allocates: u64,
    /// Number of syncs of file data.
    pub sync_datas: u64,
    /// Number of files that were created.
    pub creates: u64,
    /// Number of files that were renamed.
    pub renames: u64,
    /// Number of files that were removed.
    pub removes: u64,
    /// Number of syncs of the directory.
    pub sync_dirs: u64,
}

impl Counts {
    /// Returns the number of operations that change or sync something; [`SimDisk::cut_at`] counts these operations.
    pub fn changes(&self) -> u64 {
        self.writes
            + self.set_lens
            + self.allocates
            + self.sync_datas
            + self.creates
            + self.renames
            + self.removes
            + self.sync_dirs
    }

    fn of(&mut self, op: Op) -> &mut u64 {
        match op {
            Op::Read => &mut self.reads,
            Op::Write => &mut self.writes,
            Op::SetLen => &mut self.set_lens,
            Op::Allocate => &mut self.allocates,
            Op::SyncData => &mut self.sync_datas,
            Op::Create => &mut self.creates,
            Op::Rename => &mut self.renames,
            Op::Remove => &mut self.removes,
            Op::SyncDir => &mut self.sync_dirs,
        }
    }
}

/// Disk in memory. Clones refer to the same disk. The same seed and the same calls give the same behaviour.
///
/// At a power cut, each 512-byte sector that was written and not synced gets, at random, its old content, its new
/// content, or a content between them; lengths and directory entries likewise. After a failed sync, the bytes may be
/// lost at the next power cut, although they can be read until then and although a later sync succeeds (as on Linux).
#[derive(Clone, Debug)]
pub struct SimDisk {
    state: Arc<Mutex<State>>,
}

impl SimDisk {
    /// Creates an empty disk without limits and faults.
    pub fn new(seed: u64) -> SimDisk {
        SimDisk {
            state: Arc::new(Mutex::new(State::new(seed))),
        }
    }

    /// Cuts the power and restores it. Every use of a file that was opened before returns an error.
    pub fn power_cut(&self) {
        self.state().power_cut();
    }

    /// Kills the process, while the machine keeps running: written data can still be read, but is no more durable than
    /// before. Every use of a file that was opened before returns an error.
    pub fn kill(&self) {
        self.state().kill();
    }

    /// Cuts the power within the `n`-th operation from now that changes or syncs anything (counted from 1). That
    /// operation may or may not have happened. All operations fail from then on until [`Self::power_cut`], which
    /// decides what survives.
    pub fn cut_at(&self, n: u64) {
        self.state().cut_in = Some(n.max(1));
    }

    /// Returns whether a cut that was set by [`Self::cut_at`] has happened.
    pub fn is_dead(&self) -> bool {
        self.state().dead
    }

    /// Makes the `n`-th operation `op` from now (counted from 1) fail with EIO. A failing write may write a part of its
    /// bytes.
    pub fn fail_nth(&self, op: Op, n: u64) {
        self.state().set_fault(op, n, false);
    }

    /// Makes the `n`-th [`Op::SyncData`] or [`Op::SyncDir`] from now (counted from 1) report success without doing
    /// anything.
    pub fn skip_nth(&self, op: Op, n: u64) {
        self.state().set_fault(op, n, true);
    }

    /// Removes all faults that have not happened yet.
    pub fn clear_faults(&self) {
        self.state().clear_faults();
    }

    /// Sets whether a write may write only a random part of its bytes, as write(2) may.
    pub fn set_short_writes(&self, short: bool) {
        self.state().short_writes = short;
    }

    /// Sets the capacity for all files together, in bytes; `None`: unlimited. Existing content remains.
    pub fn set_capacity_bytes(&self, capacity: Option<u64>) {
        self.state().capacity = capacity;
    }

    /// Returns the space allocated to all files, in bytes.
    pub fn used_bytes(&self) -> u64 {
        self.state().used_bytes()
    }

    /// Inverts bits of a byte, on the disk and in memory, to simulate bit rot. Returns whether the byte exists.
    pub fn rot(&self, name: &str, offset: u64, xor: u8) -> bool {
        let mut state = self.state();
        let inode = state.names.get(name).copied();
        inode.is_some_and(|inode| state.inodes[inode].rot(offset, xor))
    }

    /// Returns the current content of a file.
    pub fn content(&self, name: &str) -> Option<Vec<u8>> {
        let state = self.state();
        let content = &state.inodes[*state.names.get(name)?].now;
        let mut bytes = vec![0; content.length as usize];
        content.read(0, &mut bytes);
        Some(bytes)
    }

    /// Creates a file with durable content; if the content is `None`, removes the file.
    pub fn put(&self, name: &str, content: Option<Vec<u8>>) {
        self.state().put(name, content);
    }

    /// Returns an independent copy of the whole disk.
    pub fn fork(&self, seed: u64) -> SimDisk {
        let mut state = self.state().clone();
        state.rng = rng::Rng(seed);
        SimDisk {
            state: Arc::new(Mutex::new(state)),
        }
    }

    /// Returns the number of operations so far.
    pub fn counts(&self) -> Counts {
        self.state().counts
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn handle(&self, inode: usize, epoch: u64) -> SimFile {
        SimFile {
            disk: self.clone(),
            inode,
            epoch,
        }
    }
}

/// A file of a [`SimDisk`].
#[derive(Debug)]
pub struct SimFile {
    disk: SimDisk,
    inode: usize,
    epoch: u64,
}

impl Disk for SimDisk {
    type File = SimFile;

    fn create(&self, name: &str) -> io::Result<SimFile> {
        let mut state = self.state();
        let inode = state.run(Op::Create, |state| state.create(name))?;
        Ok(self.handle(inode, state.epoch))
    }

    fn open(&self, name: &str) -> io::Result<SimFile> {
        let state = self.state();
        if state.dead {
            return Err(io_error());
        }
        let inode = state.names.get(name).ok_or(io::ErrorKind::NotFound)?;
        Ok(self.handle(*inode, state.epoch))
    }

    fn open_read(&self, name: &str) -> io::Result<SimFile> {
        self.open(name)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.state().run(Op::Rename, |state| state.rename(from, to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.state().run(Op::Remove, |state| state.remove(name))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let state = self.state();
        if state.dead {
            return Err(io_error());
        }
        Ok(state.names.keys().cloned().collect())
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.state().sync_dir()
    }
}

impl SimFile {
    fn state(&self) -> io::Result<MutexGuard<'_, State>> {
        let state = self.disk.state();
        if state.dead || state.epoch != self.epoch {
            return Err(io_error());
        }
        Ok(state)
    }
}

impl DiskFile for SimFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.state()?.inodes[self.inode].now.length)
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        let mut state = self.state()?;
        match state.fate(Op::Read)? {
            Fate::Failed => Err(io_error()),
            _ => Ok(state.inodes[self.inode].now.read(offset, into)),
        }
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        self.state()?.write(self.inode, offset, bytes)
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        let mut state = self.state()?;
        state.run(Op::SetLen, |state| {
            state.inodes[self.inode].set_len(length);
            Ok(())
        })
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        let mut state = self.state()?;
        state.run(Op::Allocate, |state| state.allocate(self.inode, length))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.state()?.sync_data(self.inode)
    }
}
