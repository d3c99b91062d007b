//! The trait of all nodes, and what they answer.

use crate::error::{Fault, NodeError, SetupError};
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
    /// Name of the network in the node's words: `main`, `test`, `testnet4`, `signet`, `regtest` of Bitcoin Core;
    /// `mainnet`, `testnet3`, `simnet` and so on of btcd.
    pub chain: String,
    /// Height of the best block.
    pub blocks: u32,
    /// Height of the best header; more than `blocks` while the node downloads.
    pub headers: u32,
    /// The best block.
    pub best: BlockHash,
    /// The node deletes old blocks.
    pub pruned: bool,
    /// Lowest height whose block is kept, where the node prunes and says it.
    pub prune_height: Option<u32>,
    /// The signet, where the node is on one and names its challenge, as Bitcoin Core does from version 29 on.
    pub signet: Option<SignetId>,
    /// The node says that it is in its initial download. btcd does not say it, so this is then false.
    pub initial_block_download: bool,
}

/// A header, and its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The header as on the network; its hash is the one asked for.
    pub raw: [u8; HEADER_BYTES],
    /// Height in the best chain; `None` for a block of a side branch.
    pub height: Option<u32>,
}

/// Channel on which a change was noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NoticedBy {
    /// A ZMQ message of Bitcoin Core.
    Zmq,
    /// A notification of btcd on its web socket.
    WebSocket,
    /// A regular question for the best block.
    Poll,
}

/// The best block may be another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Announcement {
    /// Block of the notification. It may be on a side branch or disconnected, so it only says that the chain is to be
    /// compared.
    pub hash: BlockHash,
    /// Channel.
    pub by: NoticedBy,
}

/// A full node, as its client sees it.
///
/// All calls block, and end after the time limits of [`NodeOptions`], or by [`Node::interrupter`]. A connection is
/// opened when a call needs one, so a node that was away is asked again by the next call. Calls must not be made from
/// asynchronous tasks.
pub trait Node: Send {
    /// Returns the state of the node's chain.
    ///
    /// # Errors
    /// Faults of the connection and of the answer.
    fn info(&mut self) -> Result<NodeInfo, NodeError>;

    /// Returns the block at `height` in the best chain.
    ///
    /// # Errors
    /// [`Fault::NoSuchHeight`] above the tip; faults of the connection and of the answer.
    fn hash_at(&mut self, height: u32) -> Result<BlockHash, NodeError>;

    /// Returns the blocks from height `from` on: `count` of them, or fewer where the chain ends. The list is not read
    /// in one moment, so it may belong to two chains: check that each block is the parent of the next.
    ///
    /// # Errors
    /// Faults of the connection and of the answer; no block at all is an empty list.
    fn hashes(&mut self, from: u32, count: u32) -> Result<Vec<BlockHash>, NodeError> {
        let mut hashes = Vec::new();
        for height in from..from.saturating_add(count) {
            match self.hash_at(height) {
                Ok(hash) => hashes.push(hash),
                Err(error) if matches!(error.fault, Fault::NoSuchHeight { .. }) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(hashes)
    }

    /// Returns the header of a block.
    ///
    /// # Errors
    /// [`Fault::NoSuchBlock`]; [`Fault::WrongBlock`]; faults of the connection and of the answer.
    fn header(&mut self, hash: &BlockHash) -> Result<Header, NodeError>;

    /// Returns the headers of blocks, in their order.
    ///
    /// # Errors
    /// As [`Node::header`].
    fn headers(&mut self, hashes: &[BlockHash]) -> Result<Vec<[u8; HEADER_BYTES]>, NodeError> {
        let raw = |hash| self.header(hash).map(|header| header.raw);
        hashes.iter().map(raw).collect()
    }

    /// Returns a block as on the network, at most 4 MB. The hash of its header is the one asked for; nothing else of it
    /// is checked.
    ///
    /// # Errors
    /// [`Fault::NoSuchBlock`], [`Fault::Pruned`], [`Fault::NotDownloaded`], [`Fault::WrongBlock`]; faults of the
    /// connection and of the answer.
    fn block(&mut self, hash: &BlockHash) -> Result<Vec<u8>, NodeError>;

    /// Says which blocks will be asked for next, in this order, instead of those that were said before; an empty list
    /// says that the node's tip is reached. A node with several connections may begin to fetch the blocks, and closes
    /// the connections that a short list does not need.
    fn fetch_ahead(&mut self, hashes: &[BlockHash]) {
        let _ = hashes;
    }

    /// Closes the connection, if there is one; the next call opens another one.
    fn close(&mut self) {}

    /// Waits until the best block may be another one than `known`; `None` after `timeout`.
    ///
    /// Notifications are used where the node offers them. Because they can be lost, the node is also asked for its best
    /// block, at the intervals of [`NodeOptions`].
    ///
    /// # Errors
    /// Faults of the connection and of the answer. Lost notifications alone are no error.
    fn wait_for_change(
        &mut self,
        known: &BlockHash,
        timeout: Duration,
    ) -> Result<Option<Announcement>, NodeError>;

    /// Returns the place from which the node reads a block, such as a file and an offset, for messages; `None` where it
    /// is asked over a network.
    fn place_of(&self, hash: &BlockHash) -> Option<String> {
        let _ = hash;
        None
    }

    /// Returns a handle by which another thread ends the call under way and all later ones. The handle of a node whose
    /// calls never wait has no effect.
    fn interrupter(&self) -> Interrupter {
        Interrupter::default()
    }

    /// Returns the node's address without secrets.
    fn describe(&self) -> String;
}

/// Prepares a client of the node at `url`. Nothing is sent before the first call.
///
/// # Errors
/// [`SetupError`] where the configuration cannot work.
pub fn connect(url: &NodeUrl, options: &NodeOptions) -> Result<Box<dyn Node>, SetupError> {
    RpcNode::new(url, options).map(|node| Box::new(node) as Box<dyn Node>)
}
