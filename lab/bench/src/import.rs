//! Measurement of the import of generated blocks, which are checked, stored and indexed on disk; everything is synced.

use crate::error::{BenchError, Result, io};
use lineside_spv::chain::{ChainStore, ImportOptions, IndexKind, Network};
use lineside_testkit::DemoChain;
use serde::Serialize;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Number of transactions in a block, about that of mainnet.
const BLOCK_TRANSACTIONS: u32 = 4_000;
/// Number of syncs whose median is reported.
const SYNCS: usize = 21;
/// Number of TXIDs that are looked up after the import.
const LOOK_UPS: usize = 2_000;
const MEGABYTE: u64 = 1_000_000;

/// Result of an import.
#[derive(Clone, Debug, Serialize)]
pub struct Import {
    /// Size of the raw blocks in bytes.
    pub bytes: u64,
    /// Number of transactions in the blocks.
    pub transactions: u64,
    /// MB of raw blocks per second of elapsed time.
    pub mb_per_s: f64,
    /// MB of raw blocks per second of processor time of all threads.
    pub mb_per_core_s: f64,
    /// Size of the index on disk in bytes per transaction, without the TXIDs themselves.
    pub index_bytes_per_transaction: f64,
    /// Mean time in microseconds to find a TXID in the finished index.
    pub locate_us: f64,
    /// Time to open the store again with the index on disk, in seconds per million transactions.
    pub open_disk_s: f64,
    /// Time to open the store again with the index in memory, which is rebuilt from the TXIDs, in seconds per million
    /// transactions.
    pub open_memory_s: f64,
    /// Median time in microseconds of an fdatasync after a write of 4 KiB in the same folder.
    pub fdatasync_us: f64,
    /// Type of the file system that contains the folder.
    pub file_system: String,
}

/// Generates `megabytes` of blocks in a new folder below `folder`, imports them, and removes the folder.
///
/// # Errors
/// [`BenchError::NotMeasured`] if the file system is in memory; an error of the operating system or of the chain.
pub fn measure(megabytes: u64, folder: &Path) -> Result<Import> {
    let file_system = file_system(folder)?;
    if file_system == "tmpfs" {
        let folder = folder.display();
        return Err(BenchError::NotMeasured(format!(
            "{folder} is in memory (tmpfs); give a folder on a disk with --data"
        )));
    }
    let folder = Scratch::new(folder)?;
    let blocks = folder.0.join("blocks");
    let bytes = write_blocks(&blocks, megabytes).map_err(io("writing blocks to import"))?;
    let fdatasync_us = fdatasync_us(&folder.0).map_err(io("measuring fdatasync"))?;
    let chain = |error: lineside_spv::chain::ChainError| BenchError::Chain(error.to_string());
    let data = folder.0.join("data");
    let (mut store, _) =
        ChainStore::open_with(Some(&data), Network::Regtest, IndexKind::Disk).map_err(chain)?;
    let (start, processor) = (Instant::now(), processor_time());
    let report = store
        .import(&[blocks], ImportOptions::default(), &mut |_| {})
        .map_err(chain)?;
    let (took, processor) = (start.elapsed(), processor_time() - processor);
    if report.bytes != bytes || !report.refused.is_empty() {
        return Err(BenchError::Void(format!(
            "{} of {bytes} bytes were imported, and {} blocks were refused",
            report.bytes,
            report.refused.len()
        )));
    }
    let transactions = report.transactions.max(1) as f64;
    let index_bytes = allocated_bytes(&data.join("txid-index")).map_err(io("measuring the index"))?;
    let locate_us = locate_us(&store).map_err(chain)?;
    drop(store);
    let open = |kind| {
        let start = Instant::now();
        ChainStore::open_with(Some(&data), Network::Regtest, kind).map_err(chain)?;
        Ok::<_, BenchError>(start.elapsed().as_secs_f64() * 1e6 / transactions)
    };
    Ok(Import {
        bytes,
        transactions: report.transactions,
        mb_per_s: rate(bytes, took),
        mb_per_core_s: rate(bytes, processor),
        index_bytes_per_transaction: index_bytes as f64 / transactions,
        locate_us,
        open_disk_s: open(IndexKind::Disk)?,
        open_memory_s: open(IndexKind::Memory)?,
        fdatasync_us,
        file_system,
    })
}

