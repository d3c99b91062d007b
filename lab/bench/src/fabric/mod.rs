//! Scenario `fabric`: blocks of Hyperledger Fabric, validated and committed to a ledger on the disk.
//!
//! One thread supplies blocks that were generated before. Two threads validate them. Another thread appends each block
//! to the ledger and syncs it, while the next block is validated. The contestants differ in the library that verifies
//! signatures.

mod deliver;
mod disk_alone;
mod early;
mod feeder;
mod gates;
mod paper;
mod pipeline;
mod report;
mod restart;
#[cfg(test)]
mod tests;
mod udp;
mod wire;
mod workload;

pub use early::EarlyFigures;
pub use gates::gate_keys;
pub use paper::{BlockTransfer, EndToEnd, PAPER_STEPS, PaperFigures, PaperOptions, for_paper};
pub use report::{Checks, Contestant, Figures, Latency, Report, StagesUs, Sustained};
pub use restart::Restart;
pub use udp::{LatencyFigures, Udp};

use crate::error::{BenchError, Result};
use crate::machine::Machine;
use crate::others::Since;
use crate::progress::Progress;
use crate::transfer::disk::Disk;
use crate::transfer::drain::Removed;
use disk_alone::Appends;
use feeder::Feed;
use lineside_fabric_maker::Chaincode;
use lineside_verify::Backend;
use pipeline::{How, Measured, Pace};
use report::Findings;
use std::path::PathBuf;
use workload::{Blocks, Case, GATE};

/// Contestants with their names.
const CONTESTANTS: [(Backend, &str); 3] = [
    (Backend::Avx512Ifma, IFMA),
    (Backend::Portable, "portable"),
    (Backend::Library, LIBRARY),
];
const IFMA: &str = "ifma";
const LIBRARY: &str = "library";
/// Name of the judged case when the state is in a database on the disk.
const ON_DISK: &str = "state on disk";
/// Share of the sustained rate that the open loop offers.
const OPEN_SHARE: f64 = 0.8;

/// Options of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Seed of the workloads.
    pub seed: u64,
    /// Folder on a disk. Generated blocks remain in it; the benchmark removes the ledgers.
    pub folder: PathBuf,
    /// Number of keys of each workload.
    pub keys: usize,
    /// Number of transactions of the sustained run.
    pub sustained: u64,
    /// Number of transactions of the run with blocks from a Deliver stream.
    pub delivered: u64,
    /// Number of transactions of the open loop.
    pub open: u64,
    /// Number of transactions that are sent over UDP.
    pub udp: u64,
    /// Number of transactions of each contestant in each round.
    pub compared: u64,
    /// Number of transactions of each other case in each round.
    pub case: u64,
    /// True if the other cases run, too.
    pub cases: bool,
    /// Number of rounds.
    pub rounds: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            seed: 1,
            folder: std::env::temp_dir(),
            keys: 100_000,
            sustained: 1_000_000,
            delivered: 1_000_000,
            open: 400_000,
            udp: 50_000,
            compared: 100_000,
            case: 50_000,
            cases: true,
            rounds: 3,
        }
    }
}

impl Options {
    /// Returns the options of a run of less than 40 s, once the blocks are generated.
    pub fn quick() -> Self {
        Self {
            sustained: 60_000,
            delivered: 60_000,
            open: 30_000,
            udp: 10_000,
            compared: 20_000,
            case: 10_000,
            rounds: 1,
            ..Self::default()
        }
    }
}

/// Runs the scenario, and calls `progress` before each step.
///
/// # Errors
/// Fails if the folder is in memory, or if a block was not accepted; returns errors of the operating system.
pub fn run(options: &Options, progress: &mut dyn FnMut(Progress)) -> Result<Report> {
    let machine = Machine::read();
    let disk = Disk::look(&options.folder)?;
    let cases = if options.cases { Case::others() } else { Vec::new() };
    let mut bench = Bench {
        options,
        cache: options.folder.join("lineside-fabric-blocks"),
        ledgers: Removed::of_this_run(&options.folder)?,
        of: 1 + cases.len() + options.rounds * (CONTESTANTS.len() + 1 + cases.len()) + 10,
        done: 0,
        progress,
    };
    bench.tell("making blocks");
    bench.gate_case().open()?;
    for case in &cases {
        bench.tell("making blocks");
        bench.other(*case).open()?;
    }
    let mut findings = Findings::default();
    let since = Since::now();
    bench.rounds(&cases, &mut findings)?;
    let backend = Backend::best();
    let sustained = bench.sustained(backend, &mut findings)?;
    findings.open = Some(bench.open_loop(backend, OPEN_SHARE * sustained.tps(), &mut findings)?);
    findings.open_fixed = Some(bench.open_loop(backend, gates::FIXED_TPS, &mut findings)?);
    bench.delivered(backend, &mut findings)?;
    bench.coming(backend, &mut findings)?;
    bench.tell("sending over UDP");
    findings.udp = udp::measure(&bench.gate_case(), options.udp, options.rounds.max(3))?;
    let others = since.and_then(|since| since.cores());
    let key = match GATE.chaincode {
        Chaincode::Smallbank => "a000001",
        Chaincode::Drm => "w000001",
    };
    bench.tell("opening the ledger again");
    let restart = restart::measure(&bench.ledger("sustained"), backend, GATE.chaincode.name(), key)?;
    findings.sustained = Some(sustained);
    Report::new(options.seed, machine, disk, findings, restart, others)
        .ok_or_else(|| BenchError::Void("no block was measured".into()))
}

