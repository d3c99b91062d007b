//! Plan of a repair: the records that remain, and the files that contain them. Changes nothing.

use crate::format::{Header, SEGMENT_HEADER_BYTES};
use crate::segment::{Run, lsn_of};
use crate::survey::Surveyed;
use crate::{Lsn, Options};
use std::cmp::Reverse;

/// Maximum size of a segment in bytes.
const SEGMENT_BYTES_MAX: u64 = 1 << 32;

/// Run of complete records that the repair keeps, or could keep.
#[derive(Clone, Copy)]
pub(super) struct Part<'a> {
    pub(super) surveyed: &'a Surveyed,
    pub(super) run: Run,
    /// True if the records stay in their file. Otherwise a new segment receives them.
    pub(super) in_place: bool,
}

/// Plan of a repair.
pub(super) struct Plan<'a> {
    /// Parts that remain, in the order of record numbers. There are gaps only between parts before the newest snapshot.
    pub(super) kept: Vec<Part<'a>>,
    /// Last record that remains, in a segment or in a snapshot; `None` if nothing remains.
    pub(super) last_lsn: Option<Lsn>,
    /// Number of the first record of a new, empty segment with which the journal continues after the newest snapshot;
    /// `None` if no such segment is needed.
    pub(super) new_lsn: Option<Lsn>,
    /// First and last record of each range that is in no remaining segment. The newest snapshot replaces them.
    pub(super) gaps: Vec<(Lsn, Lsn)>,
    /// Number of complete records after the last one that remains.
    pub(super) dropped_records: u64,
    /// True if a segment shows that records after the last one existed.
    pub(super) drops_records: bool,
    /// First record of a lost range directly before the first segment that remains; a snapshot replaces the range.
    lost_before: Option<Lsn>,
    /// Files of which no record remains, although they contain records, or space for records, up to the last record
    /// that remains.
    pub(super) useless: Vec<&'a Surveyed>,
    /// Files that only have records after the last one that remains, oldest first.
    pub(super) later: Vec<&'a Surveyed>,
}

impl<'a> Plan<'a> {
    /// Plans the repair of the segments `all`. A snapshot contains the state up to record `newest`; 0 means that there
    /// is no snapshot. An unconfirmed repair has already found the gaps `earlier_gaps`.
    pub(super) fn make(all: &'a [Surveyed], newest: Lsn, earlier_gaps: &[(Lsn, Lsn)]) -> Plan<'a> {
        let wanted = newest + 1;
        let mut kept = disjoint(all, wanted);
        let is_state = |part: &Part<'_>| part.run.first <= wanted && part.run.next >= wanted;
        let start = kept.iter().position(is_state);
        let count = match start {
            // From this record on, the state needs all records without a gap.
            Some(start) => {
                let joined = |pair: &&[Part<'_>]| matches!(pair, [a, b] if a.run.next == b.run.first);
                start + 1 + kept[start..].windows(2).take_while(joined).count()
            }
            None if newest > 0 => kept.partition_point(|part| part.run.next < wanted),
            None => 0,
        };
        let dropped = kept.split_off(count);
        let last_lsn = match (start, kept.last()) {
            (Some(_), Some(last)) => Some(last.run.next - 1),
            _ => (newest > 0).then_some(newest),
        };
        let new_lsn = (start.is_none() && newest > 0).then_some(wanted);
        let end = last_lsn.map_or(1, |lsn| lsn + 1);
        let is_kept = |one: &&Surveyed| {
            kept.iter()
                .any(|part| part.in_place && part.surveyed.name == one.name)
        };
        let (later, useless) =
            (all.iter().filter(|one| !is_kept(one))).partition(|one| one.first_lsn() >= end);
        let shows = |one: &Surveyed| {
            let durable = one
                .content
                .as_ref()
                .and_then(|content| content.tail.durable_behind);
            one.is_ours()
                && (durable.is_some_and(|lsn| lsn >= end) || (!is_kept(&one) && one.first_lsn() >= end))
        };
        let later_records = |part: &Part<'_>| part.run.next.saturating_sub(part.run.first.max(end));
        let dropped_records = dropped.iter().map(later_records).sum();
        let gaps = gaps(all, &kept, new_lsn);
        let first = kept.first().map(|part| part.run.first).or(new_lsn);
        let is_before = |gap: &&(Lsn, Lsn)| first == Some(gap.1 + 1);
        let lost_before = gaps.first().into_iter().chain(earlier_gaps).find(is_before);
        Plan {
            last_lsn,
            new_lsn,
            lost_before: lost_before.map(|(from, _)| *from),
            gaps,
            dropped_records,
            drops_records: dropped_records > 0 || all.iter().any(shows),
            useless,
            later,
            kept,
        }
    }

    /// Returns the header that the segment of this remaining part must have.
    pub(super) fn header(&self, index: usize, journal_id: u64) -> Header {
        let part = &self.kept[index];
        let before = index.checked_sub(1).map(|index| self.kept[index].run);
        let follows_gap = match before {
            Some(before) => before.next < part.run.first,
            None => self.lost_before.is_some(),
        };
        let previous = before
            .map(|before| before.first)
            .or(self.lost_before)
            .unwrap_or(0);
        let own = part.header();
        let fits = |own: &Header| {
            (before.is_none() || own.previous == previous) && (own.follows_gap || !follows_gap)
        };
        own.filter(fits).unwrap_or(Header {
            journal_id,
            lsn: part.run.first,
            previous,
            segment_bytes: part.surveyed.segment_bytes(),
            keep_records: false,
            follows_gap,
        })
    }

    /// Returns the header of the new, empty segment.
    pub(super) fn new_header(&self, lsn: Lsn, journal_id: u64, options: &Options) -> Header {
        let previous = self
            .kept
            .last()
            .map(|part| part.run.first)
            .or(self.lost_before)
            .unwrap_or(0);
        Header {
            journal_id,
            lsn,
            previous,
            segment_bytes: options.segment_bytes,
            keep_records: false,
            follows_gap: previous != 0,
        }
    }
}

impl Part<'_> {
    /// Returns the intact header of a segment that remains in its file.
    pub(super) fn header(&self) -> Option<Header> {
        let content = self.surveyed.content.as_ref().filter(|_| self.in_place);
        content.map(|content| content.segment.header)
    }
}

/// Returns the complete records of all segments, in the order of their numbers. If two files have the same records, the
/// longer run is used; if both are equally long, the run that can stay in its file. An empty segment is used only if it
/// begins with record `wanted`.
fn disjoint(all: &[Surveyed], wanted: Lsn) -> Vec<Part<'_>> {
    let mut parts: Vec<Part<'_>> = all.iter().flat_map(Surveyed::parts).collect();
    parts.retain(|part| part.run.first < part.run.next || part.run.first == wanted);
    let intact: Vec<Lsn> = (parts.iter().filter(|part| part.in_place))
        .map(|part| part.run.first)
        .collect();
    let reaches_into = |run: &Run| intact.iter().any(|first| run.first < *first && *first < run.next);
    parts.retain(|part| part.in_place || !reaches_into(&part.run));
    parts.sort_by_key(|part| (part.run.first, Reverse(part.run.next), !part.in_place));
    let mut next = 0;
    parts.retain(|part| {
        let is_new = part.run.first >= next;
        if is_new {
            next = part.run.next;
        }
        is_new
    });
    parts
}

