//! BPF object of the generators, and encoding of its state. The layout must equal that of the structs in
//! `bpf/transfer.bpf.c`.

use super::plan::{BALANCE, Command, Plan};
use crate::client::histogram;
use crate::error::{BenchError, Result, bpf, io};
use crate::netns::{CLIENT_ADDRESS, CLIENT_MAC, SERVER_ADDRESS, SERVER_MAC};
use crate::sys;
use crate::wrong::KeptReplies;
use hdrhistogram::Histogram;
use libbpf_rs::{MapCore, MapFlags, MapHandle, Object, ObjectBuilder};
use lineside_wire::csum;
use lineside_wire::frame::{Addressing, build};
use lineside_wire::{
    ExecuteHead, Operation, TRANSFER_COMMAND_TRANSFER, TRANSFER_OP_EXECUTE, TRANSFER_PORT, native,
};
use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use zerocopy::{FromZeros, IntoBytes};

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/transfer.bpf.o"));

const HEAD_BYTES: usize = 42;
const CHECK_AT: usize = 40;
const PAPER_BYTES: usize = 22;
const NATIVE_BYTES: usize = 128;
const FIRST_PORT: u16 = 0x8000;
const SEND_BYTES: usize = 48 + 128 + 80 + 24;
const BUCKETS: usize = 1024;
const BUCKETS_AT: usize = 72;
const SEEN_BYTES: usize = BUCKETS_AT + 8 * BUCKETS;
/// Size of `struct tb_answered`: one bit for each of the newest 2^22 requests.
const ANSWERED_BYTES: usize = 1 << 19;
const ZERO: [u8; 4] = 0u32.to_ne_bytes();

/// Session in which a stream of native requests is sent.
#[derive(Clone, Copy, Debug)]
pub struct NativeSession {
    /// Slot of the session.
    pub slot: u32,
    /// Secret token of the session.
    pub token: u64,
    /// Sequence number of request 0, modulo 2^64. Requests before `first` need not belong to the session.
    pub sequence: u64,
}

/// Values that are written to `struct tb_send` and `struct tb_seen` before a run.
#[derive(Clone, Copy, Debug)]
pub struct Orders {
    /// Plan of the requests, which also defines the replies.
    pub plan: Plan,
    /// Number of the first request.
    pub first: u64,
    /// Maximum number of requests.
    pub limit: u64,
    /// log2 of the sampling interval of latencies: the generator times one request in 2^`sample_bits`.
    pub sample_bits: u32,
    /// Number of the call whose start is recorded in [`TransferSentCounts::last_ns`].
    pub last: u64,
    /// True if requests may be lost, so that the balances in replies are known only within a pass over the accounts.
    pub loses: bool,
    /// Session of native TRANSFERs; `None` if the requests are packets in the paper's format.
    pub native: Option<NativeSession>,
}

/// Values that are read from `struct tb_send` after a run.
#[derive(Clone, Copy, Debug)]
pub struct TransferSentCounts {
    /// Number of the next request.
    pub next: u64,
    /// Time at which the first request left, by CLOCK_MONOTONIC.
    pub first_ns: u64,
    /// Time at which call number [`Orders::last`] began.
    pub last_ns: u64,
}

/// Values that are read from `struct tb_seen` after a run.
#[derive(Clone, Debug)]
pub struct TransferSeenCounts {
    /// Number of right replies.
    pub right: u64,
    /// Number of wrong replies.
    pub wrong: u64,
    /// Number of refusals with the code `busy`.
    pub busy: u64,
    /// Number of other refusals.
    pub refused: u64,
    /// Number of right replies to requests of earlier calls.
    pub late: u64,
    /// Number of right replies to requests that were answered before.
    pub repeated: u64,
    /// Arrival of the last timed reply, by CLOCK_MONOTONIC.
    pub last_ns: u64,
    /// Latencies of timed replies, in ns.
    pub latency: Histogram<u64>,
}

impl TransferSeenCounts {
    /// Returns the number of replies to requests of this call.
    pub fn answered(&self) -> u64 {
        self.right + self.wrong + self.busy + self.refused
    }

    /// Returns the number of all replies.
    pub fn arrived(&self) -> u64 {
        self.answered() + self.late + self.repeated
    }
}

