//! The fast path of `column`. This is the executable specification of `xdp/column_fastpath.h`.

use crate::reader::{Block, ForwardReason, Range, SeqlockRead};
use crate::request::{self, Ask, Request};
use crate::store::Store;
use lineside_fastpath::{Counters, DropReason, FastPath, PAYLOAD_BYTES_MAX, Reply, Source, Verdict};
use lineside_wire::{
    COLUMN_PAPER_FOUND, COLUMN_PAPER_GET_REPLY_BYTES, COLUMN_PAPER_KEY_BYTES, COLUMN_PAPER_MORE,
    COLUMN_PAPER_NO_ROW, COLUMN_PAPER_ROW_BYTES, COLUMN_PAPER_VALUE_BYTES, COLUMN_REPLY_MAY_BE_STALE,
    COLUMN_REPLY_MORE, COLUMN_SOURCE_FASTPATH, ColumnCounter, ColumnReply, NATIVE_REPLY_BIT, NativeHeader,
    Status, native,
};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use zerocopy::IntoBytes;

/// Number of bytes of the smallest reply to a scan of the paper format that has room for a row: status, number of rows,
/// one row.
const SCAN_REPLY_BYTES_MIN: usize = 2 + COLUMN_PAPER_ROW_BYTES;

/// Fast path that answers requests whose rows are in its [`Store`], and forwards all other requests to the host.
pub struct ColumnFastPath {
    store: Arc<Store>,
    counters: Counters<{ ColumnCounter::ALL.len() }>,
}

impl ColumnFastPath {
    /// Returns a fast path that answers from `store`.
    pub fn new(store: Arc<Store>) -> Self {
        Self {
            store,
            counters: Counters::default(),
        }
    }

    /// Returns the values of all counters, in the order of [`ColumnCounter::ALL`].
    pub fn counters(&self) -> [u64; ColumnCounter::ALL.len()] {
        self.counters.read()
    }

    /// Handles a request that changes a row, such as put or delete. If its source is trusted, invalidates the row's
    /// block. The request is then forwarded to the host, which changes the table.
    fn change(&self, from: Source, request: &Request) -> ForwardReason {
        if let Ask::Change(key) = &request.ask
            && self.store.trusts(from.address)
            && SeqlockRead::invalidate(&self.store, &request.name, key)
        {
            self.counters.add_one(ColumnCounter::LineInvalidations as usize);
        }
        ForwardReason::Forwarded
    }

    fn paper(
        &self,
        from: Source,
        now_ns: u64,
        payload: &[u8],
        reply: &mut Draft,
    ) -> Result<(), ForwardReason> {
        let request = request::parse_paper(payload).ok_or(ForwardReason::Forwarded)?;
        match &request.ask {
            Ask::Change(_) => Err(self.change(from, &request)),
            Ask::Get(_) if payload.len() < COLUMN_PAPER_GET_REPLY_BYTES => Err(ForwardReason::Forwarded),
            Ask::Get(key) => self.within(now_ns, &request, |section| {
                let Some((block, row)) = section.get(key)? else {
                    reply.put(&[COLUMN_PAPER_NO_ROW]);
                    return Ok(());
                };
                let (_, value) = paper_row(&block, row)?;
                reply.put(&[COLUMN_PAPER_FOUND]);
                reply.put(&value);
                Ok(())
            }),
            // A request this short has no room for a row. The host does not answer it either.
            Ask::Scan(_) if payload.len() < SCAN_REPLY_BYTES_MIN => Err(ForwardReason::Forwarded),
            Ask::Scan(None) => {
                reply.put(&[COLUMN_PAPER_NO_ROW, 0]);
                Ok(())
            }
            Ask::Scan(Some(range)) => self.within(now_ns, &request, |section| {
                reply.put(&[COLUMN_PAPER_FOUND, 0]);
                let room = (payload.len() - 2) / COLUMN_PAPER_ROW_BYTES;
                let mut rows_written = 0;
                let (rows, more) = section.scan(range, |block, from, to| {
                    let last = to.min(from + room - rows_written);
                    for row in from..last {
                        let (key, value) = paper_row(block, row)?;
                        reply.put(&key);
                        reply.put(&value);
                    }
                    rows_written += last - from;
                    Ok(last - from)
                })?;
                let status = match rows {
                    0 => COLUMN_PAPER_NO_ROW,
                    _ if more => COLUMN_PAPER_MORE,
                    _ => COLUMN_PAPER_FOUND,
                };
                reply.bytes[..2].copy_from_slice(&[status, rows as u8]);
                Ok(())
            }),
        }
    }

