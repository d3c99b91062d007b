//! The `fabric` service: blocks of Hyperledger Fabric, validated as a peer of version 3.1 validates them.
//!
//! A [`Validator`] starts from a channel's genesis block. [`Validator::validate`] says of the next block what the peer
//! would say: a code for each transaction, and the commit hash; [`Validator::commit`] makes it true. Where this
//! program cannot be sure what the peer says, it says so ([`Stop`]) instead of a code.
//!
//! `docs/fabric.md` says what is checked, and what is refused.

pub mod access;
mod ahead;
pub mod block;
mod code;
pub mod config;
pub mod der;
pub mod early;
mod endorse;
mod error;
mod hashes;
mod identity;
pub mod ledger;
mod lifecycle;
pub mod limits;
mod merkle;
pub mod msp;
mod mvcc;
mod parts;
pub mod pem;
mod policy;
pub mod proto;
mod read;
pub mod replay;
mod rules;
mod rwset;
pub mod state;
mod tables;
mod tx;
mod update;
mod validate;
pub mod x509;

pub use code::TxCode;
pub use error::{Error, Refused, Stop};
pub use validate::{Options, Times, Validated, Validator};

#[cfg(test)]
mod tests;
