//! The console over real sockets.

mod support;

use lineside_console::{Console, Health, HealthStatus, Limits, ServiceStatus, Snapshot, fetch_status};
use lineside_service::StatusBuilder;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use support::{console, example, get, send};

/// Maximum time for a console to stop: less than the 5 s that a client has to send the header of its request.
const STOP_TIME_MAX: Duration = Duration::from_secs(4);

#[test]
fn head_has_the_headers_of_get_and_no_body() {
    let console = console(example());
    let to = console.local_addr();
    for path in ["/metrics", "/healthz", "/status", "/version"] {
        let (code, head, body) = get(to, path);
        let request = format!("HEAD {path} HTTP/1.1\r\nHost: {to}\r\nConnection: close\r\n\r\n");
        let (head_code, head_head, head_body) = send(to, &request);
        assert_eq!((head_code, head_body.as_str()), (code, ""), "{path}");
        let of = |head: &str, name: &str| {
            let found = head.lines().find(|line| line.starts_with(name));
            found.map(str::to_owned)
        };
        for name in ["content-length: ", "content-type: "] {
            assert_eq!(of(&head_head, name), of(&head, name), "{path}");
            assert!(of(&head, name).is_some(), "{path}: {head}");
        }
        assert!(!body.is_empty());
    }
}

#[test]
fn the_version_is_an_object() {
    let console = console(example());
    let (code, _, body) = get(console.local_addr(), "/version");
    let json: serde_json::Value = serde_json::from_str(&body).unwrap();
    let expected =
        serde_json::json!({"version": "1.2.3", "commit": "0123abcd", "features": ["kafka", "more"]});
    assert_eq!((code, json), (200, expected));
}

#[test]
fn a_name_is_answered_if_it_is_allowed() {
    let listen = "127.0.0.1:0".parse().unwrap();
    let allowed = ["lineside-1".to_owned()];
    let console = Console::start_with(listen, &allowed, Arc::new(example), Limits::default()).unwrap();
    let code = |host: &str| {
        let request = format!("GET /healthz HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        send(console.local_addr(), &request).0
    };
    for host in [
        "lineside-1",
        "lineside-1:7700",
        "Lineside-1",
        "127.0.0.1",
        "localhost:1",
    ] {
        assert_eq!(code(host), 200, "{host}");
    }
    for host in ["lineside-2", "lineside-1.evil.example", "evil.lineside-1", ""] {
        assert_eq!(code(host), 403, "{host}");
    }
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
        let (code, head, body) = get(console.local_addr(), "/healthz");
        assert!(head.contains("content-type: application/json"), "{head}");
        assert!(body.ends_with("}\n"), "{body}");
        let health: Health = serde_json::from_str(&body).unwrap();
        (code, health)
    };
    let (code, seen) = health();
    assert_eq!((code, seen.status), (200, HealthStatus::Ok));
    assert_eq!(
        (&seen.reasons, &seen.warnings),
        (&vec![], &vec!["GRO is on".to_owned()])
    );
    let names: Vec<_> = seen.services.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["spv", "transfer", "column", "fabric", "hybrid"]);
    assert_eq!(seen.services[3].instance.as_deref(), Some("assets"));

    shared.lock().unwrap().services[0].lease_left_ms = Some(0);
    let failed = |seen: &Health| {
        let failed = seen
            .services
            .iter()
            .filter(|one| one.status == HealthStatus::Failed);
        failed
            .map(|one| (one.name.clone(), one.reasons.clone()))
            .collect::<Vec<_>>()
    };
    let lease = (
        "spv".to_owned(),
        vec![
            "spv: the lease of the fast path has ended, so the fast path answers nothing; check the disk and the \
             kernel's log"
                .to_owned(),
        ],
    );
    let (code, seen) = health();
    assert_eq!((code, seen.status), (503, HealthStatus::Failed));
    assert_eq!((failed(&seen), seen.reasons), (vec![lease.clone()], vec![]));

    // A problem of one service is reported at this service; a problem of the process belongs to no service.
    let (own, general) = ("fabric: no source for 61 s", "writing has ended");
    let mut snapshot = shared.lock().unwrap();
    snapshot.problems = vec![own.into(), general.into()];
    snapshot.services[3].problems = vec![own.into()];
    drop(snapshot);
    let (code, seen) = health();
    assert_eq!(code, 503);
    let expected = vec![lease, ("fabric".to_owned(), vec![own.to_owned()])];
    assert_eq!(
        (failed(&seen), seen.reasons),
        (expected, vec![general.to_owned()])
    );

    *shared.lock().unwrap() = Snapshot::default();
    let (code, seen) = health();
    assert_eq!((code, seen.status), (503, HealthStatus::Failed));
    assert_eq!(seen.reasons, ["no service runs"]);
}

#[test]
fn a_problem_is_noted_at_the_service_that_reports_it() {
    let mut out = StatusBuilder::default();
    out.problems.push("a directory was removed".into());
    for name in ["a", "b"] {
        out.collect(|out| {
            if name == "b" {
                out.problems.push("b: stuck".into());
            }
            out.services.push(ServiceStatus {
                name: name.into(),
                ..ServiceStatus::default()
            });
        });
    }
    assert_eq!(out.problems, ["a directory was removed", "b: stuck"]);
    let of_service: Vec<_> = out.services.iter().map(|one| one.problems.clone()).collect();
    assert_eq!(of_service, [vec![], vec!["b: stuck".to_owned()]]);
}

#[test]
fn a_state_that_cannot_be_read_is_reported() {
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
    assert!(stopping.elapsed() < STOP_TIME_MAX);
    drop(held);
}

#[test]
fn requests_other_than_get_and_head_without_a_body_are_refused() {
    let console = console(example());
    let to = console.local_addr();
    let end = format!("Host: {to}\r\nConnection: close\r\n");
    assert_eq!(get(to, "/status/").0, 404);
    assert_eq!(get(to, "/../etc/passwd").0, 404);
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "BREW"] {
        let (code, head, _) = send(to, &format!("{method} /status HTTP/1.1\r\n{end}\r\n"));
        assert_eq!(code, 405, "{method}");
        assert!(head.contains("allow: get, head"), "{head}");
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
fn an_incomplete_request_does_not_block_other_clients() {
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
fn the_console_stops_while_clients_hold_connections() {
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
    assert!(stopping.elapsed() < STOP_TIME_MAX, "{:?}", stopping.elapsed());
    TcpListener::bind(to).expect("its port is free again");
    drop((silent, half, idle));
}

#[test]
fn the_console_stops_right_after_its_start_and_reports_an_address_in_use() {
    let first = console(example());
    let taken = Console::start(first.local_addr(), Arc::new(example));
    assert_eq!(taken.unwrap_err().kind(), std::io::ErrorKind::AddrInUse);
    drop(first);
    let started = Instant::now();
    (0..20).for_each(|_| drop(console(example())));
    assert!(started.elapsed() < 20 * STOP_TIME_MAX);
}

#[test]
fn the_client_limits_the_size_of_an_answer() {
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
