//! `lineside column repair`: a damaged table is made one that opens.

use anyhow::anyhow;
use clap::Args;
use lineside_column::embedded::repair;
use serde_json::json;
use std::path::PathBuf;

/// Cut the damaged journal of an embedded table before its damage, and say which acknowledged changes are gone. What is
/// cut is kept beside it. A table that is sound is left as it is.
#[derive(Args)]
pub struct Repair {
    /// The table's directory, as `lineside column serve --data` has it.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

impl Repair {
    /// Repairs the table.
    ///
    /// # Errors
    /// What stands in the way.
    pub fn run(&self, as_json: bool) -> anyhow::Result<()> {
        let done = repair(&self.directory).map_err(|why| anyhow!("{}: {why}", self.directory.display()))?;
        if as_json {
            let lost = done.lost.map(|(from, to)| json!({"from": from, "to": to}));
            say!(
                "{}",
                json!({"last": done.last_lsn, "lost": lost, "notes": done.notes})
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
