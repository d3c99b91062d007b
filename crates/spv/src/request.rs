//! Parser of the native requests of `spv`, shared by fast path and host.

use crate::store::Hash;
use lineside_wire::trace::{NoTrace, Rule, Trace};
use lineside_wire::{
    HeadersHead, NativeHeader, ProofReply, RootItem, RootReply, RootsHead, SPV_HEADER_BYTES, SPV_HEADERS_MAX,
    SPV_OP_HEADERS, SPV_OP_PROOF, SPV_OP_ROOT, SPV_OP_ROOTS, SPV_OP_WITNESS_PROOF, SPV_OP_WTXID_PROOF,
    SPV_PROOF_DEPTH_MAX, SPV_ROOTS_MAX, SPV_WITNESS_ROOM_MAX, Status, WitnessReply, native,
};
use std::ops::RangeInclusive;
use zerocopy::FromBytes;

/// A well-formed native request.
#[derive(Debug)]
pub enum Request<'a> {
    /// One TXID.
    Root(&'a NativeHeader, &'a Hash),
    /// 1 to [`SPV_ROOTS_MAX`] items. Each has its TXID in the field in which the reply has the root. The padding of the
    /// items is not checked yet: see [`is_padded`].
    Roots(&'a NativeHeader, &'a [RootItem]),
    /// One TXID whose Merkle path is requested, and the number of hashes that fit into the reply.
    Proof(&'a NativeHeader, &'a Hash, usize),
    /// One TXID whose WTXID and witness path are requested, and the number of bytes that fit into the reply after its
    /// fixed part.
    WitnessProof(&'a NativeHeader, &'a Hash, usize),
    /// One WTXID whose witness path is requested, and the number of bytes that fit into the reply after its fixed part.
    WtxidProof(&'a NativeHeader, &'a Hash, usize),
    /// Range of headers of the chain.
    Headers(&'a NativeHeader, HeaderRange),
}

/// Range of requested headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeaderRange {
    /// Height of the first header.
    pub start: u32,
    /// Number of requested headers: 1 to `headers_max`.
    pub count: usize,
    /// Number of headers that fit into the reply.
    pub headers_max: usize,
}

impl<'a> Request<'a> {
    /// Parses a packet that carries the native magic and no reply bit.
    ///
    /// # Errors
    /// The status with which the host refuses the request.
    pub fn parse(payload: &'a [u8]) -> Result<Self, Status> {
        Self::parse_with(payload, &mut NoTrace)
    }

    /// Like [`Request::parse`]; `trace` receives the decisions.
    ///
    /// # Errors
    /// Those of [`Request::parse`].
    #[inline]
    pub fn parse_with<T: Trace>(payload: &'a [u8], trace: &mut T) -> Result<Self, Status> {
        let (header, body) = native::parse_request_with(payload, trace)?;
        let request = match header.op {
            SPV_OP_ROOT if body.len() == size_of::<RootReply>() => {
                let (txid, padding) = body.split_first_chunk().ok_or(Status::BadRequest)?;
                is_zero(padding).then_some(Self::Root(header, txid))
            }
            SPV_OP_ROOTS => roots(body).map(|items| Self::Roots(header, items)),
            SPV_OP_PROOF => proof(body).map(|(txid, room)| Self::Proof(header, txid, room)),
            SPV_OP_WITNESS_PROOF => {
                witness_proof(body).map(|(txid, room)| Self::WitnessProof(header, txid, room))
            }
            SPV_OP_WTXID_PROOF => {
                witness_proof(body).map(|(wtxid, room)| Self::WtxidProof(header, wtxid, room))
            }
            SPV_OP_HEADERS => headers(body).map(|range| Self::Headers(header, range)),
            _ => None,
        };
        let begin = payload.len() - body.len();
        trace.fact("operation", || header.op.into());
        trace.fact("body_bytes", || body.len() as u64);
        trace.require(Rule::Body, begin..payload.len(), request.is_some());
        request.ok_or(Status::BadRequest)
    }
}

/// Returns true if 32 bytes are the paper's reply "unknown" (zeros), which no transaction has as its id. Such a packet
/// is not answered. Otherwise a forged packet could make two servers send this reply to each other forever. The host
/// handles replies whose root is also a TXID (`Echoes` in host.rs).
pub fn is_unknown_reply(txid: &Hash) -> bool {
    is_zero(txid)
}

fn roots(body: &[u8]) -> Option<&[RootItem]> {
    let (head, items) = RootsHead::ref_from_prefix(body).ok()?;
    let items = <[RootItem]>::ref_from_bytes(items).ok()?;
    let padded = is_zero(&head.tip_hash) && head.tip_height.get() == 0;
    let counted = items.len() == head.count.get() as usize && (1..=SPV_ROOTS_MAX).contains(&items.len());
    (padded && counted).then_some(items)
}

/// Returns the number of pieces of `each` bytes after the first `head` of `bytes`; `None` if the last piece is
/// incomplete or the number is not allowed.
fn pieces_in(bytes: usize, head: usize, each: usize, allowed: RangeInclusive<usize>) -> Option<usize> {
    let rest = bytes.checked_sub(head)?;
    let pieces = rest / each;
    (rest % each == 0 && allowed.contains(&pieces)).then_some(pieces)
}

// The bytes after the TXID only make the request as long as its reply; their value is ignored.
fn proof(body: &[u8]) -> Option<(&Hash, usize)> {
    let room = pieces_in(
        body.len(),
        size_of::<ProofReply>(),
        size_of::<Hash>(),
        0..=SPV_PROOF_DEPTH_MAX,
    )?;
    Some((body.first_chunk()?, room))
}

// The bytes after the TXID are ignored, as in `proof`.
fn witness_proof(body: &[u8]) -> Option<(&Hash, usize)> {
    let head = size_of::<WitnessReply>();
    let room = pieces_in(body.len(), head, 1, 0..=SPV_WITNESS_ROOM_MAX)?;
    Some((body.first_chunk()?, room))
}

fn headers(body: &[u8]) -> Option<HeaderRange> {
    let room = pieces_in(
        body.len(),
        size_of::<HeadersHead>(),
        SPV_HEADER_BYTES,
        1..=SPV_HEADERS_MAX,
    )?;
    let word = |at: usize| Some(u32::from_be_bytes(*body.get(at..)?.first_chunk()?));
    let (start, count) = (word(0)?, word(4)? as usize);
    (1..=room).contains(&count).then_some(HeaderRange {
        start,
        count,
        headers_max: room,
    })
}

/// Returns true if an item of a request is zero after its TXID, as required.
pub fn is_padded(item: &RootItem) -> bool {
    is_zero(&item.block_hash) && item.height.get() == 0 && item.status.get() == 0
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}
