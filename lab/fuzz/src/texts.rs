//! Fuzz targets for texts: the configuration, hashes in the form that people write, and HTTP.

use lineside::config::Config;
use lineside::services::SERVICES;
use lineside_console::{Console, ServiceStatus, Snapshot, read_status};
use lineside_util::hex::{from_display, to_display};
use std::cell::RefCell;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

pub fn config_seeds() -> Vec<Vec<u8>> {
    let whole = include_str!("../../../lineside.toml");
    let keys: String = whole
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| format!("{line}\n"))
        .collect();
    let small = [
        "",
        "[spv]\nlisten = \"[::1]:7701\"\nprefill = \"tip:3\"\nindex = \"disk\"\ndata = \"/x\"\n",
        "[spv]\nways = 3\nline_bits = 99\n[datapath]\ninterface = \"a/b\"\nqueue = 0\n",
        "spv = { lease_s = 0, prefill = \"tip:0\" }\n",
        "[console]\nlisten = \"0.0.0.0:7701\"\n",
    ];
    let mut seeds = vec![whole.into(), keys.into_bytes()];
    seeds.extend(small.map(|text| text.as_bytes().to_vec()));
    seeds
}

/// Checks that an accepted configuration is accepted again from its own text, with the same content, and that the
/// errors of a refused one have line numbers that the file has.
pub fn config(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let check = |text: &str| {
        let config = Config::parse(text, SERVICES).map_err(|issue| vec![issue])?;
        config.check().map_err(|error| error.issues)
    };
    match check(text) {
        Ok(checked) => {
            let sections = checked.sections();
            let written = toml::to_string(&sections).expect("a configuration is TOML");
            let again = check(&written).unwrap_or_else(|issues| panic!("{issues:?}: {written}"));
            assert_eq!(again.sections(), sections);
            checked
                .warnings()
                .iter()
                .for_each(|warning| assert!(!warning.is_empty()));
        }
        Err(faults) => {
            assert!(!faults.is_empty());
            let lines = text.split('\n').count();
            for fault in faults {
                assert!(!fault.what.is_empty());
                assert!(
                    fault.line.is_none_or(|line| (1..=lines).contains(&line)),
                    "{fault:?} of {lines}"
                );
            }
        }
    }
}

pub fn hex_seeds() -> Vec<Vec<u8>> {
    let hash = to_display(&std::array::from_fn(|index| index as u8));
    let seeds = [
        hash.clone(),
        hash.to_uppercase(),
        hash.replace("0a", "+a"),
        hash[..62].into(),
    ];
    seeds.map(String::into_bytes).to_vec()
}

/// Checks that a text is parsed as a hash only if it is exactly 64 hex digits, and that the hash is then printed as the
/// same text in lower case.
pub fn hex(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let digits = text.len() == 64 && text.chars().all(|letter| letter.is_ascii_hexdigit());
    match from_display(text) {
        Some(hash) => assert!(digits && to_display(&hash) == text.to_lowercase()),
        None => assert!(!digits),
    }
}

fn snapshot() -> Snapshot {
    let mut service = ServiceStatus {
        name: "spv".into(),
        datapath: "xdp".into(),
        lease_left_ms: Some(5),
        ..ServiceStatus::default()
    };
    service.set_fastpath_replies("xdp", 7);
    Snapshot {
        version: "1".into(),
        services: vec![service],
        ..Snapshot::default()
    }
}

