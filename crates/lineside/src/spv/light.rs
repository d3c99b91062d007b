//! `lineside spv sync` and `spv verify`: the paper's light client. The client keeps its own chain of block headers,
//! asks a server for a proof, recomputes the Merkle root, and compares it with the root in its own header. It therefore
//! does not have to trust the server.

use super::ids::Id;
use crate::out::counted;
use crate::wrong::Wrong;
use anyhow::{Context, anyhow, bail};
use clap::Args;
use lineside_client::spv::{Client, ServedWitness, VerifyError};
use lineside_client::spv_proof::{
    ChainError, ChainOptions, Checkpoint, FileStore, Header, HeaderChain, Network as Rules, TransactionProof,
};
use lineside_spv::chain::Network;
use lineside_spv::config::NetworkName;
use lineside_util::data_dir::{DataDir, Kind};
use lineside_util::hex::{from_display, to_display};
use lineside_wire::{SPV_HEIGHT_UNKNOWN, SPV_PORT};
use serde_json::json;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// Kind of a light client's data directory, as its marker file records it.
const KIND: Kind = Kind::new("spv-headers", 1).beside(&["headers.dat"]);

/// Options of the light client: its chain of headers, and the server.
#[derive(Args)]
pub struct Light {
    /// Directory of this client's chain of headers, which is created if missing.
    #[arg(long, value_name = "DIR")]
    headers: PathBuf,
    /// Network, whose rules the headers must follow; needed for a new directory, otherwise read from it.
    #[arg(long, value_enum)]
    network: Option<NetworkName>,
    /// Address or name of the server, and its UDP port.
    #[arg(
        long,
        value_name = "ADDR:PORT",
        value_parser = crate::address::parse,
        default_value_t = SocketAddr::from((Ipv4Addr::LOCALHOST, SPV_PORT))
    )]
    server: SocketAddr,
    /// Block that the chain must contain, as HEIGHT:HASH; may be given more than once.
    #[arg(long, value_name = "HEIGHT:HASH")]
    checkpoint: Vec<CheckpointText>,
    /// Milliseconds to wait for a reply.
    #[arg(long, value_name = "MS", default_value_t = 3000)]
    timeout_ms: u64,
}

/// Fetch new block headers from a server and check them.
///
/// Checks proof of work, target and time of each header. The chain with the most work is kept, so the server does not
/// have to be trusted.
#[derive(Args)]
pub struct Sync {
    #[command(flatten)]
    light: Light,
}

/// Verify that a transaction is in the chain with the most work.
///
/// Fetches new headers as `spv sync` does, asks the server for a proof, recomputes the Merkle root, and compares it
/// with the root in this client's own header. Exit code 1 if the proof is wrong or the transaction is not found.
#[derive(Args)]
pub struct Verify {
    #[command(flatten)]
    light: Light,
    /// Also verify the transaction's witness: its WTXID, by the commitment in the block's coinbase. The server's store
    /// must keep witness data (`spv init --witness`).
    #[arg(long)]
    witness: bool,
    /// WTXID that the transaction must have, 64 hex digits as block explorers print it; implies --witness. Without
    /// TXID, the transaction is looked up by its WTXID.
    #[arg(long, value_name = "WTXID")]
    wtxid: Option<Id>,
    /// TXID as block explorers print it, 64 hex digits.
    #[arg(required_unless_present = "wtxid")]
    txid: Option<Id>,
}

/// Checkpoint from the command line.
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

/// Light client with its open chain of headers and its connection to the server.
struct OpenedLightClient {
    chain: HeaderChain<FileStore>,
    client: Client,
    _directory: DataDir,
}

