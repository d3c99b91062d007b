//! What became of each block, in memory that other processes read: `fabric_result` of `spec/fabric.toml`.
//!
//! A block is shown once it is durable. The file holds the last few of them; who falls behind asks the ledger.

use super::error::LedgerError;
use super::store::Meta;
use super::totals::Totals;
use crate::code::TxCode;
use crate::layout::FabricResult;
use crate::validate::Times;
use lineside_fastpath::memory::Table;
use lineside_wire::FABRIC_RESULTS_MAGIC;
use memmap2::MmapRaw;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Blocks that a file holds by default.
pub const PLACES: usize = 64;
/// Codes that a place holds.
const CODES: usize = 65_536;
/// A reader that finds a place being written looks so often before it gives up.
const LOOKS: usize = 1_000;

/// When a block came, and what it took.
#[derive(Clone, Copy, Debug)]
pub struct Timed {
    received: Instant,
    times: Times,
    pub(crate) ledger_from: Option<Instant>,
}

impl Timed {
    /// Of a block that came whole at `received`.
    pub fn new(received: Instant, times: Times) -> Self {
        Self {
            received,
            times,
            ledger_from: None,
        }
    }
}

/// What became of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockResult {
    /// Its number.
    pub number: u64,
    /// How many transactions it has.
    pub transactions: u32,
    /// How many of them are VALID.
    pub valid: u32,
    /// The codes, a byte each; of a very long block, the first of them.
    pub codes: Vec<u8>,
    /// Its header hash.
    pub header_hash: [u8; 32],
    /// Its commit hash.
    pub commit_hash: Option<[u8; 32]>,
    /// How long validating took.
    pub parse_ns: u64,
    /// Identities and signatures.
    pub verify_ns: u64,
    /// Codes and policies.
    pub policy_ns: u64,
    /// Reads, writes, commit hash.
    pub mvcc_ns: u64,
    /// The ledger.
    pub ledger_ns: u64,
    /// From the whole block until it was durable.
    pub total_ns: u64,
    /// When it was durable, since 1970.
    pub durable_unix_ns: u64,
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn put(words: &[AtomicU64], bytes: &[u8]) {
    for (word, chunk) in words.iter().zip(bytes.chunks(8)) {
        let mut padded = [0; 8];
        padded.iter_mut().zip(chunk).for_each(|(to, from)| *to = *from);
        word.store(u64::from_ne_bytes(padded), Ordering::Relaxed);
    }
}

fn get(words: &[AtomicU64], bytes: usize) -> Vec<u8> {
    let words = words.iter().take(bytes.div_ceil(8));
    let mut out: Vec<u8> = words
        .flat_map(|word| word.load(Ordering::Relaxed).to_ne_bytes())
        .collect();
    out.truncate(bytes);
    out
}

fn get_hash(words: &[AtomicU64; 4]) -> [u8; 32] {
    let mut hash = [0; 32];
    hash.iter_mut()
        .zip(get(words, 32))
        .for_each(|(to, from)| *to = from);
    hash
}

fn map(file: &File) -> io::Result<Table<FabricResult>> {
    let length = file.metadata()?.len() as usize;
    let memory = MmapRaw::map_raw(file)?;
    let places = length / size_of::<FabricResult>();
    let wrong = || io::Error::new(io::ErrorKind::InvalidData, "it is no file of results");
    let table: Table<FabricResult> = Table::shared(memory, places).ok_or_else(wrong)?;
    let known = table
        .as_slice()
        .iter()
        .all(|place| place.magic.load(Ordering::Relaxed) == FABRIC_RESULTS_MAGIC);
    match known && places > 0 && places * size_of::<FabricResult>() == length {
        true => Ok(table),
        false => Err(wrong()),
    }
}

