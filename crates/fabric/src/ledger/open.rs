//! Opening a ledger: restores the newest checkpoint, then replays the blocks after it.

use super::base::{SnapshotBase, is_base};
use super::checkpoint::{self, CheckpointContent};
use super::error::LedgerError;
use super::identities::{Identities, IdentityCache};
use super::ids::{DiskIds, IdsAt, TxIdIndex};
use super::image::Image;
use super::index::{Entry, Index};
use super::record::{Assembler, Stored, kind};
use super::splice;
use super::store::{Blocks, LedgerView, Writer};
use crate::block::Block;
use crate::proto::Arena;
use crate::state::{Disk as StateDisk, DurableMark, State};
use crate::validate::{Options, Validator};
use lineside_journal::{
    Disk, Error as JournalError, Journal, Lsn, Options as JournalOptions, Reader, Recovery, Snapshots,
};
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Storage of a ledger's state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum StateStore {
    /// The state is in memory and in the ledger's checkpoints.
    #[default]
    Memory,
    /// The state is in a database in this directory, which is created if it does not exist.
    Disk(PathBuf),
}

impl StateStore {
    /// Returns whether a directory holds a state, valid or damaged.
    pub fn is_at(directory: &Path) -> bool {
        StateDisk::is_at(directory)
    }

    /// Removes a state that no process has open. Other files in the directory are not touched.
    ///
    /// # Errors
    /// The state cannot be removed.
    pub fn remove(directory: &Path) -> io::Result<()> {
        StateDisk::remove(directory)
    }
}

/// A ledger as restored from the journal and its newest usable checkpoint.
pub(crate) struct RecoveredLedger<D: Disk> {
    pub blocks: Blocks<D>,
    /// The validator after the ledger's last block; `None` if there are no blocks.
    pub validator: Option<Validator>,
    /// Empty state, which the validator takes over when it executes the genesis block.
    founding: State,
    /// Number of the block that set the current configuration.
    pub config_block: u64,
    /// The snapshot with which the ledger begins.
    base: Option<SnapshotBase>,
    pub identities: IdentityCache,
    pub findings: LedgerFindings,
}

/// Findings when a ledger was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LedgerFindings {
    /// Number of the last journal record that the used checkpoint covers; 0 if no checkpoint was used.
    pub checkpoint: Lsn,
    /// Descriptions of newer checkpoints that cannot be used, with the reasons.
    pub damaged: Vec<String>,
    /// Number of blocks replayed after the checkpoint.
    pub replayed: u64,
    /// Number of transactions in the replayed blocks.
    pub replayed_transactions: u64,
    /// Reason why the state on the disk was rebuilt, if it was.
    pub state_remade: Option<String>,
    /// Files of the index of transaction ids that were rebuilt from the file of all ids, with the reasons.
    pub ids_remade: Vec<String>,
}

/// Reason why the state on the disk of a ledger that begins with a snapshot is not used.
const STATE_WITH_EXPIRED_KEYS: &str = "an older version wrote the state and kept expired keys of the \
                                       snapshot; a replica that opens the ledger rebuilds it";

/// Reads a ledger for writing. The recorded codes and commit hashes are trusted.
pub(crate) fn recover<D: Disk>(
    reader: &Reader<D>,
    options: &Options,
    state: &StateStore,
) -> Result<RecoveredLedger<D>, LedgerError> {
    let StateStore::Disk(directory) = state else {
        return read(reader, options, State::default(), &IdsAt::Memory);
    };
    let ids = IdsAt::Files(IdsAt::folder(directory));
    let (disk, mut remade) = StateDisk::open(directory)?;
    let (mark, lacks_expiry) = (disk.durable_mark(), disk.lacks_expiry());
    let recovered = read(reader, options, disk.into(), &ids);
    let why = match recovered {
        Err(LedgerError::State { what }) if StateDisk::is_damaged(directory) => what,
        recovered => {
            let mut recovered = recovered?;
            if !recovered.has(mark)? {
                "the state's last block is not in the ledger".to_owned()
            } else if lacks_expiry && recovered.base.is_some() {
                STATE_WITH_EXPIRED_KEYS.to_owned()
            } else {
                recovered.findings.state_remade = remade.take();
                return Ok(recovered);
            }
        }
    };
    let mut recovered = read(reader, options, StateDisk::create_empty(directory)?.into(), &ids)?;
    recovered.findings.state_remade = Some(why);
    Ok(recovered)
}

