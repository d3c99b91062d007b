//! The file of all ids and codes, in the order of their transactions.
//!
//! `transactions` consists of pages of 4,096 bytes. The first page holds [`MAGIC`], the secret seed of the folder's
//! hash function (u64, little endian), and the XXH3 (64 bits) of both. Every other page holds 124 records of 33 bytes
//! (id, code) and a checksum: the lower 32 bits of the XXH3 of the records, seeded with the page's number and the
//! checksum of the previous page. The checksum of a page therefore depends on all records up to it. Only full pages are
//! written, and a written page is never changed. The records after the last full page are in memory and in the
//! checkpoint, which also has the last page's checksum.

use super::Record;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// First bytes of the file; the last digit is the version of the layout.
const MAGIC: &[u8; 8] = b"LSFIDS01";
/// Size of a page, in bytes.
pub(super) const PAGE_BYTES: usize = 4096;
/// Size of a record, in bytes.
pub(crate) const RECORD_BYTES: usize = 33;
/// Number of records in a page.
pub(crate) const RECORDS: usize = (PAGE_BYTES - 4) / RECORD_BYTES;
const RECORDS_BYTES: usize = RECORDS * RECORD_BYTES;
/// Size of the records in memory, in bytes, at which full pages are written.
const WRITE_BYTES: usize = if cfg!(test) {
    RECORDS_BYTES
} else {
    32 * RECORDS_BYTES
};

/// Checksum of a page.
pub(super) type PageChecksum = [u8; 4];
/// Size of a checksum, in bytes.
const SUM_BYTES: usize = size_of::<PageChecksum>();

/// Part of a checkpoint for ids and codes in files.
#[derive(Debug)]
pub(crate) struct IdsCheckpoint {
    /// Checksum of the last full page; zeros if there is none.
    pub sum: PageChecksum,
    /// Records after that page.
    pub records: Vec<u8>,
}

/// The file, with the records that are not written yet.
#[derive(Debug)]
pub(super) struct Log {
    path: PathBuf,
    file: File,
    pub seed: u64,
    /// Number of full pages in the file.
    pages: u64,
    /// Checksum of the last full page.
    sum: PageChecksum,
    /// Records after the last full page.
    tail: Vec<u8>,
}

pub(super) fn damaged(path: &Path, what: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, format!("{}: {what}", path.display()))
}

