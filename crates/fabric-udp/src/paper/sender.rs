//! Sender of blocks as packets in the paper format, as the paper's published code sends them.
//!
//! A block is sent as its header, its transactions and its metadata, one datagram each. Identities in the cache are cut
//! out, and a locator has the position and the number of each cut identity; pointers mark the fields that the
//! receiver's hardware needs. Unlike the published code, this sender gives a number to an identity that is not in the
//! cache, and sends an update with the identity before the first packet that needs it. No packet therefore refers to an
//! identity that was never sent.

use super::{CACHE_RUN, HEADER, METADATA, NOTE_DATA, TRANSACTION, field_of};
use crate::cut;
use hashbrown::{HashMap, HashSet};
use lineside_fabric::proto::wire;
use lineside_wire::{FABRIC_PAPER_BYTES_MAX, FABRIC_PAPER_LOCATOR};
use std::ops::Range;

/// Maximum number of endorsements of a transaction whose identities are cut out.
const ENDORSERS: usize = 8;
/// Type of a transaction that sets the configuration, in its channel header.
const CONFIG: u64 = 1;

/// Pointers in the packet of a transaction; each gives the receiver the place of a field. A pointer here is its kind in
/// the paper format, and the path of protobuf field numbers to the field.
const POINTERS: [(u8, &[u32]); 6] = [
    // Name of the chaincode, in the extension of the channel header.
    (0x23, &[1, 1, 1, 1, 7, 2, 2]),
    // First action of the transaction.
    (0x25, &[1, 1, 2, 1]),
    // Payload of the proposal for the chaincode.
    (0x29, &[1, 1, 2, 1, 2, 1]),
    // Read and write sets: the results in the endorsed proposal response.
    (0x2a, &[1, 1, 2, 1, 2, 2, 1, 2, 1]),
    // First endorsement.
    (0x2b, &[1, 1, 2, 1, 2, 2, 2]),
    // Signature of the creator over the payload of the envelope.
    (0x2e, &[1, 2]),
];
/// Locator of the creator's identity, in the signature header of the transaction.
const CREATOR: (u8, &[u32]) = (0x24, &[1, 1, 1, 2, 1]);
/// Locator of the creator's identity, in the header of the first action.
const ACTION_CREATOR: (u8, &[u32]) = (0x26, &[1, 1, 2, 1, 1, 1]);
/// Kind of the locators of endorsers' identities.
const ENDORSER: u8 = 0x2c;
/// Path to the endorsed action, whose fields 2 are the endorsements.
const ENDORSED: &[u32] = &[1, 1, 2, 1, 2, 2];
/// Locator of the orderer's identity, in the first block signature.
const ORDERER: (u8, &[u32]) = (0x40, &[3, 1, 2, 1, 1]);
/// Pointer to the orderer's signature.
const ORDERER_SIGNATURE: (u8, &[u32]) = (0x41, &[3, 1, 2, 2]);

/// Reason why a block cannot be sent in the paper format. The receiver then fetches the block with Deliver.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Unsendable {
    /// The published code refuses the genesis block, and so does this sender.
    #[error("the block is the genesis block, which the paper format does not send")]
    Genesis,
    /// The published code refuses blocks that set a configuration, and so does this sender.
    #[error("the block sets the channel's configuration, and the paper format does not send such blocks")]
    Config,
    /// The block does not have the form in which orderers write blocks.
    #[error("the block is not in the form in which an orderer writes blocks")]
    Form,
    /// A part of the block needs a datagram with more bytes than the paper format allows.
    #[error("a part of the block needs a datagram of {0} bytes, but at most 9000 are allowed")]
    Large(usize),
    /// The block has more transactions than the header's packet can express.
    #[error("the block has {0} transactions, but the header's packet can express at most 65535")]
    Many(usize),
}

/// Counters of a sender.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct PaperSent {
    /// Number of blocks.
    pub blocks: u64,
    /// Number of transactions.
    pub transactions: u64,
    /// Number of datagrams, including updates of the cache.
    pub datagrams: u64,
    /// Bytes of the payloads of all datagrams.
    pub bytes: u64,
    /// Bytes of the payloads of the transactions' datagrams.
    pub transaction_bytes: u64,
    /// Number of updates of the cache.
    pub updates: u64,
    /// Bytes of the blocks themselves.
    pub block_bytes: u64,
}

/// Makes packets from blocks, and stores which identities the receiver has in its cache.
#[derive(Default)]
pub struct PaperSender {
    ids: HashMap<Box<[u8]>, u16>,
    used: HashSet<u16>,
    /// Next number to try for identities that no file names.
    free_from: u16,
    /// Updates of the cache that were made for a block that could not be sent.
    unsent_updates: Vec<Vec<u8>>,
    sent: PaperSent,
}

