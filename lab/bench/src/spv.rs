//! Scenario `spv`: Merkle roots for TXIDs, the paper's exchange of a request of 32 bytes for a reply of 32 bytes.

use crate::bpf::Generator;
use crate::client::{self, ClosedLoop, Tally};
use crate::error::{BenchError, Result};
use crate::fastpath::XdpFastPath;
use crate::field::{By, CLIENT_CORE, ECHO, Field, SOCKET, SW, SW_CACHE, SW_SPIN, Who};
use crate::gate::Bound::{self, AtLeast, AtMost};
use crate::gate::{Gate, judge_only_if_quiet, median};
use crate::machine::Machine;
use crate::per_packet::PerPacket;
use crate::report::{Checks, Contestant, Figures, Replacements, Report, latency_us};
use crate::servers::{self, Software};
use crate::workload::{Expect, Shape, Workload};
use crate::wrong::WrongReplies;
use crate::{import, per_packet};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

pub use crate::progress::Progress;

/// Minimum ratio of the rates of `sw` and `echo` in a meaningful comparison.
const SW_OF_ECHO_MIN: f64 = 0.3;
/// Maximum load average before the benchmark; above it, the report notes that the machine was busy.
const QUIET_LOAD_MAX: f64 = 0.3;
/// Number of times that the programs are replaced under load in a full run.
const REPLACEMENTS: usize = 1_000;
/// Pass criteria: the key of a ratio, or a figure with its unit; direction of the bound; required value (gate); stretch
/// goal.
const GATES: [(&str, Bound, f64, Option<f64>); 17] = [
    ("xdp_max/sw_cache", AtLeast, 5.0, Some(7.0)),
    ("xdp_max/sw", AtLeast, 8.0, Some(12.0)),
    ("xdp_max/socket", AtLeast, 4.0, Some(6.0)),
    ("xdp_max/memcached", AtLeast, 7.0, Some(9.0)),
    ("xdp/sw", AtLeast, 1.4, None),
    ("latency sw/xdp", AtLeast, 10.0, Some(15.0)),
    ("latency sw_spin/xdp", AtLeast, 2.0, Some(2.8)),
    ("socket client latency sw/xdp", AtLeast, 10.0, Some(15.0)),
    ("socket client latency sw_spin/xdp", AtLeast, 2.0, Some(2.8)),
    (HOT_HIT, AtMost, 35.0, Some(25.0)),
    (RANDOM_HIT, AtMost, 180.0, Some(140.0)),
    (RANDOM_PROOF, AtMost, 450.0, Some(300.0)),
    (VERIFIED, AtMost, 19_999.0, None),
    (REPLACED, AtMost, 0.0, None),
    (IMPORTED, AtLeast, 120.0, None),
    (INDEX_BYTES, AtMost, 24.0, None),
    (LOOK_UP, AtMost, 30.0, None),
];
/// Returns the keys of the gates that a report of this scenario has.
pub fn gate_keys() -> impl Iterator<Item = &'static str> {
    GATES.into_iter().map(|gate| gate.0)
}

/// Length of a slice of the client's requests. After each slice the client checks whether all programs were replaced.
const REPLACING_SLICE: Duration = Duration::from_millis(200);
const HOT_HIT: &str = "hot hit, ns";
const RANDOM_HIT: &str = "random hit, ns";
const RANDOM_PROOF: &str = "random proof, ns";
const VERIFIED: &str = "verified instructions";
const REPLACED: &str = "lost while replacing";
const IMPORTED: &str = "import, MB/s of a core";
const INDEX_BYTES: &str = "index, bytes a transaction";
const LOOK_UP: &str = "look-up in the index, us";

/// Options of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Seed of the workload.
    pub seed: u64,
    /// Number of rounds; figures are their medians.
    pub rounds: usize,
    /// Duration of the run of each contestant in a round.
    pub duration: Duration,
    /// Number of times that the programs are replaced under load.
    pub replacements: usize,
    /// Megabytes of blocks to import.
    pub import_megabytes: u64,
    /// Folder for the blocks and their store, which the benchmark removes at the end.
    pub folder: PathBuf,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            seed: 1,
            rounds: 7,
            duration: Duration::from_secs(1),
            replacements: REPLACEMENTS,
            import_megabytes: 500,
            folder: std::env::temp_dir(),
        }
    }
}

impl Options {
    /// Returns the options of a run of less than 40 s.
    pub fn quick() -> Self {
        Self {
            rounds: 3,
            duration: Duration::from_millis(200),
            replacements: REPLACEMENTS / 20,
            import_megabytes: 60,
            ..Self::default()
        }
    }
}

