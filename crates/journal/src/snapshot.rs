//! Snapshots: the state after a record, each in its own file.

use crate::Lsn;
use crate::disk::{Disk, DiskFile, is_full, read_full, write_all};
use crate::error::{Error, Result};
use crate::format::{BadHeader, Header, SEGMENT_HEADER_BYTES, SNAPSHOT_MAGIC, long, word};
use crate::segment::lsn_of;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Size of a chunk's header in bytes.
const CHUNK_HEADER: usize = 16;
/// Maximum number of data bytes in a chunk.
const CHUNK_DATA: usize = 1 << 18;
/// Size of the last chunk in bytes: it contains no data but the total length.
const FOOTER: usize = CHUNK_HEADER + 8;
/// Number of snapshots that are kept.
const KEPT: usize = 2;

pub(crate) fn snapshot_name(lsn: Lsn) -> String {
    format!("{lsn:020}.snap")
}

/// Snapshots of a journal. The handle is cheap to clone. One thread at a time may use it, also another thread than the
/// journal's.
#[derive(Clone, Debug)]
pub struct Snapshots<D: Disk> {
    disk: D,
    journal_id: u64,
    keep_records: bool,
    /// Newest snapshot that this process wrote or read completely; 0 if none. Clones share it.
    whole_lsn: Arc<AtomicU64>,
}

impl<D: Disk> Snapshots<D> {
    /// Creates a handle. If `keep_records` is true, the snapshots that it writes replace no records.
    pub(crate) fn new(disk: D, journal_id: u64, keep_records: bool) -> Snapshots<D> {
        Snapshots {
            disk,
            journal_id,
            keep_records,
            whole_lsn: Arc::default(),
        }
    }

