//! The host of `column`: it answers the requests that the fast path forwards, changes the table, and fills the fast
//! path with the rows that it reads.

mod challenges;
mod sessions;

pub use sessions::SessionUse;

use crate::coherence::{Coherence, ColumnRange, WriteIntent};
use crate::embedded::ChangeListener;
use crate::fill::{ColumnId, Filled, ReadPlan, Row, ServerId};
use crate::key::{Interval, KEY_BYTES_MAX, Key, VALUE_BYTES_MAX};
use crate::servers::Servers;
use crate::table::{
    Cell, Change, ChangeOutcome, ColumnName, FoundCell, Nonce, ROW_BYTES_MAX, RegionOwner, ScanRange, Table,
    TableError,
};
use lineside_fastpath::{DropReason, Host, PAYLOAD_BYTES_MAX, Reader, Reply, Source, Verdict, lease};
use lineside_messages::column::native::{self, Ask, Draft, REPLY_HEAD_BYTES, Rows, Sender};
use lineside_messages::column::paper::{self, PaperRequest};
use lineside_wire::{
    COLUMN_REPLY_LEFT_OUT, COLUMN_REPLY_MAY_BE_STALE, COLUMN_REPLY_MORE, COLUMN_REPLY_NOT_APPLIED,
    COLUMN_SOURCE_HOST, ColumnCode as Code, ColumnSession, NATIVE_REPLY_BIT, NativeHeader, Status,
    native as wire,
};
use sessions::Sessions;
use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use zerocopy::{Immutable, IntoBytes};

/// Maximum number of rows that a scan reads. No packet has room for more.
const SCAN_ROWS_MAX: usize = PAYLOAD_BYTES_MAX / 8;
/// Default memory for sessions in bytes.
const SESSIONS_BYTES: usize = 61 << 20;
/// Default number of seconds after which an unused session may be closed.
pub const SESSION_IDLE_S: u64 = 3600;
/// Maximum difference in nanoseconds between the clocks that are compared. CLOCK_MONOTONIC_COARSE lags by up to one
/// timer tick, or longer if a hypervisor delays the core that counts ticks (a lag of more than 20 ms was measured once
/// in 10^8 answers). The table's clock has a resolution of milliseconds.
pub const CLOCK_SLACK_NS: u64 = 100_000_000;

/// Way in which the fast path learns of changes that other clients make.
#[derive(Clone, Debug)]
pub enum CoherenceMode {
    /// The table itself announces all changes, before and after each of them ([`ChangeAnnouncer`]).
    ByTable,
    /// The table's servers announce all changes with notices.
    ByServers(Arc<Servers>),
    /// No announcements: rows are cached for this time in nanoseconds, and replies carry a flag that they may be stale.
    Ttl(u64),
    /// No announcements, and no rows are cached.
    Uncached,
}

impl CoherenceMode {
    /// Returns true if an answer may be a value that was already replaced in the table.
    pub const fn may_be_stale(&self) -> bool {
        matches!(self, Self::Ttl(_))
    }
}

/// Function that returns true for addresses that may change the table without a session.
pub type Trusted = Box<dyn Fn(IpAddr) -> bool + Send + Sync>;

/// Settings with which a [`ColumnHost`] is created.
pub struct Setup {
    /// Table with the rows.
    pub table: Arc<dyn Table>,
    /// Fast path with its coherence protocol.
    pub coherence: Arc<Coherence>,
    /// Columns that the fast path may cache, in the order of their [`ColumnId`].
    pub columns: Vec<ColumnName>,
    /// Way in which the fast path learns of changes.
    pub coherence_mode: CoherenceMode,
    /// True if the host answers packets of the paper format.
    pub paper_format: bool,
    /// Function that returns true for addresses in `trusted_sources`.
    pub trusted: Trusted,
    /// Memory for sessions in bytes.
    pub sessions_bytes: usize,
    /// Seconds after which an unused session may be closed.
    pub session_idle_s: u64,
    /// Clock in nanoseconds; CLOCK_MONOTONIC except in tests.
    pub clock: fn() -> u64,
}

