//! Encoding of a ledger's records, which `docs/fabric-ledger.md` describes.

use super::error::LedgerError;
use super::splice::Encoded;
use crate::block::Block;
use crate::limits::{BLOCK_BYTES_MAX, TRANSACTIONS_MAX};
use crate::proto::Arena;
use lineside_journal::{Lsn, Record};
use sha2::{Digest, Sha256};

/// Kinds of records.
pub mod kind {
    /// A serialised identity; blocks refer to it by the record's number.
    pub const IDENTITY: u8 = 1;
    /// Record with the first part of a block.
    pub const BEGIN: u8 = 2;
    /// Record with a further part of a block.
    pub const PART: u8 = 3;
    /// End of a block, with its header hash and commit hash.
    pub const END: u8 = 4;
    /// Part of a file of the snapshot with which the ledger begins.
    pub const BASE: u8 = 5;
    /// End of the snapshot with which the ledger begins.
    pub const BASE_END: u8 = 6;
}

/// Number of bytes before the part in a record of the kind BEGIN.
pub(crate) const BEGIN_BYTES: usize = 17;
/// Number of bytes before the part in a record of the kind PART.
pub(crate) const PART_BYTES: usize = 12;
/// Size of a record of the kind END, in bytes.
const END_BYTES: usize = 77;
const LAYOUT: u8 = 1;

/// Returns the bytes before the part in a record of the kind BEGIN.
pub(crate) fn begin(number: u64, stream_bytes: usize) -> Vec<u8> {
    let mut head = Vec::with_capacity(BEGIN_BYTES);
    head.push(LAYOUT);
    head.extend_from_slice(&number.to_le_bytes());
    head.extend_from_slice(&(stream_bytes as u64).to_le_bytes());
    head
}

/// Returns the bytes before the part in a record of the kind PART.
pub(crate) fn part(number: u64, index: u32) -> Vec<u8> {
    let mut head = Vec::with_capacity(PART_BYTES);
    head.extend_from_slice(&number.to_le_bytes());
    head.extend_from_slice(&index.to_le_bytes());
    head
}

pub(crate) fn end(number: u64, parts: u32, hash: &[u8; 32], commit_hash: Option<&[u8; 32]>) -> Vec<u8> {
    let mut payload = Vec::with_capacity(END_BYTES);
    payload.extend_from_slice(&number.to_le_bytes());
    payload.extend_from_slice(&parts.to_le_bytes());
    payload.push(u8::from(commit_hash.is_some()));
    payload.extend_from_slice(hash);
    payload.extend_from_slice(commit_hash.unwrap_or(&[0; 32]));
    payload
}

/// Removes the first `N` bytes from `bytes` and returns them; `None` if there are fewer.
fn take<'a, const N: usize>(bytes: &mut &'a [u8]) -> Option<&'a [u8; N]> {
    let (first, rest) = bytes.split_first_chunk::<N>()?;
    *bytes = rest;
    Some(first)
}

/// Joined records of a block, whose identities are not filled in yet.
pub(crate) struct BlockRecords {
    pub number: u64,
    /// Number of the block's record of the kind BEGIN. `offset` is the offset of that record in its segment, in bytes.
    pub begin: Lsn,
    pub offset: u64,
    /// The record of the kind END.
    pub end: Lsn,
    pub hash: [u8; 32],
    pub commit_hash: Option<[u8; 32]>,
    pub stream: Vec<u8>,
}

struct OpenBlock {
    number: u64,
    begin: Lsn,
    offset: u64,
    bytes: usize,
    parts: u32,
    stream: Vec<u8>,
}

/// Joins the records of blocks. A block without an END record was never committed, and is replaced by the next one.
#[derive(Default)]
pub(crate) struct Assembler {
    open: Option<OpenBlock>,
}

