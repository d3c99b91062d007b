//! The mark: a file with the number of the record that was acknowledged last.
//!
//! A damaged last group looks like one that a power cut left unfinished. The mark distinguishes the two: it is written
//! after each fdatasync of a group, before the group is acknowledged, and is not synced itself. After a killed process
//! the mark is exact. After a power cut it may be older, but it is never ahead of the records. A journal that ends
//! before its mark has therefore lost acknowledged records.

use crate::Lsn;
use crate::disk::{Disk, DiskFile, is_full, read_full, write_all};
use crate::error::{Error, Result};
use std::io;

/// Name of the mark's file.
pub(crate) const MARK: &str = "acknowledged";
/// Name of the file of a new mark that is not durable yet.
pub(crate) const NEW_MARK: &str = "acknowledged.tmp";
/// First bytes of a slot; the last byte is the version of the layout.
pub(crate) const MAGIC: [u8; 8] = *b"LSJACKN1";
/// Size of a slot in bytes: magic, journal id, record number, CRC32C of these fields, zeros.
const SLOT_BYTES: usize = 32;
/// Offset of the second slot, which is in a sector of its own. Opening the journal writes the first slot and makes it
/// durable; each group writes the second. If the second slot is torn or lost, the first one still holds an older,
/// valid mark.
const SECOND_SLOT: u64 = 512;
/// Size of the mark in bytes.
const MARK_BYTES: usize = SECOND_SLOT as usize + SLOT_BYTES;

/// Content of a mark, taken from the newer of its slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) journal_id: u64,
    pub(crate) lsn: Lsn,
}

/// A mark that was read, with the state of its slots.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FoundMark {
    pub(crate) mark: Mark,
    /// True if both slots are intact. If one is damaged, records after `mark.lsn` may have been acknowledged.
    pub(crate) is_whole: bool,
}

/// Mark that is open for writing.
#[derive(Debug)]
pub(crate) struct Acknowledged<F> {
    file: F,
    journal_id: u64,
}

impl Mark {
    /// Reads the mark of the journal on `disk`; `None` if there is no mark.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::Io`].
    pub(crate) fn read<D: Disk>(disk: &D) -> Result<Option<FoundMark>> {
        let file = match disk.open_read(MARK) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file.map_err(Error::io("open", MARK))?,
        };
        let mut slots = [[0; SLOT_BYTES]; 2];
        for (offset, slot) in [0, SECOND_SLOT].into_iter().zip(&mut slots) {
            read_full(&file, offset, slot).map_err(Error::io("read", MARK))?;
        }
        let whole = slots.map(|slot| Mark::decode(&slot));
        let is_whole =
            std::iter::zip(slots, whole).all(|(slot, mark)| mark.is_some() || slot == [0; SLOT_BYTES]);
        let newest = whole.into_iter().flatten().max_by_key(|mark| mark.lsn);
        let found = newest.map(|mark| FoundMark { mark, is_whole });
        found.map(Some).ok_or(Error::Damaged {
            file: MARK.into(),
            offset: 0,
            lsn: 0,
            what: "neither slot of the mark is valid",
        })
    }

    /// Checks that the mark belongs to journal `journal_id` and is not ahead of its last complete record `last_lsn`,
    /// which ends at byte `offset` of `file`.
    ///
    /// # Errors
    /// [`Error::Foreign`], [`Error::EndLost`].
    pub(crate) fn check(self, journal_id: u64, last_lsn: Lsn, file: &str, offset: u64) -> Result<()> {
        if self.journal_id != journal_id {
            return Err(Error::Foreign {
                file: MARK.into(),
                found: self.journal_id,
                expected: journal_id,
            });
        }
        if self.lsn > last_lsn {
            return Err(Error::EndLost {
                file: file.into(),
                offset,
                from: last_lsn + 1,
                to: self.lsn,
            });
        }
        Ok(())
    }

    fn encode(self) -> [u8; SLOT_BYTES] {
        let mut bytes = [0; SLOT_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..16].copy_from_slice(&self.journal_id.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.lsn.to_le_bytes());
        let sum = crc32c::crc32c(&bytes[..24]);
        bytes[24..28].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Mark> {
        let word = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        let mark = Mark {
            journal_id: word(8)?,
            lsn: word(16)?,
        };
        (bytes == mark.encode()).then_some(mark)
    }
}

impl<F: DiskFile> Acknowledged<F> {
    /// Creates the mark of a journal on `disk` with `lsn`, and replaces an existing one. Its name is durable after the
    /// next [`Disk::sync_dir`]; until then a power cut may leave the previous mark.
    ///
    /// # Errors
    /// [`Error::Full`], [`Error::Io`].
    pub(crate) fn make<D: Disk<File = F>>(disk: &D, journal_id: u64, lsn: Lsn) -> Result<Acknowledged<F>> {
        let file = write_new_mark(disk, journal_id, lsn)?;
        name_new_mark(disk)?;
        Ok(Acknowledged { file, journal_id })
    }

