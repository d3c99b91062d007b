//! Options of a node's client, and fixed limits.

use crate::secret::CredentialSources;
use std::path::PathBuf;
use std::time::Duration;

/// Maximum length of a block, in bytes: consensus limits the weight to 4,000,000 units, and every byte weighs at least
/// one.
pub const BLOCK_BYTES_MAX: usize = 4_000_000;
/// Maximum length of an answer with a block as hexadecimal text, in bytes.
pub(crate) const BLOCK_ANSWER_BYTES_MAX: usize = 2 * BLOCK_BYTES_MAX + 1024;
/// Maximum length of an answer without a block, in bytes.
pub(crate) const ANSWER_BYTES_MAX: usize = 1 << 20;
/// Maximum number of hashes or headers in one request.
pub(crate) const BATCH_MAX: usize = 500;

/// Policy for an interface that a node may or may not offer, such as notifications or REST.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Use {
    /// The interface is used if the node offers it.
    #[default]
    Offered,
    /// The interface is not used.
    Never,
}

/// Options of a node's client. The defaults suit a node on the same host or network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeOptions {
    /// Sources of credentials other than the URL.
    pub credentials: CredentialSources,
    /// File with certificates in PEM: btcd's own `rpc.cert`, or the certificate of the authority that signed it.
    pub ca_file: Option<PathBuf>,
    /// Time limit of a call, from its first byte to its last, including the opening of a connection.
    pub call_timeout: Duration,
    /// Time limit of a call that fetches a block.
    pub block_timeout: Duration,
    /// Interval of requests for the best block while there are no notifications.
    pub poll_interval: Duration,
    /// Interval of requests for the best block while notifications arrive, in case one is lost.
    pub backup_poll_interval: Duration,
    /// Use of notifications by ZMQ or web socket.
    pub notifications: Use,
    /// Use of Bitcoin Core's REST interface for blocks, which halves the transferred bytes.
    pub rest: Use,
    /// Use of btcd's web socket for calls. Without a web socket each call opens a connection, because btcd closes an
    /// HTTP connection after each answer.
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
