//! The files of a store's witness data. `wtxids.dat` holds the leaves of witness trees, numbered as in `txids.dat`.
//! `coinbases.dat` holds, for each block that commits to its witnesses, the reserved value and the coinbase without its
//! witness.
//!
//! The leaves of a block without a commitment are zeros that are never written, so that they take no disk space on a
//! file system with sparse files. The rules of [`super::files`] apply: both files are durable before the records that
//! refer to them.

use super::checksum::crc32c;
use super::files::{Record, corrupt, cut, io, map, open_file};
use super::types::ChainError;
use super::witness::CheckedWitness;
use memmap2::Mmap;
use std::fs::File;
use std::io as std_io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Length in bytes of the witness reserved value, which precedes a coinbase in `coinbases.dat`.
const RESERVED: usize = 32;

/// Location of a block's witness data, stored in its record; all zero if the block commits to no witnesses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct WitnessPlace {
    /// Offset of the reserved value in `coinbases.dat`; the coinbase follows it.
    pub(super) coinbase_offset: u64,
    /// Bytes of the coinbase without its witness.
    pub(super) coinbase_bytes: u32,
    /// CRC32C of reserved value and coinbase.
    pub(super) coinbase_crc: u32,
    /// CRC32C of the leaves.
    pub(super) wtxids_crc: u32,
}

impl WitnessPlace {
    fn coinbase(&self) -> Option<Range<usize>> {
        let start = usize::try_from(self.coinbase_offset).ok()?;
        let end = start.checked_add(RESERVED + self.coinbase_bytes as usize)?;
        (self.coinbase_bytes > 0).then_some(start..end)
    }
}

/// Witness data, and the part of it that is not yet in the files.
pub(super) struct WitnessFiles {
    disk: Option<Disk>,
    /// Leaves that are not written to `wtxids.dat` yet; they follow the leaves in the map of this file.
    wtxids: Vec<[u8; 32]>,
    /// Ranges of `wtxids` that must be written: the leaves of blocks with a commitment.
    filled: Vec<Range<usize>>,
    /// Bytes that are not written to `coinbases.dat` yet; they follow the bytes in the map of this file.
    coinbases: Vec<u8>,
}

struct Disk {
    wtxids: File,
    coinbases: File,
    wtxid_map: Option<Mmap>,
    coinbase_map: Option<Mmap>,
}

impl WitnessFiles {
    /// Returns files that exist only in this process.
    pub(super) fn in_memory() -> WitnessFiles {
        WitnessFiles {
            disk: None,
            wtxids: Vec::new(),
            filled: Vec::new(),
            coinbases: Vec::new(),
        }
    }

    fn mapped_wtxids(&self) -> &[[u8; 32]] {
        let map = self.disk.as_ref().and_then(|disk| disk.wtxid_map.as_deref());
        map.unwrap_or_default().as_chunks::<32>().0
    }

    fn mapped_coinbases(&self) -> &[u8] {
        let map = self.disk.as_ref().and_then(|disk| disk.coinbase_map.as_deref());
        map.unwrap_or_default()
    }

    /// Returns `count` leaves of one block from number `first` on.
    pub(super) fn wtxids(&self, first: u64, count: u32) -> &[[u8; 32]] {
        let (first, count) = (first as usize, count as usize);
        let mapped = self.mapped_wtxids();
        // A block's leaves are written together, so all of them are either mapped or pending.
        match first.checked_sub(mapped.len()) {
            None => &mapped[first..first + count],
            Some(first) => &self.wtxids[first..first + count],
        }
    }

    /// Returns the reserved value and the coinbase of a block; `None` if it commits to no witnesses.
    pub(super) fn coinbase(&self, place: &WitnessPlace) -> Option<(&[u8; RESERVED], &[u8])> {
        let range = place.coinbase()?;
        let mapped = self.mapped_coinbases();
        let bytes = match range.start.checked_sub(mapped.len()) {
            None => mapped.get(range),
            Some(start) => self.coinbases.get(start..start + range.len()),
        };
        bytes?.split_first_chunk()
    }

    /// Appends a block's data.
    pub(super) fn append(&mut self, witness: &CheckedWitness) -> WitnessPlace {
        let start = self.wtxids.len();
        let Some(bytes) = &witness.committed else {
            self.wtxids.resize(start + witness.wtxids.len(), [0; 32]);
            return WitnessPlace::default();
        };
        let location = WitnessPlace {
            coinbase_offset: (self.mapped_coinbases().len() + self.coinbases.len()) as u64,
            coinbase_bytes: (bytes.len() - RESERVED) as u32,
            coinbase_crc: crc32c(bytes),
            wtxids_crc: crc32c(witness.wtxids.as_flattened()),
        };
        self.wtxids.extend_from_slice(&witness.wtxids);
        self.coinbases.extend_from_slice(bytes);
        match self.filled.last_mut() {
            Some(last) if last.end == start => last.end = self.wtxids.len(),
            _ => self.filled.push(start..self.wtxids.len()),
        }
        location
    }

    /// Writes everything appended since [`WitnessFiles::written`]; the call can be repeated.
    pub(super) fn write(&mut self) -> std_io::Result<()> {
        let (leaves, bytes) = (self.mapped_wtxids().len(), self.mapped_coinbases().len());
        let Some(disk) = &mut self.disk else { return Ok(()) };
        for range in &self.filled {
            let at = (leaves + range.start) * 32;
            let leaves = self.wtxids[range.clone()].as_flattened();
            disk.wtxids.write_all_at(leaves, at as u64)?;
        }
        disk.wtxids.set_len(((leaves + self.wtxids.len()) * 32) as u64)?;
        disk.coinbases.write_all_at(&self.coinbases, bytes as u64)
    }

