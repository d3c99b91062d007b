//! Reads every byte that a journal stands on.

use crate::Lsn;
use crate::acknowledged::{Found, MARK, Mark};
use crate::disk::Disk;
use crate::error::{Error, Result, not_whole};
use crate::recover::without_segments;
use crate::segment::lsn_of;
use crate::snapshot::Snapshots;
use crate::survey::{journal_id, survey};

/// What a journal's files hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerifyReport {
    /// The journal's id.
    pub journal_id: u64,
    /// First record; `last_lsn + 1` when there is none.
    pub first_lsn: Lsn,
    /// Last record before the end or the first damage.
    pub last_lsn: Lsn,
    /// Records read.
    pub records: u64,
    /// Their payloads together.
    pub payload_bytes: u64,
    /// Each segment, in order.
    pub segments: Vec<SegmentReport>,
    /// Each snapshot, oldest first.
    pub snapshots: Vec<SnapshotReport>,
    /// Bytes behind the last record that the next opening cuts: an unfinished group.
    pub unfinished_bytes: u64,
    /// The record that was acknowledged last, as the file `acknowledged` says; `None`: the file is missing or damaged.
    pub acknowledged_lsn: Option<Lsn>,
    /// Whether that file is there and whole: no record behind `acknowledged_lsn` was acknowledged.
    pub is_proved: bool,
    /// First and last of the records that an earlier repair found lost, and for which a snapshot stands, each time.
    pub gaps: Vec<(Lsn, Lsn)>,
    /// All that is wrong. Empty: the journal opens, and every durable record is there.
    pub findings: Vec<Finding>,
}

impl VerifyReport {
    /// The last record that a whole snapshot stands for; 0: none. One that says that records are kept speaks for all.
    pub(crate) fn covered_lsn(&self) -> Lsn {
        let whole = || self.snapshots.iter().filter(|snapshot| snapshot.whole);
        match whole().any(|snapshot| snapshot.keep_records) {
            true => 0,
            false => whole().map(|snapshot| snapshot.lsn).max().unwrap_or(0),
        }
    }

    /// Whether nothing is wrong.
    pub fn is_sound(&self) -> bool {
        self.findings.is_empty()
    }
}

/// A segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SegmentReport {
    /// Its file.
    pub file: String,
    /// The number its header begins with.
    pub first_lsn: Lsn,
    /// Whole records in it.
    pub records: u64,
    /// Where the last of them ends.
    pub used_bytes: u64,
    /// Length of the file.
    pub file_bytes: u64,
}

/// A snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapshotReport {
    /// Its file.
    pub file: String,
    /// The record it stands for.
    pub lsn: Lsn,
    /// Bytes of the caller's.
    pub bytes: u64,
    /// Whether every byte is as it was written.
    pub whole: bool,
    /// Whether it says that it stands for no records ([`Options::keep_records`](crate::Options::keep_records)).
    pub keep_records: bool,
}

/// Something wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The file.
    pub file: String,
    /// Where in it.
    pub offset: u64,
    /// The record that belongs there; for a snapshot the one it stands for.
    pub lsn: Lsn,
    /// In words.
    pub what: String,
}

impl Finding {
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
            Error::Missing { file, from: lsn, .. } => Finding {
                file,
                offset: 0,
                lsn,
                what,
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
            Error::Foreign { file, .. } | Error::Version { file, .. } | Error::Duplicate { file, .. } => {
                Finding {
                    lsn: lsn_of(&file, ".log").or(lsn_of(&file, ".snap")).unwrap_or(0),
                    file,
                    offset: 0,
                    what,
                }
            }
            _ => Finding {
                file: String::new(),
                offset: 0,
                lsn: 0,
                what,
            },
        }
    }
}

/// Reads every record, segment and snapshot of a journal that nobody has open. Changes nothing.
///
/// # Errors
/// [`Error::NoJournal`], [`Error::Io`]; what is wrong with the journal is in the report.
pub fn verify<D: Disk>(disk: &D) -> Result<VerifyReport> {
    // First: a server that writes meanwhile moves the mark on behind its records.
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
    if all.is_empty() && report.snapshots.is_empty() {
        return Err(mark?.map_or(Error::NoJournal, without_segments));
    }
    check_mark(mark, &mut report)?;
    Ok(report)
}

fn check_mark(mark: Result<Option<Found>>, report: &mut VerifyReport) -> Result<()> {
    let Found { mark, is_whole } = match mark {
        Ok(None) => return Ok(()),
        Ok(Some(found)) => found,
        Err(error @ Error::Io { .. }) => return Err(error),
        Err(error) => {
            report.findings.push(Finding::of(error));
            return Ok(());
        }
    };
    let (file, offset) =
        (report.segments.last()).map_or((MARK, 0), |last| (last.file.as_str(), last.used_bytes));
    let wrong = mark.check(report.journal_id, report.last_lsn, file, offset).err();
    if mark.journal_id == report.journal_id {
        report.acknowledged_lsn = Some(mark.lsn);
        report.is_proved = is_whole;
    }
    // Damage that was found already explains an end before the mark.
    if let Some(error) = wrong
        && (report.is_sound() || matches!(error, Error::Foreign { .. }))
    {
        report.findings.push(Finding::of(error));
    }
    Ok(())
}

/// `unbroken`: the first record from which on none is missing.
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
