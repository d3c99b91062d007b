//! The hybrid database over gRPC: [`serve::start`] serves a node, [`Client`] signs and asks.
//!
//! `proto/hybrid.proto` has the service for other languages; `docs/hybrid.md` says what the answers promise.

mod answers;
pub mod client;
pub mod messages;
pub mod serve;
mod watch;

pub use answers::Reply;
pub use client::{AskError, Client, Identity};
pub use lineside_grpc::{ClientTls, Running, ServerTls, SetupError};
pub use serve::{Asked, Limits, start};
