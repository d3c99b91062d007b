//! Cache of the Merkle trees of recently requested blocks, for the host's answers and fills.

use crate::chain::{BlockId, ChainError};
use lineside_spv_proof::Tree;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

/// Estimated bytes of memory of an entry in addition to its tree, in the two maps of the cache.
const ENTRY_BYTES: usize = 128;

/// Cache of trees, bounded in bytes; the least recently used tree is evicted first. A block's tree never changes, so no
/// change of the chain invalidates an entry.
#[derive(Debug)]
pub(crate) struct TreeCache {
    bytes_max: usize,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    trees: HashMap<BlockId, Entry>,
    /// Blocks by the time of their last use.
    by_use: BTreeMap<u64, BlockId>,
    clock: u64,
    bytes: usize,
}

#[derive(Debug)]
struct Entry {
    tree: Arc<Tree>,
    used: u64,
}

impl TreeCache {
    /// Returns an empty cache of at most `bytes_max` bytes; a larger tree is not kept.
    pub fn new(bytes_max: usize) -> Self {
        Self {
            bytes_max,
            inner: Mutex::default(),
        }
    }

    /// Returns the tree of `block`, which `build` computes if it is not cached. Two threads may compute the same tree
    /// at the same time.
    ///
    /// # Errors
    /// The errors of `build`.
    pub fn get(
        &self,
        block: BlockId,
        build: impl FnOnce() -> Result<Tree, ChainError>,
    ) -> Result<Arc<Tree>, ChainError> {
        if let Some(tree) = self.inner().touch(block) {
            return Ok(tree);
        }
        let tree = Arc::new(build()?);
        self.inner().insert(block, &tree, self.bytes_max);
        Ok(tree)
    }

    fn inner(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn touch(&mut self, block: BlockId) -> Option<Arc<Tree>> {
        self.clock += 1;
        let entry = self.trees.get_mut(&block)?;
        self.by_use.remove(&entry.used);
        entry.used = self.clock;
        self.by_use.insert(entry.used, block);
        Some(Arc::clone(&entry.tree))
    }

    fn insert(&mut self, block: BlockId, tree: &Arc<Tree>, bytes_max: usize) {
        let bytes = cost(tree);
        if bytes > bytes_max || self.touch(block).is_some() {
            return;
        }
        while self.bytes + bytes > bytes_max
            && let Some((_, oldest)) = self.by_use.pop_first()
        {
            let evicted = self.trees.remove(&oldest);
            self.bytes -= evicted.map_or(0, |gone| cost(&gone.tree));
        }
        let tree = Arc::clone(tree);
        let used = self.clock;
        self.by_use.insert(used, block);
        self.trees.insert(block, Entry { tree, used });
        self.bytes += bytes;
    }
}

fn cost(tree: &Tree) -> usize {
    tree.memory_bytes() + ENTRY_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_tree_is_evicted_and_the_bytes_are_bounded() {
        let tree = |count: u32| Tree::new(&(0..count).map(|n| [n as u8; 32]).collect::<Vec<_>>());
        let tree = |count| tree(count).map_err(|_| ChainError::NoSuchBlock(count));
        let one = cost(&tree(64).unwrap());
        let cache = TreeCache::new(3 * one);
        let is_built = |block| {
            let mut built = false;
            let found = cache.get(BlockId(block), || {
                built = true;
                tree(64)
            });
            assert_eq!(found.unwrap().transaction_count(), 64);
            assert!(cache.inner().bytes <= 3 * one);
            built
        };
        assert!([1, 2, 3].into_iter().all(&is_built));
        assert!(!is_built(1));
        assert!(is_built(4), "block 4 replaces block 2");
        assert!(!is_built(1) && !is_built(3) && !is_built(4));
        assert!(is_built(2));
        let large = cache.get(BlockId(9), || tree(1000)).unwrap();
        assert_eq!(large.transaction_count(), 1000);
        assert!(!is_built(2), "a tree that is too large evicts none");
        assert!(
            cache
                .get(BlockId(10), || Err(ChainError::NoSuchBlock(10)))
                .is_err()
        );
        let inner = cache.inner();
        assert_eq!(inner.trees.len(), inner.by_use.len());
    }
}
