//! Why a ledger cannot be read or written.

use crate::Error;
use crate::snapshot::SnapshotError;
use lineside_journal::{Error as JournalError, Lsn};
use std::sync::Arc;

/// What stands in a ledger's way.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LedgerError {
    /// The journal.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The system.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// A record that the journal holds is not what this program writes.
    #[error("record {lsn}: {what}")]
    Record {
        /// Which.
        lsn: Lsn,
        /// What is wrong.
        what: &'static str,
    },
    /// A block is not the one that was committed.
    #[error("block {number}: {what}")]
    Block {
        /// Which.
        number: u64,
        /// What is wrong.
        what: String,
    },
    /// The checkpoint is not what this program writes.
    #[error("the checkpoint at record {lsn}: {what}")]
    Checkpoint {
        /// Its record.
        lsn: Lsn,
        /// What is wrong.
        what: &'static str,
    },
    /// The snapshot that the ledger is joined from, or was.
    #[error("the snapshot: {0}")]
    Snapshot(#[from] SnapshotError),
    /// There is no such transaction.
    #[error("there is no transaction with the id {id}")]
    NotFound {
        /// The id.
        id: String,
    },
    /// The block is one of those that a snapshot stands for.
    #[error(
        "block {number} is not there: the ledger was joined from a snapshot, and its first block is {first}"
    )]
    BeforeSnapshot {
        /// The block asked for.
        number: u64,
        /// The first block.
        first: u64,
    },
    /// The state on the disk cannot be read or written.
    #[error("{what}")]
    State {
        /// What the disk says.
        what: String,
    },
    /// A block is not taken.
    #[error("block {number}: {source}")]
    Validation {
        /// Its number.
        number: u64,
        /// Why not.
        source: Error,
    },
    /// The disk is full: nothing more is committed until there is space again. What is committed can be read.
    #[error("the disk is full: {what}")]
    Full {
        /// What the journal says.
        what: Arc<str>,
    },
    /// Writing has ended until the ledger is opened again.
    #[error("the ledger has stopped writing: {what}; open it again")]
    Stopped {
        /// The first error.
        what: Arc<str>,
    },
    /// There is no ledger, or no block in it.
    #[error("there is no block in the ledger")]
    Empty,
    /// It has no such block.
    #[error("block {number} is not there; there are {blocks}")]
    NotThere {
        /// The block asked for.
        number: u64,
        /// How many blocks there are.
        blocks: u64,
    },
}

impl LedgerError {
    pub(crate) fn block(number: u64, what: impl Into<String>) -> Self {
        let what = what.into();
        Self::Block { number, what }
    }
}
