//! Where nodes lie: slots by number, freed ones taken again first.

/// The slots of one kind of node in two columns. The way down a tree reads links only, and 10^6 forks have 8 MB of
/// them, which caches hold; the 64 MB of hashes beside them are read when hashing, many at once.
pub(super) struct Arena<Links, Hashes> {
    links: Vec<Links>,
    hashes: Vec<Hashes>,
    free: Vec<u32>,
}

impl<Links: Copy, Hashes: Copy> Arena<Links, Hashes> {
    pub(super) fn new() -> Arena<Links, Hashes> {
        Arena {
            links: Vec::new(),
            hashes: Vec::new(),
            free: Vec::new(),
        }
    }

    /// The slot that the node now has. It is less than the count of all nodes that ever lived at once.
    pub(super) fn add(&mut self, links: Links, hashes: Hashes) -> u32 {
        if let Some(index) = self.free.pop() {
            self.links[index as usize] = links;
            self.hashes[index as usize] = hashes;
            return index;
        }
        let index = self.links.len();
        assert!(
            index < super::node::MOST,
            "a map holds fewer than 2^30 nodes of a kind"
        );
        push(&mut self.links, links);
        push(&mut self.hashes, hashes);
        index as u32
    }

    /// Gives the slot back; nothing may refer to it any more.
    pub(super) fn free(&mut self, index: u32) {
        self.free.push(index);
    }

    pub(super) fn links(&self, index: u32) -> &Links {
        &self.links[index as usize]
    }

    pub(super) fn links_mut(&mut self, index: u32) -> &mut Links {
        &mut self.links[index as usize]
    }

    pub(super) fn hashes(&self, index: u32) -> &Hashes {
        &self.hashes[index as usize]
    }

    pub(super) fn hashes_mut(&mut self, index: u32) -> &mut Hashes {
        &mut self.hashes[index as usize]
    }

    /// Nodes that live.
    pub(super) fn len(&self) -> usize {
        self.links.len() - self.free.len()
    }

    /// Bytes that slots take, freed ones too; room kept for later ones is not counted.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&self.links[..]) + size_of_val(&self.hashes[..]) + size_of_val(&self.free[..])
    }
}

/// Grows by an eighth where a vector would by its whole length, so that 10^6 keys never hold the room of 2 * 10^6.
fn push<T>(slots: &mut Vec<T>, value: T) {
    if slots.len() == slots.capacity() {
        slots.reserve_exact(slots.len() / 8 + 64);
    }
    slots.push(value);
}
