//! `lineside-lab papers`: the papers' figures, made again.

use crate::bench::with_bar;
use anyhow::bail;
use clap::{Args, Subcommand};
use lineside::say;
use lineside_papers::spv;
use serde_json::{Value, json};
use std::path::PathBuf;

/// Make the figures of a paper again, as SVG and CSV, with the paper's values next to ours.
#[derive(Subcommand)]
pub enum Paper {
    /// Figures 13, 16, 18, 19, 20 and 21 of the paper on a cache in a network card for light clients of Bitcoin, and
    /// the processor time of the server with and without the fast path. Figure 13 needs nothing; the others make
    /// network namespaces, remove them, and need root, BPF and two quiet cores.
    Spv(Arguments),
}

/// Options of every paper.
#[derive(Args)]
pub struct Arguments {
    /// Folder for the files; made where it is missing.
    #[arg(long, value_name = "DIR", default_value = "papers-spv")]
    out: PathBuf,
    /// Fewer points and shorter runs: at most two minutes.
    #[arg(long)]
    quick: bool,
    /// The same seed gives the same TXIDs.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Makes the figures and prints the comparison.
///
/// # Errors
/// Where a run fails, a file cannot be written, or a reply was lost or wrong.
pub fn run(paper: &Paper, as_json: bool) -> anyhow::Result<()> {
    let Paper::Spv(arguments) = paper;
    let options = if arguments.quick {
        spv::Options::quick(arguments.out.clone())
    } else {
        spv::Options::new(arguments.out.clone())
    };
    let options = spv::Options {
        seed: arguments.seed,
        ..options
    };
    let summary = with_bar(|progress| spv::run(&options, progress))?;
    if as_json {
        say!("{}", to_json(&summary))?;
    } else {
        lineside::out::text(&summary)?;
    }
    match summary.failures().as_slice() {
        [] => Ok(()),
        failures => bail!("{}", failures.join("; ")),
    }
}

fn to_json(summary: &spv::Summary) -> Value {
    let row = |row: &spv::Comparison| {
        json!({
            "figure": row.figure, "quantity": row.quantity, "paper": row.paper, "ours": row.ours, "unit": row.unit,
            "remark": row.remark,
        })
    };
    json!({
        "paper": "spv", "seed": summary.seed, "machine": summary.machine,
        "comparisons": summary.comparisons.iter().map(row).collect::<Vec<_>>(),
        "files": summary.files, "warning": summary.warning(), "lost": summary.lost, "wrong": summary.wrong,
        "not_measured": summary.not_measured,
    })
}
