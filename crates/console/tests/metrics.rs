//! `/metrics` in both text formats, over real sockets.

mod support;

use lineside_console::{ServiceStatus, Snapshot};
use lineside_wire::{DropReason, Metric, MetricKind, metric};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use support::{console, every_metric_of, example, get, send};

fn get_accepting(to: SocketAddr, path: &str, accept: &str) -> (u16, String, String) {
    let end = "Connection: close\r\n\r\n";
    send(
        to,
        &format!("GET {path} HTTP/1.1\r\nHost: {to}\r\nAccept: {accept}\r\n{end}"),
    )
}

const OPEN_METRICS: &str = "application/openmetrics-text;version=1.0.0";

/// Returns the samples of a page of metrics by series. Numbers are parsed, because the two formats write them
/// differently.
fn samples(body: &str) -> BTreeMap<String, f64> {
    let lines = body.lines().filter(|line| !line.starts_with('#'));
    let sample = |line: &str| {
        let (series, value) = line.rsplit_once(' ').expect(line);
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        // The upper bound of a bucket is a number as well, so it is parsed.
        let mut labels: Vec<String> = labels
            .trim_end_matches('}')
            .split(',')
            .map(|label| {
                match label
                    .strip_prefix("le=\"")
                    .and_then(|bound| bound.strip_suffix('"'))
                {
                    Some(bound) => format!("le={}", bound.parse::<f64>().expect(line)),
                    None => label.to_owned(),
                }
            })
            .collect();
        // The two formats write the bound at different positions among the labels.
        labels.sort();
        (
            format!("{name} {}", labels.join(" ")),
            value.parse::<f64>().expect(line),
        )
    };
    lines.map(sample).collect()
}

/// Returns the metric that a sample belongs to.
fn metric_of(name: &str) -> Option<&'static Metric> {
    let is_it = |metric: &&Metric| match metric.kind {
        MetricKind::Histogram => ["_bucket", "_sum", "_count"]
            .iter()
            .any(|suffix| name.strip_suffix(suffix) == Some(metric.name)),
        _ => name == metric.name,
    };
    metric::ALL.into_iter().find(is_it)
}

#[test]
fn no_two_series_are_equal_where_a_service_runs_twice() {
    let mut snapshot = example();
    let mut other = every_metric_of("fabric");
    other.instance = Some("orders".into());
    snapshot.services.push(other);
    let console = console(snapshot);
    let (_, _, body) = get_accepting(console.local_addr(), "/metrics", OPEN_METRICS);
    let mut series: Vec<_> = body
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.rsplit_once(' '))
        .map(|(series, _)| series)
        .collect();
    series.sort_unstable();
    let twice: Vec<_> = series.windows(2).filter(|two| two[0] == two[1]).collect();
    assert!(twice.is_empty(), "{twice:?}");
    for channel in ["assets", "orders"] {
        let height = format!("lineside_fabric_height{{channel=\"{channel}\"}}");
        assert!(series.contains(&height.as_str()), "{series:?}");
    }
}

#[test]
fn the_page_has_every_metric_of_the_spec_and_no_other() {
    let console = console(example());
    let (code, head, body) = get_accepting(console.local_addr(), "/metrics", OPEN_METRICS);
    assert_eq!(code, 200);
    assert!(
        head.contains("content-type: application/openmetrics-text; version=1.0.0"),
        "{head}"
    );
    assert!(body.ends_with("# EOF\n"), "{body}");
    let has = |line: &str| {
        assert!(
            body.lines().any(|found| found == line),
            "{line} is not in:\n{body}"
        )
    };
    has("# TYPE lineside_spv_hits counter");
    has("# UNIT lineside_uptime_seconds seconds");
    has("lineside_uptime_seconds 3725.0");
    has("lineside_build_info{version=\"1.2.3\",commit=\"0123abcd\",features=\"kafka,more\"} 1");
    has("lineside_service_info{service=\"spv\",datapath=\"xdp\"} 1");
    has("lineside_service_info{service=\"fabric\",channel=\"assets\",datapath=\"socket\"} 1");
    has("lineside_spv_hits_total{datapath=\"socket\"} 10");
    has("lineside_fastpath_replies_total{service=\"spv\",datapath=\"xdp\"} 100");
    has("lineside_drops_total{service=\"spv\",datapath=\"socket\",reason=\"paper_refused\"} 3");
    has("lineside_lease_left_seconds{service=\"spv\"} 58.25");
    has("lineside_durability_lag_seconds{service=\"spv\"} 2.5");
    has("lineside_table_entries{service=\"spv\",table=\"lines\"} 3");
    has("lineside_table_capacity{service=\"spv\",table=\"lines\"} 4");
    has("lineside_attached_interfaces{service=\"spv\",interface=\"lo\"} 1");
    has("lineside_spv_tip_height 1234");
    has("lineside_spv_fills_total 1004");
    has("# TYPE lineside_spv_node_up gauge");
    has("lineside_spv_electrum_requests_total{outcome=\"error\"} 2");
    has("lineside_spv_clients_dropped_total{limit=\"idle\"} 3");
    has("lineside_spv_http_requests_total{outcome=\"throttled\"} 4");
    has("lineside_problems 0");
    has("lineside_warnings 1");
    has("# TYPE process_cpu_seconds counter");
    has("process_cpu_seconds_total 1.25");
    has("process_resident_memory_bytes 4096");
    has("process_start_time_seconds 1700000000.5");
    has("process_open_fds 17");
    for metric in metric::ALL {
        let is_it = |line: &str| {
            let name = line.split([' ', '{']).next().unwrap();
            !line.starts_with('#') && metric_of(name) == Some(metric)
        };
        assert!(body.lines().any(is_it), "{} is not in:\n{body}", metric.name);
    }
    for line in body.lines().filter(|line| !line.starts_with('#')) {
        let name = line.split([' ', '{']).next().unwrap();
        assert!(metric_of(name).is_some(), "{line}");
    }
    let snapshot = example();
    let spv = &snapshot.services[0];
    for key in spv
        .host
        .keys()
        .chain(spv.histograms.keys())
        .chain(spv.counters.values().flat_map(|counters| counters.keys()))
    {
        assert!(
            metric::ALL.iter().any(|metric| metric.key == key),
            "{key} is in no metric"
        );
    }
    assert_eq!(spv.drops["xdp"].len(), DropReason::ALL.len());
}

