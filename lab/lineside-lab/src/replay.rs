//! `lineside-lab replay` sends the frames of a capture through a datapath again.

use crate::demo_chain::demo_store;
use crate::replay_transfer;
use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use lineside::config::ConfigError;
use lineside::out::Unwritten;
use lineside::wrong::Wrong;
use lineside::{say, tell};
use lineside_capture::{PcapError, Reader, Record, Target, Writer};
use lineside_conformance::frames::Datapath as FrameRunner;
use lineside_conformance::replay::{ReplayError, Report, Step, replay};
use lineside_conformance::spv::{DatapathKind, FrameDatapath};
use lineside_fastpath::{DropReason, FrameVerdict};
use lineside_service::config::Section;
use lineside_spv::config::{IndexName, NetworkName, Prefill, SpvConfig};
use lineside_spv::host::SpvHost;
use lineside_spv::service::{fill_table, open_chain};
use lineside_spv::store::Store;
use lineside_util::counted;
use lineside_wire::{TRANSFER_PORT, frame};
use serde_json::{Map, Value, json};
use std::fs::{File, Metadata};
use std::io::{BufReader, BufWriter, Read};
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Lease of the fast path in nanoseconds: one day, which is longer than any replay.
const LEASE_NS: u64 = 86_400_000_000_000;

/// Send the frames of a capture through the fast path on one datapath as if they had just arrived, and show the verdict
/// on each frame and the replies. Nothing is sent on any network.
#[derive(Args)]
pub struct Replay {
    /// Datapath: `socket` is the Rust fast path, `xdp` the program in the kernel (not attached), `native` the same C
    /// code without BPF, `rtl` the simulated NIC.
    #[arg(long, value_enum)]
    datapath: Datapath,
    /// Capture in the pcap format, of Ethernet frames.
    file: PathBuf,
    /// Service. `transfer` executes operations (as in `express`), from a ledger without accounts and sessions in which
    /// every sender may create money; the options about the chain and the table are for `spv`.
    #[arg(long, value_enum, default_value = "spv")]
    service: Service,
    /// Address and UDP port that the fast path answers for [default: the destination port of most datagrams, with that
    /// of the service preferred, and every destination address at that port].
    #[arg(long)]
    to: Option<SocketAddr>,
    /// Directory of the chain store [default: the demonstration chain].
    #[arg(long)]
    data: Option<PathBuf>,
    /// Network of the chain store.
    #[arg(long, value_enum)]
    network: Option<NetworkName>,
    /// Place of the TXID index.
    #[arg(long, value_enum)]
    index: Option<IndexName>,
    /// Blocks that are put into the fast path before the replay: none, tip:N or all [default: all].
    #[arg(long, value_parser = |text: &str| Prefill::try_from(text.to_owned()))]
    prefill: Option<Prefill>,
    /// log2 of the number of cache lines of 64 bytes. With `rtl` at most 18, which is then the default.
    #[arg(long)]
    line_bits: Option<u32>,
    /// Write the replies into this pcap file, each with the time of its request.
    #[arg(long, value_name = "OUT.pcap")]
    write: Option<PathBuf>,
    /// Print a line, or a JSON object, for each frame.
    #[arg(long)]
    verbose: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Service {
    Spv,
    Transfer,
}

/// Datapath of a replay.
#[derive(Clone, Copy, ValueEnum)]
pub enum Datapath {
    Socket,
    Xdp,
    Native,
    Rtl,
}

impl Datapath {
    const fn name(self) -> &'static str {
        match self {
            Self::Socket => "socket",
            Self::Xdp => "xdp",
            Self::Native => "native",
            Self::Rtl => lineside_rtl::DATAPATH,
        }
    }
}

/// Fast path of a replay. It answers from its table as long as the host exists.
struct Opened {
    datapath: Box<dyn FrameRunner>,
    /// Host of `spv`.
    _host: Option<SpvHost>,
}

/// Opens the datapath for the endpoint of a replay, and fills its table from the chain of the configuration.
fn open_datapath(kind: Datapath, config: &SpvConfig, target: &Target) -> anyhow::Result<Opened> {
    let of_frames = |kind| -> anyhow::Result<Opened> {
        let (datapath, store) =
            FrameDatapath::open(kind, &config.geometry(), &target.endpoint(), target.port)?;
        Ok(Opened {
            _host: Some(fill(config, &store)?),
            datapath: Box::new(datapath),
        })
    };
    match kind {
        Datapath::Socket => of_frames(DatapathKind::Socket),
        Datapath::Xdp => of_frames(DatapathKind::Xdp),
        Datapath::Native => of_frames(DatapathKind::Native),
        Datapath::Rtl => open_rtl(config, target),
    }
}

