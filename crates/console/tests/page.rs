//! The dashboard page and its data over real sockets: files, headers, history, streams, and clients that do not read.

use lineside_console::{Console, Limits, ServiceStatus, Snapshot, Tip, has_dashboard};
use lineside_service::HistogramCounts;
use lineside_wire::metric;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(20);
/// Interval of samples in these tests, shorter than in use, so that the tests are short.
const FAST: Duration = Duration::from_millis(20);

fn limits() -> Limits {
    Limits {
        sample_time: FAST,
        ..Limits::default()
    }
}

/// Returns a snapshot whose counters have the value `number`.
fn snapshot(number: u64) -> Snapshot {
    let mut spv = ServiceStatus {
        name: "spv".into(),
        datapath: "xdp".into(),
        lease_left_ms: Some(1500),
        tip: Some(Tip {
            hash: "ab".repeat(32),
            block: 1234,
            height: 1234,
        }),
        ..ServiceStatus::default()
    };
    spv.set_counters("xdp", [("hits", number)]);
    spv.set_drops("xdp", [number, 0, 0, 0, 0, 0]);
    spv.set_host(metric::SPV_FILLS, number);
    spv.details
        .insert("codes".into(), Value::String("0".repeat(100_000)));
    let mut fabric = ServiceStatus {
        name: "fabric".into(),
        instance: Some("lab".into()),
        ..ServiceStatus::default()
    };
    fabric.set_labelled(metric::FABRIC_STAGE, "verify", 2_500_000_000);
    Snapshot {
        version: "1.2.3".into(),
        services: vec![spv, fabric],
        warnings: vec!["GRO is on".into()],
        ..Snapshot::default()
    }
}

/// Starts a console whose snapshots count upwards.
fn counting(limits: Limits) -> Console {
    let count = AtomicU64::new(0);
    let observed = move || snapshot(count.fetch_add(1, Relaxed));
    Console::start_with("127.0.0.1:0".parse().unwrap(), &[], Arc::new(observed), limits).unwrap()
}

fn connect(to: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(to).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Sends a request, and returns the status code, the head in lower case, and the body.
fn ask(to: SocketAddr, method: &str, path: &str, more: &str) -> (u16, String, Vec<u8>) {
    let mut stream = connect(to);
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: {to}\r\n{more}Connection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
    let head = String::from_utf8(answer[..end].to_vec()).unwrap();
    let code = head.split(' ').nth(1).unwrap().parse().unwrap();
    (code, head.to_lowercase(), answer.split_off(end + 4))
}

/// An open stream of events.
struct Stream(BufReader<TcpStream>);

impl Stream {
    fn open(to: SocketAddr) -> Result<Self, u16> {
        let mut stream = connect(to);
        write!(stream, "GET /events HTTP/1.1\r\nHost: {to}\r\n\r\n").unwrap();
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        let code = line.split(' ').nth(1).unwrap().parse().unwrap();
        if code != 200 {
            return Err(code);
        }
        while line != "\r\n" {
            line.clear();
            reader.read_line(&mut line).unwrap();
        }
        Ok(Self(reader))
    }

    /// Returns name and data of the next event, or `None` at the end of the stream.
    fn next(&mut self) -> Option<(String, Value)> {
        let (mut event, mut line) = (String::new(), String::new());
        loop {
            line.clear();
            if self.0.read_line(&mut line).ok()? == 0 {
                return None;
            }
            if let Some(name) = line.strip_prefix("event: ") {
                event = name.trim().into();
            } else if let Some(data) = line.strip_prefix("data: ") {
                return Some((event, serde_json::from_str(data).unwrap()));
            }
        }
    }
}

/// Returns the index of a series in a list of series.
fn place(series: &Value, service: &str, key: &str) -> usize {
    let named = |name: &Value| name["service"] == service && name["key"] == key;
    let series = series.as_array().unwrap();
    series
        .iter()
        .position(named)
        .unwrap_or_else(|| panic!("{key} of {service}: {series:?}"))
}

fn until<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(FAST);
    }
}

