//! `lineside explain`: why the fast path answers, passes or drops one frame of a capture, step by step.
//!
//! The steps come from the model (the fast path in Rust), which reports its decisions while it makes them. The
//! datapaths `xdp` and `rtl` run the same frame, and their results are compared with those of the model. [`service`] is
//! the interface to a service.

#[cfg(feature = "rtl")]
mod nic;
mod ran;
mod report;
mod service;
mod spv;
mod transfer;

use crate::config::{Config, ConfigError};
use crate::out::counted;
use crate::wrong::Wrong;
use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use lineside_capture::{FRAME_BYTES, Reader, Record, Target};
use lineside_fastpath::Steps;
use lineside_service::config::{ConfigIssue, Section};
use lineside_spv::config::{IndexName, NetworkName, Prefill};
use lineside_transfer::config::TransferMode;
use lineside_xdp::XdpDatapath;
use ran::{Ran, run_model, run_xdp};
use report::Report;
use service::Explained;
use spv::Spv;
use std::fs::File;
use std::io::BufReader;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use transfer::Transfer;

/// Time for which the fast path may answer in nanoseconds: one day, which is longer than the command runs.
const LEASE_NS: u64 = 86_400_000_000_000;
/// Longest frame that the RTL processes; it passes longer ones to the host.
const RTL_FRAME_BYTES_MAX: usize = 1536;

/// Show why the fast path of a service answers, passes or drops a frame of a capture, step by step.
///
/// Prints each rule that was applied to the frame, with the bytes it looked at and its result, the verdict, the
/// counters that changed, and how the reply differs from the request. Nothing is sent on any network. The fast-path
/// table is filled from a chain store (spv) that no server uses, or from a ledger (transfer), which is only read, also
/// while a server uses it. A running server's own table is not read.
#[derive(Args)]
pub struct Explain {
    /// Capture in the pcap format, of Ethernet frames.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Number of the frame in the capture; the first one is 1.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    frame: u64,
    /// Service whose fast path gets the frame
    #[arg(long, value_enum, default_value_t = ServiceName::Spv)]
    service: ServiceName,
    /// Datapath whose result is shown and compared with the model's: `socket` is the model itself, `xdp` the program in
    /// the kernel (not attached; needs root), `rtl` the simulated NIC
    #[arg(long, value_enum, default_value_t = Datapath::Socket)]
    datapath: Datapath,
    /// Address and UDP port that the fast path answers for [default: the destination port of most datagrams, with the
    /// port of the service preferred, and every destination address at that port]
    #[arg(long, value_name = "ADDR:PORT", value_parser = crate::address::parse)]
    to: Option<SocketAddr>,
    /// Configuration file; its section of the service applies, such as the directory and the policies. Options replace
    /// its values
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Directory of the chain store or ledger that fills the fast-path table [default: that of the configuration file;
    /// without one, none, so the table is empty]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// spv: network of the chain store [default: that of the store]
    #[arg(long, value_enum)]
    network: Option<NetworkName>,
    /// spv: place of the TXID index [default: memory]
    #[arg(long, value_enum)]
    index: Option<IndexName>,
    /// spv: blocks that are put into the fast path before: none, tip:N or all [default: that of the configuration file;
    /// without one, all]
    #[arg(
        long,
        value_name = "BLOCKS",
        value_parser = |text: &str| Prefill::try_from(text.to_owned())
    )]
    prefill: Option<Prefill>,
    /// spv: log2 of the number of cache lines of 64 bytes, 3 to 28; with `rtl` at most 18 [default: 22; with rtl: 18]
    #[arg(long, value_name = "BITS")]
    line_bits: Option<u32>,
    /// transfer: part that executes operations: the host (durable) or the fast path (express) [default: that of the
    /// ledger; without one, that of the configuration file]
    #[arg(long, value_enum)]
    mode: Option<TransferMode>,
    /// Write the signals of the simulated NIC into this FST file; needs --datapath rtl
    #[arg(long, value_name = "FILE.fst")]
    waveform: Option<PathBuf>,
}

