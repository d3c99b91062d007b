//! Live-frames generator (see `crate::live`) with the requests of this scenario; its BPF program is
//! `bpf/column_live.bpf.c`.

use super::rows::{self, Ask};
use crate::client::Tally;
use crate::error::{BenchError, Result, bpf, io};
use crate::netns::{CLIENT_ADDRESS, CLIENT_MAC, SERVER_ADDRESS, SERVER_MAC};
use crate::sys::{self, Run};
use crate::wrong::{KeptReplies, KeptReply, WrongReplies, WrongReply};
use libbpf_rs::{MapCore, MapFlags, MapHandle, Object, ObjectBuilder};
use lineside_wire::COLUMN_PORT;
use lineside_wire::frame::{Addressing, build};
use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/column_live.bpf.o"));

/// Number of requests of the first call, which measures the rate of the generator with this server. Its replies are not
/// counted.
const WARM_UP_REQUESTS: u64 = 50_000;
/// Time after the last request in which replies may still arrive.
const LATE_REPLY_WAIT: Duration = Duration::from_millis(30);
/// Number of frames for which the kernel runs the XDP program in one batch (`batch_size` of BPF_PROG_TEST_RUN).
const BATCH: u32 = 64;
const REQUESTS_MAX: f64 = 1e9;
const HEAD_BYTES: usize = 42;
const FIRST_PORT: u16 = 0x8000;
const STAMPS: usize = 0x8000;
/// Maximum number of CPUs that send at the same time.
const LANES: u32 = 2;
const SEND_BYTES: usize = 48 + 24 + 16 + 16;
const BUCKETS: usize = 1024;
/// Offset in bytes of the latency histogram's buckets in `struct cl_seen`.
const BUCKETS_AT: usize = 48;
const SEEN_BYTES: usize = BUCKETS_AT + 8 * BUCKETS;

/// Loaded programs and maps.
pub struct Generator {
    object: Object,
    sends: MapHandle,
    seens: MapHandle,
    stamps: MapHandle,
    wrong: KeptReplies,
}

impl Generator {
    /// Loads the BPF object.
    pub fn load() -> Result<Self> {
        let open = ObjectBuilder::default()
            .open_memory(OBJECT)
            .map_err(bpf("reading the generators"))?;
        let object = open.load().map_err(bpf("loading the generators"))?;
        Ok(Self {
            sends: map(&object, "cl_sends")?,
            seens: map(&object, "cl_seens")?,
            stamps: map(&object, "cl_stamps")?,
            wrong: KeptReplies::of(&object)?,
            object,
        })
    }

    fn program(&self, name: &str) -> Result<OwnedFd> {
        let mut programs = self.object.progs();
        let found = programs.find(|program| program.name() == OsStr::new(name));
        let fd = found.map(|program| program.as_fd().try_clone_to_owned());
        let missing = || Err(std::io::ErrorKind::NotFound.into());
        fd.unwrap_or_else(missing).map_err(io("opening a generator"))
    }

    /// Attaches a program that passes every frame on to an interface of the calling thread's namespace.
    pub fn attach_pass(&self, interface: u32) -> Result<OwnedFd> {
        let pass = self.program("cl_pass")?;
        sys::attach_native(pass.as_fd(), interface).map_err(io("attaching cl_pass"))
    }

    /// Sends requests to the attached contestant for about `duration`, in an open loop at the highest rate of `cores`,
    /// which are one core or two neighbouring ones. The calling thread must be in the client's namespace; `interface`
    /// is the index of the client's interface.
    pub fn run(&self, interface: u32, ask: Ask, cores: &[usize], duration: Duration) -> Result<Tally> {
        let (live, check) = (self.program("cl_live")?, self.program("cl_check")?);
        let _attached = sys::attach_native(check.as_fd(), interface).map_err(io("attaching the checker"))?;
        let frame = template(ask);
        let call = |requests: u64| {
            self.begin(ask)?;
            let began_ns = sys::now_ns();
            on_each(cores, || {
                let run = Run::Live {
                    interface,
                    batch: BATCH,
                };
                sys::test_run(live.as_fd(), &frame, requests as u32, run).map(drop)
            })
            .map_err(io("running the live-frames generator"))?;
            let took_ns = sys::now_ns() - began_ns;
            std::thread::sleep(LATE_REPLY_WAIT);
            Ok::<_, BenchError>((self.tally(ask, took_ns)?, took_ns))
        };
        let (warm, warm_ns) = call(WARM_UP_REQUESTS)?;
        let calls = WARM_UP_REQUESTS as f64 * duration.as_nanos() as f64 / warm_ns.max(1) as f64;
        let (mut tally, _) = call(calls.clamp(1e5, REQUESTS_MAX) as u64)?;
        tally.wrong.extend(&warm.wrong);
        Ok(tally)
    }

    fn begin(&self, ask: Ask) -> Result<()> {
        (0..LANES)
            .try_for_each(|lane| {
                let lane = lane.to_ne_bytes();
                self.sends.update(&lane, &send_bytes(ask), MapFlags::ANY)?;
                self.seens.update(&lane, &seen_bytes(), MapFlags::ANY)
            })
            .and_then(|()| self.forget_stamps())
            .map_err(bpf("preparing a run"))?;
        self.wrong.clear()
    }

