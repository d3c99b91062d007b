//! BPF object of the load generators, and encoding of its state. The layout must equal that of the structs in
//! `bpf/generator.bpf.c`.

use crate::error::{BenchError, Result, bpf};
use crate::netns::{CLIENT_ADDRESS, CLIENT_MAC, SERVER_ADDRESS, SERVER_MAC};
use crate::sys;
use crate::workload::{BLOCKS, Hash, TXIDS, Workload};
use crate::wrong::KeptReplies;
use hdrhistogram::Histogram;
use libbpf_rs::{MapCore, MapFlags, MapHandle, Object, ObjectBuilder};
use lineside_wire::frame::{Addressing, build};
use lineside_wire::{NativeHeader, ProofReply, SPV_OP_PROOF, native};
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use zerocopy::IntoBytes;

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/generator.bpf.o"));

const HEAD_BYTES: usize = 42;
/// Size of a frame with a request in the paper's format, in bytes.
pub const SPV_FRAME_BYTES: usize = HEAD_BYTES + 32;
/// memcached's UDP frame header (request 1, datagram 0 of 1), and the command.
pub const MC_HEAD: [u8; 12] = *b"\x00\x01\x00\x00\x00\x01\x00\x00get ";
/// Size of a frame with a memcached `get` of a 32-byte key, in bytes.
pub const MC_FRAME_BYTES: usize = HEAD_BYTES + MC_HEAD.len() + 32 + 2;
/// Size of a frame with a native request for the proof of a transaction in a block of 2,048 transactions, in bytes.
const PROOF_FRAME_BYTES: usize = HEAD_BYTES + size_of::<NativeHeader>() + PROOF_BODY_BYTES;
const PROOF_BODY_BYTES: usize = size_of::<ProofReply>() + 11 * 32;
const SEND_BYTES: usize = 128;
const BUCKETS: usize = 1024;
const SEEN_BYTES: usize = 48 + 8 * BUCKETS;
/// Sampling interval of latencies: the generator times one request in this many.
pub const SAMPLE: u64 = 16;
const STAMPS: usize = 32_768 / SAMPLE as usize;
/// Number of entries of the stream that one system call writes into the BPF map.
const STREAM_BATCH: usize = 1 << 16;
const ZERO: [u8; 4] = 0u32.to_ne_bytes();

/// Loaded programs and maps of the generators.
pub struct Generator {
    object: Object,
    sends: MapHandle,
    seens: MapHandle,
    stamps: MapHandle,
    next: MapHandle,
    /// Wrong replies that the programs have kept.
    pub wrong: KeptReplies,
}

/// First and last hash of the path from a transaction to the Merkle root; the same layout as `struct bench_path`.
#[derive(Clone, Copy, Debug)]
pub struct PathEnds {
    /// The transaction's sibling.
    pub first: Hash,
    /// The child of the root.
    pub last: Hash,
}

/// Values that are written to `struct bench_send` before a run.
#[derive(Clone, Copy, Debug)]
pub struct SendPlan {
    /// UDP port of the server.
    pub port: u16,
    /// True if requests are in memcached's protocol.
    pub memcached: bool,
    /// True if requests are native requests for proofs, which `bench_rewrite_proof` and `bench_live_proof` send.
    pub proof: bool,
    /// log2 of the number of distinct entries that are queried in turn; 0 means that the same entry is always queried.
    pub entry_bits: u32,
    /// Number of the call whose start is recorded in [`SentCounts::last_ns`].
    pub last: u64,
    /// True if replies must equal the request.
    pub echo: bool,
}

/// Values that are read from `struct bench_send` after a run.
#[derive(Clone, Copy, Debug)]
pub struct SentCounts {
    /// Number of requests that the generator sent.
    pub requests: u64,
    /// Time at which the first request left, by CLOCK_MONOTONIC.
    pub first_ns: u64,
    /// Time at which call number [`SendPlan::last`] began.
    pub last_ns: u64,
}

/// Values that are read from `struct bench_seen` after a run.
#[derive(Clone, Debug)]
pub struct SeenCounts {
    /// Number of replies with the right root.
    pub right: u64,
    /// Number of replies with another root or of another length.
    pub wrong: u64,
    /// Number of replies that report an unknown TXID.
    pub unknown: u64,
    /// Arrival of the last timed reply, by CLOCK_MONOTONIC.
    pub last_ns: u64,
    /// Latencies of one reply in 16, in ns.
    pub latency: Histogram<u64>,
}

