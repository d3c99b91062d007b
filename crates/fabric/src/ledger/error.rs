//! Errors of the ledger.

use crate::Error;
use crate::snapshot::SnapshotError;
use lineside_journal::{Error as JournalError, Lsn};
use std::sync::Arc;

/// An error of a ledger.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LedgerError {
    /// The journal reported an error.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The operating system reported an error.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// A record in the journal has an unknown form.
    #[error("record {lsn} of the journal: {what}")]
    Record {
        /// Number of the record.
        lsn: Lsn,
        /// Description of the fault.
        what: &'static str,
    },
    /// A block in the ledger differs from the block that was committed.
    #[error("block {number}: {what}")]
    Block {
        /// Number of the block.
        number: u64,
        /// The fault.
        what: String,
    },
    /// The checkpoint has an unknown form.
    #[error("checkpoint at record {lsn}: {what}")]
    Checkpoint {
        /// Number of its record.
        lsn: Lsn,
        /// The fault.
        what: &'static str,
    },
    /// The snapshot with which the ledger begins, or is to begin, is invalid.
    #[error("snapshot: {0}")]
    Snapshot(#[from] SnapshotError),
    /// The ledger has no transaction with this id.
    #[error("the ledger has no transaction with the id {id}")]
    NotFound {
        /// The requested id.
        id: String,
    },
    /// The block precedes the snapshot with which the ledger begins.
    #[error(
        "block {number} is not in the ledger, which begins with a snapshot; the ledger's first block is {first}"
    )]
    BeforeSnapshot {
        /// The requested block.
        number: u64,
        /// The first block in the ledger.
        first: u64,
    },
    /// The state on the disk cannot be read or written.
    #[error("{what}")]
    State {
        /// The error, with the state's directory.
        what: String,
    },
    /// A block is not accepted.
    #[error("block {number}: {source}")]
    Validation {
        /// Number of the block.
        number: u64,
        /// The reason.
        source: Error,
    },
    /// The disk is full. Nothing is committed until there is space; committed blocks can still be read.
    #[error(
        "the ledger cannot create or extend a file: {what}; free space on the disk, or raise the limit on open files \
         (`ulimit -n`, or LimitNOFILE of systemd)"
    )]
    Full {
        /// The error of the journal.
        what: Arc<str>,
    },
    /// The ledger stopped writing after an error. It must be opened again.
    #[error("the ledger has stopped writing: {what}; restart the replica")]
    Stopped {
        /// The first error.
        what: Arc<str>,
    },
    /// There is no ledger, or it has no blocks.
    #[error(
        "the ledger has no blocks; start a replica on it, or make it from a snapshot with `lineside fabric join`"
    )]
    Empty,
    /// The ledger has no block with this number yet.
    #[error("block {number} is not in the ledger, which has {blocks} blocks")]
    NotThere {
        /// The requested block.
        number: u64,
        /// Number of blocks in the ledger.
        blocks: u64,
    },
}

impl LedgerError {
    pub(crate) fn block(number: u64, what: impl Into<String>) -> Self {
        let what = what.into();
        Self::Block { number, what }
    }
}
