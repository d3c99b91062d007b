//! Fabric's Deliver over gRPC: following an orderer or a peer, and serving block events as a peer does.
//!
//! [`client::Follower`] hands out a channel's blocks as they came, whatever connections do, without bytes
//! that are no part of a block.
//! [`serve::serve`] answers `protos.Deliver` from any [`source::Source`], with a peer's checks, and what [`gateway`]
//! lists of a peer's other services. With the cargo feature
//! `laboratory`, `mock::Orderer` is an orderer without a network.
//!
//! [`replica::committed`] is the source of a ledger that is being written.
//!
//! `docs/fabric-serving.md` says what is served, and where it differs from a peer.

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
pub use source::Source;
