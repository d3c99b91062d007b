//! Snapshots: a state after a record, in a file of its own.

use crate::Lsn;
use crate::disk::{Disk, DiskFile, is_full, read_full, write_all};
use crate::error::{Error, Result};
use crate::format::{BadHeader, Header, SEGMENT_HEADER_BYTES, SNAPSHOT_MAGIC, long, word};
use crate::segment::lsn_of;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes before a chunk's data.
const CHUNK_HEADER: usize = 16;
/// Data of a chunk at most.
const CHUNK_DATA: usize = 1 << 18;
/// The last chunk has no data and says how long all is.
const FOOTER: usize = CHUNK_HEADER + 8;
/// Snapshots that stay.
const KEPT: usize = 2;

pub(crate) fn snapshot_name(lsn: Lsn) -> String {
    format!("{lsn:020}.snap")
}

/// The snapshots beside a journal. Cheap to clone; may be used by another thread than the journal's, one at a time.
#[derive(Clone, Debug)]
pub struct Snapshots<D: Disk> {
    disk: D,
    journal_id: u64,
    keep_records: bool,
    /// The newest one that this process wrote or read to its end; 0: none. Clones share it.
    whole_lsn: Arc<AtomicU64>,
}

impl<D: Disk> Snapshots<D> {
    /// `keep_records`: those that are written stand for no records.
    pub(crate) fn new(disk: D, journal_id: u64, keep_records: bool) -> Snapshots<D> {
        Snapshots {
            disk,
            journal_id,
            keep_records,
            whole_lsn: Arc::default(),
        }
    }

    /// The snapshots on a disk whose journal is not opened, to be read only.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn look(disk: D) -> Result<Snapshots<D>> {
        let names = disk.list().map_err(Error::io("list", "."))?;
        let journal_id = crate::survey::journal_id(&disk, &names)?;
        Ok(Self::new(disk, journal_id, false))
    }

    /// Whether a whole snapshot stands for the records up to `lsn`. Reads one to its end only where none is known to be
    /// whole.
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

    /// Writes the snapshot of the state after record `lsn`: all that `fill` writes, or nothing. Keeps the two newest.
    ///
    /// `lsn` must be durable already: a snapshot ahead of the journal's end reads as lost records.
    ///
    /// # Errors
    /// [`Error::Full`] and [`Error::Io`], that of `fill` included: the snapshots before it stand.
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
            // If that fails the next opening removes it.
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
        // Should these come back after a power cut, the next snapshot removes them again.
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

    /// Numbers and names of all snapshots, oldest first.
    pub(crate) fn names(&self) -> Result<Vec<(Lsn, String)>> {
        let names = self.disk.list().map_err(Error::io("list", "."))?;
        Ok(names
            .into_iter()
            .filter_map(|name| Some((lsn_of(&name, ".snap")?, name)))
            .collect())
    }

    /// The newest whole snapshot, each byte of which was checked, and the damaged ones that are newer.
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

    /// The disk that they are on.
    pub fn disk(&self) -> &D {
        &self.disk
    }

    /// The oldest snapshot of the state after record `lsn` or a later one, if it is whole. One that a power cut brought
    /// back may be older than the journal's first record.
    ///
    /// # Errors
    /// Those of [`Self::latest`].
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

    /// Reads a snapshot to its end; then it is ready to be read again.
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
            return damaged(0, "the header is that of a snapshot with another name");
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

/// A snapshot's header.
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

/// What [`Snapshots::latest`] found.
pub struct LatestSnapshot<D: Disk> {
    /// The newest whole one.
    pub snapshot: Option<Snapshot<D>>,
    /// Newer ones that cannot be used.
    pub damaged: Vec<DamagedSnapshot>,
}

/// A snapshot that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedSnapshot {
    /// Its file.
    pub file: String,
    /// Where the damage is.
    pub offset: u64,
    /// What is wrong.
    pub what: &'static str,
}

/// What a snapshot's CRCs start from: no chunk passes in another journal's or another record's snapshot.
fn snapshot_seed(journal_id: u64, lsn: Lsn) -> u32 {
    crc32c::crc32c_append(crate::format::seed(journal_id), &lsn.to_le_bytes())
}

/// A whole snapshot: [`io::Read`] gives what was written, checked again as it is read.
pub struct Snapshot<D: Disk> {
    /// The record after which the state was as it says.
    pub lsn: Lsn,
    /// Bytes that reading gives.
    pub bytes: u64,
    /// It stands for no records; see [`Options::keep_records`](crate::Options::keep_records).
    pub(crate) keep_records: bool,
    file: D::File,
    seed: u32,
    /// Where the next chunk begins, its number, and the data before it.
    offset: u64,
    index: u64,
    total: u64,
    chunk: Vec<u8>,
    /// Bytes of the chunk that were read.
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

    /// Reads the next chunk; false after the last. The inner error says what is wrong with the file.
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
            return Ok(Err("it breaks off"));
        }
        if long(&header, 8) != self.index {
            return Ok(Err("another chunk stands there"));
        }
        let body = if length == 0 { 8 } else { length };
        self.chunk.resize(body, 0);
        if read_full(&self.file, self.offset + CHUNK_HEADER as u64, &mut self.chunk)? < body {
            return Ok(Err("it breaks off"));
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
            return Ok(Err("its length is not what its end says"));
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

/// Takes a snapshot's bytes, in any portions.
pub struct SnapshotWriter<'a, F: DiskFile> {
    file: &'a F,
    seed: u32,
    offset: u64,
    index: u64,
    total: u64,
    /// The chunk being filled, behind space for its header.
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

    /// Ends the chunk. Nothing is durable before the whole snapshot is.
    fn flush(&mut self) -> io::Result<()> {
        match self.chunk.len() - CHUNK_HEADER {
            0 => Ok(()),
            length => self.write_chunk(length),
        }
    }
}