    /// Makes the written data durable.
    pub(super) fn sync(&mut self) -> std_io::Result<()> {
        let Some(disk) = &mut self.disk else { return Ok(()) };
        disk.wtxids.sync_data()?;
        disk.coinbases.sync_data()
    }

    /// Drops the pending data from memory. The caller calls this when the data and the records that refer to it are
    /// durable.
    pub(super) fn written(&mut self) -> std_io::Result<()> {
        let Some(disk) = &mut self.disk else { return Ok(()) };
        disk.wtxid_map = map(&disk.wtxids)?;
        disk.coinbase_map = map(&disk.coinbases)?;
        self.wtxids.clear();
        self.filled.clear();
        self.coinbases.clear();
        Ok(())
    }
}

/// The files of a store's witness data after reading, before anything in them has been changed.
pub(super) struct WitnessOpening {
    wtxids_path: PathBuf,
    coinbases_path: PathBuf,
    wtxids: File,
    coinbases: File,
    /// End of the last whole block's data in each file.
    wtxids_end: u64,
    coinbases_end: u64,
}

impl WitnessOpening {
    /// Opens the files in `dir`, and checks them against the records of all whole blocks. If there is no block, missing
    /// files are created.
    pub(super) fn read(
        dir: &Path,
        blocks_path: &Path,
        records: &[Record],
    ) -> Result<WitnessOpening, ChainError> {
        let paths = [dir.join("wtxids.dat"), dir.join("coinbases.dat")];
        for path in &paths {
            if !records.is_empty() && !path.exists() {
                return Err(corrupt(path, 0, "has witness data, but this file is missing"));
            }
        }
        let [wtxids_path, coinbases_path] = paths;
        let (wtxids, coinbases) = (open_file(&wtxids_path)?, open_file(&coinbases_path)?);
        let wtxid_map = map(&wtxids).map_err(io(&wtxids_path))?;
        let coinbase_map = map(&coinbases).map_err(io(&coinbases_path))?;
        let stored = StoredWitnesses {
            blocks_path,
            wtxids_path: &wtxids_path,
            coinbases_path: &coinbases_path,
            wtxids: wtxid_map.as_deref().unwrap_or_default().as_chunks::<32>().0,
            coinbases: coinbase_map.as_deref().unwrap_or_default(),
        };
        let mut ends = (0, 0);
        for (number, record) in records.iter().enumerate() {
            ends = stored.check(number, record, ends)?;
        }
        Ok(WitnessOpening {
            wtxids,
            coinbases,
            wtxids_end: ends.0 as u64 * 32,
            coinbases_end: ends.1 as u64,
            wtxids_path,
            coinbases_path,
        })
    }

    /// Removes everything after the last whole block. The records must have been checked.
    pub(super) fn cut(mut self) -> Result<WitnessFiles, ChainError> {
        cut(&mut self.wtxids, self.wtxids_end).map_err(io(&self.wtxids_path))?;
        cut(&mut self.coinbases, self.coinbases_end).map_err(io(&self.coinbases_path))?;
        self.wtxids.sync_data().map_err(io(&self.wtxids_path))?;
        self.coinbases.sync_data().map_err(io(&self.coinbases_path))?;
        let disk = Disk {
            wtxid_map: map(&self.wtxids).map_err(io(&self.wtxids_path))?,
            coinbase_map: map(&self.coinbases).map_err(io(&self.coinbases_path))?,
            wtxids: self.wtxids,
            coinbases: self.coinbases,
        };
        Ok(WitnessFiles {
            disk: Some(disk),
            ..WitnessFiles::in_memory()
        })
    }
}

/// Contents of the witness files.
struct StoredWitnesses<'a> {
    blocks_path: &'a Path,
    wtxids_path: &'a Path,
    coinbases_path: &'a Path,
    wtxids: &'a [[u8; 32]],
    coinbases: &'a [u8],
}

impl StoredWitnesses<'_> {
    /// Checks the witness data of one record. `ends` is the number of leaves and the number of bytes of coinbases
    /// before this data; the returned values are the same numbers after it.
    fn check(
        &self,
        number: usize,
        record: &Record,
        ends: (usize, usize),
    ) -> Result<(usize, usize), ChainError> {
        let location = &record.witness;
        let leaves_end = ends.0 + record.count as usize;
        let Some(leaves) = self.wtxids.get(ends.0..leaves_end) else {
            return Err(corrupt(
                self.wtxids_path,
                number,
                "has WTXIDs that are missing here",
            ));
        };
        let Some(range) = location.coinbase() else {
            if *location != WitnessPlace::default() {
                return Err(corrupt(
                    self.blocks_path,
                    number,
                    "contradicts itself: its coinbase has a length of 0 bytes",
                ));
            }
            return Ok((leaves_end, ends.1));
        };
        if range.start != ends.1 {
            return Err(corrupt(
                self.blocks_path,
                number,
                "has a coinbase that does not begin where the previous one ends",
            ));
        }
        let Some(coinbase) = self.coinbases.get(range.clone()) else {
            return Err(corrupt(
                self.coinbases_path,
                number,
                "has a coinbase that is missing here",
            ));
        };
        if crc32c(coinbase) != location.coinbase_crc {
            return Err(corrupt(
                self.coinbases_path,
                number,
                "has a coinbase that is damaged here",
            ));
        }
        if crc32c(leaves.as_flattened()) != location.wtxids_crc {
            return Err(corrupt(
                self.wtxids_path,
                number,
                "has WTXIDs that are damaged here",
            ));
        }
        Ok((leaves_end, range.end))
    }
}