    /// Returns a read-only handle for the snapshots on a disk whose journal is not open.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn look(disk: D) -> Result<Snapshots<D>> {
        let names = disk.list().map_err(Error::io("list", "."))?;
        let journal_id = crate::survey::journal_id(&disk, &names)?;
        Ok(Self::new(disk, journal_id, false))
    }

    /// Returns whether an intact snapshot replaces the records up to `lsn`. Reads a snapshot only if no known intact
    /// one is new enough.
    pub(crate) fn cover(&self, lsn: Lsn) -> Result<bool> {
        if self.keep_records {
            return Ok(false);
        }
        let known = self.whole_lsn.load(Ordering::Acquire);
        let is_there = || Ok(self.names()?.iter().any(|(there, _)| *there == known));
        if known >= lsn && is_there()? {
            return Ok(true);
        }
        Ok(self
            .latest()?
            .snapshot
            .is_some_and(|snapshot| snapshot.lsn >= lsn && !snapshot.keep_records))
    }

    /// Writes the snapshot of the state after record `lsn`: everything that `fill` writes, or nothing. Removes all but
    /// the two newest snapshots.
    ///
    /// Record `lsn` must already be durable: a snapshot ahead of the journal's end looks like lost records.
    ///
    /// # Errors
    /// [`Error::Full`] and [`Error::Io`], also from `fill`; the earlier snapshots remain.
    pub fn write(
        &self,
        lsn: Lsn,
        fill: impl FnOnce(&mut SnapshotWriter<'_, D::File>) -> io::Result<()>,
    ) -> Result<()> {
        let name = snapshot_name(lsn);
        let temporary = format!("{name}.tmp");
        let mut bytes = 0;
        let written = self.write_file(lsn, &temporary, &mut bytes, fill);
        if let Err(source) = written {
            // If the removal fails, the next opening removes the file.
            let _ = self.disk.remove(&temporary);
            return Err(match is_full(&source) {
                true => Error::Full {
                    file: name,
                    needed_bytes: bytes,
                },
                false => Error::io("write", &name)(source),
            });
        }
        self.disk
            .rename(&temporary, &name)
            .map_err(Error::io("name", &name))?;
        self.disk.sync_dir().map_err(Error::io("sync", "."))?;
        self.whole_lsn.fetch_max(lsn, Ordering::AcqRel);
        // Remove the old snapshots. If a power cut restores their files, the next snapshot removes them again.
        let names = self.names()?;
        for (_, old) in names.iter().rev().skip(KEPT) {
            self.disk.remove(old).map_err(Error::io("remove", old))?;
        }
        Ok(())
    }

    fn write_file(
        &self,
        lsn: Lsn,
        temporary: &str,
        bytes: &mut u64,
        fill: impl FnOnce(&mut SnapshotWriter<'_, D::File>) -> io::Result<()>,
    ) -> io::Result<()> {
        let file = match self.disk.create(temporary) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                self.disk.remove(temporary)?;
                self.disk.create(temporary)?
            }
            created => created?,
        };
        let header = Header {
            journal_id: self.journal_id,
            lsn,
            previous: 0,
            follows_gap: false,
            segment_bytes: 0,
            keep_records: self.keep_records,
        };
        write_all(&file, 0, &header.encode(SNAPSHOT_MAGIC))?;
        let mut writer = SnapshotWriter::new(&file, self.journal_id, lsn);
        let filled = fill(&mut writer).and_then(|()| writer.finish());
        *bytes = writer.offset;
        filled?;
        file.sync_data()
    }

    /// Returns the numbers and file names of all snapshots, oldest first.
    pub(crate) fn names(&self) -> Result<Vec<(Lsn, String)>> {
        let names = self.disk.list().map_err(Error::io("list", "."))?;
        Ok(names
            .into_iter()
            .filter_map(|name| Some((lsn_of(&name, ".snap")?, name)))
            .collect())
    }

    /// Returns the newest intact snapshot, of which every byte was checked, and the damaged ones that are newer.
    ///
    /// # Errors
    /// [`Error::Foreign`], [`Error::Version`], [`Error::Io`].
    pub fn latest(&self) -> Result<LatestSnapshot<D>> {
        let mut damaged = Vec::new();
        for (lsn, name) in self.names()?.into_iter().rev() {
            match self.check(lsn, &name)? {
                Ok(snapshot) => {
                    if !snapshot.keep_records {
                        self.whole_lsn.fetch_max(lsn, Ordering::AcqRel);
                    }
                    let snapshot = Some(snapshot);
                    return Ok(LatestSnapshot { snapshot, damaged });
                }
                Err(bad) => damaged.push(bad),
            }
        }
        let snapshot = None;
        Ok(LatestSnapshot { snapshot, damaged })
    }

    /// Returns the disk that contains the snapshots.
    pub fn disk(&self) -> &D {
        &self.disk
    }

    /// Returns the oldest snapshot of the state after record `lsn` or a later one, if that snapshot is intact. Older
    /// snapshots are ignored: a power cut may have restored one that is older than the journal's first record.
    ///
    /// # Errors
    /// The errors of [`Self::latest`].
    pub fn oldest_from(&self, lsn: Lsn) -> Result<Option<Snapshot<D>>> {
        match self.names()?.iter().find(|(own, _)| *own >= lsn) {
            Some((lsn, name)) => Ok(self.check(*lsn, name)?.ok()),
            None => Ok(None),
        }
    }

    /// Returns the number of the last record that the older of the two kept snapshots covers; 0 where fewer than two
    /// snapshots are kept.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn covered_lsn(&self) -> Result<Lsn> {
        let names = self.names()?;
        Ok(names.iter().rev().nth(KEPT - 1).map_or(0, |(lsn, _)| *lsn))
    }

    /// Reads a snapshot to its end and rewinds it, so that the caller can read it again.
    pub(crate) fn check(&self, lsn: Lsn, name: &str) -> Result<Result<Snapshot<D>, DamagedSnapshot>> {
        let io_error = |source| Error::io("read", name)(source);
        let damaged = |offset, what| {
            let file = name.into();
            Ok(Err(DamagedSnapshot { file, offset, what }))
        };
        let header = match header_of(&self.disk, name) {
            Ok(header) => header,
            Err(Error::Damaged { what, .. }) => return damaged(0, what),
            Err(error) => return Err(error),
        };
        if header.journal_id != self.journal_id {
            return Err(Error::Foreign {
                file: name.into(),
                found: header.journal_id,
                expected: self.journal_id,
            });
        }
        if header.lsn != lsn {
            return damaged(0, "the header belongs to a snapshot with another name");
        }
        let file = self.disk.open_read(name).map_err(Error::io("open", name))?;
        let mut snapshot = Snapshot::new(file, &header);
        loop {
            match snapshot.next_chunk().map_err(io_error)? {
                Ok(true) => {}
                Ok(false) => break,
                Err(what) => return damaged(snapshot.offset, what),
            }
        }
        snapshot.bytes = snapshot.total;
        snapshot.rewind();
        Ok(Ok(snapshot))
    }
}

