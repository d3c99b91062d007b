//! Table that could not be opened when the server started. A thread opens it later; until then, requests are refused.

use super::{
    Cell, Change, ChangeOutcome, ColumnName, FoundCell, Nonce, RegionOwner, ScanRange, Table, TableError,
};
use crate::embedded::system_clock;
use std::fmt;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

/// Function that opens the table.
pub type OpenTable = Box<dyn Fn() -> Result<Arc<dyn Table>, TableError> + Send>;

/// Table that a thread tries to open again and again. Once it is open, every call goes to it.
pub struct LateTable {
    shared: Arc<Shared>,
    /// Ends the thread when it is dropped.
    _end: Sender<()>,
}

struct Shared {
    table: OnceLock<Arc<dyn Table>>,
    /// Reason why the last attempt failed.
    why: Mutex<String>,
}

impl fmt::Debug for LateTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.shared.table.get() {
            Some(table) => table.fmt(f),
            None => f.write_str("LateTable"),
        }
    }
}

impl LateTable {
    /// Returns the table that `open` opens. `why` is the reason why the first attempt failed; a thread repeats it after
    /// each `pause` until it succeeds or fails for good.
    pub fn new(open: OpenTable, why: String, pause: Duration) -> Self {
        let shared = Arc::new(Shared {
            table: OnceLock::new(),
            why: Mutex::new(why),
        });
        let (end, ended) = channel();
        let opened = Arc::clone(&shared);
        thread::spawn(move || {
            while ended.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                match open() {
                    Ok(table) => {
                        tracing::info!("column: the table was opened");
                        let _ = opened.table.set(Arc::clone(&table));
                        // A request to forget the description, which came while the table was being opened, reached no
                        // table. Later requests reach this one.
                        table.forget_description();
                        return;
                    }
                    Err(error) => {
                        *opened.why.lock().unwrap_or_else(PoisonError::into_inner) = reason(&error);
                    }
                }
            }
        });
        Self { shared, _end: end }
    }

    /// Returns the reason why the table is not open; `None` if it is.
    pub fn fault(&self) -> Option<String> {
        match self.shared.table.get() {
            Some(_) => None,
            None => Some(
                self.shared
                    .why
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .clone(),
            ),
        }
    }

    fn table(&self) -> Result<&Arc<dyn Table>, TableError> {
        let not_open = || TableError::Unavailable(self.fault().unwrap_or_default());
        self.shared.table.get().ok_or_else(not_open)
    }
}

/// Returns the reason in an error, without the words that each error of its kind has.
pub fn reason(error: &TableError) -> String {
    match error {
        TableError::Unavailable(why) | TableError::Refused(why) => why.clone(),
        other => other.to_string(),
    }
}

impl Table for LateTable {
    fn get(&self, key: &[u8], columns: &[ColumnName]) -> Result<Vec<Option<Cell>>, TableError> {
        self.table()?.get(key, columns)
    }

    fn scan(&self, range: &ScanRange, columns: &[ColumnName]) -> Result<Vec<FoundCell>, TableError> {
        self.table()?.scan(range, columns)
    }

    fn change(
        &self,
        key: &[u8],
        column: &ColumnName,
        change: &Change,
        nonce: Nonce,
    ) -> Result<ChangeOutcome, TableError> {
        self.table()?.change(key, column, change, nonce)
    }

    fn owner(&self, key: &[u8]) -> Option<RegionOwner> {
        self.table().ok()?.owner(key)
    }

    fn scan_from_owner(
        &self,
        owner: &RegionOwner,
        range: &ScanRange,
        columns: &[ColumnName],
    ) -> Result<(Vec<FoundCell>, bool), TableError> {
        self.table()?.scan_from_owner(owner, range, columns)
    }

    fn forget_owner(&self) {
        if let Ok(table) = self.table() {
            table.forget_owner();
        }
    }

    /// Returns 0 while the table is not open, so that nothing is cached with an unknown time to live.
    fn family_ttl_ms(&self, column: &ColumnName) -> Option<u64> {
        match self.table() {
            Ok(table) => table.family_ttl_ms(column),
            Err(_) => Some(0),
        }
    }

    fn forget_description(&self) {
        if let Ok(table) = self.table() {
            table.forget_description();
        }
    }

    fn now_ms(&self) -> u64 {
        self.table()
            .map_or_else(|_| system_clock()(), |table| table.now_ms())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embedded::Embedded;
    use std::sync::atomic::{AtomicUsize, Ordering};

    const NONCE: Nonce = Nonce { group: 1, number: 1 };

    #[test]
    fn requests_are_refused_until_the_table_is_open_and_reach_it_afterwards() {
        let attempts = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&attempts);
        let open: OpenTable = Box::new(move || match counted.fetch_add(1, Ordering::SeqCst) {
            0..3 => Err(TableError::Unavailable("attempt refused".into())),
            _ => Ok(Arc::new(Embedded::in_memory(system_clock())) as _),
        });
        let table = LateTable::new(open, "first attempt refused".into(), Duration::from_millis(50));
        let column = ColumnName::new(b"entry:foo").expect("a name");
        let refused = table.get(b"k", &[column]);
        assert_eq!(
            refused,
            Err(TableError::Unavailable("first attempt refused".into()))
        );
        assert_eq!(table.family_ttl_ms(&column), Some(0));
        assert!(table.owner(b"k").is_none() && table.now_ms() > 0);
        let change = || table.change(b"k", &column, &Change::Put(b"v".to_vec(), None), NONCE);
        assert_eq!(
            change(),
            Err(TableError::Unavailable("first attempt refused".into()))
        );
        while let Some(why) = table.fault() {
            assert!(why.ends_with("attempt refused"), "{why}");
            thread::yield_now();
        }
        assert_eq!(attempts.load(Ordering::SeqCst), 4);
        assert!(change().is_ok());
        let found = table.get(b"k", &[column]).expect("a row");
        assert_eq!(found[0].as_ref().map(|cell| &cell.value[..]), Some(&b"v"[..]));
        assert_ne!(table.family_ttl_ms(&column), Some(0));
    }

    #[test]
    fn dropping_the_table_ends_its_thread() {
        let attempts = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&attempts);
        let open: OpenTable = Box::new(move || {
            counted.fetch_add(1, Ordering::SeqCst);
            Err(TableError::Unavailable("no".into()))
        });
        drop(LateTable::new(open, "no".into(), Duration::from_secs(3600)));
        // The thread owns a reference until it ends.
        while Arc::strong_count(&attempts) > 1 {
            thread::yield_now();
        }
        assert_eq!(attempts.load(Ordering::SeqCst), 0);
    }
}
