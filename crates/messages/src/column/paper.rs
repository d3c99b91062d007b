//! Encoding and decoding of the packets of the paper format, for the host and for clients.

use super::{Cell, ColumnName, FoundCell};
use lineside_wire::{
    COLUMN_PAPER_FOUND, COLUMN_PAPER_GET_REPLY_BYTES, COLUMN_PAPER_KEY_BYTES, COLUMN_PAPER_MORE,
    COLUMN_PAPER_NAME_BYTES, COLUMN_PAPER_NO_ROW, COLUMN_PAPER_ROW_BYTES, COLUMN_PAPER_VALUE_BYTES,
    ColumnCode as Code,
};

/// Number of bytes of the operation's name at the start of a request.
const OP_BYTES: usize = 3;
/// Number of bytes of an `sc1` reply before its rows: status and number of rows.
const SCAN_HEAD_BYTES: usize = 2;

/// A request in the paper format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PaperRequest {
    /// The request `put`, with key, column and value.
    Put(Vec<u8>, Vec<u8>, Vec<u8>),
    /// The request `get`, with key and column.
    Get(Vec<u8>, Vec<u8>),
    /// The request `sc1`, with startRow, column and stopRow. A row at stopRow belongs to the range.
    Scan(Vec<u8>, Vec<u8>, Vec<u8>),
}

/// Returns true if `payload` begins with the name of a paper operation.
pub fn is_paper(payload: &[u8]) -> bool {
    [&b"put"[..], b"get", b"sc1"].contains(&&payload[..OP_BYTES.min(payload.len())])
}

fn before_zeros(bytes: &[u8]) -> Vec<u8> {
    let end = bytes
        .iter()
        .rposition(|byte| *byte != 0)
        .map_or(0, |last| last + 1);
    bytes[..end].to_vec()
}

impl PaperRequest {
    /// Parses a request. Returns `None` if it is too short or not in the paper format.
    pub fn parse(payload: &[u8]) -> Option<Self> {
        let (op, rest) = payload.split_at_checked(OP_BYTES)?;
        let (key, rest) = rest.split_at_checked(COLUMN_PAPER_KEY_BYTES)?;
        let (name, rest) = rest.split_at_checked(COLUMN_PAPER_NAME_BYTES)?;
        let (key, name) = (before_zeros(key), before_zeros(name));
        match op {
            b"get" => Some(Self::Get(key, name)),
            b"sc1" => Some(Self::Scan(
                key,
                name,
                before_zeros(rest.get(..COLUMN_PAPER_KEY_BYTES)?),
            )),
            b"put" => {
                let value = &rest[..COLUMN_PAPER_VALUE_BYTES.min(rest.len())];
                Some(Self::Put(key, name, before_zeros(value)))
            }
            _ => None,
        }
    }

    /// Returns the packet that a client sends. It is padded so that a reply of `rows` rows may be as long. Returns
    /// `None` if a part of the request is too long.
    pub fn to_bytes(&self, rows: usize) -> Option<Vec<u8>> {
        let (op, key, name, last, last_bytes) = match self {
            Self::Put(key, name, value) => (b"put", key, name, &value[..], COLUMN_PAPER_VALUE_BYTES),
            Self::Get(key, name) => (b"get", key, name, &b""[..], 0),
            Self::Scan(start, name, stop) => (b"sc1", start, name, &stop[..], COLUMN_PAPER_KEY_BYTES),
        };
        let mut bytes = op.to_vec();
        for (part, width) in [
            (&key[..], COLUMN_PAPER_KEY_BYTES),
            (name, COLUMN_PAPER_NAME_BYTES),
            (last, last_bytes),
        ] {
            bytes.extend_from_slice(part);
            bytes.resize(bytes.len() + width.checked_sub(part.len())?, 0);
        }
        let room = match self {
            Self::Put(..) => 0,
            Self::Get(..) => COLUMN_PAPER_GET_REPLY_BYTES,
            Self::Scan(..) => SCAN_HEAD_BYTES + rows * COLUMN_PAPER_ROW_BYTES,
        };
        bytes.resize(bytes.len().max(room), 0);
        Some(bytes)
    }

    /// Returns the name of the column; `None` if the name is not valid.
    pub fn column(&self) -> Option<ColumnName> {
        let (Self::Put(_, name, _) | Self::Get(_, name) | Self::Scan(_, name, _)) = self;
        ColumnName::new(name)
    }

    /// Returns the number of bytes of the shortest reply to the request.
    pub const fn reply_bytes_min(&self) -> usize {
        match self {
            Self::Put(..) => 3,
            Self::Get(..) => COLUMN_PAPER_GET_REPLY_BYTES,
            Self::Scan(..) => SCAN_HEAD_BYTES + COLUMN_PAPER_ROW_BYTES,
        }
    }
}

