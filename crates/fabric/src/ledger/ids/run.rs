//! Runs: sorted files with the hashes of older ids and the numbers of their transactions.
//!
//! The file `run-FIRST-SPAN` covers `SPAN` transactions from number `FIRST` on. It consists of pages, the first hash of
//! each page, a Bloom filter, and a footer. A page has 4,096 bytes: up to 340 entries (hash u64, number u32), their
//! count (u16) at byte 4,080, and at byte 4,088 the XXH3 of everything before, seeded with the page's number. All
//! numbers are little endian. The first hashes and the filter are held in memory, which takes 1.5 bytes for each
//! transaction.

use super::log::{PAGE_BYTES, damaged};
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

const MAGIC: &[u8; 8] = b"LSFRUN01";
const ENTRY_BYTES: usize = 12;
/// Maximum number of entries in a page.
const PAGE_ENTRIES_MAX: usize = 340;
const COUNT_AT: usize = PAGE_ENTRIES_MAX * ENTRY_BYTES;
const SUM_AT: usize = PAGE_BYTES - 8;
/// Size of the footer, in bytes: magic; seed, number of pages, words of the filter, and hash of both sections (u64
/// each); first and span (u32 each); hash of the footer (u64).
const FOOTER_BYTES: usize = 8 + 4 * 8 + 2 * 4 + 8;
/// Number of 64-bit words in a block of the filter. All bits of an id are in one block, which is a cache line.
const BLOCK_WORDS: usize = 8;
/// Number of ids for each block: 12 bits per id, for a false positive rate of 1 in 150.
const BLOCK_IDS: u64 = 42;
/// Number of bits that an id sets in its block.
const PROBES: u32 = 6;

/// Bloom filter over the ids of a run. It consists of blocks of [`BLOCK_WORDS`] words; the hash of an id selects one
/// block.
#[derive(Debug)]
struct Filter(Vec<u64>);

impl Filter {
    fn new(entries: u64) -> Self {
        Self(vec![0; entries.div_ceil(BLOCK_IDS).max(1) as usize * BLOCK_WORDS])
    }

    fn block(&self, hash: u64) -> usize {
        let blocks = (self.0.len() / BLOCK_WORDS) as u128;
        ((u128::from(hash) * blocks) >> 64) as usize * BLOCK_WORDS
    }

    /// Returns the bits that an id with this hash sets in its block of the filter: index of the word, and the bits in
    /// that word.
    fn bits(hash: u64) -> impl Iterator<Item = (usize, u64)> {
        let mixed = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (0..PROBES).map(move |probe| {
            let bit = mixed >> (9 * probe + 10);
            ((bit >> 6) as usize % BLOCK_WORDS, 1 << (bit & 63))
        })
    }

    fn add(&mut self, hash: u64) {
        let block = self.block(hash);
        for (word, bit) in Self::bits(hash) {
            if let Some(word) = self.0.get_mut(block + word) {
                *word |= bit;
            }
        }
    }

    fn may_have(&self, hash: u64) -> bool {
        let block = self.block(hash);
        Self::bits(hash).all(|(word, bit)| self.0.get(block + word).is_some_and(|word| word & bit != 0))
    }
}

/// A run (sorted file of transaction ids) whose file is complete.
#[derive(Debug)]
pub(super) struct IdRun {
    path: PathBuf,
    file: File,
    /// Number of the first transaction.
    pub first: u32,
    /// Number of transactions that the run covers, including transactions whose id is missing or repeated.
    pub span: u32,
    /// First hash of each page.
    starts: Vec<u64>,
    filter: Filter,
}

type Entry = (u64, u32);

fn words(bytes: &[u8]) -> Vec<u64> {
    let (words, _) = bytes.as_chunks::<8>();
    words.iter().map(|word| u64::from_le_bytes(*word)).collect()
}

impl IdRun {
    fn path(folder: &Path, first: u32, span: u32) -> PathBuf {
        folder.join(format!("run-{first:010}-{span:010}"))
    }

    /// Parses the first number and the span from a file's name.
    pub fn of_name(name: &str) -> Option<(u32, u32)> {
        let (first, span) = name.strip_prefix("run-")?.split_once('-')?;
        Some((first.parse().ok()?, span.parse().ok()?))
    }

