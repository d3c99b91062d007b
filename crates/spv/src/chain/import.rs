//! Import of blocks from files: headers are read first; then the blocks are stored in an order in which every parent
//! precedes its children.

use super::scan::{self, ScannedBlock, Source};
use super::store::ChainStore;
use super::types::ChainError;
use super::validate::Refused;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::fs::File;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Number of imported bytes after which the import syncs the store. An interrupted import resumes after the last sync.
/// A sync also happens after an interval of time, but not before `SYNC_SHARE` times the duration of the last sync, so
/// that syncs cost at most a twentieth of the time.
const SYNC_BYTES: u64 = 256 << 20;
const SYNC_INTERVAL: Duration = Duration::from_millis(100);
const SYNC_SHARE: u32 = 20;
const OPEN_FILES: usize = 64;

/// Options of an import.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImportOptions {
    /// Accept blocks whose ancestors are unknown (archives, test data); all other checks apply.
    pub detached: bool,
}

/// Phase of an import.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Reading headers.
    Scanning,
    /// Checking and accepting blocks.
    Storing,
    /// Connecting the best chain.
    Connecting,
}

/// Progress of an import.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Current phase.
    pub phase: Phase,
    /// Number of bytes that this phase has processed.
    pub bytes: u64,
    /// Total number of bytes that this phase has to process.
    pub total_bytes: u64,
    /// Number of blocks that were found or accepted so far.
    pub blocks: u64,
}

/// A block, or bytes in a file, that the import refused.
#[derive(Debug)]
pub struct RefusedBlock {
    /// Path of the file that contains the block.
    pub path: PathBuf,
    /// Offset in bytes at which the block begins in the file.
    pub offset: u64,
    /// The block's hash, where a header could be read.
    pub hash: Option<[u8; 32]>,
    /// Reason of the refusal.
    pub reason: Refused,
}

/// Result of an import.
#[derive(Debug, Default)]
pub struct ImportReport {
    /// Number of accepted blocks.
    pub blocks: u64,
    /// Number of transactions in the accepted blocks.
    pub transactions: u64,
    /// Total length of the accepted blocks in bytes.
    pub bytes: u64,
    /// Number of blocks that the store already had, or that the files contain more than once.
    pub already_stored: u64,
    /// Blocks, and bytes that are not a block, that the import refused.
    pub refused: Vec<RefusedBlock>,
    /// Number of accepted blocks that are connected now, detached blocks included.
    pub connected: u64,
    /// Number of accepted blocks on side branches.
    pub side: u64,
    /// Number of accepted blocks that are detached.
    pub detached: u64,
}

impl ChainStore {
    /// Imports `paths`: raw blocks (one in each file), files of magic, length and block, directories with blk*.dat.
    ///
    /// A repeated import resumes where the last one ended. Blocks that the store has are checked again, because a known
    /// header does not prove the transactions in the file, but they are not stored again. On return everything is
    /// durable and the best chain is connected.
    pub fn import(
        &mut self,
        paths: &[PathBuf],
        options: ImportOptions,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<ImportReport, ChainError> {
        let sources = scan::sources(paths)?;
        let mut report = ImportReport::default();
        let blocks = self.scan_all(&sources, &mut report, progress)?;
        let first = self.blocks();
        let mut run = ImportRun::new(self, &sources, blocks, options, report);
        run.take_all(progress)?;
        let ImportRun {
            mut report, total, ..
        } = run;

        progress(Progress {
            phase: Phase::Connecting,
            bytes: total,
            total_bytes: total,
            blocks: report.blocks,
        });
        self.sync_index()?;
        self.catch_up()?;
        for number in first..self.blocks() {
            let Some(block) = self.block(super::BlockId(number as u32)) else {
                continue;
            };
            report.detached += u64::from(block.detached);
            *if block.connected {
                &mut report.connected
            } else {
                &mut report.side
            } += 1;
        }
        Ok(report)
    }

    fn scan_all(
        &self,
        sources: &[Source],
        report: &mut ImportReport,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Vec<ScannedBlock>, ChainError> {
        let total_bytes = sources.iter().map(|source| source.len).sum();
        let (mut blocks, mut bytes) = (Vec::new(), 0);
        for (number, source) in sources.iter().enumerate() {
            let mut unreadable = Vec::new();
            source
                .scan(number as u32, self.identity(), &mut blocks, &mut unreadable)
                .map_err(|e| ChainError::Io {
                    path: source.path.clone(),
                    source: e,
                })?;
            report
                .refused
                .extend(unreadable.into_iter().map(|(offset, why)| RefusedBlock {
                    path: source.path.clone(),
                    offset,
                    hash: None,
                    reason: Refused::Malformed(why),
                }));
            bytes += source.len;
            progress(Progress {
                phase: Phase::Scanning,
                bytes,
                total_bytes,
                blocks: blocks.len() as u64,
            });
        }
        Ok(blocks)
    }
}

/// Second phase of an import: checks and stores the blocks.
struct ImportRun<'a> {
    store: &'a mut ChainStore,
    sources: &'a [Source],
    blocks: Vec<ScannedBlock>,
    options: ImportOptions,
    report: ImportReport,
    /// Found blocks that wait for their parent, by the parent's hash.
    waiting: HashMap<[u8; 32], Vec<u32>>,
    /// Numbers of the blocks whose parent is in the store, in the order of the files; the lowest number is stored next.
    ready: BinaryHeap<Reverse<u32>>,
    open: HashMap<u32, File>,
    done: u64,
    total: u64,
    unsynced: u64,
    next_sync: Instant,
}

impl<'a> ImportRun<'a> {
    fn new(
        store: &'a mut ChainStore,
        sources: &'a [Source],
        blocks: Vec<ScannedBlock>,
        options: ImportOptions,
        report: ImportReport,
    ) -> ImportRun<'a> {
        let mut waiting: HashMap<[u8; 32], Vec<u32>> = HashMap::new();
        let mut ready = BinaryHeap::new();
        for (i, block) in blocks.iter().enumerate() {
            let is_stored = |hash| store.find(hash).is_some();
            if block.parent == [0; 32] || is_stored(&block.parent) || is_stored(&block.hash) {
                ready.push(Reverse(i as u32));
            } else {
                waiting.entry(block.parent).or_default().push(i as u32);
            }
        }
        let total = blocks.iter().map(|block| u64::from(block.len)).sum();
        let open = HashMap::new();
        ImportRun {
            store,
            sources,
            blocks,
            options,
            report,
            waiting,
            ready,
            open,
            done: 0,
            total,
            unsynced: 0,
            next_sync: Instant::now() + SYNC_INTERVAL,
        }
    }

