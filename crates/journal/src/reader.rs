//! Reader for a journal whose owner writes meanwhile.

use crate::Lsn;
use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::journal::Journal;
use crate::records::Records;
use crate::recover::find_end;
use crate::segment::load;
use crate::snapshot::{LatestSnapshot, Snapshots};
use crate::verify::{SegmentReport, VerifyReport};
use std::sync::Arc;

/// Reader of a journal. It sees the records that were durable when it was created. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Reader<D: Disk> {
    disk: D,
    journal_id: u64,
    segments: Arc<[Lsn]>,
    durable_lsn: Lsn,
}

impl<D: Disk> Reader<D> {
    /// Opens a reader on a journal that another process may have open. Changes no file.
    ///
    /// # Errors
    /// The errors of [`Journal::open`].
    pub fn open(disk: D) -> Result<Reader<D>> {
        let names = disk.list().map_err(Error::io("list", "."))?;
        let segments = load(&disk, &names)?;
        let last = segments.last().ok_or(Error::NoJournal)?;
        let end = find_end(&disk, last)?;
        Ok(Reader {
            journal_id: last.header.journal_id,
            segments: segments.iter().map(|segment| segment.header.lsn).collect(),
            durable_lsn: end.last_lsn,
            disk,
        })
    }

    /// Opens a reader on a damaged journal; `found` is the report of its verification. The reader returns the records
    /// before the first damage.
    pub fn open_before_damage(disk: D, found: &VerifyReport) -> Reader<D> {
        let mut next = found.first_lsn;
        let follows = |segment: &&SegmentReport| {
            let sees = segment.first_lsn == next && next <= found.last_lsn;
            next = segment.first_lsn + segment.records;
            sees
        };
        let segments = found.segments.iter().take_while(follows);
        Reader {
            journal_id: found.journal_id,
            segments: segments.map(|segment| segment.first_lsn).collect(),
            durable_lsn: found.last_lsn,
            disk,
        }
    }

    /// Returns the number of the last record that this reader returns.
    pub fn durable_lsn(&self) -> Lsn {
        self.durable_lsn
    }

    /// Returns the first record of the segment that contains record `lsn`.
    pub fn segment_of(&self, lsn: Lsn) -> Option<Lsn> {
        let after = self.segments.partition_point(|first| *first <= lsn);
        self.segments.get(after.checked_sub(1)?).copied()
    }

    /// Returns a reader of the records from `from` on, which checks each record before it returns it.
    ///
    /// # Errors
    /// [`Error::Pruned`]; [`Error::NotThere`] for more than `durable_lsn() + 1`; [`Error::Io`].
    pub fn records(&self, from: Lsn) -> Result<Records<D>> {
        let (from, durable) = (from.max(1), self.durable_lsn);
        let first = self.segments.first().copied().unwrap_or(1);
        if from < first {
            return Err(Error::Pruned { lsn: from, first });
        }
        if from > durable + 1 {
            return Err(Error::NotThere { lsn: from, durable });
        }
        let segments = self.segments.to_vec();
        Records::new(self.disk.clone(), self.journal_id, segments, from, durable)
    }

    /// Returns the same as [`Self::records`], without reading earlier records: record `from` begins at `offset` of its
    /// segment.
    ///
    /// # Errors
    /// The errors of [`Self::records`]. Reading from a wrong offset fails with [`Error::Damaged`].
    pub fn records_at(&self, from: Lsn, offset: u64) -> Result<Records<D>> {
        let mut records = self.records(from)?;
        records.seek(from, offset);
        Ok(records)
    }

    /// Returns the newest intact snapshot; see [`Snapshots::latest`].
    ///
    /// # Errors
    /// The errors of [`Snapshots::latest`].
    pub fn latest_snapshot(&self) -> Result<LatestSnapshot<D>> {
        Snapshots::new(self.disk.clone(), self.journal_id, false).latest()
    }
}

impl<D: Disk> Journal<D> {
    /// Returns a reader for other threads, which sees the records that are durable now.
    pub fn reader(&self) -> Reader<D> {
        Reader {
            disk: self.disk.clone(),
            journal_id: self.journal_id,
            segments: self.segments.as_slice().into(),
            durable_lsn: self.durable_lsn,
        }
    }
}
