//! Tests that run `vectors/transfer` through every datapath that processes whole frames together with the host, and
//! through the host alone.

#[path = "transfer_vectors/explained.rs"]
mod explained;

use lineside_conformance::frames::{Datapath, DatapathKind};
use lineside_conformance::transfer::FrameDatapath;
use lineside_conformance::vectors::transfer::{File, Mode, NOW_S, Vector, VectorHost, geometry};
use lineside_conformance::vectors::{ExpectedVerdict, Lease};
use lineside_fastpath::{
    BatchHost, BatchRequest, DropReason, FrameVerdict, PAYLOAD_BYTES_MAX, RequestOutcome as HostSaid, Source,
    lease,
};
use lineside_net::{SocketDatapath, SocketOptions};
use lineside_testkit::cpu;
use lineside_testkit::skipped;
use lineside_transfer::fastpath::TransferFastPath;
use lineside_transfer::store::Store;
use lineside_wire::endpoint::Endpoint;
use lineside_wire::{TRANSFER_PORT, TransferCounter, frame};
use lineside_xdp::XdpError;
use std::collections::HashMap;
use std::net::{IpAddr, UdpSocket};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn files() -> Vec<File> {
    lineside_conformance::vectors::transfer::load().unwrap_or_else(|fault| panic!("{fault}"))
}

fn endpoint(file: &File) -> Endpoint {
    let endpoint = file.endpoint.interface(file.state.loopback);
    endpoint.expect("the vectors' addresses fit an endpoint")
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
    behind: &mut VectorHost,
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

/// Datapath with counters.
trait Counted: Datapath {
    fn counters(&mut self) -> Result<Vec<u64>, XdpError>;
}

impl Counted for FrameDatapath {
    fn counters(&mut self) -> Result<Vec<u64>, XdpError> {
        Self::counters(self)
    }
}

fn hold_one(
    vector: &Vector,
    datapath: &mut dyn Counted,
    behind: &mut VectorHost,
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
    let mut behind = VectorHost::new(file, &store, kind == DatapathKind::Xdp);
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

/// The simulated NIC with its host. The files in which the host leaves the records in a ring of a few places are left
/// out: the NIC has its own places, and is without a lease while the ring of the host has little room.
#[cfg(feature = "rtl")]
mod rtl {
    use super::*;
    use lineside_conformance::rtl::{TransferNic, TransferNicDatapath};
    use lineside_fastpath::Readers;
    use lineside_transfer::nic::{self, NicClaims, NicPort, NicWriter};

    impl Counted for TransferNicDatapath {
        fn counters(&mut self) -> Result<Vec<u64>, XdpError> {
            Ok(self.0.counters())
        }
    }

    /// Returns the vector as the RTL must answer it: it forwards some native requests, which the host then answers with
    /// the same bytes.
    fn on_rtl(vector: &Vector) -> Vector {
        let request = &vector.request.0;
        let mut vector = vector.clone();
        if vector.fastpath == ExpectedVerdict::Reply && nic::left_to_host(request).is_some() {
            vector.fastpath = ExpectedVerdict::Forward;
            vector.host = Some(ExpectedVerdict::Reply);
            vector.counts = vec!["forwarded".into()];
        }
        vector
    }

    fn hold(file: &File) -> Result<usize, String> {
        let store = Arc::new(Store::anonymous(&nic::geometry(geometry(file))).expect("memory"));
        if file.state.account_bits == 1 {
            // With a key of 0, all accounts have the same two buckets, as in a table for eight accounts.
            store.control().key.iter().for_each(|word| word.store(0, Relaxed));
        }
        let own = Arc::new(TransferNic::new(&store, &endpoint(file)).map_err(|error| error.to_string())?);
        let port = || Arc::clone(&own) as Arc<dyn NicPort>;
        let claims = Arc::new(NicClaims::new(Arc::clone(&store), port()));
        let fill = Box::new(NicWriter::new(Arc::clone(&store), port()));
        let mut behind = VectorHost::with(file, &store, Readers::new(false), claims, fill);
        own.add(&nic::table_commands(&store));
        let (mut datapath, mut chosen) = (TransferNicDatapath(Arc::clone(&own)), Vec::new());
        for vector in &file.vectors {
            if file.state.lease == Lease::Over {
                lease::end(&store.control().lease_until_ns);
            }
            hold_one(&on_rtl(vector), &mut datapath, &mut behind, &mut chosen)
                .map_err(|fault| format!("{}.toml: {:?}: {fault}", file.name, vector.what))?;
            behind.host.drain();
            own.check()
                .map_err(|fault| format!("{}.toml: after {:?}: {fault}", file.name, vector.what))?;
        }
        behind.check();
        Ok(file.vectors.len())
    }

    #[test]
    fn the_simulated_nic_and_its_host_give_the_replies_of_the_vectors() {
        let mut ran = 0;
        for file in files().iter().filter(|file| file.state.drains) {
            ran += hold(file).unwrap_or_else(|fault| panic!("{fault}"));
        }
        println!("the simulated NIC: {ran} vectors");
        assert!(ran > 100, "{ran} vectors");
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
        let mut behind = VectorHost::new(&file, &store, false);
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
    behind: Arc<Mutex<VectorHost>>,
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
    let behind = VectorHost::new(file, &store, false);
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
