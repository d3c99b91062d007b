//! `lineside-lab diff` compares datapaths with the Rust model of the fast path.

use anyhow::Context;
use clap::{Args, ValueEnum};
use lineside::wrong::Wrong;
use lineside::{say, tell};
use lineside_conformance::diff::{DiffCounts, DiffError, column, spv, transfer};
use lineside_conformance::frames::DatapathKind;
use lineside_rtl::DATAPATH as RTL;
use lineside_util::counted;
use lineside_wire::{AnsweredOp, COLUMN_FAST_PATH, FastPathList, SPV_FAST_PATH, TRANSFER_FAST_PATH};
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
    /// Datapaths to compare. `socket` is the model, with which the others are compared; `xdp` runs in the kernel;
    /// `native` is the same C code compiled for user space; `rtl` is the simulated NIC, which answers `spv` and
    /// `transfer`.
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
    Rtl,
}

/// Datapath that is compared with the model.
#[derive(Clone, Copy)]
enum Against {
    Frames(DatapathKind),
    Rtl,
}

impl Service {
    const fn name(self) -> &'static str {
        match self {
            Self::Spv => "spv",
            Self::Transfer => "transfer",
            Self::Column => "column",
        }
    }

    /// Returns the requests that the fast path of the service may answer.
    const fn list(self) -> &'static FastPathList {
        match self {
            Self::Spv => &SPV_FAST_PATH,
            Self::Transfer => &TRANSFER_FAST_PATH,
            Self::Column => &COLUMN_FAST_PATH,
        }
    }
}

/// Compares the datapaths and prints the counts.
///
/// # Errors
/// Returns the first difference. A datapath that cannot be compared is refused before any comparison begins.
pub fn run(arguments: &Diff, as_json: bool) -> anyhow::Result<()> {
    let service = arguments.also.unwrap_or(arguments.service);
    let others = against(&arguments.datapaths, service)?;
    #[cfg(not(feature = "rtl"))]
    if others.iter().any(|other| matches!(other, Against::Rtl)) {
        anyhow::bail!(crate::NO_SIMULATED_NIC);
    }
    for against in others {
        compare(arguments, service, against, as_json)?;
    }
    Ok(())
}

/// Returns the datapaths of `service` that are compared with the model.
///
/// # Errors
/// The list does not have the model once, names no other datapath, or names a datapath that the service does not have.
fn against(datapaths: &[Datapath], service: Service) -> Result<Vec<Against>, Wrong> {
    let others = datapaths.iter().filter_map(|datapath| match datapath {
        Datapath::Socket => None,
        Datapath::Xdp => Some(Against::Frames(DatapathKind::Xdp)),
        Datapath::Native => Some(Against::Frames(DatapathKind::Native)),
        Datapath::Rtl => Some(Against::Rtl),
    });
    let others: Vec<_> = others.collect();
    if others.is_empty() || others.len() + 1 != datapaths.len() {
        return Err(Wrong(
            "--datapaths: the comparison needs the model and another datapath; give socket once, and one or more of \
             xdp, native and rtl"
                .into(),
        ));
    }
    if datapaths.contains(&Datapath::Rtl) && service.list().of(RTL).next().is_none() {
        return Err(no_rtl(service));
    }
    Ok(others)
}

/// Returns the error of a service that the RTL does not answer.
fn no_rtl(service: Service) -> Wrong {
    Wrong(format!(
        "--datapaths: {} has no datapath rtl, which answers only spv and transfer; leave rtl out",
        service.name()
    ))
}

fn compare(arguments: &Diff, service: Service, against: Against, as_json: bool) -> anyhow::Result<()> {
    let kind = match (against, service) {
        (Against::Frames(kind), _) => kind,
        (Against::Rtl, Service::Spv) => return rtl::spv(arguments, as_json),
        (Against::Rtl, Service::Transfer) => return rtl::transfer(arguments, as_json),
        (Against::Rtl, Service::Column) => return Err(no_rtl(service).into()),
    };
    let named = (service.name(), service.list());
    match service {
        Service::Spv => each(
            arguments,
            named,
            &spv::cases(),
            kind,
            as_json,
            |case, datapath, count, seed| spv::run(case, datapath, count, seed).map(|(seen, _)| seen),
        ),
        Service::Column => each(
            arguments,
            named,
            &column::cases(),
            kind,
            as_json,
            |case, datapath, count, seed| column::run(case, datapath, count, seed).map(|(seen, _)| seen),
        ),
        Service::Transfer => {
            let cases = transfer::cases()?;
            each(
                arguments,
                named,
                &cases,
                kind,
                as_json,
                |case, datapath, count, seed| {
                    transfer::run(case, datapath, count, seed).map(|(seen, _)| seen)
                },
            )
        }
    }
}

