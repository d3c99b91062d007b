//! Hits by XDP compared with a socket server, for each service with a fast path in XDP: replies of growing length, and
//! the hit ratio from which the fast path pays.

use super::arithmetic::Times;
use super::bpf::Packets;
use super::loss::{self, Losses, ProgramTime};
use super::setting::Setting;
use super::trips::Traffic;
use crate::column::contestants as column;
use crate::column::rows::Ask;
use crate::column::served::{ROW_BITS, Served, XdpLine, geometry};
use crate::error::{BenchError, Result};
use crate::field::{self, SOCKET};
use crate::gate::median;
use crate::transfer::drain::Removed;
use crate::transfer::express as transfer;
use crate::transfer::plan::{ACCOUNT_BITS, Command};
use crate::transfer::store::{self, XdpLedger};
use crate::wrong::WrongReplies;
use lineside_wire::{COLUMN_PORT, ColumnCounter, TRANSFER_OP_OPEN, TRANSFER_PORT, TransferCounter, native};
use serde::Serialize;
use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;
use zerocopy::IntoBytes;

/// Numbers of rows of the scans that are measured. The reply with 64 rows is 1,416 bytes long.
const SCANS: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];

/// Quantity in which a hit and a socket server are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Time of one request at the highest rate, with live frames in an open loop.
    HighestRate,
    /// Median round trip of a socket client with one request in flight.
    RoundTrip,
}

impl Measure {
    /// Returns the name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::HighestRate => "highest rate",
            Self::RoundTrip => "round trip",
        }
    }
}

/// Kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Request {
    Root,
    Account(Command),
    Rows(Ask),
}

impl Request {
    const fn service(self) -> &'static str {
        match self {
            Self::Root => "spv",
            Self::Account(_) => "transfer",
            Self::Rows(_) => "column",
        }
    }

    fn name(self) -> String {
        match self {
            Self::Root => "root".into(),
            Self::Account(command) => command.name().into(),
            Self::Rows(Ask::Get) => "get".into(),
            Self::Rows(Ask::Scan(rows)) => format!("scan of {rows}"),
        }
    }

    /// Returns the length of the reply's payload, which is also that of the request.
    fn bytes(self) -> usize {
        match self {
            Self::Root => 32,
            Self::Account(_) => lineside_wire::TRANSFER_PAPER_BYTES_MAX,
            Self::Rows(ask) => ask.paper(0).len(),
        }
    }
}

/// Replies of one length, at the highest rate.
#[derive(Clone, Debug, Serialize)]
pub struct Replies {
    /// Service.
    pub service: &'static str,
    /// Kind of request.
    pub request: String,
    /// Length of the payload of the request and of its reply, in bytes.
    pub bytes: usize,
    /// Replies per second of XDP with live frames.
    pub xdp_rps: f64,
    /// Replies per second of the socket datapath with live frames.
    pub socket_rps: f64,
    /// Time of one request that XDP answers, in nanoseconds, including the generator.
    pub xdp_ns: f64,
    /// Time of one request that the socket datapath answers, in nanoseconds.
    pub socket_ns: f64,
    /// Median of the rounds' ratios of the two rates.
    pub ratio: f64,
    /// Payload of XDP's replies in gigabits per second.
    pub xdp_gbit_s: f64,
}

/// Hit ratio from which the fast path of a service pays, and the times from which it is computed.
#[derive(Clone, Debug, Serialize)]
pub struct Paying {
    /// Service.
    pub service: &'static str,
    /// Kind of request.
    pub request: String,
    /// Quantity that is compared.
    pub measure: Measure,
    /// Time of a request that the fast path answers, in nanoseconds.
    pub hit_ns: f64,
    /// Time that the program adds to a request that it passes on, in nanoseconds.
    pub miss_ns: f64,
    /// Time of a request that the socket datapath answers, in nanoseconds.
    pub socket_ns: f64,
    /// Hit ratio in percent above which the fast path pays; `None` if it never pays.
    pub hit_percent: Option<f64>,
    /// Number of foreign packets per hit at which the time that a hit saves is lost again. `None` if a foreign packet
    /// takes no longer, and for round trips, which do not add up to the time of a core.
    pub foreign_per_hit: Option<f64>,
}

