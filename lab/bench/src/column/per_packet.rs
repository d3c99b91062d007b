//! Cost of a packet of `column` in the XDP program alone. A program writes the whole frame and then calls `ls_root`.
//! The time of the same program with a trivial program in the place of `ls_root` is subtracted. Leases and validity are
//! checked for each packet as usual.

use crate::error::{BenchError, Result, io};
use crate::sys::{self, Run};
use libbpf_rs::{MapCore, MapFlags, MapHandle, Object, ObjectBuilder};
use lineside_column::datapath as column;
use lineside_column::fill::{ColumnFill, ColumnId, Filled, Row, ServerId};
use lineside_column::key::{Interval, Key};
use lineside_column::store::Geometry;
use lineside_column::writer::ColumnWriter;
use lineside_fastpath::lease;
use lineside_wire::endpoint::Endpoint;
use lineside_wire::frame::{self, Addressing};
use lineside_wire::{
    COLUMN_NAME_BYTES_MAX, COLUMN_OP_GET, COLUMN_OP_SCAN, COLUMN_PORT, ColumnCounter, ColumnHead,
    ColumnReply, native,
};
use lineside_xdp::XdpDatapath;
use serde::Serialize;
use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use zerocopy::IntoBytes;

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/column.bpf.o"));

const XDP_TX: u32 = 3;
const ZERO: [u8; 4] = [0; 4];
/// Lease in nanoseconds; it is longer than the run of any benchmark.
const LEASE_NS: u64 = 1 << 42;
/// Number of rows that are written into the fast-path table at a time.
const FILL_ROWS: u64 = 4096;
const NAME: &str = "entry:foo";
/// Size of a value in the paper, in bytes.
const VALUE_BYTES: usize = 18;
/// Difference between the numbers in the keys of neighbouring rows.
const STEP: u64 = 1_000_003;
const HEAD_BYTES: usize = 42;
/// Number of 64-bit words in `struct cb_send`: head, payload, and the other fields.
const SEND_WORDS: usize = 6 + PAYLOAD_WORDS + 7;
const PAYLOAD_WORDS: usize = 176;
const SERVER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];

/// Kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ask {
    /// The request is for one row.
    Get,
    /// The request is for eight rows.
    Scan8,
}

/// Case of the measurement.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Case {
    /// Kind of request.
    pub ask: Ask,
    /// Length of a key in bytes. The keys differ only in their last 8 bytes.
    pub key_bytes: usize,
    /// log2 of the number of rows in the fast-path table; each request is for another row.
    pub row_bits: u32,
}

/// The measured cases.
pub const CASES: [Case; 8] = [
    Case::new(Ask::Get, 8, 12),
    Case::new(Ask::Get, 24, 12),
    Case::new(Ask::Get, 64, 12),
    Case::new(Ask::Scan8, 8, 12),
    Case::new(Ask::Scan8, 24, 12),
    Case::new(Ask::Scan8, 64, 12),
    Case::new(Ask::Get, 8, 20),
    Case::new(Ask::Scan8, 8, 20),
];

/// Processor time that the program needs for one packet, in ns. The time in which the generator writes the request
/// into the frame is measured separately and subtracted.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct PerPacket {
    /// Case that was measured.
    pub case: Case,
    /// Minimum of several rounds, in nanoseconds.
    pub min_ns: f64,
    /// Median of the rounds, in nanoseconds.
    pub median_ns: f64,
    /// Median of the subtracted time in nanoseconds, in which the generator writes the frame and makes a tail call to a
    /// program that only returns XDP_TX.
    pub rewriting_ns: f64,
    /// Size of the request and of the reply, in bytes.
    pub payload_bytes: usize,
    /// Number of calls in a round. In each round, the reply counter of the program increased by exactly this number.
    pub calls: u32,
}

impl Case {
    const fn new(ask: Ask, key_bytes: usize, row_bits: u32) -> Self {
        Self {
            ask,
            key_bytes,
            row_bits,
        }
    }

    fn geometry(&self) -> Geometry {
        Geometry {
            family_bits: 0,
            column_bits: 0,
            row_bits: self.row_bits,
            // With 36 bytes for each row, a slot holds a row with a key of 8 bytes; 72 bytes are enough for 24, and 144
            // for 64.
            value_bits: match self.key_bytes {
                ..15 => 0,
                15..51 => 1,
                _ => 2,
            },
            columns: vec![NAME.into()],
            ..Geometry::default()
        }
    }

