//! `lineside spv sync` and `spv verify`: the paper's light client. It keeps its own chain of headers, asks a server for
//! a proof, recomputes the Merkle root and compares it with its own header.

use super::ids::{Id, server};
use crate::wrong::Wrong;
use anyhow::{Context, anyhow, bail};
use clap::Args;
use lineside_spv::chain::Network;
use lineside_spv::client::{Client, ServedWitness};
use lineside_spv::config::NetworkName;
use lineside_spv_proof::{
    ChainError, ChainOptions, Checkpoint, FileStore, Header, HeaderChain, Network as Rules, TransactionProof,
};
use lineside_util::data_dir::{DataDir, Kind};
use lineside_util::hex::{from_display, to_display};
use lineside_wire::{SPV_HEADERS_MAX, SPV_PORT};
use serde_json::json;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Kind of the directory of a light client.
const KIND: Kind = Kind::new("spv-headers", 1).beside(&["headers.dat"]);
/// Headers asked for at once; a reply of UDP has room for a few.
const HEADERS: usize = SPV_HEADERS_MAX;
/// Headers accepted before they are made durable.
const HEADERS_PER_SYNC: u32 = 20_000;

/// The chain of headers, and the server that is asked.
#[derive(Args)]
pub struct Light {
    /// The directory of this client's chain of headers; a new one is made.
    #[arg(long, value_name = "DIR")]
    headers: PathBuf,
    /// The network, which sets the rules of the headers; needed for a new directory. A directory knows its network.
    #[arg(long, value_enum)]
    network: Option<NetworkName>,
    /// The server that is asked, by address or name, and its UDP port.
    #[arg(
        long,
        value_name = "ADDR:PORT",
        value_parser = server,
        default_value_t = SocketAddr::from((Ipv4Addr::LOCALHOST, SPV_PORT))
    )]
    server: SocketAddr,
    /// A block that the chain must have, as HEIGHT:HASH; several times for several.
    #[arg(long, value_name = "HEIGHT:HASH")]
    checkpoint: Vec<CheckpointText>,
    /// Milliseconds to wait for an answer.
    #[arg(long, value_name = "MS", default_value_t = 3000)]
    timeout_ms: u64,
}

/// Fetch the server's new headers into this client's own chain of headers. Their proof of work, target and times are
/// checked, and the chain with the most work wins, whatever the server says.
#[derive(Args)]
pub struct Sync {
    #[command(flatten)]
    light: Light,
}

/// Prove that a transaction is in the chain: fetch the new headers, as `spv sync` does, ask the server for a proof,
/// recompute the Merkle root, and compare it with that in this client's own header.
#[derive(Args)]
pub struct Verify {
    #[command(flatten)]
    light: Light,
    /// Prove the transaction with its witness: its WTXID, by the commitment in the block's coinbase. The server must
    /// keep witness data (`spv init --witness`).
    #[arg(long)]
    witness: bool,
    /// The WTXID that the transaction must have, 64 hex digits as explorers print it; implies --witness. Without a
    /// TXID, the transaction is asked for by its WTXID alone.
    #[arg(long, value_name = "WTXID")]
    wtxid: Option<Id>,
    /// The transaction's id as explorers print it: 64 hex digits.
    #[arg(required_unless_present = "wtxid")]
    txid: Option<Id>,
}

/// A checkpoint on the command line.
#[derive(Clone)]
struct CheckpointText(Checkpoint);

impl FromStr for CheckpointText {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = text.split_once(':').and_then(|(height, hash)| {
            Some(Checkpoint {
                height: height.parse().ok()?,
                hash: from_display(hash)?,
            })
        });
        parsed
            .map(Self)
            .ok_or_else(|| format!("{text:?} is not HEIGHT:HASH with 64 hex digits"))
    }
}

/// An open light client.
struct Opened {
    chain: HeaderChain<FileStore>,
    client: Client,
    _directory: DataDir,
}

