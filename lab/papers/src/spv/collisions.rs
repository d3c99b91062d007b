//! Figure 13: the keys that a table loses because other keys replaced them, and the number of tags that a look-up
//! compares.
//!
//! Both are measured on the daemon's fast-path table, and computed. If `n` keys are uniformly distributed over `s` sets
//! of `w` lines, the number `X` of keys of one set is binomial with `n` trials and probability `1/s`. A set keeps `K =
//! min(X, w)` of them, and each further key replaces one of these, so:
//!
//! - a key is lost with probability `s * E[max(X - w, 0)] / n` (for `w` = 1: `1 - s/n * (1 - (1 - 1/s)^n)`);
//! - a key shares a set with at least `w` others with probability `P(Y >= w)`, `Y` binomial with `n - 1` trials;
//! - a hit compares `E[K (K + 1) / 2] / E[K]` tags, and a miss `E[K]`, if lines are examined one after the other and
//!   empty ones are not compared. A circuit compares all `w` at once.

use crate::error::{PapersError, Result};
use lineside_spv::store::{Geometry, Hash, Store, words};
use lineside_spv::writer::{BlockRef, SpvFill as _, StoreWriter, Ticket};
use sha2::{Digest as _, Sha256};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Numbers of keys in the figure of the paper.
pub const KEYS: [usize; 3] = [10_000, 50_000, 250_000];
/// Numbers of lines per set in the figure of the paper.
pub const WAYS: [u32; 3] = [1, 2, 4];
/// log2 of the number of lines of the paper's table.
pub const LINE_BITS: u32 = 22;

/// Method that chooses the set of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Index {
    /// The keyed hash of a TXID chooses the set, as in the daemon.
    Keyed,
    /// The low bits of the TXID choose the set, as in the paper.
    LowBits,
}

impl Index {
    /// Returns the name of the method, as the tables of results show it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Keyed => "keyed hash",
            Self::LowBits => "low bits",
        }
    }
}

/// Effect of collisions on the keys of a table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Collisions {
    /// Percentage of the keys that are no longer in the table.
    pub lost_percent: f64,
    /// Percentage of the keys whose set received more keys than it has lines.
    pub sharing_percent: f64,
    /// Mean number of tags that a look-up compares if the key is in the table.
    pub hit_comparisons: f64,
    /// Mean number of tags that a look-up compares if the key is not in the table.
    pub miss_comparisons: f64,
}

/// Returns the expected values by the closed forms above, for a table of at least two sets.
pub fn computed(keys: usize, line_bits: u32, ways: u32) -> Collisions {
    let sets = (1u64 << line_bits) as f64 / f64::from(ways);
    let (n, w) = (keys as f64, f64::from(ways));
    let (mut kept, mut ranks, mut excess) = (0.0, 0.0, 0.0);
    for (count, probability) in binomial(keys, sets).enumerate() {
        let count = count as f64;
        let stays = count.min(w);
        kept += stays * probability;
        ranks += stays * (stays + 1.0) / 2.0 * probability;
        excess += (count - stays) * probability;
    }
    let alone: f64 = binomial(keys.saturating_sub(1), sets).take(ways as usize).sum();
    Collisions {
        lost_percent: 100.0 * sets * excess / n,
        sharing_percent: 100.0 * (1.0 - alone).max(0.0),
        hit_comparisons: ranks / kept,
        miss_comparisons: kept,
    }
}

/// Returns the probabilities of 0, 1, 2, ... successes in `trials` trials, each with probability `1 / sets`, until they
/// are negligible.
fn binomial(trials: usize, sets: f64) -> impl Iterator<Item = f64> {
    let n = trials as f64;
    let mut next = Some((0.0, (n * (-1.0 / sets).ln_1p()).exp()));
    let mean = n / sets;
    std::iter::from_fn(move || {
        let (count, probability) = next?;
        let following = probability * (n - count) / ((count + 1.0) * (sets - 1.0));
        let ends = count > mean && following < 1e-300;
        next = (!ends && count < n).then_some((count + 1.0, following));
        Some(probability)
    })
}