impl Setup {
    /// Returns settings with the system's clock, with the paper format enabled, and with loopback addresses trusted.
    pub fn new(
        table: Arc<dyn Table>,
        coherence: Arc<Coherence>,
        columns: Vec<ColumnName>,
        coherence_mode: CoherenceMode,
    ) -> Self {
        Self {
            table,
            coherence,
            columns,
            coherence_mode,
            paper_format: true,
            trusted: Box::new(|address| address.is_loopback()),
            sessions_bytes: SESSIONS_BYTES,
            session_idle_s: SESSION_IDLE_S,
            clock: lease::now_ns,
        }
    }
}

/// Host that answers requests from a table and fills a fast path.
pub struct ColumnHost {
    setup: Setup,
    ids: HashMap<ColumnName, ColumnId>,
    sessions: Sessions,
}

impl fmt::Debug for ColumnHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ColumnHost")
            .field("table", &self.setup.table)
            .finish_non_exhaustive()
    }
}

/// Result of a read: cells in order, and true if further rows follow.
struct ReadResult {
    cells: Vec<FoundCell>,
    more: bool,
}

impl ColumnHost {
    /// Creates a host over an empty fast path.
    ///
    /// # Errors
    /// The system's error if it provides no random numbers.
    pub fn new(setup: Setup) -> io::Result<Self> {
        let ids = ids_of(&setup.columns);
        Ok(Self {
            sessions: Sessions::new(setup.sessions_bytes, setup.session_idle_s)?,
            setup,
            ids,
        })
    }

    /// Returns how many sessions are in use.
    pub fn session_use(&self) -> SessionUse {
        self.sessions.usage((self.setup.clock)() / 1_000_000_000)
    }

    fn table(&self) -> &dyn Table {
        self.setup.table.as_ref()
    }

    // ---- reads ----

    /// Returns the cells of one row. If the fast path may cache the column, also reads some neighbouring rows and puts
    /// all of them into the fast path.
    fn get(&self, key: &[u8], columns: &[ColumnName]) -> Result<Vec<FoundCell>, TableError> {
        if let [column] = columns
            && key.len() <= KEY_BYTES_MAX
            && self.ids.contains_key(column)
        {
            let range = ScanRange {
                low: key.to_vec(),
                high: None,
                limit: 1,
                reverse: false,
            };
            if let Some(read) = self.read_and_fill(&range, column) {
                let is_it = |found: &FoundCell| found.key == key;
                return Ok(read?.cells.into_iter().take_while(is_it).collect());
            }
        }
        let cells = self.table().get(key, columns)?;
        let present = cells.into_iter().enumerate().filter_map(|(column, cell)| {
            let key = key.to_vec();
            cell.map(|cell| FoundCell { key, column, cell })
        });
        Ok(present.collect())
    }

    fn scan(&self, range: &ScanRange, columns: &[ColumnName]) -> Result<ReadResult, TableError> {
        if let [column] = columns
            && !range.reverse
            && let Some(read) = self.read_and_fill(range, column)
        {
            return read;
        }
        let one_more = ScanRange {
            limit: range.limit.saturating_add(1),
            ..range.clone()
        };
        let mut cells = self.table().scan(&one_more, columns)?;
        let more = cut(&mut cells, range.limit);
        Ok(ReadResult { cells, more })
    }

