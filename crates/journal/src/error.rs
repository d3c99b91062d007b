//! What can go wrong, and in which file.

use crate::Lsn;
use lineside_util::data_dir::DataDirError;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// Result of the journal's calls.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong. `docs/journal.md` says what to do about each.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The disk has no space for it, or the process no descriptor. Nothing was changed; the same call works when there
    /// is one again.
    #[error("the disk is full, or too many files are open: no room for {needed_bytes} bytes in {file}")]
    Full {
        /// The file that could not be made or grown.
        file: String,
        /// Bytes asked of the disk.
        needed_bytes: u64,
    },
    /// A write or fdatasync failed earlier: what is on the disk is unknown, so nothing more is written.
    #[error("the journal has stopped writing after an error ({cause}); open it again")]
    Poisoned {
        /// The first error, as text.
        cause: Arc<str>,
    },
    /// The disk refused.
    #[error("{op} {file}: {source}")]
    Io {
        /// What was tried.
        op: &'static str,
        /// On which file (`.` is the directory).
        file: String,
        /// The disk's error.
        source: io::Error,
    },
    /// Another process, or this one, has the directory open.
    #[error("{} is in use: another process holds its lock", path.display())]
    Locked {
        /// The directory or its lock file.
        path: PathBuf,
    },
    /// The directory cannot be used.
    #[error(transparent)]
    Directory(DataDirError),
    /// There is no journal in the directory.
    #[error("there is no journal here")]
    NoJournal,
    /// There is no journal in a directory in which there was one, or was about to be.
    #[error(
        "{} has no journal, although its marker says that a server has used it: its files were removed, or its first \
         start did not end. Bring the files back; if nothing was ever kept here, remove the directory",
        path.display()
    )]
    Emptied {
        /// The directory.
        path: PathBuf,
    },
    /// There is a journal already where a new one was to be made.
    #[error("there is a journal already: {file}")]
    Exists {
        /// One of its files.
        file: String,
    },
    /// Bytes that were durable are not what was written.
    #[error(
        "{file}: damaged at byte {offset}, where lsn {lsn} belongs: {what}; `lineside journal repair` \
         keeps what stands before it"
    )]
    Damaged {
        /// The segment or snapshot.
        file: String,
        /// Where in it.
        offset: u64,
        /// The record that should be there.
        lsn: Lsn,
        /// What is wrong with it.
        what: &'static str,
    },
    /// Records that were durable are in no file: a segment or the journal's end is missing.
    #[error("records {from} to {to} are missing, before {file}; bring their segments back, or `repair`")]
    Missing {
        /// The first that is missing.
        from: Lsn,
        /// The last that is missing.
        to: Lsn,
        /// The file that shows it.
        file: String,
    },
    /// Records that were acknowledged, as the file `acknowledged` says, are not whole at the journal's end.
    #[error(
        "{file}: damaged at byte {offset}: {}; bring the file back, or `lineside journal repair` gives up what is lost",
        not_whole(*from, *to)
    )]
    EndLost {
        /// The last segment.
        file: String,
        /// Where its last whole record ends.
        offset: u64,
        /// The first record that is lost.
        from: Lsn,
        /// The last record that was acknowledged.
        to: Lsn,
    },
    /// Two files hold the same records.
    #[error("{file} holds records that {other} holds too; take one of them away")]
    Duplicate {
        /// The file that is one too many.
        file: String,
        /// The other one.
        other: String,
    },
    /// A file of another journal.
    #[error("{file} belongs to journal {found:016x}, not to {expected:016x}; take it away")]
    Foreign {
        /// The file.
        file: String,
        /// Its journal.
        found: u64,
        /// The journal of the other files.
        expected: u64,
    },
    /// A file of a layout that this program does not know.
    #[error("{file} has layout version {found}; this program reads {}", crate::VERSION)]
    Version {
        /// The file.
        file: String,
        /// Its version.
        found: u32,
    },
    /// A record longer than the journal takes.
    #[error("a record of {bytes} bytes; the journal takes at most {max_bytes}")]
    RecordTooLarge {
        /// Its payload.
        bytes: u64,
        /// `Options::record_bytes_max`.
        max_bytes: u64,
    },
    /// The group before is still on its way to the disk.
    #[error("the group before is still on its way to the disk")]
    UnderWay,
    /// The group cannot take this as well: commit, then call again.
    #[error("the group would have {bytes} bytes, at most {max_bytes}; commit first")]
    GroupFull {
        /// The group with it.
        bytes: u64,
        /// `Options::group_bytes_max`.
        max_bytes: u64,
    },
    /// Records asked for were pruned.
    #[error("record {lsn} was pruned; the journal begins with {first}")]
    Pruned {
        /// The record asked for.
        lsn: Lsn,
        /// The first there is.
        first: Lsn,
    },
    /// Records asked for are not durable yet, or do not exist.
    #[error("record {lsn} is not there; the last durable one is {durable}")]
    NotThere {
        /// The record asked for.
        lsn: Lsn,
        /// The last durable record.
        durable: Lsn,
    },
    /// No whole snapshot stands for what was to be pruned.
    #[error("no whole snapshot covers record {lsn}, so it is not pruned")]
    NoSnapshot {
        /// The last record to be pruned.
        lsn: Lsn,
    },
    /// Options that cannot work together.
    #[error("journal options: {what}")]
    BadOptions {
        /// Which, and why.
        what: &'static str,
    },
}

/// Text for an operator: the records `from` to `to` were acknowledged, and the journal no longer has them whole.
pub(crate) fn not_whole(from: Lsn, to: Lsn) -> String {
    match from == to {
        true => format!("record {to} was acknowledged, and is not whole"),
        false => format!("records {from} to {to} were acknowledged, and are not whole"),
    }
}

impl Error {
    /// Wraps the disk's error.
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
