//! The `fabric` service: validates blocks of Hyperledger Fabric by the rules of a peer of version 3.1.
//!
//! ```text
//!  orderer -> Deliver stream (crate fabric-grpc), or UDP (crate fabric-udp, thread `udp`) -> the following task
//!    UDP only: transactions of unfinished blocks -> EarlyWork -> thread `early`: verify their signatures in advance
//!                |
//!  following task: Replica::finish_after
//!                |-> begin: thread `ahead`: parse block N+1 and verify its signatures, in `threads` parts
//!                v
//!           finish: block N: endorsement policies, MVCC against the state -> Validated
//!                |-> queue of at most 64 MiB -> thread `ledger`: append to the journal -> one fdatasync for all
//!                |                                 |-> Publisher: results in shared memory
//!                |                                 `-> DurabilityWaiter -> thread `show` (fabric-grpc) -> block events
//!                `-> Validator::commit: the state changes in memory, before block N is durable
//!                    every fixed number of transactions: copy the state in pieces -> thread `checkpoint`: write it
//!
//!  thread `tables`: builds tables of frequent public keys for the verifier, between blocks
//! ```
//!
//! A [`Validator`] starts from a channel's genesis block. [`Validator::validate`] decides the next block as a peer
//! would: it returns a code for each transaction, and the commit hash. [`Validator::commit`] applies the result to the
//! state. If the validator cannot be sure of the peer's decision, it returns [`Stop`] instead of codes. [`ledger`]
//! stores blocks on the disk and restores the validator after a restart.
//!
//! `docs/fabric-validation.md` lists the checks, and the input on which validation stops.
//!
//! ```
//! use lineside_fabric::Options;
//! use lineside_fabric::replay::replay;
//! use std::path::Path;
//!
//! let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/edge");
//! let mut blocks = 0;
//! replay(&recorded, Options::default(), &mut |block| {
//!     assert!(block.differences.is_empty(), "the peer gave other codes");
//!     blocks += 1;
//!     true
//! })?;
//! assert_eq!(blocks, 14);
//! # Ok::<(), lineside_fabric::replay::ReplayError>(())
//! ```

pub mod access;
mod ahead;
pub mod audit;
pub mod block;
mod code;
pub mod config;
mod configurations;
pub mod der;
pub mod early;
pub mod ecdsa;
mod endorse;
mod entries;
mod error;
mod expiry;
mod hashes;
pub mod history;
mod identity;
#[cfg(feature = "laboratory")]
pub mod laboratory;
#[rustfmt::skip] // generated
pub mod layout;
pub mod ledger;
mod lifecycle;
pub mod limits;
pub mod listing;
mod merkle;
pub mod msp;
mod mvcc;
mod parts;
pub mod peer_ledger;
pub mod pem;
mod policy;
pub mod proto;
mod read;
pub mod replay;
mod rules;
mod rwset;
pub mod signature;
pub mod snapshot;
pub mod state;
mod tables;
mod tx;
mod update;
mod validate;
pub mod x509;

pub use code::TxCode;
pub use configurations::Configurations;
pub use error::{Error, Refused, Stop};
pub use validate::{Options, StageTimes, ValidatedBlock, Validator};

#[cfg(test)]
mod tests;
