//! `lineside status`: prints the status that a running server reports on its console.

use anyhow::Context;
use clap::Args;
use lineside_console::fetch_status;
use lineside_wire::CONSOLE_PORT;
use std::net::{Ipv4Addr, SocketAddr};

/// Option of the commands that ask a running server.
#[derive(Args)]
pub struct ConsoleAddress {
    /// Address and TCP port of the server's console.
    #[arg(
        long,
        value_name = "ADDR:PORT",
        value_parser = crate::address::console,
        default_value_t = SocketAddr::from((Ipv4Addr::LOCALHOST, CONSOLE_PORT))
    )]
    pub console: SocketAddr,
}

/// Print the status of a running server: services, addresses, counters, problems and warnings.
#[derive(Args)]
pub struct Status {
    #[command(flatten)]
    of: ConsoleAddress,
}

/// Reads the status from the console and prints it.
///
/// # Errors
/// The console does not answer.
pub fn run(arguments: &Status, as_json: bool) -> anyhow::Result<()> {
    let console = arguments.of.console;
    let snapshot = fetch_status(console).with_context(|| {
        format!(
            "no status from {console}: start a server with `--console {console}`, or give the address of its console"
        )
    })?;
    if as_json {
        say!("{}", serde_json::to_string(&snapshot)?)?;
    } else {
        crate::out::text(&snapshot)?;
    }
    Ok(())
}