    /// Reads a range together with neighbouring rows, and puts the rows into the fast path. Returns `None` if the fast
    /// path cannot cache any of these rows, or if fewer rows were read than requested.
    fn read_and_fill(
        &self,
        range: &ScanRange,
        column: &ColumnName,
    ) -> Option<Result<ReadResult, TableError>> {
        let id = *self.ids.get(column)?;
        let requested = Interval {
            low: Key::new(&range.low)?,
            high: range.high.as_deref().map(Key::new).unwrap_or_default(),
        };
        // If the range ends at a key that is too long for the fast path, the interval is read without an end, and its
        // end is determined by the rows that were read.
        let is_open = requested.high.is_none() && range.high.is_some();
        if requested.is_empty() {
            return None;
        }
        let coherence = &self.setup.coherence;
        let reading = coherence.plan_read(id, &requested, range.limit);
        coherence.join(id, &reading.interval.low);
        if !is_open && let Some((rows, more)) = coherence.cached_rows(id, &requested, range.limit) {
            let cells = rows.into_iter().map(FoundCell::from).collect();
            return Some(Ok(ReadResult { cells, more }));
        }
        let ReadPlan { interval, rows } = reading;
        let (server, owner) = self.server_of(interval.low.as_bytes())?;
        let before_ns = (self.setup.clock)();
        let fill = coherence.begin(id, interval, server)?;
        let one_more = ScanRange {
            low: interval.low.as_bytes().to_vec(),
            high: match is_open {
                true => range.high.clone(),
                false => interval.high.map(|high| high.as_bytes().to_vec()),
            },
            limit: rows.saturating_add(1),
            reverse: false,
        };
        let columns = std::slice::from_ref(column);
        let read = match &owner {
            None => (self.table().scan(&one_more, columns)).map(|found| (found, true)),
            Some(owner) => self.table().scan_from_owner(owner, &one_more, columns),
        };
        let (mut cells, is_from_owner) = match read {
            Ok(read) => read,
            Err(error) => return Some(Err(error)),
        };
        let next_key = cells.get(rows).map(|found| found.key.clone());
        let is_cut = cut(&mut cells, rows);
        if is_from_owner && (is_cut || !is_open) {
            let end = owner.and_then(|owner| owner.end);
            let first_unread = [next_key, end].into_iter().flatten().min();
            let until_ns = self.until_ns(&cells, (id, interval), column, before_ns);
            let (interval, rows) = holdable(&cells, interval, first_unread.as_deref());
            if !interval.is_empty() && (self.setup.clock)() < until_ns {
                fill.finish(&Filled {
                    column: id,
                    interval,
                    rows: &rows,
                    until_ns,
                    server,
                });
            }
        }
        cells.drain(..cells.partition_point(|found| found.key < range.low));
        let is_before = |found: &FoundCell| range.high.as_ref().is_none_or(|high| found.key < *high);
        let count = cells.partition_point(is_before);
        let is_all = !is_cut || count < cells.len();
        cells.truncate(count);
        let is_enough = is_all || cells.len() >= range.limit;
        let more = cut(&mut cells, range.limit) || !is_all;
        is_enough.then_some(Ok(ReadResult { cells, more }))
    }

    /// Returns the number of the server whose lease is needed for the rows from `key` on, and the owner of the region
    /// if rows are attributed to servers. Returns `None` if the rows may not be cached.
    fn server_of(&self, key: &[u8]) -> Option<(ServerId, Option<RegionOwner>)> {
        match &self.setup.coherence_mode {
            CoherenceMode::ByTable | CoherenceMode::Ttl(_) => Some((ServerId(0), None)),
            CoherenceMode::ByServers(servers) => {
                let owner = self.table().owner(key)?;
                let id = servers.id_of(owner.server);
                if id.is_none() {
                    self.table().forget_owner();
                }
                Some((id?, Some(owner)))
            }
            CoherenceMode::Uncached => None,
        }
    }

    /// Returns the CLOCK_MONOTONIC time in nanoseconds before which no cell of `cells` can expire. The cells were read
    /// after `before_ns`.
    fn until_ns(&self, cells: &[FoundCell], read: ColumnRange, column: &ColumnName, before_ns: u64) -> u64 {
        let ttl_ms = self.table().family_ttl_ms(column);
        let end_ms = |cell: &Cell| {
            let by_family = ttl_ms.map(|ttl_ms| cell.timestamp_ms.saturating_add(ttl_ms));
            [cell.expires_ms, by_family].into_iter().flatten().min()
        };
        // HBase does not return a cell's own expiry to readers. Instead, the server at which the cell was written has
        // announced it.
        let by_writer = match &self.setup.coherence_mode {
            CoherenceMode::ByServers(servers) => {
                let ago_ms = (self.setup.clock)().saturating_sub(before_ns) / 1_000_000 + 1;
                let read_ms = self.table().now_ms().saturating_sub(ago_ms);
                servers.first_expiry_ms(read.0, &read.1, read_ms)
            }
            _ => None,
        };
        let mut until_ns = u64::MAX;
        let ends_ms = cells.iter().filter_map(|found| end_ms(&found.cell));
        if let Some(end_ms) = ends_ms.chain(by_writer).min() {
            let left_ms = end_ms.saturating_sub(self.table().now_ms());
            until_ns = before_ns
                .saturating_add(left_ms.saturating_mul(1_000_000))
                .saturating_sub(CLOCK_SLACK_NS);
        }
        match self.setup.coherence_mode {
            CoherenceMode::Ttl(ttl_ns) => until_ns.min(before_ns.saturating_add(ttl_ns)),
            _ => until_ns,
        }
    }

