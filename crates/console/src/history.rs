//! The last five minutes: one sample of all numbers each second, in bounded memory.
//!
//! ```text
//! Observed --each second--> sampler --> ring of samples --> /history, first event of /events
//!                                  \--> broadcast ---------> next events of /events
//! ```

use crate::quantiles::{QUANTILES, quantile};
use crate::{Observed, ServiceStatus, Snapshot};
use lineside_wire::{MetricKind, metric};
use serde::{Serialize, Serializer};
use serde_json::{Value, json};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{broadcast, watch};
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval, timeout};

/// Maximum number of samples that are kept: one a second for five minutes, including the samples at both ends.
pub const SAMPLES_MAX: usize = 301;
/// Maximum number of series. Further series are left out, so the history occupies at most 2.5 MB.
const SERIES_MAX: usize = 1024;
/// Number of events that may wait for a client; a slower client is disconnected.
const WAITING_EVENTS: usize = 8;
/// Maximum length of a text in bytes in the details of a service. Longer texts are cut; `/status` has them complete.
const TEXT_BYTES_MAX: usize = 300;
const LIST_MAX: usize = 64;

/// Identity of one series of numbers.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
struct SeriesName {
    service: String,
    instance: Option<String>,
    /// Key of the metric, as in `/status`.
    key: String,
    datapath: Option<String>,
    /// Value of the label that only this metric has.
    label: Option<String>,
}

/// A number in the unit of its metric; NaN means that the series has no value.
#[derive(Clone, Copy, Debug)]
struct Number(f64);

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            value if value.is_nan() => to.serialize_none(),
            // A whole number is shorter without a decimal point. A double represents whole numbers up to 9e15 exactly.
            value if value >= 0.0 && value.fract() == 0.0 && value < 9e15 => to.serialize_u64(value as u64),
            value => to.serialize_f64(value),
        }
    }
}

/// Numbers of all series at one moment.
#[derive(Clone, Debug, Serialize)]
struct Sample {
    /// Milliseconds since the history began, by a monotonic clock.
    at_ms: u64,
    /// One number for each series, in the order of the series; empty if the status could not be read.
    values: Vec<Number>,
}

#[derive(Default)]
struct RecordedSamples {
    names: Vec<SeriesName>,
    places: HashMap<SeriesName, usize>,
    /// Counts of each histogram at the last sample. The quantiles of a sample cover only the values since the last
    /// sample.
    histograms: HashMap<SeriesName, Vec<u64>>,
    samples: VecDeque<Sample>,
    /// Status without numbers, as of the last sample.
    status: Value,
}

/// Samples of the last five minutes, and the stream of the following samples.
pub struct History {
    recorded: Mutex<RecordedSamples>,
    /// Stream of samples, each as JSON; `None` ends the stream.
    live: broadcast::Sender<Option<Arc<str>>>,
    started_at: Instant,
}

/// Receiver of the samples that follow a history.
pub type Live = broadcast::Receiver<Option<Arc<str>>>;

impl History {
    /// Creates an empty history.
    pub fn new() -> Self {
        Self {
            recorded: Mutex::default(),
            live: broadcast::Sender::new(WAITING_EVENTS),
            started_at: Instant::now(),
        }
    }

    fn recorded(&self) -> MutexGuard<'_, RecordedSamples> {
        self.recorded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the history as JSON, and a receiver of all samples that are not in it.
    pub fn subscribe(&self, interval: Duration) -> (String, Live) {
        let kept = self.recorded();
        // The receiver subscribes under the lock, so that no sample is missing or sent twice.
        let live = self.live.subscribe();
        (kept.json(interval), live)
    }

    /// Returns the history as JSON.
    pub fn json(&self, interval: Duration) -> String {
        self.recorded().json(interval)
    }

