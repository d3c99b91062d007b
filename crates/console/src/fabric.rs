//! How a replica is, beside what is the same for every service.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How a replica is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FabricStatus {
    /// The channel that it follows.
    pub channel: String,
    /// Why nothing more is taken; `None`: it goes on.
    pub stopped: Option<String>,
    /// Whether the source sends blocks.
    pub following: bool,
    /// The source that was left last, and why.
    pub left: Option<String>,
    /// Milliseconds since a block came; `None`: none has.
    pub block_age_ms: Option<u64>,
    /// What became of the last few blocks, the newest first.
    pub blocks: Vec<BlockRecord>,
}

/// What became of a block.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockRecord {
    /// Its number.
    pub number: u64,
    /// How many transactions it has.
    pub transactions: u32,
    /// How many of them are VALID.
    pub valid: u32,
    /// How many have each code, by the code's name.
    pub counts: BTreeMap<String, u64>,
    /// The code of each transaction, two hex digits each; of a very long block, of the first 65,536.
    pub codes: String,
    /// Its header hash, hex.
    pub header_hash: String,
    /// Its commit hash, hex; the genesis block has none.
    pub commit_hash: Option<String>,
    /// Nanoseconds that each stage took, by name.
    pub stages_ns: BTreeMap<String, u64>,
    /// When it was durable, nanoseconds since 1970.
    pub durable_unix_ns: u64,
}