/// Comparisons of the simulated NIC with the model.
#[cfg(feature = "rtl")]
mod rtl {
    use super::{
        Context, Debug, Diff, DiffCounts, DiffError, FastPathList, Names, SPV_FAST_PATH, TRANSFER_FAST_PATH,
    };
    use super::{report, spv as spv_cases};
    use lineside_conformance::diff::rtl::run as run_spv;
    use lineside_conformance::diff::transfer::rtl::{nic_cases, run as run_transfer};

    pub(super) fn spv(arguments: &Diff, as_json: bool) -> anyhow::Result<()> {
        let compare = |case: &_, count, seed| run_spv(case, count, seed).map(|(seen, _)| seen);
        each(
            arguments,
            ("spv", &SPV_FAST_PATH),
            &spv_cases::cases(),
            as_json,
            compare,
        )
    }

    pub(super) fn transfer(arguments: &Diff, as_json: bool) -> anyhow::Result<()> {
        let compare = |case: &_, count, seed| run_transfer(case, count, seed).map(|(seen, _)| seen);
        each(
            arguments,
            ("transfer", &TRANSFER_FAST_PATH),
            &nic_cases()?,
            as_json,
            compare,
        )
    }

    fn each<C: Debug>(
        arguments: &Diff,
        (service, list): (&'static str, &FastPathList),
        cases: &[C],
        as_json: bool,
        compare: impl Fn(&C, u64, u64) -> Result<DiffCounts, DiffError>,
    ) -> anyhow::Result<()> {
        let count = arguments.count.div_ceil(cases.len() as u64).max(1);
        let mut all = DiffCounts::default();
        for (number, case) in cases.iter().enumerate() {
            let seed = arguments.seed.wrapping_add(number as u64);
            all.add(&compare(case, count, seed).with_context(|| format!("{case:?}, seed {seed}"))?);
        }
        let names = Names {
            service,
            datapath: super::RTL,
            listed: super::RTL,
        };
        report(arguments, &names, list, cases.len(), &all, as_json)
    }
}

#[cfg(not(feature = "rtl"))]
mod rtl {
    use super::Diff;
    use anyhow::bail;

    pub(super) fn spv(_arguments: &Diff, _as_json: bool) -> anyhow::Result<()> {
        bail!(crate::NO_SIMULATED_NIC)
    }

    pub(super) use spv as transfer;
}

/// Compares each case of a service. If loading BPF programs is not permitted, runs the same C code natively instead.
fn each<C: Debug>(
    arguments: &Diff,
    (service, list): (&'static str, &FastPathList),
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
    let names = Names {
        service,
        datapath: against.name(),
        listed: against.listed_name(),
    };
    report(arguments, &names, list, cases.len(), &all, as_json)
}

/// Names of a comparison.
struct Names {
    service: &'static str,
    datapath: &'static str,
    /// Name of the datapath in the lists of `spec/`.
    listed: &'static str,
}

/// Prints the counts of a comparison without differences.
fn report(
    arguments: &Diff,
    names: &Names,
    list: &FastPathList,
    cases: usize,
    all: &DiffCounts,
    as_json: bool,
) -> anyhow::Result<()> {
    let Names {
        service,
        datapath,
        listed,
    } = names;
    let dropped: u64 = all.dropped.iter().sum();
    let (answered, missing): (Vec<_>, Vec<_>) = list.of(listed).partition(|op| all.answered.contains(*op));
    let named = |ops: Vec<AnsweredOp>| ops.into_iter().map(|op| list.name(op)).collect::<Vec<_>>();
    let (answered, missing) = (named(answered), named(missing));
    if as_json {
        say!(
            "{}",
            json!({
                "service": service, "datapaths": ["socket", datapath], "seed": arguments.seed, "cases": cases,
                "frames": all.frames, "answered": all.transmitted, "passed": all.passed, "dropped": dropped,
                "operations": answered, "operations_not_seen": missing, "differences": 0,
            })
        )?;
        return Ok(());
    }
    say!(
        "{service}, socket against {datapath}: {} in {} equal ({} answered, {} passed, {dropped} dropped)",
        counted(all.frames, "frame"),
        counted(cases, "case"),
        all.transmitted,
        all.passed
    )?;
    say!("  operations that were answered: {}", answered.join(", "))?;
    if !missing.is_empty() {
        say!(
            "  operations that spec/ lists for {listed}, and that no frame reached: {}",
            missing.join(", ")
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Datapath, Service, against};

    /// Regression test: `diff column` with `rtl` compared the other datapaths before it refused this one.
    #[test]
    fn a_service_without_the_rtl_is_refused_before_a_comparison() {
        let all = [Datapath::Socket, Datapath::Native, Datapath::Xdp, Datapath::Rtl];
        let refused = against(&all, Service::Column).err().expect("column has no RTL");
        assert!(
            refused.to_string().contains("column has no datapath rtl"),
            "{refused}"
        );
        for service in [Service::Spv, Service::Transfer] {
            assert_eq!(against(&all, service).map(|others| others.len()).ok(), Some(3));
        }
        assert_eq!(
            against(&all[..3], Service::Column)
                .map(|others| others.len())
                .ok(),
            Some(2)
        );
    }
}