/// Figures of this part.
#[derive(Clone, Debug, Serialize)]
pub struct Services {
    /// Replies by length.
    pub replies: Vec<Replies>,
    /// Hit ratios from which the fast paths pay.
    pub paying: Vec<Paying>,
    /// Time of each service's program for a request that it passes on.
    pub misses: BTreeMap<&'static str, ProgramTime>,
    /// Number of requests that were sent.
    pub sent: u64,
    /// Number of right replies.
    pub right: u64,
    /// Number of lost requests of the runs in which none may be lost: closed loops, and XDP.
    pub lost: u64,
    /// Wrong replies.
    pub wrong_replies: WrongReplies,
    /// Units of money, or operations, that the audits of `transfer` found missing or in excess.
    pub faults: u64,
}

/// Sizes of the runs.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Number of rounds.
    pub rounds: usize,
    /// Duration of a run.
    pub duration: Duration,
}

/// Returns the number of steps of [`measure`].
pub fn steps(sizes: &Sizes) -> usize {
    sizes.rounds + 1
}

/// Fields of the three services.
struct Fields<'a> {
    spv: &'a Setting,
    transfer: transfer::Field,
    column: column::Field,
}

/// Result of one run, whatever the service.
struct Run {
    ns: f64,
    sent: u64,
    right: u64,
    lost: u64,
    wrong: WrongReplies,
}

type Samples = BTreeMap<(Request, Measure, bool), Vec<f64>>;

/// Measures all figures. All TXIDs must be in the fast-path table. Journals of `transfer` are in `folder`.
pub fn measure(
    setting: &Setting,
    losses: &Losses,
    sizes: &Sizes,
    packets: &loss::Sizes,
    folder: &Path,
    tell: &mut dyn FnMut(&'static str),
) -> Result<Services> {
    tell("the programs alone");
    let mut misses = program_misses(setting, packets)?;
    if let Some(spv) = losses.program.get("miss, random") {
        misses.insert("spv", *spv);
    }
    let folder = Removed::of_this_run(folder)?;
    let mut fields = Fields {
        spv: setting,
        transfer: transfer::Field::new(folder.0.clone())?,
        column: column::Field::new(None)?,
    };
    let mut found = Services {
        replies: Vec::new(),
        paying: Vec::new(),
        misses,
        sent: 0,
        right: 0,
        lost: 0,
        wrong_replies: WrongReplies::default(),
        faults: 0,
    };
    let mut samples = Samples::new();
    let runs = runs();
    for round in 0..sizes.rounds {
        tell("hits and sockets");
        for place in 0..runs.len() {
            let run = runs[(place + round * 3) % runs.len()];
            let (request, measure, by_xdp) = run;
            let mut done = fields.run(request, measure, by_xdp, sizes.duration)?;
            found.sent += done.sent;
            found.right += done.right;
            if by_xdp || measure == Measure::RoundTrip {
                found.lost += done.lost;
            }
            let case = format!("{} {}, {}", request.service(), request.name(), measure.name());
            done.wrong.name(if by_xdp { "xdp" } else { "socket" }, &case);
            found.wrong_replies.extend(&done.wrong);
            samples.entry(run).or_default().push(done.ns);
        }
    }
    let faults = fields.transfer.faults;
    found.faults = faults.lost + faults.doubled + faults.created;
    found.replies = replies(&samples);
    found.paying = paying(&samples, &found.misses, losses);
    Ok(found)
}

/// Returns the runs of a round: request, measure, and whether XDP answers.
fn runs() -> Vec<(Request, Measure, bool)> {
    let mut runs = Vec::new();
    let both = |runs: &mut Vec<_>, request, measure| {
        runs.push((request, measure, true));
        runs.push((request, measure, false));
    };
    for request in judged() {
        both(&mut runs, request, Measure::HighestRate);
        both(&mut runs, request, Measure::RoundTrip);
    }
    for rows in SCANS {
        both(&mut runs, Request::Rows(Ask::Scan(rows)), Measure::HighestRate);
    }
    runs
}

/// Requests for which the hit ratio is computed.
fn judged() -> [Request; 4] {
    [
        Request::Root,
        Request::Account(Command::Refer),
        Request::Account(Command::Transfer),
        Request::Rows(Ask::Get),
    ]
}

impl Fields<'_> {
    fn run(&mut self, request: Request, measure: Measure, by_xdp: bool, duration: Duration) -> Result<Run> {
        let highest = measure == Measure::HighestRate;
        match request {
            Request::Root => {
                let who = if by_xdp { field::Who::Xdp } else { SOCKET };
                let by = if highest {
                    field::By::Live
                } else {
                    field::By::Window1
                };
                self.spv
                    .field
                    .run(who, by, duration)
                    .map(|driven| of_tally(driven.tally, highest))
            }
            Request::Rows(ask) => {
                let run = column::Run {
                    who: if by_xdp {
                        column::Who::Xdp
                    } else {
                        column::Who::Socket
                    },
                    by: if highest {
                        column::By::Live
                    } else {
                        column::By::Window1
                    },
                    ask,
                };
                self.column
                    .run(run, duration)
                    .map(|tally| of_tally(tally, highest))
            }
            Request::Account(command) => {
                let who = if by_xdp {
                    transfer::Who::Xdp
                } else {
                    transfer::Who::Socket
                };
                let by = if highest {
                    transfer::By::Live
                } else {
                    transfer::By::Window1
                };
                let case = transfer::Case::of(who, by, command);
                let tally = self.transfer.run(case, duration, None)?;
                Ok(Run {
                    ns: ns_of(highest, tally.rps(), tally.latency_us(0.5)),
                    sent: tally.sent,
                    right: tally.right,
                    lost: tally.lost,
                    wrong: tally.wrong,
                })
            }
        }
    }
}

