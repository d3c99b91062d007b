//! `lineside-lab papers` reproduces the figures of the papers.

use crate::bench::with_bar;
use anyhow::bail;
use clap::{Args, Subcommand};
use lineside::say;
use lineside_papers::{fabric, spv};
use serde_json::{Value, json};
use std::path::PathBuf;

/// Reproduce the figures of a paper as SVG and CSV, with the paper's values next to the measured ones.
#[derive(Subcommand)]
pub enum Paper {
    /// Figures 13, 16, 18, 19, 20 and 21 of the paper on a cache in a network card for light clients of Bitcoin, and
    /// the processor time of the server with and without the fast path. Figure 13 has no requirements; the others
    /// create network namespaces, remove them, and need root, BPF and two idle cores.
    Spv(Arguments),
    /// Table of the paper on Hyperledger Fabric within a SmartNIC: bytes of a transaction's packet and the rate at
    /// which packets are processed, for 1 to 4 endorsements and for other sizes of blocks. Needs no special rights.
    Fabric(FabricArguments),
}

/// Options of the table of the Fabric paper.
#[derive(Args)]
pub struct FabricArguments {
    /// Folder for the file; created if it is missing.
    #[arg(long, value_name = "DIR", default_value = "papers-fabric")]
    out: PathBuf,
    /// Use fewer transactions and fewer sizes of blocks.
    #[arg(long)]
    quick: bool,
    /// Seed of the blocks; the same seed gives the same blocks.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Options of the figures.
#[derive(Args)]
pub struct Arguments {
    /// Folder for the files; created if it is missing.
    #[arg(long, value_name = "DIR", default_value = "papers-spv")]
    out: PathBuf,
    /// Use fewer points and shorter runs, which take at most two minutes.
    #[arg(long)]
    quick: bool,
    /// Seed of the TXIDs; the same seed gives the same TXIDs.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Creates the figures and prints the comparison.
///
/// # Errors
/// Fails if a run failed, if a file cannot be written, or if a reply was lost or wrong.
pub fn run(paper: &Paper, as_json: bool) -> anyhow::Result<()> {
    match paper {
        Paper::Spv(arguments) => run_spv(arguments, as_json),
        Paper::Fabric(arguments) => run_fabric(arguments, as_json),
    }
}

fn run_fabric(arguments: &FabricArguments, as_json: bool) -> anyhow::Result<()> {
    let options = match arguments.quick {
        true => fabric::Options::quick(arguments.out.clone()),
        false => fabric::Options::new(arguments.out.clone()),
    };
    let options = fabric::Options {
        seed: arguments.seed,
        ..options
    };
    let summary = with_bar(|progress| fabric::run(&options, progress))?;
    if as_json {
        say!("{}", fabric_to_json(&summary))?;
    } else {
        lineside::out::text(&summary)?;
    }
    match summary.failures().as_slice() {
        [] => Ok(()),
        failures => bail!("{}", failures.join("; ")),
    }
}

fn fabric_to_json(summary: &fabric::Summary) -> Value {
    let row = |row: &fabric::Row| {
        let paper = row.paper.map(|paper| {
            json!({ "packet_bytes": paper.packet_bytes, "gbit_per_s": paper.gbit_per_s, "tps": paper.tps })
        });
        json!({
            "endorsements": row.endorsements, "block": row.block, "block_bytes_per_tx": row.block_bytes,
            "packet_bytes": row.packet_bytes, "saved_percent": row.saved_percent, "sender_tps": row.sender_tps,
            "receiver_tps": row.receiver_tps, "receiver_gbit_per_s": row.receiver_gbit_per_s, "paper": paper,
        })
    };
    json!({
        "paper": "fabric", "seed": summary.seed, "machine": summary.machine,
        "rows": summary.rows.iter().map(row).collect::<Vec<_>>(), "files": [&summary.file], "wrong": summary.wrong,
    })
}

fn run_spv(arguments: &Arguments, as_json: bool) -> anyhow::Result<()> {
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
