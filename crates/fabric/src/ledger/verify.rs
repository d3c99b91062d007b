//! A whole ledger, looked at again.

use super::base::{Base, is_base};
use super::error::LedgerError;
use super::identities::Identities;
use super::ids::{IdsAt, compare};
use super::image::{Image, LAYOUT, LAYOUT_FILED, LAYOUT_STATELESS, LAYOUT_WITHOUT_EXPIRY};
use super::index::{Entry, Index};
use super::open::StateStore;
use super::record::{Assembler, Stored, Whole, kind};
use super::splice;
use super::store::{Blocks, View};
use crate::block::Block;
use crate::code::TxCode;
use crate::proto::Arena;
use crate::state::{Disk as StateDisk, Mark, State};
use crate::validate::{Options, Validator};
use lineside_journal::{Disk, Error as JournalError, Lsn, Reader, verify};
use sha2::{Digest, Sha256};
use std::io::{self, Read, Write};
use std::path::PathBuf;

/// Findings that are told; more are counted.
const FINDINGS_MAX: usize = 1_000;

/// What a ledger is worth.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The last block of the snapshot that the ledger was joined from, whose files were read again. `None`: the ledger
    /// begins with the genesis block.
    pub joined_after: Option<u64>,
    /// Blocks that were validated again.
    pub blocks: u64,
    /// Their transactions.
    pub transactions: u64,
    /// Bytes of these blocks, as they were delivered.
    pub block_bytes: u64,
    /// Bytes of their records.
    pub record_bytes: u64,
    /// Bytes behind the last whole group: a commit that was never acknowledged.
    pub unfinished_bytes: u64,
    /// Checkpoints that were compared with what the blocks give.
    pub checkpoints: u64,
    /// Keys of the state on the disk that were, where there is one.
    pub state_keys: Option<u64>,
    /// Whether there is one that another process has open, so that it was not looked at.
    pub state_in_use: bool,
    /// The header hash of the last block.
    pub last_hash: Option<[u8; 32]>,
    /// The commit hash of the last block.
    pub commit_hash: Option<[u8; 32]>,
    /// What is wrong; empty: nothing is.
    pub findings: Vec<String>,
    /// How much is wrong.
    pub wrong: u64,
}

impl Report {
    /// Whether nothing is wrong.
    pub fn is_sound(&self) -> bool {
        self.wrong == 0
    }

    fn find(&mut self, what: String) {
        self.wrong += 1;
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(what);
        }
    }
}

/// Reads every byte of a ledger, validates every block again from the first (up to the first damage), and compares
/// codes, commit hashes, hashes, the newest checkpoint, and every key of the state on the disk, if there is one. Only
/// reads. `each` is called after every block, with its number.
///
/// # Errors
/// [`LedgerError::Empty`], and what the disk says. What is wrong with the ledger is in the report.
pub fn verify_ledger<D: Disk>(
    disk: &D,
    state: &StateStore,
    options: &Options,
    each: &mut dyn FnMut(u64),
) -> Result<Report, LedgerError> {
    let mut report = Report::default();
    let ids = match state {
        StateStore::Memory => None,
        StateStore::Disk(directory) => Some(IdsAt::folder(directory)),
    };
    let state = match state {
        StateStore::Memory => None,
        StateStore::Disk(directory) => match StateDisk::look(directory) {
            // One that has no block's updates is made from the blocks with the next start.
            Ok(state) => Some(state).filter(|state| state.mark().is_some()),
            Err(error) => {
                report.state_in_use = error.kind() == io::ErrorKind::ResourceBusy;
                if !report.state_in_use {
                    report.find(error.to_string());
                }
                None
            }
        },
    };
    let journal = match verify(disk) {
        Err(JournalError::NoJournal) => return Err(LedgerError::Empty),
        verified => verified?,
    };
    report.unfinished_bytes = journal.unfinished_bytes;
    for finding in &journal.findings {
        let what = format!(
            "{}: byte {}, record {}: {}",
            finding.file, finding.offset, finding.lsn, finding.what
        );
        report.find(what);
    }
    if journal.first_lsn != 1 {
        report.find(format!("the journal begins with record {}", journal.first_lsn));
        return Ok(report);
    }
    let reader = match Reader::open(disk.clone()) {
        Ok(reader) if journal.is_sound() => reader,
        Err(error) if journal.is_sound() => {
            report.find(error.to_string());
            return Ok(report);
        }
        _ => Reader::open_before_damage(disk.clone(), &journal),
    };
    let mut again = Again::new(&reader, options, state, report)?;
    again.ids = ids;
    let ended = again.run(&reader, each);
    let mut report = again.report;
    match ended {
        Ok(()) => {}
        Err(error @ LedgerError::Io(_)) => return Err(error),
        Err(error) => report.find(error.to_string()),
    }
    Ok(report)
}

struct Again<'o, D: Disk> {
    options: &'o Options,
    report: Report,
    blocks: Blocks<D>,
    validator: Option<Validator>,
    config_block: u64,
    /// The newest checkpoint.
    checkpoint: Option<Checkpoint>,
    /// The state on the disk, until it was compared.
    state: Option<StateDisk>,
    /// The folder of ids and codes, if they may be in files.
    ids: Option<PathBuf>,
}

