//! Checkpoints: snapshots of all data that is derived from the blocks, namely the state, and the index of blocks and
//! transactions.

use super::error::LedgerError;
use super::ids::{DiskIds, IdsAt, IdsCheckpoint, NO_ID, RECORD_BYTES, RECORDS, Record, TxIdIndex, read_all};
use super::image::{Image, LAYOUT, LAYOUT_FILED, LAYOUT_STATELESS, LAYOUT_WITHOUT_EXPIRY};
use super::index::{BaseEntry, BlockEntry, Index};
use super::redo::ValidatorState;
use super::store::Blocks;
use crate::state::{Entry, Height, Key, NamespaceState, State, TxId, TxIds};
use hashbrown::HashMap;
use lineside_journal::{Disk, Lsn};
use std::io::{self, Read, Write};

/// Number of transactions in one chunk of a checkpoint that contains all ids. A chunk has the validation codes of its
/// transactions, and after them their ids.
const CHUNK: usize = 1 << 16;
/// Number of transactions that are copied while the index is locked once. The commit of blocks waits for that lock.
const LOCKED: usize = 1 << 10;
/// Flag in the number of blocks: a snapshot precedes the first block.
const HAS_BASE: u64 = 1 << 63;
/// Maximum length of a text, key or value, in bytes.
const BYTES_MAX: u64 = crate::limits::BLOCK_BYTES_MAX as u64;

impl Image {
    /// Writes the image, and the index of the blocks up to the image's last block. These blocks, and the files of ids
    /// and codes, must be durable.
    pub fn write<D: Disk>(&self, blocks: &Blocks<D>, out: &mut impl Write) -> io::Result<()> {
        let are_filed = blocks.view().index.ids.on_disk().is_some();
        self.write_as(are_filed, blocks, out)
    }

    /// Writes the image as [`Self::write`] does. If `are_filed` is true, ids and codes are in files, and only the
    /// newest ones, which the files do not contain yet, are written to `out`.
    pub fn write_as<D: Disk>(
        &self,
        are_filed: bool,
        blocks: &Blocks<D>,
        out: &mut impl Write,
    ) -> io::Result<()> {
        out.write_all(&self.len().to_le_bytes())?;
        let mut pieces = self.pieces.iter().map(Vec::as_slice);
        let mut head = pieces.next().unwrap_or_default();
        if are_filed {
            out.write_all(&LAYOUT_FILED.to_le_bytes())?;
            head = head.get(LAYOUT_FILED.to_le_bytes().len()..).unwrap_or_default();
        }
        out.write_all(head)?;
        for piece in pieces {
            out.write_all(piece)?;
        }
        let (transactions, others) = {
            let view = blocks.view();
            let index = &view.index;
            let count = (self.last + 1).saturating_sub(index.first());
            let next = index.blocks.get(count as usize);
            let transactions = next.map_or(index.ids.len() as u64, |block| block.first);
            match index.base {
                None => out.write_all(&count.to_le_bytes())?,
                Some(base) => {
                    out.write_all(&(count | HAS_BASE).to_le_bytes())?;
                    for number in [base.last, base.end, base.transactions] {
                        out.write_all(&number.to_le_bytes())?;
                    }
                    out.write_all(&base.hash)?;
                }
            }
            for block in index.blocks.iter().take(count as usize) {
                out.write_all(&block.begin.to_le_bytes())?;
                out.write_all(&block.end.to_le_bytes())?;
                out.write_all(&block.first.to_le_bytes())?;
                out.write_all(&block.hash)?;
            }
            let others = index
                .others
                .iter()
                .filter(|(_, number)| u64::from(**number) < transactions);
            let mut others: Vec<(u32, Box<[u8]>)> =
                others.map(|(id, number)| (*number, id.clone())).collect();
            others.sort_unstable();
            (transactions, others)
        };
        out.write_all(&transactions.to_le_bytes())?;
        match are_filed {
            true => write_tail(blocks, transactions, out)?,
            false => write_transactions(blocks, transactions, out)?,
        }
        out.write_all(&(others.len() as u64).to_le_bytes())?;
        for (number, id) in others {
            out.write_all(&number.to_le_bytes())?;
            out.write_all(&(id.len() as u32).to_le_bytes())?;
            out.write_all(&id)?;
        }
        Ok(())
    }
}

/// Writes the ids and codes of the first `transactions` transactions.
fn write_transactions<D: Disk>(
    blocks: &Blocks<D>,
    transactions: u64,
    out: &mut impl Write,
) -> io::Result<()> {
    let mut done = 0;
    while done < transactions as usize {
        let end = (done + CHUNK).min(transactions as usize);
        let (ids, codes): (Vec<_>, Vec<_>) = records(blocks, done, end)?.into_iter().unzip();
        out.write_all(&codes)?;
        out.write_all(ids.as_flattened())?;
        done = end;
    }
    Ok(())
}

