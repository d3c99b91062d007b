//! What the host needs of a wide table, whoever keeps it.
//!
//! The words for it (cells, changes, ranges, errors) are those of the HBase client, which is one of its keepers.

mod hbase;

use std::fmt;

pub use lineside_hbase_client::{
    Cell, Change, Changed, ColumnName, Found, Holder, NAME_BYTES_MAX, Nonce, ROW_BYTES_MAX, Stretch,
    TableError,
};

/// A wide table. Each call is one whole action: what it reads of one row is of one moment; a change is seen whole or
/// not at all, and by everyone who asks after it was answered.
pub trait Table: Send + Sync + fmt::Debug {
    /// The cells of one row, in the order of `columns`.
    ///
    /// # Errors
    /// See [`TableError`].
    fn get(&self, key: &[u8], columns: &[ColumnName]) -> Result<Vec<Option<Cell>>, TableError>;

    /// The cells of the rows of `stretch`, row by row, each row's in the order of `columns`. Rows that were there all
    /// the while are found; of rows that come, go or change meanwhile, one state.
    ///
    /// # Errors
    /// See [`TableError`].
    fn scan(&self, stretch: &Stretch, columns: &[ColumnName]) -> Result<Vec<Found>, TableError>;

    /// Changes one cell. The same `nonce` again, within the time that the table remembers it, changes nothing and is
    /// answered as before.
    ///
    /// # Errors
    /// See [`TableError`].
    fn change(
        &self,
        key: &[u8],
        column: &ColumnName,
        change: &Change,
        nonce: Nonce,
    ) -> Result<Changed, TableError>;

    /// Who holds the rows from `key` on; `None`: nobody can say now.
    fn holder(&self, _key: &[u8]) -> Option<Holder> {
        Some(Holder::default())
    }

    /// [`Table::scan`], and whether `holder` answered of all rows before its end.
    ///
    /// # Errors
    /// See [`TableError`].
    fn scan_of(
        &self,
        _holder: &Holder,
        stretch: &Stretch,
        columns: &[ColumnName],
    ) -> Result<(Vec<Found>, bool), TableError> {
        Ok((self.scan(stretch, columns)?, true))
    }

    /// Nobody knows the holder that it named: it looks again, next time.
    fn look_anew(&self) {}

    /// How long anything in `column` lives at most, in milliseconds; `None`: as long as its cells say.
    fn family_ttl_ms(&self, _column: &ColumnName) -> Option<u64> {
        None
    }

    /// What is known of the table beside its rows may be another from now on: it is asked for again.
    fn describe_anew(&self) {}

    /// Milliseconds since 1970 by the clock of the cells' timestamps.
    fn now_ms(&self) -> u64;
}
