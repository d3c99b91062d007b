//! Chain that contains exactly the blocks of a vector file.

use lineside_conformance::vectors::{Block, File};
use lineside_spv::chain::{
    BlockId, BlockInfo, BlockWitness, Chain, ChainError, CheckedBlock, Committed, DETACHED_HEIGHT, Located,
    Network, Refused, Reorg, Submitted, Tip,
};
use std::borrow::Cow;

pub struct Table {
    tip: Tip,
    blocks: Vec<Block>,
}

impl Table {
    pub fn of(file: &File) -> Self {
        let tip = Tip {
            hash: file.tip.hash.0,
            height: file.tip.height,
        };
        Self {
            tip,
            blocks: file.blocks.clone(),
        }
    }
}

fn fixed<T>() -> Result<T, ChainError> {
    Err(ChainError::Write(std::io::Error::other(
        "the table never changes",
    )))
}

impl Chain for Table {
    fn network(&self) -> Network {
        Network::Regtest
    }

    fn locate(&self, txid: &[u8; 32]) -> Result<Option<Located>, ChainError> {
        let mut blocks = (0..).zip(&self.blocks);
        Ok(blocks.find_map(|(number, block)| {
            let position = block.txids().position(|known| known == *txid)?;
            Some(Located {
                block: BlockId(number),
                root: block.root.0,
                block_hash: block.hash.0,
                height: block.height,
                position: position as u32,
            })
        }))
    }

    fn locate_wtxid(&self, wtxid: &[u8; 32]) -> Result<Option<Located>, ChainError> {
        let mut blocks = (0..).zip(&self.blocks);
        Ok(blocks.find_map(|(number, block)| {
            // The first leaf of the witness tree belongs to the coinbase.
            let after_coinbase = block.wtxids.get(1..)?;
            let before = after_coinbase.iter().position(|known| known.0 == *wtxid)?;
            Some(Located {
                block: BlockId(number),
                root: block.root.0,
                block_hash: block.hash.0,
                height: block.height,
                position: before as u32 + 1,
            })
        }))
    }

    fn tip(&self) -> Option<Tip> {
        Some(self.tip)
    }

    fn state(&self) -> u64 {
        1
    }

    fn size(&self) -> (u64, u64) {
        (self.blocks.len() as u64, 0)
    }

    fn at_height(&self, height: u32) -> Option<BlockId> {
        let mut blocks = (0..).zip(&self.blocks);
        blocks.find_map(|(number, block)| {
            (block.height == height && height != DETACHED_HEIGHT).then_some(BlockId(number))
        })
    }

    fn by_hash(&self, hash: &[u8; 32]) -> Option<BlockId> {
        let mut connected = (0..).map_while(|height| self.at_height(height));
        connected.find(|id| self.block(*id).is_some_and(|block| block.hash == *hash))
    }

    fn block(&self, id: BlockId) -> Option<BlockInfo> {
        let block = self.blocks.get(id.0 as usize)?;
        Some(BlockInfo {
            hash: block.hash.0,
            parent: [0; 32],
            root: block.root.0,
            header: block.header.0,
            height: block.height,
            transactions: block.txids().count() as u32,
            detached: block.height == DETACHED_HEIGHT,
            connected: true,
        })
    }

    fn txids(&self, id: BlockId) -> Result<Cow<'_, [[u8; 32]]>, ChainError> {
        let block = self.blocks.get(id.0 as usize);
        Ok(Cow::Owned(
            block.map_or_else(Vec::new, |block| block.txids().collect()),
        ))
    }

    fn keeps_witness(&self) -> bool {
        self.blocks.iter().any(|block| block.coinbase.is_some())
    }

    fn witness(&self, id: BlockId) -> Result<BlockWitness<'_>, ChainError> {
        let block = self.blocks.get(id.0 as usize);
        let block = block.ok_or(ChainError::NoSuchBlock(id.0))?;
        let Some((coinbase, reserved)) = block.coinbase.as_ref().zip(block.reserved) else {
            return Ok(BlockWitness::NoCommitment);
        };
        Ok(BlockWitness::Committed(Committed {
            wtxids: Cow::Owned(block.wtxids.iter().map(|wtxid| wtxid.0).collect()),
            reserved: reserved.0,
            coinbase: Cow::Borrowed(&coinbase.0),
        }))
    }

    fn accept(&mut self, _: &CheckedBlock, _: bool) -> Result<Submitted, Refused> {
        Err(Refused::Storage(std::io::Error::other("the table never changes")))
    }

    fn plan(&self) -> Result<Reorg, ChainError> {
        Ok(Reorg::default())
    }

    fn disconnect(&mut self, _: BlockId) -> Result<(), ChainError> {
        fixed()
    }

    fn connect(&mut self, _: BlockId) -> Result<(), ChainError> {
        fixed()
    }

    fn sync(&mut self) -> Result<(), ChainError> {
        Ok(())
    }
}
