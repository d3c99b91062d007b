//! Gates of the scenario `fabric`: required values of its figures.

use super::report::{Latency, Sustained};
use super::restart::Restart;
use super::udp::Udp;
use crate::gate::Bound::{self, AtLeast, AtMost};
use crate::gate::Gate;
use std::collections::BTreeMap;

/// Pass criteria: key, direction of the bound, required value (gate), stretch goal.
const GATES: [(&str, Bound, f64, Option<f64>); 14] = [
    (TPS, AtLeast, 100_000.0, Some(150_000.0)),
    (TPS_BY_DELIVER, AtLeast, 90_000.0, Some(120_000.0)),
    (LAST_TENTH, AtLeast, 0.97, None),
    (CPU, AtMost, 14.0, Some(9.0)),
    (P99, AtMost, 12.0, Some(5.0)),
    (P99_FIXED, AtMost, 12.0, Some(5.0)),
    (RATIO, AtLeast, 4.0, Some(8.0)),
    (MAJORITY_COST, AtMost, 1.5, Some(1.2)),
    (CREATORS_COST, AtMost, 1.5, Some(1.2)),
    (RESTART, AtMost, 5.0, None),
    (UDP_SAVED, AtLeast, 75.0, Some(82.0)),
    (UDP_RATE, AtLeast, 300_000.0, None),
    (UDP_RATE_UNHASHED, AtLeast, 1_000_000.0, None),
    (UDP_LOSS, AtMost, 15.0, None),
];
/// Rate of the second open loop in transactions per second. The first open loop offers 80 % of the sustained rate; this
/// fixed rate makes the latencies of different machines comparable.
pub(super) const FIXED_TPS: f64 = 40_000.0;
const TPS: &str = "tps, from memory";
const TPS_BY_DELIVER: &str = "tps, by Deliver";
const LAST_TENTH: &str = "last tenth/first";
const CPU: &str = "CPU, us a transaction";
const P99: &str = "p99 at 80 % of that rate, ms";
const P99_FIXED: &str = "p99 at 40,000 tps, ms";
/// Key of a gate that is also the key of a ratio.
pub(super) const RATIO: &str = "ifma/library";
/// Keys of gates that are also keys of ratios: processor time of a transaction relative to the judged case, the case to
/// which the other gates apply.
pub(super) const MAJORITY_COST: &str = "CPU, MAJORITY of 3/judged case";
pub(super) const CREATORS_COST: &str = "CPU, creators 10000/judged case";
const RESTART: &str = "restart, s";
pub(super) const UDP_SAVED: &str = "UDP, bytes saved, %";
const UDP_RATE: &str = "UDP, transactions/s";
const UDP_RATE_UNHASHED: &str = "UDP, transactions/s, no data hash";
const UDP_LOSS: &str = "UDP, cost of 5 % loss, %";

/// Maximum 99th percentile of the disk alone in milliseconds. It is half of the required latency: a slower disk, not
/// the program, would decide about the gates of latencies.
const DISK_P99_MAX_MS: f64 = 6.0;

/// Minimum number of transactions in the ledger for a meaningful restart time.
pub(super) const RESTART_TRANSACTIONS: u64 = 1_000_000;

/// Returns the keys of the gates that a report of this scenario has.
pub fn gate_keys() -> impl Iterator<Item = &'static str> {
    GATES.into_iter().map(|gate| gate.0)
}

/// Figures to which the gates (required values) apply.
pub(super) struct Judged<'a> {
    pub(super) sustained: &'a Sustained,
    pub(super) delivered: &'a Sustained,
    /// Figures with datagrams of Ethernet's frame size.
    pub(super) udp: &'a Udp,
    pub(super) latency: &'a Latency,
    pub(super) latency_fixed: &'a Latency,
    /// Latencies of the disk alone at the rates of `latency` and `latency_fixed`.
    pub(super) disk_alone: &'a [Latency; 2],
    pub(super) restart: &'a Restart,
    pub(super) ratios: &'a BTreeMap<String, f64>,
    /// True if no validation code is wrong and enough transactions are VALID.
    pub(super) valid: bool,
}

impl Judged<'_> {
    fn value(&self, key: &str) -> Option<f64> {
        match key {
            TPS => Some(self.sustained.figures.tps),
            TPS_BY_DELIVER => Some(self.delivered.figures.tps),
            LAST_TENTH => self.sustained.last_tenth_of_first,
            CPU => Some(self.sustained.figures.cpu_ms_per_tx * 1e3),
            P99 => judged_p99_ms(self.latency, &self.disk_alone[0]),
            P99_FIXED => judged_p99_ms(self.latency_fixed, &self.disk_alone[1]),
            RATIO | MAJORITY_COST | CREATORS_COST => self.ratios.get(key).copied(),
            RESTART if self.restart.transactions >= RESTART_TRANSACTIONS => Some(self.restart.seconds),
            UDP_SAVED => Some(self.udp.saved_percent),
            UDP_RATE => Some(self.udp.tps),
            UDP_RATE_UNHASHED => Some(self.udp.tps_no_data_hash),
            UDP_LOSS => Some(self.udp.loss_cost_percent),
            _ => None,
        }
    }

    pub(super) fn gates(&self) -> BTreeMap<&'static str, Gate> {
        let judge = |(key, is, gate, stretch): (&'static str, _, _, _)| {
            (key, Gate::judge(self.value(key), is, gate, stretch, self.valid))
        };
        GATES.map(judge).into()
    }

    /// Returns the gates that were not measured, with the reasons.
    pub(super) fn not_measured(&self) -> BTreeMap<&'static str, String> {
        let mut all: BTreeMap<&'static str, String> = BTreeMap::new();
        if self.restart.transactions < RESTART_TRANSACTIONS {
            let why = format!(
                "the ledger had {} transactions, but a meaningful restart needs {RESTART_TRANSACTIONS}",
                self.restart.transactions
            );
            all.insert(RESTART, why);
        }
        for (key, latency, disk) in [
            (P99, self.latency, &self.disk_alone[0]),
            (P99_FIXED, self.latency_fixed, &self.disk_alone[1]),
        ] {
            if judged_p99_ms(latency, disk).is_none() {
                let why = format!(
                    "the disk alone needed {:.1} ms (p99) for the same blocks directly before; a meaningful latency \
                     needs a disk with at most {DISK_P99_MAX_MS} ms",
                    disk.p99_ms
                );
                all.insert(key, why);
            }
        }
        all
    }
}

/// Returns the 99th percentile of an open loop, or `None` if the disk alone was too slow to judge it.
pub(super) fn judged_p99_ms(latency: &Latency, disk_alone: &Latency) -> Option<f64> {
    (disk_alone.p99_ms <= DISK_P99_MAX_MS).then_some(latency.p99_ms)
}