/// Opens the simulated NIC with a copy of the filled table.
#[cfg(feature = "rtl")]
fn open_rtl(config: &SpvConfig, target: &Target) -> anyhow::Result<Opened> {
    use lineside_conformance::rtl::RtlDatapath;
    use lineside_conformance::spv::Spv;
    let mut geometry = config.geometry();
    geometry.block_bits = geometry.block_bits.min(lineside_rtl::SIM_BLOCK_BITS);
    let store = Arc::new(Store::anonymous(&geometry).context("the memory of the fast-path table")?);
    let host = fill(config, &store)?;
    let datapath = RtlDatapath::<Spv>::over(&store, &target.endpoint(), target.port)?;
    Ok(Opened {
        datapath: Box::new(datapath),
        _host: Some(host),
    })
}

#[cfg(not(feature = "rtl"))]
fn open_rtl(_config: &SpvConfig, _target: &Target) -> anyhow::Result<Opened> {
    bail!(crate::NO_SIMULATED_NIC)
}

/// Replays the capture and prints the results.
///
/// # Errors
/// Fails if the capture or the chain cannot be read. If the capture is damaged in the middle, the command says so
/// before the replay, prints the results up to the damage, and fails.
pub fn run(arguments: &Replay, as_json: bool) -> anyhow::Result<()> {
    if arguments.service == Service::Transfer
        && let Some(option) = option_of_spv(arguments)
    {
        bail!(Wrong(format!(
            "{option} is an option of --service spv; leave it out to replay a capture of transfer"
        )));
    }
    let config = config(arguments)?;
    let capture = regular_file(&arguments.file)?;
    if let Some(out) = &arguments.write
        && std::fs::metadata(out).is_ok_and(|out| is_same_file(&out, &capture))
    {
        bail!(Wrong(format!(
            "--write {}: that is the capture itself; give another file",
            out.display()
        )));
    }
    let file = arguments.file.display();
    match damage(&mut open(&arguments.file)?) {
        (_, None) => {}
        (0, Some(fault)) => return Err(fault).with_context(|| file.to_string()),
        (frames, Some(fault)) => tell!(
            "lineside: warning: {file}: {fault}: the replay ends after {}",
            first_frames(frames)
        ),
    }
    let mut capture = open(&arguments.file)?;
    let port = match arguments.service {
        Service::Spv => config.listen.port(),
        Service::Transfer => TRANSFER_PORT,
    };
    let target = Target::find(&mut capture, port, arguments.to)
        .with_context(|| arguments.file.display().to_string())?;
    let mut opened = match arguments.service {
        Service::Spv => open_datapath(arguments.datapath, &config, &target)?,
        Service::Transfer => Opened {
            datapath: replay_transfer::open(arguments.datapath, &target, LEASE_NS)?,
            _host: None,
        },
    };
    let out = arguments.write.as_ref().map(|path| (path, File::create(path)));
    let mut out = match out {
        Some((path, file)) => {
            let file = BufWriter::new(file.with_context(|| format!("writing {}", path.display()))?);
            Some(Writer::new(file)?)
        }
        None => None,
    };
    let mut shown = Ok(());
    let mut each = |step: &Step<'_>| -> Result<(), ReplayError> {
        if arguments.verbose && shown.is_ok() {
            shown = show(step, as_json);
        }
        if let (Some(out), Some(FrameVerdict::Transmit)) = (&mut out, step.verdict) {
            out.write(step.record.time_ns, step.left)?;
        }
        Ok(())
    };
    let (report, fault) = replay(&mut open(&arguments.file)?, opened.datapath.as_mut(), &mut each)
        .with_context(|| format!("replaying {}", arguments.file.display()))?;
    if let (Some(out), Some(path)) = (out, &arguments.write) {
        out.finish()
            .with_context(|| format!("writing {}", path.display()))?;
    }
    shown?;
    summary(arguments, &target, &report, as_json)?;
    match fault {
        None => Ok(()),
        Some(fault) => {
            Err(fault).with_context(|| format!("{file}: only {} could be read", first_frames(report.frames)))
        }
    }
}