#[test]
fn the_page_loads_only_its_own_files() {
    let console = counting(limits());
    let to = console.local_addr();
    let (code, head, body) = ask(to, "GET", "/", "");
    assert_eq!(code, 200);
    for said in [
        "content-type: text/html; charset=utf-8",
        "cache-control: no-cache",
        "content-security-policy: default-src 'none'; script-src 'self'; style-src 'self';",
        "frame-ancestors 'none'",
        "x-content-type-options: nosniff",
        "referrer-policy: no-referrer",
    ] {
        assert!(head.contains(said), "{said} is not in {head}");
    }
    assert!(!head.contains("unsafe"), "{head}");
    let html = String::from_utf8(body).unwrap();
    let links = html.split(['"', '\'']).filter_map(|text| text.strip_prefix("./"));
    for link in links.filter(|link| link.starts_with("assets/")) {
        let (code, head, body) = ask(to, "GET", &format!("/{link}"), "");
        assert_eq!(code, 200, "{link}");
        assert!(head.contains("max-age=31536000, immutable"), "{head}");
        let content_type = match link.rsplit('.').next() {
            Some("js") => "text/javascript",
            Some("css") => "text/css",
            _ => "image/svg+xml",
        };
        assert!(head.contains(&format!("content-type: {content_type}")), "{head}");
        assert!(!body.is_empty());
    }
    // The page has no inline scripts or styles, and loads nothing from other servers.
    assert!(!html.contains("<style") && !html.contains("style="), "{html}");
    assert!(!html.contains("//"), "{html}");
    for path in [
        "/assets/",
        "/assets/..%2findex.html",
        "/assets/no.js",
        "/index.html",
    ] {
        assert_eq!(ask(to, "GET", path, "").0, 404, "{path}");
    }
}

#[test]
fn a_build_without_the_dashboard_says_how_to_get_it() {
    let written = include_str!("../src/no_dashboard.html");
    for said in [
        "make dashboard",
        "href=\"status\"",
        "href=\"metrics\"",
        "href=\"healthz\"",
    ] {
        assert!(written.contains(said), "{said}");
    }
    let console = counting(limits());
    let (_, _, body) = ask(console.local_addr(), "GET", "/", "");
    assert_eq!(body == written.as_bytes(), !has_dashboard());
}

#[test]
fn head_requests_have_the_headers_and_no_body() {
    let console = counting(limits());
    let to = console.local_addr();
    for path in ["/", "/status", "/metrics", "/healthz", "/history"] {
        let (code, head, body) = ask(to, "HEAD", path, "");
        assert_eq!((code, body.len()), (200, 0), "{path}");
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "));
        let length: usize = length.unwrap_or_else(|| panic!("{head}")).parse().unwrap();
        assert!(length > 0, "{path}");
    }
    // A HEAD request does not count against the limit of streams.
    for _ in 0..20 {
        let (code, head, _) = ask(to, "HEAD", "/events", "");
        assert_eq!(code, 200);
        assert!(head.contains("content-type: text/event-stream"), "{head}");
    }
    let (code, head, _) = ask(to, "POST", "/", "");
    assert_eq!(code, 405);
    assert!(head.contains("allow: get, head"), "{head}");
}