/// Note in a packet's header that describes a part of its payload: kind, offset, description.
type PointerNote = (u8, u16, u16);

fn packet(kind: u8, notes: &[PointerNote], payload: &[&[u8]]) -> Vec<u8> {
    let mut packet = vec![0, 0, kind, notes.len() as u8];
    for (kind, offset, description) in notes {
        packet.push(*kind);
        packet.extend_from_slice(&offset.to_be_bytes());
        packet.extend_from_slice(&description.to_be_bytes());
    }
    payload.iter().for_each(|part| packet.extend_from_slice(part));
    packet
}

/// Returns the range of the first field at this path.
fn find(bytes: &[u8], path: &[u32]) -> Option<Range<usize>> {
    path.iter()
        .try_fold(0..bytes.len(), |within, number| field_of(bytes, within, *number))
}

/// Returns the packet that adds an identity and its number to the receiver's cache.
fn update(id: u16, identity: &[u8]) -> Vec<u8> {
    let note = (FABRIC_PAPER_LOCATOR | NOTE_DATA, id, identity.len() as u16);
    packet(CACHE_RUN, &[note], &[identity])
}

impl PaperSender {
    /// Creates a sender with an empty cache.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an identity with its number. Returns the update for the receiver's cache; `None` if the number is used
    /// already or the identity already has a number.
    pub fn add(&mut self, id: u16, identity: &[u8]) -> Option<Vec<u8>> {
        let is_new = id != u16::MAX && !self.used.contains(&id) && !self.ids.contains_key(identity);
        let update =
            (is_new && identity.len() <= FABRIC_PAPER_BYTES_MAX - 9).then(|| update(id, identity))?;
        self.used.insert(id);
        self.ids.insert(identity.into(), id);
        self.count(&update);
        self.sent.updates += 1;
        Some(update)
    }

    /// Returns the counters.
    pub fn sent(&self) -> PaperSent {
        self.sent
    }

    fn count(&mut self, packet: &[u8]) {
        self.sent.datagrams += 1;
        self.sent.bytes += packet.len() as u64;
    }

    /// Returns the packets of a block in order; updates of the cache precede the packets that need them.
    ///
    /// # Errors
    /// The reason why the block cannot be sent; updates made meanwhile are returned with the next block.
    pub fn packets(&mut self, block: &[u8]) -> Result<Vec<Vec<u8>>, Unsendable> {
        let layout = cut::Layout::of(block);
        let parts: Option<Vec<&[u8]>> = (0..layout.segments())
            .map(|at| block.get(layout.range(at)?))
            .collect();
        let parts = parts.filter(|parts| layout.transactions && parts.len() >= 3);
        let parts = parts.ok_or(Unsendable::Form)?;
        let [head, transactions @ .., metadata] = &parts[..] else {
            return Err(Unsendable::Form);
        };
        check(head, transactions)?;
        let packets = self.make(head, transactions, metadata)?;
        self.sent.blocks += 1;
        self.sent.transactions += transactions.len() as u64;
        self.sent.block_bytes += block.len() as u64;
        Ok(packets)
    }

    fn make(
        &mut self,
        head: &[u8],
        transactions: &[&[u8]],
        metadata: &[u8],
    ) -> Result<Vec<Vec<u8>>, Unsendable> {
        let mut packets = std::mem::take(&mut self.unsent_updates);
        packets.push(header(head, transactions.len()));
        for transaction in transactions {
            let mut locators = Vec::new();
            locators.extend(find(transaction, CREATOR.1).map(|at| (CREATOR.0, at)));
            locators.extend(find(transaction, ACTION_CREATOR.1).map(|at| (ACTION_CREATOR.0, at)));
            locators.extend(endorsers(transaction).into_iter().map(|at| (ENDORSER, at)));
            self.cut(TRANSACTION, transaction, locators, &POINTERS, &mut packets);
        }
        let orderer = find(metadata, ORDERER.1).map(|at| (ORDERER.0, at));
        let locators = orderer.into_iter().collect();
        self.cut(METADATA, metadata, locators, &[ORDERER_SIGNATURE], &mut packets);
        let kind_of = |packet: &Vec<u8>| packet.get(2).copied().unwrap_or_default();
        if let Some(large) = packets
            .iter()
            .map(Vec::len)
            .find(|bytes| *bytes > FABRIC_PAPER_BYTES_MAX)
        {
            packets.retain(|packet| kind_of(packet) == CACHE_RUN);
            self.unsent_updates = packets;
            return Err(Unsendable::Large(large));
        }
        for packet in packets.iter().filter(|packet| kind_of(packet) != CACHE_RUN) {
            self.count(packet);
            if kind_of(packet) == TRANSACTION {
                self.sent.transaction_bytes += packet.len() as u64;
            }
        }
        Ok(packets)
    }

