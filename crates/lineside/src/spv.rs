//! `lineside spv …`: makes, fills and serves a chain store of Bitcoin blocks, and asks or verifies a server's answers.

mod download;
pub(crate) mod hide;
mod ids;
mod init;
mod light;
mod serve;

use crate::out::{Unwritten, counted};
use crate::progress;
use crate::wrong::Wrong;
use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use ids::Id;
use lineside_client::spv::Client;
use lineside_spv::chain::{ChainStore, ImportOptions, ImportReport, Network};
use lineside_spv::config::{IndexName, NetworkName};
use lineside_spv::service::no_store;
use lineside_util::hex::to_display;
use lineside_wire::{SPV_HEIGHT_UNKNOWN, SPV_PORT, SPV_ROOTS_MAX};
use serde_json::{Value, json};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// Subcommands of `lineside spv`.
#[derive(Subcommand)]
pub enum Verb {
    Init(init::Init),
    /// Import blocks into a chain store, from block files or from a running full node.
    ///
    /// Block files are raw blocks, or a directory with the blk*.dat of a node. Blocks that break a rule are refused and
    /// named, and the exit code is then 1.
    Import(Import),
    Serve(Box<serve::Serve>),
    /// Print the Merkle root, block and height of transactions, from a server's answers.
    ///
    /// The answers are not verified; `verify` does that. Exit code 1 if a transaction is not found.
    Get(Get),
    Sync(light::Sync),
    Verify(light::Verify),
    /// Look up a transaction in a chain store on this machine, without a server.
    Locate(Locate),
}

#[derive(Args)]
struct Store {
    /// Directory of the chain store.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Network of the chain store; needed to create a store with `import`, otherwise read from the store.
    #[arg(long, value_enum)]
    network: Option<NetworkName>,
    /// Place of the TXID index: in memory, rebuilt at each start, or on disk, for large chains such as mainnet.
    #[arg(long, value_enum, default_value = "memory")]
    index: IndexName,
}

#[derive(Args)]
pub struct Import {
    #[command(flatten)]
    store: Store,
    /// Import single blocks whose parents are missing; all other checks apply. They need a separate store, and
    /// their height is unknown (4294967295 in replies).
    #[arg(long)]
    detached: bool,
    /// Also keep the raw blocks, as blk*.dat in the folder `blocks` of the chain store.
    #[arg(long)]
    keep_blocks: bool,
    #[command(flatten)]
    from_node: download::FromNode,
    /// Block files, and directories with blk*.dat; at least one is needed without --node. With --node they are imported
    /// before the blocks of the node.
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
}

#[derive(Args)]
pub struct Get {
    /// Address or name of the server, and its UDP port.
    #[arg(
        long,
        value_name = "ADDR:PORT",
        value_parser = crate::address::parse,
        default_value_t = SocketAddr::from((Ipv4Addr::LOCALHOST, SPV_PORT))
    )]
    server: SocketAddr,
    /// Send requests in the paper's format, whose replies hold only the Merkle root.
    #[arg(long)]
    paper: bool,
    /// Take the ids as WTXIDs; the server's store must keep witness data (`spv init --witness`).
    #[arg(long, conflicts_with = "paper")]
    wtxid: bool,
    /// Milliseconds to wait for a reply.
    #[arg(long, value_name = "MS", default_value_t = 3000)]
    timeout_ms: u64,
    /// TXIDs as block explorers print them, 64 hex digits each; with --wtxid, WTXIDs.
    #[arg(required = true, value_name = "TXID")]
    ids: Vec<Id>,
}

#[derive(Args)]
pub struct Locate {
    #[command(flatten)]
    store: Store,
    /// TXID as block explorers print it, 64 hex digits.
    txid: Id,
}

