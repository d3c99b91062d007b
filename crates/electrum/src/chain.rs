//! The chain that proofs come from.

use crate::merkle::sha256d;
use std::sync::Arc;
use tokio::sync::watch;

/// Bytes of a block header.
pub const HEADER_BYTES: usize = 80;

/// Last block of the connected chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TipInfo {
    /// Height of the block; the genesis block has 0.
    pub height: u32,
    /// Hash of its header, in wire byte order.
    pub hash: [u8; 32],
    /// Its header as it is on the wire.
    pub header: [u8; HEADER_BYTES],
}

/// Place of a transaction in the connected chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location {
    /// Height of its block.
    pub height: u32,
    /// Index of the transaction in its block, from 0.
    pub position: u32,
}

/// The chain cannot answer now: its index is damaged, or its node is away. This never means that a transaction or a
/// block is unknown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the chain cannot answer now: {0}")]
pub struct Unavailable(pub String);

/// A chain of blocks, of which only the connected ones are visible here.
///
/// An implementation keeps these promises:
/// - Each method sees one state of the chain, as if under a lock, and never a block that is disconnected.
/// - [`ProofChain::generation`] takes a new value in the same step as the chain changes, and never takes an old value
///   again. The server compares it before and after it computes a reply from several calls. If it has changed, the
///   reply is thrown away and computed again, so that a reply never mixes two states of the chain.
/// - [`ProofChain::changes`] is sent the new generation after the step, when every method already answers from the new
///   chain. A reorganisation may be published once, at its end.
///
/// Hashes and TXIDs are in wire byte order. All methods but [`ProofChain::txids`] are called on threads of the server's
/// runtime: they answer from memory or the page cache, within microseconds, and do not wait for disks or networks.
pub trait ProofChain: Send + Sync + 'static {
    /// Number of the chain's present state.
    fn generation(&self) -> u64;

    /// Returns a channel whose value changes after each change of the chain. The server reads the new tip by
    /// [`ProofChain::tip`]; it may miss values in between.
    fn changes(&self) -> watch::Receiver<u64>;

    /// Last connected block; `None` while the chain is empty.
    fn tip(&self) -> Option<TipInfo>;

    /// Header of the connected block at `height`.
    fn header_at(&self, height: u32) -> Option<[u8; HEADER_BYTES]>;

    /// Hash of the connected block at `height`.
    fn hash_at(&self, height: u32) -> Option<[u8; 32]> {
        self.header_at(height).map(|header| sha256d(&header))
    }

    /// Appends the headers of at most `count` connected blocks from height `start` on to `into`, and returns how many
    /// these are. All of them are of one state of the chain.
    fn headers(&self, start: u32, count: u32, into: &mut Vec<u8>) -> u32;

    /// Height of the block `hash` if it is connected.
    fn height_of(&self, hash: &[u8; 32]) -> Option<u32>;

    /// Place of the transaction `txid` in the connected blocks; in the highest block of several (BIP 30). `None` is an
    /// answer: no connected block has it.
    ///
    /// # Errors
    /// The chain cannot tell.
    fn locate(&self, txid: &[u8; 32]) -> Result<Option<Location>, Unavailable>;

    /// TXIDs of the block `hash` in block order, if it is connected at `height`. This method may read a disk: it is
    /// called on threads for blocking work, a bounded number at a time.
    ///
    /// # Errors
    /// They cannot be read now.
    fn txids(&self, height: u32, hash: &[u8; 32]) -> Result<Option<Arc<[[u8; 32]]>>, Unavailable>;
}
