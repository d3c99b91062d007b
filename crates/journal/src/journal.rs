//! The write path.

use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::records::Records;
use crate::recover::Recovery;
use crate::snapshot::{LatestSnapshot, SnapshotWriter, Snapshots};
use crate::{Lsn, Options};

/// A journal that is open for appending. One owner, no threads; [`GroupCommit`](crate::GroupCommit) adds them.
pub struct Journal<D: Disk> {
    disk: D,
}

fn unwritten<T>() -> Result<T> {
    Err(Error::NoJournal)
}

impl<D: Disk> Journal<D> {
    /// Makes a new journal. `journal_id` is a random number: it is mixed into every CRC.
    ///
    /// # Errors
    /// [`Error::Exists`]; [`Error::Full`]; [`Error::BadOptions`]; [`Error::Io`].
    pub fn create(disk: D, journal_id: u64, options: Options) -> Result<Journal<D>> {
        let _ = (disk, journal_id, options);
        unwritten()
    }

    /// Opens the journal on `disk`: finds its end, cuts an unfinished group behind it, makes the rest durable.
    ///
    /// # Errors
    /// [`Error::NoJournal`]; [`Error::Damaged`], [`Error::Missing`], [`Error::Duplicate`], [`Error::Foreign`],
    /// [`Error::Version`], and then nothing was changed; [`Error::Io`].
    pub fn open(disk: D, options: Options) -> Result<(Journal<D>, Recovery)> {
        let _ = (disk, options);
        unwritten()
    }

    /// [`Self::open`], or [`Self::create`] where neither segments nor snapshots are.
    pub fn open_or_create(disk: D, journal_id: u64, options: Options) -> Result<(Journal<D>, Recovery)> {
        let _ = (disk, journal_id, options);
        unwritten()
    }

    /// Makes sure that records of `bytes` together ([`record_bytes`](crate::record_bytes) of each) fit into the open
    /// group and into space that the disk has given already; takes the next segment's space if need be.
    ///
    /// # Errors
    /// [`Error::Full`] and [`Error::GroupFull`] change nothing; [`Error::Poisoned`]; [`Error::Io`] poisons.
    pub fn reserve(&mut self, bytes: u64) -> Result<()> {
        let _ = bytes;
        unwritten()
    }

    /// Puts a record into the open group and says its number. It is durable after [`Self::commit`].
    ///
    /// # Errors
    /// [`Error::RecordTooLarge`], and those of [`Self::reserve`], which it calls where the caller has not.
    pub fn append(&mut self, kind: u8, payload: &[u8]) -> Result<Lsn> {
        let _ = (kind, payload);
        unwritten()
    }

    /// Writes the open group and makes it durable: every record up to the returned one now is.
    ///
    /// # Errors
    /// [`Error::Io`] and from then on [`Error::Poisoned`]. The group's records may or may not be there at the next
    /// opening; no later one is.
    pub fn commit(&mut self) -> Result<Lsn> {
        unwritten()
    }

    /// Takes the space of the next segment now, if it is not taken yet: for a moment when nobody waits.
    ///
    /// # Errors
    /// Those of [`Self::reserve`].
    pub fn prepare(&mut self) -> Result<()> {
        unwritten()
    }

    /// The last durable record; 0 when there never was one.
    pub fn durable_lsn(&self) -> Lsn {
        0
    }

    /// The number that the next record gets.
    pub fn next_lsn(&self) -> Lsn {
        1
    }

    /// The first record there is; [`Self::next_lsn`] when there is none.
    pub fn first_lsn(&self) -> Lsn {
        1
    }

    /// The journal's id.
    pub fn journal_id(&self) -> u64 {
        0
    }

    /// The durable records from `from` on, checked one by one. It does not see what is committed later.
    ///
    /// # Errors
    /// [`Error::Pruned`]; [`Error::NotThere`] for more than `durable_lsn() + 1`; [`Error::Io`].
    pub fn records(&self, from: Lsn) -> Result<Records<D>> {
        let _ = from;
        unwritten()
    }

    /// Writes a snapshot of the state after record `lsn`, which must be durable; see [`Snapshots::write`].
    pub fn write_snapshot(
        &mut self,
        lsn: Lsn,
        fill: impl FnOnce(&mut SnapshotWriter<'_, D::File>) -> std::io::Result<()>,
    ) -> Result<()> {
        let _ = (lsn, fill);
        unwritten()
    }

    /// The newest whole snapshot; see [`Snapshots::latest`].
    pub fn latest_snapshot(&self) -> Result<LatestSnapshot<D>> {
        unwritten()
    }

    /// Snapshots of this journal, for another thread: they need the disk only.
    pub fn snapshots(&self) -> Snapshots<D> {
        Snapshots::new(self.disk.clone(), 0)
    }

    /// Removes the segments that hold nothing but records up to `lsn`, and says how many. Needs a whole snapshot at
    /// `lsn` or later. Prune by the older one of the two that are kept, so that falling back to it stays possible.
    ///
    /// # Errors
    /// [`Error::NoSnapshot`]; [`Error::Poisoned`]; [`Error::Io`] poisons.
    pub fn prune(&mut self, lsn: Lsn) -> Result<usize> {
        let _ = lsn;
        unwritten()
    }
}
