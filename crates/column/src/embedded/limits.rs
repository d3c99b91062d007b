//! Limits on a table's memory and on the length of its cells.

/// Maximum number of bytes of a cell's value.
pub const CELL_BYTES_MAX: usize = 128 << 10;

/// Limits on the memory of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of bytes of rows. For a table in memory, these are all its rows. For a table in a directory,
    /// these are its cache and the rows that are not in files yet.
    pub rows_bytes: usize,
    /// Maximum number of bytes for remembered changes. Half of it is for nonces, of which at most the newest 65,536 are
    /// remembered; the rest is for results. As long as a change's nonce is remembered, the change is not executed
    /// again, even if its result was dropped.
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
