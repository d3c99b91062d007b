//! Runs the simulated NIC.

use super::report::{CaseFigures, Fills, Measured, NoTap, Report};
use super::{BEAT_BYTES, CLOCK_HZ, Options, tap, transfer};
use crate::error::{Result, io, void};
use crate::gate::median;
use crate::machine::Machine;
use crate::progress::Progress;
use crate::wrong::{WrongReplies, WrongReply};
use lineside_conformance::rtl::{RtlModel, setup_commands};
use lineside_conformance::spv::Spv;
use lineside_fastpath::{FrameHandler, FrameVerdict, lease};
use lineside_rtl::NicDesign;
use lineside_rtl::sim::{Pauses, SimVerdict, Simulation};
use lineside_rtl::{COMMAND_LINE, Command};
use lineside_spv::chain::Tip;
use lineside_spv::fastpath::SpvFastPath;
use lineside_spv::store::{Geometry, Hash, Store};
use lineside_spv::writer::{BlockRef, SpvFill, StoreWriter};
use lineside_testkit::Random;
use lineside_wire::endpoint::Endpoint;
use lineside_wire::frame::{self, Addressing};
use lineside_wire::{
    RootItem, RootReply, RootsHead, SPV_OP_ROOT, SPV_OP_ROOTS, SPV_PORT, SPV_ROOTS_MAX, native,
};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Instant;
use zerocopy::IntoBytes;

/// Number of TXIDs in the table.
const CACHED: usize = 64;
/// Number of commands in the shorter of the two runs that measure fills.
const FILLS: usize = 4096;
/// Number of blocks in the table, to which the TXIDs belong in turn.
const BLOCKS: usize = 2;
const MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];

/// Case of the measurement: its name, and the frames.
pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) frames: Vec<Vec<u8>>,
}

/// Measures all cases, and calls `progress` before each step.
///
/// # Errors
/// The memory of the table cannot be allocated, or the simulated NIC broke a rule of its streams.
pub fn run(options: &Options, progress: &mut dyn FnMut(Progress)) -> Result<Report> {
    let machine = Machine::read();
    let mut random = Random(options.seed.wrapping_mul(2) | 1);
    let txids: Vec<Hash> = (0..CACHED + 1).map(|_| txid(&mut random)).collect();
    let (unknown, known) = (txids[CACHED], &txids[..CACHED]);
    let endpoint = endpoint()?;
    let (store, _writer) = filled(known).map_err(io("the memory of the fast-path table"))?;
    let mut nic = Simulation::new(NicDesign::Spv).map_err(void)?;
    nic.execute(&setup_commands::<Spv>(&store, &endpoint, SPV_PORT))
        .map_err(void)?;
    let model = RtlModel::<Spv>::new(SpvFastPath::new(Arc::clone(&store)));
    let handler = FrameHandler {
        endpoint: &endpoint,
        port: SPV_PORT,
        fastpath: &model,
    };
    let cases = cases(options.frames, known, unknown)?;
    let transfers = transfer::cases(options.frames)?;
    let of = cases.len() + 1 + transfers.len() + 1;
    let (mut figures, mut wrong) = (BTreeMap::new(), WrongReplies::default());
    for (done, case) in cases.iter().enumerate() {
        progress(Progress {
            doing: "simulating frames",
            done,
            of,
        });
        let mut bench = Bench {
            nic: &mut nic,
            handler: &handler,
            wrong: &mut wrong,
            sent: 0,
        };
        figures.insert(case.name, bench.measure(case, options.rounds)?);
    }
    progress(Progress {
        doing: "simulating fills",
        done: cases.len(),
        of,
    });
    let fills = fills(&mut nic)?;
    for (done, case) in (cases.len() + 1..).zip(&transfers) {
        progress(Progress {
            doing: "simulating transfers",
            done,
            of,
        });
        figures.insert(
            case.name,
            transfer::measure(case, options.rounds, &endpoint, &mut wrong)?,
        );
    }
    progress(Progress {
        doing: "asking at a TAP device",
        done: of - 1,
        of,
    });
    let (tap, no_tap) = match tap::measure(&store, known, options.tap_requests, options.rounds) {
        Ok(figures) => (figures, None),
        Err(error) => {
            let no_tap = NoTap {
                reason: error.to_string(),
                is_fault: !error.is_of_the_machine(),
            };
            (BTreeMap::new(), Some(no_tap))
        }
    };
    let measured = Measured {
        cases: figures,
        fills,
        tap,
        no_tap,
    };
    Ok(Report::new(options.seed, machine, measured, wrong))
}

