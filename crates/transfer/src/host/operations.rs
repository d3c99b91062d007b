//! Executed operations of a ledger, read from its archive and its journal, for a list of what happened to an account.

use super::OpenError;
use super::archive;
use super::retain::put_leaves;
use crate::entry::Entry;
use crate::settlement::{Block, LEAF_BYTES};
use lineside_journal::{Disk, dump_over_gaps};
use lineside_wire::Operation;
use zerocopy::FromBytes;

/// Executed operation.
#[derive(Clone, Copy, Debug)]
pub struct ExecutedOperation {
    /// Request, with the outcome's code and number.
    pub operation: Operation,
    /// Balance of the source account after the operation.
    pub balance: u64,
    /// Number of the block that contains the operation, and its time in seconds since 1970; `None` if the block is not
    /// sealed yet.
    pub block: Option<(u64, u64)>,
}

/// Calls `visit` for each executed operation, in the order of the numbers. Operations of blocks that left the journal
/// come from the archive; without an archive, or where records of the journal are lost, they are left out. The function
/// only reads, so a server may use the ledger meanwhile.
///
/// # Errors
/// Errors of journal or archive.
pub fn executed_operations<D: Disk>(
    disk: &D,
    mut visit: impl FnMut(&ExecutedOperation),
) -> Result<(), OpenError> {
    let mut last_number = 0;
    let mut visit_leaves = |block: Option<&Block>, leaves: &[[u8; LEAF_BYTES]]| {
        for leaf in leaves {
            let Ok((operation, balance)) = Operation::read_from_prefix(leaf) else {
                continue;
            };
            // The newest blocks of the archive may still be in the journal.
            if operation.number.get() <= last_number {
                continue;
            }
            last_number = operation.number.get();
            visit(&ExecutedOperation {
                operation,
                balance: balance.try_into().map_or(0, u64::from_be_bytes),
                block: block.map(|block| (block.number, block.sealed_s)),
            });
        }
    };
    archive::blocks(disk, |block, leaves| visit_leaves(Some(block), leaves))?;

    let (mut leaves, mut next, mut expected_lsn) = (Vec::new(), 1, 1);
    let mut is_block_complete = true;
    dump_over_gaps(disk, 1, |record| {
        // Records before the first one, or in a gap, belonged to the current block, whose operations then have unknown
        // numbers.
        is_block_complete &= record.lsn == expected_lsn;
        expected_lsn = record.lsn + 1;
        match Entry::from_record(record.kind, record.payload) {
            Some(Entry::Block(block)) => {
                if is_block_complete {
                    visit_leaves(Some(&block), &leaves);
                }
                is_block_complete = true;
                next = block.first + block.count;
                leaves.clear();
            }
            Some(entry) => put_leaves(&entry, &mut next, &mut leaves),
            None => {}
        }
    })?;
    if is_block_complete {
        visit_leaves(None, &leaves);
    }
    Ok(())
}
