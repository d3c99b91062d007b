//! `lineside spv sync` and `spv verify`: the paper's light client. It keeps its own chain of headers, asks a server for
//! a proof, recomputes the Merkle root and compares it with its own header.

use crate::wrong::Wrong;
use anyhow::{Context, bail};
use clap::Args;
use lineside_spv::chain::Network;
use lineside_spv::client::{Client, ServedWitness};
use lineside_spv::config::NetworkName;
use lineside_spv_proof::{ChainError, ChainOptions, Checkpoint, FileStore, HeaderChain, TransactionProof};
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
    /// The directory of the chain of headers, which is made where it is not there.
    #[arg(long, value_name = "DIR")]
    headers: PathBuf,
    /// The network, which sets the rules of the headers; needed for a new directory. A directory knows its network.
    #[arg(long, value_enum)]
    network: Option<NetworkName>,
    /// The server that is asked.
    #[arg(long, value_name = "ADDR:PORT", default_value_t = SocketAddr::from((Ipv4Addr::LOCALHOST, SPV_PORT)))]
    server: SocketAddr,
    /// A block that the chain must have, as HEIGHT:HASH; several times for several.
    #[arg(long, value_name = "HEIGHT:HASH")]
    checkpoint: Vec<CheckpointText>,
    /// Milliseconds to wait for an answer.
    #[arg(long, value_name = "MS", default_value_t = 3000)]
    timeout_ms: u64,
}

/// Bring the own chain of headers up to the server's: proof of work, difficulty and times are checked, and the chain
/// with the most work wins, whatever the server says.
#[derive(Args)]
pub struct Sync {
    #[command(flatten)]
    light: Light,
}

/// Prove that a transaction is in the chain: bring the headers up to date, ask the server for a proof, recompute the
/// Merkle root and compare it with the own header.
#[derive(Args)]
pub struct Verify {
    #[command(flatten)]
    light: Light,
    /// Prove the transaction with its witness: its WTXID, by the commitment in the block's coinbase. The server must
    /// keep witness data (`spv init --witness`).
    #[arg(long)]
    witness: bool,
    /// The WTXID that the transaction must have, as explorers print it; implies --witness.
    #[arg(long, value_name = "WTXID")]
    wtxid: Option<String>,
    /// The transaction's id as explorers print it: 64 hex digits.
    txid: String,
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
        let directory = DataDir::claim(&self.headers, &KIND)?;
        directory.lock_file("lock")?;
        let store = FileStore::create(&self.headers, network)?;
        let options = ChainOptions {
            checkpoints: self.checkpoint.iter().map(|text| text.0).collect(),
            ..ChainOptions::default()
        };
        Ok(Opened {
            chain: HeaderChain::open(network, store, options)?,
            client: Client::connect(self.server, Duration::from_millis(self.timeout_ms))?,
            _directory: directory,
        })
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
    let txid = from_display(&arguments.txid).context("a TXID is 64 hex digits")?;
    let wtxid = match &arguments.wtxid {
        Some(text) => Some(from_display(text).context("a WTXID is 64 hex digits")?),
        None => None,
    };
    let mut opened = arguments.light.open()?;
    opened.sync()?;
    let proof = opened.proof(&txid, &arguments.txid)?;
    if !arguments.witness && wtxid.is_none() {
        let confirmations = holds(opened.chain.verify(&proof, &txid))?;
        return show(&arguments.txid, None, &proof, confirmations, as_json);
    }
    let witness = opened.witness_proof(&txid, &arguments.txid)?;
    let (proof, witness) = if witness.header == proof.header {
        (proof, witness)
    } else {
        // The chain changed between the two answers.
        opened.sync()?;
        let proof = opened.proof(&txid, &arguments.txid)?;
        (proof, opened.witness_proof(&txid, &arguments.txid)?)
    };
    let confirmations = holds(opened.chain.verify(&proof, &txid))?;
    holds(opened.chain.verify_witness(&witness.proof(), &witness.wtxid))?;
    // Both trees have the transactions in one order, so the WTXID at the index of the TXID is that of the transaction.
    if witness.header != proof.header || witness.index != proof.index {
        bail!(
            "{}: the server proved it as transaction {} of block {}, and its WTXID as that of transaction {} of \
             block {}: ask again, or another server",
            arguments.txid,
            proof.index,
            to_display(&proof.header.hash()),
            witness.index,
            to_display(&witness.header.hash())
        );
    }
    let found = to_display(&witness.wtxid);
    if let Some(expected) = wtxid.filter(|expected| *expected != witness.wtxid) {
        bail!(
            "{}: the chain holds it with another witness: its WTXID is {found}, not {}",
            arguments.txid,
            to_display(&expected)
        );
    }
    show(&arguments.txid, Some(&found), &proof, confirmations, as_json)
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

fn show(
    txid: &str,
    wtxid: Option<&str>,
    proof: &TransactionProof,
    confirmations: u32,
    as_json: bool,
) -> anyhow::Result<()> {
    let (block, root) = (proof.header.hash(), proof.header.merkle_root);
    if as_json {
        let mut object = json!({
            "txid": txid, "verified": true, "height": proof.height, "confirmations": confirmations,
            "block": to_display(&block), "root": to_display(&root), "index": proof.index,
            "transactions": proof.transaction_count,
        });
        if let Some(wtxid) = wtxid {
            object["wtxid"] = json!(wtxid);
        }
        say!("{object}")?;
    } else {
        let with = wtxid.map_or(String::new(), |wtxid| format!(" with WTXID {wtxid}"));
        say!(
            "{txid}: verified{with}: height {}, {confirmations} confirmations, transaction {} of {} in block {}",
            proof.height,
            proof.index,
            proof.transaction_count,
            to_display(&block)
        )?;
    }
    Ok(())
}
