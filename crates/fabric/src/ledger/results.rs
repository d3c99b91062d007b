//! Results of blocks in shared memory for other processes: `fabric_result` of `spec/fabric.toml`.
//!
//! A block is published once it is durable. The file holds only the last blocks; a reader that needs an older block
//! must read the ledger.

use super::error::LedgerError;
use super::store::BlockMeta;
use super::totals::Totals;
use crate::code::TxCode;
use crate::layout::FabricResult;
use crate::validate::StageTimes;
use lineside_fastpath::memory::Table;
use lineside_wire::FABRIC_RESULTS_MAGIC;
use memmap2::MmapRaw;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Default number of blocks whose results one file holds.
pub const BLOCKS_PER_FILE: usize = 64;
/// Maximum number of codes in a slot.
const CODES: usize = 65_536;
/// Number of attempts of a reader to read a slot that is being written.
const SLOT_READ_ATTEMPTS: usize = 1_000;

/// Arrival time of a block and the durations of its stages.
#[derive(Clone, Copy, Debug)]
pub struct BlockTimes {
    received: Instant,
    times: StageTimes,
    pub(crate) ledger_from: Option<Instant>,
}

impl BlockTimes {
    /// Creates the times of a block that was complete at `received`.
    pub fn new(received: Instant, times: StageTimes) -> Self {
        Self {
            received,
            times,
            ledger_from: None,
        }
    }
}

/// Result of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockResult {
    /// Block number.
    pub number: u64,
    /// Number of transactions.
    pub transactions: u32,
    /// Number of transactions with the code VALID.
    pub valid: u32,
    /// Validation codes, one byte each; at most the first 65,536.
    pub codes: Vec<u8>,
    /// Header hash.
    pub header_hash: [u8; 32],
    /// Commit hash.
    pub commit_hash: Option<[u8; 32]>,
    /// Time for parsing the block, in nanoseconds.
    pub parse_ns: u64,
    /// Time for looking up identities and verifying signatures, in nanoseconds.
    pub verify_ns: u64,
    /// Time for determining codes and evaluating policies, in nanoseconds.
    pub policy_ns: u64,
    /// Time for checking reads, collecting writes and computing the commit hash, in nanoseconds.
    pub mvcc_ns: u64,
    /// Time from the start of the ledger's write until the block was durable, in nanoseconds.
    pub ledger_ns: u64,
    /// Time from the arrival of the complete block until it was durable, in nanoseconds.
    pub total_ns: u64,
    /// Time at which the block became durable, in nanoseconds since 1970.
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
    let what = "it is not a file of block results; give the path of a replica's results file";
    let wrong = || io::Error::new(io::ErrorKind::InvalidData, what);
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

/// Returns whether `path` is a file of results, or one that was not initialised: every slot has the magic or is all
/// zeros. Returns false if there is no file, and the error `InvalidData` if `path` is a file of another kind.
fn replaceable(path: &Path) -> io::Result<bool> {
    let wrong = || {
        let what = format!(
            "{} exists and is not a file of block results; give another path",
            path.display()
        );
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
    let (mut file, mut first) = (File::open(path)?, vec![0; size_of::<FabricResult>()]);
    for _ in 0..metadata.len() / first.len() as u64 {
        file.read_exact(&mut first)?;
        if !first.starts_with(&FABRIC_RESULTS_MAGIC.to_ne_bytes()) && first.iter().any(|byte| *byte != 0) {
            return Err(wrong());
        }
    }
    Ok(true)
}

/// Writer of results. A file must have only one writer.
#[derive(Debug)]
pub struct Publisher {
    table: Arc<Table<FabricResult>>,
    totals: Arc<Totals>,
}

impl Publisher {
    /// Creates a table for this process only.
    ///
    /// # Errors
    /// The memory cannot be allocated.
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

    /// Returns a reader of this table.
    pub fn results(&self) -> Results {
        Results {
            table: Arc::clone(&self.table),
        }
    }

    /// Returns the totals over all blocks published by this writer.
    pub fn totals(&self) -> Arc<Totals> {
        Arc::clone(&self.totals)
    }

    /// Opens the file at `path`, or creates it. A new file is created as `PATH.new` and then renamed to `path`. Readers
    /// that still have a replaced file open see no further blocks.
    ///
    /// # Errors
    /// A system error; `InvalidData` if `path` or `PATH.new` is another kind of file, which is left unchanged.
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
            for slot in table.as_slice() {
                // An odd `seq` means that the previous writer was killed while it wrote this slot.
                if slot.seq.load(Ordering::Relaxed) % 2 == 1 {
                    slot.number.store(u64::MAX, Ordering::Relaxed);
                    slot.seq.fetch_add(1, Ordering::Release);
                }
            }
            return Ok(Self::of(table));
        }
        if replaceable(&new)? {
            // The previous writer was killed before it renamed the file.
            std::fs::remove_file(&new)?;
        }
        let file = options.create_new(true).open(&new)?;
        file.set_len((places * size_of::<FabricResult>()) as u64)?;
        let wrong = || {
            io::Error::new(
                io::ErrorKind::InvalidInput,
                "a file of results must have at least one slot",
            )
        };
        let table: Table<FabricResult> = Table::shared(MmapRaw::map_raw(&file)?, places)
            .filter(|_| places > 0)
            .ok_or_else(wrong)?;
        for slot in table.as_slice() {
            slot.magic.store(FABRIC_RESULTS_MAGIC, Ordering::Release);
        }
        std::fs::rename(&new, path)?;
        Ok(Self::of(table))
    }

    /// Publishes a durable block.
    pub(crate) fn publish(&mut self, meta: &BlockMeta, timed: &BlockTimes) {
        let places = self.table.as_slice();
        let Some(slot) = places.get((meta.number % places.len().max(1) as u64) as usize) else {
            return;
        };
        let set = |word: &AtomicU64, value| word.store(value, Ordering::Relaxed);
        let seq = slot.seq.load(Ordering::Relaxed);
        set(&slot.seq, seq | 1);
        fence(Ordering::Release);
        let codes = meta.codes.get(..meta.codes.len().min(CODES)).unwrap_or_default();
        let valid = meta.codes.iter().filter(|code| **code == TxCode::Valid as u8);
        set(&slot.number, meta.number);
        slot.transactions
            .store(meta.codes.len() as u32, Ordering::Relaxed);
        slot.valid.store(valid.count() as u32, Ordering::Relaxed);
        slot.codes_bytes.store(codes.len() as u32, Ordering::Relaxed);
        let has_commit_hash = u32::from(meta.commit_hash.is_some());
        slot.has_commit_hash.store(has_commit_hash, Ordering::Relaxed);
        put(&slot.header_hash, &meta.hash);
        put(&slot.commit_hash, &meta.commit_hash.unwrap_or_default());
        set(&slot.parse_ns, nanoseconds(timed.times.parse));
        set(&slot.verify_ns, nanoseconds(timed.times.verify));
        set(&slot.policy_ns, nanoseconds(timed.times.policy));
        set(&slot.mvcc_ns, nanoseconds(timed.times.mvcc));
        let ledger = timed.ledger_from.map_or(Duration::ZERO, |from| from.elapsed());
        set(&slot.ledger_ns, nanoseconds(ledger));
        set(&slot.total_ns, nanoseconds(timed.received.elapsed()));
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        set(&slot.durable_unix_ns, nanoseconds(now));
        put(&slot.codes, codes);
        let stages = [
            &slot.parse_ns,
            &slot.verify_ns,
            &slot.policy_ns,
            &slot.mvcc_ns,
            &slot.ledger_ns,
            &slot.total_ns,
        ];
        let stages = stages.map(|stage| stage.load(Ordering::Relaxed));
        self.totals.add(&meta.codes, stages);
        slot.seq.store((seq | 1).wrapping_add(1), Ordering::Release);
    }
}

