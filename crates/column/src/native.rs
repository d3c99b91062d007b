//! The native packets of `column`, for host and client.

use crate::table::{Change, ColumnName, Found, NAME_BYTES_MAX, ROW_BYTES_MAX, Stretch};
use lineside_fastpath::PAYLOAD_BYTES_MAX;
use lineside_wire::{
    COLUMN_FLAG_ABSENT, COLUMN_FLAG_REVERSE, COLUMN_FLAG_START_EXCLUSIVE, COLUMN_FLAG_STOP_INCLUSIVE,
    COLUMN_OP_APPEND, COLUMN_OP_CHECK_AND_PUT, COLUMN_OP_DELETE, COLUMN_OP_GET, COLUMN_OP_INCREMENT,
    COLUMN_OP_OPEN, COLUMN_OP_PUT, COLUMN_OP_SCAN, COLUMN_OP_SWITCH, COLUMN_REPLY_LEFT_OUT,
    COLUMN_ROW_CUT_KEY, COLUMN_ROW_LEFT_OUT, ColumnHead, ColumnReply, ColumnRow, ColumnSession, ColumnSwitch,
    NativeHeader, Status, native,
};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

/// Bytes of a reply before its rows.
pub const REPLY_HEAD_BYTES: usize = size_of::<NativeHeader>() + size_of::<ColumnReply>();

/// Who changes something: a session's number and secret, and which of its changes this is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sender {
    /// The session.
    pub slot: u32,
    /// Its secret; 0: no session, the sender is trusted.
    pub token: u64,
    /// In a session one more than that of its last change; without one 0, or never used twice.
    pub nonce: u64,
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// One row's cells.
    Get(Vec<u8>, Vec<ColumnName>),
    /// Rows.
    Scan(Rows, Vec<ColumnName>),
    /// A change of one cell.
    Change(Vec<u8>, ColumnName, Change, Sender),
    /// A session is to be opened.
    Open(ColumnSession),
    /// The fast path is to be off, or on again.
    Switch(bool),
}

/// Which rows a scan wants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rows {
    /// Where it begins; empty: at the table's first row, or in reverse its last.
    pub start: Vec<u8>,
    /// A row at `start` is not wanted.
    pub start_exclusive: bool,
    /// Where it ends; empty: at the table's end.
    pub stop: Vec<u8>,
    /// A row at `stop` is wanted.
    pub stop_inclusive: bool,
    /// Rows at most; 0: as many as fit.
    pub limit: u16,
    /// From the highest row down.
    pub reverse: bool,
}

/// The first key behind `key`, whatever its length.
fn behind(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}

impl Rows {
    /// The stretch of the table; `None`: `start` lies behind `stop`.
    pub fn stretch(&self) -> Option<Stretch> {
        if !self.stop.is_empty() && !self.start.is_empty() {
            let is_behind = match self.reverse {
                false => self.start > self.stop,
                true => self.start < self.stop,
            };
            if is_behind {
                return None;
            }
        }
        let above = |key: &Vec<u8>, inclusive: bool| {
            (!key.is_empty()).then(|| if inclusive { behind(key) } else { key.clone() })
        };
        let from = |key: &Vec<u8>, exclusive: bool| {
            if exclusive && !key.is_empty() {
                behind(key)
            } else {
                key.clone()
            }
        };
        let (low, high) = match self.reverse {
            false => (
                from(&self.start, self.start_exclusive),
                above(&self.stop, self.stop_inclusive),
            ),
            true => (
                from(&self.stop, !self.stop_inclusive),
                above(&self.start, !self.start_exclusive),
            ),
        };
        Some(Stretch {
            low,
            high,
            limit: match self.limit {
                0 => usize::MAX,
                limit => limit.into(),
            },
            reverse: self.reverse,
        })
    }
}

/// A request's header, and what it asks.
///
/// # Errors
/// The status to refuse it with.
pub fn parse(payload: &[u8]) -> Result<(&NativeHeader, Ask), Status> {
    let (header, body) = native::parse_request(payload)?;
    let ask = parse_body(header.op, body).ok_or(Status::BadRequest)?;
    Ok((header, ask))
}

