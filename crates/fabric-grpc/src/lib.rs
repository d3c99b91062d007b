//! Fabric's Deliver service over gRPC: a client that follows an orderer or a peer, and a server that delivers blocks as
//! a peer does.
//!
//! [`client::Follower`] hands out a channel's blocks in order, reconnects after failures, and removes bytes that do
//! not belong to a block. [`serve::serve`] answers `protos.Deliver` from any [`source::CommittedSource`] with a peer's
//! checks, and the other services of a peer that [`gateway`] lists. With the cargo feature `laboratory`,
//! `mock::Orderer` is an orderer without a network.
//!
//! [`replica::committed`] makes a source from the ledger of a running replica.
//!
//! `docs/fabric-serving.md` describes the services, and the differences from a peer.
//!
//! ```no_run
//! use lineside_fabric_grpc::{Follower, Signer, client};
//! use std::path::Path;
//! use std::sync::Arc;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let signer = Signer::from_msp_folder("Org1MSP", Path::new("msp"))?;
//! let orderers = vec![client::endpoint("orderer.example.com:7050")?];
//! let mut follower = Follower::new(client::Options::new(orderers, Arc::new(signer), "channel", 0));
//! let genesis = follower.next().await;
//! assert_eq!((genesis.number, follower.next_number()), (0, 1));
//! # Ok(())
//! # }
//! ```

pub mod client;
mod deliver;
mod filtered;
mod foreign;
pub mod gateway;
mod left;
pub mod messages;
#[cfg(feature = "laboratory")]
pub mod mock;
pub mod replica;
pub mod request;
pub mod serve;
mod session;
mod signer;
pub mod source;

pub use client::{Follower, follow, follow_ahead};
pub use filtered::{filter, read_filtered};
pub use foreign::without_foreign_bytes;
pub use lineside_grpc::{ClientTls, Running, ServerTls};
pub use serve::{serve, start};
pub use signer::{SetupError, Signer};
pub use source::CommittedSource;
