//! The hybrid database over gRPC: [`serve::start`] serves a node, [`Client`] signs and asks.
//!
//! `proto/hybrid.proto` has the service for other languages; `docs/hybrid.md` says what the answers promise. [`paper`]
//! is the paper's own service, `proto/paper.proto`, for databases of the paper's mode.

mod answers;
pub mod client;
mod codec;
pub mod messages;
pub mod paper;
pub mod serve;
mod watch;

pub use answers::Reply;
pub use client::{AskError, Client, Identity};
pub use lineside_grpc::{ClientTls, Gate, Running, ServerTls, SetupError};
pub use serve::{Asked, Limits, start};
