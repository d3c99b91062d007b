//! `lineside-lab bench electrum` measures Merkle proofs by the Electrum protocol over TCP, from Lineside and from
//! ElectrumX over the same chain; and the time from a node's announcement of a block to the first answer of the fast
//! path.
//!
//! ```text
//!   core 0: this process                                  core 1: the servers, one driven at a time
//!     node in memory (CoreMini) --- RPC, REST, ZMQ ------->  lineside spv serve    electrumx_server
//!     client: get_merkle on many connections <-- TCP ----->     |                     |
//!     client: `root` by UDP, after an announcement <------->    |
//! ```

mod announce;
mod load;
mod report;
mod servers;

pub use announce::Announced;
pub use report::{Contestant, Figures, Report, gate_keys};

use crate::error::{BenchError, Result, io};
use crate::machine::Machine;
use crate::progress::Progress;
use crate::sys;
use lineside_testkit::{CoreMini, DemoBlock, RegtestChain};
use load::{Questions, Round};
use servers::{ElectrumX, Lineside};
use std::path::PathBuf;
use std::time::Duration;

/// Number of transactions in each block, as in the paper.
const TRANSACTIONS: u32 = 2048;
/// Core of the client and of the node; the servers run on another core.
const CLIENT_CORE: usize = 0;
const SERVER_CORE: usize = 1;

/// Options of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Seed of the chain and of the order of requests.
    pub seed: u64,
    /// Path of the program `lineside`.
    pub program: PathBuf,
    /// Path of the program `electrumx_server`. If it is `None`, the path is taken from `LINESIDE_ELECTRUMX` or the
    /// search path.
    pub electrumx: Option<PathBuf>,
    /// Folder for the data of the servers; the benchmark removes the data at the end.
    pub folder: PathBuf,
    /// Number of blocks of the chain.
    pub blocks: u32,
    /// Number of rounds; figures are their medians.
    pub rounds: usize,
    /// Duration of the warm-up, and of the run of each contestant in a round.
    pub duration: Duration,
    /// Number of blocks that the node announces.
    pub announcements: usize,
}

impl Options {
    /// Returns the options of a run of about two minutes.
    pub fn new(program: PathBuf) -> Self {
        Self {
            seed: 1,
            program,
            electrumx: None,
            folder: std::env::temp_dir(),
            blocks: 32,
            rounds: 7,
            duration: Duration::from_secs(3),
            announcements: 41,
        }
    }

    /// Returns the options of a run of less than 40 s.
    pub fn quick(program: PathBuf) -> Self {
        Self {
            blocks: 8,
            rounds: 3,
            duration: Duration::from_millis(1_200),
            announcements: 11,
            ..Self::new(program)
        }
    }
}

/// Counts of all rounds of each contestant, or the reason why a contestant is not available.
pub(crate) struct Rounds {
    pub lineside: Vec<Round>,
    pub electrumx: std::result::Result<Vec<Round>, String>,
}

/// Measures everything, and calls `progress` before each step.
///
/// # Errors
/// Fails if the program `lineside` does not exist, or if a server does not start.
pub fn run(options: &Options, progress: &mut dyn FnMut(Progress)) -> Result<Report> {
    run_with(options, progress, &mut |_, _| Ok(()))
}

/// Measures everything together with other contestants. Each round ends with a call of `others`, which receives the
/// blocks of the chain, each of 2,048 transactions, and the number of the round.
pub(crate) fn run_with(
    options: &Options,
    progress: &mut dyn FnMut(Progress),
    others: &mut dyn FnMut(&[DemoBlock], usize) -> Result<()>,
) -> Result<Report> {
    let machine = Machine::read();
    if machine.cores < 2 {
        return Err(BenchError::TooFewCores);
    }
    let mut done = 0;
    let of = 4 + 2 * options.rounds;
    let mut tell = |doing| {
        progress(Progress { doing, done, of });
        done += 1;
    };
    tell("making the chain");
    let mut chain = RegtestChain::new(options.seed);
    let mut blocks = vec![RegtestChain::genesis(), chain.next(&[], 0)];
    blocks.extend((0..options.blocks).map(|_| chain.next(&[], TRANSACTIONS - 2)));
    let asked_about = blocks[2..].to_vec();
    let questions = Questions::new(&asked_about, 2);
    sys::pin(CLIENT_CORE).map_err(io("pinning the client"))?;
    let node = CoreMini::start(blocks).map_err(io("starting the in-memory node"))?;
    tell("starting the servers");
    let lineside = Lineside::start(options, &node)?;
    let electrumx = match ElectrumX::start(options, &node) {
        Ok(server) => Ok(server),
        Err(BenchError::NotMeasured(why)) => Err(why),
        Err(error) => return Err(error),
    };
    tell("warming the servers");
    let ours = load::Target::new("lineside", lineside.electrum, lineside.pid());
    let theirs = electrumx.as_ref().ok();
    let theirs = theirs.map(|server| load::Target::new("electrumx", server.address, server.pid()));
    for target in std::iter::once(&ours).chain(&theirs) {
        load::drive(target, &questions, options.seed, options.duration)?;
    }
    let mut rounds = Rounds {
        lineside: Vec::new(),
        electrumx: electrumx.as_ref().map(|_| Vec::new()).map_err(Clone::clone),
    };
    for round in 0..options.rounds {
        let seed = options.seed + 1 + round as u64;
        // The contestant that begins the round alternates.
        for place in 0..2 {
            tell("get_merkle");
            if (place + round) % 2 == 0 {
                (rounds.lineside).push(load::drive(&ours, &questions, seed, options.duration)?);
            } else if let (Some(target), Ok(found)) = (&theirs, &mut rounds.electrumx) {
                found.push(load::drive(target, &questions, seed, options.duration)?);
            }
        }
        others(&asked_about, round)?;
    }
    drop(electrumx);
    tell("announcements");
    let announced = announce::measure(&lineside, &node, &mut chain, options.announcements)?;
    Ok(Report::new(options, machine, &rounds, announced))
}
