//! Set of the contents that each row had while a read of the row was in progress.
//!
//! The versions of a row follow each other: 0, in which the row is absent, then 1, 2, …. Two numbers are stored for
//! each row: the highest version that a writer has begun, and the highest version that an answer has reported. A read
//! that was sent after that answer must not show a lower version. A read that was answered before a version was begun
//! must not show that version. Because the versions have one order, this is linearizability for each row.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// Size of a value in bytes: the maximum of the paper's format.
const VALUE_BYTES: usize = 18;
/// Last byte of a value. It is not zero, because the paper's format removes zeros at the end.
const END: u8 = 0x5a;

/// Rule by which the versions of a row change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Every fourth version is a delete. The writers take turns.
    Turns,
    /// Each version replaces the previous one by check-and-put. The writers race. Only in version 0 the row is absent.
    Races,
    /// Odd versions are puts with a short lifetime; in even versions the row is absent, because the put has expired.
    Ends,
    /// The row is absent in all versions.
    Never,
}

impl Kind {
    /// Returns the kind of row `row`.
    pub(super) const fn of(row: usize) -> Self {
        // An expiring row keeps its whole block out of the fast-path table for a while, so only some blocks have one.
        match row % 16 {
            2 => Self::Ends,
            0 | 3 | 6 | 8 | 11 | 14 => Self::Turns,
            1 | 4 | 9 | 12 => Self::Races,
            _ => Self::Never,
        }
    }

    /// Returns whether the row is absent in this version.
    pub(super) const fn is_absent(self, version: u64) -> bool {
        match self {
            Self::Turns => version.is_multiple_of(4),
            Self::Races => version == 0,
            Self::Ends => version.is_multiple_of(2),
            Self::Never => true,
        }
    }

    /// Returns the lowest version, beginning with `floor`, in which the row is absent.
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
    /// Two values for [`Kind::Ends`]: the time in milliseconds at which the newest odd version expires by the table's
    /// clock, and that version.
    ends_ms: AtomicU64,
    pub(super) turn: Mutex<()>,
}

/// Fault of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The table had the content, but no longer when the request was sent.
    Stale,
    /// The table never had the content, or did not have it yet.
    Wrong,
}

impl Row {
    /// Records that version `version` may become visible from now on.
    pub(super) fn begin(&self, version: u64) {
        self.begun.fetch_max(version, SeqCst);
    }

    /// Records that an answer has reported this version.
    pub(super) fn tell(&self, version: u64) {
        self.told.fetch_max(version, SeqCst);
    }

    pub(super) fn told(&self) -> u64 {
        self.told.load(SeqCst)
    }

    /// Records the time at which the newest version, which was put now or earlier, expires, in milliseconds.
    pub(super) fn ends(&self, ends_ms: u64) {
        self.ends_ms.store(ends_ms, SeqCst);
    }

    /// Returns the lowest version that a read may show if it is sent now.
    pub(super) fn floor(&self, kind: Kind, now_ms: u64) -> u64 {
        let told = self.told();
        let ends_ms = self.ends_ms.load(SeqCst);
        let is_over = kind == Kind::Ends && !told.is_multiple_of(2) && ends_ms != 0 && now_ms >= ends_ms;
        // A writer that puts the row again begins after the expiry, and announces its version first.
        if is_over && self.told() == told && self.ends_ms.load(SeqCst) == ends_ms {
            return told + 1;
        }
        told
    }

    /// Checks the answer to a request; `floor` is the lowest version that it may show. `shown` is the version in the
    /// answer, or `None` if the row was absent.
    pub(super) fn check(&self, kind: Kind, floor: u64, shown: Option<u64>) -> Result<(), Fault> {
        let begun = self.begun.load(SeqCst);
        let reached = match shown {
            Some(version) if kind.is_absent(version) || version > begun => return Err(Fault::Wrong),
            Some(version) if version < floor => return Err(Fault::Stale),
            Some(version) => version,
            None => match kind.next_absent(floor) {
                Some(version) if version <= begun => version,
                // The row was absent earlier, at least in version 0.
                _ => return Err(Fault::Stale),
            },
        };
        self.tell(reached);
        Ok(())
    }
}

/// Returns the value that a row has in a version. The value contains the number of the row.
pub(super) fn value(row: usize, column: usize, version: u64) -> Vec<u8> {
    let mut value = Vec::with_capacity(VALUE_BYTES);
    value.extend_from_slice(&version.to_be_bytes());
    value.extend_from_slice(&(row as u32).to_be_bytes());
    value.push(column as u8);
    value.extend_from_slice(&sum(version, row, column).to_be_bytes());
    value.push(END);
    value
}

/// Returns the version in a value; `None` if the value is torn or belongs to another row.
pub(super) fn version(row: usize, column: usize, bytes: &[u8]) -> Option<u64> {
    let version = u64::from_be_bytes(bytes.get(..8)?.try_into().ok()?);
    (bytes == value(row, column, version)).then_some(version)
}

fn sum(version: u64, row: usize, column: usize) -> u32 {
    let mixed =
        (version ^ ((row as u64) << 32) ^ ((column as u64) << 56)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 32) as u32
}

/// Returns the key of a row, which has four bytes as in the paper.
pub(super) fn key(row: usize) -> Vec<u8> {
    format!("{row:04}").into_bytes()
}

/// Returns the row that has this key.
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
        // Version 4 is a delete. An absent row is correct as soon as that version may have been reached, but a value
        // with version 4 is never correct.
        assert_eq!(check(2, None), Ok(()));
        assert_eq!(row.told(), 4);
        assert_eq!(check(2, Some(4)), Err(Fault::Wrong));
        // An answer has reported version 5. Version 4 is therefore over, and version 8 has not begun.
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
