//! `lineside fabric join` and `lineside fabric snapshot`: begin a ledger from a snapshot, and write one.

use super::ledger::{Data, ReplicaLedger};
use crate::out::counted;
use crate::wrong::Wrong;
use anyhow::Context;
use clap::Args;
use lineside_fabric::ledger::{ExpectedHashes, export};
use lineside_fabric::state::TxId;
use lineside_fabric_replica::join::join as join_at;
use lineside_util::hex::to_hex;
use serde_json::json;
use std::path::PathBuf;

/// Begin a new ledger from a peer's snapshot of the channel instead of its genesis block.
///
/// The ledger then continues with the block after the snapshot.
#[derive(Args)]
pub struct Join {
    #[command(flatten)]
    storage: ReplicaLedger,
    /// Directory of the snapshot, as a peer writes it (`completed/CHANNEL/BLOCK` below its snapshot directory).
    #[arg(value_name = "DIR")]
    snapshot: PathBuf,
    /// Expected hash of the snapshot, 64 hex digits, from a peer that you trust; another hash is refused.
    #[arg(long, value_name = "HEX", value_parser = digest)]
    snapshot_hash: Option<[u8; 32]>,
    /// Expected commit hash of the snapshot's last block, 64 hex digits, from a peer that you trust. The snapshot's
    /// hash does not cover it.
    #[arg(long, value_name = "HEX", value_parser = digest)]
    commit_hash: Option<[u8; 32]>,
}

/// Write a snapshot of the channel after the ledger's last block, from which other replicas can join.
#[derive(Args)]
pub struct Snapshot {
    #[command(flatten)]
    data: Data,
    /// Directory of the snapshot, which must not exist; it is created.
    #[arg(value_name = "DIR")]
    out: PathBuf,
}

/// Parses a SHA-256 digest of 64 hex digits.
fn digest(text: &str) -> Result<[u8; 32], Wrong> {
    match TxId::new(&text.to_ascii_lowercase()) {
        TxId::Hash(digest) => Ok(digest),
        TxId::Other(_) => Err(Wrong("a SHA-256 digest is 64 hex digits".to_owned())),
    }
}

/// Runs `join`.
///
/// # Errors
/// A file of the snapshot is refused, a hash is not the expected one, or the ledger cannot be written.
pub fn join(arguments: &Join, as_json: bool) -> anyhow::Result<()> {
    let storage = &arguments.storage;
    let expected = ExpectedHashes {
        snapshot_hash: arguments.snapshot_hash,
        commit_hash: arguments.commit_hash,
    };
    let (data, options) = (&storage.data.data, storage.data.options());
    let joined = join_at(
        data,
        &arguments.snapshot,
        &expected,
        options,
        storage.state_name(),
        &mut |_| {},
    )?;
    let head = &joined.head;
    let (hash, commit_hash) = (to_hex(&head.hash), head.commit_hash.map(|hash| to_hex(&hash)));
    let is_compared = arguments.commit_hash.is_some();
    if as_json {
        let line = json!({
            "channel": head.channel, "last_block": head.last, "last_hash": to_hex(&head.last_hash),
            "snapshot_hash": hash, "commit_hash": commit_hash, "commit_hash_compared": is_compared,
            "transactions": joined.transactions, "keys": joined.keys,
        });
        say!("{line}")?;
        return Ok(());
    }
    say!(
        "channel {}: joined after block {}, {}, {}",
        head.channel,
        head.last,
        counted(joined.keys, "key"),
        counted(joined.transactions, "transaction id")
    )?;
    say!("snapshot hash {hash}")?;
    say!("last commit hash {}", commit_hash.as_deref().unwrap_or("none"))?;
    if !is_compared && head.commit_hash.is_some() {
        tell!(
            "lineside: the snapshot's hash does not cover this commit hash; compare it with another peer's commit \
             hash, or give --commit-hash"
        );
    }
    Ok(())
}

/// Runs `snapshot`.
///
/// # Errors
/// The ledger cannot be read, or the snapshot cannot be written.
pub fn snapshot(arguments: &Snapshot, as_json: bool) -> anyhow::Result<()> {
    let look = arguments.data.look_in_memory()?;
    let out = &arguments.out;
    let head = export(&look, out).with_context(|| format!("cannot write a snapshot to {}", out.display()))?;
    let hash = to_hex(&head.hash);
    if as_json {
        say!(
            "{}",
            json!({ "channel": head.channel, "last_block": head.last, "snapshot_hash": hash })
        )?;
    } else {
        say!(
            "channel {} after block {}: snapshot hash {hash}",
            head.channel,
            head.last
        )?;
    }
    Ok(())
}
