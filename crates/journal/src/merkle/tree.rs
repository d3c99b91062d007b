//! Merkle roots computed in O(log n) memory.

use super::hash::{EMPTY_ROOT, Hash, Hasher, node_hash};

/// Number of leaves that are hashed in one batch.
const BATCH: usize = 1024;

/// Append-only Merkle tree that stores at most one hash for each level.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    /// Roots of the full subtrees, largest first: one for each 1 in the binary digits of `size`.
    roots: Vec<Hash>,
    size: u64,
}

impl Tree {
    /// Returns a tree without leaves.
    pub fn new() -> Tree {
        Tree::default()
    }

    /// Returns the tree with this number of leaves ([`Self::size`]) and these [`Self::subtrees`]; `None` if the number
    /// of subtrees contradicts the size.
    pub fn from_parts(size: u64, subtrees: Vec<Hash>) -> Option<Tree> {
        (size.count_ones() as usize == subtrees.len()).then_some(Tree {
            roots: subtrees,
            size,
        })
    }

    /// Returns the number of leaves.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns the roots of the full subtrees, largest first: the whole state of the tree.
    pub fn subtrees(&self) -> &[Hash] {
        &self.roots
    }

    /// Adds a leaf by its hash.
    pub fn push(&mut self, leaf_hash: Hash) {
        self.push_subtree(leaf_hash, 0);
    }

    /// Adds leaves by their hashes, in batches.
    pub fn extend(&mut self, hasher: &impl Hasher, mut leaf_hashes: &[Hash]) {
        while !leaf_hashes.is_empty() {
            // The next subtree is the largest full one that is possible: `size` must be a multiple of its leaves, and
            // it must not have more leaves than remain.
            let room = leaf_hashes.len().ilog2();
            let level = self.size.trailing_zeros().min(room).min(BATCH.ilog2());
            let (part, rest) = leaf_hashes.split_at(1 << level);
            self.push_subtree(full_root(hasher, part), level);
            leaf_hashes = rest;
        }
    }

    /// Returns the root over all leaves added so far.
    pub fn root(&self) -> Hash {
        let joined = self
            .roots
            .iter()
            .rev()
            .copied()
            .reduce(|right, left| node_hash(&left, &right));
        joined.unwrap_or(EMPTY_ROOT)
    }

    /// Adds the root of a full subtree of 2^level leaves; `size` must be a multiple of 2^level.
    fn push_subtree(&mut self, mut root: Hash, level: u32) {
        let mut carry = self.size >> level;
        while carry & 1 == 1 {
            match self.roots.pop() {
                Some(left) => root = node_hash(&left, &root),
                None => break,
            }
            carry >>= 1;
        }
        self.roots.push(root);
        self.size += 1 << level;
    }
}

/// Returns the root over a power of two of leaves, computed level by level.
fn full_root(hasher: &impl Hasher, leaf_hashes: &[Hash]) -> Hash {
    let mut level = leaf_hashes.to_vec();
    while level.len() > 1 {
        let mut above = Vec::with_capacity(level.len() / 2);
        hasher.nodes(level.as_chunks::<2>().0, &mut above);
        level = above;
    }
    level.first().copied().unwrap_or(EMPTY_ROOT)
}

/// Returns the root over `leaves`. Needs O(log n) memory, and the memory of one batch of leaves.
pub fn root<T: AsRef<[u8]>>(hasher: &impl Hasher, leaves: impl IntoIterator<Item = T>) -> Hash {
    let mut leaves = leaves.into_iter();
    let mut tree = Tree::new();
    let mut hashes = Vec::new();
    loop {
        let batch: Vec<T> = leaves.by_ref().take(BATCH).collect();
        if batch.is_empty() {
            return tree.root();
        }
        let slices: Vec<&[u8]> = batch.iter().map(AsRef::as_ref).collect();
        hashes.clear();
        hasher.leaves(&slices, &mut hashes);
        tree.extend(hasher, &hashes);
    }
}

/// Returns the root over leaves with these hashes.
pub fn root_of_hashes(hasher: &impl Hasher, leaf_hashes: &[Hash]) -> Hash {
    let mut tree = Tree::new();
    tree.extend(hasher, leaf_hashes);
    tree.root()
}
