//! Fabric's Deliver over gRPC: follows an orderer or a peer, and serves block events as a peer does.
//!
//! [`client::Follower`] hands out a channel's blocks in order, reconnects after failures, and removes bytes that do
//! not belong to a block. [`serve::serve`] answers `protos.Deliver` from any [`source::CommittedSource`] with a peer's
//! checks, and the other services of a peer that [`gateway`] lists. With the cargo feature `laboratory`,
//! `mock::Orderer` is an orderer without a network.
//!
//! [`replica::committed`] makes the source of a ledger that is being written.
//!
//! `docs/fabric-serving.md` describes the services, and the differences from a peer.

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
