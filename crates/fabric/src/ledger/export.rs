//! Export of a ledger as a snapshot, from which other replicas can start.

use super::error::LedgerError;
use super::open::ReadOnlyLedger;
use crate::block::Block;
use crate::proto::Arena;
use crate::snapshot::SnapshotHead;
use crate::snapshot::write::{Channel, write};
use lineside_journal::Disk;
use std::path::Path;

/// Writes the channel after the ledger's last block to a new folder, in the files of a peer's snapshot. The state must
/// be in memory.
///
/// # Errors
/// Errors of the ledger and of the disk. The folder is then not a valid snapshot.
pub fn export<D: Disk>(look: &ReadOnlyLedger<D>, folder: &Path) -> Result<SnapshotHead, LedgerError> {
    let (validator, blocks) = (&look.validator, &look.blocks);
    let last = validator.last();
    let base = look.base.as_ref();
    let previous_hash = match base.filter(|base| base.head.last == last) {
        Some(base) => base.head.previous_hash,
        None => previous_hash(last, &blocks.block(last)?.bytes)?,
    };
    let view = blocks.view();
    let channel = Channel {
        name: validator.channel(),
        last,
        last_hash: validator.last_hash(),
        previous_hash,
        commit_hash: validator.commit_hash(),
        config: &validator.config().envelope,
        config_block: look.config_block,
        state: validator.state(),
        ids: &mut view.index.all_ids(),
    };
    Ok(write(folder, channel)?)
}

fn previous_hash(number: u64, bytes: &[u8]) -> Result<Option<[u8; 32]>, LedgerError> {
    let arena = Arena::new();
    let block = Block::read(bytes, &arena).map_err(|source| LedgerError::Validation { number, source })?;
    Ok(block.previous_hash.try_into().ok())
}
