//! Status of the process and of its services. The daemon, the JSON of the console and its clients use the same types.

mod text;

use lineside_util::histogram::Buckets;
use lineside_util::process_use::ProcessUse;
use lineside_wire::{DropReason, Metric, metric};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Status of the process at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Version of the binary.
    pub version: String,
    /// Commit that the binary was built from; empty if unknown.
    #[serde(default)]
    pub commit: String,
    /// Cargo features of the binary.
    #[serde(default)]
    pub features: Vec<String>,
    /// Seconds since the process began to serve.
    pub uptime_s: u64,
    /// Use of resources by the process, by [`Metric::key`]: memory in bytes, times in milliseconds.
    #[serde(default)]
    pub process: BTreeMap<String, u64>,
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
    /// Datapath in use: `socket` or `xdp`. A service without a fast path has `socket`.
    pub datapath: String,
    /// Protocols of a service that has no fast path, such as `gRPC`; empty for a service with one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub protocols: Vec<String>,
    /// Address and port that the service listens on.
    pub listen: String,
    /// Network interface of the XDP program, or the names of several, separated by `, `; `None` on the socket datapath.
    pub interface: Option<String>,
    /// Mode in which XDP is attached: `native` or `generic`; the modes in the order of the interfaces, separated by
    /// `, `, if they differ.
    pub mode: Option<String>,
    /// Interfaces at which XDP is attached and the service answers. Empty on the socket datapath.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interfaces: Vec<AttachedInterface>,
    /// Milliseconds until the lease of the fast path ends; `None` if the service has no lease.
    pub lease_left_ms: Option<u64>,
    /// Nanoseconds since the host executed the oldest batch that is not durable, 0 if there is none; `None` if the
    /// service does not measure it.
    #[serde(default)]
    pub durability_lag_ns: Option<u64>,
    /// Number of requests that the socket datapath passed to the host; `None` without a socket datapath.
    #[serde(default)]
    pub passed_to_host: Option<u64>,
    /// Best block, if the service has a chain.
    pub tip: Option<Tip>,
    /// Counters with the label `datapath`: by datapath, then by [`Metric::key`].
    pub counters: BTreeMap<String, BTreeMap<String, u64>>,
    /// Drops: by datapath, then by reason.
    pub drops: BTreeMap<String, BTreeMap<String, u64>>,
    /// Counters of the host, by [`Metric::key`].
    pub host: BTreeMap<String, u64>,
    /// Counters with one label that only the metric has: by [`Metric::key`], then by the label's value. Metrics in
    /// seconds are in nanoseconds here.
    #[serde(default)]
    pub labelled: BTreeMap<String, BTreeMap<String, u64>>,
    /// Histograms, by [`Metric::key`]. Times are in nanoseconds.
    #[serde(default)]
    pub histograms: BTreeMap<String, HistogramCounts>,
    /// Reasons why this service cannot do its work. [`Snapshot::problems`] contains them as well.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
    /// Lines of text about state that no other service has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub summary: Vec<String>,
    /// Values that no other service has, by name. They become further keys of the service's JSON object.
    #[serde(flatten)]
    pub details: BTreeMap<String, serde_json::Value>,
}

/// Interface at which XDP is attached.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttachedInterface {
    /// Name of the interface.
    pub name: String,
    /// Mode: `native` or `generic`.
    pub mode: String,
}

/// Content of a histogram.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistogramCounts {
    /// Upper bounds of the buckets, each bound included in its bucket, in ascending order.
    pub bounds: Vec<u64>,
    /// Number of values of each bucket, and of the values above the last bound.
    pub counts: Vec<u64>,
    /// Sum of all values.
    pub sum: u64,
}

impl From<Buckets> for HistogramCounts {
    fn from(Buckets { bounds, counts, sum }: Buckets) -> Self {
        Self { bounds, counts, sum }
    }
}

impl HistogramCounts {
    /// Adds the values of another histogram with the same bounds. An empty histogram takes the bounds of the other one.
    fn add(&mut self, other: Self) {
        if self.counts.is_empty() {
            *self = other;
            return;
        }
        debug_assert_eq!(
            self.bounds, other.bounds,
            "histograms of one metric have the same bounds"
        );
        for (count, more) in self.counts.iter_mut().zip(other.counts) {
            *count += more;
        }
        // The sum is modulo 2^64, as in [`lineside_util::histogram::Histogram`].
        self.sum = self.sum.wrapping_add(other.sum);
    }
}

/// Best block of a chain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tip {
    /// Hash as 64 hex digits, in the byte order of block explorers.
    pub hash: String,
    /// Number of the best block; the first block of a chain, its genesis, has the number 0.
    #[serde(default)]
    pub block: u64,
    /// Height of the chain, as the tools of its protocol count it, and as the metrics show it: for `spv` and `hybrid`
    /// the number of the best block; for `fabric` the number of blocks, so the best block has the number `height` - 1.
    pub height: u32,
}

