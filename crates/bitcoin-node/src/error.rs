//! Errors: of the set-up before a node is asked, and of the node.

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

/// Reason why a node cannot be asked at all: the configuration is wrong. Trying again does not help.
#[derive(Debug, Error)]
pub enum SetupError {
    /// The URL is wrong.
    #[error(transparent)]
    Url(#[from] UrlError),
    /// The URL names a directory, which has no RPC.
    #[error("node: blocks-dir: names files, not a node that can be followed; give bitcoind:// or btcd://")]
    NotANode,
    /// There is a user and a cookie file.
    #[error("node: the URL names the user `{user}`, and a cookie file is given too; give one of them")]
    TwoCredentials {
        /// The user of the URL.
        user: String,
    },
    /// There is a user without a password.
    #[error(
        "node: the user `{user}` has no password; give a password file, or set {PASSWORD_VARIABLE}, \
         or write USER:PASSWORD@ in the URL"
    )]
    NoPassword {
        /// The user of the URL.
        user: String,
    },
    /// There are no credentials for Bitcoin Core.
    #[error(
        "node: bitcoind:// needs credentials, in one of three ways: the cookie file of the node (--node-cookie FILE, \
         or `node_cookie`); a user in the URL (USER@HOST:PORT) and the password in a file (--node-password FILE, or \
         `node_password`); or such a user and the password in the environment ({PASSWORD_VARIABLE})"
    )]
    NoCredentials,
    /// There are no credentials for btcd, which has no cookie file.
    #[error(
        "node: btcd needs credentials: a user in the URL (USER@HOST:PORT) and the password in a file (--node-password \
         FILE, or `node_password`) or in the environment ({PASSWORD_VARIABLE})"
    )]
    NoUser,
    /// There is a password file without a user.
    #[error("node: a password file is given, but the URL names no user; write USER@HOST:PORT")]
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
    /// There is no certificate to know btcd by.
    #[error(
        "node: btcd:// uses TLS and needs the certificate that btcd made: give its rpc.cert as the CA file \
         (btcd's directory, ~/.btcd on Linux), or write btcd+notls:// if btcd runs with --notls"
    )]
    NoCertificate,
    /// The file with certificates cannot be read.
    #[error("node: CA file {}", path.display())]
    CaFile {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The file with certificates holds none that can be used.
    #[error("node: CA file {}: {why}; give a file with certificates in PEM", path.display())]
    NotCertificates {
        /// The file.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// The operating system gives no event queue.
    #[error("node: the runtime for its connections cannot be made")]
    Runtime(#[source] io::Error),
}

/// A fault and the node that it happened at.
#[derive(Debug, Error)]
#[error("{node}: {fault}")]
pub struct NodeError {
    /// The node, without secrets.
    pub node: Box<str>,
    /// What happened. It is part of the message, so it is not its source again.
    pub fault: Fault,
}

impl NodeError {
    /// Puts a fault and its node together.
    pub fn new(node: impl Into<Box<str>>, fault: Fault) -> NodeError {
        NodeError {
            node: node.into(),
            fault,
        }
    }
}

/// What went wrong at a node, and what to do.
#[derive(Debug, Error)]
pub enum Fault {
    /// No connection comes about.
    #[error("no connection: {source}; is the node running, and is its RPC open to this host?")]
    Connect {
        /// The system's reason.
        source: io::Error,
    },
    /// TLS does not come about.
    #[error(
        "TLS: {why}; give the node's own certificate (btcd: rpc.cert) as the CA file, \
         or btcd+notls:// if the node runs without TLS"
    )]
    Tls {
        /// The reason.
        why: String,
    },
    /// The connection ended in the midst of an answer.
    #[error("the connection ended during {call}: {why}; the call can be repeated")]
    Lost {
        /// The call.
        call: &'static str,
        /// The reason.
        why: String,
    },
    /// The answer did not come in time.
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
    /// The cookie file is not there.
    #[error(
        "cookie file {}: it is not there; Bitcoin Core writes it when it starts: start the node, or give the `.cookie` \
         of its data directory (-datadir; in its folder testnet3, testnet4, signet or regtest for such a network)",
        path.display()
    )]
    NoCookie {
        /// The file.
        path: PathBuf,
    },
    /// The cookie file cannot be read.
    #[error(
        "cookie file {}: {source}; Bitcoin Core writes it at each start, readable by its own user (see \
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
        /// The node's words.
        message: String,
    },
    /// HTTP 503, or the node has no room for another connection.
    #[error("the node is busy (HTTP 503: {message}); see rpcworkqueue, rpcthreads or rpcmaxclients")]
    Busy {
        /// The node's words.
        message: String,
    },
    /// Another status of HTTP without an answer of the RPC.
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
        /// The node's words.
        message: String,
    },
    /// The chain has no block at this height.
    #[error("the chain has no block at height {height}")]
    NoSuchHeight {
        /// The height.
        height: u32,
    },
    /// The node has not heard of the block.
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
    /// The node knows the header only.
    #[error("block {hash} is not downloaded by the node yet; it is available when the node has caught up")]
    NotDownloaded {
        /// The hash.
        hash: BlockHash,
    },
    /// An answer is longer than it may be.
    #[error("the answer to {call} is longer than {limit_bytes} bytes; this is no honest node")]
    TooLarge {
        /// The call.
        call: &'static str,
        /// The limit.
        limit_bytes: usize,
    },
    /// An answer has another form than the call's.
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
    /// The node is on another signet, by the challenge that it names.
    #[error(
        "the node is on another signet, {found}; this store holds {expected}: follow a node with that \
         signetchallenge, or make a store by `lineside spv init --signet-challenge`"
    )]
    OtherSignet {
        /// The configured signet.
        expected: SignetId,
        /// The node's.
        found: SignetId,
    },
    /// The node is on another signet, by its first blocks; it does not name its challenge.
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
    /// A block or header has another hash than the one asked for.
    #[error("the node answered {found} to a request for block {asked}; do not trust it")]
    WrongBlock {
        /// The hash asked for.
        asked: BlockHash,
        /// The hash of the answer.
        found: BlockHash,
    },
    /// The node's list of hashes is no chain.
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
         catches up; otherwise it lost its data, or its chain was cut by hand"
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
    /// The chain changed each time while it was compared.
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
    /// The program ends, or does not need the answer any more.
    #[error("the call was interrupted, because this program ends")]
    Interrupted,
    /// A download was stopped because all its workers ended.
    #[error("the download was stopped at height {height}")]
    Stopped {
        /// The height that was to come next.
        height: u32,
    },
}

impl Fault {
    /// Returns true where the call may succeed later without a change of the configuration or of the node's data: the
    /// node is away, starting, busy, or catching up.
    pub fn is_transient(&self) -> bool {
        matches!(
            self,
            Fault::Connect { .. }
                | Fault::Lost { .. }
                | Fault::TimedOut { .. }
                | Fault::NoCookie { .. }
                | Fault::Cookie { .. }
                | Fault::WarmingUp { .. }
                | Fault::Busy { .. }
                | Fault::NotDownloaded { .. }
                | Fault::NoSuchHeight { .. }
                | Fault::NoSuchBlock { .. }
                | Fault::WrongParent { .. }
                | Fault::Unsteady { .. }
                | Fault::LessWork { .. }
        )
    }

    /// Returns true where the node said something that no honest node on this network says.
    pub fn is_lie(&self) -> bool {
        matches!(
            self,
            Fault::TooLarge { .. }
                | Fault::WrongBlock { .. }
                | Fault::NoWork { .. }
                | Fault::OtherNetwork { .. }
                | Fault::OtherSignet { .. }
                | Fault::OtherFirstBlock { .. }
                | Fault::Malformed { .. }
        )
    }
}
