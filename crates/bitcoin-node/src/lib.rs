//! Client of a Bitcoin full node: reads its chain of blocks, and follows it.
//!
//! It is written for programs that keep something for each block of the best chain, such as the `spv` service of
//! Lineside, and run near a node of their operator. All calls block and end within the time limits of [`NodeOptions`];
//! they must not be made from asynchronous tasks.
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
//!                    Feed: the same with pauses while the node is away
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
//! A node is believed in what cannot be checked here: that a block is in its best chain. What can be checked of headers
//! is checked: the hash of every block and header is the one asked for, each block is the child of the one before it,
//! and a branch that would replace local blocks has proof of work, and no less of it than they have. Merkle roots,
//! targets and transactions are the caller's to check.
//!
//! A node that lies or stalls costs a bounded amount: an answer has at most 1 MiB, one with a block 8 MB, a block
//! 4 MB; every call has a time limit; a search for the place where two chains part takes at most 64 questions.
//!
//! # Limits
//!
//! - REST and ZMQ are used where the node says that it offers them. ZMQ is spoken without security (mechanism NULL), as
//!   Bitcoin Core offers it: its notifications only say when to ask.
//! - TLS is for btcd; Bitcoin Core's RPC has none. A tunnel or a proxy has to be on this host.
//! - The password of a URL is readable in the process list where the URL is an argument: give a file, or the
//!   environment variable [`PASSWORD_VARIABLE`].
//! - The system's name service has no time limit; while it hangs, a call ends in time, but a thread stays with it.

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
pub use error::{Fault, NodeError, SetupError};
pub use feed::{Event, Feed};
pub use follower::{Follower, LessWork, LocalChain, Step};
pub use hash::{BlockHash, HEADER_BYTES, NotAHash, parent_of};
pub use interrupt::Interrupter;
pub use node::{Announcement, Header, Node, NodeInfo, NoticedBy, connect};
pub use options::{BLOCK_BYTES_MAX, NodeOptions, Use};
pub use parallel::ParallelNode;
pub use secret::{CredentialSources, Credentials, PASSWORD_VARIABLE, Secret};
pub use signet::{NotAChallenge, SignetId};
pub use url::{Endpoint, NodeUrl, UrlError};
