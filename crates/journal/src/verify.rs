//! Verification: reads every byte of a journal's files.

use crate::Lsn;
use crate::acknowledged::{FoundMark, MARK, Mark};
use crate::disk::Disk;
use crate::error::{Error, Result, missing, not_whole, of_other};
use crate::repair::record::RECORD;
use crate::segment::lsn_of;
use crate::snapshot::Snapshots;
use crate::survey::{journal_id, survey};
use std::fmt;

/// Content of a journal's files, and all damage in them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerifyReport {
    /// The journal's id.
    pub journal_id: u64,
    /// First record; `last_lsn + 1` if there is none.
    pub first_lsn: Lsn,
    /// Last record before the end or the first damage.
    pub last_lsn: Lsn,
    /// Number of records read.
    pub records: u64,
    /// Total length of the records' payloads in bytes.
    pub payload_bytes: u64,
    /// Segments, in order.
    pub segments: Vec<SegmentReport>,
    /// Snapshots, oldest first.
    pub snapshots: Vec<SnapshotReport>,
    /// Number of bytes of an unfinished group after the last record; the next opening of the journal cuts them.
    pub unfinished_bytes: u64,
    /// Record acknowledged last, according to the file `acknowledged`; `None` if that file is missing or damaged.
    pub acknowledged_lsn: Option<Lsn>,
    /// True if the file `acknowledged` exists and is intact, which proves that no record after `acknowledged_lsn` was
    /// acknowledged.
    pub is_proved: bool,
    /// First and last record of each range that an earlier repair found lost and that a snapshot replaces.
    pub gaps: Vec<(Lsn, Lsn)>,
    /// True if an earlier repair found records before `first_lsn` lost. A snapshot replaces them.
    pub begins_after_gap: bool,
    /// Everything that is wrong. If the list is empty, the journal opens and has every durable record.
    pub findings: Vec<Finding>,
}

impl VerifyReport {
    /// Returns the last record that an intact snapshot replaces; 0 if there is none. If an intact snapshot says that
    /// records are kept, no snapshot replaces any record.
    pub(crate) fn covered_lsn(&self) -> Lsn {
        let whole = || self.snapshots.iter().filter(|snapshot| snapshot.whole);
        match whole().any(|snapshot| snapshot.keep_records) {
            true => 0,
            false => whole().map(|snapshot| snapshot.lsn).max().unwrap_or(0),
        }
    }

    /// Returns whether the file `acknowledged` is the only file, and says that no record was acknowledged.
    pub fn is_empty_journal(&self) -> bool {
        self.is_sound() && self.segments.is_empty() && self.snapshots.is_empty()
    }

    /// Returns whether nothing is wrong.
    pub fn is_sound(&self) -> bool {
        self.findings.is_empty()
    }
}

/// Report on a segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SegmentReport {
    /// Name of the segment's file.
    pub file: String,
    /// First record according to its header.
    pub first_lsn: Lsn,
    /// Number of complete records.
    pub records: u64,
    /// Offset in bytes at which the last complete record ends.
    pub used_bytes: u64,
    /// Length of the file in bytes.
    pub file_bytes: u64,
}

/// Report on a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapshotReport {
    /// Name of the snapshot's file.
    pub file: String,
    /// Last record that the snapshot includes.
    pub lsn: Lsn,
    /// Length of the caller's data in bytes.
    pub bytes: u64,
    /// True if every byte is intact.
    pub whole: bool,
    /// True if the snapshot says that it replaces no records ([`Options::keep_records`](crate::Options::keep_records)).
    pub keep_records: bool,
}

/// Damage or inconsistency.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Name of the damaged file; empty if the finding concerns the directory.
    pub file: String,
    /// Offset in the file in bytes.
    pub offset: u64,
    /// Record that belongs at the offset; for a snapshot, the last record that it includes; 0 for any other file.
    pub lsn: Lsn,
    /// Description.
    pub what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            file,
            offset,
            lsn,
            what,
        } = self;
        match (file.as_str(), lsn_of(file, ".log")) {
            ("", _) => write!(f, "{what}"),
            (_, None) => write!(f, "{file}: {what}"),
            (_, Some(_)) => write!(f, "{file} at byte {offset}, record {lsn}: {what}"),
        }
    }
}

