//! Files of rows: a fjall database that holds what the journal no longer does. fjall's own log is not used: what it
//! would hold is in the journal, and is written again from there.

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

/// Name of the folder.
pub(super) const FOLDER: &str = "tables";
/// Place of the mark: shorter than any cell's.
const MARK: [u8; 1] = [0];
/// fjall's keyspaces: its own, and that of the cells.
const KEYSPACES: [u64; 2] = [0, 1];

/// Open files of rows.
pub(super) struct Tables {
    pub(super) database: Database,
    pub(super) cells: Keyspace,
    journal_id: u64,
}

/// Checks the files in `folder` before anything opens them. Changes nothing.
///
/// # Errors
/// Names the file, and says what is wrong with it.
pub(super) fn check(folder: &Path) -> Result<(), String> {
    let found = fjall_files::keyspaces(folder).map_err(|error| error.to_string())?;
    if found != KEYSPACES {
        return Err(format!(
            "{}: the folders {found:?} are there instead of {KEYSPACES:?}",
            folder.join("keyspaces").display()
        ));
    }
    if !folder.join("version").is_file() {
        return Err(format!("{}: the file `version` is missing", folder.display()));
    }
    fjall_files::check_tables(folder).map_err(|error| error.to_string())
}

impl Tables {
    /// Opens the files, or makes them.
    pub(super) fn open(folder: &Path, journal_id: u64, limits: &Limits) -> Result<Self, fjall::Error> {
        empty_logs(folder)?;
        // A quarter for the cache; of the rest five tables of new rows, which are written at an eighth.
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
        // fjall panics on some damaged files.
        let opened = catch_unwind(AssertUnwindSafe(open));
        let (database, cells) = opened.unwrap_or(Err(fjall::Error::Unrecoverable))?;
        Ok(Self {
            database,
            cells,
            journal_id,
        })
    }

    /// Number of the last record whose change is here.
    pub(super) fn mark(&self) -> Result<Lsn, String> {
        let Some(mark) = self.cells.get(MARK).map_err(|error| error.to_string())? else {
            return Ok(0);
        };
        let (journal_id, lsn) = mark.split_first_chunk().ok_or("their mark has another form")?;
        if u64::from_le_bytes(*journal_id) != self.journal_id {
            return Err("they belong to another journal".into());
        }
        let lsn = lsn.try_into().map_err(|_| "their mark has another form")?;
        Ok(u64::from_le_bytes(lsn))
    }

    /// Makes changes of different places that everyone sees at once, with the number of their last record.
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

    /// Has what is in memory only written into files.
    pub(super) fn begin_flush(&self) -> Result<(), fjall::Error> {
        self.cells.rotate_memtable().map(|_| ())
    }

    /// Returns whether everything that was there at [`Tables::begin_flush`] is in files, durably.
    pub(super) fn is_flushed(&self) -> bool {
        self.cells.sealed_memtable_count() == 0
    }
}

/// Changes that are made together by their place: of two of one place the last counts.
#[derive(Default)]
pub(super) struct Pending {
    writes: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    bytes: usize,
}

impl Pending {
    /// Takes a change up and returns whether it is time to make them.
    pub(super) fn add(&mut self, (place, stored): Write) -> bool {
        self.bytes += place.len() + stored.as_ref().map_or(0, Vec::len);
        self.writes.insert(place, stored);
        self.bytes >= 1 << 20
    }

    /// Returns the changes, and has none.
    pub(super) fn take(&mut self) -> BTreeMap<Vec<u8>, Option<Vec<u8>>> {
        self.bytes = 0;
        std::mem::take(&mut self.writes)
    }
}

/// Leaves fjall one empty log. One must be there: without any, fjall begins to count its changes at 0.
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
        // fjall writes the file `version` last. In a folder without that file it creates a new database.
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