impl Light {
    fn open(&self) -> anyhow::Result<Opened> {
        let given = self.network.map(|network| Network::from(network).rules());
        let Some(network) = given.or_else(|| FileStore::network_in(&self.headers)) else {
            bail!(Wrong(format!(
                "{}: there are no headers; give --network NETWORK for a new directory",
                self.headers.display()
            )));
        };
        let mut client = Client::connect(self.server, Duration::from_millis(self.timeout_ms))?;
        // Before anything is made: a directory of a network that the server does not serve helps with nothing.
        self.check_network(network, &mut client)?;
        let directory = DataDir::claim(&self.headers, &KIND)?;
        directory.lock_file("lock")?;
        let store = FileStore::create(&self.headers, network)?;
        let options = ChainOptions {
            checkpoints: self.checkpoint.iter().map(|text| text.0).collect(),
            ..ChainOptions::default()
        };
        let chain = HeaderChain::open(network, store, options).map_err(|error| self.explain(error))?;
        Ok(Opened {
            chain,
            client,
            _directory: directory,
        })
    }

    /// Checks that the first block of the network is that of the server's chain, if it has one, and that of the
    /// checkpoint at height 0, if there is one.
    fn check_network(&self, network: Rules, client: &mut Client) -> anyhow::Result<()> {
        let genesis = network.genesis().hash();
        let first = self.checkpoint.iter().find(|text| text.0.height == 0);
        if let Some(wrong) = first.filter(|text| text.0.hash != genesis) {
            bail!(Wrong(format!(
                "--checkpoint 0:{}: the first block of {} is {}",
                to_display(&wrong.0.hash),
                network.name(),
                to_display(&genesis)
            )));
        }
        let found = client.headers(0, 1)?.found.first().map(Header::hash);
        let Some(found) = found.filter(|found| *found != genesis) else {
            return Ok(());
        };
        let theirs = Network::ALL.map(Network::rules);
        let theirs = theirs.iter().find(|rules| rules.genesis().hash() == found);
        let theirs = theirs.map_or_else(|| "another network".to_owned(), |rules| rules.name().to_owned());
        bail!(
            "{}: the server serves {theirs}, not {}: its first block is {}, not {}; give another --server, or the \
             --headers directory and --network of its network",
            self.server,
            network.name(),
            to_display(&found),
            to_display(&genesis)
        )
    }

    /// Explains why the own headers cannot be opened, where a checkpoint is the reason.
    fn explain(&self, error: ChainError) -> anyhow::Error {
        match &error {
            ChainError::Stored { source, .. } => match **source {
                ChainError::OtherThanCheckpoint {
                    hash,
                    height,
                    expected,
                } => anyhow!(
                    "--checkpoint {height}:{}: the chain of headers in {} has {} at that height; correct the \
                     checkpoint, or, if it is right, remove that directory and ask another server",
                    to_display(&expected),
                    self.headers.display(),
                    to_display(&hash)
                ),
                _ => error.into(),
            },
            _ => error.into(),
        }
    }

    /// Warns of checkpoints that the chain has not reached, which say nothing yet.
    fn warn_of_checkpoints(&self, tip: u32) {
        for Checkpoint { height, .. } in self.checkpoint.iter().map(|text| text.0) {
            if height > tip {
                tell!("lineside: warning: --checkpoint {height}: the chain ends at height {tip}, below it");
            }
        }
    }
}

