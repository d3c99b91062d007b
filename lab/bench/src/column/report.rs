//! Report of `bench column`.

use super::Options;
use super::contestants::{By, Run, Samples, Who, names};
use super::per_packet::{Ask as PacketAsk, Case, PerPacket};
use super::rows::{self, Ask};
use super::sweeps::{Point, Sweeps, Varied};
use super::told::ToldCost;
use super::writes::WriteCost;
use super::ycsb::Ycsb;
use crate::client::Tally;
use crate::gate::Bound::{self, AtLeast, AtMost};
use crate::gate::{Gate, judge_only_if_quiet, median, write_judged};
use crate::machine::Machine;
use crate::report::{Figures, latency_us};
use crate::wrong::WrongReplies;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};

/// Maximum load average before the benchmark; above it, the report notes that the machine was busy.
const QUIET_LOAD_MAX: f64 = 0.3;
const WRITE: &str = "write lineside/thrift2";
const TOLD: &str = "puts told/untold";
const VERIFIED: &str = "verified instructions";
const ROW_OVERHEAD: &str = "bytes of a row besides key and value";
/// Pass criteria: the key of a ratio, or a figure with its unit; direction of the bound; required value (gate); stretch
/// goal.
const GATES: [(&str, Bound, f64, Option<f64>); 12] = [
    ("get xdp_max/thrift2", AtLeast, 600.0, Some(1_000.0)),
    ("scan8 xdp_max/thrift2", AtLeast, 1_000.0, Some(2_000.0)),
    ("get xdp_max/socket", AtLeast, 4.0, None),
    ("get, ns", AtMost, 110.0, None),
    ("scan8, ns", AtMost, 130.0, None),
    ("scan8 of 2^20 rows, ns", AtMost, 900.0, Some(400.0)),
    ("key_24/key_8", AtMost, 1.5, None),
    ("key_64/key_8", AtMost, 2.0, None),
    (ROW_OVERHEAD, AtMost, 12.0, None),
    (VERIFIED, AtMost, 19_999.0, None),
    (WRITE, AtMost, 1.3, None),
    (TOLD, AtLeast, 0.7, None),
];

/// Returns the keys of the gates that a report of this scenario has.
pub fn gate_keys() -> impl Iterator<Item = &'static str> {
    GATES.into_iter().map(|gate| gate.0)
}

/// Results of the measurements.
#[derive(Default)]
pub struct Measured {
    /// Cost of a hit in the XDP program alone, for each case.
    pub per_packet: Vec<PerPacket>,
    /// Counts of the contestants, by run.
    pub(super) samples: Samples,
    /// Reason why HBase was not measured.
    pub absent: Option<String>,
    /// Number of instructions that the verifier processed, by program.
    pub verified_instructions: BTreeMap<String, u32>,
    /// Sweeps over lower hit rates, smaller tables and writes.
    pub sweeps: Option<Sweeps>,
    /// Cost of a write through Lineside.
    pub write_cost: Option<WriteCost>,
    /// Cost of the coprocessor for HBase's puts.
    pub told_cost: Option<ToldCost>,
    /// Results of YCSB's workloads. If they are present, nothing else was measured.
    pub ycsb: Option<Ycsb>,
}

/// Figures of one contestant. The fields at the top level are the figures of the case to which the gate applies.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Contestant {
    /// Figures of the case to which the gate applies: a get. For `socket` and `xdp`, the socket client sends it with 64
    /// requests in flight.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub gate_case: Option<Figures>,
    /// All other figures, by request and client.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub by: BTreeMap<String, Figures>,
    /// Reason why there are no figures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_measured: Option<String>,
}

/// Checks that show whether the run is valid.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Checks {
    /// Number of requests that were lost in closed loops and by `xdp_max`.
    pub lost: u64,
    /// Number of replies with other bytes than expected, including stale replies.
    pub wrong: u64,
    /// First wrong replies.
    pub wrong_replies: WrongReplies,
    /// Number of replies older than a write that was answered before the request was sent.
    pub stale: u64,
    /// Number of instructions that the verifier processed, by program.
    pub verified_instructions: BTreeMap<String, u32>,
    /// Gates by key: the key of a ratio, or a figure with its unit.
    pub gates: BTreeMap<&'static str, Gate>,
    /// Notes for the reader.
    pub notes: Vec<String>,
}

