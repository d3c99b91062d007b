//! Compact encoding of a block's bytes, in which each identity is replaced by a reference to the record that holds it.
//!
//! The encoder uses only the positions of the identities' bytes, so decoding always returns the same bytes, also for a
//! block that is malformed.

use crate::block::{Block, header_type};
use crate::limits::{BLOCK_BYTES_MAX, TRANSACTIONS_MAX};
use crate::parts::BlockParts;
use crate::proto::{
    self, Arena, ChaincodeActionPayload, ChannelHeader, Envelope, Payload, SignatureHeader, Transaction, wire,
};
use crate::state::TxId;
use hashbrown::HashMap;
use lineside_journal::Lsn;
use sha2::{Digest, Sha256};
use std::ops::Range;

/// Finds the identities and the transaction ids of a block that was not validated. `block` was parsed from `bytes`.
pub(crate) fn walk(bytes: &[u8], block: &Block<'_>) -> BlockParts {
    let arena = Arena::new();
    let mut finder = Finder {
        bytes,
        places: HashMap::new(),
        parts: BlockParts::default(),
    };
    for envelope in &block.transactions {
        let head = TxHeaders::read(envelope, &arena);
        finder.parts.ids.push(head.as_ref().and_then(TxHeaders::id));
        if let Some(head) = head {
            finder.transaction(&head, &arena);
        }
    }
    let mut parts = finder.parts;
    parts.add_signers(bytes, block);
    parts.sort();
    parts
}

/// Returns the ids of a block's transactions, as the validator determines them.
pub(crate) fn ids(block: &Block<'_>) -> Vec<Option<TxId>> {
    let arena = Arena::new();
    let all = block.transactions.iter();
    all.map(|envelope| TxHeaders::read(envelope, &arena)?.id())
        .collect()
}

/// The headers of a transaction.
struct TxHeaders<'a> {
    by: Option<SignatureHeader<'a>>,
    channel_header: Option<ChannelHeader<'a>>,
    data: &'a [u8],
}

impl<'a> TxHeaders<'a> {
    fn read(envelope: &'a [u8], arena: &'a Arena) -> Option<Self> {
        let envelope: Envelope<'_> = proto::decode(envelope, arena).ok()?;
        let payload: Payload<'_> = proto::decode(envelope.payload, arena).ok()?;
        let header = payload.header?;
        Some(Self {
            by: proto::decode(header.signature_header, arena).ok(),
            channel_header: proto::decode(header.channel_header, arena).ok(),
            data: payload.data,
        })
    }

    fn id(&self) -> Option<TxId> {
        match self.channel_header.as_ref()?.tx_id {
            "" => self.by.as_ref().map(|by| {
                let hasher = Sha256::new().chain_update(by.nonce);
                TxId::Hash(hasher.chain_update(by.creator).finalize().into())
            }),
            text => Some(TxId::new(text)),
        }
    }
}

struct Finder<'a> {
    bytes: &'a [u8],
    places: HashMap<&'a [u8], usize>,
    parts: BlockParts,
}

impl<'a> Finder<'a> {
    fn identity(&mut self, identity: &'a [u8]) {
        let next = self.places.len();
        let place = *self.places.entry(identity).or_insert(next);
        self.parts.add(self.bytes, identity, place);
    }

    fn transaction(&mut self, head: &TxHeaders<'a>, arena: &'a Arena) {
        if let Some(by) = &head.by {
            self.identity(by.creator);
        }
        let kind = head.channel_header.as_ref().map(|header| header.kind);
        if kind == Some(header_type::ENDORSER_TRANSACTION) {
            self.actions(head.data, arena);
        }
    }

    fn actions(&mut self, data: &'a [u8], arena: &'a Arena) {
        let Ok(transaction) = proto::decode::<Transaction<'_>>(data, arena) else {
            return;
        };
        for action in &transaction.actions {
            if let Ok(by) = proto::decode::<SignatureHeader<'_>>(action.header, arena) {
                self.identity(by.creator);
            }
            let payload = proto::decode::<ChaincodeActionPayload<'_>>(action.payload, arena);
            let endorsed = payload.ok().and_then(|payload| payload.action);
            for endorsement in endorsed.iter().flat_map(|endorsed| &endorsed.endorsements) {
                self.identity(endorsement.endorser);
            }
        }
    }
}

