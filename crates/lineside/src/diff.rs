//! `lineside diff`: planes against their model.

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use lineside_plane::diff::{DiffError, Seen, column, spv, transfer};
use lineside_plane::frames::PlaneKind;
use lineside_plane::xdp::XdpError;
use serde_json::json;
use std::fmt::Debug;

/// Send random, mutated and truncated frames through a service's model and another plane: verdict, every byte, counters
/// and the store must be equal.
#[derive(Args)]
pub struct Diff {
    /// The service.
    #[arg(value_enum, default_value = "spv")]
    service: Service,
    /// The service, as an option.
    #[arg(long = "service", value_enum, hide = true)]
    also: Option<Service>,
    /// The two planes: the model is that of `socket`; `xdp` runs in the kernel, `native` is the same C without it.
    #[arg(long, value_delimiter = ',', default_value = "socket,xdp")]
    planes: Vec<Plane>,
    /// Frames, over all cases.
    #[arg(long, default_value_t = 200_000, value_parser = clap::value_parser!(u64).range(1..))]
    count: u64,
    /// The same seed gives the same frames.
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
enum Plane {
    Socket,
    Xdp,
    Native,
}

/// Compares, and prints what was seen.
///
/// # Errors
/// The first difference.
pub fn run(arguments: &Diff, as_json: bool) -> anyhow::Result<()> {
    let against = match arguments.planes.as_slice() {
        [Plane::Socket, Plane::Xdp] | [Plane::Xdp, Plane::Socket] => PlaneKind::Xdp,
        [Plane::Socket, Plane::Native] | [Plane::Native, Plane::Socket] => PlaneKind::Native,
        _ => bail!("--planes: socket,xdp or socket,native"),
    };
    match arguments.also.unwrap_or(arguments.service) {
        Service::Spv => each(
            arguments,
            "spv",
            &spv::cases(),
            against,
            as_json,
            |case, plane, count, seed| spv::run(case, plane, count, seed).map(|(seen, _)| seen),
        ),
        Service::Column => each(
            arguments,
            "column",
            &column::cases(),
            against,
            as_json,
            |case, plane, count, seed| column::run(case, plane, count, seed).map(|(seen, _)| seen),
        ),
        Service::Transfer => {
            let cases = transfer::cases()?;
            each(
                arguments,
                "transfer",
                &cases,
                against,
                as_json,
                |case, plane, count, seed| transfer::run(case, plane, count, seed).map(|(seen, _)| seen),
            )
        }
    }
}

/// Every case of a service; where BPF is not allowed, the same C natively.
fn each<C: Debug>(
    arguments: &Diff,
    service: &str,
    cases: &[C],
    mut against: PlaneKind,
    as_json: bool,
    compare: impl Fn(&C, PlaneKind, u64, u64) -> Result<Seen, DiffError>,
) -> anyhow::Result<()> {
    let count = arguments.count.div_ceil(cases.len() as u64).max(1);
    let mut all = Seen::default();
    for (number, case) in cases.iter().enumerate() {
        let seed = arguments.seed.wrapping_add(number as u64);
        let compared = match compare(case, against, count, seed) {
            Err(DiffError::Xdp(XdpError::NotAllowed(why))) if against == PlaneKind::Xdp => {
                tell!("lineside: no BPF here ({why}): running the same C natively");
                against = PlaneKind::Native;
                compare(case, against, count, seed)
            }
            other => other,
        };
        let seen = compared.with_context(|| format!("{case:?}, seed {seed}"))?;
        all.add(&seen);
    }
    let plane = against.name();
    let dropped: u64 = all.dropped.iter().sum();
    if as_json {
        say!(
            "{}",
            json!({
                "service": service, "planes": ["socket", plane], "seed": arguments.seed, "cases": cases.len(),
                "frames": all.frames, "answered": all.transmitted, "passed": all.passed, "dropped": dropped,
                "differences": 0,
            })
        )?;
    } else {
        say!(
            "{service}, socket against {plane}: {} frames in {} cases equal \
             ({} answered, {} passed, {dropped} dropped)",
            all.frames,
            cases.len(),
            all.transmitted,
            all.passed
        )?;
    }
    Ok(())
}
