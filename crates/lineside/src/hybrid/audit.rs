//! `lineside hybrid audit`: executes a whole ledger again and verifies all signatures.

use super::member::block;
use crate::out::counted;
use crate::progress::CountBar;
use anyhow::{Context, bail};
use clap::Args;
use lineside_hybrid::audit::{Options, Progress, audit};
use lineside_hybrid_node::service::KIND;
use lineside_journal::FsDisk;
use lineside_util::hex::to_hex;
use serde_json::json;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Instant;

/// Execute a whole ledger again, verify every signature, and name the first wrong byte.
///
/// The node must be stopped. Exit code 1 if something is wrong.
#[derive(Args)]
pub struct Audit {
    /// Data directory of the node.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// File with the genesis that the ledger must have [default: the ledger's own]
    #[arg(long, value_name = "FILE")]
    genesis: Option<PathBuf>,
    /// Block that the ledger must contain, as NUMBER:HASH. Only with it does the audit detect that the newest blocks
    /// were cut off.
    #[arg(long, value_name = "NUMBER:HASH", value_parser = block)]
    tip: Option<(u64, [u8; 32])>,
    /// Number of threads that verify signatures [default: one for each core]
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
}

impl Audit {
    pub fn run(self, as_json: bool) -> anyhow::Result<()> {
        let path = self.data.display();
        if !self.data.is_dir() {
            bail!("{path}: there is no such directory");
        }
        let mut options = Options {
            tip: self.tip,
            ..Options::default()
        };
        if let Some(file) = &self.genesis {
            options.genesis = Some(super::member::read_genesis(file)?.1);
        }
        if let Some(threads) = self.threads {
            options.threads = threads.get();
        }
        let disk = FsDisk::claim_existing(&self.data, &KIND)
            .with_context(|| format!("cannot open the ledger in {path} (stop a node that uses it first)"))?;
        let (started, mut bar) = (Instant::now(), None);
        let progress = |at: Progress| {
            bar.get_or_insert_with(|| CountBar::new(at.of_bytes))
                .show(at.bytes)
        };
        let report = audit(disk, options, progress)?;
        if let Some(bar) = bar {
            bar.finish();
        }
        let seconds = started.elapsed().as_secs_f64();
        let (number, tip_hash) = (report.tip.0, to_hex(&report.tip.1));
        if as_json {
            let finding = report.finding.as_ref().map(|finding| {
                json!({
                    "file": finding.file, "offset": finding.offset, "block": finding.block, "what": finding.what,
                })
            });
            say!(
                "{}",
                json!({
                    "clean": finding.is_none(), "blocks": report.blocks, "transactions": report.transactions,
                    "bytes": report.bytes, "block": number, "hash": tip_hash, "seconds": seconds,
                    "base": report.base.map(|base| json!({
                        "block": base.number, "hash": to_hex(&base.hash), "by_words": base.by_attestations,
                    })),
                    "unfinished_bytes": report.unfinished_bytes, "finding": finding,
                })
            )?;
        } else {
            let (blocks, transactions) = (report.blocks, report.transactions);
            let rate = report.bytes as f64 / 1e6 / seconds.max(1e-9);
            say!(
                "{} with {} are right, up to block {number}, {tip_hash} ({rate:.0} MB/s)",
                counted(blocks, "block"),
                counted(transactions, "transaction")
            )?;
            if let Some(base) = &report.base {
                let vouched = match base.by_attestations {
                    true => "a quorum of the genesis' admins vouched",
                    false => "the operator who ran `join --block` vouched",
                };
                let (number, hash) = (base.number, to_hex(&base.hash));
                say!("the ledger begins with a snapshot of block {number}, {hash}, for which {vouched}")?;
            }
        }
        match &report.finding {
            None => Ok(()),
            Some(finding) => bail!(
                "{path}/{}: byte {}: {}",
                finding.file,
                finding.offset,
                finding.what
            ),
        }
    }
}
