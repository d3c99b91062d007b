//! The native requests of `spv`, parsed once for the fast path and host alike.

use crate::store::Hash;
use lineside_wire::{
    NativeHeader, RootItem, RootReply, RootsHead, SPV_OP_ROOT, SPV_OP_ROOTS, SPV_ROOTS_MAX, Status, native,
};
use zerocopy::FromBytes;

/// A well-formed native request.
#[derive(Debug)]
pub enum Request<'a> {
    /// One TXID.
    Root(&'a NativeHeader, &'a Hash),
    /// 1 to [`SPV_ROOTS_MAX`] items, each with its TXID where the reply has the root. Their padding is not checked
    /// yet: see [`is_padded`].
    Roots(&'a NativeHeader, &'a [RootItem]),
}

impl<'a> Request<'a> {
    /// Parses a packet that carries the native magic and no reply bit.
    ///
    /// # Errors
    /// The status to refuse it with.
    pub fn parse(payload: &'a [u8]) -> Result<Self, Status> {
        let (header, body) = native::parse_request(payload)?;
        match header.op {
            SPV_OP_ROOT if body.len() == size_of::<RootReply>() => {
                let (txid, padding) = body.split_first_chunk().ok_or(Status::BadRequest)?;
                is_zero(padding).then_some(Self::Root(header, txid))
            }
            SPV_OP_ROOTS => roots(body).map(|items| Self::Roots(header, items)),
            _ => None,
        }
        .ok_or(Status::BadRequest)
    }
}

/// Whether 32 bytes are the paper's reply "unknown" and so no request: no transaction has that id, and two servers on
/// ports of their own choice, made to ask each other by a forged packet, end here. A root that is a TXID is the host's
/// matter (host.rs, `Echoes`).
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

/// Whether an item of a request is zero behind its TXID, as it must be.
pub fn is_padded(item: &RootItem) -> bool {
    is_zero(&item.block_hash) && item.height.get() == 0 && item.status.get() == 0
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}