/// Returns the checkpoint, with `state` moved into it, if the two fit together.
fn combine_checkpoint(
    mut restored: CheckpointContent,
    state: &mut State,
) -> Result<CheckpointContent, String> {
    let standing = &mut restored.standing;
    if state.in_memory().is_some() {
        return match standing.state.in_memory() {
            Some(_) => Ok(restored),
            None => Err(
                "the checkpoint's state is on the disk, but the ledger is opened with a state in memory"
                    .into(),
            ),
        };
    }
    if !state.has(standing.last) {
        return Err("the state on the disk is older than the checkpoint".into());
    }
    standing.state = std::mem::take(state);
    Ok(restored)
}

/// Returns whether a checkpoint belongs to a ledger with this base.
fn has_base(restored: &CheckpointContent, base: Option<&SnapshotBase>) -> bool {
    let found = restored.index.base.map(|found| (found.last, found.hash));
    found == base.map(|base| (base.head.last, base.head.last_hash))
}

/// Returns an empty index, with its ids and codes in memory or in files.
fn empty(ids: &IdsAt) -> Result<Index, LedgerError> {
    Ok(match ids {
        IdsAt::Files(folder) => Index::with(TxIdIndex::Disk(Box::new(DiskIds::create(folder)?))),
        IdsAt::Memory | IdsAt::FilesRead(_) => Index::default(),
    })
}

/// Reads a ledger. `state` is an empty state in memory, a placeholder for a state that is not opened, or a state on the
/// disk.
fn read<D: Disk>(
    reader: &Reader<D>,
    options: &Options,
    mut state: State,
    ids: &IdsAt,
) -> Result<RecoveredLedger<D>, LedgerError> {
    let base = SnapshotBase::find(reader)?;
    let latest = reader.latest_snapshot()?;
    let mut findings = LedgerFindings::default();
    for damaged in latest.damaged {
        findings
            .damaged
            .push(format!("{}: {}", damaged.file, damaged.what));
    }
    let mut restored = None;
    if let Some(snapshot) = latest.snapshot {
        let lsn = snapshot.lsn;
        let read = checkpoint::read(BufReader::with_capacity(1 << 18, snapshot), lsn, ids);
        let fits = read.map_err(|error| error.to_string()).and_then(|read| {
            let fits = match has_base(&read, base.as_ref()) {
                true => combine_checkpoint(read, &mut state),
                false => Err("the checkpoint belongs to a ledger with another first block".to_owned()),
            };
            fits.map_err(|what| format!("checkpoint at record {lsn}: {what}"))
        });
        match fits {
            Ok(read) => {
                findings.checkpoint = lsn;
                findings.ids_remade.clone_from(&read.remade);
                restored = Some(read);
            }
            // A checkpoint contains nothing that the blocks do not, so an unusable one is only recorded.
            Err(what) => findings.damaged.push(what),
        }
    }
    let (index, standing, config_block) = match (restored, &base) {
        (Some(read), _) => (read.index, Some(read.standing), read.config_block),
        (None, Some(base)) => {
            let (index, standing) = base.load(reader, std::mem::take(&mut state), empty(ids)?)?;
            (index, Some(standing), base.config_block)
        }
        (None, None) => (empty(ids)?, None, 0),
    };
    let view = LedgerView {
        reader: reader.clone(),
        commit_hash: standing.as_ref().and_then(|standing| standing.commit_hash),
        index,
    };
    let blocks = Blocks::new(view, Identities::default());
    let validator = match standing {
        None => None,
        Some(standing) => {
            let number = config_block;
            let resumed = match base.as_ref().filter(|base| number <= base.head.last) {
                Some(base) => Validator::resume_under(standing, &base.config, options.clone()),
                None => Validator::resume(standing, &blocks.block(number)?.bytes, options.clone()),
            };
            Some(resumed.map_err(|source| LedgerError::Validation { number, source })?)
        }
    };
    let mut recovered = RecoveredLedger {
        blocks,
        validator,
        founding: state,
        config_block,
        base,
        identities: IdentityCache::default(),
        findings,
    };
    recovered.replay(reader, options)?;
    Ok(recovered)
}

