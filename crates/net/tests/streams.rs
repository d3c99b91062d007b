//! Native packets over TCP: split into pieces, several at once, invalid ones, and from clients that never read.

use lineside_fastpath::{BatchHost, BatchRequest, FastPath, Readers, Reply, RequestOutcome, Source, Verdict};
use lineside_net::{SocketDatapath, SocketOptions};
use lineside_wire::{NativeHeader, Status, native};
use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use zerocopy::{FromBytes, IntoBytes};

/// Operation that the fast path answers. The host answers all other operations.
const FASTPATHS: u8 = 1;
const HOSTS: u8 = 2;
/// Operation answered with a body as large as a packet may be.
const LARGE: u8 = 3;
const LARGE_BYTES: usize = 60_000;
/// Maximum number of connections of one network (crates/net/src/admission.rs).
const CONNECTIONS: usize = 128;

#[derive(Default)]
struct Echo {
    said: VecDeque<Vec<RequestOutcome>>,
}

fn reply_to(request: &[u8], body: &[u8]) -> Vec<u8> {
    let (header, _) = NativeHeader::ref_from_prefix(request).unwrap();
    let header = native::reply_header(header, Status::Ok, body.len() as u16);
    [header.as_bytes(), body].concat()
}

impl FastPath for Echo {
    fn answer(&self, _: Source, _: u64, request: &[u8], reply: &mut Reply) -> Verdict {
        if request[3] != FASTPATHS {
            return Verdict::Forward;
        }
        assert!(reply.put(&reply_to(request, &request[16..])));
        Verdict::Reply
    }
}

impl BatchHost for Echo {
    fn execute(&mut self, asked: &[BatchRequest<'_>]) {
        let reply = |asked: &BatchRequest<'_>| match asked.payload[3] {
            LARGE => reply_to(asked.payload, &vec![7; LARGE_BYTES]),
            _ => reply_to(asked.payload, &asked.payload[16..]),
        };
        let said = asked.iter().map(|asked| RequestOutcome::reply(reply(asked)));
        self.said.push_back(said.collect());
    }

    fn take(&mut self, _waits: bool) -> Option<Vec<RequestOutcome>> {
        self.said.pop_front()
    }

    fn idle(&mut self) {}
}

fn serve() -> SocketDatapath {
    let options = SocketOptions {
        listen: "127.0.0.1:0".parse().unwrap(),
        threads: 1,
        queue: 64,
    };
    SocketDatapath::start_batched(
        options,
        Arc::new(Echo::default()),
        Box::new(Echo::default()),
        &Readers::default(),
    )
    .unwrap()
}

fn connect(server: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(server).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

fn packet(op: u8, id: u64, body: &[u8]) -> Vec<u8> {
    [native::request_header(op, id, body.len() as u16).as_bytes(), body].concat()
}

/// Reads a reply and returns its request id and its body.
fn read(stream: &mut TcpStream) -> std::io::Result<(u64, Vec<u8>)> {
    let mut head = [0; 16];
    stream.read_exact(&mut head)?;
    let header = NativeHeader::ref_from_bytes(&head).unwrap();
    let mut body = vec![0; header.length.get().into()];
    stream.read_exact(&mut body)?;
    Ok((header.request_id.get(), body))
}

#[test]
fn packets_are_answered_whether_split_or_concatenated() {
    let datapath = serve();
    let mut stream = connect(datapath.local_addr());
    for (id, op) in [(1, FASTPATHS), (2, HOSTS)] {
        for byte in packet(op, id, b"one by one") {
            stream.write_all(&[byte]).unwrap();
        }
        assert_eq!(read(&mut stream).unwrap(), (id, b"one by one".to_vec()));
    }
    let body = vec![5; 3000];
    let packets: Vec<Vec<u8>> = (10..510)
        .map(|id| {
            packet(
                if id % 2 == 0 { FASTPATHS } else { HOSTS },
                id,
                &body[..id as usize],
            )
        })
        .collect();
    let bytes = packets.concat();
    let mut writer = stream.try_clone().unwrap();
    let sender = std::thread::spawn(move || {
        // The packets arrive in pieces that end at arbitrary offsets.
        for piece in bytes.chunks(1789) {
            writer.write_all(piece).unwrap();
        }
    });
    let mut ids: Vec<u64> = (10..510)
        .map(|_| {
            let (id, found) = read(&mut stream).unwrap();
            assert_eq!(found, body[..id as usize]);
            id
        })
        .collect();
    sender.join().unwrap();
    ids.sort_unstable();
    assert_eq!(ids, (10..510).collect::<Vec<_>>(), "each once");
}

#[test]
fn input_that_is_not_a_packet_ends_only_its_own_connection() {
    let datapath = serve();
    let mut good = connect(datapath.local_addr());
    for garbage in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0; 64], &[0xff; 16]] {
        let mut bad = connect(datapath.local_addr());
        bad.write_all(&packet(FASTPATHS, 1, b"first")).unwrap();
        assert_eq!(read(&mut bad).unwrap().0, 1);
        bad.write_all(garbage).unwrap();
        let ended = bad.read(&mut [0; 16]);
        assert!(
            matches!(&ended, Ok(0)) || ended.is_err_and(|error| error.kind() == ErrorKind::ConnectionReset)
        );
        good.write_all(&packet(HOSTS, 2, b"still there")).unwrap();
        assert_eq!(read(&mut good).unwrap().1, b"still there");
    }
}

