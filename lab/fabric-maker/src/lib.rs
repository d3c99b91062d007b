//! Generates channels of Hyperledger Fabric for tests and benchmarks: organisations and their certificates, the
//! configuration, a chaincode's definition, and blocks of transactions in the form of those of a real network.
//!
//! [`Blocks`] generates the blocks one after the other from the genesis block on, with the validation code that a real
//! peer gives to each transaction. All keys and contents are derived from a seed. [`cache`] stores generated blocks.
//!
//! ```
//! use lineside_fabric_maker::{Blocks, Network, Options, Workload};
//! use std::sync::Arc;
//!
//! let network = Arc::new(Network::new(1, Options::default()));
//! let genesis = Blocks::new(network, Workload::default(), 1).next().expect("there is always a next block");
//! assert_eq!(genesis.number, 0);
//! ```

mod block;
mod blocks;
pub mod cache;
mod cert;
mod chaincode;
mod config;
mod fault;
mod lifecycle;
mod network;
mod proto;
mod rwset;
mod sign;
mod tx;

pub use block::BlockFault;
pub use blocks::{Blocks, MadeBlock, Workload, spoil};
pub use chaincode::Chaincode;
pub use config::BatchSize;
pub use fault::Fault;
pub use lifecycle::Policy;
pub use network::{Identity, Network, Odd, Options, Organisation};
pub use sign::{Key, Signature};
