//! Replay of captures of transfers. The paper sends captured packets with Tcpreplay; here each captured frame goes
//! through a datapath, and nothing is sent on a network. Every reply, and every balance after the last packet, is
//! compared with a model of this module, which shares no code with the fast path.

use crate::error::{PapersError, Result, writing};
use lineside_bench::BenchError;
use lineside_capture::{Reader, Target, Writer};
use lineside_conformance::replay::replay;
use lineside_conformance::transfer::{DatapathKind, FrameDatapath};
use lineside_fastpath::{FrameVerdict, lease};
use lineside_testkit::Random;
use lineside_transfer::AccountId;
use lineside_transfer::datapath::rings;
use lineside_transfer::paper::PaperRequest;
use lineside_transfer::store::{Geometry, Mode, Range, Store};
use lineside_wire::frame::{Addressing, build};
use lineside_wire::{TRANSFER_COMMAND_CREATE, TRANSFER_COMMAND_TRANSFER, TRANSFER_PORT, TransferCode};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs::{self, File};
use std::io::BufWriter;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

/// Numbers of packets of the paper.
pub const PACKETS: [usize; 5] = [1, 10, 100, 1_000, 10_000];

const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 1);
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 2);
/// Number of accounts. The ids of the second half have the same low 16 bits as those of the first half.
const ACCOUNTS: usize = 256;
const BALANCE: u32 = 1_000;
/// Maximum amount of a transfer. Some accounts become poor, so some transfers are refused.
const AMOUNT_MAX: u64 = 500;
/// Bytes of the headers before the payload: Ethernet, IPv4, UDP.
const HEAD_BYTES: usize = 14 + 20 + 8;
/// Number of bytes of a frame in the paper.
const FRAME_BYTES: usize = 64;
/// Time between two packets of a capture in nanoseconds. A replay ignores it.
const INTERVAL_NS: u64 = 10_000;
/// Bit of the command in a reply that refuses the request.
const REFUSED: u32 = 1 << 31;
/// Lease in nanoseconds; it is longer than any run.
const LEASE_NS: u64 = 1 << 42;

/// Result of one replay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Replayed {
    /// Name of the datapath.
    pub datapath: &'static str,
    /// Number of packets in the capture.
    pub packets: usize,
    /// Packets per second.
    pub packets_per_s: f64,
    /// Number of packets that the datapath answered.
    pub answered: u64,
    /// Number of transfers that must be refused because the sender's balance is too small.
    pub refusals: usize,
    /// Number of replies that differ from those of the model, or are missing.
    pub wrong_replies: u64,
    /// Number of accounts whose balance differs from that of the model after all captures.
    pub wrong_balances: u64,
}

/// Capture with the payload of each reply that is due.
struct Capture {
    path: PathBuf,
    due: Vec<Vec<u8>>,
    refusals: usize,
}

/// Balances of all accounts, as the paper describes them.
struct Model {
    ids: Vec<u32>,
    balances: BTreeMap<u32, u32>,
    random: Random,
    transaction: u32,
}

impl Model {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed);
        let low: Vec<u32> = (0..ACCOUNTS / 2)
            .map(|number| (random.next() as u32) << 16 | number as u32)
            .collect();
        let high = low.iter().map(|id| id ^ 0x8000_0000);
        let ids: Vec<u32> = low.iter().copied().chain(high).collect();
        Self {
            balances: ids.iter().map(|id| (*id, BALANCE)).collect(),
            ids,
            random,
            transaction: 0,
        }
    }

    /// Returns a transfer between two accounts, the payload of its reply, and whether it is refused.
    fn transfer(&mut self) -> (PaperRequest, Vec<u8>, bool) {
        let from = self.random.index(ACCOUNTS);
        let to = (from + 1 + self.random.index(ACCOUNTS - 1)) % ACCOUNTS;
        let (from, to) = (self.ids[from], self.ids[to]);
        let amount = 1 + self.random.below(AMOUNT_MAX) as u32;
        self.transaction += 1;
        let request = PaperRequest::new(TRANSFER_COMMAND_TRANSFER, self.transaction, from, to, amount);
        let held = self.balances.get(&from).copied().unwrap_or(0);
        let refused = held < amount;
        let words = if refused {
            [
                u32::from(TRANSFER_COMMAND_TRANSFER) | REFUSED,
                TransferCode::InsufficientFunds as u32,
            ]
        } else {
            self.balances.insert(from, held - amount);
            *self.balances.entry(to).or_default() += amount;
            [u32::from(TRANSFER_COMMAND_TRANSFER), held - amount]
        };
        let fields = [words[0], self.transaction, from, to, words[1]];
        let mut due: Vec<u8> = fields.into_iter().flat_map(u32::to_be_bytes).collect();
        due.resize(FRAME_BYTES - HEAD_BYTES, 0);
        (request, due, refused)
    }
}

