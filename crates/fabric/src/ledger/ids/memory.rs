//! Ids and codes in memory.

use super::log::{RECORDS, Sum, sum_of};
use super::{NO_ID, Record};
use hashbrown::{DefaultHashBuilder, HashTable};
use std::hash::BuildHasher;

/// Parts of the index. That they do not grow with the same block, each is a little more or less full.
const PARTS: usize = 256;
/// A part has no more places: the largest number of transactions by [`PARTS`], and room.
const PLACE_MASK: u32 = (1 << 25) - 1;

/// Ids and codes by number, and an index by id.
#[derive(Debug)]
pub(crate) struct MemoryIds {
    ids: Vec<[u8; 32]>,
    codes: Vec<u8>,
    /// In parts, by the id's hash: one that grows moves all that it has, and that of all together would take as long as
    /// some blocks do.
    by_id: Box<[HashTable<Spot>; PARTS]>,
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

/// A transaction, and as much of its id's hash as its part of the index needs: what is moved when that grows is not
/// looked up, and hardly ever an id that is another.
#[derive(Clone, Copy, Debug)]
struct Spot {
    number: u32,
    hash: u32,
}

impl Spot {
    /// The bits that a table places by and those that it tags by (its lowest, its 7 highest), side by side.
    const fn short(hash: u64) -> u32 {
        (hash as u32 & PLACE_MASK) | ((hash >> 57) as u32) << 25
    }

    /// A hash that a table treats as it does the whole one.
    const fn long(&self) -> u64 {
        (self.hash & PLACE_MASK) as u64 | ((self.hash >> 25) as u64) << 57
    }
}

/// By bits that a table neither places by, which are the lowest, nor tags by, which are the highest.
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
            part.reserve(transactions / PARTS, Spot::long);
        }
    }

    /// Adds the next transaction. Of several with one id, the first is found.
    pub fn push(&mut self, id: [u8; 32], code: u8) {
        let number = self.ids.len() as u32;
        if id != NO_ID {
            let hash = self.hasher.hash_one(id);
            if self.spot(hash, &id).is_none() {
                let spot = Spot {
                    number,
                    hash: Spot::short(hash),
                };
                self.by_id[part_of(hash)].insert_unique(hash, spot, Spot::long);
            }
        }
        self.ids.push(id);
        self.codes.push(code);
    }

    fn spot(&self, hash: u64, id: &[u8; 32]) -> Option<Spot> {
        let short = Spot::short(hash);
        let is = |spot: &Spot| spot.hash == short && self.ids.get(spot.number as usize) == Some(id);
        self.by_id[part_of(hash)].find(hash, is).copied()
    }

    pub fn find(&self, id: &[u8; 32]) -> Option<u32> {
        Some(self.spot(self.hasher.hash_one(id), id)?.number)
    }

    /// The sum of the records of that many whole pages, as a file of them has it.
    pub fn sum_after(&self, pages: u64) -> Sum {
        let all = self
            .ids
            .chunks_exact(RECORDS)
            .zip(self.codes.chunks_exact(RECORDS));
        let mut sum = Sum::default();
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
