//! Replay.

use crate::Lsn;
use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::recover::find_end;
use crate::segment::{Scan, Segment, Step, load, segment_name};
use std::collections::VecDeque;

/// A record, as it lies in the reader's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Its number.
    pub lsn: Lsn,
    /// The caller's kind.
    pub kind: u8,
    /// The caller's bytes.
    pub payload: &'a [u8],
    /// First record number of the segment that holds it; `<20 digits>.log` is the file's name.
    pub segment: Lsn,
    /// Where in the segment it begins.
    pub offset: u64,
}

/// Reads records in order, checks each, and holds a few MiB at most.
pub struct Records<D: Disk> {
    disk: D,
    journal_id: u64,
    /// First records of the segments that are not read yet.
    segments: VecDeque<Lsn>,
    /// The segment being read, and its first record.
    scan: Option<(Lsn, Scan<D::File>)>,
    from: Lsn,
    /// The last record there is; beyond it nothing is looked at.
    last: Lsn,
    /// Goes on after records that are lost.
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

    /// Goes on at a record that is known to begin at `offset` of the segment that holds it.
    pub(crate) fn seek(&mut self, lsn: Lsn, offset: u64) {
        if let Some((_, scan)) = &mut self.scan {
            (scan.offset, scan.next_lsn) = (offset, lsn);
        }
    }

    /// Goes on after records that a repair found lost: the numbers of the records jump there. Without it there is
    /// [`Error::Missing`].
    #[must_use]
    pub fn over_gaps(mut self) -> Self {
        self.crosses_gaps = true;
        self
    }

    /// The next record, or `None` after the last.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::Missing`] or [`Error::Io`]; from then on always `None`.
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

    /// At a segment's end goes on to the next, where that continues it. What stands behind the last record of a
    /// segment that is complete has no meaning.
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
            Ok(_) => "there is nothing",
        };
        Err(Error::Damaged {
            file,
            offset: scan.offset,
            lsn: scan.next_lsn,
            what,
        })
    }

    /// Whether a repair began the next segment after records that are lost, record `next` among them.
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
        // One that is too short has been found to be, where it matters.
        let (segment, file, _) = Segment::open_short(&self.disk, &segment_name(first))?;
        if segment.header.journal_id != self.journal_id || segment.header.lsn != first {
            return Err(Error::Damaged {
                file: segment.name,
                offset: 0,
                lsn: first,
                what: "the header changed since it was opened",
            });
        }
        self.scan = Some((first, Scan::new(&segment, file)));
        Ok(())
    }
}

/// Returns the first record from which on none is missing: that of the last segment which a repair began after lost
/// records, else the first there is; 0: there is no segment.
///
/// # Errors
/// Those of [`dump`] before anything was shown.
pub fn first_unbroken<D: Disk>(disk: &D) -> Result<Lsn> {
    let names = disk.list().map_err(Error::io("list", "."))?;
    let segments = load(disk, &names)?;
    let after_gap = segments.iter().rfind(|segment| segment.header.follows_gap);
    let first = after_gap.or(segments.first());
    Ok(first.map_or(0, |segment| segment.header.lsn))
}

/// [`dump`] that goes on after records that a repair found lost: the numbers of the records jump there.
///
/// # Errors
/// Those of [`dump`].
pub fn dump_over_gaps<D: Disk>(disk: &D, from: Lsn, show: impl FnMut(Record<'_>)) -> Result<()> {
    dump_records(disk, from, true, show)
}

/// Shows each record from `from` on (or from the first there is) to `show`, of a journal that nobody has open; reads
/// only, and stops at the journal's end or at the first damage.
///
/// # Errors
/// As [`Journal::open`](crate::Journal::open) and [`Records::next`]. [`Error::Missing`] where records are lost. Where
/// only the end is damaged, what stands before it was shown.
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
        return Err(Error::NoJournal);
    };
    // What the end's damage lets stand is shown before the damage is reported.
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