fn parse_body(op: u8, body: &[u8]) -> Option<Ask> {
    if op == COLUMN_OP_OPEN {
        let session = ColumnSession::read_from_bytes(body).ok()?;
        let is_plain = session.token.get() == 0
            && session.slot.get() == 0
            && session.lease_s.get() == 0
            && session.reserved.get() == 0;
        return is_plain.then_some(Ask::Open(session));
    }
    if op == COLUMN_OP_SWITCH {
        let off = ColumnSwitch::read_from_bytes(body).ok()?.off.get();
        return (off <= 1).then_some(Ask::Switch(off == 1));
    }
    if !body.len().is_multiple_of(8) {
        return None;
    }
    let (head, mut rest) = ColumnHead::ref_from_prefix(body).ok()?;
    let mut columns = Vec::with_capacity(head.columns.into());
    for _ in 0..head.columns {
        let (name, behind) = rest.split_first_chunk::<NAME_BYTES_MAX>()?;
        columns.push(ColumnName::from_padded(name)?);
        rest = behind;
    }
    let mut part = |len: usize| {
        let (padded, behind) = rest.split_at_checked(len.next_multiple_of(8))?;
        rest = behind;
        let (part, zeros) = padded.split_at(len);
        zeros.iter().all(|byte| *byte == 0).then(|| part.to_vec())
    };
    let start = part(head.start_bytes.into())?;
    let stop = part(head.stop_bytes.into())?;
    let value = part(head.value_bytes.get().into())?;
    let expected = part(head.expected_bytes.get().into())?;
    let sender = Sender {
        slot: head.slot.get(),
        token: head.token.get(),
        nonce: head.nonce.get(),
    };
    let is_scan = op == COLUMN_OP_SCAN;
    let is_check = op == COLUMN_OP_CHECK_AND_PUT;
    let is_read = is_scan || op == COLUMN_OP_GET;
    let has_value = !is_read && op != COLUMN_OP_DELETE;
    let flags = match op {
        COLUMN_OP_SCAN => COLUMN_FLAG_REVERSE | COLUMN_FLAG_STOP_INCLUSIVE | COLUMN_FLAG_START_EXCLUSIVE,
        COLUMN_OP_CHECK_AND_PUT => COLUMN_FLAG_ABSENT,
        _ => 0,
    };
    let absent = head.flags & COLUMN_FLAG_ABSENT != 0;
    let is_plain = head.flags & !flags == 0
        && head.reserved.get() == 0
        && (is_scan || (head.limit.get() == 0 && stop.is_empty() && !start.is_empty()))
        && (has_value || value.is_empty())
        && ((is_check && !absent) || expected.is_empty())
        && (!is_read || sender == Sender::default())
        && (sender.token != 0 || sender.slot == 0)
        && !columns.is_empty()
        && (is_read || columns.len() == 1);
    if !is_plain {
        return None;
    }
    let change = match op {
        COLUMN_OP_GET => return Some(Ask::Get(start, columns)),
        COLUMN_OP_SCAN => {
            let rows = Rows {
                start,
                start_exclusive: head.flags & COLUMN_FLAG_START_EXCLUSIVE != 0,
                stop,
                stop_inclusive: head.flags & COLUMN_FLAG_STOP_INCLUSIVE != 0,
                limit: head.limit.get(),
                reverse: head.flags & COLUMN_FLAG_REVERSE != 0,
            };
            return Some(Ask::Scan(rows, columns));
        }
        COLUMN_OP_PUT => Change::Put(value, None),
        COLUMN_OP_DELETE => Change::Delete,
        COLUMN_OP_INCREMENT => Change::Increment(i64::from_be_bytes(value.try_into().ok()?)),
        COLUMN_OP_APPEND => Change::Append(value),
        COLUMN_OP_CHECK_AND_PUT => Change::CheckAndPut {
            expected: (!absent).then_some(expected),
            value,
        },
        _ => return None,
    };
    Some(Ask::Change(start, columns[0], change, sender))
}

