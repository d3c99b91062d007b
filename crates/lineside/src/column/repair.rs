//! `lineside column repair`: makes a damaged embedded table usable again.

use anyhow::anyhow;
use clap::Args;
use lineside_column::embedded::repair;
use serde_json::json;
use std::path::PathBuf;

/// Repair a damaged embedded table by cutting its journal before the damage.
///
/// Prints which acknowledged changes are lost. The part that is cut off is kept in the same directory. Changes nothing
/// if the table is not damaged. The server must be stopped.
#[derive(Args)]
pub struct Repair {
    /// Directory of the table, as given to `lineside column serve --data`.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

impl Repair {
    /// Repairs the table and prints what was lost.
    ///
    /// # Errors
    /// The directory holds no table, is in use, or cannot be written.
    pub fn run(&self, as_json: bool) -> anyhow::Result<()> {
        let done = repair(&self.directory).map_err(|why| anyhow!("{}: {why}", self.directory.display()))?;
        if as_json {
            let lost_range = done.lost.map(|(from, to)| json!({"from": from, "to": to}));
            say!(
                "{}",
                json!({"last": done.last_lsn, "lost": lost_range, "notes": done.notes})
            )?;
            return Ok(());
        }
        for note in &done.notes {
            say!("{note}")?;
        }
        if let Some((from, to)) = done.lost {
            say!("lost: the acknowledged changes {from} to {to}")?;
        }
        say!("the table ends with change {}", done.last_lsn)?;
        Ok(())
    }
}