/// Report of the scenario.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Name of the scenario: `column`.
    pub scenario: &'static str,
    /// Seed of the run.
    pub seed: u64,
    /// Machine of the run.
    pub machine: Machine,
    /// Contestants by name.
    pub contestants: BTreeMap<&'static str, Contestant>,
    /// Cost of a hit in the XDP program alone.
    pub per_packet: Vec<PerPacket>,
    /// Sweeps with fewer hits, smaller tables and writes.
    pub sweeps: Option<Sweeps>,
    /// Cost of a write through Lineside.
    pub write_cost: Option<WriteCost>,
    /// Cost of the coprocessor for HBase's puts.
    pub told_cost: Option<ToldCost>,
    /// Results of YCSB's workloads, if they were run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ycsb: Option<Ycsb>,
    /// Ratios by key `a/b`; the varied quantity precedes the key.
    pub ratios: BTreeMap<String, f64>,
    /// Checks that show whether the figures are valid, and gates.
    pub checks: Checks,
}

/// log2 of the number of rows of the case with keys of 8 bytes.
const HOT: u32 = 12;
const LARGE: u32 = 20;

fn packet_ns(found: &[PerPacket], ask: PacketAsk, key_bytes: usize, row_bits: u32) -> Option<f64> {
    let is = |of: &Case| of.ask == ask && of.key_bytes == key_bytes && of.row_bits == row_bits;
    let found = found.iter().find(|found| is(&found.case));
    found.map(|found| found.median_ns)
}

/// Adds the cost of longer keys relative to keys of 8 bytes.
fn packet_ratios(found: &[PerPacket], ratios: &mut BTreeMap<String, f64>) {
    for (key, ask, key_bytes) in [
        ("get key_24/key_8", PacketAsk::Get, 24),
        ("get key_64/key_8", PacketAsk::Get, 64),
        ("scan8 key_24/key_8", PacketAsk::Scan8, 24),
        ("scan8 key_64/key_8", PacketAsk::Scan8, 64),
    ] {
        let (long, short) = (
            packet_ns(found, ask, key_bytes, HOT),
            packet_ns(found, ask, 8, HOT),
        );
        if let (Some(long), Some(short)) = (long, short) {
            ratios.insert(key.into(), long / short);
        }
    }
}

/// Adds the ratios between contestants; each is the median of the ratios of the rounds.
fn contest_ratios(samples: &Samples, ratios: &mut BTreeMap<String, f64>) {
    let ratio = |a: Run, b: Run, of: fn(&Tally) -> f64| {
        let (a, b) = (samples.get(&a)?, samples.get(&b)?);
        median(a.iter().zip(b).map(|(a, b)| of(a) / of(b)))
    };
    let p50 = |tally: &Tally| latency_us(tally, 0.5);
    for ask in Ask::ALL {
        let run = |who, by| Run { who, by, ask };
        let (thrift2, thrift2x16) = (run(Who::Thrift2, By::Own), run(Who::Thrift2x16, By::Own));
        let native = run(Who::Native, By::Own);
        let (max, xdp) = (run(Who::Xdp, By::Live), run(Who::Xdp, By::Window64));
        let max2 = run(Who::Xdp, By::LiveTwice);
        let socket = run(Who::Socket, By::Window64);
        let found = [
            ("xdp_max/thrift2", ratio(max, thrift2, Tally::rps)),
            ("xdp_max2/thrift2", ratio(max2, thrift2, Tally::rps)),
            ("xdp_max2/xdp_max", ratio(max2, max, Tally::rps)),
            ("xdp_max/thrift2x16", ratio(max, thrift2x16, Tally::rps)),
            ("xdp_max/native", ratio(max, native, Tally::rps)),
            ("native/thrift2x16", ratio(native, thrift2x16, Tally::rps)),
            (
                "xdp_max/socket",
                ratio(max, run(Who::Socket, By::Live), Tally::rps),
            ),
            ("xdp/thrift2", ratio(xdp, thrift2, Tally::rps)),
            ("xdp/thrift2x16", ratio(xdp, thrift2x16, Tally::rps)),
            ("xdp/socket", ratio(xdp, socket, Tally::rps)),
            ("socket/thrift2", ratio(socket, thrift2, Tally::rps)),
        ];
        let name = ask.name();
        for (key, value) in found {
            ratios.extend(value.map(|value| (format!("{name} {key}"), value)));
        }
        for (key, who) in [("thrift2/xdp", Who::Xdp), ("thrift2/socket", Who::Socket)] {
            let value = ratio(thrift2, run(who, By::Window1), p50);
            ratios.extend(value.map(|value| (format!("latency {name} {key}"), value)));
        }
    }
}

