//! Receiver's storage: the block that is being received, and the session's cache of entries (identities that the sender
//! has sent once and then refers to by a 16-bit id).

use super::want::WantedItem;
use super::{DropReason, cut};
use hashbrown::HashMap;
use lineside_fabric::proto::{self, Arena};
use lineside_wire::{FABRIC_ENTRIES_MAX, FABRIC_SEGMENTS_MAX};
use sha2::{Digest, Sha256};

/// Minimum size of a part of a segment, in bytes. The last part of a segment may be smaller.
const PART_BYTES_MIN: usize = 256;
/// Maximum total size of a session's cache entries, in bytes.
pub(crate) const ENTRY_BYTES_MAX: usize = 32 << 20;

#[derive(Default, Debug)]
pub(crate) struct BitSet {
    words: Vec<u64>,
    pub count: usize,
}

impl BitSet {
    fn new(bits: usize) -> Self {
        Self {
            words: vec![0; bits.div_ceil(64)],
            count: 0,
        }
    }

    pub fn has(&self, bit: usize) -> bool {
        self.words
            .get(bit / 64)
            .is_some_and(|word| word >> (bit % 64) & 1 != 0)
    }

    /// Sets a bit. Returns true if it was not set before.
    fn set(&mut self, bit: usize) -> bool {
        let Some(word) = self.words.get_mut(bit / 64) else {
            return false;
        };
        let new = *word >> (bit % 64) & 1 == 0;
        *word |= 1 << (bit % 64);
        self.count += usize::from(new);
        new
    }
}

#[derive(Debug)]
pub(crate) struct SegmentParts {
    have: BitSet,
    total: u16,
    first: usize,
    end: usize,
}

/// A block that is being received.
#[derive(Debug)]
pub(crate) struct Assembly {
    pub bytes: Vec<u8>,
    pub segments: u32,
    pub have: BitSet,
    parts: HashMap<u32, SegmentParts>,
    parts_total: usize,
    bytes_have: usize,
    /// Runs of segments that cannot be decoded until a cache entry arrives: the id of that entry, and the bytes of the
    /// run.
    pub pending: Vec<(u16, Box<[u8]>)>,
    pub pending_bytes: usize,
    /// True if all bytes of the block have arrived and were checked.
    pub is_complete: bool,
    pub ask_at_ns: u64,
    pub retransmit_requests: u32,
}

impl Assembly {
    /// Creates an assembly for a block of `block_bytes` bytes, which reuses the memory of `spare`.
    pub fn new(mut spare: Vec<u8>, block_bytes: usize, segments: u32) -> Self {
        // The old content of `spare` is harmless: `check` accepts the block only if as many bytes were written as the
        // block has.
        spare.truncate(block_bytes);
        spare.resize(block_bytes, 0);
        Self {
            bytes: spare,
            segments,
            have: BitSet::new(segments as usize),
            parts: HashMap::new(),
            parts_total: 0,
            bytes_have: 0,
            pending: Vec::new(),
            pending_bytes: 0,
            is_complete: false,
            ask_at_ns: 0,
            retransmit_requests: 0,
        }
    }

    pub fn fits(block_bytes: usize, segments: u32) -> bool {
        let segments = segments as usize;
        segments > 0 && segments <= FABRIC_SEGMENTS_MAX && segments <= block_bytes + 2
    }

    pub fn memory(&self) -> usize {
        self.bytes.len() + self.pending_bytes
    }

    pub fn complete(&self) -> bool {
        self.have.count == self.segments as usize
    }

    /// Records that a segment of `bytes` bytes is complete. Returns true if the segment was not complete before.
    pub fn complete_segment(&mut self, segment: u32, bytes: usize) -> bool {
        let new = segment < self.segments && self.have.set(segment as usize);
        if new {
            self.bytes_have += bytes;
            self.parts.remove(&segment);
        }
        new
    }

    /// Returns true if part number `part` of the `parts` parts of a segment may be stored, and prepares the record of
    /// the segment's parts.
    pub fn expect_part(&mut self, segment: u32, part: u16, parts: u16) -> bool {
        if part >= parts || segment >= self.segments || self.have.has(segment as usize) {
            return false;
        }
        if self.parts.get(&segment).is_some_and(|known| known.total == parts) {
            return true;
        }
        let before = self
            .parts
            .remove(&segment)
            .map_or(0, |known| usize::from(known.total));
        let total = self.parts_total - before + usize::from(parts);
        if total > self.bytes.len() / PART_BYTES_MIN + self.segments as usize {
            return false;
        }
        self.parts_total = total;
        let fresh = SegmentParts {
            have: BitSet::new(usize::from(parts)),
            total: parts,
            first: usize::MAX,
            end: 0,
        };
        self.parts.insert(segment, fresh);
        true
    }

