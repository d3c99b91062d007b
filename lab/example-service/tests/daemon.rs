//! Runs the daemon with the odometer as its only service: sends requests over UDP, reads the status, and stops it.

use lineside::config::Config;
use lineside::daemon::Daemon;
use lineside_client::exchange;
use lineside_example_service::service::DEF;
use lineside_service::ServiceDef;
use lineside_wire::{NativeHeader, ODOMETER_OP_ADD, ODOMETER_OP_READ, OdometerNumber, Status, native};
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use zerocopy::{FromBytes, IntoBytes};

static SERVICES: &[ServiceDef] = &[DEF];

/// Sends a request to the server, and sends it again until a reply arrives. Returns the status code and the number.
fn ask(server: SocketAddr, op: u8, number: u64) -> (u16, Option<u64>) {
    let body = OdometerNumber {
        number: number.into(),
    };
    let header = native::request_header(op, 7, size_of::<OdometerNumber>() as u16);
    let request = [header.as_bytes(), body.as_bytes()].concat();
    let read = |reply: &[u8]| {
        let (header, body) = NativeHeader::ref_from_prefix(reply).ok()?;
        let number = OdometerNumber::ref_from_bytes(body)
            .ok()
            .map(|body| body.number.get());
        Some(Ok((header.status.get(), number)))
    };
    let socket = exchange::open(server).expect("a socket");
    let answer = exchange::exchange(&socket, server, Duration::from_secs(10), &request, read);
    answer.unwrap_or_else(|error| panic!("{error:?}")).0
}

fn start(text: &str) -> Daemon {
    let config = Config::parse(text, SERVICES).unwrap_or_else(|issue| panic!("{issue}"));
    let checked = config.check().unwrap_or_else(|error| panic!("{error}"));
    Daemon::start(checked).unwrap_or_else(|error| panic!("{error:#}"))
}

#[test]
fn a_number_is_added_to_read_and_shown_in_the_status() {
    let text =
        "[datapath]\nkind = \"socket\"\nthreads = 1\n[odometer]\nenabled = true\nlisten = \"127.0.0.1:0\"\n";
    let daemon = start(text);
    let serving = daemon.serving();
    assert_eq!((serving.len(), serving[0].name), (1, "odometer"));
    let server = serving[0].listen;

    assert_eq!(ask(server, ODOMETER_OP_READ, 0), (0, Some(0)));
    assert_eq!(ask(server, ODOMETER_OP_ADD, 5), (0, Some(5)));
    assert_eq!(ask(server, ODOMETER_OP_READ, 0), (0, Some(5)));
    assert_eq!(ask(server, ODOMETER_OP_ADD, 1 << 40), (0, Some(5 + (1 << 40))));
    assert_eq!(ask(server, ODOMETER_OP_READ, 0), (0, Some(5 + (1 << 40))));
    let refused = (Status::BadRequest as u16, None);
    assert_eq!(ask(server, ODOMETER_OP_ADD, u64::MAX), refused);
    assert_eq!(ask(server, 9, 0), refused);

    // The server counts a reply after it has sent it, so the count of the last reply may be missing at first.
    let observe = daemon.observed();
    let deadline = Instant::now() + Duration::from_secs(10);
    let mut observed = observe();
    while observed.services[0].host["host_replies"] < 4 && Instant::now() < deadline {
        observed = observe();
    }
    assert_eq!((observed.services.len(), observed.faults()), (1, Vec::new()));
    let status = &observed.services[0];
    assert_eq!(
        (status.name.as_str(), status.datapath.as_str()),
        ("odometer", "socket")
    );
    assert!(status.lease_left_ms > Some(30_000), "{status:?}");
    let counters = &status.counters["socket"];
    // A request that was sent again is counted again.
    assert!(
        counters["reads"] >= 3 && counters["forwarded"] >= 4,
        "{counters:?}"
    );
    assert!(
        counters["fastpath_replies"] >= 3 && status.host["host_replies"] >= 4,
        "{status:?}"
    );
    daemon.stop().expect("the daemon stops without an error");
    assert_eq!(observed.services[0].listen, server.to_string());
    let socket = std::net::UdpSocket::bind(server);
    assert!(socket.is_ok(), "the port is free again: {socket:?}");
}

#[test]
fn an_unknown_key_of_the_section_is_refused_with_its_line() {
    let config = Config::parse("[odometer]\nenabled = true\nspeed = 3\n", SERVICES).expect("a text");
    let error = config.check().err().expect("a wrong configuration");
    assert_eq!(error.issues[0].line, Some(3), "{error}");
    let issue = Config::parse("[spv]\nenabled = true\n", SERVICES).expect_err("no such service here");
    assert!(issue.to_string().contains("odometer"), "{issue}");
}
