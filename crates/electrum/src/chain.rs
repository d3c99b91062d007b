//! Interface to the chain whose proofs the server sends.

use crate::merkle::sha256d;
use std::sync::Arc;
use tokio::sync::watch;

/// Length of a block header in bytes.
pub const HEADER_BYTES: usize = 80;

/// Last block of the connected chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TipInfo {
    /// Height of the block; the genesis block has height 0.
    pub height: u32,
    /// Hash of the block, in wire byte order.
    pub hash: [u8; 32],
    /// Header of the block in wire format.
    pub header: [u8; HEADER_BYTES],
}

/// Position of a transaction in the connected chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location {
    /// Height of the transaction's block.
    pub height: u32,
    /// Index of the transaction in its block, from 0.
    pub position: u32,
}

/// The chain cannot answer now, because its index is damaged or its node is unreachable. This error never means that a
/// transaction or a block is unknown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this server cannot answer from its chain of blocks now: {0}")]
pub struct Unavailable(pub String);

/// A chain of blocks. Its methods return only connected blocks.
///
/// An implementation guarantees:
/// - Each method reads one state of the chain, as if under a lock, and never a block that is disconnected.
/// - [`ProofChain::generation`] takes a new value in the same step in which the chain changes, and never repeats an old
///   value. The server compares the value before and after it computes a reply from several calls. If the value has
///   changed, the server discards the reply and computes it again, so a reply never mixes two states of the chain.
/// - [`ProofChain::changes`] receives the new generation after this step, when every method already answers from the
///   new chain. A reorganisation may be published once, at its end.
///
/// Hashes and TXIDs are in wire byte order. All methods except [`ProofChain::txids`] are called on threads of the
/// server's runtime: they answer from memory or the page cache, within microseconds, and do not wait for disks or
/// networks.
pub trait ProofChain: Send + Sync + 'static {
    /// Returns the number of the chain's current state.
    fn generation(&self) -> u64;

    /// Returns a channel whose value changes after each change of the chain. The receiver may miss intermediate values;
    /// it reads the new tip with [`ProofChain::tip`].
    fn changes(&self) -> watch::Receiver<u64>;

    /// Returns the last connected block; `None` while the chain is empty.
    fn tip(&self) -> Option<TipInfo>;

    /// Returns the header of the connected block at `height`.
    fn header_at(&self, height: u32) -> Option<[u8; HEADER_BYTES]>;

    /// Returns the hash of the connected block at `height`.
    fn hash_at(&self, height: u32) -> Option<[u8; 32]> {
        self.header_at(height).map(|header| sha256d(&header))
    }

    /// Appends the headers of at most `count` connected blocks, from height `start`, to `into`, and returns the number
    /// of these headers. All of them belong to one state of the chain.
    fn headers(&self, start: u32, count: u32, into: &mut Vec<u8>) -> u32;

    /// Returns the height of the block `hash` if it is connected.
    fn height_of(&self, hash: &[u8; 32]) -> Option<u32>;

    /// Returns the position of the transaction `txid` in the connected blocks. If several blocks contain it (BIP 30),
    /// this is the position in the highest one. `None` means that no connected block contains it.
    ///
    /// # Errors
    /// The chain cannot determine the position.
    fn locate(&self, txid: &[u8; 32]) -> Result<Option<Location>, Unavailable>;

    /// Returns the TXIDs of the block `hash` in block order, if it is connected at `height`. This method may read a
    /// disk: it is called on threads for blocking work, and the number of concurrent calls is limited.
    ///
    /// # Errors
    /// The TXIDs cannot be read now.
    fn txids(&self, height: u32, hash: &[u8; 32]) -> Result<Option<Arc<[[u8; 32]]>>, Unavailable>;
}
