//! Bytes of blocks, where the configuration keeps them: `blocks/blkNNNNN.dat` in the store's directory, as Bitcoin Core
//! writes such files: magic, length and block, one after the other. `lineside spv import` reads them.
//!
//! Files are only added to. Blocks of side branches stay in them, as in those of a node. An interrupted write is
//! cut at the next opening, and so is a block that a power cut has left with other bytes: the store does not have such
//! a block, because its record is written after the block is durable.

use super::Network;
use super::store::ChainStore;
use super::types::ChainError;
use super::validate::CheckedBlock;
use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Folder of the files in the store's directory.
const FOLDER: &str = "blocks";
/// Length from which on a file takes no further block, as that of Bitcoin Core.
const FILE_BYTES: u64 = 128 << 20;
/// Magic and length in front of a block.
const HEAD: usize = 8;
/// Bytes of a block's header.
const HEADER: usize = 80;

/// Blocks in files.
pub(super) struct KeptBlocks {
    folder: PathBuf,
    magic: [u8; 4],
    known: HashSet<[u8; 32]>,
    number: u32,
    file: File,
    end: u64,
    file_bytes: u64,
    unsynced: bool,
    failed: bool,
}

impl KeptBlocks {
    /// Opens the files in `folder`, which is made where it is not there, and cuts what a write left that did not
    /// become durable. `is_durable` says which blocks did.
    fn open(
        folder: &Path,
        (magic, network): ([u8; 4], Network),
        file_bytes: u64,
        is_durable: &dyn Fn(&[u8; 32]) -> bool,
    ) -> io::Result<KeptBlocks> {
        let is_sound = |hash: &[u8; 32], read: &dyn Fn() -> io::Result<Vec<u8>>| {
            Ok(is_durable(hash) || CheckedBlock::check_with_witness(&read()?, network).is_ok())
        };
        // A server that follows a node has made it before it gave up the right to.
        if !folder.is_dir() {
            std::fs::create_dir_all(folder)?;
        }
        let mut known = HashSet::new();
        let mut number = 0;
        loop {
            let file = open_file(folder, number)?;
            let end = scan(&file, magic, &is_sound, &mut known)?;
            let is_last = !path_of(folder, number + 1).exists();
            if is_last {
                file.set_len(end)?;
                return Ok(KeptBlocks {
                    folder: folder.to_path_buf(),
                    magic,
                    known,
                    number,
                    file,
                    end,
                    file_bytes,
                    unsynced: false,
                    failed: false,
                });
            }
            number += 1;
        }
    }

    /// Adds a block that is not there yet. After an error the call can be repeated.
    fn add(&mut self, hash: &[u8; 32], raw: &[u8]) -> io::Result<()> {
        if self.known.contains(hash) {
            return Ok(());
        }
        let length = u32::try_from(raw.len()).map_err(io::Error::other)?;
        if self.end > 0 && self.end + (HEAD + raw.len()) as u64 > self.file_bytes {
            self.sync()?;
            let next = open_file(&self.folder, self.number + 1)?;
            File::open(&self.folder)?.sync_all()?;
            (self.file, self.number, self.end) = (next, self.number + 1, 0);
        }
        let record = [&self.magic[..], &length.to_le_bytes(), raw].concat();
        self.file.write_all_at(&record, self.end)?;
        self.end += record.len() as u64;
        self.known.insert(*hash);
        self.unsynced = true;
        Ok(())
    }

    /// Makes all blocks durable. After a failure nothing is written until the store is opened again.
    fn sync(&mut self) -> io::Result<()> {
        if self.failed {
            return Err(io::Error::other(
                "an earlier write of the kept blocks failed; nothing is written until a restart",
            ));
        }
        if self.unsynced {
            self.failed = true;
            self.file.sync_data()?;
            (self.failed, self.unsynced) = (false, false);
        }
        Ok(())
    }
}

impl Drop for KeptBlocks {
    fn drop(&mut self) {
        if let Err(error) = self.sync() {
            tracing::error!(%error, "the last blocks that were kept are perhaps not on disk");
        }
    }
}

fn path_of(folder: &Path, number: u32) -> PathBuf {
    folder.join(format!("blk{number:05}.dat"))
}

fn open_file(folder: &Path, number: u32) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    options.open(path_of(folder, number))
}

/// Says of a block, by its hash and a function that reads it, that all of it is there.
type IsSound<'a> = dyn Fn(&[u8; 32], &dyn Fn() -> io::Result<Vec<u8>>) -> io::Result<bool> + 'a;