/// Reads the header of a snapshot.
pub(crate) fn header_of<D: Disk>(disk: &D, name: &str) -> Result<Header> {
    let file = disk.open_read(name).map_err(Error::io("open", name))?;
    let mut bytes = [0; SEGMENT_HEADER_BYTES as usize];
    let read = read_full(&file, 0, &mut bytes).map_err(Error::io("read", name))?;
    Header::decode(&bytes[..read], SNAPSHOT_MAGIC).map_err(|bad| match bad {
        BadHeader::Version(found) => Error::Version {
            file: name.into(),
            found,
        },
        BadHeader::Damaged(what) => Error::Damaged {
            file: name.into(),
            offset: 0,
            lsn: lsn_of(name, ".snap").unwrap_or(0),
            what,
        },
    })
}

/// Result of [`Snapshots::latest`].
pub struct LatestSnapshot<D: Disk> {
    /// Newest intact snapshot.
    pub snapshot: Option<Snapshot<D>>,
    /// Newer snapshots that are damaged.
    pub damaged: Vec<DamagedSnapshot>,
}

/// Damaged snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedSnapshot {
    /// File name.
    pub file: String,
    /// Offset of the damage in bytes.
    pub offset: u64,
    /// Description of the damage.
    pub what: &'static str,
}

/// Returns the initial CRC of a snapshot's chunks, so that chunks of another journal or another record's snapshot
/// never pass the check.
fn snapshot_seed(journal_id: u64, lsn: Lsn) -> u32 {
    crc32c::crc32c_append(crate::format::seed(journal_id), &lsn.to_le_bytes())
}

/// Intact snapshot. Its [`io::Read`] returns the data that was written, and checks the data again.
pub struct Snapshot<D: Disk> {
    /// The snapshot contains the state after this record.
    pub lsn: Lsn,
    /// Length of the data in bytes.
    pub bytes: u64,
    /// True if the snapshot replaces no records; see [`Options::keep_records`](crate::Options::keep_records).
    pub(crate) keep_records: bool,
    file: D::File,
    seed: u32,
    /// Offset of the next chunk; the next fields are its number and the length of the data before it.
    offset: u64,
    index: u64,
    total: u64,
    chunk: Vec<u8>,
    /// Number of bytes of the chunk that the reader has already received.
    given: usize,
    ended: bool,
}

impl<D: Disk> Snapshot<D> {
    fn new(file: D::File, header: &Header) -> Snapshot<D> {
        Snapshot {
            lsn: header.lsn,
            bytes: 0,
            keep_records: header.keep_records,
            file,
            seed: snapshot_seed(header.journal_id, header.lsn),
            offset: SEGMENT_HEADER_BYTES,
            index: 0,
            total: 0,
            chunk: Vec::new(),
            given: 0,
            ended: false,
        }
    }

    fn rewind(&mut self) {
        (self.offset, self.index, self.total) = (SEGMENT_HEADER_BYTES, 0, 0);
        (self.given, self.ended) = (0, false);
        self.chunk.clear();
    }