/// A request as a client sends it, with room for a reply of `reply_bytes`; `None`: it does not fit a packet.
pub fn request(request_id: u64, ask: &Ask, reply_bytes: usize) -> Option<Vec<u8>> {
    let mut head = ColumnHead::new_zeroed();
    let (op, columns, parts) = match ask {
        Ask::Open(session) => {
            let bytes = size_of_val(session) as u16;
            let header = native::request_header(COLUMN_OP_OPEN, request_id, bytes);
            return Some([header.as_bytes(), session.as_bytes()].concat());
        }
        Ask::Switch(off) => {
            let switch = switch(*off);
            let header = native::request_header(COLUMN_OP_SWITCH, request_id, size_of_val(&switch) as u16);
            return Some([header.as_bytes(), switch.as_bytes()].concat());
        }
        Ask::Get(key, columns) => (COLUMN_OP_GET, &columns[..], [&key[..], b"", b"", b""]),
        Ask::Scan(rows, columns) => {
            head.limit = rows.limit.into();
            for (is_set, flag) in [
                (rows.reverse, COLUMN_FLAG_REVERSE),
                (rows.stop_inclusive, COLUMN_FLAG_STOP_INCLUSIVE),
                (rows.start_exclusive, COLUMN_FLAG_START_EXCLUSIVE),
            ] {
                head.flags |= if is_set { flag } else { 0 };
            }
            (
                COLUMN_OP_SCAN,
                &columns[..],
                [&rows.start[..], &rows.stop, b"", b""],
            )
        }
        Ask::Change(key, column, change, sender) => {
            head.slot = sender.slot.into();
            head.token = sender.token.into();
            head.nonce = sender.nonce.into();
            let columns = std::slice::from_ref(column);
            let number;
            let (op, value, expected) = match change {
                Change::Put(value, _) => (COLUMN_OP_PUT, &value[..], &b""[..]),
                Change::Delete => (COLUMN_OP_DELETE, &b""[..], &b""[..]),
                Change::Increment(by) => {
                    number = by.to_be_bytes();
                    (COLUMN_OP_INCREMENT, &number[..], &b""[..])
                }
                Change::Append(value) => (COLUMN_OP_APPEND, &value[..], &b""[..]),
                Change::CheckAndPut { expected, value } => {
                    head.flags = if expected.is_none() { COLUMN_FLAG_ABSENT } else { 0 };
                    let expected = expected.as_deref().unwrap_or_default();
                    (COLUMN_OP_CHECK_AND_PUT, &value[..], expected)
                }
            };
            return packet(
                request_id,
                op,
                head,
                columns,
                [key, b"", value, expected],
                reply_bytes,
            );
        }
    };
    packet(request_id, op, head, columns, parts, reply_bytes)
}

/// The fast path off, or on.
pub fn switch(off: bool) -> ColumnSwitch {
    ColumnSwitch {
        off: u64::from(off).into(),
    }
}

fn packet(
    request_id: u64,
    op: u8,
    mut head: ColumnHead,
    columns: &[ColumnName],
    [start, stop, value, expected]: [&[u8]; 4],
    reply_bytes: usize,
) -> Option<Vec<u8>> {
    head.start_bytes = start.len().try_into().ok()?;
    head.stop_bytes = stop.len().try_into().ok()?;
    head.columns = columns.len().try_into().ok()?;
    head.value_bytes = u16::try_from(value.len()).ok()?.into();
    head.expected_bytes = u16::try_from(expected.len()).ok()?.into();
    let mut body = head.as_bytes().to_vec();
    for column in columns {
        body.extend_from_slice(column.padded());
    }
    for part in [start, stop, value, expected] {
        body.extend_from_slice(part);
        body.resize(body.len().next_multiple_of(8), 0);
    }
    let room = reply_bytes.max(REPLY_HEAD_BYTES).next_multiple_of(8) - size_of::<NativeHeader>();
    body.resize(body.len().max(room), 0);
    if body.len() + size_of::<NativeHeader>() > PAYLOAD_BYTES_MAX {
        return None;
    }
    let header = native::request_header(op, request_id, body.len() as u16);
    Some([header.as_bytes(), &body].concat())
}

