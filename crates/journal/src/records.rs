//! Replay.

use crate::Lsn;
use crate::disk::Disk;
use crate::error::{Error, Result};

/// A record, as it lies in the reader's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Its number.
    pub lsn: Lsn,
    /// The caller's kind.
    pub kind: u8,
    /// The caller's bytes.
    pub payload: &'a [u8],
    /// First record number of the segment that holds it; `<20 digits>.log` is the file's name.
    pub segment: Lsn,
    /// Where in the segment it begins.
    pub offset: u64,
}

/// Reads records in order, checks each, and holds a few MiB at most.
pub struct Records<D: Disk> {
    disk: D,
}

impl<D: Disk> Records<D> {
    /// The next record, or `None` after the last.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::Missing`] or [`Error::Io`]; from then on always `None`.
    #[allow(
        clippy::should_implement_trait,
        reason = "it lends its buffer, which no `Iterator` can"
    )]
    pub fn next(&mut self) -> Result<Option<Record<'_>>> {
        let _ = &self.disk;
        Err(Error::NoJournal)
    }
}

/// Shows each record from `from` on (or from the first there is) to `show`, of a journal that nobody has open; reads
/// only, and stops at the journal's end or at the first damage.
///
/// # Errors
/// As [`Journal::open`](crate::Journal::open) and [`Records::next`].
pub fn dump<D: Disk>(disk: &D, from: Lsn, show: impl FnMut(Record<'_>)) -> Result<()> {
    let _ = (disk, from, show);
    Err(Error::NoJournal)
}
