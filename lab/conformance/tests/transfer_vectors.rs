//! Tests that run `vectors/transfer` through every datapath that processes whole frames together with the host, and
//! through the host alone.

#[allow(dead_code, reason = "its pair of interfaces is for other tests")]
use k256::ecdsa::SigningKey;
use lineside_conformance::frames::{Datapath, DatapathKind};
use lineside_conformance::transfer::FrameDatapath;
use lineside_conformance::vectors::transfer::{Disk, File, Mode, Vector};
use lineside_conformance::vectors::{ExpectedVerdict, Lease};
use lineside_fastpath::{
    BatchHost, BatchRequest, DropReason, FrameVerdict, PAYLOAD_BYTES_MAX, Readers,
    RequestOutcome as HostSaid, Source, lease,
};
use lineside_journal::{Options, SimDisk};
use lineside_net::{SocketDatapath, SocketOptions};
use lineside_testkit::cpu;
use lineside_testkit::skipped;
use lineside_transfer::claims::StoreClaims;
use lineside_transfer::datapath as transfer;
use lineside_transfer::fastpath::TransferFastPath;
use lineside_transfer::host::{Executing, Host, SealPolicy, SessionPolicy, Setup, audit};
use lineside_transfer::ledger::Limits;
use lineside_transfer::store::{self, Geometry, Range, Store};
use lineside_transfer::writer::StoreWriter;
use lineside_wire::endpoint::Endpoint;
use lineside_wire::{TRANSFER_OP_OPEN, TRANSFER_PORT, TransferCounter, frame, native};
use lineside_xdp::XdpError;
use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, UdpSocket};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use zerocopy::IntoBytes;

const NOW_S: u64 = 1_800_000_000;
const LEASE_NS: u64 = 1 << 40;

fn files() -> Vec<File> {
    lineside_conformance::vectors::transfer::load().unwrap_or_else(|fault| panic!("{fault}"))
}

fn geometry(file: &File) -> Geometry {
    let range = |text: &String| {
        let (address, bits) = text.split_once('/').unwrap_or((text, ""));
        let address: IpAddr = address.parse().expect("an address");
        let longest = if address.is_ipv4() { 32 } else { 128 };
        Range {
            address,
            prefix_bits: bits.parse().unwrap_or(longest),
        }
    };
    Geometry {
        account_bits: file.state.account_bits,
        sessions: file.state.sessions_max,
        rings: transfer::rings().expect("CPUs"),
        ring_bits: file.state.ring_bits,
        mode: match file.state.mode {
            Mode::Durable => store::Mode::Durable,
            Mode::Express => store::Mode::Express,
        },
        paper_format: file.state.paper_format,
        require_signature: file.state.require_signature,
        issuers: file.state.issuers.iter().map(range).collect(),
    }
}

fn endpoint(file: &File) -> Endpoint {
    let (own, addresses) = (&file.endpoint, &file.endpoint.addresses);
    let mut endpoint = Endpoint::new(own.mac.0, file.state.loopback, addresses)
        .expect("the vectors' addresses fit an endpoint");
    for address in addresses {
        if let IpAddr::V4(v4) = address {
            endpoint.set_broadcast(*v4, own.broadcast);
        }
    }
    endpoint
}

/// Host of a vector file, over the store of a fast path.
struct Behind {
    host: Host<SimDisk>,
    disk: SimDisk,
    key: SigningKey,
    store: Arc<Store>,
    readers: Readers,
}

