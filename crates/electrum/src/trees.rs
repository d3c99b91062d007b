//! Cache of the Merkle trees of blocks, with a limit in bytes.

use crate::merkle::BlockTree;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Estimated bytes of memory of an entry of the map, without its tree.
const ENTRY_BYTES: usize = 128;

#[derive(Default)]
struct Generation {
    trees: HashMap<[u8; 32], Arc<BlockTree>>,
    bytes: usize,
}

impl Generation {
    fn insert(&mut self, tree: Arc<BlockTree>) {
        let bytes = tree.memory_bytes() + ENTRY_BYTES;
        if self.trees.insert(*tree.hash(), tree).is_none() {
            self.bytes += bytes;
        }
    }
}

/// Cache of trees by block hash, in two generations. A tree that is used moves to the young generation. When the young
/// generation has half of the permitted bytes, it becomes the old generation, and the trees that are still in the
/// previous old generation are dropped. Each step takes constant time, and trees that are used often stay in the cache.
pub(crate) struct TreeCache {
    half_bytes: usize,
    generations: Mutex<(Generation, Generation)>,
}

impl TreeCache {
    /// Returns an empty cache for `bytes` bytes of trees. A tree of more than half of this size is never cached.
    pub fn new(bytes: usize) -> Self {
        Self {
            half_bytes: bytes / 2,
            generations: Mutex::default(),
        }
    }

    // A thread that panics while it holds the lock leaves valid data, because both maps are consistent after each
    // statement of this module. So a poisoned lock can be used.
    fn generations(&self) -> MutexGuard<'_, (Generation, Generation)> {
        self.generations.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn get(&self, hash: &[u8; 32]) -> Option<Arc<BlockTree>> {
        let mut generations = self.generations();
        if let Some(tree) = generations.0.trees.get(hash) {
            return Some(Arc::clone(tree));
        }
        let tree = generations.1.trees.remove(hash)?;
        generations.1.bytes -= tree.memory_bytes() + ENTRY_BYTES;
        self.insert_young(&mut generations, Arc::clone(&tree));
        Some(tree)
    }

    pub fn insert(&self, tree: Arc<BlockTree>) {
        let mut generations = self.generations();
        if generations.1.trees.remove(tree.hash()).is_some() {
            generations.1.bytes -= tree.memory_bytes() + ENTRY_BYTES;
        }
        self.insert_young(&mut generations, tree);
    }

    fn insert_young(&self, generations: &mut (Generation, Generation), tree: Arc<BlockTree>) {
        let bytes = tree.memory_bytes() + ENTRY_BYTES;
        if bytes > self.half_bytes {
            return;
        }
        if generations.0.bytes + bytes > self.half_bytes {
            generations.1 = std::mem::take(&mut generations.0);
        }
        generations.0.insert(tree);
    }

    /// Returns the bytes of the cached trees.
    #[cfg(test)]
    fn bytes(&self) -> usize {
        let generations = self.generations();
        generations.0.bytes + generations.1.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::merkle::{BlockTree, sha256d};

    fn tree(number: u32) -> Arc<BlockTree> {
        let txid = sha256d(&number.to_le_bytes());
        let mut header = [0; 80];
        header[36..68].copy_from_slice(&txid);
        Arc::new(BlockTree::build(header, &[txid]).expect("a block of one transaction"))
    }

    #[test]
    fn the_least_recently_used_trees_are_evicted() {
        let one = tree(0).memory_bytes() + ENTRY_BYTES;
        let cache = TreeCache::new(20 * one);
        let hot = tree(0);
        cache.insert(Arc::clone(&hot));
        for number in 1..1000 {
            let tree = tree(number);
            cache.insert(Arc::clone(&tree));
            assert!(cache.get(tree.hash()).is_some());
            assert!(cache.get(hot.hash()).is_some(), "after {number} others");
            assert!(cache.bytes() <= 20 * one, "{} of {}", cache.bytes(), 20 * one);
        }
        let kept = (1..1000).filter(|number| cache.get(tree(*number).hash()).is_some());
        assert!(kept.count() <= 20);
    }

    #[test]
    fn a_tree_of_more_than_half_of_the_bytes_is_not_cached() {
        let cache = TreeCache::new(64);
        cache.insert(tree(1));
        assert!(cache.get(tree(1).hash()).is_none());
        assert_eq!(cache.bytes(), 0);
    }
}
