//! Files in the folder `tables`: a database of fjall (an embedded key-value store) with the changes that were removed
//! from the journal. fjall's own log is not used, because the journal has the same changes, and a start applies them
//! again from there.

use super::Write;
use crate::embedded::Limits;
use fjall::{Database, Keyspace, KeyspaceCreateOptions};
use lineside_journal::Lsn;
use lineside_util::fjall_files;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// Name of the folder in the table's directory.
pub(super) const FOLDER: &str = "tables";
/// Key of the entry that has the journal's id and the number of the last applied change. This key is shorter than the
/// key of any cell.
const MARK: [u8; 1] = [0];
/// Numbers of fjall's keyspaces: 0 is fjall's own, 1 is that of the cells.
const KEYSPACES: [u64; 2] = [0, 1];

/// The open fjall database with the cells.
pub(super) struct Tables {
    pub(super) database: Database,
    pub(super) cells: Keyspace,
    journal_id: u64,
}

/// Checks the files in `folder` before fjall opens them. Changes no file.
///
/// # Errors
/// Returns a text with the name of the file and the fault.
pub(super) fn check(folder: &Path) -> Result<(), String> {
    let found = fjall_files::keyspaces(folder).map_err(|error| error.to_string())?;
    if found != KEYSPACES {
        return Err(format!(
            "{}: the keyspace folders are {found:?}, but should be {KEYSPACES:?}",
            folder.join("keyspaces").display()
        ));
    }
    if !folder.join("version").is_file() {
        return Err(format!("{}: the file `version` is missing", folder.display()));
    }
    fjall_files::check_tables(folder).map_err(|error| error.to_string())
}

/// Returns the id of the journal whose changes are in `folder`, and the number of the last of these changes; `None` if
/// there is no change. The caller has checked the folder.
pub(super) fn last_change(folder: &Path, limits: &Limits) -> Result<Option<(u64, Lsn)>, String> {
    let tables = Tables::open(folder, 0, limits).map_err(|error| error.to_string())?;
    let last = tables.journal_and_mark()?;
    Ok(last.filter(|(_, lsn)| *lsn > 0))
}

/// Returns the operator's text for an error of fjall, whose own text shows the values of its program.
pub(super) fn plain(error: &fjall::Error) -> String {
    let mut causes = std::iter::successors(Some(error as &(dyn std::error::Error + 'static)), |one| {
        one.source()
    });
    match causes.find_map(|one| one.downcast_ref::<io::Error>()) {
        Some(error) if error.kind() == io::ErrorKind::StorageFull => {
            "the disk was full while a file in `tables` was written".into()
        }
        Some(error) => format!("a file in `tables` cannot be read or written: {error}"),
        None if matches!(error, fjall::Error::Poisoned) => {
            "an earlier write of a file in `tables` failed, for example because the disk was full".into()
        }
        None => error.to_string(),
    }
}

impl Tables {
    /// Opens the database, or creates it.
    pub(super) fn open(folder: &Path, journal_id: u64, limits: &Limits) -> Result<Self, fjall::Error> {
        empty_logs(folder)?;
        // A quarter of the memory is for fjall's cache. The rest has room for five memtables (new rows in memory), each
        // of which is written to a file when it reaches an eighth.
        let memtable_bytes = (limits.rows_bytes / 8) as u64;
        let open = || {
            let database = Database::builder(folder)
                .cache_size((limits.rows_bytes / 4) as u64)
                .manual_journal_persist(true)
                .open()?;
            let options = || KeyspaceCreateOptions::default().max_memtable_size(memtable_bytes);
            let cells = database.keyspace("cells", options)?;
            Ok((database, cells))
        };
        // fjall panics on some damaged files; the panic becomes an error here.
        let opened = catch_unwind(AssertUnwindSafe(open));
        let (database, cells) = opened.unwrap_or(Err(fjall::Error::Unrecoverable))?;
        Ok(Self {
            database,
            cells,
            journal_id,
        })
    }

    /// Returns the number of the last change that was applied; 0 if there is none.
    pub(super) fn mark(&self) -> Result<Lsn, String> {
        match self.journal_and_mark()? {
            None => Ok(0),
            Some((journal_id, lsn)) if journal_id == self.journal_id => Ok(lsn),
            Some(_) => Err("they belong to the journal of another table".into()),
        }
    }

    /// Returns the id of the journal whose changes were applied, and the number of the last change.
    fn journal_and_mark(&self) -> Result<Option<(u64, Lsn)>, String> {
        let Some(mark) = self.cells.get(MARK).map_err(|error| plain(&error))? else {
            return Ok(None);
        };
        let malformed = "the entry with the number of their last change is malformed";
        let (journal_id, lsn) = mark.split_first_chunk().ok_or(malformed)?;
        let lsn = lsn.try_into().map_err(|_| malformed)?;
        Ok(Some((u64::from_le_bytes(*journal_id), u64::from_le_bytes(lsn))))
    }

    /// Applies changes of different places atomically, together with the number of the last change.
    pub(super) fn apply(
        &self,
        writes: impl IntoIterator<Item = Write>,
        last_lsn: Lsn,
    ) -> Result<(), fjall::Error> {
        let mut batch = self.database.batch();
        for (place, stored) in writes {
            match stored {
                Some(stored) => batch.insert(&self.cells, place, stored),
                None => batch.remove(&self.cells, place),
            }
        }
        let mark = [self.journal_id.to_le_bytes(), last_lsn.to_le_bytes()].concat();
        batch.insert(&self.cells, MARK, mark);
        batch.commit()
    }

    /// Makes fjall begin to write the changes that are only in memory to files.
    pub(super) fn begin_flush(&self) -> Result<(), fjall::Error> {
        self.cells.rotate_memtable().map(|_| ())
    }

    /// Returns true if all changes that were in memory at the call of [`Tables::begin_flush`] are durable in files.
    pub(super) fn is_flushed(&self) -> bool {
        self.cells.sealed_memtable_count() == 0
    }
}

/// Changes that are collected to be applied together. If several changes have the same place, the last one counts.
#[derive(Default)]
pub(super) struct Pending {
    writes: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    bytes: usize,
}

impl Pending {
    /// Adds a change. Returns true if the collected changes should be applied now.
    pub(super) fn add(&mut self, (place, stored): Write) -> bool {
        self.bytes += place.len() + stored.as_ref().map_or(0, Vec::len);
        self.writes.insert(place, stored);
        self.bytes >= 1 << 20
    }

    /// Removes and returns the collected changes.
    pub(super) fn take(&mut self) -> BTreeMap<Vec<u8>, Option<Vec<u8>>> {
        self.bytes = 0;
        std::mem::take(&mut self.writes)
    }
}

/// Removes fjall's logs except for one empty log. Without any log, fjall would restart its sequence numbers at 0.
fn empty_logs(folder: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    let mut logs = Vec::new();
    for entry in entries {
        let name = entry?.file_name();
        let number = name.to_str().and_then(|name| name.strip_suffix(".jnl"));
        logs.extend(number.and_then(|number| number.parse::<u64>().ok()));
    }
    logs.sort_unstable();
    let Some(last) = logs.pop() else {
        // fjall writes the file `version` last. In a folder without that file, it creates a new database.
        return match folder.join("version").exists() {
            true => File::create(folder.join("0.jnl")).map(|_| ()),
            false => Ok(()),
        };
    };
    for log in logs {
        fs::remove_file(folder.join(format!("{log}.jnl")))?;
    }
    File::create(folder.join(format!("{last}.jnl"))).map(|_| ())
}
