//! Report of the scenario, as one JSON object or as tables.

use super::loss::Losses;
use super::neighbour;
use super::services::Services;
use super::setting::Attached;
use super::trips::{Traffic, Waiting};
use crate::gate::Bound::{self, AtMost};
use crate::gate::{Gate, judge_only_if_quiet, write_judged};
use crate::machine::Machine;
use crate::wrong::WrongReplies;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};

const MISS: &str = "miss, % of a socket round trip";
const FOREIGN: &str = "foreign packet, ns";
/// Pass criteria: figure with its unit; direction of the bound; required value (gate); stretch goal.
const GATES: [(&str, Bound, f64, Option<f64>); 2] = [
    (MISS, AtMost, 5.0, Some(2.0)),
    (FOREIGN, AtMost, 60.0, Some(40.0)),
];

/// Returns the keys of the gates that a report of this scenario has.
pub fn gate_keys() -> impl Iterator<Item = &'static str> {
    GATES.into_iter().map(|gate| gate.0)
}

/// Results of the three parts.
pub(super) struct Measured {
    pub losses: Losses,
    pub services: Services,
    pub neighbour: Result<Vec<neighbour::Progress>, String>,
}

/// Service without a fast path in XDP.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Without {
    /// Service.
    pub service: &'static str,
    /// Reason why there is no hit ratio.
    pub why: &'static str,
}

const WITHOUT: [Without; 2] = [
    Without {
        service: "fabric",
        why: "no fast path that answers requests: it reads blocks from UDP packets and never replies from a table",
    },
    Without {
        service: "hybrid",
        why: "no fast path in XDP: every request is signed and needs the ledger",
    },
];

/// Report of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Name of the scenario.
    pub scenario: &'static str,
    /// Seed of the workload.
    pub seed: u64,
    /// Machine of the run.
    pub machine: Machine,
    /// Figures of the contestants, by contestant and by figure with its unit.
    pub contestants: BTreeMap<&'static str, BTreeMap<String, f64>>,
    /// Ratios of the rates of XDP and of the socket datapath, both with live frames, by request.
    pub ratios: BTreeMap<String, f64>,
    /// Time that misses and foreign traffic lose.
    pub losses: Losses,
    /// Progress of a neighbour on the server's core, or the reason why it was not measured.
    pub neighbour: Result<Vec<neighbour::Progress>, String>,
    /// Reply lengths, and hit ratios from which the fast paths pay.
    pub services: Services,
    /// Services for which there is no hit ratio.
    pub without_fast_path: [Without; 2],
    /// Checks that show whether the figures are valid, and gates.
    pub checks: Checks,
}

/// Checks that show whether the run is valid.
#[derive(Clone, Debug, Serialize)]
pub struct Checks {
    /// Number of requests without a reply where none may be lost.
    pub lost: u64,
    /// Number of wrong replies of all contestants.
    pub wrong: u64,
    /// First wrong replies.
    pub wrong_replies: WrongReplies,
    /// Differences between the counts of clients, servers and programs, in words; empty in a valid run.
    pub disagreements: Vec<String>,
    /// Gates by figure.
    pub gates: BTreeMap<&'static str, Gate>,
    /// Notes for the reader.
    pub notes: Vec<String>,
}

