//! Limits of a table's memory and of its cells.

/// Maximum size of a cell's value in bytes.
pub const CELL_BYTES_MAX: usize = 128 << 10;

/// Limits of the memory of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum bytes of rows. For a table in memory, these are all of its rows. For a table in a directory, these are
    /// its cache and the rows that are not in files yet.
    pub rows_bytes: usize,
    /// Maximum bytes for remembered changes. Half of it is for nonces, of which at most the newest 65,536 are
    /// remembered; the rest is for results. A change whose result was dropped is not executed again as long as its
    /// nonce is known.
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
