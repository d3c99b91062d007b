//! The embedded table, which needs no other software. Its rows are in memory or in a directory. In a directory, a
//! change is durable before readers can see it.
//!
//! For every change, the table calls its [`ChangeListener`] before the change becomes visible and after it. So a fast
//! path over this table is never stale.

mod disk;
mod limits;
mod memory;
mod nonces;

pub use disk::{Repaired, UnconfirmedRepair, repair};
pub use limits::{CELL_BYTES_MAX, Limits};

use crate::table::{
    Cell, Change, ChangeOutcome, ColumnName, FoundCell, NAME_BYTES_MAX, Nonce, ROW_BYTES_MAX, ScanRange,
    Table, TableError,
};
use lineside_journal::FsDisk;
use lineside_util::data_dir::Kind;
use nonces::Nonces;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::ops::{Bound, ControlFlow};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// Number of locks for writers. Each row belongs to one of the locks.
const ROW_LOCKS: usize = 64;
/// Number of bytes of a stored cell before its value: timestamp, then expiry (0: never), both in milliseconds since
/// 1970.
const HEAD_BYTES: usize = 16;

/// Listener for changes of the table.
pub trait ChangeListener: Send + Sync + fmt::Debug {
    /// Begins a change of `column` in row `key`; called before the change becomes visible. The result is passed to
    /// [`ChangeListener::end_write`]. Other writers of the row wait until this function returns.
    fn begin_write(&self, key: &[u8], column: &ColumnName) -> u64;

    /// Ends a change; called when every reader sees it, or when it will never be made.
    fn end_write(&self, intent: u64);
}

/// Clock for the timestamps of cells, in milliseconds since 1970.
pub type Clock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// Function that is called with the place and the stored bytes of each cell. Its result decides whether to continue.
type Visit<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> ControlFlow<()>;

/// Consistent view of all cells. A cell's place is the name of its column followed by the key of its row.
trait View {
    fn get(&self, place: &[u8]) -> Result<Option<Vec<u8>>, TableError>;

    /// Passes the cells within `bounds` to `visit`, in the order of places, until `visit` returns `Break`.
    fn range(
        &self,
        bounds: (Bound<&[u8]>, Bound<&[u8]>),
        reverse: bool,
        visit: Visit<'_>,
    ) -> Result<(), TableError>;
}

/// Storage of the cells.
trait CellStore: Send + Sync + fmt::Debug {
    /// Calls `act` with a consistent view of the cells.
    fn read(&self, act: &mut dyn FnMut(&dyn View) -> Result<(), TableError>) -> Result<(), TableError>;

    /// Stores the bytes `stored` at `place`, or removes the cell if they are `None`. When this returns, every reader
    /// sees the change. No reader sees it before it is durable.
    fn write(&self, place: Vec<u8>, stored: Option<Vec<u8>>) -> Result<(), TableError>;

    /// Returns the reason why the store takes no more changes; `None` if it takes changes.
    fn failed(&self) -> Option<String> {
        None
    }

    /// Returns the reason why the store refuses changes until there is space on the disk; `None` if it takes changes.
    fn full(&self) -> Option<String> {
        None
    }

    /// Returns the number of bytes of rows that are only in memory.
    fn bytes(&self) -> usize {
        0
    }
}

/// Kind of a table's data directory, as its marker file records it.
pub const KIND: Kind = Kind::new("column", 1);

/// A wide table that Lineside itself stores.
pub struct Embedded {
    cell_store: Box<dyn CellStore>,
    rows: Vec<Mutex<()>>,
    row_hasher: RandomState,
    nonces: Nonces,
    clock: Clock,
    ttls_ms: Vec<(Vec<u8>, u64)>,
    listener: OnceLock<Arc<dyn ChangeListener>>,
}

impl fmt::Debug for Embedded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Embedded")
            .field("cell_store", &self.cell_store)
            .finish_non_exhaustive()
    }
}

