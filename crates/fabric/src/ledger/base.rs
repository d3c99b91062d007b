//! The base of a ledger that begins with a snapshot: the snapshot's files, in the first records of the journal.
//!
//! The files are stored unchanged. If no checkpoint is usable, the state after the snapshot's last block is read from
//! them again, and every SHA-256 is checked.

use super::error::LedgerError;
use super::index::Index;
use super::record::kind;
use super::redo::ValidatorState;
use crate::code::TxCode;
use crate::expiry::LifetimeCache;
use crate::snapshot::{
    ADDITIONAL, Contents, FILES, Files, ReadMore, SIGNABLE, SnapshotError, SnapshotHead, read,
};
use crate::state::{DurableMark, Entry, Height, State, TxId, TxIds, Update, Updates};
use lineside_journal::{Disk, Error as JournalError, Journal, Lsn, Reader, Records};
use std::io::{self, ErrorKind, Read};

/// Version of the layout of the records.
const LAYOUT: u8 = 1;
/// Number of bytes of a record before the part of a file.
const PART_BYTES: usize = 2;
/// Size of keys and values, in bytes, that are loaded into a state in one step.
const LOAD_BYTES: usize = 4 << 20;

/// Returns the names of the files, in the order of the records. A record holds the index of its file in this list.
fn names() -> impl Iterator<Item = &'static str> {
    [SIGNABLE, ADDITIONAL].into_iter().chain(FILES)
}

/// Returns whether a record of this kind belongs to a base.
pub(crate) fn is_base(of: u8) -> bool {
    matches!(of, kind::BASE | kind::BASE_END)
}

/// Base of a ledger: the snapshot that its first block follows.
#[derive(Clone, Debug)]
pub(crate) struct SnapshotBase {
    pub head: SnapshotHead,
    /// The `ConfigEnvelope` in force after the last block of the snapshot.
    pub config: Vec<u8>,
    /// Number of the block that set it.
    pub config_block: u64,
}

/// Appends the files of a snapshot to an empty journal and makes them durable. Files that the head does not name are
/// skipped. Calls `each` after every commit of the journal.
pub(crate) fn write<D: Disk>(
    journal: &mut Journal<D>,
    record_bytes_max: usize,
    files: &mut impl Files,
    head: &SnapshotHead,
    each: &mut dyn FnMut(),
) -> Result<(), LedgerError> {
    let part_bytes = record_bytes_max.saturating_sub(PART_BYTES).max(1) as u64;
    let mut append = |of: u8, payload: &[u8]| -> Result<(), LedgerError> {
        let appended = match journal.append(of, payload) {
            Err(JournalError::GroupFull { .. }) => {
                journal.commit()?;
                each();
                journal.append(of, payload)
            }
            appended => appended,
        };
        appended?;
        Ok(())
    };
    for (number, name) in (0u8..).zip(names()) {
        if FILES.contains(&name) && !head.files.contains_key(name) {
            continue;
        }
        let failed = |error: io::Error| LedgerError::Snapshot(SnapshotError::io(name, &error));
        let mut from = files.open(name).map_err(failed)?;
        loop {
            let mut payload = vec![LAYOUT, number];
            let read = from
                .by_ref()
                .take(part_bytes)
                .read_to_end(&mut payload)
                .map_err(failed)?;
            if read == 0 {
                break;
            }
            append(kind::BASE, &payload)?;
        }
    }
    append(kind::BASE_END, &[LAYOUT])?;
    journal.commit()?;
    each();
    Ok(())
}

/// Reader of the files of the snapshot with which the ledger begins (the base), which are in the journal.
struct RecordedFiles<D: Disk> {
    records: Records<D>,
    /// Index of the file that is being read.
    file: u8,
    /// Part of a file in the record that was read last. The first `done` bytes of it were already returned.
    part: Vec<u8>,
    done: usize,
    /// Index of the file that `part` belongs to, if that file is not opened yet.
    next: Option<u8>,
    /// The last record of the base, once it was read.
    end: Option<Lsn>,
    last: Lsn,
}

impl<D: Disk> RecordedFiles<D> {
    fn new(reader: &Reader<D>) -> Result<Self, LedgerError> {
        Ok(Self {
            records: reader.records(1)?,
            file: 0,
            part: Vec::new(),
            done: 0,
            next: None,
            end: None,
            last: 0,
        })
    }

