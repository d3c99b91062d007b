//! Client of a Bitcoin full node.

pub mod answers;
mod backoff;
mod block_files;
mod blocking;
mod download;
mod error;
mod feed;
mod follower;
mod hash;
mod http;
mod link;
mod node;
mod notifier;
mod options;
mod rpc_node;
mod secret;
mod socket;
mod stream;
mod tls;
mod url;
pub mod zmq;

pub use backoff::Backoff;
pub use block_files::{BlockFiles, BlockFilesError, FileBlock, Position};
pub use download::{Download, DownloadOptions, DownloadedBlock, Progress};
pub use error::{Fault, NodeError, SetupError};
pub use feed::{Event, Feed};
pub use follower::{Follower, LessWork, LocalChain, Step};
pub use hash::{BlockHash, HEADER_BYTES, NotAHash, parent_of};
pub use node::{Announcement, Header, Node, NodeInfo, NoticedBy, connect};
pub use options::{BLOCK_BYTES_MAX, NodeOptions, Use};
pub use secret::{CredentialSources, Credentials, PASSWORD_VARIABLE, Secret};
pub use url::{Endpoint, NodeUrl, UrlError};
