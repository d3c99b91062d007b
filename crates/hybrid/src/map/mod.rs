//! An authenticated map: 32-byte keys to 32-byte values under one root, with proofs of what a key holds or that it
//! holds nothing.
//!
//! It is a sparse Merkle tree with shortcuts. Every key has a path, its bits from the most significant of its first
//! byte on (0 left, 1 right). A subtree's hash is
//!
//! | leaves in it | hash |
//! |---|---|
//! | none | 32 bytes of zero |
//! | one | Keccak-256(`0x00`, key, value), at whatever depth |
//! | more | Keccak-256(`0x01`, left child's hash, right child's hash) |
//!
//! so the root depends on what the map holds and on nothing else, and 10^6 keys that are hashes lie 21 deep in the
//! mean. Keys that someone makes to share long prefixes lie deeper, at most 256.
//!
//! All of it is in memory, 150 bytes a key. [`Tree::update`] takes a block's changes at once and hashes each node that
//! they touch once, all nodes of a depth as a batch.
//!
//! # What a proof is worth
//!
//! A [`Proof`] opens the key's path from the root down. By the hash's collision resistance a 32-byte value at a place
//! of that path is one of these for good: zero, so empty; one leaf; or one inner node. The marks `0x00` and `0x01` keep
//! the last two apart, and no message is known whose digest is zero. So two proofs of one key under one root open the
//! same nodes and end at the same: **no root, not even one that its maker built wrong, shows two statements about one
//! key.** Under a root that a [`Tree`] made, the statement is what that tree holds.
//!
//! This does not need the rule that an inner node holds two leaves, but a proof that visibly breaks it is refused all
//! the same, since no tree makes it: a leaf beside nothing, nothing beside nothing, and nothing at depth 256. What
//! cannot be seen, a sibling that is a single leaf beside nothing, is harmless as said. Another leaf shows that a key
//! is absent only where that leaf's own path leads through the same place, so one that was put off its path never
//! counts; and it never counts for its own key.
//!
//! ```
//! use lineside_hybrid::map::{Change, Proof, Tree};
//!
//! let mut tree = Tree::new();
//! tree.update(&mut vec![Change { key: [7; 32], value: Some([1; 32]) }]);
//! let proof = Proof::decode(&tree.prove(&[7; 32]).encode())?;
//! assert_eq!(proof.check(&tree.root(), &[7; 32])?, Some([1; 32]));
//! # Ok::<(), lineside_hybrid::map::ProofError>(())
//! ```

mod arena;
mod node;
mod proof;
#[cfg(test)]
mod tests;
mod update;

use std::fmt;

use arena::Arena;
use node::{EMPTY_HASH, Leaf, Node, Pair, Ref, bit};
pub use proof::{Proof, ProofError};
use update::Work;

/// What a key shall hold from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// A hash, so that keys spread; any 32 bytes are right all the same.
    pub key: [u8; 32],
    /// `None` removes the key.
    pub value: Option<[u8; 32]>,
}

/// The map. It takes no locks: one owner changes it, or many read it.
pub struct Tree {
    top: Ref,
    root: [u8; 32],
    leaves: Arena<Leaf, ()>,
    forks: Arena<[Ref; 2], Pair>,
    chains: Arena<Ref, [u8; 32]>,
    work: Work,
}

impl Tree {
    /// An empty map.
    pub fn new() -> Tree {
        Tree {
            top: Ref::EMPTY,
            root: EMPTY_HASH,
            leaves: Arena::new(),
            forks: Arena::new(),
            chains: Arena::new(),
            work: Work::default(),
        }
    }

    /// The hash of the whole; zeros for an empty map.
    pub fn root(&self) -> [u8; 32] {
        self.root
    }

    /// How many keys hold a value.
    pub fn len(&self) -> usize {
        self.leaves.len()
    }

    /// Whether no key holds a value.
    pub fn is_empty(&self) -> bool {
        self.top.is_empty()
    }

    /// Bytes of memory that nodes take, with those kept for later ones after removals.
    pub fn node_bytes(&self) -> usize {
        self.leaves.bytes() + self.forks.bytes() + self.chains.bytes()
    }

    /// What a key holds.
    pub fn get(&self, key: &[u8; 32]) -> Option<[u8; 32]> {
        let mut node = self.top;
        for depth in 0.. {
            node = match node.open() {
                Node::Empty => return None,
                Node::Leaf(index) => {
                    let leaf = self.leaves.links(index);
                    return (leaf.key == *key).then_some(leaf.value);
                }
                Node::Fork(index) => self.forks.links(index)[bit(key, depth)],
                Node::Chain(side, index) if side == bit(key, depth) => *self.chains.links(index),
                Node::Chain(..) => return None,
            };
        }
        None
    }
}

impl Default for Tree {
    fn default() -> Tree {
        Tree::new()
    }
}

impl fmt::Debug for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tree")
            .field("len", &self.len())
            .field("root", &self.root)
            .finish_non_exhaustive()
    }
}