    // ---- changes ----

    fn change(
        &self,
        key: &[u8],
        column: &ColumnName,
        change: &Change,
        nonce: Nonce,
    ) -> Result<ChangeOutcome, TableError> {
        let touched = self.ids.get(column).map(|id| [(*id, Interval::of_row(key))]);
        let intent = touched.map(|touched| self.setup.coherence.begin_write(&touched));
        let changed = self.table().change(key, column, change, nonce);
        if let Some(intent) = intent {
            self.setup.coherence.end_write(intent);
        }
        changed
    }

    // ---- the paper's format ----

    fn paper(&self, from: Source, payload: &[u8]) -> Result<Vec<u8>, Verdict> {
        let is_trusted = (self.setup.trusted)(from.address);
        let Some(request) = PaperRequest::parse(payload) else {
            return match payload.starts_with(b"put") {
                true => Ok(fitting(paper::put_reply(Code::BadRequest), payload)),
                false => Err(Verdict::Drop(DropReason::NotARequest)),
            };
        };
        if payload.len() < request.reply_bytes_min() && !is_trusted {
            return Err(Verdict::Drop(DropReason::NotARequest));
        }
        let reply = match (request.column(), &request) {
            (column, PaperRequest::Put(key, _, value)) => {
                paper::put_reply(self.paper_put(is_trusted, key, column, value))
            }
            // The paper format has no status for an invalid column name, so the reply says that such a column has no
            // rows.
            (None, PaperRequest::Get(..)) => paper::get_reply(None),
            (None, PaperRequest::Scan(..)) => paper::scan_reply(&[], 0, false),
            (Some(_), PaperRequest::Get(key, _)) if key.is_empty() => paper::get_reply(None),
            (Some(column), PaperRequest::Get(key, _)) => {
                let cells = self.get(key, &[column]).or_else(paper_error)?;
                paper::get_reply(cells.first().map(|found| &found.cell))
            }
            (Some(column), PaperRequest::Scan(start, _, stop)) => {
                let room = paper::rows_in(payload.len().max(request.reply_bytes_min()));
                let rows = Rows {
                    start: start.clone(),
                    stop: stop.clone(),
                    stop_inclusive: true,
                    limit: room as u16,
                    ..Rows::default()
                };
                // A stop key of zeros is the empty key. It lies before every row, so the range is empty.
                let range = rows.range().filter(|_| !stop.is_empty());
                match range {
                    None => paper::scan_reply(&[], 0, false),
                    Some(range) => {
                        let read = self.scan(&range, &[column]).or_else(paper_error)?;
                        paper::scan_reply(&read.cells, room, read.more)
                    }
                }
            }
        };
        Ok(fitting(reply, payload))
    }

    fn paper_put(&self, is_trusted: bool, key: &[u8], column: Option<ColumnName>, value: &[u8]) -> Code {
        let Some(column) = column else {
            return Code::UnknownColumn;
        };
        match () {
            () if key.is_empty() => Code::BadRequest,
            () if value.is_empty() => Code::EmptyValue,
            () if !is_trusted => Code::Unauthorised,
            () => match self.change(key, &column, &Change::Put(value.to_vec(), None), Nonce::default()) {
                Ok(_) => Code::Done,
                Err(TableError::UnknownFamily(_)) => Code::UnknownColumn,
                Err(_) => Code::NoTable,
            },
        }
    }

    // ---- the native format ----

    fn native(&self, from: Source, payload: &[u8]) -> Result<Vec<u8>, Verdict> {
        let (header, ask) = match native::parse(payload) {
            Ok(parsed) => parsed,
            Err(status) => {
                let header = header_of(payload).ok_or(Verdict::Drop(DropReason::NotARequest))?;
                return Ok(native::refusal(header, status));
            }
        };
        let reply = match ask {
            Ask::Get(key, columns) => self.native_get(header, payload, &key, &columns),
            Ask::Scan(rows, columns) => self.native_scan(header, payload, &rows, &columns),
            Ask::Change(key, column, change, sender) => {
                let reply = self.native_change(from, header, payload, &key, &column, &change, sender);
                Ok(reply.ok_or(Verdict::Forward)?)
            }
            Ask::Open(asked) => Ok(self.open(from, header, &asked)),
            Ask::Switch(off) => Ok(self.switch(from, header, off)),
        };
        Ok(reply.unwrap_or_else(|error| native::refusal(header, status_of(&error))))
    }

