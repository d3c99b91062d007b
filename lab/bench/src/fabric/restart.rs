//! Measurement of the time that a replica needs to restart.

use super::pipeline::setup;
use crate::error::{BenchError, Result};
use lineside_fabric::ledger::{LedgerError, Replica};
use lineside_journal::FsDisk;
use lineside_verify::Backend;
use serde::Serialize;
use std::path::Path;
use std::time::Instant;

/// Result of opening a ledger again.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Restart {
    /// Number of transactions in the ledger, including those that create the channel.
    pub transactions: u64,
    /// Number of transactions after the last checkpoint.
    pub replayed_transactions: u64,
    /// Size of all files in the ledger's folder, in bytes.
    pub bytes: u64,
    /// Time in seconds until a key of the state and the last block could be read.
    pub seconds: f64,
}

/// Opens the ledger in `folder` again, and reads the key `key` of `chaincode` and the last block.
pub(super) fn measure(folder: &Path, backend: Backend, chaincode: &str, key: &str) -> Result<Restart> {
    let setup = setup(backend)?;
    let started = Instant::now();
    let disk = FsDisk::open(folder).map_err(LedgerError::from)?;
    let (replica, opened) = Replica::open(disk, setup, None)?;
    let blocks = replica.blocks();
    let last = blocks.block(blocks.count().saturating_sub(1))?;
    let state = replica.validator().map(|validator| validator.state());
    let is_there = state.is_some_and(|state| state.get(chaincode, "", key.as_bytes()).is_some());
    let seconds = started.elapsed().as_secs_f64();
    let lost = !is_there || last.number + 1 != replica.next();
    let restart = Restart {
        transactions: blocks.transactions(),
        replayed_transactions: opened.ledger.replayed_transactions,
        bytes: bytes(folder),
        seconds,
    };
    replica.stop()?;
    match lost {
        true => Err(BenchError::Void(
            "a key or a block is missing after a restart".into(),
        )),
        false => Ok(restart),
    }
}

/// Returns the size of all files below `folder`, in bytes.
pub(super) fn bytes(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => bytes(&entry.path()),
            Ok(metadata) => metadata.len(),
            Err(_) => 0,
        })
        .sum()
}
