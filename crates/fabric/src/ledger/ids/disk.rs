//! Ids and codes in files, with the newest ids in memory and a filter in memory for each file of older ids.
//!
//! All files can be rebuilt from the ledger. The checkpoint records how many transactions it covers. Records beyond
//! that number are ignored when the folder is opened, and are added again when the blocks after the checkpoint are
//! replayed. The files are durable before a checkpoint that depends on them is written.
//!
//! A lookup uses a keyed hash of the id. It checks the newest ids and the filter of each run; if a filter indicates a
//! possible match, it reads the run's file and compares the id itself. A lookup of a new id therefore touches a few
//! cache lines, and rarely reads a file.

use super::log::{IdsCheckpoint, Log, PageChecksum, damaged};
use super::run::{self, IdRun};
use super::{NO_ID, Record};
use hashbrown::HashTable;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Number of transactions whose ids are collected in memory before they are written as a run. While a run is written,
/// up to twice as many ids are in memory.
const RECENT_IDS: usize = if cfg!(test) { 1 << 8 } else { 1 << 18 };
/// Number of runs of about one size that are merged into one.
const RUNS_MERGED: usize = 4;

/// Ids of the newest transactions.
#[derive(Debug)]
struct RecentIds {
    /// Number of the first transaction.
    first: u32,
    ids: Vec<[u8; 32]>,
    /// Hash and number of each distinct id.
    table: HashTable<(u64, u32)>,
}

impl RecentIds {
    fn new(first: u32) -> Self {
        Self {
            first,
            ids: Vec::with_capacity(RECENT_IDS + RECENT_IDS / 8),
            table: HashTable::with_capacity(RECENT_IDS + RECENT_IDS / 8),
        }
    }

    fn find(&self, hash: u64, id: &[u8; 32]) -> Option<u32> {
        let is = |(found, number): &(u64, u32)| {
            *found == hash && self.ids.get((number - self.first) as usize) == Some(id)
        };
        self.table.find(hash, is).map(|(_, number)| *number)
    }

    fn push(&mut self, hash: u64, id: [u8; 32]) {
        if id != NO_ID && self.find(hash, &id).is_none() {
            let number = self.first + self.ids.len() as u32;
            self.table.insert_unique(hash, (hash, number), |(hash, _)| *hash);
        }
        self.ids.push(id);
    }

    fn end(&self) -> u32 {
        self.first + self.ids.len() as u32
    }
}

/// Result of writing a run, a sorted file of transaction ids.
struct BuiltRun {
    runs: Vec<Arc<IdRun>>,
    /// Runs whose transactions were merged into another run; the run that was just written may be one of them.
    merged: Vec<Arc<IdRun>>,
}

/// Thread that writes a run, a sorted file of transaction ids.
type RunBuild = JoinHandle<io::Result<BuiltRun>>;

/// Ids and codes in a folder that this process writes.
#[derive(Debug)]
pub(crate) struct DiskIds {
    folder: PathBuf,
    log: Log,
    /// Runs, oldest first.
    runs: Vec<Arc<IdRun>>,
    /// Ids that are being written as a run.
    frozen: Option<Arc<RecentIds>>,
    building: Option<RunBuild>,
    recent: RecentIds,
    failure: OnceLock<String>,
}

impl Drop for DiskIds {
    fn drop(&mut self) {
        if let Some(building) = self.building.take() {
            let _ = building.join();
        }
    }
}

fn marker(folder: &Path) -> PathBuf {
    folder.join("damaged")
}

