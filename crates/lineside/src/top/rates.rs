//! Rates computed from successive statuses of a server.

use lineside_console::{ServiceStatus, Snapshot};
use lineside_wire::{Metric, MetricKind, metric};
use std::collections::VecDeque;
use std::time::Instant;

/// Number of statuses that are kept: the width of the chart of a wide terminal.
const KEPT_MAX: usize = 300;

/// Statuses of a server, oldest first.
#[derive(Default)]
pub struct History {
    snapshots: VecDeque<(Instant, Snapshot)>,
}

/// Rates of one service between the last two statuses.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    /// Requests that the fast path answered, per second.
    pub fast_path: f64,
    /// Requests that the host answered, per second.
    pub host: f64,
    /// Packets that were dropped, per second.
    pub drops: f64,
}

impl Rates {
    /// Returns the part of the answers that the fast path gave, in percent. `None` without answers.
    pub fn hit_percent(self) -> Option<f64> {
        let all = self.fast_path + self.host;
        (all > 0.0).then(|| 100.0 * self.fast_path / all)
    }
}

/// One line of the table of values of a service.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    /// Name of the value, with its datapath or label.
    pub name: String,
    /// Value now.
    pub value: u64,
    /// Increase per second; `None` for a value that is not a counter, and before the second status.
    pub rate: Option<f64>,
    /// Unit of the metric in `spec/`, such as `bytes`; empty for a number of things. With the unit `seconds`, `value`
    /// and `rate` are in nanoseconds.
    pub unit: &'static str,
}

impl History {
    /// Adds a status. A server that started again begins a new history.
    pub fn add(&mut self, at: Instant, snapshot: Snapshot) {
        if self
            .latest()
            .is_some_and(|last| snapshot.uptime_s < last.uptime_s)
        {
            self.snapshots.clear();
        }
        if self.snapshots.len() == KEPT_MAX {
            self.snapshots.pop_front();
        }
        self.snapshots.push_back((at, snapshot));
    }

    /// Returns the last status.
    pub fn latest(&self) -> Option<&Snapshot> {
        self.snapshots.back().map(|(_, snapshot)| snapshot)
    }

    /// Returns the services of the last status.
    pub fn services(&self) -> &[ServiceStatus] {
        self.latest().map_or(&[], |snapshot| &snapshot.services)
    }

    /// Returns the current rates of a service. All are 0 before its second status.
    pub fn rates(&self, service: &ServiceStatus) -> Rates {
        let mut pairs = self.pairs(service);
        pairs.next_back().unwrap_or_default()
    }

    /// Returns the answers per second of a service between every two successive statuses, oldest first.
    pub fn answers(&self, service: &ServiceStatus) -> Vec<f64> {
        let answers = |rates: Rates| rates.fast_path + rates.host;
        self.pairs(service).map(answers).collect()
    }

    fn pairs(&self, service: &ServiceStatus) -> impl DoubleEndedIterator<Item = Rates> {
        let last = self.snapshots.iter().skip(1);
        self.snapshots
            .iter()
            .zip(last)
            .filter_map(move |(before, after)| {
                let seconds = after.0.duration_since(before.0).as_secs_f64();
                let (old, new) = (same(&before.1, service)?, same(&after.1, service)?);
                let rate = |count: fn(&ServiceStatus) -> u64| per_second(count(old), count(new), seconds);
                Some(Rates {
                    fast_path: rate(fast_path_replies),
                    host: rate(host_replies),
                    drops: rate(drops),
                })
            })
    }

    /// Returns all values of a service with their rates, in the order of their names.
    pub fn values(&self, service: &ServiceStatus) -> Vec<Value> {
        let before = self.snapshots.iter().rev().nth(1);
        let seconds = self.snapshots.back().zip(before);
        let seconds = seconds.map(|(after, before)| after.0.duration_since(before.0).as_secs_f64());
        let old = before.and_then(|(_, snapshot)| same(snapshot, service)).map(flat);
        let rate = |name: &str, metric: Option<&Metric>, value: u64| {
            let old = old.as_ref()?.iter().find(|(other, ..)| other == name)?;
            // A value without a metric in `spec/` is a counter of the fast path.
            let is_counter = metric.is_none_or(|metric| metric.kind == MetricKind::Counter);
            is_counter.then(|| per_second(old.2, value, seconds.unwrap_or(1.0)))
        };
        let all = flat(service).into_iter();
        all.map(|(name, key, value)| {
            let metric = metric_of(service, key);
            Value {
                rate: rate(&name, metric, value),
                name,
                value,
                unit: metric.map_or("", |metric| metric.unit),
            }
        })
        .collect()
    }
}

/// Returns the increase per second. A counter that became smaller has started again from 0.
fn per_second(old: u64, new: u64, seconds: f64) -> f64 {
    let increase = new.checked_sub(old).unwrap_or(new);
    increase as f64 / seconds.max(1e-3)
}

