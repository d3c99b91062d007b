//! The mark: a file that says which record was acknowledged last.
//!
//! A damaged last group reads like one that a power cut left unfinished. The mark tells them apart: it is written after
//! each fdatasync of a group, before the group is acknowledged, and is not synced itself. A killed process leaves it
//! exact. A power cut may leave an older mark, never one that is ahead of the records. So a journal that ends
//! before its mark has lost acknowledged records.

use crate::Lsn;
use crate::disk::{Disk, DiskFile, is_full, read_full, write_all};
use crate::error::{Error, Result};
use std::io;

/// Name of the mark.
pub(crate) const MARK: &str = "acknowledged";
/// Name of a new mark before it is durable.
pub(crate) const NEW_MARK: &str = "acknowledged.tmp";
/// First bytes of a slot; the last one is the version.
const MAGIC: [u8; 8] = *b"LSJACKN1";
/// Bytes of a slot: magic, journal id, lsn, CRC32C of these, zeros.
const SLOT_BYTES: usize = 32;
/// Offset of the second slot, in a sector of its own. An opening writes the first slot, and makes it durable; each
/// group writes the second. So a second slot that is torn or lost leaves a mark that is older, and whole.
const SECOND_SLOT: u64 = 512;
/// Bytes of the mark.
const MARK_BYTES: usize = SECOND_SLOT as usize + SLOT_BYTES;

/// Content of a mark: of the newer of its slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) journal_id: u64,
    pub(crate) lsn: Lsn,
}

/// A mark that was read, and whether both of its slots are sound.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub(crate) mark: Mark,
    /// True if neither slot is damaged. If a slot is damaged, later records than `mark.lsn` may have been acknowledged.
    pub(crate) is_whole: bool,
}

/// An open mark.
#[derive(Debug)]
pub(crate) struct Acknowledged<F> {
    file: F,
    journal_id: u64,
}

impl Mark {
    /// Reads the mark of the journal on `disk`; `None` where it has none.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::Io`].
    pub(crate) fn read<D: Disk>(disk: &D) -> Result<Option<Found>> {
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
        let found = newest.map(|mark| Found { mark, is_whole });
        found.map(Some).ok_or(Error::Damaged {
            file: MARK.into(),
            offset: 0,
            lsn: 0,
            what: "it is not as it was written",
        })
    }

    /// Checks that a journal whose last whole record is `last_lsn`, in `file` before byte `offset`, has what this mark
    /// says.
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
    /// Makes the mark of a journal on `disk`, in place of one that may be there, with `lsn`. Its name is durable after
    /// the next [`Disk::sync_dir`]; until then a power cut may leave the mark before it.
    ///
    /// # Errors
    /// [`Error::Full`], [`Error::Io`].
    pub(crate) fn make<D: Disk<File = F>>(disk: &D, journal_id: u64, lsn: Lsn) -> Result<Acknowledged<F>> {
        let made = make_file(disk, Mark { journal_id, lsn });
        let file = made.map_err(|error| match is_full(&error) {
            true => Error::Full {
                file: MARK.into(),
                needed_bytes: MARK_BYTES as u64,
            },
            false => Error::io("make", MARK)(error),
        })?;
        Ok(Acknowledged { file, journal_id })
    }

    /// Makes the mark of an existing journal again, with `lsn`, or goes on with the one that is there if the disk is
    /// full.
    ///
    /// # Errors
    /// Those of [`Self::make`].
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

    /// Has the mark say that record `lsn`, which is durable, is acknowledged. Waits for no disk.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(crate) fn set(&self, lsn: Lsn) -> Result<()> {
        let journal_id = self.journal_id;
        let slot = Mark { journal_id, lsn }.encode();
        write_all(&self.file, SECOND_SLOT, &slot).map_err(Error::io("write", MARK))
    }
}

/// Makes a file with the first slot that is durable before it has its name.
fn make_file<D: Disk>(disk: &D, mark: Mark) -> io::Result<D::File> {
    let file = match disk.create(NEW_MARK) {
        // Left by an attempt that did not end.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => disk.open(NEW_MARK)?,
        created => created?,
    };
    file.allocate(MARK_BYTES as u64)?;
    write_all(&file, 0, &mark.encode())?;
    file.sync_data()?;
    disk.rename(NEW_MARK, MARK)?;
    Ok(file)
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
    fn a_full_disk_keeps_the_mark_that_is_there() {
        let disk = SimDisk::new(3);
        drop(Acknowledged::make(&disk, 9, 4).unwrap());
        disk.set_capacity_bytes(Some(0));
        assert!(matches!(Acknowledged::make(&disk, 9, 5), Err(Error::Full { .. })));
        Acknowledged::open(&disk, 9, 5).unwrap().set(6).unwrap();
        assert_eq!(Mark::read(&disk).unwrap().unwrap().mark.lsn, 6);
    }
}
