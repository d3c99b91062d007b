//! Repair of a damaged journal: afterwards it can be opened again, and a report names the records that are lost.

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
    /// First record that the repair dropped, if it dropped any.
    pub dropped_from: Option<Lsn>,
    /// First and last of the acknowledged records that are lost, if any. More records may be lost: those that were
    /// acknowledged after the damage, or while the file `acknowledged` was missing or damaged.
    pub lost: Option<(Lsn, Lsn)>,
    /// First and last record of each range that is in no segment since this repair. The newest snapshot replaces these
    /// records, so no state is lost.
    pub gaps: Vec<(Lsn, Lsn)>,
    /// Number of complete records that the repair dropped because they follow the damage. The files that it moved aside
    /// contain them.
    pub dropped_whole_records: u64,
    /// Number of bytes that the repair moved aside.
    pub dropped_bytes: u64,
    /// Last record that the files have shown to be durable, even if the repair dropped it; 0 if there is none.
    pub seen_lsn: Lsn,
    /// Files that the repair moved aside, as `(old name, new name)`. If a segment was cut, the file with the new name
    /// is a complete copy of it.
    pub moved: Vec<(String, String)>,
    /// Segments whose header the repair wrote again; their records are unchanged.
    pub rewritten: Vec<String>,
    /// New segments, into which the repair copied complete records from damaged files.
    pub made: Vec<String>,
    /// Sentences for the operator: the damage found and the actions taken.
    pub notes: Vec<String>,
}

/// Makes a damaged journal usable again, and reports which records that costs. Does not change an intact journal.
/// Acknowledged records may be lost, so the journal never calls this itself. The repair keeps removed parts in files
/// named `*.damaged`.
///
/// After the newest intact snapshot, the records up to the first damage remain. The snapshot replaces the records
/// before it, so damage there loses no state: the repair keeps every complete record before the snapshot, also those
/// after the damage. If records are missing, the header of the next segment says so, and the report names them. If no
/// record after the snapshot remains, the journal continues after the snapshot with a new segment. If snapshots replace
/// no records ([`Options::keep_records`], given here or recorded in the snapshots), the records before the damage
/// remain, and the repair moves later snapshots aside. If neither a record nor a snapshot remains, the repair moves all
/// files aside; the file `acknowledged` then says that the journal begins again. The repair also moves the file
/// `acknowledged` aside if it is damaged or belongs to another journal; the next opening creates a new one.
///
/// # Errors
/// [`Error::NoJournal`] if the directory contains no file of a journal, and no server has used it; [`Error::Full`]
/// (nothing was changed), [`Error::Io`]. After each of these errors the call can be repeated.
pub fn repair<D: Disk>(disk: &D, options: Options) -> Result<RepairReport> {
    let report = repair_unconfirmed(disk, options)?;
    confirm_repair(disk)?;
    Ok(report)
}

/// Repairs like [`repair`], but the journal cannot be opened until [`confirm_repair`] is called, which shows that the
/// operator has received the report. Until then, a further repair reports the same loss.
///
/// # Errors
/// The errors of [`repair`].
pub fn repair_unconfirmed<D: Disk>(disk: &D, options: Options) -> Result<RepairReport> {
    options.check()?;
    let earlier = record::read(disk)?;
    if let Some(earlier) = earlier.as_ref().filter(|earlier| !earlier.written.is_empty()) {
        steps::name_written_segments(disk, &earlier.written)?;
        record::write(disk, &earlier.loss, &[])?;
    }
    let earlier = earlier.map(|earlier| earlier.loss);
    let before = match (verify(disk), disk.used_before()) {
        // The directory does not even contain the file `acknowledged`.
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
            "no header shows the journal's id; the repair uses {:016x}, which fits the checksums of the journal's \
             records",
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

/// Names the files that earlier repairs moved aside: if an earlier repair did not end, the loss in its report includes
/// the records in these files.
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

/// Reports the records that remain according to `plan`, and the records that do not.
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
