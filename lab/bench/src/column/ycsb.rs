//! YCSB's workloads A to F on a real HBase: directly, with YCSB's own Java client, and through Lineside in front of
//! HBase, with a Java client of Lineside (XDP datapath, HBase's own RPC, `coherence = "ttl"`).

use super::contestants::CLIENT_CORE;
use super::hbase::{self, Peer};
use super::live::Generator;
use super::served::{self, Served, XdpLine, failed};
use crate::error::{BenchError, Result};
use crate::gate::Bound::{self, AtLeast};
use crate::gate::{Gate, median};
use crate::netns::{NamespacePair, SERVER_ADDRESS};
use crate::ycsb::{self as client, Phase};
use lineside_column::host::CoherenceMode;
use lineside_column::store::Geometry;
use lineside_column::table::ColumnName;
use lineside_net::SocketDatapath;
use lineside_wire::COLUMN_PORT;
use serde::Serialize;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

/// Column of YCSB.
const NAME: &str = "entry:field0";
const RECORDS: u32 = 10_000;
/// Number of client threads, each with one request in flight.
const THREADS: u32 = 4;
/// Time to live in nanoseconds. It is longer than the run of any benchmark, because only Lineside writes to its table.
const TTL_NS: u64 = 1 << 42;
/// Number of operations of a run, which no run reaches. The second number is for runs that insert rows, because YCSB
/// derives the number of future keys from it.
const OPERATIONS: u32 = 100_000_000;
const OPERATIONS_INSERTING: u32 = 500_000;
/// Minimum rate of HBase in operations per second for a meaningful comparison. A slower HBase means a busy machine or a
/// cold client.
const STRAW_MAN_OPS_PER_S: f64 = 500.0;
/// Pass criteria: key, required value (gate), stretch goal.
const GATES: [(&str, f64, Option<f64>); 6] = [
    ("ycsb B lineside/hbase", 3.0, Some(5.0)),
    ("ycsb C lineside/hbase", 8.0, Some(15.0)),
    ("ycsb E lineside/hbase", 3.0, Some(5.0)),
    ("ycsb B hits, %", 90.0, None),
    ("ycsb C hits, %", 99.0, None),
    ("ycsb E hits, %", 90.0, None),
];

/// Returns the keys of the gates that a report of this scenario has.
pub fn gate_keys() -> impl Iterator<Item = &'static str> {
    GATES.into_iter().map(|gate| gate.0)
}

/// Plan of the runs.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Letters of the workloads to run, in any order. Each workload begins with the table that the previous ones have
    /// left.
    pub workloads: String,
    /// Number of rounds of the cases with a pass criterion; figures are their medians.
    pub rounds: usize,
    /// Duration of each run, including the slow start of a cold client. A warm-up of a third of this time precedes each
    /// run and is not counted.
    pub duration: Duration,
}

impl Plan {
    /// Returns the number of times that [`measure`] calls its parameter `tell`.
    pub fn steps(&self) -> usize {
        let runs = self.runs();
        (self.rounds + 1) * (runs.len() + runs.iter().filter(|(_, is_loaded)| *is_loaded).count())
    }

    /// Returns the workloads in their order. The flag says whether the table is loaded again before the workload.
    fn runs(&self) -> Vec<(&'static Workload, bool)> {
        let wanted = WORKLOADS
            .iter()
            .filter(|workload| self.workloads.contains(workload.name));
        let numbered = wanted.enumerate();
        numbered
            .map(|(number, workload)| (workload, number == 0 || LOADED_BEFORE.contains(&workload.name)))
            .collect()
    }
}

/// Sizes of rows and scans.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Shape {
    /// One field of 18 bytes, and scans of 1 to 8 rows. The pass criteria apply to these sizes.
    Small,
    /// YCSB's default: ten fields of 100 bytes, and scans of 1 to 100 rows. All fields are in one cell, and each write
    /// replaces all of them.
    Own,
}

