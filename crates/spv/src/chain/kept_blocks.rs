//! Raw blocks, if the configuration keeps them: `blocks/blkNNNNN.dat` in the store's directory, in the format of
//! Bitcoin Core: magic, length and block, one after the other. `lineside spv import` reads them.
//!
//! A server that follows a node reads a block from these files if it needs the block again, for example when the node's
//! chain returns to an earlier branch. The server requests the block from the node only if the copy is missing or
//! damaged.
//!
//! Files only grow. Blocks of side branches stay in them, as in a node's files. Opening removes a block whose write was
//! interrupted, and also a block whose bytes a power failure changed. The store has no record of such a block, because
//! the record is written only after the block is durable.

use super::Network;
use super::store::ChainStore;
use super::types::ChainError;
use super::validate::CheckedBlock;
use std::collections::{HashMap, VecDeque};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Directory of the files in the store's directory.
const FOLDER: &str = "blocks";
/// Length at which a file is full and gets no further block, as in Bitcoin Core.
const FILE_BYTES: u64 = 128 << 20;
/// Number of bytes before a block in a file: the network's magic and the block's length.
const HEAD: usize = 8;
/// Length of a block's header in bytes.
const HEADER: usize = 80;

/// Files of raw blocks.
pub(super) struct KeptBlocks {
    folder: PathBuf,
    magic: [u8; 4],
    /// Number of the file, and offset in it, of each block by its hash. If there are two copies, the later one is used.
    locations: HashMap<[u8; 32], (u32, u32)>,
    /// Hashes of the chain's blocks above the lowest stored block that are not stored, the lowest first.
    missing: VecDeque<[u8; 32]>,
    number: u32,
    file: File,
    end: u64,
    file_bytes: u64,
    unsynced: bool,
    failed: bool,
}

