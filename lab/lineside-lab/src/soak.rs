//! `lineside-lab soak`: replies checked while what they are about changes.

mod column;

use anyhow::bail;
use clap::{Args, ValueEnum};
use lineside::out::Unwritten;
use lineside::progress::CountBar;
use lineside::wrong::Wrong;
use lineside::{say, tell};
use lineside_conformance::soak::{self, Options, Report, Sabotage};
use lineside_conformance::spv::DatapathKind;
use lineside_xdp::XdpError;
use serde_json::{Map, Value, json};

/// Ask the fast path of a service while others change what it answers of, and it is evicted and filled again, and hold
/// each reply against what was true: none may be torn, stale or wrong.
#[derive(Args)]
pub struct Soak {
    /// The service.
    #[arg(value_enum, default_value = "spv")]
    service: Service,
    /// The datapaths, of `spv` all at once, of `column` one after the other: `socket` is the Rust fast path, `xdp` the
    /// program in the kernel, `native` the same C without it. Without the right to load BPF, `xdp` is left out, said in
    /// one line.
    #[arg(long, value_enum, value_delimiter = ',', default_values = ["native", "xdp", "socket"])]
    datapaths: Vec<Datapath>,
    /// Checked replies of the fast path, over all datapaths; of `column`, rows in them.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    replies: u64,
    /// The same seed gives the same changes and requests.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Break a rule on purpose and end at the first reply that shows it; a soak that finds nothing is broken itself.
    #[arg(long, value_enum)]
    sabotage: Option<Rule>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Service {
    /// Datapaths over one store, while the chain connects and disconnects blocks.
    Spv,
    /// The fast path and host over an embedded table, while threads change it through Lineside and beside it, and cells
    /// end.
    Column,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Datapath {
    Socket,
    Xdp,
    Native,
}

#[derive(Clone, Copy, ValueEnum)]
enum Rule {
    /// A disconnected block's lines stay.
    KeepDropped,
    /// What another block said of a transaction stays when a higher one holds it too.
    KeepDuplicates,
    /// The epoch does not tell that the chain changes.
    NoEpoch,
    /// A line is rewritten without its sequence number.
    NoSequence,
    /// A block's place is rewritten without its generation.
    NoGeneration,
    /// A change does not wait for the answers that it makes old.
    NoGrace,
    /// A block keeps its Merkle tree when another one is written over it.
    KeepTree,
    /// `column`: changes straight in the table are not told.
    Untold,
    /// `column`: a server whose notice nobody acknowledges does not wait for its lease to end.
    Hasty,
    /// `column`: the fast path's clock stands still, so that no life and no lease ends there.
    NoClock,
}

impl Rule {
    /// As `spv` knows it.
    const fn of_spv(self) -> Option<Sabotage> {
        Some(match self {
            Self::KeepDropped => Sabotage::KeepDropped,
            Self::KeepDuplicates => Sabotage::KeepDuplicates,
            Self::NoEpoch => Sabotage::NoEpoch,
            Self::NoSequence => Sabotage::NoSequence,
            Self::NoGeneration => Sabotage::NoGeneration,
            Self::NoGrace => Sabotage::NoGrace,
            Self::KeepTree => Sabotage::KeepTree,
            Self::Untold | Self::Hasty | Self::NoClock => return None,
        })
    }
}

/// The rule that is to be broken, as the service knows it.
fn sabotage<T>(rule: Option<Rule>, known: impl Fn(Rule) -> Option<T>) -> Result<Option<T>, Wrong> {
    let known =
        |rule| known(rule).ok_or_else(|| Wrong("--sabotage: the service has no such rule".to_owned()));
    rule.map(known).transpose()
}

/// Soaks, and prints what was seen.
///
/// # Errors
/// A reply that was torn, stale or wrong, or what stands in the way.
pub fn run(arguments: &Soak, as_json: bool) -> anyhow::Result<()> {
    match arguments.service {
        Service::Spv => spv(arguments, as_json),
        Service::Column => column::run(arguments, as_json),
    }
}

/// Those that are asked for, each once.
fn datapaths(arguments: &Soak) -> Vec<DatapathKind> {
    let kind = |datapath: &Datapath| match datapath {
        Datapath::Socket => DatapathKind::Socket,
        Datapath::Xdp => DatapathKind::Xdp,
        Datapath::Native => DatapathKind::Native,
    };
    let mut datapaths: Vec<_> = Vec::new();
    for datapath in arguments.datapaths.iter().map(kind) {
        if !datapaths.contains(&datapath) {
            datapaths.push(datapath);
        }
    }
    datapaths
}

fn spv(arguments: &Soak, as_json: bool) -> anyhow::Result<()> {
    let sabotage = sabotage(arguments.sabotage, Rule::of_spv)?;
    let mut options = Options {
        datapaths: datapaths(arguments),
        replies: arguments.replies,
        seed: arguments.seed,
        stop_at_fault: sabotage.is_some(),
        sabotage,
    };
    let bar = CountBar::new(options.replies);
    let mut soaked = soak::run(&options, &mut |done| bar.show(done));
    if let (Err(XdpError::NotAllowed(why)), true) = (&soaked, options.datapaths.len() > 1) {
        tell!("lineside: no BPF here ({why}): xdp is left out");
        options.datapaths.retain(|kind| *kind != DatapathKind::Xdp);
        soaked = soak::run(&options, &mut |done| bar.show(done));
    }
    bar.finish();
    let report = soaked?;
    print(&options, &report, as_json)?;
    for told in &report.told {
        tell!("lineside: {told}");
    }
    match report.faults() {
        0 => Ok(()),
        faults => bail!("{faults} replies were torn, stale or wrong"),
    }
}

fn print(options: &Options, report: &Report, as_json: bool) -> Result<(), Unwritten> {
    let written = &report.written;
    if as_json {
        let datapaths: Map<String, Value> = report
            .datapaths
            .iter()
            .map(|(name, counts)| {
                let counts = json!({
                    "replies": counts.replies, "forwarded": counts.forwarded,
                    "across_change": counts.across_change, "too_late": counts.too_late,
                });
                ((*name).to_owned(), counts)
            })
            .collect();
        return say!(
            "{}",
            json!({
                "service": "spv", "seed": options.seed, "replies": report.replies(), "datapaths": datapaths,
                "checks": {"torn": report.torn, "stale": report.stale, "wrong": report.wrong},
                "changes": report.changes, "fills": written.fills, "conflicts": written.conflicts,
                "invalidations": written.invalidations, "late": written.late,
                "seconds": report.elapsed.as_secs_f64(),
            })
        );
    }
    say!(
        "spv, seed {}: {} replies checked in {:.0} s: {} torn, {} stale, {} wrong",
        options.seed,
        report.replies(),
        report.elapsed.as_secs_f64(),
        report.torn,
        report.stale,
        report.wrong
    )?;
    for (name, counts) in &report.datapaths {
        say!(
            "  {name:7} {} replies, {} of them while the chain changed; {} requests left to the host, {} not \
            checkable any more",
            counts.replies,
            counts.across_change,
            counts.forwarded,
            counts.too_late
        )?;
    }
    say!(
        "  {} changes of the chain, {} fills, {} evictions, {} invalidations",
        report.changes,
        written.fills,
        written.conflicts,
        written.invalidations
    )
}
