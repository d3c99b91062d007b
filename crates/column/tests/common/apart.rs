//! A table whose rows are held by two servers.

use lineside_column::table::{
    Cell, Change, Changed, ColumnName, Found, Holder, Nonce, Stretch, Table, TableError,
};
use std::sync::Arc;

/// A table in which one server holds the rows up to `m`, and another one the rest.
#[derive(Debug)]
pub struct Apart(pub Arc<dyn Table>);

impl Table for Apart {
    fn get(&self, key: &[u8], columns: &[ColumnName]) -> Result<Vec<Option<Cell>>, TableError> {
        self.0.get(key, columns)
    }

    fn scan(&self, stretch: &Stretch, columns: &[ColumnName]) -> Result<Vec<Found>, TableError> {
        self.0.scan(stretch, columns)
    }

    fn holder(&self, key: &[u8]) -> Option<Holder> {
        let is_first = key < b"m".as_slice();
        Some(Holder {
            server: if is_first { 1 } else { 2 },
            end: is_first.then(|| b"m".to_vec()),
        })
    }

    fn scan_of(
        &self,
        holder: &Holder,
        stretch: &Stretch,
        columns: &[ColumnName],
    ) -> Result<(Vec<Found>, bool), TableError> {
        let is_of_holder = self.holder(&stretch.low).as_ref() == Some(holder);
        Ok((self.scan(stretch, columns)?, is_of_holder))
    }

    fn now_ms(&self) -> u64 {
        self.0.now_ms()
    }

    fn change(
        &self,
        key: &[u8],
        column: &ColumnName,
        change: &Change,
        nonce: Nonce,
    ) -> Result<Changed, TableError> {
        self.0.change(key, column, change, nonce)
    }
}
