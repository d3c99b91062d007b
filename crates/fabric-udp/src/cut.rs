//! Division of a block into segments, and the ranges of a segment that are sent in a shorter form: identities as cache
//! ids, and transaction ids as bytes instead of hex.

use lineside_fabric::proto::{
    self, Arena, BlockMetadata, ChaincodeAction, ChaincodeActionPayload, ChannelHeader, Envelope, Metadata,
    Payload, ProposalResponsePayload, SignatureHeader, Transaction, wire,
};
use lineside_wire::FABRIC_SEGMENTS_MAX;
use std::ops::Range;

/// Boundaries of segments.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layout {
    /// Offsets in the block at which the segments begin, and the length of the block as the last element.
    pub bounds: Vec<u32>,
    /// True if all segments but the first and the last are transactions, each with its tag and length.
    pub transactions: bool,
}

impl Layout {
    /// Computes the layout of a block: a segment for each transaction if the block has the form in which orderers write
    /// blocks, otherwise pieces of equal size.
    pub fn of(block: &[u8]) -> Self {
        let transactions = transactions(block).filter(|bounds| bounds.len() <= FABRIC_SEGMENTS_MAX + 1);
        if let Some(bounds) = transactions {
            return Self {
                bounds,
                transactions: true,
            };
        }
        // The block does not have the form in which orderers write blocks, so it is divided into pieces of equal size.
        let piece = (block.len() / 32_768 + 1).max(1_000);
        let mut bounds: Vec<u32> = (0..block.len()).step_by(piece).map(|at| at as u32).collect();
        bounds.push(block.len() as u32);
        Self {
            bounds,
            transactions: false,
        }
    }

    /// Returns the number of segments.
    pub fn segments(&self) -> u32 {
        self.bounds.len().saturating_sub(1) as u32
    }

    /// Returns the range of a segment in the block.
    pub fn range(&self, segment: u32) -> Option<Range<usize>> {
        let at = segment as usize;
        Some(*self.bounds.get(at)? as usize..*self.bounds.get(at + 1)? as usize)
    }
}

fn transactions(block: &[u8]) -> Option<Vec<u32>> {
    let mut bounds = vec![0];
    let mut rest = block;
    let mut has_data = false;
    while !rest.is_empty() {
        let (number, wire_type) = wire::tag(&mut rest).ok()?;
        if (number, wire_type) != (2, wire::BYTES) {
            wire::skip(number, wire_type, &mut rest).ok()?;
            continue;
        }
        if has_data {
            return None;
        }
        has_data = true;
        let mut data = wire::length_delimited(&mut rest).ok()?;
        let end = block.len() - rest.len();
        bounds.push((end - data.len()) as u32);
        while !data.is_empty() {
            if wire::tag(&mut data).ok()? != (1, wire::BYTES) {
                return None;
            }
            wire::length_delimited(&mut data).ok()?;
            bounds.push((end - data.len()) as u32);
        }
    }
    bounds.push(block.len() as u32);
    has_data.then_some(bounds)
}

/// Returns the envelope in a transaction's segment.
pub fn envelope(segment: &[u8]) -> Option<&[u8]> {
    let mut rest = segment;
    let tag = wire::tag(&mut rest).ok()?;
    let content = wire::length_delimited(&mut rest).ok()?;
    (tag == (1, wire::BYTES) && rest.is_empty()).then_some(content)
}

/// Kind of an annotation. The numbers are those of the paper format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum NoteKind {
    /// The proposal response payload, which endorsers sign.
    Response = 0x29,
    /// The read-write set.
    Results = 0x2a,
}

/// An annotation: the sender's claim about the content of a range of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Note {
    /// Kind of the range that the sender claims: a [`NoteKind`] as a number.
    pub kind: u8,
    /// Offset from the segment's first byte.
    pub at: u32,
    /// Length in bytes.
    pub bytes: u32,
}

/// A range of a segment's bytes that is sent in a shorter form.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct CutRange {
    pub range: Range<usize>,
    pub hex: bool,
}

/// Ranges of a segment that can be sent in a shorter form, in order, and the annotations of the segment.
#[derive(Default, Debug)]
pub(crate) struct SegmentCuts {
    pub cuts: Vec<CutRange>,
    pub notes: Vec<Note>,
}

/// Returns the range of `part` in `whole`, if `part` is a slice of the memory of `whole`.
fn position_in(whole: &[u8], part: &[u8]) -> Option<Range<usize>> {
    let at = (part.as_ptr() as usize).checked_sub(whole.as_ptr() as usize)?;
    let end = at.checked_add(part.len())?;
    (end <= whole.len() && !part.is_empty()).then_some(at..end)
}

