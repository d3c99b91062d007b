//! Directory of a state on the disk. A marker file identifies the directory, and other files record damage and crashes.

use crate::ledger::IdsAt;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::xxh3_128;

/// Name of the marker file in every directory of a state.
const OWNER_FILE: &str = "lineside-state";
const OWN_TEXT: &str =
    "The state of a Fabric channel, kept by Lineside. All of it can be rebuilt from the ledger.\n";
/// Number of successive crashes while the database is opened, after which the database counts as damaged.
const OPENINGS_MAX: u32 = 2;

/// Directory of a state. Directories without the marker file are never changed.
#[derive(Clone, Debug)]
pub(super) struct StateFolder(pub PathBuf);

impl StateFolder {
    /// Returns the path of the database.
    pub fn database(&self) -> PathBuf {
        self.0.join("keys")
    }

    fn damaged(&self) -> PathBuf {
        self.0.join("damaged")
    }

    fn opening(&self) -> PathBuf {
        self.0.join("opening")
    }

    /// Returns whether the marker file exists.
    pub fn is_one(&self) -> bool {
        self.0.join(OWNER_FILE).is_file()
    }

    /// Creates the directory and the marker file, if the directory does not exist or is empty.
    pub fn claim(&self) -> io::Result<()> {
        fs::create_dir_all(&self.0)?;
        if self.is_one() {
            return Ok(());
        }
        if fs::read_dir(&self.0)?.next().is_some() {
            let what = format!(
                "{} is not empty and not a state directory; give another directory",
                self.0.display()
            );
            return Err(io::Error::new(ErrorKind::AlreadyExists, what));
        }
        fs::write(self.0.join(OWNER_FILE), OWN_TEXT)
    }

    /// Removes everything in the directory except the marker file.
    pub fn clear(&self) -> io::Result<()> {
        let gone = |removed: io::Result<()>| match removed {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        };
        gone(fs::remove_dir_all(self.database()))?;
        gone(fs::remove_dir_all(IdsAt::folder(&self.0)))?;
        gone(fs::remove_file(self.opening()))?;
        gone(fs::remove_file(self.damaged()))
    }

    /// Removes the directory. If it is a symbolic link or a mount point, only its content is removed.
    pub fn remove(&self) -> io::Result<()> {
        self.clear()?;
        fs::remove_file(self.0.join(OWNER_FILE))?;
        match fs::remove_dir(&self.0) {
            Err(error) if !matches!(error.kind(), ErrorKind::NotADirectory | ErrorKind::ResourceBusy) => {
                Err(error)
            }
            _ => Ok(()),
        }
    }

    /// Marks the state as damaged. A failure to write the mark is ignored, because the next reader finds the damage
    /// again.
    pub fn set_damaged(&self, what: &str) {
        let _ = fs::write(self.damaged(), what);
    }

    /// Returns the reason why the state must not be opened, if there is one.
    pub fn is_damaged(&self) -> Option<&'static str> {
        if self.damaged().exists() {
            Some("the state was found to be damaged")
        } else if self.openings() >= OPENINGS_MAX {
            Some("more than one process ended while it opened the state")
        } else {
            None
        }
    }

    /// Checks that each keyspace's list of tables is unchanged. fjall stores a checksum of the list in `current`
    /// (number of the list, its XXH3 of 128 bits, 0), but does not verify it.
    pub fn has_true_lists(&self) -> io::Result<bool> {
        let keyspaces = match fs::read_dir(self.database().join("keyspaces")) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(true),
            keyspaces => keyspaces?,
        };
        for keyspace in keyspaces {
            let keyspace = keyspace?.path();
            // fjall reports an error if the file is missing or in another form, so this function ignores these cases.
            let Ok(current) = fs::read(keyspace.join("current")) else {
                continue;
            };
            if let Some((number, rest)) = current.split_first_chunk()
                && let Some((checksum, [0])) = rest.split_first_chunk()
            {
                let list = fs::read(keyspace.join(format!("v{}", u64::from_le_bytes(*number))))?;
                if xxh3_128(&list) != u128::from_le_bytes(*checksum) {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Opens the database with `open`. If the process ends during this call, the attempt remains counted.
    pub fn open<T>(&self, open: impl FnOnce(&Path) -> T) -> T {
        let count = self.openings().saturating_add(1);
        // If the counter file cannot be written, for example on a full disk, the attempt is not counted.
        let _ = fs::write(self.opening(), count.to_string());
        let opened = open(&self.database());
        let _ = fs::remove_file(self.opening());
        opened
    }

    /// Returns the number of processes in a row that ended while they opened the database.
    fn openings(&self) -> u32 {
        let count = fs::read_to_string(self.opening()).ok();
        count.and_then(|count| count.parse().ok()).unwrap_or(0)
    }
}
