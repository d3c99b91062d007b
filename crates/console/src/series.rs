//! Series of the metrics of `spec/`: their labels and values, taken from a snapshot.

use lineside_service::{HistogramCounts, ServiceStatus, Snapshot};
use lineside_wire::{Metric, metric};
use std::borrow::Cow;

/// Labels of a series, in the order of `spec/`.
pub(crate) type Labels<'a> = Vec<(&'static str, Cow<'a, str>)>;

/// Value of a series.
pub(crate) enum Value<'a> {
    /// Whole number.
    Whole(u64),
    /// Number of seconds.
    Seconds(f64),
    /// Histogram whose bounds and sum are whole numbers.
    Counts(&'a HistogramCounts),
    /// Histogram whose bounds and sum are in nanoseconds; it is shown in seconds.
    Times(&'a HistogramCounts),
}

/// Buckets of a histogram in the unit of its metric.
pub(crate) struct ScaledBuckets {
    /// Upper bound and number of values of each bucket; the last bound is [`f64::INFINITY`].
    pub buckets: Vec<(f64, u64)>,
    pub sum: f64,
    pub count: u64,
}

impl Value<'_> {
    /// Returns the buckets if the value is a histogram.
    pub fn buckets(&self) -> Option<ScaledBuckets> {
        let (histogram, scale) = match self {
            Self::Counts(histogram) => (histogram, 1.0),
            Self::Times(histogram) => (histogram, 1e9),
            Self::Whole(_) | Self::Seconds(_) => return None,
        };
        let bounds = histogram.bounds.iter().map(|bound| *bound as f64 / scale);
        let bounds = bounds.chain([f64::INFINITY]);
        Some(ScaledBuckets {
            buckets: bounds.zip(histogram.counts.iter().copied()).collect(),
            sum: histogram.sum as f64 / scale,
            count: histogram.counts.iter().sum(),
        })
    }
}

/// Returns the series of `metric`: labels and value of each.
pub(crate) fn series<'a>(metric: &Metric, snapshot: &'a Snapshot) -> Vec<(Labels<'a>, Value<'a>)> {
    if let Some(value) = of_process(metric, snapshot) {
        return vec![(build_labels(metric, snapshot), value)];
    }
    let mut all: Vec<(Labels<'a>, Value<'a>)> = Vec::new();
    let services = snapshot
        .services
        .iter()
        .filter(|service| metric.service.is_none_or(|name| name == service.name));
    for service in services {
        let mut add = |datapath: Option<&'a str>, other: Option<&'a str>, value| {
            let label = |name: &&'static str| {
                let text = match *name {
                    "service" => service.name.as_str(),
                    "channel" => service.instance.as_deref().unwrap_or_default(),
                    "datapath" => datapath.unwrap_or(&service.datapath),
                    _ => other.unwrap_or_default(),
                };
                // A service without channels does not get the label: for Prometheus, an empty label is the same as an
                // absent one.
                (*name != "channel" || !text.is_empty()).then_some((*name, Cow::Borrowed(text)))
            };
            let labels: Labels<'a> = metric.labels.iter().filter_map(label).collect();
            // The daemon refuses two equal instances of a service, so series with the label `channel` are never equal.
            // A metric without this label has one series for all instances of the service.
            if !all.iter().any(|(other, _)| *other == labels) {
                all.push((labels, value));
            }
        };
        values(metric, service, &mut add);
    }
    all
}

/// Returns the value of a metric of the whole process.
fn of_process(metric: &Metric, snapshot: &Snapshot) -> Option<Value<'static>> {
    let milliseconds = |ms: u64| Value::Seconds(ms as f64 / 1000.0);
    Some(if *metric == metric::BUILD_INFO {
        Value::Whole(1)
    } else if *metric == metric::UPTIME {
        Value::Seconds(snapshot.uptime_s as f64)
    } else if *metric == metric::PROBLEMS {
        Value::Whole(snapshot.faults().len() as u64)
    } else if *metric == metric::WARNINGS {
        Value::Whole(snapshot.warnings.len() as u64)
    } else {
        let value = *snapshot.process.get(metric.key)?;
        match metric.unit {
            "seconds" => milliseconds(value),
            _ => Value::Whole(value),
        }
    })
}