    /// Appends a sample, and sends it to all receivers. `None` means that the status could not be read.
    fn add(&self, snapshot: Option<Snapshot>) {
        let at_ms = u64::try_from(self.started_at.elapsed().as_millis()).unwrap_or(u64::MAX);
        let mut recorded = self.recorded();
        let known_names = recorded.names.len();
        let values = snapshot
            .as_ref()
            .map_or_else(Vec::new, |snapshot| recorded.values(snapshot));
        let sample = Sample { at_ms, values };
        recorded.status = snapshot.map_or(Value::Null, status);
        let event = json!({
            "at_ms": sample.at_ms,
            "values": sample.values,
            "added": recorded.names[known_names..],
            "status": recorded.status,
        });
        if recorded.samples.len() == SAMPLES_MAX {
            recorded.samples.pop_front();
        }
        recorded.samples.push_back(sample);
        // Sending fails if there is no receiver; then nothing has to be sent.
        let _ = self.live.send(Some(event.to_string().into()));
    }

    /// Ends the streams of all receivers.
    pub fn close(&self) {
        let _ = self.live.send(None);
    }
}

impl RecordedSamples {
    fn json(&self, interval: Duration) -> String {
        let metrics: Vec<Value> = metric::ALL.iter().copied().map(described).collect();
        json!({
            "interval_ms": u64::try_from(interval.as_millis()).unwrap_or(u64::MAX),
            "capacity": SAMPLES_MAX,
            "metrics": metrics,
            "series": self.names,
            "samples": self.samples,
            "status": self.status,
        })
        .to_string()
    }

    /// Returns the numbers of a snapshot in the order of the series. New series are appended to the list.
    fn values(&mut self, snapshot: &Snapshot) -> Vec<Number> {
        let mut values = vec![Number(f64::NAN); self.names.len()];
        for service in &snapshot.services {
            let quantiles = self.quantiles(service);
            let mut add = |key: &str, datapath: Option<&str>, label: Option<&str>, value| {
                let name = SeriesName {
                    service: service.name.clone(),
                    instance: service.instance.clone(),
                    key: key.into(),
                    datapath: datapath.map(Into::into),
                    label: label.map(Into::into),
                };
                if let Some(&index) = self.places.get(&name) {
                    values[index] = Number(value);
                } else if self.names.len() < SERIES_MAX {
                    self.places.insert(name.clone(), self.names.len());
                    self.names.push(name);
                    values.push(Number(value));
                }
            };
            numbers(service, &mut add);
            for (key, label, value) in quantiles {
                add(key, None, Some(label), value);
            }
        }
        values
    }

    /// Returns the quantiles of each histogram of a service over the values since the last sample. An item has the key
    /// of the metric, the name of the quantile, and the value in the metric's unit. A histogram without new values has
    /// no quantiles.
    fn quantiles<'a>(&mut self, service: &'a ServiceStatus) -> Vec<(&'a str, &'static str, f64)> {
        let mut all = Vec::new();
        for (key, histogram) in &service.histograms {
            let name = SeriesName {
                service: service.name.clone(),
                instance: service.instance.clone(),
                key: key.clone(),
                datapath: None,
                label: None,
            };
            if self.histograms.len() >= SERIES_MAX && !self.histograms.contains_key(&name) {
                continue;
            }
            let before = self.histograms.insert(name, histogram.counts.clone());
            let before = before.unwrap_or_else(|| vec![0; histogram.counts.len()]);
            let new: Vec<u64> = (histogram.counts.iter().zip(before))
                .map(|(now, before)| now.saturating_sub(before))
                .collect();
            let unit = unit_of(service, key);
            let present = QUANTILES.iter().filter_map(|(name, part)| {
                let value = quantile(&histogram.bounds, &new, *part)?;
                Some((key.as_str(), *name, value / unit))
            });
            all.extend(present);
        }
        all
    }
}

/// Function that receives a number: key of the metric, datapath, label, and value in the metric's unit.
type Add<'a> = dyn FnMut(&str, Option<&str>, Option<&str>, f64) + 'a;

