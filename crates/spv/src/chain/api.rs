//! Interface of the host to a chain of blocks.

use super::types::{BlockId, BlockInfo, ChainError, Located, Reorg, Submitted, Tip};
use super::validate::{CheckedBlock, Refused};
use super::{BlockWitness, ChainStore, Network, StoreNetwork};
use std::borrow::Cow;
use std::io;

/// Chain of blocks that finds the block of a transaction: the embedded [`ChainStore`], or a view of a full node.
///
/// A chain answers from the **connected** blocks. New blocks or another best branch do not change its answers until the
/// caller takes the steps of [`Chain::plan`], so that a cache can drop entries first. Between two steps every answer is
/// consistent with one whole chain. Hashes are in wire byte order; heights count from 0.
///
/// A [`BlockId`] is the chain's own number of a block; it does not change while the process lives. Many threads call
/// `&self` methods at the same time.
pub trait Chain: Send + Sync {
    /// Returns the network, which determines the rules for blocks.
    fn network(&self) -> Network;

    /// Returns the network, including which signet it is.
    fn identity(&self) -> StoreNetwork {
        self.network().into()
    }

    /// Returns the location of `txid` in the connected blocks; if several blocks hold it, in the highest one. `None`
    /// means that no connected block holds it.
    ///
    /// # Errors
    /// The chain cannot answer (index damaged, node unreachable). Callers must not report this as "unknown".
    fn locate(&self, txid: &[u8; 32]) -> Result<Option<Located>, ChainError>;

    /// Returns the location of a transaction by its WTXID, in blocks that commit to their witnesses. A chain without a
    /// WTXID index always returns `None`.
    ///
    /// # Errors
    /// The errors of [`Chain::locate`].
    fn locate_wtxid(&self, _wtxid: &[u8; 32]) -> Result<Option<Located>, ChainError> {
        Ok(None)
    }

    /// Returns the last block of the connected chain; `None` if no block is connected.
    fn tip(&self) -> Option<Tip>;

    /// Returns a number that identifies the chain's state: it changes whenever any answer changes, and is equal for
    /// equal states across restarts (two different states share a number with probability 2^-64). A new process may
    /// keep the contents of a fast path that was filled in a state with the same number.
    fn state(&self) -> u64;

    /// Returns the number of known blocks, side branches and detached blocks included, and the number of transactions
    /// in these blocks.
    fn size(&self) -> (u64, u64);

    /// Returns the connected block at `height`.
    fn at_height(&self, height: u32) -> Option<BlockId>;

    /// Returns the number of the block with this hash, connected or not.
    fn by_hash(&self, hash: &[u8; 32]) -> Option<BlockId>;

    /// Returns the stored information about a block, connected or not.
    fn block(&self, id: BlockId) -> Option<BlockInfo>;

    /// Returns the block's TXIDs in block order; empty for an unknown block.
    ///
    /// # Errors
    /// The TXIDs cannot be read now.
    fn txids(&self, id: BlockId) -> Result<Cow<'_, [[u8; 32]]>, ChainError>;

    /// Returns true if the chain keeps witness data. The chain then accepts only blocks that were checked with their
    /// witnesses ([`CheckedBlock::check_with_witness`]).
    fn keeps_witness(&self) -> bool {
        false
    }

