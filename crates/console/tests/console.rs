//! The console over real sockets.

use lineside_console::{Console, ServiceStatus, Snapshot, Tip, fetch_status};
use lineside_wire::{DropReason, SpvCounter, metric};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

fn example() -> Snapshot {
    let mut spv = ServiceStatus {
        name: "spv".into(),
        datapath: "xdp".into(),
        listen: "127.0.0.1:7701".into(),
        interface: Some("lo".into()),
        mode: Some("generic".into()),
        lease_left_ms: Some(58_250),
        tip: Some(Tip {
            hash: "ab".repeat(32),
            height: 1234,
        }),
        ..ServiceStatus::default()
    };
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
    spv.set_labelled(metric::SPV_ELECTRUM_REQUESTS, "answered", 31);
    spv.set_labelled(metric::SPV_ELECTRUM_REQUESTS, "error", 2);
    spv.set_labelled(metric::SPV_CLIENTS_DROPPED, "idle", 3);
    spv.set_labelled(metric::SPV_HTTP_REQUESTS, "throttled", 4);
    Snapshot {
        version: "1.2.3".into(),
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
    }
}

fn every_metric_of(service: &str) -> ServiceStatus {
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
        if metric.has_label("datapath") {
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

fn console(snapshot: Snapshot) -> Console {
    let listen = "127.0.0.1:0".parse().unwrap();
    Console::start(listen, Arc::new(move || snapshot.clone())).unwrap()
}

/// Sends `text` and reads until the server closes the connection. Returns the status code, the head and the body.
fn send(to: SocketAddr, text: &str) -> (u16, String, String) {
    let mut stream = TcpStream::connect(to).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(text.as_bytes()).unwrap();
    let mut answer = Vec::new();
    let mut part = [0; 4096];
    // A server that refuses a request before it has read all of it may reset the connection after its answer.
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

fn get(to: SocketAddr, path: &str) -> (u16, String, String) {
    send(
        to,
        &format!("GET {path} HTTP/1.1\r\nHost: {to}\r\nConnection: close\r\n\r\n"),
    )
}

#[test]
fn no_two_series_are_equal_where_a_service_runs_twice() {
    let mut snapshot = example();
    let mut other = every_metric_of("fabric");
    other.instance = Some("orders".into());
    snapshot.services.push(other);
    let console = console(snapshot);
    let (_, _, body) = get(console.local_addr(), "/metrics");
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
fn metrics_are_all_there_and_nothing_else() {
    let console = console(example());
    let (code, head, body) = get(console.local_addr(), "/metrics");
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
    has("lineside_info{version=\"1.2.3\",service=\"spv\",datapath=\"xdp\"} 1");
    has("lineside_spv_hits_total{datapath=\"socket\"} 10");
    has("lineside_spv_misses_total{datapath=\"xdp\"} 101");
    has("lineside_fastpath_replies_total{service=\"spv\",datapath=\"xdp\"} 100");
    has("lineside_drops_total{service=\"spv\",datapath=\"socket\",reason=\"paper_refused\"} 3");
    has("lineside_lease_left_seconds{service=\"spv\"} 58.25");
    has("lineside_spv_tip_height 1234");
    has("lineside_spv_fills_total 1004");
    has("# TYPE lineside_spv_node_up gauge");
    has("lineside_spv_electrum_requests_total{outcome=\"error\"} 2");
    has("lineside_spv_clients_dropped_total{limit=\"idle\"} 3");
    has("lineside_spv_http_requests_total{outcome=\"throttled\"} 4");
    has("lineside_problems 0");
    has("lineside_warnings 1");
    for metric in metric::ALL {
        let is_it = |line: &str| line.split([' ', '{']).next() == Some(metric.name);
        assert!(body.lines().any(is_it), "{} is not in:\n{body}", metric.name);
    }
    for line in body.lines().filter(|line| !line.starts_with('#')) {
        let name = line.split([' ', '{']).next().unwrap();
        assert!(metric::ALL.iter().any(|metric| metric.name == name), "{line}");
    }
    let snapshot = example();
    let spv = &snapshot.services[0];
    for key in spv
        .host
        .keys()
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
fn status_reaches_the_client_whole() {
    let console = console(example());
    let (code, head, body) = get(console.local_addr(), "/status");
    assert_eq!(code, 200);
    assert!(head.contains("content-type: application/json"), "{head}");
    assert!(
        head.contains("nosniff") && !head.contains("access-control"),
        "{head}"
    );
    let json: serde_json::Value = serde_json::from_str(&body).unwrap();
    assert_eq!(json["services"][0]["counters"]["xdp"]["hits"], 100);
    let fetched = fetch_status(console.local_addr()).unwrap();
    assert_eq!(fetched, example());
    let text = fetched.to_string();
    for said in [
        "lineside 1.2.3, up 1:02:05",
        "spv on 127.0.0.1:7701, xdp datapath at lo (generic)",
        "58.2 s left",
        "at height 1234",
        "drop source_port (socket)",
        "warning: GRO is on",
    ] {
        assert!(text.contains(said), "{said} is not in:\n{text}");
    }
    assert!(
        !text.contains("source_address"),
        "a drop that never happened:\n{text}"
    );
}

#[test]
fn health_follows_the_snapshot() {
    let shared = Arc::new(Mutex::new(example()));
    let observed = Arc::clone(&shared);
    let listen = "127.0.0.1:0".parse().unwrap();
    let console = Console::start(listen, Arc::new(move || observed.lock().unwrap().clone())).unwrap();
    let health = || {
        let (code, _, body) = get(console.local_addr(), "/healthz");
        (code, body)
    };
    let warnings = std::mem::take(&mut shared.lock().unwrap().warnings);
    assert_eq!(health(), (200, "ok\n".into()));
    shared.lock().unwrap().warnings = warnings;
    assert_eq!(health(), (200, "ok\nwarning: GRO is on\n".into()));
    shared.lock().unwrap().services[0].lease_left_ms = Some(0);
    assert_eq!(
        health(),
        (
            503,
            "spv: the lease of the fast path has ended\nwarning: GRO is on\n".into()
        )
    );
    shared.lock().unwrap().warnings.clear();
    shared.lock().unwrap().problems.push("writing has ended".into());
    assert_eq!(
        health(),
        (
            503,
            "writing has ended\nspv: the lease of the fast path has ended\n".into()
        )
    );
    *shared.lock().unwrap() = Snapshot::default();
    assert_eq!(health(), (503, "no service runs\n".into()));
}

#[test]
fn a_state_that_cannot_be_read_is_said() {
    let shared = Arc::new(Mutex::new(example()));
    let observed = Arc::clone(&shared);
    let listen = "127.0.0.1:0".parse().unwrap();
    let console = Console::start(listen, Arc::new(move || observed.lock().unwrap().clone())).unwrap();
    let held = shared.lock().unwrap();
    for path in ["/healthz", "/status", "/metrics"] {
        let (code, _, body) = get(console.local_addr(), path);
        assert_eq!(
            (code, body.as_str()),
            (503, "the state could not be read within 2 s\n"),
            "{path}"
        );
    }
    let error = fetch_status(console.local_addr()).unwrap_err().to_string();
    assert!(error.contains("503") && error.contains("within 2 s"), "{error}");
    let stopping = Instant::now();
    drop(console);
    assert!(stopping.elapsed() < Duration::from_secs(1));
    drop(held);
}

#[test]
fn requests_that_are_no_plain_reads_are_refused() {
    let console = console(example());
    let to = console.local_addr();
    let end = format!("Host: {to}\r\nConnection: close\r\n");
    assert_eq!(get(to, "/status/").0, 404);
    assert_eq!(get(to, "/../etc/passwd").0, 404);
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "BREW"] {
        let (code, head, _) = send(to, &format!("{method} /status HTTP/1.1\r\n{end}\r\n"));
        assert_eq!(code, 405, "{method}");
        assert!(head.contains("allow: get"), "{head}");
    }
    let with_body = format!("GET /status HTTP/1.1\r\n{end}Content-Length: 3\r\n\r\nabc");
    assert_eq!(send(to, &with_body).0, 413);
    let chunked = format!("GET /status HTTP/1.1\r\n{end}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
    assert_eq!(send(to, &chunked).0, 413);
    for host in ["Host: evil.example\r\n", "Host: evil.example:7700\r\n", ""] {
        let request = format!("GET /status HTTP/1.1\r\n{host}Connection: close\r\n\r\n");
        assert_eq!(send(to, &request).0, 403, "{host}");
    }
    assert_eq!(send(to, "nonsense\r\n\r\n").0, 400);
    assert_eq!(get(to, "/status").0, 200);
}

#[test]
fn oversize_headers_are_refused() {
    let console = console(example());
    let to = console.local_addr();
    let long = format!(
        "GET /status HTTP/1.1\r\nHost: {to}\r\nX: {}\r\n\r\n",
        "x".repeat(20_000)
    );
    assert_eq!(send(to, &long).0, 431);
    let many: String = (0..100).map(|number| format!("X{number}: 1\r\n")).collect();
    let many = format!("GET /status HTTP/1.1\r\nHost: {to}\r\n{many}\r\n");
    assert_eq!(send(to, &many).0, 431);
    let path = format!("GET /{} HTTP/1.1\r\nHost: {to}\r\n\r\n", "a".repeat(20_000));
    assert!([414, 431].contains(&send(to, &path).0));
    assert_eq!(get(to, "/healthz").0, 200);
}

#[test]
fn two_clients_at_once() {
    let console = console(example());
    let to = console.local_addr();
    let mut first = TcpStream::connect(to).unwrap();
    first.write_all(b"GET /status HTTP/1.1\r\nHo").unwrap();
    assert_eq!(
        get(to, "/healthz").0,
        200,
        "an incomplete request of another client does not block this one"
    );
    first
        .write_all(b"st: localhost\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut answer = String::new();
    first.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    std::thread::scope(|scope| {
        for _ in 0..40 {
            scope.spawn(|| assert_eq!(fetch_status(to).unwrap(), example()));
        }
    });
}

#[test]
fn it_stops_while_clients_hold_connections() {
    let console = console(example());
    let to = console.local_addr();
    let silent = TcpStream::connect(to).unwrap();
    let mut half = TcpStream::connect(to).unwrap();
    half.write_all(b"GET /status HTTP/1.1\r\n").unwrap();
    let mut idle = TcpStream::connect(to).unwrap();
    idle.write_all(format!("GET /healthz HTTP/1.1\r\nHost: {to}\r\n\r\n").as_bytes())
        .unwrap();
    let mut answer = [0; 12];
    idle.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200");
    let stopping = Instant::now();
    drop(console);
    assert!(
        stopping.elapsed() < Duration::from_secs(1),
        "{:?}",
        stopping.elapsed()
    );
    TcpListener::bind(to).expect("its port is free again");
    drop((silent, half, idle));
}

#[test]
fn it_starts_and_stops_at_once_and_says_what_is_taken() {
    let first = console(example());
    let taken = Console::start(first.local_addr(), Arc::new(example));
    assert_eq!(taken.unwrap_err().kind(), std::io::ErrorKind::AddrInUse);
    drop(first);
    let started = Instant::now();
    (0..20).for_each(|_| drop(console(example())));
    assert!(started.elapsed() < Duration::from_secs(5));
}

#[test]
fn the_client_is_bounded() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = listener.local_addr().unwrap();
    let flood = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let part = [b'x'; 64 * 1024];
        while stream.write_all(&part).is_ok() {}
    });
    let error = fetch_status(to).unwrap_err().to_string();
    assert!(error.contains("more than 1048576 bytes"), "{error}");
    flood.join().unwrap();
    assert!(fetch_status(to).is_err(), "the listener has ended");
}
