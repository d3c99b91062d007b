//! Set of contents that each row had while a read of it was in progress.
//!
//! The versions of a row follow each other: 0, which is absent, then 1, 2, …. Two numbers are kept for each row: the
//! highest version that was ever begun, and the highest version that an answer has reported. A read that was sent after
//! that answer must not show a lower version, and a read that was answered before a version was begun must not show
//! that version. With versions in one order, this is linearizability for each row.
//! one order this is linearizability, row by row.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// Bytes of a value: the maximum of the paper's format.
const VALUE_BYTES: usize = 18;
/// Last byte of a value; it is not zero, so that the paper's format keeps it.
const END: u8 = 0x5a;

/// Meaning of a row's versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Every fourth version is a delete; writers take turns.
    Turns,
    /// Each version replaces the previous one by check-and-put; writers race. Only version 0 is absent.
    Races,
    /// Odd versions are puts with a short life; even versions are the absence after their expiry.
    Ends,
    /// The row is always absent.
    Never,
}

impl Kind {
    /// Returns the kind of row `row`.
    pub(super) const fn of(row: usize) -> Self {
        // An expiring row keeps its whole block out of the fast path for a while, so not every block has one.
        match row % 16 {
            2 => Self::Ends,
            0 | 3 | 6 | 8 | 11 | 14 => Self::Turns,
            1 | 4 | 9 | 12 => Self::Races,
            _ => Self::Never,
        }
    }

    /// Returns whether the row is absent in that version.
    pub(super) const fn is_absent(self, version: u64) -> bool {
        match self {
            Self::Turns => version.is_multiple_of(4),
            Self::Races => version == 0,
            Self::Ends => version.is_multiple_of(2),
            Self::Never => true,
        }
    }

    /// Returns the lowest version from `floor` on in which the row is absent.
    const fn next_absent(self, floor: u64) -> Option<u64> {
        match self {
            Self::Turns => Some(floor.next_multiple_of(4)),
            Self::Ends => Some(floor.next_multiple_of(2)),
            Self::Races | Self::Never => {
                if floor == 0 {
                    Some(0)
                } else {
                    None
                }
            }
        }
    }
}

/// State of one row in one column.
#[derive(Debug, Default)]
pub(super) struct Row {
    begun: AtomicU64,
    told: AtomicU64,
    /// For [`Kind::Ends`]: the expiry of the newest odd version by the table's clock, and that version.
    ends_ms: AtomicU64,
    pub(super) turn: Mutex<()>,
}

/// Fault of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The content was true, but no longer when the request was sent.
    Stale,
    /// The content was never true, or was not true yet.
    Wrong,
}

impl Row {
    /// Notes that version `version` may become visible.
    pub(super) fn begin(&self, version: u64) {
        self.begun.fetch_max(version, SeqCst);
    }

    /// Notes that an answer has reported this version.
    pub(super) fn tell(&self, version: u64) {
        self.told.fetch_max(version, SeqCst);
    }

    pub(super) fn told(&self) -> u64 {
        self.told.load(SeqCst)
    }

    /// Notes that the newest version was put at `now_ms` at the latest, and expires at `ends_ms`.
    pub(super) fn ends(&self, ends_ms: u64) {
        self.ends_ms.store(ends_ms, SeqCst);
    }

    /// Returns the lowest version that a read sent now may show.
    pub(super) fn floor(&self, kind: Kind, now_ms: u64) -> u64 {
        let told = self.told();
        let ends_ms = self.ends_ms.load(SeqCst);
        let is_over = kind == Kind::Ends && !told.is_multiple_of(2) && ends_ms != 0 && now_ms >= ends_ms;
        // A writer that puts the row again begins after that time, and announces it first.
        if is_over && self.told() == told && self.ends_ms.load(SeqCst) == ends_ms {
            return told + 1;
        }
        told
    }