fn of_tally(tally: crate::client::Tally, highest: bool) -> Run {
    Run {
        ns: ns_of(highest, tally.rps(), crate::report::latency_us(&tally, 0.5)),
        sent: tally.sent,
        right: tally.right,
        lost: tally.lost,
        wrong: tally.wrong,
    }
}

fn ns_of(highest: bool, rps: f64, p50_us: f64) -> f64 {
    match highest {
        true => 1e9 / rps.max(f64::MIN_POSITIVE),
        false => p50_us * 1e3,
    }
}

fn replies(samples: &Samples) -> Vec<Replies> {
    let requests = std::iter::once(Request::Root).chain(SCANS.map(|rows| Request::Rows(Ask::Scan(rows))));
    let figures = requests.filter_map(|request| {
        let of = |by_xdp| samples.get(&(request, Measure::HighestRate, by_xdp));
        let (xdp, socket) = (of(true)?, of(false)?);
        let (xdp_ns, socket_ns) = (median(xdp.iter().copied())?, median(socket.iter().copied())?);
        let bytes = request.bytes();
        Some(Replies {
            service: request.service(),
            request: request.name(),
            bytes,
            xdp_rps: 1e9 / xdp_ns,
            socket_rps: 1e9 / socket_ns,
            xdp_ns,
            socket_ns,
            ratio: median(socket.iter().zip(xdp).map(|(socket, xdp)| socket / xdp))?,
            xdp_gbit_s: 8.0 * bytes as f64 / xdp_ns,
        })
    });
    figures.collect()
}

fn paying(samples: &Samples, misses: &BTreeMap<&'static str, ProgramTime>, losses: &Losses) -> Vec<Paying> {
    let queue = |traffic| losses.queue(traffic);
    // Any attached program costs a packet this time, before Lineside's program does anything.
    let attached_ns = queue(Traffic::Miss).map_or(0.0, |queue| queue.pass_added_ns.max(0.0));
    let foreign_ns = queue(Traffic::ForeignUdp).map_or(0.0, |queue| queue.ours_added_ns);
    let mut found = Vec::new();
    for request in judged() {
        for measure in [Measure::HighestRate, Measure::RoundTrip] {
            let of = |by_xdp| {
                let values = samples.get(&(request, measure, by_xdp)).into_iter().flatten();
                median(values.copied())
            };
            let (Some(hit), Some(socket)) = (of(true), of(false)) else {
                continue;
            };
            let Some(program) = misses.get(request.service()) else {
                continue;
            };
            let times = Times {
                hit,
                miss: program.median_ns.max(0.0) + attached_ns,
                socket,
            };
            found.push(Paying {
                service: request.service(),
                request: request.name(),
                measure,
                hit_ns: times.hit,
                miss_ns: times.miss,
                socket_ns: times.socket,
                hit_percent: times.break_even().map(|ratio| 100.0 * ratio),
                foreign_per_hit: match measure {
                    Measure::HighestRate => times.foreign_per_hit(foreign_ns),
                    Measure::RoundTrip => None,
                },
            });
        }
    }
    found
}

