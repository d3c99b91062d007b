//! Snapshots: a state after a record, in a file of its own.

use crate::Lsn;
use crate::disk::{Disk, DiskFile};
use crate::error::{Error, Result};
use std::io;

/// The snapshots beside a journal. Cheap to clone; may be used by another thread than the journal's, one at a time.
#[derive(Clone)]
pub struct Snapshots<D: Disk> {
    disk: D,
    journal_id: u64,
}

impl<D: Disk> Snapshots<D> {
    pub(crate) fn new(disk: D, journal_id: u64) -> Snapshots<D> {
        Snapshots { disk, journal_id }
    }

    /// Writes the snapshot of the state after record `lsn`: all that `fill` writes, or nothing. The two newest are kept.
    ///
    /// `lsn` must be durable already: a snapshot ahead of the journal's end reads as lost records.
    ///
    /// # Errors
    /// [`Error::Full`] and [`Error::Io`], that of `fill` included: the snapshots before it stand.
    pub fn write(
        &self,
        lsn: Lsn,
        fill: impl FnOnce(&mut SnapshotWriter<'_, D::File>) -> io::Result<()>,
    ) -> Result<()> {
        let _ = (&self.disk, self.journal_id, lsn, fill);
        Err(Error::NoJournal)
    }

    /// The newest whole snapshot, each byte of which was checked, and the damaged ones that are newer.
    ///
    /// # Errors
    /// [`Error::Foreign`], [`Error::Version`], [`Error::Io`].
    pub fn latest(&self) -> Result<LatestSnapshot<D>> {
        Err(Error::NoJournal)
    }
}

/// What [`Snapshots::latest`] found.
pub struct LatestSnapshot<D: Disk> {
    /// The newest whole one.
    pub snapshot: Option<Snapshot<D>>,
    /// Newer ones that cannot be used.
    pub damaged: Vec<DamagedSnapshot>,
}

/// A snapshot that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedSnapshot {
    /// Its file.
    pub file: String,
    /// Where the damage is.
    pub offset: u64,
    /// What is wrong.
    pub what: &'static str,
}

/// A whole snapshot: [`io::Read`] gives what was written, checked again as it is read.
pub struct Snapshot<D: Disk> {
    /// The record after which the state was as it says.
    pub lsn: Lsn,
    /// Bytes that reading gives.
    pub bytes: u64,
    file: D::File,
}

impl<D: Disk> io::Read for Snapshot<D> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.file.read_at(0, into)
    }
}

/// Takes a snapshot's bytes, in any portions.
pub struct SnapshotWriter<'a, F: DiskFile> {
    file: &'a F,
}

impl<F: DiskFile> io::Write for SnapshotWriter<'_, F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write_at(0, bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
