//! The records of a ledger. `docs/fabric-ledger.md` has the tables.

use super::error::LedgerError;
use super::splice::Encoded;
use crate::block::Block;
use crate::limits::{BLOCK_BYTES_MAX, TRANSACTIONS_MAX};
use crate::proto::Arena;
use lineside_journal::{Lsn, Record};
use sha2::{Digest, Sha256};

/// Kinds of records.
pub mod kind {
    /// An identity, serialised; blocks refer to it by the record's number.
    pub const IDENTITY: u8 = 1;
    /// The first part of a block.
    pub const BEGIN: u8 = 2;
    /// A further part.
    pub const PART: u8 = 3;
    /// The block is whole: its header hash and commit hash.
    pub const END: u8 = 4;
    /// Part of a file of the snapshot that the ledger was joined from.
    pub const BASE: u8 = 5;
    /// The snapshot is whole.
    pub const BASE_END: u8 = 6;
}

/// Bytes of a record of the kind BEGIN before the part itself.
pub(crate) const BEGIN_BYTES: usize = 17;
/// Bytes of a record of the kind PART before the part itself.
pub(crate) const PART_BYTES: usize = 12;
/// Bytes of a record of the kind END.
const END_BYTES: usize = 77;
const LAYOUT: u8 = 1;

pub(crate) fn begin(number: u64, stream_bytes: usize, part: &[u8]) -> Vec<u8> {
    let mut payload = Vec::with_capacity(BEGIN_BYTES + part.len());
    payload.push(LAYOUT);
    payload.extend_from_slice(&number.to_le_bytes());
    payload.extend_from_slice(&(stream_bytes as u64).to_le_bytes());
    payload.extend_from_slice(part);
    payload
}

pub(crate) fn part(number: u64, index: u32, part: &[u8]) -> Vec<u8> {
    let mut payload = Vec::with_capacity(PART_BYTES + part.len());
    payload.extend_from_slice(&number.to_le_bytes());
    payload.extend_from_slice(&index.to_le_bytes());
    payload.extend_from_slice(part);
    payload
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

/// Reads numbers from the front.
fn take<'a, const N: usize>(bytes: &mut &'a [u8]) -> Option<&'a [u8; N]> {
    let (first, rest) = bytes.split_first_chunk::<N>()?;
    *bytes = rest;
    Some(first)
}

/// A block's records, put together; its identities are still elsewhere.
pub(crate) struct Whole {
    pub number: u64,
    /// Its record of the kind BEGIN, and where that stands in its segment.
    pub begin: Lsn,
    pub offset: u64,
    /// Its record of the kind END.
    pub end: Lsn,
    pub hash: [u8; 32],
    pub commit_hash: Option<[u8; 32]>,
    pub stream: Vec<u8>,
}

struct Open {
    number: u64,
    begin: Lsn,
    offset: u64,
    bytes: usize,
    parts: u32,
    stream: Vec<u8>,
}

/// Puts records together. A block without its end was never committed; the one begun next is in its place.
#[derive(Default)]
pub(crate) struct Assembler {
    open: Option<Open>,
}

impl Assembler {
    /// Takes the next record that is not an identity; a block, when it is whole.
    pub fn feed(&mut self, record: &Record<'_>) -> Result<Option<Whole>, LedgerError> {
        let wrong = |what| LedgerError::Record {
            lsn: record.lsn,
            what,
        };
        let mut payload = record.payload;
        let short = || wrong("it is too short");
        match record.kind {
            kind::BEGIN => {
                let [layout] = *take::<1>(&mut payload).ok_or_else(short)?;
                if layout != LAYOUT {
                    return Err(wrong("a block of a layout that this program does not know"));
                }
                let number = u64::from_le_bytes(*take(&mut payload).ok_or_else(short)?);
                let bytes = u64::from_le_bytes(*take(&mut payload).ok_or_else(short)?);
                // Each reference takes less than what it stands for, and a literal's length less than 11 bytes.
                let most = 2 * BLOCK_BYTES_MAX + TRANSACTIONS_MAX;
                let bytes = usize::try_from(bytes).ok().filter(|bytes| *bytes <= most);
                let bytes = bytes.ok_or_else(|| wrong("a block that is too long"))?;
                self.open = Some(Open {
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
                let open = open.ok_or_else(|| wrong("a part of a block that does not stand there"))?;
                if open.stream.len() + payload.len() > open.bytes {
                    return Err(wrong("a part that is too long"));
                }
                open.parts += 1;
                open.stream.extend_from_slice(payload);
                Ok(None)
            }
            kind::END => self.end(record).map(Some),
            _ => Err(wrong("a kind that this program does not know")),
        }
    }

    fn end(&mut self, record: &Record<'_>) -> Result<Whole, LedgerError> {
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
        let (number, parts, hash, commit_hash) = read().ok_or_else(|| wrong("it is no end of a block"))?;
        let open = self.open.take();
        let open = open
            .filter(|open| open.number == number && open.parts == parts && open.stream.len() == open.bytes);
        let open = open.ok_or_else(|| wrong("the end of a block that does not stand before it"))?;
        Ok(Whole {
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

impl Whole {
    /// The block as it was delivered. `identities` are those of [`Encoded::table`].
    pub fn restore(
        &self,
        encoded: &Encoded<'_>,
        identities: &[impl AsRef<[u8]>],
    ) -> Result<Stored, LedgerError> {
        let wrong = |what: &str| LedgerError::block(self.number, what);
        let bytes = encoded.restore(identities);
        let bytes = bytes.ok_or_else(|| wrong("its records do not give a block"))?;
        let arena = Arena::new();
        let block = Block::read(&bytes, &arena).map_err(|error| wrong(&error.to_string()))?;
        if block.number != self.number || block.hash() != self.hash {
            return Err(wrong("its header is not the one that was committed"));
        }
        let mut hasher = Sha256::new();
        for envelope in &block.transactions {
            hasher.update(envelope);
        }
        if hasher.finalize().as_slice() != block.data_hash {
            return Err(wrong("its transactions are not those of its header"));
        }
        if encoded.codes.len() != block.transactions.len() {
            return Err(wrong("it has another number of codes than of transactions"));
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
    /// Its number.
    pub number: u64,
    /// Its header hash.
    pub hash: [u8; 32],
    /// Its commit hash; the genesis block has none.
    pub commit_hash: Option<[u8; 32]>,
    /// The codes of its transactions, as TRANSACTIONS_FILTER has them.
    pub codes: Vec<u8>,
    /// The block as the orderer delivered it.
    pub bytes: Vec<u8>,
}
