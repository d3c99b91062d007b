//! A block that is coming in, and the cache of a session.

use super::want::Item;
use super::{Dropped, cut};
use hashbrown::HashMap;
use lineside_fabric::proto::{self, Arena};
use lineside_wire::{FABRIC_ENTRIES_MAX, FABRIC_SEGMENTS_MAX};
use sha2::{Digest, Sha256};

/// Bytes of a part at least, the last one aside.
const PART_BYTES_MIN: usize = 256;
/// Bytes of the entries of a session.
pub(crate) const ENTRY_BYTES_MAX: usize = 32 << 20;

#[derive(Default, Debug)]
pub(crate) struct Bits {
    words: Vec<u64>,
    pub count: usize,
}

impl Bits {
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

    /// Whether it is new.
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
pub(crate) struct Parts {
    have: Bits,
    total: u16,
    first: usize,
    end: usize,
}

/// A block that is coming in.
#[derive(Debug)]
pub(crate) struct Assembly {
    pub bytes: Vec<u8>,
    pub segments: u32,
    pub have: Bits,
    parts: HashMap<u32, Parts>,
    parts_total: usize,
    bytes_have: usize,
    /// Bodies that wait for an entry, and for which.
    pub pending: Vec<(u16, Box<[u8]>)>,
    pub pending_bytes: usize,
    /// All of it is here, and good.
    pub whole: bool,
    pub ask_at_ns: u64,
    pub asked: u32,
}

impl Assembly {
    /// Takes `spare` for its bytes.
    pub fn new(mut spare: Vec<u8>, block_bytes: usize, segments: u32) -> Self {
        // Every byte is overwritten before it is looked at, or the count of bytes does not come out.
        spare.truncate(block_bytes);
        spare.resize(block_bytes, 0);
        Self {
            bytes: spare,
            segments,
            have: Bits::new(segments as usize),
            parts: HashMap::new(),
            parts_total: 0,
            bytes_have: 0,
            pending: Vec::new(),
            pending_bytes: 0,
            whole: false,
            ask_at_ns: 0,
            asked: 0,
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

    /// A segment has come whole. Whether that is new.
    pub fn got(&mut self, segment: u32, bytes: usize) -> bool {
        let new = segment < self.segments && self.have.set(segment as usize);
        if new {
            self.bytes_have += bytes;
            self.parts.remove(&segment);
        }
        new
    }

    /// Whether a part may come; room is made for it.
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
        let fresh = Parts {
            have: Bits::new(usize::from(parts)),
            total: parts,
            first: usize::MAX,
            end: 0,
        };
        self.parts.insert(segment, fresh);
        true
    }

    /// A part has come. The range of the segment, if it is whole now.
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

    /// What is not here, as few items as say it.
    pub fn missing(&self, block: u64, items: &mut Vec<Item>, most: usize) {
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
                        items.push(Item::Parts {
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
            items.push(Item::Segments {
                block,
                first: at,
                last: segment - 1,
            });
        }
    }

    /// Whether it is the block of this number, and, with `data_hash`, its transactions are its header's.
    pub fn check(&self, number: u64, data_hash: bool) -> Result<(), Dropped> {
        if self.bytes_have != self.bytes.len() {
            return Err(Dropped::Malformed);
        }
        check(&self.bytes, number, data_hash)
    }
}

/// Whether `bytes` are the block of this number, and, with `data_hash`, its transactions are its header's.
pub(crate) fn check(bytes: &[u8], number: u64, data_hash: bool) -> Result<(), Dropped> {
    let arena = Arena::new();
    let block: proto::Block<'_> = proto::decode(bytes, &arena).map_err(|_| Dropped::Malformed)?;
    let header = block.header.ok_or(Dropped::Malformed)?;
    if header.number != number {
        return Err(Dropped::Malformed);
    }
    if !data_hash {
        return Ok(());
    }
    let mut hasher = Sha256::new();
    for envelope in block.data.iter().flat_map(|data| &data.data) {
        hasher.update(envelope);
    }
    if hasher.finalize().as_slice() != header.data_hash {
        return Err(Dropped::DataHash);
    }
    Ok(())
}

/// The envelope of a transaction that is here.
pub(crate) fn envelope_at(bytes: &[u8], at: usize, length: usize) -> Option<(&[u8], &[u8])> {
    let segment = bytes.get(at..at + length)?;
    Some((segment, cut::envelope(segment)?))
}

/// The cache of a session.
#[derive(Default, Debug)]
pub(crate) struct Entries {
    all: Vec<Option<Box<[u8]>>>,
    bytes: usize,
}

impl Entries {
    pub fn get(&self, id: u16) -> Option<&[u8]> {
        self.all.get(usize::from(id))?.as_deref()
    }

    /// Takes an entry; `None`: it is not what its hash says, another one has its id, or there is no room.
    /// Else whether it is new.
    pub fn put(&mut self, id: u16, bytes: &[u8], sha256: &[u8; 32]) -> Option<bool> {
        let place = usize::from(id);
        if place >= FABRIC_ENTRIES_MAX || bytes.is_empty() {
            return None;
        }
        if let Some(known) = self.get(id) {
            return (known == bytes).then_some(false);
        }
        if self.bytes + bytes.len() > ENTRY_BYTES_MAX || Sha256::digest(bytes).as_slice() != sha256 {
            return None;
        }
        if self.all.len() <= place {
            self.all.resize(place + 1, None);
        }
        self.bytes += bytes.len();
        self.all[place] = Some(bytes.into());
        Some(true)
    }
}