    fn open(&self, from: Source, header: &NativeHeader, asked: &ColumnSession) -> Vec<u8> {
        let now_s = (self.setup.clock)() / 1_000_000_000;
        let is_trusted = (self.setup.trusted)(from.address);
        let id = header.request_id.get();
        match self.sessions.open(from, is_trusted, id, asked, now_s) {
            Ok(session) => reply_bytes(header, &session),
            Err(status) => native::refusal(header, status),
        }
    }

    /// Switches the fast path off or on. Allowed for trusted addresses and for clients on this machine.
    fn switch(&self, from: Source, header: &NativeHeader, off: bool) -> Vec<u8> {
        if !from.address.is_loopback() && !(self.setup.trusted)(from.address) {
            return native::refusal(header, Status::Unauthorised);
        }
        self.setup.coherence.switch(off);
        reply_bytes(header, &native::switch(off))
    }

    /// Returns an empty reply that may become as long as the request.
    fn draft(&self, payload: &[u8]) -> Draft {
        let mut draft = Draft::new(payload.len());
        if self.setup.coherence_mode.may_be_stale() {
            draft.flags |= COLUMN_REPLY_MAY_BE_STALE;
        }
        draft
    }

    fn native_get(
        &self,
        header: &NativeHeader,
        payload: &[u8],
        key: &[u8],
        columns: &[ColumnName],
    ) -> Result<Vec<u8>, TableError> {
        let cells = self.get(key, columns)?;
        let mut draft = self.draft(payload);
        if !draft.put(&cells) {
            draft.flags |= COLUMN_REPLY_MORE;
        }
        let status = match () {
            () if cells.is_empty() => Status::Unknown,
            () if draft.flags & COLUMN_REPLY_LEFT_OUT != 0 => Status::TooLong,
            () => Status::Ok,
        };
        Ok(draft.finish(header, status, COLUMN_SOURCE_HOST))
    }

    fn native_scan(
        &self,
        header: &NativeHeader,
        payload: &[u8],
        rows: &Rows,
        columns: &[ColumnName],
    ) -> Result<Vec<u8>, TableError> {
        let Some(mut range) = rows.range() else {
            return Ok(native::refusal(header, Status::StartBehindStop));
        };
        let room_bytes = payload.len().saturating_sub(REPLY_HEAD_BYTES);
        // Each row takes at least eight bytes: its head, and at least one byte of key.
        range.limit = range.limit.min(room_bytes / 8 + 1).min(SCAN_ROWS_MAX);
        let read = self.scan(&range, columns)?;
        let mut draft = self.draft(payload);
        // Like the fast path, the host does not check whether rows follow the last one, so the flag says only that more
        // may follow.
        let rows_read = read.cells.chunk_by(|one, other| one.key == other.key).count();
        let mut more = read.more || (rows.limit != 0 && rows_read >= usize::from(rows.limit));
        for row in read.cells.chunk_by(|one, other| one.key == other.key) {
            // If the key of a row is truncated, the reply ends with that row. The client continues the scan after it.
            if !draft.put(row) || row[0].key.len() > ROW_BYTES_MAX {
                more = true;
                break;
            }
        }
        if more {
            draft.flags |= COLUMN_REPLY_MORE;
        }
        Ok(draft.finish(header, Status::Ok, COLUMN_SOURCE_HOST))
    }

