//! Server that proves to wallets and explorers that transactions are in a chain. It answers the requests of the
//! Electrum protocol (1.4 to 1.6, TCP and TLS) and the paths of Esplora's HTTP interface that need only headers and
//! Merkle paths. Requests that need an index of scripts are forwarded to another Electrum server, the upstream server.
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
//! The chain is any type that implements [`ProofChain`]. A reply is computed for one state of the chain. If the chain
//! changes during the computation, the reply is computed again, so no answer about a disconnected block is sent after
//! the new tip is known. Merkle trees are cached by block hash, so they stay valid after reorganisations.
//!
//! [`Server::start`] runs everything on its own threads. [`Limits`] bounds the resources that one client can use.
//!
//! ```
//! use lineside_electrum::request::{RequestLine, parse};
//!
//! let line = br#"{"id":7,"method":"blockchain.block.header","params":[0]}"#;
//! let Ok(RequestLine::One(request)) = parse(line, 100) else {
//!     panic!("it is one request");
//! };
//! assert_eq!((request.id, &*request.method), (Some("7"), "blockchain.block.header"));
//! ```

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
