//! Durability: kept blocks are written before the files, and the files before the indexes.

use super::super::types::ChainError;
use super::ChainStore;
use super::indexes::{Blocks, Witnessed};
use std::io;

impl ChainStore {
    /// Makes every accepted block durable. If the disk is full, the call can be repeated. After any other failure the
    /// store writes nothing until it is opened again.
    ///
    /// An index on disk may lack the newest blocks, up to a bounded number of TXIDs; the next opening indexes them.
    pub fn sync(&mut self) -> Result<(), ChainError> {
        self.mend_index().map_err(ChainError::Index)?;
        // The bytes of kept blocks must be durable before the records of these blocks.
        self.sync_kept().map_err(ChainError::Write)?;
        self.files.sync().map_err(ChainError::Write)?;
        self.flush_index(false).map_err(ChainError::Index)
    }

    /// Calls [`ChainStore::sync`] and writes the whole index, so that an index on disk covers every block.
    pub fn sync_index(&mut self) -> Result<(), ChainError> {
        self.sync()?;
        self.flush_index(true).map_err(ChainError::Index)
    }

    /// Reads a whole index on disk and compares it with the blocks. An index in memory is built from them and is not
    /// checked.
    ///
    /// # Errors
    /// [`ChainError::Index`]: the index is damaged; the next opening rebuilds it.
    pub fn verify_index(&self) -> Result<(), ChainError> {
        self.index.verify(&self.truth())?;
        match &self.wtxids {
            None => Ok(()),
            Some(wtxids) => wtxids.verify(&Witnessed(self.truth())),
        }
    }

    /// Returns the number of blocks that the next opening need not index: 0 with the index in memory.
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
