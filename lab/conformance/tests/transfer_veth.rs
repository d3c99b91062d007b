//! Tests of `transfer` on a veth pair in native mode, with a client in another namespace, over both address families
//! and in both modes. The client's kernel sends partial checksums (the sum of the pseudo-header), and verifies the
//! checksums of replies.

mod ledger;
use ledger::{CREATE, REFER, Server, TRANSFER, may_load_bpf, paper};
use lineside_client::transfer::{Client, Session};
use lineside_fastpath::DropReason;
use lineside_testkit::PacketSocket;
use lineside_testkit::netns::Wire;
use lineside_transfer::AccountId;
use lineside_transfer::ring::Ring;
use lineside_transfer::store::Mode;
use lineside_wire::frame::{Addressing, build};
use lineside_wire::{
    ExecuteHead, Operation, Status, TRANSFER_OP_EXECUTE, TransferCode as Code, TransferCounter as Counter,
    native,
};
use lineside_xdp::{AttachedMode, Interface, XdpDatapath, XdpMode};
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};
use zerocopy::{FromZeros, IntoBytes};

const FRAME_TIMEOUT: Duration = Duration::from_secs(10);
const MOVES: u32 = 200;

/// Returns a veth pair whose client side receives XDP_TX frames. A veth delivers such frames only to an interface that
/// also has an XDP program.
fn wire() -> Option<(Wire, XdpDatapath)> {
    if !may_load_bpf() {
        return None;
    }
    let wire = Wire::new()?;
    let pass = wire.client.run(|| {
        let mut pass = XdpDatapath::load(Vec::new(), None).expect("load");
        let x0 = Interface::find("x0").expect("x0");
        pass.attach(&x0, XdpMode::Native).expect("attach");
        pass
    });
    Some((wire, pass))
}

fn start(wire: &Wire, mode: Mode) -> Server {
    let server = wire
        .server
        .run(move || Server::start(mode, "x1", XdpMode::Native));
    assert_eq!(server.mode, AttachedMode::Native);
    server
}

fn socket(server: SocketAddr) -> UdpSocket {
    let any = if server.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(any).expect("a socket");
    socket.set_read_timeout(Some(FRAME_TIMEOUT)).expect("a timeout");
    socket.connect(server).expect("connecting");
    socket
}

fn ask(socket: &UdpSocket, request: &[u8]) -> Vec<u8> {
    socket.send(request).expect("sending");
    let mut reply = vec![0; 2048];
    let bytes = socket.recv(&mut reply).expect("an answer");
    reply.truncate(bytes);
    reply
}

/// Creates two accounts and sends [`MOVES`] transfers of 1 with transaction ids, each twice, in packets of 20, 21 and
/// 22 bytes.
fn move_ones(socket: &UdpSocket, first: u32) {
    let (from, to) = (first, first + 1);
    assert_eq!(
        ask(socket, &paper(CREATE, 1, from, 0, 1000)),
        paper(CREATE, 1, from, 0, 1000)
    );
    assert_eq!(
        ask(socket, &paper(CREATE, 1, to, 0, 0)),
        paper(CREATE, 1, to, 0, 0)
    );
    for number in 1..=MOVES {
        let padded = |amount| {
            let mut packet = paper(TRANSFER, number + 1, from, to, amount);
            packet.resize(20 + number as usize % 3, 0);
            packet
        };
        let expected = padded(1000 - number);
        assert_eq!(ask(socket, &padded(1)), expected);
        assert_eq!(
            ask(socket, &padded(1)),
            expected,
            "the repeated request must get the same reply"
        );
    }
    let stale = ask(socket, &paper(TRANSFER, 3, from, to, 1));
    assert_eq!(
        stale,
        paper(TRANSFER | 1 << 31, 3, from, to, Code::StaleId as u32)
    );
    for (account, holds) in [(from, 1000 - MOVES), (to, MOVES)] {
        let balance = ask(socket, &paper(REFER, 0, account, 0, 0));
        assert_eq!(balance, paper(REFER, 0, account, 0, holds));
    }
}