    /// Replaces the mark of an existing journal by a new one with `lsn`. If the disk is full, continues with the
    /// existing mark.
    ///
    /// # Errors
    /// The errors of [`Self::make`].
    pub(crate) fn open<D: Disk<File = F>>(disk: &D, journal_id: u64, lsn: Lsn) -> Result<Acknowledged<F>> {
        match Self::make(disk, journal_id, lsn) {
            Err(full @ Error::Full { .. }) => {
                let file = disk.open(MARK).map_err(|_| full)?;
                let opened = Acknowledged { file, journal_id };
                opened.set(lsn)?;
                Ok(opened)
            }
            made => made,
        }
    }

    /// Writes into the mark that record `lsn`, which is durable, is acknowledged. Does not wait for the disk.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(crate) fn set(&self, lsn: Lsn) -> Result<()> {
        let journal_id = self.journal_id;
        let slot = Mark { journal_id, lsn }.encode();
        write_all(&self.file, SECOND_SLOT, &slot).map_err(Error::io("write", MARK))
    }
}

/// Writes a new mark with only its first slot, under a temporary name, and makes it durable. The mark is valid once
/// [`name_new_mark`] has given it its final name.
///
/// # Errors
/// [`Error::Full`], [`Error::Io`].
pub(crate) fn write_new_mark<D: Disk>(disk: &D, journal_id: u64, lsn: Lsn) -> Result<D::File> {
    let write = || {
        let file = match disk.create(NEW_MARK) {
            // An interrupted attempt has left this file.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => disk.open(NEW_MARK)?,
            created => created?,
        };
        file.allocate(MARK_BYTES as u64)?;
        write_all(&file, 0, &Mark { journal_id, lsn }.encode())?;
        file.sync_data()?;
        Ok(file)
    };
    write().map_err(|error: io::Error| match is_full(&error) {
        true => Error::Full {
            file: MARK.into(),
            needed_bytes: MARK_BYTES as u64,
        },
        false => Error::io("make", MARK)(error),
    })
}

/// Gives the new mark the final name, which replaces the old mark. The name is durable after the next
/// [`Disk::sync_dir`].
///
/// # Errors
/// [`Error::Io`].
pub(crate) fn name_new_mark<D: Disk>(disk: &D) -> Result<()> {
    disk.rename(NEW_MARK, MARK).map_err(Error::io("make", MARK))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SimDisk;

    #[test]
    fn every_flipped_bit_of_a_mark_is_found() {
        let mark = Mark {
            journal_id: 0x0123_4567_89ab_cdef,
            lsn: 77,
        };
        let bytes = mark.encode();
        assert_eq!(Mark::decode(&bytes), Some(mark));
        for bit in 0..SLOT_BYTES * 8 {
            let mut damaged = bytes;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Mark::decode(&damaged), None, "bit {bit}");
        }
        for length in 0..SLOT_BYTES {
            assert_eq!(Mark::decode(&bytes[..length]), None, "{length} bytes");
        }
    }

    #[test]
    fn a_torn_write_leaves_an_older_mark() {
        let disk = SimDisk::new(3);
        let acknowledged = Acknowledged::make(&disk, 9, 4).unwrap();
        let read = || {
            Mark::read(&disk)
                .unwrap()
                .map(|found| (found.mark.lsn, found.is_whole))
        };
        assert_eq!(read(), Some((4, true)));
        for lsn in 5..9 {
            acknowledged.set(lsn).unwrap();
            assert_eq!(read(), Some((lsn, true)));
        }
        assert!(disk.rot(MARK, SECOND_SLOT + 17, 1));
        assert_eq!(read(), Some((4, false)));
        assert!(disk.rot(MARK, 25, 1));
        assert!(matches!(Mark::read(&disk), Err(Error::Damaged { file, .. }) if file == MARK));
    }

    #[test]
    fn a_full_disk_keeps_the_existing_mark() {
        let disk = SimDisk::new(3);
        drop(Acknowledged::make(&disk, 9, 4).unwrap());
        disk.set_capacity_bytes(Some(0));
        assert!(matches!(Acknowledged::make(&disk, 9, 5), Err(Error::Full { .. })));
        Acknowledged::open(&disk, 9, 5).unwrap().set(6).unwrap();
        assert_eq!(Mark::read(&disk).unwrap().unwrap().mark.lsn, 6);
    }
}
