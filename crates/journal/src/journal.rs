//! The write path.

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

/// A journal that is open for appending. One owner, no threads; [`GroupCommit`](crate::GroupCommit) adds them.
pub struct Journal<D: Disk> {
    pub(crate) disk: D,
    pub(crate) journal_id: u64,
    pub(crate) seed: u32,
    pub(crate) options: Options,
    /// First record of each segment; the last one is written to.
    pub(crate) segments: Vec<Lsn>,
    pub(crate) file: Arc<D::File>,
    /// Where in the last segment the next record goes, and where that segment ends.
    pub(crate) end: u64,
    pub(crate) segment_bytes: u64,
    /// The next segment: its space is taken; it has no header and no name yet.
    pub(crate) spare: Option<D::File>,
    pub(crate) group: Group,
    /// What [`Journal::begin_commit`] gave out is not back.
    pub(crate) is_under_way: bool,
    /// The memory of the group that came back last.
    pub(crate) memory: Vec<u8>,
    pub(crate) snapshots: Snapshots<D>,
    pub(crate) durable_lsn: Lsn,
    pub(crate) acknowledged: Arc<Acknowledged<D::File>>,
    pub(crate) poison: Option<Arc<str>>,
}

impl<D: Disk> Journal<D> {
    /// Makes a new journal. `journal_id` is a random number: it is mixed into every CRC.
    ///
    /// # Errors
    /// [`Error::Exists`]; [`Error::Full`]; [`Error::BadOptions`]; [`Error::Io`].
    pub fn create(disk: D, journal_id: u64, options: Options) -> Result<Journal<D>> {
        options.check()?;
        let names = disk.list().map_err(Error::io("list", "."))?;
        let ours = |name: &&String| lsn_of(name, ".log").or(lsn_of(name, ".snap")).is_some();
        if let Some(file) = names.iter().find(ours) {
            return Err(Error::Exists { file: file.clone() });
        }
        if Mark::read(&disk)?.is_some_and(|found| found.mark.lsn > 0) {
            return Err(Error::Exists { file: MARK.into() });
        }
        Self::start(disk, journal_id, options, 1)
    }

    /// Makes an empty segment for the records from `first_lsn` on, for those before which a snapshot stands. `previous`
    /// is the first record of the segment before it, 0 if there is none.
    pub(crate) fn start_after_gap(
        disk: &D,
        journal_id: u64,
        options: Options,
        first_lsn: Lsn,
        previous: Lsn,
    ) -> Result<()> {
        let file = take_space(disk, options.segment_bytes)?;
        let header = Header {
            journal_id,
            lsn: first_lsn,
            previous,
            segment_bytes: options.segment_bytes,
            keep_records: false,
            follows_gap: previous != 0,
        };
        name_segment(disk, &file, &header, &[])
    }

