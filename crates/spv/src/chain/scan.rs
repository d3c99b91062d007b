//! Search for blocks in files: raw blocks, files with magic and length before each block, a node's blk*.dat.

use super::network::{Network, StoreNetwork};
use super::types::ChainError;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Maximum length in bytes of a block in a file with magic and length before each block. A node's block files are not
/// longer than this.
const BLOCK_BYTES_MAX: u32 = 128 << 20;
const HEADER: u64 = 80;
const FRAME: u64 = 8;

/// A file to read blocks from.
pub(super) struct Source {
    pub(super) path: PathBuf,
    pub(super) len: u64,
    key: [u8; 8],
}

/// A block found in a source.
pub(super) struct ScannedBlock {
    pub(super) source: u32,
    pub(super) offset: u64,
    pub(super) len: u32,
    pub(super) hash: [u8; 32],
    pub(super) parent: [u8; 32],
}

/// Offset in a source of bytes that are not a block, and the reason why they are not a block.
pub(super) type Unreadable = (u64, String);

/// Turns files and directories into sources: a directory contributes its blk*.dat files.
pub(super) fn sources(paths: &[PathBuf]) -> Result<Vec<Source>, ChainError> {
    let mut sources = Vec::new();
    for path in paths {
        let io = |source| ChainError::Io {
            path: path.clone(),
            source,
        };
        if !std::fs::metadata(path).map_err(io)?.is_dir() {
            sources.push(Source::open(path.clone())?);
            continue;
        }
        let mut files = Vec::new();
        for entry in std::fs::read_dir(path).map_err(io)? {
            let file = entry.map_err(io)?.path();
            if is_blk(&file) {
                files.push(file);
            }
        }
        if files.is_empty() {
            return Err(ChainError::NoBlocks {
                path: path.clone(),
                why: "this directory contains no blk*.dat; give the node's directory of blocks",
            });
        }
        files.sort();
        for file in files {
            sources.push(Source::open(file)?);
        }
    }
    Ok(sources)
}

fn is_blk(path: &Path) -> bool {
    let name = path
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default();
    name.starts_with("blk") && name.ends_with(".dat")
}

impl Source {
    fn open(path: PathBuf) -> Result<Source, ChainError> {
        let error = |path: &Path, source| ChainError::Io {
            path: path.to_path_buf(),
            source,
        };
        let len = std::fs::metadata(&path).map_err(|e| error(&path, e))?.len();
        let mut key = [0u8; 8];
        if is_blk(&path) {
            let key_path = path.with_file_name("xor.dat");
            match std::fs::read(&key_path) {
                Ok(bytes) => {
                    let why =
                        "this file, with the node's XOR key, must have 8 bytes; copy it from the node again";
                    key = bytes.try_into().map_err(|_| ChainError::NoBlocks {
                        path: key_path.clone(),
                        why,
                    })?;
                }
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(e) => return Err(error(&key_path, e)),
            }
        }
        Ok(Source { path, len, key })
    }

    /// Reads bytes from `offset` on into `buffer`, and decodes them with the node's XOR key, if there is one.
    pub(super) fn read(&self, file: &File, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        file.read_exact_at(buffer, offset)?;
        if self.key != [0; 8] {
            let mut key = self.key;
            key.rotate_left((offset % 8) as usize);
            let word = u64::from_ne_bytes(key);
            let (words, rest) = buffer.as_chunks_mut::<8>();
            for bytes in words {
                *bytes = (u64::from_ne_bytes(*bytes) ^ word).to_ne_bytes();
            }
            for (byte, key) in rest.iter_mut().zip(key) {
                *byte ^= key;
            }
        }
        Ok(())
    }

