//! Client of a Bitcoin full node: reads its chain of blocks, and follows it.
//!
//! The crate is for programs that keep data for each block of the best chain, for example the `spv` service of
//! Lineside, and run near a node of the same operator. All calls block and end within the time limits of
//! [`NodeOptions`]. They must not be made from asynchronous tasks.
//!
//! ```text
//!                 NodeUrl, NodeOptions
//!                      | connect
//!                      v
//!   Bitcoin Core <-- Node --> btcd          BlockFiles: blk*.dat, for the first synchronisation on one host
//!   RPC, REST, ZMQ     |      RPC, web      Download:   a range of heights over several connections
//!                      v      sockets
//!                  Follower <-- LocalChain (the caller's)
//!                      | Step: Disconnect, Connect
//!                      v
//!                    Feed: adds pauses while the node is unreachable
//! ```
//!
//! ```no_run
//! use lineside_bitcoin_node::{BlockHash, Event, Feed, Follower, LessWork, LocalChain, NodeOptions, NodeUrl, connect};
//! use std::time::Duration;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # struct Chain;
//! # impl LocalChain for Chain {
//! #     fn tip(&self) -> Option<(u32, BlockHash)> { None }
//! #     fn hash_at(&self, _: u32) -> Option<BlockHash> { None }
//! # }
//! # let chain = Chain;
//! let url: NodeUrl = "bitcoind://127.0.0.1:8332".parse()?;
//! let mut options = NodeOptions::default();
//! options.credentials.cookie_file = Some("/var/lib/bitcoind/.cookie".into());
//! let genesis: BlockHash = "000000000019d6689c085ae165831e934ff763ae46a2a6c172b3f1b60a8ce26f".parse()?;
//! let mut feed = Feed::new(connect(&url, &options)?, Follower::new(genesis, LessWork::Refuse));
//! loop {
//!     match feed.next(&chain, Duration::from_secs(1)) {
//!         Event::Step(step) => println!("carry out {step:?}"),
//!         Event::AtTip | Event::Pausing => {}
//!         Event::Away { error, .. } => eprintln!("{error}"),
//!     }
//! }
//! # }
//! ```
//!
//! # Trust
//!
//! The node is trusted only for a fact that this crate cannot check: that a block is in the node's best chain. The
//! crate checks headers: every block and header has the requested hash, each block is the child of the block before it,
//! and a branch that would replace local blocks has valid proof of work, at least as much as the local blocks. The
//! caller must check Merkle roots, targets and transactions.
//!
//! A node that sends wrong data or does not answer can cause only limited costs: an answer has at most 1 MiB, an answer
//! with a block 8 MB, a block 4 MB; every call has a time limit; the search for the fork of two chains takes at most 64
//! requests.
//!
//! # Limits
//!
//! - REST and ZMQ are used if the node offers them. Bitcoin Core's ZMQ has no security (mechanism NULL), so a
//!   notification only causes a request to the node.
//! - TLS is supported for btcd; Bitcoin Core's RPC has no TLS. If a tunnel or a proxy adds TLS, its end must run on
//!   this host.
//! - The password of a URL is visible in the process list if the URL is an argument: use a file, or the environment
//!   variable [`PASSWORD_VARIABLE`].
//! - The system's name resolver has no time limit. If it does not return, the call ends at its own time limit, but the
//!   resolver's thread remains.

pub mod answers;
mod backoff;
mod block_files;
mod blocking;
mod blocks_dir;
mod download;
mod error;
mod feed;
mod follower;
mod hash;
mod http;
mod interrupt;
mod link;
mod node;
mod notifier;
mod options;
mod parallel;
mod rpc_node;
mod secret;
mod signet;
mod socket;
mod stream;
mod tls;
mod url;
pub mod zmq;

pub use backoff::Backoff;
pub use block_files::{BlockFiles, BlockFilesError, FileBlock, Position};
pub use blocks_dir::BlocksDir;
pub use download::{Download, DownloadOptions, DownloadedBlock, Progress};
pub use error::{NodeError, NodeFault, SetupError};
pub use feed::{Event, Feed};
pub use follower::{ChainStep, Follower, LessWork, LocalChain};
pub use hash::{BlockHash, HEADER_BYTES, NotAHash, parent_of};
pub use interrupt::Interrupter;
pub use node::{Announcement, Header, Node, NodeInfo, NoticedBy, connect};
pub use options::{BLOCK_BYTES_MAX, NodeOptions, Use};
pub use parallel::ParallelNode;
pub use secret::{CredentialSources, Credentials, PASSWORD_VARIABLE, Secret};
pub use signet::{NotAChallenge, SignetId};
pub use url::{Endpoint, NodeUrl, UrlError};
