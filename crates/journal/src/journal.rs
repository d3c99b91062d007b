//! Write path of the journal: appending, committing, changing segments, pruning.

use crate::acknowledged::{Acknowledged, MARK, Mark};
use crate::disk::{Disk, DiskFile, is_full, write_all};
use crate::error::{Error, Result};
use crate::format::{Header, SEGMENT_HEADER_BYTES, SEGMENT_MAGIC, record_bytes, seed};
use crate::group::{Group, check_payload};
use crate::records::Records;
use crate::recover::{self, Recovery};
use crate::segment::{SPARE, lsn_of, segment_name};
use crate::snapshot::{LatestSnapshot, SnapshotWriter, Snapshots};
use crate::{Lsn, Options};
use std::io;
use std::sync::Arc;

/// Journal that is open for appending. It has one owner and no threads of its own; [`GroupCommit`](crate::GroupCommit)
/// adds a thread.
pub struct Journal<D: Disk> {
    pub(crate) disk: D,
    pub(crate) journal_id: u64,
    pub(crate) seed: u32,
    pub(crate) options: Options,
    /// Numbers of the first records of all segments. New records are appended to the last segment.
    pub(crate) segments: Vec<Lsn>,
    pub(crate) file: Arc<D::File>,
    /// Offset in bytes of the next record in the last segment; `segment_bytes` is the size of that segment.
    pub(crate) end: u64,
    pub(crate) segment_bytes: u64,
    /// File of the next segment: its space is allocated, but it has no header and no final name yet.
    pub(crate) spare: Option<D::File>,
    pub(crate) group: Group,
    /// True while the caller has a group from [`Journal::begin_commit`].
    pub(crate) is_under_way: bool,
    /// Buffer of the group that was committed last, for reuse.
    pub(crate) memory: Vec<u8>,
    pub(crate) snapshots: Snapshots<D>,
    pub(crate) durable_lsn: Lsn,
    pub(crate) acknowledged: Arc<Acknowledged<D::File>>,
    pub(crate) poison: Option<Arc<str>>,
}

/// Returns an error if the directory already contains segments or snapshots.
fn refuse_existing<D: Disk>(disk: &D) -> Result<()> {
    let names = disk.list().map_err(Error::io("list", "."))?;
    let is_of_journal = |name: &String| lsn_of(name, ".log").or(lsn_of(name, ".snap")).is_some();
    match names.into_iter().find(is_of_journal) {
        Some(file) => Err(Error::Exists { file }),
        None => Ok(()),
    }
}

impl<D: Disk> Journal<D> {
    /// Creates a new journal. `journal_id` is a random number that is part of every CRC.
    ///
    /// # Errors
    /// [`Error::Exists`]; [`Error::Full`]; [`Error::BadOptions`]; [`Error::Io`].
    pub fn create(disk: D, journal_id: u64, options: Options) -> Result<Journal<D>> {
        options.check()?;
        refuse_existing(&disk)?;
        if Mark::read(&disk)?.is_some_and(|found| found.mark.lsn > 0) {
            return Err(Error::Exists { file: MARK.into() });
        }
        Self::start(disk, journal_id, options, 1)
    }

    /// Creates the first segment of a journal, which begins with record `first_lsn`.
    fn start(disk: D, journal_id: u64, options: Options, first_lsn: Lsn) -> Result<Journal<D>> {
        // The mark is created before the segment. A journal without a mark has therefore lost it.
        let acknowledged = Acknowledged::make(&disk, journal_id, first_lsn - 1)?;
        let file = take_space(&disk, options.segment_bytes)?;
        let header = Header {
            journal_id,
            lsn: first_lsn,
            previous: 0,
            segment_bytes: options.segment_bytes,
            keep_records: false,
            follows_gap: false,
        };
        name_segment(&disk, &file, &header, &[])?;
        Ok(Journal {
            snapshots: Snapshots::new(disk.clone(), journal_id, options.keep_records),
            disk,
            journal_id,
            seed: seed(journal_id),
            options,
            segments: vec![first_lsn],
            file: Arc::new(file),
            end: SEGMENT_HEADER_BYTES,
            segment_bytes: options.segment_bytes,
            spare: None,
            group: Group::starting_at(first_lsn),
            is_under_way: false,
            memory: Vec::new(),
            durable_lsn: first_lsn - 1,
            acknowledged: Arc::new(acknowledged),
            poison: None,
        })
    }

