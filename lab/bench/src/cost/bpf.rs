//! BPF object of this scenario (`bpf/cost.bpf.c`), and encoding of its state.

use crate::error::{BenchError, Result, bpf, io};
use crate::netns::{CLIENT_ADDRESS, CLIENT_MAC, SERVER_ADDRESS, SERVER_MAC};
use crate::sys::{self, Run};
use libbpf_rs::{MapCore, MapFlags, MapHandle, Object, ObjectBuilder};
use lineside_wire::frame::{Addressing, build};
use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/cost.bpf.o"));

const XDP_PASS: u32 = 2;
const ZERO: [u8; 4] = [0; 4];
/// Size of the headers of Ethernet, IPv4 and UDP in bytes.
const HEAD_BYTES: usize = 42;
/// Maximum number of 64-bit words of a payload.
const WORDS: usize = 8;
/// Offset in bytes of `next` in `struct cost_send`.
const NEXT_AT: usize = 48 + 8 * WORDS;
const SEND_BYTES: usize = NEXT_AT + 5 * 8 + 8;
/// Number of frames for which the kernel runs the generator in one batch (`batch_size` of BPF_PROG_TEST_RUN).
const BATCH: u32 = 64;
const SOURCE_PORT: u16 = 40_000;
/// Protocol number of TCP in the IPv4 header.
const TCP: u8 = 6;

/// Stream of packets that are equal except for the bits of one word.
#[derive(Clone, Debug)]
pub struct Packets {
    frame: Vec<u8>,
    varied: u32,
    mask: u64,
}

impl Packets {
    /// Returns packets for a UDP port of the server. The payload is padded with zeros to whole words. `mask` selects
    /// the bits of the payload's word `varied` (in memory order) that differ from packet to packet.
    pub fn udp(port: u16, payload: &[u8], varied: usize, mask: u64) -> Self {
        let mut payload = payload.to_vec();
        payload.resize(payload.len().next_multiple_of(8), 0);
        debug_assert!(payload.len() <= 8 * WORDS && varied < WORDS);
        let mut frame = vec![0; HEAD_BYTES + payload.len()];
        let addressing = Addressing {
            source_mac: CLIENT_MAC,
            destination_mac: SERVER_MAC,
            vlan: None,
            source: CLIENT_ADDRESS.into(),
            destination: SERVER_ADDRESS.into(),
            source_port: SOURCE_PORT,
            destination_port: port,
        };
        build(&mut frame, &addressing, &payload);
        // 0 means that the datagram has no checksum.
        frame[40..42].fill(0);
        Self {
            frame,
            varied: varied as u32,
            mask,
        }
    }

    /// Returns packets whose IPv4 header names TCP. They are only for programs: no peer receives them.
    pub fn tcp(port: u16) -> Self {
        let mut packets = Self::udp(port, &[0; 16], 0, 0);
        packets.frame[23] = TCP;
        packets
    }

    fn state(&self, last: u64) -> [u8; SEND_BYTES] {
        let mut send = [0; SEND_BYTES];
        let (head, payload) = self.frame.split_at(HEAD_BYTES);
        send[..HEAD_BYTES].copy_from_slice(head);
        send[48..48 + payload.len()].copy_from_slice(payload);
        let mut put = |at: usize, bytes: &[u8]| send[at..at + bytes.len()].copy_from_slice(bytes);
        put(NEXT_AT + 8, &last.to_ne_bytes());
        put(NEXT_AT + 32, &self.mask.to_ne_bytes());
        put(NEXT_AT + 40, &((payload.len() / 8) as u32).to_ne_bytes());
        put(NEXT_AT + 44, &self.varied.to_ne_bytes());
        send
    }
}

/// Loaded programs and maps.
pub struct Programs {
    object: Object,
    sends: MapHandle,
    next: MapHandle,
}

impl Programs {
    /// Loads the BPF object.
    pub fn load() -> Result<Self> {
        let open = ObjectBuilder::default()
            .open_memory(OBJECT)
            .map_err(bpf("reading the generators"))?;
        let object = open.load().map_err(bpf("loading the generators"))?;
        Ok(Self {
            sends: map(&object, "cost_sends")?,
            next: map(&object, "cost_next")?,
            object,
        })
    }

    fn program(&self, name: &str) -> Result<OwnedFd> {
        let mut programs = self.object.progs();
        let found = programs.find(|program| program.name() == OsStr::new(name));
        let fd = found.map(|program| program.as_fd().try_clone_to_owned());
        fd.unwrap_or_else(|| Err(std::io::ErrorKind::NotFound.into()))
            .map_err(io("opening a generator"))
    }

