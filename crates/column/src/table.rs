//! The trait [`Table`]: a wide table as the host needs it, independent of its storage.
//!
//! The types of cells, changes, ranges and errors come from the HBase client, which is one of the implementations.

mod hbase;

use std::fmt;

pub use lineside_hbase_client::{
    Cell, Change, ChangeOutcome, ColumnName, FoundCell, NAME_BYTES_MAX, Nonce, ROW_BYTES_MAX, RegionOwner,
    ScanRange, TableError,
};

/// A wide table. Each call is atomic for each row: a read sees one state of a row, and a change is visible completely
/// or not at all, and to everyone who reads after it was acknowledged.
pub trait Table: Send + Sync + fmt::Debug {
    /// Returns the cells of one row, in the order of `columns`.
    ///
    /// # Errors
    /// See [`TableError`].
    fn get(&self, key: &[u8], columns: &[ColumnName]) -> Result<Vec<Option<Cell>>, TableError>;

    /// Returns the cells of the rows of `range`, row by row, each row's in the order of `columns`. A row that exists
    /// during the whole scan is found; a row that is added, removed or changed meanwhile is found in one of its states.
    ///
    /// # Errors
    /// See [`TableError`].
    fn scan(&self, range: &ScanRange, columns: &[ColumnName]) -> Result<Vec<FoundCell>, TableError>;

    /// Changes one cell. A repetition with the same `nonce`, while the table remembers it, changes nothing and returns
    /// the result of the first execution.
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

    /// Returns the owner of the rows from `key` on, or `None` if it is not known now.
    fn owner(&self, _key: &[u8]) -> Option<RegionOwner> {
        Some(RegionOwner::default())
    }

    /// Like [`Table::scan`]; also returns true if `owner` answered for all rows before its end.
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

    /// Discards the cached owner of a region, because the caller does not know the server that the table returned. The
    /// table looks up the owner again next time.
    fn forget_owner(&self) {}

    /// Returns the time to live of cells in `column` in milliseconds, or `None` if only the cells themselves set one.
    fn family_ttl_ms(&self, _column: &ColumnName) -> Option<u64> {
        None
    }

    /// Discards the cached description of the table, such as times to live, because it may have changed.
    fn forget_description(&self) {}

    /// Returns the time in milliseconds since 1970 of the clock of the cells' timestamps.
    fn now_ms(&self) -> u64;
}
