//! What a run of an express contestant did.

use super::plan::Plan;
use super::store::Audit;
use crate::client::histogram;
use hdrhistogram::Histogram;

/// One run.
#[derive(Clone, Debug)]
pub struct Tally {
    /// Requests that left while it counted.
    pub sent: u64,
    /// Right replies while it counted.
    pub right: u64,
    /// Not executed: ask again. All of the run.
    pub busy: u64,
    /// Refused though they should not be. All of the run.
    pub refused: u64,
    /// Other replies than are due. All of the run.
    pub wrong: u64,
    /// Requests that nobody answered. While it counted.
    pub lost: u64,
    /// Time that it counted.
    pub took_ns: u64,
    /// Latency of right replies, in ns.
    pub latency: Histogram<u64>,
    /// Requests that left, warming up included.
    pub sent_all: u64,
    /// Right replies, warming up included.
    pub right_all: u64,
}

impl Default for Tally {
    fn default() -> Self {
        Self {
            sent: 0,
            right: 0,
            busy: 0,
            refused: 0,
            wrong: 0,
            lost: 0,
            took_ns: 0,
            latency: histogram(),
            sent_all: 0,
            right_all: 0,
        }
    }
}

impl Tally {
    /// Right replies a second.
    pub fn rps(&self) -> f64 {
        self.right as f64 * 1e9 / self.took_ns.max(1) as f64
    }

    /// A quantile of the latency, in µs.
    pub fn latency_us(&self, quantile: f64) -> f64 {
        self.latency.value_at_quantile(quantile) as f64 / 1e3
    }
}

/// Money and effects that should not be, or are missing, in all runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Units that are gone, and right replies to what was not done.
    pub lost: u64,
    /// Requests done more than once.
    pub doubled: u64,
    /// Units from nowhere.
    pub created: u64,
}

impl Faults {
    /// Adds what is wrong with a run.
    pub fn add(&mut self, plan: &Plan, tally: &Tally, audit: &Audit) {
        self.created += audit.held.saturating_sub(audit.due);
        self.lost += audit.due.saturating_sub(audit.held);
        let asked = plan.writes(tally.sent_all);
        self.doubled += audit.effects.saturating_sub(asked);
        // Every reply that is missing may have been to a request that changed something.
        let missing = tally.sent_all - tally.right_all;
        self.lost += asked.saturating_sub(missing).saturating_sub(audit.effects);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transfer::plan::Command;

    #[test]
    fn what_does_not_add_up_is_counted() {
        let plan = Plan {
            command: Command::Transfer,
            bits: 4,
            numbered: true,
        };
        let tally = Tally {
            sent_all: 100,
            right_all: 90,
            ..Tally::default()
        };
        let faults = |effects, held| {
            let mut faults = Faults::default();
            let due = 1000;
            faults.add(&plan, &tally, &Audit { effects, held, due });
            (faults.lost, faults.doubled, faults.created)
        };
        assert_eq!(faults(100, 1000), (0, 0, 0));
        assert_eq!(faults(90, 1000), (0, 0, 0), "the others may not have come");
        assert_eq!(faults(89, 1000), (1, 0, 0), "one was answered but not done");
        assert_eq!(faults(101, 1000), (0, 1, 0));
        assert_eq!(faults(95, 1003), (0, 0, 3));
        assert_eq!(faults(95, 998), (2, 0, 0));
    }
}
