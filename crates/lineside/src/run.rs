//! `lineside run`: the daemon, until a signal ends it; and what every `serve` verb has in common with it.

use crate::config::Config;
use crate::daemon::Serving;
use crate::out::{self, Unwritten};
use crate::session::Session;
use crate::spv::hide::hide_password;
use crate::wrong::Wrong;
use clap::Args;
use lineside_service::{DatapathKind, Endpoint, XdpModeName};
use serde_json::json;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Serve the services that the configuration enables, with the console.
#[derive(Args)]
pub struct Run {
    /// The configuration file; `lineside.toml` in the repository explains every key.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Start the services, say where they listen, then end: a trial of a configuration.
    #[arg(long)]
    once: bool,
    /// Put a value in the place of the configuration's; may be given more than once.
    #[arg(long = "set", value_name = "SECTION.KEY=VALUE")]
    set: Vec<String>,
    #[command(flatten)]
    overrides: Overrides,
}

/// Options of any service that go before the configuration file.
#[derive(Args)]
pub struct Overrides {
    /// Where the fast path runs.
    #[arg(long, value_enum)]
    datapath: Option<DatapathKind>,
    /// The interface for XDP.
    #[arg(long)]
    interface: Option<String>,
    /// How XDP is attached.
    #[arg(long, value_enum)]
    xdp_mode: Option<XdpModeName>,
    /// Leave the fast path attached at the end, answering until its lease ends.
    #[arg(long)]
    keep_fast_path: bool,
    /// Where maps and link are pinned.
    #[arg(long, value_name = "DIR")]
    pin_dir: Option<PathBuf>,
    /// Address and port of the console.
    #[arg(long, value_name = "ADDR:PORT")]
    console: Option<SocketAddr>,
}

impl Overrides {
    /// Returns the configuration of `file`, or the default one, with these options in the place of its values.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn over(self, file: Option<PathBuf>) -> anyhow::Result<Config> {
        let mut config = match file {
            Some(file) => Config::read(&file)?,
            None => Config::default(),
        };
        let datapath = &mut config.datapath;
        datapath.set_some("kind", self.datapath);
        datapath.set_some("interface", self.interface);
        datapath.set_some("xdp_mode", self.xdp_mode);
        datapath.set_some("keep_fast_path", self.keep_fast_path.then_some(true));
        datapath.set_some("pin_dir", self.pin_dir);
        config.console.set_some("listen", self.console);
        Ok(config)
    }
}

/// Serves the services that are enabled, until a signal comes.
///
/// # Errors
/// The reason why they cannot be served.
pub fn run(arguments: Run, as_json: bool) -> anyhow::Result<()> {
    hide_password()?;
    let mut config = arguments.overrides.over(arguments.config)?;
    for assignment in &arguments.set {
        config
            .set(assignment)
            .map_err(|why| Wrong(format!("--set {why}")))?;
    }
    let session = Session::start(&config, true)?;
    if arguments.once {
        announce(&session, as_json)?;
        return session.stop();
    }
    serve(session, as_json)
}

/// Announces the services of `session`, then serves until a signal comes.
///
/// # Errors
/// The reason that a service gives for its end.
pub fn serve(session: Session, as_json: bool) -> anyhow::Result<()> {
    // A server goes on although standard output takes nothing.
    out::said_by_server(announce(&session, as_json));
    if !as_json {
        out::said_by_server(announce_end(&session));
    }
    session.serve()
}

/// Prints where the services of `session` listen.
///
/// # Errors
/// Standard output does not take it.
pub fn announce(session: &Session, as_json: bool) -> Result<(), Unwritten> {
    let all = session.daemon().serving();
    if as_json {
        return say!("{}", started(session));
    }
    for one in &all {
        say!("{} on {} ({})", one.name, one.listen, one.datapath)?;
        for Endpoint { protocol, address } in &one.also {
            say!("  {protocol} on {address}")?;
        }
    }
    Ok(())
}

/// Prints where the console is and how the daemon ends.
///
/// # Errors
/// Standard output does not take it.
pub fn announce_end(session: &Session) -> Result<(), Unwritten> {
    if let Some(console) = session.console() {
        say!("console on http://{console}/status, http://{console}/metrics")?;
    }
    say!("Ctrl-C ends it")
}

/// Returns the object that announces the services of `session`.
pub fn started(session: &Session) -> serde_json::Value {
    let object = |one: &Serving| {
        let also = one
            .also
            .iter()
            .map(|also| (also.protocol.to_owned(), json!(also.address)));
        let also: serde_json::Map<_, _> = also.collect();
        json!({"name": one.name, "listen": one.listen, "datapath": one.datapath, "also": also})
    };
    let services: Vec<_> = session.daemon().serving().iter().map(object).collect();
    let first = services.first().cloned().unwrap_or_default();
    json!({
        "listen": first["listen"], "datapath": first["datapath"], "services": services,
        "console": session.console().map(|console| format!("http://{console}")),
    })
}
