//! Encoding and decoding of the native packets of `column`, for the host and for clients.

use super::{Change, ColumnName, FoundCell, NAME_BYTES_MAX, ROW_BYTES_MAX, ScanRange};
use lineside_wire::{
    COLUMN_FLAG_ABSENT, COLUMN_FLAG_REVERSE, COLUMN_FLAG_START_EXCLUSIVE, COLUMN_FLAG_STOP_INCLUSIVE,
    COLUMN_OP_APPEND, COLUMN_OP_CHECK_AND_PUT, COLUMN_OP_DELETE, COLUMN_OP_GET, COLUMN_OP_INCREMENT,
    COLUMN_OP_OPEN, COLUMN_OP_PUT, COLUMN_OP_SCAN, COLUMN_OP_SWITCH, COLUMN_REPLY_LEFT_OUT,
    COLUMN_ROW_CUT_KEY, COLUMN_ROW_LEFT_OUT, ColumnHead, ColumnReply, ColumnRow, ColumnSession, ColumnSwitch,
    NativeHeader, PAYLOAD_BYTES_MAX, Status, native,
};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

/// Number of bytes of a reply before its rows.
pub const REPLY_HEAD_BYTES: usize = size_of::<NativeHeader>() + size_of::<ColumnReply>();

/// Identity of a change: the session in which it is made, and its number in that session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sender {
    /// Number of the session.
    pub slot: u32,
    /// Secret of the session; 0 means that there is no session and the sender must be trusted.
    pub token: u64,
    /// Number of the change. In a session, it is the nonce of the session's last change plus one. Without a session, it
    /// is 0, or a number that the client never uses twice.
    pub nonce: u64,
}

/// Operation of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Reads the cells of one row.
    Get(Vec<u8>, Vec<ColumnName>),
    /// Reads the cells of a range of rows.
    Scan(Rows, Vec<ColumnName>),
    /// Changes one cell.
    Change(Vec<u8>, ColumnName, Change, Sender),
    /// Opens a session.
    Open(ColumnSession),
    /// Switches the fast path off (true) or on (false).
    Switch(bool),
}

/// Range of rows of a scan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rows {
    /// Start key. Empty: the table's first row or, in reverse, its last.
    pub start: Vec<u8>,
    /// True if a row at `start` is not in the range.
    pub start_exclusive: bool,
    /// Stop key. Empty: the table's end.
    pub stop: Vec<u8>,
    /// True if a row at `stop` is in the range.
    pub stop_inclusive: bool,
    /// Maximum number of rows; 0: as many rows as fit the reply.
    pub limit: u16,
    /// True if the rows are read in descending order.
    pub reverse: bool,
}

/// Returns the key that follows `key` in order. It may be longer than keys may be in the table.
fn next_key(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}