impl Light {
    fn open(&self) -> anyhow::Result<OpenedLightClient> {
        let option = self.network.map(|network| Network::from(network).rules());
        let Some(network) = option.or_else(|| FileStore::network_in(&self.headers)) else {
            bail!(Wrong(format!(
                "{}: this directory holds no headers; give --network NETWORK, and the headers are fetched into it",
                self.headers.display()
            )));
        };
        let mut client = Client::connect(self.server, Duration::from_millis(self.timeout_ms))?;
        // Checked before the directory is created, so that none remains for a network that the server does not serve.
        self.check_network(network, &mut client)?;
        let directory = DataDir::claim(&self.headers, &KIND)?;
        directory.lock_file("lock")?;
        let store = FileStore::create(&self.headers, network)?;
        let options = ChainOptions {
            checkpoints: self.checkpoint.iter().map(|text| text.0).collect(),
            ..ChainOptions::default()
        };
        let chain = HeaderChain::open(network, store, options).map_err(|error| self.explain(error))?;
        Ok(OpenedLightClient {
            chain,
            client,
            _directory: directory,
        })
    }

    /// Checks that the genesis block of the network is the first block of the server's chain, if the server has one,
    /// and matches the checkpoint at height 0, if one is given.
    fn check_network(&self, network: Rules, client: &mut Client) -> anyhow::Result<()> {
        let genesis = network.genesis().hash();
        let first = self.checkpoint.iter().find(|text| text.0.height == 0);
        if let Some(wrong) = first.filter(|text| text.0.hash != genesis) {
            bail!(Wrong(format!(
                "--checkpoint 0:{}: the first block of {} is {}; correct the checkpoint, or give another --network",
                to_display(&wrong.0.hash),
                network.name(),
                to_display(&genesis)
            )));
        }
        let server_genesis = client.headers(0, 1)?.result.first().map(Header::hash);
        let Some(server_genesis) = server_genesis.filter(|found| *found != genesis) else {
            return Ok(());
        };
        let networks = Network::ALL.map(Network::rules);
        let server_rules = networks
            .iter()
            .find(|rules| rules.genesis().hash() == server_genesis);
        let server_network =
            server_rules.map_or_else(|| "another network".to_owned(), |rules| rules.name().to_owned());
        bail!(
            "{}: the server serves {server_network}, not {}: the server's first block is {}, not {}; give another \
             --server, or the --headers directory and --network of the server's network",
            self.server,
            network.name(),
            to_display(&server_genesis),
            to_display(&genesis)
        )
    }

    /// Adds advice to an error of opening the headers, if a checkpoint is the reason.
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

    /// Warns of checkpoints above the tip, which were not compared.
    fn warn_of_checkpoints(&self, tip: u32) {
        for Checkpoint { height, .. } in self.checkpoint.iter().map(|text| text.0) {
            if height > tip {
                tell!(
                    "lineside: warning: --checkpoint {height} was not compared: the chain ends at height {tip}, below \
                     the checkpoint"
                );
            }
        }
    }
}

impl OpenedLightClient {
    /// Fetches the server's headers. Returns the number of new ones.
    fn sync(&mut self) -> anyhow::Result<u32> {
        self.client.sync(&mut self.chain).map_err(|error| match error {
            VerifyError::Header {
                height,
                source: ChainError::OtherThanCheckpoint { hash, expected, .. },
            } => anyhow!(
                "the server's chain has block {} at height {height}, but --checkpoint says {}: correct the checkpoint, \
                 or ask another server",
                to_display(&hash),
                to_display(&expected)
            ),
            error => error.into(),
        })
    }
}

/// Fetches and checks the new headers, and prints the tip.
///
/// # Errors
/// The server does not answer, or sends a header that breaks a rule.
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
            "{} added; the chain with the most work has height {}, tip {hash}",
            counted(added, "header"),
            tip.height
        )?;
    }
    Ok(())
}

