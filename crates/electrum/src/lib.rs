//! A server of proofs of a chain, over the Electrum protocol (1.4 to 1.6, TCP and TLS) and over those paths of
//! Esplora's HTTP interface that need only headers and Merkle paths. What needs an index of scripts goes to another
//! Electrum server, the upstream server.
//!
//! ```text
//! wallets --- TCP, TLS ---> connection --- get_merkle, headers, ... ---> answers ---> ProofChain
//!                               |                                          |   \--> cache of trees
//!                               \--- scripthash.*, ... ---> link           |
//!                                                            |             |
//!                                                            v             |
//!                                                     upstream server      |
//! explorers --- HTTP ------> esplora --------------------------------------/
//! ```
//!
//! The chain is anything that implements [`ProofChain`]. A reply is computed for one state of the chain: if the chain
//! changes meanwhile it is computed again, so that no answer of a disconnected block leaves after the new tip is known.
//! Merkle trees are kept by block hash, so that they stay true over reorganisations.
//!
//! [`Server::start`] runs everything on threads of its own; [`Limits`] bounds what one client can take from others.

mod answers;
mod chain;
mod checkpoint;
mod connection;
mod esplora;
mod forward;
mod gate;
mod limits;
mod merkle;
mod methods;
mod proxies;
mod rate;
mod reply;
pub mod request;
mod results;
mod server;
mod trees;
mod upstream;
mod version;

pub use chain::{HEADER_BYTES, Location, ProofChain, TipInfo, Unavailable};
pub use limits::{CounterValues, Counters, Limits};
pub use merkle::{BlockTree, TreeError, sha256d};
pub use proxies::TrustedProxies;
pub use server::{Config, Host, Server};
pub use upstream::{Upstream, UpstreamState, UpstreamTls, UpstreamTlsError};