    fn forget_stamps(&self) -> libbpf_rs::Result<()> {
        let keys: Vec<u8> = (0..STAMPS as u32).flat_map(u32::to_ne_bytes).collect();
        let zeros = vec![0; 8 * STAMPS];
        let any = MapFlags::ANY;
        self.stamps.update_batch(&keys, &zeros, STAMPS as u32, any, any)
    }

    fn tally(&self, ask: Ask, call_ns: u64) -> Result<Tally> {
        let mut tally = Tally {
            took_ns: call_ns,
            ..Tally::default()
        };
        let mut wrong = 0;
        let (mut first_ns, mut last_ns) = (u64::MAX, 0);
        for lane in 0..LANES {
            let (sent, seen) = (
                read(&self.sends, lane, SEND_BYTES)?,
                read(&self.seens, lane, SEEN_BYTES)?,
            );
            tally.sent += word(&sent, 72);
            tally.right += word(&seen, 0);
            wrong += word(&seen, 8);
            if word(&sent, 72) > 0 {
                first_ns = first_ns.min(word(&sent, 80));
            }
            last_ns = last_ns.max(word(&seen, 24));
            for bucket in 0..BUCKETS {
                let count = word(&seen, BUCKETS_AT + 8 * bucket);
                (tally.latency).saturating_record_n(crate::bpf::bucket_ns(bucket), count);
            }
        }
        let kept = self.wrong.read()?;
        tally.wrong = WrongReplies::new(wrong, kept.iter().map(|kept| described(ask, kept)));
        tally.lost = tally.sent.saturating_sub(tally.right + wrong);
        if tally.right > 0 {
            tally.took_ns = last_ns.saturating_sub(first_ns).max(1);
        }
        Ok(tally)
    }
}

/// Returns a wrong reply with the request that was sent from its port: the port encodes the row.
fn described(ask: Ask, kept: &KeptReply) -> WrongReply {
    let row = u32::from(kept.port.wrapping_sub(FIRST_PORT)) % (STAMPS as u32 / LANES);
    match row < ask.span() {
        true => ask.describe(row, &kept.reply),
        false => WrongReply::stray(&kept.reply),
    }
}

/// Runs `work` on each of `cores` at the same time.
fn on_each(cores: &[usize], work: impl Fn() -> std::io::Result<()> + Sync) -> std::io::Result<()> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = cores
            .iter()
            .map(|core| scope.spawn(|| sys::pin(*core).and_then(|()| work())))
            .collect();
        threads.into_iter().try_for_each(|thread| {
            let done = thread.join();
            done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    })
}

/// Returns a frame with the header of every request. Its UDP checksum is 0, which means that there is none.
fn template(ask: Ask) -> Vec<u8> {
    let payload = ask.paper(0);
    let mut frame = vec![0; HEAD_BYTES + payload.len()];
    let addressing = Addressing {
        source_mac: CLIENT_MAC,
        destination_mac: SERVER_MAC,
        vlan: None,
        source: CLIENT_ADDRESS.into(),
        destination: SERVER_ADDRESS.into(),
        source_port: FIRST_PORT,
        destination_port: COLUMN_PORT,
    };
    build(&mut frame, &addressing, &payload);
    frame[40..42].fill(0);
    frame
}

fn send_bytes(ask: Ask) -> [u8; SEND_BYTES] {
    let mut payload = ask.paper(0);
    let words = (payload.len() / 8) as u32;
    payload[3..3 + rows::KEY_BYTES].fill(0);
    if ask != Ask::Get {
        payload[16..16 + rows::KEY_BYTES].fill(0);
    }
    let mut send = [0; SEND_BYTES];
    send[..HEAD_BYTES].copy_from_slice(&template(ask)[..HEAD_BYTES]);
    send[48..72].copy_from_slice(&payload[..24]);
    let rows = match ask {
        Ask::Get => 0,
        Ask::Scan(rows) => rows,
    };
    for (at, word) in [(88, words), (92, ask.span()), (96, rows::FIRST_KEY), (100, rows)] {
        send[at..at + 4].copy_from_slice(&word.to_ne_bytes());
    }
    send
}

fn seen_bytes() -> Vec<u8> {
    let mut seen = vec![0; SEEN_BYTES];
    let value = rows::value(0, rows::FIRST_VERSION);
    seen[32..46].copy_from_slice(&value[rows::KEY_BYTES..]);
    seen
}

fn map(object: &Object, name: &str) -> Result<MapHandle> {
    let found = object.maps().find(|map| map.name() == OsStr::new(name));
    let missing = || Err(BenchError::Void(format!("the BPF object has no map {name}")));
    found.map_or_else(missing, |map| {
        MapHandle::try_from(&map).map_err(bpf("opening a map"))
    })
}

fn read(map: &MapHandle, lane: u32, bytes: usize) -> Result<Vec<u8>> {
    let value = map
        .lookup(&lane.to_ne_bytes(), MapFlags::ANY)
        .map_err(bpf("reading what a run did"))?;
    let value = value.filter(|value| value.len() >= bytes);
    value.ok_or_else(|| {
        BenchError::Void("the BPF generators do not match this program; build `lineside-lab` again".into())
    })
}

fn word(bytes: &[u8], at: usize) -> u64 {
    bytes[at..at + 8].try_into().map_or(0, u64::from_ne_bytes)
}