impl<D: Disk> RecoveredLedger<D> {
    /// Returns whether the ledger contains the block that a state's mark names, with the same validation codes.
    fn has(&self, mark: Option<DurableMark>) -> Result<bool, LedgerError> {
        let Some(mark) = mark else {
            return Ok(true);
        };
        if self.blocks.number_of(&mark.hash) != Some(mark.last) {
            return Ok(false);
        }
        if let Some(base) = self.base.as_ref().filter(|base| base.head.last == mark.last) {
            return Ok(base.durable_mark() == mark);
        }
        let stored = self.blocks.block(mark.last)?;
        Ok(stored.commit_hash.unwrap_or_default() == mark.commit_hash)
    }

    fn replay(&mut self, reader: &Reader<D>, options: &Options) -> Result<(), LedgerError> {
        let mut records = reader.records(self.findings.checkpoint + 1)?;
        let mut assembler = Assembler::default();
        while let Some(record) = records.next()? {
            if record.kind == kind::IDENTITY {
                self.identities.add(record.payload, record.lsn);
                self.blocks.add_identity(record.lsn, record.payload);
                continue;
            }
            if is_base(record.kind) {
                continue;
            }
            let Some(block_records) = assembler.feed(&record)? else {
                continue;
            };
            let stored = self.blocks.restore(reader, &block_records)?;
            self.redo(&stored, options)?;
            let transactions = stored.codes.len() as u64;
            let arena = Arena::new();
            let block = Block::read(&stored.bytes, &arena).map_err(|source| LedgerError::Validation {
                number: stored.number,
                source,
            })?;
            let entry = Entry {
                begin: block_records.begin,
                end: block_records.end,
                offset: block_records.offset,
                hash: block_records.hash,
                codes: stored.codes,
                ids: splice::ids(&block),
            };
            self.blocks.push(entry, block_records.commit_hash);
            self.forget_filed();
            self.findings.replayed += 1;
            self.findings.replayed_transactions += transactions;
        }
        if let Some(validator) = &mut self.validator {
            let settled = validator.state.write_durable(validator.last + 1);
            settled.map_err(|what| LedgerError::State { what })?;
        }
        Ok(())
    }

    /// Removes the transaction ids from the validator's memory if files index them.
    fn forget_filed(&mut self) {
        if let Some(validator) = &mut self.validator
            && self.blocks.view().index.ids.on_disk().is_some()
        {
            validator.ids.forget();
        }
    }

    fn redo(&mut self, stored: &Stored, options: &Options) -> Result<(), LedgerError> {
        let number = stored.number;
        match &mut self.validator {
            Some(validator) => {
                if validator.redo(stored)? {
                    self.config_block = number;
                }
                let failed = |what| LedgerError::State { what };
                validator.state.settle_behind(number + 1, false).map_err(failed)?;
            }
            None if number == 0 => {
                let started = Validator::new(&stored.bytes, options.clone());
                let started = started.map_err(|source| LedgerError::Validation { number, source })?;
                self.validator = Some(started.with_state(std::mem::take(&mut self.founding)));
            }
            None => return Err(LedgerError::block(0, "the block is missing in the ledger")),
        }
        Ok(())
    }
}

