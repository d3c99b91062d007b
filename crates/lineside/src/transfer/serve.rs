//! `lineside transfer serve`: what the command line says.

use crate::config::TransferMode;
use crate::run::{Overrides, until_signal};
use crate::wrong::Wrong;
use anyhow::bail;
use clap::Args;
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
    if let Some(data) = arguments.data {
        config.transfer.data = data;
    }
    if let Some(listen) = arguments.listen {
        config.transfer.listen = listen;
    }
    if let Some(mode) = arguments.mode {
        config.transfer.mode = mode;
    }
    if let Some(account_bits) = arguments.account_bits {
        config.transfer.account_bits = account_bits;
    }
    if let Some(settle_to) = arguments.settle_to {
        config.transfer.settle_to = settle_to;
    }
    config.transfer.require_signature |= arguments.require_signature;
    if config.transfer.data.as_os_str().is_empty() {
        bail!(Wrong(
            "--data DIR, or `data` in [transfer] of the configuration, says where the ledger is kept"
                .to_owned()
        ));
    }
    config.serve_only("transfer");
    let config = config.checked("the command line")?;
    until_signal(&config, |_| Ok(None::<String>), false, as_json)
}
