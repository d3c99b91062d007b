//! Verification of a whole ledger: validates every block again and compares the results.

use super::base::{SnapshotBase, is_base};
use super::error::LedgerError;
use super::identities::Identities;
use super::ids::{IdsAt, compare};
use super::image::{Image, LAYOUT, LAYOUT_FILED, LAYOUT_STATELESS, LAYOUT_WITHOUT_EXPIRY};
use super::index::{Entry, Index};
use super::open::StateStore;
use super::record::{Assembler, BlockRecords, Stored, kind};
use super::splice;
use super::store::{Blocks, LedgerView};
use crate::block::Block;
use crate::code::TxCode;
use crate::proto::Arena;
use crate::state::{Disk as StateDisk, DurableMark, State};
use crate::validate::{Options, Validator};
use lineside_journal::{Disk, Error as JournalError, Lsn, Reader, verify};
use sha2::{Digest, Sha256};
use std::io::{self, Read, Write};
use std::path::PathBuf;

/// Maximum number of findings that a report describes; further findings are only counted.
const FINDINGS_MAX: usize = 1_000;

/// Result of verifying a ledger.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Number of the last block of the snapshot with which the ledger begins; its files were checked. `None`: the
    /// ledger begins with the genesis block.
    pub joined_after: Option<u64>,
    /// Number of blocks that were validated.
    pub blocks: u64,
    /// Number of transactions in the validated blocks.
    pub transactions: u64,
    /// Total size of the validated blocks as the orderer delivered them, in bytes.
    pub block_bytes: u64,
    /// Total size of the journal records of the validated blocks, in bytes.
    pub record_bytes: u64,
    /// Number of bytes after the last complete group: a commit that was never acknowledged.
    pub unfinished_bytes: u64,
    /// Number of checkpoints that were compared with the blocks.
    pub checkpoints: u64,
    /// Number of keys that were compared with the state on the disk, if there is one.
    pub state_keys: Option<u64>,
    /// True if the state on the disk was skipped because another process has it open.
    pub state_in_use: bool,
    /// Header hash of the last block.
    pub last_hash: Option<[u8; 32]>,
    /// Commit hash of the last block.
    pub commit_hash: Option<[u8; 32]>,
    /// Descriptions of the faults that were found, at most 1,000.
    pub findings: Vec<String>,
    /// Number of all faults, including those that are not described.
    pub wrong: u64,
}

impl Report {
    /// Returns whether no fault was found.
    pub fn is_sound(&self) -> bool {
        self.wrong == 0
    }

    fn add_finding(&mut self, what: String) {
        self.wrong += 1;
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(what);
        }
    }
}

/// Reads every byte of a ledger without changing it, and validates every block up to the first damage. Compares codes,
/// commit hashes, header hashes, the newest checkpoint, and every key of the state on the disk, if there is one. Calls
/// `each` with the number of each block after the block was validated.
///
/// # Errors
/// [`LedgerError::Empty`], or an error of the disk. Faults of the ledger are in the report.
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
        StateStore::Disk(directory) => match StateDisk::open_read_only(directory) {
            // A state without a mark is rebuilt at the next start, so it is not compared.
            Ok(state) => Some(state).filter(|state| state.durable_mark().is_some()),
            Err(error) => {
                report.state_in_use = error.kind() == io::ErrorKind::ResourceBusy;
                if !report.state_in_use {
                    report.add_finding(error.to_string());
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
        report.add_finding(what);
    }
    if journal.first_lsn != 1 {
        report.add_finding(format!(
            "the journal begins with record {}, not with record 1: files at its beginning are missing",
            journal.first_lsn
        ));
        return Ok(report);
    }
    let reader = match Reader::open(disk.clone()) {
        Ok(reader) if journal.is_sound() => reader,
        Err(error) if journal.is_sound() => {
            report.add_finding(error.to_string());
            return Ok(report);
        }
        _ => Reader::open_before_damage(disk.clone(), &journal),
    };
    let mut reverification = Reverification::new(&reader, options, state, report)?;
    reverification.ids = ids;
    let ended = reverification.run(&reader, each);
    let mut report = reverification.report;
    match ended {
        Ok(()) => {}
        Err(error @ LedgerError::Io(_)) => return Err(error),
        Err(error) => report.add_finding(error.to_string()),
    }
    Ok(report)
}

struct Reverification<'o, D: Disk> {
    options: &'o Options,
    report: Report,
    blocks: Blocks<D>,
    validator: Option<Validator>,
    config_block: u64,
    /// The newest checkpoint; `None` once it was compared, or if there is none.
    checkpoint: Option<Checkpoint>,
    /// The state on the disk; `None` once it was compared, or if there is none.
    state: Option<StateDisk>,
    /// The folder of the index of transaction ids, if ids may be in files.
    ids: Option<PathBuf>,
}

