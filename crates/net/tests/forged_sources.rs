//! Requests with forged source addresses. If the sources are addresses that no machine on the link has, the replies to
//! them must not hold up replies to other clients. If the source is another server, the two must not answer each other
//! forever.
//!
//! The attacker and an honest client share one network namespace; the server has another one. The server's kernel
//! queues the replies to forged sources while it tries to resolve their addresses.

use lineside_fastpath::{
    AsyncHost, BatchHost, BatchRequest, DropReason, FastPath, Host, Reader, Readers, Reply, RequestOutcome,
    Responder, Source, Verdict,
};
use lineside_net::{SocketDatapath, SocketOptions};
use lineside_testkit::PacketSocket;
use lineside_testkit::netns::Wire;
use lineside_wire::frame::{Addressing, build};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

const PORT: u16 = 7900;
const REQUEST_BYTES: usize = 1000;
/// Time that the honest client waits for one answer.
const READ_TIMEOUT: Duration = Duration::from_millis(250);
/// Number of forged requests in a burst.
const BURST: u32 = 40;
/// Pause between two bursts, so that an attack sends 4,000 requests a second.
const PAUSE: Duration = Duration::from_millis(10);
/// Number of bursts in an attack, which therefore lasts for a second and a half.
const BURSTS: u32 = 150;
/// Time for which the honest client continues to send after the attack.
const QUIET: Duration = Duration::from_secs(1);
/// Maximum time until the host has counted the requests that it has answered.
const FINISH_TIMEOUT: Duration = Duration::from_secs(20);

/// Fast path that echoes each request, or forwards everything to the host.
struct Mirror {
    answers: bool,
}

impl FastPath for Mirror {
    fn answer(&self, _: Source, _: u64, request: &[u8], reply: &mut Reply) -> Verdict {
        if self.answers && reply.put(request) {
            Verdict::Reply
        } else {
            Verdict::Forward
        }
    }
}

/// Host that echoes each request. It implements the traits of all three kinds of hosts.
#[derive(Default)]
struct MirrorHost(Vec<Vec<RequestOutcome>>);

impl Host for MirrorHost {
    fn serve(&self, _: Source, request: &[u8], reply: &mut Reply, sender: &Reader) -> Verdict {
        sender.pin();
        if reply.put(request) {
            Verdict::Reply
        } else {
            Verdict::Forward
        }
    }
}

impl BatchHost for MirrorHost {
    fn execute(&mut self, asked: &[BatchRequest<'_>]) {
        let said = asked
            .iter()
            .map(|asked| RequestOutcome::reply(asked.payload.to_vec()));
        self.0.push(said.collect());
    }

    fn take(&mut self, _waits: bool) -> Option<Vec<RequestOutcome>> {
        (!self.0.is_empty()).then(|| self.0.remove(0))
    }

    fn idle(&mut self) {}
}

impl AsyncHost for MirrorHost {
    fn take(&self, asked: Vec<Vec<u8>>, back: Arc<dyn Responder>) {
        back.send(asked.into_iter().enumerate().collect());
    }
}

/// Function that starts a datapath on every address of the namespace.
type Start = fn(SocketOptions, &Readers) -> std::io::Result<SocketDatapath>;

fn forged(source: SocketAddr, server: SocketAddr) -> Vec<u8> {
    let datagram = Addressing {
        source_mac: [2, 0, 0, 0, 0, 1],
        destination_mac: [2, 0, 0, 0, 0, 2],
        vlan: None,
        source: source.ip(),
        destination: server.ip(),
        source_port: source.port(),
        destination_port: server.port(),
    };
    let mut frame = vec![0; REQUEST_BYTES + 100];
    let bytes = build(&mut frame, &datagram, &[7; REQUEST_BYTES]).expect("a frame");
    frame.truncate(bytes);
    frame
}

/// Sends the forged requests of one attack, from `sources` addresses that no machine has.
fn attack(server: SocketAddr, sources: u32) {
    let socket = PacketSocket::open("x0").expect("a packet socket");
    for number in 0..BURSTS * BURST {
        let host = 100 + number % sources;
        let source = match server.ip() {
            IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::from(0x0a00_0000 + host)),
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::from((0xfd00 << 112) + u128::from(host))),
        };
        let source = SocketAddr::new(source, 20_000 + (number % 20_000) as u16);
        socket.send(&forged(source, server)).expect("sending");
        if (number + 1) % BURST == 0 {
            std::thread::sleep(PAUSE);
        }
    }
}