fn operation(source: u32, destination: u32, amount: u64) -> Operation {
    let mut operation = Operation::new_zeroed();
    operation.command = TRANSFER as u8;
    operation.source = AccountId::from_paper(source).0;
    operation.destination = AccountId::from_paper(destination).0;
    operation.amount = amount.into();
    operation
}

/// Number of requests that [`move_ones`] sends: two accounts, each transfer twice, one with a stale id, and two
/// balances.
const ASKED: u64 = 2 + 2 * MOVES as u64 + 1 + 2;

const SERVERS: [(&str, u32); 2] = [("10.0.0.2:7702", 1), ("[fd00::2]:7702", 3)];

#[test]
fn express_operations_are_executed_in_xdp_and_journaled_by_the_host() {
    let Some((wire, _pass)) = wire() else { return };
    let mut server = start(&wire, Mode::Express);
    for (round, (address, first)) in (1..).zip(SERVERS) {
        wire.client
            .run(move || move_ones(&socket(address.parse().expect("an address")), first));
        assert_eq!(
            server.count(Counter::Replies),
            round * ASKED,
            "the fast path must answer all requests"
        );
        assert_eq!(
            server.count(Counter::Repeats),
            round * (u64::from(MOVES) + 1),
            "the repeated transfers and the one with a stale id are detected"
        );
    }
    assert_eq!((server.host_replies(), server.count(Counter::Busy)), (0, 0));
    server.drained();
    // The host opens sessions, and the fast path executes their packets. The host executes linked operations.
    let (resent_to_line, resent_to_host) = wire.client.run(|| {
        let mut client =
            Client::connect("10.0.0.2:7702".parse().expect("an address"), FRAME_TIMEOUT).expect("client");
        let mut session = client.open().expect("a session");
        let to_open = client.resent();
        let at_line = client.execute(&mut session, &[operation(1, 2, 5), operation(3, 4, 6)]);
        let at_line = at_line.expect("executed");
        let to_line = client.resent() - to_open;
        assert!(!at_line.is_durable);
        let amounts: Vec<u64> = at_line
            .outcomes
            .iter()
            .filter_map(|outcome| outcome.balance)
            .collect();
        assert_eq!(amounts, [1000 - 200 - 5, 1000 - 200 - 6]);
        let mut linked = [operation(1, 2, 5), operation(2, 1, 3)];
        linked[0].flags = 1;
        let by_host = client.execute(&mut session, &linked).expect("executed");
        assert!(by_host.is_durable);
        assert_eq!(by_host.outcomes[1].balance, Some(200 + 5 + 5 - 3));
        (to_line, client.resent() - to_line)
    });
    // On a busy machine the client may send a packet again. The program then counts one more packet, and no other
    // counter changes.
    assert_eq!(server.count(Counter::Replies), 2 * ASKED + 1 + resent_to_line);
    assert_eq!(
        server.count(Counter::Repeats),
        2 * (u64::from(MOVES) + 1) + resent_to_line
    );
    assert_eq!(
        server.count(Counter::Forwarded),
        3 + resent_to_host,
        "two opens and the linked operations"
    );
    server.drained();
    let told = wire.server.run(move || server.end());
    // A request with a stale id is refused, and is not recorded.
    assert_eq!(told.operations, 2 * (2 + u64::from(MOVES)) + 2 + 2);
    assert_eq!((told.accounts, told.balances), (4, 2000));
}

/// Returns a packet of a session with one operation.
fn packet(session: &Session, sequence: u64, operation: &Operation) -> Vec<u8> {
    let head = ExecuteHead {
        token: session.token.into(),
        sequence: sequence.into(),
        slot: session.slot.into(),
        count: 1.into(),
        durability: 0.into(),
    };
    let bytes = size_of::<ExecuteHead>() + size_of::<Operation>();
    let header = native::request_header(TRANSFER_OP_EXECUTE, sequence, bytes as u16);
    [header.as_bytes(), head.as_bytes(), operation.as_bytes()].concat()
}

