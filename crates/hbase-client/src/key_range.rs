//! Ranges of row keys.

/// Maximum length in bytes of a row key in Lineside's packets, where one byte holds it. Reverse scans by
/// [`thrift2`](crate::thrift2) rely on it; HBase itself allows longer keys.
pub const ROW_BYTES_MAX: usize = 255;

/// Range of rows that a scan requests, in the order in which they are returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScanRange {
    /// Lowest row, which belongs to the range.
    pub low: Vec<u8>,
    /// Upper bound, which does not belong to the range; `None` if the range goes to the end of the table.
    pub high: Option<Vec<u8>>,
    /// Maximum number of rows; a row counts once, with any number of columns.
    pub limit: usize,
    /// True if the scan begins at the highest row and descends.
    pub reverse: bool,
}
