//! `lineside-lab soak` checks replies while the data that they contain changes.

mod column;

use crate::replies;
use anyhow::bail;
use clap::{Args, ValueEnum};
use lineside::out::Unwritten;
use lineside::progress::CountBar;
use lineside::wrong::Wrong;
use lineside::{say, tell};
use lineside_conformance::soak::{self, Options, Report, Sabotage};
use lineside_conformance::spv::DatapathKind;
use lineside_util::counted;
use lineside_xdp::XdpError;
use serde_json::{Map, Value, json};

/// Query the fast path of a service while its data changes and its cache is evicted and filled again, and compare each
/// reply with the data at that time. No reply may be torn, stale or wrong.
#[derive(Args)]
pub struct Soak {
    /// The service.
    #[arg(value_enum, default_value = "spv")]
    service: Service,
    /// Datapaths; `spv` runs all at once, `column` one after the other. `socket` is the Rust fast path, `xdp` the
    /// program in the kernel, `native` the same C code without BPF. If loading BPF is not permitted, `xdp` is skipped
    /// and one line is printed.
    #[arg(long, value_enum, value_delimiter = ',', default_values = ["native", "xdp", "socket"])]
    datapaths: Vec<Datapath>,
    /// Number of checked replies of the fast path, over all datapaths; for `column`, number of rows in them.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    replies: u64,
    /// Seed of the changes and requests.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Break a rule on purpose and stop at the first reply that shows it. A soak that finds nothing is itself broken.
    #[arg(long, value_enum)]
    sabotage: Option<Rule>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Service {
    /// All datapaths over one store, while blocks are connected to and disconnected from the chain.
    Spv,
    /// The fast path and the host over an embedded table, while threads change the table through Lineside and directly,
    /// and cells expire.
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
    /// Lines of a disconnected block are not removed.
    KeepDropped,
    /// A line for a transaction is not replaced when a higher block contains the same transaction.
    KeepDuplicates,
    /// The epoch does not change when the chain changes.
    NoEpoch,
    /// A line is rewritten without a change of its sequence number.
    NoSequence,
    /// The table entry of a block is rewritten without a new generation.
    NoGeneration,
    /// A change does not wait for answers that still use the old data.
    NoGrace,
    /// A block keeps its Merkle tree when another block overwrites it.
    KeepTree,
    /// `column`: changes made directly in the table are not reported.
    Untold,
    /// `column`: a write does not wait for the lease of a server that has not acknowledged the notification.
    Hasty,
    /// `column`: the clock of the fast path does not advance, so no cell and no lease expires there.
    NoClock,
}

impl Rule {
    /// Returns the rule of `spv` that corresponds to this one.
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

/// Returns the rule to break in the form of the service; `known` converts it.
fn sabotage<T>(rule: Option<Rule>, known: impl Fn(Rule) -> Option<T>) -> Result<Option<T>, Wrong> {
    let known =
        |rule| known(rule).ok_or_else(|| Wrong("--sabotage: this service has no such rule".to_owned()));
    rule.map(known).transpose()
}

/// Runs the soak and prints the results.
///
/// # Errors
/// Fails if a reply was torn, stale or wrong, or if the soak could not run.
pub fn run(arguments: &Soak, as_json: bool) -> anyhow::Result<()> {
    match arguments.service {
        Service::Spv => spv(arguments, as_json),
        Service::Column => column::run(arguments, as_json),
    }
}

/// Returns the requested datapaths without repetitions.
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
        tell!("lineside: BPF is not available ({why}); skipping xdp");
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
        1 => bail!("1 reply was torn, stale or wrong"),
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
                "invalidations": written.invalidations, "late": written.late_fills,
                "seconds": report.elapsed.as_secs_f64(),
            })
        );
    }
    say!(
        "spv, seed {}: {} checked in {:.0} s: {} torn, {} stale, {} wrong",
        options.seed,
        replies(report.replies()),
        report.elapsed.as_secs_f64(),
        report.torn,
        report.stale,
        report.wrong
    )?;
    for (name, counts) in &report.datapaths {
        say!(
            "  {name:7} {}, {} of them while the chain changed; {} left to the host, {} not checked, because their \
             states of the chain were no longer stored",
            replies(counts.replies),
            counts.across_change,
            counted(counts.forwarded, "request"),
            replies(counts.too_late)
        )?;
    }
    say!(
        "  {} of the chain, {}, {}, {}",
        counted(report.changes, "change"),
        counted(written.fills, "fill"),
        counted(written.conflicts, "eviction"),
        counted(written.invalidations, "invalidation")
    )
}
