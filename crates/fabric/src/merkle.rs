//! Merkle summary of the results of a long range query: a peer records the hashes of a tree over the results instead of
//! the results.

use crate::proto::{MerkleSummary, wire};
use crate::state::Height;
use lineside_verify::hash::sha256;
use std::collections::BTreeMap;

const LEAF_LEVEL: u32 = 1;

/// Builds the Merkle summary of the results of a range query, one result after the other.
#[derive(Debug)]
pub struct Builder {
    degree: u32,
    /// Results of the next leaf, encoded as `QueryReads`.
    pending: Vec<u8>,
    pending_count: u32,
    levels: BTreeMap<u32, Vec<[u8; 32]>>,
    top: u32,
}

impl Builder {
    /// Creates a builder with this degree, which must be at least 2.
    pub fn new(degree: u32) -> Self {
        Self {
            degree,
            pending: Vec::new(),
            pending_count: 0,
            levels: BTreeMap::new(),
            top: LEAF_LEVEL,
        }
    }

    /// Adds a result.
    pub fn add(&mut self, key: &[u8], version: Height) {
        let mut height = Vec::with_capacity(20);
        wire::put_number(&mut height, 1, version.block);
        wire::put_number(&mut height, 2, version.tx);
        let mut read = Vec::with_capacity(key.len() + 24);
        if !key.is_empty() {
            wire::put_bytes(&mut read, 1, key);
        }
        wire::put_bytes(&mut read, 2, &height);
        wire::put_bytes(&mut self.pending, 1, &read);
        self.pending_count += 1;
        if self.pending_count > self.degree {
            self.leaf();
        }
    }

    fn leaf(&mut self) {
        let hash = sha256(&self.pending);
        self.pending.clear();
        self.pending_count = 0;
        let mut level = LEAF_LEVEL;
        self.levels.entry(level).or_default().push(hash);
        while self
            .levels
            .get(&level)
            .is_some_and(|hashes| hashes.len() > self.degree as usize)
        {
            let hashes = self.levels.remove(&level).unwrap_or_default();
            level += 1;
            self.levels
                .entry(level)
                .or_default()
                .push(sha256(hashes.as_flattened()));
            self.top = self.top.max(level);
        }
    }

    /// Returns the level and its hashes; `None` if there are too few results for a summary.
    pub fn done(mut self) -> Option<(u32, Vec<[u8; 32]>)> {
        if self.levels.is_empty() {
            return None;
        }
        if self.pending_count > 0 {
            self.leaf();
        }
        for level in LEAF_LEVEL..self.top {
            let up = match self.levels.remove(&level).unwrap_or_default().as_slice() {
                [] => continue,
                [one] => *one,
                several => sha256(several.as_flattened()),
            };
            self.levels.entry(level + 1).or_default().push(up);
        }
        let hashes = self.levels.remove(&self.top).unwrap_or_default();
        if hashes.len() > self.degree as usize {
            return Some((self.top + 1, vec![sha256(hashes.as_flattened())]));
        }
        Some((self.top, hashes))
    }
}

/// Returns whether a summary built from `results` equals `summary`.
pub fn matches<'k>(summary: &MerkleSummary<'_>, results: impl Iterator<Item = (&'k [u8], Height)>) -> bool {
    let mut builder = Builder::new(summary.max_degree);
    for (key, version) in results {
        builder.add(key, version);
    }
    builder.done().is_some_and(|(level, hashes)| {
        level == summary.max_level
            && hashes.len() == summary.max_level_hashes.len()
            && hashes
                .iter()
                .zip(&summary.max_level_hashes)
                .all(|(ours, theirs)| ours == theirs)
    })
}
