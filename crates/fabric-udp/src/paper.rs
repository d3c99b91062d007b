//! Receiver for packets in the paper format, from which it restores the same blocks. The format is that of the paper
//! "Hyperledger Fabric within a SmartNIC" and its published code (`docs/papers.md`).
//!
//! Each section is one datagram, without block numbers, retransmission or a MAC. The receiver accepts the packets of
//! every sender at a trusted address. If a datagram is lost, its block is lost. The receiver drops blocks whose data
//! hash does not match.
//!
//! The published code sends the bytes of the block itself, divided before each transaction and before the metadata. The
//! receiver also accepts a header section whose payload is only a `BlockHeader`; a transaction section is then an
//! `Envelope`, and the metadata section a `BlockMetadata`. A locator is an annotation for an identity that was cut out:
//! its offset is the position in the sent payload at which the receiver puts the identity back. An update of the cache
//! has a locator of kind 0x01 whose offset is the identity's number and whose description is the identity's length. The
//! published code intends this but writes zeros there, so a receiver of its packets has to know the identities from the
//! same file ([`identities`]).

pub mod identities;
pub mod sender;

pub use sender::{PaperSender, PaperSent, Unsendable};

use super::{BlockSink, DropReason, assembly};
use hashbrown::HashMap;
use lineside_fabric::proto::wire;
use lineside_wire::{FABRIC_PAPER_BYTES_MAX, FABRIC_PAPER_LOCATOR, PaperAnnotation, PaperHead};
use std::net::IpAddr;
use std::ops::Range;
use zerocopy::FromBytes;

const CACHE_RUN: u8 = 0;
const HEADER: u8 = 1;
const TRANSACTION: u8 = 2;
const METADATA: u8 = 3;
const NOTE_COUNT: u8 = 0x11;
const NOTE_DATA: u8 = 0x01;
/// Kinds of annotations that refer to an identity by its number; all of them are locators.
const IDENTITIES: [u8; 4] = [0x24, 0x26, 0x2c, 0x40];
const IDENTITIES_MAX: usize = 32_768;
const TRANSACTIONS_MAX: usize = 65_535;

/// Maximum number of blocks that are reported as a gap because of one header, because the number in a header is not
/// authenticated. If the gap is real and longer, a header that arrives after these blocks reports the rest.
const GAP_BLOCKS_MAX: u64 = 64;

/// Counters of a receiver of packets in the paper format.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub struct PaperCounters {
    pub datagrams: u64,
    /// Datagrams from an address that is not trusted.
    pub untrusted: u64,
    pub malformed: u64,
    /// Datagrams that refer to an unknown identity.
    pub unknown_identity: u64,
    pub blocks: u64,
    pub dropped: u64,
    pub gaps: u64,
}

/// First byte of an encoded block: the tag of its header field.
const FIRST_TAG: u8 = 1 << 3 | wire::BYTES;

/// Returns the range of the content of the first field with this number, without tag and length, in the message at
/// `within`.
fn field_of(bytes: &[u8], within: Range<usize>, number: u32) -> Option<Range<usize>> {
    let end = within.end;
    let mut rest = bytes.get(within)?;
    while !rest.is_empty() {
        let (field_number, wire_type) = wire::tag(&mut rest).ok()?;
        if (field_number, wire_type) == (number, wire::BYTES) {
            let content = wire::length_delimited(&mut rest).ok()?;
            let start = end - rest.len() - content.len();
            return Some(start..start + content.len());
        }
        let mut after = rest;
        if wire::skip(field_number, wire_type, &mut after).is_err() {
            // The field is longer than the bytes: in the header's packet, the length of the block's data includes the
            // bytes of later packets.
            return None;
        }
        rest = after;
    }
    None
}

/// Returns true if the bytes are one field with this number.
fn is_one_field(bytes: &[u8], number: u32) -> bool {
    let mut rest = bytes;
    matches!(wire::tag(&mut rest), Ok((found, wire::BYTES)) if found == number)
        && wire::length_delimited(&mut rest).is_ok()
        && rest.is_empty()
}

