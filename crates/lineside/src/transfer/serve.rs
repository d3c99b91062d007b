//! `lineside transfer serve`: what the command line says.

use crate::run::{self, Overrides};
use crate::session::Session;
use crate::wrong::Wrong;
use anyhow::bail;
use clap::Args;
use lineside_service::config::given;
use lineside_transfer::config::{TransferConfig, TransferMode};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Serve a ledger on UDP and TCP until a signal ends it.
#[derive(Args)]
pub struct Serve {
    /// The configuration file; what is given here goes before it.
    #[arg(long)]
    config: Option<PathBuf>,
    /// The ledger's directory, made where it is not there.
    #[arg(long)]
    data: Option<PathBuf>,
    /// Address and port, of UDP and TCP.
    #[arg(long)]
    listen: Option<SocketAddr>,
    /// Who executes: the host, durably, or the fast path, at once.
    #[arg(long, value_enum)]
    mode: Option<TransferMode>,
    /// log2 of the number of accounts.
    #[arg(long)]
    account_bits: Option<u32>,
    /// Writes must be signed, transfers by the owner of their source.
    #[arg(long)]
    require_signature: bool,
    /// A file that sealed blocks are written to as well.
    #[arg(long, value_name = "FILE")]
    settle_to: Option<PathBuf>,
    #[command(flatten)]
    overrides: Overrides,
}

/// Serves until a signal comes.
///
/// # Errors
/// What stands in the way of serving.
pub fn run(arguments: Serve, as_json: bool) -> anyhow::Result<()> {
    let mut config = arguments.overrides.over(arguments.config)?;
    let section = config.section("transfer");
    section.set_some("data", arguments.data);
    section.set_some("listen", arguments.listen);
    section.set_some("mode", arguments.mode);
    section.set_some("account_bits", arguments.account_bits);
    section.set_some("settle_to", arguments.settle_to);
    section.set_some("require_signature", arguments.require_signature.then_some(true));
    if section
        .read::<TransferConfig>()
        .is_ok_and(|read| given(&read.data).is_none())
    {
        let why = "--data DIR, or `data` in [transfer] of the configuration, says where the ledger is kept";
        bail!(Wrong(why.into()));
    }
    config.serve_only("transfer");
    run::serve(Session::start(&config, true)?, as_json)
}
