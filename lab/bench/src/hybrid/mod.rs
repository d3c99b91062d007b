//! Scenario `hybrid`: signed requests to a ledger database. The contestants differ in the way in which they verify
//! signatures.
//!
//! Requests are generated and signed before the clock starts. The clock stops when the last set is durable and can be
//! read. The node and the clients share the machine.

mod alone;
mod cases;
mod delayed;
pub mod figures;
mod kafka;
mod lone;
pub mod primitives;
mod report;
mod run;
mod workload;
mod ycsb;

pub use alone::{Proofs, ReadRates};
pub use report::{Checks, Figures, Report, gate_keys};
pub use workload::{Distribution, Shape};

use crate::error::{BenchError, Result, io, java};
use crate::machine::Machine;
use crate::progress::Progress;
use crate::transfer::disk::Disk;
use crate::transfer::drain::Removed;
use crate::ycsb::Phase;
use cases::{BLOCK, Case, blocks, cases, workloads};
use kafka::Kafka;
use lineside_hbase_mini::Jars;
use lineside_hybrid::Node;
use lineside_journal::FsDisk;
use lineside_messages::hybrid::signing::unix_ms;
use report::Findings;
use run::{Contestant, Measured, Order, Who, send, set_clock, start, start_on};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use workload::{Call, Calls, GATE, Maker, RECORDS};

/// Maximum number of rounds on Kafka. It is small because the broker keeps the data of all rounds.
const KAFKA_ROUNDS: usize = 3;
/// Number of rounds of single calls.
const LONE_ROUNDS: usize = 3;
/// Single calls: name of the case, and percentage of sets.
const LONE: [(&str, u64); 2] = [("lone set", 100), ("lone get", 0)];

/// Options of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Seed of the workloads.
    pub seed: u64,
    /// Folder on a disk; the benchmark removes the ledgers in it.
    pub folder: PathBuf,
    /// Number of records at the beginning.
    pub records: u64,
    /// Number of requests of the judged case in each round. The gates apply to this case.
    pub requests: usize,
    /// Number of requests of each other case.
    pub case: usize,
    /// Number of rounds.
    pub rounds: usize,
    /// True to run only workloads A, B and C, with YCSB's own core, which needs Java 17 and Maven.
    pub ycsb: bool,
    /// True to run only the cases with gates, without Kafka.
    pub judged: bool,
    /// True to run for a shorter time.
    pub quick: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            seed: 1,
            folder: std::env::temp_dir(),
            records: RECORDS,
            requests: 400_000,
            case: 40_000,
            rounds: 5,
            ycsb: false,
            judged: false,
            quick: false,
        }
    }
}

impl Options {
    /// Returns the options of a short run.
    pub fn quick() -> Self {
        Self {
            records: RECORDS / 10,
            requests: 40_000,
            case: 4_000,
            rounds: 1,
            quick: true,
            ..Self::default()
        }
    }
}