fn answer_of(body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

pub fn console_answer_seeds() -> Vec<Vec<u8>> {
    let body = serde_json::to_vec(&snapshot()).expect("JSON");
    let busy = b"HTTP/1.1 503 No\r\ncontent-length: 4\r\n\r\nbusy".to_vec();
    vec![answer_of(&body), answer_of(b"{}"), busy]
}

/// Checks that an accepted status arrived completely in an answer with status 200, and stays the same after it is
/// written and read again.
pub fn console_answer(data: &[u8]) {
    let Ok(status) = read_status(data) else { return };
    assert!(data.starts_with(b"HTTP/1.1 200"));
    let body = serde_json::to_vec(&status).expect("JSON");
    assert_eq!(read_status(&answer_of(&body)).ok(), Some(status));
    let cut = read_status(&data[..data.len() - 1]);
    assert!(cut.is_err(), "a truncated answer was accepted");
}

thread_local! {
    static CONSOLE: RefCell<Option<Console>> = const { RefCell::new(None) };
}

/// Maximum time to wait for an answer. If a request has a body, the console leaves the connection open for longer.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(200);

pub fn console_request_seeds() -> Vec<Vec<u8>> {
    let requests = [
        "GET /status HTTP/1.1\r\nHost: 127.0.0.1",
        "GET /metrics HTTP/1.1\r\nHost: [::1]:7700",
        "GET /healthz HTTP/1.1\r\nhost: localhost:1\r\nAccept: */*",
        "HEAD /version HTTP/1.1\r\nHost: 127.0.0.1",
        "GET /metrics HTTP/1.1\r\nHost: ::1\r\nAccept: application/openmetrics-text;q=0.5,*/*",
        "GET /nowhere HTTP/1.1\r\nHost: localhost",
        "GET /status HTTP/1.0",
        "GET /status HTTP/1.1\r\nHost: evil.example",
        "POST /status HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3",
        "GET /status HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked",
        "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\nGET /status HTTP/1.1\r\nHost: ::1",
    ];
    requests.map(|request| request.as_bytes().to_vec()).to_vec()
}

/// Checks that, for any request, the console keeps running and answers the next request. A request that it answers with
/// 200 must be a GET or HEAD whose host is an address or localhost.
pub fn console_request(data: &[u8]) {
    let address = CONSOLE.with_borrow_mut(|console| {
        let started = || Console::start(([127, 0, 0, 1], 0).into(), Arc::new(snapshot)).expect("listening");
        console.get_or_insert_with(started).local_addr()
    });
    let answer = exchange(address, &[data, b"\r\nConnection: close\r\n\r\n"].concat());
    assert!(
        answer.is_empty() || answer.starts_with(b"HTTP/1."),
        "{:?}",
        String::from_utf8_lossy(&answer)
    );
    if answer.starts_with(b"HTTP/1.1 200") || answer.starts_with(b"HTTP/1.0 200") {
        let sent = String::from_utf8_lossy(data);
        let method = sent.split_whitespace().next();
        assert!(matches!(method, Some("GET" | "HEAD")), "{sent:?}");
        assert!(names_no_one(&sent), "{sent:?}");
    }
    if data.len().is_multiple_of(16) {
        let good = exchange(
            address,
            b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
        );
        assert!(
            good.starts_with(b"HTTP/1.1 200"),
            "{:?}",
            String::from_utf8_lossy(&good)
        );
    }
}

fn exchange(address: SocketAddr, request: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).expect("connecting");
    stream.set_read_timeout(Some(ANSWER_TIMEOUT)).expect("a socket");
    // The console may close the connection while the target is still sending the request.
    let _ = stream.write_all(request);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    answer
}

/// Returns whether the first request has an address or localhost as its host.
fn names_no_one(request: &str) -> bool {
    let lines = request
        .split('\n')
        .skip(1)
        .map(|line| line.trim_end_matches('\r'));
    let mut hosts = lines.filter_map(|line| line.split_once(':'));
    hosts.any(|(name, value)| {
        let value = value.trim();
        let bare = value
            .rsplit_once(':')
            .filter(|(_, port)| port.parse::<u16>().is_ok())
            .map_or(value, |(bare, _)| bare);
        let address = |text: &str| text.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
        name.trim().eq_ignore_ascii_case("host")
            && (address(value) || address(bare) || bare.eq_ignore_ascii_case("localhost"))
    })
}
