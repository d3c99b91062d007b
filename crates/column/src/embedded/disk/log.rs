//! Journal of a table's changes, and start of a table. A start checks all acknowledged changes before it opens or
//! truncates any file.

use super::tables::{self, Pending, Tables};
use super::{Write, record};
use crate::embedded::{CELL_BYTES_MAX, Limits};
use crate::table::TableError;
use lineside_journal::{Error, FsDisk, Journal, Lsn, Options, VerifyReport, record_bytes, verify};
use std::fs;
use std::path::Path;

/// Number of bytes of the journal after which a checkpoint updates the files in `tables` and shortens the journal.
pub(super) const CHECKPOINT_BYTES: u64 = if cfg!(test) { 16 << 10 } else { 16 << 20 };
/// Maximum size of a group of changes in bytes. A single larger change forms a group of its own.
pub(super) const GROUP_BYTES_MAX: usize = 2 << 20;

/// Returns the options of the journal: its sizes.
pub(super) fn options() -> Options {
    Options {
        segment_bytes: if cfg!(test) { 256 << 10 } else { 16 << 20 },
        record_bytes_max: (CELL_BYTES_MAX + record::HEAD_BYTES_MAX + 64) as u32,
        group_bytes_max: if cfg!(test) { 192 << 10 } else { 4 << 20 },
        keep_records: false,
    }
}

/// The open journal of a table.
pub(super) struct Log {
    pub(super) journal: Journal<FsDisk>,
}

/// Result of opening a table.
pub(super) struct OpenedTable {
    pub(super) log: Log,
    pub(super) tables: Tables,
    /// Number of the last change in the journal, and size of all changes in the journal in bytes.
    pub(super) last_lsn: Lsn,
    pub(super) journal_bytes: u64,
}

/// Error of writing a group of changes.
pub(super) enum WriteError {
    /// No change was written, because the disk is full.
    Full(String),
    /// It is not known whether the changes were written. The journal accepts no further change.
    Ended(String),
}

impl Log {
    /// Writes a group of changes and makes it durable with one fdatasync. Returns the number of the last change, and
    /// the size of the group in the journal in bytes.
    pub(super) fn write(&mut self, group: &[Write]) -> Result<(Lsn, u64), WriteError> {
        let failed = |error: Error| match error {
            error @ (Error::Full { .. } | Error::GroupFull { .. }) => WriteError::Full(error.to_string()),
            error => WriteError::Ended(error.to_string()),
        };
        let records: Vec<_> = group.iter().map(record::encode).collect();
        let bytes = (records.iter())
            .map(|(_, payload)| record_bytes(payload.len()))
            .sum();
        self.journal.reserve(bytes).map_err(failed)?;
        for (kind, payload) in &records {
            self.journal.append(*kind, payload).map_err(failed)?;
        }
        Ok((self.journal.commit().map_err(failed)?, bytes))
    }
}

/// Returns the error of opening a table whose journal reported `error`.
fn of_journal(error: Error) -> TableError {
    match error.needs_repair() {
        true => TableError::Refused(error.to_string()),
        false => TableError::Unavailable(error.to_string()),
    }
}

/// Opens the table in the directory of `disk`, or creates it.
///
/// # Errors
/// [`TableError::Refused`] if an operator must repair or restore files, and [`TableError::Unavailable`] if another try
/// may succeed. The text says what is wrong, where, and what to do. The call has then changed no file, except for files
/// that contain no rows.
pub(super) fn open(disk: FsDisk, limits: &Limits) -> Result<OpenedTable, TableError> {
    let directory = &disk.path().to_path_buf();
    match verify(&disk) {
        Ok(report) if report.is_empty_journal() => make(directory, disk, limits),
        Ok(report) => open_checked(directory, disk, &report, limits),
        Err(Error::NoJournal) => make(directory, disk, limits),
        Err(error) => Err(of_journal(error)),
    }
}

/// Creates a table in a directory that has no journal of a table.
fn make(directory: &Path, disk: FsDisk, limits: &Limits) -> Result<OpenedTable, TableError> {
    if directory.join("keyspaces").exists() {
        return Err(TableError::Refused(
            "it holds a table of an earlier version of Lineside, which this one cannot read; give another \
             directory"
                .into(),
        ));
    }
    if directory.join(tables::FOLDER).exists() {
        return Err(TableError::Refused(
            "its journal (*.log) is missing, although its files in `tables` exist; restore the journal from a copy, \
             or run `lineside column repair` on the directory, which continues with the changes that `tables` has \
             on the disk"
                .into(),
        ));
    }
    let journal_id = getrandom::u64().map_err(|error| TableError::Unavailable(error.to_string()))?;
    // The call refuses a directory that a server has used before, unless the file `acknowledged` shows that no change
    // was acknowledged.
    let opened = Journal::open_or_create(disk, journal_id, options());
    let (journal, recovery) = opened.map_err(of_journal)?;
    if recovery.began_again {
        tracing::warn!(
            "column: the directory was used before, but no change was ever acknowledged in it; the table starts empty"
        );
    }
    Ok(OpenedTable {
        log: Log { journal },
        tables: open_tables(directory, journal_id, limits, true).map_err(TableError::Refused)?,
        last_lsn: 0,
        journal_bytes: 0,
    })
}

