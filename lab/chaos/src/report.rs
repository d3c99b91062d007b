//! Result of one case: an attack on one service.

use serde::Serialize;
use std::collections::BTreeMap;

/// Maximum number of faults whose text the report contains.
const TEXTS_MAX: usize = 10;

/// Result of one case.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Name of the attack.
    pub attack: &'static str,
    /// Name of the service, followed by the datapath unless that is `socket`.
    pub target: &'static str,
    /// Seed of every random choice.
    pub seed: u64,
    /// Counts by name, such as `kills` or `acknowledged`.
    pub counts: BTreeMap<&'static str, u64>,
    /// Number of acknowledged changes that were missing at the end.
    pub lost: u64,
    /// Number of changes that were executed more often than requested.
    pub doubled: u64,
    /// Number of all other faults.
    pub wrong: u64,
    /// Texts of the first faults of all kinds.
    pub faults: Vec<String>,
    /// Maximum memory of the daemon in bytes, if it was measured. It is the memory of its control group with the page
    /// cache, or the memory of its resident pages.
    pub peak_bytes: Option<u64>,
    /// Reason why the case was skipped.
    pub skipped: Option<String>,
    /// Duration of the case, in seconds.
    pub seconds: f64,
}

impl Report {
    /// Returns the report of a case that has not run yet.
    pub fn new(attack: &'static str, target: &'static str, seed: u64) -> Self {
        Self {
            attack,
            target,
            seed,
            counts: BTreeMap::new(),
            lost: 0,
            doubled: 0,
            wrong: 0,
            faults: Vec::new(),
            peak_bytes: None,
            skipped: None,
            seconds: 0.0,
        }
    }

    /// Returns true if no change was lost, executed twice or wrong.
    pub fn held(&self) -> bool {
        self.lost == 0 && self.doubled == 0 && self.wrong == 0
    }

    /// Adds `amount` to the count `name`.
    pub fn count(&mut self, name: &'static str, amount: u64) {
        *self.counts.entry(name).or_default() += amount;
    }

    /// Counts an acknowledged change that is missing.
    pub fn lose(&mut self, text: String) {
        self.lost += 1;
        self.keep(text);
    }

    /// Counts a change that was executed more often than requested.
    pub fn double(&mut self, text: String) {
        self.doubled += 1;
        self.keep(text);
    }

    /// Counts any other fault.
    pub fn fault(&mut self, text: String) {
        self.wrong += 1;
        self.keep(text);
    }

    /// Raises the maximum memory of the daemon to `bytes`, if that is more.
    pub fn peak(&mut self, bytes: Option<u64>) {
        self.peak_bytes = self.peak_bytes.max(bytes);
    }

    fn keep(&mut self, text: String) {
        if self.faults.len() < TEXTS_MAX {
            self.faults.push(text);
        }
    }
}
