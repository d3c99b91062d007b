//! Application of many changes at once. The first pass changes the shape of the tree: one descent for all changes,
//! which are sorted, so that the changes of a subtree are a slice. On the way up, the pass notes each node that needs a
//! new hash in the list of its depth, in the order of keys. The second pass computes the hashes, the deepest level
//! first. The nodes of a level are hashed as a batch. The level above is in the same order, so each of its nodes takes
//! the next one or two digests.

use std::hint::black_box;

use lineside_verify::hash::Hasher;

use lineside_messages::hybrid::map_proof::{
    DEPTH_MAX, EMPTY_HASH, MESSAGE_BYTES, bit, inner_message, leaf_message,
};

use super::node::{ChildHashes, Leaf, Node, Ref};
use super::{Change, Tree};

/// Number of messages that are hashed together: 8 times the number of SIMD lanes. They have 4 KB, which stay in the
/// first-level cache.
const BATCH: usize = 64;

/// Number of entries for each depth for which memory stays allocated between updates. A block of 10^4 changes needs no
/// more.
const KEPT_ENTRIES: usize = 1 << 14;

/// Number of descents that [`Tree::warm`] walks in parallel.
const WALKS: usize = 32;

/// An inner node or leaf that needs a new hash.
#[derive(Clone, Copy)]
struct Stale {
    node: Ref,
    /// For each child, true if that child needs a new hash, too.
    child_needs_hash: [bool; 2],
}

/// Result of changing a subtree.
#[derive(Clone, Copy)]
struct Grown {
    node: Ref,
    /// For each child of `node`, true if that child needs a new hash. `None` if the subtree is unchanged or empty; its
    /// parent then already has its hash.
    stale: Option<[bool; 2]>,
}

/// Buffers of an update. They stay allocated for the next update.
#[derive(Default)]
pub(super) struct UpdateBuffers {
    /// For each depth: nodes that need a new hash, in the order of keys.
    stale: Vec<Vec<Stale>>,
    /// Digests of the current depth, and of the one below it.
    digests: [Vec<[u8; 32]>; 2],
}

impl Grown {
    fn same(node: Ref) -> Grown {
        Grown { node, stale: None }
    }

    fn leaf(node: Ref) -> Grown {
        Grown {
            node,
            stale: Some([false; 2]),
        }
    }
}

impl Tree {
    /// Makes all changes at once, and sorts the list. If several changes have the same key, the last one counts and the
    /// others are removed from the list. Removing an absent key, or setting a key to the value it has, changes nothing.
    ///
    /// # Panics
    ///
    /// Panics at 2^30 keys; the tree would then take 150 GB.
    pub fn update(&mut self, changes: &mut Vec<Change>) {
        changes.sort_by_key(|change| change.key);
        changes.dedup_by(|later, kept| {
            let same = later.key == kept.key;
            if same {
                *kept = *later;
            }
            same
        });
        self.work.stale.resize_with(DEPTH_MAX + 1, Vec::new);
        let Grown { node, stale } = self.grow(self.top, 0, changes);
        self.top = node;
        if let Some(below) = stale {
            self.work.stale[0].push(Stale {
                node,
                child_needs_hash: below,
            });
            self.root = self.hash();
        } else if node.is_empty() {
            self.root = EMPTY_HASH;
        }
    }

    /// Makes the changes in the subtree of `node`; the keys of all changes lie on the path to that subtree. The
    /// recursion is at most 256 deep, because at that depth only one key remains.
    fn grow(&mut self, node: Ref, depth: usize, changes: &[Change]) -> Grown {
        if changes.is_empty() {
            return Grown::same(node);
        }
        let mut before = [Ref::EMPTY; 2];
        match node.open() {
            Node::Empty => {
                if let [Change { key, value }] = *changes {
                    let Some(value) = value else {
                        return Grown::same(node);
                    };
                    return Grown::leaf(Ref::leaf(self.leaves.add(Leaf { key, value }, ())));
                }
            }
            Node::Leaf(index) => {
                let key = self.leaves.links(index).key;
                match changes {
                    [change] if change.key == key => return self.set(node, index, change.value),
                    _ => before[bit(&key, depth)] = node,
                }
            }
            Node::Fork(index) => before = *self.forks.links(index),
            Node::Chain(side, index) => before[side] = *self.chains.links(index),
        }
        let (left, right) = changes.split_at(changes.partition_point(|change| bit(&change.key, depth) == 0));
        if changes.len() > WALKS {
            for (node, changes) in before.into_iter().zip([left, right]) {
                self.warm(node, depth + 1, changes);
            }
        }
        let left = self.grow(before[0], depth + 1, left);
        let right = self.grow(before[1], depth + 1, right);
        self.join(node, depth, before, [left, right])
    }