/// Returns the labels of a metric of the whole process: version, commit and features for the build information,
/// otherwise none.
fn build_labels<'a>(metric: &Metric, snapshot: &'a Snapshot) -> Labels<'a> {
    let label = |name: &&'static str| {
        let text = match *name {
            "version" => Cow::Borrowed(snapshot.version.as_str()),
            "commit" => Cow::Borrowed(snapshot.commit.as_str()),
            _ => Cow::Owned(snapshot.features.join(",")),
        };
        (*name, text)
    };
    metric.labels.iter().map(label).collect()
}

type Add<'f, 'a> = dyn FnMut(Option<&'a str>, Option<&'a str>, Value<'a>) + 'f;

/// Calls `add` for each value of `metric` that a service has, with the datapath and with the value of the label that
/// only this metric has.
fn values<'a>(metric: &Metric, service: &'a ServiceStatus, add: &mut Add<'_, 'a>) {
    if *metric == metric::SERVICE_INFO {
        add(None, None, Value::Whole(1));
    } else if *metric == metric::LEASE_LEFT {
        if let Some(left_ms) = service.lease_left_ms {
            add(None, None, Value::Seconds(left_ms as f64 / 1000.0));
        }
    } else if *metric == metric::DURABILITY_LAG {
        if let Some(lag_ns) = service.durability_lag_ns {
            add(None, None, Value::Seconds(lag_ns as f64 / 1e9));
        }
    } else if *metric == metric::REQUESTS {
        requests(service, add);
    } else if *metric == metric::XDP_PASSED || *metric == metric::RTL_PASSED {
        let datapath = if *metric == metric::RTL_PASSED { RTL } else { XDP };
        let counters = service.counters.get(datapath).into_iter().flatten();
        for (reason, count) in counters.filter(|(key, _)| is_passed_on(service, key)) {
            add(None, Some(reason), Value::Whole(*count));
        }
    } else if metric.has_label("reason") {
        for (datapath, drops) in &service.drops {
            for (reason, count) in drops {
                add(Some(datapath), Some(reason), Value::Whole(*count));
            }
        }
    } else if metric.has_label("datapath") {
        // Requests that XDP or the NIC passes on are counted by the socket datapath, to which they are passed.
        let is_passed = |datapath: &str| metric.passes && (datapath == XDP || datapath == RTL);
        let datapaths = service.counters.iter();
        for (datapath, counters) in datapaths.filter(|(datapath, _)| !is_passed(datapath)) {
            if let Some(count) = counters.get(metric.key) {
                add(Some(datapath), None, Value::Whole(*count));
            }
        }
    } else if let Some(histogram) = service.histograms.get(metric.key) {
        let value = match metric.unit {
            "seconds" => Value::Times(histogram),
            _ => Value::Counts(histogram),
        };
        add(None, None, value);
    } else if let Some(series) = service.labelled.get(metric.key) {
        for (label, value) in series {
            let value = match metric.unit {
                "seconds" => Value::Seconds(*value as f64 / 1e9),
                _ => Value::Whole(*value),
            };
            add(None, Some(label), value);
        }
    } else if let Some(value) = service.host.get(metric.key) {
        add(None, None, Value::Whole(*value));
    } else if metric.key == metric::SPV_TIP_HEIGHT.key
        && let Some(tip) = &service.tip
    {
        add(None, None, Value::Whole(tip.height.into()));
    }
}

const XDP: &str = "xdp";
const RTL: &str = "rtl";
const SOCKET: &str = "socket";

/// Adds the requests of a service, and counts each of them once: at the datapath whose fast path answered it, or at the
/// socket datapath if that passed it to the host.
fn requests<'a>(service: &'a ServiceStatus, add: &mut Add<'_, 'a>) {
    for (datapath, counters) in &service.counters {
        if let Some(answered) = counters.get(metric::FASTPATH_REPLIES.key) {
            add(Some(datapath), Some("answered"), Value::Whole(*answered));
        }
    }
    if let Some(passed) = service.passed_to_host {
        add(Some(SOCKET), Some("host"), Value::Whole(passed));
    }
    if let Some(refused) = service.host.get(metric::QUEUE_FULL.key) {
        add(Some(SOCKET), Some("refused"), Value::Whole(*refused));
    }
}

/// Returns true if the counter `key` of a service counts requests that the fast path passes on.
fn is_passed_on(service: &ServiceStatus, key: &str) -> bool {
    let is_it = |metric: &&&Metric| metric.service == Some(service.name.as_str()) && metric.key == key;
    metric::ALL.iter().find(is_it).is_some_and(|metric| metric.passes)
}
