//! Tests that run `vectors/spv` through every datapath, and through the host alone.

mod table;

use lineside_conformance::diff::Datapath;
use lineside_conformance::frames::native as native_datapath;
use lineside_conformance::native::NativeDatapath;
use lineside_conformance::vectors::spv::fill;
use lineside_conformance::vectors::{ExpectedVerdict, File, Vector};
use lineside_fastpath::{
    DropReason, FrameHandler, FrameVerdict, Host, Readers, Reply, Source, Verdict, lease,
};
use lineside_net::{SocketDatapath, SocketOptions};
use lineside_spv::datapath as spv;
use lineside_spv::fastpath::SpvFastPath;
use lineside_spv::host::SpvHost;
use lineside_spv::store::{Geometry, Store};
use lineside_testkit::skipped;
use lineside_wire::endpoint::Endpoint;
use lineside_wire::{SPV_PORT, SpvCounter};
use lineside_xdp::{XdpDatapath, XdpError};
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use table::Table;

const DROPS: usize = DropReason::ALL.len();
const COUNTERS: usize = SpvCounter::ALL.len();

fn files() -> Vec<File> {
    lineside_conformance::vectors::load("spv").unwrap_or_else(|fault| panic!("{fault}"))
}

fn geometry(file: &File) -> Geometry {
    Geometry {
        line_bits: 10,
        block_bits: 4,
        paper_format: file.state.paper_format,
        ..Geometry::default()
    }
}

fn endpoint(file: &File) -> Endpoint {
    let endpoint = file.endpoint.interface(file.state.loopback);
    endpoint.expect("the vectors' addresses fit an endpoint")
}

/// Datapath that processes whole frames, with its counters.
trait Frames {
    fn run(&mut self, frame: &[u8]) -> Result<(FrameVerdict, Vec<u8>), XdpError>;
    fn drops(&mut self) -> Result<[u64; DROPS], XdpError>;
    fn counters(&mut self) -> Result<[u64; COUNTERS], XdpError>;
}

struct Model {
    endpoint: Endpoint,
    fastpath: SpvFastPath,
    drops: [u64; DROPS],
}

impl Frames for Model {
    fn run(&mut self, frame: &[u8]) -> Result<(FrameVerdict, Vec<u8>), XdpError> {
        let line = FrameHandler {
            endpoint: &self.endpoint,
            port: SPV_PORT,
            fastpath: &self.fastpath,
        };
        let mut left = frame.to_vec();
        let verdict = line.answer(lease::now_ns(), &mut left);
        if let FrameVerdict::Drop(reason) = verdict {
            self.drops[reason as usize] += 1;
        }
        Ok((verdict, left))
    }

    fn drops(&mut self) -> Result<[u64; DROPS], XdpError> {
        Ok(self.drops)
    }

    fn counters(&mut self) -> Result<[u64; COUNTERS], XdpError> {
        Ok(self.fastpath.counters())
    }
}

impl Frames for NativeDatapath {
    fn run(&mut self, frame: &[u8]) -> Result<(FrameVerdict, Vec<u8>), XdpError> {
        Datapath::run(self, frame)
    }

    fn drops(&mut self) -> Result<[u64; DROPS], XdpError> {
        Datapath::drops(self)
    }

    fn counters(&mut self) -> Result<[u64; COUNTERS], XdpError> {
        Ok(self.counts("spv_counts").try_into().expect("the counters of spv"))
    }
}

impl Frames for XdpDatapath {
    fn run(&mut self, frame: &[u8]) -> Result<(FrameVerdict, Vec<u8>), XdpError> {
        Datapath::run(self, frame)
    }

    fn drops(&mut self) -> Result<[u64; DROPS], XdpError> {
        Datapath::drops(self)
    }

    fn counters(&mut self) -> Result<[u64; COUNTERS], XdpError> {
        self.counts("spv_counts")
    }
}

