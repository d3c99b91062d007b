//! The hybrid database over gRPC: [`serve::start`] serves a node. The client is in the crate `lineside-client`.
//!
//! `proto/hybrid.proto` defines the service for other languages; `docs/hybrid.md` describes the guarantees of the
//! answers. [`paper`] is the paper's own service, `proto/paper.proto`, for databases in the paper's mode.
//!
//! ```no_run
//! use lineside_hybrid_grpc::{Database, Limits, Running, start};
//! use std::sync::Arc;
//!
//! # async fn example(node: Arc<dyn Database>) -> std::io::Result<Running> {
//! start("127.0.0.1:7705", None, node, Limits::default()).await
//! # }
//! ```

mod codec;
mod counted;
pub mod paper;
pub mod serve;
mod watch;

pub use counted::{Counted, RequestCounts};
pub use lineside_grpc::{Gate, Running, ServerTls, SetupError};
pub use serve::{Database, Limits, start};
