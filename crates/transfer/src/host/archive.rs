//! Archive: sealed blocks that have left the journal, with their operations, so that these can still be proved. A file
//! contains consecutive blocks, is written once, and is in the ledger's directory next to the journal.
//!
//! A file is named `<first block>-<last block>.blocks`, with 20 digits each. It begins with the 8 bytes `LSARCH01`.
//! Each block consists of 4 bytes with the length of the rest, the block as in the journal, and its leaves. A leaf of
//! 12 words of 8 bytes is encoded as 2 bytes with a bit for each non-zero word, followed by these words. Numbers are
//! little-endian. There is no checksum: a block is checked by its root and its signature.

use super::OpenError;
use crate::settlement::{BLOCK_BYTES, Block, LEAF_BYTES, Proof};
use lineside_journal::{Disk, DiskFile, read_full};
use std::io;

const MAGIC: &[u8; 8] = b"LSARCH01";
const TEMPORARY: &str = "archive.tmp";
/// Number of bytes that the writer collects before it writes them to the file.
const BUFFER_BYTES: usize = 1 << 20;
/// Number of 8-byte words in a leaf.
const WORDS: usize = LEAF_BYTES / 8;

/// File of the archive, known by its name.
struct Archived {
    name: String,
    last: u64,
}

fn archived<D: Disk>(disk: &D) -> io::Result<Vec<Archived>> {
    let parse = |name: String| {
        let (_, last) = name.strip_suffix(".blocks")?.split_once('-')?;
        let last = last.parse().ok()?;
        Some(Archived { name, last })
    };
    Ok(disk.list()?.into_iter().filter_map(parse).collect())
}

/// Returns the number of the last block in the archive; 0 if there is none.
pub(super) fn last_block<D: Disk>(disk: &D) -> io::Result<u64> {
    Ok(archived(disk)?.last().map_or(0, |file| file.last))
}

/// Writer of an archive file, which gets its name once all of it is durable.
pub(super) struct ArchiveWriter<D: Disk> {
    disk: D,
    file: D::File,
    offset: u64,
    buffer: Vec<u8>,
    blocks: Option<(u64, u64)>,
}

