//! Repair of a damaged journal, so that it opens again, with a report of the records that this costs.

mod plan;
pub(crate) mod record;
mod steps;

use crate::acknowledged::MARK;
use crate::disk::Disk;
use crate::error::{Error, Result, emptied};
use crate::segment::lsn_of;
use crate::survey::{Surveyed, survey};
use crate::verify::{Finding, VerifyReport, verify};
use crate::{Lsn, Options};
use plan::Plan;
use record::RECORD;
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
    /// Last record that the files have shown to be durable, also if it was dropped; 0 if none.
    pub seen_lsn: Lsn,
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
/// [`Error::NoJournal`] if the directory contains no file of a journal, and no server has used it;
/// [`Error::Full`] (nothing was changed), [`Error::Io`]. After any of them the call can be repeated.
pub fn repair<D: Disk>(disk: &D, options: Options) -> Result<RepairReport> {
    let report = repair_unconfirmed(disk, options)?;
    confirm_repair(disk)?;
    Ok(report)
}

/// Repairs like [`repair`], but keeps the journal closed until [`confirm_repair`] is called: only then has the operator
/// received the report. Until then, a further repair reports the same loss.
///
/// # Errors
/// Those of [`repair`].
pub fn repair_unconfirmed<D: Disk>(disk: &D, options: Options) -> Result<RepairReport> {
    options.check()?;
    let earlier = record::read(disk)?;
    if let Some(earlier) = earlier.as_ref().filter(|earlier| !earlier.written.is_empty()) {
        steps::name_written_segments(disk, &earlier.written)?;
        record::write(disk, &earlier.loss, &[])?;
    }
    let earlier = earlier.map(|earlier| earlier.loss);
    let before = match (verify(disk), disk.used_before()) {
        // Not even the file `acknowledged` is left.
        (Err(Error::NoJournal), Some(path)) => VerifyReport {
            findings: vec![Finding::of_file("", emptied(&path))],
            ..VerifyReport::default()
        },
        (before, _) => before?,
    };
    let mut report = RepairReport {
        last_lsn: before.last_lsn,
        ..RepairReport::default()
    };
    if before.is_sound() {
        report.notes.push("nothing is wrong".into());
        return Ok(report);
    }
    let damage = before.findings.iter().filter(|finding| finding.file != RECORD);
    report.notes.extend(damage.map(Finding::to_string));
    let names = disk.list().map_err(Error::io("list", "."))?;
    note_earlier(&names, &mut report);
    crate::recover::remove_unfinished(disk, &names)?;
    let all = survey(disk, &names, before.journal_id)?;
    if before.acknowledged_lsn.is_none()
        && all.iter().all(|one| one.content.is_none())
        && before.journal_id != 0
    {
        report.notes.push(format!(
            "no header shows the journal's id; {:016x} fits the checksums of its records",
            before.journal_id
        ));
    }
    let newest = match options.keep_records {
        true => 0,
        false => before.covered_lsn(),
    };
    let earlier_gaps = earlier.as_ref().map_or(&[][..], |earlier| &earlier.gaps);
    let plan = Plan::make(&all, newest, earlier_gaps);
    report.seen_lsn = all.iter().map(Surveyed::durable_lsn).max().unwrap_or(0);
    describe(&plan, &before, newest, &mut report);
    if let Some(earlier) = &earlier {
        let runs = || plan.kept.iter().map(|part| part.run);
        report.add_earlier(earlier, |lsn| {
            runs().any(|run| (run.first..run.next).contains(&lsn))
        });
    }
    let is_repeated = earlier.is_some();
    Steps::new(disk, &before, &plan, options, &mut report).run(is_repeated)?;
    Ok(report)
}

/// Ends a repair whose report the operator has received: the journal can be opened from now on.
///
/// # Errors
/// [`Error::Io`].
pub fn confirm_repair<D: Disk>(disk: &D) -> Result<()> {
    record::remove(disk)
}

fn nothing_left() -> String {
    "no record and no snapshot is left: the journal is empty, and begins again with record 1".into()
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
        if last > 0 {
            let note = format!("the last record that remains is {last}; all later records are dropped");
            report.notes.push(note);
        }
    }
    if before.acknowledged_lsn.is_none() {
        let note = "the file `acknowledged` is missing or damaged: more records may have been acknowledged than the \
                    files show";
        report.notes.push(note.into());
    }
}