impl Finding {
    /// Returns a finding about a whole segment or snapshot.
    fn of_whole(file: String, what: String) -> Finding {
        Finding {
            lsn: lsn_of(&file, ".log").or(lsn_of(&file, ".snap")).unwrap_or(0),
            ..Finding::of_file(&file, what)
        }
    }

    /// Returns whether the finding is a repair that did not end or was not confirmed.
    pub fn is_unrepaired(&self) -> bool {
        self.file == RECORD
    }

    pub(crate) fn of_file(file: &str, what: String) -> Finding {
        Finding {
            file: file.into(),
            offset: 0,
            lsn: 0,
            what,
        }
    }

    pub(crate) fn of(error: Error) -> Finding {
        let what = error.to_string();
        match error {
            Error::Damaged {
                file,
                offset,
                lsn,
                what,
            } => Finding {
                file,
                offset,
                lsn,
                what: what.into(),
            },
            Error::Missing { file, from, to } => Finding {
                what: missing(from, to, &file),
                file,
                offset: 0,
                lsn: from,
            },
            Error::EndLost {
                file,
                offset,
                from,
                to,
            } => Finding {
                file,
                offset,
                lsn: from,
                what: not_whole(from, to),
            },
            Error::Foreign {
                file,
                found,
                expected,
            } => Finding::of_whole(
                file,
                format!("it belongs to journal {found:016x}, not to {expected:016x}"),
            ),
            Error::Duplicate { file, other } => Finding::of_whole(file, of_other(&other)),
            Error::Version { file, .. } => Finding::of_whole(file, what),
            _ => Finding::of_file("", what),
        }
    }
}

/// Reads every record, segment and snapshot of a journal that is not open. Changes nothing.
///
/// # Errors
/// [`Error::NoJournal`], [`Error::Io`]; damage is reported in the result.
pub fn verify<D: Disk>(disk: &D) -> Result<VerifyReport> {
    // Read the mark first: if a server writes meanwhile, it advances the mark after its records.
    let mark = Mark::read(disk);
    let names = disk.list().map_err(Error::io("list", "."))?;
    let journal_id = journal_id(disk, &names)?;
    let all = survey(disk, &names, journal_id)?;
    let mut report = VerifyReport {
        journal_id,
        ..VerifyReport::default()
    };
    let (mut first, mut unbroken) = (None, 0);
    let mut next = None;
    for surveyed in &all {
        let content = surveyed.content.as_ref();
        report.segments.push(SegmentReport {
            file: surveyed.name.clone(),
            first_lsn: content.map_or(0, |content| content.segment.header.lsn),
            records: content.map_or(0, |content| content.records),
            used_bytes: content.map_or(0, |content| content.end),
            file_bytes: content.map_or(0, |content| content.file_bytes),
        });
        report.findings.extend(surveyed.link.clone());
        if let Some(content) = content {
            let begins = content.segment.header.lsn;
            first.get_or_insert(begins);
            if surveyed.follows_gap() {
                unbroken = begins;
                report.begins_after_gap |= next.is_none();
                report
                    .gaps
                    .extend(next.filter(|next| *next < begins).map(|next| (next, begins - 1)));
            }
            next = Some(content.next_lsn);
            report.records += content.records;
            report.payload_bytes += content.payload_bytes;
            if report.findings.is_empty() {
                report.last_lsn = content.next_lsn - 1;
            }
        }
        report.findings.extend(surveyed.finding.clone());
    }
    report.first_lsn = first.unwrap_or(1);
    if let Some(last) = all.last().and_then(|last| last.content.as_ref()) {
        let torn = last.tail.durable_behind.is_none();
        report.unfinished_bytes = if torn { last.tail.used_bytes } else { 0 };
    }
    check_snapshots(disk, &names, unbroken.max(report.first_lsn), &mut report)?;
    let is_unrepaired = names.iter().any(|name| name == RECORD);
    if all.is_empty() && report.snapshots.is_empty() && !is_unrepaired && matches!(mark, Ok(None)) {
        return Err(Error::NoJournal);
    }
    check_mark(mark, &mut report)?;
    if is_unrepaired {
        let what = Error::Unrepaired.to_string();
        report.findings.push(Finding::of_file(RECORD, what));
    }
    Ok(report)
}

