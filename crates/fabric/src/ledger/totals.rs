//! Totals over all blocks that a replica has committed since it started, for metrics.

use crate::code::TxCode;
use lineside_util::histogram::{Buckets, Histogram};
use std::sync::atomic::{AtomicU64, Ordering};

/// Names of the stages of a block, in the order of [`Totals::stages_ns`].
pub const STAGES: [&str; 6] = ["parse", "verify", "policy", "mvcc", "ledger", "total"];

/// Totals over durable blocks.
#[derive(Debug)]
pub struct Totals {
    blocks: AtomicU64,
    by_code: [AtomicU64; 256],
    stages_ns: [AtomicU64; STAGES.len()],
    commit_ns: Histogram,
}

impl Default for Totals {
    fn default() -> Self {
        Self {
            blocks: AtomicU64::new(0),
            by_code: [const { AtomicU64::new(0) }; 256],
            stages_ns: [const { AtomicU64::new(0) }; STAGES.len()],
            commit_ns: Histogram::of_times(),
        }
    }
}

impl Totals {
    pub(crate) fn add(&self, codes: &[u8], stages_ns: [u64; STAGES.len()]) {
        self.blocks.fetch_add(1, Ordering::Relaxed);
        for code in codes {
            if let Some(count) = self.by_code.get(usize::from(*code)) {
                count.fetch_add(1, Ordering::Relaxed);
            }
        }
        for (sum, ns) in self.stages_ns.iter().zip(stages_ns) {
            sum.fetch_add(ns, Ordering::Relaxed);
        }
        let [.., total_ns] = stages_ns;
        self.commit_ns.record(total_ns);
    }

    /// Returns the number of blocks.
    pub fn blocks(&self) -> u64 {
        self.blocks.load(Ordering::Relaxed)
    }

    /// Returns the number of transactions with each code that occurred.
    pub fn transactions(&self) -> Vec<(TxCode, u64)> {
        let counts = self.by_code.iter().zip(0..=u8::MAX);
        let counts = counts.map(|(count, code)| (TxCode::from_number(code), count.load(Ordering::Relaxed)));
        counts
            .filter_map(|(code, count)| Some((code?, count)).filter(|_| count > 0))
            .collect()
    }

    /// Returns the times in ns from the arrival of complete blocks until they were durable, including waiting times.
    pub fn commit_ns(&self) -> Buckets {
        self.commit_ns.read()
    }

    /// Returns the total nanoseconds of each of [`STAGES`]. The last covers the time from the block's arrival until it
    /// was durable, including waiting times.
    pub fn stages_ns(&self) -> [u64; STAGES.len()] {
        std::array::from_fn(|stage| {
            let sum = self.stages_ns.get(stage);
            sum.map_or(0, |sum| sum.load(Ordering::Relaxed))
        })
    }
}