    /// Reads the next record if the last one is consumed. Returns `false` at the end of the base.
    fn fill(&mut self) -> io::Result<bool> {
        if self.end.is_some() {
            return Ok(false);
        }
        if self.done < self.part.len() || self.next.is_some() {
            return Ok(true);
        }
        let wrong = |what: &str| io::Error::new(ErrorKind::InvalidData, what);
        let record = self
            .records
            .next()
            .map_err(|error| io::Error::other(error.to_string()))?;
        let record = record.ok_or_else(|| {
            wrong("the snapshot in the ledger is incomplete; join again into a new directory")
        })?;
        self.last = record.lsn;
        match (record.kind, record.payload) {
            (kind::BASE, [LAYOUT, place, part @ ..]) => {
                self.part.clear();
                self.part.extend_from_slice(part);
                self.done = 0;
                if *place != self.file {
                    self.next = Some(*place);
                }
                Ok(true)
            }
            (kind::BASE_END, [LAYOUT]) => {
                self.end = Some(record.lsn);
                Ok(false)
            }
            _ => Err(wrong(
                "a record of the snapshot in the ledger has an unknown form; join again into a new directory",
            )),
        }
    }
}

impl<D: Disk> Files for RecordedFiles<D> {
    fn open<'f>(&'f mut self, name: &str) -> io::Result<Box<dyn Read + 'f>> {
        let place = (0u8..).zip(names()).find(|(_, known)| *known == name);
        let (place, _) = place.ok_or_else(|| io::Error::from(ErrorKind::NotFound))?;
        if !self.fill()? || self.next.unwrap_or(self.file) != place {
            return Err(ErrorKind::NotFound.into());
        }
        (self.file, self.next) = (place, None);
        Ok(Box::new(self))
    }
}

impl<D: Disk> Read for RecordedFiles<D> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if !self.fill()? || self.next.is_some() {
            return Ok(0);
        }
        let rest = self.part.get(self.done..).unwrap_or_default();
        let count = rest.len().min(into.len());
        if let (Some(to), Some(from)) = (into.get_mut(..count), rest.get(..count)) {
            to.copy_from_slice(from);
        }
        self.done += count;
        Ok(count)
    }
}

impl SnapshotBase {
    /// Finds the base of a ledger; `None` if the ledger begins with the genesis block or is empty.
    pub fn find<D: Disk>(reader: &Reader<D>) -> Result<Option<Self>, LedgerError> {
        if reader.durable_lsn() == 0 {
            return Ok(None);
        }
        let is_one = reader
            .records(1)?
            .next()?
            .is_some_and(|record| is_base(record.kind));
        if !is_one {
            return Ok(None);
        }
        let mut files = RecordedFiles::new(reader)?;
        let head = SnapshotHead::read(&mut files)?;
        let (config, config_block) = config(&mut files, &head)?;
        Ok(Some(Self {
            head,
            config,
            config_block,
        }))
    }

    /// Returns the mark (number and hashes) of the snapshot's last block.
    pub fn durable_mark(&self) -> DurableMark {
        durable_mark(&self.head)
    }

    /// Loads the snapshot: the ids into `index`, which is empty, and the keys into `state`, unless `state` already has
    /// them.
    pub fn load<D: Disk>(
        &self,
        reader: &Reader<D>,
        state: State,
        index: Index,
    ) -> Result<(Index, ValidatorState), LedgerError> {
        let mut files = RecordedFiles::new(reader)?;
        let head = SnapshotHead::read(&mut files)?;
        let (mut index, standing) = load(&mut files, &head, state, index)?;
        if files
            .fill()
            .map_err(|error| SnapshotError::io(SIGNABLE, &error))?
            || files.end.is_none()
        {
            return Err(SnapshotError::new(
                SIGNABLE,
                "the ledger contains a snapshot file that this file does not name",
            )
            .into());
        }
        index.set_base(head.last, head.last_hash, files.last);
        Ok((index, standing))
    }
}