    /// Prefetches the nodes that the descent will read, if at most [`WALKS`] changes go below `node`: takes one step of
    /// each change's descent in turn, so that the CPU waits for several memory accesses at once. With this function, an
    /// update of 100 of 10^6 keys takes 0.7 of the time, and of 1,000 keys 0.85.
    fn warm(&self, node: Ref, depth: usize, changes: &[Change]) {
        if changes.len() > WALKS {
            return;
        }
        let mut nodes = [node; WALKS];
        let mut read = 0;
        for depth in depth..=DEPTH_MAX {
            let mut deeper = false;
            for (node, Change { key, .. }) in nodes.iter_mut().zip(changes) {
                *node = match node.open() {
                    Node::Empty => continue,
                    Node::Leaf(index) => {
                        read ^= self.leaves.links(index).key[0];
                        Ref::EMPTY
                    }
                    Node::Fork(index) => {
                        read ^= self.forks.hashes(index).0[0][0];
                        self.forks.links(index)[bit(key, depth)]
                    }
                    Node::Chain(side, index) if side == bit(key, depth) => {
                        read ^= self.chains.hashes(index)[0];
                        *self.chains.links(index)
                    }
                    Node::Chain(..) => Ref::EMPTY,
                };
                deeper = true;
            }
            if !deeper {
                break;
            }
        }
        black_box(read);
    }

    /// Sets the value of a leaf, or removes the leaf if `value` is `None`.
    fn set(&mut self, node: Ref, index: u32, value: Option<[u8; 32]>) -> Grown {
        let stored = &mut self.leaves.links_mut(index).value;
        match value {
            Some(value) if value == *stored => Grown::same(node),
            Some(value) => {
                *stored = value;
                Grown::leaf(node)
            }
            None => {
                self.leaves.free(index);
                Grown::same(Ref::EMPTY)
            }
        }
    }

    /// Returns the node that replaces `old` after its children changed from `before` to `now`.
    fn join(&mut self, old: Ref, depth: usize, before: [Ref; 2], mut now: [Grown; 2]) -> Grown {
        if (0..2).all(|side| now[side].stale.is_none() && now[side].node == before[side]) {
            return Grown::same(old);
        }
        let only_child = match now.map(|child| child.node) {
            [Ref::EMPTY, node] | [node, Ref::EMPTY] => Some(node),
            _ => None,
        };
        if let Some(node) = only_child
            && (node.is_empty() || node.is_leaf())
        {
            // A leaf that moves up is hashed again. This hash is one of about 20 on the leaf's path, so keeping its old
            // hash would gain little.
            self.free_inner(old);
            return if node.is_empty() {
                Grown::same(node)
            } else {
                Grown::leaf(node)
            };
        }
        let old_is_inner = !old.is_empty() && !old.is_leaf();
        for child in &mut now {
            // If a child has no changes and was not a child of `old` before, it is the leaf that `old` was.
            if child.stale.is_none() && !child.node.is_empty() && !old_is_inner {
                *child = Grown::leaf(child.node);
            }
        }
        let node = self.inner(old, now.map(|child| child.node));
        for child in now {
            if let Some(below) = child.stale {
                self.work.stale[depth + 1].push(Stale {
                    node: child.node,
                    child_needs_hash: below,
                });
            }
        }
        Grown {
            node,
            stale: Some(now.map(|child| child.stale.is_some())),
        }
    }

