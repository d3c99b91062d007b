//! `lineside fabric join` and `lineside fabric snapshot`

use super::ledger::{Data, Kept};
use crate::wrong::Wrong;
use anyhow::Context;
use clap::Args;
use lineside_fabric::ledger::{Expected, export};
use lineside_fabric::state::TxId;
use lineside_fabric_replica::join::join as join_at;
use lineside_util::hex::to_hex;
use serde_json::json;
use std::path::PathBuf;

/// Begin a ledger from a peer's snapshot of the channel, instead of its genesis block: blocks are taken from the one
/// after the snapshot on.
#[derive(Args)]
pub struct Join {
    #[command(flatten)]
    kept: Kept,
    /// The snapshot's folder, as a peer writes it (`completed/CHANNEL/BLOCK` under its snapshots' directory).
    #[arg(value_name = "DIR")]
    snapshot: PathBuf,
    /// The snapshot's hash in hex, from another peer; a snapshot with another one is refused.
    #[arg(long, value_name = "HEX", value_parser = digest)]
    snapshot_hash: Option<[u8; 32]>,
    /// The commit hash of the snapshot's last block in hex, from another peer: no hash of the snapshot covers it.
    #[arg(long, value_name = "HEX", value_parser = digest)]
    commit_hash: Option<[u8; 32]>,
}

/// Write a snapshot of the channel after the ledger's last block, which other replicas join from.
#[derive(Args)]
pub struct Snapshot {
    #[command(flatten)]
    data: Data,
    /// The snapshot's folder, which is made.
    #[arg(value_name = "DIR")]
    out: PathBuf,
}

/// Reads a SHA-256 in hex.
fn digest(text: &str) -> Result<[u8; 32], Wrong> {
    match TxId::new(&text.to_ascii_lowercase()) {
        TxId::Hash(digest) => Ok(digest),
        TxId::Other(_) => Err(Wrong("a SHA-256 is 64 digits of hex".to_owned())),
    }
}

/// Does `join`.
///
/// # Errors
/// The file of the snapshot that is refused, or another reason.
pub fn join(arguments: &Join, as_json: bool) -> anyhow::Result<()> {
    let kept = &arguments.kept;
    let expected = Expected {
        snapshot_hash: arguments.snapshot_hash,
        commit_hash: arguments.commit_hash,
    };
    let (data, options) = (&kept.data.data, kept.data.options());
    let joined = join_at(
        data,
        &arguments.snapshot,
        &expected,
        options,
        kept.state_name(),
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
        "channel {}: joined after block {}, {} keys, {} transaction ids",
        head.channel,
        head.last,
        joined.keys,
        joined.transactions
    )?;
    say!("snapshot hash {hash}")?;
    say!("last commit hash {}", commit_hash.as_deref().unwrap_or("none"))?;
    if !is_compared && head.commit_hash.is_some() {
        tell!(
            "lineside: no hash of the snapshot covers that commit hash; compare it with another peer's, or give \
             --commit-hash"
        );
    }
    Ok(())
}

/// Does `snapshot`.
///
/// # Errors
/// The reason why there is no snapshot.
pub fn snapshot(arguments: &Snapshot, as_json: bool) -> anyhow::Result<()> {
    let look = arguments.data.look_in_memory()?;
    let out = &arguments.out;
    let head = export(&look, out).with_context(|| format!("writing a snapshot to {}", out.display()))?;
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
