//! Tests that run `vectors/column` through every datapath that processes whole frames together with the host, through
//! sockets, and through the host alone.

#[allow(dead_code, reason = "its pair of interfaces is for other tests")]
use lineside_column::coherence::Coherence;
use lineside_column::embedded::Embedded;
use lineside_column::fastpath::ColumnFastPath;
use lineside_column::fill::{ColumnFill, ColumnId, Filled, Row as Held, ServerId};
use lineside_column::host::{CoherenceMode, ColumnHost, Setup};
use lineside_column::key::{Interval, Key};
use lineside_column::store::{Geometry, Store};
use lineside_column::table::{
    Cell, Change, ChangeOutcome, ColumnName, FoundCell, Nonce, ScanRange, Table, TableError,
};
use lineside_column::writer::ColumnWriter;
use lineside_conformance::column::FrameDatapath;
use lineside_conformance::frames::{Datapath, DatapathKind};
use lineside_conformance::vectors::column::{File, Table as How, Vector};
use lineside_conformance::vectors::{ExpectedVerdict, Lease};
use lineside_fastpath::{
    DropReason, FrameVerdict, Host, PAYLOAD_BYTES_MAX, Range, Reader, Readers, Reply, Source, Verdict, lease,
};
use lineside_net::{SocketDatapath, SocketOptions};
use lineside_testkit::skipped;
use lineside_wire::endpoint::Endpoint;
use lineside_wire::{COLUMN_PORT, COLUMN_SOURCE_HOST, ColumnCounter, frame, native};
use lineside_xdp::XdpError;
use std::collections::HashMap;
use std::net::{IpAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

const LEASE_NS: u64 = 1 << 50;

fn files() -> Vec<File> {
    lineside_conformance::vectors::column::load().unwrap_or_else(|fault| panic!("{fault}"))
}

fn geometry(file: &File) -> Geometry {
    let state = &file.state;
    let alone = |address: &IpAddr| Range {
        address: *address,
        prefix_bits: if address.is_ipv4() { 32 } else { 128 },
    };
    Geometry {
        family_bits: 0,
        column_bits: 1,
        row_bits: 8,
        // A block has space for a value of 1,024 bytes.
        value_bits: 2,
        columns: state.columns.clone(),
        paper_format: state.paper_format,
        may_be_stale: state.may_be_stale,
        literal_flags: state.literal_flags,
        trusted_sources: state.trusted.iter().map(alone).collect(),
        ..Geometry::default()
    }
}

fn endpoint(file: &File) -> Endpoint {
    let endpoint = file.endpoint.interface(false);
    endpoint.expect("the vectors' addresses fit an endpoint")
}

fn name(text: &str) -> ColumnName {
    ColumnName::new(text.as_bytes()).expect("family:qualifier")
}

/// Embedded table, or the substitute that a file requests.
#[derive(Debug)]
struct Truth {
    rows: Embedded,
    how: How,
}

impl Truth {
    fn read<T>(&self, read: impl FnOnce() -> Result<T, TableError>) -> Result<T, TableError> {
        match self.how {
            How::Here | How::Ended | How::Silent => read(),
            How::Away => Err(TableError::Unavailable("the table is not reachable".into())),
            How::WithoutTheFamily => Err(TableError::UnknownFamily(
                "the table does not have the family".into(),
            )),
            How::Refusing => Err(TableError::Refused("it refuses".into())),
        }
    }
}

impl Table for Truth {
    fn get(&self, key: &[u8], columns: &[ColumnName]) -> Result<Vec<Option<Cell>>, TableError> {
        self.read(|| self.rows.get(key, columns))
    }

    fn scan(&self, range: &ScanRange, columns: &[ColumnName]) -> Result<Vec<FoundCell>, TableError> {
        self.read(|| self.rows.scan(range, columns))
    }

    fn change(
        &self,
        key: &[u8],
        column: &ColumnName,
        change: &Change,
        nonce: Nonce,
    ) -> Result<ChangeOutcome, TableError> {
        match self.how {
            How::Ended => Err(TableError::Ended("the disk failed".into())),
            How::Silent => Err(TableError::Unknown("the table did not report the outcome".into())),
            _ => self.read(|| self.rows.change(key, column, change, nonce)),
        }
    }

    fn now_ms(&self) -> u64 {
        self.rows.now_ms()
    }
}

/// Host with its table. No request goes to the fast path of this host.
struct Behind {
    host: ColumnHost,
    table: Arc<Truth>,
}

impl Behind {
    fn new(file: &File) -> Self {
        let time_ms = Arc::new(AtomicU64::new(0));
        let clock = Arc::clone(&time_ms);
        let rows = Embedded::in_memory(Arc::new(move || clock.load(Relaxed)));
        for row in &file.rows {
            time_ms.store(row.timestamp_ms, Relaxed);
            let put = Change::Put(row.value.0.clone(), None);
            rows.change(&row.key.0, &name(&row.column), &put, Nonce::default())
                .expect("memory");
        }
        time_ms.store(file.state.now_ms, Relaxed);
        let table = Arc::new(Truth {
            rows,
            how: file.state.table,
        });
        let store = Arc::new(Store::anonymous(&geometry(file)).expect("memory"));
        let coherence = Arc::new(Coherence::new(Box::new(ColumnWriter::new(Arc::clone(&store)))));
        let coherence_mode = match file.state.may_be_stale {
            true => CoherenceMode::Ttl(LEASE_NS),
            false => CoherenceMode::ByTable,
        };
        let columns = file.state.columns.iter().map(|column| name(column)).collect();
        let mut setup = Setup::new(Arc::clone(&table) as _, coherence, columns, coherence_mode);
        setup.paper_format = file.state.paper_format;
        setup.trusted = Box::new(move |address| store.trusts(address));
        let host = ColumnHost::new(setup).expect("random numbers");
        Self { host, table }
    }
}

impl Host for Behind {
    fn serve(&self, from: Source, request: &[u8], reply: &mut Reply, sender: &Reader) -> Verdict {
        self.host.serve(from, request, reply, sender)
    }
}

/// Writer that brings a fast-path table into the state of a file.
struct Filler {
    store: Arc<Store>,
    writer: ColumnWriter,
    table: Arc<Truth>,
}

impl Filler {
    fn new(store: &Arc<Store>, behind: &Behind) -> Self {
        Self {
            store: Arc::clone(store),
            writer: ColumnWriter::new(Arc::clone(store)),
            table: Arc::clone(&behind.table),
        }
    }

    /// Fills the fast-path table with the parts that the file names, with the present content of the table.
    fn fill(&mut self, file: &File) {
        let id = |column: &str| {
            let place = file.state.columns.iter().position(|name| name == column);
            ColumnId(place.expect("a column that the fast path holds") as u16)
        };
        self.halt(false);
        lease::renew(&self.store.control().lease_until_ns, LEASE_NS);
        self.writer.clear();
        for held in &file.held {
            let range = ScanRange {
                low: held.low.0.clone(),
                high: held.high.as_ref().map(|high| high.0.clone()),
                limit: usize::MAX,
                reverse: false,
            };
            let found = self.table.rows.scan(&range, &[name(&held.column)]);
            let (mut rows, mut high) = (Vec::new(), range.high.as_deref().and_then(Key::new));
            for found in found.expect("memory") {
                // The part ends at the first key or value that does not fit, where the host's fills end, too.
                let holds = Key::new(&found.key).filter(|_| found.cell.value.len() <= 1024);
                let Some(key) = holds else {
                    high = Some(Interval::of_row(&found.key).low);
                    break;
                };
                rows.push(Held {
                    key,
                    value: found.cell.value,
                    timestamp_ms: found.cell.timestamp_ms,
                });
            }
            rows.retain(|row| high.is_none_or(|high| row.key < high));
            let low = Key::new(&range.low).expect("a key that the fast path can hold");
            self.writer.install(&Filled {
                column: id(&held.column),
                interval: Interval { low, high },
                rows: &rows,
                until_ns: u64::MAX,
                server: ServerId(0),
            });
        }
        if let Some((column, key)) = &file.state.invalid {
            self.writer.invalidate(id(column), &Interval::of_row(&key.0));
        }
        if file.state.lease == Lease::Over {
            lease::end(&self.store.control().lease_until_ns);
        }
        self.halt(file.state.changing);
    }

    /// Stops the host in the middle of a change of the fast path's index, or makes it continue the change.
    fn halt(&self, halted: bool) {
        for table in self.store.tables.as_slice() {
            match halted {
                true => table.seq.fetch_or(1, Relaxed),
                false => table.seq.fetch_and(!1, Relaxed),
            };
        }
    }
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

/// Returns the reply that the host must give in place of the fast path: the same bytes, except for the byte that names
/// the source.
fn by_host(vector: &Vector, reply: Option<Vec<u8>>) -> Option<Vec<u8>> {
    let mut reply = reply?;
    let is_whole = native::is_native(&reply) && reply.len() > 16;
    if vector.fastpath == ExpectedVerdict::Reply && is_whole {
        reply[16] = COLUMN_SOURCE_HOST;
    }
    Some(reply)
}

/// Compares the host's verdict on `payload` with the expected verdict.
fn hold_host(
    vector: &Vector,
    host: &ColumnHost,
    from: Source,
    payload: &[u8],
    chosen: &mut Vec<u8>,
) -> Result<(), String> {
    let mut reply = Reply::default();
    let said = host.serve(from, payload, &mut reply, &Readers::default().join());
    let reply = reply.as_bytes().to_vec();
    match (&vector.host, said) {
        (Some(ExpectedVerdict::Reply), Verdict::Reply) => {
            let expected = by_host(vector, vector.expected(payload, &reply));
            same("the host's reply", expected, Some(reply.clone()))?;
            if vector.is_chosen() {
                *chosen = reply;
            }
            Ok(())
        }
        (Some(ExpectedVerdict::Drop(reason)), Verdict::Drop(found)) => {
            same("the host's reason", reason.as_str(), found.name())
        }
        (None, Verdict::Forward) => Ok(()),
        (expected, said) => Err(format!(
            "the host must return {expected:?}, and returned {said:?}, {reply:02x?}"
        )),
    }
}

fn hold_one(
    vector: &Vector,
    datapath: &mut FrameDatapath,
    host: &ColumnHost,
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
        ColumnCounter::ALL[index].name()
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
            match is_about_payload(vector) {
                true => hold_host(vector, host, source(&request)?, &payload, chosen),
                false => Ok(()),
            }
        }
        ExpectedVerdict::Drop(_) => Ok(()),
    }
}

