//! Status of the process and of its services. The daemon, the JSON of the console and its clients use the same types.

mod text;

use lineside_wire::{DropReason, Metric, metric};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeMap;

/// Status of the process at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Version of the binary.
    pub version: String,
    /// Seconds since the process began to serve.
    pub uptime_s: u64,
    /// All running services.
    pub services: Vec<ServiceStatus>,
    /// Reasons why the process cannot do its work. If there are any, `/healthz` answers 503.
    pub problems: Vec<String>,
    /// Warnings for the operator, although everything works.
    pub warnings: Vec<String>,
}

/// Status of one service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceStatus {
    /// Name of the service, such as `spv`.
    pub name: String,
    /// Name of the instance if a service runs several times; for `fabric`, the channel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
    /// Datapath in use: `socket` or `xdp`.
    pub datapath: String,
    /// Address and port that the service listens on.
    pub listen: String,
    /// Network interface of the XDP program; `None` on the socket datapath.
    pub interface: Option<String>,
    /// Mode in which XDP is attached: `native` or `generic`.
    pub mode: Option<String>,
    /// Milliseconds until the lease of the fast path ends; `None` if the service has no lease.
    pub lease_left_ms: Option<u64>,
    /// Best block, if the service has a chain.
    pub tip: Option<Tip>,
    /// Counters with the label `datapath`: by datapath, then by [`Metric::key`].
    pub counters: BTreeMap<String, BTreeMap<String, u64>>,
    /// Drops: by datapath, then by reason.
    pub drops: BTreeMap<String, BTreeMap<String, u64>>,
    /// Counters of the host, by [`Metric::key`].
    pub host: BTreeMap<String, u64>,
    /// Counters with one label of their own: by [`Metric::key`], then by the label's value. Metrics in seconds are in
    /// nanoseconds here.
    #[serde(default)]
    pub labelled: BTreeMap<String, BTreeMap<String, u64>>,
    /// Lines of text about the state that only this service has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub summary: Vec<String>,
    /// Values that only this service has, by name. They become further keys of the service's JSON object.
    #[serde(flatten)]
    pub details: BTreeMap<String, serde_json::Value>,
}

/// Best block of a chain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tip {
    /// Hash as 64 hex digits, in the byte order of block explorers.
    pub hash: String,
    /// Height.
    pub height: u32,
}

impl Snapshot {
    /// Returns the reasons for which `/healthz` answers 503. Empty if it answers 200.
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
    /// Sets counters of one datapath. `counted` has the order of a generated list such as
    /// `SpvCounter::ALL.map(SpvCounter::name)`.
    pub fn set_counters<'a>(&mut self, datapath: &str, counted: impl IntoIterator<Item = (&'a str, u64)>) {
        let counters = self.counters.entry(datapath.into()).or_default();
        counters.extend(counted.into_iter().map(|(name, value)| (name.into(), value)));
    }

    /// Sets the number of requests that the fast path answered on one datapath.
    pub fn set_fastpath_replies(&mut self, datapath: &str, replies: u64) {
        self.set_counters(datapath, [(metric::FASTPATH_REPLIES.key, replies)]);
    }

    /// Sets the drops of one datapath, in the order of [`DropReason::ALL`].
    pub fn set_drops(&mut self, datapath: &str, drops: [u64; DropReason::ALL.len()]) {
        let names = DropReason::ALL.map(|reason| reason.name().to_owned());
        self.drops
            .insert(datapath.into(), names.into_iter().zip(drops).collect());
    }

    /// Sets a counter of the host, such as `(metric::SPV_FILLS, 7)`.
    pub fn set_host(&mut self, metric: Metric, value: u64) {
        debug_assert!(
            !metric.has_label("datapath"),
            "{} is counted by datapath",
            metric.name
        );
        self.host.insert(metric.key.into(), value);
    }

    /// Adds how full a table is: `used` of `capacity` places. `name` is shown to people. The list is `tables` in the
    /// service's JSON object.
    pub fn add_table(&mut self, name: &str, used: u64, capacity: u64) {
        let tables = self.details.entry("tables".into()).or_insert_with(|| json!([]));
        if let Some(tables) = tables.as_array_mut() {
            tables.push(json!({"name": name, "used": used, "capacity": capacity}));
        }
    }

    /// Sets one series of a metric with one label of its own, such as `(metric::FABRIC_TRANSACTIONS, "VALID", 7)`.
    /// Metrics in seconds are given in nanoseconds.
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
