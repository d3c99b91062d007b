//! Fetches blocks whose bytes should be stored (`keep_blocks`) but are missing, for example because the server ran
//! without `keep_blocks` for some time. Blocks are fetched while the host's chain is equal to the node's.

use super::{FEED_WAIT_MAX, Following, REFUSED_BLOCK_PAUSES};
use crate::chain::Refused;
use lineside_bitcoin_node::{Backoff, BlockHash, NodeFault};
use lineside_util::hex::to_display;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// State of fetching the blocks that are missing in the files of `keep_blocks`.
pub(super) struct Unkept {
    /// Number of missing blocks fetched so far. The number is logged and reset when no block is missing any more.
    fetched: u64,
    /// Time before which no block is fetched; set after a failed fetch.
    not_before: Option<Instant>,
    backoff: Backoff,
}

impl Default for Unkept {
    fn default() -> Self {
        Self {
            fetched: 0,
            not_before: None,
            backoff: Backoff::new(REFUSED_BLOCK_PAUSES[0], REFUSED_BLOCK_PAUSES[1]),
        }
    }
}

/// Outcome of fetching one missing block.
enum Fetched {
    Kept,
    /// The node cannot send this block, for the given reason; the block is not requested again.
    Never(String),
    /// The fetch failed for a reason that may be temporary; the block is requested again later.
    Later(String),
}

impl Following {
    /// Fetches missing blocks for a short time. Between two calls, the thread follows the node.
    pub(super) fn fetch_unkept(&mut self, is_over: &AtomicBool) {
        let start = Instant::now();
        if self.unkept.not_before.is_some_and(|end| start < end) {
            return;
        }
        while start.elapsed() < FEED_WAIT_MAX && !is_over.load(Relaxed) {
            let Some(hash) = self.host.first_unkept() else {
                self.end_of_unkept();
                return;
            };
            match self.fetch_one(&hash) {
                Fetched::Kept => {
                    self.unkept.fetched += 1;
                    self.unkept.backoff.reset();
                    self.unsynced += 1;
                }
                Fetched::Never(why) => {
                    let block = to_display(&hash);
                    tracing::warn!(
                        block,
                        "a block is missing in the files of `keep_blocks`, and the node cannot send it: {why}; the \
                         server does not request the block again before its next start"
                    );
                    self.host.give_up_unkept(&hash);
                }
                Fetched::Later(why) => {
                    let pause: Duration = self.unkept.backoff.pause();
                    tracing::debug!(
                        ?pause,
                        "a block for the files of `keep_blocks` could not be fetched: {why}"
                    );
                    self.unkept.not_before = Some(Instant::now() + pause);
                    return;
                }
            }
        }
    }

    fn fetch_one(&mut self, hash: &[u8; 32]) -> Fetched {
        let raw = match self.feed.node().block(&BlockHash(*hash)) {
            Ok(raw) => raw,
            Err(error) if matches!(error.fault, NodeFault::NoSuchBlock { .. }) => {
                return Fetched::Never(error.to_string());
            }
            Err(error) if error.fault.is_transient() || matches!(error.fault, NodeFault::Interrupted) => {
                return Fetched::Later(error.to_string());
            }
            Err(error) => return Fetched::Never(error.to_string()),
        };
        match self.host.keep_unkept(hash, &raw) {
            Ok(()) => Fetched::Kept,
            Err(refused @ Refused::Storage(_)) => Fetched::Later(refused.to_string()),
            Err(refused) => Fetched::Never(refused.to_string()),
        }
    }

    fn end_of_unkept(&mut self) {
        let blocks = std::mem::take(&mut self.unkept.fetched);
        if blocks > 0 {
            tracing::info!(
                blocks,
                "all blocks that were missing in the files of `keep_blocks` have been fetched"
            );
        }
    }
}
