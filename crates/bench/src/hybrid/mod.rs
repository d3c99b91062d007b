//! The scenario `hybrid`: signed requests to a ledger database, by who verifies their signatures.
//!
//! Requests are made and signed before the clock starts; it stops when the last set is durable and can be read. Node
//! and load share the machine.

mod alone;
mod report;
mod run;
mod workload;

pub use alone::{Again, Proofs};
pub use report::{Checks, Figures, Report};
pub use workload::{Distribution, Shape};

use crate::error::Result;
use crate::machine::Machine;
use crate::progress::Progress;
use crate::transfer::disk::Disk;
use crate::transfer::drain::Removed;
use lineside_hybrid::node::unix_ms;
use report::Findings;
use run::{Contestant, send, set_clock, start};
use std::path::PathBuf;
use workload::{Calls, GATE, KEYS_MAX, Maker, RECORDS};

/// Requests in a block, unless a case says otherwise.
const BLOCK: usize = 1000;

/// How to run it.
#[derive(Clone, Debug)]
pub struct Options {
    /// Seed of the workloads.
    pub seed: u64,
    /// A folder on a disk; ledgers in it are removed.
    pub folder: PathBuf,
    /// Records that every database begins with.
    pub records: u64,
    /// Requests of the gate case, in each round.
    pub requests: usize,
    /// Of each other case.
    pub case: usize,
    /// Rounds.
    pub rounds: usize,
    /// The same, shorter.
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
            quick: false,
        }
    }
}

impl Options {
    /// The same, shorter.
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

/// A case beside the gate's: its name, its shape, requests in a block.
fn cases(quick: bool) -> Vec<(String, Shape, usize)> {
    let mut all = Vec::new();
    let mut case = |name: &str, shape: Shape, block: usize| all.push((name.to_owned(), shape, block));
    for (name, sets_percent) in [("B", 5), ("C", 0)] {
        case(&format!("workload {name}"), Shape { sets_percent, ..GATE }, BLOCK);
    }
    for keys in [1, 256, KEYS_MAX] {
        case(&format!("{keys} keys"), Shape { keys, ..GATE }, BLOCK);
    }
    for per_call in [1, 10, 1000] {
        case(&format!("calls of {per_call}"), Shape { per_call, ..GATE }, BLOCK);
    }
    if quick {
        return all;
    }
    for (name, distribution) in [
        ("uniform", Distribution::Uniform),
        ("latest", Distribution::Latest),
    ] {
        case(name, Shape { distribution, ..GATE }, BLOCK);
    }
    for value_bytes in [512, 4 << 10, 32 << 10, 128 << 10] {
        let name = format!("values of {value_bytes} bytes");
        let per_call = if value_bytes > 4 << 10 { 10 } else { 100 };
        case(
            &name,
            Shape {
                value_bytes,
                per_call,
                ..GATE
            },
            BLOCK,
        );
    }
    for workers in [4, 64, 256] {
        let per_call = if workers == 256 { 10 } else { 100 };
        case(
            &format!("{workers} calls under way"),
            Shape {
                workers,
                per_call,
                ..GATE
            },
            BLOCK,
        );
    }
    for block in [10, 100, 10_000] {
        case(&format!("blocks of {block}"), GATE, block);
    }
    all
}

/// Runs the scenario, telling `progress` before each step.
///
/// # Errors
/// A folder in memory, a node that does not start, what the system says.
pub fn run(options: &Options, progress: &mut dyn FnMut(Progress)) -> Result<Report> {
    let machine = Machine::read();
    let disk = Disk::look(&options.folder)?;
    let now_ms = unix_ms();
    set_clock(now_ms);
    let cases = cases(options.quick);
    let mut bench = Bench {
        options,
        ledgers: Removed::of_this_run(&options.folder)?,
        now_ms,
        load: None,
        number: 0,
        of: 2 + options.rounds * Contestant::ALL.len() + cases.len() * Contestant::ALL.len() + 4,
        done: 0,
        progress,
    };
    let mut findings = Findings::default();
    bench.gate_case(&mut findings)?;
    for (name, shape, block) in &cases {
        bench.case(name, shape, *block, &mut findings)?;
    }
    bench.lone(&mut findings)?;
    bench.tell("proofs over a million keys");
    let maker = Maker::new(GATE.keys, 1, now_ms, options.records);
    findings.proofs = Some(alone::proofs(&maker, options.quick)?);
    bench.again(&mut findings)?;
    Ok(Report::new(options.seed, machine, disk, findings))
}

struct Bench<'a> {
    options: &'a Options,
    ledgers: Removed,
    now_ms: u64,
    /// The gate case's sets of all records: signing them takes seconds.
    load: Option<Calls>,
    /// Of the next ledger's folder.
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

