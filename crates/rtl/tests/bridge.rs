//! A NIC between its TAP devices, with a model in Rust in place of the RTL: answers, forwarded frames, commands,
//! faults, and the end of the devices. The tests need root, but no Verilator.

use lineside_fastpath::{FastPath, FrameHandler, FrameVerdict, Reply, Source, Verdict};
use lineside_rtl::{
    Bridge, Command, CommandQueue, FrameBatch, InterfaceAddress, NetworkPlan, Nic, NicCounters, NicNetwork,
    NicVerdict, RtlError,
};
use lineside_testkit::can_create_tap;
use lineside_testkit::netns::alone;
use lineside_wire::SpvCounter;
use lineside_wire::endpoint::Endpoint;
use socket2::Socket;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

const PORT: u16 = 7801;
/// Command of the test: it changes the answer.
const REGISTER_ANSWER: u32 = 200;
/// Command of the test: the NIC fails.
const REGISTER_FAULT: u32 = 201;

/// NIC that answers `fast` by four equal bytes, drops `drop`, and forwards everything else.
struct RustNic {
    endpoint: Endpoint,
    answer: u8,
    counters: NicCounters,
    seen: Arc<Seen>,
}

#[derive(Default)]
struct Seen {
    commands: AtomicU64,
    is_busy: AtomicBool,
}

struct FourBytes(u8);

impl FastPath for FourBytes {
    fn answer(&self, _: Source, _: u64, request: &[u8], reply: &mut Reply) -> Verdict {
        match request {
            b"fast" if reply.put(&[self.0; 4]) => Verdict::Reply,
            b"drop" => Verdict::Drop(lineside_wire::DropReason::NotARequest),
            _ => Verdict::Forward,
        }
    }
}

impl Nic for RustNic {
    fn execute(&mut self, commands: &[Command]) -> Result<(), RtlError> {
        assert!(!self.seen.is_busy.load(SeqCst), "no frames are in the NIC");
        self.seen.commands.fetch_add(commands.len() as u64, SeqCst);
        for command in commands {
            if *command == Command::register(REGISTER_FAULT, &[]) {
                return Err(RtlError::Fault("by the test".into()));
            }
            let number = |at: usize| u32::from_le_bytes(command.0[at..at + 4].try_into().expect("4 bytes"));
            if number(0) == lineside_rtl::COMMAND_REGISTER && number(4) == REGISTER_ANSWER {
                self.answer = command.0[16];
            }
        }
        Ok(())
    }

    fn process(&mut self, now_ns: u64, batch: &mut FrameBatch) -> Result<u64, RtlError> {
        self.seen.is_busy.store(true, SeqCst);
        let fastpath = FourBytes(self.answer);
        let line = FrameHandler {
            endpoint: &self.endpoint,
            port: PORT,
            fastpath: &fastpath,
        };
        let frames: Vec<Vec<u8>> = batch.frames().map(<[u8]>::to_vec).collect();
        for (index, mut frame) in frames.into_iter().enumerate() {
            match line.answer(now_ns, &mut frame) {
                FrameVerdict::Transmit => {
                    self.counters.spv[SpvCounter::Hits as usize] += 1;
                    batch.set(index, NicVerdict::Reply, &frame);
                }
                FrameVerdict::Pass => batch.set(index, NicVerdict::Forward, &frame),
                FrameVerdict::Drop(reason) => {
                    self.counters.drops[reason as usize] += 1;
                    batch.set(index, NicVerdict::Drop, &[]);
                }
            }
        }
        self.seen.is_busy.store(false, SeqCst);
        Ok(1)
    }

    fn counters(&self) -> NicCounters {
        self.counters
    }
}

/// Bridge with a Rust model, a socket of the host, and a socket of a client.
struct Rig {
    bridge: Bridge,
    queue: Arc<CommandQueue>,
    host: UdpSocket,
    client: UdpSocket,
    seen: Arc<Seen>,
}

/// Returns a plan with one socket for each address of the NIC.
fn plan(tap: &str, clients: &[&str], own: &[&str]) -> NetworkPlan {
    let all = |texts: &[&str]| -> Vec<InterfaceAddress> {
        let parsed = texts.iter().map(|text| InterfaceAddress::parse(text));
        parsed.map(|address| address.expect("an address")).collect()
    };
    let own = all(own);
    let v4 = own.iter().filter(|own| own.address.is_ipv4()).count();
    NetworkPlan {
        tap: tap.into(),
        clients: all(clients),
        sockets: [v4, own.len() - v4],
        own,
    }
}