impl Behind {
    fn new(file: &File, store: &Arc<Store>, kernel: bool) -> Self {
        let (disk, key) = (SimDisk::new(1), SigningKey::from_slice(&[7; 32]).expect("a key"));
        // Random numbers for the host: first the one that it draws for itself, then the tokens of the file, then
        // arbitrary ones.
        let tokens: Arc<Mutex<VecDeque<u64>>> = Arc::default();
        let (drawn, mut other) = (Arc::clone(&tokens), 0x1000);
        let random = move || {
            other += 1;
            drawn.lock().expect("tokens").pop_front().unwrap_or(other)
        };
        let (is_express, readers) = (file.state.mode == Mode::Express, Readers::new(kernel));
        let setup = Setup {
            limits: Limits {
                accounts: file.state.accounts_max,
                sessions: file.state.sessions_max,
                pendings: 1 << 20,
                keys: 1 << 20,
                key_window_s: 3600,
            },
            seal: SealPolicy::default(),
            // The file says how many sessions may exist; the limit by address must not be lower.
            sessions: SessionPolicy {
                trusted: vec![Range {
                    address: std::net::Ipv6Addr::UNSPECIFIED.into(),
                    prefix_bits: 0,
                }],
                ..SessionPolicy::default()
            },
            issuer_keys: Vec::new(),
            key_table_bytes: lineside_transfer::signed::TABLE_BYTES,
            express: is_express.then(|| Executing {
                readers: readers.clone(),
                lease_ns: LEASE_NS,
                claims: Arc::new(StoreClaims::new(Arc::clone(store))),
            }),
        };
        let options = Options {
            segment_bytes: 64 << 10,
            record_bytes_max: 8 << 10,
            group_bytes_max: 32 << 10,
            ..Options::default()
        };
        let (host, _) = Host::open(
            disk.clone(),
            options,
            setup,
            key.clone(),
            Box::new(random),
            Arc::clone(store),
            Box::new(StoreWriter::new(Arc::clone(store))),
        )
        .expect("an empty disk");
        lease::renew(&store.control().lease_until_ns, LEASE_NS);
        let mut behind = Self {
            host,
            disk,
            key,
            store: Arc::clone(store),
            readers,
        };
        let all = file.state.sessions.iter().map(|token| hex(token));
        tokens.lock().expect("tokens").extend(all);
        for (slot, token) in file.state.sessions.iter().enumerate() {
            behind.open(file.state.opener, slot as u32, hex(token));
        }
        if file.state.disk == Disk::Full {
            behind.fill_disk();
        }
        behind
    }

    fn ask(&mut self, at_s: u64, from: Source, payload: &[u8]) -> HostSaid {
        let said = self.host.group(NOW_S + at_s, &[BatchRequest { from, payload }]);
        said.into_iter().next().unwrap_or_default()
    }

    fn open(&mut self, address: IpAddr, slot: u32, token: u64) {
        let from = Source {
            address,
            port: slot as u16 + 1,
        };
        let mut packet = [
            native::request_header(TRANSFER_OP_OPEN, 0, 40).as_bytes(),
            &[0; 40],
        ]
        .concat();
        let challenge = self.ask(0, from, &packet).reply.expect("a challenge");
        packet[16..32].copy_from_slice(&challenge[16..32]);
        let granted = self.ask(0, from, &packet).reply.expect("a session");
        assert_eq!(granted[4..6], [0, 0], "no session");
        assert_eq!(granted[32..40], token.to_be_bytes());
        assert_eq!(granted[48..52], slot.to_be_bytes());
    }

    /// Fills the journal's disk.
    fn fill_disk(&mut self) {
        self.disk.set_capacity_bytes(Some(self.disk.used_bytes()));
        let from = Source {
            address: [10, 0, 0, 9].into(),
            port: 9,
        };
        // The requests are a CREATE, then ISSUE of 0 again and again, until one is refused because the disk is full.
        for command in std::iter::once(1).chain(std::iter::repeat(2)) {
            let mut packet = [0; 20];
            (packet[3], packet[8]) = (command, 0xf0);
            let reply = self.ask(0, from, &packet).reply.expect("an answer");
            if reply[0] & 0x80 != 0 {
                assert_eq!(reply[16..20], [0, 0, 0, 8], "busy");
                return;
            }
        }
    }