/// Runs the scenario, and calls `progress` before each step.
///
/// # Errors
/// Fails if the folder is in memory, or if a node does not start; returns errors of the operating system.
pub fn run(options: &Options, progress: &mut dyn FnMut(Progress)) -> Result<Report> {
    let machine = Machine::read();
    let disk = Disk::look(&options.folder)?;
    let now_ms = unix_ms();
    set_clock(now_ms);
    let cases = match (options.ycsb, options.judged) {
        (true, _) => workloads(options.quick),
        (_, true) => Vec::new(),
        _ => cases(options.quick),
    };
    let kafka_cases = if options.quick { Vec::new() } else { blocks() };
    let kafka_rounds = options.rounds.min(KAFKA_ROUNDS);
    let on_kafka = match cfg!(feature = "kafka") && !options.judged {
        true => 1 + 3 * (kafka_rounds + kafka_cases.len()) + if options.quick { 0 } else { 2 },
        false => 0,
    };
    let mut bench = Bench {
        options,
        ledgers: Removed::of_this_run(&options.folder)?,
        now_ms,
        load: None,
        loaded: None,
        number: 0,
        of: match options.ycsb {
            true => 1 + 4 * cases.len(),
            false => 1 + 3 * options.rounds + 3 * cases.len() + 4 + on_kafka,
        },
        done: 0,
        progress,
    };
    let mut findings = Findings::default();
    if options.ycsb {
        bench.ycsb(&cases, &mut findings)?;
        return Ok(Report::new(options.seed, machine, disk, findings));
    }
    // Cases with gates run first, within minutes of one another, because the load of a shared machine changes within an
    // hour.
    bench.gate_case(&mut findings)?;
    bench.lone(&mut findings)?;
    bench.tell("proofs over a million keys");
    let maker = Maker::new(GATE.keys, 1, now_ms, options.records);
    findings.proofs = Some(alone::proofs(&maker, options.quick)?);
    bench.again(&mut findings)?;
    if options.judged {
        findings.not_measured(Order::Kafka, "only the cases with gates were requested");
        return Ok(Report::new(options.seed, machine, disk, findings));
    }
    for case in &cases {
        bench.case(case, &mut findings)?;
    }
    // Kafka runs last, so that the broker takes no processor time from the other cases.
    if let Err(error) = bench.on_kafka(kafka_rounds, &kafka_cases, &mut findings) {
        let why = match error {
            BenchError::NotMeasured(why) => why,
            failed => failed.to_string(),
        };
        findings.not_measured(Order::Kafka, &why);
    }
    Ok(Report::new(options.seed, machine, disk, findings))
}

struct Bench<'a> {
    options: &'a Options,
    ledgers: Removed,
    now_ms: u64,
    /// Signed sets of all records for the judged case. They are kept, because signing them takes seconds.
    load: Option<Calls>,
    /// Folder of a ledger with these records.
    loaded: Option<Removed>,
    /// Number that the folder of the next ledger gets.
    number: usize,
    done: usize,
    of: usize,
    progress: &'a mut dyn FnMut(Progress),
}

