//! Requests of clients, and actions of the host between them. A seed determines both.

use super::{Case, Event, Table};
use crate::diff::Frames;
use lineside_column::fill::{ColumnId, Row, ServerId};
use lineside_column::key::{Interval, Key};
use lineside_wire::endpoint::Endpoint;
use lineside_wire::{
    COLUMN_NAME_BYTES_MAX, COLUMN_OP_GET, COLUMN_OP_PUT, COLUMN_OP_SCAN, COLUMN_PAPER_KEY_BYTES,
    COLUMN_PAPER_NAME_BYTES, COLUMN_PORT, ColumnHead, NativeHeader, native,
};
use zerocopy::IntoBytes;

/// Names of the columns. A request in the paper's format can name the first one.
pub(super) const COLUMNS: [&str; 2] = ["entry:foo", "entry:a longer qualifier"];
/// Number of keys. The keys are the numbers below this one in decimal digits.
const KEYS: usize = 700;

pub(super) struct Traffic<'a> {
    frames: Frames,
    case: &'a Case,
    tables: [Table; 2],
    clock_ms: u64,
    halted: Vec<ColumnId>,
}

impl<'a> Traffic<'a> {
    pub(super) fn new(seed: u64, case: &'a Case, endpoint: &Endpoint) -> Self {
        let mut traffic = Self {
            frames: Frames::new(seed, endpoint, COLUMN_PORT, Vec::new()),
            case,
            tables: [Table::new(), Table::new()],
            clock_ms: 1,
            halted: Vec::new(),
        };
        for _ in 0..KEYS {
            let column = traffic.column();
            traffic.change(column);
        }
        traffic
    }

    fn below(&mut self, bound: usize) -> usize {
        self.frames.random.index(bound)
    }

    fn one_in(&mut self, chances: u64) -> bool {
        self.frames.random.one_in(chances)
    }

    fn column(&mut self) -> ColumnId {
        ColumnId(self.one_in(4).into())
    }

    /// Returns the bytes of a key: mostly a key that a row may have, otherwise a prefix or an extension of such a key,
    /// the first key or a long one.
    fn key_bytes(&mut self) -> Vec<u8> {
        let number = self.below(KEYS);
        let mut key = [self.case.prefix, format!("k{number:03}").as_bytes()].concat();
        match self.below(24) {
            0 => key.truncate(number % key.len()),
            1 => key.truncate(key.len() - 1),
            2 if key.len() < 64 => key.push(0),
            3 => key[number % 3] ^= 1,
            4 => key = vec![0xff; 1 + number % 64],
            5 => key.clear(),
            _ => {}
        }
        key
    }

    fn key(&mut self) -> Key {
        let bytes = self.key_bytes();
        Key::new(&bytes).unwrap_or(Key::FIRST)
    }

    /// Puts or deletes a row of the table, and returns its key.
    fn change(&mut self, column: ColumnId) -> Key {
        let key = self.key();
        let bytes = match self.below(12) {
            0 => 19 + self.below(400),
            1 => 0,
            _ => 1 + self.below(18),
        };
        let table = &mut self.tables[usize::from(column.0)];
        self.clock_ms += 1;
        if key != Key::FIRST && !self.clock_ms.is_multiple_of(4) {
            let value = (0..bytes)
                .map(|at| (at as u64 * 7 + self.clock_ms) as u8)
                .collect();
            let timestamp_ms = self.clock_ms;
            table.insert(
                key,
                Row {
                    key,
                    value,
                    timestamp_ms,
                },
            );
        } else {
            table.remove(&key);
        }
        key
    }

    fn interval(&mut self) -> Interval {
        let (low, high) = (self.key(), self.key());
        match self.below(8) {
            0 => Interval::ALL,
            1 => Interval { low, high: None },
            _ => Interval {
                low,
                high: Some(high),
            },
        }
    }

    /// Returns the actions of the host before the next frame.
    pub(super) fn events(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        if !self.halted.is_empty() && self.one_in(3) {
            events.extend(self.halted.drain(..).map(|column| Event::Halt(column, false)));
        }
        if !self.halted.is_empty() {
            return events;
        }
        let column = self.column();
        match self.below(48) {
            0..4 => {
                let interval = self.interval();
                let table = &self.tables[usize::from(column.0)];
                let rows = table.values().filter(|row| interval.contains(&row.key));
                let rows = rows.cloned().collect();
                let until_ns = if self.one_in(12) { 1 } else { u64::MAX };
                let server = ServerId(if self.one_in(6) {
                    1 + self.below(80) as u16
                } else {
                    0
                });
                events.push(Event::Install {
                    column,
                    interval,
                    rows,
                    until_ns,
                    server,
                });
            }
            4..7 => {
                let low = self.change(column);
                let high = low.successor();
                events.push(Event::Invalidate(column, Interval { low, high }));
            }
            7 if self.one_in(8) => {
                let interval = self.interval();
                events.push(Event::Invalidate(column, interval));
            }
            8 if self.one_in(32) => events.push(Event::Clear),
            9 => {
                let server = ServerId(1 + self.below(63) as u16);
                events.push(Event::Lease(Some(server), !self.one_in(4)));
            }
            10..12 if self.case.unrest => {
                self.halted.push(column);
                events.push(Event::Halt(column, true));
            }
            12..14 if self.case.unrest => events.push(Event::Lease(None, !self.one_in(4))),
            14 if self.case.unrest => {
                let mut flag = |chances| u32::from(self.one_in(chances));
                events.push(Event::Policies(1 - flag(4), flag(3), flag(3)));
            }
            _ => {}
        }
        events
    }

