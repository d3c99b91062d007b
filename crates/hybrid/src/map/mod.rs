//! An authenticated map: 32-byte keys to 32-byte values under one root, with proofs of the value of a key or of its
//! absence.
//!
//! It is a sparse Merkle tree with shortcuts. Every key has a path: its bits, beginning with the most significant bit
//! of its first byte (0 left, 1 right). The hash of a subtree is
//!
//! | leaves in it | hash |
//! |---|---|
//! | none | 32 bytes of zero |
//! | one | Keccak-256(`0x00`, key, value), at whatever depth |
//! | more | Keccak-256(`0x01`, left child's hash, right child's hash) |
//!
//! so the root depends only on the content of the map. 10^6 keys that are hashes have a mean depth of 21. Keys that
//! are constructed to share long prefixes lie deeper, at most 256.
//!
//! The whole map is in memory, 150 bytes per key. [`Tree::update`] takes all changes of a block and hashes each node
//! that they affect once, all nodes of a depth as a batch.
//!
//! # Security of proofs
//!
//! A [`Proof`](lineside_messages::hybrid::map_proof::Proof) shows the key's path from the root down. Because the hash
//! is collision resistant, a 32-byte hash at a position of that path can mean only one thing: zeros for an empty
//! subtree; otherwise one leaf or one inner node. The first bytes `0x00` and `0x01` of the hashed messages distinguish
//! a leaf from an inner node, and no message is known whose digest is zero. So two proofs of one key under one root
//! show the same nodes and end at the same one: **no root, not even one that was built wrongly on purpose, supports two
//! statements about one key.** Under a root that a [`Tree`] computed, the statement is the content of that tree.
//!
//! This argument does not need the rule that every inner node holds at least two leaves. A proof that visibly breaks
//! the rule is refused nevertheless, because no tree produces it: a leaf with an empty sibling, two empty siblings, or
//! an empty subtree at depth 256. A violation can be invisible, such as a sibling that is itself a leaf with an empty
//! sibling; for the reason above it does no harm. Another leaf shows that a key is absent only if that leaf's own path
//! leads through the same position. So a leaf at a wrong position is never accepted, and a key's own leaf never shows
//! that the key is absent.
//!
//! ```
//! use lineside_hybrid::map::{Change, Tree};
//! use lineside_messages::hybrid::map_proof::{Proof, ProofError};
//!
//! let mut tree = Tree::new();
//! tree.update(&mut vec![Change { key: [7; 32], value: Some([1; 32]) }]);
//! let proof = Proof::decode(&tree.prove(&[7; 32]).encode())?;
//! assert_eq!(proof.check(&tree.root(), &[7; 32])?, Some([1; 32]));
//! # Ok::<(), ProofError>(())
//! ```

mod arena;
mod node;
mod prove;
#[cfg(test)]
mod tests;
mod update;

use std::fmt;

use arena::Arena;
use lineside_messages::hybrid::map_proof::{EMPTY_HASH, bit};
use node::{ChildHashes, Leaf, Node, Ref};
use update::UpdateBuffers;

/// Change of one key's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// The key: a hash, so that keys are spread evenly. Any other 32 bytes are correct too.
    pub key: [u8; 32],
    /// The new value; `None` removes the key.
    pub value: Option<[u8; 32]>,
}

/// The map. It has no locks: one owner changes it, or many readers read it.
pub struct Tree {
    top: Ref,
    root: [u8; 32],
    leaves: Arena<Leaf, ()>,
    forks: Arena<[Ref; 2], ChildHashes>,
    chains: Arena<Ref, [u8; 32]>,
    work: UpdateBuffers,
}

impl Tree {
    /// Returns an empty map.
    pub fn new() -> Tree {
        Tree {
            top: Ref::EMPTY,
            root: EMPTY_HASH,
            leaves: Arena::new(),
            forks: Arena::new(),
            chains: Arena::new(),
            work: UpdateBuffers::default(),
        }
    }

    /// Returns the root hash; zeros for an empty map.
    pub fn root(&self) -> [u8; 32] {
        self.root
    }

    /// Returns the number of keys that have a value.
    pub fn len(&self) -> usize {
        self.leaves.len()
    }

    /// Returns true if no key has a value.
    pub fn is_empty(&self) -> bool {
        self.top.is_empty()
    }

    /// Returns the number of bytes of memory for nodes, including slots that removals have freed for reuse.
    pub fn node_bytes(&self) -> usize {
        self.leaves.bytes() + self.forks.bytes() + self.chains.bytes()
    }

    /// Returns the value of a key.
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
