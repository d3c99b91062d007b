//! Reading, beside whoever writes.

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

/// What reading a journal needs: it sees the records that were durable when it was made. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Reader<D: Disk> {
    disk: D,
    journal_id: u64,
    segments: Arc<[Lsn]>,
    durable_lsn: Lsn,
}

impl<D: Disk> Reader<D> {
    /// Of a journal that somebody else may have open; changes nothing.
    ///
    /// # Errors
    /// As [`Journal::open`].
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

    /// Of a damaged journal, of which `found` was found: it sees the records before the first damage.
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

    /// The last record that it sees.
    pub fn durable_lsn(&self) -> Lsn {
        self.durable_lsn
    }

    /// The first record of the segment that holds `lsn`.
    pub fn segment_of(&self, lsn: Lsn) -> Option<Lsn> {
        let after = self.segments.partition_point(|first| *first <= lsn);
        self.segments.get(after.checked_sub(1)?).copied()
    }

    /// The records from `from` on, checked one by one.
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

    /// [`Self::records`], without reading what stands before: record `from` begins at `offset` of its segment.
    ///
    /// # Errors
    /// Those of [`Self::records`]. A wrong place reads as [`Error::Damaged`].
    pub fn records_at(&self, from: Lsn, offset: u64) -> Result<Records<D>> {
        let mut records = self.records(from)?;
        records.seek(from, offset);
        Ok(records)
    }

    /// The newest whole snapshot; see [`Snapshots::latest`].
    ///
    /// # Errors
    /// Those of [`Snapshots::latest`].
    pub fn latest_snapshot(&self) -> Result<LatestSnapshot<D>> {
        Snapshots::new(self.disk.clone(), self.journal_id, false).latest()
    }
}

impl<D: Disk> Journal<D> {
    /// For other threads: it sees what is durable now.
    pub fn reader(&self) -> Reader<D> {
        Reader {
            disk: self.disk.clone(),
            journal_id: self.journal_id,
            segments: self.segments.as_slice().into(),
            durable_lsn: self.durable_lsn,
        }
    }
}
