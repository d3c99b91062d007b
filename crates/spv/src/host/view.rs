//! Interface of the host for the node's follower and the Electrum and HTTP server: single steps of the chain, and reads
//! that do not fill the fast path.

use super::{SpvHost, follow, forget};
use crate::chain::{BlockInfo, Chain, ChainError, CheckedBlock, Located, Refused, Submitted, Tip, check_for};
use crate::store::Hash;
use crate::writer::SpvFill;
use std::sync::PoisonError;
use std::sync::atomic::Ordering::Relaxed;
use tokio::sync::watch;

impl SpvHost {
    /// Returns the network of the chain.
    pub fn network(&self) -> crate::chain::Network {
        self.identity.network
    }

    /// Returns the network of the chain, including which signet it is.
    pub fn identity(&self) -> crate::chain::StoreNetwork {
        self.identity
    }

    /// Returns the number of the chain's current state. The number increases in the same step in which the chain
    /// changes.
    pub fn generation(&self) -> u64 {
        self.generation.load(Relaxed)
    }

    /// Returns a channel that receives the generation after changes of the chain, each time [`SpvHost::make_known`] is
    /// called.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.announced_generation.subscribe()
    }

    /// Sends the current generation to the receivers of [`SpvHost::changes`], unless it was sent before. A
    /// reorganisation is announced once, at its end.
    pub fn make_known(&self) {
        let now = self.generation();
        self.announced_generation
            .send_if_modified(|known| std::mem::replace(known, now) != now);
    }

    /// Checks a block with or without its witnesses, as the chain needs it. Takes no lock.
    ///
    /// # Errors
    /// The first fault of the block.
    pub fn check(&self, raw_block: &[u8]) -> Result<CheckedBlock, Refused> {
        check_for(self.keeps_witness, raw_block, self.identity.network)
    }

    /// Accepts a block without connecting it. Its parent must be known.
    ///
    /// # Errors
    /// The reason why the block was refused; the chain then keeps no data of it.
    pub fn accept(&self, block: &CheckedBlock) -> Result<Submitted, Refused> {
        let mut chain = self.chain.write().unwrap_or_else(PoisonError::into_inner);
        chain.accept(block, false)
    }

    /// Connects accepted blocks. The first must be a child of the tip, and each other block a child of the block before
    /// it. Before any answer from the new state is sent, all answers that the change invalidates have been sent, and
    /// their cache lines have been removed.
    ///
    /// # Errors
    /// [`ChainError::IllegalStep`] for a block that is not such a child; the blocks before it are then connected.
    pub fn connect(&self, hashes: &[Hash]) -> Result<(), ChainError> {
        let mut chain = self.chain.write().unwrap_or_else(PoisonError::into_inner);
        self.change(chain.as_mut(), |chain, writer| connect(chain, writer, hashes))
    }

    /// Disconnects every block above `height`; `None` disconnects all blocks. After this call no answer uses the
    /// disconnected blocks.
    ///
    /// # Errors
    /// The errors of the chain. If a step fails, fast path and host both answer at the block before this step.
    pub fn disconnect_above(&self, height: Option<u32>) -> Result<(), ChainError> {
        let mut chain = self.chain.write().unwrap_or_else(PoisonError::into_inner);
        self.change(chain.as_mut(), |chain, writer| {
            disconnect_above(chain, writer, height)
        })
    }

    /// Disconnects every block above `height` and connects accepted blocks (see [`SpvHost::connect`]) in one change: no
    /// answer is sent in between.
    ///
    /// # Errors
    /// The errors of [`SpvHost::connect`] and [`SpvHost::disconnect_above`].
    pub fn replace_above(&self, height: u32, hashes: &[Hash]) -> Result<(), ChainError> {
        let mut chain = self.chain.write().unwrap_or_else(PoisonError::into_inner);
        self.change(chain.as_mut(), |chain, writer| {
            disconnect_above(chain, writer, Some(height))?;
            connect(chain, writer, hashes)
        })
    }

    /// Connects the best chain among the accepted blocks.
    ///
    /// # Errors
    /// The errors of the chain. If a step fails, fast path and host both answer at the block before this step.
    pub fn connect_best(&self) -> Result<(), ChainError> {
        let mut chain = self.chain.write().unwrap_or_else(PoisonError::into_inner);
        self.change(chain.as_mut(), follow)
    }

    /// Returns the connected block at `height`.
    pub fn at_height(&self, height: u32) -> Option<BlockInfo> {
        let chain = self.chain();
        chain.block(chain.at_height(height)?)
    }

    /// Returns the last connected block.
    pub fn tip_block(&self) -> Option<BlockInfo> {
        let chain = self.chain();
        chain.block(chain.at_height(chain.tip()?.height)?)
    }

    /// Returns the block with this hash if it is connected.
    pub fn connected(&self, hash: &Hash) -> Option<BlockInfo> {
        let chain = self.chain();
        let block = chain.block(chain.by_hash(hash)?)?;
        block.connected.then_some(block)
    }

    /// Appends the headers of at most `count` connected blocks from height `start` on to `into`. All headers are from
    /// one state of the chain. Returns the number of appended headers.
    pub fn headers(&self, start: u32, count: u32, into: &mut Vec<u8>) -> u32 {
        let chain = self.chain();
        let mut appended = 0;
        for height in start..start.saturating_add(count) {
            let Some(block) = chain.at_height(height).and_then(|id| chain.block(id)) else {
                break;
            };
            into.extend(block.header);
            appended += 1;
        }
        appended
    }

    /// Returns the location of `txid` in the connected blocks, without filling the fast path.
    ///
    /// # Errors
    /// The chain cannot answer; this never means that the transaction is unknown.
    pub fn locate(&self, txid: &Hash) -> Result<Option<Located>, ChainError> {
        self.chain().locate(txid)
    }

    /// Returns the TXIDs of the block `hash` in block order; `None` if it is not connected.
    ///
    /// # Errors
    /// The TXIDs cannot be read now.
    pub fn txids(&self, hash: &Hash) -> Result<Option<Vec<Hash>>, ChainError> {
        let chain = self.chain();
        let id = chain
            .by_hash(hash)
            .filter(|id| chain.block(*id).is_some_and(|block| block.connected));
        id.map(|id| chain.txids(id).map(|txids| txids.into_owned()))
            .transpose()
    }

    /// Returns the tip, and the number of the chain's state at which it is the tip (see [`SpvHost::generation`]).
    pub fn tip_and_generation(&self) -> (Option<Tip>, u64) {
        let chain = self.chain();
        (chain.tip(), self.generation())
    }
}

fn connect(chain: &mut dyn Chain, writer: &mut dyn SpvFill, hashes: &[Hash]) -> Result<(), ChainError> {
    for hash in hashes {
        let id = chain.by_hash(hash).ok_or(ChainError::NoSuchBlock(u32::MAX))?;
        forget(&chain.txids(id)?, writer);
        chain.connect(id)?;
    }
    Ok(())
}

fn disconnect_above(
    chain: &mut dyn Chain,
    writer: &mut dyn SpvFill,
    height: Option<u32>,
) -> Result<(), ChainError> {
    let is_above = |tip: &Tip| height.is_none_or(|height| tip.height > height);
    while let Some(tip) = chain.tip().filter(is_above) {
        let id = chain
            .at_height(tip.height)
            .ok_or(ChainError::NoSuchBlock(tip.height))?;
        writer.drop_block(&tip.hash);
        chain.disconnect(id)?;
    }
    Ok(())
}
