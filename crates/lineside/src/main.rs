//! The `lineside` command: wiring, no logic.

mod check_config;
#[allow(dead_code)] // What only `run` will need.
mod config;
#[allow(dead_code)] // As above.
mod notify;
mod status;

use anyhow::{Context, bail};
use clap::{Parser, Subcommand, ValueEnum};
use lineside_near::{Readers, lease};
use lineside_plane::socket::{SocketOptions, SocketPlane};
use lineside_spv::chain::{ChainStore, ImportOptions, Network};
use lineside_spv::host::SpvHost;
use lineside_spv::near::SpvNear;
use lineside_spv::store::{Geometry, Store};
use lineside_spv::writer::StoreWriter;
use serde_json::json;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// Requests that may wait for the host.
const HOST_QUEUE: usize = 4096;
/// The lease of spv's near: 60 s.
const LEASE_NS: u64 = 60_000_000_000;
const LEASE_RENEWAL: Duration = Duration::from_secs(10);

#[derive(Parser)]
#[command(version, about)]
struct Cli {
    /// Print one JSON object instead of text.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    service: Service,
}

#[derive(Subcommand)]
enum Service {
    /// Which Merkle root holds this transaction?
    Spv {
        #[command(subcommand)]
        verb: SpvVerb,
    },
    Status(status::Status),
    CheckConfig(check_config::CheckConfig),
}

#[derive(Subcommand)]
enum SpvVerb {
    /// Take blocks into the chain store: raw block files, or a node's directory of blk*.dat.
    Import {
        /// The chain store's directory; made if it is not there.
        #[arg(long)]
        data: PathBuf,
        /// Sets the proof-of-work limit.
        #[arg(long, value_enum, default_value = "mainnet")]
        network: NetworkName,
        /// Take blocks whose parents are unknown, checking everything else; they answer with height 4294967295.
        #[arg(long)]
        detached: bool,
        /// Block files and directories.
        #[arg(required = true)]
        paths: Vec<PathBuf>,
    },
    /// Serve the chain store on UDP, on the socket plane, until it is ended.
    Serve {
        /// The chain store's directory.
        #[arg(long)]
        data: PathBuf,
        /// The network of the store.
        #[arg(long, value_enum, default_value = "mainnet")]
        network: NetworkName,
        /// Address and UDP port.
        #[arg(long, default_value = "127.0.0.1:7701")]
        listen: SocketAddr,
        /// Fill near with the newest blocks before serving.
        #[arg(long, default_value_t = 0)]
        prefill_blocks: u32,
    },
    /// Look a transaction up in the chain store itself, without near.
    Locate {
        /// The chain store's directory.
        #[arg(long)]
        data: PathBuf,
        /// The network of the store.
        #[arg(long, value_enum, default_value = "mainnet")]
        network: NetworkName,
        /// The transaction's id as explorers print it: 64 hex digits.
        txid: String,
    },
}

#[derive(Clone, Copy, ValueEnum)]
enum NetworkName {
    Mainnet,
    Testnet3,
    Signet,
    Regtest,
}

impl From<NetworkName> for Network {
    fn from(name: NetworkName) -> Self {
        match name {
            NetworkName::Mainnet => Self::Mainnet,
            NetworkName::Testnet3 => Self::Testnet3,
            NetworkName::Signet => Self::Signet,
            NetworkName::Regtest => Self::Regtest,
        }
    }
}

fn main() -> ExitCode {
    match run(Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("lineside: {error:#}");
            match error.is::<config::ConfigError>() {
                true => ExitCode::from(2),
                false => ExitCode::FAILURE,
            }
        }
    }
}

fn run(cli: Cli) -> anyhow::Result<()> {
    let verb = match cli.service {
        Service::Spv { verb } => verb,
        Service::Status(arguments) => return status::run(&arguments, cli.json),
        Service::CheckConfig(arguments) => return Ok(check_config::run(&arguments, cli.json)?),
    };
    match verb {
        SpvVerb::Import {
            data,
            network,
            detached,
            paths,
        } => {
            let mut chain = ChainStore::open(Some(&data), network.into())?;
            let report = chain.import(&paths, ImportOptions { detached }, &mut |_| ())?;
            for refused in &report.refused {
                let hash = refused.hash.as_ref().map_or("a block".into(), to_display);
                eprintln!(
                    "refused: {hash} in {} at byte {}: {}",
                    refused.path.display(),
                    refused.offset,
                    refused.reason
                );
            }
            if cli.json {
                let counts = json!({
                    "blocks": report.blocks, "transactions": report.transactions, "bytes": report.bytes,
                    "known": report.known, "connected": report.connected, "side": report.side,
                    "detached": report.detached, "refused": report.refused.len(),
                });
                println!("{counts}");
            } else {
                println!(
                    "{} blocks with {} transactions taken ({} bytes), {} known before, {} refused",
                    report.blocks,
                    report.transactions,
                    report.bytes,
                    report.known,
                    report.refused.len()
                );
            }
            if !report.refused.is_empty() {
                bail!(
                    "{} blocks were refused; nothing of them is kept",
                    report.refused.len()
                );
            }
        }
        SpvVerb::Serve {
            data,
            network,
            listen,
            prefill_blocks,
        } => {
            let chain = ChainStore::open(Some(&data), network.into())?;
            let store = Arc::new(Store::anonymous(&Geometry::default())?);
            let lease_until_ns = Arc::clone(&store);
            let readers = Readers::default();
            let writer = Box::new(StoreWriter::new(Arc::clone(&store)));
            let host = SpvHost::new(chain, writer, readers.clone(), true);
            if prefill_blocks > 0 {
                host.prefill(prefill_blocks);
            }
            let options = SocketOptions {
                listen,
                threads: 1,
                queue: HOST_QUEUE,
            };
            let plane = SocketPlane::start(options, Arc::new(SpvNear::new(store)), Arc::new(host), &readers)
                .with_context(|| format!("listening on {listen}"))?;
            println!("spv on {} (socket plane)", plane.local_addr());
            loop {
                lease::renew(&lease_until_ns.control().lease_until_ns, LEASE_NS);
                std::thread::sleep(LEASE_RENEWAL);
            }
        }
        SpvVerb::Locate { data, network, txid } => {
            let chain = ChainStore::open(Some(&data), network.into())?;
            let wire = from_display(&txid).context("a TXID is 64 hex digits")?;
            let Some(found) = chain.locate(&wire) else {
                bail!("{txid}: no connected block holds it")
            };
            let (root, block) = (to_display(&found.root), to_display(&found.block_hash));
            if cli.json {
                println!(
                    "{}",
                    json!({"root": root, "block": block, "height": found.height, "position": found.position})
                );
            } else {
                println!(
                    "root {root}\nblock {block}\nheight {}\nposition {}",
                    found.height, found.position
                );
            }
        }
    }
    Ok(())
}

/// Explorers print hashes last byte first.
fn from_display(text: &str) -> Option<[u8; 32]> {
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    let mut hash = [0; 32];
    for (index, byte) in hash.iter_mut().rev().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * index..2 * index + 2)?, 16).ok()?;
    }
    Some(hash)
}

fn to_display(hash: &[u8; 32]) -> String {
    hash.iter().rev().map(|byte| format!("{byte:02x}")).collect()
}