impl Shape {
    /// Returns the number of fields, the size of each in bytes, and the maximum number of rows of a scan.
    const fn sizes(self) -> (u32, u32, u32) {
        match self {
            Self::Small => (1, 18, 8),
            Self::Own => (10, 100, 100),
        }
    }

    /// Returns the duration of a run. Only the first kind of rows has pass criteria, so runs of the second kind take
    /// half of the time.
    fn time_of(self, plan: &Plan) -> Duration {
        match self {
            Self::Small => plan.duration,
            Self::Own => plan.duration / 2,
        }
    }

    /// Returns a description of the sizes for the report.
    pub fn describe(self) -> String {
        let (fields, bytes, rows) = self.sizes();
        format!("{fields} x {bytes} bytes, scans of 1 to {rows} rows")
    }

    /// Returns log2 of the number of 36-byte slots that each row takes in the fast-path table.
    const fn value_bits(self) -> u32 {
        match self {
            Self::Small => 1,
            Self::Own => 5,
        }
    }
}

/// Workload as in the workload files of YCSB.
struct Workload {
    name: &'static str,
    /// Operations with their shares of all operations.
    shares: &'static [(&'static str, f64)],
    distribution: &'static str,
}

/// Workloads in the order that YCSB's authors recommend: E runs on a table to which D has not added rows.
const WORKLOADS: [Workload; 6] = [
    Workload::new("A", &[("read", 0.5), ("update", 0.5)], "zipfian"),
    Workload::new("B", &[("read", 0.95), ("update", 0.05)], "zipfian"),
    Workload::new("C", &[("read", 1.0)], "zipfian"),
    Workload::new("F", &[("read", 0.5), ("readmodifywrite", 0.5)], "zipfian"),
    Workload::new("D", &[("read", 0.95), ("insert", 0.05)], "latest"),
    Workload::new("E", &[("scan", 0.95), ("insert", 0.05)], "zipfian"),
];

/// Workloads before which the table is created and loaded again.
const LOADED_BEFORE: [&str; 2] = ["A", "E"];

/// Output of one run of YCSB.
#[derive(Clone, Copy, Debug, Default)]
struct YcsbOutput {
    ops_per_s: f64,
    fastpath: f64,
    host: f64,
    stale: u64,
    errors: u64,
}

/// Figures of one workload: medians of the rounds, or sums where noted.
#[derive(Clone, Debug, Serialize)]
pub struct WorkloadFigures {
    /// Sizes of rows and scans.
    pub shape: Shape,
    /// Workload, `A` to `F`.
    pub workload: &'static str,
    /// Operations per second of HBase with its own client.
    pub hbase_ops_per_s: f64,
    /// Operations per second through Lineside.
    pub lineside_ops_per_s: f64,
    /// Median of the rounds' ratios.
    pub ratio: f64,
    /// Share of the reads through Lineside that the fast path answered.
    pub hit_rate: f64,
    /// Upper bound of the ratio if answers of the fast path cost nothing: 1 / (w + (1 - w)(1 - h)), where w is the
    /// share of operations that write and h is the hit rate.
    pub bound: f64,
    /// Number of stale reads of both clients in all rounds.
    pub stale: u64,
    /// Number of failed operations of both clients in all rounds.
    pub errors: u64,
}

/// Results of YCSB.
#[derive(Clone, Debug, Serialize)]
pub struct Ycsb {
    /// Number of rows that are loaded.
    pub records: u32,
    /// Number of client threads.
    pub threads: u32,
    /// Figures by sizes and workload.
    pub rows: Vec<WorkloadFigures>,
}