    /// Opens the journal on `disk`: finds its end, cuts an unacknowledged group after it, and makes the rest durable.
    ///
    /// # Errors
    /// [`Error::NoJournal`]; [`Error::Damaged`], [`Error::EndLost`], [`Error::Missing`], [`Error::Duplicate`],
    /// [`Error::Foreign`], [`Error::Version`] (nothing was changed); [`Error::Io`].
    pub fn open(disk: D, options: Options) -> Result<(Journal<D>, Recovery)> {
        options.check()?;
        recover::open(disk, options, true)
    }

    /// Opens the journal like [`Self::open`], even if a repair was not confirmed. A service calls this when it repairs
    /// its own files after the files of the journal.
    ///
    /// # Errors
    /// The errors of [`Self::open`] except [`Error::Unrepaired`].
    pub fn open_unconfirmed(disk: D, options: Options) -> Result<(Journal<D>, Recovery)> {
        options.check()?;
        recover::open(disk, options, false)
    }

    /// Creates a journal that begins after record `lsn`, which must not be 0. The snapshot that `write` writes replaces
    /// all records up to `lsn`. A repair uses this function if the state is all that is left of a journal.
    ///
    /// # Errors
    /// The errors of [`Self::create`], except that an existing mark is replaced, and the errors of `write`.
    pub fn create_after(
        disk: D,
        journal_id: u64,
        options: Options,
        lsn: Lsn,
        write: impl FnOnce(&mut SnapshotWriter<'_, D::File>) -> io::Result<()>,
    ) -> Result<Journal<D>> {
        options.check()?;
        refuse_existing(&disk)?;
        let mut journal = Self::start(disk, journal_id, options, lsn + 1)?;
        journal.write_snapshot(lsn, write)?;
        Ok(journal)
    }

    /// Opens the journal with [`Self::open`], or creates one with [`Self::create`] if there are neither segments nor
    /// snapshots.
    ///
    /// # Errors
    /// [`Error::Emptied`] if a server has used the directory and no mark shows that its journal contained no record;
    /// otherwise the errors of the two functions.
    pub fn open_or_create(disk: D, journal_id: u64, options: Options) -> Result<(Journal<D>, Recovery)> {
        match Self::open(disk.clone(), options) {
            Err(Error::NoJournal) => {
                recover::refuse_emptied(&disk)?;
                let began_again = disk.used_before().is_some();
                let journal = Self::create(disk, journal_id, options)?;
                let recovery = Recovery {
                    created: true,
                    began_again,
                    journal_id,
                    first_lsn: 1,
                    is_proved: true,
                    segments: 1,
                    ..Recovery::default()
                };
                Ok((journal, recovery))
            }
            opened => opened,
        }
    }

    /// Ensures that records of `bytes` in total (the sum of their [`record_bytes`](crate::record_bytes)) fit into the
    /// open group and into allocated space. Allocates the next segment if necessary.
    ///
    /// # Errors
    /// [`Error::Full`] and [`Error::GroupFull`], which change nothing; [`Error::Poisoned`]; [`Error::Io`], which
    /// poisons the journal.
    pub fn reserve(&mut self, bytes: u64) -> Result<()> {
        self.alive()?;
        let (bytes, max_bytes) = (
            self.group.len().saturating_add(bytes),
            self.options.group_bytes_max,
        );
        if bytes > max_bytes {
            return Err(Error::GroupFull { bytes, max_bytes });
        }
        // A complete group fits into a new segment, so the current segment and the next one always have enough space.
        if bytes <= self.segment_bytes - self.end {
            return Ok(());
        }
        self.prepare()
    }

    /// Returns the number of bytes that a further group may have in allocated space, after the open group.
    ///
    /// If the rest of a segment is too short for a record, the rest remains unused. The rest of the current segment
    /// therefore counts only as long as no record has to go into the next segment.
    pub(crate) fn room_bytes(&self) -> u64 {
        let rest = (self.segment_bytes - self.end).checked_sub(self.group.len());
        let next = self.options.segment_bytes - SEGMENT_HEADER_BYTES;
        let room = match (rest, &self.spare) {
            (Some(rest), None) => rest,
            (Some(rest), Some(_)) => rest.max(next),
            (None, Some(_)) => next.saturating_sub(self.group.len()),
            (None, None) => 0,
        };
        room.min(self.options.group_bytes_max)
    }

    /// Adds a record to the open group and returns its number. The record is durable after [`Self::commit`].
    ///
    /// # Errors
    /// [`Error::RecordTooLarge`], and those of [`Self::reserve`], which this calls if the caller has not.
    pub fn append(&mut self, kind: u8, payload: &[u8]) -> Result<Lsn> {
        self.append_parts(kind, &[payload])
    }

    /// Adds a record like [`Self::append`]. The payload is given in parts, so that the caller need not join them.
    ///
    /// # Errors
    /// The errors of [`Self::append`].
    pub fn append_parts(&mut self, kind: u8, payload: &[&[u8]]) -> Result<Lsn> {
        self.alive()?;
        let payload_bytes = payload.iter().map(|part| part.len()).sum();
        check_payload(payload_bytes, self.options.record_bytes_max)?;
        self.reserve(record_bytes(payload_bytes))?;
        Ok(self.group.push(self.seed, kind, payload))
    }

    /// Writes the open group to the disk and makes it durable. Returns the number of the last durable record.
    ///
    /// # Errors
    /// [`Error::Io`], and from then on [`Error::Poisoned`]. At the next opening the group's records may or may not
    /// exist; no later record does.
    pub fn commit(&mut self) -> Result<Lsn> {
        self.alive()?;
        if self.is_under_way {
            return Err(Error::UnderWay);
        }
        let mut group = std::mem::take(&mut self.group);
        let written = self.write_group(&group).and_then(|()| match group.records {
            0 => Ok(()),
            _ => self.acknowledged.set(group.next_lsn() - 1),
        });
        group.restart(group.next_lsn());
        self.group = group;
        self.poisoning(written)?;
        self.durable_lsn = self.group.first_lsn - 1;
        Ok(self.durable_lsn)
    }

    /// Returns the open group, which any thread may write with [`Commit::run`], and opens the next group. The records
    /// are durable after [`Self::end_commit`]; the journal commits nothing else until then. Returns `None` if there is
    /// nothing to commit, or if the group needed a new segment and this call has therefore committed it, like
    /// [`Self::commit`].
    ///
    /// # Errors
    /// The errors of [`Self::commit`].
    pub fn begin_commit(&mut self) -> Result<Option<Commit<D>>> {
        if self.is_under_way || self.group.records == 0 || self.group.len() > self.segment_bytes - self.end {
            self.commit()?;
            return Ok(None);
        }
        self.alive()?;
        let mut next = Group::starting_at(self.group.next_lsn());
        next.bytes = std::mem::take(&mut self.memory);
        let commit = Commit {
            file: Arc::clone(&self.file),
            name: self.last_name(),
            offset: self.end,
            acknowledged: Arc::clone(&self.acknowledged),
            group: std::mem::replace(&mut self.group, next),
        };
        self.end += commit.group.len();
        self.is_under_way = true;
        Ok(Some(commit))
    }

    /// Takes back a group that [`Self::begin_commit`] returned. Returns the number of the last durable record.
    ///
    /// # Errors
    /// The errors of [`Self::commit`].
    pub fn end_commit(&mut self, committed: Committed) -> Result<Lsn> {
        let Committed { mut group, written } = committed;
        let last_lsn = group.next_lsn() - 1;
        self.is_under_way = false;
        group.bytes.clear();
        self.memory = group.bytes;
        self.poisoning(written)?;
        self.durable_lsn = last_lsn;
        Ok(last_lsn)
    }

    fn write_group(&mut self, group: &Group) -> Result<()> {
        let (split, records) = group.fitting(self.segment_bytes - self.end);
        let (here, rest) = group.bytes.split_at(split);
        if !here.is_empty() {
            let name = self.last_name();
            write_durably(&*self.file, &name, self.end, here)?;
            self.end += here.len() as u64;
        }
        if rest.is_empty() {
            return Ok(());
        }
        // This call must follow the sync above, because a later segment proves that every record before it was durable.
        self.roll(group.first_lsn + u64::from(records), rest)
    }

    /// Makes the preallocated file the last segment, with `records` in it. One sync makes its header and records
    /// durable. Only then does the file get its name, and only a durable name makes it a part of the journal.
    fn roll(&mut self, first_lsn: Lsn, records: &[u8]) -> Result<()> {
        let spare = match self.spare.take() {
            Some(spare) => spare,
            None => take_space(&self.disk, self.options.segment_bytes)?,
        };
        let header = Header {
            journal_id: self.journal_id,
            lsn: first_lsn,
            previous: self.segments.last().copied().unwrap_or(0),
            follows_gap: false,
            segment_bytes: self.options.segment_bytes,
            keep_records: false,
        };
        name_segment(&self.disk, &spare, &header, records)?;
        self.segments.push(first_lsn);
        self.file = Arc::new(spare);
        self.segment_bytes = self.options.segment_bytes;
        self.end = SEGMENT_HEADER_BYTES + records.len() as u64;
        Ok(())
    }

    /// Allocates the next segment now if it is not allocated yet. Callers do this when no request is waiting.
    ///
    /// # Errors
    /// The errors of [`Self::reserve`].
    pub fn prepare(&mut self) -> Result<()> {
        self.alive()?;
        if self.spare.is_none() {
            let taken = take_space(&self.disk, self.options.segment_bytes);
            self.spare = Some(self.poisoning(taken)?);
        }
        Ok(())
    }

    /// Returns the number of the last durable record; 0 if there has never been one.
    pub fn durable_lsn(&self) -> Lsn {
        self.durable_lsn
    }

    /// Returns the number of the next record.
    pub fn next_lsn(&self) -> Lsn {
        self.group.next_lsn()
    }

    /// Returns the number of the first record; [`Self::next_lsn`] if there is none.
    pub fn first_lsn(&self) -> Lsn {
        self.segments.first().copied().unwrap_or(1)
    }

    /// Returns the journal's id.
    pub fn journal_id(&self) -> u64 {
        self.journal_id
    }

    /// Returns a reader of the durable records, beginning with record `from`; it checks each record. It does not read
    /// records that are committed later.
    ///
    /// # Errors
    /// [`Error::Pruned`]; [`Error::NotThere`] for more than `durable_lsn() + 1`; [`Error::Io`].
    pub fn records(&self, from: Lsn) -> Result<Records<D>> {
        let (from, durable, first) = (from.max(1), self.durable_lsn, self.first_lsn());
        if from < first {
            return Err(Error::Pruned { lsn: from, first });
        }
        if from > durable + 1 {
            return Err(Error::NotThere { lsn: from, durable });
        }
        Records::new(
            self.disk.clone(),
            self.journal_id,
            self.segments.clone(),
            from,
            durable,
        )
    }

    /// Writes a snapshot of the state after record `lsn`, which must be durable; see [`Snapshots::write`].
    ///
    /// # Errors
    /// [`Error::NotThere`], and those of [`Snapshots::write`]; no error poisons the journal.
    pub fn write_snapshot(
        &mut self,
        lsn: Lsn,
        fill: impl FnOnce(&mut SnapshotWriter<'_, D::File>) -> io::Result<()>,
    ) -> Result<()> {
        let durable = self.durable_lsn;
        if lsn > durable {
            return Err(Error::NotThere { lsn, durable });
        }
        self.snapshots.write(lsn, fill)
    }

    /// Returns the newest intact snapshot; see [`Snapshots::latest`].
    ///
    /// # Errors
    /// The errors of [`Snapshots::latest`].
    pub fn latest_snapshot(&self) -> Result<LatestSnapshot<D>> {
        self.snapshots.latest()
    }

    /// Returns the first record of each segment, oldest first.
    pub fn segments(&self) -> &[Lsn] {
        &self.segments
    }

    /// Returns a handle for the snapshots of this journal. The handle needs only the disk, so another thread may use
    /// it.
    pub fn snapshots(&self) -> Snapshots<D> {
        self.snapshots.clone()
    }

    /// Removes the segments that contain only records up to `lsn`, and returns their number. An intact snapshot of
    /// `lsn` or a later record must exist. Pass the record of the older of the two kept snapshots, so that this
    /// snapshot remains usable if the newer one is damaged.
    ///
    /// # Errors
    /// [`Error::NoSnapshot`], also where snapshots replace no records ([`Options::keep_records`]);
    /// [`Error::Poisoned`]; [`Error::Io`], which poisons the journal.
    pub fn prune(&mut self, lsn: Lsn) -> Result<usize> {
        self.alive()?;
        if !self.snapshots.cover(lsn)? {
            return Err(Error::NoSnapshot { lsn });
        }
        let pruned = self.remove_up_to(lsn);
        self.poisoning(pruned)
    }

    fn remove_up_to(&mut self, lsn: Lsn) -> Result<usize> {
        let mut removed = 0;
        while let [oldest, next, ..] = self.segments[..] {
            if next > lsn.saturating_add(1) {
                break;
            }
            // Sync before the first removal, because the name of the snapshot may not be durable yet, and after each
            // removal: if two segments were removed at once, a power cut could restore only the older one, which looks
            // like a gap.
            if removed == 0 {
                self.disk.sync_dir().map_err(Error::io("sync", "."))?;
            }
            let name = segment_name(oldest);
            self.disk.remove(&name).map_err(Error::io("remove", &name))?;
            self.disk.sync_dir().map_err(Error::io("sync", "."))?;
            self.segments.remove(0);
            removed += 1;
        }
        Ok(removed)
    }

    pub(crate) fn alive(&self) -> Result<()> {
        match &self.poison {
            Some(cause) => Err(Error::Poisoned { cause: cause.clone() }),
            None => Ok(()),
        }
    }

    /// Ends writing if the result is an error, except the error of a full disk.
    fn poisoning<T>(&mut self, result: Result<T>) -> Result<T> {
        if let Err(error) = &result
            && !matches!(error, Error::Full { .. })
        {
            self.poison = Some(error.to_string().into());
        }
        result
    }

    fn last_name(&self) -> String {
        segment_name(self.segments.last().copied().unwrap_or(1))
    }
}

/// Group that is being written; see [`Journal::begin_commit`].
pub struct Commit<D: Disk> {
    file: Arc<D::File>,
    name: String,
    offset: u64,
    acknowledged: Arc<Acknowledged<D::File>>,
    group: Group,
}

/// Result of [`Commit::run`], for [`Journal::end_commit`].
#[derive(Debug)]
pub struct Committed {
    group: Group,
    written: Result<()>,
}

impl<D: Disk> Commit<D> {
    /// Writes the group and makes it durable. Waits for the disk.
    pub fn run(self) -> Committed {
        let written = write_durably(&*self.file, &self.name, self.offset, &self.group.bytes)
            .and_then(|()| self.acknowledged.set(self.group.next_lsn() - 1));
        Committed {
            written,
            group: self.group,
        }
    }
}

fn write_durably(file: &impl DiskFile, name: &str, offset: u64, bytes: &[u8]) -> Result<()> {
    write_all(file, offset, bytes).map_err(Error::io("write", name))?;
    file.sync_data().map_err(Error::io("sync", name))
}

/// Creates a file of the size of a segment, which is not part of the journal yet. If the disk has too little space, the
/// function frees what it has allocated.
pub(crate) fn take_space<D: Disk>(disk: &D, bytes: u64) -> Result<D::File> {
    let full = |error: io::Error, op| match is_full(&error) {
        true => Error::Full {
            file: SPARE.into(),
            needed_bytes: bytes,
        },
        false => Error::io(op, SPARE)(error),
    };
    let created = match disk.create(SPARE) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            // An earlier attempt found too little space and could not remove the file.
            disk.remove(SPARE).and_then(|()| disk.create(SPARE))
        }
        created => created,
    };
    let file = created.map_err(|error| full(error, "make"))?;
    match file.allocate(bytes) {
        Ok(()) => Ok(file),
        Err(error) => {
            // If the removal fails, the next attempt removes the file.
            let _ = disk.remove(SPARE);
            Err(full(error, "take space for"))
        }
    }
}

/// Writes the header and records into a preallocated file and makes them durable, then renames it and makes the name
/// durable.
fn name_segment<D: Disk>(disk: &D, file: &D::File, header: &Header, records: &[u8]) -> Result<()> {
    let name = segment_name(header.lsn);
    let mut bytes = Vec::with_capacity(SEGMENT_HEADER_BYTES as usize + records.len());
    bytes.extend_from_slice(&header.encode(SEGMENT_MAGIC));
    bytes.extend_from_slice(records);
    write_all(file, 0, &bytes).map_err(Error::io("write", &name))?;
    file.sync_data().map_err(Error::io("sync", &name))?;
    disk.rename(SPARE, &name).map_err(Error::io("name", &name))?;
    disk.sync_dir().map_err(Error::io("sync", "."))
}
