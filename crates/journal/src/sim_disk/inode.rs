//! File of the simulated disk: its current content, its durable content, and the contents that may become durable.

use super::rng::Rng;
use std::collections::{BTreeMap, BTreeSet};

pub(super) const SECTOR: usize = 512;
type Sector = [u8; SECTOR];

/// Content of a file. All bytes after the vector `bytes` are zeros, so that a preallocated segment needs no memory.
#[derive(Clone, Debug, Default)]
pub(super) struct Content {
    bytes: Vec<u8>,
    pub(super) length: u64,
}

impl Content {
    pub(super) fn new(bytes: Vec<u8>) -> Content {
        let length = bytes.len() as u64;
        Content { bytes, length }
    }

    pub(super) fn read(&self, offset: u64, into: &mut [u8]) -> usize {
        let count = self.length.saturating_sub(offset).min(into.len() as u64) as usize;
        let from = (offset as usize).min(self.bytes.len());
        let stored = &self.bytes[from..(from + count).min(self.bytes.len())];
        into[..stored.len()].copy_from_slice(stored);
        into[stored.len()..count].fill(0);
        count
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) {
        let (from, to) = (offset as usize, offset as usize + bytes.len());
        if self.bytes.len() < to {
            self.bytes.resize(to, 0);
        }
        self.bytes[from..to].copy_from_slice(bytes);
        self.length = self.length.max(to as u64);
    }

    fn set_len(&mut self, length: u64) {
        self.length = length;
        self.bytes.truncate(length as usize);
    }

    fn sector(&self, number: u64) -> Sector {
        let mut sector = [0; SECTOR];
        self.read(number * SECTOR as u64, &mut sector);
        sector
    }

    /// Sets the content of a sector, as far as the file reaches.
    fn set_sector(&mut self, number: u64, sector: &Sector) {
        let offset = number * SECTOR as u64;
        let count = self.length.saturating_sub(offset).min(SECTOR as u64) as usize;
        if count > 0 {
            self.write(offset, &sector[..count]);
        }
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Inode {
    pub(super) now: Content,
    durable: Content,
    /// Successive contents of each sector written since the last sync; the last one is the current content.
    pending: BTreeMap<u64, Vec<Sector>>,
    /// Successive lengths since the last sync.
    lengths: Vec<u64>,
    /// Sectors that a failed sync dropped. They can be read as written, but they are not durable, and no later sync
    /// writes them.
    forgotten: BTreeSet<u64>,
    pub(super) allocated: u64,
}

impl Inode {
    /// Creates a file whose content is durable.
    pub(super) fn durable(bytes: Vec<u8>) -> Inode {
        let content = Content::new(bytes);
        Inode {
            allocated: content.length.next_multiple_of(SECTOR as u64),
            durable: content.clone(),
            now: content,
            ..Inode::default()
        }
    }

    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        if self.now.length < offset + bytes.len() as u64 {
            self.lengths.push(offset + bytes.len() as u64);
        }
        self.now.write(offset, bytes);
        self.note(offset, offset + bytes.len() as u64);
    }

    pub(super) fn set_len(&mut self, length: u64) {
        let before = self.now.length;
        self.lengths.push(length);
        // The part that was cut off reads as zeros if the file grows again, and its old content may return after a
        // power cut.
        if length < before {
            let end = before.min(self.now.bytes.len() as u64);
            self.now.set_len(length);
            self.note(length, end);
            self.allocated = self.allocated.min(length.next_multiple_of(SECTOR as u64));
        } else {
            self.now.length = length;
        }
    }

    fn note(&mut self, from: u64, to: u64) {
        for number in from / SECTOR as u64..to.div_ceil(SECTOR as u64) {
            let versions = self.pending.entry(number).or_default();
            versions.push(self.now.sector(number));
            self.forgotten.remove(&number);
        }
    }

    pub(super) fn sync(&mut self) {
        self.durable.set_len(self.now.length);
        for (number, versions) in std::mem::take(&mut self.pending) {
            if let Some(sector) = versions.last() {
                self.durable.set_sector(number, sector);
            }
        }
        self.lengths.clear();
    }

    /// Simulates a failed sync: each sector is written, or dropped, or remains pending.
    pub(super) fn fail_sync(&mut self, rng: &mut Rng) {
        let all = rng.below(4);
        for (number, versions) in std::mem::take(&mut self.pending) {
            match if all == 0 { 1 } else { rng.below(3) } {
                0 => {
                    self.durable.length = self
                        .durable
                        .length
                        .max(self.now.length.min((number + 1) * SECTOR as u64));
                    if let Some(sector) = versions.last() {
                        self.durable.set_sector(number, sector);
                    }
                }
                1 => {
                    self.forgotten.insert(number);
                }
                _ => {
                    self.pending.insert(number, versions);
                }
            }
        }
    }

    /// Simulates memory pressure: random dropped sectors leave the page cache and then read as on the disk.
    pub(super) fn evict(&mut self, rng: &mut Rng) {
        for number in std::mem::take(&mut self.forgotten) {
            if rng.below(2) == 0 {
                self.now.set_sector(number, &self.durable.sector(number));
            } else {
                self.forgotten.insert(number);
            }
        }
    }

    /// Simulates a power cut: each unsynced sector survives with probability `keep` / 4, independently.
    pub(super) fn power_cut(&mut self, rng: &mut Rng, keep: u64) {
        let kept = |rng: &mut Rng| rng.below(4) < keep;
        if !self.lengths.is_empty() && kept(rng) {
            // Usually the newest length survives, because file systems journal lengths in order. A length that was
            // never set does not.
            let place = if rng.below(4) > 0 {
                self.lengths.len() - 1
            } else {
                rng.pick(self.lengths.len())
            };
            self.durable.set_len(self.lengths[place]);
        }
        for (number, versions) in std::mem::take(&mut self.pending) {
            if kept(rng) {
                let place = if rng.below(4) > 0 {
                    versions.len() - 1
                } else {
                    rng.pick(versions.len())
                };
                self.durable.set_sector(number, &versions[place]);
            }
        }
        self.lengths.clear();
        self.forgotten.clear();
        self.now = self.durable.clone();
        self.allocated = self
            .allocated
            .min(self.now.length.next_multiple_of(SECTOR as u64));
    }

    pub(super) fn rot(&mut self, offset: u64, xor: u8) -> bool {
        if offset >= self.now.length {
            return false;
        }
        for content in [&mut self.now, &mut self.durable] {
            let mut byte = [0];
            if content.read(offset, &mut byte) == 1 {
                content.write(offset, &[byte[0] ^ xor]);
            }
        }
        if let Some(versions) = self.pending.get_mut(&(offset / SECTOR as u64)) {
            for version in versions {
                version[offset as usize % SECTOR] ^= xor;
            }
        }
        true
    }
}
