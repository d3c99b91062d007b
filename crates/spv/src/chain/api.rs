//! What the host needs of a chain, whoever keeps it.

use super::types::{BlockId, BlockInfo, ChainError, Located, Reorg, Submitted, Tip};
use super::validate::{CheckedBlock, Refused};
use super::{BlockWitness, ChainStore, Network, StoreNetwork};
use std::borrow::Cow;
use std::io;

/// A chain of blocks that answers where a transaction is: the embedded [`ChainStore`], or a view of a full node.
///
/// It answers from the blocks that are **connected**. What the chain learns elsewhere (new blocks, another best branch)
/// changes nothing until the caller takes the steps of [`Chain::plan`], so that a cache in front can forget first.
/// Between two steps every answer is that of a whole chain. Hashes are in wire byte order, heights count from 0.
///
/// A [`BlockId`] is the chain's own number of a block and stays that block's while the process lives. `&self` methods
/// are called by many threads at once.
pub trait Chain: Send + Sync {
    /// The network, which sets what a block must be.
    fn network(&self) -> Network;

    /// The network, with which signet it is.
    fn identity(&self) -> StoreNetwork {
        self.network().into()
    }

    /// Where `txid` lies in the connected blocks: in the highest of several. `None` is an answer, that no connected
    /// block holds it.
    ///
    /// # Errors
    /// The chain cannot tell (index damaged, node away); nobody may take that for "unknown".
    fn locate(&self, txid: &[u8; 32]) -> Result<Option<Located>, ChainError>;

    /// As [`Chain::locate`], by the WTXID of a transaction that a block commits to. A chain without an index of WTXIDs
    /// finds nothing.
    ///
    /// # Errors
    /// As [`Chain::locate`].
    fn locate_wtxid(&self, _wtxid: &[u8; 32]) -> Result<Option<Located>, ChainError> {
        Ok(None)
    }

    /// The connected chain's last block; `None` while nothing is connected.
    fn tip(&self) -> Option<Tip>;

    /// A number that stays the same exactly while every answer does, also over restarts (but for one chance in 2^64): a
    /// fast path that was filled in the same state may be kept.
    fn state(&self) -> u64;

    /// Blocks that are known, side branches and detached ones too, and transactions in them.
    fn size(&self) -> (u64, u64);

    /// The connected block at `height`.
    fn at_height(&self, height: u32) -> Option<BlockId>;

    /// Number of the block with this hash, connected or not.
    fn by_hash(&self, hash: &[u8; 32]) -> Option<BlockId>;

    /// What is known of a block, connected or not.
    fn block(&self, id: BlockId) -> Option<BlockInfo>;

    /// The block's TXIDs in block order; none for a block that is not there.
    ///
    /// # Errors
    /// They cannot be read now.
    fn txids(&self, id: BlockId) -> Result<Cow<'_, [[u8; 32]]>, ChainError>;

    /// Returns true if the chain keeps witness data. It then takes blocks that were checked with their witnesses
    /// ([`CheckedBlock::check_with_witness`]), and no others.
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

    /// Takes a block from outside; on the chain it is not connected by this, detached it is at once. Only
    /// [`Chain::sync`] makes it durable.
    ///
    /// # Errors
    /// Why it was refused; nothing of it is kept.
    fn accept(&mut self, block: &CheckedBlock, detached: bool) -> Result<Submitted, Refused>;

    /// Keeps the bytes of a block that was accepted, where the chain keeps blocks.
    ///
    /// # Errors
    /// They cannot be written now; the call can be repeated.
    fn keep(&mut self, _hash: &[u8; 32], _raw_block: &[u8]) -> io::Result<()> {
        Ok(())
    }

    /// Returns true for a block whose bytes are kept.
    fn is_kept(&self, _hash: &[u8; 32]) -> bool {
        false
    }

    /// Returns the bytes of a kept block; `None` where it is not kept. Its header is the block's, all else is not
    /// checked.
    ///
    /// # Errors
    /// They cannot be read, or another block is there.
    fn kept_block(&self, _hash: &[u8; 32]) -> io::Result<Option<Vec<u8>>> {
        Ok(None)
    }

    /// Forgets a kept copy that is damaged.
    fn forget_kept(&mut self, _hash: &[u8; 32]) {}

    /// Returns the lowest block of the chain that should be kept and is not.
    fn first_unkept(&mut self) -> Option<[u8; 32]> {
        None
    }

    /// Gives a block up that should be kept, until the chain is opened again.
    fn give_up_unkept(&mut self, _hash: &[u8; 32]) {}

    /// The steps from the connected chain to the best one; empty when that is connected.
    ///
    /// # Errors
    /// The best chain cannot be told now.
    fn plan(&self) -> Result<Reorg, ChainError>;

    /// Disconnects the tip, which must be `id`.
    ///
    /// # Errors
    /// [`ChainError::NoSuchBlock`], [`ChainError::IllegalStep`]; nothing has changed.
    fn disconnect(&mut self, id: BlockId) -> Result<(), ChainError>;

    /// Connects `id`, a child of the tip.
    ///
    /// # Errors
    /// [`ChainError::NoSuchBlock`], [`ChainError::IllegalStep`]; nothing has changed.
    fn connect(&mut self, id: BlockId) -> Result<(), ChainError>;

    /// Makes every accepted block durable.
    ///
    /// # Errors
    /// It failed; nothing is accepted any more until the chain is opened anew.
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