#[derive(Clone, Copy)]
struct Checkpoint {
    /// Last record that the checkpoint covers.
    lsn: Lsn,
    /// True if the state is outside of the checkpoint.
    is_stateless: bool,
    /// True if ids and codes are outside of the checkpoint, in files.
    are_filed: bool,
    /// Hash of the checkpoint's content.
    hash: [u8; 32],
}

impl Checkpoint {
    fn read(lsn: Lsn, mut from: impl Read) -> io::Result<Self> {
        let mut hasher = Hashing(Sha256::new());
        // The first 12 bytes are the length of the image and the layout number.
        let mut head = Vec::new();
        from.by_ref().take(12).read_to_end(&mut head)?;
        // The image that a version without expiry wrote differs only in its layout number, so that number is replaced
        // before hashing.
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

impl<'o, D: Disk> Reverification<'o, D> {
    fn new(
        reader: &Reader<D>,
        options: &'o Options,
        state: Option<StateDisk>,
        mut report: Report,
    ) -> Result<Self, LedgerError> {
        let view = LedgerView {
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
            Err(error) => report.add_finding(error.to_string()),
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
            self.block(&block_records, &stored)?;
            self.compare_checkpoint(block_records.end)?;
            self.compare_state(stored.number);
            each(stored.number);
        }
        // A checkpoint that covers records after the first damage cannot be compared, and is not reported.
        let unread_checkpoint = self.checkpoint.filter(|of| of.lsn <= reader.durable_lsn());
        if let Some(Checkpoint { lsn, .. }) = unread_checkpoint {
            self.report.add_finding(format!(
                "the checkpoint at record {lsn} is not at the end of a block"
            ));
        }
        if let Some(mark) = self.state.as_ref().and_then(StateDisk::durable_mark) {
            self.report.add_finding(format!(
                "the last block of the state on the disk is {}, which is not among the validated blocks",
                mark.last
            ));
        }
        Ok(())
    }

    /// Reads the snapshot with which the ledger begins, if there is one, and checks all hashes in it.
    fn begin_at_snapshot(
        &mut self,
        reader: &Reader<D>,
        each: &mut dyn FnMut(u64),
    ) -> Result<(), LedgerError> {
        let Some(base) = SnapshotBase::find(reader)? else {
            return Ok(());
        };
        let (index, standing) = base.load(reader, State::default(), Index::default())?;
        let (number, end) = (base.head.last, index.base.map_or(0, |base| base.end));
        let resumed = Validator::resume_under(standing, &base.config, self.options.clone());
        self.validator = Some(resumed.map_err(|source| LedgerError::Validation { number, source })?);
        self.config_block = base.config_block;
        let view = LedgerView {
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

    fn block(&mut self, records: &BlockRecords, stored: &Stored) -> Result<(), LedgerError> {
        let number = stored.number;
        let failed = |source| LedgerError::Validation { number, source };
        let (codes, hash, commit_hash) = match &mut self.validator {
            None => {
                if number != 0 {
                    return Err(LedgerError::block(0, "the block is missing in the ledger"));
                }
                let started = Validator::new(&stored.bytes, self.options.clone()).map_err(failed)?;
                let hash = started.last_hash();
                self.validator = Some(started);
                (vec![TxCode::Valid as u8], hash, None)
            }
            Some(validator) => {
                let validated = validator.validate(&stored.bytes).map_err(failed)?;
                let recomputed = (validated.filter(), validated.hash, validated.commit_hash);
                if validated.config.is_some() {
                    self.config_block = number;
                }
                validator.commit(validated);
                recomputed
            }
        };
        for (index, (now, then)) in codes.iter().zip(&stored.codes).enumerate() {
            if now != then {
                let name = |code: u8| TxCode::from_number(code).map_or("no code", TxCode::name);
                let (now, then) = (name(*now), name(*then));
                self.report.add_finding(format!(
                    "block {number}: transaction {index} has the code {then} in the ledger, but validation gives {now}"
                ));
            }
        }
        if hash != stored.hash {
            self.report.add_finding(format!(
                "block {number}: the header hash that validation gives differs from the one in the ledger"
            ));
        }
        if commit_hash != stored.commit_hash {
            self.report.add_finding(format!(
                "block {number}: the commit hash that validation gives differs from the one in the ledger"
            ));
        }
        let arena = Arena::new();
        let block = Block::read(&stored.bytes, &arena).map_err(failed)?;
        self.report.blocks += 1;
        self.report.transactions += stored.codes.len() as u64;
        self.report.block_bytes += stored.bytes.len() as u64;
        self.report.last_hash = Some(hash);
        self.report.commit_hash = commit_hash;
        let entry = Entry {
            begin: records.begin,
            end: records.end,
            offset: records.offset,
            hash,
            codes,
            ids: splice::ids(&block),
        };
        self.blocks.push(entry, commit_hash);
        Ok(())
    }

    /// Compares the checkpoint that covers records up to `end`, if there is one.
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
                self.report.add_finding(format!(
                    "the checkpoint at record {} differs from the content of the blocks",
                    checkpoint.lsn
                ));
            }
        }
        Ok(())
    }
}

impl<D: Disk> Reverification<'_, D> {
    /// Compares the files of transaction ids with the blocks, as far as the checkpoint depends on them.
    fn compare_ids(&mut self) {
        let Some(folder) = &self.ids else {
            return;
        };
        let view = self.blocks.view();
        let ids = &view.index.ids;
        let compared = compare(folder, ids.len() as u64, &mut |number| ids.record(number));
        drop(view);
        if let Err(error) = compared {
            self.report
                .add_finding(format!("the index of transaction ids: {error}"));
        }
    }

