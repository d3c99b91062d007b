//! Implements the table of `column` for HBase. Each method calls the client's method of the same name.

use super::{Cell, Change, Changed, ColumnName, Found, Holder, Nonce, Stretch, Table, TableError};
use lineside_hbase_client::rpc::HBase;
use lineside_hbase_client::thrift2::Thrift2;

impl Table for HBase {
    fn get(&self, key: &[u8], columns: &[ColumnName]) -> Result<Vec<Option<Cell>>, TableError> {
        HBase::get(self, key, columns)
    }

    fn scan(&self, stretch: &Stretch, columns: &[ColumnName]) -> Result<Vec<Found>, TableError> {
        HBase::scan(self, stretch, columns)
    }

    fn change(
        &self,
        key: &[u8],
        column: &ColumnName,
        change: &Change,
        nonce: Nonce,
    ) -> Result<Changed, TableError> {
        HBase::change(self, key, column, change, nonce)
    }

    fn holder(&self, key: &[u8]) -> Option<Holder> {
        HBase::holder(self, key)
    }

    fn scan_of(
        &self,
        holder: &Holder,
        stretch: &Stretch,
        columns: &[ColumnName],
    ) -> Result<(Vec<Found>, bool), TableError> {
        HBase::scan_of(self, holder, stretch, columns)
    }

    fn look_anew(&self) {
        HBase::look_anew(self);
    }

    fn family_ttl_ms(&self, column: &ColumnName) -> Option<u64> {
        HBase::family_ttl_ms(self, column)
    }

    fn describe_anew(&self) {
        HBase::describe_anew(self);
    }

    fn now_ms(&self) -> u64 {
        HBase::now_ms(self)
    }
}

/// A gateway does not report which server holds a row, so the default methods of the trait are used for that.
impl Table for Thrift2 {
    fn get(&self, key: &[u8], columns: &[ColumnName]) -> Result<Vec<Option<Cell>>, TableError> {
        Thrift2::get(self, key, columns)
    }

    fn scan(&self, stretch: &Stretch, columns: &[ColumnName]) -> Result<Vec<Found>, TableError> {
        Thrift2::scan(self, stretch, columns)
    }

    fn change(
        &self,
        key: &[u8],
        column: &ColumnName,
        change: &Change,
        nonce: Nonce,
    ) -> Result<Changed, TableError> {
        Thrift2::change(self, key, column, change, nonce)
    }

    fn family_ttl_ms(&self, column: &ColumnName) -> Option<u64> {
        Thrift2::family_ttl_ms(self, column)
    }

    fn describe_anew(&self) {
        Thrift2::describe_anew(self);
    }

    fn now_ms(&self) -> u64 {
        Thrift2::now_ms(self)
    }
}
