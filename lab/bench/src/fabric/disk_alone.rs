//! Latency of the disk alone: the part of the open loop's latency that no change of the program can remove.

use super::report::{Latency, percentiles};
use crate::error::{Result, io};
use crate::transfer::drain::Removed;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

/// Blocks that are appended to a file at a fixed rate.
#[derive(Clone, Copy, Debug)]
pub(super) struct Appends {
    /// Number of blocks.
    pub(super) blocks: u64,
    /// Size of a block in the ledger, in bytes.
    pub(super) block_bytes: usize,
    /// Number of transactions in a block.
    pub(super) block_transactions: usize,
    /// Offered transactions per second.
    pub(super) offered_tps: f64,
}

/// Appends blocks to a new file below `folder`, and syncs each of them, with the sizes and the rate of an open loop but
/// without validating anything. Returns the times from the scheduled arrival of a block until it was durable.
///
/// # Errors
/// Returns errors of the operating system.
pub(super) fn measure(folder: &Path, appends: Appends) -> Result<Option<Latency>> {
    let folder = Removed::make(&folder.join("disk-alone"))?;
    let mut file = File::create(folder.0.join("blocks")).map_err(io("creating a file"))?;
    let block = vec![0x5a; appends.block_bytes];
    let interval = appends.block_transactions as f64 / appends.offered_tps;
    let began = Instant::now();
    let mut latencies = Vec::with_capacity(appends.blocks as usize);
    for number in 0..appends.blocks {
        let arrival = began + Duration::from_secs_f64(number as f64 * interval);
        std::thread::sleep(arrival.saturating_duration_since(Instant::now()));
        file.write_all(&block).map_err(io("appending a block"))?;
        file.sync_data().map_err(io("syncing a block"))?;
        latencies.push(arrival.elapsed());
    }
    Ok(percentiles(appends.offered_tps, latencies, None))
}