/// NIC under test, with the model that computes what must leave it.
pub(super) struct Bench<'a> {
    pub(super) nic: &'a mut Simulation,
    pub(super) handler: &'a FrameHandler<'a>,
    pub(super) wrong: &'a mut WrongReplies,
    /// Number of frames that were sent.
    pub(super) sent: usize,
}

impl Bench<'_> {
    /// Returns the figures of a case. The pipeline fills once in each run, so the cycles of a frame come from the
    /// difference between a short and a long run.
    pub(super) fn measure(&mut self, case: &Case, rounds: usize) -> Result<CaseFigures> {
        let count = case.frames.len() / 2;
        self.send(case.name, &case.frames[..1])?;
        let latency_cycles = self.nic.latency_cycles();
        let (short, _) = self.send(case.name, &case.frames[..count])?;
        let mut speeds = Vec::new();
        let mut long = 0;
        for _ in 0..rounds.max(1) {
            let (cycles, frames_per_s) = self.send(case.name, &case.frames)?;
            long = cycles;
            speeds.push(frames_per_s);
        }
        let frames = (case.frames.len() - count) as f64;
        let cycles_per_frame = long.saturating_sub(short) as f64 / frames;
        let bytes = case.frames[0].len();
        Ok(CaseFigures {
            bytes,
            beats: bytes.div_ceil(BEAT_BYTES),
            cycles_per_frame,
            latency_cycles,
            mframes_per_s: CLOCK_HZ / cycles_per_frame / 1e6,
            of_100gbe: CLOCK_HZ / cycles_per_frame / super::line_rate(bytes),
            simulated_frames_per_s: median(speeds.into_iter()).unwrap_or_default(),
        })
    }

    /// Sends frames back to back, and compares everything that leaves with the model. Returns the cycles, and the
    /// simulated frames per second.
    pub(super) fn send(&mut self, case: &'static str, frames: &[Vec<u8>]) -> Result<(u64, f64)> {
        let now_ns = lease::now_ns();
        self.nic.set_now(now_ns);
        let began = Instant::now();
        let (left, cycles) = self.nic.run(frames, Pauses::default()).map_err(void)?;
        let took_s = began.elapsed().as_secs_f64();
        self.sent += frames.len();
        for (request, left) in frames.iter().zip(left) {
            let mut expected = request.clone();
            let is_right = match self.handler.answer(now_ns, &mut expected) {
                FrameVerdict::Transmit => left.verdict == SimVerdict::Reply && left.frame == expected,
                FrameVerdict::Pass => left.verdict == SimVerdict::Forward && left.frame == expected,
                FrameVerdict::Drop(_) => left.verdict == SimVerdict::Drop,
            };
            if !is_right {
                self.wrong
                    .add(|| WrongReply::of_bytes(request, &left.frame, &expected));
                self.wrong.name("rtl", case);
            }
        }
        Ok((cycles, frames.len() as f64 / took_s))
    }
}

/// Returns the cycles of a fill: a command that writes one line of the table.
fn fills(nic: &mut Simulation) -> Result<Fills> {
    let command = |number: usize| Command::new(COMMAND_LINE, number as u32 % 1024, 0, 0, &[0; 32]);
    let commands: Vec<_> = (0..2 * FILLS).map(command).collect();
    let short = nic.execute(&commands[..FILLS]).map_err(void)?;
    let long = nic.execute(&commands).map_err(void)?;
    let cycles_per_fill = long.saturating_sub(short) as f64 / FILLS as f64;
    Ok(Fills {
        cycles_per_fill,
        millions_per_s: CLOCK_HZ / cycles_per_fill / 1e6,
    })
}

fn cases(frames: usize, known: &[Hash], unknown: Hash) -> Result<Vec<Case>> {
    let of = |name, make: &dyn Fn(usize) -> Option<Vec<u8>>| -> Result<Case> {
        let all: Option<Vec<_>> = (0..2 * frames.max(1)).map(make).collect();
        let frames = all.ok_or_else(|| void("a request does not fit into a frame"))?;
        Ok(Case { name, frames })
    };
    let txid = |number: usize| known[number % known.len()];
    Ok(vec![
        of("one_beat", &|_| Some(vec![0; 60]))?,
        of("paper_hit", &|number| framed(&txid(number), false))?,
        of("paper_miss", &|_| framed(&unknown, false))?,
        of("paper_hit_ipv6_vlan", &|number| framed(&txid(number), true))?,
        of("native_root_hit", &|number| framed(&root(&txid(number)), false))?,
        of("native_root_hit_ipv6_vlan", &|number| {
            framed(&root(&txid(number)), true)
        })?,
        of("native_roots_16_hit", &|number| {
            framed(&roots(&txid, number), false)
        })?,
        of("native_roots_16_hit_ipv6_vlan", &|number| {
            framed(&roots(&txid, number), true)
        })?,
        of("long_1514", &|_| Some(vec![0; 1514]))?,
    ])
}