fn contestants(samples: &Samples, absent: Option<&str>) -> BTreeMap<&'static str, Contestant> {
    let mut found: BTreeMap<&'static str, Contestant> = BTreeMap::new();
    for name in ["thrift2", "thrift2x16", "native"] {
        found.entry(name).or_default().not_measured = absent.map(str::to_owned);
    }
    for (run, rounds) in samples {
        let Some(figures) = Figures::of(rounds) else {
            continue;
        };
        let (name, how) = names(*run);
        let contestant = found.entry(name).or_default();
        match (run.ask, how) {
            (Ask::Get, "") => contestant.gate_case = Some(figures),
            (ask, how) => {
                contestant.by.insert(format!("{}{how}", ask.name()), figures);
            }
        }
    }
    found
}

fn write_uses(f: &mut Formatter<'_>, cost: &ToldCost) -> fmt::Result {
    writeln!(
        f,
        "\n{:<32}{:>12}{:>14}{:>10}",
        "a put takes", "processor us", "its thread us", "sleeps"
    )?;
    let of = [("untold", cost.untold), ("told", cost.told)];
    for (name, used) in of.iter().flat_map(|(how, used)| {
        [
            (format!("{how}: HBase"), used.hbase),
            (format!("{how}: clients and subscriber"), used.own),
        ]
    }) {
        writeln!(
            f,
            "{name:<32}{:>12.1}{:>14.1}{:>10.2}",
            used.cpu_ns / 1e3,
            used.thread_ns / 1e3,
            used.sleeps
        )?;
    }
    Ok(())
}

fn notes(machine: &Machine) -> Vec<String> {
    let mut notes = vec![
        format!(
            "contestants have {} rows as in the paper; requests are in the paper's format, which has {} bytes of \
             a row besides key and value; requests of sweeps, and puts, are native",
            rows::ROWS,
            Ask::paper_overhead()
        ),
        "`native` has one connection and 16 threads, `thrift2x16` has 16 connections with a thread each; servers and \
         clients share the two cores"
            .into(),
    ];
    if machine.load_before > QUIET_LOAD_MAX {
        notes.push(format!(
            "the machine was not quiet: its load average was {} before the run",
            machine.load_before
        ));
    }
    notes
}

impl Report {
    pub(super) fn new(options: &Options, mut machine: Machine, measured: Measured) -> Self {
        machine.end_of_run();
        let Measured {
            per_packet,
            samples,
            absent,
            verified_instructions,
            sweeps,
            write_cost,
            told_cost,
            ycsb,
        } = measured;
        let mut ratios = BTreeMap::new();
        packet_ratios(&per_packet, &mut ratios);
        contest_ratios(&samples, &mut ratios);
        ratios.extend(write_cost.map(|cost| (WRITE.into(), cost.mean_ratio)));
        ratios.extend(told_cost.map(|cost| (TOLD.into(), cost.ratio)));
        let mut checks = Checks {
            notes: notes(&machine),
            verified_instructions,
            ..Checks::default()
        };
        for (run, rounds) in &samples {
            for tally in rounds {
                let mut wrong = tally.wrong.clone();
                let (name, how) = names(*run);
                wrong.name(name, &format!("{}{how}", run.ask.name()));
                checks.wrong_replies.extend(&wrong);
                checks.lost += if run.is_lossless() { tally.lost } else { 0 };
            }
        }
        for point in sweeps.iter().flat_map(|sweeps| &sweeps.points) {
            checks.wrong_replies.extend(&point.wrong_replies);
            checks.lost += point.figures.lost;
            checks.stale += point.stale;
        }
        checks.wrong = checks.wrong_replies.count;
        let longest = |key: &str| {
            let of = |ask: &str| ratios.get(&format!("{ask} {key}")).copied();
            of("get").zip(of("scan8")).map(|(get, scan)| get.max(scan))
        };
        let value_of = |key: &str| match key {
            "get, ns" => packet_ns(&per_packet, PacketAsk::Get, 8, HOT),
            "scan8, ns" => packet_ns(&per_packet, PacketAsk::Scan8, 8, HOT),
            "scan8 of 2^20 rows, ns" => packet_ns(&per_packet, PacketAsk::Scan8, 8, LARGE),
            "key_24/key_8" | "key_64/key_8" => longest(key),
            ROW_OVERHEAD => {
                let scan = per_packet.iter().find(|found| found.case.ask == PacketAsk::Scan8);
                scan.map(|found| found.case.overhead_bytes() as f64)
            }
            VERIFIED => {
                let counts = checks.verified_instructions.values();
                counts.max().map(|count| f64::from(*count))
            }
            ratio => ratios.get(ratio).copied(),
        };
        let judge = |(key, is, gate, stretch)| (key, Gate::judge(value_of(key), is, gate, stretch, true));
        checks.gates = GATES.map(judge).into();
        if let Some(ycsb) = &ycsb {
            checks.gates = ycsb.gates().collect();
            ratios.extend(ycsb.ratios());
            checks.stale += ycsb.rows.iter().map(|row| row.stale).sum::<u64>();
            checks.wrong += ycsb.rows.iter().map(|row| row.errors).sum::<u64>();
            checks.notes = vec![
                "through Lineside: XDP datapath over a veth pair, HBase's own RPC, coherence = \"ttl\"; only Lineside \
                 writes to its table; the slow start of a cold client is included"
                    .into(),
            ];
        }
        judge_only_if_quiet(&mut checks.gates, &machine, &[VERIFIED, ROW_OVERHEAD]);
        Self {
            scenario: "column",
            seed: options.seed,
            machine,
            contestants: match ycsb {
                Some(_) => BTreeMap::new(),
                None => contestants(&samples, absent.as_deref()),
            },
            per_packet,
            sweeps,
            write_cost,
            told_cost,
            ycsb,
            ratios,
            checks,
        }
    }