fn with_path(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

fn path(folder: &Path) -> PathBuf {
    folder.join("transactions")
}

/// Returns the checksum of a page; `before` is that of the previous page. There are fewer than 2^32 pages.
pub(super) fn sum_of(records: &[u8], page: u64, before: PageChecksum) -> PageChecksum {
    let seed = page | u64::from(u32::from_le_bytes(before)) << 32;
    (xxh3_64_with_seed(records, seed) as u32).to_le_bytes()
}

fn decode(record: &[u8]) -> Option<Record> {
    let (id, rest) = record.split_first_chunk()?;
    Some((*id, *rest.first()?))
}

impl Log {
    /// Creates an empty file.
    pub fn create(folder: &Path) -> io::Result<Self> {
        let path = path(folder);
        let seed = getrandom::u64().map_err(|error| io::Error::other(error.to_string()))?;
        let file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path)?;
        let mut head = [&MAGIC[..], &seed.to_le_bytes()].concat();
        head.extend_from_slice(&xxh3_64(&head).to_le_bytes());
        head.resize(PAGE_BYTES, 0);
        file.write_all_at(&head, 0)?;
        Ok(Self {
            path,
            file,
            seed,
            pages: 0,
            sum: PageChecksum::default(),
            tail: Vec::new(),
        })
    }

    /// Opens a file that has at least the first `transactions` transactions, the number in a checkpoint. `tail` is the
    /// checkpoint's part about ids. Errors name the file.
    pub fn open(folder: &Path, transactions: u64, tail: IdsCheckpoint, is_written: bool) -> io::Result<Self> {
        let log = Self::open_pages(folder, transactions / RECORDS as u64, is_written)?;
        if tail.records.len() as u64 != transactions % RECORDS as u64 * RECORD_BYTES as u64 {
            let what = "the checkpoint lacks the records after the last full page";
            return Err(damaged(&log.path, what));
        }
        if log.sum_after(log.pages)? != tail.sum {
            let what = "the file's records are not those that the checkpoint was written for";
            return Err(damaged(&log.path, what));
        }
        Ok(Self {
            sum: tail.sum,
            tail: tail.records,
            ..log
        })
    }

    /// Opens a file that has at least `pages` full pages of records.
    fn open_pages(folder: &Path, pages: u64, is_written: bool) -> io::Result<Self> {
        let path = path(folder);
        let opened = File::options().read(true).write(is_written).open(&path);
        let file = opened.map_err(|error| with_path(&path, &error))?;
        let mut head = [0; 24];
        file.read_exact_at(&mut head, 0)
            .map_err(|error| with_path(&path, &error))?;
        let (fields, sum) = head.split_at(16);
        if !fields.starts_with(MAGIC) || xxh3_64(fields).to_le_bytes() != sum {
            return Err(damaged(
                &path,
                "the file does not begin like a file of transaction ids",
            ));
        }
        let seed = u64::from_le_bytes(fields[8..].try_into().unwrap_or_default());
        if file.metadata()?.len() < (pages + 1) * PAGE_BYTES as u64 {
            return Err(damaged(
                &path,
                "records that the checkpoint needs are missing at the end of the file",
            ));
        }
        Ok(Self {
            path,
            file,
            seed,
            pages,
            sum: PageChecksum::default(),
            tail: Vec::new(),
        })
    }

    /// Returns the number of records.
    pub fn len(&self) -> usize {
        self.pages as usize * RECORDS + self.tail.len() / RECORD_BYTES
    }

    /// Adds the next record.
    pub fn push(&mut self, id: &[u8; 32], code: u8) -> io::Result<()> {
        self.tail.extend_from_slice(id);
        self.tail.push(code);
        match self.tail.len() >= WRITE_BYTES {
            true => self.write(),
            false => Ok(()),
        }
    }

    /// Writes the full pages that are in memory.
    pub fn write(&mut self) -> io::Result<()> {
        let (full_pages, rest) = self.tail.as_chunks::<RECORDS_BYTES>();
        if full_pages.is_empty() {
            return Ok(());
        }
        let mut bytes = Vec::with_capacity(full_pages.len() * PAGE_BYTES);
        let mut sum = self.sum;
        for (records, page) in full_pages.iter().zip(self.pages..) {
            sum = sum_of(records, page, sum);
            bytes.extend_from_slice(records);
            bytes.extend_from_slice(&sum);
        }
        let at = (self.pages + 1) * PAGE_BYTES as u64;
        self.file
            .write_all_at(&bytes, at)
            .map_err(|error| with_path(&self.path, &error))?;
        self.pages += full_pages.len() as u64;
        self.sum = sum;
        self.tail = rest.to_vec();
        Ok(())
    }

    /// Makes every later write to the file fail, for tests; reads still work.
    #[cfg(test)]
    pub fn refuse_writes(&mut self) {
        self.file = File::open(&self.path).unwrap();
    }

    /// Returns a handle of the file, to sync it on another thread.
    pub fn file(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// Reads a full page; returns its records and checksum.
    fn page(&self, page: u64) -> io::Result<([u8; RECORDS_BYTES], PageChecksum)> {
        // The previous page's checksum is directly before this page; before the first page of records there are zeros.
        let mut bytes = [0; SUM_BYTES + PAGE_BYTES];
        self.file
            .read_exact_at(&mut bytes, (page + 1) * PAGE_BYTES as u64 - SUM_BYTES as u64)
            .map_err(|error| with_path(&self.path, &error))?;
        let content = bytes.split_first_chunk().and_then(|(before, rest)| {
            let (records, sum) = rest.split_first_chunk()?;
            (sum_of(records, page, *before) == sum).then_some((*records, sum.try_into().ok()?))
        });
        content.ok_or_else(|| damaged(&self.path, &format!("the checksum of page {page} is wrong")))
    }

    /// Returns the checksum of the first `pages` full pages.
    pub fn sum_after(&self, pages: u64) -> io::Result<PageChecksum> {
        match pages.checked_sub(1) {
            Some(last) => Ok(self.page(last)?.1),
            None => Ok(PageChecksum::default()),
        }
    }

    /// Returns a record; `None` if there is no record with this number.
    pub fn record(&self, number: usize) -> io::Result<Option<Record>> {
        let (page, place) = ((number / RECORDS) as u64, number % RECORDS);
        if page < self.pages {
            let (records, _) = self.page(page)?;
            return Ok(records.chunks_exact(RECORD_BYTES).nth(place).and_then(decode));
        }
        let at = number - self.pages as usize * RECORDS;
        Ok(self.tail.chunks_exact(RECORD_BYTES).nth(at).and_then(decode))
    }

    /// Calls `each` with the records with these numbers, in order.
    pub fn each(
        &self,
        numbers: Range<usize>,
        each: &mut dyn FnMut(usize, Record) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut number = numbers.start / RECORDS * RECORDS;
        let mut all = |records: &[u8]| {
            for record in records.chunks_exact(RECORD_BYTES).filter_map(decode) {
                if numbers.contains(&number) {
                    each(number, record)?;
                }
                number += 1;
            }
            Ok::<_, io::Error>(())
        };
        let pages = self.pages.min(numbers.end.div_ceil(RECORDS) as u64);
        for page in (numbers.start / RECORDS) as u64..pages {
            all(&self.page(page)?.0)?;
        }
        match pages == self.pages {
            true => all(&self.tail),
            false => Ok(()),
        }
    }
}

/// Reads the first `transactions` records in a folder that another process may write. `tail` is the checkpoint's part
/// about ids. Errors name the file.
pub(crate) fn read_all(
    folder: &Path,
    transactions: u64,
    tail: IdsCheckpoint,
    each: &mut dyn FnMut(Record),
) -> io::Result<()> {
    let log = Log::open(folder, transactions, tail, false)?;
    log.each(0..transactions as usize, &mut |_, record| {
        each(record);
        Ok(())
    })
}

/// Compares the first `transactions` records in a folder with the expected ones. Errors name the file and the
/// difference.
pub(crate) fn compare(
    folder: &Path,
    transactions: u64,
    expected: &mut dyn FnMut(usize) -> Option<Record>,
) -> io::Result<()> {
    let full = transactions / RECORDS as u64 * RECORDS as u64;
    let log = Log::open_pages(folder, transactions / RECORDS as u64, false)?;
    log.each(
        0..full as usize,
        &mut |number, record| match expected(number) == Some(record) {
            true => Ok(()),
            false => {
                let what = format!("transaction {number} has another id or code than in the blocks");
                Err(damaged(&log.path, &what))
            }
        },
    )
}
