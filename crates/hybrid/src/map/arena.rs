//! Storage of the map's nodes in numbered slots. Freed slots are reused before new ones are added.

use std::ops::{Index, IndexMut};

/// Slots for one kind of node, in two columns. A descent of the tree reads only links: 10^6 forks have 8 MB of links,
/// which CPU caches can hold. The 64 MB of hashes are read when hashing, many at once.
pub(super) struct Arena<Links, Hashes> {
    links: Column<Links>,
    hashes: Column<Hashes>,
    count: usize,
    free: Vec<u32>,
}

impl<Links: Copy, Hashes: Copy> Arena<Links, Hashes> {
    pub(super) fn new() -> Arena<Links, Hashes> {
        Arena {
            links: Column(Vec::new()),
            hashes: Column(Vec::new()),
            count: 0,
            free: Vec::new(),
        }
    }

    /// Adds a node and returns its slot. Slot numbers stay below the maximum number of nodes that were alive at once.
    pub(super) fn add(&mut self, links: Links, hashes: Hashes) -> u32 {
        if let Some(index) = self.free.pop() {
            self.links[index] = links;
            self.hashes[index] = hashes;
            return index;
        }
        let index = self.count;
        assert!(
            index < super::node::SLOTS_MAX,
            "a map holds fewer than 2^30 nodes of a kind"
        );
        self.links.push(links);
        self.hashes.push(hashes);
        self.count += 1;
        index as u32
    }

    /// Frees the slot. No node may refer to the slot any more.
    pub(super) fn free(&mut self, index: u32) {
        self.free.push(index);
    }

    pub(super) fn links(&self, index: u32) -> &Links {
        &self.links[index]
    }

    pub(super) fn links_mut(&mut self, index: u32) -> &mut Links {
        &mut self.links[index]
    }

    pub(super) fn hashes(&self, index: u32) -> &Hashes {
        &self.hashes[index]
    }

    pub(super) fn hashes_mut(&mut self, index: u32) -> &mut Hashes {
        &mut self.hashes[index]
    }

    /// Number of live nodes.
    pub(super) fn len(&self) -> usize {
        self.count - self.free.len()
    }

    /// Number of bytes of all slots, including freed ones. Unused memory of the last chunk is not counted.
    pub(super) fn bytes(&self) -> usize {
        self.count * (size_of::<Links>() + size_of::<Hashes>()) + size_of_val(&self.free[..])
    }
}

/// Number of slots in a chunk. A chunk of hashes has 256 KB.
const CHUNK: usize = 1 << 12;

/// Values by slot number, in chunks that are never moved. A single vector would sometimes have to be copied when it
/// grows, 64 MB at 10^6 keys, during the update of a block, and would take up to twice the memory.
struct Column<T>(Vec<Vec<T>>);

impl<T> Column<T> {
    fn push(&mut self, value: T) {
        match self.0.last_mut() {
            Some(chunk) if chunk.len() < CHUNK => chunk.push(value),
            _ => {
                let mut chunk = Vec::with_capacity(CHUNK);
                chunk.push(value);
                self.0.push(chunk);
            }
        }
    }
}

impl<T> Index<u32> for Column<T> {
    type Output = T;

    fn index(&self, index: u32) -> &T {
        &self.0[index as usize / CHUNK][index as usize % CHUNK]
    }
}

impl<T> IndexMut<u32> for Column<T> {
    fn index_mut(&mut self, index: u32) -> &mut T {
        &mut self.0[index as usize / CHUNK][index as usize % CHUNK]
    }
}