    pub(super) fn next_frame(&mut self) -> Vec<u8> {
        match self.below(16) {
            0 => self.frames.next_frame(),
            1..6 => {
                let payload = self.paper();
                self.frames.frame_of(&payload)
            }
            _ => {
                let payload = self.native();
                self.frames.frame_of(&payload)
            }
        }
    }

    fn paper(&mut self) -> Vec<u8> {
        let op = [&b"get"[..], b"get", b"sc1", b"sc1", b"put"][self.below(5)];
        let (mut key, mut stop) = (self.key_bytes(), self.key_bytes());
        if self.one_in(2) {
            // The range ends a few rows after its start.
            stop = key.clone();
            if let Some(last) = stop.last_mut() {
                *last = last.saturating_add(3);
            }
        }
        key.resize(COLUMN_PAPER_KEY_BYTES, 0);
        stop.resize(COLUMN_PAPER_KEY_BYTES, 0);
        let mut name = COLUMNS[usize::from(self.one_in(12))].as_bytes().to_vec();
        name.resize(COLUMN_PAPER_NAME_BYTES, 0);
        let behind = match op {
            b"sc1" => stop,
            b"put" => b"a value".to_vec(),
            _ => Vec::new(),
        };
        let mut payload = [op, &key, &name, &behind].concat();
        // A get needs at least 19 bytes, a scan 24.
        let bytes = [0, 18, 19, 23, 24, 46, 68, 90, 112, 178, 400, 1452, 1460][self.below(13)];
        if !self.one_in(16) {
            payload.resize(payload.len().max(bytes), 0);
        } else {
            payload.truncate(bytes);
        }
        payload
    }

    fn native(&mut self) -> Vec<u8> {
        let op = match self.below(12) {
            0..4 => COLUMN_OP_GET,
            4..9 => COLUMN_OP_SCAN,
            _ => COLUMN_OP_PUT + self.below(7) as u8,
        };
        let (start, mut stop) = (self.key_bytes(), Vec::new());
        let mut limit = 0;
        if op == COLUMN_OP_SCAN {
            limit = [0, 1, 7, 8, 8, 8, 40, 0xffff][self.below(8)];
            stop = match self.below(4) {
                0 => Vec::new(),
                1 => start.clone(),
                _ => self.key_bytes(),
            };
        }
        let mut head = ColumnHead {
            flags: if op == COLUMN_OP_SCAN {
                self.below(8) as u8 & 6
            } else {
                0
            },
            start_bytes: start.len() as u8,
            stop_bytes: stop.len() as u8,
            columns: 1,
            limit: limit.into(),
            value_bytes: 0.into(),
            expected_bytes: 0.into(),
            reserved: 0.into(),
            slot: 0.into(),
            token: 0.into(),
            nonce: 0.into(),
        };
        match self.below(40) {
            0 => head.columns = self.below(4) as u8,
            1 => head.flags = self.below(256) as u8,
            2 => head.value_bytes = 8.into(),
            3 => head.token = 1.into(),
            4 => head.nonce = 1.into(),
            5 => head.reserved = 1.into(),
            6 => head.start_bytes = self.below(80) as u8,
            7 => head.limit = 3.into(),
            8 => head.slot = 1.into(),
            _ => {}
        }
        let mut name = COLUMNS[usize::from(self.one_in(4))].as_bytes().to_vec();
        name.resize(COLUMN_NAME_BYTES_MAX, 0);
        if self.one_in(30) {
            name[self.frames.random.index(COLUMN_NAME_BYTES_MAX)] ^= 1;
        }
        let mut body = [head.as_bytes(), &name].concat();
        for key in [start, stop] {
            body.extend(key);
            let fill = u8::from(self.one_in(30));
            body.resize(body.len().next_multiple_of(8), fill);
        }
        let room = [0, 24, 56, 304, 304, 1000, 1372, 1388][self.below(8)];
        body.resize(
            body.len().max(room + self.below(2) * 8),
            self.frames.random.next() as u8 & 1,
        );
        if self.one_in(24) {
            body.truncate(self.frames.random.index(body.len()));
        }
        let mut said = body.len();
        if self.one_in(30) {
            said ^= 1;
        }
        let header: NativeHeader = native::request_header(op, self.frames.random.next(), said as u16);
        [header.as_bytes(), &body].concat()
    }
}
