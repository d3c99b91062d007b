//! Options of a node's client, and limits that have none.

use crate::secret::CredentialSources;
use std::path::PathBuf;
use std::time::Duration;

/// Longest block, in bytes: consensus limits the weight to 4,000,000 units, and no byte weighs less than one.
pub const BLOCK_BYTES_MAX: usize = 4_000_000;
/// Longest answer with a block as hexadecimal text, in bytes.
pub(crate) const BLOCK_ANSWER_BYTES_MAX: usize = 2 * BLOCK_BYTES_MAX + 1024;
/// Longest answer without a block, in bytes.
pub(crate) const ANSWER_BYTES_MAX: usize = 1 << 20;
/// Most hashes or headers in one request.
pub(crate) const BATCH_MAX: usize = 500;

/// Whether something is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Use {
    /// Used where the node offers it.
    #[default]
    Offered,
    /// Not used.
    Never,
}

/// Options of a node's client. The defaults suit a node on the same host or network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeOptions {
    /// Sources of credentials besides the URL.
    pub credentials: CredentialSources,
    /// File with certificates in PEM: btcd's own `rpc.cert`, or that of an authority that signed it.
    pub ca_file: Option<PathBuf>,
    /// Time limit of a call, from its first byte to its last, the opening of a connection included.
    pub call_timeout: Duration,
    /// Time limit of a call that fetches a block.
    pub block_timeout: Duration,
    /// Interval at which the best block is asked for while there are no notifications.
    pub poll_interval: Duration,
    /// Interval at which the best block is asked for while notifications arrive, in case one is lost.
    pub backup_poll_interval: Duration,
    /// Notifications by ZMQ or web socket.
    pub notifications: Use,
    /// REST of Bitcoin Core for blocks, which halves the bytes.
    pub rest: Use,
    /// Calls of btcd by its web socket; without it, each call opens a connection, because btcd closes it after each.
    pub web_socket: Use,
}

impl Default for NodeOptions {
    fn default() -> Self {
        NodeOptions {
            credentials: CredentialSources::default(),
            ca_file: None,
            call_timeout: Duration::from_secs(15),
            block_timeout: Duration::from_secs(60),
            poll_interval: Duration::from_secs(1),
            backup_poll_interval: Duration::from_secs(15),
            notifications: Use::Offered,
            rest: Use::Offered,
            web_socket: Use::Offered,
        }
    }
}