#[derive(Clone, Copy)]
struct Checkpoint {
    /// The record that it stands for.
    lsn: Lsn,
    /// Whether the state is not in it.
    is_stateless: bool,
    /// True if ids and codes are not in it, but in files.
    are_filed: bool,
    /// The hash of all that is.
    hash: [u8; 32],
}

impl Checkpoint {
    fn read(lsn: Lsn, mut from: impl Read) -> io::Result<Self> {
        let mut hasher = Hashing(Sha256::new());
        // The image's length, and its layout.
        let mut head = Vec::new();
        from.by_ref().take(12).read_to_end(&mut head)?;
        // An older version's differs in nothing else.
        let length = head.strip_suffix(&LAYOUT_WITHOUT_EXPIRY.to_le_bytes());
        let now = length.map(|length| [length, &LAYOUT.to_le_bytes()[..]].concat());
        hasher.write_all(now.as_ref().unwrap_or(&head))?;
        io::copy(&mut from, &mut hasher)?;
        Ok(Self {
            lsn,
            is_stateless: [LAYOUT_STATELESS, LAYOUT_FILED]
                .iter()
                .any(|of| head.ends_with(&of.to_le_bytes())),
            are_filed: head.ends_with(&LAYOUT_FILED.to_le_bytes()),
            hash: hasher.0.finalize().into(),
        })
    }
}

impl<'o, D: Disk> Again<'o, D> {
    fn new(
        reader: &Reader<D>,
        options: &'o Options,
        state: Option<StateDisk>,
        mut report: Report,
    ) -> Result<Self, LedgerError> {
        let view = View {
            reader: reader.clone(),
            index: Index::default(),
            commit_hash: None,
        };
        let mut checkpoint = None;
        match reader.latest_snapshot() {
            Ok(latest) => {
                if let Some(snapshot) = latest.snapshot {
                    checkpoint = Some(Checkpoint::read(snapshot.lsn, snapshot)?);
                }
            }
            Err(error) => report.find(error.to_string()),
        }
        Ok(Self {
            options,
            report,
            blocks: Blocks::new(view, Identities::default()),
            validator: None,
            config_block: 0,
            checkpoint,
            state,
            ids: None,
        })
    }

    fn run(&mut self, reader: &Reader<D>, each: &mut dyn FnMut(u64)) -> Result<(), LedgerError> {
        self.begin_at_snapshot(reader, each)?;
        let mut records = reader.records(1)?;
        let mut assembler = Assembler::default();
        while let Some(record) = records.next()? {
            self.report.record_bytes += record.payload.len() as u64;
            if record.kind == kind::IDENTITY {
                self.blocks.learn(record.lsn, record.payload);
                continue;
            }
            if is_base(record.kind) {
                continue;
            }
            let Some(whole) = assembler.feed(&record)? else {
                continue;
            };
            let stored = self.blocks.restore(reader, &whole)?;
            self.block(&whole, &stored)?;
            self.compare_checkpoint(whole.end)?;
            self.compare_state(stored.number);
            each(stored.number);
        }
        // One behind the damage cannot be compared.
        let missed = self.checkpoint.filter(|of| of.lsn <= reader.durable_lsn());
        if let Some(Checkpoint { lsn, .. }) = missed {
            self.report
                .find(format!("the checkpoint at record {lsn} stands at no block's end"));
        }
        if let Some(mark) = self.state.as_ref().and_then(StateDisk::mark) {
            self.report.find(format!(
                "the state on the disk is that behind block {}, which is not among those that were validated",
                mark.last
            ));
        }
        Ok(())
    }

    /// Reads the snapshot that the ledger was joined from, if it was, and compares every hash in it.
    fn begin_at_snapshot(
        &mut self,
        reader: &Reader<D>,
        each: &mut dyn FnMut(u64),
    ) -> Result<(), LedgerError> {
        let Some(base) = Base::find(reader)? else {
            return Ok(());
        };
        let (index, standing) = base.load(reader, State::default(), Index::default())?;
        let (number, end) = (base.head.last, index.base.map_or(0, |base| base.end));
        let resumed = Validator::resume_under(standing, &base.config, self.options.clone());
        self.validator = Some(resumed.map_err(|source| LedgerError::Validation { number, source })?);
        self.config_block = base.config_block;
        let view = View {
            reader: reader.clone(),
            index,
            commit_hash: base.head.commit_hash,
        };
        self.blocks = Blocks::new(view, Identities::default());
        self.report.joined_after = Some(number);
        self.report.last_hash = Some(base.head.last_hash);
        self.report.commit_hash = base.head.commit_hash;
        self.compare_checkpoint(end)?;
        self.compare_state(number);
        each(number);
        Ok(())
    }

