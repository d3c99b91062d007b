//! `lineside fabric import`, `status`, `block`, `tx` and `verify-ledger`: verbs on the ledger in a directory.

use crate::out;
use crate::out::counted;
use crate::wrong::Wrong;
use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use lineside_fabric::ledger::results::Publisher;
use lineside_fabric::ledger::{LedgerError, ReadOnlyLedger, Replica, StateStore, Stored, verify_ledger};
use lineside_fabric::replay::read;
use lineside_fabric::state::TxId;
use lineside_fabric::{Options, TxCode};
use lineside_fabric_replica::config::StateName;
use lineside_fabric_replica::ledger;
use lineside_journal::FsDisk;
use lineside_util::hex::to_hex;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::io::Write;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

/// Directory of the ledger, and the threads that read it.
#[derive(Args)]
pub struct Data {
    /// Directory of the ledger.
    #[arg(long, value_name = "DIR")]
    pub data: PathBuf,
    /// Number of threads that read transactions and verify signatures [default: one for each core]
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
}

/// Returns the validation options for this number of threads; `None` means one for each core.
pub fn options_with(threads: Option<NonZeroUsize>) -> Options {
    let threads = threads.map(NonZeroUsize::get);
    let threads = threads.or_else(|| std::thread::available_parallelism().ok().map(NonZeroUsize::get));
    Options {
        threads: threads.unwrap_or(1),
        ..Options::default()
    }
}

impl Data {
    pub fn options(&self) -> Options {
        options_with(self.threads)
    }

    fn state_folder(&self) -> PathBuf {
        self.data.join("state")
    }

    /// Returns the place of the state: on disk if the directory has a state there, otherwise memory.
    fn state_found(&self) -> StateStore {
        let folder = self.state_folder();
        match StateStore::is_at(&folder) {
            true => StateStore::Disk(folder),
            false => StateStore::Memory,
        }
    }

    /// Returns true if the directory holds a ledger that has blocks or was joined from a snapshot.
    fn has_blocks(&self) -> bool {
        self.look().is_ok()
    }

    /// Opens the blocks for reading, and the state if `state` is given.
    pub fn look_at(&self, state: Option<&StateStore>) -> Result<ReadOnlyLedger<FsDisk>, LedgerError> {
        let disk = FsDisk::look_at(&self.data, &ledger::KIND)?;
        match state {
            None => ReadOnlyLedger::open_without_state(disk, &self.options(), &self.state_folder()),
            state => ReadOnlyLedger::open(disk, &self.options(), state),
        }
    }

    /// Opens the blocks for reading.
    pub fn look(&self) -> anyhow::Result<ReadOnlyLedger<FsDisk>> {
        self.look_at(None).with_context(|| self.reading())
    }

    /// Opens the blocks and the state for reading. If the state on disk cannot be opened, returns the blocks alone and
    /// the reason.
    pub fn look_with_state(&self) -> anyhow::Result<(ReadOnlyLedger<FsDisk>, Option<String>)> {
        let state = self.state_found();
        match self.look_at(Some(&state)) {
            Err(LedgerError::State { what }) => Ok((self.look()?, Some(what))),
            looked => Ok((looked.with_context(|| self.reading())?, None)),
        }
    }

    /// Opens the blocks for reading, and rebuilds the state in memory wherever it is kept.
    pub fn look_in_memory(&self) -> anyhow::Result<ReadOnlyLedger<FsDisk>> {
        self.look_at(Some(&StateStore::Memory))
            .with_context(|| self.reading())
    }

    pub fn reading(&self) -> String {
        format!("cannot read the ledger in {}", self.data.display())
    }
}

/// Ledger to which blocks are added, and the place of its state.
#[derive(Args)]
pub struct ReplicaLedger {
    #[command(flatten)]
    pub data: Data,
    /// Place of the state: in memory, or on disk (fjall) in the folder `state` of the ledger's directory. `memory`
    /// removes a state on disk; either kind is rebuilt from the blocks [default: fjall if the ledger has a state on
    /// disk, otherwise memory]
    #[arg(long, value_name = "PLACE")]
    state: Option<StateIn>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum StateIn {
    Memory,
    Fjall,
}

impl ReplicaLedger {
    /// Returns the requested place of the state.
    pub fn state_name(&self) -> StateName {
        match self.state {
            None => StateName::Auto,
            Some(StateIn::Memory) => StateName::Memory,
            Some(StateIn::Fjall) => StateName::Fjall,
        }
    }

