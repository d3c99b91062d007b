//! `lineside-lab bench`: the figures, measured here.

use anyhow::bail;
use clap::{Args, Subcommand, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use lineside::say;
use lineside_bench::{Progress, column, electrum, fabric, hybrid, proof, spv, transfer, verify};
use serde_json::Value;
use std::fmt::Display;
use std::path::{Path, PathBuf};

/// Measure a service on this machine: contestants interleaved in one process tree, medians, ratios.
#[derive(Subcommand)]
pub enum Scenario {
    /// Merkle roots for TXIDs, the paper's 32 bytes for 32 bytes, from software, sockets, XDP and memcached. Makes
    /// network namespaces and removes them; needs root, BPF and two quiet cores.
    Spv {
        #[command(flatten)]
        common: Common,
        /// Folder on a disk, for the blocks that are imported and their store; both are removed.
        #[arg(long, default_value_os_t = std::env::temp_dir())]
        data: PathBuf,
        /// Merkle proofs in place of roots, with everything that `bench electrum` measures in the same run.
        #[arg(long)]
        proof: bool,
        #[command(flatten)]
        programs: Programs,
    },
    /// Merkle proofs by the Electrum protocol over TCP, ours and ElectrumX's over one chain in one run; and the time
    /// from a node's announcement of a block to its first answer on the fast path. Needs no rights, and two quiet
    /// cores.
    Electrum {
        #[command(flatten)]
        common: Common,
        /// Folder for the servers' data, which is removed.
        #[arg(long, default_value_os_t = std::env::temp_dir())]
        data: PathBuf,
        #[command(flatten)]
        programs: Programs,
    },
    /// Transfers of digital assets: the paper's packets against the paper's software, and durable ones beside Redis and
    /// PostgreSQL. Makes network namespaces and removes them; needs root, BPF and two quiet cores.
    Transfer {
        #[command(flatten)]
        common: Common,
        /// Folder on a disk, for journals and the peers' data; all of it is removed.
        #[arg(long, default_value_os_t = std::env::temp_dir())]
        data: PathBuf,
        /// One of the paper's figures, 7 to 11, instead of everything.
        #[arg(long, value_parser = clap::value_parser!(u8).range(7..=11))]
        figure: Option<u8>,
    },
    /// Rows and ranges of `column`: HBase through Thrift 2, our socket datapath and our XDP datapath side by side, with
    /// fewer hits, less room and writes; what a packet costs in the XDP program. Needs root, BPF and two quiet cores;
    /// HBase takes part where there are Java 17 and Maven.
    Column {
        #[command(flatten)]
        common: Common,
        /// One part alone.
        #[arg(long, conflicts_with = "ycsb")]
        only: Option<ColumnPart>,
        /// YCSB's workloads instead, A to F or those named (`--ycsb=BE`), HBase alone and behind Lineside: needs Java
        /// 17 and Maven.
        #[arg(
            long,
            value_name = "WORKLOADS",
            num_args = 0..=1,
            require_equals = true,
            default_missing_value = "ABCDEF",
            value_parser = workloads
        )]
        ycsb: Option<String>,
    },
    /// Blocks of Hyperledger Fabric validated and committed to a ledger on the disk, by who verifies signatures: ours
    /// or aws-lc-rs. The first run makes the blocks, which stay below the data folder. Needs no rights, and two quiet
    /// cores.
    Fabric {
        #[command(flatten)]
        common: Common,
        /// Folder on a disk, for the blocks, which stay, and for ledgers, which are removed.
        #[arg(long, default_value_os_t = std::env::temp_dir())]
        data: PathBuf,
    },
    /// Signed gets and sets of `hybrid`, half and half, by who verifies signatures: nobody, libsecp256k1 one at a
    /// time, or ours in batches; proofs, catching up, audits. Needs no rights, and two quiet cores. On Kafka, too, in a
    /// build with the cargo feature `kafka` and where there are Java and Maven.
    Hybrid {
        #[command(flatten)]
        common: Common,
        /// Folder on a disk, for ledgers, which are removed.
        #[arg(long, default_value_os_t = std::env::temp_dir())]
        data: PathBuf,
        /// Workloads A, B and C alone, by YCSB's own core: needs Java 17 and Maven.
        #[arg(long)]
        ycsb: bool,
        /// What is judged alone, in minutes: no other cases, no Kafka.
        #[arg(long, conflicts_with = "ycsb")]
        judged: bool,
    },
    /// ECDSA verification over P-256 and secp256k1, SHA-256 and Keccak-256: ours beside aws-lc-rs, ring, libsecp256k1
    /// and RustCrypto's hashes, in one thread. Needs no rights, 1.5 GiB of memory and a quiet core.
    Verify(Common),
}

/// Letters of YCSB's workloads.
fn workloads(given: &str) -> Result<String, String> {
    match !given.is_empty() && given.chars().all(|letter| ('A'..='F').contains(&letter)) {
        true => Ok(given.to_owned()),
        false => Err("YCSB's workloads are A, B, C, D, E and F".into()),
    }
}

/// What of `bench column` can be measured alone.
#[derive(Clone, Copy, ValueEnum)]
pub enum ColumnPart {
    /// What a packet costs in the XDP program.
    Packets,
    /// What the coprocessor costs HBase's puts: needs Java 17 and Maven.
    Told,
}