    fn block(&mut self, whole: &Whole, stored: &Stored) -> Result<(), LedgerError> {
        let number = stored.number;
        let failed = |source| LedgerError::Validation { number, source };
        let (codes, hash, commit_hash) = match &mut self.validator {
            None => {
                if number != 0 {
                    return Err(LedgerError::block(0, "it is missing"));
                }
                let started = Validator::new(&stored.bytes, self.options.clone()).map_err(failed)?;
                let hash = started.last_hash();
                self.validator = Some(started);
                (vec![TxCode::Valid as u8], hash, None)
            }
            Some(validator) => {
                let validated = validator.validate(&stored.bytes).map_err(failed)?;
                let found = (validated.filter(), validated.hash, validated.commit_hash);
                if validated.config.is_some() {
                    self.config_block = number;
                }
                validator.commit(validated);
                found
            }
        };
        for (index, (now, then)) in codes.iter().zip(&stored.codes).enumerate() {
            if now != then {
                let name = |code: u8| TxCode::from_number(code).map_or("no code", TxCode::name);
                let (now, then) = (name(*now), name(*then));
                self.report.find(format!(
                    "block {number}: transaction {index} was {then} and is {now}"
                ));
            }
        }
        if hash != stored.hash {
            self.report
                .find(format!("block {number}: it has another header hash"));
        }
        if commit_hash != stored.commit_hash {
            self.report
                .find(format!("block {number}: it has another commit hash"));
        }
        let arena = Arena::new();
        let block = Block::read(&stored.bytes, &arena).map_err(failed)?;
        self.report.blocks += 1;
        self.report.transactions += stored.codes.len() as u64;
        self.report.block_bytes += stored.bytes.len() as u64;
        self.report.last_hash = Some(hash);
        self.report.commit_hash = commit_hash;
        let entry = Entry {
            begin: whole.begin,
            end: whole.end,
            offset: whole.offset,
            hash,
            codes,
            ids: splice::ids(&block),
        };
        self.blocks.push(entry, commit_hash);
        Ok(())
    }

    /// Compares the checkpoint that is at record `end`, if there is one.
    fn compare_checkpoint(&mut self, end: Lsn) -> Result<(), LedgerError> {
        let Some(checkpoint) = self.checkpoint.filter(|of| of.lsn == end) else {
            return Ok(());
        };
        self.checkpoint = None;
        self.report.checkpoints += 1;
        if let Some(validator) = &self.validator {
            let mut hasher = Hashing(Sha256::new());
            let image = match checkpoint.is_stateless {
                true => Image::stateless(validator, self.config_block),
                false => Image::new(validator, self.config_block),
            };
            image.write_as(checkpoint.are_filed, &self.blocks, &mut hasher)?;
            if checkpoint.are_filed {
                self.compare_ids();
            }
            if checkpoint.hash != <[u8; 32]>::from(hasher.0.finalize()) {
                self.report.find(format!(
                    "the checkpoint at record {} is not what the blocks give",
                    checkpoint.lsn
                ));
            }
        }
        Ok(())
    }
}

impl<D: Disk> Again<'_, D> {
    /// Compares the files of ids with the blocks, as far as the checkpoint counts on them.
    fn compare_ids(&mut self) {
        let Some(folder) = &self.ids else {
            return;
        };
        let view = self.blocks.view();
        let ids = &view.index.ids;
        let compared = compare(folder, ids.len() as u64, &mut |number| ids.record(number));
        drop(view);
        if let Err(error) = compared {
            self.report.find(format!("the ids of transactions: {error}"));
        }
    }

    /// Block `number` is committed: compares the state on the disk, if it is the one behind that block.
    fn compare_state(&mut self, number: u64) {
        let is_its = |state: &mut StateDisk| state.mark().is_some_and(|mark| mark.last == number);
        let Some((state, validator)) = self.state.take_if(is_its).zip(self.validator.as_ref()) else {
            return;
        };
        let mark = Mark {
            last: validator.last,
            hash: validator.last_hash,
            commit_hash: validator.commit_hash.unwrap_or_default(),
        };
        if state.mark() != Some(mark) {
            self.report.find(format!(
                "the state on the disk is that behind a block {number} of another ledger"
            ));
        }
        let mut keys = 0;
        for (namespace, collection, key, entry) in validator.state.all_in_memory() {
            keys += 1;
            if state.get(namespace, collection, key).as_ref() != Some(entry) {
                let key = key.escape_ascii();
                self.report.find(format!(
                    "the state on the disk has something else under key {key} of {namespace} {collection}"
                ));
            }
        }
        let found = state.len() as u64;
        if found != keys {
            self.report.find(format!(
                "the state on the disk has {found} keys, the blocks give {keys}"
            ));
        }
        let (listed, expiring) = (state.all_due(), validator.state.all_due());
        if listed.len() != expiring.len() || !listed.iter().all(|due| expiring.contains(due)) {
            self.report.find(format!(
                "the state on the disk has an index of {} keys that expire, which is not that of the {} in the blocks",
                listed.len(),
                expiring.len()
            ));
        }
        self.report.state_keys = Some(keys);
        if let Some(what) = state.failure() {
            self.report.find(what.to_owned());
        }
    }
}

struct Hashing(Sha256);

impl Write for Hashing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