impl Workload {
    const fn new(
        name: &'static str,
        shares: &'static [(&'static str, f64)],
        distribution: &'static str,
    ) -> Self {
        Self {
            name,
            shares,
            distribution,
        }
    }

    fn share_of_writes(&self) -> f64 {
        let writes = self
            .shares
            .iter()
            .filter(|(what, _)| !["read", "scan"].contains(what));
        writes.map(|(_, share)| share).sum()
    }

    fn inserts(&self) -> bool {
        self.shares.iter().any(|(what, _)| *what == "insert")
    }

    /// Returns the workload as a list of YCSB's properties.
    fn properties(&self, duration: Duration) -> Vec<String> {
        let mut properties = vec![
            format!("requestdistribution={}", self.distribution),
            format!("maxexecutiontime={}", duration.as_secs().max(1)),
        ];
        let operations = if self.inserts() {
            OPERATIONS_INSERTING
        } else {
            OPERATIONS
        };
        properties.push(format!("operationcount={operations}"));
        for what in ["read", "update", "scan", "insert", "readmodifywrite"] {
            let found = self.shares.iter().find(|(name, _)| *name == what);
            let share = found.map_or(0.0, |(_, share)| *share);
            properties.push(format!("{what}proportion={share}"));
        }
        properties
    }
}