    /// Records that a part of a segment arrived. Returns the range of the segment in the block if the segment is
    /// complete now.
    pub fn got_part(
        &mut self,
        segment: u32,
        part: u16,
        (at, bytes): (usize, usize),
    ) -> Option<(usize, usize)> {
        let parts = self.parts.get_mut(&segment)?;
        parts.have.set(usize::from(part));
        parts.first = parts.first.min(at);
        parts.end = parts.end.max(at + bytes);
        let range = (parts.first, parts.end);
        (parts.have.count == usize::from(parts.total)).then_some(range)
    }

    /// Appends requests for the missing segments and parts to `items`, in as few items as possible, up to `most` items.
    pub fn missing(&self, block: u64, items: &mut Vec<WantedItem>, most: usize) {
        let mut segment = 0;
        while segment < self.segments && items.len() < most {
            let at = segment;
            segment += 1;
            if self.have.has(at as usize) {
                continue;
            }
            if let Some(parts) = self.parts.get(&at) {
                let mut part = 0;
                while part < parts.total && items.len() < most {
                    let first = part;
                    while part < parts.total && !parts.have.has(usize::from(part)) {
                        part += 1;
                    }
                    if part > first {
                        items.push(WantedItem::Parts {
                            block,
                            segment: at,
                            first,
                            last: part - 1,
                        });
                    }
                    part += 1;
                }
                continue;
            }
            while segment < self.segments
                && !self.have.has(segment as usize)
                && !self.parts.contains_key(&segment)
            {
                segment += 1;
            }
            items.push(WantedItem::Segments {
                block,
                first: at,
                last: segment - 1,
            });
        }
    }

    /// Checks that the received bytes are the block with number `number`. If `data_hash` is true, also checks that the
    /// transactions match the data hash in the header.
    pub fn check(&self, number: u64, data_hash: bool) -> Result<(), DropReason> {
        if self.bytes_have != self.bytes.len() {
            return Err(DropReason::Malformed);
        }
        check(&self.bytes, number, data_hash)
    }
}

/// Checks that `bytes` are the block with number `number`. If `data_hash` is true, also checks that the transactions
/// match the data hash in the header.
pub(crate) fn check(bytes: &[u8], number: u64, data_hash: bool) -> Result<(), DropReason> {
    let arena = Arena::new();
    let block: proto::Block<'_> = proto::decode(bytes, &arena).map_err(|_| DropReason::Malformed)?;
    let header = block.header.ok_or(DropReason::Malformed)?;
    if header.number != number {
        return Err(DropReason::Malformed);
    }
    if !data_hash {
        return Ok(());
    }
    let mut hasher = Sha256::new();
    for envelope in block.data.iter().flat_map(|data| &data.data) {
        hasher.update(envelope);
    }
    if hasher.finalize().as_slice() != header.data_hash {
        return Err(DropReason::DataHash);
    }
    Ok(())
}

/// Returns the segment of a complete transaction, which is `length` bytes at `at`, and the envelope in it.
pub(crate) fn envelope_at(bytes: &[u8], at: usize, length: usize) -> Option<(&[u8], &[u8])> {
    let segment = bytes.get(at..at + length)?;
    Some((segment, cut::envelope(segment)?))
}

/// A session's cache of entries.
#[derive(Default, Debug)]
pub(crate) struct Entries {
    all: Vec<Option<Box<[u8]>>>,
    bytes: usize,
}

impl Entries {
    pub fn get(&self, id: u16) -> Option<&[u8]> {
        self.all.get(usize::from(id))?.as_deref()
    }

    /// Stores a cache entry. Returns true if the entry is new; `None` if the entry does not match its hash, if another
    /// entry has its id, or if the limit of the cache is reached.
    pub fn put(&mut self, id: u16, bytes: &[u8], sha256: &[u8; 32]) -> Option<bool> {
        let index = usize::from(id);
        if index >= FABRIC_ENTRIES_MAX || bytes.is_empty() {
            return None;
        }
        if let Some(existing) = self.get(id) {
            return (existing == bytes).then_some(false);
        }
        if self.bytes + bytes.len() > ENTRY_BYTES_MAX || Sha256::digest(bytes).as_slice() != sha256 {
            return None;
        }
        if self.all.len() <= index {
            self.all.resize(index + 1, None);
        }
        self.bytes += bytes.len();
        self.all[index] = Some(bytes.into());
        Some(true)
    }
}
