//! `lineside check-config`

use crate::config::Config;
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

/// Prints `ok`, or what is wrong and where.
///
/// # Errors
/// What is wrong with the file, as a `ConfigError`.
pub fn run(arguments: &CheckConfig, as_json: bool) -> anyhow::Result<()> {
    let file = &arguments.file;
    let read = Config::read(file);
    if as_json {
        let faults: Vec<_> = match &read {
            Ok(_) => vec![],
            Err(error) => error
                .faults
                .iter()
                .map(|fault| json!({"line": fault.line, "what": fault.what}))
                .collect(),
        };
        let warnings = read.as_ref().map(Config::warnings).unwrap_or_default();
        say!(
            "{}",
            json!({"file": file, "ok": read.is_ok(), "faults": faults, "warnings": warnings})
        )?;
    }
    let config = read?;
    if !as_json {
        for warning in config.warnings() {
            say!("warning: {warning}")?;
        }
        say!("{}: ok", file.display())?;
    }
    Ok(())
}