fn frame(request: &PaperRequest) -> Vec<u8> {
    let addressing = Addressing {
        source_mac: [2, 0, 0, 0, 0, 1],
        destination_mac: [2, 0, 0, 0, 0, 2],
        vlan: None,
        source: CLIENT.into(),
        destination: SERVER.into(),
        source_port: 40_000,
        destination_port: TRANSFER_PORT,
    };
    let mut frame = vec![0; FRAME_BYTES];
    build(&mut frame, &addressing, &request.to_bytes());
    frame
}

/// Writes captures of 1 to 10,000 transfers into `out`, replays them one after the other on each datapath, and
/// returns the results and the reasons why a datapath was not measured.
///
/// # Errors
/// A capture cannot be written or read, or a datapath fails.
pub fn measure(out: &Path, seed: u64) -> Result<(Vec<Replayed>, Vec<String>)> {
    let mut model = Model::new(seed);
    let captures: Vec<Capture> = PACKETS
        .iter()
        .map(|packets| capture(&mut model, out, *packets))
        .collect::<Result<_>>()?;
    let (mut found, mut not_measured) = (Vec::new(), Vec::new());
    for kind in [DatapathKind::Xdp, DatapathKind::Native, DatapathKind::Socket] {
        match on(kind, &model, &captures) {
            Ok(replayed) => found.extend(replayed),
            Err(PapersError::Bench(error)) if error.is_of_the_machine() => {
                not_measured.push(format!("replay on the datapath {}: {error}", kind.name()));
            }
            Err(error) => return Err(error),
        }
    }
    Ok((found, not_measured))
}

fn capture(model: &mut Model, out: &Path, packets: usize) -> Result<Capture> {
    let path = out.join(format!("transfers-{packets}.pcap"));
    let file = File::create(&path).map_err(writing(&path))?;
    let mut writer = Writer::new(BufWriter::new(file)).map_err(writing(&path))?;
    let (mut due, mut refusals) = (Vec::with_capacity(packets), 0);
    for number in 0..packets {
        let (request, reply, refused) = model.transfer();
        writer
            .write(number as u64 * INTERVAL_NS, &frame(&request))
            .map_err(writing(&path))?;
        due.push(reply);
        refusals += usize::from(refused);
    }
    writer.finish().map_err(writing(&path))?;
    Ok(Capture { path, due, refusals })
}

/// Replays the captures on one datapath.
fn on(kind: DatapathKind, model: &Model, captures: &[Capture]) -> Result<Vec<Replayed>> {
    let geometry = Geometry {
        account_bits: ACCOUNTS.trailing_zeros(),
        rings: rings().map_err(BenchError::from)?,
        // All packets are recorded, and nothing empties the rings.
        ring_bits: 15,
        mode: Mode::Express,
        issuers: vec![Range {
            address: CLIENT.into(),
            prefix_bits: 32,
        }],
        ..Geometry::default()
    };
    let mut found = Vec::new();
    let read = |capture: &Capture| fs::read(&capture.path).map_err(not_read(&capture.path));
    let last = captures.last().map(&read).transpose()?.unwrap_or_default();
    let mut reader = Reader::new(&last[..]).map_err(failed)?;
    let target = Target::find(&mut reader, TRANSFER_PORT, None).map_err(failed)?;
    let opened = FrameDatapath::open(kind, &geometry, &target.endpoint(), target.port);
    let (mut datapath, store) = opened.map_err(BenchError::from)?;
    lease::renew(&store.control().lease_until_ns, LEASE_NS);
    create(model, &mut datapath)?;
    for capture in captures {
        let bytes = read(capture)?;
        let mut reader = Reader::new(&bytes[..]).map_err(failed)?;
        let (mut replies, packets) = (Vec::with_capacity(capture.due.len()), capture.due.len());
        let began = Instant::now();
        let (report, fault) = replay(&mut reader, &mut datapath, &mut |step| {
            let payload = step.left.get(HEAD_BYTES..).unwrap_or_default();
            replies.push((step.verdict, payload.to_vec()));
            Ok(())
        })
        .map_err(failed)?;
        let took_s = began.elapsed().as_secs_f64();
        if let Some(fault) = fault {
            return Err(failed(fault));
        }
        let right = capture
            .due
            .iter()
            .zip(&replies)
            .filter(|(due, (verdict, reply))| *verdict == Some(FrameVerdict::Transmit) && reply == *due);
        found.push(Replayed {
            datapath: kind.name(),
            packets,
            packets_per_s: packets as f64 / took_s.max(1e-9),
            answered: report.answered,
            refusals: capture.refusals,
            wrong_replies: (packets - right.count()) as u64,
            wrong_balances: 0,
        });
    }
    let wrong = wrong_balances(model, &store);
    found
        .iter_mut()
        .for_each(|replayed| replayed.wrong_balances = wrong);
    Ok(found)
}

