//! Access to the bytes of blocks, if the chain stores them (`keep_blocks`).

use super::SpvHost;
use crate::chain::{CheckedBlock, Refused};
use crate::store::Hash;
use lineside_util::hex::to_display;
use std::io;
use std::sync::PoisonError;

impl SpvHost {
    /// Stores the bytes of a block that was accepted, if the chain stores the bytes of blocks.
    ///
    /// # Errors
    /// The bytes cannot be written now; the call can be repeated.
    pub fn keep(&self, block: &CheckedBlock, raw_block: &[u8]) -> io::Result<()> {
        let mut chain = self.chain.write().unwrap_or_else(PoisonError::into_inner);
        chain.keep(&block.hash(), raw_block)
    }

    /// Returns true if the bytes of the block with this hash are stored.
    pub fn is_kept(&self, hash: &Hash) -> bool {
        self.chain().is_kept(hash)
    }

    /// Returns the stored bytes of a block after checking all of them; `None` if they are not stored. A copy that is
    /// damaged or cannot be read is removed from the table of stored blocks, and a message is logged.
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
                "the copy of a block in the files of `keep_blocks` is damaged; the server fetches the block from the \
                 node again"
            );
            let mut chain = self.chain.write().unwrap_or_else(PoisonError::into_inner);
            chain.forget_kept(hash);
            None
        })
    }

    /// Checks the bytes of a block that will be stored, witnesses included, even if the chain does not keep witness
    /// data.
    fn check_kept(&self, hash: &Hash, raw: &[u8]) -> Result<(), Refused> {
        let block = CheckedBlock::check_with_witness(raw, self.identity.network)?;
        match block.hash() == *hash {
            true => Ok(()),
            false => Err(Refused::Malformed("another block".into())),
        }
    }

    /// Returns the hash of the lowest block of the chain whose bytes should be stored but are not.
    pub fn first_unkept(&self) -> Option<Hash> {
        let mut chain = self.chain.write().unwrap_or_else(PoisonError::into_inner);
        chain.first_unkept()
    }

    /// Stores the bytes of a block that [`SpvHost::first_unkept`] returned.
    ///
    /// # Errors
    /// [`Refused::Storage`]: the bytes cannot be written now. Any other error: the bytes are not those of the block.
    pub fn keep_unkept(&self, hash: &Hash, raw: &[u8]) -> Result<(), Refused> {
        self.check_kept(hash, raw)?;
        let mut chain = self.chain.write().unwrap_or_else(PoisonError::into_inner);
        chain.keep(hash, raw).map_err(Refused::Storage)
    }

    /// Removes a block from those that [`SpvHost::first_unkept`] returns, until the server is restarted.
    pub fn give_up_unkept(&self, hash: &Hash) {
        let mut chain = self.chain.write().unwrap_or_else(PoisonError::into_inner);
        chain.give_up_unkept(hash);
    }
}