impl Rows {
    /// Converts the rows to a range of the table. Returns `None` if `start` comes after `stop`.
    pub fn range(&self) -> Option<ScanRange> {
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
            (!key.is_empty()).then(|| if inclusive { next_key(key) } else { key.clone() })
        };
        let from = |key: &Vec<u8>, exclusive: bool| {
            if exclusive && !key.is_empty() {
                next_key(key)
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
        Some(ScanRange {
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

/// Parses a request into its header and its operation.
///
/// # Errors
/// Returns the status with which the request is refused.
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
        let (name, after_name) = rest.split_first_chunk::<NAME_BYTES_MAX>()?;
        columns.push(ColumnName::from_padded(name)?);
        rest = after_name;
    }
    let mut part = |len: usize| {
        let (padded, after_padded) = rest.split_at_checked(len.next_multiple_of(8))?;
        rest = after_padded;
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

/// Returns the packet that a client sends. It is padded so that a reply of `reply_bytes` bytes may be as long. Returns
/// `None` if the request does not fit a packet.
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

/// Returns the body that switches the fast path off or on.
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

/// Maximum number of bytes that the rows of a reply take.
const ROWS_BYTES_MAX: usize = PAYLOAD_BYTES_MAX / 8 * 8 - REPLY_HEAD_BYTES;

/// Returns the number of bytes that a row takes in a reply, including its padding.
pub fn row_bytes(key_bytes: usize, value_bytes: usize) -> usize {
    (size_of::<ColumnRow>() + key_bytes + value_bytes).next_multiple_of(8)
}

/// A reply under construction. It may become as long as its request.
#[derive(Debug)]
pub struct Draft {
    rows: Vec<u8>,
    room_bytes: usize,
    count: u16,
    version_ms: u64,
    /// Flags `COLUMN_REPLY_…`.
    pub flags: u8,
}

impl Draft {
    /// Creates an empty reply to a request of `request_bytes` bytes.
    pub fn new(request_bytes: usize) -> Self {
        Self {
            rows: Vec::new(),
            room_bytes: request_bytes.saturating_sub(REPLY_HEAD_BYTES),
            count: 0,
            version_ms: 0,
            flags: 0,
        }
    }

    /// Appends the cells of one row. If even the longest packet has no room for the row, appends only its key and the
    /// length of its longest value. If only this reply lacks the room, appends nothing and returns false.
    #[must_use]
    pub fn put(&mut self, cells: &[FoundCell]) -> bool {
        let bytes = |found: &FoundCell| row_bytes(found.key.len(), found.cell.value.len());
        let needed: usize = cells.iter().map(bytes).sum();
        if cells.iter().any(|found| found.key.len() > ROW_BYTES_MAX) || needed > ROWS_BYTES_MAX {
            return self.leave_out(cells);
        }
        if self.rows.len() + needed > self.room_bytes {
            return false;
        }
        for cell in cells {
            self.append(&cell.key, cell.column as u8, &cell.cell.value);
            self.version_ms = self.version_ms.max(cell.cell.timestamp_ms);
        }
        true
    }

    fn leave_out(&mut self, cells: &[FoundCell]) -> bool {
        // If several values have the maximum length, this takes the first of them.
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

    /// Appends a cell. The caller has checked that the reply has room for it.
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

    /// Returns the bytes of the reply. If the request is too short for a reply head, the reply has only a status.
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

/// Returns a reply that consists of a header with `status`.
pub fn refusal(header: &NativeHeader, status: Status) -> Vec<u8> {
    native::reply_header(header, status, 0).as_bytes().to_vec()
}

/// Contents of a reply's body, as a client decodes them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Sender of the reply: `COLUMN_SOURCE_FASTPATH` or `COLUMN_SOURCE_HOST`.
    pub source: u8,
    /// Flags `COLUMN_REPLY_…`.
    pub flags: u8,
    /// Newest timestamp of the rows, in milliseconds since 1970.
    pub version_ms: u64,
    /// Cells, each as the row's key, the index of the column in the request, and the value.
    pub rows: Vec<(Vec<u8>, usize, Vec<u8>)>,
    /// Rows that do not fit a packet, of which only the key is returned.
    pub left_out: Vec<LeftOut>,
}

/// A row that exists in the table but does not fit a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// Key of the row, possibly truncated.
    pub key: Vec<u8>,
    /// True if the key is truncated. The reply then represents all rows whose keys begin with these bytes.
    pub is_cut: bool,
    /// Index of the column with the longest value of the row.
    pub column: usize,
    /// Length in bytes of that longest value.
    pub value_bytes: u64,
    /// Number of the answer's `rows` that come before this row.
    pub rows_before: usize,
}

impl Answer {
    /// If the scan has not read its whole range, returns the key at which the client continues, and true if a row with
    /// that key is excluded. Otherwise returns `None`.
    pub fn continuation(&self, reverse: bool) -> Option<(Vec<u8>, bool)> {
        let last = self
            .left_out
            .last()
            .filter(|last| last.rows_before == self.rows.len());
        match last {
            None => self.rows.last().map(|(key, _, _)| (key.clone(), true)),
            Some(last) if !last.is_cut => Some((last.key.clone(), true)),
            // In descending order, rows that begin with the truncated key come before the row with exactly that key.
            Some(last) if reverse => Some((last.key.clone(), false)),
            Some(last) => {
                let end = last.key.iter().rposition(|byte| *byte != 0xff)?;
                let mut key = last.key[..=end].to_vec();
                key[end] += 1;
                Some((key, false))
            }
        }
    }

    /// Returns the number of rows in the answer, including rows that do not fit a packet.
    pub fn count(&self) -> usize {
        let rows = self.rows.chunk_by(|one, other| one.0 == other.0).count();
        rows + self.left_out.len()
    }
}

/// Parses the body of a reply. Returns `None` if it is malformed.
pub fn parse_reply(body: &[u8]) -> Option<Answer> {
    let (reply, mut rest) = ColumnReply::ref_from_prefix(body).ok()?;
    let mut rows = Vec::with_capacity(reply.rows.get().into());
    let mut left_out = Vec::new();
    for _ in 0..reply.rows.get() {
        let row = ColumnRow::ref_from_prefix(rest).ok()?.0;
        let (key_bytes, value_bytes) = (usize::from(row.key_bytes), usize::from(row.value_bytes.get()));
        let (record, after_record) = rest.split_at_checked(row_bytes(key_bytes, value_bytes))?;
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
                rows_before: rows.len(),
            });
        }
        rest = after_record;
    }
    Some(Answer {
        source: reply.source,
        flags: reply.flags,
        version_ms: reply.version_ms.get(),
        rows,
        left_out,
    })
}
