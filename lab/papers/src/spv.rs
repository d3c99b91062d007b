//! Figures 13, 16, 18, 19, 20 and 21 of Y. Sakakibara, S. Morishima, K. Nakamura and H. Matsutani, "A Hardware-Based
//! Caching System on FPGA NIC for Blockchain" (IEICE Transactions 2018, DOI 10.1587/transinf.2017EDP7290), and the
//! processor load of the server. The paper's cache is meant to relieve the server; the paper shows the server's load
//! only as electrical power.
//!
//! [`collisions`] measures the real fast-path table and needs no special rights. All other figures run the contestants
//! of `lineside-bench` and need root, BPF and two cores. If these are missing, only figure 13 is created, and the
//! section contains the reason.

pub mod collisions;
mod figures;
mod measure;
pub mod models;
mod paper;

use crate::error::{Result, writing};
use crate::found;
use crate::section::{Paper, Section};
use collisions::{Collisions, Index, KEYS, LINE_BITS, WAYS};
use lineside_bench::Progress;
use lineside_bench::figures::Machine;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Options of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Folder for the CSV and SVG files; created if it is missing.
    pub out: PathBuf,
    /// Seed of the TXIDs.
    pub seed: u64,
    /// Number of rounds of each run; each value is the median of its rounds.
    pub rounds: usize,
    /// Length of each run.
    pub duration: Duration,
    /// Total numbers of transactions for figures 16 and 18; powers of two, at most 2^20.
    pub transactions: Vec<usize>,
    /// Number of blocks for figure 21; a power of two.
    pub blocks: usize,
    /// log2 of the numbers of lines of the tables that figure 13 measures.
    pub line_bits: Vec<u32>,
}

impl Options {
    /// Returns the options of the full run, which takes about four minutes.
    pub fn new(out: PathBuf) -> Self {
        Self {
            out,
            seed: 1,
            rounds: 5,
            duration: Duration::from_millis(240),
            transactions: vec![1 << 18, 1 << 19, 1 << 20],
            blocks: 256,
            line_bits: vec![LINE_BITS, LINE_BITS + 2],
        }
    }

    /// Returns the options of a short run, with fewer points, which takes at most two minutes.
    pub fn quick(out: PathBuf) -> Self {
        Self {
            rounds: 2,
            duration: Duration::from_millis(80),
            transactions: vec![1 << 18, 1 << 19],
            line_bits: vec![LINE_BITS],
            ..Self::new(out)
        }
    }
}

/// Row of figure 13 for one table. It has measured values if this table was measured.
pub(crate) struct CollisionRow {
    line_bits: u32,
    ways: u32,
    index: Index,
    keys: usize,
    computed: Collisions,
    measured: Option<Collisions>,
}

/// Creates the figures, and calls `progress` before each step.
///
/// # Errors
/// A contestant fails, or a file cannot be written. Missing rights are not an error; see [`Section::not_measured`].
pub fn run(options: &Options, progress: &mut dyn FnMut(Progress)) -> Result<Section> {
    let (began, mut machine) = (Instant::now(), Machine::read());
    fs::create_dir_all(&options.out).map_err(writing(&options.out))?;
    progress(Progress {
        doing: "collisions",
        done: 0,
        of: measure::steps(options) + 1,
    });
    let collisions = collision_rows(options)?;
    let (measured, not_measured) = match measure::run(options, progress) {
        Ok(measured) => (Some(measured), None),
        Err(error) if error.is_of_the_machine() => (None, Some(error)),
        Err(error) => return Err(error.into()),
    };
    let mut figures = figures::collisions(&options.out, &collisions)?;
    let mut findings = paper::collisions(&collisions);
    if let Some(measured) = &measured {
        figures.extend(figures::measured(&options.out, measured)?);
        findings.extend(paper::measured(measured));
    }
    let not_measured = not_measured.map(|why| {
        format!("figures 16, 18, 19, 20, 21 and the server's load (table 6) are not measured: {why}")
    });
    machine.end_of_run();
    let counts = measured.map_or([0; 2], |measured| [measured.lost, measured.wrong]);
    Ok(Section {
        paper: Paper::Spv,
        command: "lineside-lab papers spv".into(),
        findings,
        figures,
        not_measured: not_measured.into_iter().collect(),
        warnings: found::warnings(&machine),
        failures: failures(counts),
        took_s: began.elapsed().as_secs_f64(),
    })
}

/// Returns descriptions of the lost requests and wrong replies.
fn failures(counts: [u64; 2]) -> Vec<String> {
    let named = counts.into_iter().zip(["requests lost", "wrong replies"]);
    let found = named.filter(|(count, _)| *count > 0);
    found.map(|(count, name)| format!("{count} {name}")).collect()
}

fn collision_rows(options: &Options) -> Result<Vec<CollisionRow>> {
    let mut rows = Vec::new();
    for line_bits in LINE_BITS..=LINE_BITS + 2 {
        let is_measured = options.line_bits.contains(&line_bits);
        for index in [Index::Keyed, Index::LowBits] {
            for ways in WAYS {
                let measured = if is_measured {
                    Some(collisions::measure(line_bits, ways, index, &KEYS, options.seed)?)
                } else {
                    None
                };
                rows.extend(KEYS.into_iter().enumerate().map(|(at, keys)| CollisionRow {
                    line_bits,
                    ways,
                    index,
                    keys,
                    computed: collisions::computed(keys, line_bits, ways),
                    measured: measured.as_ref().map(|measured| measured[at]),
                }));
            }
        }
    }
    Ok(rows)
}
