//! Segment files: their names, their headers, and a reader that needs little memory.

use crate::Lsn;
use crate::disk::{Disk, DiskFile, read_full};
use crate::error::{Error, Result};
use crate::format::{
    BadHeader, Head, Header, Parsed, RECORD_HEADER_BYTES, SEGMENT_HEADER_BYTES, SEGMENT_MAGIC, parse, seed,
};
use std::io;

/// Name of the file that becomes the next segment. It has no record yet, and therefore no final name.
pub(crate) const SPARE: &str = "next.tmp";
/// Number of bytes that are read at a time.
const CHUNK: usize = 1 << 20;

pub(crate) fn segment_name(first_lsn: Lsn) -> String {
    format!("{first_lsn:020}.log")
}

/// Returns the record number in a file name that consists of 20 digits and `suffix`.
pub(crate) fn lsn_of(name: &str, suffix: &str) -> Option<Lsn> {
    let digits = name.strip_suffix(suffix)?;
    let plain = digits.len() == 20 && digits.bytes().all(|digit| digit.is_ascii_digit());
    plain.then(|| digits.parse().ok()).flatten()
}

/// Segment with a valid header.
#[derive(Clone, Debug)]
pub(crate) struct Segment {
    pub(crate) name: String,
    pub(crate) header: Header,
}

impl Segment {
    /// Opens a segment's file and checks its header and length.
    pub(crate) fn open<D: Disk>(disk: &D, name: &str) -> Result<(Segment, D::File)> {
        let (segment, file, length) = Self::open_short(disk, name)?;
        if length < segment.header.segment_bytes {
            return Err(segment.damaged(length, "the file is shorter than its header says"));
        }
        Ok((segment, file))
    }

    /// Opens a segment like [`Self::open`], but accepts a file that is too short. Also returns the length of the file
    /// in bytes.
    pub(crate) fn open_short<D: Disk>(disk: &D, name: &str) -> Result<(Segment, D::File, u64)> {
        let file = disk.open_read(name).map_err(Error::io("open", name))?;
        let mut bytes = [0; SEGMENT_HEADER_BYTES as usize];
        let read = read_full(&file, 0, &mut bytes).map_err(Error::io("read", name))?;
        let damaged = |what| Error::Damaged {
            file: name.into(),
            offset: 0,
            lsn: lsn_of(name, ".log").unwrap_or(0),
            what,
        };
        let header = match Header::decode(&bytes[..read], SEGMENT_MAGIC) {
            Ok(header) => header,
            Err(BadHeader::Damaged(what)) => return Err(damaged(what)),
            Err(BadHeader::Version(found)) => {
                let file = name.into();
                return Err(Error::Version { file, found });
            }
        };
        let bytes = header.segment_bytes;
        let sizes = (SEGMENT_HEADER_BYTES..=1 << 32).contains(&bytes) && bytes.is_multiple_of(8);
        if !sizes || header.lsn == 0 {
            return Err(damaged("the header has sizes that no writer sets"));
        }
        let length = file.len().map_err(Error::io("read the length of", name))?;
        let name = name.into();
        Ok((Segment { name, header }, file, length))
    }

    /// Returns whether a full segment precedes this one. In that case the first group of this segment was durable
    /// before the segment got its name.
    pub(crate) fn is_rolled(&self) -> bool {
        self.header.previous != 0 && !self.header.follows_gap
    }

    fn damaged(&self, offset: u64, what: &'static str) -> Error {
        Error::Damaged {
            file: self.name.clone(),
            offset,
            lsn: lsn_of(&self.name, ".log").unwrap_or(0),
            what,
        }
    }
}

/// Checks that all segments belong to one journal, that no segment occurs twice, and that no segment between them is
/// missing. `names` must be sorted.
pub(crate) fn load<D: Disk>(disk: &D, names: &[String]) -> Result<Vec<Segment>> {
    let mut segments: Vec<Segment> = Vec::new();
    for name in names.iter().filter(|name| lsn_of(name, ".log").is_some()) {
        let (segment, _) = Segment::open(disk, name)?;
        if let Some(first) = segments.first() {
            same_journal(&segment, first.header.journal_id)?;
        }
        own_name(&segment, names)?;
        if let Some(before) = segments.last() {
            follows(&segment, before)?;
        }
        segments.push(segment);
    }
    Ok(segments)
}

pub(crate) fn same_journal(segment: &Segment, expected: u64) -> Result<()> {
    if segment.header.journal_id == expected {
        return Ok(());
    }
    Err(Error::Foreign {
        file: segment.name.clone(),
        found: segment.header.journal_id,
        expected,
    })
}

