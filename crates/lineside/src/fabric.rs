//! `lineside fabric …`: runs a replica of a Fabric channel, reads and verifies its ledger, and transports blocks.

mod asks;
mod follow;
mod history;
mod join;
mod ledger;
mod orderer;
mod send;
mod send_paper;
mod serve;
mod state;
mod verify_peer;

use crate::out::{Unwritten, counted};
use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use lineside_fabric::replay::{ReplayedBlock, replay};
use lineside_fabric::{Options, TxCode};
use lineside_util::hex::to_hex;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::PathBuf;

/// Subcommands of `lineside fabric`.
#[derive(Subcommand)]
pub enum Verb {
    Replay(Replay),
    Import(ledger::Import),
    Join(join::Join),
    Snapshot(join::Snapshot),
    Status(ledger::Status),
    Block(ledger::Block),
    Tx(ledger::Tx),
    State(state::State),
    History(history::History),
    VerifyLedger(ledger::VerifyLedger),
    VerifyPeer(verify_peer::VerifyPeer),
    Serve(Box<serve::Serve>),
    Send(send::Send),
    SendPaper(send_paper::SendPaper),
    Follow(follow::Follow),
}

/// Validate recorded blocks and compare the results with the recorded ones.
///
/// Prints the commit hash and the validation codes of each block, and compares them with manifest.json and with the
/// committed blocks, if the directory has them. Exit code 1 if something differs.
#[derive(Args)]
pub struct Replay {
    /// Directory with the blocks as NNNNN.orderer.pb.gz, from 00000 on.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Number of threads that read transactions and verify signatures [default: one for each core]
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
}

/// Runs the given subcommand.
///
/// # Errors
/// The subcommand failed, or found a difference.
pub fn run(verb: Verb, as_json: bool) -> anyhow::Result<()> {
    match verb {
        Verb::Replay(arguments) => run_replay(&arguments, as_json),
        Verb::Import(arguments) => ledger::import(&arguments, as_json),
        Verb::Join(arguments) => join::join(&arguments, as_json),
        Verb::Snapshot(arguments) => join::snapshot(&arguments, as_json),
        Verb::Status(arguments) => ledger::status(&arguments, as_json),
        Verb::Block(arguments) => ledger::block(&arguments, as_json),
        Verb::Tx(arguments) => ledger::tx(&arguments, as_json),
        Verb::State(arguments) => state::state(&arguments, as_json),
        Verb::History(arguments) => history::history(&arguments, as_json),
        Verb::VerifyLedger(arguments) => ledger::verify(&arguments, as_json),
        Verb::VerifyPeer(arguments) => verify_peer::verify_peer(&arguments, as_json),
        Verb::Serve(arguments) => serve::run(*arguments, as_json),
        Verb::Send(arguments) => send::send(&arguments, as_json),
        Verb::SendPaper(arguments) => send_paper::send(&arguments, as_json),
        Verb::Follow(arguments) => follow::follow(&arguments, as_json),
    }
}

fn run_replay(arguments: &Replay, as_json: bool) -> anyhow::Result<()> {
    let threads = arguments.threads.map(NonZeroUsize::get);
    let threads = threads.or_else(|| std::thread::available_parallelism().ok().map(NonZeroUsize::get));
    let options = Options {
        threads: threads.unwrap_or(1),
        ..Options::default()
    };
    let (mut blocks, mut transactions, mut compared, mut differences) = (0u64, 0, 0u64, 0);
    let mut written = Ok(());
    let mut each = |block: &ReplayedBlock| {
        blocks += u64::from(!block.missing);
        transactions += block.codes.len();
        compared += u64::from(block.compared);
        differences += block.differences.len();
        written = show(block, as_json);
        written.is_ok()
    };
    let replayed = replay(&arguments.directory, options, &mut each);
    written?;
    replayed.with_context(|| format!("cannot replay {}", arguments.directory.display()))?;
    if as_json {
        let summary = json!({
            "blocks": blocks, "transactions": transactions, "compared": compared, "differences": differences,
        });
        say!("{summary}")?;
    } else {
        let (blocks, transactions) = (counted(blocks, "block"), counted(transactions, "transaction"));
        let (compared, differences) = (counted(compared, "block"), counted(differences, "difference"));
        say!("{blocks}, {transactions}; {compared} compared with the recorded results: {differences}")?;
    }
    if differences > 0 {
        bail!("{} from the recorded results", counted(differences, "difference"));
    }
    Ok(())
}

fn show(block: &ReplayedBlock, as_json: bool) -> Result<(), Unwritten> {
    let hash = block.commit_hash.map(|hash| to_hex(&hash));
    let mut counts: BTreeMap<TxCode, usize> = BTreeMap::new();
    for &code in &block.codes {
        *counts.entry(code).or_default() += 1;
    }
    if as_json {
        let counts: Map<String, Value> = counts
            .iter()
            .map(|(code, count)| (code.name().to_owned(), json!(count)))
            .collect();
        let codes: Vec<u8> = block.codes.iter().map(|&code| code as u8).collect();
        let line = json!({
            "block": block.number, "transactions": codes.len(), "codes": codes, "counts": counts,
            "commit_hash": hash, "compared": block.compared, "missing": block.missing,
            "differences": block.differences,
        });
        return say!("{line}");
    }
    let counts: Vec<String> = counts
        .iter()
        .map(|(code, count)| format!("{count} {code}"))
        .collect();
    let none = if block.missing {
        "missing"
    } else {
        "no commit hash"
    };
    let hash = hash.unwrap_or_else(|| none.to_owned());
    say!("{:>6}  {hash}  {}", block.number, counts.join(", "))?;
    for difference in &block.differences {
        say!("        differs: {difference}")?;
    }
    Ok(())
}
