//! Journal of a table's changes, and the start: what was acknowledged is checked before anything is opened or cut.

use super::tables::{self, Pending, Tables};
use super::{Write, record};
use crate::embedded::{CELL_BYTES_MAX, Limits};
use lineside_journal::{Error, FsDisk, Journal, Lsn, Options, VerifyReport, record_bytes, verify};
use std::fs;
use std::path::Path;

/// Bytes of the journal after which the files of rows are brought up to date, and the journal is shortened.
pub(super) const CHECKPOINT_BYTES: u64 = if cfg!(test) { 16 << 10 } else { 16 << 20 };
/// Bytes of a group of changes at most, unless one change alone has more.
pub(super) const GROUP_BYTES_MAX: usize = 2 << 20;

/// Sizes of the journal.
pub(super) fn options() -> Options {
    Options {
        segment_bytes: if cfg!(test) { 256 << 10 } else { 16 << 20 },
        record_bytes_max: (CELL_BYTES_MAX + record::HEAD_BYTES_MAX + 64) as u32,
        group_bytes_max: if cfg!(test) { 192 << 10 } else { 4 << 20 },
        keep_records: false,
    }
}

/// Open journal.
pub(super) struct Log {
    pub(super) journal: Journal<FsDisk>,
}

/// Table that was opened.
pub(super) struct Opened {
    pub(super) log: Log,
    pub(super) tables: Tables,
    /// Last change of the journal, and the bytes of all its changes.
    pub(super) last_lsn: Lsn,
    pub(super) journal_bytes: u64,
}

/// Error of a group of changes.
pub(super) enum Failed {
    /// Nothing was done: the disk is full.
    Full(String),
    /// The outcome is not known.
    Ended(String),
}

impl Log {
    /// Writes a group of changes and makes it durable with one fdatasync. Returns the number of the last, and the bytes
    /// that the group took.
    pub(super) fn write(&mut self, group: &[Write]) -> Result<(Lsn, u64), Failed> {
        let failed = |error: Error| match error {
            error @ (Error::Full { .. } | Error::GroupFull { .. }) => Failed::Full(error.to_string()),
            error => Failed::Ended(error.to_string()),
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

/// Opens the table in the directory of `disk`, or makes it.
///
/// # Errors
/// Says what is wrong, where, and what to do. Nothing was changed then, but for files that hold no rows.
pub(super) fn open(disk: FsDisk, limits: &Limits) -> Result<Opened, String> {
    let directory = &disk.path().to_path_buf();
    match verify(&disk) {
        Ok(report) => open_checked(directory, disk, &report, limits),
        Err(Error::NoJournal) => make(directory, disk, limits),
        Err(Error::Missing { to, .. }) => Err(format!(
            "its journal (*.log) is missing, although change {to} was acknowledged: bring the files back"
        )),
        Err(error) => Err(error.to_string()),
    }
}

/// Makes a table in a directory that holds none.
fn make(directory: &Path, disk: FsDisk, limits: &Limits) -> Result<Opened, String> {
    if directory.join("keyspaces").exists() {
        return Err(
            "it holds a table of an earlier version of Lineside, which this one cannot read: give another directory"
                .into(),
        );
    }
    if directory.join(tables::FOLDER).exists() {
        return Err(
            "its journal (*.log) is missing, and its files of rows are here: bring the files back".into(),
        );
    }
    let journal_id = getrandom::u64().map_err(|error| error.to_string())?;
    let journal = Journal::create(disk, journal_id, options()).map_err(|error| error.to_string())?;
    Ok(Opened {
        log: Log { journal },
        tables: open_tables(directory, journal_id, limits, true)?,
        last_lsn: 0,
        journal_bytes: 0,
    })
}

/// Opens a table whose journal was read to its end, `report`.
fn open_checked(
    directory: &Path,
    disk: FsDisk,
    report: &VerifyReport,
    limits: &Limits,
) -> Result<Opened, String> {
    check_journal(report)?;
    let saved_lsn = (report.snapshots.iter()).map(|snapshot| snapshot.lsn).max();
    if saved_lsn.is_some() {
        tables::check(&directory.join(tables::FOLDER)).map_err(damaged_tables)?;
    }
    // From here on files are changed.
    let (journal, recovery) = Journal::open(disk, options()).map_err(|error| error.to_string())?;
    if recovery.cut_bytes > 0 {
        let (bytes, last) = (recovery.cut_bytes, recovery.last_lsn);
        tracing::info!(
            "the journal ended in {bytes} bytes of changes that were never acknowledged; {last} is the last"
        );
    }
    // Without a snapshot all changes are in the journal.
    let tables = open_tables(directory, report.journal_id, limits, saved_lsn.is_none())?;
    let mark = tables.mark().map_err(damaged_tables)?;
    check_mark(mark, saved_lsn.unwrap_or(0), recovery.last_lsn)?;
    replay(&journal, &tables, mark + 1)?;
    Ok(Opened {
        log: Log { journal },
        tables,
        last_lsn: recovery.last_lsn,
        journal_bytes: report.payload_bytes,
    })
}

/// Refuses a journal that is damaged, or that ends before the last acknowledged change.
fn check_journal(report: &VerifyReport) -> Result<(), String> {
    let Some(finding) = report.findings.first() else {
        if !report.is_proved {
            tracing::warn!(
                "the file `acknowledged` is missing or damaged: nothing proves that the end of the journal is whole"
            );
        }
        return Ok(());
    };
    Err(format!(
        "{} is damaged at byte {}, change {}: {}. Bring the file back, or `lineside column repair` the directory, \
         which says what is lost",
        finding.file, finding.offset, finding.lsn, finding.what
    ))
}

/// Refuses files of rows that are older than the journal's first change, or newer than its last.
fn check_mark(mark: Lsn, saved_lsn: Lsn, last_lsn: Lsn) -> Result<(), String> {
    if mark < saved_lsn {
        return Err(damaged_tables(format!(
            "they end with change {mark}, and had change {saved_lsn}"
        )));
    }
    if mark > last_lsn {
        return Err(format!(
            "its journal ends with change {last_lsn}, and the files of rows with {mark}: the end of the journal is \
             lost. Bring the file back, or `lineside column repair` the directory, which says what is lost"
        ));
    }
    Ok(())
}

pub(super) fn damaged_tables(what: String) -> String {
    let folder = tables::FOLDER;
    format!("the files of rows in `{folder}` are damaged: {what}. Bring the directory back from a copy")
}

/// Opens the files of rows. With `starts_empty` it removes existing ones first: the journal still holds every change.
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

/// Makes the changes from record `from` on once more.
pub(super) fn replay(journal: &Journal<FsDisk>, tables: &Tables, from: Lsn) -> Result<(), String> {
    let mut records = journal.records(from).map_err(|error| error.to_string())?;
    let (mut pending, mut last_lsn) = (Pending::default(), from - 1);
    let write = |pending: &mut Pending, last_lsn| {
        let made = tables.apply(pending.take(), last_lsn);
        made.map_err(|error| format!("writing the files of rows: {error}"))
    };
    while let Some(record) = records.next().map_err(|error| error.to_string())? {
        last_lsn = record.lsn;
        let change = record::decode(record.kind, record.payload)
            .ok_or_else(|| format!("change {last_lsn} of the journal has an unknown form"))?;
        if change.is_some_and(|change| pending.add(change)) {
            write(&mut pending, last_lsn)?;
        }
    }
    write(&mut pending, last_lsn)
}
