//! `lineside bench`: the figures, measured here.

use anyhow::bail;
use clap::{Args, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};
use lineside_bench::Report;
use lineside_bench::spv::{self, Options};
use std::path::PathBuf;

/// Measure a service on this machine: contestants interleaved in one process tree, medians, ratios. Makes network
/// namespaces and removes them; needs root, BPF and two quiet cores.
#[derive(Subcommand)]
pub enum Scenario {
    /// Merkle roots for TXIDs, the paper's 32 bytes for 32 bytes, from software, sockets, XDP and memcached.
    Spv(Arguments),
}

/// What every scenario takes.
#[derive(Args)]
pub struct Arguments {
    /// The same, shorter: under 40 s. Figures scatter more.
    #[arg(long)]
    quick: bool,
    /// The same seed gives the same workload.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Folder on a disk, for the blocks that are imported and their store; both are removed.
    #[arg(long, default_value_os_t = std::env::temp_dir())]
    data: PathBuf,
}

/// Runs a scenario and prints its report.
///
/// # Errors
/// What kept it from running, or that the report holds a wrong answer, a lost one or a missed gate.
pub fn run(scenario: &Scenario, as_json: bool) -> anyhow::Result<()> {
    let Scenario::Spv(arguments) = scenario;
    let options = if arguments.quick {
        Options::quick()
    } else {
        Options::default()
    };
    let bar = ProgressBar::new(0);
    if let Ok(style) = ProgressStyle::with_template("{wide_bar} {msg} {pos}/{len} {eta}") {
        bar.set_style(style);
    }
    let report = spv::run(
        &Options {
            seed: arguments.seed,
            folder: arguments.data.clone(),
            ..options
        },
        &mut |at| {
            bar.set_length(at.of as u64);
            bar.set_position(at.done as u64);
            bar.set_message(at.doing);
        },
    );
    bar.finish_and_clear();
    print(&report?, as_json)
}

fn print(report: &Report, as_json: bool) -> anyhow::Result<()> {
    if as_json {
        println!("{:#}", report.to_json());
    } else {
        print!("{report}");
    }
    match report.failures().as_slice() {
        [] => Ok(()),
        failures => bail!("{}", failures.join("; ")),
    }
}