    /// Compares the state on the disk with the validator's state, if the last block of the state on the disk is
    /// `number`, which was just committed.
    fn compare_state(&mut self, number: u64) {
        let is_its = |state: &mut StateDisk| state.durable_mark().is_some_and(|mark| mark.last == number);
        let Some((state, validator)) = self.state.take_if(is_its).zip(self.validator.as_ref()) else {
            return;
        };
        let mark = DurableMark {
            last: validator.last,
            hash: validator.last_hash,
            commit_hash: validator.commit_hash.unwrap_or_default(),
        };
        if state.durable_mark() != Some(mark) {
            self.report.add_finding(format!(
                "the state on the disk belongs to another ledger: the hashes of block {number} in the state differ \
                 from those in the ledger"
            ));
        }
        let mut keys = 0;
        for (namespace, collection, key, entry) in validator.state.all_in_memory() {
            keys += 1;
            if state.get(namespace, collection, key).as_ref() != Some(entry) {
                let key = key.escape_ascii();
                self.report.add_finding(format!(
                    "the state on the disk has another entry for key {key} of {namespace} {collection} than the \
                         blocks give"
                ));
            }
        }
        let key_count = state.len() as u64;
        if key_count != keys {
            self.report.add_finding(format!(
                "the state on the disk has {key_count} keys, but the blocks give {keys} keys"
            ));
        }
        let (listed, expiring) = (state.all_due(), validator.state.all_due());
        if listed.len() != expiring.len() || !listed.iter().all(|due| expiring.contains(due)) {
            self.report.add_finding(format!(
                "the expiry index of the state on the disk ({} keys) differs from the index that the blocks give ({} \
                 keys)",
                listed.len(),
                expiring.len()
            ));
        }
        self.report.state_keys = Some(keys);
        if let Some(what) = state.failure() {
            self.report.add_finding(what.to_owned());
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
