//! The native format's header, read and written.

use crate::{DropReason, NATIVE_MAGIC, NATIVE_REPLY_BIT, NATIVE_VERSION, NativeHeader, Status};
use zerocopy::FromBytes;

/// Whether `payload` carries the native magic: everything after that is the native format's, good or bad.
pub fn is_native(payload: &[u8]) -> bool {
    payload.len() >= size_of::<NativeHeader>() && payload[..2] == NATIVE_MAGIC.to_be_bytes()
}

/// Returns the reason why nobody answers a payload, at a service that has no other format; `None`: it is a request,
/// good or bad.
pub fn drop_reason(payload: &[u8]) -> Option<DropReason> {
    match is_native(payload) {
        false => Some(DropReason::NotARequest),
        true => (payload[3] & NATIVE_REPLY_BIT != 0).then_some(DropReason::ReplyBit),
    }
}

/// Splits a native packet into header and body.
///
/// # Errors
/// The status to answer with: another version, a length that is not the packet's, or a status in a request.
pub fn parse_request(payload: &[u8]) -> Result<(&NativeHeader, &[u8]), Status> {
    let (header, body) = NativeHeader::ref_from_prefix(payload).map_err(|_| Status::BadRequest)?;
    if header.version != NATIVE_VERSION {
        return Err(Status::UnsupportedVersion);
    }
    if usize::from(header.length.get()) != body.len() || header.status.get() != 0 {
        return Err(Status::BadRequest);
    }
    Ok((header, body))
}

/// The header of a reply to `request` with `body_bytes` bytes behind it.
pub fn reply_header(request: &NativeHeader, status: Status, body_bytes: u16) -> NativeHeader {
    NativeHeader {
        magic: NATIVE_MAGIC.into(),
        version: NATIVE_VERSION,
        op: request.op | NATIVE_REPLY_BIT,
        status: (status as u16).into(),
        length: body_bytes.into(),
        request_id: request.request_id,
    }
}

/// Returns the answer that refuses a native request: its header with `status`, and nothing behind it; `None` where
/// `request` has no header.
pub fn refusal(request: &[u8], status: Status) -> Option<NativeHeader> {
    let (header, _) = NativeHeader::ref_from_prefix(request).ok()?;
    Some(reply_header(header, status, 0))
}

/// The header of a request with `body_bytes` bytes behind it.
pub fn request_header(op: u8, request_id: u64, body_bytes: u16) -> NativeHeader {
    NativeHeader {
        magic: NATIVE_MAGIC.into(),
        version: NATIVE_VERSION,
        op,
        status: 0.into(),
        length: body_bytes.into(),
        request_id: request_id.into(),
    }
}