#[test]
fn a_stream_begins_with_the_history_and_continues_without_a_gap() {
    let console = counting(limits());
    let to = console.local_addr();
    // A first stream shows that samples exist before the second one begins.
    let mut first = Stream::open(to).unwrap();
    (0..10).for_each(|_| assert!(first.next().is_some()));
    let mut stream = Stream::open(to).unwrap();
    let (name, history) = stream.next().unwrap();
    assert_eq!(name, "history");
    assert_eq!(history["capacity"], 301);
    let series = &history["series"];
    let samples = history["samples"].as_array().unwrap();
    assert!(samples.len() >= 9, "{}", samples.len());
    let hits = place(series, "spv", "hits");
    let mut expected: u64 = samples[0]["values"][hits].as_u64().unwrap();
    let mut at_ms = 0;
    let mut check = |sample: &Value| {
        assert_eq!(sample["values"][hits], expected);
        let now_ms = sample["at_ms"].as_u64().unwrap();
        assert!(now_ms >= at_ms, "{now_ms} after {at_ms}");
        (expected, at_ms) = (expected + 1, now_ms);
    };
    samples.iter().for_each(&mut check);
    for _ in 0..10 {
        let (name, sample) = stream.next().unwrap();
        assert_eq!(
            (name.as_str(), &sample["added"]),
            ("sample", &Value::Array(vec![]))
        );
        check(&sample);
        assert_eq!(sample["status"]["warnings"][0], "GRO is on");
    }
    let values = &samples[0]["values"];
    assert_eq!(values[place(series, "spv", "lease_left")], 1.5);
    assert_eq!(values[place(series, "spv", "tip_height")], 1234);
    assert_eq!(values[place(series, "fabric", "stage")], 2.5, "seconds");
    let stage = &series[place(series, "fabric", "stage")];
    assert_eq!(
        (&stage["instance"], &stage["label"]),
        (&"lab".into(), &"verify".into())
    );
    let drops = &series[place(series, "spv", "drops")];
    assert_eq!(
        (&drops["datapath"], &drops["label"]),
        (&"xdp".into(), &"hop_limit".into())
    );
    let named = |metric: &Value| metric["name"] == "lineside_spv_hits_total" && metric["kind"] == "counter";
    assert!(history["metrics"].as_array().unwrap().iter().any(named));
    // Long texts are cut, and numbers appear only in the samples.
    let spv = &history["status"]["services"][0];
    assert!(spv["codes"].as_str().unwrap().len() < 400);
    assert_eq!(spv["counters"], serde_json::json!({}));
}

#[test]
fn the_history_is_bounded() {
    let console = counting(Limits {
        sample_time: Duration::from_millis(1),
        ..Limits::default()
    });
    let history = || -> Value {
        let (code, head, body) = ask(console.local_addr(), "GET", "/history", "");
        assert_eq!(code, 200);
        assert!(
            head.contains("application/json") && head.contains("no-store"),
            "{head}"
        );
        serde_json::from_slice(&body).unwrap()
    };
    let full = until("more than 301 samples were taken", || {
        let history = history();
        if history["samples"].as_array()?.is_empty() {
            return None;
        }
        let hits = place(&history["series"], "spv", "hits");
        let newest = history["samples"].as_array()?.last()?["values"][hits].as_u64()?;
        (newest > 400).then_some(history)
    });
    assert_eq!(full["samples"].as_array().unwrap().len(), 301);
}

#[test]
fn series_beyond_the_limit_are_left_out() {
    let many = || {
        let mut snapshot = snapshot(1);
        let names = (0..3000).map(|number| (format!("further_{number}"), 1));
        snapshot.services[0].host.extend(names);
        snapshot
    };
    let console = Console::start_with("127.0.0.1:0".parse().unwrap(), &[], Arc::new(many), limits()).unwrap();
    let mut stream = Stream::open(console.local_addr()).unwrap();
    let (_, history) = stream.next().unwrap();
    let mut series = history["series"].as_array().unwrap().len();
    let (_, sample) = stream.next().unwrap();
    series += sample["added"].as_array().unwrap().len();
    assert_eq!(series, 1024);
    assert_eq!(sample["values"].as_array().unwrap().len(), 1024);
}

#[test]
fn a_new_series_is_announced_with_its_first_value() {
    let shared = Arc::new(Mutex::new(snapshot(1)));
    let observed = Arc::clone(&shared);
    let read = move || observed.lock().unwrap().clone();
    let console = Console::start_with("127.0.0.1:0".parse().unwrap(), &[], Arc::new(read), limits()).unwrap();
    let mut stream = Stream::open(console.local_addr()).unwrap();
    let (_, history) = stream.next().unwrap();
    let mut known = history["series"].as_array().unwrap().len();
    // The first sample may add all other series.
    known += stream.next().unwrap().1["added"].as_array().unwrap().len();
    shared.lock().unwrap().services[0].set_host(metric::SPV_BLOCKS, 77);
    until("the new series", || {
        let (_, sample) = stream.next()?;
        let added = sample["added"].as_array()?;
        known += added.len();
        let last = added.last().filter(|name| name["key"] == "blocks")?;
        assert_eq!(
            (&last["service"], &sample["values"][known - 1]),
            (&"spv".into(), &77.into())
        );
        Some(())
    });
}

