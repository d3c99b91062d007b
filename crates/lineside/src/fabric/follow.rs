//! `lineside fabric follow`: prints the block events of a replica, a peer or an orderer, one line for each block.

use crate::fabric::asks::RequestIdentity;
use crate::out::counted;
use crate::wrong::Wrong;
use anyhow::{Context, bail};
use clap::Args;
use lineside_fabric::TxCode;
use lineside_fabric_grpc::client::{
    BlockVerdict, ReceivedBlock, Service, endpoint, follow as follow_channel,
};
use lineside_fabric_grpc::messages::{FilteredBlock, FilteredTransaction};
use lineside_fabric_grpc::{filter, read_filtered};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use tokio::signal::unix::{SignalKind, signal};

/// Print a line for each block of a channel, as a replica, peer or orderer delivers it.
///
/// Runs until a signal, or until --count blocks; reconnects when a connection breaks.
#[derive(Args)]
pub struct Follow {
    /// Name of the channel.
    channel: String,
    /// Host and port of a replica or peer, or of an orderer with --orderer; may be given more than once.
    #[arg(long, value_name = "HOST:PORT", required = true, value_parser = endpoint)]
    peer: Vec<String>,
    /// The endpoints are orderers, whose blocks have no validation codes.
    #[arg(long, conflicts_with = "filtered")]
    orderer: bool,
    #[command(flatten)]
    asks: RequestIdentity,
    /// Request filtered blocks, which leave out the content of transactions.
    #[arg(long)]
    filtered: bool,
    /// Number of the first block.
    #[arg(long, value_name = "BLOCK", default_value_t = 0)]
    from: u64,
    /// File that holds the number of the next block, written after each block; if it exists, following begins with that
    /// block instead of --from.
    #[arg(long, value_name = "FILE")]
    checkpoint: Option<PathBuf>,
    /// Stop after this number of blocks [default: never]
    #[arg(long, value_name = "BLOCKS")]
    count: Option<u64>,
}

impl Follow {
    fn service(&self) -> Service {
        match (self.orderer, self.filtered) {
            (true, _) => Service::Orderer,
            (false, true) => Service::PeerFiltered,
            (false, false) => Service::Peer,
        }
    }

    fn first(&self) -> anyhow::Result<u64> {
        let Some(file) = &self.checkpoint else {
            return Ok(self.from);
        };
        match std::fs::read_to_string(file) {
            Ok(text) => text.trim().parse().with_context(|| {
                format!(
                    "{}: this checkpoint file holds no block number; write the number of the next block into it, or \
                     remove the file",
                    file.display()
                )
            }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(self.from),
            Err(error) => {
                Err(error).with_context(|| format!("cannot read the checkpoint {}", file.display()))
            }
        }
    }

    /// Prints a block, then writes the number of the next one to the checkpoint file.
    fn take(&self, received: &ReceivedBlock, as_json: bool) -> anyhow::Result<()> {
        let block = match self.filtered {
            true => read_filtered(received.bytes.clone()).context("a filtered block is malformed")?,
            false => filter(&received.bytes)?,
        };
        match as_json {
            true => say!("{}", self.object(&block))?,
            false => say!("{}", self.line(&block))?,
        }
        match &self.checkpoint {
            Some(file) => write_checkpoint(file, received.number + 1),
            None => Ok(()),
        }
    }

    fn line(&self, block: &FilteredBlock) -> String {
        let transactions = &block.filtered_transactions;
        let mut line = format!(
            "{:>6}  {}",
            block.number,
            counted(transactions.len(), "transaction")
        );
        if !self.orderer {
            let mut counts: BTreeMap<i32, usize> = BTreeMap::new();
            for transaction in transactions {
                *counts.entry(transaction.tx_validation_code).or_default() += 1;
            }
            for (separator, (code, count)) in [": "].into_iter().chain(std::iter::repeat(", ")).zip(counts) {
                line.push_str(&format!("{separator}{count} {}", code_name(code)));
            }
        }
        line
    }

    fn object(&self, block: &FilteredBlock) -> Value {
        let transaction = |transaction: &FilteredTransaction| {
            let actions = transaction.transaction_actions.iter();
            let actions = actions.flat_map(|actions| &actions.chaincode_actions);
            let events = actions.filter_map(|action| action.chaincode_event.as_ref());
            let events: Vec<Value> = events
                .map(|event| json!({ "chaincode": event.chaincode_id, "name": event.event_name }))
                .collect();
            let code = transaction.tx_validation_code;
            let code = (!self.orderer).then(|| code_name(code));
            json!({ "id": transaction.txid, "type": transaction.kind, "code": code, "events": events })
        };
        let transactions: Vec<Value> = block.filtered_transactions.iter().map(transaction).collect();
        json!({ "block": block.number, "channel": block.channel_id, "transactions": transactions })
    }
}

fn code_name(code: i32) -> String {
    let known = u8::try_from(code).ok().and_then(TxCode::from_number);
    known.map_or_else(|| code.to_string(), |code| code.name().to_owned())
}

/// Returns true if standard output is the null device. Rust also opens the null device for a closed standard output.
fn goes_nowhere() -> std::io::Result<bool> {
    let out = File::from(std::io::stdout().as_fd().try_clone_to_owned()?).metadata()?;
    let null = std::fs::metadata("/dev/null")?;
    Ok(out.file_type().is_char_device() && out.rdev() == null.rdev())
}

/// Replaces a checkpoint file atomically and syncs it to disk.
fn write_checkpoint(file: &Path, next: u64) -> anyhow::Result<()> {
    let mut name = file.as_os_str().to_owned();
    name.push(".new");
    let new = PathBuf::from(name);
    let write = || {
        let mut out = File::create(&new)?;
        out.write_all(format!("{next}\n").as_bytes())?;
        out.sync_all()?;
        std::fs::rename(&new, file)?;
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
    };
    write().with_context(|| format!("cannot write the checkpoint {}", file.display()))
}

/// Follows the channel until a signal arrives or enough blocks are printed.
///
/// # Errors
/// A file cannot be used, all endpoints refuse, or a block cannot be read or printed.
pub fn follow(arguments: &Follow, as_json: bool) -> anyhow::Result<()> {
    if arguments.checkpoint.is_some() && goes_nowhere()? {
        let why = "--checkpoint counts printed blocks, but standard output is closed or the null device; redirect it";
        bail!(Wrong(why.to_owned()));
    }
    let first = arguments.first()?;
    let (mut options, refusals) = arguments
        .asks
        .following(&arguments.peer, &arguments.channel, first)?;
    options.service = arguments.service();
    let last = arguments.count.map(|count| first.saturating_add(count));
    if last == Some(first) {
        return Ok(());
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    let mut failed = None;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let following = follow_channel(options, |received| {
            refusals.answered();
            match arguments.take(&received, as_json) {
                Err(error) => {
                    failed = Some(error);
                    BlockVerdict::Stop
                }
                Ok(()) if last == Some(received.number + 1) => BlockVerdict::Stop,
                Ok(()) => BlockVerdict::Taken,
            }
        });
        tokio::select! {
            () = following => {}
            why = refusals.wait() => bail!(why),
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        anyhow::Ok(())
    })?;
    match failed {
        Some(error) => bail!(error),
        None => Ok(()),
    }
}
