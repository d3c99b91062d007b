//! The `spv` service: which Merkle root holds this transaction?
//!
//! [`near`] is the cache at the line, read through [`reader`], [`writer`] the one thread's hand that fills it, `chain` the truth behind it.

pub mod chain;
pub mod host;
pub mod near;
pub mod reader;
pub mod request;
pub mod store;
pub mod writer;
