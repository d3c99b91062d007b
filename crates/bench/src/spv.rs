//! The scenario `spv`: Merkle roots for TXIDs, the paper's exchange of 32 bytes for 32 bytes.

use crate::bpf::Generator;
use crate::client::{self, ClosedLoop, Tally};
use crate::error::{BenchError, Result};
use crate::machine::Machine;
use crate::memcached;
use crate::near::{self, XdpNear};
use crate::netns::Pair;
use crate::per_packet::PerPacket;
use crate::report::{Checks, Contestant, Figures, Gate, Report, latency_us, median};
use crate::servers::{self, Running, Software, Truth};
use crate::workload::{Expect, Workload};
use crate::{live, per_packet};
use lineside_wire::SPV_PORT;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Core of the client and of the generators.
const CLIENT_CORE: usize = 0;
/// A program that the verifier finds longer than this is too near to its limit of 1,000,000.
const VERIFIED_INSTRUCTIONS_MAX: u32 = 20_000;
/// `sw` below this share of `echo` would be a straw man.
const SW_OF_ECHO_MIN: f64 = 0.3;
/// A load above this before the bench begins is said in the report.
const QUIET_LOAD_MAX: f64 = 0.3;
/// Ratio, gate, stretch.
const GATES: [(&str, f64, Option<f64>); 7] = [
    ("xdp_max/sw_cache", 5.0, Some(7.0)),
    ("xdp_max/sw", 8.0, Some(12.0)),
    ("xdp_max/socket", 4.0, Some(6.0)),
    ("xdp_max/memcached", 7.0, Some(9.0)),
    ("xdp/sw", 1.4, None),
    ("latency sw/xdp", 10.0, Some(15.0)),
    ("latency sw_spin/xdp", 2.0, Some(2.8)),
];

/// How to run it.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Seed of the workload.
    pub seed: u64,
    /// Rounds; figures are their medians.
    pub rounds: usize,
    /// Time that each contestant is driven in a round, each way.
    pub duration: Duration,
    /// Told how many runs of how many are done.
    pub progress: fn(usize, usize),
}

impl Default for Options {
    fn default() -> Self {
        Self {
            seed: 1,
            rounds: 7,
            duration: Duration::from_secs(1),
            progress: |_, _| (),
        }
    }
}