/// Pairs of contestant and client that run in each round.
const RUNS: [(Who, By); 24] = [
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
    (Who::Xdp, By::LiveWindow1),
    (SW, By::LiveWindow1),
    (SW_SPIN, By::LiveWindow1),
    (SOCKET, By::LiveWindow1),
    (Who::Xdp, By::AfXdpWindow1),
    (SW, By::AfXdpWindow1),
    (SW_SPIN, By::AfXdpWindow1),
];

type Samples = BTreeMap<(Who, By), Vec<Tally>>;

/// Runs the scenario, and calls `progress` before each step.
///
/// # Errors
/// Fails if the process has no root rights or no BPF, or if a contestant fails. A figure that would be meaningless is
/// void.
pub fn run(options: &Options, progress: &mut dyn FnMut(Progress)) -> Result<Report> {
    let mut machine = Machine::read();
    if machine.cores < 2 {
        return Err(BenchError::TooFewCores);
    }
    let mut field = Field::new(options.seed, Shape::default(), true)?;
    let runs: Vec<_> = RUNS.into_iter().filter(|(who, _)| field.has(*who)).collect();
    let rounds = options.rounds.max(1);
    let mut step = 0;
    let mut tell = |doing| {
        let of = rounds * runs.len() + 5;
        progress(Progress {
            doing,
            done: step,
            of,
        });
        step += 1;
    };
    let mut notes = notes(&machine);
    tell("a packet's cost");
    let hot_hit = field.per_packet("the cost of a hot hit", per_packet::hot_hit, &mut notes)?;
    tell("a packet's cost");
    let random_hit = field.per_packet("the cost of a random hit", per_packet::random_hit, &mut notes)?;
    tell("a proof's cost");
    let random_proof =
        field.per_packet("the cost of a random proof", per_packet::random_proof, &mut notes)?;
    let mut samples = Samples::new();
    for round in 0..rounds {
        for place in 0..runs.len() {
            // Each round begins with another run, so that no contestant always runs after the same one.
            let (who, by) = runs[(place + round * 5) % runs.len()];
            tell("contestants");
            let tally = field.run(who, by, options.duration)?.tally;
            samples.entry((who, by)).or_default().push(tally);
        }
    }
    tell("replacing programs");
    let replacements = field.replace(options.replacements)?;
    tell("importing");
    let import = match import::measure(options.import_megabytes, &options.folder) {
        Err(BenchError::NotMeasured(why)) => Err(why),
        other => Ok(other?),
    };
    let mut contestants = contestants(&samples);
    if let Some(xdp) = contestants.get_mut("xdp") {
        (xdp.hot_hit, xdp.random_hit) = (hot_hit, random_hit);
        xdp.random_proof = random_proof;
    }
    if let (Some(peer), Err(why)) = (contestants.get_mut("memcached"), &field.memcached) {
        peer.not_measured = Some(why.clone());
    }
    let ratios = ratios(&samples);
    let verified_instructions = field.fastpath.verified_instructions()?;
    let valid = ["sw/echo", "live sw/echo"]
        .iter()
        .all(|key| ratios.get(key) >= Some(&SW_OF_ECHO_MIN));
    let imported = import.as_ref().ok();
    let value_of = |key: &str| match key {
        HOT_HIT => hot_hit.map(|cost| cost.median_ns),
        RANDOM_PROOF => random_proof.map(|cost| cost.median_ns),
        RANDOM_HIT => random_hit.map(|cost| cost.median_ns),
        VERIFIED => verified_instructions
            .values()
            .max()
            .map(|count| f64::from(*count)),
        REPLACED => Some(replacements.lost as f64),
        IMPORTED => imported.map(|import| import.mb_per_core_s.min(import.mb_per_s)),
        INDEX_BYTES => imported.map(|import| import.index_bytes_per_transaction),
        LOOK_UP => imported.map(|import| import.locate_us),
        ratio => ratios.get(ratio).copied(),
    };
    // If the baseline is too slow, the ratios are void, but the figures of XDP alone are not.
    let judge = |(key, is, gate, stretch)| {
        let valid = valid || !ratios.contains_key(key);
        (key, Gate::judge(value_of(key), is, gate, stretch, valid))
    };
    let mut gates = GATES.map(judge).into();
    machine.end_of_run();
    judge_only_if_quiet(&mut gates, &machine, &[VERIFIED, REPLACED, INDEX_BYTES]);
    let (lost, mut wrong) = lost_and_wrong(&samples);
    let mut replacements = replacements;
    replacements.wrong.name("xdp", "while programs were replaced");
    wrong.extend(&replacements.wrong);
    Ok(Report {
        scenario: "spv",
        seed: options.seed,
        machine,
        contestants,
        ratios,
        checks: Checks {
            lost: lost + replacements.lost,
            wrong: wrong.count,
            wrong_replies: wrong,
            valid,
            verified_instructions,
            replacements,
            import,
            gates,
            notes,
        },
    })
}

