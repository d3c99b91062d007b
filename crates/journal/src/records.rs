//! Functions that read all records of a journal in order.

use crate::Lsn;
use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::recover::{check_empty, find_end};
use crate::segment::{Scan, Segment, Step, load, segment_name};
use std::collections::VecDeque;

/// Record of a journal. It borrows the reader's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Number of the record.
    pub lsn: Lsn,
    /// Kind of the record, chosen by the caller that appended it.
    pub kind: u8,
    /// Payload, as the caller appended it.
    pub payload: &'a [u8],
    /// First record of the segment that contains this record; the segment's file is named `<20 digits>.log`.
    pub segment: Lsn,
    /// Offset of the record in the segment.
    pub offset: u64,
}

/// Reader that returns records in order and checks each one. Its memory is limited to a few MiB.
pub struct Records<D: Disk> {
    disk: D,
    journal_id: u64,
    /// First records of the segments that have not been read yet.
    segments: VecDeque<Lsn>,
    /// First record and reader of the current segment.
    scan: Option<(Lsn, Scan<D::File>)>,
    from: Lsn,
    /// Last record to read.
    last: Lsn,
    /// True if the reader continues after lost records.
    crosses_gaps: bool,
}

impl<D: Disk> Records<D> {
    pub(crate) fn new(
        disk: D,
        journal_id: u64,
        segments: Vec<Lsn>,
        from: Lsn,
        last: Lsn,
    ) -> Result<Records<D>> {
        let skipped = segments.partition_point(|first| *first <= from).saturating_sub(1);
        let mut records = Records {
            disk,
            journal_id,
            segments: segments.into_iter().skip(skipped).collect(),
            scan: None,
            from,
            last,
            crosses_gaps: false,
        };
        if from <= last {
            records.open_next()?;
        }
        Ok(records)
    }

    /// Continues at record `lsn`, which begins at `offset` of the segment that contains it.
    pub(crate) fn seek(&mut self, lsn: Lsn, offset: u64) {
        if let Some((_, scan)) = &mut self.scan {
            (scan.offset, scan.next_lsn) = (offset, lsn);
        }
    }

    /// Makes the reader continue after records that a repair found lost; the record numbers jump at this place. Without
    /// this call, reading fails with [`Error::Missing`].
    #[must_use]
    pub fn over_gaps(mut self) -> Self {
        self.crosses_gaps = true;
        self
    }

    /// Returns the next record, or `None` after the last.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::Missing`] or [`Error::Io`]; after an error the reader always returns `None`.
    #[allow(
        clippy::should_implement_trait,
        reason = "it lends its buffer, which no `Iterator` can"
    )]
    #[inline]
    pub fn next(&mut self) -> Result<Option<Record<'_>>> {
        let place = loop {
            let Some((_, scan)) = &mut self.scan else {
                return Ok(None);
            };
            if scan.next_lsn > self.last {
                self.scan = None;
                return Ok(None);
            }
            match scan.step() {
                Ok(Step::Record(place)) if place.head.lsn < self.from => {}
                Ok(Step::Record(place)) => break place,
                other => self.leave(other)?,
            }
        };
        let Some((segment, scan)) = &self.scan else {
            return Ok(None);
        };
        Ok(Some(Record {
            lsn: place.head.lsn,
            kind: place.head.kind,
            payload: scan.payload(&place),
            segment: *segment,
            offset: place.offset,
        }))
    }

    /// Continues with the next segment at the end of a segment, if its first record is the next one. Bytes after the
    /// last record of a complete segment have no meaning.
    #[cold]
    fn leave(&mut self, step: std::io::Result<Step>) -> Result<()> {
        let Some((first, scan)) = self.scan.take() else {
            return Ok(());
        };
        let file = segment_name(first);
        let what = match step {
            Err(source) => return Err(Error::io("read", &file)(source)),
            Ok(_) if self.segments.front() == Some(&scan.next_lsn) => return self.open_next(),
            Ok(_) if self.is_gap_next(scan.next_lsn)? => {
                let next = self.segments.front().copied().unwrap_or(0);
                return match self.crosses_gaps {
                    true => self.open_next(),
                    false => Err(Error::Missing {
                        from: scan.next_lsn,
                        to: next - 1,
                        file: segment_name(next),
                    }),
                };
            }
            Ok(Step::Bad(what)) => what,
            Ok(_) => "no record is there",
        };
        Err(Error::Damaged {
            file,
            offset: scan.offset,
            lsn: scan.next_lsn,
            what,
        })
    }

    /// Returns whether a repair began the next segment after lost records that include record `next`.
    fn is_gap_next(&self, next: Lsn) -> Result<bool> {
        let Some(first) = self.segments.front().filter(|first| **first > next) else {
            return Ok(false);
        };
        let (segment, ..) = Segment::open_short(&self.disk, &segment_name(*first))?;
        Ok(segment.header.follows_gap)
    }

    fn open_next(&mut self) -> Result<()> {
        let Some(first) = self.segments.pop_front() else {
            return Ok(());
        };
        // Opening the journal has already reported a file that is too short if this matters.
        let (segment, file, _) = Segment::open_short(&self.disk, &segment_name(first))?;
        if segment.header.journal_id != self.journal_id || segment.header.lsn != first {
            return Err(Error::Damaged {
                file: segment.name,
                offset: 0,
                lsn: first,
                what: "the header changed after the journal was opened",
            });
        }
        self.scan = Some((first, Scan::new(&segment, file)));
        Ok(())
    }
}

