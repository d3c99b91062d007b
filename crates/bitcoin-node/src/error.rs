//! Errors of the configuration, which occur before a node is contacted, and faults of a node.

use crate::block_files::BlockFilesError;
use crate::hash::BlockHash;
use crate::secret::PASSWORD_VARIABLE;
use crate::signet::SignetId;
use crate::url::UrlError;
use lineside_util::key_file::KeyFileError;
use std::io;
use std::path::PathBuf;
use std::time::Duration;
use thiserror::Error;

/// Reason why no node can be contacted: the configuration is wrong. A repetition does not help.
#[derive(Debug, Error)]
pub enum SetupError {
    /// The URL is wrong.
    #[error(transparent)]
    Url(#[from] UrlError),
    /// The URL names a directory, which has no RPC.
    #[error(
        "node: blocks-dir:PATH is a directory of files, not a node with RPC; give a bitcoind:// or btcd:// URL"
    )]
    NotANode,
    /// Both a user and a cookie file are configured.
    #[error(
        "node: the URL names the user `{user}`, and a cookie file is also given (--node-cookie, `node_cookie`); give \
         only one of the two"
    )]
    TwoCredentials {
        /// User name in the URL.
        user: String,
    },
    /// A user is configured without a password.
    #[error(
        "node: the user `{user}` has no password; give a password file (--node-password FILE, or `node_password`), set \
         {PASSWORD_VARIABLE} in the environment, or write USER:PASSWORD@ in the URL"
    )]
    NoPassword {
        /// User name in the URL.
        user: String,
    },
    /// No credentials for Bitcoin Core are configured.
    #[error(
        "node: bitcoind:// needs credentials, in one of three ways: the cookie file of the node (--node-cookie FILE, \
         or `node_cookie`); a user in the URL (USER@HOST:PORT) and the password in a file (--node-password FILE, or \
         `node_password`); or such a user and the password in the environment ({PASSWORD_VARIABLE})"
    )]
    NoCredentials,
    /// No credentials for btcd, which has no cookie file, are configured.
    #[error(
        "node: btcd needs credentials: a user in the URL (USER@HOST:PORT) and the password in a file (--node-password \
         FILE, or `node_password`) or in the environment ({PASSWORD_VARIABLE})"
    )]
    NoUser,
    /// A password file is configured without a user.
    #[error(
        "node: a password file (--node-password, `node_password`) is given, but the URL names no user; write \
         USER@HOST:PORT"
    )]
    PasswordWithoutUser,
    /// The password file is empty.
    #[error("node: {}: the first line of this password file is empty; write the password into it", path.display())]
    EmptyPasswordFile {
        /// Path of the file.
        path: PathBuf,
    },
    /// The password file cannot be read.
    #[error("node: the password file cannot be used: {0}")]
    PasswordFile(#[from] KeyFileError),
    /// No certificate is configured by which btcd can be authenticated.
    #[error(
        "node: btcd:// uses TLS and needs btcd's own certificate: give its rpc.cert (in btcd's directory, ~/.btcd on \
         Linux) with --node-ca FILE or `node_ca`, or write btcd+notls:// if btcd runs with --notls"
    )]
    NoCertificate,
    /// The CA file cannot be read.
    #[error("node: cannot read the CA file {} (--node-ca, `node_ca`): {source}", path.display())]
    CaFile {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The CA file has no usable certificate.
    #[error("node: CA file {}: {why}; give a file with certificates in PEM", path.display())]
    NotCertificates {
        /// Path of the file.
        path: PathBuf,
        /// Description of the reason.
        why: String,
    },
    /// The operating system cannot create an event queue.
    #[error("node: the operating system cannot create an event queue for the connections to the node: {0}")]
    Runtime(#[source] io::Error),
}

/// A fault, and the node at which it occurred.
#[derive(Debug, Error)]
#[error("{node}: {fault}")]
pub struct NodeError {
    /// Address of the node, without secrets.
    pub node: Box<str>,
    /// Fault of the node. The message of the error contains it, so it is not also returned as the source.
    pub fault: NodeFault,
}

impl NodeError {
    /// Combines a fault and its node.
    pub fn new(node: impl Into<Box<str>>, fault: NodeFault) -> NodeError {
        NodeError {
            node: node.into(),
            fault,
        }
    }
}

/// Fault of a node. The message says what happened and what to do.
#[derive(Debug, Error)]
pub enum NodeFault {
    /// The connection cannot be established.
    #[error("cannot connect: {source}; is the node running, and is its RPC open to this host?")]
    Connect {
        /// Error of the operating system.
        source: io::Error,
    },
    /// The TLS handshake failed.
    #[error(
        "the TLS handshake failed: {why}; give the node's own certificate (btcd: rpc.cert) with --node-ca FILE or \
         `node_ca`, or btcd+notls:// if the node runs without TLS"
    )]
    Tls {
        /// Description of the reason.
        why: String,
    },
    /// The connection ended during an answer.
    #[error("the connection to the node ended during {call}: {why}; try again")]
    Lost {
        /// Name of the call.
        call: &'static str,
        /// Description of the reason.
        why: String,
    },
    /// The answer did not arrive in time.
    #[error(
        "{call} was not answered within {:.1} s; the node is overloaded or unreachable, \
         or the time limit is too short", after.as_secs_f64()
    )]
    TimedOut {
        /// Name of the call.
        call: &'static str,
        /// Time limit of the call.
        after: Duration,
    },
    /// The cookie file does not exist.
    #[error(
        "cookie file {}: the file does not exist; Bitcoin Core creates it at each start: start the node, or give the \
         file `.cookie` in the node's data directory (-datadir; in its folder testnet3, testnet4, signet or regtest \
         for such a network)",
        path.display()
    )]
    NoCookie {
        /// Path of the file.
        path: PathBuf,
    },
    /// The cookie file cannot be read.
    #[error(
        "cookie file {}: {source}; run as the user of the node, or let this user read the file (Bitcoin Core creates \
         it at each start; see its option -rpccookieperms)",
        path.display()
    )]
    Cookie {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The node refuses the credentials (HTTP 401).
    #[error(
        "the node refuses the user or password (HTTP 401); compare them with rpcauth or rpcuser of the node"
    )]
    Unauthorized,
    /// The node does not permit the call (HTTP 403).
    #[error(
        "the node does not let this host or user use its RPC (HTTP 403); add them to rpcallowip or rpcwhitelist of the \
         node"
    )]
    Forbidden,
    /// The node is starting (RPC error -28).
    #[error("the node is starting ({message}) and answers when it has started; wait until then")]
    WarmingUp {
        /// Message of the node.
        message: String,
    },
    /// HTTP 503, or the node accepts no further connection.
    #[error(
        "the node is busy (HTTP 503: {message}); if this is repeated, raise rpcworkqueue, rpcthreads or rpcmaxclients \
         of the node"
    )]
    Busy {
        /// Message of the node.
        message: String,
    },
    /// Another HTTP status without an RPC answer.
    #[error("{call} was answered with HTTP {status}: {message}; is this the RPC port of a node?")]
    Http {
        /// Name of the call.
        call: &'static str,
        /// HTTP status of the answer.
        status: u16,
        /// Beginning of the answer's body.
        message: String,
    },
    /// An error of the RPC that has no variant of its own.
    #[error("{call} failed: {message} (RPC error {code})")]
    Rpc {
        /// Name of the call.
        call: &'static str,
        /// Error code of the RPC.
        code: i64,
        /// Message of the node.
        message: String,
    },
    /// The chain has no block at this height.
    #[error("the chain has no block at height {height}")]
    NoSuchHeight {
        /// Height of the block.
        height: u32,
    },
    /// The node does not know the block.
    #[error("block {hash} is not known to the node")]
    NoSuchBlock {
        /// Hash of the block.
        hash: BlockHash,
    },
    /// The node has deleted the block.
    #[error(
        "block {hash} was deleted by pruning; follow a node without `prune`, or one that keeps more blocks"
    )]
    Pruned {
        /// Hash of the block.
        hash: BlockHash,
    },
    /// The node has only the header.
    #[error("block {hash} is not downloaded by the node yet; it is available when the node has caught up")]
    NotDownloaded {
        /// Hash of the block.
        hash: BlockHash,
    },
    /// An answer exceeds the size limit.
    #[error("the answer to {call} is longer than {limit_bytes} bytes; do not trust this node")]
    TooLarge {
        /// Name of the call.
        call: &'static str,
        /// Maximum length of an answer in bytes.
        limit_bytes: usize,
    },
    /// An answer does not have the form of its call.
    #[error("the answer to {call} is malformed: {why}; is this the RPC port of a node?")]
    Malformed {
        /// Name of the call.
        call: &'static str,
        /// Description of the reason.
        why: String,
    },
    /// The block files cannot be read.
    #[error("block files: {0}")]
    Files(BlockFilesError),
    /// The node is on another network.
    #[error(
        "the node is on another network: the node's first block is {found}, but the first block of this store's \
         network is {expected}; follow a node of the store's network"
    )]
    OtherNetwork {
        /// Hash of the first block of the store's network.
        expected: BlockHash,
        /// Hash of the node's first block.
        found: BlockHash,
    },
    /// The node reports the challenge of another signet.
    #[error(
        "the node is on the signet {found}, but this store holds the signet {expected}; follow a node with the store's \
         signetchallenge, or create another store with `lineside spv init --signet-challenge`"
    )]
    OtherSignet {
        /// The configured signet.
        expected: SignetId,
        /// The signet of the node.
        found: SignetId,
    },
    /// The node's first blocks belong to another signet; it does not report its challenge.
    #[error(
        "the node is on another signet: the node's block at height 1 is {theirs}, but the store's is {ours}; follow a \
         node with the signetchallenge of the store"
    )]
    OtherFirstBlock {
        /// Local block at height 1.
        ours: BlockHash,
        /// The node's block at height 1.
        theirs: BlockHash,
    },
    /// The node sent a block or header with another hash than the requested one.
    #[error("the node sent block {found} in answer to a request for block {asked}; do not trust this node")]
    WrongBlock {
        /// The requested hash.
        asked: BlockHash,
        /// Hash of the block in the answer.
        found: BlockHash,
    },
    /// The node's list of hashes is not a chain.
    #[error(
        "the node lists {hash} at height {height}, but the parent of this block is {found}, not {expected}, which the \
         node lists below it; do not trust the node if this repeats"
    )]
    WrongParent {
        /// Height of the block.
        height: u32,
        /// Hash of the block.
        hash: BlockHash,
        /// Hash of the block before it.
        expected: BlockHash,
        /// Hash of the parent that the block's header names.
        found: BlockHash,
    },
    /// A header does not meet its own target.
    #[error("block {hash} at height {height} has no valid proof of work; do not trust this node")]
    NoWork {
        /// Height of the block.
        height: u32,
        /// Hash of the block.
        hash: BlockHash,
    },
    /// The node's best chain has less work than the local one.
    #[error(
        "the node's chain, {node_height} blocks with the tip {node_tip}, has less work than the local one, \
         {local_height} blocks with the tip {local_tip}; the local chain is kept. A node that is synchronising catches \
         up; otherwise the node lost data, or somebody shortened its chain manually"
    )]
    LessWork {
        /// Height of the node's tip.
        node_height: u32,
        /// Hash of the node's tip.
        node_tip: BlockHash,
        /// Height of the local tip.
        local_height: u32,
        /// Hash of the local tip.
        local_tip: BlockHash,
    },
    /// The chain changed during every comparison.
    #[error("the node's chain changed during each of {attempts} comparisons with the local chain; try again")]
    Unsteady {
        /// Number of comparisons.
        attempts: u32,
    },
    /// The local chain has no hash at a height below its tip.
    #[error(
        "the chain store is damaged: its chain has no block at height {height}, below its tip; restore the store from \
         a copy"
    )]
    LocalGap {
        /// Height of the block.
        height: u32,
    },
    /// The program is stopping, or does not need the answer any more.
    #[error("the call was interrupted, because this program is stopping")]
    Interrupted,
    /// A download was stopped because all its workers ended.
    #[error(
        "the download stopped at height {height}, because all threads that download blocks have ended; start it again"
    )]
    Stopped {
        /// Height of the next block.
        height: u32,
    },
}

