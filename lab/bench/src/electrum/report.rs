//! Report of `bench electrum`, as one JSON object or as a table.

use super::load::{CONNECTIONS, Round, WINDOW};
use super::{Announced, Options, Rounds};
use crate::gate::Bound::{self, AtLeast, AtMost};
use crate::gate::{Gate, judge_only_if_quiet, median, write_judged};
use crate::machine::Machine;
use crate::wrong::WrongReplies;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};

/// Pass criteria: key, direction of the bound, required value (gate), stretch goal.
const GATES: [(&str, Bound, f64, f64); 2] =
    [(PER_CORE, AtLeast, 40.0, 100.0), (ANNOUNCED, AtMost, 30.0, 10.0)];
const PER_CORE: &str = "per core lineside/electrumx";
const WALL: &str = "wall lineside/electrumx";
const ANNOUNCED: &str = "announcement to answer, ms";

/// Returns the keys of the gates that a report of this scenario has.
pub fn gate_keys() -> impl Iterator<Item = &'static str> {
    GATES.into_iter().map(|gate| gate.0)
}

/// Report of the scenario.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Name of the scenario: `electrum`.
    pub scenario: &'static str,
    /// Seed of the chain and of the order of requests.
    pub seed: u64,
    /// Machine of the run.
    pub machine: Machine,
    /// Contestants by name.
    pub contestants: BTreeMap<&'static str, Contestant>,
    /// Medians of the rounds' ratios.
    pub ratios: BTreeMap<&'static str, f64>,
    /// Times from the node's announcement to the first answer.
    pub announced: Announced,
    /// Checks of the validity of the figures, and of the gates.
    pub checks: Checks,
}

/// Figures of one contestant, or the reason why there are none.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Contestant {
    /// Figures of `blockchain.transaction.get_merkle` for random transactions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub get_merkle: Option<Figures>,
    /// Reason why there are no figures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_measured: Option<String>,
}

/// Medians over the rounds, or sums where noted.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Figures {
    /// Right replies per second; the client checks each reply.
    pub rps: f64,
    /// Right replies per second of the server's processor time.
    pub rps_per_core: f64,
    /// Number of cores that the server used.
    pub cores: f64,
    /// Median latency in microseconds.
    pub p50_us: f64,
    /// 99th percentile of the latency in microseconds.
    pub p99_us: f64,
    /// Number of requests sent in all rounds.
    pub sent: u64,
    /// Number of requests without a reply in all rounds.
    pub lost: u64,
    /// Number of wrong replies in all rounds.
    pub wrong: u64,
}

/// Checks that show whether the run is valid.
#[derive(Clone, Debug, Serialize)]
pub struct Checks {
    /// Number of requests of all contestants that got no reply.
    pub lost: u64,
    /// Number of wrong replies of all contestants.
    pub wrong: u64,
    /// First wrong replies.
    pub wrong_replies: WrongReplies,
    /// Gates by key.
    pub gates: BTreeMap<&'static str, Gate>,
    /// Notes for the reader.
    pub notes: Vec<String>,
}

impl Figures {
    fn of(rounds: &[Round]) -> Option<Self> {
        let of = |value: &dyn Fn(&Round) -> f64| median(rounds.iter().map(value));
        let quantile = |at: f64| of(&|round| round.latency.value_at_quantile(at) as f64 / 1e3);
        Some(Self {
            rps: of(&Round::rps)?,
            rps_per_core: of(&Round::per_core)?,
            cores: of(&|round| round.cpu_s / round.took.as_secs_f64())?,
            p50_us: quantile(0.5)?,
            p99_us: quantile(0.99)?,
            sent: rounds.iter().map(|round| round.sent).sum(),
            lost: rounds.iter().map(|round| round.lost).sum(),
            wrong: rounds.iter().map(|round| round.wrong.count).sum(),
        })
    }
}

impl Contestant {
    fn of(rounds: &std::result::Result<&[Round], &String>) -> Self {
        Self {
            get_merkle: rounds.as_ref().ok().and_then(|rounds| Figures::of(rounds)),
            not_measured: rounds.err().cloned(),
        }
    }
}

