//! Counts of a run of an express contestant.

use super::plan::Plan;
use super::store::Audit;
use crate::client::histogram;
use crate::wrong::WrongReplies;
use hdrhistogram::Histogram;

/// Counts of one run.
#[derive(Clone, Debug)]
pub struct Tally {
    /// Number of requests that were sent in the counted time.
    pub sent: u64,
    /// Number of right replies in the counted time.
    pub right: u64,
    /// Number of replies `busy` in the whole run. Such a request was not executed and has to be sent again.
    pub busy: u64,
    /// Number of refusals in the whole run. No request should be refused.
    pub refused: u64,
    /// Other unexpected replies in the whole run.
    pub wrong: WrongReplies,
    /// Number of right replies to requests before the counted time that arrived in it.
    pub late: u64,
    /// Number of right replies to requests that were answered, or given up, before.
    pub repeated: u64,
    /// Number of requests without a reply in the counted time.
    pub lost: u64,
    /// Length of the counted time in nanoseconds.
    pub took_ns: u64,
    /// Latencies of the right replies, in nanoseconds.
    pub latency: Histogram<u64>,
    /// Number of requests that were sent, including the warm-up.
    pub sent_all: u64,
    /// Number of right replies, including the warm-up.
    pub right_all: u64,
}

impl Default for Tally {
    fn default() -> Self {
        Self {
            sent: 0,
            right: 0,
            busy: 0,
            refused: 0,
            wrong: WrongReplies::default(),
            late: 0,
            repeated: 0,
            lost: 0,
            took_ns: 0,
            latency: histogram(),
            sent_all: 0,
            right_all: 0,
        }
    }
}

impl Tally {
    /// Returns the number of right replies per second.
    pub fn rps(&self) -> f64 {
        self.right as f64 * 1e9 / self.took_ns.max(1) as f64
    }

    /// Returns a quantile of the latency in microseconds.
    pub fn latency_us(&self, quantile: f64) -> f64 {
        self.latency.value_at_quantile(quantile) as f64 / 1e3
    }
}

/// Faults in the accounts in all runs: money and changes that are in excess or missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Number of units of money that are missing, plus number of right replies to requests that were not executed.
    pub lost: u64,
    /// Number of requests that were executed more than once.
    pub doubled: u64,
    /// Number of units of money in excess.
    pub created: u64,
}

impl Faults {
    /// Adds the faults of a run.
    pub fn add(&mut self, plan: &Plan, tally: &Tally, audit: &Audit) {
        self.created += audit.held.saturating_sub(audit.due);
        self.lost += audit.due.saturating_sub(audit.held);
        let asked = plan.writes(tally.sent_all);
        self.doubled += audit.effects.saturating_sub(asked);
        // Each missing reply may belong to a request that was executed.
        let missing = tally.sent_all - tally.right_all;
        self.lost += asked.saturating_sub(missing).saturating_sub(audit.effects);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transfer::plan::Command;

    #[test]
    fn sums_and_counts_that_do_not_agree_are_counted_as_faults() {
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
        assert_eq!(
            faults(90, 1000),
            (0, 0, 0),
            "the other requests may not have arrived"
        );
        assert_eq!(
            faults(89, 1000),
            (1, 0, 0),
            "one request was answered but not executed"
        );
        assert_eq!(faults(101, 1000), (0, 1, 0));
        assert_eq!(faults(95, 1003), (0, 0, 3));
        assert_eq!(faults(95, 998), (2, 0, 0));
    }
}