impl NodeFault {
    /// Returns true if a later call may succeed without a change of the configuration or of the node's data, because
    /// the node is unreachable, starting, busy, or catching up.
    pub fn is_transient(&self) -> bool {
        matches!(
            self,
            NodeFault::Connect { .. }
                | NodeFault::Lost { .. }
                | NodeFault::TimedOut { .. }
                | NodeFault::NoCookie { .. }
                | NodeFault::Cookie { .. }
                | NodeFault::WarmingUp { .. }
                | NodeFault::Busy { .. }
                | NodeFault::NotDownloaded { .. }
                | NodeFault::NoSuchHeight { .. }
                | NodeFault::NoSuchBlock { .. }
                | NodeFault::WrongParent { .. }
                | NodeFault::Unsteady { .. }
                | NodeFault::LessWork { .. }
        )
    }

    /// Returns true if the node sent data that no correct node on this network sends.
    pub fn is_lie(&self) -> bool {
        matches!(
            self,
            NodeFault::TooLarge { .. }
                | NodeFault::WrongBlock { .. }
                | NodeFault::NoWork { .. }
                | NodeFault::OtherNetwork { .. }
                | NodeFault::OtherSignet { .. }
                | NodeFault::OtherFirstBlock { .. }
                | NodeFault::Malformed { .. }
        )
    }
}
