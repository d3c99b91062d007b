//! Limits of what a table keeps in memory, and of its cells.

/// Maximum number of bytes of a cell's value.
pub const CELL_BYTES_MAX: usize = 128 << 10;

/// Bytes of memory that a table may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the rows of a table in memory; of a table in a directory, of its cache and of the rows that are not in
    /// its files of rows yet.
    pub rows_bytes: usize,
    /// Bytes of remembered changes: half of them for their nonces, of which the newest 65,536 are remembered at most,
    /// the rest for their results. A change whose result is forgotten is not made again as long as its nonce is known.
    pub nonces_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            rows_bytes: 32 << 20,
            nonces_bytes: 16 << 20,
        }
    }
}
