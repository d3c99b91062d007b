//! A table whose scans return only when the test allows it.

use lineside_column::table::{
    Cell, Change, ChangeOutcome, ColumnName, FoundCell, Nonce, ScanRange, Table, TableError,
};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// A table whose scans read at once, but return only while the gate is open.
#[derive(Debug)]
pub struct Gate {
    table: Arc<dyn Table>,
    is_closed: Mutex<bool>,
    opened: Condvar,
    /// Number of scans that have begun.
    pub scans: AtomicUsize,
}

impl Gate {
    pub fn before(table: Arc<dyn Table>) -> Self {
        Self {
            table,
            is_closed: Mutex::default(),
            opened: Condvar::new(),
            scans: AtomicUsize::default(),
        }
    }

    pub fn close(&self, is_closed: bool) {
        *self.is_closed.lock().unwrap_or_else(PoisonError::into_inner) = is_closed;
        self.opened.notify_all();
    }
}

impl Table for Gate {
    fn get(&self, key: &[u8], columns: &[ColumnName]) -> Result<Vec<Option<Cell>>, TableError> {
        self.table.get(key, columns)
    }

    fn scan(&self, range: &ScanRange, columns: &[ColumnName]) -> Result<Vec<FoundCell>, TableError> {
        let found = self.table.scan(range, columns);
        self.scans.fetch_add(1, Relaxed);
        let closed = self.is_closed.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.opened.wait_while(closed, |closed| *closed));
        found
    }

    fn change(
        &self,
        key: &[u8],
        column: &ColumnName,
        change: &Change,
        nonce: Nonce,
    ) -> Result<ChangeOutcome, TableError> {
        self.table.change(key, column, change, nonce)
    }

    fn now_ms(&self) -> u64 {
        self.table.now_ms()
    }
}
