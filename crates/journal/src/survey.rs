//! Scan of all segments of a journal, which may be damaged in any way. `verify` and `repair` use its result.

use crate::Lsn;
use crate::acknowledged::Mark;
use crate::disk::{Disk, DiskFile};
use crate::error::{Error, Result};
use crate::format::{Header, SEGMENT_HEADER_BYTES};
use crate::lost_id::find_id;
use crate::segment::{Run, Scan, Segment, Step, Tail, follows, lsn_of, same_journal, segment_name};
use crate::snapshot::header_of;
use crate::verify::Finding;

/// Result of scanning a segment file.
pub(crate) struct Surveyed {
    pub(crate) name: String,
    /// Content of the file, if its header is valid.
    pub(crate) content: Option<Content>,
    /// Records of a file whose header is damaged.
    pub(crate) headless: Option<Headless>,
    /// True if the file is a segment of this journal under a wrong name, and the file with the right name is not this
    /// segment.
    pub(crate) is_renamed: bool,
    /// First damage in the file, if there is any.
    pub(crate) finding: Option<Finding>,
    /// Error if the segment does not continue the previous one: segments between the two are missing, or both contain
    /// the same records.
    pub(crate) link: Option<Finding>,
}

/// Records of a file whose header is damaged.
pub(crate) struct Headless {
    pub(crate) file_bytes: u64,
    /// Complete records that directly follow the header.
    pub(crate) head: Run,
    pub(crate) tail: Tail,
}

/// Records of a segment up to its end or to the first damage.
pub(crate) struct Content {
    pub(crate) segment: Segment,
    pub(crate) file_bytes: u64,
    pub(crate) records: u64,
    pub(crate) payload_bytes: u64,
    /// Offset at which the last record ends; the next field is the number of the record that should follow.
    pub(crate) end: u64,
    pub(crate) next_lsn: Lsn,
    pub(crate) tail: Tail,
    /// Reason why the bytes at `end` are not a record; `None` if they are zeros.
    stop: Option<&'static str>,
}

/// Returns the id of the journal to which most files belong, so that one misplaced file does not make the others
/// foreign. If no header can be read, returns the id from the mark; without a mark, returns an id that fits the CRCs of
/// the records. Returns 0 if nothing shows the id.
pub(crate) fn journal_id<D: Disk>(disk: &D, names: &[String]) -> Result<u64> {
    let mut ids: Vec<u64> = Vec::new();
    for name in names {
        let id = match (lsn_of(name, ".log"), lsn_of(name, ".snap")) {
            (Some(_), _) => Segment::open_short(disk, name).map(|(segment, ..)| segment.header.journal_id),
            (_, Some(_)) => header_of(disk, name).map(|header| header.journal_id),
            _ => continue,
        };
        match id {
            Err(error @ Error::Io { .. }) => return Err(error),
            id => ids.extend(id),
        }
    }
    let count = |id: &u64| ids.iter().filter(|other| *other == id).count();
    match ids.iter().rev().copied().max_by_key(count) {
        Some(id) => Ok(id),
        None => match Mark::read(disk) {
            Ok(Some(found)) => Ok(found.mark.journal_id),
            _ => Ok(find_id(disk, names)?.unwrap_or(0)),
        },
    }
}

/// Scans all segments in order. An I/O error ends the scan; every other error becomes a finding.
pub(crate) fn survey<D: Disk>(disk: &D, names: &[String], journal_id: u64) -> Result<Vec<Surveyed>> {
    let mut all: Vec<Surveyed> = Vec::new();
    for name in names.iter().filter(|name| lsn_of(name, ".log").is_some()) {
        let (mut finding, mut headless) = (None, None);
        let content = match read(disk, name) {
            Ok(content) => Some(content),
            Err(error @ Error::Io { .. }) => return Err(error),
            Err(error) => {
                if let Error::Damaged { .. } = error {
                    headless = Some(read_headless(disk, name, journal_id)?);
                }
                finding = Some(Finding::of(error));
                None
            }
        };
        if let Some(content) = &content {
            let right = same_journal(&content.segment, journal_id);
            finding = right.err().map(Finding::of).or_else(|| content.short());
        }
        all.push(Surveyed {
            name: name.clone(),
            content,
            headless,
            is_renamed: false,
            finding,
            link: None,
        });
    }
    find_renamed(&mut all, journal_id);
    connect(&mut all);
    Ok(all)
}

/// Finds the segments of this journal whose file name is not the name that belongs to their header.
fn find_renamed(all: &mut [Surveyed], journal_id: u64) {
    let ours = |one: &Surveyed| {
        let header = one.content.as_ref().map(|content| content.segment.header);
        header.filter(|header| header.journal_id == journal_id)
    };
    let is_in_place =
        |one: &Surveyed| ours(one).map(|header| segment_name(header.lsn)) == Some(one.name.clone());
    let in_place: Vec<String> = (all.iter().filter(|one| is_in_place(one)))
        .map(|one| one.name.clone())
        .collect();
    for one in all.iter_mut() {
        let Some(own) = ours(one).map(|header| segment_name(header.lsn)) else {
            continue;
        };
        if own == one.name {
            continue;
        }
        let file = one.name.clone();
        one.is_renamed = !in_place.contains(&own);
        one.finding = Some(match one.is_renamed {
            true => Finding {
                lsn: lsn_of(&file, ".log").unwrap_or(0),
                what: format!("its header belongs to the segment {own}"),
                offset: 0,
                file,
            },
            false => Finding::of(Error::Duplicate { file, other: own }),
        });
    }
}