/// Reader of results that another process writes.
#[derive(Debug)]
pub struct Results {
    table: Arc<Table<FabricResult>>,
}

impl Results {
    /// Opens the file at `path`.
    ///
    /// # Errors
    /// A system error; `InvalidData` if the file is not a file of block results.
    pub fn open(path: &Path) -> Result<Self, LedgerError> {
        // The mapping type requires a writable file, although nothing is written.
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        Ok(Self {
            table: Arc::new(map(&file)?),
        })
    }

    /// Returns the last published block.
    pub fn newest(&self) -> Option<BlockResult> {
        let written = |place: &&FabricResult| {
            place.seq.load(Ordering::Acquire) != 0 && place.number.load(Ordering::Relaxed) != u64::MAX
        };
        let places = self.table.as_slice().iter().filter(written);
        let number = places.map(|place| place.number.load(Ordering::Relaxed)).max()?;
        self.block(number)
    }

    /// Returns a block; `None` if it is not durable yet, or if a later block has taken its slot.
    pub fn block(&self, number: u64) -> Option<BlockResult> {
        let places = self.table.as_slice();
        let slot = places.get((number % places.len().max(1) as u64) as usize)?;
        for _ in 0..SLOT_READ_ATTEMPTS {
            let seq = slot.seq.load(Ordering::Acquire);
            if seq == 0 {
                return None;
            }
            if seq % 2 == 1 {
                std::thread::yield_now();
                continue;
            }
            let result = read(slot);
            fence(Ordering::Acquire);
            if slot.seq.load(Ordering::Relaxed) == seq {
                return Some(result).filter(|result| result.number == number);
            }
        }
        None
    }
}

fn read(slot: &FabricResult) -> BlockResult {
    let word = |word: &AtomicU64| word.load(Ordering::Relaxed);
    let codes_bytes = (slot.codes_bytes.load(Ordering::Relaxed) as usize).min(CODES);
    let has_commit_hash = slot.has_commit_hash.load(Ordering::Relaxed) == 1;
    BlockResult {
        number: word(&slot.number),
        transactions: slot.transactions.load(Ordering::Relaxed),
        valid: slot.valid.load(Ordering::Relaxed),
        codes: get(&slot.codes, codes_bytes),
        header_hash: get_hash(&slot.header_hash),
        commit_hash: has_commit_hash.then(|| get_hash(&slot.commit_hash)),
        parse_ns: word(&slot.parse_ns),
        verify_ns: word(&slot.verify_ns),
        policy_ns: word(&slot.policy_ns),
        mvcc_ns: word(&slot.mvcc_ns),
        ledger_ns: word(&slot.ledger_ns),
        total_ns: word(&slot.total_ns),
        durable_unix_ns: word(&slot.durable_unix_ns),
    }
}
