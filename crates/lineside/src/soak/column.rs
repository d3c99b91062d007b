//! `lineside soak column`: the promise of `column`, checked over an embedded table.

use super::{Rule, Soak, sabotage};
use crate::out::Unwritten;
use crate::progress::CountBar;
use anyhow::bail;
use lineside_column::history::{self, Options, Report, Sabotage};
use serde_json::json;

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
    let options = Options {
        reads: arguments.replies,
        seed: arguments.seed,
        stop_at_fault: sabotage.is_some(),
        sabotage,
    };
    let bar = CountBar::new(options.reads);
    let report = history::run(&options, &mut |done| bar.show(done));
    bar.finish();
    let report = report?;
    print(&options, &report, as_json)?;
    for told in &report.told {
        tell!("lineside: {told}");
    }
    match report.stale + report.wrong {
        0 => Ok(()),
        faults => bail!("{faults} reads were stale or wrong"),
    }
}

fn print(options: &Options, report: &Report, as_json: bool) -> Result<(), Unwritten> {
    let sum = |count: fn(&history::Counts) -> u64| report.coherence.iter().map(count).sum::<u64>();
    let installed = sum(|counts| counts.installed);
    let overtaken = sum(|counts| counts.overtaken);
    let evictions = sum(|counts| counts.near.evictions);
    let invalidations = sum(|counts| counts.near.invalidations);
    if as_json {
        return say!(
            "{}",
            json!({
                "service": "column", "seed": options.seed, "replies": report.near, "host": report.host,
                "direct": report.direct, "unanswered": report.unanswered,
                "checks": {"stale": report.stale, "wrong": report.wrong},
                "changes": report.changes, "fills": installed, "late": overtaken, "evictions": evictions,
                "invalidations": invalidations, "seconds": report.elapsed.as_secs_f64(),
            })
        );
    }
    say!(
        "column, seed {}: {} rows of near's answers checked in {:.0} s: {} stale, {} wrong",
        options.seed,
        report.near,
        report.elapsed.as_secs_f64(),
        report.stale,
        report.wrong
    )?;
    say!(
        "  {} rows of the host's answers, {} straight from the table, {} requests without an answer",
        report.host,
        report.direct,
        report.unanswered
    )?;
    say!(
        "  {} changes, {installed} fills, {overtaken} that met a change, {evictions} evictions, {invalidations} \
         invalidations",
        report.changes
    )
}