fn check_mark(mark: Result<Option<FoundMark>>, report: &mut VerifyReport) -> Result<()> {
    let FoundMark { mark, is_whole } = match mark {
        Ok(None) => return Ok(()),
        Ok(Some(found)) => found,
        Err(error @ Error::Io { .. }) => return Err(error),
        Err(error) => {
            report.findings.push(Finding::of(error));
            return Ok(());
        }
    };
    let wrong = match report.segments.last() {
        Some(last) => mark.check(report.journal_id, report.last_lsn, &last.file, last.used_bytes),
        None if report.snapshots.is_empty() && mark.lsn > 0 => Err(Error::Missing {
            from: 1,
            to: mark.lsn,
            file: MARK.into(),
        }),
        None => Ok(()),
    };
    let wrong = wrong.err();
    if mark.journal_id == report.journal_id {
        report.acknowledged_lsn = Some(mark.lsn);
        report.is_proved = is_whole;
    }
    // Damage that was found earlier already explains an end before the mark.
    if let Some(error) = wrong
        && (report.is_sound() || matches!(error, Error::Foreign { .. }))
    {
        report.findings.push(Finding::of(error));
    }
    Ok(())
}

/// Checks the snapshots. No record after `unbroken` is missing.
fn check_snapshots<D: Disk>(
    disk: &D,
    names: &[String],
    unbroken: Lsn,
    report: &mut VerifyReport,
) -> Result<()> {
    let snapshots = Snapshots::new(disk.clone(), report.journal_id, false);
    for (name, lsn) in names
        .iter()
        .filter_map(|name| Some((name, lsn_of(name, ".snap")?)))
    {
        let (mut bytes, mut keep_records) = (0, false);
        let finding = match snapshots.check(lsn, name) {
            Err(error @ Error::Io { .. }) => return Err(error),
            Err(error) => Some(Finding::of(error)),
            Ok(Err(damaged)) => Some(Finding {
                file: damaged.file,
                offset: damaged.offset,
                lsn,
                what: damaged.what.into(),
            }),
            Ok(Ok(snapshot)) => {
                (bytes, keep_records) = (snapshot.bytes, snapshot.keep_records);
                None
            }
        };
        report.snapshots.push(SnapshotReport {
            file: name.clone(),
            lsn,
            bytes,
            whole: finding.is_none(),
            keep_records,
        });
        report.findings.extend(finding);
    }
    let newest = report.covered_lsn();
    if report
        .snapshots
        .iter()
        .any(|snapshot| snapshot.lsn > report.last_lsn)
        && report.findings.is_empty()
    {
        let (from, to) = (
            report.last_lsn + 1,
            report.snapshots.iter().map(|s| s.lsn).max().unwrap_or(0),
        );
        let file = crate::snapshot::snapshot_name(to);
        report
            .findings
            .push(Finding::of(Error::Missing { from, to, file }));
    }
    if newest + 1 < unbroken {
        let mut segments = report.segments.iter();
        let file = segments
            .find(|segment| segment.first_lsn == unbroken)
            .map_or(String::new(), |segment| segment.file.clone());
        let (from, to) = (newest + 1, unbroken - 1);
        report
            .findings
            .push(Finding::of(Error::Missing { from, to, file }));
    }
    Ok(())
}
