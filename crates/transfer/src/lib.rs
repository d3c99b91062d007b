//! The `transfer` service: digital assets moved from account to account, at the line or by the host, exactly once.
//!
//! [`rules`] says what an operation does to what accounts hold. [`paper`] and [`native`] are the formats. [`store`] is
//! the memory that the fast path, host and XDP share; [`fastpath`] answers from it. [`ledger`] is the host's truth.

#![forbid(unsafe_code)]

mod account;
mod bytes;
mod cell;
pub mod claims;
pub mod client;
pub mod datapath;
pub mod entry;
pub mod fastpath;
mod hex;
pub mod host;
pub mod ledger;
pub mod native;
pub mod paper;
pub mod ring;
pub mod rules;
pub mod server;
pub mod settle;
pub mod settlement;
pub mod signed;
pub mod store;
pub mod writer;

pub use account::AccountId;
