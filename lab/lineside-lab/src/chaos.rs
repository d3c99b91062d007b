//! `lineside-lab chaos`: attacks and faults against running daemons.

use anyhow::{Context, bail};
use clap::Args;
use lineside::say;
use lineside::wrong::Wrong;
use lineside_chaos::{CASES, Case, Report, Scale, Scene};
use lineside_util::counted;
use serde_json::json;
use std::path::PathBuf;

/// Attack daemons on this machine: kill -9 under load, malformed datagrams, forged sources, requests that consume
/// memory, a full disk. Each case counts what was lost, executed twice or wrong. Network namespaces, control groups and
/// BPF need root; without it, each case that needs them is skipped with one line of explanation.
#[derive(Args)]
pub struct Chaos {
    /// Attacks to run: kill, datagrams, forged, memory, full [default: all]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    attacks: Vec<String>,
    /// Run for minutes instead of seconds.
    #[arg(long)]
    long: bool,
    /// Seed of the choices; the same seed gives the same choices, but not the same times of the kills.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Break the disk on purpose: everything written after the first kill is lost. `kill` must then find faults.
    #[arg(long)]
    disk_forgets: bool,
    /// The program `lineside` [default: next to this program]
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
}

/// Runs the cases and prints one line for each.
///
/// # Errors
/// An attack is unknown, or in a case something was lost, executed twice or wrong.
pub fn run(arguments: Chaos, as_json: bool) -> anyhow::Result<()> {
    let names: Vec<_> = CASES.iter().map(|case| case.attack).collect();
    if let Some(unknown) = arguments
        .attacks
        .iter()
        .find(|name| !names.contains(&name.as_str()))
    {
        return Err(Wrong(format!("--attacks: there is no attack `{unknown}`")).into());
    }
    let program = match arguments.program {
        Some(program) => program,
        None => std::env::current_exe()?.with_file_name("lineside"),
    };
    if !program.exists() {
        bail!(
            "{} does not exist: build it (`cargo build --release -p lineside`), or give another program with --program",
            program.display()
        );
    }
    let scene = Scene {
        program: program
            .canonicalize()
            .with_context(|| format!("cannot resolve the path {}", program.display()))?,
        seed: arguments.seed,
        disk_forgets: arguments.disk_forgets,
        scale: if arguments.long { Scale::Long } else { Scale::Short },
    };
    let is_asked = |case: &&Case| {
        arguments.attacks.is_empty() || arguments.attacks.iter().any(|name| name == case.attack)
    };
    let mut failed = 0;
    for case in CASES.iter().filter(is_asked) {
        let report = case.run(&scene);
        failed += u32::from(!report.held());
        print(&report, as_json)?;
    }
    if failed > 0 {
        bail!(
            "{} in which something was lost, executed twice or wrong",
            counted(failed, "case")
        );
    }
    Ok(())
}

fn print(report: &Report, as_json: bool) -> anyhow::Result<()> {
    if as_json {
        return Ok(say!("{}", json!(report))?);
    }
    if let Some(why) = &report.skipped {
        return Ok(say!("{:10} {:21} skipped: {why}", report.attack, report.target)?);
    }
    let counts: Vec<_> = report
        .counts
        .iter()
        .map(|(name, count)| format!("{count} {name}"))
        .collect();
    let peak = report
        .peak_bytes
        .map_or("-".to_owned(), |bytes| format!("{} MiB", bytes >> 20));
    say!(
        "{:10} {:21} {} lost, {} doubled, {} wrong; {}; peak {peak}; {:.0} s",
        report.attack,
        report.target,
        report.lost,
        report.doubled,
        report.wrong,
        counts.join(", "),
        report.seconds
    )?;
    for fault in &report.faults {
        say!("    {fault}")?;
    }
    Ok(())
}
