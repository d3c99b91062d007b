//! What a metric is; which metrics there are is generated from `spec/`.

/// How a metric moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// Only up, from 0 at the start of the process.
    Counter,
    /// Up and down.
    Gauge,
}

/// One metric of `spec/`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Its name in `/metrics`, with prefix, unit and `_total`.
    pub name: &'static str,
    /// Its name in `/status`: without service, unit and `_total`.
    pub key: &'static str,
    /// The service that alone has it; `None`: all, or the process.
    pub service: Option<&'static str>,
    /// How it moves.
    pub kind: MetricKind,
    /// What it counts in, such as `seconds`; empty for plain numbers.
    pub unit: &'static str,
    /// What tells its series apart.
    pub labels: &'static [&'static str],
    /// What it says, for people.
    pub help: &'static str,
}

impl Metric {
    /// Whether its series are told apart by `label`.
    pub fn has_label(&self, label: &str) -> bool {
        self.labels.contains(&label)
    }
}
