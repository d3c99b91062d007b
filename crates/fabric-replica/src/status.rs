//! Status of a replica, in addition to the status that every service has: the object `fabric` in the service's object
//! of `/status`.

use lineside_util::counted;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Key of [`FabricStatus`] in the details of the service's status.
pub const DETAILS: &str = "fabric";

/// Status of a replica.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FabricStatus {
    /// Channel of the replica.
    pub channel: String,
    /// Number of durable blocks in the ledger.
    #[serde(default)]
    pub height: u64,
    /// Header hash of the last block, hex.
    #[serde(default)]
    pub header_hash: Option<String>,
    /// Commit hash of the last block, hex; the genesis block has none.
    #[serde(default)]
    pub commit_hash: Option<String>,
    /// Number of blocks in the ledger when the service started.
    #[serde(default)]
    pub height_at_start: u64,
    /// Address and port at which blocks are received over UDP; `None` without UDP.
    #[serde(default)]
    pub udp: Option<String>,
    /// Reason why the replica accepts no further block; `None` while it accepts blocks.
    pub stopped: Option<String>,
    /// True if the source (an orderer or a UDP sender) sends blocks, or keeps the request open because the channel has
    /// no newer block.
    pub following: bool,
    /// The last source that the replica left, and the reason; `None` once a source works again.
    pub left: Option<String>,
    /// Milliseconds without a working source; `None` if a source works or no source is needed.
    #[serde(default)]
    pub without_source_ms: Option<u64>,
    /// Milliseconds since the last block arrived; `None` before the first.
    pub block_age_ms: Option<u64>,
    /// Results of the last blocks, newest first.
    pub blocks: Vec<BlockRecord>,
}

/// Result of one block.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockRecord {
    /// Number of the block.
    pub number: u64,
    /// Number of transactions in the block.
    pub transactions: u32,
    /// Number of transactions with the code VALID.
    pub valid: u32,
    /// Number of transactions with each code, by the code's name.
    pub counts: BTreeMap<String, u64>,
    /// Code of each transaction, two hex digits each; limited to the first 65,536 transactions.
    pub codes: String,
    /// Header hash, hex.
    pub header_hash: String,
    /// Commit hash, hex; the genesis block has none.
    pub commit_hash: Option<String>,
    /// Duration of each stage in nanoseconds, by name.
    pub stages_ns: BTreeMap<String, u64>,
    /// Time at which the block was durable, nanoseconds since 1970.
    pub durable_unix_ns: u64,
}

impl FabricStatus {
    /// Returns the status as lines of text.
    pub fn summary(&self) -> Vec<String> {
        let mut lines = vec![format!("channel {}", self.channel)];
        if let Some(why) = &self.stopped {
            lines.push(format!("stopped {why}"));
        }
        let source = match (self.following, &self.left) {
            (true, _) if self.block_age_ms.is_some() => "sends blocks",
            (true, _) => "waits for the next block; the channel has no newer one",
            (false, None) => "no orderer was reached yet",
            (false, Some(left)) => left.as_str(),
        };
        if self.stopped.is_none() {
            lines.push(format!("source  {source}"));
        }
        if let Some(block) = self.blocks.first() {
            let hash = block.commit_hash.as_deref().unwrap_or("none");
            let (number, transactions, valid) = (block.number, block.transactions, block.valid);
            lines.push(format!(
                "newest  block {number}: {}, {valid} valid, commit hash {hash}",
                counted(transactions, "transaction")
            ));
        } else if let (Some(number), Some(header)) = (self.height.checked_sub(1), &self.header_hash) {
            let hash = self.commit_hash.as_deref().unwrap_or("none");
            lines.push(format!(
                "newest  block {number}, header hash {header}, commit hash {hash}"
            ));
        }
        lines
    }
}