    /// Sets of all records. They depend on the genesis, which has as many members as there are keys.
    fn load_of(&mut self, maker: &Maker, keys: u64) -> Calls {
        if keys != GATE.keys {
            return maker.load(GATE.value_bytes);
        }
        let load = self.load.get_or_insert_with(|| maker.load(GATE.value_bytes));
        load.clone()
    }

    /// One run over a new ledger that has all records.
    fn run(
        &mut self,
        who: Contestant,
        block: usize,
        maker: &Maker,
        load: &Calls,
        calls: &Calls,
    ) -> Result<run::Measured> {
        let folder = self.folder()?;
        let node = start(&folder.0, &maker.genesis, who.options(block))?;
        send(&node, load)?;
        let measured = send(&node, calls)?;
        drop(node);
        Ok(measured)
    }

    fn gate_case(&mut self, findings: &mut Findings) -> Result<()> {
        self.tell("signing");
        let maker = Maker::new(GATE.keys, 1, self.now_ms, self.options.records);
        let load = self.load_of(&maker, GATE.keys);
        let calls = maker.requests(&GATE, self.options.seed, self.options.requests);
        for round in 0..self.options.rounds {
            for place in 0..Contestant::ALL.len() {
                // Each round begins with another.
                let who = Contestant::ALL[(place + round) % Contestant::ALL.len()];
                self.tell(who.name());
                let measured = self.run(who, BLOCK, &maker, &load, &calls)?;
                findings.add(who, String::new(), measured);
            }
        }
        Ok(())
    }

    fn case(&mut self, name: &str, shape: &Shape, block: usize, findings: &mut Findings) -> Result<()> {
        let maker = Maker::new(shape.keys.max(1), 1, self.now_ms, self.options.records);
        // Of long values, as many as make some megabytes.
        let requests = self.options.case.min((256 << 20) / (shape.value_bytes + 300));
        let load = self.load_of(&maker, shape.keys);
        let calls = maker.requests(shape, self.options.seed, requests);
        for who in Contestant::ALL {
            self.tell("other cases");
            let measured = self.run(who, block, &maker, &load, &calls)?;
            findings.add(who, name.to_owned(), measured);
        }
        Ok(())
    }

    /// One call of one request at a time.
    fn lone(&mut self, findings: &mut Findings) -> Result<()> {
        let count = if self.options.quick { 500 } else { 3_000 };
        for (name, sets_percent) in [("lone set", 100), ("lone get", 0)] {
            self.tell(name);
            let shape = Shape {
                sets_percent,
                per_call: 1,
                workers: 1,
                ..GATE
            };
            let maker = Maker::new(GATE.keys, 1, self.now_ms, self.options.records);
            let calls = maker.requests(&shape, self.options.seed, count);
            let measured = self.run(
                Contestant::Batch,
                BLOCK,
                &maker,
                &maker.load(GATE.value_bytes),
                &calls,
            )?;
            findings.add(Contestant::Batch, name.to_owned(), measured);
        }
        Ok(())
    }

    fn again(&mut self, findings: &mut Findings) -> Result<()> {
        self.tell("reading a ledger again");
        let maker = Maker::new(GATE.keys, 2, self.now_ms, self.options.records);
        let shape = Shape {
            sets_percent: 100,
            ..GATE
        };
        let calls = maker.requests(&shape, self.options.seed, self.options.requests);
        let folder = self.folder()?;
        let node = start(&folder.0, &maker.genesis, Contestant::None.options(BLOCK))?;
        send(&node, &maker.load(GATE.value_bytes))?;
        send(&node, &calls)?;
        drop(node);
        let empty = self.folder()?;
        findings.again = Some(alone::again(&maker, &folder.0, &empty.0)?);
        Ok(())
    }
}
