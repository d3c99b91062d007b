//! Ranges of row keys.

/// Maximum length in bytes of a row key in Lineside's packets, which have one byte for the length. HBase allows longer
/// keys.
pub const ROW_BYTES_MAX: usize = 255;

/// Range of rows that a scan reads, and the order in which it returns them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScanRange {
    /// Lowest row of the range (inclusive).
    pub low: Vec<u8>,
    /// Upper bound of the range (exclusive); `None` if the range extends to the end of the table.
    pub high: Option<Vec<u8>>,
    /// Maximum number of rows. A row counts once, whatever number of columns it has.
    pub limit: usize,
    /// True if the scan begins at the highest row and continues in descending order.
    pub reverse: bool,
}
