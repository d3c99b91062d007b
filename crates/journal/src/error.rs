//! Errors of the journal. Each names the file that it concerns.

use crate::Lsn;
use crate::segment::lsn_of;
use lineside_util::data_dir::DataDirError;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Result of the journal's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Reason why a function of the journal failed. `docs/journal.md` says what the operator has to do in each case.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The disk has no free space, or the process has no free file descriptor. Nothing was changed; the same call
    /// succeeds once there is space or a descriptor.
    #[error("the disk is full, or too many files are open: no room for {needed_bytes} bytes in {file}")]
    Full {
        /// File that could not be created or extended.
        file: String,
        /// Number of bytes that were requested from the disk.
        needed_bytes: u64,
    },
    /// A write or fdatasync failed earlier. The content of the disk is unknown since then, so the journal refuses to
    /// write.
    #[error(
        "the journal has stopped writing after an error ({cause}); restart the program, which opens the journal again"
    )]
    Poisoned {
        /// Text of the first error.
        cause: Arc<str>,
    },
    /// The disk reported an error.
    #[error("cannot {op} {file}: {source}")]
    Io {
        /// Operation that failed.
        op: &'static str,
        /// File that it failed on (`.` is the directory).
        file: String,
        /// The disk's error.
        source: io::Error,
    },
    /// Another process has the directory open, or this process already has it open.
    #[error(
        "{} is in use: another process holds its lock; stop that process, or give another directory",
        path.display()
    )]
    Locked {
        /// The directory or its lock file.
        path: PathBuf,
    },
    /// The directory cannot be used.
    #[error("{0}")]
    Directory(#[source] DataDirError),
    /// The directory contains no journal.
    #[error("there is no journal here; give the data directory of a ledger or table")]
    NoJournal,
    /// The directory contains no journal, but its marker shows that a server has used it.
    #[error(
        "{}. Restore the files; or remove the directory if it never had data. To begin with an empty journal there, \
         run `lineside journal repair` (for a table: `lineside column repair`)",
        emptied(path)
    )]
    Emptied {
        /// The directory.
        path: PathBuf,
    },
    /// A journal was to be created in a directory that already contains one.
    #[error("a journal exists here already: {file}; open it, or give another directory")]
    Exists {
        /// Name of a file of the existing journal.
        file: String,
    },
    /// Bytes that had been durable are changed.
    #[error(
        "{}: {what}; restore the file from a copy, or run `lineside journal repair`, which keeps as many records as \
         possible",
        at(file, *offset, *lsn)
    )]
    Damaged {
        /// The segment or snapshot.
        file: String,
        /// Offset of the damage in bytes.
        offset: u64,
        /// Number of the record that should be there.
        lsn: Lsn,
        /// Description of the damage.
        what: &'static str,
    },
    /// Records that had been durable are in no file: a segment, or the end of the journal, is missing.
    #[error(
        "{}; restore the segments of these records from a copy, or run `lineside journal repair`",
        missing(*from, *to, file)
    )]
    Missing {
        /// First missing record.
        from: Lsn,
        /// Last missing record.
        to: Lsn,
        /// File that shows that the records are missing.
        file: String,
    },
    /// The file `acknowledged` names a record that is not complete in the last segment: acknowledged records are lost.
    #[error(
        "{file}: damaged at byte {offset}: {}; restore the file, or run `lineside journal repair` to continue without \
         these records",
        not_whole(*from, *to)
    )]
    EndLost {
        /// Name of the last segment.
        file: String,
        /// Offset in bytes at which the last complete record of this segment ends.
        offset: u64,
        /// First lost record.
        from: Lsn,
        /// Last acknowledged record.
        to: Lsn,
    },
    /// A repair was interrupted, or its report was not confirmed.
    #[error("a repair of this journal did not end, or its report could not be written; run the repair again")]
    Unrepaired,
    /// Two files contain the same records.
    #[error(
        "{file}: {}; restore the right files, or run `lineside journal repair`, which keeps each record once",
        of_other(other)
    )]
    Duplicate {
        /// Name of the file whose content belongs to another file.
        file: String,
        /// Name of the other file that contains the records.
        other: String,
    },
    /// The file belongs to another journal.
    #[error("{file} belongs to journal {found:016x}, not to {expected:016x}; move it to another directory")]
    Foreign {
        /// The file.
        file: String,
        /// Id of the journal that the file belongs to.
        found: u64,
        /// Id of the journal that the other files belong to.
        expected: u64,
    },
    /// The file has a layout version that this program does not know.
    #[error(
        "{file} has layout version {found}, but this program reads version {}; use the version of Lineside that wrote \
         the file",
        crate::VERSION
    )]
    Version {
        /// The file.
        file: String,
        /// Layout version of the file.
        found: u32,
    },
    /// The payload is longer than the journal accepts.
    #[error("the record has {bytes} bytes of payload; the maximum is {max_bytes}")]
    RecordTooLarge {
        /// Length of the payload in bytes.
        bytes: u64,
        /// Maximum, from `Options::record_bytes_max`.
        max_bytes: u64,
    },
    /// The caller has not yet returned the group from [`Journal::begin_commit`](crate::Journal::begin_commit).
    #[error("the previous group is still being written; end its commit first")]
    UnderWay,
    /// The open group has no room for the record: commit the group, then repeat the call.
    #[error("the group would have {bytes} bytes, and the maximum is {max_bytes}; commit first")]
    GroupFull {
        /// Length of the group including the record, in bytes.
        bytes: u64,
        /// Maximum, from `Options::group_bytes_max`.
        max_bytes: u64,
    },
    /// The requested record was pruned.
    #[error("record {lsn} was pruned; the journal begins with record {first}")]
    Pruned {
        /// Requested record.
        lsn: Lsn,
        /// First record of the journal.
        first: Lsn,
    },
    /// The requested record is not durable yet, or does not exist.
    #[error("record {lsn} does not exist; the last durable record is {durable}")]
    NotThere {
        /// Requested record.
        lsn: Lsn,
        /// Last durable record.
        durable: Lsn,
    },
    /// Pruning was requested, but no intact snapshot replaces the records.
    #[error("record {lsn} is not pruned: no intact snapshot covers it; write a snapshot first")]
    NoSnapshot {
        /// Last record to be pruned.
        lsn: Lsn,
    },
    /// The options contradict each other.
    #[error("journal options: {what}")]
    BadOptions {
        /// The contradiction.
        what: &'static str,
    },
}

