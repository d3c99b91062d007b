//! A table whose rows belong to two servers.

use lineside_column::table::{
    Cell, Change, ChangeOutcome, ColumnName, FoundCell, Nonce, RegionOwner, ScanRange, Table, TableError,
};
use std::sync::Arc;

/// A table in which one server holds the rows before `m`, and another server holds the rest.
#[derive(Debug)]
pub struct Apart(pub Arc<dyn Table>);

impl Table for Apart {
    fn get(&self, key: &[u8], columns: &[ColumnName]) -> Result<Vec<Option<Cell>>, TableError> {
        self.0.get(key, columns)
    }

    fn scan(&self, range: &ScanRange, columns: &[ColumnName]) -> Result<Vec<FoundCell>, TableError> {
        self.0.scan(range, columns)
    }

    fn owner(&self, key: &[u8]) -> Option<RegionOwner> {
        let is_first = key < b"m".as_slice();
        Some(RegionOwner {
            server: if is_first { 1 } else { 2 },
            end: is_first.then(|| b"m".to_vec()),
        })
    }

    fn scan_from_owner(
        &self,
        owner: &RegionOwner,
        range: &ScanRange,
        columns: &[ColumnName],
    ) -> Result<(Vec<FoundCell>, bool), TableError> {
        let is_from_owner = self.owner(&range.low).as_ref() == Some(owner);
        Ok((self.scan(range, columns)?, is_from_owner))
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
    ) -> Result<ChangeOutcome, TableError> {
        self.0.change(key, column, change, nonce)
    }
}
