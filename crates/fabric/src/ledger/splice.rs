//! A block's bytes without the identities in them: what stands between, and which identity comes next.
//!
//! Only where the bytes of an identity lie is looked for, so putting them back gives the same bytes, whatever they are.

use crate::block::{Block, SIGNATURES, header_type};
use crate::limits::{BLOCK_BYTES_MAX, TRANSACTIONS_MAX};
use crate::proto::{
    self, Arena, ChaincodeActionPayload, ChannelHeader, Envelope, Metadata, Payload, SignatureHeader,
    Transaction, wire,
};
use crate::state::TxId;
use lineside_journal::Lsn;
use sha2::{Digest, Sha256};

/// Shorter identities are left where they are.
const IDENTITY_BYTES_MIN: usize = 64;

/// What is found in a block.
#[derive(Default)]
pub(crate) struct Walked<'a> {
    /// Where identities begin, in order, and their bytes.
    pub spans: Vec<(usize, &'a [u8])>,
    /// The id of each transaction, where it has one.
    pub ids: Vec<Option<TxId>>,
}

/// Finds the identities and the transactions' ids. `block` was read from `bytes`.
pub(crate) fn walk<'a>(bytes: &'a [u8], block: &Block<'_>, identity_bytes_max: usize) -> Walked<'a> {
    let mut finder = Finder {
        bytes,
        identity_bytes_max,
        spans: Vec::with_capacity(block.transactions.len() * 4),
    };
    let ids = block
        .transactions
        .iter()
        .map(|envelope| finder.transaction(envelope))
        .collect();
    finder.signatures(block);
    let mut spans = finder.spans;
    spans.sort_unstable_by_key(|(at, _)| *at);
    let mut end = 0;
    spans.retain(|(at, identity)| {
        let apart = *at >= end;
        if apart {
            end = at + identity.len();
        }
        apart
    });
    Walked { spans, ids }
}

struct Finder<'a> {
    bytes: &'a [u8],
    identity_bytes_max: usize,
    spans: Vec<(usize, &'a [u8])>,
}

impl Finder<'_> {
    /// Notes an identity, if it lies in the block: what was rewritten to be read lies elsewhere.
    fn identity(&mut self, identity: &[u8]) {
        if !(IDENTITY_BYTES_MIN..=self.identity_bytes_max).contains(&identity.len()) {
            return;
        }
        let at = (identity.as_ptr() as usize).checked_sub(self.bytes.as_ptr() as usize);
        let found = at.and_then(|at| Some((at, self.bytes.get(at..at.checked_add(identity.len())?)?)));
        if let Some((at, found)) = found {
            self.spans.push((at, found));
        }
    }

    fn signatures(&mut self, block: &Block<'_>) {
        let arena = Arena::new();
        let Some(bytes) = block.metadata.get(SIGNATURES) else {
            return;
        };
        let Ok(metadata) = proto::decode::<Metadata<'_>>(bytes, &arena) else {
            return;
        };
        for signature in &metadata.signatures {
            if let Ok(by) = proto::decode::<SignatureHeader<'_>>(signature.signature_header, &arena) {
                self.identity(by.creator);
            }
        }
    }

    /// The id is found as the validator finds it.
    fn transaction(&mut self, envelope: &[u8]) -> Option<TxId> {
        let arena = Arena::new();
        let envelope: Envelope<'_> = proto::decode(envelope, &arena).ok()?;
        let payload: Payload<'_> = proto::decode(envelope.payload, &arena).ok()?;
        let header = payload.header?;
        let by = proto::decode::<SignatureHeader<'_>>(header.signature_header, &arena).ok();
        if let Some(by) = &by {
            self.identity(by.creator);
        }
        let channel_header: ChannelHeader<'_> = proto::decode(header.channel_header, &arena).ok()?;
        if channel_header.kind == header_type::ENDORSER_TRANSACTION {
            self.actions(payload.data);
        }
        match channel_header.tx_id {
            "" => by.map(|by| {
                let hasher = Sha256::new().chain_update(by.nonce);
                TxId::Hash(hasher.chain_update(by.creator).finalize().into())
            }),
            text => Some(TxId::new(text)),
        }
    }

    fn actions(&mut self, data: &[u8]) {
        let arena = Arena::new();
        let Ok(transaction) = proto::decode::<Transaction<'_>>(data, &arena) else {
            return;
        };
        for action in &transaction.actions {
            if let Ok(by) = proto::decode::<SignatureHeader<'_>>(action.header, &arena) {
                self.identity(by.creator);
            }
            let payload = proto::decode::<ChaincodeActionPayload<'_>>(action.payload, &arena);
            let endorsed = payload.ok().and_then(|payload| payload.action);
            for endorsement in endorsed.iter().flat_map(|endorsed| &endorsed.endorsements) {
                self.identity(endorsement.endorser);
            }
        }
    }
}

/// Appends a block: its length, the codes, the records that hold its identities, then what stands between these.
pub(crate) fn encode(bytes: &[u8], codes: &[u8], spans: &[(usize, &[u8])], lsns: &[Lsn], out: &mut Vec<u8>) {
    wire::put_varint(out, bytes.len() as u64);
    wire::put_varint(out, codes.len() as u64);
    out.extend_from_slice(codes);
    let mut table = lsns.to_vec();
    table.sort_unstable();
    table.dedup();
    wire::put_varint(out, table.len() as u64);
    let mut before = 0;
    for lsn in &table {
        wire::put_varint(out, lsn - before);
        before = *lsn;
    }
    let mut done = 0;
    for ((at, identity), lsn) in spans.iter().zip(lsns) {
        let place = table.binary_search(lsn).unwrap_or_default();
        wire::put_varint(out, (at - done) as u64);
        out.extend_from_slice(bytes.get(done..*at).unwrap_or_default());
        wire::put_varint(out, place as u64);
        done = at + identity.len();
    }
    let rest = bytes.get(done..).unwrap_or_default();
    if !rest.is_empty() {
        wire::put_varint(out, rest.len() as u64);
        out.extend_from_slice(rest);
    }
}

/// What [`encode`] wrote, before the identities are put back.
pub(crate) struct Encoded<'a> {
    length: usize,
    pub codes: &'a [u8],
    /// The records that hold its identities.
    pub table: Vec<Lsn>,
    rest: &'a [u8],
}

impl<'a> Encoded<'a> {
    /// Reads what stands before the block itself.
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

    /// The block; `identities` are those of the table.
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
            let place = usize::try_from(wire::varint(&mut rest).ok()?).ok()?;
            put(&mut bytes, identities.get(place)?.as_ref())?;
        }
        (rest.is_empty() && bytes.len() == self.length).then_some(bytes)
    }
}