/// Bytes of rows in the longest reply.
const ROWS_BYTES_MAX: usize = PAYLOAD_BYTES_MAX / 8 * 8 - REPLY_HEAD_BYTES;

/// Bytes of a row in a reply, with its padding.
pub fn row_bytes(key_bytes: usize, value_bytes: usize) -> usize {
    (size_of::<ColumnRow>() + key_bytes + value_bytes).next_multiple_of(8)
}

/// A reply being written, of its request's length.
#[derive(Debug)]
pub struct Draft {
    rows: Vec<u8>,
    room_bytes: usize,
    count: u16,
    version_ms: u64,
    /// `COLUMN_REPLY_…`.
    pub flags: u8,
}

impl Draft {
    /// Of a request of so many bytes.
    pub fn new(request_bytes: usize) -> Self {
        Self {
            rows: Vec::new(),
            room_bytes: request_bytes.saturating_sub(REPLY_HEAD_BYTES),
            count: 0,
            version_ms: 0,
            flags: 0,
        }
    }

    /// Appends the cells of one row. Of a row that no packet has room for, its key and how long its longest value is.
    /// `false`, and nothing appended, where a longer packet would have room.
    #[must_use]
    pub fn put(&mut self, cells: &[Found]) -> bool {
        let bytes = |found: &Found| row_bytes(found.key.len(), found.cell.value.len());
        let needed: usize = cells.iter().map(bytes).sum();
        if cells.iter().any(|found| found.key.len() > ROW_BYTES_MAX) || needed > ROWS_BYTES_MAX {
            return self.leave_out(cells);
        }
        if self.rows.len() + needed > self.room_bytes {
            return false;
        }
        for found in cells {
            self.append(&found.key, found.column as u8, &found.cell.value);
            self.version_ms = self.version_ms.max(found.cell.timestamp_ms);
        }
        true
    }

    fn leave_out(&mut self, cells: &[Found]) -> bool {
        // The first of those that are as long.
        let longest = cells.iter().rev().max_by_key(|found| found.cell.value.len());
        let Some(longest) = longest else {
            return true;
        };
        let key = &longest.key[..longest.key.len().min(ROW_BYTES_MAX)];
        let value = (longest.cell.value.len() as u64).to_be_bytes();
        if self.rows.len() + row_bytes(key.len(), value.len()) > self.room_bytes {
            return false;
        }
        let is_cut = key.len() < longest.key.len();
        let cut = if is_cut { COLUMN_ROW_CUT_KEY } else { 0 };
        self.append(key, longest.column as u8 | COLUMN_ROW_LEFT_OUT | cut, &value);
        self.flags |= COLUMN_REPLY_LEFT_OUT;
        true
    }

    /// Appends what there is room for.
    fn append(&mut self, key: &[u8], column: u8, value: &[u8]) {
        let row = ColumnRow {
            key_bytes: key.len() as u8,
            column,
            value_bytes: (value.len() as u16).into(),
        };
        self.rows.extend_from_slice(row.as_bytes());
        self.rows.extend_from_slice(key);
        self.rows.extend_from_slice(value);
        self.rows.resize(self.rows.len().next_multiple_of(8), 0);
        self.count += 1;
    }

    /// The reply; a request without room for its head gets the status alone.
    pub fn finish(self, header: &NativeHeader, status: Status, source: u8) -> Vec<u8> {
        let body_bytes = usize::from(header.length.get());
        if body_bytes < size_of::<ColumnReply>() {
            return refusal(header, status);
        }
        let reply = ColumnReply {
            source,
            flags: self.flags,
            rows: self.count.into(),
            reserved: 0.into(),
            version_ms: self.version_ms.into(),
            reserved_2: 0.into(),
        };
        let header = native::reply_header(header, status, body_bytes as u16);
        let mut bytes = [header.as_bytes(), reply.as_bytes(), &self.rows].concat();
        bytes.resize(size_of::<NativeHeader>() + body_bytes, 0);
        bytes
    }
}

