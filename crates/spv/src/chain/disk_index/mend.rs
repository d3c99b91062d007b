//! Free-space checks of an index on disk, and its recovery after a write found no free space.

use super::{DiskIndex, Failed, Truth, TxidIndex, other, txid_at};
use lineside_util::fjall_files;
use rustix::fs::{FallocateFlags, fallocate};
use std::fs::File;
use std::io;
use std::path::Path;

/// Maximum number of bytes of disk space that one TXID needs while a run is written.
const BYTES_BY_TXID: usize = 64;
const FREE_BYTES: u64 = 8 << 20;
/// Number of bytes that must be free before the database is opened again: the database creates its journal with this
/// size.
const OPEN_BYTES: u64 = 64 << 20;

impl DiskIndex {
    /// Makes the index writable again after a write found no free space, if there is free space now: the database is
    /// closed, opened again and compared with the blocks. Without such a failure the call does nothing.
    ///
    /// # Errors
    /// If there is still no free space, the index is unchanged. If the database cannot be opened or contradicts the
    /// blocks, lookups fail, and the next call tries again. If a write failed for another reason than missing space,
    /// the index is not written until a restart.
    pub(in super::super) fn mend(&mut self, truth: &impl Truth) -> io::Result<()> {
        match self.failed {
            None => return Ok(()),
            Some(Failed::Otherwise) => {
                return Err(other(
                    "an earlier write of the index failed, so nothing is written any more; restart this program",
                ));
            }
            Some(Failed::NoRoom) => {}
        }
        self.check_room()?;
        self.take_room(self.needed_bytes() + OPEN_BYTES)?;
        // A process can have a database open only once.
        self.opened = None;
        fjall_files::check_lists(&self.path).map_err(other)?;
        let index = Self::at(&self.path, &self.marker, self.network)?;
        index.believe(truth)?;
        // The database may contain the run whose write returned an error: read again which blocks it covers.
        let (covered, mut tail) = (index.covered, TxidIndex::new()?);
        for block in covered.blocks..truth.blocks() {
            tail.add(block, truth.txids(block), |place| txid_at(truth, place));
        }
        (self.covered, self.tail) = (covered, tail);
        (self.opened, self.failed) = (index.opened, None);
        tracing::info!(
            index = %self.path.display(),
            "there is free disk space again, and the server writes the index again"
        );
        Ok(())
    }

    fn needed_bytes(&self) -> u64 {
        (self.tail.len() * BYTES_BY_TXID) as u64 + FREE_BYTES
    }

    /// Checks that the disk has space for the tail. This happens before the write, because a failed write closes the
    /// database. The call can be repeated.
    pub(super) fn check_room(&self) -> io::Result<()> {
        let needed = self.needed_bytes();
        let folder = self.marker.parent().unwrap_or(Path::new("."));
        // Opens the directory and asks by file: the server's sandbox denies `statvfs` by path.
        let free = rustix::fs::fstatvfs(&File::open(folder)?)?;
        if free.f_bavail.saturating_mul(free.f_frsize) < needed {
            return Err(io::Error::new(
                io::ErrorKind::StorageFull,
                format!("the index needs {} MiB of free disk space", needed >> 20),
            ));
        }
        Ok(())
    }

    /// Checks that `bytes` can be written, by allocating a file of this length and removing it. This also finds a limit
    /// or a quota of the process or user, which the free space of the file system does not show.
    fn take_room(&self, bytes: u64) -> io::Result<()> {
        let path = self.marker.with_extension("room");
        let taken = File::create(&path).and_then(|file| {
            match fallocate(&file, FallocateFlags::empty(), 0, bytes) {
                // The file system does not support preallocation.
                Err(rustix::io::Errno::OPNOTSUPP) => Ok(()),
                taken => taken.map_err(io::Error::from),
            }
        });
        std::fs::remove_file(&path).and(taken)
    }
}