/// Reads a capture to its end. Returns the number of its frames, and the damage after these frames if there is one.
fn damage(capture: &mut Reader<impl Read>) -> (u64, Option<PcapError>) {
    let mut record = Record::default();
    let mut frames = 0;
    loop {
        match capture.next(&mut record) {
            Ok(true) => frames += 1,
            Ok(false) => return (frames, None),
            Err(fault) => return (frames, Some(fault)),
        }
    }
}

/// Returns the name of the first frames of a capture for a message.
fn first_frames(number: u64) -> String {
    match number {
        1 => "the first frame".into(),
        _ => format!("the first {number} frames"),
    }
}

/// Returns the name of a given option that `transfer` does not have.
fn option_of_spv(arguments: &Replay) -> Option<&'static str> {
    let given = [
        ("--data", arguments.data.is_some()),
        ("--network", arguments.network.is_some()),
        ("--index", arguments.index.is_some()),
        ("--line-bits", arguments.line_bits.is_some()),
        ("--prefill", arguments.prefill.is_some()),
    ];
    given
        .into_iter()
        .find_map(|(name, is_given)| is_given.then_some(name))
}

/// Returns the size of the table if it is given or if the datapath limits it.
fn line_bits(arguments: &Replay) -> anyhow::Result<Option<u32>> {
    let maximum = lineside_rtl::SIM_LINE_BITS;
    match (arguments.datapath, arguments.line_bits) {
        (Datapath::Rtl, None) => Ok(Some(maximum)),
        (Datapath::Rtl, Some(bits)) if bits > maximum => {
            bail!(Wrong(format!(
                "--line-bits {bits}: the table of the simulated NIC has 2^{maximum} lines; give at most {maximum}"
            )))
        }
        (_, given) => Ok(given),
    }
}

fn config(arguments: &Replay) -> anyhow::Result<SpvConfig> {
    let mut section = Section::empty("spv");
    section.set_some("data", arguments.data.as_ref());
    section.set_some("network", arguments.network);
    section.set_some("index", arguments.index);
    section.set_some("line_bits", line_bits(arguments)?);
    section.set("prefill", arguments.prefill.unwrap_or(Prefill::All));
    SpvConfig::parse(&section).map_err(|issues| {
        let file = "the command line".into();
        ConfigError { file, issues }.into()
    })
}

/// Returns the metadata of a capture. The command reads a capture more than once, which a pipe does not permit.
///
/// # Errors
/// The file does not exist, or is not a regular file.
fn regular_file(path: &Path) -> anyhow::Result<Metadata> {
    let file = std::fs::metadata(path).with_context(|| format!("opening {}", path.display()))?;
    if !file.is_file() {
        bail!(Wrong(format!(
            "{}: is not a regular file, and the command reads a capture more than once; write it into a file first",
            path.display()
        )));
    }
    Ok(file)
}