/// Whether there is a file of results, or one that was not begun: every place has the magic, or is nothing but zeros.
/// False where there is none; `InvalidData` for what is something else.
fn replaceable(path: &Path) -> io::Result<bool> {
    let wrong = || {
        let what = format!("{} is there, and no file of results", path.display());
        io::Error::new(io::ErrorKind::InvalidData, what)
    };
    let metadata = match std::fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    if !metadata.is_file() || metadata.len() % size_of::<FabricResult>() as u64 != 0 {
        return Err(wrong());
    }
    let (mut file, mut place) = (File::open(path)?, vec![0; size_of::<FabricResult>()]);
    for _ in 0..metadata.len() / place.len() as u64 {
        file.read_exact(&mut place)?;
        if !place.starts_with(&FABRIC_RESULTS_MAGIC.to_ne_bytes()) && place.iter().any(|byte| *byte != 0) {
            return Err(wrong());
        }
    }
    Ok(true)
}

/// Writes results. One writer a file.
#[derive(Debug)]
pub struct Publisher {
    table: Arc<Table<FabricResult>>,
    totals: Arc<Totals>,
}

impl Publisher {
    /// For this process alone.
    ///
    /// # Errors
    /// What the system says of the memory.
    pub fn anonymous(places: usize) -> Result<Self, LedgerError> {
        let table = Table::anonymous(places.max(1))?;
        Ok(Self::of(table))
    }

    fn of(table: Table<FabricResult>) -> Self {
        Self {
            table: Arc::new(table),
            totals: Arc::default(),
        }
    }

    /// Reads what this one writes.
    pub fn results(&self) -> Results {
        Results {
            table: Arc::clone(&self.table),
        }
    }

    /// What was published since this one was made, added up.
    pub fn totals(&self) -> Arc<Totals> {
        Arc::clone(&self.totals)
    }

    /// Takes over the file at `path`, or makes one, beside it at first with `.new` behind its name; readers of one that
    /// is replaced see no more blocks.
    ///
    /// # Errors
    /// What the system says; `InvalidData` where one of the two is there and is something else: it is left alone.
    pub fn open(path: &Path, places: usize) -> Result<Self, LedgerError> {
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        let mut new = path.as_os_str().to_owned();
        new.push(".new");
        let new = PathBuf::from(new);
        if replaceable(path)?
            && let Ok(table) = options.open(path).and_then(|file| map(&file))
            && table.as_slice().len() == places
        {
            for place in table.as_slice() {
                // Whoever wrote it was killed.
                if place.seq.load(Ordering::Relaxed) % 2 == 1 {
                    place.number.store(u64::MAX, Ordering::Relaxed);
                    place.seq.fetch_add(1, Ordering::Release);
                }
            }
            return Ok(Self::of(table));
        }
        if replaceable(&new)? {
            // Whoever made it was killed before it had its name.
            std::fs::remove_file(&new)?;
        }
        let file = options.create_new(true).open(&new)?;
        file.set_len((places * size_of::<FabricResult>()) as u64)?;
        let wrong = || {
            io::Error::new(
                io::ErrorKind::InvalidInput,
                "a file of results has at least one place",
            )
        };
        let table: Table<FabricResult> = Table::shared(MmapRaw::map_raw(&file)?, places)
            .filter(|_| places > 0)
            .ok_or_else(wrong)?;
        for place in table.as_slice() {
            place.magic.store(FABRIC_RESULTS_MAGIC, Ordering::Release);
        }
        std::fs::rename(&new, path)?;
        Ok(Self::of(table))
    }

