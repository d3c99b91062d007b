//! Allocation of trees in the fast-path table: a ring buffer in which each new tree overwrites the oldest ones.

use crate::store::TREE_ALIGN;
use std::collections::BTreeMap;

/// Range of nodes that one tree occupies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Region {
    /// Slot of the tree's block in the block table.
    pub slot: u32,
    /// Reference to the tree in the block: stamp and first node.
    pub word: u64,
    end: u32,
}

/// Ring of nodes, with its allocated regions by their first node. No two regions overlap.
#[derive(Debug)]
pub(crate) struct Ring {
    nodes: u32,
    next: u32,
    stamp: u32,
    regions: BTreeMap<u32, Region>,
}

impl Ring {
    /// Returns an empty ring over `nodes` nodes.
    pub fn new(nodes: u32) -> Self {
        Self {
            nodes,
            next: 0,
            stamp: 0,
            regions: BTreeMap::new(),
        }
    }

    /// Returns the number of nodes.
    pub fn nodes(&self) -> u32 {
        self.nodes
    }

    /// Returns the number of nodes that are in use.
    pub fn used(&self) -> u64 {
        let regions = self.regions.iter();
        regions.map(|(start, region)| u64::from(region.end - start)).sum()
    }

    /// Allocates a region of `length` nodes, a multiple of [`TREE_ALIGN`]. Returns the reference to the region (see
    /// [`Region::word`]) and the older regions that it overwrites, which are removed; `None` if the table is too small.
    pub fn take(&mut self, length: u32, slot: u32) -> Option<(u64, Vec<Region>)> {
        debug_assert!(length > 0 && length.is_multiple_of(TREE_ALIGN));
        if length > self.nodes {
            return None;
        }
        let start = if length > self.nodes - self.next {
            0
        } else {
            self.next
        };
        let end = start + length;
        let evicted = self.overlapping(start, end);
        let evicted = evicted
            .iter()
            .filter_map(|first| self.regions.remove(first))
            .collect();
        // The stamp is never 0, because a reference with stamp 0 and node 0 means "no tree".
        self.stamp = self.stamp.checked_add(1).unwrap_or(1);
        let word = u64::from(self.stamp) << 32 | u64::from(start);
        self.regions.insert(start, Region { slot, word, end });
        self.next = end % self.nodes;
        Some((word, evicted))
    }

    /// Adds a region that an earlier writer allocated. Returns false if `word` is not a valid reference to a region.
    pub fn adopt(&mut self, length: u32, slot: u32, word: u64) -> bool {
        let (start, stamp) = (word as u32, (word >> 32) as u32);
        let Some(end) = start.checked_add(length).filter(|end| *end <= self.nodes) else {
            return false;
        };
        if stamp == 0 || !start.is_multiple_of(TREE_ALIGN) || !self.overlapping(start, end).is_empty() {
            return false;
        }
        self.regions.insert(start, Region { slot, word, end });
        if stamp > self.stamp {
            (self.stamp, self.next) = (stamp, end % self.nodes);
        }
        true
    }

    /// Returns the first nodes of the regions that overlap `start..end`.
    fn overlapping(&self, start: u32, end: u32) -> Vec<u32> {
        let from_the_last = self.regions.range(..end).rev();
        let overlapping = from_the_last.take_while(|(_, region)| region.end > start);
        overlapping.map(|(first, _)| *first).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lineside_testkit::Random;

    #[test]
    fn a_region_is_removed_exactly_when_a_new_one_overwrites_one_of_its_nodes() {
        let mut random = Random(5);
        let mut ring = Ring::new(64);
        // Independent model: for each node, the reference of the region to which it belongs.
        let mut owner = [0; 64];
        let mut words = std::collections::HashSet::new();
        for slot in 0..10_000 {
            let length = 4 * (1 + random.below(17) as u32);
            let Some((word, gone)) = ring.take(length, slot) else {
                assert!(length > 64);
                continue;
            };
            assert!(words.insert(word), "a reference was used twice");
            let start = word as u32 as usize;
            let taken = start..start + length as usize;
            let mut lost: Vec<u64> = owner[taken.clone()]
                .iter()
                .copied()
                .filter(|word| *word != 0)
                .collect();
            lost.dedup();
            let mut gone: Vec<u64> = gone.iter().map(|region| region.word).collect();
            gone.reverse();
            assert_eq!(gone, lost);
            owner
                .iter_mut()
                .filter(|word| lost.contains(word))
                .for_each(|word| *word = 0);
            owner[taken].fill(word);
        }
    }

    #[test]
    fn adopted_regions_are_in_range_and_do_not_overlap_and_later_stamps_are_greater() {
        let mut ring = Ring::new(64);
        let word = |stamp: u64, first: u64| stamp << 32 | first;
        assert!(ring.adopt(8, 1, word(7, 8)));
        assert!(!ring.adopt(8, 2, word(8, 12)), "overlaps");
        assert!(!ring.adopt(16, 2, word(8, 0)), "overlaps a region above it");
        assert!(!ring.adopt(8, 2, word(0, 32)), "no stamp");
        assert!(!ring.adopt(8, 2, word(3, 60)), "beyond the end");
        assert!(!ring.adopt(8, 2, word(3, u32::MAX.into())), "far beyond the end");
        assert!(!ring.adopt(8, 2, word(3, 33)), "not aligned");
        assert!(ring.adopt(8, 2, word(3, 32)));
        let (next, gone) = ring.take(24, 3).unwrap();
        assert_eq!((next, gone.len()), (word(8, 16), 1));
        assert_eq!(gone[0].slot, 2);
    }
}