/// Measures the programs of `transfer` and `column` with requests that they pass on.
fn program_misses(setting: &Setting, sizes: &loss::Sizes) -> Result<BTreeMap<&'static str, ProgramTime>> {
    let mut found = BTreeMap::new();
    let mut ledger = XdpLedger::load(ACCOUNT_BITS)?;
    store::fill(&ledger.store, ACCOUNT_BITS)?;
    // Only the host opens sessions.
    let open = native::request_header(TRANSFER_OP_OPEN, 1, 0);
    let packets = Packets::udp(TRANSFER_PORT, open.as_bytes(), 1, u64::MAX);
    let forwarded = TransferCounter::Forwarded as usize;
    let before = ledger.counts()?[forwarded];
    let time = loss::program_time(setting, &packets, ledger.root().as_fd(), sizes)?;
    passed_on("transfer", ledger.counts()?[forwarded] - before, sizes)?;
    found.insert("transfer", time);
    drop(ledger);
    let mut line = XdpLine::load(&geometry(ROW_BITS, false))?;
    let _served = Served::embedded(&line.store).and_then(|served| served.fill().map(|()| served))?;
    // A get whose key is after all rows. Two of the key's bytes differ from packet to packet.
    let mut get = Ask::Get.paper(0);
    get[3] = 0x7f;
    let packets = Packets::udp(COLUMN_PORT, &get, 0, 0xffff << 32);
    let before = line.count(ColumnCounter::Misses)?;
    let hits = line.hits()?;
    let time = loss::program_time(setting, &packets, line.root().as_fd(), sizes)?;
    if line.hits()? > hits {
        return Err(BenchError::Void(
            "a request for no row of `column` was a hit".into(),
        ));
    }
    passed_on("column", line.count(ColumnCounter::Misses)? - before, sizes)?;
    found.insert("column", time);
    Ok(found)
}

/// Checks that a program counted each of its calls in [`loss::program_time`] as passed on.
fn passed_on(service: &str, counted: u64, sizes: &loss::Sizes) -> Result<()> {
    let due = loss::program_calls(sizes);
    match counted == due {
        true => Ok(()),
        false => Err(BenchError::Void(format!(
            "the program of `{service}` was called {due} times with requests to pass on, but counted {counted}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_reach_from_a_small_reply_to_a_full_frame() {
        let bytes = SCANS.map(|rows| Request::Rows(Ask::Scan(rows)).bytes());
        assert_eq!(bytes, [24, 48, 96, 184, 360, 712, 1_416]);
        assert_eq!(Request::Root.bytes(), 32);
    }

    #[test]
    fn replies_are_compared_round_by_round() {
        let samples = Samples::from([
            (
                (Request::Root, Measure::HighestRate, true),
                vec![250.0, 500.0, 200.0],
            ),
            (
                (Request::Root, Measure::HighestRate, false),
                vec![2_000.0, 2_500.0, 2_000.0],
            ),
        ]);
        let found = replies(&samples);
        assert_eq!(found.len(), 1);
        let root = &found[0];
        // The ratios are 8, 5 and 10.
        assert_eq!((root.xdp_ns, root.socket_ns, root.ratio), (250.0, 2_000.0, 8.0));
        assert_eq!((root.xdp_rps, root.socket_rps), (4e6, 5e5));
        // 256 bits in 250 ns.
        assert_eq!(root.xdp_gbit_s, 1.024);
    }

    #[test]
    fn every_service_is_measured_in_both_ways() {
        let runs = runs();
        for service in ["spv", "transfer", "column"] {
            for measure in [Measure::HighestRate, Measure::RoundTrip] {
                for by_xdp in [true, false] {
                    let is_it = |run: &&(Request, Measure, bool)| {
                        run.0.service() == service && run.1 == measure && run.2 == by_xdp
                    };
                    assert!(
                        runs.iter().any(|run| is_it(&run)),
                        "{service} {measure:?} {by_xdp}"
                    );
                }
            }
        }
    }
}
