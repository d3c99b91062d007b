//! The embedded chain store: the authoritative data of `spv`. It maps a TXID to the block that holds the transaction.
//!
//! A [`ChainStore`] accepts raw blocks and checks each block's proof of work, its Merkle root over the transactions,
//! and its parent. The store keeps the header and the TXIDs of each block. [`ChainStore::locate`] finds a TXID in the
//! connected blocks. A store with witness data also keeps WTXIDs and the coinbases that commit to them
//! ([`ChainStore::witness`]).
//!
//! - Best chain: the branch with the most accumulated work; of two with equal work, the first one accepted.
//!   [`ChainStore::plan`] returns the steps that lead from the connected chain to the best one.
//!   [`ChainStore::disconnect`] and [`ChainStore::connect`] take one step each, so that a cache can drop a block's
//!   entries before any newer answer is sent.
//! - Detached blocks (parent unknown; accepted only when the caller allows it) are connected at once, are not part of
//!   the best chain, and are reported with height [`DETACHED_HEIGHT`].
//! - All hashes here are in wire byte order (the output order of SHA-256d), never the reversed display order.
//! - A block above the network's genesis block must have the target that the rules require at its height. Its time must
//!   be above the median of the 11 blocks before it and at most two hours ahead of the clock. These rules are
//!   implemented in `lineside-spv-proof`. The height of a detached block is unknown, so its target is compared only
//!   with the easiest target that the network allows.
//! - Not checked: scripts, amounts and signatures, including the signatures of signet blocks.

mod api;
mod checksum;
mod disk_index;
mod files;
mod import;
mod index;
mod kept_blocks;
mod network;
mod scan;
mod store;
mod types;
mod validate;
mod witness;
mod witness_files;

pub use api::Chain;
pub use import::{ImportOptions, ImportReport, Phase, Progress, RefusedBlock};
pub use network::{Network, StoreNetwork};
pub use store::ChainStore;
pub(crate) use store::check_for;
pub use types::{
    BlockId, BlockInfo, ChainError, DETACHED_HEIGHT, IndexKind, IndexRebuilt, Located, Reorg, Submitted, Tip,
};
pub use validate::{CheckedBlock, Refused, merkle_root};
pub use witness::{BlockWitness, Committed};