/// Returns the status of one service that has answered `fast` requests within 1 to 2 us, and `slow` within 2 to 4 ms.
fn answered(fast: u64, slow: u64) -> Snapshot {
    let mut spv = ServiceStatus {
        name: "spv".into(),
        ..ServiceStatus::default()
    };
    let latency = HistogramCounts {
        bounds: vec![1000, 2000, 2_000_000, 4_000_000],
        counts: vec![0, fast, 0, slow, 0],
        sum: 0,
    };
    spv.set_histogram(metric::HOST_LATENCY, latency);
    Snapshot {
        services: vec![spv],
        ..Snapshot::default()
    }
}

#[test]
fn the_quantiles_of_a_sample_are_those_of_the_values_since_the_last_one() {
    let shared = Arc::new(Mutex::new(answered(1_000_000, 0)));
    let observed = Arc::clone(&shared);
    let read = move || observed.lock().unwrap().clone();
    let console = Console::start_with("127.0.0.1:0".parse().unwrap(), &[], Arc::new(read), limits()).unwrap();
    let mut stream = Stream::open(console.local_addr()).unwrap();
    let (_, history) = stream.next().unwrap();
    let mut names = history["series"].as_array().unwrap().clone();
    let has_no_sample = names.is_empty();
    let mut quantiles = || {
        let (_, sample) = stream.next()?;
        names.extend(sample["added"].as_array()?.iter().cloned());
        let value = |label: &str| {
            let named = |name: &Value| name["key"] == "host_latency" && name["label"] == label;
            sample["values"][names.iter().position(named)?].as_f64()
        };
        Some((value("p50")?, value("p99")?))
    };
    if has_no_sample {
        until("the first sample", &mut quantiles);
    }
    // The many fast requests before the last sample do not count. Of the new requests, a tenth is slow.
    *shared.lock().unwrap() = answered(1_000_090, 10);
    let (p50, p99) = until("quantiles of the new requests", || {
        quantiles().filter(|(_, p99)| *p99 > 1e-3)
    });
    assert!((1e-6..2e-6).contains(&p50), "{p50}");
    assert!((2e-3..4e-3).contains(&p99), "{p99}");
    until("a sample without new requests", || {
        let values = stream.next()?.1["values"].as_array()?.clone();
        values.iter().all(Value::is_null).then_some(())
    });
}

#[test]
fn a_state_that_cannot_be_read_leaves_a_gap() {
    let shared = Arc::new(Mutex::new(snapshot(1)));
    let (observed, reads) = (Arc::clone(&shared), Arc::new(AtomicU64::new(0)));
    let counted = Arc::clone(&reads);
    let read = move || {
        counted.fetch_add(1, Relaxed);
        observed.lock().unwrap().clone()
    };
    let console = Console::start_with("127.0.0.1:0".parse().unwrap(), &[], Arc::new(read), limits()).unwrap();
    let mut stream = Stream::open(console.local_addr()).unwrap();
    stream.next().unwrap();
    let held = shared.lock().unwrap();
    let mut gap = || {
        until("an empty sample", || {
            Some(stream.next()?.1).filter(|one| one["status"].is_null())
        })
    };
    assert_eq!(gap()["values"], serde_json::json!([]));
    let begun = reads.load(Relaxed);
    (0..20).for_each(|_| drop(gap()));
    assert_eq!(reads.load(Relaxed), begun, "one reading at a time");
    drop(held);
    until("a sample with values", || {
        Some(stream.next()?.1).filter(|one| one["values"][0].is_number())
    });
}