/// Creates the accounts through a capture in memory, so that they are created by packets, as in the paper.
fn create(model: &Model, datapath: &mut FrameDatapath) -> Result<()> {
    let mut writer = Writer::new(Vec::new()).map_err(failed)?;
    for id in &model.ids {
        let request = PaperRequest::new(TRANSFER_COMMAND_CREATE, 0, *id, 0, BALANCE);
        writer.write(0, &frame(&request)).map_err(failed)?;
    }
    let bytes = writer.finish().map_err(failed)?;
    let mut reader = Reader::new(&bytes[..]).map_err(failed)?;
    let mut refused = 0;
    let (report, _) = replay(&mut reader, datapath, &mut |step| {
        refused += u64::from(step.left.get(HEAD_BYTES).is_none_or(|byte| byte & 0x80 != 0));
        Ok(())
    })
    .map_err(failed)?;
    if report.answered != ACCOUNTS as u64 || refused > 0 {
        return Err(PapersError::NotMade(format!(
            "replaying a capture: {} of {ACCOUNTS} accounts were created, {refused} refused",
            report.answered
        )));
    }
    Ok(())
}

/// Returns the number of accounts whose balance in the fast-path table differs from that of the model.
fn wrong_balances(model: &Model, store: &Store) -> u64 {
    let is_right = |id: u32, balance: u32| {
        let place = store.find(&AccountId::from_paper(id));
        let cell = place.and_then(|place| store.cells.as_slice().get(place));
        cell.is_some_and(|cell| cell.balance.load(Relaxed) == u64::from(balance))
    };
    let wrong = model
        .balances
        .iter()
        .filter(|(id, balance)| !is_right(**id, **balance));
    wrong.count() as u64
}

fn failed(error: impl Display) -> PapersError {
    PapersError::NotMade(format!("replaying a capture of transfers: {error}"))
}

fn not_read(path: &Path) -> impl FnOnce(std::io::Error) -> PapersError {
    let path = path.display().to_string();
    move |error| {
        PapersError::NotMade(format!(
            "cannot read {path}; give another folder with --out: {error}"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The datapaths without BPF must answer every packet like the model, some with refusals.
    #[test]
    fn the_datapaths_answer_captures_like_the_model() {
        let folder = tempfile::tempdir().unwrap();
        let (found, not_measured) = measure(folder.path(), 3).unwrap();
        assert!(found.len() + PACKETS.len() * not_measured.len() == 3 * PACKETS.len());
        for replayed in &found {
            assert_eq!(replayed.answered, replayed.packets as u64, "{replayed:?}");
            assert_eq!(
                (replayed.wrong_replies, replayed.wrong_balances),
                (0, 0),
                "{replayed:?}"
            );
            assert!(
                replayed.packets < 10_000 || replayed.refusals > 100,
                "{replayed:?}"
            );
        }
        // Header of the file, then a record header and 64 bytes for each packet.
        let bytes = fs::metadata(folder.path().join("transfers-1000.pcap"))
            .unwrap()
            .len();
        assert_eq!(bytes, 24 + 1_000 * (16 + 64));
    }

    #[test]
    fn a_reply_that_differs_from_the_model_is_counted() {
        let folder = tempfile::tempdir().unwrap();
        let mut model = Model::new(1);
        let mut captures = vec![capture(&mut model, folder.path(), 100).unwrap()];
        captures[0].due[7][19] ^= 1;
        *model.balances.values_mut().next().unwrap() += 1;
        let found = on(DatapathKind::Socket, &model, &captures).unwrap();
        assert_eq!((found[0].wrong_replies, found[0].wrong_balances), (1, 1));
    }
}
