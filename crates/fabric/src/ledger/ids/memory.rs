//! Index of transaction ids and codes that is in memory.

use super::log::{PageChecksum, RECORDS, sum_of};
use super::{NO_ID, Record};
use hashbrown::{DefaultHashBuilder, HashTable};
use std::hash::BuildHasher;

/// Number of parts of the index. The parts reach their growth limits at different times, so no block waits for all of
/// them.
const PARTS: usize = 256;
/// Mask of the bucket bits in a part: the largest number of transactions divided by [`PARTS`], with a margin.
const PLACE_MASK: u32 = (1 << 25) - 1;

/// Ids and codes by number, with an index by id.
#[derive(Debug)]
pub(crate) struct MemoryIds {
    ids: Vec<[u8; 32]>,
    codes: Vec<u8>,
    /// Index in parts, by the id's hash. A table that grows moves all of its entries. If all entries were in one table,
    /// moving them would take as long as validating several blocks.
    by_id: Box<[HashTable<IndexedTx>; PARTS]>,
    hasher: DefaultHashBuilder,
}

impl Default for MemoryIds {
    fn default() -> Self {
        Self {
            ids: Vec::new(),
            codes: Vec::new(),
            by_id: Box::new(std::array::from_fn(|_| HashTable::new())),
            hasher: DefaultHashBuilder::default(),
        }
    }
}

/// A transaction with the part of its id's hash that a table uses. A growing table therefore does not need the ids, and
/// false matches are rare.
#[derive(Clone, Copy, Debug)]
struct IndexedTx {
    number: u32,
    hash: u32,
}

impl IndexedTx {
    /// Packs the hash bits that a table uses for the bucket (the lowest) and for the tag (the 7 highest).
    const fn short(hash: u64) -> u32 {
        (hash as u32 & PLACE_MASK) | ((hash >> 57) as u32) << 25
    }

    /// Returns a hash that a table treats in the same way as the full hash.
    const fn table_hash(&self) -> u64 {
        (self.hash & PLACE_MASK) as u64 | ((self.hash >> 25) as u64) << 57
    }
}

/// Returns the part for a hash, from bits that a table uses neither for the bucket (the lowest) nor for the tag (the
/// highest).
fn part_of(hash: u64) -> usize {
    (hash >> 40) as usize % PARTS
}

impl MemoryIds {
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    pub fn reserve(&mut self, transactions: usize) {
        self.ids.reserve(transactions);
        self.codes.reserve(transactions);
        for part in &mut *self.by_id {
            part.reserve(transactions / PARTS, IndexedTx::table_hash);
        }
    }

    /// Adds the next transaction. If several transactions have one id, lookups return the first.
    pub fn push(&mut self, id: [u8; 32], code: u8) {
        let number = self.ids.len() as u32;
        if id != NO_ID {
            let hash = self.hasher.hash_one(id);
            if self.find_indexed(hash, &id).is_none() {
                let spot = IndexedTx {
                    number,
                    hash: IndexedTx::short(hash),
                };
                self.by_id[part_of(hash)].insert_unique(hash, spot, IndexedTx::table_hash);
            }
        }
        self.ids.push(id);
        self.codes.push(code);
    }

    fn find_indexed(&self, hash: u64, id: &[u8; 32]) -> Option<IndexedTx> {
        let short = IndexedTx::short(hash);
        let is = |spot: &IndexedTx| spot.hash == short && self.ids.get(spot.number as usize) == Some(id);
        self.by_id[part_of(hash)].find(hash, is).copied()
    }

    pub fn find(&self, id: &[u8; 32]) -> Option<u32> {
        Some(self.find_indexed(self.hasher.hash_one(id), id)?.number)
    }

    /// Returns the checksum that a file would have after `pages` full pages of the records.
    pub fn sum_after(&self, pages: u64) -> PageChecksum {
        let all = self
            .ids
            .chunks_exact(RECORDS)
            .zip(self.codes.chunks_exact(RECORDS));
        let mut sum = PageChecksum::default();
        for ((ids, codes), page) in all.zip(0..pages) {
            let records = ids.iter().zip(codes);
            let records: Vec<u8> = records
                .flat_map(|(id, code)| id.iter().chain([code]))
                .copied()
                .collect();
            sum = sum_of(&records, page, sum);
        }
        sum
    }

    pub fn record(&self, number: usize) -> Option<Record> {
        Some((*self.ids.get(number)?, *self.codes.get(number)?))
    }
}
