//! A replica of a channel: validates blocks, commits them to a ledger, and resumes from the ledger after a restart.

use super::committer::{Committer, DurabilityWaiter, Job};
use super::error::LedgerError;
use super::image::{Image, ImageBuilder};
use super::open::{OpenFindings, StateStore, WritableLedger};
use super::results::{BlockTimes, Publisher};
use super::store::{BlockMeta, Blocks, journal_options};
use crate::ahead::BlockReadAhead;
use crate::code::TxCode;
use crate::early::{EarlyWork, Worker};
use crate::error::{Error, Refused};
use crate::history::fingerprints;
use crate::state::{Disk as StateDisk, State};
use crate::tables::Tables;
use crate::validate::{Options, StageTimes, ValidatedBlock, Validator};
use bytes::Bytes;
use lineside_journal::{Disk, Options as JournalOptions, Snapshots};
use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Configuration of a [`Replica`].
#[derive(Clone, Debug)]
pub struct Setup {
    /// Options of the validator.
    pub validation: Options,
    /// Sizes of the journal.
    pub journal: JournalOptions,
    /// Minimum number of transactions between two checkpoints; in a long ledger it is an eighth of all transactions. 0
    /// disables checkpoints.
    pub checkpoint_after: u64,
    /// Storage of the state.
    pub state: StateStore,
    /// Path of the index of written keys ([`crate::history`]); `None` disables the index.
    pub history: Option<PathBuf>,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            validation: Options::default(),
            journal: journal_options(),
            checkpoint_after: 50_000,
            state: StateStore::Memory,
            history: None,
        }
    }
}

/// In a long ledger, a checkpoint is due when the transactions since the last checkpoint are this fraction (1/n) of all
/// transactions.
const CHECKPOINT_SHARE: u64 = 8;
/// Keys copied for a checkpoint with each block: at least this number, or this fraction (1/n) of a large state.
const CHECKPOINT_KEYS: usize = 2_048;
const CHECKPOINT_KEYS_SHARE: usize = 256;

/// Maximum number of blocks that [`Replica::finish_after`] reads ahead, and of their total bytes.
const READ_AHEAD_BLOCKS_MAX: usize = 8;
const READ_AHEAD_BYTES_MAX: usize = 32 << 20;

/// A block that was validated and passed to the ledger. It is durable after [`Replica::wait`].
#[derive(Clone, Debug)]
pub struct AddedBlock {
    /// Block number.
    pub number: u64,
    /// Validation codes.
    pub codes: Vec<TxCode>,
    /// Commit hash.
    pub commit_hash: Option<[u8; 32]>,
    /// Time that each validation stage took.
    pub times: StageTimes,
    /// Time that the change of the state took.
    pub commit: Duration,
}

/// A block whose reading was begun.
struct BegunBlock {
    at: Instant,
    bytes: usize,
}

/// A replica of a channel.
pub struct Replica<D: Disk> {
    validator: Option<Validator>,
    /// Empty state, which the validator takes over when it executes the genesis block.
    founding: State,
    blocks: Blocks<D>,
    committer: Committer<D>,
    waiter: DurabilityWaiter,
    setup: Setup,
    config_block: u64,
    /// Number of transactions since the ledger's first block, including transactions that are not durable yet.
    transactions: u64,
    checkpointed: u64,
    snapshots: Snapshots<D>,
    /// Checkpoint whose image is being copied.
    taking: Option<ImageBuilder>,
    /// Thread that writes a checkpoint.
    checkpoint: Option<JoinHandle<Result<(), LedgerError>>>,
    ahead: BlockReadAhead,
    early: Option<Worker>,
    tables: Tables,
    /// Blocks that were begun and not finished, oldest first.
    begun: VecDeque<BegunBlock>,
}

