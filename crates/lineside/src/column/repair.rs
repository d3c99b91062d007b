//! `lineside column repair`: makes a damaged embedded table usable again.

use anyhow::anyhow;
use clap::Args;
use lineside_column::embedded::{KIND, Repaired, repair};
use lineside_util::data_dir::{check_kind, check_owner};
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
    /// The directory holds no table, is in use, belongs to another user, or cannot be written.
    pub fn run(&self, as_json: bool) -> anyhow::Result<()> {
        check_kind(&self.directory, &KIND)?;
        check_owner(&self.directory)?;
        let failed = |why| anyhow!("{}: {why}", self.directory.display());
        let (done, unconfirmed) = repair(&self.directory).map_err(failed)?;
        print(&done, as_json)?;
        // If the report could not be printed, the next repair prints it.
        unconfirmed.confirm().map_err(failed)
    }
}

fn print(done: &Repaired, as_json: bool) -> anyhow::Result<()> {
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
    match done.lost {
        Some((from, to)) if from == to => say!("lost: the acknowledged change {to}")?,
        Some((from, to)) => say!("lost: the acknowledged changes {from} to {to}")?,
        None => {}
    }
    match done.last_lsn {
        0 => say!("the table has no change")?,
        last => say!("the table ends with change {last}")?,
    }
    Ok(())
}
