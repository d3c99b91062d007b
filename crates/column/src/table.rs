//! The trait [`Table`]: a wide table, as the host uses it. Its implementations store the rows in different ways.
//!
//! The types of cells, changes, ranges and errors come from the crate `lineside-hbase-client`, because HBase is one of
//! the implementations.

mod hbase;
pub(crate) mod late;

use std::fmt;

pub use lineside_hbase_client::{
    Cell, Change, ChangeOutcome, ColumnName, FoundCell, NAME_BYTES_MAX, Nonce, ROW_BYTES_MAX, RegionOwner,
    ScanRange, TableError,
};

/// A wide table. Each call is atomic for each row: a read sees one state of a row, and a change is visible completely
/// or not at all. Every read that begins after a change was acknowledged sees the change.
pub trait Table: Send + Sync + fmt::Debug {
    /// Returns the cells of one row, in the order of `columns`.
    ///
    /// # Errors
    /// See [`TableError`].
    fn get(&self, key: &[u8], columns: &[ColumnName]) -> Result<Vec<Option<Cell>>, TableError>;

    /// Returns the cells of the rows of `range`, ordered by row; the cells of a row are in the order of `columns`. The
    /// result has every row that exists during the whole scan. A row that is added, removed or changed during the scan
    /// appears in one of its states.
    ///
    /// # Errors
    /// See [`TableError`].
    fn scan(&self, range: &ScanRange, columns: &[ColumnName]) -> Result<Vec<FoundCell>, TableError>;

    /// Changes one cell. While the table remembers `nonce`, a repeated call with it changes nothing and returns the
    /// result of the first call.
    ///
    /// # Errors
    /// See [`TableError`].
    fn change(
        &self,
        key: &[u8],
        column: &ColumnName,
        change: &Change,
        nonce: Nonce,
    ) -> Result<ChangeOutcome, TableError>;

    /// Returns the owner of the rows from `key` on: a server, and the end of the region. Returns `None` if it is not
    /// known.
    fn owner(&self, _key: &[u8]) -> Option<RegionOwner> {
        Some(RegionOwner::default())
    }

    /// Like [`Table::scan`]; also returns true if `owner` has answered for all rows before the end of its region.
    ///
    /// # Errors
    /// See [`TableError`].
    fn scan_from_owner(
        &self,
        _holder: &RegionOwner,
        range: &ScanRange,
        columns: &[ColumnName],
    ) -> Result<(Vec<FoundCell>, bool), TableError> {
        Ok((self.scan(range, columns)?, true))
    }

    /// Discards the cached owner of the region that was looked up last. A caller does this if it does not know the
    /// server in it. The next call of [`Table::owner`] looks the region up again.
    fn forget_owner(&self) {}

    /// Returns the time to live in milliseconds of cells in `column`; `None` if cells live until their own expiry, if
    /// any.
    fn family_ttl_ms(&self, _column: &ColumnName) -> Option<u64> {
        None
    }

    /// Discards the cached description of the table (such as times to live), because it may have changed.
    fn forget_description(&self) {}

    /// Returns the present time of the clock that sets the timestamps of cells, in milliseconds since 1970.
    fn now_ms(&self) -> u64;
}