impl Report {
    pub(super) fn new(seed: u64, machine: Machine, measured: Measured) -> Self {
        let Measured {
            losses,
            services,
            neighbour,
        } = measured;
        let disagreements = disagreements(&losses, &services);
        let valid = disagreements.is_empty();
        let value_of = |key| match key {
            MISS => {
                let trips = losses.trips(Traffic::Miss, Waiting::Blocking)?;
                Some(trips.ours_added_percent)
            }
            _ => Some(losses.queue(Traffic::ForeignUdp)?.ours_added_ns),
        };
        let judge = |(key, is, gate, stretch)| (key, Gate::judge(value_of(key), is, gate, stretch, valid));
        let mut gates = GATES.map(judge).into();
        judge_only_if_quiet(&mut gates, &machine, &[]);
        let counts = losses.counts;
        let load = neighbour.iter().flatten();
        let load_wrong: u64 = load.map(|progress| progress.wrong).sum();
        let checks = Checks {
            lost: counts.sent - counts.right - counts.wrong + services.lost,
            wrong: counts.wrong + services.wrong_replies.count + load_wrong,
            wrong_replies: services.wrong_replies.clone(),
            disagreements,
            gates,
            notes: notes(),
        };
        Self {
            scenario: "cost",
            seed,
            machine,
            contestants: contestants(&losses, &services, &neighbour),
            ratios: ratios(&services),
            losses,
            neighbour,
            services,
            without_fast_path: WITHOUT,
            checks,
        }
    }

    /// Returns the faults of the system itself: lost and wrong replies, and counts that disagree. Low speed is not a
    /// fault.
    pub fn failures(&self) -> Vec<String> {
        let Checks {
            lost,
            wrong,
            disagreements,
            ..
        } = &self.checks;
        let what = [(lost, "requests lost"), (wrong, "wrong replies")];
        let found = what.into_iter().filter(|(count, _)| **count > 0);
        let counts = found.map(|(count, what)| format!("{count} {what}"));
        counts.chain(disagreements.iter().cloned()).collect()
    }

    /// Returns the report as JSON.
    pub fn to_json(&self) -> serde_json::Value {
        serde_json::to_value(self).unwrap_or_default()
    }
}

/// Returns the differences between counts that must be equal.
fn disagreements(losses: &Losses, services: &Services) -> Vec<String> {
    let counts = &losses.counts;
    let mut found = Vec::new();
    let mut check = |holds: bool, text: String| {
        if !holds {
            found.push(text);
        }
    };
    check(
        counts.served == counts.sent,
        format!(
            "clients sent {} requests, servers received {}",
            counts.sent, counts.served
        ),
    );
    check(
        counts.misses_counted == counts.misses_sent,
        format!(
            "{} misses were sent, the program counted {}",
            counts.misses_sent, counts.misses_counted
        ),
    );
    check(
        counts.hits == 0,
        format!("the program answered {} requests that should miss", counts.hits),
    );
    for run in &losses.counted_runs {
        let due = if run.program == Attached::None {
            0
        } else {
            run.served
        };
        check(
            run.runs >= due,
            format!(
                "`{}` ran {} times for {} requests of `{}`",
                run.program.name(),
                run.runs,
                run.served,
                run.traffic.name()
            ),
        );
    }
    check(
        services.faults == 0,
        format!("the audit of `transfer` found {} faults", services.faults),
    );
    found
}

fn contestants(
    losses: &Losses,
    services: &Services,
    neighbour: &Result<Vec<neighbour::Progress>, String>,
) -> BTreeMap<&'static str, BTreeMap<String, f64>> {
    let mut found: BTreeMap<&'static str, BTreeMap<String, f64>> = BTreeMap::new();
    let mut put = |name, figure: String, value| {
        found.entry(name).or_default().insert(figure, value);
    };
    for trips in &losses.round_trips {
        let of = format!("{}, {}, us", trips.traffic.name(), trips.waiting.name());
        put("none", of.clone(), trips.none_us);
        put("pass", of.clone(), trips.pass_us);
        put("ours", of, trips.ours_us);
    }
    for queue in &losses.queue {
        let of = format!("{} in the queue, ns", queue.traffic.name());
        put("none", of.clone(), queue.none_ns);
        put("pass", of.clone(), queue.pass_ns);
        put("ours", of, queue.ours_ns);
    }
    let bulk = losses.bulk;
    let of = || "TCP, MB/s".to_owned();
    put("none", of(), bulk.none_mb_s);
    put("pass", of(), bulk.pass_mb_s);
    put("ours", of(), bulk.ours_mb_s);
    for progress in neighbour.iter().flatten() {
        let of = format!("neighbour's progress at {}/s, %", progress.offered_per_s);
        put(progress.by.name(), of, progress.progress_percent);
    }
    for replies in &services.replies {
        let of = format!("{} {}, {} B, ns", replies.service, replies.request, replies.bytes);
        put("xdp_max", of.clone(), replies.xdp_ns);
        put("socket", of, replies.socket_ns);
    }
    found
}