/// Returns the system's clock.
pub fn system_clock() -> Clock {
    Arc::new(|| {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        since.map_or(0, |since| since.as_millis() as u64)
    })
}

impl Embedded {
    /// Returns a table in memory without a limit on its rows. It is lost when the process ends.
    pub fn in_memory(clock: Clock) -> Self {
        let limits = Limits {
            rows_bytes: usize::MAX,
            ..Limits::default()
        };
        Self::in_memory_within(&limits, clock)
    }

    /// Returns a table in memory of limited size. It is lost when the process ends.
    pub fn in_memory_within(limits: &Limits, clock: Clock) -> Self {
        Self::over(Box::new(memory::Memory::new(limits.rows_bytes)), limits, clock)
    }

    /// Opens the table in `directory`, which only one process can do at a time.
    ///
    /// # Errors
    /// [`TableError::Refused`] if it cannot be opened or read.
    pub fn open(directory: &Path, clock: Clock) -> Result<Self, TableError> {
        Self::open_within(directory, &Limits::default(), clock)
    }

    /// Opens the table in `directory` with limits on its memory. Only one process can do so at a time.
    ///
    /// # Errors
    /// [`TableError::Refused`] if it cannot be opened or read.
    pub fn open_within(directory: &Path, limits: &Limits, clock: Clock) -> Result<Self, TableError> {
        let claimed = FsDisk::claim(directory, &KIND);
        let disk = claimed.map_err(|error| TableError::Refused(error.to_string()))?;
        Self::open_on(disk, limits, clock)
    }

    /// Opens the table in a directory that was claimed with [`KIND`].
    ///
    /// # Errors
    /// [`TableError::Refused`] if it cannot be opened or read.
    pub fn open_on(disk: FsDisk, limits: &Limits, clock: Clock) -> Result<Self, TableError> {
        let cell_store = Box::new(disk::Disk::open(disk, limits)?);
        Ok(Self::over(cell_store, limits, clock))
    }

    /// Returns two numbers of bytes: of the remembered results of changes, and of rows that are only in memory.
    pub fn kept_bytes(&self) -> (usize, usize) {
        (self.nonces.bytes(), self.cell_store.bytes())
    }

    /// Returns the reason why the table takes no changes until the next start; `None` if it takes changes.
    pub fn failed(&self) -> Option<String> {
        self.cell_store.failed()
    }

    /// Returns the reason why the table refuses changes until there is space on its disk; `None` if there is space.
    pub fn full(&self) -> Option<String> {
        self.cell_store.full()
    }

    fn over(cell_store: Box<dyn CellStore>, limits: &Limits, clock: Clock) -> Self {
        Self {
            cell_store,
            rows: (0..ROW_LOCKS).map(|_| Mutex::default()).collect(),
            row_hasher: RandomState::new(),
            nonces: Nonces::new(limits.nonces_bytes),
            clock,
            ttls_ms: Vec::new(),
            listener: OnceLock::new(),
        }
    }

    /// Sets the time to live of cells in `family`, in milliseconds.
    #[must_use]
    pub fn with_ttl(mut self, family: &[u8], ttl_ms: u64) -> Self {
        self.ttls_ms.push((family.to_vec(), ttl_ms));
        self
    }

    /// Sets the listener that is called for every later change. Has no effect if the table already has a listener.
    pub fn set_listener(&self, listener: Arc<dyn ChangeListener>) {
        let _ = self.listener.set(listener);
    }

    fn row_lock(&self, key: &[u8]) -> MutexGuard<'_, ()> {
        let lock = &self.rows[self.row_hasher.hash_one(key) as usize % ROW_LOCKS];
        lock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a change that the caller has decided under the row's lock.
    fn write(&self, key: &[u8], column: &ColumnName, cell: Option<&Cell>) -> Result<(), TableError> {
        let intent = self
            .listener
            .get()
            .map(|listener| (listener, listener.begin_write(key, column)));
        let written = self.cell_store.write(place(column, key), cell.map(stored));
        if let Some((listener, intent)) = intent {
            listener.end_write(intent);
        }
        written
    }

