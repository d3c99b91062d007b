//! `lineside diff`: planes against their model.

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use lineside_plane::diff::spv::{Against, cases, run as compare};
use lineside_plane::diff::{DiffError, Seen};
use lineside_plane::xdp::XdpError;
use serde_json::json;

/// Send random, mutated and truncated frames through a service's model and another plane: verdict, every byte, counters
/// and the store must be equal.
#[derive(Args)]
pub struct Diff {
    /// The service.
    #[arg(long, value_enum, default_value = "spv")]
    service: Service,
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
    let Service::Spv = arguments.service;
    let mut against = match arguments.planes.as_slice() {
        [Plane::Socket, Plane::Xdp] | [Plane::Xdp, Plane::Socket] => Against::Xdp,
        [Plane::Socket, Plane::Native] | [Plane::Native, Plane::Socket] => Against::Native,
        _ => bail!("--planes: socket,xdp or socket,native"),
    };
    let cases = cases();
    let each = arguments.count.div_ceil(cases.len() as u64).max(1);
    let mut all = Seen::default();
    for (number, case) in cases.iter().enumerate() {
        let seed = arguments.seed.wrapping_add(number as u64);
        let compared = match compare(case, against, each, seed) {
            Err(DiffError::Xdp(XdpError::NotAllowed(why))) if against == Against::Xdp => {
                eprintln!("lineside: no BPF here ({why}): running the same C natively");
                against = Against::Native;
                compare(case, against, each, seed)
            }
            other => other,
        };
        let (seen, _) = compared.with_context(|| format!("{case:?}, seed {seed}"))?;
        all.add(&seen);
    }
    let plane = match against {
        Against::Xdp => "xdp",
        Against::Native => "native",
    };
    let dropped: u64 = all.dropped.iter().sum();
    if as_json {
        println!(
            "{}",
            json!({
                "service": "spv", "planes": ["socket", plane], "seed": arguments.seed, "cases": cases.len(),
                "frames": all.frames, "answered": all.transmitted, "passed": all.passed, "dropped": dropped,
                "differences": 0,
            })
        );
    } else {
        println!(
            "spv, socket against {plane}: {} frames in {} cases equal ({} answered, {} passed, {dropped} dropped)",
            all.frames,
            cases.len(),
            all.transmitted,
            all.passed
        );
    }
    Ok(())
}
