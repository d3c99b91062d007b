//! The embedded chain store: the truth behind `spv`, from a TXID to the block that holds it.
//!
//! A [`ChainStore`] takes raw blocks, checks what a server of Merkle roots must be able to vouch for (the proof
//! of work, the Merkle root over the transactions, the parent) and keeps of each block its header and its TXIDs.
//! It answers [`ChainStore::locate`] from the blocks that are connected now. A store with witness data keeps WTXIDs and
//! the coinbases that commit to them, too ([`ChainStore::witness`]).
//!
//! * Best chain: the branch with the most accumulated work; of two equal ones, the first seen. [`ChainStore::plan`]
//!   says which steps lead there; [`ChainStore::disconnect`] and [`ChainStore::connect`] take one step each, so
//!   that a cache in front can drop a block's lines before any newer answer leaves.
//! * Detached blocks (parent unknown, taken only when the caller asks) are connected at once, stand outside the
//!   best chain, and answer with height [`DETACHED_HEIGHT`].
//! * All hashes here are in wire byte order (what SHA-256d puts out), never the reversed display order.
//! * A block above the network's genesis block must have the target that is due at its height, and a time above the
//!   median of the 11 blocks before it and not more than two hours ahead of the clock: the rules of
//!   `lineside-spv-proof`. Of a detached block the height is not known: only the network's limit bounds its target.
//! * What is not checked: scripts, amounts and signatures, those of signet's blocks included.

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