impl Generator {
    /// Loads the object and writes the workload into it.
    pub fn load(workload: &Workload) -> Result<Self> {
        let open = ObjectBuilder::default()
            .open_memory(OBJECT)
            .map_err(bpf("reading the generators"))?;
        let object = open.load().map_err(bpf("loading the generators"))?;
        let roots: Vec<u8> = (workload.roots.iter().cycle().take(BLOCKS))
            .flatten()
            .copied()
            .collect();
        map(&object, "bench_root_map")?
            .update(&ZERO, &roots, MapFlags::ANY)
            .map_err(bpf("writing roots"))?;
        let stream = map(&object, "bench_stream")?;
        write_stream(&stream, 0, workload.txids.iter().copied())?;
        write_stream(&stream, TXIDS, workload.txids.iter().map(memcached_key))?;
        Ok(Self {
            sends: map(&object, "bench_sends")?,
            seens: map(&object, "bench_seens")?,
            stamps: map(&object, "bench_stamp_map")?,
            next: map(&object, "bench_next")?,
            wrong: KeptReplies::of(&object)?,
            object,
        })
    }

    /// Writes the paths that the replies to requests for proofs must have, in the order of the stream.
    pub fn write_paths(&self, paths: impl Iterator<Item = PathEnds>) -> Result<()> {
        let paths: Vec<u8> = paths.flat_map(|path| [path.first, path.last].concat()).collect();
        let count = paths.len() / size_of::<PathEnds>();
        let keys: Vec<u8> = (0..count).flat_map(|key| (key as u32).to_ne_bytes()).collect();
        map(&self.object, "bench_paths")?
            .update_batch(&keys, &paths, count as u32, MapFlags::ANY, MapFlags::ANY)
            .map_err(bpf("writing paths"))
    }

    /// Returns a program of the object.
    pub fn program(&self, name: &str) -> Result<OwnedFd> {
        let mut programs = self.object.progs();
        let found = programs.find(|program| program.name() == OsStr::new(name));
        let fd = found.map(|program| program.as_fd().try_clone_to_owned());
        let missing = || Err(io::Error::from(io::ErrorKind::NotFound));
        fd.unwrap_or_else(missing)
            .map_err(crate::error::io("opening a generator"))
    }

    /// Attaches a program that passes every frame on to an interface of the calling thread's namespace.
    pub fn attach_pass(&self, interface: u32) -> Result<OwnedFd> {
        let pass = self.program("bench_pass")?;
        sys::attach_native(pass.as_fd(), interface).map_err(crate::error::io("attaching bench_pass"))
    }

    /// Returns the map of the AF_XDP sockets.
    pub fn sockets(&self) -> Result<MapHandle> {
        map(&self.object, "bench_xsks")
    }

    /// Sets `program` as the program that `bench_rewrite` calls.
    pub fn set_next(&self, program: BorrowedFd<'_>) -> Result<()> {
        let fd = program.as_raw_fd().to_ne_bytes();
        self.next
            .update(&ZERO, &fd, MapFlags::ANY)
            .map_err(bpf("choosing the program to measure"))
    }

    /// Resets the counters and writes the plan.
    pub fn begin(&self, plan: &SendPlan) -> Result<()> {
        let mut send = [0; SEND_BYTES];
        let frame = template(plan);
        send[..HEAD_BYTES].copy_from_slice(&frame[..HEAD_BYTES]);
        send[48..48 + MC_HEAD.len()].copy_from_slice(&MC_HEAD);
        if plan.proof {
            let header = native::request_header(SPV_OP_PROOF, 1, PROOF_BODY_BYTES as u16);
            send[48..48 + size_of::<NativeHeader>()].copy_from_slice(header.as_bytes());
        }
        send[88..96].copy_from_slice(&plan.last.to_ne_bytes());
        let base = if plan.memcached { TXIDS as u32 } else { 0 };
        send[96..100].copy_from_slice(&base.to_ne_bytes());
        send[100..104].copy_from_slice(&((1u32 << plan.entry_bits) - 1).to_ne_bytes());
        let mut seen = [0; SEEN_BYTES];
        seen[40..42].copy_from_slice(&plan.port.to_be_bytes());
        seen[44..48].copy_from_slice(&u32::from(plan.echo).to_ne_bytes());
        let cleared = [
            self.sends.update(&ZERO, &send, MapFlags::ANY),
            self.seens.update(&ZERO, &seen, MapFlags::ANY),
            self.stamps.update(&ZERO, &[0; 8 * STAMPS], MapFlags::ANY),
        ];
        cleared
            .into_iter()
            .collect::<libbpf_rs::Result<()>>()
            .map_err(bpf("preparing a run"))?;
        self.wrong.clear()
    }

