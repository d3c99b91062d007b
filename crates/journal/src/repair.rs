//! Repair of a damaged journal, so that it opens again, with a report of the records that this costs.

mod plan;
pub(crate) mod record;
mod steps;

use crate::acknowledged::{MARK, name_new_mark, write_new_mark};
use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::segment::lsn_of;
use crate::survey::survey;
use crate::verify::{VerifyReport, verify};
use crate::{Lsn, Options};
use plan::Plan;
use steps::Steps;

/// Result of [`repair`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RepairReport {
    /// Last record that remains, in a segment or in a snapshot.
    pub last_lsn: Lsn,
    /// First record that was dropped, if any.
    pub dropped_from: Option<Lsn>,
    /// First and last of the acknowledged records that are lost, if any. More may be lost: those acknowledged after
    /// the damage, or while the file `acknowledged` was missing or damaged.
    pub lost: Option<(Lsn, Lsn)>,
    /// First and last of each range of records that are no longer in any segment since this repair. The newest
    /// snapshot replaces them, so no state is lost.
    pub gaps: Vec<(Lsn, Lsn)>,
    /// Number of complete records that were dropped because they follow the damage; the files moved aside contain
    /// them.
    pub dropped_whole_records: u64,
    /// Number of bytes moved aside.
    pub dropped_bytes: u64,
    /// Files moved aside, as `(old name, new name)`. For a segment that was cut, the new name is a complete copy.
    pub moved: Vec<(String, String)>,
    /// Segments of which the header was written again; their records are unchanged.
    pub rewritten: Vec<String>,
    /// New segments, into which complete records from damaged files were copied.
    pub made: Vec<String>,
    /// Sentences for the operator: the damage found and the actions taken.
    pub notes: Vec<String>,
}

/// Makes a damaged journal usable again, and reports what that costs. Does nothing to a sound journal. Acknowledged
/// records may be lost, so the journal never calls this itself. Removed parts remain as `*.damaged`.
///
/// The records after the newest intact snapshot remain up to the first damage. A snapshot replaces the records before
/// it, so damage there loses no state: every complete record before it remains, also after damage. Where records are
/// missing, the next segment says so in its header, and the report names them. If no record after the snapshot
/// remains, the journal continues after it with a new segment. Where snapshots replace no records
/// ([`Options::keep_records`], given here or recorded in the snapshots), the records before the damage remain, and
/// later snapshots are moved aside. Where neither a record nor a snapshot remains, all files are moved aside; the file
/// `acknowledged` then says that the journal begins again. Such a file that is damaged or belongs to another journal is
/// moved aside; the next opening creates a new one.
///
/// # Errors
/// [`Error::NoJournal`], [`Error::Full`] (nothing was changed), [`Error::Io`]. After any of them the call can be
/// repeated.
pub fn repair<D: Disk>(disk: &D, options: Options) -> Result<RepairReport> {
    options.check()?;
    let earlier = record::read(disk)?;
    let before = match verify(disk) {
        Err(Error::Missing { from, to, file }) if file == MARK => {
            return begin_again(disk, Some((from, to)), earlier.as_ref());
        }
        Err(Error::NoJournal) if earlier.is_some() => return begin_again(disk, None, earlier.as_ref()),
        before => before?,
    };
    let mut report = RepairReport {
        last_lsn: before.last_lsn,
        ..RepairReport::default()
    };
    if before.is_sound() {
        report.notes.push("nothing is wrong".into());
        return Ok(report);
    }
    for finding in &before.findings {
        let note = format!("{} at byte {}: {}", finding.file, finding.offset, finding.what);
        report.notes.push(note);
    }
    let names = disk.list().map_err(Error::io("list", "."))?;
    note_earlier(&names, &mut report);
    crate::recover::remove_unfinished(disk, &names)?;
    let all = survey(disk, &names, before.journal_id)?;
    let newest = match options.keep_records {
        true => 0,
        false => before.covered_lsn(),
    };
    let plan = Plan::make(&all, newest);
    describe(&plan, &before, newest, &mut report);
    if let Some(earlier) = &earlier {
        report.add_earlier(earlier);
    }
    let is_repeated = earlier.is_some();
    Steps::new(disk, &before, &plan, options, &mut report).run(is_repeated)?;
    Ok(report)
}

/// Repairs a directory in which nothing but perhaps the mark is left: afterwards the mark says that no record was
/// acknowledged.
fn begin_again<D: Disk>(
    disk: &D,
    lost: Option<(Lsn, Lsn)>,
    earlier: Option<&RepairReport>,
) -> Result<RepairReport> {
    let found = crate::acknowledged::Mark::read(disk).ok().flatten();
    write_new_mark(disk, found.map_or(0, |found| found.mark.journal_id), 0)?;
    name_new_mark(disk)?;
    disk.sync_dir().map_err(Error::io("sync", "."))?;
    let mut report = RepairReport {
        lost,
        dropped_from: lost.map(|(from, _)| from),
        notes: vec![nothing_left()],
        ..RepairReport::default()
    };
    if let Some(earlier) = earlier {
        report.add_earlier(earlier);
        record::remove(disk)?;
    }
    Ok(report)
}

fn nothing_left() -> String {
    "no record and no snapshot is left; the journal begins again with record 1".into()
}

/// Names the files that earlier repairs moved aside: if one of them did not end, its loss includes their records.
fn note_earlier(names: &[String], report: &mut RepairReport) {
    let earlier = |name: &&String| {
        let own = name.split_once(".damaged").map_or("", |(own, _)| own);
        let is_own = own == MARK || lsn_of(own, ".log").or(lsn_of(own, ".snap")).is_some();
        is_own && !name.ends_with(".tmp")
    };
    let earlier: Vec<&str> = names.iter().filter(earlier).map(String::as_str).collect();
    if !earlier.is_empty() {
        let files = earlier.join(", ");
        report
            .notes
            .push(format!("earlier repairs have moved aside: {files}"));
    }
}

/// Reports what remains according to `plan`, and what does not.
fn describe(plan: &Plan<'_>, before: &VerifyReport, newest: Lsn, report: &mut RepairReport) {
    let last = plan.last_lsn.unwrap_or(0);
    report.last_lsn = last;
    report.dropped_whole_records = plan.dropped_records;
    report.gaps = plan.gaps.clone();
    report.gaps.retain(|gap| !before.gaps.contains(gap));
    for (from, to) in &report.gaps {
        report.notes.push(format!(
            "records {from} to {to} are no longer in any segment: snapshot {newest} replaces them"
        ));
    }
    let acknowledged = before.acknowledged_lsn.filter(|lsn| *lsn > last);
    report.lost = acknowledged.map(|to| (last + 1, to));
    let is_ahead = before.snapshots.iter().any(|snapshot| snapshot.lsn > last);
    if plan.last_lsn.is_none() {
        report.notes.push(nothing_left());
    }
    if plan.drops_records || is_ahead || acknowledged.is_some() {
        report.dropped_from = Some(last + 1);
        report.notes.push(format!(
            "record {last} is the last; all later records are dropped"
        ));
    }
    if before.acknowledged_lsn.is_none() {
        report.notes.push(format!(
            "the file `acknowledged` is missing or damaged: more records after record {last} may have been \
             acknowledged than the files show"
        ));
    }
}
