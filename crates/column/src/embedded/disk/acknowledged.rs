//! Record of the last change that was acknowledged as durable.
//!
//! A journal cannot tell its last group, if it was damaged, from one that a power cut left unfinished. This file can:
//! it is written after each fdatasync of the journal and before any reply leaves, and is not synced itself. A killed
//! process leaves it exact. After a power cut it may be behind the journal, never ahead of it: a journal that ends
//! before it has lost acknowledged records.

use lineside_journal::Lsn;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use xxhash_rust::xxh3::xxh3_64;

/// Name of the file.
pub(super) const NAME: &str = "acknowledged";
/// First bytes of the file; the last digit is the version.
const MAGIC: [u8; 8] = *b"LSCOLAK1";
/// Bytes of the file: magic, journal id, number, XXH3 of them (little endian). All are in one sector.
const BYTES: usize = 32;

/// Content of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// It is not there.
    Missing,
    /// It is not as it was written.
    Damaged,
    /// The last acknowledged record of the journal with that id.
    Last { journal_id: u64, lsn: Lsn },
}

/// Open file.
#[derive(Debug)]
pub(super) struct Acknowledged {
    file: File,
    journal_id: u64,
}

/// Reads the file in `directory`.
pub(super) fn read(directory: &Path) -> io::Result<Found> {
    let bytes = match std::fs::read(directory.join(NAME)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found::Missing),
        bytes => bytes?,
    };
    let word = |at: usize| {
        let word = bytes.get(at..at + 8).and_then(|word| word.try_into().ok());
        word.map_or(0, u64::from_le_bytes)
    };
    let is_whole = bytes.len() == BYTES && bytes.starts_with(&MAGIC) && word(24) == xxh3_64(&bytes[..24]);
    Ok(match is_whole {
        true => Found::Last {
            journal_id: word(8),
            lsn: word(16),
        },
        false => Found::Damaged,
    })
}

impl Acknowledged {
    /// Opens the file, which is made where it is missing, and has it say `lsn`, durably.
    pub(super) fn open(directory: &Path, journal_id: u64, lsn: Lsn) -> io::Result<Self> {
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(directory.join(NAME))?;
        let opened = Self { file, journal_id };
        opened.file.set_len(BYTES as u64)?;
        opened.set(lsn)?;
        opened.file.sync_all()?;
        File::open(directory)?.sync_all()?;
        Ok(opened)
    }

    /// Has the file say that record `lsn` is acknowledged. Waits for no disk.
    pub(super) fn set(&self, lsn: Lsn) -> io::Result<()> {
        let mut bytes = [0; BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..16].copy_from_slice(&self.journal_id.to_le_bytes());
        bytes[16..24].copy_from_slice(&lsn.to_le_bytes());
        let sum = xxh3_64(&bytes[..24]);
        bytes[24..].copy_from_slice(&sum.to_le_bytes());
        self.file.write_all_at(&bytes, 0)
    }
}