    /// Checks at the end that the journal has all operations, and that its replay gives the same state.
    fn check(&mut self) {
        self.host.drain();
        assert_eq!((self.host.failed(), self.host.unjournaled()), (None, 0));
        let ledger = self.host.ledger();
        assert_eq!(ledger.sum_of_balances(), ledger.issued());
        for (id, account) in ledger.accounts() {
            let Some(index) = self.store.find(id) else {
                panic!("{id} is not in the fast path");
            };
            let found = self.store.cells.as_slice()[index].balance.load(Relaxed);
            assert_eq!(found, account.holding.balance, "{id}");
        }
        let told = audit(&self.disk, *self.key.verifying_key()).expect("an audit");
        assert_eq!(
            (told.operations, told.balances),
            (ledger.number(), ledger.sum_of_balances()),
            "the journal replays to another state"
        );
    }
}

fn hex(token: &str) -> u64 {
    u64::from_str_radix(token, 16).expect("16 hex digits")
}

/// Returns the names of the counters that increased.
fn risen(before: &[u64], after: &[u64], name: impl Fn(usize) -> &'static str) -> Vec<String> {
    let pairs = before.iter().zip(after).enumerate();
    let each = pairs.filter(|(_, (before, after))| before != after);
    each.map(|(index, (before, after))| match after - before {
        1 => name(index).into(),
        times => format!("{times} times {}", name(index)),
    })
    .collect()
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, expected: T, found: T) -> Result<(), String> {
    match expected == found {
        true => Ok(()),
        false => Err(format!(
            "{what}\n  expected {expected:02x?}\n  found    {found:02x?}"
        )),
    }
}

/// Compares the host's verdict on `payload` with the expected verdict.
fn hold_host(
    vector: &Vector,
    behind: &mut Behind,
    from: Source,
    payload: &[u8],
    chosen: &mut Vec<u8>,
) -> Result<(), String> {
    let said = behind.ask(vector.at_s, from, payload);
    match (&vector.host, said.reply, said.drop) {
        (Some(ExpectedVerdict::Reply), Some(reply), None) => {
            let expected = vector.expected(payload, &reply);
            same("the host's reply", expected, Some(reply.clone()))?;
            if vector.is_chosen() {
                *chosen = reply;
            }
            Ok(())
        }
        (Some(ExpectedVerdict::Drop(reason)), None, Some(found)) => {
            same("the host's reason", reason.as_str(), found.name())
        }
        (expected, reply, drop) => Err(format!(
            "the host must return {expected:?}, and returned {reply:02x?}, {drop:?}"
        )),
    }
}

fn hold_one(
    vector: &Vector,
    datapath: &mut FrameDatapath,
    behind: &mut Behind,
    chosen: &mut Vec<u8>,
) -> Result<(), String> {
    let kernel = |error: XdpError| error.to_string();
    let payload = vector.payload(chosen);
    let request = vector.frame(&payload);
    let (drops, counters) = (
        datapath.drops().map_err(kernel)?,
        datapath.counters().map_err(kernel)?,
    );
    let (verdict, left) = datapath.run(&request).map_err(kernel)?;
    let dropped = risen(&drops, &datapath.drops().map_err(kernel)?, |index| {
        DropReason::ALL[index].name()
    });
    let counted = risen(&counters, &datapath.counters().map_err(kernel)?, |index| {
        TransferCounter::ALL[index].name()
    });
    let found = match verdict {
        FrameVerdict::Transmit => "reply",
        FrameVerdict::Pass => "forward",
        FrameVerdict::Drop(_) => "drop",
    };
    let (said, reasons) = match &vector.fastpath {
        ExpectedVerdict::Reply => ("reply", Vec::new()),
        ExpectedVerdict::Forward => ("forward", Vec::new()),
        ExpectedVerdict::Drop(reason) => ("drop", vec![reason.clone()]),
    };
    same("verdict", said, found)?;
    same("counted drops", reasons, dropped)?;
    same("counters", vector.counts.clone(), counted)?;
    match vector.fastpath {
        ExpectedVerdict::Reply => same(
            "the reply's frame",
            vector.reply_frame().unwrap_or_default(),
            left,
        ),
        ExpectedVerdict::Forward => {
            same("the forwarded frame", &request, &left)?;
            match &vector.host {
                Some(_) => hold_host(vector, behind, source(&request)?, &payload, chosen),
                None => Ok(()),
            }
        }
        ExpectedVerdict::Drop(_) => Ok(()),
    }
}