/// Loaded programs and maps of the generators.
pub struct Generator {
    object: Object,
    sends: MapHandle,
    seens: MapHandle,
    answereds: MapHandle,
    next: MapHandle,
    /// Wrong replies that the check has kept.
    pub wrong: KeptReplies,
}

impl Generator {
    /// Loads the BPF object.
    pub fn load() -> Result<Self> {
        let open = ObjectBuilder::default()
            .open_memory(OBJECT)
            .map_err(bpf("reading the generators"))?;
        let object = open.load().map_err(bpf("loading the generators"))?;
        Ok(Self {
            sends: map(&object, "tb_sends")?,
            seens: map(&object, "tb_seens")?,
            answereds: map(&object, "tb_answereds")?,
            next: map(&object, "tb_next")?,
            wrong: KeptReplies::of(&object)?,
            object,
        })
    }

    /// Returns a program of the object.
    pub fn program(&self, name: &str) -> Result<OwnedFd> {
        let mut programs = self.object.progs();
        let found = programs.find(|program| program.name() == OsStr::new(name));
        let fd = found.map(|program| program.as_fd().try_clone_to_owned());
        let missing = || Err(std::io::ErrorKind::NotFound.into());
        fd.unwrap_or_else(missing).map_err(io("opening a generator"))
    }

    /// Attaches a program that passes every frame on to an interface of the calling thread's namespace.
    pub fn attach_pass(&self, interface: u32) -> Result<OwnedFd> {
        let pass = self.program("tb_pass")?;
        sys::attach_native(pass.as_fd(), interface).map_err(io("attaching tb_pass"))
    }

    /// Sets `program` as the program that `tb_rewrite` and `tb_rewrite_native` call.
    pub fn set_next(&self, program: BorrowedFd<'_>) -> Result<()> {
        let fd = program.as_raw_fd().to_ne_bytes();
        self.next
            .update(&ZERO, &fd, MapFlags::ANY)
            .map_err(bpf("choosing the program to measure"))
    }

    /// Resets the counters and writes the values of the next run.
    pub fn begin(&self, orders: &Orders) -> Result<()> {
        let cleared = [
            self.sends.update(&ZERO, &send_bytes(orders), MapFlags::ANY),
            self.seens.update(&ZERO, &seen_bytes(orders), MapFlags::ANY),
            (self.answereds).update(&ZERO, &vec![0; ANSWERED_BYTES], MapFlags::ANY),
        ];
        cleared
            .into_iter()
            .collect::<libbpf_rs::Result<()>>()
            .map_err(bpf("preparing a run"))?;
        self.wrong.clear()
    }

    /// Returns the requests sent since [`Generator::begin`].
    pub fn sent(&self) -> Result<TransferSentCounts> {
        let bytes = read(&self.sends, SEND_BYTES)?;
        Ok(TransferSentCounts {
            next: word(&bytes, 176),
            first_ns: word(&bytes, 192),
            last_ns: word(&bytes, 200),
        })
    }

    /// Returns the replies received since [`Generator::begin`].
    pub fn seen(&self) -> Result<TransferSeenCounts> {
        let bytes = read(&self.seens, SEEN_BYTES)?;
        let mut latency = histogram();
        for bucket in 0..BUCKETS {
            latency.saturating_record_n(
                crate::bpf::bucket_ns(bucket),
                word(&bytes, BUCKETS_AT + 8 * bucket),
            );
        }
        Ok(TransferSeenCounts {
            right: word(&bytes, 0),
            wrong: word(&bytes, 8),
            busy: word(&bytes, 16),
            refused: word(&bytes, 24),
            late: word(&bytes, 56),
            repeated: word(&bytes, 64),
            last_ns: word(&bytes, 40),
            latency,
        })
    }
}

/// Returns a frame of the right length with the header of every request and the constant part of the payload.
pub fn template(orders: &Orders) -> Vec<u8> {
    let payload = orders
        .native
        .map_or_else(|| vec![0; PAPER_BYTES], |session| native_body(&session));
    let mut frame = vec![0; HEAD_BYTES + payload.len()];
    let addressing = Addressing {
        source_mac: CLIENT_MAC,
        destination_mac: SERVER_MAC,
        vlan: None,
        source: CLIENT_ADDRESS.into(),
        destination: SERVER_ADDRESS.into(),
        source_port: FIRST_PORT,
        destination_port: TRANSFER_PORT,
    };
    build(&mut frame, &addressing, &payload);
    frame
}

