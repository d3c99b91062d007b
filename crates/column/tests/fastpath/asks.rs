//! Requests as clients send them, and the replies that are right for a table, which is a map here.

use lineside_column::fill::Row;
use lineside_column::key::Key;
use lineside_wire::{
    COLUMN_FLAG_START_EXCLUSIVE, COLUMN_FLAG_STOP_INCLUSIVE, COLUMN_OP_GET, COLUMN_OP_SCAN,
    COLUMN_REPLY_MORE, COLUMN_SOURCE_FASTPATH, ColumnHead, NATIVE_REPLY_BIT, native,
};
use std::collections::BTreeMap;
use zerocopy::IntoBytes;

pub type Table = BTreeMap<Vec<u8>, Row>;

pub const NAME: &str = "entry:foo";

pub fn row(key: &[u8], value: &[u8], timestamp_ms: u64) -> Row {
    Row {
        key: Key::new(key).expect("a key"),
        value: value.to_vec(),
        timestamp_ms,
    }
}

fn padded(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    bytes
}

/// Returns a native request of `payload_bytes` bytes, or of its minimum length if that is longer.
pub fn native(op: u8, flags: u8, start: &[u8], stop: &[u8], limit: u16, payload_bytes: usize) -> Vec<u8> {
    let head = ColumnHead {
        flags,
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
    let mut name = NAME.as_bytes().to_vec();
    name.resize(32, 0);
    let body = [head.as_bytes(), &name, &padded(start), &padded(stop)].concat();
    let bytes = payload_bytes.max(16 + body.len());
    let header = native::request_header(op, 77, (bytes - 16) as u16);
    let mut packet = [header.as_bytes(), &body].concat();
    packet.resize(bytes, 0);
    packet
}

pub fn get(key: &[u8]) -> Vec<u8> {
    native(COLUMN_OP_GET, 0, key, b"", 0, 1400)
}

/// Parameters of a scan.
#[derive(Clone, Debug)]
pub struct Scan {
    pub start: Vec<u8>,
    pub stop: Vec<u8>,
    pub flags: u8,
    pub limit: u16,
    pub payload_bytes: usize,
}

impl Scan {
    pub fn request(&self) -> Vec<u8> {
        let Self {
            start,
            stop,
            flags,
            limit,
            payload_bytes,
        } = self;
        native(COLUMN_OP_SCAN, *flags, start, stop, *limit, *payload_bytes)
    }

    /// Returns the right reply for the table `truth`; `None` if the host must refuse the request.
    pub fn reply(&self, truth: &Table) -> Option<Vec<u8>> {
        let exclusive = self.flags & COLUMN_FLAG_START_EXCLUSIVE != 0;
        let inclusive = self.flags & COLUMN_FLAG_STOP_INCLUSIVE != 0;
        let bounded = !self.stop.is_empty();
        let holds_one = self.start < self.stop || (self.start == self.stop && inclusive && !exclusive);
        if bounded && !holds_one {
            return None;
        }
        let mut request = self.request();
        let mut room = request.len() - 40;
        let (mut records, mut rows, mut newest, mut more) = (Vec::new(), 0u16, 0, false);
        let is_within = |key: &[u8]| {
            let behind = key > &self.start[..] || (key == self.start && !exclusive);
            let before = !bounded || key < &self.stop[..] || (key == self.stop && inclusive);
            behind && before
        };
        for (_, row) in truth.iter().filter(|(key, _)| is_within(key)) {
            let record = record(row);
            if record.len() > room {
                more = true;
                break;
            }
            room -= record.len();
            records.extend(record);
            rows += 1;
            newest = newest.max(row.timestamp_ms);
            if rows == self.limit {
                more = true;
                break;
            }
        }
        if rows == 0 && more {
            return None;
        }
        finish(
            &mut request,
            0,
            rows,
            newest,
            if more { COLUMN_REPLY_MORE } else { 0 },
            &records,
        );
        Some(request)
    }
}

fn record(row: &Row) -> Vec<u8> {
    let key = row.key.as_bytes();
    let value = (row.value.len() as u16).to_be_bytes();
    padded(&[&[key.len() as u8, 0, value[0], value[1]], key, &row.value].concat())
}

fn finish(request: &mut [u8], status: u8, rows: u16, version_ms: u64, flags: u8, records: &[u8]) {
    request[3] |= NATIVE_REPLY_BIT;
    request[5] = status;
    let body = &mut request[16..];
    body.fill(0);
    body[0] = COLUMN_SOURCE_FASTPATH;
    body[1] = flags;
    body[2..4].copy_from_slice(&rows.to_be_bytes());
    body[8..16].copy_from_slice(&version_ms.to_be_bytes());
    body[24..24 + records.len()].copy_from_slice(records);
}

/// Returns the right reply for the table `truth` to the request [`get`].
pub fn get_reply(truth: &Table, key: &[u8]) -> Vec<u8> {
    let mut request = get(key);
    match truth.get(key) {
        Some(row) => finish(&mut request, 0, 1, row.timestamp_ms, 0, &record(row)),
        None => finish(&mut request, 1, 0, 0, 0, &[]),
    }
    request
}

fn zero_padded(bytes: &[u8], len: usize) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes.resize(len, 0);
    bytes
}

/// Returns a get in the paper format, and the right reply for the table `truth`. The key has at most 4 bytes.
pub fn paper_get(truth: &Table, key: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let request = zero_padded(&[&b"get"[..], &zero_padded(key, 4), NAME.as_bytes()].concat(), 21);
    let reply = match truth.get(key) {
        Some(row) => [&[0], &row.value[..]].concat(),
        None => vec![1],
    };
    (request, zero_padded(&reply, 21))
}

/// Returns a scan in the paper format, and the right reply for the table `truth`.
pub fn paper_scan(truth: &Table, start: &[u8], stop: &[u8], payload_bytes: usize) -> (Vec<u8>, Vec<u8>) {
    let name = NAME.as_bytes();
    let request = [&b"sc1"[..], &zero_padded(start, 4), name, &zero_padded(stop, 4)].concat();
    let mut reply = vec![0, 0];
    for (key, row) in truth
        .iter()
        .filter(|(key, _)| &key[..] >= start && &key[..] <= stop)
    {
        if reply.len() + 22 > payload_bytes {
            reply[0] = 2;
            break;
        }
        reply.extend(zero_padded(key, 4));
        reply.extend(zero_padded(&row.value, 18));
        reply[1] += 1;
    }
    if reply[1] == 0 && reply[0] == 0 {
        reply[0] = 1;
    }
    (
        zero_padded(&request, payload_bytes),
        zero_padded(&reply, payload_bytes),
    )
}