/// Checks that the file is named after its first record. A file with another name is a copy, or was renamed.
pub(crate) fn own_name(segment: &Segment, names: &[String]) -> Result<()> {
    let own = segment_name(segment.header.lsn);
    if own == segment.name {
        return Ok(());
    }
    let file = segment.name.clone();
    if names.contains(&own) {
        return Err(Error::Duplicate { file, other: own });
    }
    Err(segment.damaged(0, "the header belongs to a segment with another name"))
}

pub(crate) fn follows(segment: &Segment, before: &Segment) -> Result<()> {
    let previous = segment.header.previous;
    if previous == before.header.lsn {
        return Ok(());
    }
    let file = segment.name.clone();
    if previous < before.header.lsn {
        let other = before.name.clone();
        return Err(Error::Duplicate { file, other });
    }
    Err(Error::Missing {
        from: previous,
        to: segment.header.lsn - 1,
        file,
    })
}

/// Buffered view of a file that moves forward.
pub(crate) struct Window<F> {
    file: F,
    buffer: Vec<u8>,
    /// Offset in the file of the buffer's first byte, and number of bytes filled.
    at: u64,
    filled: usize,
    end: u64,
}

impl<F: DiskFile> Window<F> {
    pub(crate) fn new(file: F, end: u64) -> Window<F> {
        Window {
            file,
            buffer: Vec::new(),
            at: 0,
            filled: 0,
            end,
        }
    }

    /// Returns the bytes from `offset` on: at least `wanted` bytes, or all up to the end of the file.
    #[inline]
    pub(crate) fn get(&mut self, offset: u64, wanted: usize) -> io::Result<&[u8]> {
        let have = (self.at + self.filled as u64).saturating_sub(offset);
        if offset < self.at || have < (wanted as u64).min(self.end.saturating_sub(offset)) {
            self.refill(offset, wanted)?;
        }
        Ok(self.seen(offset))
    }

    /// Forgets the bytes that were read, so that the next call reads them again.
    fn forget(&mut self) {
        self.filled = 0;
    }

    /// Returns the bytes from `offset` on that are already in the buffer.
    #[inline]
    pub(crate) fn seen(&self, offset: u64) -> &[u8] {
        let from = offset.saturating_sub(self.at) as usize;
        self.buffer.get(from..self.filled).unwrap_or_default()
    }

    #[cold]
    fn refill(&mut self, offset: u64, wanted: usize) -> io::Result<()> {
        let kept = if offset >= self.at {
            self.seen(offset).len()
        } else {
            0
        };
        self.buffer.copy_within(self.filled - kept..self.filled, 0);
        let left = self.end.saturating_sub(offset).min(usize::MAX as u64) as usize;
        let size = wanted.max(CHUNK).min(left);
        if self.buffer.len() < size {
            self.buffer.resize(size, 0);
        }
        (self.at, self.filled) = (offset, kept);
        if let Some(free) = self.buffer.get_mut(kept..size) {
            let read = read_full(&self.file, offset + kept as u64, free)?;
            // If the file is too short, its missing end counts as zeros. Another check reports the length.
            if let Some(rest) = free.get_mut(read..) {
                rest.fill(0);
            }
            self.filled = size;
        }
        Ok(())
    }
}

/// Record found by a [`Scan`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordPlace {
    pub(crate) offset: u64,
    pub(crate) head: Head,
}

/// Result of [`Scan::step`].
pub(crate) enum Step {
    Record(RecordPlace),
    /// Zeros, or no space for another record.
    End,
    Bad(&'static str),
}

/// Reader that returns the records of one segment in order.
pub(crate) struct Scan<F> {
    window: Window<F>,
    seed: u32,
    /// Offset and number of the next record.
    pub(crate) offset: u64,
    pub(crate) next_lsn: Lsn,
    end: u64,
    /// Groups that begin at this record or earlier were durable when the segment got its name; 0 if there are none.
    named_with: Lsn,
}

impl<F: DiskFile> Scan<F> {
    pub(crate) fn new(segment: &Segment, file: F) -> Scan<F> {
        let end = segment.header.segment_bytes;
        Scan {
            window: Window::new(file, end),
            seed: seed(segment.header.journal_id),
            offset: SEGMENT_HEADER_BYTES,
            next_lsn: segment.header.lsn,
            end,
            named_with: if segment.is_rolled() {
                segment.header.lsn
            } else {
                0
            },
        }
    }

    #[inline]
    pub(crate) fn step(&mut self) -> io::Result<Step> {
        match self.parse_at(self.offset)? {
            Parsed::Record(head) if head.lsn == self.next_lsn => {
                let offset = self.offset;
                self.offset += head.bytes();
                self.next_lsn += 1;
                Ok(Step::Record(RecordPlace { offset, head }))
            }
            Parsed::Record(_) => Ok(Step::Bad("a record with another number is there")),
            Parsed::End => Ok(Step::End),
            Parsed::Partial(_) => Ok(Step::Bad("the file ends within the record")),
            Parsed::Bad(what) => Ok(Step::Bad(what)),
        }
    }