/// Opens a table whose journal was verified to its end. `report` is the result of the verification.
fn open_checked(
    directory: &Path,
    disk: FsDisk,
    report: &VerifyReport,
    limits: &Limits,
) -> Result<OpenedTable, TableError> {
    check_journal(report).map_err(TableError::Refused)?;
    let saved_lsn = (report.snapshots.iter()).map(|snapshot| snapshot.lsn).max();
    if saved_lsn.is_some() {
        let checked = tables::check(&directory.join(tables::FOLDER)).map_err(damaged_tables);
        checked.map_err(TableError::Refused)?;
    }
    // Before this point, the function changes no file.
    let (journal, recovery) = Journal::open(disk, options()).map_err(of_journal)?;
    if recovery.cut_bytes > 0 {
        let (bytes, last) = (recovery.cut_bytes, recovery.last_lsn);
        tracing::info!(
            "column: removed {bytes} bytes from the journal's end: changes that were never acknowledged; the last \
             change in the journal is {last}"
        );
    }
    // If there is no snapshot, the journal has all changes, so the files in `tables` are built again from it.
    let opened = open_tables(directory, report.journal_id, limits, saved_lsn.is_none()).and_then(|tables| {
        let mark = tables.mark().map_err(damaged_tables)?;
        check_mark(mark, saved_lsn.unwrap_or(0), recovery.last_lsn)?;
        replay(&journal, &tables, mark + 1)?;
        Ok((tables, mark))
    });
    let (tables, mark) = opened.map_err(TableError::Refused)?;
    let last_change = recovery.last_lsn;
    let replayed = last_change.saturating_sub(mark);
    tracing::info!(last_change, replayed, "column: the table was recovered");
    Ok(OpenedTable {
        log: Log { journal },
        tables,
        last_lsn: recovery.last_lsn,
        journal_bytes: report.payload_bytes,
    })
}

/// Returns an error if the journal is damaged or ends before the last acknowledged change.
fn check_journal(report: &VerifyReport) -> Result<(), String> {
    let Some(finding) = report.findings.first() else {
        if !report.is_proved {
            tracing::warn!(
                "column: the file `acknowledged` is missing or damaged, so the server cannot detect whether the \
                 table's last changes are lost. Compare the table with the records of its clients, or restore a copy \
                 of the directory. The table is open, and the server writes the file again"
            );
        }
        return Ok(());
    };
    if finding.is_unrepaired() {
        return Err(
            "a repair of the table did not end, or its report could not be written; run `lineside column \
                    repair` on the directory again"
                .into(),
        );
    }
    Err(format!(
        "the table's journal is damaged: {finding}. Restore the files from a copy, or run `lineside column repair` on \
         the directory, which reports what is lost"
    ))
}

/// Returns an error if the files in `tables` are older than the start of the journal, or newer than its end.
fn check_mark(mark: Lsn, saved_lsn: Lsn, last_lsn: Lsn) -> Result<(), String> {
    if mark < saved_lsn {
        return Err(damaged_tables(format!(
            "the last change in these files is {mark}, but the journal begins after change {saved_lsn}"
        )));
    }
    if mark > last_lsn {
        return Err(format!(
            "the table's journal ends with change {last_lsn}, but the files in `tables` have changes up to {mark}: the \
             end of the journal is lost. Restore the last files of the journal (`*.log`) from a copy, or run `lineside \
             column repair` on the directory"
        ));
    }
    Ok(())
}

pub(super) fn damaged_tables(what: String) -> String {
    let folder = tables::FOLDER;
    format!("the files in `{folder}` are damaged: {what}. Restore the directory from a copy")
}

/// Opens the files in `tables`. With `starts_empty`, removes existing files first, because the journal still has all
/// changes.
pub(super) fn open_tables(
    directory: &Path,
    journal_id: u64,
    limits: &Limits,
    starts_empty: bool,
) -> Result<Tables, String> {
    let folder = directory.join(tables::FOLDER);
    if starts_empty && folder.exists() {
        fs::remove_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    Tables::open(&folder, journal_id, limits).map_err(|error| format!("{}: {error}", folder.display()))
}

/// Applies the changes of the journal again, from record `from` on.
pub(super) fn replay(journal: &Journal<FsDisk>, tables: &Tables, from: Lsn) -> Result<(), String> {
    let mut records = journal.records(from).map_err(|error| error.to_string())?;
    let (mut pending, mut last_lsn) = (Pending::default(), from - 1);
    let write = |pending: &mut Pending, last_lsn| {
        let made = tables.apply(pending.take(), last_lsn);
        made.map_err(|error| format!("cannot write the files in `tables`: {error}"))
    };
    while let Some(record) = records.next().map_err(|error| error.to_string())? {
        last_lsn = record.lsn;
        let change = record::decode(record.kind, record.payload)
            .ok_or_else(|| format!("record {last_lsn} of the journal has an unknown kind or is malformed"))?;
        if change.is_some_and(|change| pending.add(change)) {
            write(&mut pending, last_lsn)?;
        }
    }
    write(&mut pending, last_lsn)
}
