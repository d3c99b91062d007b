//! Attacks and faults against running daemons. Independent clients count changes that were lost, executed twice or
//! wrong.
//!
//! Each [`Case`] starts the program `lineside` as its users do, attacks it, and compares the answers that its clients
//! received with the daemon's data at the end. The clients of `transfer`, `column` and `spv` share no code with
//! Lineside: the module `packet` implements their packets from `docs/wire-formats.md`. Requests to `hybrid` are signed
//! by Lineside's own client; the case checks the ledger.
//!
//! | case | attack | requirement |
//! |---|---|---|
//! | `kill` | kill -9 under load, then a new start | each acknowledged change is present exactly once |
//! | `datagrams` | random, truncated, extended and mutated datagrams | the daemon still answers an honest client |
//! | `forged` | source addresses that no host has, on a link | at least 95 % of honest requests are answered |
//! | `memory` | requests that make a service allocate memory | it survives in 512 MiB and answers the honest client |
//! | `full` | a full disk, then free space again | no acknowledged change is lost; changes are refused with an error |
//!
//! ```no_run
//! use lineside_chaos::{CASES, Scale, Scene};
//!
//! let scene = Scene {
//!     program: "target/release/lineside".into(),
//!     seed: 1,
//!     scale: Scale::Short,
//!     disk_forgets: false,
//! };
//! for case in CASES.iter().filter(|case| case.attack == "kill") {
//!     assert!(case.run(&scene).held(), "{} failed", case.target);
//! }
//! ```

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

/// Length of a run, which decides how much each case does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Each case takes seconds; `make test` uses this scale.
    Short,
    /// Each case takes minutes; `make soak` uses this scale.
    Long,
}

impl Scale {
    /// Returns `short` if the scale is short, and `long` if it is long.
    fn of<T>(self, short: T, long: T) -> T {
        match self {
            Self::Short => short,
            Self::Long => long,
        }
    }
}

/// Parameters of a case.
#[derive(Clone, Debug)]
pub struct Scene {
    /// Path of the program `lineside`.
    pub program: PathBuf,
    /// Seed of every random choice of the case.
    pub seed: u64,
    /// Length of the run.
    pub scale: Scale,
    /// True to break the disk on purpose: after each kill, the files are set back to their state at the first kill. If
    /// a run of `kill` then finds no fault, the test itself is broken.
    pub disk_forgets: bool,
}

/// Attack against one service.
#[derive(Clone, Copy)]
pub struct Case {
    /// Name of the attack.
    pub attack: &'static str,
    /// Name of the service, followed by the datapath unless that is `socket`.
    pub target: &'static str,
    run: fn(&Scene, &mut Report) -> anyhow::Result<()>,
}

/// All cases of all attacks.
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
    /// Runs the case. If the run itself fails, for example because a daemon does not start, the report gets a fault.
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
