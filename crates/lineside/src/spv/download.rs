//! Downloads the blocks of a running full node into the chain store, over several connections.

use crate::out::counted;
use crate::progress::CountBar;

use crate::wrong::Wrong;
use anyhow::{Context, bail, ensure};
use clap::Args;
use lineside_bitcoin_node::{
    BlockHash, CredentialSources, Download, DownloadOptions, Node, NodeError, NodeFault, NodeOptions,
    NodeUrl, Progress, UrlError, connect,
};
use lineside_spv::chain::{ChainStore, ImportReport};
use std::path::PathBuf;

/// Number of downloaded blocks after which the store is synced to disk.
const BLOCKS_PER_SYNC: u64 = 1000;

/// Full node to import blocks from.
#[derive(Args)]
pub struct FromNode {
    /// Import the blocks of this full node: bitcoind://[USER[:PASSWORD]@]HOST:PORT, btcd://USER[:PASSWORD]@HOST:PORT,
    /// or btcd+notls://… for btcd without TLS. An interrupted download continues where it stopped.
    #[arg(long, value_name = "URL")]
    node: Option<String>,
    /// Cookie file of Bitcoin Core: `.cookie` in its data directory, or in the network's folder there.
    #[arg(long, value_name = "FILE", requires = "node")]
    node_cookie: Option<PathBuf>,
    /// File with the password of the node's RPC in its first line; only its owner may be able to read it.
    #[arg(long, value_name = "FILE", requires = "node")]
    node_password: Option<PathBuf>,
    /// TLS certificate of btcd's RPC: `rpc.cert` in its data directory.
    #[arg(long, value_name = "FILE", requires = "node")]
    node_ca: Option<PathBuf>,
    /// Number of connections to the node.
    #[arg(long, value_name = "N", requires = "node", default_value_t = 4)]
    connections: u8,
}

impl FromNode {
    /// Returns true if a node is given.
    pub fn is_given(&self) -> bool {
        self.node.is_some()
    }

    /// Imports the node's blocks above the store's tip, and adds their numbers to `report`.
    ///
    /// # Errors
    /// The node does not answer, is on another network or another branch, or sends a block that is refused. Blocks
    /// imported before stay in the store.
    pub fn run(&self, chain: &mut ChainStore, report: &mut ImportReport) -> anyhow::Result<()> {
        let Some(text) = &self.node else { return Ok(()) };
        // Parsed here and not by clap, whose error message would show the text and its password.
        let url: NodeUrl = text.parse().map_err(|error: UrlError| Wrong(error.to_string()))?;
        let sources = CredentialSources {
            cookie_file: self.node_cookie.clone(),
            password_file: self.node_password.clone(),
            password: None,
        };
        let options = NodeOptions {
            credentials: sources.with_environment(),
            ca_file: self.node_ca.clone(),
            ..NodeOptions::default()
        };
        let mut node = connect(&url, &options)?;
        let genesis = BlockHash(chain.network().rules().genesis().hash());
        let first = node.hash_at(0)?;
        ensure!(
            first == genesis,
            "{}: the node is on another network: the node's first block is {first}, not {genesis} as on {}",
            url.describe(),
            chain.network()
        );
        check_signet(&url.describe(), chain, &mut *node)?;
        let own = chain.at_height(0).and_then(|id| chain.block(id));
        if let Some(own) = own
            .map(|block| BlockHash(block.hash))
            .filter(|own| *own != genesis)
        {
            bail!(
                "the chain store begins with block {own}, but the genesis block of {} is {genesis}, so the node's \
                 blocks do not follow the store's: create another store with `lineside spv init`",
                chain.network()
            );
        }
        let tip = chain.tip();
        if let Some(tip) = tip {
            let theirs = node.hash_at(tip.height)?;
            if theirs != BlockHash(tip.hash) {
                bail!(
                    "{}: the node has another block at height {} than the store: run `lineside spv serve --node`, \
                     which follows reorganisations",
                    url.describe(),
                    tip.height
                );
            }
        }
        let start = tip.map_or(0, |tip| tip.height + 1);
        let end = node.info()?.blocks + 1;
        let workers = DownloadOptions {
            workers: usize::from(self.connections.max(1)),
            ..DownloadOptions::default()
        };
        let parent = tip.map(|tip| BlockHash(tip.hash));
        let download = Download::start(start..end, parent, workers, || connect(&url, &options))?;
        let downloaded = store_blocks(chain, download, u64::from(end - start.min(end)), report);
        chain.sync()?;
        downloaded.with_context(|| format!("cannot import the blocks of {}", url.describe()))
    }
}

/// Checks that the node is on the store's signet, if the store is of a signet and the node reports its challenge.
/// Blocks of another signet that get past this check are refused when they do not fit the store's blocks.
fn check_signet(url: &str, chain: &ChainStore, node: &mut dyn Node) -> anyhow::Result<()> {
    let Some(expected) = chain.identity().signet else {
        return Ok(());
    };
    if let Some(found) = node.info()?.signet.filter(|found| *found != expected) {
        bail!(NodeError::new(url, NodeFault::OtherSignet { expected, found }));
    }
    Ok(())
}

fn store_blocks(
    chain: &mut ChainStore,
    mut download: Download,
    blocks: u64,
    report: &mut ImportReport,
) -> anyhow::Result<()> {
    let bar = CountBar::new(blocks);
    let mut stored_blocks = 0;
    for block in download.by_ref() {
        let block = block?;
        let checked = chain.check(&block.raw);
        let checked = checked.with_context(|| format!("block {} at height {}", block.hash, block.height))?;
        let submitted = chain.accept(&checked, false)?;
        chain.keep(&checked.hash(), &block.raw)?;
        chain.connect(submitted.id)?;
        stored_blocks += 1;
        report.blocks += 1;
        report.connected += 1;
        report.bytes += block.raw.len() as u64;
        report.transactions += checked.txids().len() as u64;
        if stored_blocks % BLOCKS_PER_SYNC == 0 {
            chain.sync()?;
        }
        bar.show(stored_blocks);
    }
    bar.finish();
    if blocks > 0 {
        tell!("lineside: {}", progress_text(&download.progress()));
    }
    Ok(())
}

fn progress_text(progress: &Progress) -> String {
    let seconds = progress.elapsed.as_secs_f64().max(1e-9);
    format!(
        "{}, {:.1} MB in {seconds:.1} s: {:.1} MB/s",
        counted(progress.blocks, "block"),
        progress.bytes as f64 / 1e6,
        progress.bytes as f64 / 1e6 / seconds
    )
}
