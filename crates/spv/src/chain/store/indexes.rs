//! The indexes of a store: the index of TXIDs and, if it is enabled, the index of WTXIDs.

use super::super::disk_index::{DiskIndex, Truth};
use super::super::files::Files;
use super::super::index::{IndexedTx, TxidIndex};
use super::super::types::{ChainError, IndexKind, IndexRebuilt};
use super::{ChainStore, Entry};
use std::io;
use std::path::Path;

/// Name of the TXID index's directory in the directory of a store.
pub(super) const TXIDS: &str = "txid-index";
/// Name of the WTXID index's directory in the directory of a store.
const WTXIDS: &str = "wtxid-index";

/// Index from a transaction's id to every location of it in accepted blocks.
pub(super) enum Index {
    Memory(TxidIndex),
    Disk(Box<DiskIndex>),
}

/// The blocks as the TXID index reads them.
pub(super) struct Blocks<'a> {
    pub(super) entries: &'a [Entry],
    pub(super) files: &'a Files,
}

impl Truth for Blocks<'_> {
    fn blocks(&self) -> u32 {
        self.entries.len() as u32
    }

    fn hash(&self, block: u32) -> &[u8; 32] {
        &self.entries[block as usize].hash
    }

    #[inline]
    fn txids(&self, block: u32) -> &[[u8; 32]] {
        let entry = &self.entries[block as usize];
        self.files.txids(entry.first, entry.count)
    }
}

/// The blocks as the WTXID index reads them: the transactions after the coinbase of the blocks that commit to their
/// witnesses. A coinbase is left out because its WTXID is zero in every block.
pub(super) struct Witnessed<'a>(pub(super) Blocks<'a>);

impl Truth for Witnessed<'_> {
    fn blocks(&self) -> u32 {
        self.0.blocks()
    }

    fn hash(&self, block: u32) -> &[u8; 32] {
        self.0.hash(block)
    }

    #[inline]
    fn txids(&self, block: u32) -> &[[u8; 32]] {
        let entry = &self.0.entries[block as usize];
        match self.0.files.witness() {
            Some(files) if entry.witness.coinbase_bytes > 0 => files
                .wtxids(entry.first, entry.count)
                .get(1..)
                .unwrap_or_default(),
            _ => &[],
        }
    }
}

#[inline]
fn id_at<T: Truth>(truth: &T, place: IndexedTx) -> &[u8; 32] {
    &truth.txids(place.block)[place.position as usize]
}

impl Index {
    /// Returns an empty index in memory.
    pub(super) fn empty() -> Result<Index, ChainError> {
        TxidIndex::new().map(Index::Memory).map_err(ChainError::Write)
    }

    /// Opens the index `name` in `dir` over all blocks of `truth`, which contain about `ids` ids. The second returned
    /// value is `Some` if an index on disk was rebuilt.
    pub(super) fn open(
        dir: Option<&Path>,
        name: &str,
        kind: IndexKind,
        truth: &impl Truth,
        (network, ids): (super::Network, usize),
    ) -> Result<(Index, Option<IndexRebuilt>), ChainError> {
        match kind {
            IndexKind::Memory => {
                let mut index = TxidIndex::new().map_err(ChainError::Write)?;
                index.reserve(ids);
                for block in 0..truth.blocks() {
                    index.add(block, truth.txids(block), |place| id_at(truth, place));
                }
                Ok((Index::Memory(index), None))
            }
            IndexKind::Disk => {
                let dir = dir.ok_or(ChainError::IndexNeedsDirectory)?;
                let (index, why) = DiskIndex::open(dir, name, network, truth).map_err(ChainError::Index)?;
                Ok((Index::Disk(Box::new(index)), why.map(|why| IndexRebuilt { why })))
            }
        }
    }

    /// Adds the newest block.
    pub(super) fn add(&mut self, block: u32, truth: &impl Truth) {
        match self {
            Index::Memory(index) => index.add(block, truth.txids(block), |place| id_at(truth, place)),
            Index::Disk(index) => index.add(block, truth),
        }
    }

    /// Calls `each` with every location of `id`.
    #[inline]
    pub(super) fn places(
        &self,
        id: &[u8; 32],
        truth: &impl Truth,
        mut each: impl FnMut(IndexedTx),
    ) -> Result<(), ChainError> {
        match self {
            Index::Memory(index) => {
                index.places(id, |place| id_at(truth, place)).for_each(each);
                Ok(())
            }
            Index::Disk(index) => index.places(id, truth, &mut each).map_err(ChainError::Index),
        }
    }

    /// Makes an index writable again after a write found no free disk space, if there is free space now.
    ///
    /// # Errors
    /// The index cannot be written now.
    pub(super) fn mend(&mut self, truth: &impl Truth) -> io::Result<()> {
        match self {
            Index::Memory(_) => Ok(()),
            Index::Disk(index) => index.mend(truth),
        }
    }

    /// Writes the pending entries if there are many of them; if `all` is set, writes them in any case. The blocks must
    /// be durable already.
    pub(super) fn flush(&mut self, all: bool, truth: &impl Truth) -> io::Result<()> {
        match self {
            Index::Memory(_) => Ok(()),
            Index::Disk(index) => index.flush(all, truth),
        }
    }

    /// Reads a whole index on disk and compares it with the blocks.
    pub(super) fn verify(&self, truth: &impl Truth) -> Result<(), ChainError> {
        match self {
            Index::Memory(_) => Ok(()),
            Index::Disk(index) => index.verify(truth).map_err(ChainError::Index),
        }
    }

    /// Returns the number of blocks whose entries are durable; 0 for an index in memory.
    pub(super) fn durable_blocks(&self) -> u32 {
        match self {
            Index::Memory(_) => 0,
            Index::Disk(index) => index.durable_blocks(),
        }
    }
}

impl ChainStore {
    /// Opens an index of WTXIDs, in `dir`, the store's directory, or in memory, so that [`ChainStore::locate_wtxid`]
    /// finds transactions. Does nothing for a store without witness data. Returns a report if an index on disk was
    /// rebuilt.
    ///
    /// # Errors
    /// [`ChainError::Index`]; [`ChainError::IndexNeedsDirectory`].
    pub fn index_wtxids(
        &mut self,
        dir: Option<&Path>,
        kind: IndexKind,
    ) -> Result<Option<IndexRebuilt>, ChainError> {
        if !self.keeps_witness() {
            return Ok(None);
        }
        let truth = Witnessed(Blocks {
            entries: &self.entries,
            files: &self.files,
        });
        let ids = self.files.len() as usize;
        let (index, rebuilt) = Index::open(dir, WTXIDS, kind, &truth, (self.network, ids))?;
        self.wtxids = Some(index);
        Ok(rebuilt)
    }
}