/// Returns the operator's text for missing records: `from` to `to` are in no segment, although `file` shows that they
/// existed.
pub(crate) fn missing(from: Lsn, to: Lsn, file: &str) -> String {
    let (records, them) = match from == to {
        true => (format!("record {to} is missing"), "it"),
        false => (format!("records {from} to {to} are missing"), "them"),
    };
    match lsn_of(file, ".log") {
        Some(_) => format!("{records}: no segment before {file} contains {them}"),
        None => {
            let existed = if from == to { "it" } else { "they" };
            format!(
                "{records}: no segment contains {them}, although the file `{file}` shows that {existed} existed"
            )
        }
    }
}

/// Returns the operator's text for a directory whose journal is gone.
pub(crate) fn emptied(path: &Path) -> String {
    format!(
        "{} has no journal, although the marker in this directory says that a server has used it: the journal's files \
         were removed, or the first start of the server did not end",
        path.display()
    )
}

/// Returns the operator's text for the place of damage in a file.
fn at(file: &str, offset: u64, lsn: Lsn) -> String {
    match lsn {
        0 => format!("{file} is damaged"),
        _ => format!("{file} is damaged at byte {offset}, where record {lsn} belongs"),
    }
}

/// Returns the operator's text for a segment that contains records of the segment `other`.
pub(crate) fn of_other(other: &str) -> String {
    format!(
        "it contains records that belong to {other}: one is a copy of the other, or their names were exchanged"
    )
}

/// Returns the operator's text for acknowledged records that are lost: the journal no longer has all of the records
/// `from` to `to`.
pub(crate) fn not_whole(from: Lsn, to: Lsn) -> String {
    match from == to {
        true => format!("record {to} was acknowledged, but is not complete"),
        false => format!("records {from} to {to} were acknowledged, but are not complete"),
    }
}

impl Error {
    /// Returns true if the files on the disk must be repaired or restored before the journal can be opened: another try
    /// meets the same error. False for errors that can pass, such as a full disk.
    pub const fn needs_repair(&self) -> bool {
        matches!(
            self,
            Self::Emptied { .. }
                | Self::Damaged { .. }
                | Self::Missing { .. }
                | Self::EndLost { .. }
                | Self::Unrepaired
                | Self::Duplicate { .. }
                | Self::Foreign { .. }
                | Self::Version { .. }
        )
    }

    /// Returns a function that wraps an error of the disk, with the operation and the file that failed.
    pub(crate) fn io(op: &'static str, file: &str) -> impl FnOnce(io::Error) -> Error + use<> {
        let file = file.to_string();
        move |source| Error::Io { op, file, source }
    }

    /// Wraps the reason why a directory cannot be used.
    pub(crate) fn directory(error: DataDirError) -> Self {
        match error {
            DataDirError::Locked { path } => Error::Locked { path },
            DataDirError::Io { op, path, source } => Error::io(op, &path.display().to_string())(source),
            other => Error::Directory(other),
        }
    }
}