    fn key(&self, number: u64) -> Vec<u8> {
        let mut key = vec![b'k'; self.key_bytes - 8];
        key.extend((number * STEP).to_be_bytes());
        key
    }

    /// Returns the number of bytes of a row in the reply that belong neither to the key nor to the value.
    pub(super) fn overhead_bytes(&self) -> usize {
        self.record_bytes() - self.key_bytes - VALUE_BYTES
    }

    fn record_bytes(&self) -> usize {
        (4 + self.key_bytes + VALUE_BYTES).next_multiple_of(8)
    }

    /// Returns the payload of the request for row 0. The generator sets the last word of the key for each request.
    fn request(&self) -> Vec<u8> {
        let (op, limit, rows) = match self.ask {
            Ask::Get => (COLUMN_OP_GET, 0u16, 1),
            Ask::Scan8 => (COLUMN_OP_SCAN, 8, 8),
        };
        let head = ColumnHead {
            flags: 0,
            start_bytes: self.key_bytes as u8,
            stop_bytes: 0,
            columns: 1,
            limit: limit.into(),
            value_bytes: 0.into(),
            expected_bytes: 0.into(),
            reserved: 0.into(),
            slot: 0.into(),
            token: 0.into(),
            nonce: 0.into(),
        };
        let mut name = NAME.as_bytes().to_vec();
        name.resize(COLUMN_NAME_BYTES_MAX, 0);
        let mut body = [head.as_bytes(), &name, &self.key(0)].concat();
        let reply = size_of::<ColumnReply>() + rows * self.record_bytes();
        body.resize(body.len().max(reply), 0);
        let header = native::request_header(op, 1, body.len() as u16);
        [header.as_bytes(), &body].concat()
    }
}

/// Fast-path table with the rows of the case, and the program that writes requests.
struct Field {
    datapath: XdpDatapath,
    root: OwnedFd,
    object: Object,
    sends: MapHandle,
    next: MapHandle,
}

impl Field {
    fn load(case: &Case) -> Result<Self> {
        let geometry = case.geometry();
        let mut datapath = XdpDatapath::load(vec![column::program(&geometry, COLUMN_PORT)], None)?;
        let store = Arc::new(column::store(&mut datapath, &geometry)?);
        store
            .format(&geometry)
            .map_err(io("laying out the fast-path table"))?;
        let own = [10, 0, 0, 2].into();
        datapath.start(&Endpoint::new(SERVER_MAC, false, &[own]).unwrap_or_default())?;
        let root = datapath
            .with_root(|root| root.try_clone_to_owned())?
            .map_err(io("opening ls_root"))?;
        lease::renew(&store.control().lease_until_ns, LEASE_NS);
        fill(case, &mut ColumnWriter::new(store));
        let opened = ObjectBuilder::default()
            .open_memory(OBJECT)
            .map_err(bpf("reading a program"))?;
        let object = opened.load().map_err(bpf("loading a program"))?;
        Ok(Self {
            sends: map(&object, "cb_sends")?,
            next: map(&object, "cb_next")?,
            datapath,
            root,
            object,
        })
    }

    fn hits(&mut self) -> Result<u64> {
        let counts: [u64; ColumnCounter::ALL.len()] = self.datapath.counts("column_counts")?;
        Ok(counts[ColumnCounter::Hits as usize])
    }

    fn program(&self, name: &str) -> Result<OwnedFd> {
        let found = self
            .object
            .progs()
            .find(|program| program.name() == OsStr::new(name));
        let fd = found.map(|program| program.as_fd().try_clone_to_owned());
        fd.unwrap_or_else(|| Err(std::io::ErrorKind::NotFound.into()))
            .map_err(io("opening a program"))
    }

