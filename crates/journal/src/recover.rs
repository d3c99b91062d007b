//! Finding the end of a journal.

use crate::Lsn;

/// What opening found, and what it did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Whether the journal was made just now.
    pub created: bool,
    /// The journal's id.
    pub journal_id: u64,
    /// The first record there is (1, or later after pruning); `last_lsn + 1` when there is none.
    pub first_lsn: Lsn,
    /// The last record; 0 when there never was one.
    pub last_lsn: Lsn,
    /// Segments there are.
    pub segments: usize,
    /// Bytes of an unfinished group behind `last_lsn` that were cut, up to its last byte that was not zero.
    pub cut_bytes: u64,
    /// The first record that was cut: it was never acknowledged as durable. `None` when nothing was cut.
    pub cut_lsn: Option<Lsn>,
    /// Where it was cut.
    pub cut_file: Option<String>,
    /// Unfinished files that were removed: a segment or snapshot that had not got its name yet.
    pub removed: Vec<String>,
}