/// Runs the given subcommand.
///
/// # Errors
/// The subcommand failed, or a transaction was not found.
pub fn run(verb: Verb, as_json: bool) -> anyhow::Result<()> {
    if matches!(verb, Verb::Serve(_) | Verb::Import(_)) {
        hide::hide_password()?;
    }
    match verb {
        Verb::Init(arguments) => init::run(&arguments, as_json),
        Verb::Import(arguments) => import(&arguments, as_json),
        Verb::Serve(arguments) => serve::run(*arguments, as_json),
        Verb::Get(arguments) => get(&arguments, as_json),
        Verb::Sync(arguments) => light::sync(&arguments, as_json),
        Verb::Verify(arguments) => light::verify(&arguments, as_json),
        Verb::Locate(arguments) => locate(&arguments, as_json),
    }
}

impl Store {
    /// Opens the chain store, or creates one of the given network. Prints a warning if the index had to be rebuilt.
    fn open(&self) -> anyhow::Result<ChainStore> {
        let network = self.network()?;
        let (chain, rebuilt) = ChainStore::open_with(Some(&self.data), network, self.index.into())?;
        if let Some(rebuilt) = rebuilt {
            tell!("lineside: warning: {}: {rebuilt}", self.data.display());
        }
        Ok(chain)
    }

    /// Returns the network of the chain store, or the given network if there is no store yet.
    fn network(&self) -> anyhow::Result<Network> {
        let option = self.network.map(Network::from);
        match (ChainStore::network_of(&self.data)?, option) {
            (Some(stored), Some(option)) if stored.network != option => bail!(Wrong(format!(
                "{}: this chain store holds {stored}, not {option}; leave --network out, or give another --data",
                self.data.display()
            ))),
            (Some(stored), _) => Ok(stored.network),
            (None, Some(option)) => Ok(option),
            (None, None) => bail!(Wrong(format!(
                "{}: there is no chain store; give --network NETWORK for a new one",
                self.data.display()
            ))),
        }
    }
}

fn import(arguments: &Import, as_json: bool) -> anyhow::Result<()> {
    if arguments.paths.is_empty() && !arguments.from_node.is_given() {
        bail!(Wrong(
            "no blocks to import: name block files or a directory with blk*.dat, or give --node URL to import the \
             blocks of a running node"
                .into()
        ));
    }
    // Before a store is created, which a failed command must not leave.
    for path in &arguments.paths {
        path.metadata()
            .with_context(|| format!("cannot read {}", path.display()))?;
    }
    let mut chain = arguments.store.open()?;
    if arguments.keep_blocks {
        chain.keep_blocks(&arguments.store.data)?;
    }
    // A detached block never becomes connected, so a chain that reaches it could not grow further.
    let (is_chain, has_detached) = (chain.tip().is_some(), chain.has_detached());
    if arguments.detached && is_chain {
        bail!("this store holds a chain; import --detached blocks into another --data directory");
    }
    if !arguments.detached && has_detached {
        bail!("this store holds --detached blocks; import a chain into another --data directory");
    }
    let bar = progress::ImportBar::default();
    let options = ImportOptions {
        detached: arguments.detached,
    };
    let report = chain.import(&arguments.paths, options, &mut |at| bar.show(at));
    bar.finish();
    let mut report = report?;
    if arguments.detached && arguments.from_node.is_given() {
        bail!("--detached is for block files; the blocks of --node are a chain: leave out one of the two");
    }
    arguments.from_node.run(&mut chain, &mut report)?;
    for refused in &report.refused {
        let hash = refused.hash.as_ref().map_or("a block".into(), to_display);
        tell!(
            "refused: {hash} in {} at byte {}: {}",
            refused.path.display(),
            refused.offset,
            refused.reason
        );
    }
    if as_json {
        say!("{}", report_object(&report))?;
    } else {
        say!(
            "{} with {} imported ({}), {} already in the store, {} refused",
            counted(report.blocks, "block"),
            counted(report.transactions, "transaction"),
            counted(report.bytes, "byte"),
            report.already_stored,
            report.refused.len()
        )?;
    }
    match report.refused.len() {
        0 => Ok(()),
        refused => bail!("{} refused; nothing of them is stored", counted(refused, "block")),
    }
}

