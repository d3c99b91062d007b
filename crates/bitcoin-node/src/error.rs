//! Errors of the configuration, which occur before a node is contacted, and errors of a node.

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

/// Reason why no node can be contacted: the configuration is wrong. Trying again does not help.
#[derive(Debug, Error)]
pub enum SetupError {
    /// The URL is wrong.
    #[error(transparent)]
    Url(#[from] UrlError),
    /// The URL names a directory, which has no RPC.
    #[error("node: blocks-dir: names files, not a node that can be followed; give bitcoind:// or btcd://")]
    NotANode,
    /// Both a user and a cookie file are configured.
    #[error("node: the URL names the user `{user}`, and a cookie file is given too; give one of them")]
    TwoCredentials {
        /// The user of the URL.
        user: String,
    },
    /// A user is configured without a password.
    #[error(
        "node: the user `{user}` has no password; give a password file, or set {PASSWORD_VARIABLE}, \
         or write USER:PASSWORD@ in the URL"
    )]
    NoPassword {
        /// The user of the URL.
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
    #[error("node: {}: the first line is empty; write the password there", path.display())]
    EmptyPasswordFile {
        /// The file.
        path: PathBuf,
    },
    /// The password file cannot be read.
    #[error("node: password file")]
    PasswordFile(#[from] KeyFileError),
    /// No certificate is configured by which btcd can be authenticated.
    #[error(
        "node: btcd:// uses TLS and needs btcd's own certificate: give its rpc.cert (in btcd's directory, ~/.btcd on \
         Linux) with --node-ca FILE or `node_ca`, or write btcd+notls:// if btcd runs with --notls"
    )]
    NoCertificate,
    /// The CA file cannot be read.
    #[error("node: CA file {}", path.display())]
    CaFile {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The CA file has no usable certificate.
    #[error("node: CA file {}: {why}; give a file with certificates in PEM", path.display())]
    NotCertificates {
        /// The file.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// The operating system cannot create an event queue.
    #[error("node: the event queue for its connections cannot be created")]
    Runtime(#[source] io::Error),
}

/// A fault, and the node at which it occurred.
#[derive(Debug, Error)]
#[error("{node}: {fault}")]
pub struct NodeError {
    /// The node's address, without secrets.
    pub node: Box<str>,
    /// The fault. It is part of the message, so it is not also reported as the source.
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
    #[error("no connection: {source}; is the node running, and is its RPC open to this host?")]
    Connect {
        /// The system's error.
        source: io::Error,
    },
    /// The TLS handshake failed.
    #[error(
        "TLS: {why}; give the node's own certificate (btcd: rpc.cert) with --node-ca FILE or `node_ca`, \
         or btcd+notls:// if the node runs without TLS"
    )]
    Tls {
        /// The reason.
        why: String,
    },
    /// The connection ended during an answer.
    #[error("the connection ended during {call}: {why}; the call can be repeated")]
    Lost {
        /// The call.
        call: &'static str,
        /// The reason.
        why: String,
    },
    /// The answer did not arrive in time.
    #[error(
        "{call} was not answered within {:.1} s; the node is overloaded or unreachable, \
         or the time limit is too short", after.as_secs_f64()
    )]
    TimedOut {
        /// The call.
        call: &'static str,
        /// The time limit.
        after: Duration,
    },
    /// The cookie file does not exist.
    #[error(
        "cookie file {}: it does not exist; Bitcoin Core creates it at start: start the node, or give the `.cookie` \
         of its data directory (-datadir; in its folder testnet3, testnet4, signet or regtest for such a network)",
        path.display()
    )]
    NoCookie {
        /// The file.
        path: PathBuf,
    },
    /// The cookie file cannot be read.
    #[error(
        "cookie file {}: {source}; Bitcoin Core creates it at each start, readable by its own user (see \
         -rpccookieperms)",
        path.display()
    )]
    Cookie {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// HTTP 401.
    #[error("the user or password is refused (HTTP 401); compare them with rpcauth or rpcuser of the node")]
    Unauthorized,
    /// HTTP 403.
    #[error("this host or user may not use the RPC (HTTP 403); see rpcallowip and rpcwhitelist of the node")]
    Forbidden,
    /// RPC error -28.
    #[error("the node is starting: {message}; it answers when that is done")]
    WarmingUp {
        /// The node's message.
        message: String,
    },
    /// HTTP 503, or the node accepts no further connection.
    #[error("the node is busy (HTTP 503: {message}); see rpcworkqueue, rpcthreads or rpcmaxclients")]
    Busy {
        /// The node's message.
        message: String,
    },
    /// Another HTTP status without an RPC answer.
    #[error("{call} was answered with HTTP {status}: {message}; is this the RPC port of a node?")]
    Http {
        /// The call.
        call: &'static str,
        /// The status.
        status: u16,
        /// The beginning of the body.
        message: String,
    },
    /// An error of the RPC that has no variant of its own.
    #[error("{call} failed: {message} (RPC error {code})")]
    Rpc {
        /// The call.
        call: &'static str,
        /// The code of the error.
        code: i64,
        /// The node's message.
        message: String,
    },
    /// The chain has no block at this height.
    #[error("the chain has no block at height {height}")]
    NoSuchHeight {
        /// The height.
        height: u32,
    },
    /// The node does not know the block.
    #[error("block {hash} is not known to the node")]
    NoSuchBlock {
        /// The hash.
        hash: BlockHash,
    },
    /// The node has deleted the block.
    #[error(
        "block {hash} was deleted by pruning; follow a node without `prune`, or one that keeps more blocks"
    )]
    Pruned {
        /// The hash.
        hash: BlockHash,
    },
    /// The node has only the header.
    #[error("block {hash} is not downloaded by the node yet; it is available when the node has caught up")]
    NotDownloaded {
        /// The hash.
        hash: BlockHash,
    },
    /// An answer exceeds the size limit.
    #[error("the answer to {call} is longer than {limit_bytes} bytes; do not trust this node")]
    TooLarge {
        /// The call.
        call: &'static str,
        /// The limit.
        limit_bytes: usize,
    },
    /// An answer does not have the form of its call.
    #[error("the answer to {call} is malformed: {why}; is this the RPC port of a node?")]
    Malformed {
        /// The call.
        call: &'static str,
        /// The reason.
        why: String,
    },
    /// The block files cannot be read.
    #[error("block files: {0}")]
    Files(BlockFilesError),
    /// The node is on another network.
    #[error(
        "the node is on another network: its first block is {found}, that of this store is {expected}; \
         follow a node of the store's network"
    )]
    OtherNetwork {
        /// Hash of the first block of the configured network.
        expected: BlockHash,
        /// Hash of the node's first block.
        found: BlockHash,
    },
    /// The node reports the challenge of another signet.
    #[error(
        "the node is on another signet, {found}; this store holds {expected}: follow a node with that \
         signetchallenge, or create a store with `lineside spv init --signet-challenge`"
    )]
    OtherSignet {
        /// The configured signet.
        expected: SignetId,
        /// The node's.
        found: SignetId,
    },
    /// The node's first blocks belong to another signet; it does not report its challenge.
    #[error(
        "the node is on another signet: its block at height 1 is {theirs}, that of this store is {ours}; follow a \
         node with the signetchallenge of the store"
    )]
    OtherFirstBlock {
        /// Local block at height 1.
        ours: BlockHash,
        /// The node's block at height 1.
        theirs: BlockHash,
    },
    /// A block or header has another hash than the requested one.
    #[error("the node answered {found} to a request for block {asked}; do not trust it")]
    WrongBlock {
        /// The requested hash.
        asked: BlockHash,
        /// The hash of the answer.
        found: BlockHash,
    },
    /// The node's list of hashes is not a chain.
    #[error(
        "the node lists {hash} at height {height}, but the parent of that block is {found}, not {expected}; \
         do not trust the node if this repeats"
    )]
    WrongParent {
        /// The height.
        height: u32,
        /// The block.
        hash: BlockHash,
        /// Hash of the block before it.
        expected: BlockHash,
        /// The parent that its header names.
        found: BlockHash,
    },
    /// A header does not meet its own target.
    #[error("block {hash} at height {height} has no proof of work; do not trust the node")]
    NoWork {
        /// The height.
        height: u32,
        /// The block.
        hash: BlockHash,
    },
    /// The node's best chain has less work than the local one.
    #[error(
        "the node's chain, {node_height} blocks with the tip {node_tip}, has less work than the local one, \
         {local_height} blocks with the tip {local_tip}; the local chain is kept. A node that is synchronising \
         catches up; otherwise it lost its data, or its chain was shortened manually"
    )]
    LessWork {
        /// Height of the node's tip.
        node_height: u32,
        /// The node's tip.
        node_tip: BlockHash,
        /// Height of the local tip.
        local_height: u32,
        /// The local tip.
        local_tip: BlockHash,
    },
    /// The chain changed during every comparison.
    #[error("the node's chain changed {attempts} times while it was compared; it is compared again later")]
    Unsteady {
        /// Number of comparisons.
        attempts: u32,
    },
    /// The local chain has no hash at a height below its tip.
    #[error("the local chain has no block at height {height}, below its tip; its store is damaged")]
    LocalGap {
        /// The height.
        height: u32,
    },
    /// The program is stopping, or does not need the answer any more.
    #[error("the call was interrupted, because this program is stopping")]
    Interrupted,
    /// A download was stopped because all its workers ended.
    #[error("the download was stopped at height {height}")]
    Stopped {
        /// Height of the next block.
        height: u32,
    },
}

impl NodeFault {
    /// Returns true if the call may succeed later without a change of the configuration or of the node's data: the node
    /// is unreachable, starting, busy, or catching up.
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

    /// Returns true if the node sent something that no correct node on this network sends.
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