    /// Returns the requests sent since [`Generator::begin`].
    pub fn sent(&self) -> Result<SentCounts> {
        let bytes = read(&self.sends, SEND_BYTES)?;
        Ok(SentCounts {
            requests: word(&bytes, 64),
            first_ns: word(&bytes, 72),
            last_ns: word(&bytes, 80),
        })
    }

    /// Returns the replies received since [`Generator::begin`].
    pub fn seen(&self) -> Result<SeenCounts> {
        let bytes = read(&self.seens, SEEN_BYTES)?;
        let mut latency = crate::client::histogram();
        for bucket in 0..BUCKETS {
            latency.saturating_record_n(bucket_ns(bucket), word(&bytes, 48 + 8 * bucket));
        }
        Ok(SeenCounts {
            right: word(&bytes, 0),
            wrong: word(&bytes, 8),
            unknown: word(&bytes, 16),
            last_ns: word(&bytes, 32),
            latency,
        })
    }
}

/// Returns a frame with the header of every request. Its UDP checksum is 0, which means that there is none.
pub fn template(plan: &SendPlan) -> Vec<u8> {
    let bytes = match plan {
        SendPlan { memcached: true, .. } => MC_FRAME_BYTES,
        SendPlan { proof: true, .. } => PROOF_FRAME_BYTES,
        _ => SPV_FRAME_BYTES,
    };
    let mut frame = vec![0; bytes];
    let addressing = Addressing {
        source_mac: CLIENT_MAC,
        destination_mac: SERVER_MAC,
        vlan: None,
        source: CLIENT_ADDRESS.into(),
        destination: SERVER_ADDRESS.into(),
        source_port: 32_768,
        destination_port: plan.port,
    };
    let payload = vec![0; bytes - HEAD_BYTES];
    debug_assert_eq!(build(&mut frame, &addressing, &payload), Some(bytes));
    build(&mut frame, &addressing, &payload);
    frame[40..42].fill(0);
    frame
}

/// Returns the 32 printable bytes that represent a TXID in memcached's protocol. Each of them encodes six bits of a
/// byte.
pub fn memcached_key(txid: &Hash) -> Hash {
    txid.map(|byte| b'0' + (byte & 63))
}

/// Returns the middle of a bucket of `struct bench_seen`, in nanoseconds.
pub fn bucket_ns(bucket: usize) -> u64 {
    let (octave, part) = (bucket as u64 / 16, bucket as u64 % 16);
    match octave {
        0 => part,
        // The values in the buckets of an octave have the log2 octave + 3; each bucket has 2^(log2 - 4) values.
        1..=60 => ((16 + part) << (octave - 1)) + (1 << (octave - 1)) / 2,
        _ => u64::MAX,
    }
}

fn map(object: &Object, name: &str) -> Result<MapHandle> {
    let found = object.maps().find(|map| map.name() == OsStr::new(name));
    let missing = io::Error::new(io::ErrorKind::NotFound, name.to_owned());
    let map = found.ok_or(BenchError::Io {
        what: "finding a map",
        source: missing,
    })?;
    MapHandle::try_from(&map).map_err(bpf("opening a map"))
}

fn write_stream(map: &MapHandle, first: usize, entries: impl Iterator<Item = Hash>) -> Result<()> {
    let entries: Vec<Hash> = entries.collect();
    for (batch, entries) in entries.chunks(STREAM_BATCH).enumerate() {
        let from = first + batch * STREAM_BATCH;
        let keys: Vec<u8> = (from..from + entries.len())
            .flat_map(|key| (key as u32).to_ne_bytes())
            .collect();
        map.update_batch(
            &keys,
            &entries.concat(),
            entries.len() as u32,
            MapFlags::ANY,
            MapFlags::ANY,
        )
        .map_err(bpf("writing the stream of requests"))?;
    }
    Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latency_buckets_agree_with_the_bpf_program() {
        for ns in [16u64, 17, 31, 32, 33, 1000, 65_535, 1 << 40] {
            let log = 63 - (ns | 16).leading_zeros() as usize;
            let bucket = (log - 3) * 16 + (ns >> (log - 4)) as usize % 16;
            let middle = bucket_ns(bucket);
            assert!(
                middle.abs_diff(ns) <= ns / 16,
                "{ns} in bucket {bucket} of {middle}"
            );
        }
    }
}