/// Returns a frame to `spv`.
fn framed(payload: &[u8], v6_vlan: bool) -> Option<Vec<u8>> {
    framed_to(SPV_PORT, payload, v6_vlan)
}

/// Returns a frame from another host to this UDP port, by IPv4 or by IPv6 with a VLAN tag.
pub(super) fn framed_to(port: u16, payload: &[u8], v6_vlan: bool) -> Option<Vec<u8>> {
    let (source, destination): (IpAddr, IpAddr) = match v6_vlan {
        false => (v4(9), v4(2)),
        true => (v6(9), v6(2)),
    };
    let addressing = Addressing {
        source_mac: [2, 0, 0, 0, 0, 9],
        destination_mac: MAC,
        vlan: v6_vlan.then_some(7),
        source,
        destination,
        source_port: 40_000,
        destination_port: port,
    };
    let mut frame = vec![0; 1514];
    let bytes = frame::build(&mut frame, &addressing, payload)?;
    frame.truncate(bytes);
    Some(frame)
}

pub(super) fn v4(last: u8) -> IpAddr {
    Ipv4Addr::new(10, 0, 0, last).into()
}

fn v6(last: u16) -> IpAddr {
    Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, last).into()
}

fn root(txid: &Hash) -> Vec<u8> {
    let body = size_of::<RootReply>();
    let mut request = native::request_header(SPV_OP_ROOT, 1, body as u16)
        .as_bytes()
        .to_vec();
    request.extend_from_slice(txid);
    request.resize(request.len() + body - txid.len(), 0);
    request
}

/// Returns a request for as many TXIDs as `roots` takes, of which `first` is the number of the first one.
fn roots(txid: &impl Fn(usize) -> Hash, first: usize) -> Vec<u8> {
    let body = size_of::<RootsHead>() + SPV_ROOTS_MAX * size_of::<RootItem>();
    let mut request = native::request_header(SPV_OP_ROOTS, 1, body as u16)
        .as_bytes()
        .to_vec();
    request.resize(request.len() + size_of::<RootsHead>() - size_of::<u32>(), 0);
    request.extend_from_slice(&(SPV_ROOTS_MAX as u32).to_be_bytes());
    for number in first..first + SPV_ROOTS_MAX {
        request.extend_from_slice(&txid(number));
        request.resize(request.len() + size_of::<RootItem>() - size_of::<Hash>(), 0);
    }
    request
}

/// Returns the Merkle root of the block to which the TXID with this number belongs.
pub(super) fn root_of(number: usize) -> Hash {
    [(number % BLOCKS) as u8 + 1; 32]
}

fn txid(random: &mut Random) -> Hash {
    let mut hash = [0; 32];
    for word in hash.chunks_exact_mut(8) {
        word.copy_from_slice(&random.next().to_le_bytes());
    }
    hash
}

fn endpoint() -> Result<Endpoint> {
    let own = [v4(2), v6(2)];
    Endpoint::new(MAC, false, &own).ok_or_else(|| void("an interface has no room for two addresses"))
}

/// Returns a table with these TXIDs, and its writer.
fn filled(txids: &[Hash]) -> std::io::Result<(Arc<Store>, StoreWriter)> {
    let geometry = Geometry {
        line_bits: 10,
        block_bits: 4,
        ..Geometry::default()
    };
    let store = Arc::new(Store::anonymous(&geometry)?);
    let mut writer = StoreWriter::new(Arc::clone(&store));
    let tip = Tip {
        hash: [3; 32],
        height: 7,
    };
    writer.begin();
    writer.commit(&tip, 1);
    let tickets: Vec<_> = (0..BLOCKS)
        .map(|block| {
            writer.admit(&BlockRef {
                hash: [block as u8 + 0x80; 32],
                root: root_of(block),
                height: 5,
            })
        })
        .collect();
    for (index, txid) in txids.iter().enumerate() {
        writer.fill(txid, tickets[index % BLOCKS], index as u32);
    }
    lease::renew(&store.control().lease_until_ns, 1 << 50);
    Ok((store, writer))
}