impl Field {
    /// Returns the cost of a packet; `None` if the figure would be meaningless, which is then noted in the report under
    /// the figure's `name`.
    fn per_packet(
        &mut self,
        name: &str,
        measure: fn(&mut XdpFastPath, &Generator, &Workload) -> Result<PerPacket>,
        notes: &mut Vec<String>,
    ) -> Result<Option<PerPacket>> {
        let Self {
            fastpath,
            generator,
            pair,
            workload,
            ..
        } = self;
        match pair
            .client
            .run(CLIENT_CORE, || measure(fastpath, generator, workload))
        {
            Err(BenchError::Void(why)) => {
                notes.push(format!(
                    "{name} was not measured, because the result would be meaningless: {why}; repeat the run"
                ));
                Ok(None)
            }
            other => other.map(Some),
        }
    }

    /// Replaces the programs `count` times while the socket client sends requests, with 64 of them in flight.
    fn replace(&mut self, count: usize) -> Result<Replacements> {
        let plan = ClosedLoop {
            window: 64,
            expect: Expect::Root,
            warm_up: Duration::ZERO,
            duration: REPLACING_SLICE,
        };
        let Self {
            fastpath,
            generator,
            pair,
            workload,
            ..
        } = self;
        let (client, interface) = (&pair.client, pair.client_index);
        let load = |done: &AtomicBool| {
            client.run(CLIENT_CORE, || {
                let _passing = generator.attach_pass(interface)?;
                let mut seen = Replacements {
                    count,
                    sent: 0,
                    lost: 0,
                    wrong: WrongReplies::default(),
                };
                while !done.load(Relaxed) {
                    let tally = client::socket(workload, plan)?;
                    seen.sent += tally.sent;
                    seen.lost += tally.lost;
                    seen.wrong.extend(&tally.wrong);
                }
                Ok(seen)
            })
        };
        pair.server
            .run(servers::SERVER_CORE, || fastpath.replace_under(count, load))
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
        live_window_1: figures(who, By::LiveWindow1),
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
        ("latency sw/xdp", latency(SW, By::LiveWindow1)),
        ("latency sw_spin/xdp", latency(SW_SPIN, By::LiveWindow1)),
        ("latency socket/xdp", latency(SOCKET, By::LiveWindow1)),
        ("af_xdp latency sw/xdp", latency(SW, By::AfXdpWindow1)),
        ("af_xdp latency sw_spin/xdp", latency(SW_SPIN, By::AfXdpWindow1)),
        ("socket client latency sw/xdp", latency(SW, By::Window1)),
        ("socket client latency sw_spin/xdp", latency(SW_SPIN, By::Window1)),
    ];
    found
        .into_iter()
        .filter_map(|(key, ratio)| Some((key, ratio?)))
        .collect()
}

/// Returns the name of a contestant in reports.
fn name_of(who: Who) -> &'static str {
    match who {
        Who::Software(Software::Echo) => "echo",
        Who::Software(Software::Sw) => "sw",
        Who::Software(Software::SwCache) => "sw_cache",
        Who::Software(Software::SwSpin) => "sw_spin",
        Who::Software(Software::Socket) => "socket",
        Who::Memcached => "memcached",
        Who::Xdp | Who::XdpThenSw => "xdp",
    }
}

/// Returns the number of lost requests in the runs that allow no loss, and the wrong replies.
fn lost_and_wrong(samples: &Samples) -> (u64, WrongReplies) {
    let is_lossless = |who, by| by != By::Live || who == Who::Xdp;
    let all = || {
        samples
            .iter()
            .flat_map(|(run, rounds)| rounds.iter().map(move |tally| (run, tally)))
    };
    let lost = all().filter(|((who, by), _)| is_lossless(*who, *by));
    let mut wrong = WrongReplies::default();
    for ((who, by), tally) in all() {
        let mut found = tally.wrong.clone();
        found.name(name_of(*who), &format!("{by:?}"));
        wrong.extend(&found);
    }
    (lost.map(|(_, tally)| tally.lost).sum(), wrong)
}

fn notes(machine: &Machine) -> Vec<String> {
    let mut notes = vec![
        "client and generators on core 0, servers on core 1; XDP answers on the client's core".into(),
        "veth has neither a wire nor interrupts: latencies are those of software alone".into(),
        "live frames carry no UDP checksum, so no server has to verify one".into(),
        "`latency a/b` is measured at the client's interface (live frames, one at a time), as a hardware generator \
         measures it; the socket client and the AF_XDP client add their own path to both sides"
            .into(),
        "ratios are medians of the rounds' ratios".into(),
    ];
    if machine.load_before > QUIET_LOAD_MAX {
        let load = machine.load_before;
        notes.push(format!(
            "the machine was not quiet: its load average was {load} before the run, which slows the servers most"
        ));
    }
    notes
}
