//! Durability: the kept blocks before the files, the files before the indexes.

use super::super::types::ChainError;
use super::ChainStore;
use super::indexes::{Blocks, Witnessed};
use std::io;

impl ChainStore {
    /// Makes every accepted block durable. Where there is no room for it, the call can be repeated. After another
    /// failure nothing is written until the store is opened again.
    ///
    /// An index on disk may stay behind the blocks by a bounded number of TXIDs, which the next opening indexes.
    pub fn sync(&mut self) -> Result<(), ChainError> {
        self.mend_index().map_err(ChainError::Index)?;
        // No durable block is without its bytes.
        self.sync_kept().map_err(ChainError::Write)?;
        self.files.sync().map_err(ChainError::Write)?;
        self.flush_index(false).map_err(ChainError::Index)
    }

    /// [`ChainStore::sync`], and an index on disk covers every block after it.
    pub fn sync_index(&mut self) -> Result<(), ChainError> {
        self.sync()?;
        self.flush_index(true).map_err(ChainError::Index)
    }

    /// Reads an index on disk whole and compares it with the blocks; an index in memory was made from them.
    ///
    /// # Errors
    /// [`ChainError::Index`]: it is damaged; the next opening makes it anew.
    pub fn verify_index(&self) -> Result<(), ChainError> {
        self.index.verify(&self.truth())?;
        match &self.wtxids {
            None => Ok(()),
            Some(wtxids) => wtxids.verify(&Witnessed(self.truth())),
        }
    }

    /// Number of blocks that the next opening need not index: 0 with the index in memory.
    pub fn indexed_blocks(&self) -> u32 {
        self.index.durable_blocks()
    }

    pub(super) fn make_room(&mut self) -> io::Result<()> {
        self.mend_index()?;
        if self.files.is_long() {
            self.sync_kept()?;
        }
        if self.files.make_room()? {
            self.flush_index(false)?;
        }
        Ok(())
    }

    fn mend_index(&mut self) -> io::Result<()> {
        let (entries, files) = (&self.entries, &self.files);
        self.index.mend(&Blocks { entries, files })?;
        match &mut self.wtxids {
            None => Ok(()),
            Some(wtxids) => wtxids.mend(&Witnessed(Blocks { entries, files })),
        }
    }

    fn flush_index(&mut self, all: bool) -> io::Result<()> {
        let (entries, files) = (&self.entries, &self.files);
        self.index.flush(all, &Blocks { entries, files })?;
        match &mut self.wtxids {
            None => Ok(()),
            Some(wtxids) => wtxids.flush(all, &Witnessed(Blocks { entries, files })),
        }
    }
}