/// Service of the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ServiceName {
    Spv,
    Transfer,
}

/// Datapath of the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Datapath {
    Socket,
    Xdp,
    Rtl,
}

impl Datapath {
    const fn name(self) -> &'static str {
        match self {
            Self::Socket => "socket",
            Self::Xdp => "xdp",
            Self::Rtl => "rtl",
        }
    }
}

/// Explains the frame and prints the result.
///
/// # Errors
/// The capture, the frame or the data directory cannot be read, the datapath cannot run, or its result differs from the
/// model's.
pub fn run(arguments: &Explain, as_json: bool) -> anyhow::Result<()> {
    check_options(arguments)?;
    check_waveform(arguments)?;
    match arguments.service {
        ServiceName::Spv => explain(arguments, &Spv::new(arguments)?, as_json),
        ServiceName::Transfer => explain(arguments, &Transfer::new(arguments)?, as_json),
    }
}

fn explain<S: Explained>(arguments: &Explain, service: &S, as_json: bool) -> anyhow::Result<()> {
    let file = arguments.file.display().to_string();
    let record = record(arguments)?;
    let target = Target::find(&mut open(&arguments.file)?, service.port(), arguments.to)
        .with_context(|| file.clone())?;
    if arguments.datapath != Datapath::Socket && !FRAME_BYTES.contains(&record.frame.len()) {
        bail!(
            "frame {} has {}: the datapaths `xdp` and `rtl` take frames of {} to {} bytes; use --datapath socket",
            arguments.frame,
            counted(record.frame.len(), "byte"),
            FRAME_BYTES.start(),
            FRAME_BYTES.end()
        );
    }
    let (model, steps, other, cycles) = run_all(arguments, service, &target, &record.frame)?;
    let expected = match arguments.datapath {
        Datapath::Rtl => ran::expected_of_rtl(service, &model, &steps, &record.frame, RTL_FRAME_BYTES_MAX),
        _ => None,
    };
    let differences = other
        .as_ref()
        .map(|other| {
            expected
                .as_ref()
                .map_or(&model, |(expected, _)| expected)
                .differences(other)
        })
        .unwrap_or_default();
    let report = Report {
        file: &file,
        number: arguments.frame,
        record: &record,
        service: S::NAME,
        target: &target,
        datapath: arguments.datapath.name(),
        steps: steps.as_slice(),
        model: &model,
        other: other.as_ref(),
        left_to_host: expected.as_ref().map(|(_, reason)| *reason),
        cycles: cycles.as_ref(),
        meaning_of_code: S::meaning_of_code,
        differences: &differences,
    };
    report.print(as_json)?;
    if differences.is_empty() {
        return Ok(());
    }
    bail!(
        "datapath {} differs from the model: {}",
        arguments.datapath.name(),
        differences.join(", ")
    )
}

/// Results of the model and of the datapath, with the steps of the model and the cycles of the NIC.
type Results = (Ran, Steps, Option<Ran>, Option<ran::Cycles>);

/// Fills a table, and runs the frame on the model and on the chosen datapath with this table.
fn run_all<S: Explained>(
    arguments: &Explain,
    service: &S,
    target: &Target,
    frame: &[u8],
) -> anyhow::Result<Results> {
    let (endpoint, port) = (target.endpoint(), target.port);
    let model_of = |store: &Arc<S::Store>| run_model::<S>(store, &endpoint, port, frame);
    if arguments.datapath == Datapath::Xdp {
        let mut program = XdpDatapath::load(vec![service.program(port)], None)?;
        program.start(&endpoint)?;
        let store = Arc::new(service.store_of(&mut program)?);
        let _host = service.fill(&store)?;
        let (model, steps) = match service.twin(&store)?.map(Arc::new) {
            Some(twin) => {
                let _host = service.fill(&twin)?;
                model_of(&twin)
            }
            None => model_of(&store),
        };
        let other = run_xdp::<S>(&mut program, frame)?;
        return Ok((model, steps, Some(other), None));
    }
    let store = Arc::new(service.store()?);
    let _host = service.fill(&store)?;
    if arguments.datapath == Datapath::Socket {
        let (model, steps) = model_of(&store);
        return Ok((model, steps, None, None));
    }
    #[cfg(feature = "rtl")]
    {
        // The NIC gets the table as it is before the model changes it.
        let mut nic = nic::LoadedNic::new::<S>(&store, &endpoint, port)?;
        let (model, steps) = model_of(&store);
        let (other, cycles) = nic.run::<S>(frame, arguments.waveform.as_deref())?;
        Ok((model, steps, Some(other), Some(cycles)))
    }
    #[cfg(not(feature = "rtl"))]
    Err(lineside_rtl::RtlError::NotBuilt.into())
}