/// Sends requests until the thread `attacker` has ended, and then for [`QUIET`] longer. Returns the numbers of requests
/// that were answered and sent.
fn ask(server: SocketAddr, attacker: &std::thread::JoinHandle<()>) -> (u32, u32) {
    let any: SocketAddr = if server.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" }
        .parse()
        .unwrap();
    let socket = UdpSocket::bind(any).expect("a socket");
    socket.connect(server).expect("connecting");
    socket.set_read_timeout(Some(READ_TIMEOUT)).expect("a timeout");
    let (mut answered, mut sent, mut end) = (0, 0, None);
    let mut reply = [0; REQUEST_BYTES];
    while end.is_none_or(|end| Instant::now() < end) {
        if end.is_none() && attacker.is_finished() {
            end = Some(Instant::now() + QUIET);
        }
        let mut request = [1; REQUEST_BYTES];
        sent += 1;
        request[..4].copy_from_slice(&u32::to_be_bytes(sent));
        socket.send(&request).expect("sending");
        // A late answer belongs to an earlier request, which already counts as lost.
        while let Ok(bytes) = socket.recv(&mut reply) {
            if reply[..bytes] == request {
                answered += 1;
                break;
            }
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    (answered, sent)
}

/// Attacks a server of each address family from one forged source, then from a hundred.
fn honest_clients_are_answered(start: Start) {
    let Some(wire) = Wire::new() else { return };
    let datapath = wire.server.run(move || {
        let options = SocketOptions {
            listen: (Ipv6Addr::UNSPECIFIED, PORT).into(),
            threads: 1,
            queue: 4096,
        };
        start(options, &Readers::new(false)).expect("listening")
    });
    let client = Arc::new(wire.client);
    for server in ["10.0.0.2", "fd00::2"] {
        let server = SocketAddr::new(server.parse().unwrap(), PORT);
        for sources in [1, 100] {
            let before = datapath.counts().unsent.load(Relaxed);
            let attacker = client.spawn(move || attack(server, sources));
            let (answered, sent) = client.run(move || {
                let counted = ask(server, &attacker);
                attacker.join().expect("the attacker ends");
                counted
            });
            let unsent = datapath.counts().unsent.load(Relaxed) - before;
            let case = format!("{server}, {sources} forged sources: {answered} of {sent}, {unsent} unsent");
            assert!(sent >= 50 && answered * 100 >= sent * 95, "{case}");
            // The attack had an effect: replies to the forged sources were withheld or lost.
            assert!(unsent > 0, "{case}");
            println!("{case}");
        }
    }
    // The host finishes all requests, and is not reported as stalled then. It counts a request after it has sent the
    // reply, so the last ones may still count as waiting.
    let end = Instant::now() + FINISH_TIMEOUT;
    while (datapath.waiting(), datapath.stalled()) != (0, Duration::ZERO) {
        let left = (datapath.waiting(), datapath.stalled());
        assert!(Instant::now() < end, "the host does not finish: {left:?}");
        std::thread::yield_now();
    }
}

#[test]
fn forged_sources_do_not_delay_replies_of_a_fast_path() {
    honest_clients_are_answered(|options, readers| {
        let fastpath = Arc::new(Mirror { answers: true });
        SocketDatapath::start(options, fastpath, Arc::new(MirrorHost::default()), readers)
    });
}

#[test]
fn forged_sources_do_not_delay_replies_of_a_host() {
    honest_clients_are_answered(|options, readers| {
        let fastpath = Arc::new(Mirror { answers: false });
        SocketDatapath::start(options, fastpath, Arc::new(MirrorHost::default()), readers)
    });
}

#[test]
fn forged_sources_do_not_delay_replies_of_a_batch_host() {
    honest_clients_are_answered(|options, readers| {
        let fastpath = Arc::new(Mirror { answers: false });
        SocketDatapath::start_batched(options, fastpath, Box::new(MirrorHost::default()), readers)
    });
}

#[test]
fn forged_sources_do_not_delay_replies_of_an_async_host() {
    honest_clients_are_answered(|options, readers| {
        let fastpath = Arc::new(Mirror { answers: false });
        SocketDatapath::start_async(options, fastpath, Arc::new(MirrorHost::default()), readers)
    });
}

#[test]
fn a_reply_loop_between_two_servers_ends_with_the_hop_limit() {
    let Some(wire) = Wire::new() else { return };
    let start = |at: &str, answers| {
        let options = SocketOptions {
            listen: SocketAddr::new(at.parse().unwrap(), PORT + u16::from(at.ends_with('1'))),
            threads: 1,
            queue: 64,
        };
        let host = Arc::new(MirrorHost::default());
        SocketDatapath::start(options, Arc::new(Mirror { answers }), host, &Readers::new(false))
    };
    // One server answers from its fast path, the other one through its host.
    for (one, other) in [("10.0.0.2", "10.0.0.1"), ("fd00::2", "fd00::1")] {
        let first = wire.server.run(move || start(one, true).expect("listening"));
        let second = wire.client.run(move || start(other, false).expect("listening"));
        let frame = forged(second.local_addr(), first.local_addr());
        let dropped = || {
            let of = |datapath: &SocketDatapath| {
                datapath.counts().drops[DropReason::HopLimit as usize].load(Relaxed)
            };
            of(&first) + of(&second)
        };
        // If a packet is lost, the reply loop ends too early, so the test then sends another packet.
        let mut sent = 0;
        while dropped() == 0 {
            assert!(sent < 20, "the servers still answer each other");
            let frame = frame.clone();
            wire.client
                .run(move || PacketSocket::open("x0").unwrap().send(&frame).unwrap());
            sent += 1;
            let end = Instant::now() + Duration::from_secs(1);
            while dropped() == 0 && Instant::now() < end {
                std::thread::yield_now();
            }
        }
        let received = [&first, &second].map(|datapath| datapath.counts().received.load(Relaxed));
        assert!(
            received.iter().sum::<u64>() <= 64 * sent,
            "{received:?}, {sent} packets with 64 hops"
        );
        assert!(received.iter().all(|received| *received >= 32), "{received:?}");
    }
}

/// Host that answers no request until `may_go_on` is set.
#[derive(Default)]
struct StuckHost {
    may_go_on: std::sync::Mutex<bool>,
    released: std::sync::Condvar,
    served: AtomicU64,
}

impl Host for StuckHost {
    fn serve(&self, _: Source, _: &[u8], _: &mut Reply, _: &Reader) -> Verdict {
        let may = self.may_go_on.lock().unwrap();
        drop(self.released.wait_while(may, |may| !*may).unwrap());
        self.served.fetch_add(1, Relaxed);
        Verdict::Forward
    }
}

#[test]
fn a_host_that_answers_nothing_is_reported_as_stalled() {
    let host = Arc::new(StuckHost::default());
    let options = SocketOptions {
        listen: ([127, 0, 0, 1], 0).into(),
        threads: 1,
        queue: 8,
    };
    let fastpath = Arc::new(Mirror { answers: false });
    let stuck: Arc<dyn Host + Send + Sync> = host.clone();
    let datapath = SocketDatapath::start(options, fastpath, stuck, &Readers::new(false)).expect("listening");
    assert_eq!((datapath.waiting(), datapath.stalled()), (0, Duration::ZERO));
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.send_to(&[1; 100], datapath.local_addr()).unwrap();
    while datapath.stalled() < Duration::from_millis(100) {
        std::thread::yield_now();
    }
    assert_eq!(datapath.waiting(), 1);
    *host.may_go_on.lock().unwrap() = true;
    host.released.notify_all();
    while datapath.waiting() > 0 {
        std::thread::yield_now();
    }
    assert_eq!(
        (host.served.load(Relaxed), datapath.stalled()),
        (1, Duration::ZERO)
    );
}