#[test]
fn a_source_refused_too_often_is_sent_to_the_host_and_others_stay_in_xdp() {
    const GOOD: u64 = 100;
    // Maximum number of refused packets that the host has not charged yet.
    const BURST: u64 = 16;
    let Some((wire, _pass)) = wire() else { return };
    let mut server = start(&wire, Mode::Express);
    let address = |text: &str| -> SocketAddr { text.parse().expect("an address") };
    let [attacked, honest] = SERVERS.map(|(text, _)| address(text));
    let open = move |server| {
        let mut client = Client::connect(server, FRAME_TIMEOUT).expect("client");
        (client.open().expect("a session"), client.resent())
    };
    let store = Arc::clone(&server.store);
    let (session, sequence, took) = wire.client.run(move || {
        let (socket, began) = (socket(attacked), Instant::now());
        ask(&socket, &paper(CREATE, 0, 1, 0, 1000));
        ask(&socket, &paper(CREATE, 0, 2, 0, 0));
        let ((session, _), mut sequence) = (open(attacked), 1);
        // Refusals are answered until the minute's credit is used up, and until the host has charged the packets in the
        // ring.
        while ask(&socket, &packet(&session, sequence, &operation(8, 9, 1)))[5] == Status::Ok as u8 {
            sequence += 1;
            assert!(sequence < 20_000, "without a limit");
            while sequence.is_multiple_of(BURST) && Ring::waiting_in(&store) > 0 {
                std::thread::yield_now();
            }
        }
        (session, sequence, began.elapsed())
    });
    let most = 16 * 60 + 16 * (took.as_secs() + 1) + 4 * BURST;
    assert!((16 * 60..=most).contains(&sequence), "{sequence} of {most}");
    server.drained();
    let before = [Counter::Replies, Counter::Forwarded].map(|counter| server.count(counter));
    let resent = wire.client.run(move || {
        let (socket, (session, resent)) = (socket(honest), open(honest));
        for sequence in 1..=GOOD {
            let reply = ask(&socket, &packet(&session, sequence, &operation(1, 2, 1)));
            assert_eq!(reply[5], Status::Ok as u8);
        }
        resent
    });
    let after = [Counter::Replies, Counter::Forwarded].map(|counter| server.count(counter));
    assert_eq!(
        after[0] - before[0],
        GOOD,
        "the fast path must answer all requests"
    );
    assert_eq!(
        after[1] - before[1],
        2 + resent,
        "the host must answer only the opening of sessions"
    );
    // Valid requests are executed at once: by the host, and by the fast path when the source has credit again.
    let (end, mut done) = (Instant::now() + 3 * FRAME_TIMEOUT, 0);
    while server.count(Counter::Replies) == after[0] {
        assert!(
            Instant::now() < end,
            "the fast path never executes the session again"
        );
        let (from, to) = if done % 2 == 0 { (1, 2) } else { (2, 1) };
        let good = packet(&session, sequence + done, &operation(from, to, 1));
        let status = wire.client.run(move || ask(&socket(attacked), &good)[5]);
        assert_eq!(status, Status::Ok as u8, "{done}");
        done += 1;
    }
    server.drained();
    let told = wire.server.run(move || server.end());
    assert_eq!(told.operations, 2 + GOOD + done);
}

#[test]
fn in_durable_mode_xdp_answers_refer_and_the_host_executes() {
    let Some((wire, _pass)) = wire() else { return };
    let mut server = start(&wire, Mode::Durable);
    for (round, (address, first)) in (1..).zip(SERVERS) {
        wire.client
            .run(move || move_ones(&socket(address.parse().expect("an address")), first));
        assert_eq!(
            server.count(Counter::Replies),
            round * 2,
            "the fast path answered REFER"
        );
        assert_eq!(server.count(Counter::Forwarded), round * (ASKED - 2));
    }
    let told = wire.server.run(move || {
        // The server counts a reply after it has sent it, so the counters are final only when its threads have ended.
        server.socket.stop();
        assert_eq!(server.host_replies(), 2 * (ASKED - 2));
        server.end()
    });
    assert_eq!(
        (told.operations, told.balances),
        (2 * (2 + u64::from(MOVES)), 2000)
    );
}

