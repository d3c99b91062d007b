//! A snapshot with every metric, and a client of the console over a real socket.

use lineside_console::{Console, ServiceStatus, Snapshot, Tip};
use lineside_service::HistogramCounts;
use lineside_util::process_use::ProcessUse;
use lineside_wire::{MetricKind, SpvCounter, metric};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

pub fn example() -> Snapshot {
    let mut spv = ServiceStatus {
        name: "spv".into(),
        datapath: "xdp".into(),
        listen: "127.0.0.1:7701".into(),
        lease_left_ms: Some(58_250),
        tip: Some(Tip {
            hash: "ab".repeat(32),
            block: 1234,
            height: 1234,
        }),
        ..ServiceStatus::default()
    };
    spv.set_interfaces([("lo", "generic")]);
    spv.set_counters("rtl", [(SpvCounter::Misses.name(), 1)]);
    for (datapath, first) in [("socket", 10), ("xdp", 100)] {
        spv.set_counters(
            datapath,
            SpvCounter::ALL.map(SpvCounter::name).into_iter().zip(first..),
        );
        spv.set_fastpath_replies(datapath, first);
        spv.set_drops(datapath, [1, 0, 2, 0, 3, 0]);
    }
    let host = [
        metric::HOST_REPLIES,
        metric::QUEUE_FULL,
        metric::OVERSIZE,
        metric::AMPLIFICATION,
        metric::SPV_FILLS,
        metric::SPV_CONFLICTS,
        metric::SPV_INVALIDATIONS,
        metric::SPV_LATE_FILLS,
        metric::SPV_TREE_FILLS,
        metric::SPV_TREE_EVICTIONS,
        metric::SPV_BLOCKS,
        metric::SPV_TRANSACTIONS,
        metric::SPV_NODE_UP,
        metric::SPV_NODE_HEIGHT,
        metric::SPV_NODE_BLOCKS_BEHIND,
        metric::SPV_NODE_RECONNECTS,
        metric::SPV_NODE_REFUSED_BLOCKS,
        metric::SPV_REORGANISATIONS,
        metric::SPV_REORGANISATION_DEPTH_MAX,
        metric::SPV_ELECTRUM_CLIENTS,
        metric::SPV_ELECTRUM_FORWARDED,
        metric::SPV_ELECTRUM_UPSTREAM_FAILURES,
        metric::SPV_ELECTRUM_NOTIFICATIONS,
        metric::SPV_ELECTRUM_THROTTLED,
        metric::SPV_HTTP_CLIENTS,
        metric::SPV_ELECTRUM_UPSTREAM_UP,
        metric::UNSENT,
        metric::CONNECTIONS,
        metric::CONNECTIONS_REFUSED,
    ];
    for (value, metric) in (1000..).zip(host) {
        spv.set_host(metric, value);
    }
    spv.passed_to_host = Some(52);
    spv.durability_lag_ns = Some(2_500_000_000);
    spv.set_table("lines", 3, 4);
    for metric in [metric::HOST_LATENCY, metric::HOST_BATCH, metric::FDATASYNC] {
        spv.set_histogram(metric, some_histogram());
    }
    spv.set_labelled(metric::SPV_ELECTRUM_REQUESTS, "answered", 31);
    spv.set_labelled(metric::SPV_ELECTRUM_REQUESTS, "error", 2);
    spv.set_labelled(metric::SPV_CLIENTS_DROPPED, "idle", 3);
    spv.set_labelled(metric::SPV_HTTP_REQUESTS, "throttled", 4);
    let mut snapshot = Snapshot {
        version: "1.2.3".into(),
        commit: "0123abcd".into(),
        features: vec!["kafka".into(), "more".into()],
        uptime_s: 3725,
        services: vec![
            spv,
            every_metric_of("transfer"),
            every_metric_of("column"),
            every_metric_of("fabric"),
            every_metric_of("hybrid"),
        ],
        problems: vec![],
        warnings: vec!["GRO is on".into()],
        ..Snapshot::default()
    };
    snapshot.set_process(&ProcessUse {
        cpu_ms: Some(1_250),
        resident_memory_bytes: Some(4096),
        virtual_memory_bytes: Some(8192),
        open_fds: Some(17),
        max_fds: Some(1024),
        start_time_ms: Some(1_700_000_000_500),
    });
    snapshot
}

pub fn some_histogram() -> HistogramCounts {
    HistogramCounts {
        bounds: vec![1_024, 2_048],
        counts: vec![5, 0, 2],
        sum: 3_000_000_000,
    }
}

pub fn every_metric_of(service: &str) -> ServiceStatus {
    let mut status = ServiceStatus {
        name: service.into(),
        datapath: "socket".into(),
        instance: (service == "fabric").then(|| "assets".into()),
        ..ServiceStatus::default()
    };
    for metric in metric::ALL
        .iter()
        .filter(|metric| metric.service == Some(service))
    {
        if metric.kind == MetricKind::Histogram {
            status.set_histogram(**metric, some_histogram());
        } else if metric.has_label("datapath") {
            status.set_counters("socket", [(metric.key, 1)]);
        } else if let [label] | ["channel", label] = metric.labels
            && *label != "channel"
        {
            status.set_labelled(**metric, label, 1_500_000_000);
        } else {
            status.set_host(**metric, 1);
        }
    }
    status
}

pub fn console(snapshot: Snapshot) -> Console {
    let listen = "127.0.0.1:0".parse().unwrap();
    Console::start(listen, Arc::new(move || snapshot.clone())).unwrap()
}

/// Sends `text` and reads until the server closes the connection. Returns the status code, the head and the body.
pub fn send(to: SocketAddr, text: &str) -> (u16, String, String) {
    let mut stream = TcpStream::connect(to).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(text.as_bytes()).unwrap();
    let mut answer = Vec::new();
    let mut part = [0; 4096];
    // A server that refuses a request before it has read it completely may reset the connection after its answer.
    while let Ok(bytes @ 1..) = stream.read(&mut part) {
        answer.extend_from_slice(&part[..bytes]);
    }
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let code = head
        .split(' ')
        .nth(1)
        .and_then(|code| code.parse().ok())
        .unwrap_or(0);
    (code, head.to_lowercase(), body.into())
}

pub fn get(to: SocketAddr, path: &str) -> (u16, String, String) {
    send(
        to,
        &format!("GET {path} HTTP/1.1\r\nHost: {to}\r\nConnection: close\r\n\r\n"),
    )
}
