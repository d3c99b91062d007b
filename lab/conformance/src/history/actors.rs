//! Threads that change and read rows while the check of histories runs.

use super::rows::{self, Fault, Kind, Row};
use super::{ROWS, Tally, now_ms};
use lineside_column::host::ColumnHost;
use lineside_column::table::{Change, ChangeOutcome, ColumnName, Nonce, ScanRange, Table};
use lineside_fastpath::{FastPath, Host, Reader, Readers, Reply, Source, Verdict, lease};
use lineside_messages::column::native::{self, Ask, Rows, Sender};
use lineside_messages::column::paper::{PaperAnswer, PaperRequest};
use lineside_testkit::Random;
use lineside_wire::{COLUMN_REPLY_MORE, COLUMN_REPLY_NOT_APPLIED, ColumnCode, NativeHeader, Status};
use std::net::{IpAddr, Ipv4Addr};
use std::ops::Range;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use zerocopy::FromBytes;

/// Source address of all requests, which is trusted.
const FROM: Source = Source {
    address: IpAddr::V4(Ipv4Addr::LOCALHOST),
    port: 40_000,
};
/// Number of rows to which most changes and reads apply.
const HOT: u64 = 96;
/// Maximum number of rows in a scan.
const SCAN_ROWS: u64 = 16;
/// Lifetime of expiring cells in milliseconds. It is longer than the maximum lag of the fast path's clock.
const LIFE_MS: u64 = 125;
/// Size in bytes of a reply with one row.
const GET_BYTES: usize = native::REPLY_HEAD_BYTES + 32;

/// State that the threads of a phase share.
pub(super) struct Scene<'a> {
    pub(super) fastpath: Box<dyn FastPath>,
    pub(super) host: ColumnHost,
    pub(super) table: &'a dyn Table,
    pub(super) is_here: bool,
    pub(super) columns: &'a [ColumnName],
    pub(super) rows: Vec<Row>,
    pub(super) tally: &'a Tally,
    pub(super) stop: AtomicBool,
    pub(super) stop_at_fault: bool,
    /// Time that the fast path sees if its clock is stopped on purpose, in nanoseconds.
    pub(super) frozen_ns: Option<u64>,
}

/// Component that gave an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum By {
    FastPath,
    Host,
    Table,
}

