//! `lineside-lab bench`: measurements on this machine.

use anyhow::bail;
use clap::{Args, Subcommand, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use lineside::say;
use lineside_bench::{Progress, column, cost, electrum, fabric, hybrid, proof, spv, transfer, verify};
use serde_json::Value;
use std::fmt::Display;
use std::path::{Path, PathBuf};

/// Measure a service on this machine: contestants interleaved in one process tree, medians, ratios.
#[derive(Subcommand)]
pub enum Scenario {
    /// Merkle roots for TXIDs, in the paper's packets of 32 bytes, from software, sockets, XDP and memcached. Creates
    /// network namespaces and removes them. Needs root, BPF and two idle cores.
    Spv {
        #[command(flatten)]
        common: Common,
        /// Folder on a disk for the imported blocks and their store; both are removed at the end.
        #[arg(long, default_value_os_t = std::env::temp_dir())]
        data: PathBuf,
        /// Measure Merkle proofs instead of roots, together with everything that `bench electrum` measures.
        #[arg(long)]
        proof: bool,
        #[command(flatten)]
        programs: Programs,
    },
    /// Merkle proofs by the Electrum protocol over TCP, from Lineside and from ElectrumX, over the same chain in one
    /// run. Also measures the time from a node's announcement of a block to the first answer of the fast path. Needs
    /// two idle cores, and no special rights.
    Electrum {
        #[command(flatten)]
        common: Common,
        /// Folder for the servers' data, which is removed at the end.
        #[arg(long, default_value_os_t = std::env::temp_dir())]
        data: PathBuf,
        #[command(flatten)]
        programs: Programs,
    },
    /// Transfers of digital assets: the paper's packets compared with the paper's software, and durable transfers
    /// compared with Redis and PostgreSQL. Creates network namespaces and removes them. Needs root, BPF and two idle
    /// cores.
    Transfer {
        #[command(flatten)]
        common: Common,
        /// Folder on a disk for journals and the other servers' data; all of it is removed at the end.
        #[arg(long, default_value_os_t = std::env::temp_dir())]
        data: PathBuf,
        /// Measure only this figure of the paper, 7 to 11 [default: everything].
        #[arg(long, value_parser = clap::value_parser!(u8).range(7..=11))]
        figure: Option<u8>,
    },
    /// Rows and ranges of `column`: HBase through Thrift 2, the socket datapath and the XDP datapath, with lower hit
    /// rates, smaller tables and writes; and the cost of a packet in the XDP program. Needs root, BPF and two idle
    /// cores. HBase is measured where Java 17 and Maven are installed.
    Column {
        #[command(flatten)]
        common: Common,
        /// Measure only this part.
        #[arg(long, conflicts_with = "ycsb")]
        only: Option<ColumnPart>,
        /// Run YCSB's workloads instead, A to F or the given ones (`--ycsb=BE`), on HBase alone and on HBase with
        /// Lineside in front. Needs Java 17 and Maven.
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
    /// Costs of a fast path: the time that misses and foreign packets lose, the progress of a CPU-bound neighbour on
    /// the server's core, replies from 24 B to 1.4 kB, and the hit ratio from which the fast path of each service pays.
    /// Creates network namespaces and removes them. Needs root, BPF and two idle cores.
    Cost {
        #[command(flatten)]
        common: Common,
        /// Folder on a disk for journals, which are removed at the end.
        #[arg(long, default_value_os_t = std::env::temp_dir())]
        data: PathBuf,
    },
    /// Blocks of Hyperledger Fabric, validated and committed to a ledger on the disk; signatures are verified by
    /// Lineside or by aws-lc-rs. The first run generates the blocks, which remain in the data folder. Needs two idle
    /// cores, and no special rights.
    Fabric {
        #[command(flatten)]
        common: Common,
        /// Folder on a disk for the blocks, which remain, and for ledgers, which are removed at the end.
        #[arg(long, default_value_os_t = std::env::temp_dir())]
        data: PathBuf,
    },
    /// Signed gets and sets of `hybrid` in equal parts, with signatures unchecked, verified one at a time by
    /// libsecp256k1, or verified in batches by Lineside; also proofs, catching up, and audits. Needs two idle cores,
    /// and no special rights. Kafka is measured too in a build with the cargo feature `kafka` where Java and Maven are
    /// installed.
    Hybrid {
        #[command(flatten)]
        common: Common,
        /// Folder on a disk for ledgers, which are removed at the end.
        #[arg(long, default_value_os_t = std::env::temp_dir())]
        data: PathBuf,
        /// Run only workloads A, B and C, by YCSB's own core. Needs Java 17 and Maven.
        #[arg(long)]
        ycsb: bool,
        /// Run only the cases that have a pass criterion, which takes minutes: no other cases, no Kafka.
        #[arg(long, conflicts_with = "ycsb")]
        judged: bool,
    },
    /// ECDSA verification over P-256 and secp256k1, SHA-256 and Keccak-256, compared with aws-lc-rs, ring, libsecp256k1
    /// and RustCrypto's hashes, in one thread. Needs 1.5 GiB of memory and an idle core, and no special rights.
    Verify {
        #[command(flatten)]
        common: Common,
        /// Measure as on a processor without AVX-512: only the portable code, and the libraries.
        #[arg(long)]
        no_avx512: bool,
    },
    /// The FPGA datapath in simulation: cycles for each frame, latency, fills, the recorded cells next to those of the
    /// papers, and the speed of the simulation by itself and at a TAP device. Needs a build with the cargo feature
    /// `rtl`, and for the TAP device root and two cores without other work.
    Rtl {
        #[command(flatten)]
        common: Common,
    },
}

/// Parses the letters of YCSB workloads.
fn workloads(given: &str) -> Result<String, String> {
    match !given.is_empty() && given.chars().all(|letter| ('A'..='F').contains(&letter)) {
        true => Ok(given.to_owned()),
        false => Err("YCSB's workloads are A, B, C, D, E and F".into()),
    }
}

/// Part of `bench column` that can be measured without the others.
#[derive(Clone, Copy, ValueEnum)]
pub enum ColumnPart {
    /// Cost of a packet in the XDP program.
    Packets,
    /// Cost of the coprocessor for HBase's puts. Needs Java 17 and Maven.
    Told,
}

/// Options of every scenario.
#[derive(Args)]
pub struct Common {
    /// Run for less than 40 s. Results vary more.
    #[arg(long)]
    quick: bool,
    /// Seed of the workload; the same seed gives the same workload.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Programs that are measured as separate processes.
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
        bail!(
            "{} does not exist: build it (`cargo build --release -p lineside`), or give another program with --program",
            program.display()
        );
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
/// The scenario could not run, or the report contains a wrong or a lost answer.
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
                    ColumnPart::Packets => column::ScenarioPart::Packets,
                    ColumnPart::Told => column::ScenarioPart::Told,
                }),
                ycsb: (ycsb.clone()).map(|workloads| column::ycsb::Plan::of(workloads, common.quick)),
                ..options
            };
            let report = with_bar(|progress| column::run(&options, progress))?;
            print(&report, report.to_json(), &report.failures(), as_json)
        }
        Scenario::Cost { common, data } => {
            let options = if common.quick {
                cost::Options::quick()
            } else {
                cost::Options::default()
            };
            let options = cost::Options {
                seed: common.seed,
                folder: data.clone(),
                ..options
            };
            let report = with_bar(|progress| cost::run(&options, progress))?;
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
        Scenario::Verify { common, no_avx512 } => {
            let options = if common.quick {
                verify::Options::quick()
            } else {
                verify::Options::default()
            };
            let options = verify::Options {
                seed: common.seed,
                avx512: !no_avx512,
                ..options
            };
            let report = with_bar(|progress| verify::run(&options, progress));
            print(&report, report.to_json(), &report.failures(), as_json)
        }
        Scenario::Rtl { common } => run_rtl(common, as_json),
    }
}

#[cfg(feature = "rtl")]
fn run_rtl(common: &Common, as_json: bool) -> anyhow::Result<()> {
    use lineside_bench::rtl;
    let options = if common.quick {
        rtl::Options::quick()
    } else {
        rtl::Options::default()
    };
    let options = rtl::Options {
        seed: common.seed,
        ..options
    };
    let report = with_bar(|progress| rtl::run(&options, progress))?;
    print(&report, report.to_json(), &report.failures(), as_json)
}

#[cfg(not(feature = "rtl"))]
fn run_rtl(_common: &Common, _as_json: bool) -> anyhow::Result<()> {
    bail!(crate::NO_SIMULATED_NIC)
}

/// Shows a progress bar on standard error during `run`.
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
