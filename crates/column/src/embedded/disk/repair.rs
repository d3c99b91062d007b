//! Repairs a damaged table so that it opens, and reports the loss.

use super::log::{damaged_tables, open_tables, options};
use super::{record, tables};
use crate::embedded::{KIND, Limits};
use lineside_journal::{Error, FsDisk, Journal, Lsn, RepairReport, VerifyReport, verify};
use std::fs;
use std::path::Path;

/// Maximum number of filler records in one group.
const GROUP_RECORDS: u64 = 4096;

/// Result of [`repair`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repaired {
    /// Number of the last change that is in the table now.
    pub last_lsn: Lsn,
    /// First and last number of the acknowledged changes that are lost; `None` if none are.
    pub lost: Option<(Lsn, Lsn)>,
    /// Sentences for the operator: faults that were found, and actions taken.
    pub notes: Vec<String>,
}

/// Truncates a damaged journal of the table in `directory` before the damage, keeps the removed part as `*.damaged`,
/// and reports which acknowledged changes are lost. Does nothing to an undamaged table. The table never calls this by
/// itself.
///
/// # Errors
/// The reason why no repair is possible: there is no table, another process has it open, or the files in `tables` are
/// damaged and the journal does not hold all of their changes. Nothing was changed then.
pub fn repair(directory: &Path) -> Result<Repaired, String> {
    let text = |error: Error| error.to_string();
    let disk = FsDisk::claim_existing(directory, &KIND).map_err(text)?;
    // A file `acknowledged` without a journal says that no change was acknowledged: a repair left it.
    let begins_again = directory.join("acknowledged").exists();
    let before = match verify(&disk) {
        Err(Error::NoJournal) if begins_again => VerifyReport::default(),
        // Only the file `acknowledged` is left of the journal.
        Err(Error::Missing { to, .. }) => VerifyReport {
            acknowledged_lsn: Some(to),
            ..VerifyReport::default()
        },
        before => before.map_err(text)?,
    };
    let saved = before.snapshots.iter().any(|snapshot| snapshot.whole);
    let are_sound = tables::check(&directory.join(tables::FOLDER));
    if saved {
        are_sound.clone().map_err(damaged_tables)?;
    }
    let mut repaired = Repaired::default();
    let journal = match lineside_journal::repair(&disk, options()) {
        Err(Error::NoJournal) if begins_again => RepairReport::default(),
        done => done.map_err(text)?,
    };
    if !before.is_sound() || journal.lost.is_some() {
        repaired.notes.extend(journal.notes);
    }
    let acknowledged_lsn = acknowledged_by(&before);
    let last_lsn = match Journal::open(disk, options()) {
        Ok((journal, _)) => settle(directory, journal, are_sound.is_ok(), &mut repaired.notes)?,
        Err(Error::NoJournal) => {
            repaired.notes.push("the table is empty now".into());
            if directory.join(tables::FOLDER).exists() {
                let aside = free_name(directory, tables::FOLDER);
                let moved = fs::rename(directory.join(tables::FOLDER), directory.join(&aside));
                moved.map_err(|error| format!("{}: {error}", tables::FOLDER))?;
                repaired.notes.push(format!("its former files are in `{aside}`"));
            }
            0
        }
        Err(error) => return Err(error.to_string()),
    };
    if acknowledged_lsn > last_lsn {
        repaired.lost = Some((last_lsn + 1, acknowledged_lsn));
    }
    if before.is_sound() && repaired.notes.is_empty() {
        repaired.notes.push("nothing is wrong".into());
    }
    repaired.last_lsn = last_lsn;
    Ok(repaired)
}

/// Returns the number of the last change that is known to have been acknowledged.
fn acknowledged_by(before: &VerifyReport) -> Lsn {
    let whole =
        |segment: &lineside_journal::SegmentReport| (segment.first_lsn + segment.records).saturating_sub(1);
    let read = before.segments.iter().map(whole).max().unwrap_or(0);
    before.acknowledged_lsn.unwrap_or(0).max(read)
}

/// Makes a journal that opens and the files in `tables` consistent. Returns the number of the last change.
fn settle(
    directory: &Path,
    mut journal: Journal<FsDisk>,
    are_sound: bool,
    notes: &mut Vec<String>,
) -> Result<Lsn, String> {
    let text = |error: Error| error.to_string();
    let id = journal.journal_id();
    let mut last_lsn = journal.durable_lsn();
    // If the files in `tables` are damaged, the next start rebuilds them from the journal. If the journal no longer
    // holds every change, the caller has refused the repair.
    if are_sound {
        let mark = open_tables(directory, id, &Limits::default(), false)?.mark();
        let mark = mark.map_err(damaged_tables)?;
        if mark > last_lsn {
            notes.push(format!(
                "the journal ends with change {last_lsn}; the files in `tables` hold all changes up to \
                 {mark}, which are kept"
            ));
            while last_lsn < mark {
                for _ in 0..(mark - last_lsn).min(GROUP_RECORDS) {
                    journal.append(record::NOTHING, &[]).map_err(text)?;
                }
                last_lsn = journal.commit().map_err(text)?;
            }
            let said = b"The files of rows in `tables` hold all changes up to this one.";
            let written = journal.write_snapshot(mark, |file| std::io::Write::write_all(file, said));
            written.map_err(text)?;
        }
    }
    Ok(last_lsn)
}

/// Returns a name `*.damaged` that does not exist yet.
fn free_name(directory: &Path, name: &str) -> String {
    let first = format!("{name}.damaged");
    let others = (2u32..).map(|number| format!("{name}.damaged.{number}"));
    let mut names = std::iter::once(first.clone()).chain(others);
    names.find(|name| !directory.join(name).exists()).unwrap_or(first)
}
