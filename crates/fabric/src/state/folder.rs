//! The folder of a state on the disk: whether it is one, and whether what is in it may be believed.

use crate::ledger::IdsAt;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::xxh3_128;

/// In every folder that is one.
const OWN: &str = "lineside-state";
const OWN_TEXT: &str =
    "The state of a Fabric channel, kept by Lineside. All of it can be made again from the ledger.\n";
/// How often a database may end the process that opens it.
const OPENINGS_MAX: u32 = 2;

/// A folder for a state. Nothing in any other folder is ever changed.
#[derive(Clone, Debug)]
pub(super) struct Folder(pub PathBuf);

impl Folder {
    /// Where the database is.
    pub fn database(&self) -> PathBuf {
        self.0.join("keys")
    }

    fn damaged(&self) -> PathBuf {
        self.0.join("damaged")
    }

    fn opening(&self) -> PathBuf {
        self.0.join("opening")
    }

    /// Whether it is one.
    pub fn is_one(&self) -> bool {
        self.0.join(OWN).is_file()
    }

    /// Makes it one, if it is not there or empty.
    pub fn claim(&self) -> io::Result<()> {
        fs::create_dir_all(&self.0)?;
        if self.is_one() {
            return Ok(());
        }
        if fs::read_dir(&self.0)?.next().is_some() {
            let what = format!("{} holds something else than a state", self.0.display());
            return Err(io::Error::new(ErrorKind::AlreadyExists, what));
        }
        fs::write(self.0.join(OWN), OWN_TEXT)
    }

    /// Removes all that is in it but what says that it is one.
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

    /// Removes it; a link to it stays, or where something is mounted the folder.
    pub fn remove(&self) -> io::Result<()> {
        self.clear()?;
        fs::remove_file(self.0.join(OWN))?;
        match fs::remove_dir(&self.0) {
            Err(error) if !matches!(error.kind(), ErrorKind::NotADirectory | ErrorKind::ResourceBusy) => {
                Err(error)
            }
            _ => Ok(()),
        }
    }

    /// Says that what is in it is damaged. If that cannot be said, whoever finds it next says it again.
    pub fn set_damaged(&self, what: &str) {
        let _ = fs::write(self.damaged(), what);
    }

    /// Why what is in it is not to be opened, if it is not.
    pub fn is_damaged(&self) -> Option<&'static str> {
        if self.damaged().exists() {
            Some("it was found to be damaged")
        } else if self.openings() >= OPENINGS_MAX {
            Some("whoever opened it ended while opening it, more than once")
        } else {
            None
        }
    }

    /// Whether each keyspace's list of tables is as it was written. fjall writes its checksum beside it, in `current`
    /// (number of the list, its XXH3 of 128 bits, 0), and does not look at it.
    pub fn has_true_lists(&self) -> io::Result<bool> {
        let keyspaces = match fs::read_dir(self.database().join("keyspaces")) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(true),
            keyspaces => keyspaces?,
        };
        for keyspace in keyspaces {
            let keyspace = keyspace?.path();
            // What is missing, or in another form, is for fjall to say.
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

    /// Opens what is in it; a process that ends within `open` is counted.
    pub fn open<T>(&self, open: impl FnOnce(&Path) -> T) -> T {
        let count = self.openings().saturating_add(1);
        // Where that cannot be written, on a full disk say, it is not counted.
        let _ = fs::write(self.opening(), count.to_string());
        let opened = open(&self.database());
        let _ = fs::remove_file(self.opening());
        opened
    }

    /// How many processes in a row have ended while they opened it.
    fn openings(&self) -> u32 {
        let count = fs::read_to_string(self.opening()).ok();
        count.and_then(|count| count.parse().ok()).unwrap_or(0)
    }
}