    fn native(
        &self,
        from: Source,
        now_ns: u64,
        payload: &[u8],
        reply: &mut Draft,
    ) -> Result<(), ForwardReason> {
        // A malformed request is forwarded, because the host answers it with the right status.
        let (header, request) = request::parse_native(payload).ok_or(ForwardReason::Forwarded)?;
        let body = ColumnReply {
            source: COLUMN_SOURCE_FASTPATH,
            flags: if self.store.may_be_stale() {
                COLUMN_REPLY_MAY_BE_STALE
            } else {
                0
            },
            rows: 0.into(),
            reserved: 0.into(),
            version_ms: 0.into(),
            reserved_2: 0.into(),
        };
        reply.skip(size_of::<NativeHeader>() + size_of::<ColumnReply>());
        match &request.ask {
            Ask::Change(_) => Err(self.change(from, &request)),
            Ask::Get(key) => self.within(now_ns, &request, |section| {
                let mut body = body;
                let mut status = Status::Unknown;
                if let Some((block, row)) = section.get(key)? {
                    if !reply.put_rows(&block, row, row + 1) {
                        return Err(ForwardReason::Forwarded);
                    }
                    status = Status::Ok;
                    body.rows = 1.into();
                    body.version_ms = block.version_ms(row).into();
                }
                reply.begin(header, status, &body);
                Ok(())
            }),
            Ask::Scan(None) => Err(ForwardReason::Forwarded),
            Ask::Scan(Some(range)) => self.within(now_ns, &request, |section| {
                let mut body = body;
                let (rows, more, version_ms) = native_scan(section, range, reply)?;
                body.rows = (rows as u16).into();
                body.version_ms = version_ms.into();
                body.flags |= if more { COLUMN_REPLY_MORE } else { 0 };
                reply.begin(header, Status::Ok, &body);
                Ok(())
            }),
        }
    }