impl DiskIds {
    /// Creates an empty index and removes the folder's previous content.
    pub fn create(folder: &Path) -> io::Result<Self> {
        match fs::remove_dir_all(folder) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => fs::create_dir_all(folder)?,
        }
        Ok(Self::with(folder, Log::create(folder)?, Vec::new()))
    }

    /// Opens an index that has at least the first `transactions` transactions, the number in a checkpoint. `tail` is
    /// the checkpoint's part about ids. Also returns the runs that had to be rebuilt, with the reasons. Errors name the
    /// file.
    pub fn open(folder: &Path, transactions: u64, tail: IdsCheckpoint) -> io::Result<(Self, Vec<String>)> {
        if let Ok(why) = fs::read_to_string(marker(folder)) {
            return Err(io::Error::new(ErrorKind::InvalidData, why));
        }
        let log = Log::open(folder, transactions, tail, true)?;
        let (runs, remade) = runs(folder, transactions, log.seed)?;
        let covered = runs.last().map_or(0, |run| run.first + run.span);
        let mut ids = Self::with(folder, log, runs);
        let seed = ids.log.seed;
        let mut next = covered as usize;
        while next < ids.log.len() {
            let mut newest = Vec::new();
            ids.log.each(next..next + RECENT_IDS, &mut |_, (id, _)| {
                newest.push(id);
                Ok(())
            })?;
            next += RECENT_IDS;
            for id in newest {
                ids.recent.push(xxh3_64_with_seed(&id, seed), id);
                ids.freeze_if_full()?;
            }
        }
        Ok((ids, remade))
    }

    fn with(folder: &Path, log: Log, runs: Vec<Arc<IdRun>>) -> Self {
        let covered = runs.last().map_or(0, |run| run.first + run.span);
        Self {
            folder: folder.to_owned(),
            log,
            runs,
            frozen: None,
            building: None,
            recent: RecentIds::new(covered),
            failure: OnceLock::new(),
        }
    }

    /// Makes every later write to the file of all ids fail, for tests.
    #[cfg(test)]
    pub fn refuse_writes(&mut self) {
        self.log.refuse_writes();
    }

    pub fn len(&self) -> usize {
        self.log.len()
    }

    pub fn failure(&self) -> Option<&str> {
        self.failure.get().map(String::as_str)
    }

    /// Returns the checksum of the first `pages` full pages, which must be written.
    pub fn sum_after(&self, pages: u64) -> io::Result<PageChecksum> {
        self.log.sum_after(pages).inspect_err(|error| self.fail(error))
    }

    /// Records the first failure. If the failure is damage, the next process that opens the folder rebuilds the files.
    pub fn fail(&self, error: &io::Error) {
        let what = format!("the index of transaction ids: {error}");
        if matches!(error.kind(), ErrorKind::InvalidData | ErrorKind::UnexpectedEof) {
            let _ = fs::write(marker(&self.folder), &what);
        }
        self.failure.get_or_init(|| what);
    }

    pub fn push(&mut self, id: [u8; 32], code: u8) {
        let hash = xxh3_64_with_seed(&id, self.log.seed);
        let pushed = self.log.push(&id, code);
        self.recent.push(hash, id);
        let pushed = pushed.and_then(|()| self.freeze_if_full());
        if let Err(error) = pushed {
            self.fail(&error);
        }
    }

    /// Starts a thread that writes the newest ids as a run, if there are enough.
    fn freeze_if_full(&mut self) -> io::Result<()> {
        if self.building.as_ref().is_some_and(JoinHandle::is_finished) {
            self.end_building()?;
        }
        if self.recent.ids.len() < RECENT_IDS || self.failure.get().is_some() {
            return Ok(());
        }
        self.end_building()?;
        // The records that a run refers to must be durable before the run is durable.
        self.log.write()?;
        let file = self.log.file()?;
        let next = RecentIds::new(self.recent.end());
        let frozen = Arc::new(std::mem::replace(&mut self.recent, next));
        self.frozen = Some(frozen.clone());
        let (folder, seed, mut runs) = (self.folder.clone(), self.log.seed, self.runs.clone());
        let build = move || {
            file.sync_data()?;
            let entries = frozen.table.iter().copied().collect();
            let range = (frozen.first, frozen.ids.len() as u32);
            runs.push(run::build((&folder, seed), range, entries)?);
            let mut replaced = Vec::new();
            while let Some(from) = mergeable(&runs) {
                let merged = run::merge((&folder, seed), &runs[from..])?;
                replaced.extend(runs.drain(from..));
                runs.push(merged);
            }
            Ok(BuiltRun {
                runs,
                merged: replaced,
            })
        };
        self.building = Some(std::thread::Builder::new().name("ids".into()).spawn(build)?);
        Ok(())
    }

    /// Waits for the thread that writes runs, and replaces the merged runs by the new run.
    fn end_building(&mut self) -> io::Result<()> {
        let Some(building) = self.building.take() else {
            return Ok(());
        };
        let ended = building.join();
        let built =
            ended.unwrap_or_else(|_| Err(io::Error::other("the thread that writes runs panicked")))?;
        built.merged.iter().for_each(|run| run.remove());
        self.runs = built.runs;
        self.frozen = None;
        Ok(())
    }

    /// Writes all full pages. Returns a function, for another thread, that makes them durable.
    pub fn sync(&mut self) -> io::Result<impl FnOnce() -> io::Result<()> + Send + use<>> {
        self.log.write()?;
        let (file, folder) = (self.log.file()?, fs::File::open(&self.folder)?);
        Ok(move || {
            file.sync_data()?;
            folder.sync_all()
        })
    }

    pub fn find(&self, id: &[u8; 32]) -> Option<u32> {
        let hash = xxh3_64_with_seed(id, self.log.seed);
        let is = |number| {
            Ok(self
                .log
                .record(number as usize)?
                .is_some_and(|(found, _)| found == *id))
        };
        for run in self.runs.iter().filter(|run| run.may_have(hash)) {
            match run.find(hash, is) {
                Ok(None) => {}
                Ok(found) => return found,
                Err(error) => {
                    self.fail(&error);
                    return None;
                }
            }
        }
        let frozen = self.frozen.as_ref().and_then(|frozen| frozen.find(hash, id));
        frozen.or_else(|| self.recent.find(hash, id))
    }

    pub fn record(&self, number: usize) -> Option<Record> {
        self.log.record(number).unwrap_or_else(|error| {
            self.fail(&error);
            None
        })
    }
}