impl Opened {
    /// Takes the server's headers. Returns how many were new.
    fn sync(&mut self) -> anyhow::Result<u32> {
        let (mut start, mut back, mut added, mut unsynced) = (self.chain.tip().height + 1, 1, 0, 0);
        loop {
            let headers = self.client.headers(start, HEADERS)?.found;
            if headers.is_empty() && back == 1 {
                break;
            }
            let count = headers.len() as u32;
            match self.chain.accept_range(&headers, now()?) {
                Ok(accepted) => {
                    added += accepted.added;
                    unsynced += accepted.added;
                    start += count;
                    back = 1;
                    // The headers of a branch that has less work so far are followed up to its tip.
                    if count == 0 {
                        break;
                    }
                }
                // The server is on another branch: go back until it has a header after one of ours.
                Err(error) if error.index == 0 && is_unknown_parent(&error.source) && start > 1 => {
                    start = start.saturating_sub(back).max(1);
                    back = back.saturating_mul(2);
                }
                Err(error) => {
                    self.chain.sync()?;
                    let height = start + error.index as u32;
                    if let ChainError::OtherThanCheckpoint { hash, expected, .. } = error.source {
                        bail!(
                            "the server's chain has {} at height {height}, and --checkpoint says {}: correct the \
                             checkpoint, or ask another server",
                            to_display(&hash),
                            to_display(&expected)
                        );
                    }
                    return Err(error).with_context(|| format!("the server's header at height {height}"));
                }
            }
            if unsynced >= HEADERS_PER_SYNC {
                self.chain.sync()?;
                unsynced = 0;
            }
        }
        self.chain.sync()?;
        Ok(added)
    }
}

fn is_unknown_parent(error: &ChainError) -> bool {
    matches!(error, ChainError::UnknownParent { .. })
}

/// Returns the seconds since 1970, as headers have them.
fn now() -> anyhow::Result<u32> {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    Ok(u32::try_from(seconds).unwrap_or(u32::MAX))
}

/// Brings the chain of headers up to date.
///
/// # Errors
/// The server does not answer, or gives a header that breaks a rule.
pub fn sync(arguments: &Sync, as_json: bool) -> anyhow::Result<()> {
    let mut opened = arguments.light.open()?;
    let added = opened.sync()?;
    let tip = opened.chain.tip();
    arguments.light.warn_of_checkpoints(tip.height);
    let hash = to_display(&tip.hash);
    if as_json {
        say!("{}", json!({"added": added, "height": tip.height, "tip": hash}))?;
    } else {
        say!(
            "{added} headers added; the chain with the most work has height {}, tip {hash}",
            tip.height
        )?;
    }
    Ok(())
}

/// Verifies that a transaction is in the chain, and its witness where that is asked for.
///
/// # Errors
/// The server does not know it; a proof that does not hold.
pub fn verify(arguments: &Verify, as_json: bool) -> anyhow::Result<()> {
    let wtxid = arguments.wtxid.map(|id| id.0);
    let mut opened = arguments.light.open()?;
    opened.sync()?;
    arguments.light.warn_of_checkpoints(opened.chain.tip().height);
    let Some(id) = arguments.txid else {
        return match arguments.wtxid {
            Some(wtxid) => verify_by_wtxid(&mut opened, &wtxid, as_json),
            None => bail!(Wrong("give a TXID, or --wtxid WTXID".into())),
        };
    };
    let (txid, text) = (id.0, id.text());
    let proof = opened.proof(&txid, &text)?;
    if !arguments.witness && wtxid.is_none() {
        let confirmations = holds(opened.chain.verify(&proof, &txid))?;
        return show([Some(&text), None], &Shown::of(&proof), confirmations, as_json);
    }
    let witness = opened.witness_proof(&txid, &text)?;
    let (proof, witness) = if witness.header == proof.header {
        (proof, witness)
    } else {
        // The chain changed between the two answers.
        opened.sync()?;
        let proof = opened.proof(&txid, &text)?;
        (proof, opened.witness_proof(&txid, &text)?)
    };
    let confirmations = holds(opened.chain.verify(&proof, &txid))?;
    holds(opened.chain.verify_witness(&witness.proof(), &witness.wtxid))?;
    // Both trees have the transactions in one order, so the WTXID at the index of the TXID is that of the transaction.
    if witness.header != proof.header || witness.index != proof.index {
        bail!(
            "{text}: the server proved it as transaction {} of block {}, and its WTXID as that of transaction {} of \
             block {}: ask again, or another server",
            proof.index,
            to_display(&proof.header.hash()),
            witness.index,
            to_display(&witness.header.hash())
        );
    }
    let found = to_display(&witness.wtxid);
    if let Some(expected) = wtxid.filter(|expected| *expected != witness.wtxid) {
        bail!(
            "{text}: the chain holds it with another witness: its WTXID is {found}, not {}",
            to_display(&expected)
        );
    }
    show(
        [Some(&text), Some(&found)],
        &Shown::of(&proof),
        confirmations,
        as_json,
    )
}