#[derive(Debug)]
struct IncomingBlock {
    number: u64,
    header: Vec<u8>,
    count: usize,
    got: usize,
    data: Vec<u8>,
    metadata: Option<Vec<u8>>,
    /// True if the packets contain the bytes of the block itself, as the published code sends them.
    is_published: bool,
}

/// Receiver of packets in the paper format.
pub struct PaperReceiver {
    is_trusted: Box<dyn Fn(IpAddr) -> bool + Send>,
    next: u64,
    identities: HashMap<u16, Box<[u8]>>,
    coming: Option<IncomingBlock>,
    bytes_max: usize,
    last_announced: Option<u64>,
    counters: PaperCounters,
}

impl PaperReceiver {
    /// Creates a receiver that passes on blocks from `next` on, from datagrams of trusted addresses. A block has at
    /// most `bytes_max` bytes.
    pub fn new(is_trusted: impl Fn(IpAddr) -> bool + Send + 'static, next: u64, bytes_max: usize) -> Self {
        Self {
            is_trusted: Box::new(is_trusted),
            next,
            identities: HashMap::new(),
            coming: None,
            bytes_max,
            last_announced: None,
            counters: PaperCounters::default(),
        }
    }

    /// Returns the counters.
    pub fn counters(&self) -> PaperCounters {
        self.counters
    }

    /// Adds an identity that is known in advance. The published code loads such identities from a file.
    pub fn preload(&mut self, id: u16, identity: &[u8]) {
        if self.identities.len() < IDENTITIES_MAX || self.identities.contains_key(&id) {
            self.identities.insert(id, identity.into());
        }
    }

    /// Returns the number of the block that is passed on next.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Records that the blocks before `next` arrived in another way.
    pub fn set_next(&mut self, next: u64) {
        self.next = next;
        self.last_announced = None;
    }

    /// Processes a datagram.
    pub fn datagram(&mut self, from: IpAddr, datagram: &[u8], blocks: &mut dyn BlockSink) {
        self.counters.datagrams += 1;
        if !(self.is_trusted)(from.to_canonical()) {
            return self.counters.untrusted += 1;
        }
        if self.take(datagram, blocks).is_none() {
            self.counters.malformed += 1;
        }
    }

    fn take(&mut self, datagram: &[u8], blocks: &mut dyn BlockSink) -> Option<()> {
        if datagram.len() > FABRIC_PAPER_BYTES_MAX {
            return None;
        }
        let (head, rest) = PaperHead::ref_from_prefix(datagram).ok()?;
        let (notes, payload) =
            <[PaperAnnotation]>::ref_from_prefix_with_elems(rest, usize::from(head.annotations)).ok()?;
        let kind = head.control & 0x0f;
        if kind == CACHE_RUN {
            let note = notes
                .iter()
                .find(|note| note.kind & !FABRIC_PAPER_LOCATOR == NOTE_DATA)?;
            let identity = payload.get(..usize::from(note.description.get()))?;
            if identity.is_empty() {
                return None;
            }
            self.preload(note.offset.get(), identity);
            return Some(());
        }
        let Some(section) = self.put_back(notes, payload)? else {
            self.counters.unknown_identity += 1;
            self.drop_coming(DropReason::Malformed, blocks);
            return Some(());
        };
        match kind {
            HEADER => {
                let is_count = |note: &&PaperAnnotation| note.kind & !FABRIC_PAPER_LOCATOR == NOTE_COUNT;
                let count = notes.iter().find(is_count)?.offset.get();
                self.begin(section, usize::from(count), blocks)?;
            }
            TRANSACTION => {
                let bytes_max = self.bytes_max;
                let coming = self.coming.as_mut()?;
                let room = coming.got < coming.count.min(TRANSACTIONS_MAX)
                    && coming.data.len() + section.len() <= bytes_max;
                if !room {
                    self.drop_coming(DropReason::Malformed, blocks);
                    return None;
                }
                match coming.is_published {
                    true if !is_one_field(&section, 1) => return None,
                    true => coming.data.extend_from_slice(&section),
                    false => wire::put_bytes(&mut coming.data, 1, &section),
                }
                coming.got += 1;
            }
            METADATA => {
                let coming = self.coming.as_mut()?;
                coming.metadata = Some(match coming.is_published {
                    true => {
                        let content = field_of(&section, 0..section.len(), 3)?;
                        section.get(content)?.to_vec()
                    }
                    false => section,
                });
            }
            _ => return None,
        }
        self.finish(blocks);
        Some(())
    }