fn rig(clients: &str, own: &str) -> Rig {
    let plan = plan("lstest0", &[clients], &[own]);
    let at = SocketAddr::new(plan.own[0].address, PORT);
    let mut network = NicNetwork::create(&plan).expect("TAP devices");
    let host = Socket::from(
        network.sockets[usize::from(at.is_ipv6())]
            .pop()
            .expect("a socket"),
    );
    host.bind(&at.into()).expect("an address of the NIC");
    let seen = Arc::new(Seen::default());
    let nic = RustNic {
        endpoint: network.endpoint.clone(),
        answer: b'a',
        counters: NicCounters::default(),
        seen: Arc::clone(&seen),
    };
    let queue = Arc::new(CommandQueue::new().expect("a queue"));
    let bridge = Bridge::start(Box::new(nic), network, Arc::clone(&queue)).expect("a thread");
    let any = if at.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let client = UdpSocket::bind(any).expect("a socket");
    client.connect(at).expect("a route");
    let host = UdpSocket::from(host);
    for socket in [&client, &host] {
        socket
            .set_read_timeout(Some(Duration::from_secs(20)))
            .expect("a timeout");
    }
    Rig {
        bridge,
        queue,
        host,
        client,
        seen,
    }
}

impl Rig {
    fn ask(&self, request: &[u8]) -> Vec<u8> {
        self.client.send(request).expect("a request");
        let mut reply = [0; 64];
        let bytes = self.client.recv(&mut reply).expect("a reply");
        reply[..bytes].to_vec()
    }

    /// Answers the next request that comes to the host.
    fn serve(&self, expected: &[u8], reply: &[u8]) {
        let mut request = [0; 64];
        let (bytes, from) = self.host.recv_from(&mut request).expect("a forwarded request");
        assert_eq!(&request[..bytes], expected);
        self.host.send_to(reply, from).expect("a reply");
    }

    fn figure(&self, name: &str) -> u64 {
        let all = self.bridge.counts().all();
        all.into_iter().find(|(one, _)| *one == name).expect("a figure").1
    }
}

fn has_device() -> bool {
    let all = std::fs::read_to_string("/proc/thread-self/net/dev").expect("/proc");
    all.contains("lstest0:")
}

/// Runs `test` in a network namespace of its own, if this process can create TAP devices. The tests run one after
/// another: a program that a test starts has copies of all descriptors of this process until the program's own code
/// begins, and the kernel keeps a TAP device of another test as long as there is a copy of its descriptor.
fn with_tap(test: impl FnOnce() + Send + 'static) {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _only = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    // Creating the namespace needs the same rights as a TAP device.
    if can_create_tap() {
        alone(test);
    }
}

#[test]
fn the_nic_answers_its_requests_and_the_host_the_others() {
    with_tap(|| {
        let rig = rig("10.77.0.1/24", "10.77.0.2/24");
        for _ in 0..200 {
            assert_eq!(rig.ask(b"fast"), *b"aaaa");
        }
        assert_eq!(rig.bridge.counters().spv[SpvCounter::Hits as usize], 200);
        rig.client.send(b"slow").expect("a request");
        rig.serve(b"slow", b"from the host");
        let mut reply = [0; 64];
        let bytes = rig.client.recv(&mut reply).expect("a reply");
        assert_eq!(reply[..bytes], *b"from the host");
        rig.client.send(b"drop").expect("a request");
        rig.queue.add(&[Command::register(REGISTER_ANSWER, b"b")]);
        rig.queue.flush();
        assert_eq!(
            rig.ask(b"fast"),
            *b"bbbb",
            "the first reply after the flush has the new value"
        );
        assert_eq!(rig.bridge.counters().drops.iter().sum::<u64>(), 1);
        assert!(
            rig.seen.commands.load(SeqCst) > 1,
            "addresses of the NIC, and the test's command"
        );
        assert!(has_device());
        rig.bridge.stop();
        assert!(!has_device());
        // The bridge counts a batch after it has sent the replies, so the figures are complete when its thread has
        // ended.
        assert_eq!((rig.figure("replies"), rig.figure("unsent")), (201, 0));
        assert!(rig.figure("forwarded") >= 1 && rig.figure("from_host") >= 1);
        rig.queue.flush();
    });
}

#[test]
fn a_watched_value_is_in_the_nic_before_the_next_frame() {
    with_tap(|| {
        let rig = rig("fd77::1/64", "fd77::2/64");
        let value = Arc::new(AtomicU64::new(u64::from(b'x')));
        let watched = Arc::clone(&value);
        rig.queue.watch(REGISTER_ANSWER, move || watched.load(SeqCst));
        assert_eq!(rig.ask(b"fast"), *b"xxxx");
        for letter in b'c'..=b'm' {
            value.store(u64::from(letter), SeqCst);
            assert_eq!(rig.ask(b"fast"), [letter; 4]);
        }
    });
}