/// Refuses options of the other service, before anything is read.
fn check_options(arguments: &Explain) -> Result<(), Wrong> {
    let of_spv = [
        (arguments.network.is_some(), "--network"),
        (arguments.index.is_some(), "--index"),
        (arguments.prefill.is_some(), "--prefill"),
        (arguments.line_bits.is_some(), "--line-bits"),
    ];
    let of_transfer = [(arguments.mode.is_some(), "--mode")];
    let (others, name, own) = match arguments.service {
        ServiceName::Spv => (&of_transfer[..], Transfer::NAME, Spv::NAME),
        ServiceName::Transfer => (&of_spv[..], Spv::NAME, Transfer::NAME),
    };
    match others.iter().find(|(is_given, _)| *is_given) {
        Some((_, option)) => Err(Wrong(format!(
            "{option}: only for --service {name}, and the service is {own}; leave the option out, or give the other \
             service"
        ))),
        None => Ok(()),
    }
}

/// Reads the section of a service in the configuration file, if one is given, and gives it to `with`, which adds the
/// options and parses it.
///
/// # Errors
/// The file cannot be read, or a value is not valid.
fn configured<C>(
    arguments: &Explain,
    name: &str,
    with: impl FnOnce(&mut Section) -> Result<C, Vec<ConfigIssue>>,
) -> anyhow::Result<C> {
    let mut config = match &arguments.config {
        Some(file) => Config::read(file)?,
        None => Config::default(),
    };
    let section = config.section(name);
    section.set_some("data", arguments.data.as_ref());
    with(section).map_err(|issues| {
        let file = arguments
            .config
            .clone()
            .unwrap_or_else(|| "the command line".into());
        ConfigError { file, issues }.into()
    })
}

/// Refuses a waveform that cannot be written, before anything is read.
fn check_waveform(arguments: &Explain) -> anyhow::Result<()> {
    let Some(waveform) = &arguments.waveform else {
        return Ok(());
    };
    if arguments.datapath != Datapath::Rtl {
        bail!(Wrong(
            "--waveform: only the simulated NIC has signals; give --datapath rtl".into()
        ));
    }
    if !cfg!(feature = "rtl-trace") {
        bail!(
            "this program cannot write waveforms; run `make rtl-setup`, then build with `--features rtl-trace`"
        );
    }
    let from = arguments.file.canonicalize();
    if from.is_ok_and(|from| waveform.canonicalize().is_ok_and(|out| out == from)) {
        bail!(Wrong(format!(
            "--waveform {}: that is the capture itself; give another file",
            waveform.display()
        )));
    }
    Ok(())
}

fn open(path: &Path) -> anyhow::Result<Reader<BufReader<File>>> {
    let file = File::open(path).with_context(|| format!("opening {}", path.display()))?;
    Reader::new(BufReader::new(file)).with_context(|| path.display().to_string())
}

/// Reads the frame of the command line.
fn record(arguments: &Explain) -> anyhow::Result<Record> {
    let mut capture = open(&arguments.file)?;
    let mut record = Record::default();
    for number in 1..=arguments.frame {
        let found = capture.next(&mut record);
        if !found.with_context(|| arguments.file.display().to_string())? {
            let frames = counted(number - 1, "frame");
            bail!(
                "{}: there is no frame {}, because the capture has {frames}",
                arguments.file.display(),
                arguments.frame
            );
        }
    }
    Ok(record)
}