impl Snapshot {
    /// Returns the reasons for which `/healthz` answers 503. Empty if it answers 200.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = self.problems.clone();
        if self.services.is_empty() {
            faults.push(NO_SERVICE.into());
        }
        faults.extend(self.services.iter().filter_map(ServiceStatus::ended_lease));
        faults
    }

    /// Returns the faults among [`Snapshot::faults`] that do not belong to a single service.
    pub fn process_faults(&self) -> Vec<String> {
        let is_of_process = |fault: &String| !self.services.iter().any(|one| one.faults().contains(fault));
        self.faults().into_iter().filter(is_of_process).collect()
    }

    /// Sets the resources that the process uses. Values that the system does not report are left out.
    pub fn set_process(&mut self, used: &ProcessUse) {
        let values = [
            (metric::PROCESS_CPU, used.cpu_ms),
            (metric::PROCESS_RESIDENT_MEMORY, used.resident_memory_bytes),
            (metric::PROCESS_VIRTUAL_MEMORY, used.virtual_memory_bytes),
            (metric::PROCESS_OPEN_FDS, used.open_fds),
            (metric::PROCESS_MAX_FDS, used.max_fds),
            (metric::PROCESS_START_TIME, used.start_time_ms),
        ];
        let available = values
            .into_iter()
            .filter_map(|(metric, value)| Some((metric, value?)));
        self.process = available
            .map(|(metric, value)| (metric.key.into(), value))
            .collect();
    }
}

const NO_SERVICE: &str = "no service runs";

impl ServiceStatus {
    /// Returns the reasons why this service cannot do its work. Empty if it can.
    pub fn faults(&self) -> Vec<String> {
        self.problems.iter().cloned().chain(self.ended_lease()).collect()
    }

    fn ended_lease(&self) -> Option<String> {
        let has_ended = self.lease_left_ms == Some(0);
        has_ended.then(|| {
            format!(
                "{}: the lease of the fast path has ended, so the fast path answers nothing; check the disk and the \
                 kernel's log",
                self.name
            )
        })
    }

    /// Sets the interfaces, given as name and mode, at which XDP answers for the service.
    pub fn set_interfaces<'a>(&mut self, attached: impl IntoIterator<Item = (&'a str, &'a str)>) {
        self.interfaces.clear();
        for (name, mode) in attached {
            self.set_labelled(metric::ATTACHED_INTERFACES, name, 1);
            self.interfaces.push(AttachedInterface {
                name: name.into(),
                mode: mode.into(),
            });
        }
        let Some(first) = self.interfaces.first() else {
            return;
        };
        let all = |of: fn(&AttachedInterface) -> &str| {
            let all: Vec<_> = self.interfaces.iter().map(of).collect();
            all.join(", ")
        };
        let is_same = self.interfaces.iter().all(|other| other.mode == first.mode);
        self.mode = Some(if is_same {
            first.mode.clone()
        } else {
            all(|one| &one.mode)
        });
        self.interface = Some(all(|one| &one.name));
    }

    /// Sets counters of one datapath. `counted` is in the order of a generated list such as
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

    /// Sets one series of a metric that has one label of its own, in addition to the labels of the service. Example:
    /// `(metric::FABRIC_TRANSACTIONS, "VALID", 7)`. Metrics in seconds are given in nanoseconds.
    pub fn set_labelled(&mut self, metric: Metric, label: &str, value: u64) {
        let own = metric.labels.iter().filter(|label| !is_of_service(label));
        debug_assert_eq!(own.count(), 1, "{} has one label of its own", metric.name);
        let series = self.labelled.entry(metric.key.into()).or_default();
        series.insert(label.into(), value);
    }

    /// Sets a histogram, such as the durations of fdatasync.
    pub fn set_histogram(&mut self, metric: Metric, histogram: impl Into<HistogramCounts>) {
        self.histograms.insert(metric.key.into(), histogram.into());
    }

    /// Adds requests that reach the host by a separate protocol, such as gRPC, to those of the socket datapath: the
    /// number of requests that were passed to the host, the number that it has answered, and the times that it took.
    pub fn add_host_requests(&mut self, passed: u64, answered: u64, latency: impl Into<HistogramCounts>) {
        *self.passed_to_host.get_or_insert_default() += passed;
        *self.host.entry(metric::HOST_REPLIES.key.into()).or_default() += answered;
        let all = self.histograms.entry(metric::HOST_LATENCY.key.into());
        all.or_default().add(latency.into());
    }

    /// Returns a short text about where the service answers, such as `xdp datapath` or `gRPC, UDP`.
    pub fn way(&self) -> String {
        match self.protocols.is_empty() {
            true => format!("{} datapath", self.datapath),
            false => self.protocols.join(", "),
        }
    }

    /// Sets the number of used entries of a table that the fast path reads, and the number that it has room for.
    pub fn set_table(&mut self, table: &str, used: u64, capacity: u64) {
        self.set_labelled(metric::TABLE_ENTRIES, table, used);
        self.set_labelled(metric::TABLE_CAPACITY, table, capacity);
    }
}

/// Returns true for a label whose value is the same for all series of one service.
fn is_of_service(label: &str) -> bool {
    matches!(label, "service" | "channel")
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

impl StatusBuilder {
    /// Calls `status`, which adds one running service, and copies the problems that it reports into that service's
    /// status.
    pub fn collect(&mut self, status: impl FnOnce(&mut Self)) {
        let (services, problems) = (self.services.len(), self.problems.len());
        status(self);
        for service in &mut self.services[services..] {
            service.problems.extend_from_slice(&self.problems[problems..]);
        }
    }
}
