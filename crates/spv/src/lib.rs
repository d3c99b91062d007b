//! The `spv` service: returns the Merkle root of the block that holds a transaction, and the path to that root.
//!
//! ```text
//!  datagram -> XDP: spv.bpf.c over the fast-path table ----------------------------------------> reply (XDP_TX)
//!                | miss: XDP_PASS
//!  threads `fastpath-N`: SpvFastPath over the same table --------------------------------------> reply
//!                | Forward
//!  bounded queue (full: native requests are answered `busy`, paper requests are dropped)
//!                |
//!  thread `host`: SpvHost -> Chain::locate under the chain's read lock -> SpvFill::fill -------> reply
//!
//!  new block -> SpvHost::submit: check it, without a lock -> chain write lock
//!            -> SpvFill::begin: the fast path forwards everything -> wait until answers in progress have been sent
//!            -> invalidate its transactions, change the chain -> SpvFill::commit: the fast path answers at the new tip
//!            durable after SpvHost::sync
//!  proof: the host computes the block's Merkle tree once (bounded cache), and SpvFill::fill_tree puts it into the
//!         table, from which the fast path collects the paths of all its transactions
//!  witness proof: the host alone, from WTXIDs and coinbases where the chain keeps them, by a cache of witness trees
//!  thread `spv-node`: follows a full node and submits its blocks to SpvHost
//!  threads `lineside-electrum`: answer wallets and explorers over TCP from SpvHost
//!  thread `lease`: checks that SpvHost responds, then renews the lease; without a lease the fast path forwards
//! ```
//!
//! [`fastpath`] is the executable specification of the fast path; it reads the table in [`store`] through [`reader`].
//! [`writer`] contains the only writer of this table. [`chain`] stores blocks and transactions, and [`host`] answers
//! from the chain. [`follow`] fetches new blocks from a full node into the chain, and [`wallets`] presents the chain to
//! the Electrum server. [`client`] sends requests and [`reply`] parses replies. [`datapath`] describes the XDP program
//! and its maps to the loader, and [`nic`] writes the table in the RTL.
//!
//! ```no_run
//! use lineside_client::spv::Client;
//! use std::time::Duration;
//!
//! let server = "127.0.0.1:7701".parse()?;
//! let mut client = Client::connect(server, Duration::from_secs(1))?;
//! let txid = [0; 32];
//! let proof = client.proof(&txid)?;
//! # let _ = proof;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod chain;
pub mod config;
pub mod datapath;
pub mod fastpath;
pub mod follow;
mod frontends;
pub mod host;
#[rustfmt::skip] // generated
pub mod layout;
pub mod nic;
pub mod reader;
pub mod request;
mod ring;
pub mod service;
pub mod store;
mod tree_cache;
pub mod wallets;
pub mod writer;