/// Returns whether the fast path or the host inspected the payload. A frame that is passed on without inspection is not
/// counted.
fn is_about_payload(vector: &Vector) -> bool {
    vector.host.is_some() || !vector.counts.is_empty()
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
    let opened = FrameDatapath::open(kind, &geometry(file), &endpoint(file), COLUMN_PORT);
    let (mut datapath, store) = match opened {
        Err(XdpError::NotAllowed(why)) => {
            skipped(format_args!("BPF is not allowed here ({why})"));
            return Ok(None);
        }
        opened => opened.map_err(|error| error.to_string())?,
    };
    let behind = Behind::new(file);
    let mut filler = Filler::new(&store, &behind);
    let mut chosen = Vec::new();
    for vector in &file.vectors {
        filler.fill(file);
        hold_one(vector, &mut datapath, &behind.host, &mut chosen)
            .map_err(|fault| format!("{}.toml: {:?}: {fault}", file.name, vector.what))?;
    }
    Ok(Some(file.vectors.len()))
}

/// Runs the vectors of all files, and prints their number.
fn all(name: &str, kind: DatapathKind) {
    let mut ran = 0;
    for file in files() {
        match hold(&file, kind).unwrap_or_else(|fault| panic!("{fault}")) {
            Some(vectors) => ran += vectors,
            None => return println!("{name}: skipped"),
        }
    }
    println!("{name}: {ran} vectors");
    assert!(ran > 0, "{name}: no vector ran");
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

/// The host alone must give the same bytes as together with the fast path.
#[test]
fn the_host_without_a_fast_path_gives_the_replies_of_the_vectors() {
    let mut ran = 0;
    for file in files() {
        let behind = Behind::new(&file);
        let mut chosen = Vec::new();
        for vector in file.vectors.iter().filter(|vector| vector.host.is_some()) {
            let payload = vector.payload(&chosen);
            source(&vector.frame(&payload))
                .and_then(|from| hold_host(vector, &behind.host, from, &payload, &mut chosen))
                .unwrap_or_else(|fault| panic!("{}.toml: {:?}: {fault}", file.name, vector.what));
            ran += 1;
        }
    }
    println!("the host alone: {ran} vectors");
    assert!(ran > 0, "no vector ran");
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
        for file in files().iter().filter(|file| file.name != "frames") {
            ran += over_sockets(file).unwrap_or_else(|fault| panic!("{}.toml: {fault}", file.name));
        }
        println!("the socket datapath: {ran} vectors");
        assert!(ran > 0, "no vector ran");
    });
}

