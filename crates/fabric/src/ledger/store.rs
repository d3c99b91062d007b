//! Storage of blocks in a journal, with one writer and any number of readers.

use super::base::is_base;
use super::error::LedgerError;
use super::identities::{Identities, IdentityCache};
use super::index::{Entry, Index, TxPosition};
use super::record::{self, Assembler, BEGIN_BYTES, BlockRecords, PART_BYTES, Stored, kind};
use super::splice::{self, Encoded};
use crate::block::Block;
use crate::parts::BlockParts;
use crate::proto::Arena;
use crate::state::{KnownIds, TxId};
use crate::validate::ValidatedBlock;
use lineside_journal::{Disk, Error as JournalError, Journal, Lsn, Options, Reader, Records, record_bytes};
use std::io;
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};

/// Maximum size of an encoded block whose memory is reused for the next one, in bytes.
const STREAM_BYTES_KEPT: usize = 16 << 20;

/// Returns the default sizes of a ledger's journal.
pub fn journal_options() -> Options {
    Options {
        record_bytes_max: 1 << 18,
        ..Options::default()
    }
}

/// Results of a validated block that the ledger stores.
#[derive(Clone, Debug)]
pub struct BlockMeta {
    /// Block number.
    pub number: u64,
    /// Header hash.
    pub hash: [u8; 32],
    /// Validation codes of the transactions.
    pub codes: Vec<u8>,
    /// Commit hash.
    pub commit_hash: Option<[u8; 32]>,
}

impl From<&ValidatedBlock> for BlockMeta {
    fn from(validated: &ValidatedBlock) -> Self {
        Self {
            number: validated.number,
            hash: validated.hash,
            codes: validated.filter(),
            commit_hash: validated.commit_hash,
        }
    }
}

/// Data that the writer shares with readers; it covers only durable blocks.
#[derive(Debug)]
pub(crate) struct LedgerView<D: Disk> {
    pub reader: Reader<D>,
    pub index: Index,
    pub commit_hash: Option<[u8; 32]>,
}

#[derive(Debug)]
struct Shared<D: Disk> {
    view: RwLock<LedgerView<D>>,
    identities: Mutex<Identities>,
}

/// Reader of committed blocks, which works in parallel with the writer. Clones are cheap.
#[derive(Clone, Debug)]
pub struct Blocks<D: Disk> {
    shared: Arc<Shared<D>>,
}

impl<D: Disk> KnownIds for Blocks<D> {
    fn mark_known(&self, ids: &[Option<&TxId>], known: &mut [bool]) {
        let view = self.view();
        for (id, known) in ids.iter().zip(known) {
            *known |= id.is_some_and(|id| view.index.number_of(id).is_some());
        }
    }

    fn durable(&self) -> u64 {
        self.count()
    }

    fn failure(&self) -> Option<String> {
        self.view().index.ids.failure().map(str::to_owned)
    }
}

impl<D: Disk> Blocks<D> {
    pub(crate) fn new(view: LedgerView<D>, identities: Identities) -> Self {
        Self {
            shared: Arc::new(Shared {
                view: RwLock::new(view),
                identities: Mutex::new(identities),
            }),
        }
    }

    pub(crate) fn view(&self) -> RwLockReadGuard<'_, LedgerView<D>> {
        self.shared.view.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of blocks of the channel, which is the last block's number plus one. Blocks before a snapshot
    /// are included.
    pub fn count(&self) -> u64 {
        self.view().index.height()
    }

    /// Returns the number of the first block in the ledger: 0, or the number after that of the last block in the
    /// snapshot with which the ledger begins.
    pub fn first(&self) -> u64 {
        self.view().index.first()
    }

    /// Returns the header hash of the genesis block, or of the last block of the snapshot with which the ledger begins.
    pub(crate) fn root_hash(&self) -> Option<[u8; 32]> {
        let view = self.view();
        let base = view.index.base.map(|base| base.hash);
        base.or(view.index.blocks.first().map(|block| block.hash))
    }

    /// Returns the number of transactions of the blocks in the ledger.
    pub fn transactions(&self) -> u64 {
        let view = self.view();
        let before = view.index.base.map_or(0, |base| base.transactions);
        (view.index.ids.len() as u64).saturating_sub(before)
    }

    /// Returns whether the transaction is in a block before the snapshot with which the ledger begins.
    pub fn is_before_snapshot(&self, id: &TxId) -> bool {
        let view = self.view();
        let number = view.index.number_of(id);
        let before = view.index.base.map_or(0, |base| base.transactions);
        number.is_some_and(|number| u64::from(number) < before)
    }