    /// Opens a run. Errors name the file.
    pub fn open(folder: &Path, first: u32, span: u32, seed: u64) -> io::Result<Self> {
        let path = Self::path(folder, first, span);
        let wrong = || damaged(&path, "the file is damaged");
        let file = File::open(&path)?;
        let length = file.metadata()?.len();
        let footer_at = length.checked_sub(FOOTER_BYTES as u64).ok_or_else(wrong)?;
        let mut footer = [0; FOOTER_BYTES];
        file.read_exact_at(&mut footer, footer_at)?;
        let (fields, sum) = footer.split_at(FOOTER_BYTES - 8);
        if !fields.starts_with(MAGIC) || xxh3_64(fields).to_le_bytes() != sum {
            return Err(wrong());
        }
        let [_, found_seed, pages, filter_words, hash, place] = words(fields)[..] else {
            return Err(wrong());
        };
        let sections = pages.saturating_add(filter_words).saturating_mul(8);
        let pages_bytes = pages.saturating_mul(PAGE_BYTES as u64);
        if (found_seed, place) != (seed, u64::from(first) | u64::from(span) << 32)
            || pages_bytes.saturating_add(sections) != footer_at
            || filter_words == 0
        {
            return Err(wrong());
        }
        let mut bytes = vec![0; sections as usize];
        file.read_exact_at(&mut bytes, pages_bytes)?;
        if xxh3_64(&bytes) != hash {
            return Err(wrong());
        }
        let mut starts = words(&bytes);
        let filter = Filter(starts.split_off(pages as usize));
        Ok(Self {
            path,
            file,
            first,
            span,
            starts,
            filter,
        })
    }

    pub fn may_have(&self, hash: u64) -> bool {
        self.filter.may_have(hash)
    }

    /// Returns the lowest transaction number among the entries with this hash for which `is` returns true.
    pub fn find(&self, hash: u64, mut is: impl FnMut(u32) -> io::Result<bool>) -> io::Result<Option<u32>> {
        let mut page = self
            .starts
            .partition_point(|start| *start < hash)
            .saturating_sub(1);
        while self.starts.get(page).is_some_and(|start| *start <= hash) {
            for (entry, number) in self.page(page)? {
                if entry == hash && is(number)? {
                    return Ok(Some(number));
                }
            }
            page += 1;
        }
        Ok(None)
    }

    fn page(&self, page: usize) -> io::Result<Vec<Entry>> {
        let mut bytes = [0; PAGE_BYTES];
        self.file
            .read_exact_at(&mut bytes, (page * PAGE_BYTES) as u64)
            .map_err(|error| damaged(&self.path, &error.to_string()))?;
        let (covered, sum) = bytes.split_at(SUM_AT);
        let count = u16::from_le_bytes([bytes[COUNT_AT], bytes[COUNT_AT + 1]]) as usize;
        if xxh3_64_with_seed(covered, page as u64).to_le_bytes() != sum || count > PAGE_ENTRIES_MAX {
            return Err(damaged(
                &self.path,
                &format!("the checksum of page {page} is wrong"),
            ));
        }
        let (entries, _) = bytes[..count * ENTRY_BYTES].as_chunks::<ENTRY_BYTES>();
        let entry = |of: &[u8; ENTRY_BYTES]| {
            let [a, b, c, d, e, f, g, h, i, j, k, l] = *of;
            (
                u64::from_le_bytes([a, b, c, d, e, f, g, h]),
                u32::from_le_bytes([i, j, k, l]),
            )
        };
        Ok(entries.iter().map(entry).collect())
    }

    fn entries(&self) -> u64 {
        (self.starts.len() * PAGE_ENTRIES_MAX) as u64
    }