fn ratios(services: &Services) -> BTreeMap<String, f64> {
    let ratio = |replies: &super::services::Replies| {
        let key = format!("{} {} xdp_max/socket", replies.service, replies.request);
        (key, replies.ratio)
    };
    services.replies.iter().map(ratio).collect()
}

fn notes() -> Vec<String> {
    [
        "`none`: no XDP program; `pass`: a program that returns XDP_PASS at once; `ours`: Lineside's root program",
        "on a veth, a packet from a socket is copied before an XDP program sees it; live frames are not, as with a \
         network card",
        "the judged miss is the round trip with `ours` compared with `none`, with a server that blocks; the judged \
         foreign packet is the time in the queue with `ours` minus `none`, with live frames",
        "for the neighbour, real-time threads of the kernel process received packets on the server's core",
        "the time of a hit at the highest rate includes the generator, which the socket server does not wait for",
    ]
    .map(str::to_owned)
    .into()
}

impl Display for Report {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let (scenario, seed, machine) = (self.scenario, self.seed, &self.machine);
        writeln!(
            out,
            "{scenario}, seed {seed}, on {machine}, random read from memory {:.0} ns",
            machine.random_load_ns
        )?;
        write_losses(out, &self.losses)?;
        write_neighbour(out, &self.neighbour)?;
        write_services(out, &self.services)?;
        for Without { service, why } in &self.without_fast_path {
            writeln!(out, "{service:<34}not measured: {why}")?;
        }
        write_judged(out, &self.checks.gates, machine)?;
        let Checks {
            lost,
            wrong,
            wrong_replies,
            disagreements,
            notes,
            ..
        } = &self.checks;
        writeln!(
            out,
            "\nlost {lost}, wrong {wrong}, disagreeing counts {}",
            disagreements.len()
        )?;
        write!(out, "{wrong_replies}")?;
        disagreements
            .iter()
            .try_for_each(|text| writeln!(out, "{text}"))?;
        notes.iter().try_for_each(|note| writeln!(out, "note: {note}"))
    }
}

fn head(out: &mut Formatter<'_>, first: &str, columns: &[&str]) -> fmt::Result {
    write!(out, "\n{first:<34}")?;
    columns
        .iter()
        .try_for_each(|column| write!(out, "{column:>14}"))?;
    writeln!(out)
}