    /// Returns the payload with its identities put back at the positions that the locators (notes in the packet) give.
    /// `None` means that a locator is invalid; `Some(None)` means that an identity is unknown.
    fn put_back(&self, notes: &[PaperAnnotation], payload: &[u8]) -> Option<Option<Vec<u8>>> {
        let locators = notes.iter().filter(|note| {
            note.kind & FABRIC_PAPER_LOCATOR != 0 && IDENTITIES.contains(&(note.kind & !FABRIC_PAPER_LOCATOR))
        });
        let mut locators: Vec<_> = locators
            .map(|note| (usize::from(note.offset.get()), note.description.get()))
            .collect();
        locators.sort_by_key(|(offset, _)| *offset);
        let (mut section, mut done) = (Vec::with_capacity(payload.len()), 0);
        for (offset, id) in locators {
            section.extend_from_slice(payload.get(done..offset)?);
            done = offset;
            let Some(identity) = self.identities.get(&id) else {
                return Some(None);
            };
            section.extend_from_slice(identity);
        }
        section.extend_from_slice(payload.get(done..)?);
        Some(Some(section))
    }

    fn begin(&mut self, header: Vec<u8>, count: usize, blocks: &mut dyn BlockSink) -> Option<()> {
        self.drop_coming(DropReason::Malformed, blocks);
        // A `BlockHeader` alone begins with its number or, if the number is 0, with a hash; an encoded block begins
        // with the tag of its header field.
        let is_published = header.first() == Some(&FIRST_TAG);
        let header = match is_published {
            true => header.get(field_of(&header, 0..header.len(), 1)?)?.to_vec(),
            false => header,
        };
        let mut rest = header.as_slice();
        let mut number = 0;
        while !rest.is_empty() {
            let (field, wire_type) = wire::tag(&mut rest).ok()?;
            match (field, wire_type) {
                (1, wire::VARINT) => number = wire::varint(&mut rest).ok()?,
                _ => wire::skip(field, wire_type, &mut rest).ok()?,
            }
        }
        if number > self.next {
            self.on_gap(number - 1, blocks);
        }
        self.coming = (number == self.next).then(|| IncomingBlock {
            number,
            header,
            count,
            got: 0,
            data: Vec::new(),
            metadata: None,
            is_published,
        });
        Some(())
    }

    fn on_gap(&mut self, to: u64, blocks: &mut dyn BlockSink) {
        let to = to.min(self.next.saturating_add(GAP_BLOCKS_MAX - 1));
        if self.last_announced.is_none_or(|told| told < to) {
            self.last_announced = Some(to);
            self.counters.gaps += 1;
            blocks.on_gap(self.next, to);
        }
    }

    fn drop_coming(&mut self, why: DropReason, blocks: &mut dyn BlockSink) {
        if let Some(coming) = self.coming.take() {
            self.counters.dropped += 1;
            blocks.on_dropped(coming.number, why);
            self.on_gap(coming.number, blocks);
        }
    }

    fn finish(&mut self, blocks: &mut dyn BlockSink) {
        let done = |coming: &mut IncomingBlock| coming.got == coming.count && coming.metadata.is_some();
        let Some(coming) = self.coming.take_if(done) else {
            return;
        };
        let mut block = Vec::new();
        wire::put_bytes(&mut block, 1, &coming.header);
        wire::put_bytes(&mut block, 2, &coming.data);
        wire::put_bytes(&mut block, 3, coming.metadata.as_deref().unwrap_or_default());
        match assembly::check(&block, coming.number, true) {
            Ok(()) => {
                self.counters.blocks += 1;
                self.next += 1;
                blocks.on_block(coming.number, block);
            }
            Err(why) => {
                self.counters.dropped += 1;
                blocks.on_dropped(coming.number, why);
                self.on_gap(coming.number, blocks);
            }
        }
    }
}