    /// Reads the place of the next record again. Returns true if its record is there now, because a server has written
    /// it since.
    pub(crate) fn has_next_by_now(&mut self) -> io::Result<bool> {
        self.window.forget();
        let parsed = self.parse_at(self.offset)?;
        Ok(matches!(parsed, Parsed::Record(head) if head.lsn == self.next_lsn))
    }

    /// Returns the number of the first record in the segment, whatever the header or the name says; `None` if the
    /// segment does not begin with an intact record.
    pub(crate) fn first_lsn(&mut self) -> io::Result<Option<Lsn>> {
        Ok(match self.parse_at(SEGMENT_HEADER_BYTES)? {
            Parsed::Record(head) => Some(head.lsn),
            _ => None,
        })
    }

    #[inline]
    fn parse_at(&mut self, offset: u64) -> io::Result<Parsed> {
        let room = self.end.saturating_sub(offset);
        let bytes = self.window.get(offset, RECORD_HEADER_BYTES as usize)?;
        match parse(self.seed, bytes, room) {
            Parsed::Partial(wanted) => Ok(parse(self.seed, self.window.get(offset, wanted)?, room)),
            parsed => Ok(parsed),
        }
    }

    /// Returns the payload of the record that the last step returned.
    #[inline]
    pub(crate) fn payload(&self, place: &RecordPlace) -> &[u8] {
        let from = RECORD_HEADER_BYTES as usize;
        let record = self.window.seen(place.offset);
        record
            .get(from..from + place.head.payload_bytes as usize)
            .unwrap_or_default()
    }

    /// Examines all bytes after the last record, at every offset where a record may begin.
    pub(crate) fn tail(&mut self) -> io::Result<Tail> {
        let mut tail = Tail::default();
        let mut offset = self.offset;
        let before = Run {
            first: self.next_lsn,
            next: self.next_lsn,
            offset,
            end: offset,
        };
        while offset < self.end {
            let bytes = self.window.get(offset, 16)?;
            let Some(first) = bytes.first_chunk::<8>() else {
                // The file is too short, which the caller reports.
                break;
            };
            if *first != [0; 8] {
                tail.used_bytes = offset + 8 - self.offset;
            }
            // The remaining space limits how far the number of a record can be ahead.
            let lsn = bytes.get(8..).map_or(0, |rest| crate::format::long(rest, 0));
            let furthest = self.next_lsn.saturating_add(self.end / RECORD_HEADER_BYTES);
            let possible = (self.next_lsn..=furthest).contains(&lsn);
            match if possible {
                self.parse_at(offset)?
            } else {
                Parsed::End
            } {
                Parsed::Record(head) => {
                    tail.records += 1;
                    let group = head.group_lsn();
                    let later =
                        group > self.next_lsn || group <= self.named_with || head.lsn == self.next_lsn;
                    if later && tail.durable_behind.is_none() {
                        tail.durable_behind = Some(head.lsn);
                    }
                    tail.add(before, offset, &head);
                    offset += head.bytes();
                    tail.used_bytes = offset - self.offset;
                }
                _ => offset += 8,
            }
        }
        Ok(tail)
    }
}

/// Bytes after the last record of a segment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tail {
    /// Number of bytes up to the last non-zero word.
    pub(crate) used_bytes: u64,
    /// Number of complete records in the first `used_bytes` bytes.
    pub(crate) records: u64,
    /// Number of a record that proves that the missing record was durable: it belongs to a later group, or to the group
    /// with which the segment was created.
    pub(crate) durable_behind: Option<Lsn>,
    /// Complete records whose numbers are possible at their offsets, in the order of their numbers.
    pub(crate) runs: Vec<Run>,
}

impl Tail {
    /// Adds a complete record at `offset` to the runs, unless its number is impossible there: the space between it and
    /// the record before, which `before` describes, would be too small for the records between them.
    fn add(&mut self, before: Run, offset: u64, head: &Head) {
        let last = self.runs.last().copied().unwrap_or(before);
        let (next, end) = (head.lsn + 1, offset + head.bytes());
        match self.runs.last_mut() {
            Some(run) if (run.next, run.end) == (head.lsn, offset) => (run.next, run.end) = (next, end),
            _ if head.lsn > last.next
                && (head.lsn - last.next).saturating_mul(RECORD_HEADER_BYTES) <= offset - last.end =>
            {
                let first = head.lsn;
                self.runs.push(Run {
                    first,
                    next,
                    offset,
                    end,
                });
            }
            _ => {}
        }
    }
}

/// Complete records that follow one another in a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// Number of the first record; `next` is the number after the last record.
    pub(crate) first: Lsn,
    pub(crate) next: Lsn,
    /// Offset in the file at which the first record begins; the other field is the offset at which the last record
    /// ends.
    pub(crate) offset: u64,
    pub(crate) end: u64,
}