/// Returns the names of the counters that increased.
fn risen<const N: usize>(
    before: [u64; N],
    after: [u64; N],
    name: impl Fn(usize) -> &'static str,
) -> Vec<String> {
    let pairs = before.into_iter().zip(after).enumerate();
    let each = pairs.filter(|(_, (before, after))| before != after);
    each.map(|(index, (before, after))| match after - before {
        1 => name(index).into(),
        times => format!("{times} times {}", name(index)),
    })
    .collect()
}

fn one(name: Option<&String>) -> Vec<String> {
    name.into_iter().cloned().collect()
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, expected: T, found: T) -> Result<(), String> {
    match expected == found {
        true => Ok(()),
        false => Err(format!(
            "{what}\n  expected {expected:02x?}\n  found    {found:02x?}"
        )),
    }
}

fn hold_one(vector: &Vector, datapath: &mut dyn Frames) -> Result<(), String> {
    let kernel = |error: XdpError| error.to_string();
    let (drops, counters) = (
        datapath.drops().map_err(kernel)?,
        datapath.counters().map_err(kernel)?,
    );
    let frame = vector.frame();
    let (verdict, left) = datapath.run(&frame).map_err(kernel)?;
    let dropped = risen(drops, datapath.drops().map_err(kernel)?, |index| {
        DropReason::ALL[index].name()
    });
    let counted = risen(counters, datapath.counters().map_err(kernel)?, |index| {
        SpvCounter::ALL[index].name()
    });
    let (said, reason) = match &vector.fastpath {
        ExpectedVerdict::Reply => ("reply", None),
        ExpectedVerdict::Forward => ("forward", None),
        ExpectedVerdict::Drop(reason) => ("drop", Some(reason)),
    };
    let found = match verdict {
        FrameVerdict::Transmit => "reply",
        FrameVerdict::Pass => "forward",
        FrameVerdict::Drop(_) => "drop",
    };
    same("verdict", said, found)?;
    same("counted drops", one(reason), dropped)?;
    same("counters", one(vector.counts.as_ref()), counted)?;
    match vector.fastpath {
        ExpectedVerdict::Reply => same(
            "the reply's frame",
            vector.reply_frame().unwrap_or_default(),
            left,
        ),
        ExpectedVerdict::Forward => same("the forwarded frame", frame, left),
        ExpectedVerdict::Drop(_) => Ok(()),
    }
}

/// Runs every vector of `file` through a datapath. Returns their number, or the first failure.
fn hold(file: &File, datapath: &mut dyn Frames) -> Result<usize, String> {
    for vector in &file.vectors {
        hold_one(vector, datapath)
            .map_err(|fault| format!("{}.toml: {:?}: {fault}", file.name, vector.what))?;
    }
    Ok(file.vectors.len())
}

fn hold_model(file: &File) -> Result<usize, String> {
    let store = Arc::new(Store::anonymous(&geometry(file)).expect("memory"));
    let _writer = fill(file, &store);
    let mut model = Model {
        endpoint: endpoint(file),
        fastpath: SpvFastPath::new(store),
        drops: [0; DROPS],
    };
    hold(file, &mut model)
}

/// Runs the vectors of all files, and prints their number.
fn all(datapath: &str, each: impl Fn(&File) -> Result<usize, String>) {
    let mut ran = 0;
    for file in files() {
        ran += each(&file).unwrap_or_else(|fault| panic!("{datapath}: {fault}"));
    }
    println!("{datapath}: {ran} vectors");
    assert!(ran > 0, "{datapath}: no vector ran");
}

#[test]
fn the_model_gives_the_replies_of_the_vectors() {
    all("the Rust model", hold_model);
}

#[test]
fn the_natively_compiled_xdp_programs_give_the_replies_of_the_vectors() {
    all("the XDP programs natively", |file| {
        let store = Arc::new(Store::anonymous(&geometry(file)).expect("memory"));
        let _writer = fill(file, &store);
        let mut datapath = native_datapath::<lineside_conformance::spv::Spv>(
            &store,
            &geometry(file),
            &endpoint(file),
            SPV_PORT,
        )
        .expect("memory");
        hold(file, &mut datapath)
    });
}