/// Loads a snapshot: the ids into `index`, which is empty, and the keys into `state`, unless `state` already has them.
/// All hashes are checked.
pub(crate) fn load(
    files: &mut impl Files,
    head: &SnapshotHead,
    mut state: State,
    index: Index,
) -> Result<(Index, ValidatorState), LedgerError> {
    let mut loading = StateLoader {
        has_state: state.has(head.last),
        state: &mut state,
        updates: Updates::default(),
        bytes: 0,
        lives: LifetimeCache::default(),
        index,
    };
    read(files, head, &mut loading)?;
    let failed = |what| LedgerError::State { what };
    loading.flush().map_err(failed)?;
    let (index, has_state) = (loading.index, loading.has_state);
    if !has_state {
        state.apply(durable_mark(head), Updates::default());
        state.write_durable(head.last + 1).map_err(failed)?;
    }
    let mut ids = TxIds::default();
    // If the ids are in files, the validator looks them up in the files and needs no copy in memory.
    if index.ids.on_disk().is_none() {
        index.all_ids().for_each(|id| ids.insert(id));
    }
    let standing = ValidatorState {
        channel: head.channel.clone(),
        last: head.last,
        last_hash: head.last_hash,
        commit_hash: head.commit_hash,
        state,
        ids,
    };
    Ok((index, standing))
}

/// Returns the configuration of a snapshot, and the number of the block that set it.
pub(crate) fn config(files: &mut impl Files, head: &SnapshotHead) -> Result<(Vec<u8>, u64), LedgerError> {
    let mut config = OnlyConfig::default();
    read(files, head, &mut config)?;
    Ok(config.0.unwrap_or_default())
}

/// Returns the mark (number and hashes) of the snapshot's last block.
fn durable_mark(head: &SnapshotHead) -> DurableMark {
    DurableMark {
        last: head.last,
        hash: head.last_hash,
        commit_hash: head.commit_hash.unwrap_or_default(),
    }
}

/// Receiver of a snapshot's content that keeps only the channel configuration.
#[derive(Default)]
struct OnlyConfig(Option<(Vec<u8>, u64)>);

impl Contents for OnlyConfig {
    fn config(&mut self, envelope: &[u8], version: Height) -> Result<ReadMore, String> {
        self.0 = Some((envelope.to_vec(), version.block));
        Ok(ReadMore::Enough)
    }

    fn key(&mut self, _: &str, _: &str, _: &[u8], _: Entry) -> Result<(), String> {
        Err("a key precedes the channel's configuration".to_owned())
    }

    fn id(&mut self, _: TxId) -> Result<(), String> {
        Ok(())
    }
}

/// Receiver of a snapshot's content that loads everything into a state and an index.
struct StateLoader<'s> {
    state: &'s mut State,
    has_state: bool,
    /// Keys that are not in the state yet, and their approximate size in bytes.
    updates: Updates,
    bytes: usize,
    /// Cache of the `blockToLive` of each collection that was read so far.
    lives: LifetimeCache,
    index: Index,
}

impl StateLoader<'_> {
    fn flush(&mut self) -> Result<(), String> {
        self.bytes = 0;
        self.state.load(std::mem::take(&mut self.updates))
    }

    /// Returns the `blockToLive` of a collection; `None` if its keys do not expire. In a snapshot, all keys of the
    /// public state come before the first key of a collection, so a flush puts all chaincode definitions into the
    /// state.
    fn lifetime(&mut self, namespace: &str, collection: &str) -> Result<Option<u64>, String> {
        if !self.lives.has(namespace) {
            self.flush()?;
        }
        let lives = self.lives.of(namespace, self.state);
        let lives = lives.map_err(|stop| stop.to_string())?;
        self.state.check()?;
        Ok(lives.get(collection).copied())
    }
}

impl Contents for StateLoader<'_> {
    fn config(&mut self, _: &[u8], _: Height) -> Result<ReadMore, String> {
        Ok(ReadMore::More)
    }

    fn key(&mut self, namespace: &str, collection: &str, key: &[u8], entry: Entry) -> Result<(), String> {
        if self.has_state {
            return Ok(());
        }
        self.bytes += key.len() + entry.value.len();
        let update = Update {
            value: Some((entry.value, entry.validation_parameter)),
            version: entry.version,
        };
        if !collection.is_empty()
            && let Some(life) = self.lifetime(namespace, collection)?
        {
            self.updates.set_life(namespace, collection, life);
        }
        self.updates.put(namespace, collection, key, update);
        match self.bytes >= LOAD_BYTES {
            true => self.flush(),
            false => Ok(()),
        }
    }

    fn id(&mut self, id: TxId) -> Result<(), String> {
        if !self.index.has_room(1) {
            return Err("the snapshot has more transaction ids than the limit".to_owned());
        }
        if self.index.number_of(&id).is_some() {
            return Err("a transaction id occurs twice".to_owned());
        }
        // A snapshot contains neither the block nor the code of the transaction.
        self.index.push_transaction(TxCode::NotValidated as u8, Some(id));
        Ok(())
    }
}