#[test]
fn a_client_that_never_reads_is_disconnected_and_delays_no_other() {
    let datapath = serve();
    let (mut deaf, mut good) = (connect(datapath.local_addr()), connect(datapath.local_addr()));
    deaf.set_write_timeout(Some(Duration::from_secs(30))).unwrap();
    let began = Instant::now();
    let mut asked = 0;
    while deaf.write_all(&packet(LARGE, asked, b"")).is_ok() {
        asked += 1;
        good.write_all(&packet(HOSTS, asked, b"hello")).unwrap();
        assert_eq!(read(&mut good).unwrap(), (asked, b"hello".to_vec()));
        assert!(
            began.elapsed() < Duration::from_secs(60),
            "{asked} replies of {LARGE_BYTES} bytes are waiting"
        );
    }
    assert!(asked > 10, "the kernel's buffers are filled first");
}

#[test]
fn a_slow_reader_gets_everything() {
    let datapath = serve();
    let mut stream = connect(datapath.local_addr());
    // The replies are more than the kernel's buffers hold at first, and less than the server's limit for waiting
    // replies.
    for id in 0..16 {
        stream.write_all(&packet(LARGE, id, b"")).unwrap();
    }
    for id in 0..200 {
        let (found, body) = read(&mut stream).unwrap();
        assert_eq!((found, body.len()), (id, LARGE_BYTES));
        assert!(body.iter().all(|byte| *byte == 7));
        stream.write_all(&packet(LARGE, id + 16, b"")).unwrap();
    }
}

#[test]
fn a_client_that_has_shut_its_sending_side_gets_all_its_replies() {
    let datapath = serve();
    for op in [FASTPATHS, HOSTS, LARGE] {
        let mut stream = connect(datapath.local_addr());
        let requests: Vec<u8> = (0..10).flat_map(|id| packet(op, id, b"the last")).collect();
        stream.write_all(&requests).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let ids: Vec<u64> = (0..10).map(|_| read(&mut stream).unwrap().0).collect();
        assert_eq!(ids, (0..10).collect::<Vec<u64>>());
        assert_eq!(stream.read(&mut [0]).unwrap(), 0, "then the connection ends");
    }
    let mut torn = connect(datapath.local_addr());
    torn.write_all(&packet(HOSTS, 1, b"torn")[..10]).unwrap();
    torn.shutdown(std::net::Shutdown::Write).unwrap();
    assert!(
        matches!(torn.read(&mut [0]), Ok(0) | Err(_)),
        "half a packet gets no reply"
    );
}

/// 512 connections without traffic from four addresses do not keep clients of other addresses out.
#[test]
fn silent_connections_are_replaced_by_those_of_other_clients() {
    let datapath = serve();
    let from = |address: [u8; 4]| -> TcpStream {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::from((address, 0)).into()).unwrap();
        socket.connect(&datapath.local_addr().into()).unwrap();
        socket.into()
    };
    let silent: Vec<TcpStream> = (0..4 * CONNECTIONS)
        .map(|number| from([127, 0, 1, (number % 4) as u8 + 1]))
        .collect();
    let mut honest = Vec::new();
    for number in 0..20 {
        let mut stream = from([127, 0, 2, number + 1]);
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream.write_all(&packet(HOSTS, 7, b"x")).unwrap();
        assert_eq!(read(&mut stream).unwrap().0, 7, "client {number}");
        honest.push(stream);
    }
    for stream in &mut honest {
        stream.write_all(&packet(HOSTS, 8, b"x")).unwrap();
        assert_eq!(
            read(stream).unwrap().0,
            8,
            "honest clients keep their connections"
        );
    }
    assert_eq!(datapath.counts().connections.load(Relaxed), 512);
    assert_eq!(datapath.since_refusal(), None);
    drop(silent);
}

#[test]
fn the_number_of_connections_of_one_network_is_limited() {
    let datapath = serve();
    let ask = |stream: &mut TcpStream| {
        stream.write_all(&packet(FASTPATHS, 9, b"x"))?;
        read(stream)
    };
    let mut streams: Vec<TcpStream> = (0..CONNECTIONS)
        .map(|_| {
            let mut stream = connect(datapath.local_addr());
            assert_eq!(ask(&mut stream).unwrap().0, 9);
            stream
        })
        .collect();
    let mut one_more = connect(datapath.local_addr());
    assert!(ask(&mut one_more).is_err());
    let elsewhere = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    let other: SocketAddr = "127.0.0.2:0".parse().unwrap();
    elsewhere.bind(&other.into()).unwrap();
    elsewhere.connect(&datapath.local_addr().into()).unwrap();
    assert!(
        ask(&mut elsewhere.into()).is_ok(),
        "another address has its own limit"
    );
    streams.pop();
    let began = Instant::now();
    while ask(&mut connect(datapath.local_addr())).is_err() {
        assert!(
            began.elapsed() < Duration::from_secs(30),
            "a connection that became free is used again"
        );
    }
}
