//! `lineside check-config`: checks a configuration file without serving it.

use crate::config::{CheckedConfig, Config};
use clap::Args;
use serde_json::json;
use std::path::PathBuf;

/// Check a configuration file: print `ok`, or every mistake with its line.
///
/// Also warns of risky values, of files that the configuration names and this machine lacks, and of data directories
/// here that hold data of another service, network or mode. Exit code 2 if the file has a mistake, enables no service,
/// or sets a datapath that this program does not have.
#[derive(Args)]
pub struct CheckConfig {
    /// Configuration file.
    #[arg(value_name = "FILE", default_value = "lineside.toml")]
    file: PathBuf,
}

/// Returns the warnings about values, and about the files and directories on this machine that the values name.
fn warnings(config: &CheckedConfig) -> Vec<String> {
    let mut warnings = config.warnings();
    warnings.extend(config.file_warnings());
    warnings.extend(config.data_warnings());
    warnings
}

/// Checks the file and prints the result.
///
/// # Errors
/// All mistakes in the file, or that it enables no service, as one [`crate::config::ConfigError`].
pub fn run(arguments: &CheckConfig, as_json: bool) -> anyhow::Result<()> {
    let file = &arguments.file;
    let checked = Config::read(file).and_then(|config| config.check());
    let read = checked.and_then(|config| config.require_startable().map(|()| config));
    if as_json {
        let faults: Vec<_> = match &read {
            Ok(_) => vec![],
            Err(error) => error
                .issues
                .iter()
                .map(|issue| json!({"line": issue.line, "what": issue.what}))
                .collect(),
        };
        let warnings = read.as_ref().map(warnings).unwrap_or_default();
        say!(
            "{}",
            json!({"file": file, "ok": read.is_ok(), "faults": faults, "warnings": warnings})
        )?;
    }
    let config = read?;
    if !as_json {
        for warning in warnings(&config) {
            say!("warning: {warning}")?;
        }
        say!("{}: ok", file.display())?;
    }
    Ok(())
}
