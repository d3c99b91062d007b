//! Block files of Bitcoin Core (`blk00000.dat` and the following ones), read block by block.
//!
//! Source: `src/node/blockstorage.cpp` of Bitcoin Core. A record is the magic of the network, the length of the block
//! in four bytes (little-endian), and the block. Files are preallocated in steps, so zeros follow the last record.
//! Since version 28 every byte of a file is XORed with one of the eight bytes of `xor.dat`, chosen by its position in
//! the file; the preallocated bytes at the end may be zeros before or after this XOR. Blocks are in the order in which
//! they arrived, not in the order of their heights, and include blocks of side branches. A crash may leave an
//! incomplete record; the node writes its next record after it.

use crate::hash::{BlockHash, HEADER_BYTES};
use crate::options::BLOCK_BYTES_MAX;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Number of bytes of magic and length before a block.
const FRAME_BYTES: u64 = 8;
/// Number of bytes that are read at once while searching for the next record.
const SEARCH_BYTES: usize = 1 << 16;

/// Reason why block files cannot be read.
#[derive(Debug, Error)]
pub enum BlockFilesError {
    /// A file or directory cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// Path of the file or directory.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The directory has no block files.
    #[error(
        "{}: this directory has no blk00000.dat; give the directory `blocks` of Bitcoin Core's data directory",
        path.display()
    )]
    None {
        /// Path of the directory.
        path: PathBuf,
    },
    /// The XOR key does not have 8 bytes.
    #[error(
        "{}: the XOR key has {bytes} bytes, not 8, so the file is damaged or not of Bitcoin Core; copy it from the \
         node again",
        path.display()
    )]
    Key {
        /// Path of `xor.dat`.
        path: PathBuf,
        /// Length of the file in bytes.
        bytes: u64,
    },
    /// A block that was read before is no longer at its position in the file.
    #[error(
        "{}: the block at byte {offset} is damaged or was replaced since it was first read; start again with files of \
         a node that neither prunes nor downloads its chain again, or follow the node by its RPC", path.display()
    )]
    Damaged {
        /// Path of the file.
        path: PathBuf,
        /// Offset of the block's first byte in the file.
        offset: u64,
    },
    /// The files belong to another network, or are not block files.
    #[error(
        "{}: the first record does not begin with the magic {magic:02x?} of the configured network; \
         give the block files of that network, with their xor.dat", path.display()
    )]
    OtherNetwork {
        /// Path of the file.
        path: PathBuf,
        /// Magic of the configured network.
        magic: [u8; 4],
    },
}

/// Location of a block in the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Number of the file: 7 for `blk00007.dat`.
    pub file: u32,
    /// Offset in the file of the block's first byte, which follows magic and length.
    pub offset: u64,
}

/// A block from the files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileBlock {
    /// Location of the block.
    pub position: Position,
    /// Hash of the block.
    pub hash: BlockHash,
    /// Number of bytes of the block.
    pub bytes: usize,
    /// Bytes of the block as nodes send it, with the XOR undone. Only the length is checked. After
    /// [`BlockFiles::headers_only`], these are the bytes of the header only.
    pub raw: Vec<u8>,
}

/// Iterator over the blocks of a directory, ordered by file and position.
///
/// The iterator holds one block in memory at a time. It skips and counts bytes that are neither a whole record nor
/// padding, up to the next magic, because a node may leave incomplete records.
#[derive(Debug)]
pub struct BlockFiles {
    dir: PathBuf,
    magic: [u8; 4],
    key: [u8; 8],
    /// Numbers of the files that are not read yet, in descending order: the last element is read next.
    numbers: Vec<u32>,
    current: Option<OpenFile>,
    skipped_bytes: u64,
    bytes: u64,
    total_bytes: u64,
    /// Maximum number of bytes that are read of each block.
    read_max: usize,
}

#[derive(Debug)]
struct OpenFile {
    number: u32,
    path: PathBuf,
    file: File,
    len: u64,
    at: u64,
}

impl BlockFiles {
    /// Opens the block files in `dir`. `magic` is the magic of the network, which precedes each block.
    ///
    /// # Errors
    /// [`BlockFilesError`].
    pub fn open(dir: &Path, magic: [u8; 4]) -> Result<BlockFiles, BlockFilesError> {
        BlockFiles::open_at(dir, magic, Position { file: 0, offset: 0 })
    }