/// A ledger that is open for writing.
pub struct WritableLedger<D: Disk> {
    /// Writer of blocks.
    pub writer: Writer<D>,
    /// The validator after the last block; `None` if there are no blocks.
    pub validator: Option<Validator>,
    /// Number of the block that set the current configuration.
    pub config_block: u64,
    /// Empty state, which the validator takes over when it executes the genesis block, if there is no block yet.
    pub(crate) founding: State,
    /// Writer of checkpoints.
    pub(crate) snapshots: Snapshots<D>,
    /// Findings when the ledger was opened.
    pub opened: OpenFindings,
}

/// Findings of the journal and the ledger when they were opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenFindings {
    /// Findings of the journal.
    pub journal: Recovery,
    /// Findings of the ledger.
    pub ledger: LedgerFindings,
}

impl<D: Disk> WritableLedger<D> {
    /// Opens the ledger on `disk`, or creates one.
    ///
    /// # Errors
    /// The ledger cannot be opened.
    pub fn open(
        disk: D,
        sizes: JournalOptions,
        options: &Options,
        state: &StateStore,
    ) -> Result<Self, LedgerError> {
        let sizes = JournalOptions {
            keep_records: true,
            ..sizes
        };
        let id = getrandom::u64().map_err(|error| std::io::Error::other(error.to_string()))?;
        let (journal, recovery) = Journal::open_or_create(disk, id, sizes)?;
        let recovered = recover(&journal.reader(), options, state)?;
        Ok(Self {
            snapshots: journal.snapshots(),
            writer: Writer::new(journal, sizes, recovered.identities, recovered.blocks),
            validator: recovered.validator,
            founding: recovered.founding,
            config_block: recovered.config_block,
            opened: OpenFindings {
                journal: recovery,
                ledger: recovered.findings,
            },
        })
    }
}

impl<D: Disk> WritableLedger<D> {
    /// Writes a checkpoint of the durable blocks, before more blocks are written.
    ///
    /// # Errors
    /// The checkpoint cannot be written.
    pub fn checkpoint(&self) -> Result<(), LedgerError> {
        let blocks = self.writer.blocks();
        if let Some(validator) = self
            .validator
            .as_ref()
            .filter(|of| of.last() + 1 == blocks.count())
        {
            if let Some(disk) = validator.state.on_disk() {
                disk.sync()()?;
            }
            blocks.sync_ids()?;
            let image = Image::new(validator, self.config_block);
            let end = blocks.end_of(image.last);
            self.snapshots.write(end, |out| image.write(&blocks, out))?;
        }
        Ok(())
    }
}

/// Number of attempts to open a ledger that looks damaged, [`OPEN_RETRY_INTERVAL`] apart.
const OPEN_ATTEMPTS: usize = 5;
const OPEN_RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// A ledger that is open for reading only, while another process may write to it.
pub struct ReadOnlyLedger<D: Disk> {
    /// Reader of the blocks.
    pub blocks: Blocks<D>,
    /// The validator after the last block.
    pub validator: Validator,
    /// Number of the block that set the current configuration.
    pub(crate) config_block: u64,
    /// The snapshot with which the ledger begins.
    pub(crate) base: Option<SnapshotBase>,
    /// Findings when the ledger was opened.
    pub found: LedgerFindings,
}

impl<D: Disk> ReadOnlyLedger<D> {
    /// Opens a ledger for reading only. Without `state`, the state cannot be queried. [`LedgerError::State`] means that
    /// the state on the disk is open in another process or does not fit the ledger; [`StateStore::Memory`] then still
    /// works, by replaying all blocks.
    ///
    /// # Errors
    /// [`LedgerError::Empty`], or the ledger cannot be read.
    pub fn open(disk: D, options: &Options, state: Option<&StateStore>) -> Result<Self, LedgerError> {
        let ids = match state {
            Some(StateStore::Disk(directory)) => IdsAt::FilesRead(IdsAt::folder(directory)),
            None | Some(StateStore::Memory) => IdsAt::Memory,
        };
        Self::with(disk, options, state, &ids)
    }