    /// Reads the next chunk; returns `false` after the last chunk. The inner error describes the damage.
    fn next_chunk(&mut self) -> io::Result<Result<bool, &'static str>> {
        self.chunk.clear();
        self.given = 0;
        if self.ended {
            return Ok(Ok(false));
        }
        let mut header = [0; FOOTER];
        let read = read_full(&self.file, self.offset, &mut header)?;
        let length = word(&header, 4) as usize;
        if read < CHUNK_HEADER || length > CHUNK_DATA {
            return Ok(Err("the file ends too early"));
        }
        if long(&header, 8) != self.index {
            return Ok(Err("a chunk with another number is there"));
        }
        let body = if length == 0 { 8 } else { length };
        self.chunk.resize(body, 0);
        if read_full(&self.file, self.offset + CHUNK_HEADER as u64, &mut self.chunk)? < body {
            return Ok(Err("the file ends too early"));
        }
        let crc = crc32c::crc32c_append(self.seed, &header[4..CHUNK_HEADER]);
        if word(&header, 0) != crc32c::crc32c_append(crc, &self.chunk) {
            return Ok(Err("a chunk's CRC is wrong"));
        }
        self.offset += (CHUNK_HEADER + body) as u64;
        self.index += 1;
        if length > 0 {
            self.total += length as u64;
            return Ok(Ok(true));
        }
        self.ended = true;
        let said = long(&self.chunk, 0);
        self.chunk.clear();
        if said != self.total || self.file.len()? != self.offset {
            return Ok(Err("the length differs from the one in the last chunk"));
        }
        Ok(Ok(false))
    }
}

impl<D: Disk> io::Read for Snapshot<D> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.given == self.chunk.len() {
            match self.next_chunk()? {
                Ok(true) => {}
                Ok(false) => return Ok(0),
                Err(what) => return Err(io::Error::new(io::ErrorKind::InvalidData, what)),
            }
        }
        let left = self.chunk.get(self.given..).unwrap_or_default();
        let count = left.len().min(into.len());
        into[..count].copy_from_slice(&left[..count]);
        self.given += count;
        Ok(count)
    }
}

/// Writer for the data of a snapshot, in portions of any size.
pub struct SnapshotWriter<'a, F: DiskFile> {
    file: &'a F,
    seed: u32,
    offset: u64,
    index: u64,
    total: u64,
    /// Current chunk. The space for its header precedes the data.
    chunk: Vec<u8>,
}

impl<'a, F: DiskFile> SnapshotWriter<'a, F> {
    fn new(file: &'a F, journal_id: u64, lsn: Lsn) -> Self {
        SnapshotWriter {
            file,
            seed: snapshot_seed(journal_id, lsn),
            offset: SEGMENT_HEADER_BYTES,
            index: 0,
            total: 0,
            chunk: vec![0; CHUNK_HEADER],
        }
    }

    fn write_chunk(&mut self, length: usize) -> io::Result<()> {
        self.chunk[4..8].copy_from_slice(&(length as u32).to_le_bytes());
        self.chunk[8..16].copy_from_slice(&self.index.to_le_bytes());
        let crc = crc32c::crc32c_append(self.seed, &self.chunk[4..]);
        self.chunk[..4].copy_from_slice(&crc.to_le_bytes());
        write_all(self.file, self.offset, &self.chunk)?;
        self.offset += self.chunk.len() as u64;
        self.index += 1;
        self.total += length as u64;
        self.chunk.truncate(CHUNK_HEADER);
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        io::Write::flush(self)?;
        self.chunk.extend_from_slice(&self.total.to_le_bytes());
        self.write_chunk(0)
    }
}

impl<F: DiskFile> io::Write for SnapshotWriter<'_, F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = CHUNK_HEADER + CHUNK_DATA - self.chunk.len();
        let count = room.min(bytes.len());
        self.chunk.extend_from_slice(&bytes[..count]);
        if count == room {
            self.flush()?;
        }
        Ok(count)
    }

    /// Writes the current chunk to the file. It becomes durable only with the complete snapshot.
    fn flush(&mut self) -> io::Result<()> {
        match self.chunk.len() - CHUNK_HEADER {
            0 => Ok(()),
            length => self.write_chunk(length),
        }
    }
}
