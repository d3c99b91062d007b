//! `lineside-lab papers` reproduces the figures of the papers.

use crate::bench::with_bar;
use anyhow::bail;
use clap::{Args, Subcommand};
use lineside::out::Unwritten;
use lineside::{say, tell, version};
use lineside_bench::figures::Machine;
use lineside_papers::all::{Parameters, make};
use lineside_papers::report::{Made, Report};
use lineside_papers::section::{Figure, Finding, Paper, Section};
use serde_json::{Value, json};
use std::path::PathBuf;

/// Reproduce the figures of a paper as SVG and CSV, with the paper's values next to the measured ones.
#[derive(Subcommand)]
pub enum Verb {
    /// Figures 13, 16, 18, 19, 20 and 21 of the paper on a cache in a network card for light clients of Bitcoin, and
    /// the processor time of the server with and without the fast path. Figure 13 has no requirements; the others
    /// create network namespaces, remove them, and need root, BPF and two idle cores.
    Spv(Arguments),
    /// Figures 7 to 11 of the paper on transfers of digital assets in a network card, replays of captured transfers,
    /// and the accounts that share an entry of its data store. The figures need root, BPF, two idle cores and a disk;
    /// the other parts have no requirements.
    Transfer(Arguments),
    /// Table of the paper on Hyperledger Fabric within a SmartNIC: bytes of a transaction's packet and the rate at
    /// which packets are processed, for 1 to 4 endorsements and for other sizes of blocks. Needs no special rights.
    Fabric(Arguments),
    /// Figures 7 and 8 of the paper on a cache in a network card for column-oriented databases, the bytes of an answer,
    /// hit ratios, sizes of the cache, and puts. The bytes have no requirements; the other parts need root, BPF and two
    /// idle cores, and for comparisons HBase.
    Column(Arguments),
    /// Figures 1, 3, 4 and 6 and the micro-benchmark of the report on a ledger database with an FPGA card, and the
    /// parameters of its benchmark. Puts ledgers into the folder, which must be on a disk, and removes them. Needs no
    /// special rights.
    Hybrid(Arguments),
    /// All papers, each in its own folder, and one HTML page with the values, plots and files of all of them. Takes at
    /// most 15 minutes. A paper that fails is reported on the page and does not prevent the others.
    All(AllArguments),
}

/// Options of the report of all papers.
#[derive(Args)]
pub struct AllArguments {
    /// Folder for the page and for the folders of the papers; created if it is missing.
    #[arg(long, value_name = "DIR", default_value = "papers")]
    out: PathBuf,
    #[command(flatten)]
    common: Common,
    /// Make only these papers.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<Paper>,
}

/// Options of the figures of one paper.
#[derive(Args)]
pub struct Arguments {
    /// Folder for the files; created if it is missing [default: papers-NAME, for example papers-spv]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    common: Common,
}

/// Options of all papers.
#[derive(Args)]
pub struct Common {
    /// Use fewer points and shorter runs, which take at most two minutes for each paper.
    #[arg(long)]
    quick: bool,
    /// Seed of the workloads; the same seed gives the same requests.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

/// Creates the figures and prints the comparison.
///
/// # Errors
/// Fails if a run failed, if a file cannot be written, or if a reply was lost or wrong.
pub fn run(verb: &Verb, as_json: bool) -> anyhow::Result<()> {
    match verb {
        Verb::Spv(arguments) => one(Paper::Spv, arguments, as_json),
        Verb::Transfer(arguments) => one(Paper::Transfer, arguments, as_json),
        Verb::Fabric(arguments) => one(Paper::Fabric, arguments, as_json),
        Verb::Column(arguments) => one(Paper::Column, arguments, as_json),
        Verb::Hybrid(arguments) => one(Paper::Hybrid, arguments, as_json),
        Verb::All(arguments) => all(arguments, as_json),
    }
}

fn one(paper: Paper, arguments: &Arguments, as_json: bool) -> anyhow::Result<()> {
    let Arguments { out, common } = arguments;
    let parameters = Parameters {
        out: out.clone().unwrap_or_else(|| format!("papers-{paper}").into()),
        quick: common.quick,
        seed: common.seed,
    };
    let mut machine = Machine::read();
    let section = with_bar(|progress| make(paper, &parameters, progress))?;
    machine.end_of_run();
    if as_json {
        say!("{}", to_json(&section, &machine, common.seed))?;
    } else {
        let title = format!("papers {paper}, seed {}, on {machine}", common.seed);
        lineside::out::text(format_args!("{title}\n\n{section}"))?;
    }
    match section.failures.as_slice() {
        [] => Ok(()),
        failures => bail!("{}", failures.join("; ")),
    }
}

fn all(arguments: &AllArguments, as_json: bool) -> anyhow::Result<()> {
    let AllArguments { out, common, only } = arguments;
    let parameters = Parameters {
        out: out.clone(),
        quick: common.quick,
        seed: common.seed,
    };
    let papers = Paper::ALL
        .into_iter()
        .filter(|paper| only.is_empty() || only.contains(paper));
    let papers: Vec<Paper> = papers.collect();
    let mut report = Report::new(parameters, &format!("{} ({})", version::SHORT, version::COMMIT));
    for (number, paper) in papers.iter().enumerate() {
        tell!("lineside: {paper}, paper {} of {}", number + 1, papers.len());
        let made = with_bar(|progress| report.add(*paper, progress));
        if !as_json {
            print(made)?;
        }
    }
    let page = report.write()?;
    if as_json {
        let papers = report.made.iter().map(|made| match &made.section {
            Ok(section) => section_to_json(section),
            Err(error) => json!({ "paper": made.paper.service(), "command": made.command, "error": error }),
        });
        let papers: Vec<_> = papers.collect();
        say!(
            "{}",
            json!({
                "page": page, "seed": common.seed, "machine": report.machine, "papers": papers,
                "took_s": report.took_s(),
            })
        )?;
    } else {
        say!("report: {}, after {:.0} s", page.display(), report.took_s())?;
    }
    match report.failures().as_slice() {
        [] => Ok(()),
        failures => bail!("{}", failures.join("; ")),
    }
}

fn print(made: &Made) -> Result<(), Unwritten> {
    say!(
        "paper {}, {}\n{}\n",
        made.paper.number(),
        made.paper,
        made.command
    )?;
    match &made.section {
        Ok(section) => say!("{section}"),
        Err(error) => say!("failed: {error}\n"),
    }
}

fn to_json(section: &Section, machine: &Machine, seed: u64) -> Value {
    let mut object = section_to_json(section);
    object["seed"] = json!(seed);
    object["machine"] = json!(machine);
    object
}

fn section_to_json(section: &Section) -> Value {
    let finding = |finding: &Finding| {
        json!({
            "figure": finding.figure, "quantity": finding.quantity, "paper": finding.paper,
            "paper_value": finding.paper_value, "ours": finding.ours, "unit": finding.unit,
            "ratio": finding.ratio(), "verdict": finding.verdict.to_string(), "remark": finding.remark,
        })
    };
    let figure = |figure: &Figure| json!({ "title": figure.title, "svg": figure.svg, "csv": figure.csv });
    json!({
        "paper": section.paper.service(), "command": section.command,
        "findings": section.findings.iter().map(finding).collect::<Vec<_>>(),
        "figures": section.figures.iter().map(figure).collect::<Vec<_>>(),
        "files": section.files(), "not_measured": section.not_measured, "warnings": section.warnings,
        "failures": section.failures, "took_s": section.took_s,
    })
}