    /// Appends the packet of a section, from which the identities at these places are cut out, after updates for the
    /// identities that are new.
    fn cut(
        &mut self,
        kind: u8,
        section: &[u8],
        mut locators: Vec<(u8, Range<usize>)>,
        pointers: &[(u8, &[u32])],
        packets: &mut Vec<Vec<u8>>,
    ) {
        locators.sort_by_key(|(_, at)| at.start);
        let (mut notes, mut parts, mut done, mut removed) = (Vec::new(), Vec::new(), 0, Vec::new());
        for (kind, at) in locators {
            let identity = section.get(at.clone()).unwrap_or_default();
            if identity.is_empty() || at.start < done {
                continue;
            }
            let Some(id) = self.id_of(identity, packets) else {
                continue;
            };
            let removed_bytes: usize = removed.iter().map(|range: &Range<usize>| range.len()).sum();
            notes.push((FABRIC_PAPER_LOCATOR | kind, (at.start - removed_bytes) as u16, id));
            parts.push(section.get(done..at.start).unwrap_or_default());
            done = at.end;
            removed.push(at);
        }
        parts.push(section.get(done..).unwrap_or_default());
        for (kind, path) in pointers {
            let Some(at) = find(section, path) else { continue };
            let before = removed.iter().filter(|gone| gone.end <= at.start);
            let removed_before: usize = before.map(Range::len).sum();
            notes.push((*kind, (at.start - removed_before) as u16, at.len() as u16));
        }
        packets.push(packet(kind, &notes, &parts));
    }

    /// Returns the number of an identity. A new identity gets a number, and an update for it is appended to `packets`.
    fn id_of(&mut self, identity: &[u8], packets: &mut Vec<Vec<u8>>) -> Option<u16> {
        if let Some(id) = self.ids.get(identity) {
            return Some(*id);
        }
        // Numbers from a file start at 0; the numbers that this sender chooses start in the middle of the range.
        while self.free_from < u16::MAX / 2 {
            let id = u16::MAX / 2 + 1 + self.free_from;
            self.free_from += 1;
            if let Some(update) = self.add(id, identity) {
                packets.push(update);
                return Some(id);
            }
            if identity.len() > FABRIC_PAPER_BYTES_MAX - 9 {
                return None;
            }
        }
        None
    }
}

/// Returns the ranges of the endorsers' identities.
fn endorsers(transaction: &[u8]) -> Vec<Range<usize>> {
    let Some(mut within) = find(transaction, ENDORSED) else {
        return Vec::new();
    };
    let mut all = Vec::new();
    while all.len() < ENDORSERS
        && let Some(endorsement) = field_of(transaction, within.clone(), 2)
    {
        within.start = endorsement.end;
        all.extend(field_of(transaction, endorsement, 1));
    }
    all
}

/// Makes the header's packet: all bytes of the block before the first transaction.
fn header(head: &[u8], transactions: usize) -> Vec<u8> {
    // Position of the block number in the header; the pointer marks the value of that field.
    let header = field_of(head, 0..head.len(), 1).unwrap_or(0..0);
    let value = header.start + 1;
    let varint = head.get(value..).unwrap_or_default();
    let length = varint.iter().take_while(|byte| **byte >= 0x80).count() + 1;
    let notes = [
        (0x10, 0, head.len() as u16),
        (FABRIC_PAPER_LOCATOR | super::NOTE_COUNT, transactions as u16, 0),
        (FABRIC_PAPER_LOCATOR | 0x12, 1, 0),
        (0x13, value as u16, length as u16),
    ];
    packet(HEADER, &notes, &[head])
}

/// Returns an error for a block that the published code does not send.
fn check(head: &[u8], transactions: &[&[u8]]) -> Result<(), Unsendable> {
    let header = field_of(head, 0..head.len(), 1).ok_or(Unsendable::Form)?;
    // The block number is the first field of the header, and is omitted if it is 0.
    if head.get(header.start) != Some(&(1 << 3)) {
        return Err(Unsendable::Genesis);
    }
    if transactions.len() > usize::from(u16::MAX) {
        return Err(Unsendable::Many(transactions.len()));
    }
    let channel_header = |of: &&[u8]| find(of, &[1, 1, 1, 1]).and_then(|at| of.get(at).map(<[u8]>::to_vec));
    let is_config = |mut header: &[u8]| {
        matches!(wire::tag(&mut header), Ok((1, wire::VARINT)))
            && wire::varint(&mut header).is_ok_and(|kind| kind == CONFIG)
    };
    match transactions.first().and_then(channel_header) {
        Some(header) if is_config(&header) => Err(Unsendable::Config),
        _ => Ok(()),
    }
}