    /// Returns the faults of the system itself; low speed is not a fault.
    pub fn failures(&self) -> Vec<String> {
        let Checks {
            lost, wrong, stale, ..
        } = self.checks;
        let what = [(lost, "lost"), (wrong, "wrong replies"), (stale, "stale replies")];
        let found = what.into_iter().filter(|(count, _)| *count > 0);
        found.map(|(count, what)| format!("{count} {what}")).collect()
    }

    /// Returns the report as JSON.
    pub fn to_json(&self) -> serde_json::Value {
        serde_json::to_value(self).unwrap_or_default()
    }
}

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "column, seed {}, on {}", self.seed, self.machine)?;
        match &self.ycsb {
            Some(ycsb) => write_ycsb(f, ycsb)?,
            None => write_contestants(f, &self.contestants)?,
        }
        if let Some(sweeps) = &self.sweeps {
            write_sweeps(f, sweeps)?;
        }
        if let Some(cost) = &self.write_cost {
            writeln!(
                f,
                "\n{} puts each way: straight to the gateway {:.0} us, through Lineside {:.0} us (medians); {:.2} \
                 times as long on average, {:.2} by medians",
                cost.puts, cost.direct_p50_us, cost.lineside_p50_us, cost.mean_ratio, cost.p50_ratio
            )?;
        }
        if let Some(cost) = &self.told_cost {
            writeln!(
                f,
                "\n{} puts a second into HBase, {} with notifications by the coprocessor ({:.2} notifications for each \
                 put)",
                cost.untold_per_s.round(),
                cost.told_per_s.round(),
                cost.notices
            )?;
            write_uses(f, cost)?;
        }
        if !self.per_packet.is_empty() {
            write_packets(f, &self.per_packet)?;
        }
        writeln!(f, "\n{:<36}{:>9}", "ratio", "")?;
        for (key, ratio) in &self.ratios {
            writeln!(f, "{key:<36}{ratio:>9.2}")?;
        }
        let Checks {
            lost,
            wrong,
            wrong_replies,
            stale,
            verified_instructions,
            gates,
            notes,
        } = &self.checks;
        write_judged(f, gates, &self.machine)?;
        for (program, count) in verified_instructions {
            writeln!(f, "verified instructions of {program}: {count}")?;
        }
        writeln!(
            f,
            "lost {lost} (in closed loops and by XDP), wrong {wrong}, stale {stale}"
        )?;
        write!(f, "{}", wrong_replies)?;
        notes.iter().try_for_each(|note| writeln!(f, "note: {note}"))
    }
}

fn write_head(f: &mut Formatter<'_>, first: &str) -> fmt::Result {
    write!(f, "\n{first:<32}")?;
    for column in [
        "replies/s",
        "p50 us",
        "p99 us",
        "p99.9 us",
        "sent",
        "lost",
        "wrong",
    ] {
        write!(f, "{column:>12}")?;
    }
    Ok(())
}