/// Returns the number of rows that fit a reply of `reply_bytes` bytes.
pub const fn rows_in(reply_bytes: usize) -> usize {
    reply_bytes.saturating_sub(SCAN_HEAD_BYTES) / COLUMN_PAPER_ROW_BYTES
}

/// Returns the reply to `put`, without the padding of zeros.
pub fn put_reply(code: Code) -> Vec<u8> {
    let word = if code == Code::Done { b"ok" } else { b"er" };
    [&word[..], &[code as u8]].concat()
}

/// Returns the reply to `get`. If the value is too long for the format, the status is `more` and the reply has no
/// value.
pub fn get_reply(cell: Option<&Cell>) -> Vec<u8> {
    let (status, value) = match cell {
        None => (COLUMN_PAPER_NO_ROW, &b""[..]),
        Some(cell) if cell.value.len() > COLUMN_PAPER_VALUE_BYTES => (COLUMN_PAPER_MORE, &b""[..]),
        Some(cell) => (COLUMN_PAPER_FOUND, &cell.value[..]),
    };
    let mut reply = [&[status], value].concat();
    reply.resize(COLUMN_PAPER_GET_REPLY_BYTES, 0);
    reply
}

/// Returns the reply to `sc1` with at most `room` rows. `more` is true if the range has rows after `cells`. The reply
/// ends before the first row that the format cannot represent.
pub fn scan_reply(cells: &[FoundCell], room: usize, more: bool) -> Vec<u8> {
    let is_sayable = |found: &&FoundCell| {
        found.key.len() <= COLUMN_PAPER_KEY_BYTES
            && found.key.last() != Some(&0)
            && found.cell.value.len() <= COLUMN_PAPER_VALUE_BYTES
    };
    let mut reply = vec![0; SCAN_HEAD_BYTES];
    let mut rows = 0;
    for cell in cells.iter().take(room).take_while(is_sayable) {
        reply.extend_from_slice(&cell.key);
        reply.resize(reply.len() + COLUMN_PAPER_KEY_BYTES - cell.key.len(), 0);
        reply.extend_from_slice(&cell.cell.value);
        reply.resize(reply.len() + COLUMN_PAPER_VALUE_BYTES - cell.cell.value.len(), 0);
        rows += 1;
    }
    let status = match cells.len() {
        0 => COLUMN_PAPER_NO_ROW,
        all if all > rows || more => COLUMN_PAPER_MORE,
        _ => COLUMN_PAPER_FOUND,
    };
    reply[..SCAN_HEAD_BYTES].copy_from_slice(&[status, rows as u8]);
    reply
}

/// Contents of a reply, as a client decodes them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PaperAnswer {
    /// Answer to `put`.
    Put(Code),
    /// Answer to `get`: the value, `None` if there is no such row, or `Err(())` if the value is too long for the
    /// format.
    Get(Result<Option<Vec<u8>>, ()>),
    /// Answer to `sc1`: the rows, and true if more rows follow.
    Scan(Vec<(Vec<u8>, Vec<u8>)>, bool),
}

impl PaperAnswer {
    /// Parses the reply to `request`. Returns `None` if it is not a valid reply.
    pub fn parse(request: &PaperRequest, reply: &[u8]) -> Option<Self> {
        match request {
            PaperRequest::Put(..) => {
                let code = Code::from_code((*reply.get(2)?).into())?;
                let word = if code == Code::Done { b"ok" } else { b"er" };
                reply.starts_with(word).then_some(Self::Put(code))
            }
            PaperRequest::Get(..) => {
                let (status, value) = reply.get(..COLUMN_PAPER_GET_REPLY_BYTES)?.split_first()?;
                match *status {
                    COLUMN_PAPER_FOUND => Some(Self::Get(Ok(Some(before_zeros(value))))),
                    COLUMN_PAPER_NO_ROW => Some(Self::Get(Ok(None))),
                    COLUMN_PAPER_MORE => Some(Self::Get(Err(()))),
                    _ => None,
                }
            }
            PaperRequest::Scan(..) => {
                let (&[status, rows], rest) = reply.split_first_chunk()?;
                let rows = rest.get(..usize::from(rows) * COLUMN_PAPER_ROW_BYTES)?;
                let row = |row: &[u8]| {
                    let (key, value) = row.split_at(COLUMN_PAPER_KEY_BYTES);
                    (before_zeros(key), before_zeros(value))
                };
                let is_known = [COLUMN_PAPER_FOUND, COLUMN_PAPER_NO_ROW, COLUMN_PAPER_MORE].contains(&status);
                let rows = rows.chunks_exact(COLUMN_PAPER_ROW_BYTES).map(row).collect();
                is_known.then_some(Self::Scan(rows, status == COLUMN_PAPER_MORE))
            }
        }
    }
}