    /// Opens a ledger for reading only, without a state. If `directory` holds a state on the disk, its index of
    /// transaction ids is used, so not all blocks need to be read.
    ///
    /// # Errors
    /// The errors of [`Self::open`].
    pub fn open_without_state(disk: D, options: &Options, directory: &Path) -> Result<Self, LedgerError> {
        Self::with(disk, options, None, &IdsAt::FilesRead(IdsAt::folder(directory)))
    }

    fn with(
        disk: D,
        options: &Options,
        state: Option<&StateStore>,
        ids: &IdsAt,
    ) -> Result<Self, LedgerError> {
        let mut looks = 0;
        let reader = loop {
            looks += 1;
            match Reader::open(disk.clone()) {
                Err(JournalError::NoJournal) => return Err(LedgerError::Empty),
                // A write of another process during the read may look like damage, so the read is repeated.
                Err(JournalError::Damaged { .. }) if looks < OPEN_ATTEMPTS => {
                    std::thread::sleep(OPEN_RETRY_INTERVAL)
                }
                opened => break opened?,
            }
        };
        let state = match state {
            None => State::placeholder(),
            Some(StateStore::Memory) => State::default(),
            Some(StateStore::Disk(directory)) => StateDisk::open_read_only(directory)
                .map_err(|error| LedgerError::State {
                    what: error.to_string(),
                })?
                .into(),
        };
        let mark = state.on_disk().and_then(StateDisk::durable_mark);
        let lacks_expiry = state.on_disk().is_some_and(StateDisk::lacks_expiry);
        let recovered = read(&reader, options, state, ids)?;
        if lacks_expiry && recovered.base.is_some() {
            let what = format!("the state on the disk: {STATE_WITH_EXPIRED_KEYS}");
            return Err(LedgerError::State { what });
        }
        if !recovered.has(mark)? {
            let what =
                "the state on the disk belongs to another ledger; give this ledger's directory".to_owned();
            return Err(LedgerError::State { what });
        }
        Ok(Self {
            blocks: recovered.blocks,
            validator: recovered.validator.ok_or(LedgerError::Empty)?,
            config_block: recovered.config_block,
            base: recovered.base,
            found: recovered.findings,
        })
    }
}

/// Returns a validator with a state in memory as it was after block `number`, computed with the recorded codes.
///
/// # Errors
/// [`LedgerError::NotThere`] and [`LedgerError::BeforeSnapshot`] for a block that the ledger does not have; other
/// errors if the ledger cannot be read.
pub fn validator_at<D: Disk>(
    blocks: &Blocks<D>,
    options: &Options,
    number: u64,
) -> Result<Validator, LedgerError> {
    let reader = blocks.view().reader.clone();
    let (first, count) = (blocks.first(), blocks.count());
    if number >= count {
        let blocks = count;
        return Err(LedgerError::NotThere { number, blocks });
    }
    if number + 1 < first {
        return Err(LedgerError::BeforeSnapshot { number, first });
    }
    let failed = |number| move |source| LedgerError::Validation { number, source };
    let mut cursor = blocks.from(first)?;
    let mut validator = match SnapshotBase::find(&reader)? {
        Some(base) => {
            let (_, standing) = base.load(&reader, State::default(), Index::default())?;
            Validator::resume_under(standing, &base.config, options.clone())
                .map_err(failed(base.head.last))?
        }
        None => {
            let genesis = cursor.next()?.ok_or(LedgerError::Empty)?;
            Validator::new(&genesis.bytes, options.clone()).map_err(failed(0))?
        }
    };
    while validator.last() < number {
        let stored = cursor.next()?.ok_or(LedgerError::Empty)?;
        validator.redo(&stored)?;
    }
    Ok(validator)
}
