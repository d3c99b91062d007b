//! Types that describe a metric. The list of metrics is generated from `spec/`.

/// Kind of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// Value that only increases, from 0 at the start of the process.
    Counter,
    /// Value that increases and decreases.
    Gauge,
    /// Number of values in each bucket, from 0 at the start of the process.
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

/// Description of one metric of `spec/`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Name in `/metrics`, with prefix, unit and the ending `_total` of a counter.
    pub name: &'static str,
    /// Name in `/status`: without the name of the service, the unit and `_total`.
    pub key: &'static str,
    /// Service that alone has the metric; `None` if all services or the process have it.
    pub service: Option<&'static str>,
    /// Kind: counter, gauge or histogram.
    pub kind: MetricKind,
    /// Unit, such as `seconds`; empty for plain numbers.
    pub unit: &'static str,
    /// Names of the labels.
    pub labels: &'static [&'static str],
    /// True for a counter of requests that the fast path passes on. XDP passes them to the socket datapath, which
    /// counts them again. Therefore `/metrics` shows XDP's count only in `lineside_xdp_passed_total`.
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