/// Returns the first record after which no record is missing: the first record of the last segment that a repair
/// created after lost records, otherwise the first record of the journal; 0 if there is no segment.
///
/// # Errors
/// The errors of [`dump`] that occur before the first record.
pub fn first_unbroken<D: Disk>(disk: &D) -> Result<Lsn> {
    let names = disk.list().map_err(Error::io("list", "."))?;
    let segments = load(disk, &names)?;
    let after_gap = segments.iter().rfind(|segment| segment.header.follows_gap);
    let first = after_gap.or(segments.first());
    Ok(first.map_or(0, |segment| segment.header.lsn))
}

/// Calls `show` for records like [`dump`], but continues after records that a repair found lost; the record numbers
/// jump at this place.
///
/// # Errors
/// The errors of [`dump`].
pub fn dump_over_gaps<D: Disk>(disk: &D, from: Lsn, show: impl FnMut(Record<'_>)) -> Result<()> {
    dump_records(disk, from, true, show)
}

/// Calls `show` for each record from `from` on, or from the first record if that is later. The caller must not have the
/// journal open. Changes no file, and stops at the end of the journal or at the first damage.
///
/// # Errors
/// The errors of [`Journal::open`](crate::Journal::open) and [`Records::next`]; [`Error::Missing`] if records are lost.
/// If only the end is damaged, the function has shown the records before the damage.
pub fn dump<D: Disk>(disk: &D, from: Lsn, show: impl FnMut(Record<'_>)) -> Result<()> {
    dump_records(disk, from, false, show)
}

fn dump_records<D: Disk>(
    disk: &D,
    from: Lsn,
    crosses_gaps: bool,
    mut show: impl FnMut(Record<'_>),
) -> Result<()> {
    let names = disk.list().map_err(Error::io("list", "."))?;
    let segments = load(disk, &names)?;
    let (Some(first), Some(last)) = (segments.first(), segments.last()) else {
        return check_empty(disk, &names);
    };
    // If the end is damaged, the function shows the records before the damage first, and then reports the damage.
    let end = find_end(disk, last);
    let last_lsn = match &end {
        Ok(end) => end.last_lsn,
        Err(Error::Damaged { lsn, .. }) => lsn - 1,
        Err(_) => last.header.lsn - 1,
    };
    let journal_id = first.header.journal_id;
    let from = from.max(first.header.lsn);
    let segments = segments.iter().map(|segment| segment.header.lsn).collect();
    let mut records = Records::new(disk.clone(), journal_id, segments, from, last_lsn)?;
    records.crosses_gaps = crosses_gaps;
    while let Some(record) = records.next()? {
        show(record);
    }
    end.map(|_| ())
}