/// Calls `add` with each number of a service.
fn numbers(service: &ServiceStatus, add: &mut Add<'_>) {
    if let Some(left_ms) = service.lease_left_ms {
        add(metric::LEASE_LEFT.key, None, None, left_ms as f64 / 1e3);
    }
    if let Some(tip) = &service.tip {
        add(metric::SPV_TIP_HEIGHT.key, None, None, tip.height.into());
    }
    for (datapath, counters) in &service.counters {
        for (key, value) in counters {
            add(key, Some(datapath), None, *value as f64);
        }
    }
    for (datapath, drops) in &service.drops {
        for (reason, value) in drops {
            add(metric::DROPS.key, Some(datapath), Some(reason), *value as f64);
        }
    }
    for (key, value) in &service.host {
        add(key, None, None, *value as f64);
    }
    for (key, series) in &service.labelled {
        let unit = unit_of(service, key);
        for (label, value) in series {
            add(key, None, Some(label), *value as f64 / unit);
        }
    }
}

/// Returns the divisor that converts a number of a status, where times are in nanoseconds, to the unit of its metric.
fn unit_of(service: &ServiceStatus, key: &str) -> f64 {
    let is_time = metric::ALL.iter().any(|metric| {
        metric.key == key
            && metric.unit == "seconds"
            && metric.service.is_none_or(|name| name == service.name)
    });
    if is_time { 1e9 } else { 1.0 }
}

fn described(metric: &lineside_wire::Metric) -> Value {
    let kind = match metric.kind {
        MetricKind::Counter => "counter",
        MetricKind::Gauge => "gauge",
        MetricKind::Histogram => "histogram",
    };
    json!({
        "name": metric.name, "key": metric.key, "unit": metric.unit, "kind": kind, "help": metric.help,
        "service": metric.service,
    })
}

/// Returns the status as JSON without its numbers, and with all faults among the problems.
fn status(mut snapshot: Snapshot) -> Value {
    snapshot.problems = snapshot.faults();
    for service in &mut snapshot.services {
        service.counters.clear();
        service.drops.clear();
        service.host.clear();
        service.labelled.clear();
        service.details.values_mut().for_each(shorten);
    }
    // This cannot fail, because a snapshot consists of plain data; `/status` writes it in the same way.
    serde_json::to_value(snapshot).unwrap_or_default()
}

/// Cuts long texts and lists in the details of a service, such as the codes of all transactions of a block.
fn shorten(value: &mut Value) {
    match value {
        Value::String(text) if text.len() > TEXT_BYTES_MAX => {
            let end = (0..=TEXT_BYTES_MAX).rev().find(|&end| text.is_char_boundary(end));
            text.truncate(end.unwrap_or_default());
            text.push('…');
        }
        Value::Array(list) => {
            list.truncate(LIST_MAX);
            list.iter_mut().for_each(shorten);
        }
        Value::Object(object) => object.values_mut().for_each(shorten),
        _ => {}
    }
}

/// Takes a sample every `every` until `stopped` changes. If reading a snapshot takes too long, empty samples are added
/// until it is ready, and no other snapshot is begun.
pub async fn sample(
    history: Arc<History>,
    observed: Arc<dyn Observed>,
    every: Duration,
    mut stopped: watch::Receiver<bool>,
) {
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut taking: Option<JoinHandle<Snapshot>> = None;
    loop {
        tokio::select! {
            _ = ticks.tick() => (),
            _ = stopped.changed() => break,
        }
        let mut snapshot = taking.take().unwrap_or_else(|| {
            let observed = Arc::clone(&observed);
            tokio::task::spawn_blocking(move || observed.snapshot())
        });
        let in_time = tokio::select! {
            in_time = timeout(every, &mut snapshot) => in_time,
            _ = stopped.changed() => break,
        };
        match in_time {
            Ok(taken_snapshot) => history.add(taken_snapshot.ok()),
            Err(_) => {
                taking = Some(snapshot);
                history.add(None);
            }
        }
    }
    history.close();
}