struct Bench<'a> {
    options: &'a Options,
    cache: PathBuf,
    ledgers: Removed,
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

    fn blocks(&self, case: Case, transactions: u64) -> Blocks<'_> {
        Blocks {
            case,
            seed: self.options.seed,
            keys: self.options.keys,
            transactions,
            cache: &self.cache,
        }
    }

    fn gate_case(&self) -> Blocks<'_> {
        self.blocks(GATE, self.options.sustained)
    }

    fn other(&self, case: Case) -> Blocks<'_> {
        self.blocks(case, self.options.case)
    }

    fn ledger(&self, name: &str) -> PathBuf {
        self.ledgers.0.join(name)
    }

    /// Runs a case, and removes its ledger afterwards.
    fn run(&self, blocks: &Blocks<'_>, transactions: u64, how: How) -> Result<Measured> {
        let folder = Removed::make(&self.ledger("once"))?;
        pipeline::run(blocks, transactions, how, &folder.0)
    }

    fn rounds(&mut self, cases: &[Case], findings: &mut Findings) -> Result<()> {
        for round in 0..self.options.rounds {
            for place in 0..CONTESTANTS.len() {
                // Each round begins with another contestant.
                let (backend, name) = CONTESTANTS[(place + round) % CONTESTANTS.len()];
                self.tell(name);
                if backend.is_available() {
                    let (blocks, transactions) = (self.gate_case(), self.options.compared);
                    let measured = self.run(&blocks, transactions, How::usual(backend))?;
                    findings.add(name, String::new(), measured);
                }
            }
            self.tell(ON_DISK);
            let how = How {
                state_on_disk: true,
                ..How::usual(Backend::best())
            };
            let measured = self.run(&self.gate_case(), self.options.compared, how)?;
            findings.add(name_of(how.backend), ON_DISK.to_owned(), measured);
            for case in cases {
                self.tell("other cases");
                let backend = Backend::best();
                let measured = self.run(&self.other(*case), self.options.case, How::usual(backend))?;
                findings.add(name_of(backend), case.name(), measured);
            }
        }
        Ok(())
    }

    /// Runs the sustained case. Its ledger remains, so that the restart can open it again.
    fn sustained(&mut self, backend: Backend, findings: &mut Findings) -> Result<Measured> {
        self.tell("sustaining");
        let folder = self.ledger("sustained");
        std::fs::create_dir_all(&folder).map_err(crate::error::io("creating a folder"))?;
        let (blocks, transactions) = (self.gate_case(), self.options.sustained);
        let measured = pipeline::run(&blocks, transactions, How::usual(backend), &folder)?;
        findings.count(name_of(backend), "sustained", &measured);
        Ok(measured)
    }

    /// Runs the same blocks from an orderer's Deliver stream.
    fn delivered(&mut self, backend: Backend, findings: &mut Findings) -> Result<()> {
        self.tell("sustaining, by Deliver");
        let folder = Removed::make(&self.ledger("delivered"))?;
        let (blocks, transactions) = (self.gate_case(), self.options.delivered);
        let how = How {
            feed: Feed::Deliver,
            ..How::usual(backend)
        };
        let measured = pipeline::run(&blocks, transactions, how, &folder.0)?;
        findings.count(name_of(backend), "sustained, by Deliver", &measured);
        findings.delivered = Some(measured);
        Ok(())
    }

    /// Measures the latency from the last transaction of a block at a fixed rate, with early verification and without.
    fn coming(&mut self, backend: Backend, findings: &mut Findings) -> Result<()> {
        let offered = gates::FIXED_TPS;
        for (name, is_early) in [(early::WHOLE, false), (early::EARLY, true)] {
            self.tell("verifying early");
            let folder = Removed::make(&self.ledger("once"))?;
            let (blocks, load) = (self.gate_case(), (self.options.open, offered));
            let came = early::run(&blocks, load, How::usual(backend), is_early, &folder.0)?;
            findings.count(name_of(backend), name, &came.0);
            findings
                .early
                .extend(EarlyFigures::of(offered, &came).map(|of| (name, of)));
        }
        Ok(())
    }

    /// Runs the open loop with `offered` transactions per second. Returns the rate and the run.
    fn open_loop(
        &mut self,
        backend: Backend,
        offered: f64,
        findings: &mut Findings,
    ) -> Result<(f64, Measured)> {
        let ledger = restart::bytes(&self.ledger("sustained"));
        let block = self.gate_case().case.block;
        let appends = Appends {
            blocks: self.options.open.div_ceil(block as u64),
            block_bytes: (ledger * block as u64 / self.options.sustained) as usize,
            block_transactions: block,
            offered_tps: offered,
        };
        self.tell("the disk alone");
        findings
            .disk_alone
            .extend(disk_alone::measure(&self.ledgers.0, appends)?);
        self.tell("open loop");
        let (blocks, transactions) = (self.gate_case(), self.options.open);
        let how = How {
            pace: Pace::Open { tps: offered },
            ..How::usual(backend)
        };
        let measured = self.run(&blocks, transactions, how)?;
        findings.count(name_of(backend), "open loop", &measured);
        Ok((offered, measured))
    }
}

fn name_of(backend: Backend) -> &'static str {
    let found = CONTESTANTS.iter().find(|(of, _)| *of == backend);
    found.map_or("other", |(_, name)| name)
}