fn read<D: Disk>(disk: &D, name: &str) -> Result<Content> {
    let (segment, file, file_bytes) = Segment::open_short(disk, name)?;
    let mut scan = Scan::new(&segment, file);
    let (mut records, mut payload_bytes) = (0, 0);
    let stop = loop {
        match scan.step().map_err(Error::io("read", name))? {
            Step::Record(place) => {
                records += 1;
                payload_bytes += u64::from(place.head.payload_bytes);
            }
            Step::End => break None,
            Step::Bad(what) => break Some(what),
        }
    };
    let tail = scan.tail().map_err(Error::io("read", name))?;
    Ok(Content {
        end: scan.offset,
        next_lsn: scan.next_lsn,
        segment,
        file_bytes,
        records,
        payload_bytes,
        tail,
        stop,
    })
}

/// Reads the records of a file whose header is damaged. The first record and the length of the file replace the header;
/// if the first record is damaged, too, the name of the file replaces it.
fn read_headless<D: Disk>(disk: &D, name: &str, journal_id: u64) -> Result<Headless> {
    let file = disk.open_read(name).map_err(Error::io("open", name))?;
    let file_bytes = file.len().map_err(Error::io("read the length of", name))?;
    let named_lsn = lsn_of(name, ".log").unwrap_or(0);
    let header = Header {
        journal_id,
        lsn: named_lsn,
        previous: 0,
        segment_bytes: file_bytes,
        keep_records: false,
        follows_gap: false,
    };
    let name = name.into();
    let mut segment = Segment { name, header };
    let mut scan = Scan::new(&segment, file);
    let read_error = || Error::io("read", &segment.name);
    if let Some(lsn) = scan.first_lsn().map_err(read_error())? {
        scan.next_lsn = lsn;
        segment.header.lsn = lsn;
    }
    while let Step::Record(_) = scan.step().map_err(Error::io("read", &segment.name))? {}
    let tail = scan.tail().map_err(Error::io("read", &segment.name))?;
    let head = Run {
        first: segment.header.lsn,
        next: scan.next_lsn,
        offset: SEGMENT_HEADER_BYTES,
        end: scan.offset,
    };
    Ok(Headless {
        file_bytes,
        head,
        tail,
    })
}

impl Surveyed {
    /// Returns whether a repair created this segment after lost records.
    pub(crate) fn follows_gap(&self) -> bool {
        let header = self.content.as_ref().map(|content| &content.segment.header);
        header.is_some_and(|header| header.follows_gap)
    }
}

impl Surveyed {
    /// Returns the last record that the file shows to be durable; 0 if there is none. Records of an unfinished group do
    /// not count.
    pub(crate) fn durable_lsn(&self) -> Lsn {
        let (next, tail) = match (&self.content, &self.headless) {
            (Some(content), _) => (content.next_lsn, &content.tail),
            (None, Some(headless)) => (headless.head.next, &headless.tail),
            (None, None) => return 0,
        };
        next.saturating_sub(1).max(tail.durable_behind.unwrap_or(0))
    }
}

impl Content {
    fn damaged(&self, offset: u64, what: &str) -> Finding {
        Finding {
            file: self.segment.name.clone(),
            offset,
            lsn: self.next_lsn,
            what: what.into(),
        }
    }

    fn short(&self) -> Option<Finding> {
        let is_short = self.file_bytes < self.segment.header.segment_bytes;
        is_short.then(|| self.damaged(self.file_bytes, "the file is shorter than its header says"))
    }

    /// Returns the records up to the end of the segment or to its first damage.
    pub(crate) fn head(&self) -> Run {
        Run {
            first: self.segment.header.lsn,
            next: self.next_lsn,
            offset: SEGMENT_HEADER_BYTES,
            end: self.end,
        }
    }

    /// Returns whether even the first record is missing, which the segment contained when it was created.
    pub(crate) fn is_hollow(&self) -> bool {
        self.segment.is_rolled() && self.records == 0
    }

    fn stopped(&self) -> Finding {
        self.damaged(self.end, self.stop.unwrap_or("no record is there"))
    }
}

/// Finds the segments that do not continue the segment before them, and damage at the end of the last segment.
fn connect(all: &mut [Surveyed]) {
    for i in 0..all.len() {
        let (before, rest) = all.split_at_mut(i + 1);
        let (Some(this), next) = (before.last_mut(), rest.first_mut()) else {
            continue;
        };
        let Some(content) = &this.content else {
            continue;
        };
        let Some(next) = next else {
            if content.is_hollow() || content.tail.durable_behind.is_some() {
                this.finding.get_or_insert_with(|| content.stopped());
            }
            continue;
        };
        let Some(next_first) = next.content.as_ref().map(|content| content.segment.header.lsn) else {
            if content.is_hollow() || content.tail.durable_behind.is_some() {
                this.finding.get_or_insert_with(|| content.stopped());
            }
            continue;
        };
        let linked = next
            .content
            .as_ref()
            .map_or(Ok(()), |next| follows(&next.segment, &content.segment));
        if let Err(error) = linked {
            next.link = Some(Finding::of(error));
        } else if content.next_lsn < next_first && !next.follows_gap() {
            this.finding.get_or_insert_with(|| content.stopped());
        } else if content.next_lsn > next_first {
            let what = format!("it contains records that {} contains too", next.name);
            this.finding
                .get_or_insert_with(|| content.damaged(content.end, &what));
        }
    }
}