/// Appends an encoded block: its length, the codes, the records that hold its identities, then the bytes between these.
/// `spans` are the position of each occurrence of an identity and the identity's index in `lsns`, which are the records
/// that hold the identities. An identity without a record stays in the bytes.
pub(crate) fn encode(
    bytes: &[u8],
    codes: &[u8],
    spans: &[(Range<usize>, usize)],
    lsns: &[Option<Lsn>],
    out: &mut Vec<u8>,
) {
    wire::put_varint(out, bytes.len() as u64);
    wire::put_varint(out, codes.len() as u64);
    out.extend_from_slice(codes);
    let mut used = vec![false; lsns.len()];
    for (_, identity) in spans {
        if let Some(used) = used.get_mut(*identity) {
            *used = true;
        }
    }
    let used_lsns = lsns.iter().zip(used).filter(|(_, used)| *used);
    let mut table: Vec<Lsn> = used_lsns.filter_map(|(lsn, _)| *lsn).collect();
    table.sort_unstable();
    table.dedup();
    let place_of = |lsn: &Option<Lsn>| table.binary_search(&(*lsn)?).ok();
    let places: Vec<Option<usize>> = lsns.iter().map(place_of).collect();
    wire::put_varint(out, table.len() as u64);
    let mut before = 0;
    for lsn in &table {
        wire::put_varint(out, lsn - before);
        before = *lsn;
    }
    let mut done = 0;
    for (at, identity) in spans {
        let Some(index) = places.get(*identity).copied().flatten() else {
            continue;
        };
        wire::put_varint(out, (at.start - done) as u64);
        out.extend_from_slice(bytes.get(done..at.start).unwrap_or_default());
        wire::put_varint(out, index as u64);
        done = at.end;
    }
    let rest = bytes.get(done..).unwrap_or_default();
    if !rest.is_empty() {
        wire::put_varint(out, rest.len() as u64);
        out.extend_from_slice(rest);
    }
}

/// A block encoded by [`encode`], before the identities are filled in.
pub(crate) struct Encoded<'a> {
    length: usize,
    pub codes: &'a [u8],
    /// Records that hold the identities.
    pub table: Vec<Lsn>,
    rest: &'a [u8],
}

impl<'a> Encoded<'a> {
    /// Decodes everything before the bytes of the block.
    pub fn read(mut stream: &'a [u8]) -> Option<Self> {
        let length = usize::try_from(wire::varint(&mut stream).ok()?).ok()?;
        let count = usize::try_from(wire::varint(&mut stream).ok()?).ok()?;
        if length > BLOCK_BYTES_MAX || count > TRANSACTIONS_MAX {
            return None;
        }
        let (codes, mut stream) = stream.split_at_checked(count)?;
        let identities = wire::varint(&mut stream).ok()?;
        if identities > stream.len() as u64 {
            return None;
        }
        let mut table = Vec::new();
        let mut lsn: Lsn = 0;
        for _ in 0..identities {
            lsn = lsn.checked_add(wire::varint(&mut stream).ok()?)?;
            table.push(lsn);
        }
        Some(Self {
            length,
            codes,
            table,
            rest: stream,
        })
    }

    /// Returns the block's bytes. `identities` are the identities in the records of `table`, in the same order.
    pub fn restore(&self, identities: &[impl AsRef<[u8]>]) -> Option<Vec<u8>> {
        let mut bytes = Vec::with_capacity(self.length);
        let mut rest = self.rest;
        let put = |bytes: &mut Vec<u8>, part: &[u8]| {
            let fits = part.len() <= self.length - bytes.len();
            fits.then(|| bytes.extend_from_slice(part))
        };
        while !rest.is_empty() {
            let length = usize::try_from(wire::varint(&mut rest).ok()?).ok()?;
            let (between, after) = rest.split_at_checked(length)?;
            put(&mut bytes, between)?;
            rest = after;
            if bytes.len() == self.length {
                break;
            }
            let index = usize::try_from(wire::varint(&mut rest).ok()?).ok()?;
            put(&mut bytes, identities.get(index)?.as_ref())?;
        }
        (rest.is_empty() && bytes.len() == self.length).then_some(bytes)
    }
}
