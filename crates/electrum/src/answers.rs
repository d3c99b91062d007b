//! Access to the chain and to Merkle trees for answers. The Electrum protocol and HTTP both use it.

use crate::chain::{HEADER_BYTES, ProofChain, Unavailable};
use crate::checkpoint::{Checkpoints, Proof};
use crate::limits::{Counters, Limits, count};
use crate::merkle::{BlockTree, sha256d};
use crate::trees::TreeCache;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Semaphore;

/// Maximum number of times that one reply is computed. Each repetition means that the chain has changed, or that a tree
/// was missing.
pub(crate) const ANSWER_ATTEMPTS: usize = 8;

/// The chain and the trees of its blocks.
pub(crate) struct Answers {
    pub chain: Arc<dyn ProofChain>,
    pub limits: Limits,
    pub counters: Arc<Counters>,
    trees: TreeCache,
    builds: Semaphore,
    checkpoints: Mutex<Checkpoints>,
}

/// Block whose tree is needed but not in the cache.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WantedTree {
    height: u32,
    hash: [u8; 32],
    header: [u8; HEADER_BYTES],
}

/// Outcome of the search for the tree of the connected block at a height.
pub(crate) enum TreeLookup {
    Tree(Arc<BlockTree>),
    /// The tree must first be built by [`Answers::build`].
    Missing(WantedTree),
    NoBlock,
}

impl Answers {
    pub fn new(chain: Arc<dyn ProofChain>, limits: Limits, counters: Arc<Counters>) -> Self {
        Self {
            chain,
            trees: TreeCache::new(limits.tree_bytes),
            builds: Semaphore::new(limits.tree_builds.max(1)),
            checkpoints: Mutex::default(),
            limits,
            counters,
        }
    }

    /// Finds the tree of the connected block at `height`. `memo` is the tree that the caller used last.
    pub fn tree(&self, height: u32, memo: &mut Option<Arc<BlockTree>>) -> TreeLookup {
        let Some(hash) = self.chain.hash_at(height) else {
            return TreeLookup::NoBlock;
        };
        if let Some(tree) = memo.as_ref().filter(|tree| *tree.hash() == hash) {
            return TreeLookup::Tree(Arc::clone(tree));
        }
        if let Some(tree) = self.trees.get(&hash) {
            *memo = Some(Arc::clone(&tree));
            return TreeLookup::Tree(tree);
        }
        match self.chain.header_at(height) {
            Some(header) => TreeLookup::Missing(WantedTree { height, hash, header }),
            None => TreeLookup::NoBlock,
        }
    }

    /// Builds a tree on a thread that may block; the number of concurrent builds is limited. Returns `None` if the
    /// block is no longer connected; the caller must then start again.
    pub async fn build(self: &Arc<Self>, wanted: WantedTree) -> Result<Option<Arc<BlockTree>>, Unavailable> {
        let closed = |_| Unavailable("the server is stopping".into());
        let permit = self.builds.acquire().await.map_err(closed)?;
        // Another request may have built the same tree while this one waited for the permit.
        if let Some(tree) = self.trees.get(&wanted.hash) {
            return Ok(Some(tree));
        }
        let answers = Arc::clone(self);
        let built = tokio::task::spawn_blocking(move || answers.build_now(wanted)).await;
        drop(permit);
        built.unwrap_or_else(|_| {
            Err(Unavailable(
                "a fault of this program stopped the reading of a block's TXIDs; see the log".into(),
            ))
        })
    }

    /// Computes the proof of a header for a checkpoint, on a thread that may block. Returns `None` if the chain is
    /// shorter or has changed; the caller must then start again.
    pub async fn prove(self: &Arc<Self>, height: u32, cp_height: u32) -> Result<Option<Proof>, Unavailable> {
        let closed = |_| Unavailable("the server is stopping".into());
        let permit = self.builds.acquire().await.map_err(closed)?;
        let answers = Arc::clone(self);
        let proved = tokio::task::spawn_blocking(move || {
            // A thread that panics while it holds the lock leaves valid data, because only whole chunks are added. So a
            // poisoned lock can be used.
            let mut checkpoints = answers.checkpoints.lock().unwrap_or_else(PoisonError::into_inner);
            checkpoints.prove(&*answers.chain, height, cp_height)
        })
        .await;
        drop(permit);
        proved.map_err(|_| Unavailable("a fault stopped the reading of headers; see the log".into()))
    }

    fn build_now(&self, wanted: WantedTree) -> Result<Option<Arc<BlockTree>>, Unavailable> {
        if sha256d(&wanted.header) != wanted.hash {
            // The block is no longer connected: the chain changed between the two reads.
            return Ok(None);
        }
        let Some(txids) = self.chain.txids(wanted.height, &wanted.hash)? else {
            return Ok(None);
        };
        let tree = BlockTree::build(wanted.header, &txids).map_err(|error| {
            let block = lineside_util::hex::to_display(&wanted.hash);
            tracing::error!(
                block,
                height = wanted.height,
                "the TXIDs of a block in the chain store are wrong: {error}; the server serves no proofs of this \
                 block. Restore the store from a copy, or create it again with `lineside spv import`"
            );
            Unavailable(format!("block {block}: {error}"))
        })?;
        count(&self.counters.trees_built);
        let tree = Arc::new(tree);
        self.trees.insert(Arc::clone(&tree));
        Ok(Some(tree))
    }
}