    #[expect(clippy::too_many_arguments, reason = "one packet's parts")]
    fn native_change(
        &self,
        from: Source,
        header: &NativeHeader,
        payload: &[u8],
        key: &[u8],
        column: &ColumnName,
        change: &Change,
        sender: Sender,
    ) -> Option<Vec<u8>> {
        if sender.token == 0 {
            if !(self.setup.trusted)(from.address) {
                return Some(native::refusal(header, Status::Unauthorised));
            }
            let nonce = Nonce {
                group: 0,
                number: sender.nonce,
            };
            return Some(self.changed(header, payload, key, column, change, nonce));
        }
        let now_s = (self.setup.clock)() / 1_000_000_000;
        let Some(session) = self.sessions.find(sender.slot, sender.token, now_s) else {
            return Some(native::refusal(header, Status::NoSession));
        };
        // This lock is held while a change of the session is executed. A request that arrives meanwhile is usually a
        // repetition of the same change. It gets no answer: the client receives the answer to the first copy, or sends
        // its request again.
        let mut last = match session.last.try_lock() {
            Ok(last) => last,
            Err(TryLockError::Poisoned(last)) => last.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        let body = &payload[size_of::<NativeHeader>()..];
        if sender.nonce == last.nonce && sender.nonce != 0 {
            if last.request != body {
                return Some(native::refusal(header, Status::Reused));
            }
            let mut reply = last.reply.clone();
            let status = u16::from_be_bytes([reply[4], reply[5]]);
            let status = Status::from_code(status).unwrap_or(Status::Busy);
            let body_bytes = (reply.len() - size_of::<NativeHeader>()) as u16;
            let head = wire::reply_header(header, status, body_bytes);
            reply[..size_of::<NativeHeader>()].copy_from_slice(head.as_bytes());
            return Some(reply);
        }
        if sender.nonce != last.nonce + 1 {
            return Some(native::refusal(header, Status::Sequence));
        }
        let nonce = Nonce {
            group: sender.token,
            number: sender.nonce,
        };
        let reply = self.changed(header, payload, key, column, change, nonce);
        let is_done = reply[4..6] != (Status::Busy as u16).to_be_bytes();
        if is_done {
            last.nonce = sender.nonce;
            last.request = body.to_vec();
            last.reply = reply.clone();
            if reply[4..6] == (Status::Ok as u16).to_be_bytes() {
                self.sessions.changed(&session, now_s);
            }
        }
        Some(reply)
    }

    /// Executes a change of the table and returns the reply to it.
    fn changed(
        &self,
        header: &NativeHeader,
        payload: &[u8],
        key: &[u8],
        column: &ColumnName,
        change: &Change,
        nonce: Nonce,
    ) -> Vec<u8> {
        let mut draft = self.draft(payload);
        match self.change(key, column, change, nonce) {
            Ok(ChangeOutcome::Done) => {}
            Ok(ChangeOutcome::Mismatch) => draft.flags |= COLUMN_REPLY_NOT_APPLIED,
            Ok(ChangeOutcome::Now(cell)) => {
                let key = key.to_vec();
                if !draft.put(&[FoundCell { key, column: 0, cell }]) {
                    draft.flags |= COLUMN_REPLY_MORE;
                }
            }
            Err(error) => return native::refusal(header, status_of(&error)),
        }
        draft.finish(header, Status::Ok, COLUMN_SOURCE_HOST)
    }
}

impl Host for ColumnHost {
    fn serve(&self, from: Source, request: &[u8], reply: &mut Reply, _sender: &Reader) -> Verdict {
        let bytes = match paper::is_paper(request) {
            true if !self.setup.paper_format => Err(Verdict::Drop(DropReason::PaperRefused)),
            true => self.paper(from, request),
            false if !wire::is_native(request) => Err(Verdict::Drop(DropReason::NotARequest)),
            false if request[3] & NATIVE_REPLY_BIT != 0 => Err(Verdict::Drop(DropReason::ReplyBit)),
            false => self.native(from, request),
        };
        match bytes {
            Ok(bytes) if reply.put(&bytes) => Verdict::Reply,
            Ok(_) => Verdict::Forward,
            Err(verdict) => verdict,
        }
    }
}

/// Returns a reply with status ok and this body.
fn reply_bytes<T: IntoBytes + Immutable>(header: &NativeHeader, body: &T) -> Vec<u8> {
    let header = wire::reply_header(header, Status::Ok, size_of::<T>() as u16);
    [header.as_bytes(), body.as_bytes()].concat()
}

fn ids_of(columns: &[ColumnName]) -> HashMap<ColumnName, ColumnId> {
    let numbered = columns.iter().zip(0..);
    numbered.map(|(name, id)| (*name, ColumnId(id))).collect()
}

impl From<Row> for FoundCell {
    fn from(row: Row) -> Self {
        Self {
            key: row.key.as_bytes().to_vec(),
            column: 0,
            cell: Cell {
                value: row.value,
                timestamp_ms: row.timestamp_ms,
                expires_ms: None,
            },
        }
    }
}

/// Listener that announces a table's own changes to the fast path, as [`CoherenceMode::ByTable`] requires.
pub struct ChangeAnnouncer {
    coherence: Arc<Coherence>,
    ids: HashMap<ColumnName, ColumnId>,
    open_intents: Mutex<HashMap<u64, WriteIntent>>,
    next_change: AtomicU64,
}

impl fmt::Debug for ChangeAnnouncer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChangeAnnouncer").finish_non_exhaustive()
    }
}