impl Options {
    /// The same in under 40 s.
    pub fn quick() -> Self {
        Self {
            rounds: 3,
            duration: Duration::from_millis(250),
            ..Self::default()
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Who {
    Software(Software),
    Memcached,
    Xdp,
}

/// By what a contestant is driven.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum By {
    Window64,
    Window1,
    AfXdp,
    AfXdpWindow1,
    Live,
}

const ECHO: Who = Who::Software(Software::Echo);
const SW: Who = Who::Software(Software::Sw);
const SW_CACHE: Who = Who::Software(Software::SwCache);
const SW_SPIN: Who = Who::Software(Software::SwSpin);
const SOCKET: Who = Who::Software(Software::Socket);

/// Every run of a round.
const RUNS: [(Who, By); 20] = [
    (Who::Xdp, By::Live),
    (SW, By::Live),
    (SW_CACHE, By::Live),
    (SOCKET, By::Live),
    (Who::Memcached, By::Live),
    (ECHO, By::Live),
    (Who::Xdp, By::Window64),
    (SW, By::Window64),
    (SW_CACHE, By::Window64),
    (SOCKET, By::Window64),
    (ECHO, By::Window64),
    (Who::Xdp, By::Window1),
    (SW, By::Window1),
    (SW_SPIN, By::Window1),
    (SOCKET, By::Window1),
    (Who::Xdp, By::AfXdp),
    (SW, By::AfXdp),
    (Who::Xdp, By::AfXdpWindow1),
    (SW, By::AfXdpWindow1),
    (SW_SPIN, By::AfXdpWindow1),
];

type Samples = BTreeMap<(Who, By), Vec<Tally>>;

/// What every run needs.
struct Field {
    pair: Arc<Pair>,
    near: XdpNear,
    workload: Arc<Workload>,
    generator: Generator,
    truth: Truth,
    /// Or why it does not run.
    memcached: std::result::Result<Running, String>,
}

/// Runs the scenario.
///
/// # Errors
/// Without root, without BPF, or when a contestant fails; a figure that is not what it says is void.
pub fn run(options: &Options) -> Result<Report> {
    let machine = Machine::read();
    if machine.cores < 2 {
        return Err(BenchError::TooFewCores);
    }
    let mut field = Field::new(options.seed)?;
    let pair = Arc::clone(&field.pair);
    let Field { near, generator, .. } = &mut field;
    let mut notes = notes(&machine);
    let mut cost = |measure: fn(&mut XdpNear, &Generator) -> Result<PerPacket>| match pair
        .client
        .run(CLIENT_CORE, || measure(near, generator))
    {
        Ok(cost) => Ok(Some(cost)),
        Err(BenchError::Void(why)) => {
            notes.push(format!("a per-packet figure is void: {why}"));
            Ok(None)
        }
        Err(error) => Err(error),
    };
    let (hot_hit, random_hit) = (cost(per_packet::hot_hit)?, cost(per_packet::random_hit)?);
    let mut samples = Samples::new();
    let runs: Vec<_> = RUNS.into_iter().filter(|(who, _)| field.has(*who)).collect();
    for round in 0..options.rounds.max(1) {
        for place in 0..runs.len() {
            // Each round begins elsewhere, so that nobody always stands behind the same neighbour.
            let (who, by) = runs[(place + round * 5) % runs.len()];
            let tally = field.run(who, by, options.duration)?;
            samples.entry((who, by)).or_default().push(tally);
            (options.progress)(round * runs.len() + place + 1, options.rounds * runs.len());
        }
    }
    let mut contestants = contestants(&samples);
    if let Some(xdp) = contestants.get_mut("xdp") {
        (xdp.hot_hit, xdp.random_hit) = (hot_hit, random_hit);
    }
    if let (Some(peer), Err(why)) = (contestants.get_mut("memcached"), &field.memcached) {
        peer.not_measured = Some(why.clone());
    }
    let ratios = ratios(&samples);
    let checks = checks(&samples, &ratios, notes, &mut field)?;
    Ok(Report {
        scenario: "spv",
        seed: options.seed,
        machine,
        contestants,
        ratios,
        checks,
    })
}

impl Field {
    fn new(seed: u64) -> Result<Self> {
        let pair = Arc::new(Pair::new()?);
        let (near, workload) = XdpNear::load(seed)?;
        let workload = Arc::new(workload);
        let generator = Generator::load(&workload)?;
        let truth = Truth {
            tree: Arc::new(workload.tree()),
            store: near::software_store(&workload)?,
        };
        let memcached = match memcached::find() {
            Some(binary) => memcached::start(&pair, binary, &workload).map_err(|error| error.to_string()),
            None => Err("it is not installed".into()),
        };
        Ok(Self {
            pair,
            near,
            workload,
            generator,
            truth,
            memcached,
        })
    }

    fn has(&self, who: Who) -> bool {
        who != Who::Memcached || self.memcached.is_ok()
    }

    /// Starts `who`, drives it, stops it.
    fn run(&self, who: Who, by: By, duration: Duration) -> Result<Tally> {
        match who {
            Who::Software(software) => {
                let running = servers::start(&self.pair, software, &self.truth)?;
                let tally = self.drive(who, by, duration);
                running.end()?;
                tally
            }
            Who::Memcached => self.drive(who, by, duration),
            Who::Xdp => {
                let _attached = self
                    .pair
                    .server
                    .run(CLIENT_CORE, || self.near.attach(&self.pair))?;
                self.drive(who, by, duration)
            }
        }
    }

    fn drive(&self, who: Who, by: By, duration: Duration) -> Result<Tally> {
        let expect = if who == ECHO { Expect::Echo } else { Expect::Root };
        let window = if matches!(by, By::Window1 | By::AfXdpWindow1) {
            1
        } else {
            64
        };
        // Frames that XDP_TX returns over a veth are polled only where an XDP program stands (6.18, veth_xdp_flush).
        let passes = who == Who::Xdp && matches!(by, By::Window64 | By::Window1);
        let plan = ClosedLoop {
            window,
            expect,
            warm_up: duration / 8,
            duration,
        };
        let (workload, generator) = (&*self.workload, &self.generator);
        let interface = self.pair.client_index;
        self.pair.client.run(CLIENT_CORE, || match by {
            By::Window64 | By::Window1 => {
                let _passing = if passes {
                    Some(generator.attach_pass(interface)?)
                } else {
                    None
                };
                client::sendmmsg(workload, plan)
            }
            By::AfXdp | By::AfXdpWindow1 => crate::af_xdp::run(generator, interface, workload, plan),
            By::Live => {
                let memcached = who == Who::Memcached;
                let port = if memcached { memcached::PORT } else { SPV_PORT };
                let target = live::Target {
                    port,
                    memcached,
                    echo: expect == Expect::Echo,
                };
                live::run(generator, interface, target, duration)
            }
        })
    }
}

fn contestants(samples: &Samples) -> BTreeMap<&'static str, Contestant> {
    let figures = |who, by| samples.get(&(who, by)).and_then(|rounds| Figures::of(rounds));
    let all = |who| Contestant {
        gate_case: figures(who, By::Window64),
        window_1: figures(who, By::Window1),
        af_xdp: figures(who, By::AfXdp),
        af_xdp_window_1: figures(who, By::AfXdpWindow1),
        live: figures(who, By::Live),
        ..Contestant::default()
    };
    let live = |who| Contestant {
        gate_case: figures(who, By::Live),
        ..Contestant::default()
    };
    BTreeMap::from([
        ("echo", all(ECHO)),
        ("sw", all(SW)),
        ("sw_cache", all(SW_CACHE)),
        ("sw_spin", all(SW_SPIN)),
        ("socket", all(SOCKET)),
        ("memcached", live(Who::Memcached)),
        (
            "xdp",
            Contestant {
                live: None,
                ..all(Who::Xdp)
            },
        ),
        ("xdp_max", live(Who::Xdp)),
    ])
}

fn ratios(samples: &Samples) -> BTreeMap<&'static str, f64> {
    let ratio = |a, b, of: fn(&Tally) -> f64| {
        let (a, b) = (samples.get(&a)?, samples.get(&b)?);
        median(a.iter().zip(b).map(|(a, b)| of(a) / of(b)))
    };
    let rps = |a, b, by| ratio((a, by), (b, by), Tally::rps);
    let latency = |a, by| ratio((a, by), (Who::Xdp, by), |tally| latency_us(tally, 0.5));
    let found = [
        ("xdp_max/sw", rps(Who::Xdp, SW, By::Live)),
        ("xdp_max/sw_cache", rps(Who::Xdp, SW_CACHE, By::Live)),
        ("xdp_max/socket", rps(Who::Xdp, SOCKET, By::Live)),
        ("xdp_max/memcached", rps(Who::Xdp, Who::Memcached, By::Live)),
        ("xdp_max/echo", rps(Who::Xdp, ECHO, By::Live)),
        ("live sw/echo", rps(SW, ECHO, By::Live)),
        ("sw/echo", rps(SW, ECHO, By::Window64)),
        ("xdp/sw", rps(Who::Xdp, SW, By::Window64)),
        ("xdp/sw_cache", rps(Who::Xdp, SW_CACHE, By::Window64)),
        ("xdp/socket", rps(Who::Xdp, SOCKET, By::Window64)),
        ("xdp/echo", rps(Who::Xdp, ECHO, By::Window64)),
        ("af_xdp xdp/sw", rps(Who::Xdp, SW, By::AfXdp)),
        ("latency sw/xdp", latency(SW, By::Window1)),
        ("latency sw_spin/xdp", latency(SW_SPIN, By::Window1)),
        ("latency socket/xdp", latency(SOCKET, By::Window1)),
        ("af_xdp latency sw/xdp", latency(SW, By::AfXdpWindow1)),
        ("af_xdp latency sw_spin/xdp", latency(SW_SPIN, By::AfXdpWindow1)),
    ];
    found
        .into_iter()
        .filter_map(|(key, ratio)| Some((key, ratio?)))
        .collect()
}

