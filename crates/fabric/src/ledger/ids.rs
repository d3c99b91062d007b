//! Index of the ids and codes of all transactions of a ledger, in memory or in files.

mod disk;
mod log;
mod memory;
mod run;
#[cfg(test)]
mod tests;

pub(crate) use disk::DiskIds;
use log::PageChecksum;
pub(crate) use log::{IdsCheckpoint, RECORD_BYTES, RECORDS, compare, read_all};
use memory::MemoryIds;
use std::io;
use std::path::{Path, PathBuf};

/// Placeholder for the id of a transaction that has none, or one that is not a hash in hex.
pub(crate) const NO_ID: [u8; 32] = [0; 32];

/// Id and code of a transaction.
pub(crate) type Record = ([u8; 32], u8);

/// Storage of a ledger's ids and codes.
#[derive(Clone, Debug, Default)]
pub(crate) enum IdsAt {
    /// Ids and codes are in memory and in checkpoints.
    #[default]
    Memory,
    /// Ids and codes are in files in this folder, which this process writes.
    Files(PathBuf),
    /// Ids and codes are in files in this folder, which another process may write. This process reads them into memory.
    FilesRead(PathBuf),
}

impl IdsAt {
    /// Returns the folder of the files for the state in the folder `state`.
    pub fn folder(state: &Path) -> PathBuf {
        state.join("ids")
    }
}

/// Ids and codes by transaction number, with an index by id.
#[derive(Debug)]
pub(crate) enum TxIdIndex {
    Memory(MemoryIds),
    Disk(Box<DiskIds>),
}

impl Default for TxIdIndex {
    fn default() -> Self {
        Self::Memory(MemoryIds::default())
    }
}

impl TxIdIndex {
    /// Returns the number of transactions.
    pub fn len(&self) -> usize {
        match self {
            Self::Memory(ids) => ids.len(),
            Self::Disk(ids) => ids.len(),
        }
    }

    /// Reserves memory for more transactions.
    pub fn reserve(&mut self, transactions: usize) {
        if let Self::Memory(ids) = self {
            ids.reserve(transactions);
        }
    }

    /// Adds the next transaction. `id` is [`NO_ID`] if it cannot be looked up in this index.
    pub fn push(&mut self, id: [u8; 32], code: u8) {
        match self {
            Self::Memory(ids) => ids.push(id, code),
            Self::Disk(ids) => ids.push(id, code),
        }
    }

    /// Prefetches the table entries of these ids into the CPU's caches. Independent lookups overlap their cache misses,
    /// as long as no other work is between them.
    pub fn prefetch<'i>(&self, all: impl Iterator<Item = &'i [u8; 32]>) {
        if let Self::Memory(ids) = self {
            for id in all {
                std::hint::black_box(ids.find(id));
            }
        }
    }

    /// Returns the number of the first transaction with this id. The result is valid only if [`Self::failure`] is
    /// `None`.
    pub fn find(&self, id: &[u8; 32]) -> Option<u32> {
        match self {
            Self::Memory(ids) => ids.find(id),
            Self::Disk(ids) => ids.find(id),
        }
    }

    /// Returns id and code of a transaction. The result is valid only if [`Self::failure`] is `None`.
    pub fn record(&self, number: usize) -> Option<Record> {
        match self {
            Self::Memory(ids) => ids.record(number),
            Self::Disk(ids) => ids.record(number),
        }
    }

    /// Returns the checksum of the first `pages` full pages of records. If ids are in files, these pages must be
    /// written.
    ///
    /// # Errors
    /// The last page cannot be read.
    pub fn sum_after(&self, pages: u64) -> io::Result<PageChecksum> {
        match self {
            Self::Memory(ids) => Ok(ids.sum_after(pages)),
            Self::Disk(ids) => ids.sum_after(pages),
        }
    }

    /// Returns the files, if ids are in files.
    pub fn on_disk(&self) -> Option<&DiskIds> {
        match self {
            Self::Memory(_) => None,
            Self::Disk(ids) => Some(ids),
        }
    }

    /// Returns the files for changes, if ids are in files.
    pub fn on_disk_mut(&mut self) -> Option<&mut DiskIds> {
        match self {
            Self::Memory(_) => None,
            Self::Disk(ids) => Some(ids),
        }
    }

    /// Returns the first failure to read or write a file.
    pub fn failure(&self) -> Option<&str> {
        self.on_disk()?.failure()
    }
}
