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
