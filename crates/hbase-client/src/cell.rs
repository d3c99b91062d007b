//! Cells, and the cells that a scan finds.

/// Content of one column in one row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Value.
    pub value: Vec<u8>,
    /// Version of the cell: milliseconds since 1970 by the table's clock.
    pub timestamp_ms: u64,
    /// Time at which the cell expires, by the same clock; `None` if it does not expire or HBase does not return it.
    pub expires_ms: Option<u64>,
}

/// Cell found by a scan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundCell {
    /// Row key.
    pub key: Vec<u8>,
    /// Index of its column among the requested columns.
    pub column: usize,
    /// Content of the cell.
    pub cell: Cell,
}
