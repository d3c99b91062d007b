//! Status of the process and of its services: plain data, the same in the daemon, in JSON and in clients.

mod text;

use lineside_wire::{DropReason, Metric, metric};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Status of the process at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Version of the binary.
    pub version: String,
    /// Seconds since it began to serve.
    pub uptime_s: u64,
    /// The services that run.
    pub services: Vec<ServiceStatus>,
    /// Why it cannot do its work; each makes `/healthz` say 503.
    pub problems: Vec<String>,
    /// Warnings for the operator, although everything works.
    pub warnings: Vec<String>,
}

/// Status of one service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceStatus {
    /// Its name, such as `spv`.
    pub name: String,
    /// Name of the instance where a service runs several times: the channel of `fabric`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
    /// The datapath that was chosen: `socket` or `xdp`.
    pub datapath: String,
    /// Address and port.
    pub listen: String,
    /// The interface, where the fast path stands at one.
    pub interface: Option<String>,
    /// Mode in which XDP is attached: `native` or `generic`.
    pub mode: Option<String>,
    /// Milliseconds for which the fast path may answer without hearing from its host; `None`: it has no lease.
    pub lease_left_ms: Option<u64>,
    /// The best block, where there is a chain.
    pub tip: Option<Tip>,
    /// By datapath, then by [`Metric::key`]: the counters with the label `datapath`.
    pub counters: BTreeMap<String, BTreeMap<String, u64>>,
    /// By datapath, then by reason.
    pub drops: BTreeMap<String, BTreeMap<String, u64>>,
    /// By [`Metric::key`]: what the host counted.
    pub host: BTreeMap<String, u64>,
    /// By [`Metric::key`], then by the value of its one label; what is in seconds is in nanoseconds here.
    #[serde(default)]
    pub labelled: BTreeMap<String, BTreeMap<String, u64>>,
    /// Lines for people about what only this service has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub summary: Vec<String>,
    /// Values that only this service has, by name: further keys of the service's object in JSON.
    #[serde(flatten)]
    pub details: BTreeMap<String, serde_json::Value>,
}

/// A chain's best block.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tip {
    /// Its hash, 64 hex digits, as explorers print it.
    pub hash: String,
    /// Its height.
    pub height: u32,
}

impl Snapshot {
    /// Why `/healthz` says 503; empty: it says 200.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = self.problems.clone();
        if self.services.is_empty() {
            faults.push("no service runs".into());
        }
        let ended = self
            .services
            .iter()
            .filter(|service| service.lease_left_ms == Some(0));
        faults.extend(ended.map(|service| format!("{}: the lease of the fast path has ended", service.name)));
        faults
    }
}

impl ServiceStatus {
    /// Notes what one datapath counted, in the order of a generated list such as
    /// `SpvCounter::ALL.map(SpvCounter::name)`.
    pub fn set_counters<'a>(&mut self, datapath: &str, counted: impl IntoIterator<Item = (&'a str, u64)>) {
        let counters = self.counters.entry(datapath.into()).or_default();
        counters.extend(counted.into_iter().map(|(name, value)| (name.into(), value)));
    }

    /// Notes the requests that one datapath's fast path answered.
    pub fn set_fastpath_replies(&mut self, datapath: &str, replies: u64) {
        self.set_counters(datapath, [(metric::FASTPATH_REPLIES.key, replies)]);
    }

    /// Notes one datapath's drops, in the order of [`DropReason::ALL`].
    pub fn set_drops(&mut self, datapath: &str, drops: [u64; DropReason::ALL.len()]) {
        let names = DropReason::ALL.map(|reason| reason.name().to_owned());
        self.drops
            .insert(datapath.into(), names.into_iter().zip(drops).collect());
    }

    /// Notes what the host counted, such as `(metric::SPV_FILLS, 7)`.
    pub fn set_host(&mut self, metric: Metric, value: u64) {
        debug_assert!(
            !metric.has_label("datapath"),
            "{} is counted by datapath",
            metric.name
        );
        self.host.insert(metric.key.into(), value);
    }

    /// Notes one series of a metric with one label of its own, such as `(metric::FABRIC_TRANSACTIONS, "VALID", 7)`.
    /// Seconds are given in nanoseconds.
    pub fn set_labelled(&mut self, metric: Metric, label: &str, value: u64) {
        let own = metric.labels.iter().filter(|label| **label != "channel");
        debug_assert_eq!(own.count(), 1, "{} has one label of its own", metric.name);
        let series = self.labelled.entry(metric.key.into()).or_default();
        series.insert(label.into(), value);
    }
}

/// Collects the status of every service.
#[derive(Debug, Default)]
pub struct StatusBuilder {
    /// Status of each service.
    pub services: Vec<ServiceStatus>,
    /// Reasons why the process cannot do its work; each makes `/healthz` answer 503.
    pub problems: Vec<String>,
    /// Warnings for the operator, although everything works.
    pub warnings: Vec<String>,
}