/// Verifies that a transaction is in the chain by its WTXID alone, which the coinbase of its block commits to.
fn verify_by_wtxid(opened: &mut Opened, wtxid: &Id, as_json: bool) -> anyhow::Result<()> {
    let text = wtxid.text();
    let served = opened.client.wtxid_proof(&wtxid.0)?.found;
    let served = served.with_context(|| format!("{text}: no connected block of the server commits to it"))?;
    let confirmations = holds(opened.chain.verify_witness(&served.proof(), &wtxid.0))?;
    let shown = Shown {
        header: served.header,
        height: served.height,
        index: served.index,
        transactions: served.transaction_count,
    };
    show([None, Some(&text)], &shown, confirmations, as_json)
}

impl Opened {
    fn proof(&mut self, txid: &[u8; 32], text: &str) -> anyhow::Result<TransactionProof> {
        let found = self.client.proof(txid)?.found;
        found.with_context(|| format!("{text}: no connected block of the server holds it"))
    }

    fn witness_proof(&mut self, txid: &[u8; 32], text: &str) -> anyhow::Result<ServedWitness> {
        let found = self.client.witness_proof(txid)?.found;
        found.with_context(|| format!("{text}: no connected block of the server holds it"))
    }
}

/// Passes on what a check found; a proof that does not hold is also named on the error stream.
fn holds(checked: Result<u32, ChainError>) -> anyhow::Result<u32> {
    if checked.is_err() {
        tell!("lineside: the server's proof does not hold: do not rely on this server");
    }
    Ok(checked?)
}

/// Place of a transaction whose proof holds.
struct Shown {
    header: Header,
    height: u32,
    index: u32,
    transactions: u32,
}

impl Shown {
    fn of(proof: &TransactionProof) -> Self {
        Self {
            header: proof.header,
            height: proof.height,
            index: proof.index,
            transactions: proof.transaction_count,
        }
    }
}

/// Says that a transaction is verified. Its TXID or its WTXID is given, or both.
fn show(
    [txid, wtxid]: [Option<&str>; 2],
    shown: &Shown,
    confirmations: u32,
    as_json: bool,
) -> anyhow::Result<()> {
    let (block, root) = (shown.header.hash(), shown.header.merkle_root);
    if as_json {
        let mut object = json!({
            "verified": true, "height": shown.height, "confirmations": confirmations,
            "block": to_display(&block), "root": to_display(&root), "index": shown.index,
            "transactions": shown.transactions,
        });
        for (key, id) in [("txid", txid), ("wtxid", wtxid)] {
            if let Some(id) = id {
                object[key] = json!(id);
            }
        }
        say!("{object}")?;
    } else {
        let name = match (txid, wtxid) {
            (Some(txid), None) => format!("{txid}: verified"),
            (Some(txid), Some(wtxid)) => format!("{txid}: verified with WTXID {wtxid}"),
            (None, wtxid) => format!("WTXID {}: verified", wtxid.unwrap_or_default()),
        };
        say!(
            "{name}: height {}, {confirmations} confirmations, transaction {} of {} in block {}",
            shown.height,
            shown.index,
            shown.transactions,
            to_display(&block)
        )?;
    }
    Ok(())
}