    fn begin_of(&self, number: u64) -> Option<Lsn> {
        self.view().index.block(number).map(|block| block.begin)
    }

    /// Returns the last record of a block, or of the snapshot that ends with it; 0 if it is not in the ledger.
    pub(crate) fn end_of(&self, number: u64) -> Lsn {
        let view = self.view();
        let base = view.index.base.filter(|base| base.last == number);
        let block = view.index.block(number).map(|block| block.end);
        block.or(base.map(|base| base.end)).unwrap_or(0)
    }

    /// Returns the header hash and the commit hash of the last block.
    pub fn last_hashes(&self) -> Option<([u8; 32], Option<[u8; 32]>)> {
        let view = self.view();
        Some((view.index.last_hash()?, view.commit_hash))
    }

    /// Returns the number of the block with this header hash.
    pub fn number_of(&self, hash: &[u8; 32]) -> Option<u64> {
        self.view().index.block_of_hash(hash)
    }

    /// Returns the position and the code of the first transaction with this id; `None` if no block contains such a
    /// transaction.
    ///
    /// # Errors
    /// [`LedgerError::State`]: the files of ids cannot be read, so it is not known whether there is such a
    /// transaction.
    pub fn transaction(&self, id: &TxId) -> Result<Option<TxPosition>, LedgerError> {
        let view = self.view();
        let found = view.index.transaction(id);
        match view.index.ids.failure() {
            Some(what) if found.is_none() => Err(LedgerError::State {
                what: what.to_owned(),
            }),
            _ => Ok(found),
        }
    }

    /// Reads a block, and checks its header hash and data hash.
    ///
    /// # Errors
    /// [`LedgerError::NotThere`], or an error of the journal.
    pub fn block(&self, number: u64) -> Result<Stored, LedgerError> {
        let mut cursor = self.from(number)?;
        let blocks = self.count();
        cursor.next()?.ok_or(LedgerError::NotThere { number, blocks })
    }

    /// Returns a cursor over the blocks from `number` to the last one that is committed now.
    ///
    /// # Errors
    /// [`LedgerError::NotThere`] if `number` is greater than the number of the next block,
    /// [`LedgerError::BeforeSnapshot`], or an error of the journal.
    pub fn from(&self, number: u64) -> Result<Cursor<D>, LedgerError> {
        let view = self.view();
        let (first, blocks) = (view.index.first(), view.index.height());
        if number > blocks {
            return Err(LedgerError::NotThere { number, blocks });
        }
        if number < first {
            return Err(LedgerError::BeforeSnapshot { number, first });
        }
        let reader = view.reader.clone();
        let at = view.index.block(number);
        let records = match at.map(|block| (block.begin, block.offset())) {
            None => reader.records(reader.durable_lsn() + 1)?,
            Some((begin, Some(offset))) => reader.records_at(begin, offset)?,
            Some((begin, None)) => {
                // Read from the nearest block whose offset is known, or from the start of the segment.
                let segment = reader.segment_of(begin).unwrap_or(begin);
                let index = view.index.index_of(number).unwrap_or_default();
                let before = view.index.blocks.get(..index).unwrap_or_default();
                let mut same_segment = before.iter().rev().take_while(|block| block.begin >= segment);
                match same_segment.find_map(|block| Some((block.begin, block.offset()?))) {
                    Some((begin, offset)) => reader.records_at(begin, offset)?,
                    None => reader.records(segment)?,
                }
            }
        };
        drop(view);
        Ok(Cursor {
            blocks: self.clone(),
            reader,
            records,
            assembler: Assembler::default(),
            next: number,
        })
    }

    pub(crate) fn add_identity(&self, lsn: Lsn, identity: &[u8]) {
        let identities = &self.shared.identities;
        let mut identities = identities.lock().unwrap_or_else(PoisonError::into_inner);
        identities.add(lsn, identity);
    }

    /// Adds a durable block.
    pub(crate) fn push(&self, entry: Entry, commit_hash: Option<[u8; 32]>) {
        let mut view = self.shared.view.write().unwrap_or_else(PoisonError::into_inner);
        view.index.push(entry);
        view.commit_hash = commit_hash;
    }

    /// Makes the files of ids and codes durable, if ids are in files.
    pub(crate) fn sync_ids(&self) -> io::Result<()> {
        let mut view = self.shared.view.write().unwrap_or_else(PoisonError::into_inner);
        let Some(ids) = view.index.ids.on_disk_mut() else {
            return Ok(());
        };
        let synced = ids.sync();
        drop(view);
        let synced = synced.and_then(|sync| sync());
        // A failed sync is recorded, because a later sync may succeed although the bytes are lost.
        if let (Err(error), Some(ids)) = (&synced, self.view().index.ids.on_disk()) {
            ids.fail(error);
        }
        synced
    }

