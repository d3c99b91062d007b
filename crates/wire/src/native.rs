//! Parses and builds the 16-byte header of the native format.

use crate::trace::{NoTrace, Rule, Trace};
use crate::{DropReason, NATIVE_MAGIC, NATIVE_REPLY_BIT, NATIVE_VERSION, NativeHeader, Status};
use zerocopy::FromBytes;

/// Returns true if `payload` begins with the magic number of the native format. Such a payload is handled as native
/// even if the rest of the payload is malformed.
pub fn is_native(payload: &[u8]) -> bool {
    payload.len() >= size_of::<NativeHeader>() && payload[..2] == NATIVE_MAGIC.to_be_bytes()
}

/// Returns the operation of a native request; `None` for a reply, and for a payload in another format.
pub fn request_op(payload: &[u8]) -> Option<u8> {
    let op = payload.get(3).filter(|_| is_native(payload))?;
    (op & NATIVE_REPLY_BIT == 0).then_some(*op)
}

/// Returns the reason why a service without a paper format drops `payload` without a reply. Returns `None` for a native
/// request, which is answered even if it is malformed.
pub fn drop_reason(payload: &[u8]) -> Option<DropReason> {
    match is_native(payload) {
        false => Some(DropReason::NotARequest),
        true => (payload[3] & NATIVE_REPLY_BIT != 0).then_some(DropReason::ReplyBit),
    }
}

/// Splits a native packet into header and body.
///
/// # Errors
/// Returns the status to answer with: [`Status::UnsupportedVersion`] for another version, or [`Status::BadRequest`] if
/// the length field does not match the packet or the status field is not 0.
pub fn parse_request(payload: &[u8]) -> Result<(&NativeHeader, &[u8]), Status> {
    parse_request_with(payload, &mut NoTrace)
}

/// Like [`parse_request`]; `trace` receives the decisions.
///
/// # Errors
/// Those of [`parse_request`].
#[inline]
pub fn parse_request_with<'a, T: Trace>(
    payload: &'a [u8],
    trace: &mut T,
) -> Result<(&'a NativeHeader, &'a [u8]), Status> {
    let (header, body) = NativeHeader::ref_from_prefix(payload).map_err(|_| Status::BadRequest)?;
    if !trace.require(Rule::NativeVersion, 2..3, header.version == NATIVE_VERSION) {
        return Err(Status::UnsupportedVersion);
    }
    let is_whole = usize::from(header.length.get()) == body.len() && header.status.get() == 0;
    if !trace.require(Rule::NativeLength, 4..8, is_whole) {
        return Err(Status::BadRequest);
    }
    Ok((header, body))
}

/// Returns the header of a reply to `request` that is followed by a body of `body_bytes` bytes.
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

/// Returns the header that refuses a native request with `status` and has no body, or `None` if `request` is shorter
/// than a header.
pub fn refusal(request: &[u8], status: Status) -> Option<NativeHeader> {
    let (header, _) = NativeHeader::ref_from_prefix(request).ok()?;
    Some(reply_header(header, status, 0))
}

/// Returns the header of a request that is followed by a body of `body_bytes` bytes.
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