/// The reply to the paper's REFER of an empty account has the bytes of the request. A server that received this reply
/// would answer it again, and so on.
#[test]
fn a_forged_refer_does_not_loop_between_two_servers() {
    // No service uses these ports. The servers answer no requests from the port of a service.
    const PORTS: [u16; 2] = [7711, 7712];
    const EMPTY: u32 = 9;
    let Some((wire, pass)) = wire() else { return };
    // The program of the other server replaces the program that lets replies pass.
    wire.client.run(move || drop(pass));
    let at = |port, interface| move || Server::start_at(port, Mode::Durable, interface, XdpMode::Native);
    let mut one = wire.server.run(at(PORTS[0], "x1"));
    let mut other = wire.client.run(at(PORTS[1], "x0"));
    let create = paper(CREATE, 1, EMPTY, 0, 0);
    for server in [("10.0.0.2", PORTS[0]), ("10.0.0.1", PORTS[1])] {
        let (address, request) = (
            SocketAddr::new(server.0.parse().unwrap(), server.1),
            create.clone(),
        );
        let reply = wire.client.run(move || ask(&socket(address), &request));
        assert_eq!(reply, create);
    }
    for (source, destination) in [("10.0.0.1", "10.0.0.2"), ("fd00::1", "fd00::2")] {
        let forged = Addressing {
            source_mac: [2, 0, 0, 0, 0, 1],
            destination_mac: [2, 0, 0, 0, 0, 2],
            vlan: None,
            source: source.parse().unwrap(),
            destination: destination.parse().unwrap(),
            source_port: PORTS[1],
            destination_port: PORTS[0],
        };
        let before = [one.count(Counter::Replies), other.count(Counter::Replies)];
        let stopped = |server: &Server| {
            let drops = &server.socket.counts().drops[DropReason::HopLimit as usize];
            drops.load(std::sync::atomic::Ordering::Relaxed)
        };
        let ended = stopped(&one) + stopped(&other);
        // A lost packet ends the exchange early; the test then sends another packet.
        let mut sent = 0;
        while stopped(&one) + stopped(&other) == ended {
            assert!(sent < 20, "the servers still answer each other after 20 packets");
            wire.client.run(move || {
                let mut frame = [0; 256];
                let bytes = build(&mut frame, &forged, &paper(REFER, 0, EMPTY, 0, 0)).expect("a frame");
                let wire = PacketSocket::open("x0").expect("a packet socket");
                wire.send(&frame[..bytes]).expect("sending");
            });
            sent += 1;
            let end = Instant::now() + Duration::from_secs(1);
            while stopped(&one) + stopped(&other) == ended && Instant::now() < end {
                std::thread::yield_now();
            }
        }
        // Each packet arrives with a hop limit of 64, and the last copy of it is not answered.
        let replies = one.count(Counter::Replies) - before[0] + other.count(Counter::Replies) - before[1];
        assert!(
            (63..=63 * sent).contains(&replies),
            "{replies} replies to {sent} packets"
        );
    }
    wire.server.run(move || one.end());
    wire.client.run(move || other.end());
}

#[test]
fn malformed_requests_move_no_money() {
    let Some((wire, _pass)) = wire() else { return };
    let mut server = start(&wire, Mode::Express);
    wire.client.run(|| {
        let socket = socket("10.0.0.2:7702".parse().expect("an address"));
        ask(&socket, &paper(CREATE, 0, 1, 0, 10));
        ask(&socket, &paper(CREATE, 0, 2, 0, 0));
        // The packet is not a request: the server counts a drop and does not answer it. The next answer belongs to the
        // next request.
        socket.send(&paper(TRANSFER, 0, 1, 2, 1)[..19]).expect("sending");
        socket
            .send(&paper(TRANSFER | 1 << 31, 0, 1, 2, 1))
            .expect("sending");
        assert_eq!(ask(&socket, &paper(REFER, 0, 1, 0, 0)), paper(REFER, 0, 1, 0, 10));
    });
    use lineside_fastpath::DropReason::{NotARequest, ReplyBit};
    assert_eq!((server.drops(NotARequest), server.drops(ReplyBit)), (1, 1));
    let told = wire.server.run(move || server.end());
    assert_eq!(told.operations, 2);
}
