//! `lineside-lab fabric make`: generates a channel, so that blocks can be tried without a network.

use anyhow::{Context, bail, ensure};
use clap::{Args, ValueEnum};
use flate2::{Compression, write::GzEncoder};
use lineside::say;
use lineside_fabric_maker::{Blocks, Chaincode, MadeBlock, Network, Options, Workload};
use lineside_util::counted;
use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Maximum number of organisations, and of endorsements of a transaction. It is limited because creating certificates
/// takes time.
const ORGS_MAX: usize = 50;
/// Maximum number of transactions; each takes about 4 KB.
const TRANSACTIONS_MAX: u64 = 10_000_000;

/// Make a channel: a folder of blocks for `replay`, `import` and `mock-orderer`, with the validation codes of a peer,
/// the genesis block, and the MSP of a client that may read the channel. The same options give the same channel.
#[derive(Args)]
pub struct Make {
    /// Folder to create; if it exists, it must be empty.
    folder: PathBuf,
    /// Seed of all random choices.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of blocks of transactions. The blocks that set up the channel come before them.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    blocks: u32,
    /// Number of transactions in a block.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..))]
    transactions: u16,
    /// Chaincode that the transactions call.
    #[arg(long, value_enum, default_value = "smallbank")]
    chaincode: Called,
    /// Number of keys, at least 11.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(11..=1_000_000))]
    keys: u32,
    /// Number of endorsements of a transaction, each by another organisation.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=ORGS_MAX as i64))]
    endorsements: u8,
    /// Number of transactions with a fault in every 1,000; the kinds of fault take turns.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u16).range(..=1000))]
    faulty: u16,
    /// Number of blocks between changes of the channel's configuration; 0: it never changes.
    #[arg(long, default_value_t = 0)]
    config_every: u32,
}

#[derive(Clone, Copy, ValueEnum)]
enum Called {
    /// Bank accounts and payments between them.
    Smallbank,
    /// Digital rights: works and the plays of them.
    Drm,
}

impl Make {
    fn workload(&self) -> anyhow::Result<Workload> {
        let transactions = u64::from(self.blocks) * u64::from(self.transactions);
        ensure!(
            transactions <= TRANSACTIONS_MAX,
            "{transactions} transactions are more than {TRANSACTIONS_MAX}"
        );
        Ok(Workload {
            chaincode: match self.chaincode {
                Called::Smallbank => Chaincode::Smallbank,
                Called::Drm => Chaincode::Drm,
            },
            keys: self.keys as usize,
            endorsements: self.endorsements.into(),
            block: self.transactions.into(),
            transactions,
            faulty: self.faulty.into(),
            config_every: self.config_every.into(),
            ..Workload::default()
        })
    }
}

/// Generates the folder.
///
/// # Errors
/// Fails if the folder is not empty; returns errors of the operating system.
pub fn make(arguments: &Make, as_json: bool) -> anyhow::Result<()> {
    let workload = arguments.workload()?;
    let folder = &arguments.folder;
    let at = || folder.display().to_string();
    fs::create_dir_all(folder).with_context(at)?;
    if fs::read_dir(folder).with_context(at)?.next().is_some() {
        bail!("{} is not empty; give an empty or a new folder", folder.display());
    }
    let options = Options {
        orgs: usize::from(arguments.endorsements).max(2),
        ..Options::default()
    };
    let network = Arc::new(Network::new(arguments.seed, options));
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
    let (mut manifest, mut transactions) = (Vec::new(), 0);
    for block in Blocks::new(Arc::clone(&network), workload, threads) {
        write_block(folder, &block).with_context(at)?;
        transactions += block.codes.len();
        manifest.push(recorded(&block));
    }
    let text = json!({ "blocks": manifest }).to_string();
    fs::write(folder.join("manifest.json"), text).with_context(at)?;
    let client = &network.orgs[0].clients[0];
    client.write_msp(&folder.join("msp")).with_context(at)?;
    let (channel, msp_id, blocks) = (&network.options.channel, &network.orgs[0].msp, manifest.len());
    if as_json {
        return Ok(say!(
            "{}",
            json!({"channel": channel, "blocks": blocks, "transactions": transactions, "msp_id": msp_id})
        )?);
    }
    say!(
        "wrote {} with {} of channel {channel}, genesis.block, and msp, the MSP folder of {msp_id}",
        counted(blocks, "block"),
        counted(transactions, "transaction")
    )?;
    Ok(())
}

fn write_block(folder: &Path, block: &MadeBlock) -> std::io::Result<()> {
    if block.number == 0 {
        fs::write(folder.join("genesis.block"), &block.bytes)?;
    }
    let file = File::create(folder.join(format!("{:05}.orderer.pb.gz", block.number)))?;
    let mut writer = GzEncoder::new(file, Compression::fast());
    writer.write_all(&block.bytes)?;
    writer.finish()?;
    Ok(())
}

/// Returns the entry of a block in the manifest.
fn recorded(block: &MadeBlock) -> Value {
    let codes = block.codes.iter();
    let txs: Vec<_> = codes.map(|&code| json!({"code_num": code as u8})).collect();
    json!({"number": block.number, "txs": txs})
}