    /// Checks an answer to a request that was sent at `floor`; `shown` is the version in it, or `None` if the row was
    /// absent.
    pub(super) fn check(&self, kind: Kind, floor: u64, shown: Option<u64>) -> Result<(), Fault> {
        let begun = self.begun.load(SeqCst);
        let reached = match shown {
            Some(version) if kind.is_absent(version) || version > begun => return Err(Fault::Wrong),
            Some(version) if version < floor => return Err(Fault::Stale),
            Some(version) => version,
            None => match kind.next_absent(floor) {
                Some(version) if version <= begun => version,
                // The row was absent once, at least in version 0.
                _ => return Err(Fault::Stale),
            },
        };
        self.tell(reached);
        Ok(())
    }
}

/// Returns the value of a version; the value names its row.
pub(super) fn value(row: usize, column: usize, version: u64) -> Vec<u8> {
    let mut value = Vec::with_capacity(VALUE_BYTES);
    value.extend_from_slice(&version.to_be_bytes());
    value.extend_from_slice(&(row as u32).to_be_bytes());
    value.push(column as u8);
    value.extend_from_slice(&sum(version, row, column).to_be_bytes());
    value.push(END);
    value
}

/// Returns the version in a value, if the value is complete and of this row.
pub(super) fn version(row: usize, column: usize, bytes: &[u8]) -> Option<u64> {
    let version = u64::from_be_bytes(bytes.get(..8)?.try_into().ok()?);
    (bytes == value(row, column, version)).then_some(version)
}

fn sum(version: u64, row: usize, column: usize) -> u32 {
    let mixed =
        (version ^ ((row as u64) << 32) ^ ((column as u64) << 56)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 32) as u32
}

/// Returns the key of a row: four bytes, as in the paper.
pub(super) fn key(row: usize) -> Vec<u8> {
    format!("{row:04}").into_bytes()
}

/// Returns the row of a key.
pub(super) fn row(key: &[u8]) -> Option<usize> {
    let text = std::str::from_utf8(key).ok().filter(|text| text.len() == 4)?;
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_correct_answer_lies_between_the_acknowledged_and_the_begun_version() {
        let row = Row::default();
        let check = |floor, shown| row.check(Kind::Turns, floor, shown);
        assert_eq!(check(0, None), Ok(()));
        assert_eq!(check(0, Some(1)), Err(Fault::Wrong));
        (1..=5).for_each(|version| row.begin(version));
        assert_eq!(check(0, Some(2)), Ok(()));
        assert_eq!(row.told(), 2);
        assert_eq!(check(2, Some(1)), Err(Fault::Stale));
        // Version 4 is a delete: an absent row is correct once that version may have been reached, but a value with
        // version 4 never is.
        assert_eq!(check(2, None), Ok(()));
        assert_eq!(row.told(), 4);
        assert_eq!(check(2, Some(4)), Err(Fault::Wrong));
        // Version 5 was reported: version 4 is over, and version 8 has not begun.
        row.tell(5);
        assert_eq!(check(row.floor(Kind::Turns, 0), None), Err(Fault::Stale));
        assert_eq!(row.check(Kind::Races, 1, None), Err(Fault::Stale));
    }

    #[test]
    fn an_expired_version_is_stale() {
        let row = Row::default();
        row.begin(2);
        row.tell(1);
        row.ends(100);
        assert_eq!(row.floor(Kind::Ends, 99), 1);
        assert_eq!(row.floor(Kind::Ends, 100), 2);
        assert_eq!(row.check(Kind::Ends, 2, Some(1)), Err(Fault::Stale));
        assert_eq!(row.check(Kind::Ends, 2, None), Ok(()));
    }

    #[test]
    fn a_value_of_another_row_or_a_torn_value_has_no_version() {
        let bytes = value(7, 1, 300);
        assert_eq!((bytes.len(), version(7, 1, &bytes)), (VALUE_BYTES, Some(300)));
        assert_eq!(version(8, 1, &bytes), None);
        assert_eq!(version(7, 0, &bytes), None);
        let mut torn = bytes;
        torn[7] ^= 1;
        assert_eq!(version(7, 1, &torn), None);
        assert_eq!(row(&key(42)), Some(42));
    }
}
