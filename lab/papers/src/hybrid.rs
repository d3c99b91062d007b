//! Figures 1, 3, 4 and 6 and the micro-benchmark of the report on the acceleration of a re-implementation of the
//! database Veritas with an FPGA card, and the parameters of its benchmark.
//!
//! The contestants are those of `lineside-lab bench hybrid`: a node that verifies no signatures (the paper's baseline
//! 1), one that verifies them one by one with libsecp256k1 (baseline 2), and Lineside's node, which verifies them in
//! batches and takes the place of the paper's accelerated node. The paper's accelerated node emulates the
//! verification: its function for the card sets every signature to valid and sleeps. A run with wrong signatures shows
//! the difference.
//!
//! The paper's benchmark waits until the last set of a run is committed, before it computes the throughput. The
//! contestants do the same without an extra wait, because they answer a set only when the block that contains it is on
//! the disk and can be read.

mod figures;
mod findings;
mod measure;

use crate::error::{Result, writing};
use crate::found;
use crate::section::{Paper, Section};
use lineside_bench::Progress;
use lineside_bench::figures::Machine;
use lineside_bench::hybrid::figures::Distribution;
use measure::{Measurements, Told};
use std::fs;
use std::path::PathBuf;
use std::time::Instant;

/// Number of requests of the paper's micro-benchmark.
const PAPER_PRIMITIVES: usize = 100_000;

/// Options of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Folder for the CSV and SVG files; created if it is missing.
    pub out: PathBuf,
    /// Folder on a disk for the ledgers, which are removed at the end; by default the folder of the files.
    pub data: PathBuf,
    /// Seed of the requests.
    pub seed: u64,
    /// Number of records at the beginning.
    pub records: u64,
    /// Number of rounds of figure 1 and of the micro-benchmark; each value is the median of its rounds. Other cases
    /// have one round.
    pub rounds: usize,
    /// Number of requests of figure 1 in each round.
    pub requests: usize,
    /// Minimum number of requests of each other case.
    pub case: usize,
    /// Number of requests of the micro-benchmark. Times are given for 100,000 requests.
    pub primitives: usize,
    /// Numbers of clients for figures 3 and 4.
    pub clients: Vec<usize>,
    /// Numbers of calls that each client has in flight; the paper's threads.
    pub threads: Vec<usize>,
    /// Lengths of values in bytes.
    pub value_bytes: Vec<usize>,
    /// Maximum numbers of requests in a block.
    pub blocks: Vec<usize>,
    /// Percentages of sets, with the distribution of the records. YCSB's workloads A, B and C have 50, 5 and 0 %.
    pub workloads: Vec<(u64, Distribution)>,
    /// Delays of the log in milliseconds.
    pub delays_ms: Vec<u64>,
}

impl Options {
    /// Returns the options of the full run, which takes about three minutes.
    pub fn new(out: PathBuf) -> Self {
        let distributions = [Distribution::Zipfian, Distribution::Uniform, Distribution::Latest];
        let workloads = distributions.map(|distribution| [50, 5, 0].map(|sets| (sets, distribution)));
        Self {
            data: out.clone(),
            out,
            seed: 1,
            records: 100_000,
            rounds: 3,
            requests: 40_000,
            case: 10_000,
            primitives: PAPER_PRIMITIVES,
            clients: vec![1, 2, 4],
            threads: vec![4, 16, 64, 128],
            value_bytes: vec![512, 4 << 10, 32 << 10, 128 << 10],
            blocks: vec![10, 100, 1_000, 10_000],
            workloads: workloads.concat(),
            delays_ms: vec![0, 10, 100, 1_000],
        }
    }

    /// Returns the options of a short run of about 40 s, with fewer points and fewer requests.
    pub fn quick(out: PathBuf) -> Self {
        Self {
            records: 10_000,
            rounds: 1,
            requests: 16_000,
            case: 3_200,
            primitives: PAPER_PRIMITIVES / 5,
            clients: vec![1, 4],
            threads: vec![4, 16],
            value_bytes: vec![512, 128 << 10],
            blocks: vec![10, 10_000],
            workloads: vec![
                (50, Distribution::Zipfian),
                (5, Distribution::Zipfian),
                (0, Distribution::Zipfian),
                (50, Distribution::Uniform),
                (50, Distribution::Latest),
            ],
            delays_ms: vec![0, 10, 100],
            ..Self::new(out)
        }
    }

    /// Returns the numbers of threads of the micro-benchmark: one, and one for each core.
    fn primitive_threads(&self) -> Vec<usize> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        if cores > 1 { vec![1, cores] } else { vec![1] }
    }
}

/// Creates tables and plots, and calls `progress` before each step.
///
/// # Errors
/// A node does not start, or a file cannot be written. A folder for ledgers that is in memory is not an error; see
/// [`Section::not_measured`].
pub fn run(options: &Options, progress: &mut dyn FnMut(Progress)) -> Result<Section> {
    let began = Instant::now();
    fs::create_dir_all(&options.out).map_err(writing(&options.out))?;
    let mut machine = Machine::read();
    let (mut found, mut not_measured) = (Measurements::default(), omitted());
    let mut told = Told::new(options, progress);
    measure::alone(options, &mut told, &mut found)?;
    match measure::run(options, &mut told, &mut found) {
        Ok(()) => (),
        Err(error) if error.is_of_the_machine() => {
            not_measured.push(format!("all cases with a node: {error}"));
        }
        Err(error) => return Err(error.into()),
    }
    machine.end_of_run();
    Ok(Section {
        paper: Paper::Hybrid,
        command: "lineside-lab papers hybrid".to_owned(),
        findings: findings::findings(options, &found),
        figures: figures::write(&options.out, options, &found)?,
        not_measured,
        warnings: warnings(&machine),
        failures: found.failures,
        took_s: began.elapsed().as_secs_f64(),
    })
}

/// Returns the parts of the paper that no run measures, with the reasons.
fn omitted() -> Vec<String> {
    [
        "several nodes: the built-in log orders the requests of one node; several nodes need Kafka, and would share \
         the cores of this machine with the clients",
        "Kafka as the log: `lineside-lab bench hybrid` measures it in a build with the cargo feature `kafka`, if Java \
         and Maven are installed",
        "operations that YCSB's own client chooses: `lineside-lab bench hybrid --ycsb` measures them, if Java 17 and \
         Maven are installed; here Lineside's generator draws from the same distributions",
        "hashes and signatures on an FPGA card: there is no card",
    ]
    .map(String::from)
    .into()
}

fn warnings(machine: &Machine) -> Vec<String> {
    let mut warnings = found::warnings(machine);
    if cfg!(debug_assertions) {
        warnings.push("this is a development build, which is slower than a release build".to_owned());
    }
    warnings
}
