//! Snapshots of a channel, in the files that a peer of Fabric 2.3 or newer writes (`peer snapshot submitrequest`).
//!
//! A snapshot is the state of a channel after one block: the public state with the channel's configuration, the hashes
//! of the private state, and the ids of all transactions. It contains no blocks, codes or private data.
//!
//! ```text
//!  _snapshot_signable_metadata.json      channel, last block, SHA-256 of each file below
//!  _snapshot_additional_metadata.json    SHA-256 of the file above, commit hash of the last block
//!  public_state.data, .metadata          records of keys; number of keys of each namespace
//!  private_state_hashes.data, .metadata  likewise for hashed keys; a namespace is CHAINCODE$$hCOLLECTION
//!  txids.data, .metadata                 ids; number of ids
//!  confighistory.data, .metadata         definitions of collections by block, which are not needed here
//! ```
//!
//! Each binary file begins with a format byte, 1. Numbers are varints; texts and messages are preceded by their length.
//! A SHA-256 covers every byte except for the commit hash. An operator compares the commit hash with that of another
//! peer.

mod data;
mod files;
mod head;
mod keys;
pub mod write;

pub use files::{FILES, Files, SnapshotFolder, check};
pub use head::{ADDITIONAL, SIGNABLE, SnapshotHead};
pub use keys::{Contents, ReadMore, read};

use std::io;

/// Name of the file of the keys of the public state.
pub(crate) const PUBLIC_STATE: &str = "public_state.data";
/// Name of the file of hashed private keys.
pub(crate) const PRIVATE_STATE: &str = "private_state_hashes.data";
/// Name of the file of transaction ids.
pub(crate) const IDS: &str = "txids.data";
/// Name of the file of collection definitions.
pub(crate) const HISTORY: &str = "confighistory.data";
/// Key of the channel's configuration, in the namespace "".
pub(crate) const CONFIG_KEY: &[u8] = b"CHANNEL_CONFIG_ENV_BYTES";
/// Separator between the names of a chaincode and its collection.
pub(crate) const COLLECTION_JOINER: &str = "$$h";

/// Reason why a snapshot is refused.
#[derive(Debug, thiserror::Error)]
#[error("{file}: {what}")]
pub struct SnapshotError {
    /// Name of the file.
    pub file: String,
    /// The fault.
    pub what: String,
}

impl SnapshotError {
    pub(crate) fn new(file: &str, what: impl Into<String>) -> Self {
        Self {
            file: file.to_owned(),
            what: what.into(),
        }
    }

    pub(crate) fn io(file: &str, error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => Self::new(
                file,
                "the file is missing in the snapshot; copy the snapshot again",
            ),
            io::ErrorKind::UnexpectedEof => {
                Self::new(file, "the file ends within an entry; copy the snapshot again")
            }
            _ => Self::new(file, error.to_string()),
        }
    }
}

/// Returns the name of the file with the counts for the file `data`.
pub(crate) fn counts_of(data: &str) -> String {
    format!("{}metadata", data.strip_suffix("data").unwrap_or(data))
}
