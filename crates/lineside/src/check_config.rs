//! `lineside check-config`

use crate::config::Config;
use clap::Args;
use lineside_wire::COLUMN_NOTICE_KEY_BYTES_MIN;
use serde_json::json;
use std::path::PathBuf;

/// Say whether a configuration file is right.
#[derive(Args)]
pub struct CheckConfig {
    /// The file.
    #[arg(default_value = "lineside.toml")]
    file: PathBuf,
}

/// What an operator should know, here and now: the file of a key may be on another machine.
fn warnings(config: &Config) -> Vec<String> {
    let mut warnings = config.warnings();
    let column = &config.column;
    if column.enabled && column.is_told_by_servers() {
        let read = crate::key_file::read(&column.notify_key_file);
        let fault = match read {
            Err(error) => Some(format!("{error:#}")),
            Ok(key) if key.len() < COLUMN_NOTICE_KEY_BYTES_MIN => {
                Some(format!("fewer than {COLUMN_NOTICE_KEY_BYTES_MIN} bytes"))
            }
            Ok(_) => None,
        };
        warnings.extend(fault.map(|fault| format!("[column] notify_key_file cannot be used here: {fault}")));
    }
    if config.hybrid.enabled {
        warnings.extend(crate::daemon::hybrid::warnings(&config.hybrid));
    }
    warnings
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