    /// Returns an inner node with these children. Reuses `old` if it is of the same kind, otherwise replaces it. Keeps
    /// the hashes of children that did not change.
    fn inner(&mut self, old: Ref, children: [Ref; 2]) -> Ref {
        let side = match children {
            [_, Ref::EMPTY] => Some(0),
            [Ref::EMPTY, _] => Some(1),
            _ => None,
        };
        match (old.open(), side) {
            (Node::Fork(index), None) => {
                *self.forks.links_mut(index) = children;
                return old;
            }
            (Node::Chain(was, index), Some(side)) if was == side => {
                *self.chains.links_mut(index) = children[side];
                return old;
            }
            _ => {}
        }
        let hashes = self.child_hashes(old);
        self.free_inner(old);
        match side {
            Some(side) => Ref::chain(side, self.chains.add(children[side], hashes[side])),
            None => Ref::fork(self.forks.add(children, ChildHashes(hashes))),
        }
    }

    /// Returns the hashes of an inner node's children; zeros for other nodes.
    fn child_hashes(&self, node: Ref) -> [[u8; 32]; 2] {
        let mut hashes = [EMPTY_HASH; 2];
        match node.open() {
            Node::Fork(index) => hashes = self.forks.hashes(index).0,
            Node::Chain(side, index) => hashes[side] = *self.chains.hashes(index),
            Node::Leaf(_) | Node::Empty => {}
        }
        hashes
    }

    fn free_inner(&mut self, node: Ref) {
        match node.open() {
            Node::Fork(index) => self.forks.free(index),
            Node::Chain(_, index) => self.chains.free(index),
            Node::Leaf(_) | Node::Empty => {}
        }
    }

    /// Hashes all nodes in the lists of the first pass, and empties the lists. Returns the new root.
    fn hash(&mut self) -> [u8; 32] {
        let hasher = Hasher::detect();
        let mut work = std::mem::take(&mut self.work);
        let [here, below] = &mut work.digests;
        let mut messages = [[0; MESSAGE_BYTES]; BATCH];
        for stale in work.stale.iter_mut().rev() {
            let mut ready = below.drain(..);
            here.resize(stale.len(), EMPTY_HASH);
            for (stale, digests) in stale.chunks(BATCH).zip(here.chunks_mut(BATCH)) {
                for (message, stale) in messages.iter_mut().zip(stale) {
                    *message = self.message(stale, &mut ready);
                }
                let messages: [&[u8]; BATCH] = std::array::from_fn(|index| &messages[index][..]);
                hasher.keccak256_batch(&messages[..stale.len()], digests);
            }
            debug_assert!(ready.next().is_none(), "every digest has a parent");
            drop(ready);
            stale.clear();
            stale.shrink_to(KEPT_ENTRIES);
            std::mem::swap(here, below);
        }
        let root = below.first().copied().unwrap_or(EMPTY_HASH);
        below.clear();
        work.digests
            .iter_mut()
            .for_each(|digests| digests.shrink_to(KEPT_ENTRIES));
        self.work = work;
        root
    }

    /// Returns the message that is hashed for a node. If its children have new hashes, they are the next items of
    /// `ready`.
    fn message(&mut self, stale: &Stale, ready: &mut impl Iterator<Item = [u8; 32]>) -> [u8; MESSAGE_BYTES] {
        match stale.node.open() {
            Node::Empty => unreachable!("nothing is hashed for an empty subtree"),
            Node::Leaf(index) => {
                let Leaf { key, value } = self.leaves.links(index);
                leaf_message(key, value)
            }
            Node::Fork(index) => {
                let ChildHashes([left, right]) = self.forks.hashes_mut(index);
                for (hash, below) in [&mut *left, &mut *right].into_iter().zip(stale.child_needs_hash) {
                    if below {
                        *hash = ready.next().unwrap_or(EMPTY_HASH);
                    }
                }
                inner_message(left, right)
            }
            Node::Chain(side, index) => {
                let hash = self.chains.hashes_mut(index);
                if stale.child_needs_hash[side] {
                    *hash = ready.next().unwrap_or(EMPTY_HASH);
                }
                if side == 0 {
                    inner_message(hash, &EMPTY_HASH)
                } else {
                    inner_message(&EMPTY_HASH, hash)
                }
            }
        }
    }
}
