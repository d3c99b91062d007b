//! Types that describe a metric. The list of metrics is generated from `spec/`.

/// Kind of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// Only increases, from 0 at the start of the process.
    Counter,
    /// Increases and decreases.
    Gauge,
    /// Counts values in buckets, from 0 at the start of the process.
    Histogram,
}

impl MetricKind {
    /// Returns the name in the text formats of metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// One metric of `spec/`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Name in `/metrics`, with prefix, unit and `_total`.
    pub name: &'static str,
    /// Name in `/status`: without service, unit and `_total`.
    pub key: &'static str,
    /// Only service that has the metric; `None` if all services or the process have it.
    pub service: Option<&'static str>,
    /// Kind: counter, gauge or histogram.
    pub kind: MetricKind,
    /// Unit, such as `seconds`; empty for plain numbers.
    pub unit: &'static str,
    /// Names of the labels.
    pub labels: &'static [&'static str],
    /// True for a counter of requests that the fast path passes on. XDP passes them to the socket datapath, which
    /// counts them again, so `/metrics` has XDP's count in `lineside_xdp_passed_total` only.
    pub passes: bool,
    /// Description for people, shown as `# HELP`.
    pub help: &'static str,
}

impl Metric {
    /// Returns true if the metric has the label `label`.
    pub fn has_label(&self, label: &str) -> bool {
        self.labels.contains(&label)
    }
}
