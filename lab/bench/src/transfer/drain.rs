//! Emptying of the fast path's rings in `express` mode: a thread takes records from the rings, makes them durable in a
//! journal, and only then releases their slots.

use crate::error::{BenchError, Result, io};
use crate::servers::SERVER_CORE;
use crate::sys;
use lineside_journal::{FsDisk, Journal, Options, record_bytes};
use lineside_transfer::ring::{Record, Ring};
use lineside_transfer::store::Store;
use serde::Serialize;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

/// Kind of the records in the journal of the benchmark.
const KIND: u8 = 32;
/// Maximum number of records in a group of the journal.
const GROUP: u64 = 1 << 15;
/// Maximum size of one record in bytes.
const RECORD_BYTES: usize = 128;
/// Time for which the thread sleeps if the rings are empty.
const EMPTY_RINGS_PAUSE: Duration = Duration::from_micros(100);

/// Counts of a thread that empties the rings.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Drained {
    /// Number of records that became durable.
    pub records: u64,
    /// Number of groups; each of them needs one fdatasync.
    pub groups: u64,
    /// Maximum number of records that were waiting when a group began.
    pub waiting_max: u64,
    /// Number of records that the ring counted but that could not be read.
    pub torn: u64,
}

/// Destination of the records from the rings.
#[derive(Clone, Debug)]
pub enum Into {
    /// A journal in this folder. The benchmark creates and removes the folder.
    Journal(PathBuf),
    /// No destination: the thread releases the slots without writing a journal.
    Nothing,
}

/// Thread that empties the rings.
pub struct Drain {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<Drained>>>,
}

impl Drain {
    /// Starts the thread on the server's core.
    pub fn start(store: &Arc<Store>, into: Into) -> Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let (store, their_stop) = (Arc::clone(store), Arc::clone(&stop));
        let thread = std::thread::Builder::new().name("bench-drain".into());
        let thread = thread.spawn(move || {
            sys::pin(SERVER_CORE).map_err(io("pinning the drain"))?;
            match into {
                Into::Nothing => nothing(&store, &their_stop),
                Into::Journal(folder) => {
                    let removed = Removed::make(&folder)?;
                    journal(&store, &their_stop, &removed.0)
                }
            }
        });
        Ok(Self {
            stop,
            thread: Some(thread.map_err(io("starting the drain"))?),
        })
    }

    /// Takes the remaining records, and ends the thread.
    pub fn end(mut self) -> Result<Drained> {
        self.stop.store(true, Relaxed);
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(result)) => result,
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            None => Ok(Drained::default()),
        }
    }
}

impl Drop for Drain {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            // The error is ignored here, because a caller that needs it calls `end`.
            let _ = thread.join();
        }
    }
}

/// Folder that is removed when this value is dropped.
pub struct Removed(pub PathBuf);

impl Removed {
    /// Creates the folder.
    pub fn make(path: &Path) -> Result<Self> {
        fs::create_dir_all(path).map_err(io("creating a folder"))?;
        Ok(Self(path.to_owned()))
    }

    /// Creates a folder below `folder` with a name that no other run uses, in this process or another one.
    pub fn of_this_run(folder: &Path) -> Result<Self> {
        static RUNS: AtomicU32 = AtomicU32::new(0);
        let (process, run) = (std::process::id(), RUNS.fetch_add(1, Relaxed));
        Self::make(&folder.join(format!("lineside-bench-{process}-{run}")))
    }
}

impl Drop for Removed {
    fn drop(&mut self) {
        // Errors are ignored: the folder then remains below the folder that the user chose.
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn nothing(store: &Store, stop: &AtomicBool) -> Result<Drained> {
    let mut drained = Drained::default();
    while !stop.load(Relaxed) {
        for index in 0..store.rings.as_slice().len() {
            let ring = Ring::of(store, index);
            let waiting = ring.waiting();
            drained.waiting_max = drained.waiting_max.max(waiting);
            ring.release(ring.tail() + waiting);
        }
        std::thread::sleep(EMPTY_RINGS_PAUSE);
    }
    Ok(drained)
}

fn journal(store: &Store, stop: &AtomicBool, folder: &Path) -> Result<Drained> {
    let failed =
        |error: lineside_journal::Error| BenchError::Void(format!("the journal of the rings: {error}"));
    let disk = FsDisk::open(folder).map_err(failed)?;
    let mut journal = Journal::create(disk, 1, Options::default()).map_err(failed)?;
    let mut drained = Drained::default();
    let mut bytes = Vec::with_capacity(RECORD_BYTES);
    loop {
        // The flag must be read first, so that the thread still takes the records that were written before the stop.
        let ends = stop.load(Relaxed);
        let mut found = 0;
        for index in 0..store.rings.as_slice().len() {
            let ring = Ring::of(store, index);
            let waiting = ring.waiting();
            if waiting == 0 {
                continue;
            }
            drained.waiting_max = drained.waiting_max.max(waiting);
            let from = ring.tail();
            let to = from + waiting.min(GROUP);
            journal
                .reserve((to - from) * record_bytes(RECORD_BYTES))
                .map_err(failed)?;
            for at in from..to {
                let Some(record) = ring.read(at) else {
                    drained.torn += 1;
                    continue;
                };
                put(&mut bytes, &record);
                journal.append(KIND, &bytes).map_err(failed)?;
            }
            journal.commit().map_err(failed)?;
            ring.release(to);
            drained.groups += 1;
            found += to - from;
        }
        drained.records += found;
        if found > 0 {
            continue;
        }
        if ends {
            return Ok(drained);
        }
        std::thread::sleep(EMPTY_RINGS_PAUSE);
    }
}

/// Encodes the data that a replay needs: the request, its outcome, and the versions that order the rings.
fn put(bytes: &mut Vec<u8>, record: &Record) {
    bytes.clear();
    bytes.extend_from_slice(&record.source.0);
    bytes.extend_from_slice(&record.destination.0);
    for word in [
        record.amount,
        record.source_version,
        record.destination_version,
        record.source_balance,
        record.sequence,
        record.time_ns,
    ] {
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    bytes.extend_from_slice(&record.slot.to_le_bytes());
    bytes.extend_from_slice(&record.code.to_le_bytes());
    bytes.extend_from_slice(&[record.command, record.flags]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transfer::{plan, store};

    #[test]
    fn every_record_is_journaled_before_its_ring_slot_is_reused() {
        let fastpath = store::anonymous().unwrap();
        store::fill(&fastpath, plan::ACCOUNT_BITS).unwrap();
        let folder = std::env::temp_dir().join(format!("lineside-drain-{}", std::process::id()));
        let drain = Drain::start(&fastpath, Into::Journal(folder.clone())).unwrap();
        for _ in 0..3 {
            for number in 0..40_000 {
                Ring::of(&fastpath, 0).push(&Record {
                    amount: number,
                    ..Record::default()
                });
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let drained = drain.end().unwrap();
        assert_eq!((drained.records, drained.torn), (120_000, 0), "{drained:?}");
        assert_eq!(Ring::of(&fastpath, 0).waiting(), 0);
        assert!(!folder.exists());
    }
}
