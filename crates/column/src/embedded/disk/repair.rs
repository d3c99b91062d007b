//! Repair of a damaged table: makes the table open again, and reports which acknowledged changes are lost.

use super::log::{damaged_tables, open_tables, options};
use super::{record, tables};
use crate::embedded::{KIND, Limits};
use lineside_journal::{
    Disk, Error, FsDisk, Journal, Lsn, VerifyReport, confirm_repair, has_journal, repair_unconfirmed, verify,
};
use std::fs;
use std::path::Path;

/// Maximum number of filler records (of the kind `NOTHING`) in one group.
const GROUP_RECORDS: u64 = 4096;
/// Content of the snapshots that a repair writes.
const SNAPSHOT_TEXT: &[u8] = b"The files of rows in `tables` hold all changes up to this one.";

/// Result of [`repair`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repaired {
    /// Number of the last change that the repaired table has.
    pub last_lsn: Lsn,
    /// First and last number of the acknowledged changes that are lost; `None` if no change is lost.
    pub lost: Option<(Lsn, Lsn)>,
    /// Sentences for the operator about the faults that were found and the actions that were taken.
    pub notes: Vec<String>,
}

/// A repair whose report the operator has not received yet. The table cannot be opened until
/// [`UnconfirmedRepair::confirm`] is called. Without that call, the next repair reports the same loss.
#[derive(Debug)]
pub struct UnconfirmedRepair(FsDisk);

impl UnconfirmedRepair {
    /// Ends the repair, so that the table can be opened.
    ///
    /// # Errors
    /// Returns a text about a file that cannot be removed.
    pub fn confirm(self) -> Result<(), String> {
        confirm_repair(&self.0).map_err(|error| error.to_string())
    }
}

/// Truncates a damaged journal of the table in `directory` before the damage, saves the removed part as `*.damaged`,
/// and reports which acknowledged changes are lost. Does nothing to an undamaged table. Only the command `lineside
/// column repair` calls this function; a start never repairs.
///
/// # Errors
/// Returns the reason why no repair is possible: there is no table, another process has the table open, or the files in
/// `tables` are damaged and the journal does not have all of their changes. The call has then changed no file.
pub fn repair(directory: &Path) -> Result<(Repaired, UnconfirmedRepair), String> {
    let text = |error: Error| error.to_string();
    let looked = FsDisk::look_at(directory, &KIND).map_err(text)?;
    if looked.used_before().is_none() && !has_journal(&looked).map_err(text)? {
        return Err("the directory contains no table; give the directory in `data` of [column]".into());
    }
    let disk = FsDisk::claim_existing(directory, &KIND).map_err(text)?;
    let before = match verify(&disk) {
        Err(Error::NoJournal) => None,
        before => Some(before.map_err(text)?),
    };
    let was_sound = before.as_ref().is_some_and(VerifyReport::is_sound);
    let before = before.unwrap_or_default();
    let are_sound = tables::check(&directory.join(tables::FOLDER));
    if before.snapshots.iter().any(|snapshot| snapshot.whole) {
        are_sound.clone().map_err(damaged_tables)?;
    }
    let mut repaired = Repaired::default();
    let journal = repair_unconfirmed(&disk, options()).map_err(text)?;
    if !was_sound {
        repaired.notes.extend(journal.notes);
    }
    let opened = Journal::open_unconfirmed(disk.clone(), options());
    let last_lsn = match opened {
        Ok((journal, _)) => settle(directory, journal, are_sound.is_ok(), &mut repaired.notes)?,
        Err(Error::NoJournal) => begin_again(directory, &disk, are_sound.is_ok(), &mut repaired.notes)?,
        Err(error) => return Err(error.to_string()),
    };
    let lost_to = journal.lost.map_or(0, |(_, to)| to);
    let acknowledged_lsn = before
        .acknowledged_lsn
        .unwrap_or(0)
        .max(lost_to)
        .max(journal.seen_lsn);
    if acknowledged_lsn > last_lsn {
        repaired.lost = Some((last_lsn + 1, acknowledged_lsn));
    }
    if was_sound && repaired.notes.is_empty() {
        repaired.notes.push("nothing is wrong".into());
    }
    repaired.last_lsn = last_lsn;
    Ok((repaired, UnconfirmedRepair(disk)))
}

/// Repairs a table that has no journal. If the files in `tables` are undamaged and have changes, they are left in
/// place, and a new journal continues after their last change. Otherwise they are moved aside. Returns the number of
/// the last change.
fn begin_again(
    directory: &Path,
    disk: &FsDisk,
    are_sound: bool,
    notes: &mut Vec<String>,
) -> Result<Lsn, String> {
    let folder = directory.join(tables::FOLDER);
    let last = match are_sound {
        true => tables::last_change(&folder, &Limits::default()).map_err(damaged_tables)?,
        false => None,
    };
    if let Some((journal_id, last_lsn)) = last {
        notes.push(format!(
            "the journal is missing; the table keeps the changes up to {last_lsn}, which the files in `{}` have",
            tables::FOLDER
        ));
        let made = Journal::create_after(disk.clone(), journal_id, options(), last_lsn, |file| {
            std::io::Write::write_all(file, SNAPSHOT_TEXT)
        });
        made.map_err(|error| error.to_string())?;
        return Ok(last_lsn);
    }
    if folder.exists() {
        notes.push("the table is empty now".into());
        let aside = free_name(directory, tables::FOLDER);
        let moved = fs::rename(&folder, directory.join(&aside));
        moved.map_err(|error| format!("{}: {error}", tables::FOLDER))?;
        notes.push(format!("the former files of the table are in `{aside}`"));
    }
    Ok(0)
}

/// Makes a journal that can be opened consistent with the files in `tables`. Returns the number of the last change.
fn settle(
    directory: &Path,
    mut journal: Journal<FsDisk>,
    are_sound: bool,
    notes: &mut Vec<String>,
) -> Result<Lsn, String> {
    let text = |error: Error| error.to_string();
    let id = journal.journal_id();
    let mut last_lsn = journal.durable_lsn();
    // If the files in `tables` are damaged, the next start builds them again from the journal. If the journal does not
    // have all changes, the caller has already refused the repair.
    if are_sound {
        let mark = open_tables(directory, id, &Limits::default(), false)?.mark();
        let mark = mark.map_err(damaged_tables)?;
        if mark > last_lsn {
            notes.push(format!(
                "the journal ends with change {last_lsn}, but the files in `tables` have all changes up to \
                 {mark}; the table keeps them"
            ));
            while last_lsn < mark {
                for _ in 0..(mark - last_lsn).min(GROUP_RECORDS) {
                    journal.append(record::NOTHING, &[]).map_err(text)?;
                }
                last_lsn = journal.commit().map_err(text)?;
            }
            let written = journal.write_snapshot(mark, |file| std::io::Write::write_all(file, SNAPSHOT_TEXT));
            written.map_err(text)?;
        }
    }
    Ok(last_lsn)
}

/// Returns a name of the form `NAME.damaged` that no file in the directory has yet.
fn free_name(directory: &Path, name: &str) -> String {
    let first = format!("{name}.damaged");
    let others = (2u32..).map(|number| format!("{name}.damaged.{number}"));
    let mut names = std::iter::once(first.clone()).chain(others);
    names.find(|name| !directory.join(name).exists()).unwrap_or(first)
}