#[test]
fn a_histogram_has_rising_buckets_in_the_unit_of_its_name() {
    let console = console(example());
    let (_, _, body) = get(console.local_addr(), "/metrics");
    let of = |name: &str| -> Vec<&str> {
        let lines = body.lines().filter(|line| line.starts_with(name));
        lines.collect()
    };
    assert_eq!(
        of("lineside_host_latency_seconds"),
        [
            "lineside_host_latency_seconds_bucket{service=\"spv\",le=\"0.000001024\"} 5",
            "lineside_host_latency_seconds_bucket{service=\"spv\",le=\"0.000002048\"} 5",
            "lineside_host_latency_seconds_bucket{service=\"spv\",le=\"+Inf\"} 7",
            "lineside_host_latency_seconds_sum{service=\"spv\"} 3",
            "lineside_host_latency_seconds_count{service=\"spv\"} 7",
        ]
    );
    assert_eq!(
        of("lineside_host_batch_requests_bucket"),
        [
            "lineside_host_batch_requests_bucket{service=\"spv\",le=\"1024\"} 5",
            "lineside_host_batch_requests_bucket{service=\"spv\",le=\"2048\"} 5",
            "lineside_host_batch_requests_bucket{service=\"spv\",le=\"+Inf\"} 7",
        ]
    );
    assert_eq!(
        of("lineside_fabric_commit_seconds_count"),
        ["lineside_fabric_commit_seconds_count{channel=\"assets\"} 7"]
    );
}

/// XDP and the NIC pass requests to the socket datapath, which counts them again, but a sum over all labels must count
/// each request once.
#[test]
fn a_sum_over_all_labels_counts_each_request_once() {
    for (datapath, other) in [("xdp", "rtl"), ("rtl", "xdp")] {
        check_sums(datapath, other);
    }
}

fn check_sums(datapath: &str, other: &str) {
    let mut spv = ServiceStatus {
        name: "spv".into(),
        datapath: datapath.into(),
        passed_to_host: Some(20),
        ..ServiceStatus::default()
    };
    // 1,000 requests: XDP or the NIC answers 900 and passes 100. The socket datapath answers 75 of them, finds the
    // host's queue full for 5, and passes 20.
    spv.set_counters(datapath, [("hits", 900), ("misses", 93), ("not_leased", 7)]);
    spv.set_fastpath_replies(datapath, 900);
    spv.set_counters("socket", [("hits", 75), ("misses", 25), ("not_leased", 0)]);
    spv.set_fastpath_replies("socket", 75);
    spv.set_host(metric::QUEUE_FULL, 5);
    let console = console(Snapshot {
        services: vec![spv],
        ..Snapshot::default()
    });
    for accept in [OPEN_METRICS, "text/plain"] {
        let (_, _, body) = get_accepting(console.local_addr(), "/metrics", accept);
        let sum = |name: &str| -> f64 {
            let all = samples(&body);
            let of_it = all
                .iter()
                .filter(|(series, _)| series.split(' ').next() == Some(name));
            of_it.map(|(_, value)| value).sum()
        };
        assert_eq!(sum("lineside_requests_total"), 1000.0);
        assert_eq!(sum("lineside_spv_hits_total"), 975.0);
        assert_eq!(sum("lineside_spv_misses_total"), 25.0);
        assert_eq!(sum("lineside_spv_not_leased_total"), 0.0);
        assert_eq!(sum(&format!("lineside_{datapath}_passed_total")), 100.0);
        assert_eq!(sum(&format!("lineside_{other}_passed_total")), 0.0);
        let misses = format!("lineside_{datapath}_passed_total{{service=\"spv\",reason=\"misses\"}} 93");
        assert!(body.contains(&misses), "{body}");
        assert!(
            body.contains("lineside_requests_total{service=\"spv\",datapath=\"socket\",outcome=\"host\"} 20"),
            "{body}"
        );
    }
}

/// The library of Prometheus writes one format, and this project writes the other one.
#[test]
fn both_formats_have_the_same_samples() {
    let console = console(example());
    let to = console.local_addr();
    let (_, _, open) = get_accepting(to, "/metrics", OPEN_METRICS);
    let (code, head, text) = get(to, "/metrics");
    assert_eq!(code, 200);
    assert!(
        head.contains("content-type: text/plain; version=0.0.4; charset=utf-8"),
        "{head}"
    );
    assert!(head.contains("vary: accept"), "{head}");
    let (open, found) = (samples(&open), samples(&text));
    assert!(open.len() > metric::ALL.len(), "{}", open.len());
    for (series, value) in &open {
        assert_eq!(found.get(series), Some(value), "{series}");
    }
    assert_eq!(open.len(), found.len());
    assert!(!text.contains("# EOF") && !text.contains("# UNIT"), "{text}");
    for line in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let (name, kind) = line.split_once(' ').unwrap();
        let metric = metric::ALL
            .into_iter()
            .find(|metric| metric.name == name)
            .expect(line);
        assert_eq!(kind, metric.kind.name(), "{line}");
    }
}
