//! Requests as UDP datagrams, as described in `docs/hybrid.md`.
//!
//! [`server`] connects a socket datapath to a node. The encodings are in `lineside-messages`.

pub mod server;

pub use server::{HybridFastPath, HybridHost};