    /// Returns the program that passes every packet at once.
    pub fn pass(&self) -> Result<OwnedFd> {
        self.program("cost_pass")
    }

    /// Attaches the program that passes every packet to an interface of the calling thread's namespace.
    pub fn attach_pass(&self, interface: u32) -> Result<OwnedFd> {
        sys::attach_native(self.pass()?.as_fd(), interface).map_err(io("attaching cost_pass"))
    }

    /// Returns the time in nanoseconds in which a packet is written and `program` passes it, on average over `calls`
    /// packets. The kernel measures it within the program.
    ///
    /// # Errors
    /// [`BenchError::Void`] if `program` does not pass the last packet.
    pub fn program_ns(&self, packets: &Packets, program: BorrowedFd<'_>, calls: u32) -> Result<f64> {
        let calls = calls.max(2);
        let fd = program.as_raw_fd().to_ne_bytes();
        self.next
            .update(&ZERO, &fd, MapFlags::ANY)
            .map_err(bpf("choosing the program to measure"))?;
        self.begin(packets, calls)?;
        let rewrite = self.program("cost_rewrite")?;
        let verdict = sys::test_run(rewrite.as_fd(), &packets.frame, calls, Run::Repeat)
            .map_err(io("measuring a program"))?;
        if verdict != XDP_PASS {
            return Err(BenchError::Void(format!(
                "a program that should pass a packet returned the verdict {verdict}"
            )));
        }
        self.average_ns(calls)
    }

    /// Sends `count` packets as live frames, and returns the average time in nanoseconds between two packets. The
    /// calling thread must be in the client's namespace; `interface` is the index of the client's interface, which
    /// needs an XDP program.
    pub fn live_ns(&self, packets: &Packets, interface: u32, count: u32) -> Result<f64> {
        let count = count.max(2);
        self.begin(packets, count)?;
        let live = self.program("cost_live")?;
        let run = Run::Live {
            interface,
            batch: BATCH,
        };
        sys::test_run(live.as_fd(), &packets.frame, count, run)
            .map_err(io("running the live-frames generator"))?;
        self.average_ns(count)
    }

    fn begin(&self, packets: &Packets, count: u32) -> Result<()> {
        let state = packets.state(u64::from(count) - 1);
        self.sends
            .update(&ZERO, &state, MapFlags::ANY)
            .map_err(bpf("preparing a run"))
    }

    fn average_ns(&self, count: u32) -> Result<f64> {
        let state = self
            .sends
            .lookup(&ZERO, MapFlags::ANY)
            .map_err(bpf("reading a run"))?
            .unwrap_or_default();
        let word = |at: usize| {
            let bytes = state.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
            bytes.map_or(0, u64::from_ne_bytes)
        };
        let (made, first_ns, last_ns) = (word(NEXT_AT), word(NEXT_AT + 16), word(NEXT_AT + 24));
        if made != u64::from(count) {
            return Err(BenchError::Void(format!(
                "the generator made {made} packets instead of {count}"
            )));
        }
        Ok(last_ns.saturating_sub(first_ns) as f64 / f64::from(count - 1))
    }
}

fn map(object: &Object, name: &str) -> Result<MapHandle> {
    let found = object.maps().find(|map| map.name() == OsStr::new(name));
    let missing = || Err(BenchError::Void(format!("the BPF object has no map {name}")));
    found.map_or_else(missing, |map| {
        MapHandle::try_from(&map).map_err(bpf("opening a map"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_has_the_layout_of_the_bpf_program() {
        let packets = Packets::udp(7701, &[0xab; 12], 1, 0xff00);
        let state = packets.state(9);
        assert_eq!(state.len(), 160);
        assert_eq!(state[..6], SERVER_MAC);
        assert_eq!(state[36..38], 7701u16.to_be_bytes());
        assert_eq!(state[40..48], [0; 8], "no UDP checksum");
        assert_eq!(state[48..60], [0xab; 12]);
        assert_eq!(state[60..112], [0; 52], "padding, and unused words");
        assert_eq!(state[112..120], [0; 8], "the first packet is packet 0");
        assert_eq!(state[120..128], 9u64.to_ne_bytes());
        assert_eq!(state[144..152], 0xff00u64.to_ne_bytes());
        assert_eq!(state[152..156], 2u32.to_ne_bytes());
        assert_eq!(state[156..160], 1u32.to_ne_bytes());
        assert_eq!(Packets::tcp(80).frame[23], 6);
    }
}