/// Reads the hashes of the blocks in a file. Returns where the last sound one ends.
fn scan(
    file: &File,
    magic: [u8; 4],
    is_sound: &IsSound<'_>,
    known: &mut HashSet<[u8; 32]>,
) -> io::Result<u64> {
    let bytes = file.metadata()?.len();
    let mut at = 0;
    while at + (HEAD + HEADER) as u64 <= bytes {
        let mut head = [0; HEAD + HEADER];
        file.read_exact_at(&mut head, at)?;
        let length = u32::from_le_bytes([head[4], head[5], head[6], head[7]]);
        let end = at + HEAD as u64 + u64::from(length);
        if head[..4] != magic || (length as usize) < HEADER || end > bytes {
            break;
        }
        let header: &[u8] = &head[HEAD..];
        let hash = lineside_spv_proof::sha256d(header);
        let read = || {
            let mut raw = vec![0; length as usize];
            file.read_exact_at(&mut raw, at + HEAD as u64).map(|()| raw)
        };
        if !is_sound(&hash, &read)? {
            break;
        }
        known.insert(hash);
        at = end;
    }
    Ok(at)
}

impl ChainStore {
    /// Makes the folder of kept blocks below `dir`, the store's directory, for a process that has no right to do it
    /// when it calls [`ChainStore::keep_blocks`].
    ///
    /// # Errors
    /// The system's reason.
    pub fn make_blocks_folder(dir: &Path) -> Result<(), ChainError> {
        let path = dir.join(FOLDER);
        std::fs::create_dir_all(&path).map_err(|source| ChainError::Io { path, source })
    }

    /// Keeps the bytes of all blocks from here on, below `dir`, the store's directory. Blocks that the store has
    /// already are not fetched again.
    ///
    /// # Errors
    /// The files cannot be opened.
    pub fn keep_blocks(&mut self, dir: &Path) -> Result<(), ChainError> {
        let folder = dir.join(FOLDER);
        let network = self.identity();
        let is_durable = |hash: &[u8; 32]| self.find(hash).is_some();
        let kept = KeptBlocks::open(
            &folder,
            (network.magic(), network.network),
            FILE_BYTES,
            &is_durable,
        );
        let kept = kept.map_err(|source| ChainError::Io { path: folder, source })?;
        self.kept = Some(kept);
        Ok(())
    }

    /// Keeps the bytes of a block that was accepted, if the store keeps blocks.
    ///
    /// # Errors
    /// They cannot be written now; the call can be repeated.
    pub fn keep(&mut self, hash: &[u8; 32], raw_block: &[u8]) -> io::Result<()> {
        match &mut self.kept {
            None => Ok(()),
            Some(kept) => kept.add(hash, raw_block),
        }
    }

    pub(super) fn sync_kept(&mut self) -> io::Result<()> {
        self.kept.as_mut().map_or(Ok(()), KeptBlocks::sync)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lineside_testkit::{DemoBlock, DemoChain};

    const MAGIC: [u8; 4] = [0xfa, 0xbf, 0xb5, 0xda];

    #[test]
    fn blocks_fill_files_one_after_the_other_and_a_torn_one_is_cut() {
        let folder = tempfile::tempdir().unwrap();
        let blocks: Vec<DemoBlock> = DemoChain::new(1, 20).take(6).collect();
        let bytes = blocks[0].raw.len() as u64;
        let open_with = |is_durable: &dyn Fn(&[u8; 32]) -> bool| {
            KeptBlocks::open(folder.path(), (MAGIC, Network::Regtest), 3 * bytes, is_durable).unwrap()
        };
        let open = || open_with(&|_| false);
        let mut kept = open();
        for block in blocks.iter().chain(&blocks[..2]) {
            kept.add(&block.hash, &block.raw).unwrap();
        }
        kept.sync().unwrap();
        let (last, end) = (kept.number, kept.end);
        assert!(last >= 2, "{last}");
        drop(kept);
        // Half a block, as a kill leaves it.
        let torn = [&MAGIC[..], &1000u32.to_le_bytes(), &blocks[0].raw[..90]].concat();
        let file = open_file(folder.path(), last).unwrap();
        file.write_all_at(&torn, end).unwrap();
        let kept = open();
        assert_eq!((kept.number, kept.end, kept.known.len()), (last, end, 6));
        assert_eq!(file.metadata().unwrap().len(), end);
        drop(kept);
        // A block whose last byte a power cut has taken, as only one can be that the store does not have.
        let last_byte = |byte: u8| file.write_all_at(&[byte], end - 1).unwrap();
        let sound = *blocks[5].raw.last().unwrap();
        last_byte(!sound);
        assert_eq!(open_with(&|_| true).known.len(), 6, "what is durable is not read");
        let mut kept = open();
        assert_eq!((kept.number, kept.known.len()), (last, 5));
        assert!(kept.end < end && !kept.known.contains(&blocks[5].hash));
        kept.add(&blocks[5].hash, &blocks[5].raw).unwrap();
        // The files are the blocks, each once.
        let mut all = Vec::new();
        for number in 0..=last {
            all.extend(std::fs::read(path_of(folder.path(), number)).unwrap());
        }
        let expected = blocks.iter().flat_map(|block| {
            let length = (block.raw.len() as u32).to_le_bytes();
            [&MAGIC[..], &length, &block.raw].concat()
        });
        assert_eq!(all, expected.collect::<Vec<_>>());
    }
}
