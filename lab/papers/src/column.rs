//! Figures 7 and 8 of A. Hamada and H. Matsutani, "Design and Implementation of Hardware Cache Mechanism and NIC for
//! Column-Oriented Databases"; the bytes of its answers; and its future work: the hit ratio against the size of the
//! cache, throughput at lower hit ratios, and puts.
//!
//! [`bytes`] is arithmetic and needs no special rights. All other figures run the contestants of `lineside-bench` and
//! need root, BPF and two cores; comparisons with software need HBase. If these are missing, [`Section::not_measured`]
//! contains the reason.

pub mod bytes;
mod figures;
mod measure;
mod paper;

use crate::error::{Result, writing};
use crate::found;
use crate::section::{Paper, Section};
use lineside_bench::Progress;
use lineside_bench::figures::Machine;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Options of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Folder for the files; created if it is missing.
    pub out: PathBuf,
    /// Seed of the rows that the requests of the sweeps are for.
    pub seed: u64,
    /// Number of rounds of figures 7 and 8; each value is the median of its rounds.
    pub rounds: usize,
    /// Length of each run of figures 7 and 8.
    pub duration: Duration,
    /// Time for which each kind of request is sent to HBase before the first run.
    pub warm_up: Duration,
    /// Duration of the warm-up of each point of a sweep, and of its measurement.
    pub point: Duration,
    /// Number of puts of each kind in a round.
    pub puts: u32,
}

impl Options {
    /// Returns the options of the full run, which takes about three minutes.
    pub fn new(out: PathBuf) -> Self {
        Self {
            out,
            seed: 1,
            rounds: 3,
            duration: Duration::from_millis(500),
            warm_up: Duration::from_secs(3),
            point: Duration::from_secs(2),
            puts: 1_000,
        }
    }

    /// Returns the options of a short run, which takes about a minute.
    pub fn quick(out: PathBuf) -> Self {
        Self {
            rounds: 1,
            duration: Duration::from_millis(120),
            warm_up: Duration::from_millis(500),
            point: Duration::from_millis(300),
            puts: 200,
            ..Self::new(out)
        }
    }
}

/// Creates the figures, and calls `progress` before each step.
///
/// # Errors
/// A contestant fails, or a file cannot be written. Missing rights are not an error; see [`Section::not_measured`].
pub fn run(options: &Options, progress: &mut dyn FnMut(Progress)) -> Result<Section> {
    let began = Instant::now();
    let mut machine = Machine::read();
    fs::create_dir_all(&options.out).map_err(writing(&options.out))?;
    let mut not_measured = Vec::new();
    let measured = match measure::run(options, progress) {
        Ok(measured) => Some(measured),
        Err(error) if error.is_of_the_machine() => {
            not_measured.push(format!("all but the bytes of an answer: {error}"));
            None
        }
        Err(error) => return Err(error.into()),
    };
    machine.end_of_run();
    let warnings = found::warnings(&machine);
    let mut figures = figures::bytes(&options.out)?;
    let mut findings = paper::bytes();
    let mut failures = Vec::new();
    if let Some(measured) = &measured {
        figures.extend(figures::measured(&options.out, measured)?);
        findings.extend(paper::measured(measured, warnings.is_empty()));
        failures.extend(measured.failures());
        let absent = measured.absent.as_ref();
        not_measured.extend(absent.map(|why| format!("the paper's software (HBase) and puts to it: {why}")));
    }
    Ok(Section {
        paper: Paper::Column,
        command: "lineside-lab papers column".into(),
        findings,
        figures,
        not_measured,
        warnings,
        failures,
        took_s: began.elapsed().as_secs_f64(),
    })
}
