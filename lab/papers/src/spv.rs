//! Figures 13, 16, 18, 19, 20 and 21 of Y. Sakakibara, S. Morishima, K. Nakamura and H. Matsutani, "A Hardware-Based
//! Caching System on FPGA NIC for Blockchain" (IEICE Transactions 2018, DOI 10.1587/transinf.2017EDP7290), and the
//! processor load of the server. The paper's cache is meant to relieve the server; the paper shows the server's load
//! only as electrical power.
//!
//! [`collisions`] measures the real fast-path table and needs no special rights. All other figures run the contestants
//! of `lineside-bench` and need root, BPF and two cores. If these are missing, only figure 13 is created, and
//! [`Summary::not_measured`] contains the reason.

pub mod collisions;
mod figures;
mod measure;
pub mod models;
mod paper;

use crate::error::{Result, writing};
use collisions::{Collisions, Index, KEYS, LINE_BITS, WAYS};
use lineside_bench::Progress;
use lineside_bench::figures::Machine;
use measure::Measurements;
use std::fmt::{self, Display, Formatter};
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

pub use paper::Comparison;

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
    /// Returns the options of the full run, which takes about five minutes.
    pub fn new(out: PathBuf) -> Self {
        Self {
            out,
            seed: 1,
            rounds: 5,
            duration: Duration::from_millis(300),
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

/// Result of a run.
#[derive(Clone, Debug)]
pub struct Summary {
    /// Machine on which the run took place.
    pub machine: Machine,
    /// Seed of the TXIDs.
    pub seed: u64,
    /// Values of the paper next to those of Lineside.
    pub comparisons: Vec<Comparison>,
    /// Files that were written.
    pub files: Vec<PathBuf>,
    /// Number of requests lost in the closed loops of the socket client.
    pub lost: u64,
    /// Number of wrong replies.
    pub wrong: u64,
    /// Reason why only figure 13 was created; `None` if all figures were created.
    pub not_measured: Option<String>,
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
/// A contestant fails, or a file cannot be written. Missing rights are not an error; see [`Summary::not_measured`].
pub fn run(options: &Options, progress: &mut dyn FnMut(Progress)) -> Result<Summary> {
    let machine = Machine::read();
    fs::create_dir_all(&options.out).map_err(writing(&options.out))?;
    progress(Progress {
        doing: "collisions",
        done: 0,
        of: measure::steps(options) + 1,
    });
    let collisions = collision_rows(options)?;
    let (measured, not_measured) = match measure::run(options, progress) {
        Ok(measured) => (Some(measured), None),
        Err(error) if error.is_of_the_machine() => (None, Some(error.to_string())),
        Err(error) => return Err(error.into()),
    };
    let mut files = figures::collisions(&options.out, &collisions)?;
    let mut comparisons = paper::collisions(&collisions);
    if let Some(measured) = &measured {
        files.extend(figures::measured(&options.out, measured)?);
        comparisons.extend(paper::measured(measured));
    }
    files.push(paper::write(&options.out, &comparisons)?);
    let count = |of: fn(&Measurements) -> u64| measured.as_ref().map_or(0, of);
    Ok(Summary {
        machine,
        seed: options.seed,
        comparisons,
        files,
        lost: count(|measured| measured.lost),
        wrong: count(|measured| measured.wrong),
        not_measured,
    })
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

/// Maximum load average of a quiet machine. Above it the report has a warning, because a busy machine takes processor
/// time from servers but hardly from XDP.
const QUIET_LOAD_MAX: f64 = 0.3;

impl Summary {
    /// Returns a warning if the machine was too busy for valid ratios between a datapath and the software.
    pub fn warning(&self) -> Option<String> {
        let load = self.machine.load_before;
        (load > QUIET_LOAD_MAX).then(|| {
            format!(
                "the machine was not quiet: its load average was {load} before the run, which slows the servers, so \
                 ratios to `sw` are too large"
            )
        })
    }

    /// Returns the failures of the system under test: replies that were lost or wrong.
    pub fn failures(&self) -> Vec<String> {
        let counts = [(self.lost, "requests lost"), (self.wrong, "wrong replies")];
        let found = counts.into_iter().filter(|(count, _)| *count > 0);
        found.map(|(count, name)| format!("{count} {name}")).collect()
    }
}

impl Display for Summary {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        writeln!(out, "papers spv, seed {}, on {}\n", self.seed, self.machine)?;
        writeln!(
            out,
            "{:<8}{:<62}{:>18}{:>14}",
            "figure", "quantity", "paper", "ours"
        )?;
        for row in &self.comparisons {
            let ours = crate::table::number(row.ours) + if row.unit.is_empty() { "" } else { " " } + row.unit;
            writeln!(
                out,
                "{:<8}{:<62}{:>18}{ours:>14}",
                row.figure, row.quantity, row.paper
            )?;
            if !row.remark.is_empty() {
                writeln!(out, "{:<8}  {}", "", row.remark)?;
            }
        }
        if let Some(warning) = self.warning() {
            writeln!(out, "\n{warning}")?;
        }
        if let Some(why) = &self.not_measured {
            writeln!(
                out,
                "\nfigures 16, 18, 19, 20, 21 and the server's load are not measured: {why}"
            )?;
        }
        writeln!(out)?;
        self.files
            .iter()
            .try_for_each(|file| writeln!(out, "wrote {}", file.display()))
    }
}