/// Folder that is removed with its content when this value is dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new(below: &Path) -> Result<Self> {
        let path = below.join(format!("lineside-bench-{}", std::process::id()));
        fs::create_dir_all(&path).map_err(io("creating a folder for blocks"))?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Errors are ignored: the folder then remains below the folder that the user chose.
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn write_blocks(folder: &Path, megabytes: u64) -> std::io::Result<u64> {
    fs::create_dir_all(folder)?;
    let mut file = BufWriter::new(File::create(folder.join("blk00000.dat"))?);
    let mut bytes = 0;
    for block in DemoChain::new(1, BLOCK_TRANSACTIONS) {
        file.write_all(&Network::Regtest.magic())?;
        file.write_all(&(block.raw.len() as u32).to_le_bytes())?;
        file.write_all(&block.raw)?;
        bytes += block.raw.len() as u64;
        if bytes >= megabytes * MEGABYTE {
            break;
        }
    }
    file.into_inner()?.sync_all()?;
    Ok(bytes)
}

/// Returns the bytes that all files below `folder` use on the disk.
fn allocated_bytes(folder: &Path) -> std::io::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let data = entry.metadata()?;
        bytes += match data.is_dir() {
            true => allocated_bytes(&entry.path())?,
            false => data.blocks() * 512,
        };
    }
    Ok(bytes)
}

fn locate_us(store: &ChainStore) -> std::result::Result<f64, lineside_spv::chain::ChainError> {
    let tip = store.tip().map_or(0, |tip| tip.height) as usize;
    let mut txids = Vec::with_capacity(LOOK_UPS);
    for number in 0..LOOK_UPS {
        let block = store.at_height((number * (tip + 1) / LOOK_UPS) as u32);
        let all = block.map(|block| store.txids(block)).unwrap_or_default();
        txids.extend(all.get(number * 7919 % all.len().max(1)).copied());
    }
    let start = Instant::now();
    for txid in &txids {
        assert!(
            store.locate(txid)?.is_some(),
            "an imported transaction is in the index"
        );
    }
    Ok(start.elapsed().as_secs_f64() * 1e6 / txids.len() as f64)
}

pub fn fdatasync_us(folder: &Path) -> std::io::Result<f64> {
    let mut file = File::create(folder.join("sync"))?;
    let mut took = Vec::with_capacity(SYNCS);
    for _ in 0..SYNCS {
        file.write_all(&[0x5a; 4096])?;
        let start = Instant::now();
        file.sync_data()?;
        took.push(start.elapsed().as_secs_f64() * 1e6);
    }
    took.sort_by(f64::total_cmp);
    Ok(took[SYNCS / 2])
}

/// Returns the type of the file system that contains `folder`: the type of the mount point above it with the longest
/// path.
pub fn file_system(folder: &Path) -> Result<String> {
    let folder = folder
        .canonicalize()
        .map_err(io("opening the folder for blocks"))?;
    let mounts = fs::read_to_string("/proc/self/mounts").map_err(io("reading /proc/self/mounts"))?;
    let found = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(1);
        let (point, kind) = (fields.next()?, fields.next()?);
        folder.starts_with(point).then_some((point.len(), kind))
    });
    // If two mounts have the same mount point, the later one is visible.
    let kind = found
        .max_by_key(|(length, _)| *length)
        .map_or("unknown", |(_, kind)| kind);
    Ok(kind.to_owned())
}

fn rate(bytes: u64, time: Duration) -> f64 {
    bytes as f64 / MEGABYTE as f64 / time.as_secs_f64()
}

/// Returns the processor time that all threads of this process have used.
fn processor_time() -> Duration {
    let usage = crate::sys::resource_usage();
    let of = |time: libc::timeval| Duration::new(time.tv_sec as u64, time.tv_usec as u32 * 1000);
    of(usage.ru_utime) + of(usage.ru_stime)
}