fn checks(
    samples: &Samples,
    ratios: &BTreeMap<&'static str, f64>,
    notes: Vec<String>,
    field: &mut Field,
) -> Result<Checks> {
    let is_lossless = |who, by| by != By::Live || who == Who::Xdp;
    let all = || {
        samples
            .iter()
            .flat_map(|(run, rounds)| rounds.iter().map(move |tally| (run, tally)))
    };
    let lost = all()
        .filter(|((who, by), _)| is_lossless(*who, *by))
        .map(|(_, tally)| tally.lost)
        .sum();
    let wrong = all().map(|(_, tally)| tally.wrong).sum();
    let valid = ["sw/echo", "live sw/echo"]
        .iter()
        .all(|key| ratios.get(key) >= Some(&SW_OF_ECHO_MIN));
    let judge = |(key, gate, stretch)| (key, Gate::judge(ratios.get(key).copied(), gate, stretch, valid));
    Ok(Checks {
        lost,
        wrong,
        valid,
        verified_instructions: field.near.verified_instructions()?,
        verified_instructions_max: VERIFIED_INSTRUCTIONS_MAX,
        gates: GATES.map(judge).into(),
        notes,
    })
}

fn notes(machine: &Machine) -> Vec<String> {
    let mut notes = vec![
        "client and generators on core 0, servers on core 1; XDP answers on the client's core".into(),
        "veth has neither wire nor interrupt: latencies are of software alone".into(),
        "live frames carry no UDP checksum, so no server has to verify one".into(),
        "ratios are medians of the rounds' ratios".into(),
    ];
    if machine.load_before > QUIET_LOAD_MAX {
        let load = machine.load_before;
        notes.push(format!(
            "the machine was not quiet: load {load} before the bench, which the servers feel most"
        ));
    }
    notes
}