/// Runs the workloads, and calls `tell` before each one.
///
/// # Errors
/// [`BenchError::Void`] if YCSB does not run.
pub fn measure(peer: &mut Peer, plan: &Plan, tell: &mut dyn FnMut(&'static str)) -> Result<Ycsb> {
    let mut seen: BTreeMap<(Shape, &'static str), Vec<(YcsbOutput, YcsbOutput)>> = BTreeMap::new();
    let judged = std::iter::repeat_n(Shape::Small, plan.rounds);
    for shape in judged.chain([Shape::Own]) {
        for (workload, is_loaded) in plan.runs() {
            if is_loaded {
                tell("loading");
                for table in ["straight", "through"] {
                    reload(peer, shape, table)?;
                }
            }
            tell(workload.name);
            let said = one(peer, shape, workload, shape.time_of(plan))?;
            seen.entry((shape, workload.name)).or_default().push(said);
        }
    }
    let rows = seen.iter().filter_map(|((shape, name), rounds)| {
        let workload = WORKLOADS.iter().find(|workload| workload.name == *name)?;
        WorkloadFigures::of(*shape, workload, rounds)
    });
    Ok(Ycsb {
        records: RECORDS,
        threads: THREADS,
        rows: rows.collect(),
    })
}

/// Runs one workload directly on HBase and through Lineside. The first run of each warms the caches of HBase and the
/// fast path; the second one counts.
fn one(
    peer: &mut Peer,
    shape: Shape,
    workload: &Workload,
    duration: Duration,
) -> Result<(YcsbOutput, YcsbOutput)> {
    let warmed = |binding, own: &[String]| {
        let run = |time| {
            run(
                peer,
                shape,
                (Phase::Run, binding),
                own,
                &workload.properties(time),
            )
        };
        let (warm, said) = (run(duration / 3)?, run(duration)?);
        // The rate of the warm-up does not count, but its errors do.
        Ok::<_, BenchError>(YcsbOutput {
            stale: warm.stale + said.stale,
            errors: warm.errors + said.errors,
            ..said
        })
    };
    let zookeeper = format!("zookeeper={}", peer.ports().zookeeper);
    let straight = warmed("HBase", &["table=straight".to_owned(), zookeeper])?;
    let line = LinesideContestant::new(peer, shape)?;
    let at = format!("lineside={SERVER_ADDRESS}:{COLUMN_PORT}");
    let through = line.pair.client.within(|| warmed("Lineside", &[at]))?;
    Ok((straight, through))
}

impl WorkloadFigures {
    fn of(shape: Shape, workload: &Workload, rounds: &[(YcsbOutput, YcsbOutput)]) -> Option<Self> {
        let of = |value: fn(&(YcsbOutput, YcsbOutput)) -> f64| median(rounds.iter().map(value));
        let hit_rate = of(|(_, through)| through.fastpath / (through.fastpath + through.host).max(1.0))?;
        let writes = workload.share_of_writes();
        let sum = |value: fn(&YcsbOutput) -> u64| -> u64 {
            rounds
                .iter()
                .map(|(straight, through)| value(straight) + value(through))
                .sum()
        };
        Some(Self {
            shape,
            workload: workload.name,
            hbase_ops_per_s: of(|(straight, _)| straight.ops_per_s)?,
            lineside_ops_per_s: of(|(_, through)| through.ops_per_s)?,
            ratio: of(|(straight, through)| through.ops_per_s / straight.ops_per_s)?,
            hit_rate,
            bound: 1.0 / (writes + (1.0 - writes) * (1.0 - hit_rate)),
            stale: sum(|said| said.stale),
            errors: sum(|said| said.errors),
        })
    }
}

impl Ycsb {
    /// Returns the ratios with their keys.
    pub fn ratios(&self) -> impl Iterator<Item = (String, f64)> {
        let finite = self.rows.iter().filter(|row| row.ratio.is_finite());
        finite.map(|row| {
            let shape = match row.shape {
                Shape::Small => "",
                Shape::Own => " own shape",
            };
            (format!("ycsb {}{shape} lineside/hbase", row.workload), row.ratio)
        })
    }

    /// Returns the gates with their results.
    pub fn gates(&self) -> impl Iterator<Item = (&'static str, Gate)> {
        const IS: Bound = AtLeast;
        GATES.into_iter().map(|(key, gate, stretch)| {
            let mut judged = self.rows.iter().filter(|row| row.shape == Shape::Small);
            let row = judged.find(|row| key.split(' ').nth(1) == Some(row.workload));
            let value = row.map(|row| {
                if key.ends_with('%') {
                    row.hit_rate * 100.0
                } else {
                    row.ratio
                }
            });
            let valid = row.is_some_and(|row| row.hbase_ops_per_s >= STRAW_MAN_OPS_PER_S);
            (key, Gate::judge(value, IS, gate, stretch, valid))
        })
    }
}

/// Creates a table again and loads YCSB's rows into it.
fn reload(peer: &mut Peer, shape: Shape, table: &str) -> Result<()> {
    // The table exists if a previous round has created it, so the error of a missing table is ignored.
    let _ = peer.command(&format!("drop {table}"));
    peer.command(&format!("create {table} entry"))?;
    let own = [
        format!("table={table}"),
        format!("zookeeper={}", peer.ports().zookeeper),
    ];
    let properties = [format!("operationcount={RECORDS}")];
    run(peer, shape, (Phase::Load, "HBase"), &own, &properties).map(drop)
}

/// Lineside in front of a table to which only Lineside writes, with its own network interface and a fast-path table
/// that is empty at first. Dropping this value detaches the programs.
struct LinesideContestant {
    pair: NamespacePair,
    _ends: [OwnedFd; 2],
    _datapath: SocketDatapath,
    _fastpath: XdpLine,
}

impl LinesideContestant {
    fn new(peer: &Peer, shape: Shape) -> Result<Self> {
        let row_bits = Geometry::default().row_bits;
        let fastpath = XdpLine::load(&Geometry {
            value_bits: shape.value_bits(),
            columns: vec![NAME.into()],
            ..served::geometry(row_bits, true)
        })?;
        let name = ColumnName::new(NAME.as_bytes());
        let name = name.ok_or_else(|| BenchError::Void("the column name is not valid".into()))?;
        let table = peer.connect_rpc("through")?;
        // This thread opens the connection here, because HBase cannot be reached from the server's namespace.
        table.get(b"user", &[name]).map_err(failed("asking HBase"))?;
        let served = Served::of(&fastpath.store, Arc::new(table), name, CoherenceMode::Ttl(TTL_NS))?;
        let pair = NamespacePair::new()?;
        let listen = SocketAddr::from((SERVER_ADDRESS, COLUMN_PORT));
        let datapath = (pair.server).within(|| served.listen(listen, hbase::CONNECTIONS))?;
        let attached = pair.server.run(CLIENT_CORE, || fastpath.attach(&pair))?;
        let passing = (pair.client).run(CLIENT_CORE, || Generator::load()?.attach_pass(pair.client_index))?;
        Ok(Self {
            pair,
            _ends: [attached, passing],
            _datapath: datapath,
            _fastpath: fastpath,
        })
    }
}

/// Runs a phase of YCSB with one of the two database bindings.
fn run(
    peer: &Peer,
    shape: Shape,
    (phase, binding): (Phase, &str),
    own: &[String],
    properties: &[String],
) -> Result<YcsbOutput> {
    let (fields, bytes, scanned) = shape.sizes();
    let sizes = [
        format!("recordcount={RECORDS}"),
        format!("fieldcount={fields}"),
        format!("fieldlength={bytes}"),
        format!("maxscanlength={scanned}"),
        // All fields of a row are in one cell, so a write must contain all of them.
        "writeallfields=true".to_owned(),
    ];
    let all = [&sizes, own, properties].concat();
    let out = client::run(peer.jars(), phase, binding, THREADS, &all)?;
    YcsbOutput::read(&out)
        .ok_or_else(|| BenchError::Void("YCSB did not print the counters of the binding".into()))
}

impl YcsbOutput {
    /// Reads the output of YCSB and of the bindings.
    fn read(out: &str) -> Option<Self> {
        let ours = out.lines().find_map(|line| line.strip_prefix("LINESIDE "))?;
        let count = |name: &str| -> Option<u64> {
            let mut words = ours.split(' ');
            words.find_map(|word| word.strip_prefix(name)?.strip_prefix('=')?.parse().ok())
        };
        Some(Self {
            ops_per_s: client::throughput(out)?,
            fastpath: count("fastpath")? as f64,
            host: count("host")? as f64,
            stale: count("stale")?,
            errors: count("errors")? + count("missing")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::Outcome;

    #[test]
    fn the_output_of_ycsb_is_parsed() {
        let out = "[OVERALL], RunTime(ms), 100\n[OVERALL], Throughput(ops/sec), 1234.5\n\
                   LINESIDE reads=9 fastpath=6 host=3 stale=1 missing=2 errors=4\n";
        let said = YcsbOutput::read(out).unwrap();
        assert_eq!((said.ops_per_s, said.fastpath, said.host), (1234.5, 6.0, 3.0));
        assert_eq!((said.stale, said.errors), (1, 6));
        assert!(YcsbOutput::read("[OVERALL], Throughput(ops/sec), 1\n").is_none());
    }

    #[test]
    fn the_bound_follows_from_the_share_of_misses_and_writes() {
        let through = YcsbOutput {
            ops_per_s: 50.0,
            fastpath: 90.0,
            host: 10.0,
            ..YcsbOutput::default()
        };
        let straight = YcsbOutput {
            ops_per_s: 10.0,
            ..YcsbOutput::default()
        };
        let row = WorkloadFigures::of(Shape::Small, &WORKLOADS[1], &[(straight, through)]).unwrap();
        assert_eq!((row.workload, row.ratio, row.hit_rate), ("B", 5.0, 0.9));
        assert!((row.bound - 1.0 / (0.05 + 0.95 * 0.1)).abs() < 1e-9);
        let ycsb = Ycsb {
            records: 1,
            threads: 1,
            rows: vec![row],
        };
        let gates: BTreeMap<_, _> = ycsb.gates().collect();
        assert_eq!(gates["ycsb B lineside/hbase"].value, Some(5.0));
        assert_eq!(gates["ycsb B hits, %"].value, Some(90.0));
        assert_eq!(gates["ycsb C lineside/hbase"].value, None);
        assert_eq!(
            gates["ycsb B lineside/hbase"].outcome,
            Outcome::Void,
            "a slow HBase makes the comparison void"
        );
    }
}