/// Writes the part of a checkpoint for ids and codes that are in files: a checksum of the files' records, and the
/// newest ids and codes.
fn write_tail<D: Disk>(blocks: &Blocks<D>, transactions: u64, out: &mut impl Write) -> io::Result<()> {
    let pages = transactions / RECORDS as u64;
    let sum = blocks.view().index.ids.sum_after(pages)?;
    out.write_all(&sum)?;
    for (id, code) in records(blocks, pages as usize * RECORDS, transactions as usize)? {
        out.write_all(&id)?;
        out.write_all(&[code])?;
    }
    Ok(())
}

/// Returns ids and codes of durable transactions.
fn records<D: Disk>(blocks: &Blocks<D>, from: usize, end: usize) -> io::Result<Vec<Record>> {
    let mut records = Vec::with_capacity(end.saturating_sub(from));
    for from in (from..end).step_by(LOCKED) {
        let view = blocks.view();
        let ids = &view.index.ids;
        for number in from..end.min(from + LOCKED) {
            records.push(ids.record(number).ok_or_else(|| {
                let what = ids.failure().unwrap_or("a transaction has no id and code");
                io::Error::other(what.to_owned())
            })?);
        }
    }
    Ok(records)
}

/// Content of a checkpoint.
#[derive(Debug)]
pub(crate) struct CheckpointContent {
    /// Descriptions of the id files that had to be rebuilt, with the reasons.
    pub remade: Vec<String>,
    /// Resume point of the validator. Its state is [`State::placeholder`] if the state is on the disk.
    pub standing: ValidatorState,
    pub config_block: u64,
    pub index: Index,
}

struct Input<R> {
    from: R,
    lsn: Lsn,
}

