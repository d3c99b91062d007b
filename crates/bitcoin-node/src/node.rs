//! Trait of all nodes, and the types of their answers.

use crate::error::{NodeError, NodeFault, SetupError};
use crate::hash::{BlockHash, HEADER_BYTES};
use crate::interrupt::Interrupter;
use crate::options::NodeOptions;
use crate::rpc_node::RpcNode;
use crate::signet::SignetId;
use crate::url::NodeUrl;
use std::time::Duration;

/// State of a node's chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeInfo {
    /// Name of the network as the node reports it: `main`, `test`, `testnet4`, `signet`, `regtest` of Bitcoin Core;
    /// `mainnet`, `testnet3`, `simnet` and others of btcd.
    pub chain: String,
    /// Height of the best block.
    pub blocks: u32,
    /// Height of the best header; more than `blocks` while the node downloads.
    pub headers: u32,
    /// Hash of the best block.
    pub best: BlockHash,
    /// True if the node deletes old blocks.
    pub pruned: bool,
    /// Lowest height whose block the node still has, if the node prunes and reports this height.
    pub prune_height: Option<u32>,
    /// Signet of the node, if it is on a signet and reports its challenge, as Bitcoin Core does since version 29.
    pub signet: Option<SignetId>,
    /// True if the node reports that it is in its initial download. btcd does not report this, so for btcd the value is
    /// false.
    pub initial_block_download: bool,
}

/// A header and its height.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Header in the form in which nodes send it; its hash is the requested one.
    pub raw: [u8; HEADER_BYTES],
    /// Height in the best chain; `None` for a block of a side branch.
    pub height: Option<u32>,
}

/// Channel by which a change of the node's best block was noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NoticedBy {
    /// A ZMQ message of Bitcoin Core.
    Zmq,
    /// A notification of btcd on its web socket.
    WebSocket,
    /// A regular request for the best block.
    Poll,
}

/// Notification that the best block may have changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Announcement {
    /// Block of the notification. It may be on a side branch or disconnected, so the notification only means that the
    /// chains must be compared.
    pub hash: BlockHash,
    /// Channel of the notification.
    pub noticed_by: NoticedBy,
}

/// Client of a full node.
///
/// All calls block, and end within the time limits of [`NodeOptions`] or through [`Node::interrupter`]. A connection is
/// opened when a call needs one, so the next call retries a node that was unreachable. Calls must not be made from
/// asynchronous tasks.
pub trait Node: Send {
    /// Returns the state of the node's chain.
    ///
    /// # Errors
    /// Faults of the connection and of the answer.
    fn info(&mut self) -> Result<NodeInfo, NodeError>;

    /// Returns the hash of the block at `height` in the best chain.
    ///
    /// # Errors
    /// [`NodeFault::NoSuchHeight`] above the tip; faults of the connection and of the answer.
    fn hash_at(&mut self, height: u32) -> Result<BlockHash, NodeError>;

    /// Returns the hashes of the blocks from height `from` on: `count` of them, or fewer at the end of the chain. The
    /// list is not read atomically, so it may combine two chains: the caller must check that each block is the parent
    /// of the next.
    ///
    /// # Errors
    /// Faults of the connection and of the answer. An empty list is not an error.
    fn hashes(&mut self, from: u32, count: u32) -> Result<Vec<BlockHash>, NodeError> {
        let mut hashes = Vec::new();
        for height in from..from.saturating_add(count) {
            match self.hash_at(height) {
                Ok(hash) => hashes.push(hash),
                Err(error) if matches!(error.fault, NodeFault::NoSuchHeight { .. }) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(hashes)
    }

    /// Returns the header of a block.
    ///
    /// # Errors
    /// [`NodeFault::NoSuchBlock`]; [`NodeFault::WrongBlock`]; faults of the connection and of the answer.
    fn header(&mut self, hash: &BlockHash) -> Result<Header, NodeError>;

    /// Returns the headers of the blocks with these hashes, in the same order.
    ///
    /// # Errors
    /// The errors of [`Node::header`].
    fn headers(&mut self, hashes: &[BlockHash]) -> Result<Vec<[u8; HEADER_BYTES]>, NodeError> {
        let raw = |hash| self.header(hash).map(|header| header.raw);
        hashes.iter().map(raw).collect()
    }

    /// Returns the bytes of a block as nodes send it, at most 4 MB. Only the hash of its header is checked.
    ///
    /// # Errors
    /// [`NodeFault::NoSuchBlock`], [`NodeFault::Pruned`], [`NodeFault::NotDownloaded`], [`NodeFault::WrongBlock`];
    /// faults of the connection and of the answer.
    fn block(&mut self, hash: &BlockHash) -> Result<Vec<u8>, NodeError>;

    /// Announces which blocks the caller will request next, in this order; this replaces the previous announcement. An
    /// empty list means that the caller has reached the node's tip. A node with several connections may begin to fetch
    /// the blocks, and closes connections that a short list does not need.
    fn fetch_ahead(&mut self, hashes: &[BlockHash]) {
        let _ = hashes;
    }

    /// Closes the connection, if one is open; the next call opens a new one.
    fn close(&mut self) {}

    /// Waits until the best block may differ from `known_tip`; `None` after `timeout`.
    ///
    /// Notifications are used if the node offers them. Because they can be lost, the best block is also requested, at
    /// the intervals of [`NodeOptions`].
    ///
    /// # Errors
    /// Faults of the connection and of the answer. Lost notifications alone are not an error.
    fn wait_for_change(
        &mut self,
        known_tip: &BlockHash,
        timeout: Duration,
    ) -> Result<Option<Announcement>, NodeError>;

    /// Returns the location from which a block was read, for messages, for example a file and an offset; `None` if the
    /// node is contacted over a network.
    fn place_of(&self, hash: &BlockHash) -> Option<String> {
        let _ = hash;
        None
    }

    /// Returns a handle by which another thread interrupts the current call and all later ones. The handle has no
    /// effect on a node whose calls never wait.
    fn interrupter(&self) -> Interrupter {
        Interrupter::default()
    }

    /// Returns the node's address without secrets.
    fn describe(&self) -> String;
}

/// Returns a client of the node at `url`. Nothing is sent before the first call.
///
/// # Errors
/// [`SetupError`] if the configuration is wrong.
pub fn connect(url: &NodeUrl, options: &NodeOptions) -> Result<Box<dyn Node>, SetupError> {
    RpcNode::new(url, options).map(|node| Box::new(node) as Box<dyn Node>)
}
