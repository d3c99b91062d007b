//! Figures 7 to 11 of Y. Sakakibara, Y. Tokusashi, S. Morishima and H. Matsutani, "Accelerating Blockchain Transfer
//! System Using FPGA-Based NIC", replays of captured transfers, and the accounts that share an entry of the paper's
//! data store.
//!
//! [`replay`] (on the datapaths without BPF) and [`aliasing`] need no special rights. The figures run the contestants
//! of `lineside-bench` and need root, BPF, two cores and a disk. If these are missing, [`Section::not_measured`]
//! contains the reason.

pub mod aliasing;
mod figures;
mod paper;
pub mod replay;

use crate::error::{Result, writing};
use crate::found;
use crate::section::{Paper, Section};
use aliasing::Aliasing;
use lineside_bench::figures::Machine;
use lineside_bench::transfer::{self as bench, figure::Figure as Measured};
use lineside_bench::{BenchError, Progress};
use replay::Replayed;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Numbers of the paper's figures that are measured.
const FIGURES: [u8; 5] = [7, 8, 9, 10, 11];

/// Options of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Folder for the files; created if it is missing. During a run it also contains journals, which must be on a disk.
    pub out: PathBuf,
    /// Seed of the account ids and of the captured transfers.
    pub seed: u64,
    /// Number of rounds of each run of figures 7 to 11; each value is the median of its rounds.
    pub rounds: usize,
    /// Length of each run of figure 11.
    pub duration: Duration,
    /// Numbers of accounts for the accounts that share an entry.
    pub accounts: Vec<usize>,
    /// Number of times that the ids of these accounts are drawn.
    pub draws: usize,
}

impl Options {
    /// Returns the options of the full run, which takes about three minutes.
    pub fn new(out: PathBuf) -> Self {
        Self {
            out,
            seed: 1,
            rounds: 7,
            duration: Duration::from_millis(400),
            accounts: vec![10, 100, 302, 1_000, 3_000, 10_000, 30_000, 65_536, 100_000],
            draws: 20,
        }
    }

    /// Returns the options of a short run, which takes less than a minute.
    pub fn quick(out: PathBuf) -> Self {
        Self {
            rounds: 1,
            duration: Duration::from_millis(100),
            accounts: vec![100, 302, 1_000, 10_000, 65_536],
            draws: 5,
            ..Self::new(out)
        }
    }
}

/// Results of all parts.
struct Parts {
    /// Figures 7 to 11; empty if the machine does not allow them.
    figures: Vec<Measured>,
    replayed: Vec<Replayed>,
    aliasing: Vec<Aliasing>,
    /// False if other work took processor time during the run. Ratios to software are then too large to confirm a
    /// claim.
    is_quiet: bool,
}

/// Creates the figures, and calls `progress` before each step.
///
/// # Errors
/// A contestant fails, or a file cannot be written. Missing rights are not an error; see [`Section::not_measured`].
pub fn run(options: &Options, progress: &mut dyn FnMut(Progress)) -> Result<Section> {
    let began = Instant::now();
    let mut machine = Machine::read();
    fs::create_dir_all(&options.out).map_err(writing(&options.out))?;
    let of = FIGURES.len() + options.accounts.len() + 1;
    let mut done = 0;
    let mut tell = |doing| {
        progress(Progress { doing, done, of });
        done += 1;
    };
    let mut section = Section {
        paper: Paper::Transfer,
        command: "lineside-lab papers transfer".into(),
        findings: Vec::new(),
        figures: Vec::new(),
        not_measured: Vec::new(),
        warnings: Vec::new(),
        failures: Vec::new(),
        took_s: 0.0,
    };
    let mut figures = Vec::new();
    for number in FIGURES {
        tell("figures 7 to 11");
        match figure(options, number, &mut section.failures) {
            Ok(measured) => figures.extend(measured),
            Err(error) if error.is_of_the_machine() => {
                // The benchmark names its own option for the folder of the journals.
                let why = error.to_string().replace("--data", "--out");
                section.not_measured.push(format!("figures 7 to 11: {why}"));
                break;
            }
            Err(error) => return Err(error.into()),
        }
    }
    tell("replay of captures");
    let (replayed, not_measured) = replay::measure(&options.out, options.seed)?;
    section.not_measured.extend(not_measured);
    let mut aliasing = Vec::new();
    for accounts in &options.accounts {
        tell("accounts that share an entry");
        aliasing.push(aliasing::measure(*accounts, options.draws, options.seed)?);
    }
    machine.end_of_run();
    section.warnings = found::warnings(&machine);
    let parts = Parts {
        figures,
        replayed,
        aliasing,
        is_quiet: section.warnings.is_empty(),
    };
    section.figures = figures::write(&options.out, &parts)?;
    section.findings = paper::findings(&parts);
    section.failures.extend(failures(&parts));
    section.took_s = began.elapsed().as_secs_f64();
    Ok(section)
}

/// Measures one of the paper's figures, and appends the faults of the contestants to `failures`.
fn figure(
    options: &Options,
    number: u8,
    failures: &mut Vec<String>,
) -> std::result::Result<Option<Measured>, BenchError> {
    let options = bench::Options {
        seed: options.seed,
        rounds: options.rounds,
        duration: options.duration,
        folder: options.out.clone(),
        figure: Some(number),
        ..bench::Options::default()
    };
    let report = bench::run(&options, &mut |_| ())?;
    for failure in report.failures() {
        failures.push(format!("figure {number}: {failure}"));
    }
    if report.checks.wrong > 0 {
        failures.push(format!("figure {number}: {}", report.checks.wrong_replies));
    }
    Ok(report.figure)
}

fn failures(parts: &Parts) -> Vec<String> {
    let mut failures = Vec::new();
    for replayed in &parts.replayed {
        let Replayed {
            datapath,
            packets,
            wrong_replies,
            wrong_balances,
            ..
        } = replayed;
        if wrong_replies + wrong_balances > 0 {
            failures.push(format!(
                "replay of {packets} packets on the datapath {datapath}: {wrong_replies} replies and {wrong_balances} \
                 balances differ from the model"
            ));
        }
    }
    let aliased = parts.aliasing.iter().filter(|found| found.lineside_wrong > 0);
    failures.extend(aliased.map(|found| {
        format!(
            "the fast path returned the value of another account for {} accounts",
            found.lineside_wrong
        )
    }));
    failures
}