/// Returns true if both are the same file. A file can have several paths, because of links.
fn is_same_file(one: &Metadata, other: &Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

fn open(path: &Path) -> anyhow::Result<Reader<BufReader<File>>> {
    let file = File::open(path).with_context(|| format!("opening {}", path.display()))?;
    Reader::new(BufReader::new(file)).with_context(|| path.display().to_string())
}

/// Fills the fast-path table from the chain of the configuration. The fast path answers from that chain as long as the
/// returned host exists.
fn fill(config: &SpvConfig, store: &Arc<Store>) -> anyhow::Result<SpvHost> {
    let mut warnings = Vec::new();
    let chain = match config.data() {
        Some(_) => open_chain(config, &mut warnings)?,
        None => demo_store()?,
    };
    for warning in warnings {
        tell!("lineside: {warning}");
    }
    Ok(fill_table(config, chain, store, LEASE_NS))
}

/// Returns the name of the verdict on a frame, and the reason if the frame was dropped.
fn outcome(verdict: Option<FrameVerdict>) -> (&'static str, Option<&'static str>) {
    match verdict {
        None => ("not run", None),
        Some(FrameVerdict::Transmit) => ("answered", None),
        Some(FrameVerdict::Pass) => ("passed", None),
        Some(FrameVerdict::Drop(reason)) => ("dropped", Some(reason.name())),
    }
}

fn show(step: &Step<'_>, as_json: bool) -> Result<(), Unwritten> {
    let (outcome, reason) = outcome(step.verdict);
    let (time, bytes) = (step.record.time_ns, step.record.frame.len());
    let ends = frame::parse(&step.record.frame).map(|found| {
        let from = SocketAddr::new(found.source, found.source_port);
        (from, SocketAddr::new(found.destination, found.destination_port))
    });
    if as_json {
        let (from, to) = ends.map(|(from, to)| (from.to_string(), to.to_string())).unzip();
        return say!(
            "{}",
            json!({
                "frame": step.number, "time_ns": time, "bytes": bytes, "verdict": outcome, "reason": reason,
                "from": from, "to": to,
            })
        );
    }
    let ends = ends.map_or("not a UDP datagram".into(), |(from, to)| {
        format!("{from} -> {to}")
    });
    let reason = reason.map_or(String::new(), |reason| format!(" ({reason})"));
    let (seconds, nanos) = (time / 1_000_000_000, time % 1_000_000_000);
    say!(
        "{:>6} {seconds}.{nanos:09} {:>10} {ends}: {outcome}{reason}",
        step.number,
        counted(bytes, "byte")
    )
}

fn summary(arguments: &Replay, target: &Target, report: &Report, as_json: bool) -> Result<(), Unwritten> {
    let drops = DropReason::ALL.map(|reason| (reason.name(), report.drops[reason as usize]));
    let mac: Vec<String> = target.mac.iter().map(|byte| format!("{byte:02x}")).collect();
    let (mac, port) = (mac.join(":"), target.port);
    if as_json {
        let drops: Map<_, _> = drops
            .map(|(name, count)| (name.to_owned(), Value::from(count)))
            .into_iter()
            .collect();
        return say!(
            "{}",
            json!({
                "file": arguments.file.to_string_lossy(), "datapath": arguments.datapath.name(), "mac": mac,
                "port": port, "addresses": target.addresses, "frames": report.frames, "answered": report.answered,
                "passed": report.passed, "dropped": report.dropped(), "drops": drops, "not_run": report.not_run,
                "cut_short": report.cut_short,
            })
        );
    }
    let addresses: Vec<_> = target.addresses.iter().map(ToString::to_string).collect();
    say!(
        "the fast path on datapath {} for {} port {port} at {mac}",
        arguments.datapath.name(),
        addresses.join(", ")
    )?;
    say!(
        "{}: {} answered, {} passed to the host, {} dropped",
        counted(report.frames, "frame"),
        report.answered,
        report.passed,
        report.dropped()
    )?;
    for (name, count) in drops.iter().filter(|(_, count)| *count > 0) {
        say!("  dropped, {name}: {count}")?;
    }
    if report.not_run > 0 {
        say!(
            "  not run, because no datapath takes frames of their length: {}",
            report.not_run
        )?;
    }
    if report.cut_short > 0 {
        say!("  of all frames, captured only in part: {}", report.cut_short)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{damage, first_frames};
    use lineside_capture::{PcapError, Reader, Writer};

    /// Regression test: a capture that is damaged in its first record was refused because it has no datagram.
    #[test]
    fn the_damage_of_a_capture_is_found_with_the_number_of_whole_frames() {
        let mut writer = Writer::new(Vec::new()).expect("a header");
        for _ in 0..2 {
            writer.write(0, &[7; 60]).expect("a record");
        }
        let whole = writer.finish().expect("a capture");
        let found = |bytes: &[u8]| damage(&mut Reader::new(bytes).expect("the header of a capture"));
        assert!(matches!(found(&whole), (2, None)));
        assert!(matches!(found(&whole[..24]), (0, None)));
        // One record has 76 bytes.
        for (bytes, frames) in [(25, 0), (99, 0), (101, 1), (175, 1)] {
            let of = found(&whole[..bytes]);
            assert!(
                of.0 == frames && matches!(of.1, Some(PcapError::CutOff { .. })),
                "{bytes} bytes: {of:?}"
            );
        }
        let with_length = |length: u32| {
            let mut bytes = whole.clone();
            bytes[32..36].copy_from_slice(&length.to_le_bytes());
            found(&bytes)
        };
        assert!(matches!(with_length(200), (0, Some(PcapError::CutOff { .. }))));
        assert!(matches!(
            with_length(u32::MAX),
            (0, Some(PcapError::Damaged { .. }))
        ));
        assert_eq!(first_frames(1), "the first frame");
        assert_eq!(first_frames(2), "the first 2 frames");
    }
}
