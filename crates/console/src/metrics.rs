//! Renders a snapshot in the text formats of metrics. Names, kinds and help texts come from `spec/`.

use crate::series::{Labels, Value, series};
use lineside_service::Snapshot;
use lineside_wire::{Metric, MetricKind, metric};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};
use std::fmt::{self, Write};

/// Text format of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// Prometheus text format 0.0.4.
    Text,
}

impl Format {
    /// Returns the content type of the format.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
        }
    }

    /// Returns the format that a client prefers, by the `Accept` header of its request: OpenMetrics if the header
    /// names it with at least the weight of plain text, otherwise plain text, which every client reads.
    pub fn accepted(accept: &str) -> Self {
        let weight = |kind: &str| {
            let of_range = |range: &str| {
                let mut parts = range.split(';').map(str::trim);
                let is_it = parts.next().is_some_and(|name| name.eq_ignore_ascii_case(kind));
                let mut weight = 1.0;
                for (name, value) in parts.filter_map(|part| part.split_once('=')) {
                    match name.trim().to_ascii_lowercase().as_str() {
                        "q" => weight = value.trim().parse().unwrap_or(0.0),
                        "version" if kind == OPEN_METRICS && !VERSIONS.contains(&value.trim()) => {
                            return None;
                        }
                        _ => {}
                    }
                }
                is_it.then_some(weight)
            };
            let weights = accept.split(',').filter_map(of_range);
            weights.fold(0.0, f64::max)
        };
        let open_metrics = weight(OPEN_METRICS);
        if open_metrics > 0.0 && open_metrics >= weight("text/plain") {
            Self::OpenMetrics
        } else {
            Self::Text
        }
    }
}

const OPEN_METRICS: &str = "application/openmetrics-text";
/// Versions of OpenMetrics whose readers can also read version 1.0.0.
const VERSIONS: [&str; 2] = ["1.0.0", "0.0.1"];

/// Renders the snapshot in `format`. Metrics without a value are left out.
///
/// # Errors
/// Never fails in practice, because writing to a `String` cannot fail.
pub fn render(snapshot: Snapshot, format: Format) -> Result<String, fmt::Error> {
    let mut out = String::new();
    match format {
        Format::OpenMetrics => {
            let mut registry = Registry::default();
            registry.register_collector(Box::new(Scrape(snapshot)));
            text::encode(&mut out, &registry)?;
        }
        Format::Text => plain(&mut out, &snapshot)?,
    }
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
            // The encoder appends the unit and `_total` itself, so they are removed from the name.
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
                MetricKind::Counter => MetricType::Counter,
                MetricKind::Gauge => MetricType::Gauge,
                MetricKind::Histogram => MetricType::Histogram,
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

fn one(kind: MetricKind, value: &Value<'_>, mut encoder: MetricEncoder<'_>) -> fmt::Result {
    match (kind, value) {
        (MetricKind::Counter, Value::Whole(value)) => ConstCounter::new(*value).encode(encoder),
        (MetricKind::Counter, Value::Seconds(value)) => ConstCounter::new(*value).encode(encoder),
        (_, Value::Whole(value)) => ConstGauge::new(*value).encode(encoder),
        (_, Value::Seconds(value)) => ConstGauge::new(*value).encode(encoder),
        (_, Value::Counts(_) | Value::Times(_)) => match value.buckets() {
            Some(scaled) => {
                encoder.encode_histogram::<[(&str, &str); 0]>(scaled.sum, scaled.count, &scaled.buckets, None)
            }
            None => Ok(()),
        },
    }
}

/// Writes the snapshot in the Prometheus text format 0.0.4.
fn plain(out: &mut String, snapshot: &Snapshot) -> fmt::Result {
    for metric in metric::ALL {
        let series = series(metric, snapshot);
        if series.is_empty() {
            continue;
        }
        let help = metric.help.replace('\\', "\\\\").replace('\n', "\\n");
        writeln!(out, "# HELP {} {help}", metric.name)?;
        writeln!(out, "# TYPE {} {}", metric.name, metric.kind.name())?;
        for (labels, value) in &series {
            plain_series(out, metric, labels, value)?;
        }
    }
    Ok(())
}

fn plain_series(out: &mut String, metric: &Metric, labels: &Labels<'_>, value: &Value<'_>) -> fmt::Result {
    let name = metric.name;
    match value {
        Value::Whole(value) => writeln!(out, "{name}{} {value}", braces(labels, None)),
        Value::Seconds(value) => writeln!(out, "{name}{} {value}", braces(labels, None)),
        Value::Counts(_) | Value::Times(_) => {
            let Some(scaled) = value.buckets() else {
                return Ok(());
            };
            let mut below = 0;
            for (bound, count) in &scaled.buckets {
                below += count;
                let bound = match *bound {
                    f64::INFINITY => "+Inf".to_owned(),
                    bound => bound.to_string(),
                };
                writeln!(out, "{name}_bucket{} {below}", braces(labels, Some(&bound)))?;
            }
            writeln!(out, "{name}_sum{} {}", braces(labels, None), scaled.sum)?;
            writeln!(out, "{name}_count{} {}", braces(labels, None), scaled.count)
        }
    }
}

/// Returns the labels in braces, and `le` with the upper bound of a bucket if `bound` is given; empty if there are
/// none.
fn braces(labels: &Labels<'_>, bound: Option<&str>) -> String {
    let labels = labels.iter().map(|(name, text)| (*name, text.as_ref()));
    let all = labels.chain(bound.map(|bound| ("le", bound)));
    let all: Vec<String> = all
        .map(|(name, text)| {
            let text = text
                .replace('\\', "\\\\")
                .replace('"', "\\\"")
                .replace('\n', "\\n");
            format!("{name}=\"{text}\"")
        })
        .collect();
    if all.is_empty() {
        String::new()
    } else {
        format!("{{{}}}", all.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::Format::{OpenMetrics, Text};
    use super::*;

    #[test]
    fn the_format_follows_the_accept_header() {
        let prometheus_2 = "application/openmetrics-text;version=1.0.0;q=0.5,\
                            application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        let prometheus_3 = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,\
                            text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,\
                            text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        for (accept, format) in [
            (prometheus_2, OpenMetrics),
            (prometheus_3, OpenMetrics),
            ("application/openmetrics-text", OpenMetrics),
            ("Application/OpenMetrics-Text; Version=1.0.0", OpenMetrics),
            ("application/openmetrics-text;q=0.2, text/plain;q=0.9", Text),
            ("application/openmetrics-text;q=0", Text),
            ("application/openmetrics-text;version=2.0.0", Text),
            ("text/plain;version=0.0.4", Text),
            ("*/*", Text),
            ("", Text),
            ("nonsense;;q=,,", Text),
        ] {
            assert_eq!(Format::accepted(accept), format, "{accept}");
        }
    }

    #[test]
    fn labels_are_escaped() {
        let labels = vec![("a", "x\"\\\n".into()), ("b", "".into())];
        assert_eq!(braces(&labels, Some("+Inf")), r#"{a="x\"\\\n",b="",le="+Inf"}"#);
        assert_eq!(braces(&vec![], None), "");
    }
}