/// Returns a native packet with one TRANSFER of 1 in this session, without request id, sequence number and accounts.
fn native_body(session: &NativeSession) -> Vec<u8> {
    let body = size_of::<ExecuteHead>() + size_of::<Operation>();
    let header = native::request_header(TRANSFER_OP_EXECUTE, 1, body as u16);
    let head = ExecuteHead {
        token: session.token.into(),
        slot: session.slot.into(),
        count: 1.into(),
        ..ExecuteHead::new_zeroed()
    };
    let operation = Operation {
        command: TRANSFER_COMMAND_TRANSFER,
        amount: 1.into(),
        ..Operation::new_zeroed()
    };
    [header.as_bytes(), head.as_bytes(), operation.as_bytes()].concat()
}

fn send_bytes(orders: &Orders) -> [u8; SEND_BYTES] {
    let frame = template(orders);
    let mut send = [0; SEND_BYTES];
    send[..HEAD_BYTES].copy_from_slice(&frame[..HEAD_BYTES]);
    let native = orders.native.is_some();
    if native {
        send[48..48 + NATIVE_BYTES].copy_from_slice(&frame[HEAD_BYTES..]);
    }
    let words = [
        (176, orders.first),
        (184, orders.first + orders.limit),
        (208, orders.last),
        (216, orders.first),
        (224, orders.native.map_or(0, |session| session.sequence)),
    ];
    for (at, word) in words {
        send[at..at + 8].copy_from_slice(&word.to_ne_bytes());
    }
    let command: u32 = match orders.plan.command {
        Command::Create => 1,
        Command::Issue => 2,
        Command::Transfer => 3,
        Command::Refer => 4,
        Command::Mix => 5,
    };
    let halves = [
        orders.plan.bits,
        command,
        orders.plan.numbered.into(),
        constant_sum(&frame, native),
        orders.sample_bits,
        BALANCE,
    ];
    for (index, half) in halves.into_iter().enumerate() {
        let at = 256 + 4 * index;
        send[at..at + 4].copy_from_slice(&half.to_ne_bytes());
    }
    send
}

/// Returns the sum of pseudo-header, UDP header and payload, without the fields that differ in each request: source
/// port and checksum, and in packets of the paper's format the whole payload.
fn constant_sum(frame: &[u8], native: bool) -> u32 {
    let mut udp = frame[34..].to_vec();
    udp[..2].fill(0);
    udp[CHECK_AT - 34..CHECK_AT - 32].fill(0);
    if !native {
        udp[8..].fill(0);
    }
    let addresses = csum::sum(&frame[26..34]);
    let length = csum::sum(&frame[38..40]);
    let protocol = csum::sum(&[0, 17]);
    let sum = csum::fold(addresses + length + protocol + csum::sum(&udp));
    // The BPF program adds words in the byte order of memory.
    u32::from(u16::from_ne_bytes(sum.to_be_bytes()))
}

fn seen_bytes(orders: &Orders) -> [u8; SEEN_BYTES] {
    let mut seen = [0; SEEN_BYTES];
    seen[48..50].copy_from_slice(&TRANSFER_PORT.to_be_bytes());
    seen[52..56].copy_from_slice(&u32::from(orders.loses).to_ne_bytes());
    seen
}

fn map(object: &Object, name: &str) -> Result<MapHandle> {
    let found = object.maps().find(|map| map.name() == OsStr::new(name));
    let missing = std::io::Error::new(std::io::ErrorKind::NotFound, name.to_owned());
    let map = found.ok_or(missing).map_err(io("finding a map"))?;
    MapHandle::try_from(&map).map_err(bpf("opening a map"))
}

fn read(map: &MapHandle, bytes: usize) -> Result<Vec<u8>> {
    let value = map
        .lookup(&ZERO, MapFlags::ANY)
        .map_err(bpf("reading what a run did"))?;
    let value = value.filter(|value| value.len() >= bytes);
    value.ok_or_else(|| {
        BenchError::Void("the BPF generators do not match this program; build `lineside-lab` again".into())
    })
}

fn word(bytes: &[u8], at: usize) -> u64 {
    bytes[at..at + 8].try_into().map_or(0, u64::from_ne_bytes)
}
