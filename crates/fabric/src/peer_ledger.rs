//! Reader of a peer's block files: `ledgersData/chains/chains/CHANNEL/blockfile_NNNNNN` under its file system path.
//!
//! A file is a sequence of blocks, each after its length as a varint. The blocks are not stored as protobuf messages: a
//! block is its number, data hash, previous hash, number of envelopes, envelopes, number of metadata entries, and
//! entries. Numbers are varints, and bytes are preceded by their length. A crash may leave an incomplete block at the
//! end of the last file, which the peer removes when it starts.

use crate::limits::{BLOCK_BYTES_MAX, TRANSACTIONS_MAX};
use crate::proto::wire;
use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};

/// Beginning of a block file's name, before its number of six digits.
const PREFIX: &str = "blockfile_";
/// Folder of the block files under a peer's file system path.
const CHAINS: &str = "ledgersData/chains/chains";
/// Size of the read buffer, in bytes.
const BUFFER_BYTES: usize = 1 << 20;

/// Reason why a peer's block files cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{}: {what}", path.display())]
pub struct PeerLedgerError {
    /// File or folder.
    pub path: PathBuf,
    /// The fault.
    pub what: String,
}

/// A block of a peer, with its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerBlock {
    /// Block number.
    pub number: u64,
    /// The block as a peer delivers it: a `common.Block`.
    pub bytes: Vec<u8>,
    /// File that contains the block.
    pub file: PathBuf,
    /// Offset of the block in the file, in bytes.
    pub offset: u64,
}

/// Reader of the blocks of a peer's ledger, oldest first.
pub struct PeerLedger {
    files: std::vec::IntoIter<PathBuf>,
    open: Option<OpenFile>,
    /// Number of bytes at the end of the last file that are not a complete block.
    unfinished_bytes: u64,
}

struct OpenFile {
    path: PathBuf,
    from: BufReader<File>,
    offset: u64,
}

impl PeerLedger {
    /// Opens a folder of block files, or a peer's file system path. `channel` selects a channel if there are several.
    ///
    /// # Errors
    /// The folder has no block files, or a file is missing between others.
    pub fn open(folder: &Path, channel: Option<&str>) -> Result<Self, PeerLedgerError> {
        let folder = find(folder, channel)?;
        let failed = |what: String| PeerLedgerError {
            path: folder.clone(),
            what,
        };
        let mut numbers: Vec<u32> = Vec::new();
        for name in names(&folder).map_err(|error| failed(error.to_string()))? {
            numbers.extend(
                name.strip_prefix(PREFIX)
                    .and_then(|number| number.parse::<u32>().ok()),
            );
        }
        numbers.sort_unstable();
        if numbers.is_empty() {
            return Err(failed(format!(
                "there is no file {PREFIX}NNNNNN in this folder; give a peer's folder of block files, or the directory \
                 in the peer's option `fileSystemPath`"
            )));
        }
        if let Some((missing, _)) = (0..).zip(&numbers).find(|(number, found)| number != *found) {
            return Err(failed(format!("{PREFIX}{missing:06} is missing")));
        }
        let files: Vec<PathBuf> = numbers
            .iter()
            .map(|number| folder.join(format!("{PREFIX}{number:06}")))
            .collect();
        Ok(Self {
            files: files.into_iter(),
            open: None,
            unfinished_bytes: 0,
        })
    }

    /// Returns the number of bytes at the end of the last file that are not a complete block, once [`Self::next`]
    /// returned `None`.
    pub fn unfinished_bytes(&self) -> u64 {
        self.unfinished_bytes
    }

    /// Reads the next block; returns `None` after the last.
    ///
    /// # Errors
    /// The error names the file and the offset of the bytes that are not a block.
    #[allow(
        clippy::should_implement_trait,
        reason = "it can fail, and must not be called again after an error"
    )]
    pub fn next(&mut self) -> Result<Option<PeerBlock>, PeerLedgerError> {
        loop {
            let Some(open) = &mut self.open else {
                let Some(path) = self.files.next() else {
                    return Ok(None);
                };
                let file = File::open(&path).map_err(|error| PeerLedgerError {
                    path: path.clone(),
                    what: error.to_string(),
                })?;
                self.open = Some(OpenFile {
                    path,
                    from: BufReader::with_capacity(BUFFER_BYTES, file),
                    offset: 0,
                });
                continue;
            };
            let offset = open.offset;
            let wrong = |path: &Path, what: &str| PeerLedgerError {
                path: path.to_owned(),
                what: format!("byte {offset}: {what}"),
            };
            match open.read() {
                Ok(Some((number, bytes))) => {
                    return Ok(Some(PeerBlock {
                        number,
                        bytes,
                        file: open.path.clone(),
                        offset,
                    }));
                }
                Ok(None) => self.open = None,
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                    if self.files.len() > 0 {
                        return Err(wrong(
                            &open.path,
                            "a block is incomplete, although another file follows; copy the peer's block files again",
                        ));
                    }
                    let length = open.from.get_ref().metadata().map(|file| file.len());
                    self.unfinished_bytes = length.unwrap_or(offset).saturating_sub(offset);
                    self.open = None;
                }
                Err(error) => return Err(wrong(&open.path, &error.to_string())),
            }
        }
    }
}