    /// Shows a block that is durable.
    pub(crate) fn publish(&mut self, meta: &Meta, timed: &Timed) {
        let places = self.table.as_slice();
        let Some(place) = places.get((meta.number % places.len().max(1) as u64) as usize) else {
            return;
        };
        let set = |word: &AtomicU64, value| word.store(value, Ordering::Relaxed);
        let seq = place.seq.load(Ordering::Relaxed);
        set(&place.seq, seq | 1);
        fence(Ordering::Release);
        let codes = meta.codes.get(..meta.codes.len().min(CODES)).unwrap_or_default();
        let valid = meta.codes.iter().filter(|code| **code == TxCode::Valid as u8);
        set(&place.number, meta.number);
        place
            .transactions
            .store(meta.codes.len() as u32, Ordering::Relaxed);
        place.valid.store(valid.count() as u32, Ordering::Relaxed);
        place.codes_bytes.store(codes.len() as u32, Ordering::Relaxed);
        let has_commit_hash = u32::from(meta.commit_hash.is_some());
        place.has_commit_hash.store(has_commit_hash, Ordering::Relaxed);
        put(&place.header_hash, &meta.hash);
        put(&place.commit_hash, &meta.commit_hash.unwrap_or_default());
        set(&place.parse_ns, nanoseconds(timed.times.parse));
        set(&place.verify_ns, nanoseconds(timed.times.verify));
        set(&place.policy_ns, nanoseconds(timed.times.policy));
        set(&place.mvcc_ns, nanoseconds(timed.times.mvcc));
        let ledger = timed.ledger_from.map_or(Duration::ZERO, |from| from.elapsed());
        set(&place.ledger_ns, nanoseconds(ledger));
        set(&place.total_ns, nanoseconds(timed.received.elapsed()));
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        set(&place.durable_unix_ns, nanoseconds(now));
        put(&place.codes, codes);
        let stages = [
            &place.parse_ns,
            &place.verify_ns,
            &place.policy_ns,
            &place.mvcc_ns,
            &place.ledger_ns,
            &place.total_ns,
        ];
        let stages = stages.map(|stage| stage.load(Ordering::Relaxed));
        self.totals.add(&meta.codes, stages);
        place.seq.store((seq | 1).wrapping_add(1), Ordering::Release);
    }
}

/// Reads results that another process writes.
#[derive(Debug)]
pub struct Results {
    table: Arc<Table<FabricResult>>,
}

impl Results {
    /// Opens the file at `path`.
    ///
    /// # Errors
    /// What the system says; `InvalidData` where it is no such file.
    pub fn open(path: &Path) -> Result<Self, LedgerError> {
        // A mapping that may be written needs such a file; nothing is written.
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        Ok(Self {
            table: Arc::new(map(&file)?),
        })
    }

    /// The last block that was shown.
    pub fn newest(&self) -> Option<BlockResult> {
        let written = |place: &&FabricResult| {
            place.seq.load(Ordering::Acquire) != 0 && place.number.load(Ordering::Relaxed) != u64::MAX
        };
        let places = self.table.as_slice().iter().filter(written);
        let number = places.map(|place| place.number.load(Ordering::Relaxed)).max()?;
        self.block(number)
    }

    /// A block; `None` where it is not durable yet, or was so long ago that another has its place.
    pub fn block(&self, number: u64) -> Option<BlockResult> {
        let places = self.table.as_slice();
        let place = places.get((number % places.len().max(1) as u64) as usize)?;
        for _ in 0..LOOKS {
            let seq = place.seq.load(Ordering::Acquire);
            if seq == 0 {
                return None;
            }
            if seq % 2 == 1 {
                std::thread::yield_now();
                continue;
            }
            let result = read(place);
            fence(Ordering::Acquire);
            if place.seq.load(Ordering::Relaxed) == seq {
                return Some(result).filter(|result| result.number == number);
            }
        }
        None
    }
}

fn read(place: &FabricResult) -> BlockResult {
    let word = |word: &AtomicU64| word.load(Ordering::Relaxed);
    let codes_bytes = (place.codes_bytes.load(Ordering::Relaxed) as usize).min(CODES);
    let has_commit_hash = place.has_commit_hash.load(Ordering::Relaxed) == 1;
    BlockResult {
        number: word(&place.number),
        transactions: place.transactions.load(Ordering::Relaxed),
        valid: place.valid.load(Ordering::Relaxed),
        codes: get(&place.codes, codes_bytes),
        header_hash: get_hash(&place.header_hash),
        commit_hash: has_commit_hash.then(|| get_hash(&place.commit_hash)),
        parse_ns: word(&place.parse_ns),
        verify_ns: word(&place.verify_ns),
        policy_ns: word(&place.policy_ns),
        mvcc_ns: word(&place.mvcc_ns),
        ledger_ns: word(&place.ledger_ns),
        total_ns: word(&place.total_ns),
        durable_unix_ns: word(&place.durable_unix_ns),
    }
}
