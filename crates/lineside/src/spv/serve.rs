//! `lineside spv serve`: options of the command line.

use crate::run::{self, Overrides};
use crate::session::Session;
use crate::wrong::Wrong;
use anyhow::bail;
use clap::Args;
use lineside_service::config::given;
use lineside_spv::config::{IndexName, NetworkName, Prefill, SpvConfig};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Serve the chain store on UDP until a signal ends it.
#[derive(Args)]
pub struct Serve {
    /// The configuration file; what is given here goes before it.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Address and UDP port.
    #[arg(long, value_name = "ADDR:PORT")]
    listen: Option<SocketAddr>,
    /// The chain store's directory.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// The network of the chain store.
    #[arg(long, value_enum)]
    network: Option<NetworkName>,
    /// Where the index of TXIDs is kept.
    #[arg(long, value_enum)]
    index: Option<IndexName>,
    /// What the fast path is filled with before serving: none, tip:N or all.
    #[arg(long, value_parser = |text: &str| Prefill::try_from(text.to_owned()))]
    prefill: Option<Prefill>,
    /// log2 of the number of cache lines of 64 bytes.
    #[arg(long)]
    line_bits: Option<u32>,
    /// Seconds for which the fast path may answer without hearing from the host.
    #[arg(long)]
    lease_s: Option<u64>,
    /// The full node that is followed: bitcoind://[USER[:PASSWORD]@]HOST:PORT, btcd://USER[:PASSWORD]@HOST:PORT,
    /// btcd+notls://… for btcd without TLS, blocks-dir:PATH for a node's block files, or embedded for none. The
    /// password may be in --node-password or in the environment, LINESIDE_NODE_PASSWORD.
    #[arg(long, value_name = "URL")]
    node: Option<String>,
    /// The cookie file of Bitcoin Core, `.cookie` in its data directory.
    #[arg(long, value_name = "FILE")]
    node_cookie: Option<PathBuf>,
    /// A file with the password of the node's RPC in its first line, which only its owner may read.
    #[arg(long, value_name = "FILE")]
    node_password: Option<PathBuf>,
    /// The certificate of btcd's RPC, `rpc.cert` in its data directory.
    #[arg(long, value_name = "FILE")]
    node_ca: Option<PathBuf>,
    /// Blocks on top of each other, the newest included, before the lowest of them is answered from.
    #[arg(long, value_name = "N")]
    min_confirmations: Option<u32>,
    /// Serve wallets by the Electrum protocol over TCP at this address.
    #[arg(long, value_name = "ADDR:PORT")]
    electrum: Option<SocketAddr>,
    /// The Electrum server that answers what this one does not.
    #[arg(long, value_name = "[tls://]HOST:PORT")]
    electrum_upstream: Option<String>,
    /// Serve explorers by Esplora's paths over HTTP at this address.
    #[arg(long, value_name = "ADDR:PORT")]
    http: Option<SocketAddr>,
    #[command(flatten)]
    overrides: Overrides,
}

/// Serves until a signal comes.
///
/// # Errors
/// The reason why it cannot serve.
pub fn run(arguments: Serve, as_json: bool) -> anyhow::Result<()> {
    let mut config = arguments.overrides.over(arguments.config)?;
    let section = config.section("spv");
    section.set_some("listen", arguments.listen);
    section.set_some("data", arguments.data);
    section.set_some("network", arguments.network);
    section.set_some("index", arguments.index);
    section.set_some("prefill", arguments.prefill);
    section.set_some("line_bits", arguments.line_bits);
    section.set_some("lease_s", arguments.lease_s);
    section.set_some("node", arguments.node);
    section.set_some("node_cookie", arguments.node_cookie);
    section.set_some("node_password", arguments.node_password);
    section.set_some("node_ca", arguments.node_ca);
    section.set_some("min_confirmations", arguments.min_confirmations);
    section.set_some("electrum", arguments.electrum);
    section.set_some("electrum_upstream", arguments.electrum_upstream);
    section.set_some("http", arguments.http);
    if section
        .read::<SpvConfig>()
        .is_ok_and(|read| given(&read.data).is_none())
    {
        bail!(Wrong(
            "--data DIR, or `data` in [spv] of the configuration, says what to serve".into()
        ));
    }
    config.serve_only("spv");
    run::serve(Session::start(&config, true)?, as_json)
}