/// Verifies that a transaction is in the chain, and its witness if that is requested.
///
/// # Errors
/// The server does not find the transaction, or its proof is wrong.
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
        let confirmations = accepted(opened.chain.verify(&proof, &txid))?;
        return show(
            [Some(&text), None],
            &VerifiedLocation::of(&proof),
            confirmations,
            as_json,
        );
    }
    let witness = opened.witness_proof(&txid, &text)?;
    let (proof, witness) = if witness.header == proof.header {
        (proof, witness)
    } else {
        // The chain changed between the two replies.
        opened.sync()?;
        let proof = opened.proof(&txid, &text)?;
        (proof, opened.witness_proof(&txid, &text)?)
    };
    let confirmations = accepted(opened.chain.verify(&proof, &txid))?;
    accepted(opened.chain.verify_witness(&witness.proof(), &witness.wtxid))?;
    // Both trees have the transactions in the same order, so equal indexes mean the same transaction.
    if witness.header != proof.header || witness.index != proof.index {
        bail!(
            "{text}: the server's two proofs disagree: the TXID is transaction {} of block {}, the WTXID is \
             transaction {} of block {}; run the command again, or ask another server",
            proof.index,
            to_display(&proof.header.hash()),
            witness.index,
            to_display(&witness.header.hash())
        );
    }
    let actual_wtxid = to_display(&witness.wtxid);
    if let Some(expected) = wtxid.filter(|expected| *expected != witness.wtxid) {
        bail!(
            "{text}: the transaction is in the chain with another witness: its WTXID is {actual_wtxid}, not {}",
            to_display(&expected)
        );
    }
    show(
        [Some(&text), Some(&actual_wtxid)],
        &VerifiedLocation::of(&proof),
        confirmations,
        as_json,
    )
}

/// Verifies that a transaction is in the chain by its WTXID alone, to which the coinbase of its block commits.
fn verify_by_wtxid(opened: &mut OpenedLightClient, wtxid: &Id, as_json: bool) -> anyhow::Result<()> {
    let text = wtxid.text();
    let served = opened.client.wtxid_proof(&wtxid.0)?.result;
    let served = served.with_context(|| format!("{text}: no block in the server's chain commits to it"))?;
    let confirmations = accepted(opened.chain.verify_witness(&served.proof(), &wtxid.0))?;
    let location = VerifiedLocation {
        header: served.header,
        height: served.height,
        index: served.index,
        transactions: served.transaction_count,
    };
    show([None, Some(&text)], &location, confirmations, as_json)
}

impl OpenedLightClient {
    fn proof(&mut self, txid: &[u8; 32], text: &str) -> anyhow::Result<TransactionProof> {
        let found = self.client.proof(txid)?.result;
        let found = found.with_context(|| format!("{text}: no block in the server's chain contains it"))?;
        if found.height == SPV_HEIGHT_UNKNOWN {
            bail!(
                "{text}: the server holds the block as a detached one, whose height it does not know: such a proof \
                 cannot be compared with the headers; ask a server that has the block in its chain"
            );
        }
        Ok(found)
    }

    fn witness_proof(&mut self, txid: &[u8; 32], text: &str) -> anyhow::Result<ServedWitness> {
        let found = self.client.witness_proof(txid)?.result;
        found.with_context(|| format!("{text}: no block in the server's chain contains it"))
    }
}

/// Returns the result of a check; prints a warning about the server if its proof is wrong.
fn accepted(checked: Result<u32, ChainError>) -> anyhow::Result<u32> {
    if checked.is_err() {
        tell!("lineside: the server's proof is wrong: do not trust this server");
    }
    Ok(checked?)
}

/// Location of a verified transaction in the chain.
struct VerifiedLocation {
    header: Header,
    height: u32,
    index: u32,
    transactions: u32,
}

impl VerifiedLocation {
    fn of(proof: &TransactionProof) -> Self {
        Self {
            header: proof.header,
            height: proof.height,
            index: proof.index,
            transactions: proof.transaction_count,
        }
    }
}

/// Prints that a transaction is verified. At least one of TXID and WTXID is given.
fn show(
    [txid, wtxid]: [Option<&str>; 2],
    location: &VerifiedLocation,
    confirmations: u32,
    as_json: bool,
) -> anyhow::Result<()> {
    let (block, root) = (location.header.hash(), location.header.merkle_root);
    if as_json {
        let mut object = json!({
            "verified": true, "height": location.height, "confirmations": confirmations,
            "block": to_display(&block), "root": to_display(&root), "index": location.index,
            "transactions": location.transactions,
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
            "{name}: height {}, {}, transaction {} of {} in block {}",
            location.height,
            counted(confirmations, "confirmation"),
            location.index,
            location.transactions,
            to_display(&block)
        )?;
    }
    Ok(())
}
