//! `lineside fabric verify-peer`: audits the block files or a snapshot of a Fabric peer.

use super::ledger::options_with;
use crate::out::counted;
use crate::wrong::Wrong;
use anyhow::{Context, bail};
use clap::Args;
use lineside_fabric::audit::{
    AuditReference, AuditReport, OwnResults, SnapshotComparison, audit, compare_snapshot,
};
use lineside_fabric::ledger::{LedgerError, ReadOnlyLedger, validator_at, validator_from};
use lineside_fabric::peer_ledger::PeerLedger;
use lineside_fabric::snapshot::{SIGNABLE, SnapshotFolder, SnapshotHead, check};
use lineside_fabric_replica::ledger::{KIND, state_folder};
use lineside_journal::FsDisk;
use lineside_util::hex::to_hex;
use serde_json::json;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

/// Audit the block files or a snapshot of a Fabric peer.
///
/// Validates each block of the peer again, or compares it with a local ledger (--data), and names the first block whose
/// codes or commit hash differ. Exit code 1 if something differs.
#[derive(Args)]
pub struct VerifyPeer {
    /// Directory of the peer (`peer.fileSystemPath`, often /var/hyperledger/production) or a copy of it, a directory of
    /// block files, or a directory of a snapshot.
    #[arg(value_name = "DIR")]
    peer: PathBuf,
    /// Name of the channel, if the peer has several.
    #[arg(long, value_name = "NAME")]
    channel: Option<String>,
    /// Compare with the ledger in this directory instead of validating; needed for a snapshot.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Directory of the snapshot from which the peer joined, if its block files do not begin with the genesis block.
    #[arg(long, value_name = "DIR", conflicts_with = "data")]
    snapshot: Option<PathBuf>,
    /// Number of threads that read transactions and verify signatures [default: one for each core]
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
}

/// Runs `verify-peer`.
///
/// # Errors
/// The peer's files or the ledger cannot be read, or something differs.
pub fn verify_peer(arguments: &VerifyPeer, as_json: bool) -> anyhow::Result<()> {
    let look = arguments
        .data
        .as_ref()
        .map(|data| look_at(arguments, data))
        .transpose()?;
    if arguments.peer.join(SIGNABLE).exists() {
        let look =
            look.ok_or_else(|| Wrong("a snapshot is compared with a ledger: give --data DIR".to_owned()))?;
        return snapshot(arguments, &look, as_json);
    }
    let mut peer = PeerLedger::open(&arguments.peer, arguments.channel.as_deref())?;
    let options = options_with(arguments.threads);
    let audited = match &look {
        Some(look) => {
            let mut own_results = |number| own_results(look, number);
            audit(
                &mut peer,
                AuditReference::Ledger(look.blocks.first(), &mut own_results),
                &mut |_| {},
            )
        }
        None => {
            let from = arguments.snapshot.as_ref().map(|folder| {
                let reading = || format!("cannot read the snapshot in {}", folder.display());
                validator_from(folder, options.clone())
                    .map(Box::new)
                    .with_context(reading)
            });
            audit(
                &mut peer,
                AuditReference::Rules(from.transpose()?, options),
                &mut |_| {},
            )
        }
    };
    show(&audited?, as_json)
}

fn look_at(arguments: &VerifyPeer, data: &Path) -> anyhow::Result<ReadOnlyLedger<FsDisk>> {
    let disk = FsDisk::look_at(data, &KIND)?;
    let look =
        ReadOnlyLedger::open_without_state(disk, &options_with(arguments.threads), &state_folder(data));
    look.with_context(|| format!("cannot read the ledger in {}", data.display()))
}

fn own_results(look: &ReadOnlyLedger<FsDisk>, number: u64) -> Result<Option<OwnResults>, String> {
    match look.blocks.block(number) {
        Ok(stored) => Ok(Some(OwnResults {
            hash: stored.hash,
            codes: stored.codes,
            commit_hash: stored.commit_hash,
        })),
        Err(LedgerError::NotThere { .. }) => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}

fn show(audited: &AuditReport, as_json: bool) -> anyhow::Result<()> {
    let AuditReport {
        blocks,
        transactions,
        without_commit_hash,
        difference,
        unfinished_bytes,
    } = audited;
    if as_json {
        let difference = difference.as_ref().map(|difference| {
            json!({ "block": difference.number, "place": difference.location, "differences": difference.what })
        });
        let line = json!({
            "blocks": blocks, "transactions": transactions, "without_commit_hash": without_commit_hash,
            "unfinished_bytes": unfinished_bytes, "difference": difference,
        });
        say!("{line}")?;
    } else {
        let (blocks, transactions) = (counted(*blocks, "block"), counted(*transactions, "transaction"));
        say!("{blocks} with {transactions} agree")?;
        if *without_commit_hash > 0 {
            say!(
                "without a commit hash at the peer: {without_commit_hash} of these blocks; their codes agree"
            )?;
        }
        if *unfinished_bytes > 0 {
            say!(
                "the peer's files end with {} of an incomplete block, which the peer removes when it starts",
                counted(*unfinished_bytes, "byte")
            )?;
        }
        if let Some(difference) = difference {
            say!("block {} ({}) differs:", difference.number, difference.location)?;
            for what in &difference.what {
                say!("  {what}")?;
            }
        }
    }
    match difference {
        Some(difference) => bail!("block {} is the first that differs", difference.number),
        None if *blocks == 0 => {
            bail!(
                "no block was compared: the peer's directory has no blocks, or only blocks that the ledger lacks"
            )
        }
        None => Ok(()),
    }
}

fn snapshot(arguments: &VerifyPeer, look: &ReadOnlyLedger<FsDisk>, as_json: bool) -> anyhow::Result<()> {
    let mut files = SnapshotFolder(arguments.peer.clone());
    let head = SnapshotHead::read(&mut files)?;
    check(&mut files, &head)?;
    let validator = validator_at(&look.blocks, &options_with(arguments.threads), head.last)?;
    let compared = compare_snapshot(&mut files, &head, &validator)?;
    let SnapshotComparison {
        keys,
        ids,
        differences,
        count,
        first_block,
    } = &compared;
    if as_json {
        let line = json!({
            "channel": head.channel, "last_block": head.last, "snapshot_hash": to_hex(&head.hash), "keys": keys,
            "transactions": ids, "differences": differences, "count": count, "first_block": first_block,
        });
        say!("{line}")?;
    } else {
        say!(
            "snapshot of channel {} after block {}: {} and {} compared",
            head.channel,
            head.last,
            counted(keys, "key"),
            counted(ids, "transaction id")
        )?;
        for difference in differences {
            say!("  {difference}")?;
        }
    }
    match (count, first_block) {
        (0, _) => Ok(()),
        (count, Some(block)) => bail!("{}, the first in block {block}", counted(count, "difference")),
        (count, None) => bail!(counted(count, "difference")),
    }
}