fn report_object(report: &ImportReport) -> Value {
    let refused: Vec<_> = report
        .refused
        .iter()
        .map(|refused| {
            json!({
                "path": refused.path.to_string_lossy(), "offset": refused.offset,
                "hash": refused.hash.as_ref().map(to_display), "reason": refused.reason.to_string(),
            })
        })
        .collect();
    json!({
        "blocks": report.blocks, "transactions": report.transactions, "bytes": report.bytes,
        "known": report.already_stored, "connected": report.connected, "side": report.side, "detached": report.detached,
        "refused": refused,
    })
}

fn get(arguments: &Get, as_json: bool) -> anyhow::Result<()> {
    let ids: Vec<_> = arguments.ids.iter().map(|id| id.0).collect();
    let mut client = Client::connect(arguments.server, Duration::from_millis(arguments.timeout_ms))?;
    let mut unknown = 0;
    let kind = if arguments.wtxid { "wtxid" } else { "txid" };
    let mut show = |id: &[u8; 32], object: Option<Value>| -> Result<(), Unwritten> {
        unknown += usize::from(object.is_none());
        let id = to_display(id);
        let mut line = json!({kind: id, "found": object.is_some()});
        if let (Some(Value::Object(more)), Value::Object(line)) = (object, &mut line) {
            line.extend(more);
        }
        if as_json {
            say!("{line}")
        } else if line["found"] == true {
            let height = line["height"]
                .as_u64()
                .map_or(String::new(), |height| match height {
                    height if height == u64::from(SPV_HEIGHT_UNKNOWN) => ", detached".into(),
                    height => format!(", height {height}"),
                });
            say!("{id}: root {}{height}", line["root"].as_str().unwrap_or_default())
        } else {
            say!("{id}: no block in the chain contains it")
        }
    };
    if arguments.paper {
        for txid in &ids {
            let root = client.paper_root(txid)?;
            show(txid, root.map(|root| json!({"root": to_display(&root)})))?;
        }
    } else if arguments.wtxid {
        for wtxid in &ids {
            let answer = client.wtxid_proof(wtxid)?;
            let object = answer.result.map(|found| {
                json!({
                    "root": to_display(&found.header.merkle_root), "block": to_display(&found.header.hash()),
                    "height": found.height, "index": found.index, "tip": to_display(&answer.tip.hash),
                    "tip_height": answer.tip.height,
                })
            });
            show(wtxid, object)?;
        }
    } else {
        for some in ids.chunks(SPV_ROOTS_MAX) {
            let answer = client.roots(some)?;
            for (txid, location) in some.iter().zip(answer.result) {
                let object = location.map(|place| {
                    json!({
                        "root": to_display(&place.root), "block": to_display(&place.block_hash),
                        "height": place.height, "tip": to_display(&answer.tip.hash),
                        "tip_height": answer.tip.height,
                    })
                });
                show(txid, object)?;
            }
        }
    }
    match unknown {
        0 => Ok(()),
        _ => bail!("{unknown} of {} not found", counted(ids.len(), "transaction")),
    }
}

fn locate(arguments: &Locate, as_json: bool) -> anyhow::Result<()> {
    let txid = arguments.txid.text();
    let data = &arguments.store.data;
    if ChainStore::network_of(data)?.is_none() {
        // Opening would create a store.
        bail!("{}", no_store(data, None));
    }
    let Some(location) = arguments.store.open()?.locate(&arguments.txid.0)? else {
        bail!("{txid}: no block in the chain contains it")
    };
    let (root, block) = (to_display(&location.root), to_display(&location.block_hash));
    if as_json {
        say!(
            "{}",
            json!({"root": root, "block": block, "height": location.height, "position": location.position})
        )?;
    } else {
        say!(
            "root {root}\nblock {block}\nheight {}\nposition {}",
            location.height,
            location.position
        )?;
    }
    Ok(())
}
