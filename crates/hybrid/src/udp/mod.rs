//! Requests as UDP datagrams: what `docs/hybrid.md` says of UDP.
//!
//! [`codec`] has the bytes, [`server`] what stands behind a socket datapath, [`client`] signs and asks.

pub mod client;
pub mod codec;
pub mod server;

pub use client::{AskError, Client};
pub use server::{HybridFastPath, HybridHost};