fn over_sockets(file: &File) -> Result<usize, String> {
    let store = Arc::new(Store::anonymous(&geometry(file)).expect("memory"));
    let behind = Behind::new(file);
    let mut filler = Filler::new(&store, &behind);
    let options = SocketOptions {
        listen: (std::net::Ipv6Addr::UNSPECIFIED, COLUMN_PORT).into(),
        threads: 1,
        queue: 64,
    };
    let fastpath = Arc::new(ColumnFastPath::new(store));
    let counting = Arc::clone(&fastpath);
    let datapath =
        SocketDatapath::start(options, fastpath, Arc::new(behind), &Readers::new(false)).expect("listening");
    let mut clients: HashMap<(IpAddr, u16), UdpSocket> = HashMap::new();
    let (mut chosen, mut ran) = (Vec::new(), 0);
    for vector in &file.vectors {
        let fault = |fault: String| format!("{:?}: {fault}", vector.what);
        let payload = vector.payload(&chosen);
        let from = source(&vector.frame(&payload)).map_err(fault)?;
        if vector.host.is_none() || payload.len() > PAYLOAD_BYTES_MAX {
            // The test cannot observe that a reply is missing.
            continue;
        }
        filler.fill(file);
        ran += 1;
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
        let (before, counters) = (drops(), counting.counters());
        client.send(&payload).expect("sending");
        if vector.host == Some(ExpectedVerdict::Reply) {
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
        } else if let Some(ExpectedVerdict::Drop(reason)) = &vector.host {
            let counted = || risen(&before, &drops(), |index| DropReason::ALL[index].name());
            while counted().is_empty() {
                std::thread::yield_now();
            }
            same("counted drops", vec![reason.clone()], counted()).map_err(fault)?;
        }
        let counted = risen(&counters, &counting.counters(), |index| {
            ColumnCounter::ALL[index].name()
        });
        same("counters", vector.counts.clone(), counted).map_err(fault)?;
    }
    datapath.stop();
    Ok(ran)
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
    socket.connect((server, COLUMN_PORT)).expect("connecting");
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
    let (file, held) = ("native-reads", "get, held, IPv4");
    let wrong = "the reply's frame";
    broken(file, held, &|vector| at(&mut vector.reply, 47), wrong);
    broken(file, held, &|vector| at(&mut vector.reply_headers, 40), wrong);
    broken(
        file,
        held,
        &|vector| vector.fastpath = ExpectedVerdict::Forward,
        "verdict",
    );
    broken(
        file,
        held,
        &|vector| vector.counts.push("misses".into()),
        "counters",
    );
    let hosts = "get, not held, IPv4";
    broken(
        file,
        hosts,
        &|vector| at(&mut vector.reply, 47),
        "the host's reply",
    );
    let dropped = ExpectedVerdict::Drop("reply_bit".into());
    broken(
        file,
        hosts,
        &|vector| vector.host = Some(dropped.clone()),
        "the host must return",
    );
    let granted = "open: granted";
    broken(
        "sessions",
        granted,
        &|vector| at(&mut vector.reply, 43),
        "the host's reply",
    );
    let other = ExpectedVerdict::Drop("reply_bit".into());
    broken(
        "refusals",
        "magic 4c54",
        &|vector| vector.fastpath = other.clone(),
        "counted drops",
    );
}