#[test]
fn after_a_fault_the_host_answers_everything() {
    with_tap(|| {
        let rig = rig("10.77.0.1/24", "10.77.0.2/24");
        assert_eq!(rig.ask(b"fast"), *b"aaaa");
        rig.queue.add(&[Command::register(REGISTER_FAULT, &[])]);
        rig.queue.flush();
        let fault = rig.bridge.fault().expect("a fault");
        assert!(fault.contains("by the test"), "{fault}");
        rig.client.send(b"fast").expect("a request");
        rig.serve(b"fast", b"from the host");
        let mut reply = [0; 64];
        let bytes = rig.client.recv(&mut reply).expect("a reply");
        assert_eq!(reply[..bytes], *b"from the host");
    });
}

/// Regression test: the thread polled the removed device without a pause, and reported nothing.
#[test]
fn a_device_that_is_removed_is_a_fault() {
    with_tap(|| {
        let rig = rig("10.77.0.1/24", "10.77.0.2/24");
        assert_eq!(rig.ask(b"fast"), *b"aaaa");
        // A device that is down may come back.
        ip(&["link", "set", "lstest0", "down"]);
        ip(&["link", "set", "lstest0", "up"]);
        assert_eq!(rig.ask(b"fast"), *b"aaaa");
        assert_eq!(rig.bridge.fault(), None);
        ip(&["link", "delete", "lstest0"]);
        let begin = Instant::now();
        let fault = loop {
            match rig.bridge.fault() {
                Some(fault) => break fault,
                None => assert!(begin.elapsed() < Duration::from_secs(20), "no fault"),
            }
            std::thread::yield_now();
        };
        assert!(fault.contains("lstest0 was removed"), "{fault}");
        // No host waits for the thread, which has ended.
        rig.queue.add(&[Command::register(REGISTER_ANSWER, b"b")]);
        rig.queue.flush();
        rig.bridge.stop();
    });
}

fn ip(arguments: &[&str]) {
    let status = std::process::Command::new("ip").args(arguments).status();
    assert!(status.expect("ip (iproute2)").success(), "{arguments:?}");
}

#[test]
fn every_address_of_a_device_can_be_used() {
    with_tap(|| {
        let clients = ["10.77.0.1/24", "10.78.0.1/24", "fd77::1/64", "fd78::1/64"];
        let own = ["10.77.0.2/24", "10.78.0.2/24", "fd77::2/64", "fd78::2/64"];
        let plan = plan("lstest0", &clients, &own);
        let mut network = NicNetwork::create(&plan).expect("TAP devices");
        for (client, own) in plan.clients.iter().zip(&plan.own) {
            let socket = UdpSocket::bind((client.address, 0)).expect("an address of this machine");
            socket.connect((own.address, PORT)).expect("a route to the NIC");
            let host = network.sockets[usize::from(own.address.is_ipv6())].pop();
            let bound =
                Socket::from(host.expect("a socket")).bind(&SocketAddr::new(own.address, PORT).into());
            bound.expect("an address of the NIC");
        }
    });
}

#[test]
fn a_network_of_another_interface_is_refused() {
    with_tap(|| {
        let first =
            NicNetwork::create(&plan("lstest0", &["10.77.0.1/24"], &["10.77.0.2/24"])).expect("TAP devices");
        for (clients, own) in [("10.77.0.1/24", "10.77.0.2/24"), ("10.77.9.1/16", "10.77.0.3/16")] {
            let refused =
                NicNetwork::create(&plan("lstest1", &[clients], &[own])).expect_err("a taken network");
            assert!(
                matches!(&refused, RtlError::NetworkTaken { interface, .. } if interface == "lstest0"),
                "{refused}"
            );
        }
        // The kernel prefers the smaller network, which is that of the second device here.
        for (clients, own) in [
            ("10.77.9.1/16", "10.77.9.2/16"),
            ("10.77.0.9/28", "10.77.0.10/28"),
        ] {
            NicNetwork::create(&plan("lstest1", &[clients], &[own])).expect("a network of its own");
        }
        // A route of a single address is smaller than any network.
        ip(&["route", "add", "10.78.0.2/32", "dev", "lstest0"]);
        let refused =
            NicNetwork::create(&plan("lstest1", &["10.78.0.1/24"], &["10.78.0.2/24"])).expect_err("a route");
        assert!(
            refused.to_string().contains("to the interface lstest0"),
            "{refused}"
        );
        drop(first);
        NicNetwork::create(&plan("lstest1", &["10.77.0.1/24"], &["10.77.0.2/24"])).expect("a free network");
    });
}
