//! Parsing, without copying, of the requests that the fast path may answer, and of changes, for which it invalidates
//! blocks. The host handles all other requests.

use crate::head::KeyWords;
use crate::reader::{Range, Stop};
use crate::store::name_words;
use lineside_fastpath::PAYLOAD_BYTES_MAX;
use lineside_wire::{
    COLUMN_FLAG_START_EXCLUSIVE, COLUMN_FLAG_STOP_INCLUSIVE, COLUMN_NAME_BYTES_MAX, COLUMN_OP_DELETE,
    COLUMN_OP_GET, COLUMN_OP_PUT, COLUMN_OP_SCAN, COLUMN_PAPER_GET_BYTES, COLUMN_PAPER_KEY_BYTES,
    COLUMN_PAPER_SCAN_BYTES, ColumnHead, NativeHeader, native,
};
use std::cmp::Ordering;
use zerocopy::FromBytes;

/// Number of bytes of the operation's name in the paper format.
const PAPER_OP_BYTES: usize = 3;

/// A request for one column, as the fast path understands it.
#[derive(Debug)]
pub struct Request {
    /// Name of the column, padded with zeros.
    pub name: [u64; 4],
    /// Operation of the request.
    pub ask: Ask,
}

/// Operation of a request.
#[derive(Debug)]
pub enum Ask {
    /// Reads the row with this key. The key is not empty.
    Get(KeyWords),
    /// Reads the rows of a range; `None` if the range is empty because its start is above its stop.
    Scan(Option<Range>),
    /// Changes the row with this key.
    Change(KeyWords),
}

/// Returns true if `payload` is in the paper format.
pub fn is_paper(payload: &[u8]) -> bool {
    [&b"put"[..], b"get", b"sc1"].contains(&&payload[..PAPER_OP_BYTES.min(payload.len())])
}

/// Returns true if `payload` is a change for which the fast path invalidates a block: a put of the paper format, or a
/// native put or delete.
pub fn is_change(payload: &[u8]) -> bool {
    let is_op = || native::is_native(payload) && [COLUMN_OP_PUT, COLUMN_OP_DELETE].contains(&payload[3]);
    payload.len() <= PAYLOAD_BYTES_MAX && (payload.starts_with(b"put") || is_op())
}

/// Returns a key or name of the paper format without the zeros that pad it.
fn before_zeros(bytes: &[u8]) -> &[u8] {
    let end = bytes
        .iter()
        .rposition(|byte| *byte != 0)
        .map_or(0, |last| last + 1);
    &bytes[..end]
}

/// Parses a request in the paper format. Returns `None` if the host must handle it.
pub fn parse_paper(payload: &[u8]) -> Option<Request> {
    let (op, rest) = payload.split_at_checked(PAPER_OP_BYTES)?;
    let (key, _) = rest.split_at_checked(COLUMN_PAPER_KEY_BYTES)?;
    let name = payload.get(PAPER_OP_BYTES + COLUMN_PAPER_KEY_BYTES..COLUMN_PAPER_GET_BYTES)?;
    let key = KeyWords::new(before_zeros(key))?;
    let not_empty = || (key.bytes() > 0).then_some(key);
    let ask = match op {
        b"get" => Ask::Get(not_empty()?),
        b"put" => Ask::Change(not_empty()?),
        b"sc1" => {
            let stop = payload.get(COLUMN_PAPER_GET_BYTES..COLUMN_PAPER_SCAN_BYTES)?;
            let stop = Stop {
                key: KeyWords::new(before_zeros(stop))?,
                inclusive: true,
            };
            let above = is_above(&key, &stop.key) == Ordering::Greater;
            Ask::Scan((!above).then_some(Range {
                start: key,
                start_exclusive: false,
                stop: Some(stop),
                limit: None,
            }))
        }
        _ => return None,
    };
    let name = name_words(before_zeros(name));
    Some(Request { name, ask })
}

fn is_above(key: &KeyWords, other: &KeyWords) -> Ordering {
    key.compare(|index| other.words()[index], other.bytes()).0
}

/// Parses a native request for one column, whose length must be a multiple of eight bytes. Returns `None` if the host
/// must handle the request.
pub fn parse_native(payload: &[u8]) -> Option<(&NativeHeader, Request)> {
    let (header, body) = native::parse_request(payload).ok()?;
    let (head, rest) = ColumnHead::ref_from_prefix(body).ok()?;
    let (name, rest) = rest.split_at_checked(COLUMN_NAME_BYTES_MAX)?;
    let plain = head.columns == 1
        && head.expected_bytes.get() == 0
        && head.reserved.get() == 0
        && head.nonce.get() == 0
        && payload.len().is_multiple_of(8);
    let reads = head.value_bytes.get() == 0 && head.slot.get() == 0 && head.token.get() == 0;
    let has_plain_head = head.flags == 0 && head.stop_bytes == 0 && head.limit.get() == 0;
    let (start, rest) = padded(rest, head.start_bytes)?;
    let ask = match header.op {
        COLUMN_OP_GET if plain && reads && has_plain_head && start.bytes() > 0 => Ask::Get(start),
        COLUMN_OP_PUT | COLUMN_OP_DELETE if plain && has_plain_head && start.bytes() > 0 => {
            Ask::Change(start)
        }
        COLUMN_OP_SCAN if plain && reads => Ask::Scan(Some(range(head, start, rest)?)),
        _ => return None,
    };
    let name = name_words(name);
    Some((header, Request { name, ask }))
}

/// Returns the range of a scan. Returns `None` if the host must handle the scan: if it is in descending order, or if
/// its range is empty.
fn range(head: &ColumnHead, start: KeyWords, rest: &[u8]) -> Option<Range> {
    if head.flags & !(COLUMN_FLAG_STOP_INCLUSIVE | COLUMN_FLAG_START_EXCLUSIVE) != 0 {
        return None;
    }
    let start_exclusive = head.flags & COLUMN_FLAG_START_EXCLUSIVE != 0;
    let inclusive = head.flags & COLUMN_FLAG_STOP_INCLUSIVE != 0;
    let (key, _) = padded(rest, head.stop_bytes)?;
    let stop = (key.bytes() > 0).then_some(Stop { key, inclusive });
    if stop.is_some() {
        match is_above(&start, &key) {
            Ordering::Less => {}
            Ordering::Equal if inclusive && !start_exclusive => {}
            _ => return None,
        }
    }
    Some(Range {
        start,
        start_exclusive,
        stop,
        limit: Some(usize::from(head.limit.get())).filter(|limit| *limit > 0),
    })
}

/// Splits a key, with the zeros that pad it, off the front. Returns the key and the remaining bytes.
fn padded(bytes: &[u8], len: u8) -> Option<(KeyWords, &[u8])> {
    let len = usize::from(len);
    let (padded, rest) = bytes.split_at_checked(len.next_multiple_of(8))?;
    let (key, zeros) = padded.split_at(len);
    let key = KeyWords::new(key)?;
    zeros.iter().all(|byte| *byte == 0).then_some((key, rest))
}
