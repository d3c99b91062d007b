//! `lineside transfer serve`: command-line options of the server.

use crate::run::{self, NoKeepFastPath, Overrides};
use crate::session::Session;
use crate::wrong::Wrong;
use anyhow::bail;
use clap::Args;
use lineside_service::config::non_empty;
use lineside_transfer::config::{TransferConfig, TransferMode};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Serve a ledger over UDP and TCP until SIGINT, SIGTERM or SIGHUP.
///
/// Only the service `transfer` runs, even if the configuration file enables others. Options replace values of the file.
#[derive(Args)]
pub struct Serve {
    /// Configuration file; its sections [transfer], [datapath], [console] and [process] apply.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Data directory of the ledger, which is created if missing; needed here or in the configuration file.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Address and port to listen on, for UDP and TCP [default: 127.0.0.1:7702]
    #[arg(long, value_name = "ADDR:PORT", value_parser = crate::address::parse)]
    listen: Option<SocketAddr>,
    /// Part that executes operations: the host, which answers when they are on disk (durable), or the fast path, which
    /// answers at once and journals later (express). A data directory keeps its mode [default: durable]
    #[arg(long, value_enum)]
    mode: Option<TransferMode>,
    /// log2 of the maximum number of accounts, 1 to 26 [default: 20]
    #[arg(long, value_name = "BITS")]
    account_bits: Option<u32>,
    /// Require a signature on every write; a transfer must be signed by the owner of its source account.
    #[arg(long)]
    require_signature: bool,
    /// Also append each sealed block to this file, one line each: number, hash, signed header.
    #[arg(long, value_name = "FILE")]
    settle_to: Option<PathBuf>,
    #[command(flatten)]
    overrides: Overrides,
    #[command(flatten)]
    keep: NoKeepFastPath,
}

/// Serves until a signal ends the process.
///
/// # Errors
/// The options or the configuration are wrong, or the server cannot start.
pub fn run(arguments: Serve, as_json: bool) -> anyhow::Result<()> {
    arguments.keep.check("transfer")?;
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
        .is_ok_and(|read| non_empty(&read.data).is_none())
    {
        let why = "no data directory: give --data DIR, or `data` in [transfer] of the configuration file";
        bail!(Wrong(why.into()));
    }
    config.serve_only("transfer");
    run::serve(Session::start(&config, true)?, as_json)
}
