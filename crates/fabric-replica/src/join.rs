//! Joining a channel from a peer's snapshot.
//!
//! The ledger is built in a temporary directory next to the requested directory. When the ledger is complete and
//! durable, the temporary directory is renamed. A process that is killed before leaves only the temporary directory,
//! which the next attempt removes.

use crate::config::StateName;
use crate::ledger::{KIND, state_folder};
use anyhow::{Context, bail};
use lineside_fabric::Options;
use lineside_fabric::ledger::{ExpectedHashes, JoinedSnapshot, Setup, StateStore, join as join_disk};
use lineside_journal::FsDisk;
use lineside_util::data_dir::check_kind;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Builds the ledger in the directory `data`, which must be missing or empty, from the snapshot in `folder`. Calls
/// `step` with the name of each step when the step is done.
///
/// # Errors
/// A file of the snapshot is damaged or unexpected, or `data` is not empty. After an error, `data` holds no new file.
pub fn join(
    data: &Path,
    folder: &Path,
    expected: &ExpectedHashes,
    validation: Options,
    state: StateName,
    step: &mut dyn FnMut(&str),
) -> anyhow::Result<JoinedSnapshot> {
    check_kind(data, &KIND)?;
    if !is_free(data).with_context(|| format!("cannot read {}", data.display()))? {
        bail!("{} is not empty; give --data a new directory", data.display());
    }
    let (parent, building) = next_to(data)?;
    fs::create_dir_all(&parent).with_context(|| format!("cannot create {}", parent.display()))?;
    remove_rest(&building)?;
    let joined = build(&building, folder, expected, validation, state, step);
    let renamed = joined.and_then(|joined| {
        let renaming = || format!("cannot rename {} to {}", building.display(), data.display());
        fs::rename(&building, data).with_context(renaming)?;
        step("renamed");
        Ok(joined)
    });
    if renamed.is_err() {
        // If this removal fails, the next attempt removes the directory.
        let _ = fs::remove_dir_all(&building);
    }
    let joined = renamed?;
    File::open(&parent)
        .and_then(|parent| parent.sync_all())
        .with_context(|| format!("cannot make the new ledger durable in {}", parent.display()))?;
    Ok(joined)
}

fn is_free(data: &Path) -> std::io::Result<bool> {
    match fs::read_dir(data) {
        Ok(mut entries) => Ok(entries.next().is_none()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error),
    }
}

/// Returns the parent directory of `data`, and the directory in which the ledger is built.
fn next_to(data: &Path) -> anyhow::Result<(PathBuf, PathBuf)> {
    let data = std::path::absolute(data)?;
    let (Some(parent), Some(name)) = (data.parent(), data.file_name()) else {
        bail!(
            "{} cannot be the directory of a ledger, because it has no name of its own: give a new directory below it",
            data.display()
        );
    };
    let mut building = std::ffi::OsString::from(".");
    building.push(name);
    building.push(".joining");
    Ok((parent.to_owned(), parent.join(building)))
}

/// Removes the temporary directory of an attempt that was killed, unless another process uses that directory.
fn remove_rest(building: &Path) -> anyhow::Result<()> {
    if !building.try_exists()? {
        return Ok(());
    }
    let rest = || {
        format!(
            "cannot use {}, which an earlier attempt to join left",
            building.display()
        )
    };
    drop(FsDisk::claim_existing(building, &KIND).with_context(rest)?);
    fs::remove_dir_all(building).with_context(rest)
}

fn build(
    building: &Path,
    folder: &Path,
    expected: &ExpectedHashes,
    validation: Options,
    state: StateName,
    step: &mut dyn FnMut(&str),
) -> anyhow::Result<JoinedSnapshot> {
    let disk = FsDisk::claim(building, &KIND)
        .with_context(|| format!("cannot create the new ledger in {}", building.display()))?;
    step("directory made");
    let setup = Setup {
        validation,
        state: match state {
            StateName::Fjall => StateStore::Disk(state_folder(building)),
            StateName::Auto | StateName::Memory => StateStore::Memory,
        },
        ..Setup::default()
    };
    let joined = join_disk(disk, &setup, folder, expected, step);
    let joined = joined.with_context(|| format!("cannot join from the snapshot in {}", folder.display()))?;
    File::open(building).and_then(|directory| directory.sync_all())?;
    Ok(joined)
}