#[test]
fn the_xdp_programs_in_the_kernel_give_the_replies_of_the_vectors() {
    let mut ran = 0;
    for file in files() {
        let geometry = geometry(&file);
        let mut datapath = match XdpDatapath::load(vec![spv::program(&geometry, SPV_PORT)], None) {
            Err(XdpError::NotAllowed(why)) => {
                return skipped(format_args!("BPF is not allowed here ({why})"));
            }
            other => other.expect("loading"),
        };
        datapath.start(&endpoint(&file)).expect("starting");
        let store = Arc::new(spv::store(&mut datapath, &geometry).expect("mapping"));
        store.format(&geometry).expect("formatting");
        let _writer = fill(&file, &store);
        ran += hold(&file, &mut datapath).unwrap_or_else(|fault| panic!("in the kernel: {fault}"));
    }
    println!("the XDP programs in the kernel: {ran} vectors");
}

fn host(file: &File, store: &Arc<Store>, readers: &Readers) -> SpvHost {
    let writer = Box::new(fill(file, store));
    SpvHost::new(Table::of(file), writer, readers.clone(), file.state.paper_format)
}

#[test]
fn the_host_without_a_fast_path_gives_the_replies_of_the_vectors() {
    all("the host alone", |file| {
        let store = Arc::new(Store::anonymous(&geometry(file)).expect("memory"));
        let readers = Readers::default();
        let (host, sender) = (host(file, &store, &readers), readers.join());
        let from = Source {
            address: [10, 0, 0, 9].into(),
            port: 40000,
        };
        let mut ran = 0;
        for vector in &file.vectors {
            let Some(said) = &vector.host else { continue };
            let mut reply = Reply::default();
            let verdict = host.serve(from, &vector.request.0, &mut reply, &sender);
            sender.unpin();
            let found = match verdict {
                Verdict::Reply => ExpectedVerdict::Reply,
                Verdict::Forward => ExpectedVerdict::Forward,
                Verdict::Drop(reason) => ExpectedVerdict::Drop(reason.name().into()),
            };
            let expected = vector.reply.as_ref().map(|reply| &reply.0[..]);
            same("verdict", said, &found)
                .and_then(|()| same("the reply", expected.unwrap_or_default(), reply.as_bytes()))
                .map_err(|fault| format!("{}.toml: {:?}: {fault}", file.name, vector.what))?;
            ran += 1;
        }
        // A file may contain only vectors about frames, of which the host sees none.
        Ok(ran)
    });
}

/// The test sends every request twice: the host answers the first one, and the fast path must answer the second one
/// with the same bytes.
#[test]
fn the_socket_datapath_gives_the_replies_of_the_vectors() {
    for (listen, any) in [("127.0.0.1:0", "127.0.0.1:0"), ("[::1]:0", "[::1]:0")] {
        all(&format!("the socket datapath on {listen}"), |file| {
            let store = Arc::new(Store::anonymous(&geometry(file)).expect("memory"));
            let readers = Readers::default();
            let options = SocketOptions {
                listen: listen.parse().expect("an address"),
                threads: 1,
                queue: 64,
            };
            let host = Arc::new(host(file, &store, &readers));
            let fastpath = Arc::new(SpvFastPath::new(store));
            let datapath = match SocketDatapath::start(options, fastpath, host, &readers) {
                Err(error) if listen.starts_with('[') && error.kind() != std::io::ErrorKind::AddrInUse => {
                    skipped(format_args!("no IPv6 here ({error})"));
                    return Ok(1);
                }
                datapath => datapath.expect("listening"),
            };
            let client = UdpSocket::bind(any).expect("a socket");
            client.connect(datapath.local_addr()).expect("connecting");
            let asked: Vec<_> = file
                .vectors
                .iter()
                .filter(|vector| vector.host.is_some())
                .collect();
            for vector in asked.iter().chain(&asked) {
                ask(&datapath, &client, vector)
                    .map_err(|fault| format!("{}.toml: {:?}: {fault}", file.name, vector.what))?;
            }
            Ok(asked.len())
        });
    }
}