    /// Makes the first segment of a journal.
    fn start(disk: D, journal_id: u64, options: Options, first_lsn: Lsn) -> Result<Journal<D>> {
        // First, so that a journal without a mark is one from which the mark was taken away.
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

    /// Opens the journal on `disk`: finds its end, cuts a group behind it that was never acknowledged, makes the rest
    /// durable.
    ///
    /// # Errors
    /// [`Error::NoJournal`]; [`Error::Damaged`], [`Error::EndLost`], [`Error::Missing`], [`Error::Duplicate`],
    /// [`Error::Foreign`], [`Error::Version`], and then nothing was changed; [`Error::Io`].
    pub fn open(disk: D, options: Options) -> Result<(Journal<D>, Recovery)> {
        options.check()?;
        recover::open(disk, options)
    }

    /// [`Self::open`], or [`Self::create`] where neither segments nor snapshots are.
    ///
    /// # Errors
    /// [`Error::Emptied`] where a server has used the directory, and nothing says that it had not begun its journal;
    /// else those of the two.
    pub fn open_or_create(disk: D, journal_id: u64, options: Options) -> Result<(Journal<D>, Recovery)> {
        match Self::open(disk.clone(), options) {
            Err(Error::NoJournal) => {
                // The mark is there before the first segment, and says that nothing was acknowledged.
                if let Some(path) = disk.used_before()
                    && Mark::read(&disk)?.is_none()
                {
                    return Err(Error::Emptied { path });
                }
                let journal = Self::create(disk, journal_id, options)?;
                let recovery = Recovery {
                    created: true,
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

    /// Makes sure that records of `bytes` together ([`record_bytes`](crate::record_bytes) of each) fit into the open
    /// group and into space that the disk has given already; takes the next segment's space if need be.
    ///
    /// # Errors
    /// [`Error::Full`] and [`Error::GroupFull`] change nothing; [`Error::Poisoned`]; [`Error::Io`] poisons.
    pub fn reserve(&mut self, bytes: u64) -> Result<()> {
        self.alive()?;
        let (bytes, max_bytes) = (
            self.group.len().saturating_add(bytes),
            self.options.group_bytes_max,
        );
        if bytes > max_bytes {
            return Err(Error::GroupFull { bytes, max_bytes });
        }
        // A whole group fits into a new segment, so the one being written and one more are always enough.
        if bytes <= self.segment_bytes - self.end {
            return Ok(());
        }
        self.prepare()
    }

    /// Bytes that another group may have behind the open one, in space that the disk has given.
    ///
    /// What of a segment's end no record fits into is lost, so the rest of this segment counts only while nothing has
    /// to go into the next one.
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

    /// Puts a record into the open group and says its number. It is durable after [`Self::commit`].
    ///
    /// # Errors
    /// [`Error::RecordTooLarge`], and those of [`Self::reserve`], which it calls where the caller has not.
    pub fn append(&mut self, kind: u8, payload: &[u8]) -> Result<Lsn> {
        self.alive()?;
        check_payload(payload, self.options.record_bytes_max)?;
        self.reserve(record_bytes(payload.len()))?;
        Ok(self.group.push(self.seed, kind, payload))
    }

    /// Writes the open group and makes it durable: every record up to the returned one now is.
    ///
    /// # Errors
    /// [`Error::Io`] and from then on [`Error::Poisoned`]. The group's records may or may not be there at the next
    /// opening; no later one is.
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

    /// Gives out the open group for any thread to write by [`Commit::run`], and opens the next; the records are durable
    /// after [`Self::end_commit`]. Meanwhile nothing else is committed. A group that needs a new segment is committed
    /// at once, as by [`Self::commit`]: `None`, and so it is where there is nothing to commit.
    ///
    /// # Errors
    /// Those of [`Self::commit`].
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

    /// Takes back what [`Self::begin_commit`] gave out: every record up to the returned one is durable.
    ///
    /// # Errors
    /// Those of [`Self::commit`].
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
        // Only now, after that sync: a later segment proves that every record before it was durable.
        self.roll(group.first_lsn + u64::from(records), rest)
    }

    /// Makes the spare the last segment, with `records` in it. One sync makes its header and its records durable; only
    /// then it gets its name, and only when that is durable, too, does anyone count on it.
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

    /// Takes the space of the next segment now, if it is not taken yet: for a moment when nobody waits.
    ///
    /// # Errors
    /// Those of [`Self::reserve`].
    pub fn prepare(&mut self) -> Result<()> {
        self.alive()?;
        if self.spare.is_none() {
            let taken = take_space(&self.disk, self.options.segment_bytes);
            self.spare = Some(self.poisoning(taken)?);
        }
        Ok(())
    }

    /// The last durable record; 0 when there never was one.
    pub fn durable_lsn(&self) -> Lsn {
        self.durable_lsn
    }

    /// The number that the next record gets.
    pub fn next_lsn(&self) -> Lsn {
        self.group.next_lsn()
    }

    /// The first record there is; [`Self::next_lsn`] when there is none.
    pub fn first_lsn(&self) -> Lsn {
        self.segments.first().copied().unwrap_or(1)
    }

    /// The journal's id.
    pub fn journal_id(&self) -> u64 {
        self.journal_id
    }

    /// The durable records from `from` on, checked one by one. It does not see what is committed later.
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
    /// [`Error::NotThere`], and those of [`Snapshots::write`]; none poisons.
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

    /// The newest whole snapshot; see [`Snapshots::latest`].
    ///
    /// # Errors
    /// Those of [`Snapshots::latest`].
    pub fn latest_snapshot(&self) -> Result<LatestSnapshot<D>> {
        self.snapshots.latest()
    }

    /// First record of each segment, oldest first.
    pub fn segments(&self) -> &[Lsn] {
        &self.segments
    }

    /// Snapshots of this journal, for another thread: they need the disk only.
    pub fn snapshots(&self) -> Snapshots<D> {
        self.snapshots.clone()
    }

    /// Removes the segments that hold nothing but records up to `lsn`, and says how many. Needs a whole snapshot at
    /// `lsn` or later. Prune by the older one of the two that are kept, so that falling back to it stays possible.
    ///
    /// # Errors
    /// [`Error::NoSnapshot`], also where snapshots stand for no records ([`Options::keep_records`]);
    /// [`Error::Poisoned`]; [`Error::Io`] poisons.
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
            // Before the first: the snapshot's name may be as little durable as what is removed. After each: were two
            // removed at once, the second might go without the first, which reads as a gap.
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

    /// Ends writing with the first error but that of a full disk.
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

/// A group on its way to the disk; see [`Journal::begin_commit`].
pub struct Commit<D: Disk> {
    file: Arc<D::File>,
    name: String,
    offset: u64,
    acknowledged: Arc<Acknowledged<D::File>>,
    group: Group,
}

/// What became of it, for [`Journal::end_commit`].
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

/// A file with a segment's space, which has no place in the journal yet. Where there is no space, none is left taken.
fn take_space<D: Disk>(disk: &D, bytes: u64) -> Result<D::File> {
    let full = |error: io::Error, op| match is_full(&error) {
        true => Error::Full {
            file: SPARE.into(),
            needed_bytes: bytes,
        },
        false => Error::io(op, SPARE)(error),
    };
    let created = match disk.create(SPARE) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            // Left by an attempt that found no space, nor could be removed.
            disk.remove(SPARE).and_then(|()| disk.create(SPARE))
        }
        created => created,
    };
    let file = created.map_err(|error| full(error, "make"))?;
    match file.allocate(bytes) {
        Ok(()) => Ok(file),
        Err(error) => {
            // If that fails the next attempt removes it.
            let _ = disk.remove(SPARE);
            Err(full(error, "take space for"))
        }
    }
}

/// Writes header and records into a file with space, makes them durable, then the file's name.
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