fn write_losses(out: &mut Formatter<'_>, losses: &Losses) -> fmt::Result {
    let columns = [
        "none us",
        "pass us",
        "ours us",
        "pass-none ns",
        "ours-none ns",
        "ours-pass ns",
        "ours-none %",
    ];
    head(out, "round trip through a socket server", &columns)?;
    for trips in &losses.round_trips {
        let name = format!("{}, {}", trips.traffic.name(), trips.waiting.name());
        write!(
            out,
            "{name:<34}{:>14.2}{:>14.2}{:>14.2}",
            trips.none_us, trips.pass_us, trips.ours_us
        )?;
        write!(out, "{:>14.0}{:>14.0}", trips.pass_added_ns, trips.ours_added_ns)?;
        writeln!(
            out,
            "{:>14.0}{:>14.2}",
            trips.ours_over_pass_ns, trips.ours_added_percent
        )?;
    }
    head(
        out,
        "packet in the queue",
        &["none ns", "pass ns", "ours ns", "pass-none ns", "ours-none ns"],
    )?;
    for queue in &losses.queue {
        write!(
            out,
            "{:<34}{:>14.1}{:>14.1}",
            queue.traffic.name(),
            queue.none_ns,
            queue.pass_ns
        )?;
        writeln!(
            out,
            "{:>14.1}{:>14.1}{:>14.1}",
            queue.ours_ns, queue.pass_added_ns, queue.ours_added_ns
        )?;
    }
    head(out, "the program alone", &["minimum ns", "median ns"])?;
    for (name, time) in &losses.program {
        writeln!(out, "{name:<34}{:>14.1}{:>14.1}", time.min_ns, time.median_ns)?;
    }
    head(
        out,
        "runs that the kernel counted",
        &["requests", "runs", "ns a run"],
    )?;
    for run in &losses.counted_runs {
        let name = format!("{}, {}", run.traffic.name(), run.program.name());
        writeln!(
            out,
            "{name:<34}{:>14}{:>14}{:>14.0}",
            run.served, run.runs, run.ns
        )?;
    }
    let bulk = losses.bulk;
    head(out, "TCP connection", &["none MB/s", "pass MB/s", "ours MB/s"])?;
    let name = "bytes as fast as they are read";
    writeln!(
        out,
        "{name:<34}{:>14.0}{:>14.0}{:>14.0}",
        bulk.none_mb_s, bulk.pass_mb_s, bulk.ours_mb_s
    )
}

fn write_neighbour(
    out: &mut Formatter<'_>,
    neighbour: &Result<Vec<neighbour::Progress>, String>,
) -> fmt::Result {
    let columns = ["offered/s", "answered/s", "progress %", "core ns each"];
    head(out, "neighbour on the server's core", &columns)?;
    let progresses = match neighbour {
        Ok(progresses) => progresses,
        Err(why) => return writeln!(out, "not measured: {why}"),
    };
    for progress in progresses {
        let core = progress
            .core_ns_per_request
            .map_or("-".into(), |ns| format!("{ns:.0}"));
        write!(out, "{:<34}{:>14}", progress.by.name(), progress.offered_per_s)?;
        writeln!(
            out,
            "{:>14.0}{:>14.1}{core:>14}",
            progress.answered_per_s, progress.progress_percent
        )?;
    }
    Ok(())
}

fn write_services(out: &mut Formatter<'_>, services: &Services) -> fmt::Result {
    let columns = [
        "bytes",
        "xdp_max/s",
        "socket/s",
        "xdp_max ns",
        "socket ns",
        "ratio",
        "Gbit/s",
    ];
    head(out, "replies by length", &columns)?;
    for replies in &services.replies {
        let name = format!("{} {}", replies.service, replies.request);
        write!(
            out,
            "{name:<34}{:>14}{:>14.0}{:>14.0}",
            replies.bytes, replies.xdp_rps, replies.socket_rps
        )?;
        write!(out, "{:>14.0}{:>14.0}", replies.xdp_ns, replies.socket_ns)?;
        writeln!(out, "{:>14.2}{:>14.2}", replies.ratio, replies.xdp_gbit_s)?;
    }
    let columns = [
        "hit ns",
        "miss adds ns",
        "socket ns",
        "pays from %",
        "foreign a hit",
    ];
    head(out, "the hit ratio that pays", &columns)?;
    for paying in &services.paying {
        let name = format!("{} {}, {}", paying.service, paying.request, paying.measure.name());
        let percent = paying
            .hit_percent
            .map_or("never".into(), |percent| format!("{percent:.2}"));
        let foreign = paying
            .foreign_per_hit
            .map_or("-".into(), |count| format!("{count:.0}"));
        write!(out, "{name:<34}{:>14.0}{:>14.0}", paying.hit_ns, paying.miss_ns)?;
        writeln!(out, "{:>14.0}{percent:>14}{foreign:>14}", paying.socket_ns)?;
    }
    Ok(())
}