    /// Opens the ledger, or creates it. Prints which parts had to be rebuilt.
    pub fn open(&self, results: Option<Publisher>) -> anyhow::Result<Replica<FsDisk>> {
        let data = &self.data.data;
        let opening = || format!("cannot open the ledger in {}", data.display());
        let state = self.state_name();
        let disk = FsDisk::claim(data, &ledger::KIND).with_context(opening)?;
        let (replica, remarks) = ledger::open(data, disk, self.data.options(), state, results)?;
        for remark in remarks {
            tell!("lineside: {remark}");
        }
        Ok(replica)
    }
}

/// Validate recorded blocks and add them to a ledger, from the first block that it lacks.
#[derive(Args)]
pub struct Import {
    #[command(flatten)]
    storage: ReplicaLedger,
    /// Directory with the blocks as NNNNN.orderer.pb.gz or NNNNN.committed.pb.gz.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// Print the height, keys and hashes of a ledger, or the status of a running replica.
#[derive(Args)]
pub struct Status {
    /// Directory of the ledger.
    #[arg(long, value_name = "DIR", required_unless_present = "console")]
    data: Option<PathBuf>,
    /// Number of threads that read transactions [default: one for each core]
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
    /// Address and TCP port of the console of a running replica.
    #[arg(long, value_name = "ADDR:PORT", value_parser = crate::address::console, conflicts_with = "data")]
    console: Option<SocketAddr>,
}

/// Print the hashes and validation codes of a block, or write the block to a file.
#[derive(Args)]
pub struct Block {
    #[command(flatten)]
    data: Data,
    /// Number of the block, or its header hash in hex.
    block: String,
    /// Write the block to this file, in the form that a peer commits.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Write the block in the form that the orderer delivered.
    #[arg(long, requires = "out")]
    delivered: bool,
}

/// Print the block and validation code of a transaction.
#[derive(Args)]
pub struct Tx {
    #[command(flatten)]
    data: Data,
    /// Transaction id.
    id: String,
}

/// Validate all blocks of a ledger again, and compare every code, hash and byte.
///
/// Exit code 1 if something differs.
#[derive(Args)]
pub struct VerifyLedger {
    #[command(flatten)]
    data: Data,
}

/// Runs `import`.
///
/// # Errors
/// The directory lacks the next block or holds another channel, a block is refused, or the ledger cannot be written.
pub fn import(arguments: &Import, as_json: bool) -> anyhow::Result<()> {
    let recorded = |number| -> anyhow::Result<Option<Vec<u8>>> {
        Ok(match read(&arguments.folder, number, "orderer")? {
            None => read(&arguments.folder, number, "committed")?,
            delivered => delivered,
        })
    };
    let path = arguments.folder.display();
    let genesis = recorded(0)?;
    if genesis.is_none() && !arguments.storage.data.has_blocks() {
        bail!(
            "{path}: block 0 is missing here, and a new ledger begins with it; give a directory that has block 0"
        );
    }
    let mut replica = arguments.storage.open(None)?;
    let from = replica.next();
    if genesis.is_none() && recorded(from)?.is_none() {
        bail!("{path}: this directory has neither block 0 nor block {from}, the next block of the ledger");
    }
    if from > 0 && genesis.is_some_and(|genesis| !ledger::begins_with(&replica, &genesis)) {
        bail!(Wrong(format!(
            "{path}: these blocks are of another channel than the ledger; give another --data directory"
        )));
    }
    let mut transactions = 0;
    for number in from.. {
        let Some(bytes) = recorded(number)? else { break };
        transactions += match number {
            0 => replica.add(bytes)?.codes.len(),
            _ => {
                let added = replica.finish_after(bytes)?;
                added.map_or(0, |added| added.codes.len())
            }
        };
    }
    while let Some(added) = replica.finish()? {
        transactions += added.codes.len();
    }
    replica.checkpoint()?;
    let (next, blocks) = (replica.next(), replica.next() - from);
    replica.stop()?;
    if as_json {
        say!(
            "{}",
            json!({ "imported": blocks, "transactions": transactions, "blocks": next })
        )?;
    } else {
        let (blocks, transactions) = (counted(blocks, "block"), counted(transactions, "transaction"));
        say!(
            "{blocks} with {transactions} imported; the ledger has {}",
            counted(next, "block")
        )?;
    }
    Ok(())
}

fn running(console: SocketAddr, as_json: bool) -> anyhow::Result<()> {
    let mut snapshot = lineside_console::fetch_status(console).with_context(|| {
        format!("no status from {console}: start a replica with `--console {console}`, or give its console's address")
    })?;
    snapshot.services.retain(|service| service.name == "fabric");
    if snapshot.services.is_empty() {
        bail!("the server at {console} runs no Fabric replica");
    }
    match as_json {
        true => say!("{}", serde_json::to_string(&snapshot)?)?,
        false => out::text(&snapshot)?,
    }
    Ok(())
}

/// Runs `status`.
///
/// # Errors
/// The ledger cannot be read, or the console does not answer.
pub fn status(arguments: &Status, as_json: bool) -> anyhow::Result<()> {
    let data = match (arguments.console, &arguments.data) {
        (Some(console), _) => return running(console, as_json),
        (None, Some(data)) => Data {
            data: data.clone(),
            threads: arguments.threads,
        },
        (None, None) => bail!("give --data DIR or --console ADDR:PORT"),
    };
    let (look, stateless) = data.look_with_state()?;
    let (hash, commit_hash) = look.blocks.last_hashes().unwrap_or_default();
    let (hash, commit_hash) = (to_hex(&hash), commit_hash.map(|hash| to_hex(&hash)));
    let (channel, blocks) = (look.validator.channel(), look.blocks.count());
    let (first, transactions) = (look.blocks.first(), look.blocks.transactions());
    let keys = stateless.is_none().then(|| look.validator.state().len());
    if as_json {
        let line = json!({
            "channel": channel, "blocks": blocks, "first_block": first, "transactions": transactions,
            "keys": keys,
            "last_hash": hash, "commit_hash": commit_hash, "checkpoint_record": look.found.checkpoint,
            "replayed_blocks": look.found.replayed, "damaged_checkpoints": look.found.damaged,
        });
        say!("{line}")?;
        return Ok(());
    }
    let keys = match (keys, stateless) {
        (Some(keys), _) => counted(keys, "key"),
        (None, why) => format!("keys not counted: {}", why.unwrap_or_default()),
    };
    let (blocks, transactions) = (counted(blocks, "block"), counted(transactions, "transaction"));
    say!("channel {channel}: {blocks}, {transactions}, {keys}")?;
    if first > 0 {
        say!(
            "joined from a snapshot of block {}: the first block here is {first}",
            first - 1
        )?;
    }
    say!("last header hash {hash}")?;
    say!("last commit hash {}", commit_hash.as_deref().unwrap_or("none"))?;
    say!(
        "{} after the newest checkpoint",
        counted(look.found.replayed, "block")
    )?;
    for damaged in &look.found.damaged {
        say!("a checkpoint is damaged and not used: {damaged}")?;
    }
    Ok(())
}

fn hash_of(text: &str) -> Option<[u8; 32]> {
    match TxId::new(text) {
        TxId::Hash(hash) => Some(hash),
        TxId::Other(_) => None,
    }
}

/// Runs `block`.
///
/// # Errors
/// The ledger has no such block, or cannot be read, or the file cannot be written.
pub fn block(arguments: &Block, as_json: bool) -> anyhow::Result<()> {
    let look = arguments.data.look()?;
    let by_hash = hash_of(&arguments.block).map(|hash| look.blocks.number_of(&hash));
    let number = match by_hash {
        Some(number) => number.context("there is no block with this header hash")?,
        None => arguments
            .block
            .parse()
            .context("give a block by its number, or by its header hash of 64 hex digits")?,
    };
    let stored = look.blocks.block(number)?;
    if let Some(path) = &arguments.out {
        write(path, &stored, arguments.delivered)?;
    }
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for code in &stored.codes {
        let name = TxCode::from_number(*code).map_or("unknown", TxCode::name);
        *counts.entry(name).or_default() += 1;
    }
    let (hash, commit_hash) = (to_hex(&stored.hash), stored.commit_hash.map(|hash| to_hex(&hash)));
    if as_json {
        let counts: Map<String, Value> = counts
            .iter()
            .map(|(name, count)| ((*name).into(), json!(count)))
            .collect();
        let line = json!({
            "block": number, "header_hash": hash, "commit_hash": commit_hash, "bytes": stored.bytes.len(),
            "transactions": stored.codes.len(), "codes": stored.codes, "counts": counts,
        });
        say!("{line}")?;
        return Ok(());
    }
    say!(
        "block {number}: {}, {}",
        counted(stored.codes.len(), "transaction"),
        counted(stored.bytes.len(), "byte")
    )?;
    say!("header hash {hash}")?;
    say!("commit hash {}", commit_hash.as_deref().unwrap_or("none"))?;
    for (name, count) in counts {
        say!("{count:>8} {name}")?;
    }
    Ok(())
}

fn write(path: &Path, stored: &Stored, delivered: bool) -> anyhow::Result<()> {
    let committed = stored.committed();
    let bytes = if delivered { &stored.bytes } else { &committed };
    let written = std::fs::File::create(path).and_then(|mut file| file.write_all(bytes));
    written.with_context(|| format!("cannot write {}", path.display()))
}

/// Runs `tx`.
///
/// # Errors
/// The ledger has no such transaction, or cannot be read.
pub fn tx(arguments: &Tx, as_json: bool) -> anyhow::Result<()> {
    let look = arguments.data.look()?;
    let location = look.blocks.transaction(&TxId::new(&arguments.id))?;
    if location.is_none() && look.blocks.is_before_snapshot(&TxId::new(&arguments.id)) {
        let first = look.blocks.first();
        bail!(
            "the transaction is in a block before {first}, and the ledger was joined from a snapshot, which holds \
             neither the transaction's block nor its code; ask a peer"
        );
    }
    let location = location.context("there is no transaction with this id")?;
    let (block, index, code) = (location.block, location.index, location.code);
    if as_json {
        let line = json!({
            "id": arguments.id, "block": block, "index": index, "code": code as u8, "name": code.name(),
        });
        say!("{line}")?;
    } else {
        say!("{code}: transaction {index} of block {block}")?;
    }
    Ok(())
}

/// Runs `verify-ledger`.
///
/// # Errors
/// The ledger cannot be read, or something in it is wrong.
pub fn verify(arguments: &VerifyLedger, as_json: bool) -> anyhow::Result<()> {
    let directory = arguments.data.data.display();
    let disk = FsDisk::look_at(&arguments.data.data, &ledger::KIND)
        .with_context(|| format!("cannot read {directory}"))?;
    let state = arguments.data.state_found();
    let report = verify_ledger(&disk, &state, &arguments.data.options(), &mut |_| {})?;
    if as_json {
        let line = json!({
            "sound": report.is_sound(), "joined_after": report.joined_after, "blocks": report.blocks,
            "transactions": report.transactions,
            "block_bytes": report.block_bytes, "record_bytes": report.record_bytes,
            "unfinished_bytes": report.unfinished_bytes, "checkpoints": report.checkpoints,
            "state_keys": report.state_keys, "state_in_use": report.state_in_use,
            "last_hash": report.last_hash.map(|hash| to_hex(&hash)),
            "commit_hash": report.commit_hash.map(|hash| to_hex(&hash)),
            "wrong": report.wrong, "findings": report.findings,
        });
        say!("{line}")?;
    } else {
        for finding in &report.findings {
            say!("{finding}")?;
        }
        say!(
            "{} with {} validated again: {} of blocks in {} of records",
            counted(report.blocks, "block"),
            counted(report.transactions, "transaction"),
            counted(report.block_bytes, "byte"),
            counted(report.record_bytes, "byte")
        )?;
        if let Some(last) = report.joined_after {
            say!("the snapshot after block {last}, from which the ledger was joined, was read again")?;
        }
        if let Some(keys) = report.state_keys {
            say!("{} of the state on disk compared", counted(keys, "key"))?;
        }
        if report.state_in_use {
            say!("the state on disk was not compared: another process has it open")?;
        }
    }
    if !report.is_sound() {
        bail!("the ledger is damaged: {}", counted(report.wrong, "finding"));
    }
    Ok(())
}