impl Scene<'_> {
    fn row(&self, row: usize, column: usize) -> &Row {
        &self.rows[column * ROWS + row]
    }

    fn goes_on(&self) -> bool {
        !self.stop.load(Relaxed) && !self.tally.stop.load(Relaxed)
    }

    /// Sends a request to the fast path, and to the host if the fast path forwards it.
    fn ask(&self, request: &[u8], reply: &mut Reply, reader: &Reader) -> Option<By> {
        reply.clear();
        let now_ns = self.frozen_ns.unwrap_or_else(lease::now_ns);
        match self.fastpath.answer(FROM, now_ns, request, reply) {
            Verdict::Reply => return Some(By::FastPath),
            Verdict::Drop(_) => return None,
            Verdict::Forward => {}
        }
        reply.clear();
        (self.host.serve(FROM, request, reply, reader) == Verdict::Reply).then_some(By::Host)
    }

    // ---- changes ----

    pub(super) fn write(&self, mut random: Random) {
        let reader = Readers::default().join();
        while self.goes_on() {
            let (row, column) = self.pick(&mut random);
            let straight = random.below(2) == 0;
            match Kind::of(row) {
                Kind::Never => continue,
                Kind::Turns => self.take_turn(row, column, straight, &mut random, &reader),
                Kind::Races => self.race(row, column, straight, &reader),
                Kind::Ends if self.is_here => self.put_for_a_while(row, column),
                Kind::Ends => continue,
            }
            // Without pauses, the changes would keep the fast-path table empty.
            std::thread::sleep(Duration::from_micros(random.below(300)));
        }
    }

    fn pick(&self, random: &mut Random) -> (usize, usize) {
        let among = if random.below(4) == 0 { ROWS as u64 } else { HOT };
        (
            random.below(among) as usize,
            random.below(self.columns.len() as u64) as usize,
        )
    }

    /// Makes a change directly in the table if `straight` is true; otherwise sends it to Lineside. Returns whether it
    /// was executed.
    fn change(&self, row: usize, column: usize, change: Change, straight: bool, reader: &Reader) -> bool {
        let (key, name) = (rows::key(row), &self.columns[column]);
        if straight {
            let changed = self.table.change(&key, name, &change, Nonce::default());
            return changed.is_ok_and(|changed| changed != ChangeOutcome::Mismatch);
        }
        let ask = Ask::Change(key, *name, change, Sender::default());
        let Some(request) = native::request(1, &ask, 0) else {
            return false;
        };
        let mut reply = Reply::default();
        let answer = self.ask(&request, &mut reply, reader).and_then(|_| {
            let (header, body) = NativeHeader::ref_from_prefix(reply.as_bytes()).ok()?;
            (header.status.get() == Status::Ok as u16)
                .then(|| native::parse_reply(body))
                .flatten()
        });
        match answer {
            Some(answer) => answer.flags & COLUMN_REPLY_NOT_APPLIED == 0,
            None => {
                self.tally.unanswered.fetch_add(1, Relaxed);
                false
            }
        }
    }

    fn take_turn(&self, row: usize, column: usize, straight: bool, random: &mut Random, reader: &Reader) {
        let state = self.row(row, column);
        let _turn = state.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let version = state.told() + 1;
        state.begin(version);
        // In an external table, the region of the row may be moving. Repeating the same change creates no other
        // version.
        while !self.try_turn(row, column, version, straight, random, reader) {
            assert!(!self.is_here, "a change of the embedded table failed");
            if !self.goes_on() {
                return;
            }
        }
        state.tell(version);
        self.tally.changes.fetch_add(1, Relaxed);
    }

    fn try_turn(
        &self,
        row: usize,
        column: usize,
        version: u64,
        straight: bool,
        random: &mut Random,
        reader: &Reader,
    ) -> bool {
        let value = rows::value(row, column, version);
        if Kind::Turns.is_absent(version) {
            let is_made = self.change(row, column, Change::Delete, straight, reader);
            // The deletion hides writes of the same millisecond, as in HBase, so the next write must wait until the
            // millisecond is over.
            let now_ms = self.table.now_ms();
            while !self.is_here && self.table.now_ms() <= now_ms {
                std::thread::yield_now();
            }
            is_made
        } else if straight || random.below(2) == 0 {
            self.change(row, column, Change::Put(value, None), straight, reader)
        } else {
            let name = self.columns[column].as_bytes().to_vec();
            let put = PaperRequest::Put(rows::key(row), name, value);
            let mut reply = Reply::default();
            let request = put.to_bytes(0).unwrap_or_default();
            let is_answered = self.ask(&request, &mut reply, reader).is_some();
            let done = Some(PaperAnswer::Put(ColumnCode::Done));
            is_answered && PaperAnswer::parse(&put, reply.as_bytes()) == done
        }
    }

    fn race(&self, row: usize, column: usize, straight: bool, reader: &Reader) {
        let state = self.row(row, column);
        let floor = state.told();
        let Some(held) = self.held(row, column) else {
            return;
        };
        self.check(row, column, floor, held, By::Table);
        let before = match held {
            Shown::Version(version) => version,
            _ => 0,
        };
        let version = before + 1;
        state.begin(version);
        let check = Change::CheckAndPut {
            expected: (before > 0).then(|| rows::value(row, column, before)),
            value: rows::value(row, column, version),
        };
        if self.change(row, column, check, straight, reader) {
            state.tell(version);
            self.tally.changes.fetch_add(1, Relaxed);
        }
    }

    fn put_for_a_while(&self, row: usize, column: usize) {
        let state = self.row(row, column);
        let Ok(_turn) = state.turn.try_lock() else {
            return;
        };
        let floor = state.floor(Kind::Ends, now_ms());
        if !floor.is_multiple_of(2) {
            // The version has not expired yet, so no new one is written.
            return;
        }
        state.tell(floor);
        state.ends(0);
        // The new version may expire at any time.
        state.begin(floor + 2);
        let value = rows::value(row, column, floor + 1);
        let put = Change::Put(value, Some(LIFE_MS));
        let key = rows::key(row);
        let changed = self
            .table
            .change(&key, &self.columns[column], &put, Nonce::default());
        assert!(changed.is_ok(), "a change of the embedded table failed");
        state.tell(floor + 1);
        state.ends(now_ms() + LIFE_MS);
        self.tally.changes.fetch_add(1, Relaxed);
    }

    // ---- reads ----

    pub(super) fn read(&self, mut random: Random) {
        let reader = Readers::default().join();
        let mut reply = Reply::default();
        while self.goes_on() {
            let (row, column) = self.pick(&mut random);
            let is_paper = random.below(4) == 0;
            let count = match random.below(4) {
                0 => 1 + random.below(if is_paper { 8 } else { SCAN_ROWS }) as usize,
                _ => 1,
            };
            let is_scan = random.below(3) == 0 || count > 1;
            let range = row..(row + count).min(ROWS);
            match (is_paper, is_scan) {
                (true, _) => self.read_paper(range, column, is_scan, &mut reply, &reader),
                (false, true) => self.scan(range, column, &mut reply, &reader),
                (false, false) => self.get(row, column, &mut reply, &reader),
            }
        }
    }

    fn floors(&self, range: &Range<usize>, column: usize) -> Vec<u64> {
        let now_ms = now_ms();
        let floor = |row| self.row(row, column).floor(Kind::of(row), now_ms);
        range.clone().map(floor).collect()
    }

    fn get(&self, row: usize, column: usize, reply: &mut Reply, reader: &Reader) {
        let ask = Ask::Get(rows::key(row), vec![self.columns[column]]);
        let request = native::request(1, &ask, GET_BYTES).unwrap_or_default();
        let floor = self.row(row, column).floor(Kind::of(row), now_ms());
        let by = self.ask(&request, reply, reader);
        let answer = by.and_then(|by| Some((by, native_answer(reply)?)));
        let Some((by, answer)) = answer else {
            self.tally.unanswered.fetch_add(1, Relaxed);
            return;
        };
        let value = answer.rows.first().map(|(_, _, value)| &value[..]);
        self.check(row, column, floor, shown(row, column, value), by);
    }

    fn scan(&self, range: Range<usize>, column: usize, reply: &mut Reply, reader: &Reader) {
        let wanted = Rows {
            start: rows::key(range.start),
            stop: rows::key(range.end - 1),
            stop_inclusive: true,
            ..Rows::default()
        };
        let ask = Ask::Scan(wanted, vec![self.columns[column]]);
        let room = native::REPLY_HEAD_BYTES + range.len() * 32;
        let request = native::request(1, &ask, room).unwrap_or_default();
        let floors = self.floors(&range, column);
        let by = self.ask(&request, reply, reader);
        let Some((by, answer)) = by.and_then(|by| Some((by, native_answer(reply)?))) else {
            self.tally.unanswered.fetch_add(1, Relaxed);
            return;
        };
        let found = answer.rows.into_iter().map(|(key, _, value)| (key, value));
        let more = answer.flags & COLUMN_REPLY_MORE != 0;
        self.check_all(range, column, &floors, &found.collect::<Vec<_>>(), more, by);
    }

    fn read_paper(
        &self,
        range: Range<usize>,
        column: usize,
        is_scan: bool,
        reply: &mut Reply,
        reader: &Reader,
    ) {
        let name = self.columns[column].as_bytes().to_vec();
        let (start, stop) = (rows::key(range.start), rows::key(range.end - 1));
        let asked = match is_scan {
            true => PaperRequest::Scan(start, name, stop),
            false => PaperRequest::Get(start, name),
        };
        let request = asked.to_bytes(range.len()).unwrap_or_default();
        let floors = self.floors(&range, column);
        let by = self.ask(&request, reply, reader);
        match by.zip(PaperAnswer::parse(&asked, reply.as_bytes())) {
            Some((by, PaperAnswer::Get(Ok(value)))) => {
                let shown = shown(range.start, column, value.as_deref());
                self.check(range.start, column, floors[0], shown, by);
            }
            Some((by, PaperAnswer::Scan(found, more))) => {
                self.check_all(range, column, &floors, &found, more, by);
            }
            _ => {
                self.tally.unanswered.fetch_add(1, Relaxed);
            }
        }
    }

    pub(super) fn read_directly(&self, mut random: Random) {
        while self.goes_on() {
            let (row, column) = self.pick(&mut random);
            if random.below(3) > 0 {
                let floor = self.row(row, column).floor(Kind::of(row), now_ms());
                if let Some(held) = self.held(row, column) {
                    self.check(row, column, floor, held, By::Table);
                }
            } else {
                let range = row..(row + 1 + random.below(SCAN_ROWS) as usize).min(ROWS);
                let scan_range = ScanRange {
                    low: rows::key(range.start),
                    high: Some(rows::key(range.end)),
                    limit: usize::MAX,
                    reverse: false,
                };
                let floors = self.floors(&range, column);
                if let Ok(found) = self.table.scan(&scan_range, &self.columns[column..=column]) {
                    let found = found.into_iter().map(|found| (found.key, found.cell.value));
                    let found: Vec<_> = found.collect();
                    self.check_all(range, column, &floors, &found, false, By::Table);
                }
            }
            // This thread only provides reads for comparison, so it leaves the CPU to the other threads.
            std::thread::yield_now();
        }
    }

    /// Returns the content of the row in the table itself.
    fn held(&self, row: usize, column: usize) -> Option<Shown> {
        let cells = self.table.get(&rows::key(row), &self.columns[column..=column]);
        let cell = cells.ok()?.pop()?;
        Some(shown(row, column, cell.as_ref().map(|cell| &cell.value[..])))
    }

    // ---- checks ----

    /// Checks the result of a scan for every row of its range, up to the row at which the scan ended.
    fn check_all(
        &self,
        range: Range<usize>,
        column: usize,
        floors: &[u64],
        found: &[(Vec<u8>, Vec<u8>)],
        more: bool,
        by: By,
    ) {
        let last = found.last().and_then(|(key, _)| rows::row(key));
        let end = match (more, last) {
            (false, _) => range.end,
            (true, Some(last)) => (last + 1).min(range.end),
            (true, None) => range.start,
        };
        let mut found = found.iter().peekable();
        for (row, floor) in (range.start..end).zip(floors) {
            let key = rows::key(row);
            let value = found
                .next_if(|(shown, _)| *shown == key)
                .map(|(_, value)| &value[..]);
            self.check(row, column, *floor, shown(row, column, value), by);
        }
        if found.peek().is_some() {
            let what = || format!("{by:?} has scanned {range:?} and returned {found:?}");
            self.tally.fault(Fault::Wrong, self.stop_at_fault, what);
        }
    }

    fn check(&self, row: usize, column: usize, floor: u64, shown: Shown, by: By) {
        let count = match by {
            By::FastPath => &self.tally.fastpath,
            By::Host => &self.tally.host,
            By::Table => &self.tally.direct,
        };
        count.fetch_add(1, Relaxed);
        let checked = match shown {
            Shown::Nothing => self.row(row, column).check(Kind::of(row), floor, None),
            Shown::Version(version) => self.row(row, column).check(Kind::of(row), floor, Some(version)),
            Shown::Garbage => Err(Fault::Wrong),
        };
        if let Err(fault) = checked {
            let what = || {
                let kind = Kind::of(row);
                format!(
                    "{by:?} has returned {shown:?} for row {row} ({kind:?}), which had version {floor} before the read"
                )
            };
            self.tally.fault(fault, self.stop_at_fault, what);
        }
    }
}

/// Content of a row, as an answer shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shown {
    Nothing,
    Version(u64),
    Garbage,
}

fn shown(row: usize, column: usize, value: Option<&[u8]>) -> Shown {
    match value {
        None => Shown::Nothing,
        Some(value) => rows::version(row, column, value).map_or(Shown::Garbage, Shown::Version),
    }
}

/// Returns the answer to a read, which contains rows or says that there are none; `None` if the reply is neither.
fn native_answer(reply: &Reply) -> Option<native::Answer> {
    let (header, body) = NativeHeader::ref_from_prefix(reply.as_bytes()).ok()?;
    let status = Status::from_code(header.status.get())?;
    [Status::Ok, Status::Unknown]
        .contains(&status)
        .then(|| native::parse_reply(body))
        .flatten()
}
