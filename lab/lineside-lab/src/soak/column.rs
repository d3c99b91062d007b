//! `lineside-lab soak column` checks that `column` returns no outdated rows, over an embedded table, with the fast path
//! on each datapath in turn.

use super::{Rule, Soak, datapaths, sabotage};
use anyhow::bail;
use lineside::out::Unwritten;
use lineside::progress::CountBar;
use lineside::wrong::Wrong;
use lineside::{say, tell};
use lineside_conformance::frames::DatapathKind;
use lineside_conformance::history::{self, Options, Report, Sabotage};
use lineside_conformance::soak::column as soak;
use lineside_util::counted;
use lineside_xdp::XdpError;
use serde_json::{Map, Value, json};

const fn rule(rule: Rule) -> Option<Sabotage> {
    match rule {
        Rule::Untold => Some(Sabotage::Untold),
        Rule::Hasty => Some(Sabotage::Hasty),
        Rule::NoClock => Some(Sabotage::NoClock),
        _ => None,
    }
}

pub(super) fn run(arguments: &Soak, as_json: bool) -> anyhow::Result<()> {
    let sabotage = sabotage(arguments.sabotage, rule)?;
    let datapaths = datapaths(arguments);
    if sabotage == Some(Sabotage::NoClock) && datapaths != [DatapathKind::Socket] {
        let why = "--sabotage no-clock: only the clock of the socket datapath can be stopped; give --datapaths socket";
        bail!(Wrong(why.to_owned()));
    }
    let bar = CountBar::new(arguments.replies);
    let (mut reports, mut done) = (Vec::new(), 0);
    for (number, kind) in datapaths.iter().enumerate() {
        let left = (datapaths.len() - number) as u64;
        let options = Options {
            reads: arguments.replies.saturating_sub(done).div_ceil(left),
            seed: arguments.seed,
            stop_at_fault: sabotage.is_some(),
            sabotage,
        };
        match soak::run(*kind, &options, &mut |here| bar.show(done + here)) {
            Err(XdpError::NotAllowed(why)) if datapaths.len() > 1 => {
                tell!("lineside: BPF is not available ({why}); skipping xdp");
            }
            report => {
                let report = report?;
                done += report.fastpath;
                reports.push((kind.name(), report));
            }
        }
    }
    bar.finish();
    print(arguments.seed, &reports, as_json)?;
    for told in reports.iter().flat_map(|(_, report)| &report.told) {
        tell!("lineside: {told}");
    }
    match sum(&reports, |report| report.stale + report.wrong) {
        0 => Ok(()),
        1 => bail!("1 read was stale or wrong"),
        faults => bail!("{faults} reads were stale or wrong"),
    }
}

type Reports = [(&'static str, Report)];

fn sum(reports: &Reports, count: impl Fn(&Report) -> u64) -> u64 {
    reports.iter().map(|(_, report)| count(report)).sum()
}

fn print(seed: u64, reports: &Reports, as_json: bool) -> Result<(), Unwritten> {
    let all = |count: fn(&history::Counts) -> u64| {
        sum(reports, |report| report.coherence.iter().map(count).sum::<u64>())
    };
    let (fastpath, stale) = (sum(reports, |one| one.fastpath), sum(reports, |one| one.stale));
    let (wrong, changes) = (sum(reports, |one| one.wrong), sum(reports, |one| one.changes));
    let (installed, overtaken) = (all(|counts| counts.installed), all(|counts| counts.overtaken));
    let (evictions, invalidations) = (
        all(|counts| counts.fastpath.evictions),
        all(|counts| counts.fastpath.invalidations),
    );
    let seconds: f64 = reports.iter().map(|(_, one)| one.elapsed.as_secs_f64()).sum();
    if as_json {
        let datapath = |(name, one): &(&'static str, Report)| {
            let counts = json!({
                "replies": one.fastpath, "host": one.host, "direct": one.direct, "unanswered": one.unanswered,
                "changes": one.changes, "seconds": one.elapsed.as_secs_f64(),
            });
            ((*name).to_owned(), counts)
        };
        let datapaths: Map<String, Value> = reports.iter().map(datapath).collect();
        return say!(
            "{}",
            json!({
                "service": "column", "seed": seed, "replies": fastpath, "datapaths": datapaths,
                "checks": {"stale": stale, "wrong": wrong}, "changes": changes, "fills": installed,
                "late": overtaken, "evictions": evictions, "invalidations": invalidations, "seconds": seconds,
            })
        );
    }
    say!(
        "column, seed {seed}: {} of the fast path's answers checked in {seconds:.0} s: {stale} stale, {wrong} wrong",
        counted(fastpath, "row")
    )?;
    for (name, one) in reports {
        say!(
            "  {name:7} {} of the fast path's answers, {} of the host's, {} straight from the table; {} without an \
             answer",
            counted(one.fastpath, "row"),
            one.host,
            one.direct,
            counted(one.unanswered, "request")
        )?;
    }
    say!(
        "  {}, {}, {overtaken} that met a change, {}, {}",
        counted(changes, "change"),
        counted(installed, "fill"),
        counted(evictions, "eviction"),
        counted(invalidations, "invalidation")
    )
}