impl Assembler {
    /// Takes the next record that is not an identity; returns a block when it is complete.
    pub fn feed(&mut self, record: &Record<'_>) -> Result<Option<BlockRecords>, LedgerError> {
        let wrong = |what| LedgerError::Record {
            lsn: record.lsn,
            what,
        };
        let mut payload = record.payload;
        let short = || wrong("the record is too short");
        match record.kind {
            kind::BEGIN => {
                let [layout] = *take::<1>(&mut payload).ok_or_else(short)?;
                if layout != LAYOUT {
                    return Err(wrong("the layout of a block is unknown"));
                }
                let number = u64::from_le_bytes(*take(&mut payload).ok_or_else(short)?);
                let bytes = u64::from_le_bytes(*take(&mut payload).ok_or_else(short)?);
                // The encoded block is at most this long: each reference is shorter than the identity that it replaces,
                // and the length before each literal piece takes less than 11 bytes.
                let most = 2 * BLOCK_BYTES_MAX + TRANSACTIONS_MAX;
                let bytes = usize::try_from(bytes).ok().filter(|bytes| *bytes <= most);
                let bytes = bytes.ok_or_else(|| wrong("a block exceeds the size limit"))?;
                self.open = Some(OpenBlock {
                    number,
                    begin: record.lsn,
                    offset: record.offset,
                    bytes,
                    parts: 1,
                    stream: payload.to_vec(),
                });
                Ok(None)
            }
            kind::PART => {
                let number = u64::from_le_bytes(*take(&mut payload).ok_or_else(short)?);
                let index = u32::from_le_bytes(*take(&mut payload).ok_or_else(short)?);
                let open = self.open.as_mut();
                let open = open.filter(|open| open.number == number && open.parts == index);
                let open = open.ok_or_else(|| wrong("a part of a block is out of order"))?;
                if open.stream.len() + payload.len() > open.bytes {
                    return Err(wrong("a part exceeds the size of its block"));
                }
                open.parts += 1;
                open.stream.extend_from_slice(payload);
                Ok(None)
            }
            kind::END => self.end(record).map(Some),
            _ => Err(wrong("the record's kind is unknown")),
        }
    }

    fn end(&mut self, record: &Record<'_>) -> Result<BlockRecords, LedgerError> {
        let wrong = |what| LedgerError::Record {
            lsn: record.lsn,
            what,
        };
        let mut payload = record.payload;
        let mut read = || {
            let number = u64::from_le_bytes(*take(&mut payload)?);
            let parts = u32::from_le_bytes(*take(&mut payload)?);
            let [has_commit_hash] = *take::<1>(&mut payload)?;
            let (hash, commit_hash) = (*take::<32>(&mut payload)?, *take::<32>(&mut payload)?);
            let commit_hash = match has_commit_hash {
                0 if commit_hash == [0; 32] => None,
                1 => Some(commit_hash),
                _ => return None,
            };
            payload.is_empty().then_some((number, parts, hash, commit_hash))
        };
        let (number, parts, hash, commit_hash) =
            read().ok_or_else(|| wrong("the record is not a valid end of a block"))?;
        let open = self.open.take();
        let open = open
            .filter(|open| open.number == number && open.parts == parts && open.stream.len() == open.bytes);
        let open =
            open.ok_or_else(|| wrong("the record ends a block that the records before it do not contain"))?;
        Ok(BlockRecords {
            number,
            begin: open.begin,
            offset: open.offset,
            end: record.lsn,
            hash,
            commit_hash,
            stream: open.stream,
        })
    }
}

impl BlockRecords {
    /// Returns the block as it was delivered. `identities` are the identities in the records of [`Encoded::table`], in
    /// the same order.
    pub fn restore(
        &self,
        encoded: &Encoded<'_>,
        identities: &[impl AsRef<[u8]>],
    ) -> Result<Stored, LedgerError> {
        let wrong = |what: &str| LedgerError::block(self.number, what);
        let bytes = encoded.restore(identities);
        let bytes = bytes.ok_or_else(|| wrong("the block's records cannot be decoded"))?;
        let arena = Arena::new();
        let block = Block::read(&bytes, &arena).map_err(|error| wrong(&error.to_string()))?;
        if block.number != self.number || block.hash() != self.hash {
            return Err(wrong("the block's header differs from the committed header"));
        }
        let mut hasher = Sha256::new();
        for envelope in &block.transactions {
            hasher.update(envelope);
        }
        if hasher.finalize().as_slice() != block.data_hash {
            return Err(wrong(
                "the block's transactions do not match the data hash in the header",
            ));
        }
        if encoded.codes.len() != block.transactions.len() {
            return Err(wrong(
                "the block's number of codes differs from its number of transactions",
            ));
        }
        drop(block);
        Ok(Stored {
            number: self.number,
            hash: self.hash,
            commit_hash: self.commit_hash,
            codes: encoded.codes.to_vec(),
            bytes,
        })
    }
}

/// A committed block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Block number.
    pub number: u64,
    /// Header hash.
    pub hash: [u8; 32],
    /// Commit hash; the genesis block has none.
    pub commit_hash: Option<[u8; 32]>,
    /// Validation codes of the transactions, in the encoding of TRANSACTIONS_FILTER.
    pub codes: Vec<u8>,
    /// The block as the orderer delivered it.
    pub bytes: Vec<u8>,
}