/// Fills a table of 2^`line_bits` lines with TXIDs. Measures it after each number of keys in `keys`, which must be in
/// ascending order.
///
/// # Errors
/// There is not enough memory for the table.
pub fn measure(
    line_bits: u32,
    ways: u32,
    index: Index,
    keys: &[usize],
    seed: u64,
) -> Result<Vec<Collisions>> {
    let geometry = Geometry {
        line_bits,
        ways,
        block_bits: 1,
        tree_bits: 0,
        paper_index: index == Index::LowBits,
        ..Geometry::default()
    };
    let store = Store::anonymous(&geometry).map_err(|source| PapersError::Table {
        line_bits,
        mebibytes: 64 << line_bits >> 20,
        source,
    })?;
    let store = Arc::new(store);
    let mut filled = Filled::new(Arc::clone(&store), seed);
    keys.iter()
        .map(|count| {
            filled.fill_up_to(*count);
            Ok(filled.look())
        })
        .collect()
}

struct Filled {
    store: Arc<Store>,
    writer: StoreWriter,
    ticket: Ticket,
    seed: u64,
    txids: Vec<Hash>,
    /// Number of keys that each set received, by the address of its first line.
    given: HashMap<usize, u32>,
}

impl Filled {
    fn new(store: Arc<Store>, seed: u64) -> Self {
        let mut writer = StoreWriter::new(Arc::clone(&store));
        let ticket = writer.admit(&BlockRef {
            hash: [1; 32],
            root: [2; 32],
            height: 1,
        });
        Self {
            store,
            writer,
            ticket,
            seed,
            txids: Vec::new(),
            given: HashMap::new(),
        }
    }

    fn place(&self, txid: &Hash) -> usize {
        self.store.set(&words(txid)).as_ptr() as usize
    }

    fn fill_up_to(&mut self, count: usize) {
        while self.txids.len() < count {
            let txid = txid(self.seed, self.txids.len() as u64);
            self.writer.fill(&txid, self.ticket, 0);
            *self.given.entry(self.place(&txid)).or_default() += 1;
            self.txids.push(txid);
        }
    }

    /// Returns the number of tags that are compared until `txid` is found or the set has no further line, and whether
    /// it is found.
    fn look_up(&self, txid: &Hash) -> (u32, bool) {
        let words = words(txid);
        let mut compared = 0;
        for line in self.store.set(&words) {
            if line.generation.load(Relaxed) == 0 {
                continue;
            }
            compared += 1;
            if (line.txid.iter().zip(words)).all(|(tag, word)| tag.load(Relaxed) == word) {
                return (compared, true);
            }
        }
        (compared, false)
    }

    fn look(&self) -> Collisions {
        let ways = self.store.control().ways.load(Relaxed);
        let (mut hits, mut hit_tags, mut miss_tags, mut sharing) = (0u64, 0u64, 0u64, 0u64);
        for (number, key) in self.txids.iter().enumerate() {
            let (compared, found) = self.look_up(key);
            if found {
                hits += 1;
                hit_tags += u64::from(compared);
            }
            sharing += u64::from(self.given[&self.place(key)] > ways);
            let (compared, _) = self.look_up(&txid(!self.seed, number as u64));
            miss_tags += u64::from(compared);
        }
        let keys = self.txids.len().max(1) as f64;
        Collisions {
            lost_percent: 100.0 * (keys - hits as f64) / keys,
            sharing_percent: 100.0 * sharing as f64 / keys,
            hit_comparisons: hit_tags as f64 / hits.max(1) as f64,
            miss_comparisons: miss_tags as f64 / keys,
        }
    }
}

