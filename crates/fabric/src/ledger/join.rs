//! Start of a ledger from a snapshot instead of the genesis block.

use super::base;
use super::error::LedgerError;
use super::index::Index;
use super::open::WritableLedger;
use super::replica::Setup;
use crate::replay::hex;
use crate::snapshot::{ADDITIONAL, SIGNABLE, SnapshotError, SnapshotFolder, SnapshotHead, check};
use crate::state::State;
use crate::validate::{Options, Validator};
use lineside_journal::{Disk, Journal};
use std::path::Path;

/// Hashes that the operator obtained from another peer. A snapshot with other hashes is refused.
#[derive(Clone, Copy, Debug, Default)]
pub struct ExpectedHashes {
    /// Expected hash of the snapshot.
    pub snapshot_hash: Option<[u8; 32]>,
    /// Expected commit hash of the snapshot's last block, which no hash of the snapshot covers.
    pub commit_hash: Option<[u8; 32]>,
}

/// Result of [`join`].
#[derive(Clone, Debug)]
pub struct JoinedSnapshot {
    /// Content of the snapshot's JSON files.
    pub head: SnapshotHead,
    /// Number of transaction ids in the snapshot.
    pub transactions: u64,
    /// Number of keys in the snapshot: keys of the public state, and hashed keys of private data collections.
    pub keys: u64,
}

/// Creates a ledger on an empty disk from the snapshot in `folder`. The SHA-256 of every file is checked; then the
/// files are copied to the journal and read into a state, and a checkpoint is written. `step` is called after each step
/// with its name. If this function does not return `Ok`, the disk does not hold a valid ledger and must be cleared.
///
/// # Errors
/// [`LedgerError::Snapshot`] names the file that is damaged or has unexpected content.
pub fn join<D: Disk>(
    disk: D,
    setup: &Setup,
    folder: &Path,
    expected: &ExpectedHashes,
    step: &mut dyn FnMut(&str),
) -> Result<JoinedSnapshot, LedgerError> {
    let mut files = SnapshotFolder(folder.to_owned());
    let head = SnapshotHead::read(&mut files)?;
    let text = |hash: Option<[u8; 32]>| hash.map_or_else(|| "missing".to_owned(), |hash| hex(&hash));
    let compare =
        |file, what: &str, found: Option<[u8; 32]>, wanted: Option<[u8; 32]>, option: &str| match wanted {
            Some(_) if found != wanted => Err(SnapshotError::new(
                file,
                format!(
                    "{what} is {}, but {option} says {}; check both with a peer that you trust",
                    text(found),
                    text(wanted)
                ),
            )),
            _ => Ok(()),
        };
    compare(
        SIGNABLE,
        "its SHA-256, which is the snapshot's hash,",
        Some(head.hash),
        expected.snapshot_hash,
        "--snapshot-hash",
    )?;
    compare(
        ADDITIONAL,
        "the commit hash of the snapshot's last block",
        head.commit_hash,
        expected.commit_hash,
        "--commit-hash",
    )?;
    check(&mut files, &head)?;
    step("checked");
    let id = getrandom::u64().map_err(|error| std::io::Error::other(error.to_string()))?;
    let sizes = setup.journal;
    let sizes = lineside_journal::Options {
        keep_records: true,
        ..sizes
    };
    let mut journal = Journal::create(disk.clone(), id, sizes)?;
    step("journal made");
    let record_bytes_max = sizes.record_bytes_max as usize;
    base::write(&mut journal, record_bytes_max, &mut files, &head, &mut || {
        step("files copied")
    })?;
    drop(journal);
    // The state is read from the copy, and the hashes are checked again.
    let begun = WritableLedger::open(disk, setup.journal, &setup.validation, &setup.state)?;
    step("state read");
    begun.checkpoint()?;
    step("checkpoint written");
    let validator = begun.validator.as_ref().ok_or(LedgerError::Empty)?;
    Ok(JoinedSnapshot {
        head,
        transactions: begun.writer.blocks().view().index.ids.len() as u64,
        keys: validator.state.len() as u64,
    })
}

/// Reads a snapshot into a validator that is at the snapshot's last block. All hashes are checked.
///
/// # Errors
/// [`LedgerError::Snapshot`] names the damaged file.
pub fn validator_from(folder: &Path, options: Options) -> Result<Validator, LedgerError> {
    let mut files = SnapshotFolder(folder.to_owned());
    let head = SnapshotHead::read(&mut files)?;
    check(&mut files, &head)?;
    let (config, _) = base::config(&mut files, &head)?;
    let (_, standing) = base::load(&mut files, &head, State::default(), Index::default())?;
    let number = head.last;
    Validator::resume_under(standing, &config, options)
        .map_err(|source| LedgerError::Validation { number, source })
}