    /// Calls `read` and returns its result, if the index of the column did not change during the call.
    fn within(
        &self,
        now_ns: u64,
        request: &Request,
        read: impl FnOnce(&SeqlockRead<'_>) -> Result<(), ForwardReason>,
    ) -> Result<(), ForwardReason> {
        let section = SeqlockRead::begin(&self.store, &request.name, now_ns)?;
        let answered = read(&section);
        match section.validate() {
            true => answered,
            false => Err(ForwardReason::Changing),
        }
    }
}

/// Puts rows into `reply` until it is full. Returns the number of rows, true if more rows may follow, and the newest
/// timestamp.
fn native_scan(
    section: &SeqlockRead<'_>,
    range: &Range,
    reply: &mut Draft,
) -> Result<(usize, bool, u64), ForwardReason> {
    let mut version_ms = 0;
    let (rows, more) = section.scan(range, |block, from, to| {
        let fits = (from..to)
            .take_while(|row| reply.fits(block, from, row + 1))
            .count();
        reply.put_rows(block, from, from + fits);
        for row in from..from + fits {
            version_ms = version_ms.max(block.version_ms(row));
        }
        Ok(fits)
    })?;
    Ok((rows, more, version_ms))
}

/// Returns a row's key and value in the paper format, padded with zeros. Returns [`ForwardReason::Forwarded`] if the
/// format cannot represent the row.
fn paper_row(
    block: &Block<'_>,
    row: usize,
) -> Result<([u8; COLUMN_PAPER_KEY_BYTES], [u8; COLUMN_PAPER_VALUE_BYTES]), ForwardReason> {
    let record = block.row(row).ok_or(ForwardReason::Changing)?;
    let (mut key, mut value) = ([0; COLUMN_PAPER_KEY_BYTES], [0; COLUMN_PAPER_VALUE_BYTES]);
    let says = record.key().len() <= key.len()
        && record.key().last() != Some(&0)
        && record.value().len() <= value.len();
    if !says {
        return Err(ForwardReason::Forwarded);
    }
    key[..record.key().len()].copy_from_slice(record.key());
    value[..record.value().len()].copy_from_slice(record.value());
    Ok((key, value))
}

/// A reply under construction, as long as its request. Bytes that are not written are zero.
struct Draft {
    bytes: [u8; PAYLOAD_BYTES_MAX],
    used: usize,
    len: usize,
}

impl Draft {
    fn new(len: usize) -> Self {
        Self {
            bytes: [0; PAYLOAD_BYTES_MAX],
            used: 0,
            len: len.min(PAYLOAD_BYTES_MAX),
        }
    }

    fn skip(&mut self, bytes: usize) {
        self.used += bytes;
    }

    /// Appends `bytes`. The caller has checked that they fit.
    fn put(&mut self, bytes: &[u8]) {
        if let Some(place) = self.bytes[..self.len].get_mut(self.used..self.used + bytes.len()) {
            place.copy_from_slice(bytes);
        }
        self.used += bytes.len();
    }

    fn fits(&self, block: &Block<'_>, from: usize, to: usize) -> bool {
        self.used + 8 * block.records(from, to).len() <= self.len
    }

    /// Appends rows `from` (inclusive) to `to` (exclusive) of a block. If they do not fit, appends nothing and returns
    /// false.
    fn put_rows(&mut self, block: &Block<'_>, from: usize, to: usize) -> bool {
        let fits = self.fits(block, from, to);
        if fits {
            for word in block.records(from, to) {
                self.put(&word.load(Relaxed).to_ne_bytes());
            }
        }
        fits
    }

    fn begin(&mut self, request: &NativeHeader, status: Status, body: &ColumnReply) {
        let body_bytes = self.len - size_of::<NativeHeader>();
        self.used = 0;
        self.put(native::reply_header(request, status, body_bytes as u16).as_bytes());
        self.put(body.as_bytes());
    }
}

impl FastPath for ColumnFastPath {
    fn answer(&self, from: Source, now_ns: u64, request: &[u8], reply: &mut Reply) -> Verdict {
        let paper = request::is_paper(request);
        let refused = match paper {
            true if !self.store.paper_format() => Some(DropReason::PaperRefused),
            true => None,
            false if !native::is_native(request) => Some(DropReason::NotARequest),
            false => (request[3] & NATIVE_REPLY_BIT != 0).then_some(DropReason::ReplyBit),
        };
        if let Some(reason) = refused {
            return Verdict::Drop(reason);
        }
        let mut draft = Draft::new(request.len());
        let answered = match paper {
            _ if request.len() > PAYLOAD_BYTES_MAX => Err(ForwardReason::Forwarded),
            true => self.paper(from, now_ns, request, &mut draft),
            false => self.native(from, now_ns, request, &mut draft),
        };
        let counter = answered.err().unwrap_or(ColumnCounter::Hits);
        self.counters.add_one(counter as usize);
        match counter {
            ColumnCounter::Hits if reply.put(&draft.bytes[..draft.len]) => Verdict::Reply,
            _ => Verdict::Forward,
        }
    }

    fn changes(&self, request: &[u8]) -> bool {
        request::is_change(request)
    }
}