    /// Records the offset of a block in its segment.
    fn record_offset(&self, whole: &BlockRecords) {
        if let Some(block) = self.view().index.block(whole.number)
            && block.begin == whole.begin
        {
            block.offset.store(whole.offset, Ordering::Relaxed);
        }
    }

    pub(crate) fn restore(&self, reader: &Reader<D>, whole: &BlockRecords) -> Result<Stored, LedgerError> {
        let wrong = || LedgerError::block(whole.number, "the block's records cannot be decoded");
        let encoded = Encoded::read(&whole.stream).ok_or_else(wrong)?;
        let identities = &self.shared.identities;
        let mut identities = identities.lock().unwrap_or_else(PoisonError::into_inner);
        let resolved = identities.resolve(reader, &encoded.table)?;
        drop(identities);
        whole.restore(&encoded, &resolved)
    }
}

/// Cursor over committed blocks.
pub struct Cursor<D: Disk> {
    blocks: Blocks<D>,
    reader: Reader<D>,
    records: Records<D>,
    assembler: Assembler,
    next: u64,
}

impl<D: Disk> Cursor<D> {
    /// Returns the next block; `None` after the last block that was committed when the cursor was made.
    ///
    /// # Errors
    /// An error of the journal, or a block that differs from the committed one.
    #[allow(
        clippy::should_implement_trait,
        reason = "it can fail, and must not be called again after an error"
    )]
    pub fn next(&mut self) -> Result<Option<Stored>, LedgerError> {
        // The first record that is read may belong to an earlier block, so records before this one are skipped.
        let begin = self.blocks.begin_of(self.next);
        while let Some(record) = self.records.next()? {
            if record.kind == kind::IDENTITY || is_base(record.kind) {
                continue;
            }
            let block = match self.assembler.feed(&record) {
                Err(LedgerError::Record { .. }) if begin.is_some_and(|begin| record.lsn < begin) => continue,
                fed => fed?,
            };
            let Some(block) = block else { continue };
            self.blocks.record_offset(&block);
            if block.number < self.next {
                continue;
            }
            if block.number > self.next {
                return Err(LedgerError::block(
                    self.next,
                    "the block is missing in the ledger",
                ));
            }
            self.next += 1;
            return self.blocks.restore(&self.reader, &block).map(Some);
        }
        Ok(None)
    }
}

/// Writer of blocks. Readers see a block only when it is durable.
pub struct Writer<D: Disk> {
    journal: Journal<D>,
    options: Options,
    identities: IdentityCache,
    blocks: Blocks<D>,
    staged: Vec<StagedBlock>,
    /// Encoded block that was appended last; its memory is reused.
    stream: Vec<u8>,
}

struct StagedBlock {
    entry: Entry,
    commit_hash: Option<[u8; 32]>,
}

impl<D: Disk> Writer<D> {
    pub(crate) fn new(
        journal: Journal<D>,
        options: Options,
        known: IdentityCache,
        blocks: Blocks<D>,
    ) -> Self {
        Self {
            journal,
            options,
            identities: known,
            blocks,
            staged: Vec::new(),
            stream: Vec::new(),
        }
    }

    /// Returns a reader of the blocks that this writer commits.
    pub fn blocks(&self) -> Blocks<D> {
        self.blocks.clone()
    }

    /// Returns the number of the block to append next.
    pub fn next(&self) -> u64 {
        self.blocks.count() + self.staged.len() as u64
    }

    /// Returns the journal, for writing snapshots.
    pub(crate) fn journal(&self) -> &Journal<D> {
        &self.journal
    }

    /// Appends the next block, which [`Self::commit`] commits. If the block does not fit into the current group, the
    /// earlier blocks are committed first.
    ///
    /// # Errors
    /// [`JournalError::Full`]: nothing is appended; the call may be repeated when there is space. After any
    /// other error, the writer accepts no more blocks.
    pub fn append(&mut self, bytes: &[u8], meta: &BlockMeta) -> Result<(), LedgerError> {
        let arena = Arena::new();
        let failed = |source| LedgerError::Validation {
            number: meta.number,
            source,
        };
        let block = Block::read(bytes, &arena).map_err(failed)?;
        self.append_parts(bytes, meta, &splice::walk(bytes, &block))
    }