fn ask(datapath: &SocketDatapath, client: &UdpSocket, vector: &Vector) -> Result<(), String> {
    let drops = || {
        datapath
            .counts()
            .drops
            .each_ref()
            .map(|count| count.load(Relaxed))
    };
    let before = drops();
    let io = |error: std::io::Error| error.to_string();
    client.send(&vector.request.0).map_err(io)?;
    let mut reply = [0; 2048];
    let Some(ExpectedVerdict::Drop(reason)) = &vector.host else {
        client
            .set_read_timeout(Some(Duration::from_secs(10)))
            .map_err(io)?;
        let bytes = client
            .recv(&mut reply)
            .map_err(|error| format!("no reply: {error}"))?;
        let expected = vector
            .reply
            .as_ref()
            .map(|reply| &reply.0[..])
            .unwrap_or_default();
        return same("the reply", expected, &reply[..bytes]);
    };
    let counted = || risen(before, drops(), |index| DropReason::ALL[index].name());
    for _ in 0..1000 {
        if !counted().is_empty() {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    same("counted drops", vec![reason.clone()], counted())?;
    client.set_nonblocking(true).map_err(io)?;
    let heard = client.recv(&mut reply);
    client.set_nonblocking(false).map_err(io)?;
    match heard {
        Ok(bytes) => Err(format!(
            "the request must be dropped, but was answered {:02x?}",
            &reply[..bytes]
        )),
        Err(_) => Ok(()),
    }
}

/// Without this test, a check that inspects nothing would accept every vector.
#[test]
fn a_changed_vector_fails() {
    let files = files();
    let file = files
        .iter()
        .find(|file| file.name == "payloads")
        .expect("payloads.toml");
    let broken = |what: &str, change: &dyn Fn(&mut Vector), said: &str| {
        let mut file = file.clone();
        let vector = file.vectors.iter_mut().find(|vector| vector.what == what);
        change(vector.unwrap_or_else(|| panic!("no vector {what:?}")));
        let fault = hold_model(&file).expect_err(what);
        assert!(fault.contains(what) && fault.contains(said), "{fault}");
    };
    let hit = "paper, cached, IPv4";
    let at = |bytes: &mut Option<lineside_conformance::vectors::Bytes>, at: usize| {
        bytes.as_mut().expect("a reply").0[at] ^= 1;
    };
    broken(hit, &|vector| at(&mut vector.reply, 31), "the reply's frame");
    broken(
        hit,
        &|vector| at(&mut vector.reply_headers, 40),
        "the reply's frame",
    );
    broken(
        hit,
        &|vector| vector.fastpath = ExpectedVerdict::Forward,
        "verdict",
    );
    broken(hit, &|vector| vector.request.0[0] ^= 1, "verdict");
    broken(hit, &|vector| vector.counts = Some("misses".into()), "counters");
    broken(hit, &|vector| vector.counts = None, "counters");
    let zero = "paper, TXID all zero: the reply unknown is not a request, IPv4";
    broken(
        zero,
        &|vector| vector.fastpath = ExpectedVerdict::Drop("reply_bit".into()),
        "counted drops",
    );
}

/// The vector files must equal the output of `make.py`, without manual edits.
#[test]
fn the_vector_files_are_the_output_of_the_generator() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../vectors/make.py");
    match std::process::Command::new("python3")
        .args([script, "--check"])
        .output()
    {
        Ok(done) => assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr)),
        Err(error) => skipped(format_args!("no python3 here ({error})")),
    }
}