impl<R: Read> Input<R> {
    fn wrong(&self, what: &'static str) -> LedgerError {
        LedgerError::Checkpoint { lsn: self.lsn, what }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], LedgerError> {
        let mut bytes = [0; N];
        self.from.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    fn number(&mut self) -> Result<u64, LedgerError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    fn bytes(&mut self, length: u64) -> Result<Vec<u8>, LedgerError> {
        if length > BYTES_MAX {
            return Err(self.wrong("a field in the checkpoint exceeds the size limit"));
        }
        let mut bytes = vec![0; length as usize];
        self.from.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    fn prefixed(&mut self) -> Result<Vec<u8>, LedgerError> {
        let length = u32::from_le_bytes(self.array()?);
        self.bytes(u64::from(length))
    }

    fn text(&mut self) -> Result<String, LedgerError> {
        let bytes = self.prefixed()?;
        String::from_utf8(bytes).map_err(|_| self.wrong("a name in the checkpoint is not UTF-8"))
    }

    fn flag(&mut self) -> Result<bool, LedgerError> {
        match self.array()? {
            [0] => Ok(false),
            [1] => Ok(true),
            _ => Err(self.wrong("a flag in the checkpoint is neither 0 nor 1")),
        }
    }

    fn keys(&mut self) -> Result<impl Iterator<Item = (Key, Entry)>, LedgerError> {
        let count = self.number()?;
        let mut keys = Vec::new();
        for _ in 0..count {
            let key = Key::from_slice(&self.prefixed()?);
            let value = self.prefixed()?.into();
            let has_parameter = self.flag()?;
            let parameter = self.prefixed()?;
            let version = Height {
                block: self.number()?,
                tx: self.number()?,
            };
            let entry = Entry {
                value,
                validation_parameter: has_parameter.then(|| parameter.into()),
                version,
            };
            keys.push((key, entry));
        }
        Ok(keys.into_iter())
    }

    fn state(&mut self) -> Result<State, LedgerError> {
        let mut namespaces = HashMap::new();
        for _ in 0..self.number()? {
            let name = self.text()?;
            let mut space = NamespaceState::default();
            for _ in 0..self.number()? {
                let collection = self.text()?;
                let keys = self.keys()?.collect();
                if collection.is_empty() {
                    space.public = keys;
                } else {
                    space.collections.insert(collection, keys);
                }
            }
            namespaces.insert(name, space);
        }
        Ok(State::from(namespaces))
    }

    /// Reads the index of blocks and transactions. If `are_filed` is true, ids and codes are in the files of `at`,
    /// except for the newest ones.
    fn index(&mut self, at: &IdsAt, are_filed: bool) -> Result<(Index, Vec<String>), LedgerError> {
        let mut index = Index::default();
        let count = self.number()?;
        if count & HAS_BASE != 0 {
            index.base = Some(BaseEntry {
                last: self.number()?,
                end: self.number()?,
                transactions: self.number()?,
                hash: self.array()?,
            });
        }
        for _ in 0..count & !HAS_BASE {
            let block = BlockEntry {
                begin: self.number()?,
                end: self.number()?,
                first: self.number()?,
                offset: 0.into(),
                hash: self.array()?,
            };
            index.push_block(block);
        }
        let transactions = self.number()?;
        if !usize::try_from(transactions).is_ok_and(|count| index.has_room(count)) {
            return Err(self.wrong("the checkpoint has more transactions than the limit"));
        }
        if let (IdsAt::Files(folder), false) = (at, are_filed) {
            index.ids = TxIdIndex::Disk(Box::new(DiskIds::create(folder)?));
        }
        let remade = match are_filed {
            true => self.restore_filed_ids(at, transactions, &mut index)?,
            false => Vec::new(),
        };
        let mut ids: Vec<(u8, [u8; 32])> = Vec::new();
        let mut left = if are_filed { 0 } else { transactions as usize };
        while left > 0 {
            let count = left.min(CHUNK);
            let codes = self.bytes(count as u64)?;
            let flat = self.bytes(count as u64 * 32)?;
            let (hashes, _) = flat.as_chunks::<32>();
            ids.extend(codes.into_iter().zip(hashes.iter().copied()));
            left -= count;
        }
        index.reserve(ids.len());
        for (code, id) in ids {
            let id = (id != NO_ID).then_some(TxId::Hash(id));
            index.push_transaction(code, id);
        }
        for _ in 0..self.number()? {
            let number = u32::from_le_bytes(self.array()?);
            let id = self.prefixed()?.into_boxed_slice();
            index.others.insert(id, number);
        }
        Ok((index, remade))
    }

    /// Reads ids and codes from the files of `at`, and the newest from the checkpoint. Returns the files that were
    /// rebuilt, with the reasons.
    fn restore_filed_ids(
        &mut self,
        at: &IdsAt,
        transactions: u64,
        index: &mut Index,
    ) -> Result<Vec<String>, LedgerError> {
        let tail = IdsCheckpoint {
            sum: self.array()?,
            records: self.bytes(transactions % RECORDS as u64 * RECORD_BYTES as u64)?,
        };
        match at {
            IdsAt::Memory => {
                Err(self.wrong("the transaction ids are in files, and cannot be read into memory"))
            }
            IdsAt::Files(folder) => {
                let (ids, remade) = DiskIds::open(folder, transactions, tail)?;
                index.ids = TxIdIndex::Disk(Box::new(ids));
                Ok(remade)
            }
            IdsAt::FilesRead(folder) => {
                index.reserve(transactions as usize);
                read_all(folder, transactions, tail, &mut |(id, code)| {
                    index.ids.push(id, code);
                })?;
                Ok(Vec::new())
            }
        }
    }
}

/// Reads a checkpoint, whose checksum is already verified. `at` is the storage of ids and codes.
pub(crate) fn read(from: impl Read, lsn: Lsn, at: &IdsAt) -> Result<CheckpointContent, LedgerError> {
    let mut input = Input { from, lsn };
    let _image_bytes = input.number()?;
    let layout = u32::from_le_bytes(input.array()?);
    let is_stateless = match layout {
        LAYOUT | LAYOUT_WITHOUT_EXPIRY => false,
        LAYOUT_STATELESS | LAYOUT_FILED => true,
        _ => return Err(input.wrong("the checkpoint's layout is unknown; the blocks are replayed instead")),
    };
    let channel = input.text()?;
    let last = input.number()?;
    let config_block = input.number()?;
    let has_commit_hash = input.flag()?;
    let commit_hash = input.array()?;
    let state = match is_stateless {
        true => State::placeholder(),
        false => input.state()?,
    };
    let (index, remade) = input.index(at, layout == LAYOUT_FILED)?;
    if layout == LAYOUT_WITHOUT_EXPIRY && index.base.is_some() {
        return Err(input.wrong(
            "an older version wrote the checkpoint and kept expired keys of the snapshot; the snapshot and the blocks \
             are read again",
        ));
    }
    let last_hash = index
        .last_hash()
        .ok_or_else(|| input.wrong("the checkpoint has no blocks"))?;
    if index.height() != last + 1 || config_block > last {
        return Err(input.wrong("the checkpoint's last block is not the last block of its state"));
    }
    let mut ids = TxIds::default();
    // If the ids are in files, the validator looks them up in the files and needs no copy in memory.
    if index.ids.on_disk().is_none() {
        index.all_ids().for_each(|id| ids.insert(id));
    }
    Ok(CheckpointContent {
        remade,
        standing: ValidatorState {
            channel,
            last,
            last_hash,
            commit_hash: has_commit_hash.then_some(commit_hash),
            state,
            ids,
        },
        config_block,
        index,
    })
}
