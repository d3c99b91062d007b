//! The `spv` service: which Merkle root holds this transaction?
//!
//! [`fastpath`] is the cache at the line, read through [`reader`]; [`writer`] is the one thread's hand that fills it;
//! [`chain`] is the truth behind it, which [`host`] answers from; [`client`] asks and [`reply`] reads what it hears.
//! [`software`] is what the papers compare with.

pub mod chain;
pub mod client;
pub mod datapath;
pub mod fastpath;
pub mod host;
pub mod reader;
pub mod reply;
pub mod request;
pub mod store;
pub mod writer;