    /// Returns the witness data of a block, connected or not.
    ///
    /// # Errors
    /// There is no such block, or its data cannot be read now.
    fn witness(&self, _id: BlockId) -> Result<BlockWitness<'_>, ChainError> {
        Ok(BlockWitness::NotKept)
    }

    /// Accepts a block. A block on the chain is not connected by this call; a detached block is connected at once. The
    /// block is durable only after [`Chain::sync`].
    ///
    /// # Errors
    /// The reason why the block was refused; the chain keeps no data of a refused block.
    fn accept(&mut self, block: &CheckedBlock, detached: bool) -> Result<Submitted, Refused>;

    /// Stores the bytes of a block that was accepted, if the chain was configured to keep the bytes of blocks.
    ///
    /// # Errors
    /// The bytes cannot be written now; the call can be repeated.
    fn keep(&mut self, _hash: &[u8; 32], _raw_block: &[u8]) -> io::Result<()> {
        Ok(())
    }

    /// Returns true if the bytes of the block with this hash are stored.
    fn is_kept(&self, _hash: &[u8; 32]) -> bool {
        false
    }

    /// Returns the stored bytes of a block; `None` if they are not stored. Only the header is checked.
    ///
    /// # Errors
    /// The bytes cannot be read, or the file contains another block at this offset.
    fn kept_block(&self, _hash: &[u8; 32]) -> io::Result<Option<Vec<u8>>> {
        Ok(None)
    }

    /// Removes the damaged copy of a block from the table of stored blocks, so that [`Chain::keep`] can write the block
    /// again.
    fn forget_kept(&mut self, _hash: &[u8; 32]) {}

    /// Returns the hash of the lowest block of the chain whose bytes should be stored but are not.
    fn first_unkept(&mut self) -> Option<[u8; 32]> {
        None
    }

    /// Removes a block from those that [`Chain::first_unkept`] returns, until the chain is opened again.
    fn give_up_unkept(&mut self, _hash: &[u8; 32]) {}

    /// Returns the steps that lead from the connected chain to the best one; no step if the connected chain is the
    /// best.
    ///
    /// # Errors
    /// The best chain cannot be determined now.
    fn plan(&self) -> Result<Reorg, ChainError>;

    /// Disconnects the tip, which must be `id`.
    ///
    /// # Errors
    /// [`ChainError::NoSuchBlock`], [`ChainError::IllegalStep`]. After an error the chain is unchanged.
    fn disconnect(&mut self, id: BlockId) -> Result<(), ChainError>;

    /// Connects `id`, a child of the tip.
    ///
    /// # Errors
    /// [`ChainError::NoSuchBlock`], [`ChainError::IllegalStep`]. After an error the chain is unchanged.
    fn connect(&mut self, id: BlockId) -> Result<(), ChainError>;

    /// Makes every accepted block durable.
    ///
    /// # Errors
    /// Writing failed. The chain accepts no block until it is opened again.
    fn sync(&mut self) -> Result<(), ChainError>;
}

impl Chain for ChainStore {
    fn network(&self) -> Network {
        self.network()
    }

    fn identity(&self) -> StoreNetwork {
        self.identity()
    }

    fn locate(&self, txid: &[u8; 32]) -> Result<Option<Located>, ChainError> {
        self.locate(txid)
    }

    fn locate_wtxid(&self, wtxid: &[u8; 32]) -> Result<Option<Located>, ChainError> {
        self.locate_wtxid(wtxid)
    }

    fn tip(&self) -> Option<Tip> {
        self.tip()
    }

    fn state(&self) -> u64 {
        self.state()
    }

    fn size(&self) -> (u64, u64) {
        (self.blocks() as u64, self.transactions() as u64)
    }

    fn at_height(&self, height: u32) -> Option<BlockId> {
        self.at_height(height)
    }

    fn by_hash(&self, hash: &[u8; 32]) -> Option<BlockId> {
        self.by_hash(hash)
    }

    fn block(&self, id: BlockId) -> Option<BlockInfo> {
        self.block(id)
    }

    fn txids(&self, id: BlockId) -> Result<Cow<'_, [[u8; 32]]>, ChainError> {
        Ok(Cow::Borrowed(self.txids(id)))
    }

    fn keeps_witness(&self) -> bool {
        self.keeps_witness()
    }

    fn witness(&self, id: BlockId) -> Result<BlockWitness<'_>, ChainError> {
        self.witness(id)
    }

    fn accept(&mut self, block: &CheckedBlock, detached: bool) -> Result<Submitted, Refused> {
        self.accept(block, detached)
    }

    fn keep(&mut self, hash: &[u8; 32], raw_block: &[u8]) -> io::Result<()> {
        self.keep(hash, raw_block)
    }

    fn is_kept(&self, hash: &[u8; 32]) -> bool {
        self.is_kept(hash)
    }

    fn kept_block(&self, hash: &[u8; 32]) -> io::Result<Option<Vec<u8>>> {
        self.kept_block(hash)
    }

    fn forget_kept(&mut self, hash: &[u8; 32]) {
        self.forget_kept(hash);
    }

    fn first_unkept(&mut self) -> Option<[u8; 32]> {
        self.first_unkept()
    }

    fn give_up_unkept(&mut self, hash: &[u8; 32]) {
        self.give_up_unkept(hash);
    }

    fn plan(&self) -> Result<Reorg, ChainError> {
        Ok(self.plan())
    }

    fn disconnect(&mut self, id: BlockId) -> Result<(), ChainError> {
        self.disconnect(id)
    }

    fn connect(&mut self, id: BlockId) -> Result<(), ChainError> {
        self.connect(id)
    }

    fn sync(&mut self) -> Result<(), ChainError> {
        self.sync()
    }
}
