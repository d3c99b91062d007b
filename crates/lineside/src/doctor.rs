//! `lineside doctor`: checks whether this machine can serve a configuration, and prints what to do where it cannot.
//!
//! It changes nothing. Ports are bound and released at once, and BPF programs are loaded without pins, attached to
//! nothing, and discarded.

mod files;
mod machine;
mod network;
mod services;

use crate::run::{Assignments, KeepFastPath, Overrides};
use anyhow::bail;
use clap::Args;
use serde_json::json;
use std::path::PathBuf;

/// Check whether this machine can serve a configuration, and say what to do where it cannot.
///
/// Checks kernel, processor, memory, rights, BPF programs, interfaces, offloads, ports, data directories, and that the
/// files which the configuration names can be read. Changes nothing. Exit code 1 if a check fails; warnings do not
/// count.
///
/// It checks the rights of the user who runs it, so run it as the server's user:
/// `sudo -u lineside lineside doctor --config /etc/lineside/lineside.toml`.
#[derive(Args)]
pub struct Doctor {
    /// Configuration file to check for; without one the machine is checked, and no service's ports and directories.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    set: Assignments,
    #[command(flatten)]
    overrides: Overrides,
    #[command(flatten)]
    keep: KeepFastPath,
}

/// Result of one check.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Finding {
    /// Name of the check, such as `kernel`.
    check: &'static str,
    level: Level,
    /// State that was found, as a phrase without a full stop.
    what: String,
    /// Remedy; `None` if there is nothing to do.
    remedy: Option<String>,
}

/// Severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    Ok,
    /// The server starts, but works less well than it could.
    Warning,
    /// The server does not start.
    Failed,
}

impl Level {
    const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Failed => "failed",
        }
    }
}

impl Finding {
    fn ok(check: &'static str, what: impl Into<String>) -> Self {
        let what = what.into();
        Self {
            check,
            level: Level::Ok,
            what,
            remedy: None,
        }
    }

    fn warning(check: &'static str, what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::ok(check, what).with(Level::Warning, remedy)
    }

    fn failed(check: &'static str, what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::ok(check, what).with(Level::Failed, remedy)
    }

    fn with(mut self, level: Level, remedy: impl Into<String>) -> Self {
        self.level = level;
        self.remedy = Some(remedy.into());
        self
    }

    fn print(&self, as_json: bool) -> anyhow::Result<()> {
        let level = self.level.name();
        if as_json {
            let line =
                json!({"check": self.check, "result": level, "what": self.what, "remedy": self.remedy});
            say!("{line}")?;
            return Ok(());
        }
        say!("{level:<8}{:<12}{}", self.check, self.what)?;
        if let Some(remedy) = &self.remedy {
            say!("{:20}-> {remedy}", "")?;
        }
        Ok(())
    }
}

/// Runs all checks and prints each result.
///
/// # Errors
/// The configuration is wrong, or a check failed.
pub fn run(arguments: Doctor, as_json: bool) -> anyhow::Result<()> {
    let Doctor {
        config,
        set,
        overrides,
        keep,
    } = arguments;
    let checked = overrides.over_all(config, keep, set)?.check()?;
    let mut findings = machine::check(&checked);
    findings.extend(network::check(&checked));
    findings.extend(services::check(&checked));
    for finding in &findings {
        finding.print(as_json)?;
    }
    let failed = findings
        .iter()
        .filter(|finding| finding.level == Level::Failed)
        .count();
    match failed {
        0 => Ok(()),
        1 => bail!("1 of {} checks failed", findings.len()),
        _ => bail!("{failed} of {} checks failed", findings.len()),
    }
}
