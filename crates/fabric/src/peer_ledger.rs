//! Block files of a peer: `ledgersData/chains/chains/CHANNEL/blockfile_NNNNNN` under its file system path.
//!
//! A file is a row of blocks, each with its length as a varint before it. A block is not a message there: number, data
//! hash, previous hash, how many envelopes and each of them, how many metadata entries and each of them; numbers are
//! varints, and bytes have their length before them. A crash may leave the beginning of a block at the end of the last
//! file; the peer cuts that off when it starts.

use crate::limits::{BLOCK_BYTES_MAX, TRANSACTIONS_MAX};
use crate::proto::wire;
use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};

/// Beginning of a block file's name; its number, of six digits, follows.
const PREFIX: &str = "blockfile_";
/// Where block files are under a peer's file system path.
const CHAINS: &str = "ledgersData/chains/chains";
/// Bytes read at once.
const BUFFER_BYTES: usize = 1 << 20;

/// Reason why a peer's block files cannot be read on.
#[derive(Debug, thiserror::Error)]
#[error("{}: {what}", path.display())]
pub struct PeerLedgerError {
    /// File or folder.
    pub path: PathBuf,
    /// Description of what is wrong.
    pub what: String,
}

/// Block of a peer, and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerBlock {
    /// Its number.
    pub number: u64,
    /// The block as a peer delivers it: a `common.Block`.
    pub bytes: Vec<u8>,
    /// File that it is in.
    pub file: PathBuf,
    /// Where in the file it begins.
    pub offset: u64,
}

/// Reads the blocks of a peer's ledger, the oldest first.
pub struct PeerLedger {
    files: std::vec::IntoIter<PathBuf>,
    open: Option<OpenFile>,
    /// Bytes at the end of the last file that are no whole block.
    unfinished_bytes: u64,
}

struct OpenFile {
    path: PathBuf,
    from: BufReader<File>,
    offset: u64,
}

impl PeerLedger {
    /// Opens a folder of block files, or a peer's file system path with one channel; `channel` says which where there
    /// are several.
    ///
    /// # Errors
    /// A folder without block files, or with a file missing between others.
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
            return Err(failed(format!("there is no {PREFIX}NNNNNN here")));
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

    /// Bytes at the end of the last file that are no whole block, once [`Self::next`] gave `None`.
    pub fn unfinished_bytes(&self) -> u64 {
        self.unfinished_bytes
    }

    /// Reads the next block; `None` after the last.
    ///
    /// # Errors
    /// Bytes that are no block, with the file and where in it.
    #[allow(clippy::should_implement_trait, reason = "it can fail, and is over then")]
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
                            "a block is cut short, and another file follows",
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
    /// The number and the bytes of the next block; `None` at the end. `UnexpectedEof`: it is cut short.
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
                return Err(invalid("a length of more than five bytes"));
            }
        }
        if length > BLOCK_BYTES_MAX as u64 {
            return Err(invalid("a block that is larger than is taken"));
        }
        let mut stored = Vec::new();
        (&mut self.from).take(length).read_to_end(&mut stored)?;
        self.offset += stored.len() as u64;
        if (stored.len() as u64) < length {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        let block = message(&stored).ok_or_else(|| invalid("bytes that are no block"))?;
        Ok(Some(block))
    }
}

/// The number of a stored block, and the block as a message.
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

/// Finds the folder of block files.
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
        [] => Err(failed("there is no such channel here".to_owned())),
        several => Err(failed(format!(
            "there are several channels, {}; --channel says which",
            several.join(", ")
        ))),
    }
}
