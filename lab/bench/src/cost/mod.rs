//! Scenario `cost`: what a fast path costs those who do not use it, and from which hit ratio it pays. The questions are
//! those of *Demystifying Performance of eBPF Network Applications* (PACMNET 2025).

mod arithmetic;
mod bpf;
pub mod loss;
mod napi;
pub mod neighbour;
pub mod report;
pub mod services;
mod setting;
mod trips;

pub use report::{Report, gate_keys};
pub use setting::Attached;
pub use trips::{Traffic, Waiting};

use crate::error::{BenchError, Result};
use crate::machine::Machine;
use crate::progress::Progress;
use loss::MISSING;
use report::Measured;
use setting::Setting;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Rates of a full run, in requests a second.
const RATES: [u32; 4] = [20_000, 50_000, 100_000, 200_000];
/// Rates of a short run, in requests a second.
const QUICK_RATES: [u32; 2] = [20_000, 100_000];

/// Options of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Seed of the workload.
    pub seed: u64,
    /// Sizes of the part about misses and foreign traffic.
    pub losses: loss::Sizes,
    /// Sizes of the part about the neighbour.
    pub neighbour: neighbour::Sizes,
    /// Sizes of the part about the services.
    pub services: services::Sizes,
    /// Folder for the journals of `transfer`, which are removed at the end.
    pub folder: PathBuf,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            seed: 1,
            losses: loss::Sizes {
                rounds: 15,
                duration: Duration::from_millis(200),
                packets: 400_000,
                calls: 1 << 20,
            },
            neighbour: neighbour::Sizes {
                rounds: 5,
                duration: Duration::from_millis(600),
                rates: &RATES,
            },
            services: services::Sizes {
                rounds: 5,
                duration: Duration::from_millis(400),
            },
            folder: std::env::temp_dir(),
        }
    }
}

impl Options {
    /// Returns the options of a run of less than 40 s.
    pub fn quick() -> Self {
        Self {
            losses: loss::Sizes {
                rounds: 3,
                duration: Duration::from_millis(60),
                packets: 100_000,
                calls: 1 << 17,
            },
            neighbour: neighbour::Sizes {
                rounds: 2,
                duration: Duration::from_millis(200),
                rates: &QUICK_RATES,
            },
            services: services::Sizes {
                rounds: 1,
                duration: Duration::from_millis(100),
            },
            ..Self::default()
        }
    }
}

/// Runs the scenario, and calls `progress` before each step.
///
/// # Errors
/// Fails if the process has no root rights or no BPF, or if a contestant fails. A figure that would be meaningless is
/// void.
pub fn run(options: &Options, progress: &mut dyn FnMut(Progress)) -> Result<Report> {
    let mut machine = Machine::read();
    if machine.cores < 2 {
        return Err(BenchError::TooFewCores);
    }
    let mut done = 0;
    let of = 1
        + loss::steps(&options.losses)
        + services::steps(&options.services)
        + neighbour::steps(&options.neighbour);
    let mut tell = |doing| {
        progress(Progress { doing, done, of });
        done += 1;
    };
    tell("filling the table");
    let mut setting = Setting::new(options.seed)?;
    let workload = Arc::clone(&setting.field.workload);
    setting.field.fastpath.keep(&workload, |number| number >= MISSING);
    let losses = loss::measure(&mut setting, &options.losses, &mut tell)?;
    setting.field.fastpath.keep(&workload, |_| true);
    let services = services::measure(
        &setting,
        &losses,
        &options.services,
        &options.losses,
        &options.folder,
        &mut tell,
    )?;
    // This part changes the interfaces, so it is the last one.
    let neighbour = match neighbour::measure(&setting, &options.neighbour, &mut tell) {
        Err(BenchError::NotMeasured(why)) => Err(why),
        other => Ok(other?),
    };
    machine.end_of_run();
    Ok(Report::new(
        options.seed,
        machine,
        Measured {
            losses,
            services,
            neighbour,
        },
    ))
}