/// Returns a TXID: a double SHA-256, here of two numbers instead of a transaction.
fn txid(seed: u64, number: u64) -> Hash {
    let mut transaction = [0; 16];
    transaction[..8].copy_from_slice(&seed.to_le_bytes());
    transaction[8..].copy_from_slice(&number.to_le_bytes());
    Sha256::digest(Sha256::digest(transaction)).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use lineside_testkit::Random;

    #[test]
    fn the_closed_forms_agree_with_known_cases() {
        // If two keys are put into two lines, they collide in half of the cases, and then one of them is lost.
        let two = computed(2, 1, 1);
        assert!((two.lost_percent - 25.0).abs() < 1e-9, "{two:?}");
        assert!((two.sharing_percent - 50.0).abs() < 1e-9, "{two:?}");
        // For a direct-mapped table, the textbook formula for occupied bins applies.
        for keys in KEYS {
            let bins = f64::from(1 << LINE_BITS);
            let occupied = bins * (1.0 - (1.0 - 1.0 / bins).powf(keys as f64));
            let expected = 100.0 * (1.0 - occupied / keys as f64);
            let found = computed(keys, LINE_BITS, 1);
            assert!(
                (found.lost_percent - expected).abs() < 1e-6,
                "{found:?} {expected}"
            );
            assert_eq!(found.hit_comparisons, 1.0);
        }
        // The paper claims less than 1 % of lost keys at 250,000 keys, which needs 2^24 lines.
        let lost = |bits| computed(250_000, bits, 1).lost_percent;
        assert!((lost(22) - 2.922).abs() < 0.001 && lost(23) > 1.0 && lost(24) < 1.0);
    }

    /// Compares the closed forms with counters in an array. The counters do not depend on the table, on sets in memory
    /// or on the binomial distribution.
    #[test]
    fn the_closed_forms_agree_with_a_simulation_of_balls_in_bins() {
        for (bits, ways, keys) in [(12, 1, 2000), (12, 2, 2000), (12, 4, 3000), (10, 4, 2000)] {
            let mut random = Random(7);
            let sets = (1usize << bits) / ways as usize;
            let (rounds, mut lost, mut ranks, mut kept) = (200, 0u64, 0u64, 0u64);
            for _ in 0..rounds {
                let mut bins = vec![0u32; sets];
                (0..keys).for_each(|_| bins[random.index(sets)] += 1);
                for bin in bins {
                    lost += u64::from(bin.saturating_sub(ways));
                    let stays = bin.min(ways);
                    kept += u64::from(stays);
                    ranks += u64::from((1..=stays).sum::<u32>());
                }
            }
            let found = computed(keys, bits, ways);
            let simulated = 100.0 * lost as f64 / f64::from(rounds) / keys as f64;
            let near = |a: f64, b: f64| (a - b).abs() < 0.03 * b.max(0.02);
            assert!(
                near(found.lost_percent, simulated),
                "{ways} ways: {found:?} {simulated}"
            );
            let per_set = kept as f64 / f64::from(rounds) / sets as f64;
            assert!(near(found.miss_comparisons, per_set));
            assert!(near(found.hit_comparisons, ranks as f64 / kept as f64));
        }
    }

    #[test]
    fn the_real_table_loses_as_many_entries_as_computed() {
        for index in [Index::Keyed, Index::LowBits] {
            for ways in WAYS {
                let keys = [2_000, 20_000];
                let found = measure(14, ways, index, &keys, 1).expect("memory for 2^14 lines");
                for (keys, found) in keys.into_iter().zip(found) {
                    let expected = computed(keys, 14, ways);
                    // The tolerance is five standard deviations of the number of losses.
                    let losses = expected.lost_percent * keys as f64 / 100.0;
                    let room = 100.0 * (5.0 * losses.sqrt() + 3.0) / keys as f64;
                    assert!(
                        (found.lost_percent - expected.lost_percent).abs() <= room,
                        "{found:?} {expected:?}"
                    );
                    assert!((found.hit_comparisons - expected.hit_comparisons).abs() < 0.05);
                    assert!((found.miss_comparisons - expected.miss_comparisons).abs() < 0.05);
                    // Keys that share a set come in groups of more than `ways` keys, so their tolerance is larger.
                    let sharing = expected.sharing_percent * keys as f64 / 100.0;
                    let room = 100.0 * (5.0 * (sharing * f64::from(ways + 1)).sqrt() + 10.0) / keys as f64;
                    assert!(
                        (found.sharing_percent - expected.sharing_percent).abs() < room,
                        "{found:?} {expected:?}"
                    );
                }
            }
        }
    }
}
