//! Result of one case.

use serde::Serialize;
use std::collections::BTreeMap;

/// Faults of which a report keeps the text.
const TEXTS_MAX: usize = 10;

/// Result of one case.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Name of the attack.
    pub attack: &'static str,
    /// Name of the service, with the datapath where that is not `socket`.
    pub target: &'static str,
    /// Seed of every choice.
    pub seed: u64,
    /// Amounts by name, such as `kills` or `acknowledged`.
    pub counts: BTreeMap<&'static str, u64>,
    /// Acknowledged changes that were not there at the end.
    pub lost: u64,
    /// Changes that were there more often than they were asked for.
    pub doubled: u64,
    /// Everything else that was not as it must be.
    pub wrong: u64,
    /// Texts of the first faults of all kinds.
    pub faults: Vec<String>,
    /// Maximum of the daemon's memory, in bytes, where it was measured: of its control group, with the page cache, or
    /// of its resident pages.
    pub peak_bytes: Option<u64>,
    /// Reason why the case did not run here.
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

    /// Returns true if nothing was lost, doubled or wrong.
    pub fn held(&self) -> bool {
        self.lost == 0 && self.doubled == 0 && self.wrong == 0
    }

    /// Adds `amount` to the count `name`.
    pub fn count(&mut self, name: &'static str, amount: u64) {
        *self.counts.entry(name).or_default() += amount;
    }

    /// Counts an acknowledged change that is not there.
    pub fn lose(&mut self, text: String) {
        self.lost += 1;
        self.keep(text);
    }

    /// Counts a change that is there more often than it was asked for.
    pub fn double(&mut self, text: String) {
        self.doubled += 1;
        self.keep(text);
    }

    /// Counts anything else that is not as it must be.
    pub fn fault(&mut self, text: String) {
        self.wrong += 1;
        self.keep(text);
    }

    /// Raises the peak of the memory to `bytes`.
    pub fn peak(&mut self, bytes: Option<u64>) {
        self.peak_bytes = self.peak_bytes.max(bytes);
    }

    fn keep(&mut self, text: String) {
        if self.faults.len() < TEXTS_MAX {
            self.faults.push(text);
        }
    }
}