/// Returns the index from which on the newest runs are to be merged: [`RUNS_MERGED`] of about one size.
fn mergeable(runs: &[Arc<IdRun>]) -> Option<usize> {
    let level = |run: &Arc<IdRun>| (run.span as usize / RECENT_IDS).max(1).ilog(RUNS_MERGED);
    let from = runs.len().checked_sub(RUNS_MERGED)?;
    let newest = runs.get(from..)?;
    let of = level(newest.last()?);
    newest.iter().all(|run| level(run) == of).then_some(from)
}

/// Returns the contiguous runs in a folder for the first `transactions` transactions, and the faults of damaged runs.
/// All other files of runs are removed.
fn runs(folder: &Path, transactions: u64, seed: u64) -> io::Result<(Vec<Arc<IdRun>>, Vec<String>)> {
    let (mut usable, mut remade) = (Vec::new(), Vec::new());
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        let name = name.to_str().unwrap_or_default();
        match IdRun::of_name(name) {
            Some((first, span)) if u64::from(first) + u64::from(span) <= transactions => {
                usable.push((first, std::cmp::Reverse(span)));
            }
            _ if name.starts_with("run-") => fs::remove_file(folder.join(name))?,
            _ => {}
        }
    }
    usable.sort_unstable();
    let mut runs: Vec<Arc<IdRun>> = Vec::new();
    for (first, std::cmp::Reverse(span)) in usable {
        let covered = runs.last().map_or(0, |run| run.first + run.span);
        let opened = match first == covered {
            true => IdRun::open(folder, first, span, seed),
            // The transactions of this run are also in a larger run, so the run is removed without a report.
            false if first < covered => Err(ErrorKind::AlreadyExists.into()),
            false => Err(damaged(
                folder,
                &format!("the run before transaction {first} is missing"),
            )),
        };
        match opened {
            Ok(run) => runs.push(Arc::new(run)),
            Err(error) => {
                if error.kind() != ErrorKind::AlreadyExists {
                    remade.push(error.to_string());
                }
                fs::remove_file(folder.join(format!("run-{first:010}-{span:010}")))?;
            }
        }
    }
    Ok((runs, remade))
}