impl KeptBlocks {
    /// Opens the files in `folder`, which is created if necessary, and removes written data that did not become
    /// durable. `is_durable` returns true for blocks whose record is in the store.
    fn open(
        folder: &Path,
        (magic, network): ([u8; 4], Network),
        file_bytes: u64,
        is_durable: &dyn Fn(&[u8; 32]) -> bool,
    ) -> io::Result<KeptBlocks> {
        let is_sound = |hash: &[u8; 32], read: &dyn Fn() -> io::Result<Vec<u8>>| {
            Ok(is_durable(hash) || CheckedBlock::check_with_witness(&read()?, network).is_ok())
        };
        // A server that follows a node creates the directory before it drops the right to create directories.
        if !folder.is_dir() {
            std::fs::create_dir_all(folder)?;
        }
        let mut locations = HashMap::new();
        let mut number = 0;
        loop {
            let file = open_file(folder, number)?;
            let end = scan((&file, number), magic, &is_sound, &mut locations)?;
            let is_last = !path_of(folder, number + 1).exists();
            if is_last {
                file.set_len(end)?;
                return Ok(KeptBlocks {
                    folder: folder.to_path_buf(),
                    magic,
                    locations,
                    missing: VecDeque::new(),
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

    /// Appends a block unless the files contain it already. After an error the call can be repeated.
    fn add(&mut self, hash: &[u8; 32], raw: &[u8]) -> io::Result<()> {
        if self.locations.contains_key(hash) {
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
        self.locations.insert(*hash, (self.number, self.end as u32));
        self.end += record.len() as u64;
        self.unsynced = true;
        Ok(())
    }

    /// Returns the bytes of a block; `None` if the files do not contain it. Only the header is checked.
    fn read(&self, hash: &[u8; 32]) -> io::Result<Option<Vec<u8>>> {
        let Some(&(number, offset)) = self.locations.get(hash) else {
            return Ok(None);
        };
        let file = File::open(path_of(&self.folder, number))?;
        let mut head = [0; HEAD + HEADER];
        file.read_exact_at(&mut head, u64::from(offset))?;
        let length = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
        let header: &[u8] = &head[HEAD..];
        let is_it = head[..4] == self.magic && lineside_spv_proof::sha256d(header) == *hash;
        if !is_it || length < HEADER || length as u64 > self.file_bytes.max(self.end) {
            return Err(io::Error::other("the kept copy has the header of another block"));
        }
        let mut raw = vec![0; length];
        file.read_exact_at(&mut raw, u64::from(offset) + HEAD as u64)?;
        Ok(Some(raw))
    }

    /// Records which blocks of `chain`, in ascending order of height, are missing.
    fn note_missing(&mut self, chain: impl Iterator<Item = [u8; 32]>) {
        let known = &self.locations;
        let from_first = chain.skip_while(|hash| !known.contains_key(hash));
        self.missing = from_first.filter(|hash| !known.contains_key(hash)).collect();
    }

    /// Makes all blocks durable. After a failure no block is written until the store is opened again.
    fn sync(&mut self) -> io::Result<()> {
        if self.failed {
            return Err(io::Error::other(
                "an earlier write of the kept blocks failed, so nothing is written any more; restart this program",
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
            tracing::error!(
                "spv: the last raw blocks (`keep_blocks`) could not be made durable: {error}; check the disk. After a \
                 power failure their copies may be missing; the server then requests them from the node again"
            );
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

/// Function that returns true if a block is complete and undamaged. Its arguments are the block's hash and a function
/// that reads the block's bytes.
type IsSound<'a> = dyn Fn(&[u8; 32], &dyn Fn() -> io::Result<Vec<u8>>) -> io::Result<bool> + 'a;

/// Reads the hashes of the blocks in a file. Returns the offset at which the last undamaged block ends.
fn scan(
    (file, number): (&File, u32),
    magic: [u8; 4],
    is_sound: &IsSound<'_>,
    locations: &mut HashMap<[u8; 32], (u32, u32)>,
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
        locations.insert(hash, (number, at as u32));
        at = end;
    }
    Ok(at)
}

impl ChainStore {
    /// Creates the directory of kept blocks below `dir`, the store's directory. A process that drops the right to
    /// create directories calls this function before it does so, and [`ChainStore::keep_blocks`] afterwards.
    ///
    /// # Errors
    /// The system's error.
    pub fn make_blocks_folder(dir: &Path) -> Result<(), ChainError> {
        let path = dir.join(FOLDER);
        std::fs::create_dir_all(&path).map_err(|source| ChainError::Io { path, source })
    }

    /// Stores the bytes of all blocks that are accepted from now on, below `dir`, the store's directory. Returns the
    /// number of blocks of the chain that are missing in these files above the first block that they contain;
    /// [`ChainStore::first_unkept`] returns the missing blocks. Blocks before the first stored one do not count.
    ///
    /// # Errors
    /// The files cannot be opened.
    pub fn keep_blocks(&mut self, dir: &Path) -> Result<usize, ChainError> {
        let folder = dir.join(FOLDER);
        let network = self.identity();
        let is_durable = |hash: &[u8; 32]| self.find(hash).is_some();
        let opened = KeptBlocks::open(
            &folder,
            (network.magic(), network.network),
            FILE_BYTES,
            &is_durable,
        );
        let mut opened = opened.map_err(|source| ChainError::Io { path: folder, source })?;
        let chain = (0..).map_while(|height| self.at_height(height));
        opened.note_missing(chain.filter_map(|id| Some(self.block(id)?.hash)));
        let missing = opened.missing.len();
        self.kept_blocks = Some(opened);
        Ok(missing)
    }

    /// Returns the hash of the lowest block of the chain whose bytes should be stored but are not.
    pub fn first_unkept(&mut self) -> Option<[u8; 32]> {
        let kept = self.kept_blocks.as_mut()?;
        while let Some(hash) = kept.missing.front().copied() {
            if !kept.locations.contains_key(&hash) {
                return Some(hash);
            }
            kept.missing.pop_front();
        }
        None
    }

    /// Removes a block from those that [`ChainStore::first_unkept`] returns, until the next opening.
    pub fn give_up_unkept(&mut self, hash: &[u8; 32]) {
        if let Some(kept) = &mut self.kept_blocks {
            kept.missing.retain(|missing| missing != hash);
        }
    }

    /// Returns true if the bytes of the block with this hash are stored.
    pub fn is_kept(&self, hash: &[u8; 32]) -> bool {
        self.kept_blocks
            .as_ref()
            .is_some_and(|kept| kept.locations.contains_key(hash))
    }

    /// Returns the stored bytes of a block; `None` if they are not stored. Only the header is checked.
    ///
    /// # Errors
    /// The bytes cannot be read, or the file contains another block at this offset.
    pub fn kept_block(&self, hash: &[u8; 32]) -> io::Result<Option<Vec<u8>>> {
        self.kept_blocks.as_ref().map_or(Ok(None), |kept| kept.read(hash))
    }

    /// Removes the damaged copy of a block from the table of stored blocks, so that [`ChainStore::keep`] writes the
    /// block again.
    pub fn forget_kept(&mut self, hash: &[u8; 32]) {
        if let Some(kept) = &mut self.kept_blocks {
            kept.locations.remove(hash);
        }
    }

    /// Stores the bytes of a block that was accepted, if the store was opened with [`ChainStore::keep_blocks`].
    ///
    /// # Errors
    /// The bytes cannot be written now; the call can be repeated.
    pub fn keep(&mut self, hash: &[u8; 32], raw_block: &[u8]) -> io::Result<()> {
        let Some(kept) = &mut self.kept_blocks else {
            return Ok(());
        };
        let added = kept.add(hash, raw_block);
        match added {
            Ok(()) => self.files.release(),
            // If the store is closed before the block's bytes are written, the store must not contain the block.
            Err(_) => self.files.withhold_last(),
        }
        added
    }

    pub(super) fn sync_kept(&mut self) -> io::Result<()> {
        self.kept_blocks.as_mut().map_or(Ok(()), KeptBlocks::sync)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lineside_testkit::{DemoBlock, DemoChain};

    const MAGIC: [u8; 4] = [0xfa, 0xbf, 0xb5, 0xda];

    #[test]
    fn blocks_fill_one_file_after_the_other_and_a_torn_block_is_removed() {
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
        // Appends part of a block, as a process that is killed during a write leaves it.
        let torn = [&MAGIC[..], &1000u32.to_le_bytes(), &blocks[0].raw[..90]].concat();
        let file = open_file(folder.path(), last).unwrap();
        file.write_all_at(&torn, end).unwrap();
        let kept = open();
        assert_eq!((kept.number, kept.end, kept.locations.len()), (last, end, 6));
        assert_eq!(file.metadata().unwrap().len(), end);
        drop(kept);
        // A power failure changed the last byte of a block. This can only happen to a block that the store does not
        // have.
        let last_byte = |byte: u8| file.write_all_at(&[byte], end - 1).unwrap();
        let sound = *blocks[5].raw.last().unwrap();
        last_byte(!sound);
        assert_eq!(
            open_with(&|_| true).locations.len(),
            6,
            "blocks that are known to be durable are not read"
        );
        let mut kept = open();
        assert_eq!((kept.number, kept.locations.len()), (last, 5));
        assert!(kept.end < end && !kept.locations.contains_key(&blocks[5].hash));
        kept.add(&blocks[5].hash, &blocks[5].raw).unwrap();
        // The files contain each block exactly once.
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