/// Returns the status of the same instance of a service.
fn same<'a>(snapshot: &'a Snapshot, service: &ServiceStatus) -> Option<&'a ServiceStatus> {
    let all = &mut snapshot.services.iter();
    all.find(|other| (&other.name, &other.instance) == (&service.name, &service.instance))
}

fn fast_path_replies(service: &ServiceStatus) -> u64 {
    let all = service.counters.values();
    all.filter_map(|counters| counters.get(metric::FASTPATH_REPLIES.key))
        .sum()
}

fn host_replies(service: &ServiceStatus) -> u64 {
    service.host.get(metric::HOST_REPLIES.key).copied().unwrap_or(0)
}

fn drops(service: &ServiceStatus) -> u64 {
    service.drops.values().flat_map(|reasons| reasons.values()).sum()
}

/// Returns every value of a service: name, key of its metric, value.
fn flat(service: &ServiceStatus) -> Vec<(String, &str, u64)> {
    let mut all = Vec::new();
    for (datapath, counters) in &service.counters {
        let own = counters.iter();
        all.extend(own.map(|(key, value)| (format!("{key} ({datapath})"), key.as_str(), *value)));
    }
    for (datapath, reasons) in &service.drops {
        let own = reasons.iter().filter(|(_, value)| **value > 0);
        all.extend(
            own.map(|(reason, value)| (format!("drop {reason} ({datapath})"), metric::DROPS.key, *value)),
        );
    }
    all.extend(
        service
            .host
            .iter()
            .map(|(key, value)| (key.clone(), key.as_str(), *value)),
    );
    for (key, series) in &service.labelled {
        let own = series.iter();
        all.extend(own.map(|(label, value)| (format!("{key} {label}"), key.as_str(), *value)));
    }
    all
}

/// Returns the metric of a service with this key: its own, or the one that all services have.
fn metric_of(service: &ServiceStatus, key: &str) -> Option<&'static Metric> {
    let all = || {
        metric::ALL
            .iter()
            .copied()
            .filter(move |metric| metric.key == key)
    };
    let own = all().find(|metric| metric.service == Some(service.name.as_str()));
    own.or_else(|| all().find(|metric| metric.service.is_none()))
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use std::time::Duration;

    /// Returns a status of `transfer` on two datapaths with these counts.
    pub fn snapshot(uptime_s: u64, xdp: u64, socket: u64, host: u64, dropped: u64) -> Snapshot {
        let mut service = ServiceStatus {
            name: "transfer".into(),
            datapath: "xdp".into(),
            ..ServiceStatus::default()
        };
        service.set_fastpath_replies("xdp", xdp);
        service.set_fastpath_replies("socket", socket);
        service.set_host(metric::HOST_REPLIES, host);
        service.set_host(metric::CONNECTIONS, host);
        let reasons = [("hop_limit".to_owned(), dropped)].into();
        service.drops.insert("xdp".into(), reasons);
        Snapshot {
            version: "0.1.0".into(),
            uptime_s,
            services: vec![service],
            ..Snapshot::default()
        }
    }

    #[test]
    fn rates_add_all_datapaths_and_use_the_measured_time() {
        let mut history = History::default();
        let start = Instant::now();
        history.add(start, snapshot(1, 100, 10, 1000, 0));
        let service = history.services()[0].clone();
        assert_eq!(history.rates(&service), Rates::default());
        history.add(start + Duration::from_millis(500), snapshot(2, 160, 20, 1010, 5));
        let rates = history.rates(&service);
        assert_eq!((rates.fast_path, rates.host, rates.drops), (140.0, 20.0, 10.0));
        assert_eq!(rates.hit_percent(), Some(87.5));
        assert_eq!(history.answers(&service), [160.0]);
    }

    #[test]
    fn a_counter_that_shrinks_counts_from_zero_and_a_restart_begins_a_new_history() {
        assert_eq!(per_second(50, 8, 2.0), 4.0);
        let mut history = History::default();
        let start = Instant::now();
        history.add(start, snapshot(100, 100, 10, 1000, 0));
        history.add(start + Duration::from_secs(1), snapshot(0, 1, 0, 2, 0));
        assert!(history.answers(&history.services()[0].clone()).is_empty());
    }

    #[test]
    fn gauges_have_no_rate() {
        let mut history = History::default();
        let start = Instant::now();
        for second in 0..2 {
            let counts = snapshot(second, 0, 0, 7 * second, 0);
            history.add(start + Duration::from_secs(second), counts);
        }
        let values = history.values(&history.services()[0].clone());
        let rate = |name: &str| values.iter().find(|value| value.name == name).expect(name).rate;
        assert_eq!(rate("host_replies"), Some(7.0));
        assert_eq!(rate("connections"), None);
    }

    #[test]
    fn the_history_is_bounded() {
        let mut history = History::default();
        let start = Instant::now();
        for second in 0..2 * KEPT_MAX as u64 {
            history.add(
                start + Duration::from_secs(second),
                snapshot(second, second, 0, 0, 0),
            );
        }
        assert_eq!(history.snapshots.len(), KEPT_MAX);
    }
}
