//! Ids and codes of all transactions of a ledger: in memory, or in files.

mod disk;
mod log;
mod memory;
mod run;
#[cfg(test)]
mod tests;

pub(crate) use disk::DiskIds;
use log::Sum;
pub(crate) use log::{RECORD_BYTES, RECORDS, Tail, compare, read_all};
use memory::MemoryIds;
use std::io;
use std::path::{Path, PathBuf};

/// Id of a transaction that has none, or one that is no hash in hex.
pub(crate) const NO_ID: [u8; 32] = [0; 32];

/// A transaction's id and code.
pub(crate) type Record = ([u8; 32], u8);

/// Place where a ledger's ids and codes are.
#[derive(Clone, Debug, Default)]
pub(crate) enum IdsAt {
    /// In memory, and in checkpoints.
    #[default]
    Memory,
    /// In files in this folder, which this process writes.
    Files(PathBuf),
    /// In files in this folder, which another process may write; they are read into memory.
    FilesRead(PathBuf),
}

impl IdsAt {
    /// The folder of the files in the folder of a state.
    pub fn folder(state: &Path) -> PathBuf {
        state.join("ids")
    }
}

/// Ids and codes by the number of their transaction, and numbers by id.
#[derive(Debug)]
pub(crate) enum Ids {
    Memory(MemoryIds),
    Disk(Box<DiskIds>),
}

impl Default for Ids {
    fn default() -> Self {
        Self::Memory(MemoryIds::default())
    }
}

impl Ids {
    /// Number of transactions.
    pub fn len(&self) -> usize {
        match self {
            Self::Memory(ids) => ids.len(),
            Self::Disk(ids) => ids.len(),
        }
    }

    /// Takes space for that many more transactions.
    pub fn reserve(&mut self, transactions: usize) {
        if let Self::Memory(ids) = self {
            ids.reserve(transactions);
        }
    }

    /// Adds the next transaction; its id is [`NO_ID`] where it is not to be found by it.
    pub fn push(&mut self, id: [u8; 32], code: u8) {
        match self {
            Self::Memory(ids) => ids.push(id, code),
            Self::Disk(ids) => ids.push(id, code),
        }
    }

    /// Brings the places of these ids into the CPU's caches. Looked for one after the other, each is waited for, unless
    /// nothing else is done between.
    pub fn warm<'i>(&self, all: impl Iterator<Item = &'i [u8; 32]>) {
        if let Self::Memory(ids) = self {
            for id in all {
                std::hint::black_box(ids.find(id));
            }
        }
    }

    /// Number of the first transaction with this id. [`Self::failure`] says whether that is so.
    pub fn find(&self, id: &[u8; 32]) -> Option<u32> {
        match self {
            Self::Memory(ids) => ids.find(id),
            Self::Disk(ids) => ids.find(id),
        }
    }

    /// Id and code of a transaction. [`Self::failure`] says whether that is so.
    pub fn record(&self, number: usize) -> Option<Record> {
        match self {
            Self::Memory(ids) => ids.record(number),
            Self::Disk(ids) => ids.record(number),
        }
    }

    /// The sum of the records of that many whole pages, which are written where they are in a file.
    ///
    /// # Errors
    /// The page cannot be read.
    pub fn sum_after(&self, pages: u64) -> io::Result<Sum> {
        match self {
            Self::Memory(ids) => Ok(ids.sum_after(pages)),
            Self::Disk(ids) => ids.sum_after(pages),
        }
    }

    /// The files, if they are in files.
    pub fn on_disk(&self) -> Option<&DiskIds> {
        match self {
            Self::Memory(_) => None,
            Self::Disk(ids) => Some(ids),
        }
    }

    /// The files, if they are in files, to change them.
    pub fn on_disk_mut(&mut self) -> Option<&mut DiskIds> {
        match self {
            Self::Memory(_) => None,
            Self::Disk(ids) => Some(ids),
        }
    }

    /// Reason why a file could not be read or written, the first time that happened.
    pub fn failure(&self) -> Option<&str> {
        self.on_disk()?.failure()
    }
}