fn source(request: &[u8]) -> Result<Source, String> {
    let datagram = frame::parse(request).ok_or("a request that the host answers must be a datagram")?;
    Ok(Source {
        address: datagram.source,
        port: datagram.source_port,
    })
}

/// Runs every vector of `file`. Returns their number, or the first failure; `None` if loading BPF programs is not
/// permitted.
fn hold(file: &File, kind: DatapathKind) -> Result<Option<usize>, String> {
    let opened = FrameDatapath::open(kind, &geometry(file), &endpoint(file), TRANSFER_PORT);
    let (mut datapath, store) = match opened {
        Err(XdpError::NotAllowed(why)) => {
            skipped(format_args!("BPF is not allowed here ({why})"));
            return Ok(None);
        }
        opened => opened.map_err(|error| error.to_string())?,
    };
    let mut behind = Behind::new(file, &store, kind == DatapathKind::Xdp);
    let mut chosen = Vec::new();
    for vector in &file.vectors {
        if file.state.lease == Lease::Over {
            lease::end(&store.control().lease_until_ns);
        }
        hold_one(vector, &mut datapath, &mut behind, &mut chosen)
            .map_err(|fault| format!("{}.toml: {:?}: {fault}", file.name, vector.what))?;
        if file.state.drains {
            behind.host.drain();
        }
    }
    behind.check();
    Ok(Some(file.vectors.len()))
}

/// Runs the vectors of all files on one CPU, so that the fast path writes only to that CPU's ring, and prints their
/// number.
fn all(name: &str, kind: DatapathKind) {
    let named = std::thread::Builder::new().name(std::thread::current().name().unwrap_or(name).into());
    let run = move || {
        let cpus = cpu::allowed().expect("CPUs");
        cpu::pin(cpus[0]).expect("a CPU");
        let mut ran = 0;
        for file in files() {
            match hold(&file, kind).unwrap_or_else(|fault| panic!("{fault}")) {
                Some(vectors) => ran += vectors,
                None => return None,
            }
        }
        Some(ran)
    };
    let ran = named.spawn(run).expect("a thread").join();
    match ran.unwrap_or_else(|panic| std::panic::resume_unwind(panic)) {
        Some(ran) => {
            println!("{name}: {ran} vectors");
            assert!(ran > 0, "{name}: no vector ran");
        }
        None => println!("{name}: skipped"),
    }
}

#[test]
fn the_model_gives_the_replies_of_the_vectors() {
    all("the Rust model", DatapathKind::Socket);
}

#[test]
fn the_natively_compiled_xdp_programs_give_the_replies_of_the_vectors() {
    all("the XDP programs natively", DatapathKind::Native);
}

#[test]
fn the_xdp_programs_in_the_kernel_give_the_replies_of_the_vectors() {
    all("the XDP programs in the kernel", DatapathKind::Xdp);
}

/// The host alone must give the same bytes as together with the fast path. The test uses `durable` mode, in which both
/// answer from durable data.
#[test]
fn the_host_without_a_fast_path_gives_the_replies_of_the_vectors() {
    let mut ran = 0;
    for file in files() {
        if file.state.mode == Mode::Express {
            continue;
        }
        let store = Arc::new(Store::anonymous(&geometry(&file)).expect("memory"));
        let mut behind = Behind::new(&file, &store, false);
        let mut chosen = Vec::new();
        for vector in file.vectors.iter().filter(|vector| vector.host.is_some()) {
            let payload = vector.payload(&chosen);
            source(&vector.frame(&payload))
                .and_then(|from| hold_host(vector, &mut behind, from, &payload, &mut chosen))
                .unwrap_or_else(|fault| panic!("{}.toml: {:?}: {fault}", file.name, vector.what));
            ran += 1;
        }
        behind.check();
    }
    println!("the host alone: {ran} vectors");
    assert!(ran > 0, "no vector ran");
}