impl SegmentCuts {
    fn identity(&mut self, segment: &[u8], identity: &[u8]) {
        if let Some(range) = position_in(segment, identity) {
            self.cuts.push(CutRange { range, hex: false });
        }
    }

    /// Finds the ranges of a transaction's segment that can be sent in a shorter form.
    pub fn of_transaction(segment: &[u8]) -> Self {
        let (mut cuts, arena) = (Self::default(), Arena::new());
        if let Some(envelope) = envelope(segment) {
            let _ = cuts.walk(segment, envelope, &arena);
        }
        cuts.ordered()
    }

    fn walk<'a>(&mut self, segment: &'a [u8], envelope: &'a [u8], arena: &'a Arena) -> Option<()> {
        let envelope: Envelope<'a> = proto::decode(envelope, arena).ok()?;
        let payload: Payload<'a> = proto::decode(envelope.payload, arena).ok()?;
        let header = payload.header?;
        if let Ok(channel) = proto::decode::<ChannelHeader<'a>>(header.channel_header, arena) {
            let id = channel.tx_id.as_bytes();
            let plain = id.len() == 64 && id.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
            if let Some(range) = position_in(segment, id).filter(|_| plain) {
                self.cuts.push(CutRange { range, hex: true });
            }
        }
        if let Ok(by) = proto::decode::<SignatureHeader<'a>>(header.signature_header, arena) {
            self.identity(segment, by.creator);
        }
        let transaction: Transaction<'a> = proto::decode(payload.data, arena).ok()?;
        for action in &transaction.actions {
            if let Ok(by) = proto::decode::<SignatureHeader<'a>>(action.header, arena) {
                self.identity(segment, by.creator);
            }
            let payload: ChaincodeActionPayload<'a> = proto::decode(action.payload, arena).ok()?;
            let endorsed = payload.action?;
            for endorsement in &endorsed.endorsements {
                self.identity(segment, endorsement.endorser);
            }
            let response = endorsed.proposal_response_payload;
            self.note(segment, NoteKind::Response, response);
            if let Ok(response) = proto::decode::<ProposalResponsePayload<'a>>(response, arena)
                && let Ok(action) = proto::decode::<ChaincodeAction<'a>>(response.extension, arena)
            {
                self.note(segment, NoteKind::Results, action.results);
            }
        }
        Some(())
    }

    fn note(&mut self, segment: &[u8], kind: NoteKind, bytes: &[u8]) {
        if let Some(range) = position_in(segment, bytes) {
            self.notes.push(Note {
                kind: kind as u8,
                at: range.start as u32,
                bytes: range.len() as u32,
            });
        }
    }

    /// Finds the ranges of the metadata segment, after the transactions, that can be sent in a shorter form: the
    /// identities in the orderer's signatures.
    pub fn of_metadata(segment: &[u8]) -> Self {
        let (mut cuts, arena) = (Self::default(), Arena::new());
        let mut rest = segment;
        let content = wire::tag(&mut rest).ok().and_then(|tag| {
            let content = wire::length_delimited(&mut rest).ok();
            content.filter(|_| tag == (3, wire::BYTES))
        });
        let all = content.and_then(|content| proto::decode::<BlockMetadata<'_>>(content, &arena).ok());
        for bytes in all.iter().flat_map(|all| &all.metadata) {
            let Ok(metadata) = proto::decode::<Metadata<'_>>(bytes, &arena) else {
                continue;
            };
            for of in &metadata.signatures {
                if let Ok(by) = proto::decode::<SignatureHeader<'_>>(of.signature_header, &arena) {
                    cuts.identity(segment, by.creator);
                }
            }
        }
        cuts.ordered()
    }

    /// Sorts the ranges and removes those that overlap an earlier one.
    fn ordered(mut self) -> Self {
        self.cuts.sort_by_key(|cut| cut.range.start);
        let mut end = 0;
        self.cuts.retain(|cut| {
            let is_disjoint = cut.range.start >= end;
            if is_disjoint {
                end = cut.range.end;
            }
            is_disjoint
        });
        self
    }
}

impl Note {
    /// Parses the segment and returns true if this note describes a part of it correctly.
    pub fn check(&self, segment: &[u8]) -> bool {
        SegmentCuts::of_transaction(segment).notes.contains(self)
    }
}