    /// Removes the file. If that fails, the file is removed when the folder is opened the next time.
    pub fn remove(&self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Writer of the sorted entries of a run.
struct RunWriter {
    out: BufWriter<File>,
    page: Vec<u8>,
    count: u16,
    starts: Vec<u64>,
    filter: Filter,
}

impl RunWriter {
    fn add(&mut self, (hash, number): Entry) -> io::Result<()> {
        if self.count == 0 {
            self.starts.push(hash);
        }
        self.page.extend_from_slice(&hash.to_le_bytes());
        self.page.extend_from_slice(&number.to_le_bytes());
        self.filter.add(hash);
        self.count += 1;
        match usize::from(self.count) < PAGE_ENTRIES_MAX {
            true => Ok(()),
            false => self.end_page(),
        }
    }

    fn end_page(&mut self) -> io::Result<()> {
        if self.count == 0 {
            return Ok(());
        }
        self.page.resize(COUNT_AT, 0);
        self.page.extend_from_slice(&self.count.to_le_bytes());
        self.page.resize(SUM_AT, 0);
        let page = self.starts.len() as u64 - 1;
        let sum = xxh3_64_with_seed(&self.page, page);
        self.page.extend_from_slice(&sum.to_le_bytes());
        self.out.write_all(&self.page)?;
        self.page.clear();
        self.count = 0;
        Ok(())
    }
}

/// Writes a run of `span` transactions from number `first` on. `fill` passes the entries, at most `entries` of them,
/// sorted by hash. The file gets its name only after it is durable.
fn write(
    (folder, seed): (&Path, u64),
    (first, span): (u32, u32),
    entries: u64,
    fill: impl FnOnce(&mut dyn FnMut(Entry) -> io::Result<()>) -> io::Result<()>,
) -> io::Result<Arc<IdRun>> {
    let path = IdRun::path(folder, first, span);
    let new = path.with_extension("new");
    let mut writing = RunWriter {
        out: BufWriter::with_capacity(1 << 18, File::create(&new)?),
        page: Vec::with_capacity(PAGE_BYTES),
        count: 0,
        starts: Vec::new(),
        filter: Filter::new(entries),
    };
    fill(&mut |entry| writing.add(entry))?;
    writing.end_page()?;
    let RunWriter {
        mut out,
        starts,
        filter,
        ..
    } = writing;
    let sections: Vec<u8> = starts
        .iter()
        .chain(&filter.0)
        .flat_map(|word| word.to_le_bytes())
        .collect();
    out.write_all(&sections)?;
    let mut footer = MAGIC.to_vec();
    for word in [
        seed,
        starts.len() as u64,
        filter.0.len() as u64,
        xxh3_64(&sections),
    ] {
        footer.extend_from_slice(&word.to_le_bytes());
    }
    footer.extend_from_slice(&first.to_le_bytes());
    footer.extend_from_slice(&span.to_le_bytes());
    footer.extend_from_slice(&xxh3_64(&footer).to_le_bytes());
    out.write_all(&footer)?;
    out.into_inner()
        .map_err(io::IntoInnerError::into_error)?
        .sync_all()?;
    fs::rename(&new, &path)?;
    File::open(folder)?.sync_all()?;
    Ok(Arc::new(IdRun {
        file: File::open(&path)?,
        path,
        first,
        span,
        starts,
        filter,
    }))
}

/// Sorts the entries and writes a run of them.
pub(super) fn build(at: (&Path, u64), place: (u32, u32), mut entries: Vec<Entry>) -> io::Result<Arc<IdRun>> {
    entries.sort_unstable();
    write(at, place, entries.len() as u64, |add| {
        entries.iter().try_for_each(|entry| add(*entry))
    })
}

/// Merges contiguous runs into one.
pub(super) fn merge(at: (&Path, u64), runs: &[Arc<IdRun>]) -> io::Result<Arc<IdRun>> {
    let first = runs.first().map_or(0, |run| run.first);
    let span = runs.iter().map(|run| run.span).sum();
    let entries = runs.iter().map(|run| run.entries()).sum();
    write(at, (first, span), entries, |add| {
        let mut cursors = Vec::new();
        for run in runs {
            let mut cursor = Cursor {
                run,
                page: 0,
                entries: Vec::new().into_iter(),
                next: None,
            };
            cursor.step()?;
            cursors.push(cursor);
        }
        loop {
            let ahead = cursors.iter_mut().filter(|cursor| cursor.next.is_some());
            let Some(cursor) = ahead.min_by_key(|cursor| cursor.next) else {
                return Ok(());
            };
            if let Some(entry) = cursor.next {
                add(entry)?;
            }
            cursor.step()?;
        }
    })
}

/// Cursor over the entries of a run, in order.
struct Cursor<'r> {
    run: &'r IdRun,
    page: usize,
    entries: std::vec::IntoIter<Entry>,
    next: Option<Entry>,
}

impl Cursor<'_> {
    fn step(&mut self) -> io::Result<()> {
        self.next = self.entries.next();
        if self.next.is_none() && self.page < self.run.starts.len() {
            self.entries = self.run.page(self.page)?.into_iter();
            self.page += 1;
            self.next = self.entries.next();
        }
        Ok(())
    }
}
