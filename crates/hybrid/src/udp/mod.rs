//! Requests as UDP datagrams, as described in `docs/hybrid.md`.
//!
//! [`codec`] has the encodings, [`server`] connects a socket datapath to a node, and [`client`] signs requests and
//! sends them.

pub mod client;
pub mod codec;
pub mod server;

pub use client::{AskError, Client};
pub use server::{HybridFastPath, HybridHost};
