//! Headers in memory, with the chain of most work and an index by hash: at most 120 bytes a header.

use crate::{Hash, Header};
use hashbrown::HashTable;
use std::hash::{BuildHasher, RandomState};

/// Number of a header in the order in which headers were accepted; the genesis header is 0.
pub(super) type Id = u32;

/// Number of entries in one piece of memory. Pieces are never moved, so that the growth of the table copies no entry
/// and never needs twice the memory.
const CHUNK: usize = 4096;

/// One accepted header. The hash of its parent is that of the entry `parent`.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    pub(super) hash: Hash,
    merkle_root: Hash,
    version: i32,
    pub(super) time: u32,
    pub(super) bits: u32,
    nonce: u32,
    /// Entry of the parent. The genesis header has its own number here.
    pub(super) parent: Id,
    pub(super) height: u32,
    /// Work of the chain up to this header: low and high 64 bits. All work of the main network up to 2026 is below
    /// 2^97.
    work: [u64; 2],
}

const _: () = assert!(size_of::<Entry>() == 104);

impl Entry {
    /// Makes the entry of a header whose chain has this work.
    pub(super) fn new(header: &Header, hash: Hash, parent: Id, height: u32, work: u128) -> Entry {
        Entry {
            hash,
            merkle_root: header.merkle_root,
            version: header.version,
            time: header.time,
            bits: header.bits,
            nonce: header.nonce,
            parent,
            height,
            work: [work as u64, (work >> 64) as u64],
        }
    }

    /// Returns the work of the chain up to this header.
    pub(super) fn work(&self) -> u128 {
        u128::from(self.work[1]) << 64 | u128::from(self.work[0])
    }
}

/// All accepted headers.
pub(super) struct Entries {
    chunks: Vec<Vec<Entry>>,
    length: u32,
    /// Entries of the chain with the most work, by height.
    active: Vec<Id>,
    by_hash: HashTable<Id>,
    /// Random key of the index by hash, so that an attacker cannot choose headers that fall into the same slot.
    keys: RandomState,
}

impl Entries {
    /// Returns a table whose only entry is the genesis header, which is also the tip.
    pub(super) fn new(genesis: &Header) -> Entries {
        let mut entries = Entries {
            chunks: Vec::new(),
            length: 0,
            active: vec![0],
            by_hash: HashTable::new(),
            keys: RandomState::new(),
        };
        let work = genesis.work().to_u128().unwrap_or(0);
        entries.push(Entry::new(genesis, genesis.hash(), 0, 0, work));
        entries
    }

    /// Adds an entry and returns its number.
    pub(super) fn push(&mut self, entry: Entry) -> Id {
        let id = self.length;
        if id as usize / CHUNK == self.chunks.len() {
            self.chunks.push(Vec::with_capacity(CHUNK));
        }
        self.chunks[id as usize / CHUNK].push(entry);
        self.length += 1;
        let (keys, chunks) = (&self.keys, &self.chunks);
        let rehash = |id: &Id| keys.hash_one(chunks[*id as usize / CHUNK][*id as usize % CHUNK].hash);
        self.by_hash.insert_unique(keys.hash_one(entry.hash), id, rehash);
        id
    }

    /// Returns the number of headers, the genesis header included.
    pub(super) fn len(&self) -> u32 {
        self.length
    }

    /// Returns the entry of this number.
    pub(super) fn get(&self, id: Id) -> &Entry {
        &self.chunks[id as usize / CHUNK][id as usize % CHUNK]
    }

    /// Returns the number of the header with this hash.
    pub(super) fn find(&self, hash: &Hash) -> Option<Id> {
        let found = self
            .by_hash
            .find(self.keys.hash_one(hash), |id| self.get(*id).hash == *hash);
        found.copied()
    }

    /// Returns the header of an entry.
    pub(super) fn header(&self, id: Id) -> Header {
        let entry = self.get(id);
        let previous = if id == 0 {
            [0; 32]
        } else {
            self.get(entry.parent).hash
        };
        Header {
            version: entry.version,
            previous,
            merkle_root: entry.merkle_root,
            time: entry.time,
            bits: entry.bits,
            nonce: entry.nonce,
        }
    }

    /// Returns the entry at this height of the chain with the most work.
    pub(super) fn active(&self, height: u32) -> Option<Id> {
        self.active.get(height as usize).copied()
    }

    /// Returns true if the entry is in the chain with the most work.
    pub(super) fn is_active(&self, id: Id) -> bool {
        self.active(self.get(id).height) == Some(id)
    }

    /// Returns the last entry of the chain with the most work.
    pub(super) fn tip(&self) -> Id {
        self.active[self.active.len() - 1]
    }

    /// Returns the ancestor of `id` at `height`, which must be at most the height of `id`.
    pub(super) fn ancestor(&self, mut id: Id, height: u32) -> Id {
        while self.get(id).height > height {
            if let Some(found) = self.active(height).filter(|_| self.is_active(id)) {
                return found;
            }
            id = self.get(id).parent;
        }
        id
    }

    /// Makes `id` the tip of the chain with the most work. Returns the height of the last header that stays.
    pub(super) fn activate(&mut self, id: Id) -> u32 {
        let mut added = Vec::new();
        let mut at = id;
        while !self.is_active(at) {
            added.push(at);
            at = self.get(at).parent;
        }
        let fork = self.get(at).height;
        self.active.truncate(fork as usize + 1);
        self.active.extend(added.iter().rev());
        fork
    }

    /// Returns the bytes of memory in use.
    pub(super) fn memory_bytes(&self) -> usize {
        let chunks = self.chunks.len() * (CHUNK * size_of::<Entry>() + size_of::<Vec<Entry>>());
        chunks + self.active.capacity() * size_of::<Id>() + self.by_hash.allocation_size()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Network;

    #[test]
    fn headers_of_the_main_network_fit_into_120_bytes_each() {
        let genesis = Network::Mainnet.genesis();
        let mut entries = Entries::new(&genesis);
        for number in 1..900_000_u32 {
            let mut hash = [0; 32];
            hash[..4].copy_from_slice(&number.to_le_bytes());
            let id = entries.push(Entry::new(
                &genesis,
                hash,
                number - 1,
                number,
                u128::from(number) << 70,
            ));
            assert_eq!(entries.activate(id), number - 1);
        }
        assert_eq!(entries.len(), 900_000);
        let each = entries.memory_bytes() as f64 / 900_000.0;
        assert!(each <= 120.0, "{each}");
        let last = entries.get(entries.tip());
        assert_eq!((last.height, last.work()), (899_999, 899_999 << 70));
        assert_eq!(entries.find(&last.hash), Some(899_999));
    }
}