impl OpenFile {
    /// Returns number and bytes of the next block; `None` at the end of the file. The error `UnexpectedEof` means that
    /// the block is incomplete.
    fn read(&mut self) -> io::Result<Option<(u64, Vec<u8>)>> {
        if self.from.fill_buf()?.is_empty() {
            return Ok(None);
        }
        let invalid = |what| io::Error::new(ErrorKind::InvalidData, what);
        let (mut length, mut shift) = (0u64, 0);
        loop {
            let mut byte = [0];
            self.from.read_exact(&mut byte)?;
            self.offset += 1;
            let [byte] = byte;
            length |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte < 0x80 {
                break;
            }
            if shift > 28 {
                return Err(invalid("the length of a block has more than five bytes"));
            }
        }
        if length > BLOCK_BYTES_MAX as u64 {
            return Err(invalid("a block exceeds the maximum block size"));
        }
        let mut stored = Vec::new();
        (&mut self.from).take(length).read_to_end(&mut stored)?;
        self.offset += stored.len() as u64;
        if (stored.len() as u64) < length {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        let block = message(&stored).ok_or_else(|| invalid("the bytes are not a block"))?;
        Ok(Some(block))
    }
}

/// Converts a stored block; returns its number and the protobuf message.
fn message(mut stored: &[u8]) -> Option<(u64, Vec<u8>)> {
    let stored = &mut stored;
    let bytes = |from: &mut &[u8]| wire::length_delimited(from).ok().map(<[u8]>::to_vec);
    let number = wire::varint(stored).ok()?;
    let (data_hash, previous_hash) = (bytes(stored)?, bytes(stored)?);
    let mut header = Vec::new();
    wire::put_number(&mut header, 1, number);
    for (field, hash) in [(2, previous_hash), (3, data_hash)] {
        if !hash.is_empty() {
            wire::put_bytes(&mut header, field, &hash);
        }
    }
    let mut entries = || {
        let count = wire::varint(stored)
            .ok()
            .filter(|count| *count <= TRANSACTIONS_MAX as u64)?;
        let mut all = Vec::new();
        for _ in 0..count {
            wire::put_bytes(&mut all, 1, wire::length_delimited(stored).ok()?);
        }
        Some(all)
    };
    let (data, metadata) = (entries()?, entries()?);
    let mut block = Vec::with_capacity(header.len() + data.len() + metadata.len() + 30);
    for (field, part) in [(1, header), (2, data), (3, metadata)] {
        wire::put_bytes(&mut block, field, &part);
    }
    stored.is_empty().then_some((number, block))
}

fn names(folder: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        names.extend(entry?.file_name().into_string());
    }
    Ok(names)
}

/// Returns the folder of block files.
fn find(folder: &Path, channel: Option<&str>) -> Result<PathBuf, PeerLedgerError> {
    let chains = folder.join(CHAINS);
    if !chains.is_dir() {
        return Ok(channel.map_or_else(|| folder.to_owned(), |channel| folder.join(channel)))
            .map(|inner| if inner.is_dir() { inner } else { folder.to_owned() });
    }
    let failed = |what: String| PeerLedgerError {
        path: chains.clone(),
        what,
    };
    let mut channels = names(&chains).map_err(|error| failed(error.to_string()))?;
    channels.retain(|name| channel.is_none_or(|channel| channel == name));
    channels.sort_unstable();
    match channels.as_slice() {
        [one] => Ok(chains.join(one)),
        [] => Err(failed(
            "the peer does not have this channel; check --channel and the folder".to_owned(),
        )),
        several => Err(failed(format!(
            "there are several channels: {}; give one with --channel",
            several.join(", ")
        ))),
    }
}