    fn take_all(&mut self, progress: &mut dyn FnMut(Progress)) -> Result<(), ChainError> {
        let mut buffer = Vec::new();
        loop {
            while let Some(Reverse(i)) = self.ready.pop() {
                self.take(i as usize, &mut buffer)?;
                progress(Progress {
                    phase: Phase::Storing,
                    bytes: self.done,
                    total_bytes: self.total,
                    blocks: self.report.blocks,
                });
            }
            if self.waiting.is_empty() {
                return Ok(());
            }
            // The remaining blocks have no known ancestor.
            if !self.options.detached {
                return self.refuse_waiting();
            }
            let waiting: HashSet<[u8; 32]> = self
                .waiting
                .values()
                .flatten()
                .map(|i| self.blocks[*i as usize].hash)
                .collect();
            let roots: Vec<[u8; 32]> = self
                .waiting
                .keys()
                .filter(|parent| !waiting.contains(*parent))
                .copied()
                .collect();
            if roots.is_empty() {
                return self.refuse_waiting();
            }
            for root in roots {
                self.ready
                    .extend(self.waiting.remove(&root).into_iter().flatten().map(Reverse));
            }
        }
    }

    fn take(&mut self, i: usize, buffer: &mut Vec<u8>) -> Result<(), ChainError> {
        let ScannedBlock {
            source,
            offset,
            len,
            hash,
            ..
        } = self.blocks[i];
        let from = &self.sources[source as usize];
        let io = |e| ChainError::Io {
            path: from.path.clone(),
            source: e,
        };
        if self.open.len() >= OPEN_FILES && !self.open.contains_key(&source) {
            self.open.clear();
        }
        let file = match self.open.entry(source) {
            std::collections::hash_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::hash_map::Entry::Vacant(entry) => {
                entry.insert(File::open(&from.path).map_err(io)?)
            }
        };
        buffer.resize(len as usize, 0);
        from.read(file, offset, buffer).map_err(io)?;
        self.done += u64::from(len);
        match self.store.submit(buffer, self.options.detached) {
            Ok(outcome) if outcome.already_known => self.report.already_stored += 1,
            Ok(outcome) => {
                self.report.blocks += 1;
                self.report.bytes += u64::from(len);
                self.report.transactions += self.store.txids(outcome.id).len() as u64;
                self.unsynced += u64::from(len);
                self.ready
                    .extend(self.waiting.remove(&hash).into_iter().flatten().map(Reverse));
                if self.unsynced >= SYNC_BYTES || Instant::now() >= self.next_sync {
                    let start = Instant::now();
                    self.store.sync()?;
                    self.unsynced = 0;
                    self.next_sync = Instant::now() + SYNC_INTERVAL.max(start.elapsed() * SYNC_SHARE);
                }
            }
            // The disk failed, not the block: later blocks would fail too.
            Err(Refused::Storage(error)) => return Err(ChainError::Write(error)),
            Err(reason) => self.refuse(i, reason),
        }
        Ok(())
    }

    fn refuse(&mut self, i: usize, reason: Refused) {
        let block = &self.blocks[i];
        let path = self.sources[block.source as usize].path.clone();
        self.report.refused.push(RefusedBlock {
            path,
            offset: block.offset,
            hash: Some(block.hash),
            reason,
        });
    }

    fn refuse_waiting(&mut self) -> Result<(), ChainError> {
        let mut waiting: Vec<u32> = std::mem::take(&mut self.waiting)
            .into_values()
            .flatten()
            .collect();
        waiting.sort_unstable();
        for i in waiting {
            self.refuse(i as usize, Refused::UnknownParent(self.blocks[i as usize].parent));
        }
        Ok(())
    }
}