    /// Opens the block files like [`BlockFiles::open`], beginning with the block at `start`.
    ///
    /// # Errors
    /// [`BlockFilesError`].
    pub fn open_at(dir: &Path, magic: [u8; 4], start: Position) -> Result<BlockFiles, BlockFilesError> {
        let (mut numbers, mut total_bytes) = (Vec::new(), 0);
        for entry in std::fs::read_dir(dir).map_err(io_at(dir))? {
            let entry = entry.map_err(io_at(dir))?;
            let number = entry.file_name().to_str().and_then(number_of);
            let Some(number) = number.filter(|number| *number >= start.file) else {
                continue;
            };
            numbers.push(number);
            total_bytes += entry.metadata().map_err(io_at(&entry.path()))?.len();
        }
        if numbers.is_empty() {
            return Err(BlockFilesError::None { path: dir.into() });
        }
        numbers.sort_unstable_by(|one, other| other.cmp(one));
        let mut files = BlockFiles {
            key: key_of(dir)?,
            dir: dir.into(),
            magic,
            numbers,
            current: None,
            skipped_bytes: 0,
            bytes: 0,
            total_bytes,
            read_max: BLOCK_BYTES_MAX,
        };
        files.check_network()?;
        if start.offset >= FRAME_BYTES && files.numbers.last() == Some(&start.file) {
            files.next_file()?;
            if let Some(current) = &mut files.current {
                if current.len < start.offset {
                    return Err(BlockFilesError::Damaged {
                        path: current.path.clone(),
                        offset: start.offset,
                    });
                }
                current.at = start.offset - FRAME_BYTES;
                files.bytes = current.at;
            }
        }
        Ok(files)
    }

    /// Makes the iterator read only the header of each block from now on.
    #[must_use]
    pub fn headers_only(mut self) -> BlockFiles {
        self.read_max = HEADER_BYTES;
        self
    }

    /// Returns the number of bytes that were read so far, and the number of all bytes in the files.
    pub fn progress(&self) -> (u64, u64) {
        (self.bytes, self.total_bytes)
    }

    /// Returns the number of bytes that were skipped so far because they are neither a whole record nor padding.
    pub fn skipped_bytes(&self) -> u64 {
        self.skipped_bytes
    }

    fn check_network(&mut self) -> Result<(), BlockFilesError> {
        let first = self.numbers.last().copied().unwrap_or(0);
        let path = self.dir.join(name_of(first));
        let file = File::open(&path).map_err(io_at(&path))?;
        let mut magic = [0; 4];
        match file.read_exact_at(&mut magic, 0) {
            // The file is shorter than a magic: the node has only just created it.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            read => read.map_err(io_at(&path))?,
        }
        let is_padding = magic == [0; 4];
        unmask(&mut magic, 0, self.key);
        if magic != self.magic && magic != [0; 4] && !is_padding {
            let magic = self.magic;
            return Err(BlockFilesError::OtherNetwork { path, magic });
        }
        Ok(())
    }

    /// Opens the next file. Returns false if there is no further file.
    fn next_file(&mut self) -> Result<bool, BlockFilesError> {
        let Some(number) = self.numbers.pop() else {
            return Ok(false);
        };
        let path = self.dir.join(name_of(number));
        let file = File::open(&path).map_err(io_at(&path))?;
        let len = file.metadata().map_err(io_at(&path))?.len();
        self.current = Some(OpenFile {
            number,
            path,
            file,
            len,
            at: 0,
        });
        Ok(true)
    }

    /// Returns the next block of the current file.
    fn next_in_file(&mut self) -> Result<Option<FileBlock>, BlockFilesError> {
        let Some(current) = &mut self.current else {
            return Ok(None);
        };
        let start = current.at;
        let found = current.next(self.magic, self.key, self.read_max, &mut self.skipped_bytes);
        self.bytes += current.at - start;
        found.map_err(io_at(&current.path))
    }
}