impl<D: Disk> Replica<D> {
    /// Opens the ledger on `disk`, or creates one. `results` publishes each block once it is durable.
    ///
    /// # Errors
    /// The ledger cannot be opened.
    pub fn open(
        disk: D,
        setup: Setup,
        results: Option<Publisher>,
    ) -> Result<(Self, OpenFindings), LedgerError> {
        let begun = WritableLedger::open(disk, setup.journal, &setup.validation, &setup.state)?;
        let opened = begun.opened;
        let blocks = begun.writer.blocks();
        let mut validator = begun.validator;
        if let Some(validator) = &mut validator {
            validator.ids.rest_on(Arc::new(blocks.clone()));
        }
        let committer = Committer::start(begun.writer, results, setup.history.clone())?;
        let transactions = blocks.transactions();
        let tables = Tables::start(setup.validation.verifier.clone())?;
        let ahead = BlockReadAhead::start(setup.validation.threads)?;
        let replica = Self {
            validator,
            founding: begun.founding,
            waiter: committer.waiter(),
            committer,
            setup,
            config_block: begun.config_block,
            transactions,
            checkpointed: transactions - opened.ledger.replayed_transactions,
            snapshots: begun.snapshots,
            taking: None,
            checkpoint: None,
            ahead,
            early: None,
            tables,
            begun: VecDeque::new(),
            blocks,
        };
        Ok((replica, opened))
    }

    /// Returns a reader of the committed blocks, which other threads may use.
    pub fn blocks(&self) -> Blocks<D> {
        self.blocks.clone()
    }

    /// Returns the validator, which includes blocks that are not durable yet; `None` before the genesis block.
    pub fn validator(&self) -> Option<&Validator> {
        self.validator.as_ref()
    }

    /// Returns the number of the next block.
    pub fn next(&self) -> u64 {
        self.validator
            .as_ref()
            .map_or(0, |validator| validator.last() + 1)
    }

    /// Validates the next block and passes it to the ledger. The genesis block is trusted.
    ///
    /// # Errors
    /// [`LedgerError::Validation`]: the block is not accepted. [`LedgerError::Full`]: the disk is full, and
    /// the call may be repeated later. After other errors the ledger must be opened again. Nothing changes on error. If
    /// blocks were begun, they are finished first. If one of them fails, the error is that of [`Self::finish`], and
    /// `bytes` is not examined.
    pub fn add(&mut self, bytes: impl Into<Bytes>) -> Result<AddedBlock, LedgerError> {
        let bytes = bytes.into();
        while self.finish()?.is_some() {}
        if self.validator.is_none() {
            return self.add_genesis(bytes);
        }
        let begun = Instant::now();
        self.add_validated(begun, |validator| {
            let validated = validator.validate(&bytes);
            (bytes, validated)
        })
    }

    /// Starts reading a block and verifying its signatures, while earlier blocks are executed. It must follow the block
    /// that was begun last, and is added by [`Self::finish`]. Each begun block is held in memory.
    ///
    /// # Errors
    /// [`LedgerError::Validation`]: there is no genesis block yet.
    pub fn begin(&mut self, bytes: impl Into<Bytes>) -> Result<(), LedgerError> {
        let bytes = bytes.into();
        let Some(validator) = &self.validator else {
            let refused = Refused::Number {
                found: 1,
                expected: 0,
            };
            return Err(LedgerError::Validation {
                number: 0,
                source: refused.into(),
            });
        };
        self.begun.push_back(BegunBlock {
            at: Instant::now(),
            bytes: bytes.len(),
        });
        self.ahead.begin(bytes, validator);
        Ok(())
    }

    /// Begins the block `next` of a stream of blocks. Then finishes the oldest begun block if that block is already
    /// read, or if the maximum number or size of begun blocks is reached.
    ///
    /// # Errors
    /// The errors of [`Self::begin`] and [`Self::finish`].
    pub fn finish_after(&mut self, next: impl Into<Bytes>) -> Result<Option<AddedBlock>, LedgerError> {
        self.begin(next)?;
        let bytes: usize = self.begun.iter().map(|begun| begun.bytes).sum();
        if self.begun.len() > READ_AHEAD_BLOCKS_MAX || (self.begun.len() > 1 && bytes > READ_AHEAD_BYTES_MAX)
        {
            return self.finish();
        }
        self.finish_within(Duration::ZERO)
    }

    /// Validates the oldest begun block and passes it to the ledger; returns `None` if no block was begun.
    ///
    /// # Errors
    /// The errors of [`Self::add`]; the blocks begun after the failed one are dropped.
    pub fn finish(&mut self) -> Result<Option<AddedBlock>, LedgerError> {
        let Some(begun) = self.begun.pop_front() else {
            return Ok(None);
        };
        let Some(early) = self.ahead.take() else {
            let what = "the thread that reads blocks has ended".into();
            return Err(LedgerError::Stopped { what });
        };
        let added = self.add_validated(begun.at, |validator| early.decide(validator));
        if added.is_err() {
            self.begun.clear();
            while self.ahead.take().is_some() {}
        }
        added.map(Some)
    }

