//! Attacks and faults against real daemons, with clients of their own that count what is lost, doubled or wrong.
//!
//! Each [`Case`] starts the program `lineside` as its users do, attacks it, and compares what its clients saw with
//! what the daemon holds at the end. The clients of `transfer`, `column` and `spv` share no code with Lineside: the
//! module `packet` writes their packets from `docs/wire-formats.md`. Requests to `hybrid` are signed by Lineside's own
//! client; what is checked is the ledger.
//!
//! | case | attack | what must hold |
//! |---|---|---|
//! | `kill` | kill -9 under load, then a new start | each acknowledged change is there exactly once |
//! | `datagrams` | random, cut, longer and mutated datagrams | the daemon answers an honest client as before |
//! | `forged` | sources that no host has, on a link | at least 95 % of honest requests are answered |
//! | `memory` | requests that make a service keep things | it survives in 512 MiB, and the honest client is answered |
//! | `full` | a disk without room, then with room again | nothing acknowledged is lost; refused in words |

mod cgroup;
mod channel;
mod client;
mod datagrams;
mod disk;
mod forged;
mod full;
mod kill;
mod memory;
mod packet;
mod report;
mod server;
mod service;
mod streams;

pub use report::Report;

use std::path::PathBuf;
use std::time::Instant;

/// Length of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Seconds for each case: for `make test`.
    Short,
    /// Minutes for each case: for `make soak`.
    Long,
}

impl Scale {
    /// Returns `short` or `long`, by the scale.
    fn of<T>(self, short: T, long: T) -> T {
        match self {
            Self::Short => short,
            Self::Long => long,
        }
    }
}

/// Surroundings of a case.
#[derive(Clone, Debug)]
pub struct Scene {
    /// The program `lineside`.
    pub program: PathBuf,
    /// Seed of every choice of the case.
    pub seed: u64,
    /// Length of the run.
    pub scale: Scale,
    /// Breaks the disk on purpose: each start after a kill finds the files as they were at the first kill. A run of
    /// `kill` that finds nothing then is broken itself.
    pub disk_forgets: bool,
}

/// One attack against one service.
#[derive(Clone, Copy)]
pub struct Case {
    /// Name of the attack.
    pub attack: &'static str,
    /// Name of the service, with the datapath where that is not `socket`.
    pub target: &'static str,
    run: fn(&Scene, &mut Report) -> anyhow::Result<()>,
}

/// All cases.
pub const CASES: &[Case] = &[
    case("kill", "transfer", kill::transfer),
    case("kill", "transfer express xdp", kill::transfer_express),
    case("kill", "column", kill::column),
    case("kill", "fabric", kill::fabric),
    case("kill", "hybrid", kill::hybrid),
    case("datagrams", "spv", |scene, report| {
        datagrams::run(scene, report, service::Name::Spv)
    }),
    case("datagrams", "transfer", |scene, report| {
        datagrams::run(scene, report, service::Name::Transfer)
    }),
    case("datagrams", "column", |scene, report| {
        datagrams::run(scene, report, service::Name::Column)
    }),
    case("datagrams", "hybrid", |scene, report| {
        datagrams::run(scene, report, service::Name::Hybrid)
    }),
    case("forged", "spv", |scene, report| {
        forged::run(scene, report, service::Name::Spv, "socket")
    }),
    case("forged", "transfer", |scene, report| {
        forged::run(scene, report, service::Name::Transfer, "socket")
    }),
    case("forged", "column", |scene, report| {
        forged::run(scene, report, service::Name::Column, "socket")
    }),
    case("forged", "spv xdp", |scene, report| {
        forged::run(scene, report, service::Name::Spv, "xdp")
    }),
    case("forged", "transfer xdp", |scene, report| {
        forged::run(scene, report, service::Name::Transfer, "xdp")
    }),
    case("forged", "column xdp", |scene, report| {
        forged::run(scene, report, service::Name::Column, "xdp")
    }),
    case("memory", "spv", memory::spv),
    case("memory", "transfer", memory::transfer),
    case("memory", "column", memory::column),
    case("memory", "fabric", memory::fabric),
    case("memory", "hybrid", memory::hybrid),
    case("full", "transfer", full::transfer),
    case("full", "column", full::column),
];

const fn case(
    attack: &'static str,
    target: &'static str,
    run: fn(&Scene, &mut Report) -> anyhow::Result<()>,
) -> Case {
    Case { attack, target, run }
}

impl Case {
    /// Runs the case. An error of the run itself, such as a daemon that does not start, becomes a fault of the report.
    pub fn run(&self, scene: &Scene) -> Report {
        let begin = Instant::now();
        let mut report = Report::new(self.attack, self.target, scene.seed);
        if let Err(error) = (self.run)(scene, &mut report) {
            report.fault(format!("{error:#}"));
        }
        report.seconds = begin.elapsed().as_secs_f64();
        report
    }
}
