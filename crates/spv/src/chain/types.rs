//! Types of the requests to the chain store and of its answers.

pub use lineside_messages::spv::Tip;

use super::network::Network;
use super::validate::display_hash;
use lineside_util::data_dir::DataDirError;
use std::path::PathBuf;

/// Height that is reported for a detached block.
pub const DETACHED_HEIGHT: u32 = u32::MAX;

/// A block's number in its store: the order in which blocks were accepted, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockId(pub u32);

/// Where a store keeps its index from TXIDs to blocks. Both give the same answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IndexKind {
    /// In memory, with about 10 bytes for each transaction; rebuilt at each opening.
    #[default]
    Memory,
    /// On disk in the store's directory, with about 21 bytes for each transaction.
    Disk,
}

/// Report that an index on disk was damaged, or belonged to other blocks, and has been rebuilt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexRebuilt {
    /// Reason for the rebuild.
    pub why: String,
}

impl From<DataDirError> for ChainError {
    fn from(error: DataDirError) -> Self {
        match error {
            DataDirError::Locked { path } => Self::Locked { path },
            DataDirError::Io { path, source, .. } => Self::Io { path, source },
            other => Self::Directory(other),
        }
    }
}

impl std::fmt::Display for IndexRebuilt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the TXID index on disk was rebuilt: {}", self.why)
    }
}

/// Result of [`super::ChainStore::submit`] for an accepted block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Submitted {
    /// The block's number.
    pub id: BlockId,
    /// The block's hash.
    pub hash: [u8; 32],
    /// The block's height, or [`DETACHED_HEIGHT`].
    pub height: u32,
    /// True if the store already had the block.
    pub already_known: bool,
}

/// The steps from the connected chain to the best one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reorg {
    /// Blocks to disconnect, the tip first.
    pub disconnect: Vec<BlockId>,
    /// Blocks to connect after the disconnections, the lowest first.
    pub connect: Vec<BlockId>,
}

impl Reorg {
    /// Returns true if the best chain is the connected one.
    pub fn is_empty(&self) -> bool {
        self.disconnect.is_empty() && self.connect.is_empty()
    }
}

/// Location of a transaction in the connected blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Located {
    /// The block's number.
    pub block: BlockId,
    /// The block's Merkle root.
    pub root: [u8; 32],
    /// The block's hash.
    pub block_hash: [u8; 32],
    /// The block's height, or [`DETACHED_HEIGHT`].
    pub height: u32,
    /// The transaction's position in the block.
    pub position: u32,
}

/// Stored information about one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockInfo {
    /// The block's hash.
    pub hash: [u8; 32],
    /// Hash of the block's parent.
    pub parent: [u8; 32],
    /// The block's Merkle root.
    pub root: [u8; 32],
    /// The 80 bytes of the block's header.
    pub header: [u8; 80],
    /// The block's height, or [`DETACHED_HEIGHT`].
    pub height: u32,
    /// Number of transactions in the block.
    pub transactions: u32,
    /// True if the block is not part of the chain because its ancestors are unknown.
    pub detached: bool,
    /// True if the block is connected, so that the store finds its transactions.
    pub connected: bool,
}

/// Returns the part of a message that says how the store recovers from a failed read or write of an index.
fn remedy(error: &std::io::Error) -> &'static str {
    match super::files::is_full(error) {
        true => "free disk space, and the index is written again",
        false => "restart the server, which rebuilds a damaged index",
    }
}

/// Error of a store that is not caused by a given block.
#[derive(Debug, thiserror::Error)]
pub enum ChainError {
    /// The system refused a file operation.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The store could not be written.
    #[error("cannot write the chain store: {0}")]
    Write(#[source] std::io::Error),
    /// The TXID index on disk could not be read or written.
    #[error("the index on disk: {0}; {remedy}", remedy = remedy(.0))]
    Index(#[source] std::io::Error),
    /// An index on disk was requested for a store in memory.
    #[error("an index on disk needs a directory; give the store one, or keep the index in memory")]
    IndexNeedsDirectory,
    /// Another process has the store open.
    #[error("{}: another process has this chain store open; stop it, or use another directory", path.display())]
    Locked {
        /// The lock file.
        path: PathBuf,
    },
    /// The directory cannot be used.
    #[error("{0}")]
    Directory(#[source] DataDirError),
    /// The store was created for another network.
    #[error("{}: this chain store holds {found}, not {wanted}; give another directory or network", path.display())]
    OtherNetwork {
        /// The file that names the network.
        path: PathBuf,
        /// The network whose blocks the store holds.
        found: Network,
        /// The requested network.
        wanted: Network,
    },
    /// The file does not belong to a chain store, or has another format version.
    #[error("{}: not a chain store of this version; use another directory", path.display())]
    NotAStore {
        /// The file.
        path: PathBuf,
    },
    /// A record or the TXIDs of its block are damaged in a way that no interrupted write causes. The files are
    /// unchanged.
    #[error(
        "{}: block record {record} {why}; nothing was changed: \
         restore the file, or remove the directory and import again",
        path.display()
    )]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// The record's number from 0.
        record: u64,
        /// The fault.
        why: &'static str,
    },
    /// The store has no block with this number.
    #[error("block number {0} is not in the store")]
    NoSuchBlock(u32),
    /// The connected chain does not allow this step now.
    #[error("block {} cannot be {step}: {why}", display_hash(hash))]
    IllegalStep {
        /// The block.
        hash: [u8; 32],
        /// `connected` or `disconnected`.
        step: &'static str,
        /// The reason.
        why: &'static str,
    },
    /// The path contains nothing to import.
    #[error("{}: {why}", path.display())]
    NoBlocks {
        /// The file or directory.
        path: PathBuf,
        /// The reason.
        why: &'static str,
    },
}
