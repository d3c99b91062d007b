//! Changes of one cell, and their results.

use super::Cell;

/// Change of one cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Sets the value. The second field is the cell's lifetime in milliseconds; if it is `None`, the family's setting
    /// applies.
    Put(Vec<u8>, Option<u64>),
    /// Removes the cell.
    Delete,
    /// Adds a number to the value, which must be a signed big-endian number of 8 bytes. The sum wraps. A missing cell
    /// counts as 0.
    Increment(i64),
    /// Appends bytes to the value. A missing cell counts as empty.
    Append(Vec<u8>),
    /// Sets the value to `value` if it equals `expected`.
    CheckAndPut {
        /// Expected value; `None` expects that there is no cell.
        expected: Option<Vec<u8>>,
        /// New value.
        value: Vec<u8>,
    },
}

/// Result of a change that did not fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeOutcome {
    /// The change was made.
    Done,
    /// The change was made, and this is the new content of the cell.
    Now(Cell),
    /// Nothing was changed, because the cell did not have the expected value.
    Mismatch,
}
