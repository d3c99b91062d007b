//! `lineside-lab diff` compares datapaths with the Rust model of the fast path.

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use lineside::{say, tell};
use lineside_conformance::diff::{DiffCounts, DiffError, column, spv, transfer};
use lineside_conformance::frames::DatapathKind;
use lineside_xdp::XdpError;
use serde_json::json;
use std::fmt::Debug;

/// Send random, mutated and truncated frames through a service's model and another datapath. The verdict, every byte of
/// the reply, the counters and the store must be equal.
#[derive(Args)]
pub struct Diff {
    /// The service.
    #[arg(value_enum, default_value = "spv")]
    service: Service,
    /// Service, given as an option instead of an argument.
    #[arg(long = "service", value_enum, hide = true)]
    also: Option<Service>,
    /// Datapaths to compare. `socket` is the model; `xdp` runs in the kernel; `native` is the same C code compiled for
    /// user space.
    #[arg(long, value_delimiter = ',', default_value = "socket,xdp")]
    datapaths: Vec<Datapath>,
    /// Number of frames, over all cases.
    #[arg(long, default_value_t = 200_000, value_parser = clap::value_parser!(u64).range(1..))]
    count: u64,
    /// Seed of the frames; the same seed gives the same frames.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[derive(Clone, Copy, ValueEnum)]
enum Service {
    Spv,
    Transfer,
    Column,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Datapath {
    Socket,
    Xdp,
    Native,
}

/// Compares the datapaths and prints the counts.
///
/// # Errors
/// Returns the first difference.
pub fn run(arguments: &Diff, as_json: bool) -> anyhow::Result<()> {
    let against = match arguments.datapaths.as_slice() {
        [Datapath::Socket, Datapath::Xdp] | [Datapath::Xdp, Datapath::Socket] => DatapathKind::Xdp,
        [Datapath::Socket, Datapath::Native] | [Datapath::Native, Datapath::Socket] => DatapathKind::Native,
        _ => bail!("--datapaths: give socket,xdp or socket,native"),
    };
    match arguments.also.unwrap_or(arguments.service) {
        Service::Spv => each(
            arguments,
            "spv",
            &spv::cases(),
            against,
            as_json,
            |case, datapath, count, seed| spv::run(case, datapath, count, seed).map(|(seen, _)| seen),
        ),
        Service::Column => each(
            arguments,
            "column",
            &column::cases(),
            against,
            as_json,
            |case, datapath, count, seed| column::run(case, datapath, count, seed).map(|(seen, _)| seen),
        ),
        Service::Transfer => {
            let cases = transfer::cases()?;
            each(
                arguments,
                "transfer",
                &cases,
                against,
                as_json,
                |case, datapath, count, seed| {
                    transfer::run(case, datapath, count, seed).map(|(seen, _)| seen)
                },
            )
        }
    }
}

/// Compares each case of a service. If loading BPF programs is not permitted, runs the same C code natively instead.
fn each<C: Debug>(
    arguments: &Diff,
    service: &str,
    cases: &[C],
    mut against: DatapathKind,
    as_json: bool,
    compare: impl Fn(&C, DatapathKind, u64, u64) -> Result<DiffCounts, DiffError>,
) -> anyhow::Result<()> {
    let count = arguments.count.div_ceil(cases.len() as u64).max(1);
    let mut all = DiffCounts::default();
    for (number, case) in cases.iter().enumerate() {
        let seed = arguments.seed.wrapping_add(number as u64);
        let compared = match compare(case, against, count, seed) {
            Err(DiffError::Xdp(XdpError::NotAllowed(why))) if against == DatapathKind::Xdp => {
                tell!("lineside: BPF is not available ({why}); running the same C code natively");
                against = DatapathKind::Native;
                compare(case, against, count, seed)
            }
            other => other,
        };
        let seen = compared.with_context(|| format!("{case:?}, seed {seed}"))?;
        all.add(&seen);
    }
    let datapath = against.name();
    let dropped: u64 = all.dropped.iter().sum();
    if as_json {
        say!(
            "{}",
            json!({
                "service": service, "datapaths": ["socket", datapath], "seed": arguments.seed, "cases": cases.len(),
                "frames": all.frames, "answered": all.transmitted, "passed": all.passed, "dropped": dropped,
                "differences": 0,
            })
        )?;
    } else {
        say!(
            "{service}, socket against {datapath}: {} frames in {} cases equal \
             ({} answered, {} passed, {dropped} dropped)",
            all.frames,
            cases.len(),
            all.transmitted,
            all.passed
        )?;
    }
    Ok(())
}