/// What every scenario takes.
#[derive(Args)]
pub struct Common {
    /// The same, shorter: under 40 s. Figures scatter more.
    #[arg(long)]
    quick: bool,
    /// The same seed gives the same workload.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Programs that are measured as processes of their own.
#[derive(Args)]
pub struct Programs {
    /// The program `lineside` [default: next to this program]
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// The program `electrumx_server` [default: LINESIDE_ELECTRUMX, or on the path]
    #[arg(long, value_name = "FILE")]
    electrumx: Option<PathBuf>,
}

fn electrum_options(common: &Common, data: &Path, programs: &Programs) -> anyhow::Result<electrum::Options> {
    let program = match &programs.program {
        Some(program) => program.clone(),
        None => std::env::current_exe()?.with_file_name("lineside"),
    };
    if !program.exists() {
        bail!("{} is not there: build it, or give --program", program.display());
    }
    let options = if common.quick {
        electrum::Options::quick(program)
    } else {
        electrum::Options::new(program)
    };
    Ok(electrum::Options {
        seed: common.seed,
        folder: data.into(),
        electrumx: programs.electrumx.clone(),
        ..options
    })
}

/// Runs a scenario and prints its report.
///
/// # Errors
/// What kept it from running, or that the report holds a wrong answer or a lost one.
pub fn run(scenario: &Scenario, as_json: bool) -> anyhow::Result<()> {
    match scenario {
        Scenario::Spv {
            common,
            data,
            proof: true,
            programs,
        } => {
            let options = electrum_options(common, data, programs)?;
            let report = with_bar(|progress| proof::run(&options, progress))?;
            print(&report, report.to_json(), &report.failures(), as_json)
        }
        Scenario::Spv { common, data, .. } => {
            let options = if common.quick {
                spv::Options::quick()
            } else {
                spv::Options::default()
            };
            let options = spv::Options {
                seed: common.seed,
                folder: data.clone(),
                ..options
            };
            let report = with_bar(|progress| spv::run(&options, progress))?;
            print(&report, report.to_json(), &report.failures(), as_json)
        }
        Scenario::Electrum {
            common,
            data,
            programs,
        } => {
            let options = electrum_options(common, data, programs)?;
            let report = with_bar(|progress| electrum::run(&options, progress))?;
            print(&report, report.to_json(), &report.failures(), as_json)
        }
        Scenario::Transfer { common, data, figure } => {
            let options = if common.quick {
                transfer::Options::quick()
            } else {
                transfer::Options::default()
            };
            let options = transfer::Options {
                seed: common.seed,
                folder: data.clone(),
                figure: *figure,
                ..options
            };
            let report = with_bar(|progress| transfer::run(&options, progress))?;
            print(&report, report.to_json(), &report.failures(), as_json)
        }
        Scenario::Column { common, only, ycsb } => {
            let options = if common.quick {
                column::Options::quick()
            } else {
                column::Options::default()
            };
            let options = column::Options {
                seed: common.seed,
                only: only.map(|part| match part {
                    ColumnPart::Packets => column::Part::Packets,
                    ColumnPart::Told => column::Part::Told,
                }),
                ycsb: (ycsb.clone()).map(|workloads| column::ycsb::Plan::of(workloads, common.quick)),
                ..options
            };
            let report = with_bar(|progress| column::run(&options, progress))?;
            print(&report, report.to_json(), &report.failures(), as_json)
        }
        Scenario::Fabric { common, data } => {
            let options = if common.quick {
                fabric::Options::quick()
            } else {
                fabric::Options::default()
            };
            let options = fabric::Options {
                seed: common.seed,
                folder: data.clone(),
                ..options
            };
            let report = with_bar(|progress| fabric::run(&options, progress))?;
            print(&report, report.to_json(), &report.failures(), as_json)
        }
        Scenario::Hybrid {
            common,
            data,
            ycsb,
            judged,
        } => {
            let options = if common.quick {
                hybrid::Options::quick()
            } else {
                hybrid::Options::default()
            };
            let options = hybrid::Options {
                seed: common.seed,
                folder: data.clone(),
                ycsb: *ycsb,
                judged: *judged,
                ..options
            };
            let report = with_bar(|progress| hybrid::run(&options, progress))?;
            print(&report, report.to_json(), &report.failures(), as_json)
        }
        Scenario::Verify(common) => {
            let options = if common.quick {
                verify::Options::quick()
            } else {
                verify::Options::default()
            };
            let options = verify::Options {
                seed: common.seed,
                ..options
            };
            let report = with_bar(|progress| verify::run(&options, progress));
            print(&report, report.to_json(), &report.failures(), as_json)
        }
    }
}

/// Shows how far it is while it runs.
pub fn with_bar<T>(run: impl FnOnce(&mut dyn FnMut(Progress)) -> T) -> T {
    let bar = ProgressBar::new(0);
    if let Ok(style) = ProgressStyle::with_template("{wide_bar} {msg} {pos}/{len} {eta}") {
        bar.set_style(style);
    }
    let found = run(&mut |at| {
        bar.set_length(at.of as u64);
        bar.set_position(at.done as u64);
        bar.set_message(at.doing);
    });
    bar.finish_and_clear();
    found
}

fn print(report: &impl Display, json: Value, failures: &[String], as_json: bool) -> anyhow::Result<()> {
    if as_json {
        say!("{json:#}")?;
    } else {
        lineside::out::text(report)?;
    }
    match failures {
        [] => Ok(()),
        failures => bail!("{}", failures.join("; ")),
    }
}