/// Returns the ranges of records that the journal contained and that are in no remaining segment, up to the first
/// record that the state needs.
fn gaps(all: &[Surveyed], kept: &[Part<'_>], new_lsn: Option<Lsn>) -> Vec<(Lsn, Lsn)> {
    let ours = all.iter().filter(|surveyed| surveyed.is_ours());
    let begins = kept.iter().map(|part| part.run.first).chain(new_lsn);
    let mut next = ours.map(Surveyed::first_lsn).filter(|lsn| *lsn > 0).min();
    let mut gaps = Vec::new();
    for (index, first) in begins.enumerate() {
        gaps.extend(next.filter(|next| *next < first).map(|next| (next, first - 1)));
        next = Some(kept.get(index).map_or(first, |part| part.run.next));
    }
    gaps
}

impl Surveyed {
    /// Returns the number of the first record in the file. It comes from the header, otherwise from the first record,
    /// otherwise from the name.
    fn first_lsn(&self) -> Lsn {
        match (&self.content, &self.headless) {
            (Some(content), _) => content.segment.header.lsn,
            (None, Some(headless)) => headless.head.first,
            (None, None) => lsn_of(&self.name, ".log").unwrap_or(0),
        }
    }

    /// Returns whether the file is a segment of this journal, even if it is damaged.
    fn is_ours(&self) -> bool {
        self.headless.is_some() || (self.content.is_some() && (!self.is_misplaced() || self.is_renamed))
    }

    /// Returns whether the content does not belong to this file, because it belongs to another journal or to another
    /// segment.
    fn is_misplaced(&self) -> bool {
        match (&self.content, &self.headless) {
            (Some(_), _) => self.finding.as_ref().is_some_and(|finding| finding.offset == 0),
            (None, Some(headless)) => Some(headless.head.first) != lsn_of(&self.name, ".log"),
            (None, None) => false,
        }
    }

    /// Returns the size in bytes that the file must have as a segment.
    pub(super) fn segment_bytes(&self) -> u64 {
        let own = self
            .content
            .as_ref()
            .map(|content| content.segment.header.segment_bytes);
        let rounded = |headless: &crate::survey::Headless| headless.file_bytes.next_multiple_of(8);
        own.or(self.headless.as_ref().map(rounded))
            .unwrap_or(0)
            .clamp(SEGMENT_HEADER_BYTES, SEGMENT_BYTES_MAX)
    }

    /// Returns the length of the file in bytes.
    pub(super) fn file_bytes(&self) -> u64 {
        let own = self.content.as_ref().map(|content| content.file_bytes);
        own.or(self.headless.as_ref().map(|headless| headless.file_bytes))
            .unwrap_or(0)
    }

    /// Returns the runs of complete records in this file. If the file of the segment was renamed, these records need a
    /// new file.
    fn parts(&self) -> Vec<Part<'_>> {
        let (head, tail) = match (&self.content, &self.headless) {
            (Some(content), _) => (content.head(), &content.tail),
            (None, Some(headless)) => (headless.head, &headless.tail),
            (None, None) => return Vec::new(),
        };
        let has_no_head = match &self.content {
            Some(content) => content.is_hollow(),
            None => head.first == head.next || self.file_bytes() > SEGMENT_BYTES_MAX,
        };
        if self.content.is_some() && self.is_misplaced() && !self.is_renamed {
            return Vec::new();
        }
        let in_place = !self.is_misplaced();
        let part = |run, in_place| Part {
            surveyed: self,
            run,
            in_place,
        };
        let head = (!has_no_head).then(|| part(head, in_place));
        let later = tail.runs.iter().map(|run| part(*run, false));
        head.into_iter().chain(later).collect()
    }
}