impl Iterator for BlockFiles {
    type Item = Result<FileBlock, BlockFilesError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.next_in_file() {
                Ok(Some(block)) => return Some(Ok(block)),
                Ok(None) => {}
                Err(error) => {
                    self.current = None;
                    return Some(Err(error));
                }
            }
            match self.next_file() {
                Ok(true) => {}
                Ok(false) => {
                    self.current = None;
                    return None;
                }
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

impl OpenFile {
    fn next(
        &mut self,
        magic: [u8; 4],
        key: [u8; 8],
        read_max: usize,
        skipped: &mut u64,
    ) -> io::Result<Option<FileBlock>> {
        while self.len.saturating_sub(self.at) >= FRAME_BYTES {
            let mut frame = [0; FRAME_BYTES as usize];
            self.read(&mut frame, self.at, key)?;
            let [a, b, c, d, length @ ..] = frame;
            let length = u32::from_le_bytes(length) as usize;
            let offset = self.at + FRAME_BYTES;
            let fits = (HEADER_BYTES..=BLOCK_BYTES_MAX).contains(&length);
            if [a, b, c, d] == magic && fits && self.len - offset >= length as u64 {
                let mut raw = vec![0; length.min(read_max)];
                self.read(&mut raw, offset, key)?;
                self.at = offset + length as u64;
                let position = Position {
                    file: self.number,
                    offset,
                };
                let hash = BlockHash::of_block(&raw).unwrap_or_default();
                return Ok(Some(FileBlock {
                    position,
                    hash,
                    bytes: length,
                    raw,
                }));
            }
            self.search(magic, key, skipped)?;
        }
        *skipped += self.len - self.at;
        self.at = self.len;
        Ok(None)
    }

    /// Advances to the next magic that begins after the current byte, or to the end of the file.
    fn search(&mut self, magic: [u8; 4], key: [u8; 8], skipped: &mut u64) -> io::Result<()> {
        let from = self.at;
        let mut buffer = vec![0; SEARCH_BYTES];
        let (mut is_zero, mut is_masked_zero) = (true, true);
        let mut at = from;
        let end = loop {
            let count = (self.len - at).min(SEARCH_BYTES as u64) as usize;
            let bytes = &mut buffer[..count];
            self.file.read_exact_at(bytes, at)?;
            let skip = usize::from(at == from);
            let mut plain = bytes.to_vec();
            unmask(&mut plain, at, key);
            let hit = plain.windows(4).skip(skip).position(|window| window == magic);
            let is_last = at + count as u64 == self.len;
            // A magic of four bytes may begin in one read and end in the next, so the last three bytes are read again.
            let passed = match hit {
                Some(hit) => hit + skip,
                None if is_last => count,
                None => count - 3,
            };
            is_zero &= bytes[..passed].iter().all(|byte| *byte == 0);
            is_masked_zero &= plain[..passed].iter().all(|byte| *byte == 0);
            at += passed as u64;
            if hit.is_some() || is_last {
                break at;
            }
        };
        if !is_zero && !is_masked_zero {
            *skipped += end - from;
        }
        self.at = end;
        Ok(())
    }

    fn read(&self, bytes: &mut [u8], at: u64, key: [u8; 8]) -> io::Result<()> {
        self.file.read_exact_at(bytes, at)?;
        unmask(bytes, at, key);
        Ok(())
    }
}

/// Undoes the XOR with the node's key, for bytes that begin at offset `at` of their file.
fn unmask(bytes: &mut [u8], at: u64, key: [u8; 8]) {
    if key == [0; 8] {
        return;
    }
    let mut turned = key;
    turned.rotate_left((at % 8) as usize);
    let word = u64::from_ne_bytes(turned);
    let (words, rest) = bytes.as_chunks_mut::<8>();
    for bytes in words {
        *bytes = (u64::from_ne_bytes(*bytes) ^ word).to_ne_bytes();
    }
    for (byte, key) in rest.iter_mut().zip(turned) {
        *byte ^= key;
    }
}

fn key_of(dir: &Path) -> Result<[u8; 8], BlockFilesError> {
    let path = dir.join("xor.dat");
    let file = match File::open(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok([0; 8]),
        opened => opened.map_err(io_at(&path))?,
    };
    let bytes = file.metadata().map_err(io_at(&path))?.len();
    if bytes != 8 {
        return Err(BlockFilesError::Key { path, bytes });
    }
    let mut key = [0; 8];
    file.read_exact_at(&mut key, 0).map_err(io_at(&path))?;
    Ok(key)
}

/// Returns the number in a name like `blk00007.dat`.
fn number_of(name: &str) -> Option<u32> {
    let digits = name.strip_prefix("blk")?.strip_suffix(".dat")?;
    let is_number = digits.len() >= 5 && digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|_| is_number)
}

pub(crate) fn name_of(number: u32) -> String {
    format!("blk{number:05}.dat")
}

fn io_at(path: &Path) -> impl FnOnce(io::Error) -> BlockFilesError + use<> {
    let path = path.to_path_buf();
    move |source| BlockFilesError::Io { path, source }
}
