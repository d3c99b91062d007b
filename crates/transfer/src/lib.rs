//! The `transfer` service: moves digital assets from account to account, exactly once, in the fast path or in the
//! host.
//!
//! ```text
//!  datagram -> XDP: transfer.bpf.c over the fast-path table -> reply: balances; in `express` also plain operations
//!                | XDP_PASS; a socket filter drops writes whose UDP checksum is 0    `-> record in this CPU's ring
//!  threads `fastpath-N`: TransferFastPath, which only answers balances if XDP is attached -> reply
//!  thread `streams`: native packets over TCP, handled like datagrams
//!                | Forward
//!  bounded queue, up to 512 requests per group
//!                |
//!  thread `host`: Server -> Host::execute: check signatures -> Ledger -> append records to the journal
//!                |                                                 `-> begin commit -> thread `commits`: fdatasync
//!                |    executes the next group meanwhile                                          |
//!                v                                                                               |
//!           Host::take <----------------- commit durable ----------------------------------------'
//!                `-> TransferFill::apply: the fast path sees the new balances -> replies, in the order of the groups
//!
//!  `express`: thread `host` empties the rings at least every millisecond when idle and before every group:
//!    Ring -> Ledger -> journal -> fdatasync -> release the records -> renew the lease
//!    To execute a forwarded request, it claims accounts and sessions, or ends the lease until it is done.
//! ```
//!
//! [`rules`] defines the effect of an operation on balances. [`paper`] and [`native`] are the formats. [`store`] is
//! the fast-path table, shared by host, sockets and XDP; [`fastpath`] answers from it. [`ledger`] is the host's state
//! and [`entry`] its journal records. [`settle`] writes sealed blocks to their destination, in its own thread.
//!
//! ```no_run
//! use lineside_transfer::AccountId;
//! use lineside_client::transfer::Client;
//! use std::time::Duration;
//!
//! let server = "127.0.0.1:7702".parse()?;
//! let mut client = Client::connect(server, Duration::from_secs(1))?;
//! let balances = client.refer(&[AccountId([1; 16])])?;
//! assert_eq!(balances.len(), 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![deny(unsafe_code)]

mod bytes;
mod cell;
pub mod claims;
pub mod config;
pub mod datapath;
pub mod entry;
pub mod fastpath;
pub mod host;
#[allow(unsafe_code, reason = "the generator implements `Shared`, whose conditions it checks")]
#[rustfmt::skip] // generated
pub mod layout;
pub mod ledger;
pub mod native;
pub mod nic;
pub mod paper;
pub mod ring;
pub mod rules;
pub mod server;
pub mod service;
pub mod settle;
pub mod settlement;
pub mod signed;
pub mod store;
pub mod writer;

pub use lineside_messages::transfer::AccountId;
