//! Renders a snapshot as OpenMetrics text. Names, kinds and help texts come from `spec/`.

use lineside_service::{ServiceStatus, Snapshot};
use lineside_wire::{Metric, MetricKind, metric};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, text};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};
use std::fmt;

/// Content type of the text that [`render`] returns.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

type Labels<'a> = Vec<(&'static str, &'a str)>;

enum Value {
    Whole(u64),
    Seconds(f64),
}

/// Renders the snapshot as OpenMetrics text. Metrics without a value are left out.
///
/// # Errors
/// Never fails in practice, because writing to a `String` cannot fail.
pub fn render(snapshot: Snapshot) -> Result<String, fmt::Error> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Scrape(snapshot)));
    let mut out = String::new();
    text::encode(&mut out, &registry)?;
    Ok(out)
}

#[derive(Debug)]
struct Scrape(Snapshot);

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for &metric in &metric::ALL {
            let series = series(metric, &self.0);
            if series.is_empty() {
                continue;
            }
            // The encoder appends the unit and `_total` itself.
            let name = metric.name.strip_suffix("_total").unwrap_or(metric.name);
            let suffix = format!("_{}", metric.unit);
            let (name, unit) = match metric.unit {
                "" => (name, None),
                "seconds" => (name.strip_suffix(&suffix).unwrap_or(name), Some(Unit::Seconds)),
                other => (
                    name.strip_suffix(&suffix).unwrap_or(name),
                    Some(Unit::Other(other.into())),
                ),
            };
            let kind = match metric.kind {
                MetricKind::Counter => prometheus_client::metrics::MetricType::Counter,
                MetricKind::Gauge => prometheus_client::metrics::MetricType::Gauge,
            };
            let mut family = encoder.encode_descriptor(name, metric.help, unit.as_ref(), kind)?;
            for (labels, value) in &series {
                if labels.is_empty() {
                    one(metric.kind, value, family)?;
                    break;
                }
                one(metric.kind, value, family.encode_family(labels)?)?;
            }
        }
        Ok(())
    }
}

fn one(kind: MetricKind, value: &Value, encoder: MetricEncoder<'_>) -> fmt::Result {
    match (kind, value) {
        (MetricKind::Counter, Value::Whole(value)) => ConstCounter::new(*value).encode(encoder),
        (MetricKind::Counter, Value::Seconds(value)) => ConstCounter::new(*value).encode(encoder),
        (MetricKind::Gauge, Value::Whole(value)) => ConstGauge::new(*value).encode(encoder),
        (MetricKind::Gauge, Value::Seconds(value)) => ConstGauge::new(*value).encode(encoder),
    }
}

/// Returns the series of `metric`: labels and value of each.
fn series<'a>(metric: &Metric, snapshot: &'a Snapshot) -> Vec<(Labels<'a>, Value)> {
    if *metric == metric::UPTIME {
        return vec![(vec![], Value::Seconds(snapshot.uptime_s as f64))];
    } else if *metric == metric::PROBLEMS {
        return vec![(vec![], Value::Whole(snapshot.faults().len() as u64))];
    } else if *metric == metric::WARNINGS {
        return vec![(vec![], Value::Whole(snapshot.warnings.len() as u64))];
    }
    let mut all: Vec<(Labels<'a>, Value)> = Vec::new();
    let services = snapshot
        .services
        .iter()
        .filter(|service| metric.service.is_none_or(|name| name == service.name));
    for service in services {
        let mut add = |datapath: Option<&'a str>, other: Option<&'a str>, value| {
            let label = |name: &&'static str| {
                let text = match *name {
                    "version" => snapshot.version.as_str(),
                    "service" => service.name.as_str(),
                    "channel" => service.instance.as_deref().unwrap_or_default(),
                    "datapath" => datapath.unwrap_or(&service.datapath),
                    _ => other.unwrap_or_default(),
                };
                (*name, text)
            };
            let labels: Labels<'a> = metric.labels.iter().map(label).collect();
            // Instances of one service share the series of `lineside_info`; the daemon refuses equal instances.
            if !all.iter().any(|(other, _)| *other == labels) {
                all.push((labels, value));
            }
        };
        values(metric, service, &mut add);
    }
    all
}

type Add<'f, 'a> = dyn FnMut(Option<&'a str>, Option<&'a str>, Value) + 'f;

fn values<'a>(metric: &Metric, service: &'a ServiceStatus, add: &mut Add<'_, 'a>) {
    if *metric == metric::INFO {
        add(None, None, Value::Whole(1));
    } else if *metric == metric::LEASE_LEFT {
        if let Some(left_ms) = service.lease_left_ms {
            add(None, None, Value::Seconds(left_ms as f64 / 1000.0));
        }
    } else if metric.has_label("reason") {
        for (datapath, drops) in &service.drops {
            for (reason, count) in drops {
                add(Some(datapath), Some(reason), Value::Whole(*count));
            }
        }
    } else if metric.has_label("datapath") {
        for (datapath, counters) in &service.counters {
            if let Some(count) = counters.get(metric.key) {
                add(Some(datapath), None, Value::Whole(*count));
            }
        }
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