    /// Returns the time of one call of `cb_rewrite` followed by `program`, in nanoseconds. The kernel measures it
    /// within the program.
    fn call(&self, case: &Case, program: BorrowedFd<'_>, calls: u32) -> Result<f64> {
        let payload = case.request();
        let mut frame = vec![0; 1514];
        let bytes = frame::build(&mut frame, &addressing(), &payload).unwrap_or(0);
        frame.truncate(bytes);
        let mut send = frame[..HEAD_BYTES].to_vec();
        send.resize(48, 0);
        send.extend(&payload);
        send.resize(48 + 8 * PAYLOAD_WORDS, 0);
        for word in [0, u64::from(calls) - 1, 0, 0, STEP] {
            send.extend(word.to_ne_bytes());
        }
        let key_word = (80 + case.key_bytes) / 8 - 1;
        // A scan begins at a row that has eight rows after it.
        let mask = (1u32 << case.row_bits) - 1;
        for word in [payload.len() as u32 / 8, key_word as u32, mask, 0] {
            send.extend(word.to_ne_bytes());
        }
        let fd = program.as_raw_fd().to_ne_bytes();
        self.next
            .update(&ZERO, &fd, MapFlags::ANY)
            .and_then(|()| self.sends.update(&ZERO, &send, MapFlags::ANY))
            .map_err(bpf("preparing a run"))?;
        let rewrite = self.program("cb_rewrite")?;
        let verdict =
            sys::test_run(rewrite.as_fd(), &frame, calls, Run::Repeat).map_err(io("measuring a program"))?;
        let sent = self
            .sends
            .lookup(&ZERO, MapFlags::ANY)
            .map_err(bpf("reading a run"))?;
        let words: Vec<u64> = sent
            .unwrap_or_default()
            .as_chunks()
            .0
            .iter()
            .map(|word| u64::from_ne_bytes(*word))
            .collect();
        if verdict != XDP_TX || words.len() != SEND_WORDS || words[6 + PAYLOAD_WORDS] != u64::from(calls) {
            return Err(BenchError::Void(format!(
                "the program returned the verdict {verdict} (XDP_TX is needed), or was not called {calls} times"
            )));
        }
        let times = &words[6 + PAYLOAD_WORDS + 2..];
        Ok((times[1] - times[0]) as f64 / f64::from(calls - 1))
    }
}

/// Measures one case.
///
/// # Errors
/// Returns an error of the operating system, or [`BenchError::Void`] if a reply is missing.
pub fn measure(case: &Case, rounds: usize, calls: u32) -> Result<PerPacket> {
    let mut field = Field::load(case)?;
    let trivial = field.program("cb_tx")?;
    let (mut costs, mut rewritings) = (Vec::new(), Vec::new());
    for _ in 0..rounds.max(1) {
        let rewriting = field.call(case, trivial.as_fd(), calls)?;
        let hits = field.hits()?;
        let whole = field.call(case, field.root.as_fd(), calls)?;
        let risen = field.hits()? - hits;
        if risen != u64::from(calls) {
            return Err(BenchError::Void(format!(
                "the program was called {calls} times, but counted {risen} replies"
            )));
        }
        costs.push(whole - rewriting);
        rewritings.push(rewriting);
    }
    costs.sort_by(f64::total_cmp);
    rewritings.sort_by(f64::total_cmp);
    Ok(PerPacket {
        case: *case,
        min_ns: costs[0],
        median_ns: costs[costs.len() / 2],
        rewriting_ns: rewritings[rewritings.len() / 2],
        payload_bytes: case.request().len(),
        calls,
    })
}

fn fill(case: &Case, writer: &mut ColumnWriter) {
    let count = 1u64 << case.row_bits;
    let key = |number| Key::new(&case.key(number)).unwrap_or(Key::FIRST);
    for first in (0..count).step_by(FILL_ROWS as usize) {
        let last = first + FILL_ROWS.min(count);
        let rows: Vec<_> = (first..last)
            .map(|number| Row {
                key: key(number),
                value: vec![number as u8; VALUE_BYTES],
                timestamp_ms: number,
            })
            .collect();
        writer.install(&Filled {
            column: ColumnId(0),
            interval: Interval {
                low: key(first),
                high: (last < count).then(|| key(last)),
            },
            rows: &rows,
            until_ns: u64::MAX,
            server: ServerId(0),
        });
    }
}

fn addressing() -> Addressing {
    Addressing {
        source_mac: [2, 0, 0, 0, 0, 1],
        destination_mac: SERVER_MAC,
        vlan: None,
        source: [10, 0, 0, 1].into(),
        destination: [10, 0, 0, 2].into(),
        source_port: 40_000,
        destination_port: COLUMN_PORT,
    }
}

fn map(object: &Object, name: &str) -> Result<MapHandle> {
    let found = object.maps().find(|map| map.name() == OsStr::new(name));
    let missing = || Err(BenchError::Void(format!("the BPF object has no map {name}")));
    found.map_or_else(missing, |map| {
        MapHandle::try_from(&map).map_err(bpf("opening a map"))
    })
}

fn bpf(what: &'static str) -> impl Fn(libbpf_rs::Error) -> BenchError {
    move |source| BenchError::Bpf { what, source }
}