impl Report {
    pub(super) fn new(
        options: &Options,
        mut machine: Machine,
        rounds: &Rounds,
        announced: Announced,
    ) -> Self {
        machine.end_of_run();
        let ours = Ok(rounds.lineside.as_slice());
        let theirs = rounds.electrumx.as_ref().map(Vec::as_slice);
        let mut ratios = BTreeMap::new();
        if let Ok(theirs) = theirs {
            for (key, of) in [
                (PER_CORE, Round::per_core as fn(&Round) -> f64),
                (WALL, Round::rps),
            ] {
                // A round in which ElectrumX did not reply gives no ratio.
                let pairs = rounds
                    .lineside
                    .iter()
                    .zip(theirs)
                    .filter(|(_, other)| of(other) > 0.0);
                ratios
                    .extend(median(pairs.map(|(one, other)| of(one) / of(other))).map(|ratio| (key, ratio)));
            }
        }
        let all = || rounds.lineside.iter().chain(theirs.unwrap_or_default());
        let value = |key| match key {
            ANNOUNCED => Some(announced.first_answer_ms),
            key => ratios.get(key).copied(),
        };
        let judge = |(key, is, gate, stretch)| (key, Gate::judge(value(key), is, gate, Some(stretch), true));
        let mut wrong = announced.wrong.clone();
        all().for_each(|round| wrong.extend(&round.wrong));
        let mut checks = Checks {
            lost: all().map(|round| round.lost).sum(),
            wrong: wrong.count,
            wrong_replies: wrong,
            gates: GATES.into_iter().map(judge).collect(),
            notes: notes(options, &machine),
        };
        judge_only_if_quiet(&mut checks.gates, &machine, &[]);
        Self {
            scenario: "electrum",
            seed: options.seed,
            contestants: [
                ("lineside", Contestant::of(&ours)),
                ("electrumx", Contestant::of(&theirs)),
            ]
            .into(),
            machine,
            ratios,
            announced,
            checks,
        }
    }

    /// Returns the faults of the system itself, which are lost and wrong replies; low speed is not a fault.
    pub fn failures(&self) -> Vec<String> {
        let Checks { lost, wrong, .. } = self.checks;
        let what = [(lost, "requests lost"), (wrong, "wrong replies")];
        let found = what.into_iter().filter(|(count, _)| *count > 0);
        found.map(|(count, what)| format!("{count} {what}")).collect()
    }

    /// Returns the report as JSON.
    pub fn to_json(&self) -> serde_json::Value {
        serde_json::to_value(self).unwrap_or_default()
    }
}

fn notes(options: &Options, machine: &Machine) -> Vec<String> {
    let mut notes = vec![
        format!(
            "{} blocks of 2,048 transactions, {CONNECTIONS} connections, {WINDOW} requests in flight on each; client \
             and node on core 0, the servers on core 1",
            options.blocks
        ),
        "per core: right replies per second of processor time of the server's process; the client's share of a \
         connection in the kernel is not included"
            .into(),
        "ElectrumX runs without session limits; it pads each packet to 1,024 bytes and may hold a reply for a second"
            .into(),
        "the announcement is the node's write to the ZMQ subscription; the node is in memory; the fast path runs on \
         the socket datapath"
            .into(),
    ];
    if cfg!(debug_assertions) {
        notes.push("the client is not a release build: replies per second are a lower bound".into());
    }
    if machine.load_before > 0.5 {
        notes.push(format!(
            "the machine was not quiet: its load average was {} before the run",
            machine.load_before
        ));
    }
    notes
}

impl Display for Report {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let (scenario, seed, machine) = (self.scenario, self.seed, &self.machine);
        writeln!(out, "{scenario}, seed {seed}, on {machine}")?;
        let head = [
            "replies/s",
            "per core",
            "cores",
            "p50 us",
            "p99 us",
            "sent",
            "lost",
            "wrong",
        ];
        write!(out, "\n{:<22}", "get_merkle")?;
        head.iter().try_for_each(|column| write!(out, "{column:>12}"))?;
        writeln!(out)?;
        for (name, contestant) in &self.contestants {
            if let Some(why) = &contestant.not_measured {
                writeln!(out, "{name:<22}not measured: {why}")?;
            }
            let Some(Figures {
                rps,
                rps_per_core,
                cores,
                p50_us,
                p99_us,
                sent,
                lost,
                wrong,
            }) = contestant.get_merkle
            else {
                continue;
            };
            write!(
                out,
                "{name:<22}{rps:>12.0}{rps_per_core:>12.0}{cores:>12.2}{p50_us:>12.0}{p99_us:>12.0}"
            )?;
            writeln!(out, "{sent:>12}{lost:>12}{wrong:>12}")?;
        }
        writeln!(out, "\n{:<36}{:>9}", "ratio", "")?;
        for (key, ratio) in &self.ratios {
            writeln!(out, "{key:<36}{ratio:>9.2}")?;
        }
        write_judged(out, &self.checks.gates, &self.machine)?;
        let Announced {
            blocks,
            first_answer_ms,
            first_answer_max_ms,
            any_answer_ms,
            fast_path_first,
            ..
        } = &self.announced;
        writeln!(
            out,
            "\n{blocks} blocks announced: first answer of the fast path after {first_answer_ms:.2} ms (longest \
             {first_answer_max_ms:.2}), of either after {any_answer_ms:.2} ms; {fast_path_first} were answered by the \
             fast path first"
        )?;
        writeln!(out, "lost {}, wrong {}", self.checks.lost, self.checks.wrong)?;
        write!(out, "{}", self.checks.wrong_replies)?;
        self.checks
            .notes
            .iter()
            .try_for_each(|note| writeln!(out, "note: {note}"))
    }
}
