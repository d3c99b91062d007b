//! Implementation of the trait [`Table`] for the clients of HBase. Each method calls the client's method of the same
//! name.

use super::{
    Cell, Change, ChangeOutcome, ColumnName, FoundCell, Nonce, RegionOwner, ScanRange, Table, TableError,
};
use lineside_hbase_client::rpc::HBase;
use lineside_hbase_client::thrift2::Thrift2;

impl Table for HBase {
    fn get(&self, key: &[u8], columns: &[ColumnName]) -> Result<Vec<Option<Cell>>, TableError> {
        HBase::get(self, key, columns)
    }

    fn scan(&self, range: &ScanRange, columns: &[ColumnName]) -> Result<Vec<FoundCell>, TableError> {
        HBase::scan(self, range, columns)
    }

    fn change(
        &self,
        key: &[u8],
        column: &ColumnName,
        change: &Change,
        nonce: Nonce,
    ) -> Result<ChangeOutcome, TableError> {
        HBase::change(self, key, column, change, nonce)
    }

    fn owner(&self, key: &[u8]) -> Option<RegionOwner> {
        HBase::owner(self, key)
    }

    fn scan_from_owner(
        &self,
        owner: &RegionOwner,
        range: &ScanRange,
        columns: &[ColumnName],
    ) -> Result<(Vec<FoundCell>, bool), TableError> {
        HBase::scan_from_owner(self, owner, range, columns)
    }

    fn forget_owner(&self) {
        HBase::forget_owner(self);
    }

    fn family_ttl_ms(&self, column: &ColumnName) -> Option<u64> {
        HBase::family_ttl_ms(self, column)
    }

    fn forget_description(&self) {
        HBase::forget_description(self);
    }

    fn now_ms(&self) -> u64 {
        HBase::now_ms(self)
    }
}

/// A Thrift gateway does not report which server holds a row, so this uses the default methods of the trait for owners.
impl Table for Thrift2 {
    fn get(&self, key: &[u8], columns: &[ColumnName]) -> Result<Vec<Option<Cell>>, TableError> {
        Thrift2::get(self, key, columns)
    }

    fn scan(&self, range: &ScanRange, columns: &[ColumnName]) -> Result<Vec<FoundCell>, TableError> {
        Thrift2::scan(self, range, columns)
    }

    fn change(
        &self,
        key: &[u8],
        column: &ColumnName,
        change: &Change,
        nonce: Nonce,
    ) -> Result<ChangeOutcome, TableError> {
        Thrift2::change(self, key, column, change, nonce)
    }

    fn family_ttl_ms(&self, column: &ColumnName) -> Option<u64> {
        Thrift2::family_ttl_ms(self, column)
    }

    fn forget_description(&self) {
        Thrift2::forget_description(self);
    }

    fn now_ms(&self) -> u64 {
        Thrift2::now_ms(self)
    }
}