impl Bench<'_> {
    fn tell(&mut self, doing: &'static str) {
        let (done, of) = (self.done, self.of);
        (self.progress)(Progress { doing, done, of });
        self.done += 1;
    }

    fn folder(&mut self) -> Result<Removed> {
        self.number += 1;
        Removed::make(&self.ledgers.0.join(self.number.to_string()))
    }

    /// Returns the signed sets of all records. They depend on the genesis, which has one member for each key.
    fn load_of(&mut self, maker: &Maker, keys: u64) -> Calls {
        if keys != GATE.keys {
            return maker.load(GATE.value_bytes);
        }
        let load = self.load.get_or_insert_with(|| maker.load(GATE.value_bytes));
        load.clone()
    }

    /// Runs a contestant with a new ledger, in which the contestant itself sets all records first.
    fn run(&mut self, who: Who, case: &Case, maker: &Maker, load: &Calls, calls: &Calls) -> Result<Measured> {
        let folder = self.folder()?;
        let node = start(&folder.0, &maker.genesis, who.options(case.block))?;
        send(&node, load)?;
        send(&node, calls)
    }

    /// Returns a ledger with all records, which was created without verification.
    fn ledger(&mut self, maker: &Maker, keys: u64) -> Result<Removed> {
        let folder = self.folder()?;
        let load = self.load_of(maker, keys);
        let node = start(&folder.0, &maker.genesis, Who::None.options(BLOCK))?;
        send(&node, &load)?;
        Ok(folder)
    }

    fn gate_case(&mut self, findings: &mut Findings) -> Result<()> {
        self.tell("signing");
        let maker = Maker::new(GATE.keys, 1, self.now_ms, self.options.records);
        let load = self.load_of(&maker, GATE.keys);
        let calls = maker.requests(&GATE, self.options.seed, self.options.requests);
        for round in 0..self.options.rounds {
            for who in in_turn(Order::Embedded, round) {
                self.tell(who.name());
                let measured = self.run(who.who, &Case::gate(), &maker, &load, &calls)?;
                findings.add(who, String::new(), measured);
            }
        }
        Ok(())
    }

    /// Runs the case with each contestant, on a copy of one ledger each.
    fn case(&mut self, case: &Case, findings: &mut Findings) -> Result<()> {
        let keys = case.shape.keys;
        let maker = Maker::new(keys, 1, self.now_ms, self.options.records);
        let requests = case.requests(self.options.case);
        let calls = maker.requests(&case.shape, self.options.seed, requests);
        let loaded = match (keys == GATE.keys, self.loaded.take()) {
            (true, Some(loaded)) => loaded,
            (_, kept) => {
                self.loaded = kept;
                self.ledger(&maker, keys)?
            }
        };
        self.contest("other cases", &loaded, case, &maker, &calls, findings)?;
        if keys == GATE.keys {
            self.loaded = Some(loaded);
        }
        Ok(())
    }

    /// Runs all contestants, one after the other.
    fn contest(
        &mut self,
        doing: &'static str,
        loaded: &Removed,
        case: &Case,
        maker: &Maker,
        calls: &Calls,
        findings: &mut Findings,
    ) -> Result<()> {
        for who in Contestant::all(Order::Embedded) {
            self.tell(doing);
            let folder = self.folder()?;
            copy(&loaded.0, &folder.0)?;
            let node = start(&folder.0, &maker.genesis, who.who.options(case.block))?;
            findings.add(who, case.name.clone(), send(&node, calls)?);
        }
        Ok(())
    }

    /// Runs operations that YCSB's own core chooses, over the records that YCSB loads.
    fn ycsb(&mut self, cases: &[Case], findings: &mut Findings) -> Result<()> {
        self.tell("building YCSB");
        let jars = Jars::build().map_err(java)?;
        let (folder, records) = (self.folder()?, self.options.records);
        let maker = Maker::new(GATE.keys, 1, self.now_ms, records);
        let trace = |phase, shape| {
            let operations = self.options.requests / 4;
            ycsb::trace(&jars, &folder.0, phase, shape, records, operations)
        };
        let loaded = self.folder()?;
        let node = start(&loaded.0, &maker.genesis, Who::None.options(BLOCK))?;
        send(&node, &ycsb::load(&maker, &trace(Phase::Load, &GATE)?))?;
        drop(node);
        for case in cases {
            self.tell("YCSB");
            let calls = ycsb::calls(&maker, &case.shape, &trace(Phase::Run, &case.shape)?);
            self.contest("YCSB", &loaded, case, &maker, &calls, findings)?;
        }
        Ok(())
    }

    fn lone(&mut self, findings: &mut Findings) -> Result<()> {
        let maker = Maker::new(GATE.keys, 1, self.now_ms, self.options.records);
        let load = self.load_of(&maker, GATE.keys);
        for what in LONE {
            self.tell(what.0);
            let folder = self.folder()?;
            let node = start(&folder.0, &maker.genesis, Who::Batch.options(BLOCK))?;
            send(&node, &load)?;
            self.ask_alone(Contestant::BATCH, &node, &maker, what, findings)?;
        }
        Ok(())
    }

    /// Sends calls of one request each, by gRPC and by UDP in turn.
    fn ask_alone(
        &self,
        who: Contestant,
        node: &Arc<Node<FsDisk>>,
        maker: &Maker,
        (name, sets_percent): (&str, u64),
        findings: &mut Findings,
    ) -> Result<()> {
        let calls = self.lone_calls(maker, sets_percent);
        for (number, calls) in calls.chunks(calls.len() / (2 * LONE_ROUNDS)).enumerate() {
            let (name, measured) = match number % 2 {
                0 => (name.to_owned(), lone::by_grpc(node, calls)?),
                _ => (format!("{name} by UDP"), lone::by_udp(node, calls)?),
            };
            findings.add(who, name, measured);
        }
        Ok(())
    }

    fn lone_calls(&self, maker: &Maker, sets_percent: u64) -> Vec<Call> {
        let shape = Shape {
            sets_percent,
            per_call: 1,
            workers: 1,
            ..GATE
        };
        let a_round = if self.options.quick { 200 } else { 1_000 };
        let calls = maker.requests(&shape, self.options.seed, 2 * LONE_ROUNDS * a_round);
        calls.into_iter().flatten().collect()
    }

    /// Runs the judged case, the block sizes and the single calls on Kafka. A short run has only a quarter of the
    /// judged case.
    fn on_kafka(&mut self, rounds: usize, cases: &[Case], findings: &mut Findings) -> Result<()> {
        let folder = self.folder()?;
        let mut kafka = Kafka::start(&folder.0)?;
        self.tell("Kafka");
        let maker = Maker::new(GATE.keys, 1, self.now_ms, self.options.records);
        let load = self.load_of(&maker, GATE.keys);
        let mut loaded = |bench: &mut Self, who: Contestant, case: &Case| {
            bench.tell(who.name());
            let folder = bench.folder()?;
            let options = who.who.options(case.block);
            let node = start_on(&folder.0, &maker.genesis, options, kafka.log())?;
            send(&node, &load)?;
            Ok::<_, BenchError>((folder, node))
        };
        let requests = match self.options.quick {
            true => self.options.requests / 4,
            false => self.options.requests,
        };
        let calls = maker.requests(&GATE, self.options.seed, requests);
        for round in 0..rounds {
            for who in in_turn(Order::Kafka, round) {
                let (_folder, node) = loaded(self, who, &Case::gate())?;
                findings.add(who, String::new(), send(&node, &calls)?);
            }
        }
        for case in cases {
            let requests = case.requests(self.options.case);
            let calls = maker.requests(&case.shape, self.options.seed, requests);
            for who in Contestant::all(Order::Kafka) {
                let (_folder, node) = loaded(self, who, case)?;
                findings.add(who, case.name.clone(), send(&node, &calls)?);
            }
        }
        let ours = Contestant {
            order: Order::Kafka,
            who: Who::Batch,
        };
        for what in LONE.into_iter().filter(|_| !self.options.quick) {
            let (_folder, node) = loaded(self, ours, &Case::gate())?;
            self.ask_alone(ours, &node, &maker, what, findings)?;
        }
        Ok(())
    }

    fn again(&mut self, findings: &mut Findings) -> Result<()> {
        self.tell("reading a ledger");
        let maker = Maker::new(GATE.keys, 2, self.now_ms, self.options.records);
        let shape = Shape {
            sets_percent: 100,
            ..GATE
        };
        let calls = maker.requests(&shape, self.options.seed, self.options.requests);
        let folder = self.folder()?;
        let node = start(&folder.0, &maker.genesis, Who::None.options(BLOCK))?;
        send(&node, &maker.load(GATE.value_bytes))?;
        send(&node, &calls)?;
        drop(node);
        findings.again = Some(alone::again(&maker, &folder.0, || self.folder())?);
        Ok(())
    }
}

/// Returns the contestants of an ordering service; each round begins with another contestant.
fn in_turn(order: Order, round: usize) -> [Contestant; 3] {
    let mut all = Contestant::all(order);
    let first = round % all.len();
    all.rotate_left(first);
    all
}

/// Copies the files of a folder.
fn copy(from: &Path, to: &Path) -> Result<()> {
    let what = "copying a ledger";
    for entry in fs::read_dir(from).map_err(io(what))? {
        let entry = entry.map_err(io(what))?;
        fs::copy(entry.path(), to.join(entry.file_name())).map_err(io(what))?;
    }
    Ok(())
}
