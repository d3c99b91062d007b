//! Cells of a table, and cells that a scan returns.

/// Content of one column in one row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Value.
    pub value: Vec<u8>,
    /// Timestamp of the cell, which HBase calls its version: milliseconds since 1970 by the table's clock.
    pub timestamp_ms: u64,
    /// Time at which the cell expires, in milliseconds since 1970 by the same clock. `None` if the cell does not
    /// expire, or if HBase does not return the time.
    pub expires_ms: Option<u64>,
}

/// Cell that a scan returns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundCell {
    /// Key of the row.
    pub key: Vec<u8>,
    /// Index of the cell's column in the list of requested columns.
    pub column: usize,
    /// Content of the cell.
    pub cell: Cell,
}
