//! `lineside explain`: why the fast path answers, passes or drops one frame of a capture, step by step.
//!
//! The steps come from the model (the fast path in Rust), which reports its decisions while it makes them. The
//! datapaths `xdp` and `rtl` run the same frame, and their results are compared with those of the model.

#[cfg(feature = "rtl")]
mod nic;
mod ran;
mod report;

use crate::config::ConfigError;
use crate::out::counted;
use crate::wrong::Wrong;
use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use lineside_capture::{FRAME_BYTES, Reader, Record, Target};
use lineside_fastpath::{Steps, lease};
use lineside_service::config::Section;
use lineside_spv::config::{IndexName, NetworkName, Prefill, SpvConfig};
use lineside_spv::host::SpvHost;
use lineside_spv::service::{fill_table, open_chain};
use lineside_spv::store::Store;
use lineside_spv::{datapath, nic as spv_nic};
use lineside_xdp::XdpDatapath;
use ran::{Ran, run_model, run_xdp};
use report::Report;
use std::fs::File;
use std::io::BufReader;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Time for which the fast path may answer in nanoseconds: one day, which is longer than the command runs.
const LEASE_NS: u64 = 86_400_000_000_000;
/// Longest frame that the RTL processes; it passes longer ones to the host.
const RTL_FRAME_BYTES_MAX: usize = 1536;

/// Show why the fast path of `spv` answers, passes or drops a frame of a capture, step by step.
///
/// Prints each rule that was applied to the frame, with the bytes it looked at and its result, the verdict, the
/// counters that changed, and how the reply differs from the request. Nothing is sent on any network. The fast-path
/// table is filled from a chain store; a running server's own table is not read.
#[derive(Args)]
pub struct Explain {
    /// Capture in the pcap format, of Ethernet frames.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Number of the frame in the capture; the first one is 1.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    frame: u64,
    /// Datapath whose result is shown and compared with the model's: `socket` is the model itself, `xdp` the program in
    /// the kernel (not attached; needs root), `rtl` the simulated NIC
    #[arg(long, value_enum, default_value_t = Datapath::Socket)]
    datapath: Datapath,
    /// Address and UDP port that the fast path answers for [default: the destination port of most datagrams, with 7701
    /// preferred, and every destination address at that port]
    #[arg(long, value_name = "ADDR:PORT", value_parser = crate::address::parse)]
    to: Option<SocketAddr>,
    /// Directory of the chain store that fills the fast-path table [default: none, so the table is empty]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Network of the chain store [default: that of the store]
    #[arg(long, value_enum)]
    network: Option<NetworkName>,
    /// Place of the TXID index [default: memory]
    #[arg(long, value_enum)]
    index: Option<IndexName>,
    /// Blocks that are put into the fast path before: none, tip:N or all
    #[arg(
        long,
        value_name = "BLOCKS",
        default_value = "all",
        value_parser = |text: &str| Prefill::try_from(text.to_owned())
    )]
    prefill: Prefill,
    /// log2 of the number of cache lines of 64 bytes, 3 to 28; with `rtl` at most 18 [default: 22; with rtl: 18]
    #[arg(long, value_name = "BITS")]
    line_bits: Option<u32>,
    /// Write the signals of the simulated NIC into this FST file; needs --datapath rtl
    #[arg(long, value_name = "FILE.fst")]
    waveform: Option<PathBuf>,
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
/// The capture, the frame or the chain cannot be read, the datapath cannot run, or its result differs from the model's.
pub fn run(arguments: &Explain, as_json: bool) -> anyhow::Result<()> {
    check_waveform(arguments)?;
    let config = config(arguments)?;
    let file = arguments.file.display().to_string();
    let record = record(arguments)?;
    let target = Target::find(&mut open(&arguments.file)?, config.listen.port(), arguments.to)
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
    let (model, steps, other, cycles) = run_all(arguments, &config, &target, &record.frame)?;
    let expected = match arguments.datapath {
        Datapath::Rtl => ran::expected_of_rtl(&model, &steps, &record.frame, RTL_FRAME_BYTES_MAX),
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
        target: &target,
        datapath: arguments.datapath.name(),
        steps: steps.as_slice(),
        model: &model,
        other: other.as_ref(),
        left_to_host: expected.as_ref().map(|(_, reason)| *reason),
        cycles: cycles.as_ref(),
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
fn run_all(
    arguments: &Explain,
    config: &SpvConfig,
    target: &Target,
    frame: &[u8],
) -> anyhow::Result<Results> {
    let mut geometry = config.geometry();
    if arguments.datapath == Datapath::Rtl {
        geometry = spv_nic::geometry(geometry);
    }
    let no_memory = || "the memory of the fast-path table";
    let endpoint = target.endpoint();
    if arguments.datapath == Datapath::Xdp {
        let mut program = XdpDatapath::load(vec![datapath::program(&geometry, target.port)], None)?;
        program.start(&endpoint)?;
        let store = Arc::new(datapath::store(&mut program, &geometry)?);
        store.format(&geometry).with_context(no_memory)?;
        let _host = fill(config, &store)?;
        let (model, steps) = run_model(&store, &endpoint, target.port, frame);
        let other = run_xdp(&mut program, frame)?;
        return Ok((model, steps, Some(other), None));
    }
    let store = Arc::new(Store::anonymous(&geometry).with_context(no_memory)?);
    let _host = fill(config, &store)?;
    let (model, steps) = run_model(&store, &endpoint, target.port, frame);
    if arguments.datapath == Datapath::Socket {
        return Ok((model, steps, None, None));
    }
    #[cfg(feature = "rtl")]
    {
        let waveform = arguments.waveform.as_deref();
        let (other, cycles) = nic::run_nic(&store, &endpoint, target.port, frame, waveform)?;
        Ok((model, steps, Some(other), Some(cycles)))
    }
    #[cfg(not(feature = "rtl"))]
    Err(lineside_rtl::RtlError::NotBuilt.into())
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

fn config(arguments: &Explain) -> anyhow::Result<SpvConfig> {
    let maximum = lineside_rtl::SIM_LINE_BITS;
    let mut section = Section::empty("spv");
    section.set_some("data", arguments.data.as_ref());
    section.set_some("network", arguments.network);
    section.set_some("index", arguments.index);
    match (arguments.datapath, arguments.line_bits) {
        (Datapath::Rtl, None) => section.set("line_bits", maximum),
        (Datapath::Rtl, Some(bits)) if bits > maximum => bail!(Wrong(format!(
            "--line-bits {bits}: the table of the simulated NIC has 2^{maximum} lines; give at most {maximum}"
        ))),
        (_, given) => section.set_some("line_bits", given),
    }
    section.set("prefill", arguments.prefill);
    SpvConfig::parse(&section).map_err(|issues| {
        let file = "the command line".into();
        ConfigError { file, issues }.into()
    })
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

/// Fills the table from the chain store, if one is given. The fast path answers as long as the returned host exists.
fn fill(config: &SpvConfig, store: &Arc<Store>) -> anyhow::Result<Option<SpvHost>> {
    lease::renew(&store.control().lease_until_ns, LEASE_NS);
    if config.data().is_none() {
        return Ok(None);
    }
    let mut warnings = Vec::new();
    let chain = open_chain(config, &mut warnings)?;
    for warning in warnings {
        tell!("lineside: {warning}");
    }
    Ok(Some(fill_table(config, chain, store, LEASE_NS)))
}
