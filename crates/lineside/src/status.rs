//! `lineside status`

use anyhow::Context;
use clap::Args;
use lineside_console::fetch_status;
use lineside_wire::CONSOLE_PORT;
use std::net::{Ipv4Addr, SocketAddr};

/// Say how a running `lineside` is.
#[derive(Args)]
pub struct Status {
    /// Address and port of its console.
    #[arg(long, default_value_t = SocketAddr::from((Ipv4Addr::LOCALHOST, CONSOLE_PORT)))]
    console: SocketAddr,
}

/// Asks the console and prints what it says.
///
/// # Errors
/// When the console does not answer.
pub fn run(arguments: &Status, as_json: bool) -> anyhow::Result<()> {
    let console = arguments.console;
    let snapshot = fetch_status(console).with_context(|| {
        format!("no status from {console}: does `lineside run` run, with its console there?")
    })?;
    if as_json {
        say!("{}", serde_json::to_string(&snapshot)?)?;
    } else {
        crate::out::text(&snapshot)?;
    }
    Ok(())
}
