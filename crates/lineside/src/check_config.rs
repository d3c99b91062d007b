//! `lineside check-config`

use crate::config::{Checked, Config};
use clap::Args;
use serde_json::json;
use std::path::PathBuf;

/// Say whether a configuration file is right.
#[derive(Args)]
pub struct CheckConfig {
    /// The file.
    #[arg(default_value = "lineside.toml")]
    file: PathBuf,
}

/// Returns what the operator should know: of the values, and of the files that they name on this machine.
fn warnings(config: &Checked) -> Vec<String> {
    let mut warnings = config.warnings();
    warnings.extend(config.file_warnings());
    warnings
}

/// Prints `ok`, or what is wrong and where.
///
/// # Errors
/// Everything that is wrong with the file, as a `ConfigError`.
pub fn run(arguments: &CheckConfig, as_json: bool) -> anyhow::Result<()> {
    let file = &arguments.file;
    let read = Config::read(file).and_then(|config| config.check());
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
