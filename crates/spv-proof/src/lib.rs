//! Verification by a light client: the checks with which it can use the answers of a proof server without trusting
//! it.
//!
//! ```text
//!   headers from any server            TXID, proof from any server
//!          |                                   |
//!          v                                   v
//!   HeaderChain::accept                TransactionProof::verify      proof of work, shape, path, root
//!     parent, proof of work,                   |
//!     difficulty, time, most work              v
//!          +--------------------------> HeaderChain::verify          is the header in the best chain?
//!                                       returns confirmations
//! ```
//!
//! Without the feature `std` (a default one) the crate needs neither `std` nor `alloc`: [`Network`], [`Header`],
//! [`TransactionProof`], [`WitnessProof`], and the rules of headers ([`check_rules`]) work on fixed memory. `std` adds
//! `Tree`, with which a server makes proofs, and `HeaderChain` with its stores. `clients/c/lineside_spv.h` contains the
//! checks of proofs in C, with the error numbers of [`ProofError`]. The vectors in `vectors/spv-proof` test both.
//!
//! Hashes are in wire order everywhere, the order in which they are hashed. They are displayed in the reverse order:
//! [`to_display`], [`from_display`], [`reversed`].
//!
//! # Example
//!
//! ```
//! use lineside_spv_proof::{MerklePath, Network, ProofError, TransactionProof};
//!
//! let header = Network::Mainnet.genesis();
//! let proof = TransactionProof {
//!     header,
//!     height: 0,
//!     transaction_count: 1,
//!     index: 0,
//!     path: MerklePath::EMPTY,
//! };
//! // The only transaction of block 0 is its coinbase, so that the Merkle root is its TXID.
//! assert_eq!(proof.verify(Network::Mainnet, &header.merkle_root), Ok(()));
//! assert_eq!(proof.verify(Network::Mainnet, &[7; 32]), Err(ProofError::WrongRoot));
//! ```

#![cfg_attr(not(any(feature = "std", test)), no_std)]

#[cfg(feature = "std")]
mod chain;
mod error;
mod hash;
mod header;
mod merkle;
mod network;
mod proof;
mod rules;
mod target;
mod transaction;
#[cfg(feature = "std")]
mod tree;
mod u256;

#[cfg(feature = "std")]
pub use chain::{
    Accepted, ChainError, ChainOptions, Checkpoint, FileStore, HeaderChain, HeaderStore, MemoryStore,
    RangeError, StoreError, Tip, TipChange,
};
pub use error::ProofError;
pub use hash::{Hash, from_display, hash_pair, reversed, sha256d, to_display};
pub use header::{HEADER_BYTES, Header};
pub use merkle::{MAX_PATH, MAX_TRANSACTIONS, MerklePath, depth_of};
pub use network::{Network, RETARGET_INTERVAL, RetargetRule, UnknownNetwork};
pub use proof::{TransactionProof, WitnessProof};
pub use rules::{
    Ancestor, MAX_FUTURE_S, MEDIAN_TIME_SPAN, RuleError, check_rules, check_rules_with, median_time,
    real_bits_after, required_bits, retarget,
};
pub use target::{decode_target, encode_target};
pub use transaction::Transaction;
#[cfg(feature = "std")]
pub use tree::Tree;
pub use u256::U256;