impl<D: Disk> ArchiveWriter<D> {
    pub(super) fn new(disk: &D) -> io::Result<Self> {
        let file = match disk.create(TEMPORARY) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                // An interrupted attempt has left this temporary file.
                disk.remove(TEMPORARY)?;
                disk.create(TEMPORARY)?
            }
            created => created?,
        };
        Ok(Self {
            disk: disk.clone(),
            file,
            offset: 0,
            buffer: MAGIC.to_vec(),
            blocks: None,
        })
    }

    pub(super) fn push(&mut self, block: &Block, leaves: &[[u8; LEAF_BYTES]]) -> io::Result<()> {
        let start = self.buffer.len();
        self.buffer.extend_from_slice(&[0; 4]);
        self.buffer.extend_from_slice(&block.to_bytes());
        leaves.iter().for_each(|leaf| put_leaf(&mut self.buffer, leaf));
        let length = (self.buffer.len() - start - 4) as u32;
        self.buffer[start..start + 4].copy_from_slice(&length.to_le_bytes());
        let first = self.blocks.map_or(block.number, |(first, _)| first);
        self.blocks = Some((first, block.number));
        if self.buffer.len() >= BUFFER_BYTES {
            self.flush()
        } else {
            Ok(())
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut rest = self.buffer.as_slice();
        while !rest.is_empty() {
            match self.file.write_at(self.offset, rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    self.offset += written as u64;
                    rest = &rest[written..];
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.buffer.clear();
        Ok(())
    }

    /// Makes the file durable; returns its length in bytes.
    pub(super) fn finish(mut self) -> io::Result<u64> {
        let Some((first, last)) = self.blocks else {
            self.disk.remove(TEMPORARY)?;
            return Ok(0);
        };
        self.flush()?;
        self.file.sync_data()?;
        self.disk
            .rename(TEMPORARY, &format!("{first:020}-{last:020}.blocks"))?;
        self.disk.sync_dir()?;
        Ok(self.offset)
    }
}

fn put_leaf(out: &mut Vec<u8>, leaf: &[u8; LEAF_BYTES]) {
    let start = out.len();
    out.extend_from_slice(&[0; 2]);
    let mut set = 0_u16;
    for (at, word) in leaf.chunks_exact(8).enumerate() {
        if word.iter().any(|byte| *byte != 0) {
            set |= 1 << at;
            out.extend_from_slice(word);
        }
    }
    out[start..start + 2].copy_from_slice(&set.to_le_bytes());
}

/// Decodes leaves; `None` if [`put_leaf`] did not write these bytes.
fn leaves(mut bytes: &[u8]) -> Option<Vec<[u8; LEAF_BYTES]>> {
    let mut leaves = Vec::new();
    while !bytes.is_empty() {
        let (set, rest) = bytes.split_first_chunk::<2>()?;
        bytes = rest;
        let set = u16::from_le_bytes(*set);
        let mut leaf = [0; LEAF_BYTES];
        for at in (0..WORDS).filter(|at| set & 1 << at != 0) {
            let (word, rest) = bytes.split_first_chunk::<8>()?;
            bytes = rest;
            leaf[8 * at..8 * at + 8].copy_from_slice(word);
        }
        (set >> WORDS == 0).then(|| leaves.push(leaf))?;
    }
    Some(leaves)
}

/// Returns the proof that operation `number` is in a block of the archive; `None` if the archive does not have it.
pub(super) fn prove<D: Disk>(disk: &D, number: u64) -> Result<Option<Proof>, OpenError> {
    let files = archived(disk)?;
    let mut block_proof = None;
    for file in &files {
        let open = disk.open_read(&file.name)?;
        let Some((head, _)) = block_at(&open, MAGIC.len() as u64)? else {
            return Err(damaged(&file.name));
        };
        if head.first > number {
            break;
        }
        block_proof = Some((file, open));
    }
    let Some((file, open)) = block_proof else {
        return Ok(None);
    };
    let mut offset = MAGIC.len() as u64;
    while let Some((block, length)) = block_at(&open, offset)? {
        if let Some(index) = number
            .checked_sub(block.first)
            .filter(|index| *index < block.count)
        {
            let proof =
                block_leaves(&open, offset, length).and_then(|leaves| Proof::new(&block, &leaves, index));
            return proof.ok_or_else(|| damaged(&file.name)).map(Some);
        }
        offset += 4 + length;
    }
    Ok(None)
}

/// Calls `visit` for each block of the archive in the order of the numbers, with its leaves.
pub(super) fn blocks<D: Disk>(
    disk: &D,
    mut visit: impl FnMut(&Block, &[[u8; LEAF_BYTES]]),
) -> Result<(), OpenError> {
    for file in archived(disk)? {
        let open = disk.open_read(&file.name)?;
        let mut offset = MAGIC.len() as u64;
        while let Some((block, length)) = block_at(&open, offset)? {
            visit(
                &block,
                &block_leaves(&open, offset, length).ok_or_else(|| damaged(&file.name))?,
            );
            offset += 4 + length;
        }
        if offset != open.len()? {
            return Err(damaged(&file.name));
        }
    }
    Ok(())
}

/// Returns the leaves of the block at `offset`, whose data has `length` bytes; `None` if they are not readable.
fn block_leaves(file: &impl DiskFile, offset: u64, length: u64) -> Option<Vec<[u8; LEAF_BYTES]>> {
    let mut bytes = vec![0; length as usize - BLOCK_BYTES];
    let read = read_full(file, offset + 4 + BLOCK_BYTES as u64, &mut bytes).ok()?;
    (read == bytes.len()).then(|| leaves(&bytes)).flatten()
}

fn damaged(name: &str) -> OpenError {
    let what = format!("{name}: a block of the archive is damaged; restore the file from a copy");
    OpenError::System(io::Error::new(io::ErrorKind::InvalidData, what))
}

/// Returns the block that begins at `offset` of a file, and the length of its data; `None` at the end of the file.
fn block_at(file: &impl DiskFile, offset: u64) -> io::Result<Option<(Block, u64)>> {
    let mut bytes = [0; 4 + BLOCK_BYTES];
    if read_full(file, offset, &mut bytes)? < bytes.len() {
        return Ok(None);
    }
    let (length, block) = bytes.split_at(4);
    let (Ok(length), Ok(block)) = (length.try_into(), block.try_into()) else {
        return Ok(None);
    };
    let length = u64::from(u32::from_le_bytes(length));
    let is_whole = length >= BLOCK_BYTES as u64 && offset + 4 + length <= file.len()?;
    Ok(Block::from_bytes(block)
        .filter(|_| is_whole)
        .map(|block| (block, length)))
}
