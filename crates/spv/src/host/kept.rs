//! Raw blocks, if the chain keeps them.

use super::SpvHost;
use crate::chain::{CheckedBlock, Refused};
use crate::store::Hash;
use lineside_util::hex::to_display;
use std::io;
use std::sync::PoisonError;

impl SpvHost {
    /// Keeps the bytes of a block that was accepted, if the chain keeps blocks.
    ///
    /// # Errors
    /// The bytes cannot be written now; the call can be repeated.
    pub fn keep(&self, block: &CheckedBlock, raw_block: &[u8]) -> io::Result<()> {
        let mut chain = self.chain.write().unwrap_or_else(PoisonError::into_inner);
        chain.keep(&block.hash(), raw_block)
    }

    /// Returns true for a block whose bytes are kept.
    pub fn is_kept(&self, hash: &Hash) -> bool {
        self.chain().is_kept(hash)
    }

    /// Returns the bytes of a kept block after checking all of them; `None` if it is not kept. A copy that cannot be
    /// read or is damaged is removed from the table, with a message in the log.
    pub fn kept_block(&self, hash: &Hash) -> Option<Vec<u8>> {
        let read = self.chain().kept_block(hash);
        let checked = read.and_then(|raw| match raw {
            None => Ok(None),
            Some(raw) => match self.check_kept(hash, &raw) {
                Ok(()) => Ok(Some(raw)),
                Err(refused) => Err(io::Error::other(refused)),
            },
        });
        checked.unwrap_or_else(|error| {
            tracing::warn!(
                %error,
                block = to_display(hash),
                "the kept copy of a block is damaged; the block is fetched from the node"
            );
            let mut chain = self.chain.write().unwrap_or_else(PoisonError::into_inner);
            chain.forget_kept(hash);
            None
        })
    }

    /// Checks the bytes of a block to be kept, witnesses included, even if the chain does not keep witness data.
    fn check_kept(&self, hash: &Hash, raw: &[u8]) -> Result<(), Refused> {
        let block = CheckedBlock::check_with_witness(raw, self.identity.network)?;
        match block.hash() == *hash {
            true => Ok(()),
            false => Err(Refused::Malformed("another block".into())),
        }
    }

    /// Returns the lowest block of the chain that should be kept but is not.
    pub fn first_unkept(&self) -> Option<Hash> {
        let mut chain = self.chain.write().unwrap_or_else(PoisonError::into_inner);
        chain.first_unkept()
    }

    /// Keeps the bytes of a block that [`SpvHost::first_unkept`] returned.
    ///
    /// # Errors
    /// [`Refused::Storage`]: the bytes cannot be written now. Any other error: the bytes are not those of the block.
    pub fn keep_unkept(&self, hash: &Hash, raw: &[u8]) -> Result<(), Refused> {
        self.check_kept(hash, raw)?;
        let mut chain = self.chain.write().unwrap_or_else(PoisonError::into_inner);
        chain.keep(hash, raw).map_err(Refused::Storage)
    }

    /// Stops trying to keep a block that should be kept, until the server is restarted.
    pub fn give_up_unkept(&self, hash: &Hash) {
        let mut chain = self.chain.write().unwrap_or_else(PoisonError::into_inner);
        chain.give_up_unkept(hash);
    }
}