    /// Does the same as [`Self::finish`], but returns `None` if the oldest begun block is still being read after
    /// `time`.
    ///
    /// # Errors
    /// The errors of [`Self::finish`].
    pub fn finish_within(&mut self, time: Duration) -> Result<Option<AddedBlock>, LedgerError> {
        match self.ahead.wait(time) {
            true => self.finish(),
            false => Ok(None),
        }
    }

    /// Registers a function, which another thread calls whenever a begun block can be finished without waiting. Only
    /// the first registration counts.
    pub fn on_read(&self, tell: impl Fn() + Send + Sync + 'static) {
        self.ahead.on_block_read(Box::new(tell));
    }

    /// Returns a handle for transactions that arrive before their block is complete: a thread verifies their signatures
    /// in advance. The first call starts that thread. `None` before the genesis block.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn early(&mut self) -> io::Result<Option<EarlyWork>> {
        let next = self.next();
        let Some(validator) = &mut self.validator else {
            return Ok(None);
        };
        let worker = match &mut self.early {
            Some(worker) => worker,
            none => none.insert(Worker::start(&validator.reader, next)?),
        };
        validator.reader.early = Some(Arc::clone(worker.shared()));
        Ok(Some(worker.handle()))
    }

    fn add_genesis(&mut self, bytes: Bytes) -> Result<AddedBlock, LedgerError> {
        let received = Instant::now();
        let failed = |source| LedgerError::Validation { number: 0, source };
        let started = Validator::new(&bytes, self.setup.validation.clone()).map_err(failed)?;
        let mut started = started.with_state(std::mem::take(&mut self.founding));
        started.ids.rest_on(Arc::new(self.blocks.clone()));
        let meta = BlockMeta {
            number: 0,
            hash: started.last_hash(),
            codes: vec![TxCode::Valid as u8],
            commit_hash: None,
        };
        let timed = BlockTimes::new(received, StageTimes::default());
        self.committer.submit(Job {
            bytes,
            meta,
            parts: None,
            timed,
            prints: Vec::new(),
        })?;
        self.validator = Some(started);
        self.transactions += 1;
        Ok(AddedBlock {
            number: 0,
            codes: vec![TxCode::Valid],
            commit_hash: None,
            times: StageTimes::default(),
            commit: Duration::ZERO,
        })
    }

    /// Adds the next block, with the result of `validate`.
    fn add_validated(
        &mut self,
        begun: Instant,
        validate: impl FnOnce(&mut Validator) -> (Bytes, Result<ValidatedBlock, Error>),
    ) -> Result<AddedBlock, LedgerError> {
        let number = self.next();
        let Some(validator) = &mut self.validator else {
            let what = "there is no genesis block yet".into();
            return Err(LedgerError::Stopped { what });
        };
        let failed = |what| LedgerError::State { what };
        let is_awaited = self.taking.is_some();
        let settled = validator.state.settle_behind(self.waiter.durable(), is_awaited);
        settled.map_err(failed)?;
        let (bytes, validated) = validate(validator);
        let mut validated = validated.map_err(|source| LedgerError::Validation { number, source })?;
        let mut added = AddedBlock {
            number,
            codes: validated.codes.clone(),
            commit_hash: validated.commit_hash,
            times: validated.times,
            commit: Duration::ZERO,
        };
        let meta = BlockMeta::from(&validated);
        let timed = BlockTimes::new(begun, validated.times);
        let parts = Some(std::mem::take(&mut validated.parts));
        let prints = self
            .setup
            .history
            .as_ref()
            .map(|_| fingerprints(&validated.updates));
        let prints = prints.unwrap_or_default();
        self.committer.submit(Job {
            bytes,
            meta,
            parts,
            timed,
            prints,
        })?;
        if validated.config.is_some() {
            self.config_block = number;
        }
        self.transactions += validated.codes.len() as u64;
        let committing = Instant::now();
        if let Some(taking) = &mut self.taking {
            taking.save_old_entries(&validator.state, &validated.updates);
        }
        validator.commit(validated);
        if let Some(early) = &self.early {
            early.shared().follow(&validator.reader, number + 1);
        }
        self.checkpoint_if_due()?;
        added.commit = committing.elapsed();
        self.tables.build();
        Ok(added)
    }

    /// Waits until block `number` is durable.
    ///
    /// # Errors
    /// [`LedgerError::Full`]: the disk has no space; the call may be repeated. [`LedgerError::Stopped`]: the block will
    /// not become durable.
    pub fn wait(&self, number: u64) -> Result<(), LedgerError> {
        self.waiter.wait(number)
    }

    /// Waits until all added blocks are durable.
    ///
    /// # Errors
    /// The errors of [`Self::wait`].
    pub fn flush(&self) -> Result<(), LedgerError> {
        self.waiter.wait_for(self.next()).map(|_| ())
    }

    /// Returns a handle that waits for blocks on other threads.
    pub fn waiter(&self) -> DurabilityWaiter {
        self.waiter.clone()
    }

    /// Returns the number of durable blocks.
    pub fn durable(&self) -> u64 {
        self.waiter.durable()
    }

    /// Continues the current checkpoint, or begins a new one if one is due.
    fn checkpoint_if_due(&mut self) -> Result<(), LedgerError> {
        let Some(validator) = &self.validator else {
            return Ok(());
        };
        if let Some(taking) = self.taking.take() {
            let keys = CHECKPOINT_KEYS.max(taking.keys() / CHECKPOINT_KEYS_SHARE);
            match taking.advance(&validator.state, keys) {
                Ok(image) => self.write_checkpoint(image)?,
                Err(more) => self.taking = Some(more),
            }
            return Ok(());
        }
        let after = self.setup.checkpoint_after;
        let due = after.max(self.transactions / CHECKPOINT_SHARE);
        let writing = self
            .checkpoint
            .as_ref()
            .is_some_and(|writing| !writing.is_finished());
        if after > 0 && self.transactions - self.checkpointed >= due && !writing {
            let state = validator.state.in_memory();
            self.taking = Some(ImageBuilder::begin(validator, self.config_block, state));
            self.checkpointed = self.transactions;
        }
        Ok(())
    }

    /// Writes a checkpoint on another thread. If that fails, the previous checkpoint stays.
    fn write_checkpoint(&mut self, image: Image) -> Result<(), LedgerError> {
        let (waiter, blocks, snapshots) = (self.waiter.clone(), self.blocks.clone(), self.snapshots.clone());
        let state = self
            .validator
            .as_ref()
            .and_then(|validator| validator.state.on_disk());
        let sync_state = state.map(StateDisk::sync);
        let write = move || {
            let blocks_wanted = image.last + 1;
            waiter.wait_for(blocks_wanted)?;
            if let Some(sync) = sync_state {
                sync()?;
            }
            blocks.sync_ids()?;
            let end = blocks.end_of(image.last);
            snapshots.write(end, |out| image.write(&blocks, out))?;
            Ok(())
        };
        let thread = std::thread::Builder::new().name("checkpoint".into());
        self.checkpoint = Some(thread.spawn(write)?);
        Ok(())
    }

    /// Writes all changes to the state on the disk. All blocks must be durable.
    fn write_durable(&mut self) -> Result<(), LedgerError> {
        let next = self.next();
        let settled = self
            .validator
            .as_mut()
            .map_or(Ok(()), |validator| validator.state.write_durable(next));
        settled.map_err(|what| LedgerError::State { what })
    }

    /// Waits until all blocks are durable, and writes a checkpoint.
    ///
    /// # Errors
    /// The checkpoint cannot be written; the ledger continues without it.
    pub fn checkpoint(&mut self) -> Result<(), LedgerError> {
        if let Some(writing) = self.checkpoint.take() {
            // A failure of this write does not matter, because the next checkpoint replaces the one that failed.
            let _ = writing.join();
        }
        self.taking = None;
        self.flush()?;
        self.write_durable()?;
        if let Some(validator) = &self.validator {
            let image = Image::new(validator, self.config_block);
            self.checkpointed = self.transactions;
            self.write_checkpoint(image)?;
        }
        match self.checkpoint.take().map(JoinHandle::join) {
            Some(Ok(written)) => written,
            _ => Ok(()),
        }
    }

    /// Commits all added blocks and ends the threads.
    ///
    /// # Errors
    /// Some blocks could not be committed.
    pub fn stop(mut self) -> Result<(), LedgerError> {
        let flushed = self.flush().and_then(|()| self.write_durable());
        if let Some(writing) = self.checkpoint.take() {
            let _ = writing.join();
        }
        self.committer.stop();
        flushed
    }
}