    fn cell(&self, key: &[u8], column: &ColumnName) -> Result<Option<Cell>, TableError> {
        Ok(self.get(key, std::slice::from_ref(column))?.pop().flatten())
    }

    /// Returns a new cell with `value`, which replaces a cell with the timestamp `before_ms`. The new cell lives for
    /// `ttl_ms` or for the family's time to live, whichever is shorter.
    fn new_cell(&self, column: &ColumnName, value: Vec<u8>, before_ms: u64, ttl_ms: Option<u64>) -> Cell {
        let now_ms = (self.clock)();
        let ttl_ms = [ttl_ms, self.family_ttl_ms(column)].into_iter().flatten().min();
        Cell {
            value,
            // If the clock goes back, the new version must still not be older than the one that it replaces.
            timestamp_ms: now_ms.max(before_ms),
            expires_ms: ttl_ms.map(|ttl_ms| now_ms.saturating_add(ttl_ms).max(1)),
        }
    }
}

impl Table for Embedded {
    fn get(&self, key: &[u8], columns: &[ColumnName]) -> Result<Vec<Option<Cell>>, TableError> {
        let now_ms = (self.clock)();
        let mut cells = Vec::with_capacity(columns.len());
        self.cell_store.read(&mut |view| {
            for column in columns {
                let found = view.get(&place(column, key))?;
                cells.push(found.and_then(|bytes| alive(&bytes, now_ms)));
            }
            Ok(())
        })?;
        Ok(cells)
    }

    fn scan(&self, range: &ScanRange, columns: &[ColumnName]) -> Result<Vec<FoundCell>, TableError> {
        let now_ms = (self.clock)();
        let mut found: Vec<FoundCell> = Vec::new();
        if range.high.as_ref().is_some_and(|high| *high <= range.low) {
            return Ok(found);
        }
        self.cell_store.read(&mut |view| {
            for (index, column) in columns.iter().enumerate() {
                let mut left = range.limit;
                let low = place(column, &range.low);
                let high = match &range.high {
                    Some(high) => place(column, high),
                    None => behind(column),
                };
                let bounds = (Bound::Included(&low[..]), Bound::Excluded(&high[..]));
                view.range(bounds, range.reverse, &mut |at, bytes| {
                    if left == 0 {
                        return ControlFlow::Break(());
                    }
                    if let Some(cell) = alive(bytes, now_ms) {
                        left -= 1;
                        let key = at[PLACE_HEAD_BYTES..].to_vec();
                        found.push(FoundCell {
                            key,
                            column: index,
                            cell,
                        });
                    }
                    ControlFlow::Continue(())
                })?;
            }
            Ok(())
        })?;
        if columns.len() > 1 {
            merge(&mut found, range);
        }
        Ok(found)
    }

