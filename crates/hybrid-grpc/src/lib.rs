//! The hybrid database over gRPC: [`serve::start`] serves a node, [`Client`] signs and sends requests.
//!
//! `proto/hybrid.proto` defines the service for other languages; `docs/hybrid.md` describes the guarantees of the
//! answers. [`paper`] is the paper's own service, `proto/paper.proto`, for databases in the paper's mode.
//!
//! ```no_run
//! use lineside_hybrid_grpc::{Client, Identity};
//!
//! # async fn example(identity: Identity) -> Result<(), lineside_hybrid_grpc::AskError> {
//! let client = Client::connect("node.example.com:7705", None, identity).await?;
//! client.delete(b"key", None).await?;
//! let proof = client.prove(b"key").await?;
//! # let _ = proof;
//! # Ok(())
//! # }
//! ```

mod answers;
pub mod client;
mod codec;
mod counted;
pub mod messages;
pub mod paper;
pub mod serve;
mod watch;

pub use answers::Reply;
pub use client::{AskError, Client, Identity};
pub use counted::{Counted, RequestCounts};
pub use lineside_grpc::{ClientTls, Gate, Running, ServerTls, SetupError};
pub use serve::{Database, Limits, start};