    /// Lists the blocks of this source by reading their headers.
    pub(super) fn scan(
        &self,
        number: u32,
        network: StoreNetwork,
        blocks: &mut Vec<ScannedBlock>,
        unreadable: &mut Vec<Unreadable>,
    ) -> io::Result<()> {
        let file = File::open(&self.path)?;
        let mut start = [0u8; 4];
        if self.len >= 4 {
            self.read(&file, 0, &mut start)?;
        }
        if start == network.magic() || is_blk(&self.path) {
            return self.scan_framed(&file, number, network, blocks, unreadable);
        }
        if let Some(other) = Network::ALL.into_iter().find(|other| other.magic() == start) {
            unreadable.push((
                0,
                format!("the file contains blocks of {other}, not of {network}"),
            ));
        } else if self.len < HEADER || self.len > u64::from(BLOCK_BYTES_MAX) {
            unreadable.push((0, format!("{} bytes cannot be a block", self.len)));
        } else {
            blocks.push(self.scanned_block(&file, number, 0, self.len as u32)?);
        }
        Ok(())
    }

    fn scanned_block(&self, file: &File, source: u32, offset: u64, len: u32) -> io::Result<ScannedBlock> {
        let mut header = [0u8; HEADER as usize];
        self.read(file, offset, &mut header)?;
        let mut parent = [0u8; 32];
        parent.copy_from_slice(&header[4..36]);
        let hash: bitcoin::hashes::sha256d::Hash = bitcoin::hashes::Hash::hash(&header);
        Ok(ScannedBlock {
            source,
            offset,
            len,
            hash: bitcoin::hashes::Hash::to_byte_array(hash),
            parent,
        })
    }

    fn scan_framed(
        &self,
        file: &File,
        number: u32,
        network: StoreNetwork,
        blocks: &mut Vec<ScannedBlock>,
        unreadable: &mut Vec<Unreadable>,
    ) -> io::Result<()> {
        let mut at = 0;
        while at < self.len {
            let mut frame = [0u8; FRAME as usize];
            let has_frame = at + FRAME <= self.len;
            if has_frame {
                self.read(file, at, &mut frame)?;
            }
            if !has_frame || frame[..4] != network.magic() {
                let (next, empty) = self.find_magic(file, at, network)?;
                if !empty {
                    unreadable.push((at, format!("{} bytes without a block", next - at)));
                }
                at = next;
                continue;
            }
            let len = u32::from_le_bytes([frame[4], frame[5], frame[6], frame[7]]);
            let end = at + FRAME + u64::from(len);
            if u64::from(len) < HEADER || len > BLOCK_BYTES_MAX {
                unreadable.push((at, format!("a block cannot have {len} bytes")));
                at += 4;
            } else if end > self.len {
                unreadable.push((
                    at,
                    format!("a block of {len} bytes is cut off by the end of the file"),
                ));
                at += 4;
            } else {
                blocks.push(self.scanned_block(file, number, at + FRAME, len)?);
                at = end;
            }
        }
        Ok(())
    }

    /// Returns the offset of the network's next magic (or the end of the file), and true if all bytes before this
    /// offset are padding: zeros that a node preallocates, encoded with the XOR key or not.
    fn find_magic(&self, file: &File, from: u64, network: StoreNetwork) -> io::Result<(u64, bool)> {
        const STEP: u64 = 1 << 20;
        let magic = network.magic();
        let (mut zero, mut keyed_zero) = (true, true);
        let mut at = from;
        while at < self.len {
            let len = STEP.min(self.len - at);
            let mut bytes = vec![0u8; len as usize];
            self.read(file, at, &mut bytes)?;
            // The caller has refused the magic at `from`: search after it.
            let skip = usize::from(at == from);
            let hit = bytes
                .windows(4)
                .skip(skip)
                .position(|window| window == magic)
                .map(|i| i + skip);
            // The magic may begin in one buffer and end in the next, so the last three bytes are read again.
            let last = at + len == self.len;
            let passed = hit.unwrap_or(if last { len as usize } else { len as usize - 3 });
            for (i, byte) in bytes[..passed].iter().enumerate() {
                keyed_zero &= *byte == self.key[((at + i as u64) % 8) as usize];
                zero &= *byte == 0;
            }
            at += passed as u64;
            if hit.is_some() {
                break;
            }
        }
        Ok((at, zero || keyed_zero))
    }
}