    /// Appends the next block, as [`Self::append`] does; `parts` are the positions of identities and ids in `bytes`.
    pub(crate) fn append_parts(
        &mut self,
        bytes: &[u8],
        meta: &BlockMeta,
        parts: &BlockParts,
    ) -> Result<(), LedgerError> {
        let number = meta.number;
        if number != self.next() {
            let what = format!(
                "the block cannot be appended, because the next block is {}",
                self.next()
            );
            return Err(LedgerError::block(number, what));
        }
        if !self.blocks.view().index.has_room(meta.codes.len()) {
            return Err(LedgerError::block(
                number,
                "the ledger has the maximum number of transactions",
            ));
        }
        let record_bytes_max = self.options.record_bytes_max as usize;
        // The records of new identities come first, so their numbers are known in advance.
        let first = self.journal.next_lsn();
        let (mut new, mut numbers): (Vec<&[u8]>, IdentityCache) = Default::default();
        let mut lsn_of = |at: &Range<usize>| {
            let identity = bytes.get(at.clone())?;
            if identity.is_empty() || identity.len() > record_bytes_max {
                return None;
            }
            let lsn = self.identities.get(identity).or_else(|| numbers.get(identity));
            lsn.or_else(|| {
                let lsn = first + new.len() as u64;
                numbers.add(identity, lsn);
                new.push(identity);
                Some(lsn)
            })
        };
        let lsns: Vec<Option<Lsn>> = parts.identities.iter().map(&mut lsn_of).collect();
        let spans = parts.spans.iter().filter_map(|(at, place)| {
            let length = parts.identities.get(*place)?.len();
            Some((*at..at + length, *place))
        });
        let mut stream = std::mem::take(&mut self.stream);
        stream.clear();
        splice::encode(bytes, &meta.codes, &spans.collect::<Vec<_>>(), &lsns, &mut stream);
        // Kind of each record, and its payload in two parts.
        let mut records: Vec<(u8, Vec<u8>, &[u8])> = Vec::new();
        let (first_part, rest) =
            stream.split_at(stream.len().min(record_bytes_max.saturating_sub(BEGIN_BYTES)));
        records.push((kind::BEGIN, record::begin(number, stream.len()), first_part));
        for part in rest.chunks(record_bytes_max.saturating_sub(PART_BYTES).max(1)) {
            let index = records.len() as u32;
            records.push((kind::PART, record::part(number, index), part));
        }
        let end = record::end(
            number,
            records.len() as u32,
            &meta.hash,
            meta.commit_hash.as_ref(),
        );
        records.push((kind::END, end, &[]));

        let begin = first + new.len() as u64;
        let payloads = new.iter().map(|identity| identity.len());
        let payloads = payloads.chain(records.iter().map(|(_, head, part)| head.len() + part.len()));
        let all_bytes: u64 = payloads.map(record_bytes).sum();
        if all_bytes <= self.options.group_bytes_max {
            // Reserve space for the whole block, so that it is appended completely or not at all.
            self.reserve(all_bytes)?;
        }
        for identity in new {
            let lsn = self.push(kind::IDENTITY, &[identity])?;
            self.identities.add(identity, lsn);
        }
        for (kind, head, part) in &records {
            self.push(*kind, &[head, part])?;
        }
        if stream.capacity() <= STREAM_BYTES_KEPT {
            self.stream = stream;
        }
        self.staged.push(StagedBlock {
            entry: Entry {
                begin,
                end: self.journal.next_lsn() - 1,
                offset: 0,
                hash: meta.hash,
                codes: meta.codes.clone(),
                ids: parts.ids.clone(),
            },
            commit_hash: meta.commit_hash,
        });
        Ok(())
    }

    fn reserve(&mut self, bytes: u64) -> Result<(), LedgerError> {
        match self.journal.reserve(bytes) {
            Err(JournalError::GroupFull { .. }) => {
                self.commit()?;
                Ok(self.journal.reserve(bytes)?)
            }
            reserved => Ok(reserved?),
        }
    }

    /// Appends a record, whose payload is given in parts.
    fn push(&mut self, of: u8, payload: &[&[u8]]) -> Result<Lsn, LedgerError> {
        let payload_bytes = payload.iter().map(|part| part.len()).sum();
        self.reserve(record_bytes(payload_bytes))?;
        Ok(self.journal.append_parts(of, payload)?)
    }

    /// Makes all appended blocks durable with one write and one fdatasync, and shows them to readers. Returns the
    /// number of blocks.
    ///
    /// # Errors
    /// The errors of [`Journal::commit`].
    pub fn commit(&mut self) -> Result<u64, LedgerError> {
        self.journal.commit()?;
        let mut view = self
            .blocks
            .shared
            .view
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        view.reader = self.journal.reader();
        for staged in self.staged.drain(..) {
            view.index.push(staged.entry);
            view.commit_hash = staged.commit_hash;
        }
        Ok(view.index.height())
    }
}