impl ChangeAnnouncer {
    /// Creates an announcer of changes in `columns`, which are in the order of their [`ColumnId`].
    pub fn new(coherence: Arc<Coherence>, columns: &[ColumnName]) -> Self {
        Self {
            coherence,
            ids: ids_of(columns),
            open_intents: Mutex::default(),
            next_change: AtomicU64::new(1),
        }
    }
}

impl ChangeListener for ChangeAnnouncer {
    fn begin_write(&self, key: &[u8], column: &ColumnName) -> u64 {
        let Some(id) = self.ids.get(column) else {
            return 0;
        };
        let touched: [ColumnRange; 1] = [(*id, Interval::of_row(key))];
        let intent = self.coherence.begin_write(&touched);
        let number = self.next_change.fetch_add(1, Relaxed);
        let mut open = self.open_intents.lock().unwrap_or_else(PoisonError::into_inner);
        open.insert(number, intent);
        number
    }

    fn end_write(&self, intent: u64) {
        let mut open = self.open_intents.lock().unwrap_or_else(PoisonError::into_inner);
        let intent = open.remove(&intent);
        drop(open);
        if let Some(intent) = intent {
            self.coherence.end_write(intent);
        }
    }
}

/// Removes the cells after the first `rows` rows. Returns true if it removed any.
fn cut(cells: &mut Vec<FoundCell>, rows: usize) -> bool {
    let mut count = 0;
    for at in 0..cells.len() {
        if at == 0 || cells[at].key != cells[at - 1].key {
            count += 1;
        }
        if count > rows {
            cells.truncate(at);
            return true;
        }
    }
    false
}

/// Returns the part of the rows read from `interval` that the fast path can cache: the rows before `next_key` and
/// before the first row that is too long for it.
fn holdable(cells: &[FoundCell], interval: Interval, next_key: Option<&[u8]>) -> (Interval, Vec<Row>) {
    let mut rows: Vec<Row> = Vec::with_capacity(cells.len());
    let mut end = next_key;
    for cell in cells {
        match Key::new(&cell.key) {
            Some(key) if cell.cell.value.len() <= VALUE_BYTES_MAX => rows.push(Row {
                key,
                value: cell.cell.value.clone(),
                timestamp_ms: cell.cell.timestamp_ms,
            }),
            _ => {
                end = Some(&cell.key);
                break;
            }
        }
    }
    let Some(end) = end else {
        return (interval, rows);
    };
    // The interval ends at the longest prefix of this key that fits, which may itself be the key of a row.
    let end = Interval::of_row(end).low;
    let high = Some(interval.high.map_or(end, |high| high.min(end)));
    let interval = Interval { high, ..interval };
    rows.retain(|row| interval.contains(&row.key));
    (interval, rows)
}

/// Handles a failed read. The paper format has no status for a failure, and "no row" would be wrong, so the request
/// gets no answer.
fn paper_error<T>(error: TableError) -> Result<T, Verdict> {
    tracing::warn!(%error, "column: a request in the paper format gets no answer, because the table cannot be read");
    Err(Verdict::Forward)
}

/// Pads a reply with zeros to the length of its request. A reply that is longer is returned unchanged.
fn fitting(mut reply: Vec<u8>, request: &[u8]) -> Vec<u8> {
    reply.resize(reply.len().max(request.len()), 0);
    reply
}

fn header_of(payload: &[u8]) -> Option<&NativeHeader> {
    zerocopy::FromBytes::ref_from_prefix(payload)
        .ok()
        .map(|(header, _)| header)
}

fn status_of(error: &TableError) -> Status {
    match error {
        TableError::Unavailable(_) => Status::Busy,
        TableError::Refused(_) => Status::BadRequest,
        TableError::UnknownFamily(_) => Status::UnknownFamily,
        TableError::NotANumber => Status::NotANumber,
        TableError::TooLong(_) => Status::TooLong,
        TableError::Full(_) | TableError::Ended(_) => Status::NoRoom,
        TableError::Unknown(_) => Status::OutcomeUnknown,
    }
}
