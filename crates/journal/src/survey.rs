//! Reading all segments of a journal that may be damaged in any way.

use crate::Lsn;
use crate::acknowledged::Mark;
use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::segment::{Scan, Segment, Step, Tail, follows, lsn_of, own_name, same_journal};
use crate::snapshot::header_of;
use crate::verify::Finding;

/// A segment file.
pub(crate) struct Surveyed {
    pub(crate) name: String,
    /// What stands in it, where its header is right.
    pub(crate) content: Option<Content>,
    /// The first thing wrong in it.
    pub(crate) finding: Option<Finding>,
    /// What is wrong with how it follows the one before.
    pub(crate) link: Option<Finding>,
    /// That is a gap: no fault of what stands in it.
    pub(crate) gap: bool,
}

/// A segment's records up to its end or its first damage.
pub(crate) struct Content {
    pub(crate) segment: Segment,
    pub(crate) file_bytes: u64,
    pub(crate) records: u64,
    pub(crate) payload_bytes: u64,
    /// Where the last of them ends, and the number that follows.
    pub(crate) end: u64,
    pub(crate) next_lsn: Lsn,
    pub(crate) tail: Tail,
    /// What stands at `end`, where it is not zeros.
    stop: Option<&'static str>,
}

/// The journal of most of the files; one that strayed here must not make the others foreign. Where none of them can be
/// read, the mark's.
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
        None => Ok(Mark::read(disk)
            .ok()
            .flatten()
            .map_or(0, |found| found.mark.journal_id)),
    }
}

/// All segments in order. An I/O error is returned, all else found.
pub(crate) fn survey<D: Disk>(disk: &D, names: &[String], journal_id: u64) -> Result<Vec<Surveyed>> {
    let mut all: Vec<Surveyed> = Vec::new();
    for name in names.iter().filter(|name| lsn_of(name, ".log").is_some()) {
        let mut finding = None;
        let content = match read(disk, name) {
            Ok(content) => Some(content),
            Err(error @ Error::Io { .. }) => return Err(error),
            Err(error) => {
                finding = Some(Finding::of(error));
                None
            }
        };
        if let Some(content) = &content {
            let right =
                same_journal(&content.segment, journal_id).and_then(|()| own_name(&content.segment, names));
            finding = right.err().map(Finding::of).or_else(|| content.short());
        }
        all.push(Surveyed {
            name: name.clone(),
            content,
            finding,
            link: None,
            gap: false,
        });
    }
    connect(&mut all);
    Ok(all)
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

impl Surveyed {
    /// Whether a repair began it after records that are lost.
    pub(crate) fn follows_gap(&self) -> bool {
        let header = self.content.as_ref().map(|content| &content.segment.header);
        header.is_some_and(|header| header.follows_gap)
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

    /// Whether not even the record is there that the segment was begun for.
    pub(crate) fn is_hollow(&self) -> bool {
        self.segment.is_rolled() && self.records == 0
    }

    fn stopped(&self) -> Finding {
        self.damaged(self.end, self.stop.unwrap_or("there is nothing"))
    }
}

/// Finds where a segment does not continue the one before it, and what is wrong with the last one's end.
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
            next.gap = matches!(error, Error::Missing { .. });
            next.link = Some(Finding::of(error));
        } else if content.next_lsn < next_first && !next.follows_gap() {
            this.finding.get_or_insert_with(|| content.stopped());
        } else if content.next_lsn > next_first {
            let what = format!("it holds records that {} holds too", next.name);
            this.finding
                .get_or_insert_with(|| content.damaged(content.end, &what));
        }
    }
}
