//! A chain that holds just what a file of vectors says.

use lineside_conformance::vectors::{Block, File};
use lineside_spv::chain::{
    BlockId, BlockInfo, Chain, ChainError, CheckedBlock, Located, Network, Refused, Reorg, Submitted, Tip,
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
        let holds = |block: &&Block| {
            block
                .fastpath
                .iter()
                .chain(&block.host)
                .any(|known| known.0 == *txid)
        };
        Ok(self.blocks.iter().find(holds).map(|block| Located {
            block: BlockId(0),
            root: block.root.0,
            block_hash: block.hash.0,
            height: block.height,
            position: 0,
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

    fn at_height(&self, _: u32) -> Option<BlockId> {
        None
    }

    fn block(&self, _: BlockId) -> Option<BlockInfo> {
        None
    }

    fn txids(&self, _: BlockId) -> Result<Cow<'_, [[u8; 32]]>, ChainError> {
        Ok(Cow::Borrowed(&[]))
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