#[test]
fn streams_are_limited_and_their_places_free_again() {
    let console = counting(Limits {
        event_clients: 3,
        ..limits()
    });
    let to = console.local_addr();
    let mut streams: Vec<Stream> = (0..3).map(|_| Stream::open(to).unwrap()).collect();
    assert_eq!(Stream::open(to).err(), Some(503));
    let (_, head, body) = ask(to, "GET", "/events", "");
    assert!(head.contains("retry-after: 5"), "{head}");
    assert_eq!(
        body,
        b"the maximum number of event streams is open; try again later\n"
    );
    assert_eq!(ask(to, "GET", "/status", "").0, 200);
    streams.pop();
    until("the place is free again", || Stream::open(to).ok());
}

#[test]
fn pages_of_other_sites_are_refused() {
    let console = counting(limits());
    let to = console.local_addr();
    for path in ["/events", "/history"] {
        for site in ["cross-site", "same-site"] {
            let (code, _, _) = ask(to, "GET", path, &format!("Sec-Fetch-Site: {site}\r\n"));
            assert_eq!(code, 403, "{path} {site}");
        }
    }
    assert_eq!(
        ask(to, "GET", "/history", "Sec-Fetch-Site: same-origin\r\n").0,
        200
    );
}

/// The status contains a text of a megabyte, so that an answer is larger than every buffer of the system.
fn large(limits: Limits) -> Console {
    let observed = || {
        let mut snapshot = snapshot(1);
        snapshot.services[0]
            .details
            .insert("long".into(), Value::String("x".repeat(8 << 20)));
        snapshot
    };
    Console::start_with("127.0.0.1:0".parse().unwrap(), &[], Arc::new(observed), limits).unwrap()
}

#[test]
fn clients_that_never_read_lose_their_connections() {
    let write_time = Duration::from_millis(500);
    let console = large(Limits {
        write_time,
        ..limits()
    });
    let to = console.local_addr();
    let silent: Vec<TcpStream> = (0..40)
        .map(|_| {
            let mut stream = TcpStream::connect(to).unwrap();
            write!(stream, "GET /status HTTP/1.1\r\nHost: {to}\r\n\r\n").unwrap();
            stream
        })
        .collect();
    // Clients that do not read hold all connections. The console disconnects them, so others get an answer.
    assert_eq!(ask(to, "GET", "/healthz", "").0, 200);
    drop(silent);
    // A client that reads, but too slowly, does not get more time.
    let mut slow = connect(to);
    write!(slow, "GET /status HTTP/1.1\r\nHost: {to}\r\n\r\n").unwrap();
    let (began, mut part) = (Instant::now(), [0; 1000]);
    while matches!(slow.read(&mut part), Ok(1..)) {
        std::thread::sleep(FAST);
        assert!(began.elapsed() < PATIENCE, "a slow client keeps its connection");
    }
    // A client that reads at once gets all of a large answer.
    let (code, _, body) = ask(to, "GET", "/status", "");
    assert!(code == 200 && body.len() > 8 << 20, "{}", body.len());
}

#[test]
fn a_stream_whose_client_does_not_read_is_closed() {
    let console = counting(Limits {
        write_time: Duration::from_millis(300),
        sample_time: Duration::from_millis(1),
        event_clients: 1,
    });
    let to = console.local_addr();
    let mut silent = TcpStream::connect(to).unwrap();
    write!(silent, "GET /events HTTP/1.1\r\nHost: {to}\r\n\r\n").unwrap();
    until("the stream holds the only place", || {
        (Stream::open(to).err() == Some(503)).then_some(())
    });
    until("the place is free again", || Stream::open(to).ok());
}

#[test]
fn streams_end_cleanly_when_the_console_stops() {
    let console = counting(limits());
    let mut stream = Stream::open(console.local_addr()).unwrap();
    stream.next().unwrap();
    let stopping = Instant::now();
    drop(console);
    assert!(stopping.elapsed() < PATIENCE);
    let mut rest = String::new();
    stream.0.read_to_string(&mut rest).unwrap();
    assert!(rest.ends_with("\r\n0\r\n\r\n"), "no end of the body: {rest:?}");
}