    fn change(
        &self,
        key: &[u8],
        column: &ColumnName,
        change: &Change,
        nonce: Nonce,
    ) -> Result<ChangeOutcome, TableError> {
        if key.is_empty() || key.len() > ROW_BYTES_MAX {
            return Err(TableError::Refused("a row key must have 1 to 255 bytes".into()));
        }
        let _row = self.row_lock(key);
        if let Some(before) = self.nonces.before(nonce) {
            return before;
        }
        let before = self.cell(key, column)?;
        let before_ms = before.as_ref().map_or(0, |cell| cell.timestamp_ms);
        let new = |value, ttl_ms| self.new_cell(column, value, before_ms, ttl_ms);
        let (cell, changed) = match change {
            Change::Put(value, ttl_ms) => (Some(new(value.clone(), *ttl_ms)), ChangeOutcome::Done),
            Change::Delete => (None, ChangeOutcome::Done),
            Change::Increment(by) => {
                let held = before.as_ref().map_or(Ok([0; 8]), |cell| number(&cell.value))?;
                let sum = i64::from_be_bytes(held).wrapping_add(*by);
                let cell = new(sum.to_be_bytes().to_vec(), None);
                (Some(cell.clone()), ChangeOutcome::Now(cell))
            }
            Change::Append(tail) => {
                let mut value = before.as_ref().map_or_else(Vec::new, |cell| cell.value.clone());
                value.extend_from_slice(tail);
                let cell = new(value, None);
                (Some(cell.clone()), ChangeOutcome::Now(cell))
            }
            Change::CheckAndPut { expected, value } => {
                if before.as_ref().map(|cell| &cell.value) != expected.as_ref() {
                    self.nonces.keep(nonce, &ChangeOutcome::Mismatch);
                    return Ok(ChangeOutcome::Mismatch);
                }
                (Some(new(value.clone(), None)), ChangeOutcome::Done)
            }
        };
        if let Some(cell) = &cell
            && cell.value.len() > CELL_BYTES_MAX
        {
            let bytes = cell.value.len();
            return Err(TableError::TooLong(format!(
                "the value would have {bytes} bytes, and the maximum is {CELL_BYTES_MAX}"
            )));
        }
        if cell.is_some() || before.is_some() {
            self.write(key, column, cell.as_ref())?;
        }
        self.nonces.keep(nonce, &changed);
        Ok(changed)
    }

    fn family_ttl_ms(&self, column: &ColumnName) -> Option<u64> {
        let (family, _) = column.split();
        let mut ttls = self.ttls_ms.iter().filter(|(name, _)| name == family);
        ttls.next().map(|(_, ttl_ms)| *ttl_ms)
    }

    fn now_ms(&self) -> u64 {
        (self.clock)()
    }
}

/// Number of bytes of a place before the row's key: the padded name of the column.
const PLACE_HEAD_BYTES: usize = NAME_BYTES_MAX;

/// Returns the place of a cell. Places are ordered by column, then by row.
fn place(column: &ColumnName, key: &[u8]) -> Vec<u8> {
    [&column.padded()[..], key].concat()
}

/// Returns a place after all rows of a column. Its key has more bytes 0xff than any row key.
fn behind(column: &ColumnName) -> Vec<u8> {
    place(column, &[0xff; ROW_BYTES_MAX + 1])
}

fn stored(cell: &Cell) -> Vec<u8> {
    let expires_ms = cell.expires_ms.unwrap_or(0);
    [
        &cell.timestamp_ms.to_be_bytes()[..],
        &expires_ms.to_be_bytes(),
        &cell.value,
    ]
    .concat()
}

/// Decodes a stored cell. Returns `None` if it has expired.
fn alive(stored: &[u8], now_ms: u64) -> Option<Cell> {
    let (head, value) = stored.split_at_checked(HEAD_BYTES)?;
    let word = |at: usize| {
        head.get(at..at + 8)
            .and_then(|word| word.try_into().ok())
            .map_or(0, u64::from_be_bytes)
    };
    let expires_ms = Some(word(8)).filter(|expires_ms| *expires_ms != 0);
    expires_ms
        .is_none_or(|expires_ms| now_ms < expires_ms)
        .then(|| Cell {
            value: value.to_vec(),
            timestamp_ms: word(0),
            expires_ms,
        })
}

fn number(value: &[u8]) -> Result<[u8; 8], TableError> {
    let bytes = value.try_into();
    bytes.map_err(|_| TableError::NotANumber)
}

/// Sorts the cells by row, then by column, and removes the rows beyond the limit.
fn merge(found: &mut Vec<FoundCell>, range: &ScanRange) {
    found.sort_by(|one, other| {
        let rows = one.key.cmp(&other.key);
        let rows = if range.reverse { rows.reverse() } else { rows };
        rows.then(one.column.cmp(&other.column))
    });
    let mut rows = 0;
    let mut end = 0;
    while end < found.len() {
        if end == 0 || found[end].key != found[end - 1].key {
            rows += 1;
        }
        if rows > range.limit {
            break;
        }
        end += 1;
    }
    found.truncate(end);
}