fn write_figures(f: &mut Formatter<'_>, row: &str, figures: &Figures) -> fmt::Result {
    let Figures {
        rps,
        p50_us,
        p99_us,
        p999_us,
        sent,
        lost,
        wrong,
    } = figures;
    write!(
        f,
        "{row:<32}{rps:>12.0}{p50_us:>12.2}{p99_us:>12.2}{p999_us:>12.2}"
    )?;
    write!(f, "{sent:>12}{lost:>12}{wrong:>12}")
}

fn write_contestants(f: &mut Formatter<'_>, contestants: &BTreeMap<&'static str, Contestant>) -> fmt::Result {
    write_head(f, "contestant")?;
    writeln!(f)?;
    for (name, contestant) in contestants {
        if let Some(why) = &contestant.not_measured {
            writeln!(f, "{name:<32}not measured: {why}")?;
        }
        if let Some(figures) = &contestant.gate_case {
            write_figures(f, &format!("{name}, get"), figures)?;
            writeln!(f)?;
        }
        for (how, figures) in &contestant.by {
            write_figures(f, &format!("{name}, {how}"), figures)?;
            writeln!(f)?;
        }
    }
    Ok(())
}

fn write_sweeps(f: &mut Formatter<'_>, sweeps: &Sweeps) -> fmt::Result {
    write_head(f, &format!("xdp with {} and the host", table_words(sweeps.table)))?;
    writeln!(f, "{:>8}{:>8}", "hits %", "stale")?;
    for Point {
        varied,
        at,
        hit_rate,
        figures,
        stale,
        ..
    } in &sweeps.points
    {
        let row = match varied {
            Varied::HeldPercent => format!("{at} % of the rows held"),
            Varied::RowBits => format!("capacity of 2^{at} rows"),
            Varied::PutsPercent => format!("{at} % puts"),
        };
        write_figures(f, &row, figures)?;
        writeln!(f, "{:>8.1}{stale:>8}", hit_rate * 100.0)?;
    }
    Ok(())
}

fn write_ycsb(f: &mut Formatter<'_>, ycsb: &Ycsb) -> fmt::Result {
    let Ycsb { records, threads, .. } = ycsb;
    writeln!(
        f,
        "\nYCSB, {records} rows, {threads} threads; all fields of a row in one cell"
    )?;
    write!(f, "{:<40}", "workload")?;
    for column in [
        "HBase/s",
        "Lineside/s",
        "ratio",
        "hits %",
        "bound",
        "stale",
        "errors",
    ] {
        write!(f, "{column:>12}")?;
    }
    writeln!(f)?;
    for row in &ycsb.rows {
        let workload = format!("{}, {}", row.workload, row.shape.describe());
        let (hbase, lineside) = (row.hbase_ops_per_s, row.lineside_ops_per_s);
        let (ratio, hits, bound) = (row.ratio, row.hit_rate * 100.0, row.bound);
        write!(
            f,
            "{workload:<40}{hbase:>12.0}{lineside:>12.0}{ratio:>12.2}{hits:>12.1}{bound:>12.2}"
        )?;
        writeln!(f, "{:>12}{:>12}", row.stale, row.errors)?;
    }
    Ok(())
}

fn table_words(table: &str) -> &str {
    match table {
        "hbase" => "HBase",
        other => other,
    }
}

fn write_packets(f: &mut Formatter<'_>, found: &[PerPacket]) -> fmt::Result {
    let (ask, keys, rows, median, least, bytes) = ("hit", "key bytes", "rows", "median ns", "least", "bytes");
    writeln!(
        f,
        "\n{ask:<8}{keys:>10}{rows:>10}{median:>11}{least:>9}{bytes:>8}"
    )?;
    for found in found {
        let case = found.case;
        let name = match case.ask {
            PacketAsk::Get => "get",
            PacketAsk::Scan8 => "scan8",
        };
        let (median, least) = (found.median_ns, found.min_ns);
        let (keys, rows, bytes) = (case.key_bytes, 1u64 << case.row_bits, found.payload_bytes);
        writeln!(
            f,
            "{name:<8}{keys:>10}{rows:>10}{median:>11.1}{least:>9.1}{bytes:>8}"
        )?;
    }
    Ok(())
}