/// A reply that says only how it stands.
pub fn refusal(header: &NativeHeader, status: Status) -> Vec<u8> {
    native::reply_header(header, status, 0).as_bytes().to_vec()
}

/// What a client reads of a reply's body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// `COLUMN_SOURCE_FASTPATH` or `COLUMN_SOURCE_HOST`.
    pub source: u8,
    /// `COLUMN_REPLY_…`.
    pub flags: u8,
    /// Newest timestamp of the rows.
    pub version_ms: u64,
    /// Key, which column, value.
    pub rows: Vec<(Vec<u8>, usize, Vec<u8>)>,
    /// Rows that do not fit a packet.
    pub left_out: Vec<LeftOut>,
}

/// A row that is in the table, and in no packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// Its key, as much of it as can be said.
    pub key: Vec<u8>,
    /// The key is longer, and no row that begins so can be told.
    pub is_cut: bool,
    /// The column whose value is its longest.
    pub column: usize,
    /// Bytes of that value.
    pub value_bytes: u64,
    /// So many of the answer's `rows` stand before it.
    pub behind: usize,
}

impl Answer {
    /// Where the rest of a scan begins that ended here, and whether a row there is not wanted; `None`: nowhere.
    pub fn rest(&self, reverse: bool) -> Option<(Vec<u8>, bool)> {
        let last = self.left_out.last().filter(|last| last.behind == self.rows.len());
        match last {
            None => self.rows.last().map(|(key, _, _)| (key.clone(), true)),
            Some(last) if !last.is_cut => Some((last.key.clone(), true)),
            // What begins so lies behind it.
            Some(last) if reverse => Some((last.key.clone(), false)),
            Some(last) => {
                let end = last.key.iter().rposition(|byte| *byte != 0xff)?;
                let mut key = last.key[..=end].to_vec();
                key[end] += 1;
                Some((key, false))
            }
        }
    }

    /// Rows in it, those that are left out too.
    pub fn count(&self) -> usize {
        let rows = self.rows.chunk_by(|one, other| one.0 == other.0).count();
        rows + self.left_out.len()
    }
}

/// The body of a reply; `None`: it is not one.
pub fn parse_reply(body: &[u8]) -> Option<Answer> {
    let (reply, mut rest) = ColumnReply::ref_from_prefix(body).ok()?;
    let mut rows = Vec::with_capacity(reply.rows.get().into());
    let mut left_out = Vec::new();
    for _ in 0..reply.rows.get() {
        let row = ColumnRow::ref_from_prefix(rest).ok()?.0;
        let (key_bytes, value_bytes) = (usize::from(row.key_bytes), usize::from(row.value_bytes.get()));
        let (record, behind) = rest.split_at_checked(row_bytes(key_bytes, value_bytes))?;
        let (key, value) = record[size_of::<ColumnRow>()..].split_at(key_bytes);
        let (key, value) = (key.to_vec(), &value[..value_bytes]);
        if row.column & COLUMN_ROW_LEFT_OUT == 0 {
            rows.push((key, row.column.into(), value.to_vec()));
        } else {
            left_out.push(LeftOut {
                key,
                is_cut: row.column & COLUMN_ROW_CUT_KEY != 0,
                column: (row.column & !(COLUMN_ROW_LEFT_OUT | COLUMN_ROW_CUT_KEY)).into(),
                value_bytes: u64::from_be_bytes(value.try_into().ok()?),
                behind: rows.len(),
            });
        }
        rest = behind;
    }
    Some(Answer {
        source: reply.source,
        flags: reply.flags,
        version_ms: reply.version_ms.get(),
        rows,
        left_out,
    })
}