/// Host with sockets, whose clock shows the times of the vectors.
struct TimedHost {
    behind: Arc<Mutex<Behind>>,
    at_s: Arc<AtomicU64>,
}

impl TimedHost {
    fn now_s(&self) -> u64 {
        NOW_S + self.at_s.load(Relaxed)
    }
}

impl BatchHost for TimedHost {
    fn execute(&mut self, asked: &[BatchRequest<'_>]) {
        self.behind
            .lock()
            .expect("a host")
            .host
            .execute(self.now_s(), asked);
    }

    fn take(&mut self, waits: bool) -> Option<Vec<HostSaid>> {
        self.behind.lock().expect("a host").host.take(waits)
    }

    fn idle(&mut self) {
        self.behind.lock().expect("a host").host.tick(self.now_s());
    }
}

/// The test runs in a network namespace with the addresses of the vectors. Each request is sent from the source address
/// of its vector.
#[test]
fn the_socket_datapath_gives_the_replies_of_the_vectors() {
    let Some(alone) = lineside_testkit::netns::Namespace::new() else {
        return;
    };
    for address in ["2", "7", "8", "9"] {
        alone.ip(&format!("address add 10.0.0.{address}/24 dev lo"));
        alone.ip(&format!("address add fd00::{address}/64 dev lo nodad"));
    }
    alone.run(|| {
        let mut ran = 0;
        for file in files().iter().filter(|file| is_about_payloads(file)) {
            ran += over_sockets(file).unwrap_or_else(|fault| panic!("{}.toml: {fault}", file.name));
        }
        println!("the socket datapath: {ran} vectors");
        assert!(ran > 0, "no vector ran");
    });
}

/// Returns whether the vectors of the file test payloads. Files about frames or about `lo` are excluded, as well as
/// files whose rings are not emptied or whose lease is not renewed, because the host of this test does both.
fn is_about_payloads(file: &File) -> bool {
    let kept = file.state.mode == Mode::Express && file.state.lease == Lease::Over;
    !file.name.ends_with("frames") && !file.state.loopback && file.state.drains && !kept
}

fn over_sockets(file: &File) -> Result<usize, String> {
    let store = Arc::new(Store::anonymous(&geometry(file)).expect("memory"));
    let behind = Behind::new(file, &store, false);
    if file.state.lease == Lease::Over {
        lease::end(&store.control().lease_until_ns);
    }
    let (readers, behind, at_s) = (
        behind.readers.clone(),
        Arc::new(Mutex::new(behind)),
        Arc::<AtomicU64>::default(),
    );
    let host = TimedHost {
        behind: Arc::clone(&behind),
        at_s: Arc::clone(&at_s),
    };
    let options = SocketOptions {
        listen: (std::net::Ipv6Addr::UNSPECIFIED, TRANSFER_PORT).into(),
        threads: 1,
        queue: 64,
    };
    let fastpath = Arc::new(TransferFastPath::new(store));
    let datapath =
        SocketDatapath::start_batched(options, fastpath, Box::new(host), &readers).expect("listening");
    let mut clients: HashMap<(IpAddr, u16), UdpSocket> = HashMap::new();
    let (mut chosen, mut oversize) = (Vec::new(), 0);
    for vector in &file.vectors {
        let fault = |fault: String| format!("{:?}: {fault}", vector.what);
        at_s.store(vector.at_s, Relaxed);
        let payload = vector.payload(&chosen);
        let from = source(&vector.frame(&payload)).map_err(fault)?;
        let client = clients
            .entry((from.address, from.port))
            .or_insert_with(|| client(from));
        let drops = || {
            datapath
                .counts()
                .drops
                .each_ref()
                .map(|count| count.load(Relaxed))
        };
        let before = drops();
        client.send(&payload).expect("sending");
        match &vector.fastpath {
            // The payload is longer than any request, so it does not reach the host.
            _ if payload.len() > PAYLOAD_BYTES_MAX => {
                oversize += 1;
                while datapath.counts().oversize.load(Relaxed) < oversize {
                    std::thread::yield_now();
                }
            }
            ExpectedVerdict::Drop(reason) => {
                let counted = || risen(&before, &drops(), |index| DropReason::ALL[index].name());
                while counted().is_empty() {
                    std::thread::yield_now();
                }
                same("counted drops", vec![reason.clone()], counted()).map_err(fault)?;
            }
            ExpectedVerdict::Reply | ExpectedVerdict::Forward => {
                let mut reply = vec![0; 2048];
                let bytes = client
                    .recv(&mut reply)
                    .map_err(|error| fault(format!("no reply: {error}")))?;
                reply.truncate(bytes);
                let expected = vector.expected(&payload, &reply);
                same("the reply", expected, Some(reply.clone())).map_err(fault)?;
                if vector.is_chosen() {
                    chosen = reply;
                }
            }
        }
    }
    datapath.stop();
    behind.lock().expect("a host").check();
    Ok(file.vectors.len())
}

/// Returns a socket that is bound to a vector's source address and connected to the server's address of the same
/// family.
fn client(from: Source) -> UdpSocket {
    let server = if from.address.is_ipv4() {
        "10.0.0.2"
    } else {
        "fd00::2"
    };
    let socket = UdpSocket::bind((from.address, from.port)).expect("a source");
    socket
        .set_read_timeout(Some(Duration::from_secs(10)))
        .expect("a timeout");
    socket.connect((server, TRANSFER_PORT)).expect("connecting");
    socket
}

/// Without this test, a check that inspects nothing would accept every vector.
#[test]
fn a_changed_vector_fails() {
    let files = files();
    let broken = |name: &str, what: &str, change: &dyn Fn(&mut Vector), said: &str| {
        let file = files.iter().find(|file| file.name == name);
        let mut file = file.unwrap_or_else(|| panic!("no {name}.toml")).clone();
        let vector = file.vectors.iter_mut().find(|vector| vector.what == what);
        change(vector.unwrap_or_else(|| panic!("no vector {what:?}")));
        let fault = hold(&file, DatapathKind::Socket).expect_err(what);
        assert!(fault.contains(what) && fault.contains(said), "{fault}");
    };
    let at = |bytes: &mut Option<lineside_conformance::vectors::Bytes>, at: usize| {
        bytes.as_mut().expect("a reply").0[at] ^= 1;
    };
    let (file, moved) = ("express-paper-commands", "TRANSFER, 20 bytes, IPv4");
    broken(
        file,
        moved,
        &|vector| at(&mut vector.reply, 19),
        "the reply's frame",
    );
    broken(
        file,
        moved,
        &|vector| at(&mut vector.reply_headers, 40),
        "the reply's frame",
    );
    broken(
        file,
        moved,
        &|vector| vector.fastpath = ExpectedVerdict::Forward,
        "verdict",
    );
    broken(
        file,
        moved,
        &|vector| vector.counts.push("busy".into()),
        "counters",
    );
    let hosts = "paper-commands";
    broken(
        hosts,
        moved,
        &|vector| at(&mut vector.reply, 19),
        "the host's reply",
    );
    let dropped = ExpectedVerdict::Drop("reply_bit".into());
    broken(
        hosts,
        moved,
        &|vector| vector.host = Some(dropped.clone()),
        "the host must return",
    );
    let granted = "open: granted";
    broken(
        "hosts",
        granted,
        &|vector| at(&mut vector.reply, 51),
        "the host's reply",
    );
    let short = "19 bytes are neither a packet of the paper nor a native one";
    let other = ExpectedVerdict::Drop("paper_refused".into());
    broken(
        hosts,
        short,
        &|vector| vector.fastpath = other.clone(),
        "counted drops",
    );
}
