//! `lineside hybrid serve`: a node, until a signal ends it.

use crate::config::{Config, LogName, UdpName};
use crate::daemon::hybrid::{Running, prepare};
use crate::out::{self, Unwritten};
use crate::wrong::Wrong;
use anyhow::{Context, bail};
use clap::Args;
use lineside_console::{Console, Observed, Snapshot};
use serde_json::json;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;
use tokio::signal::unix::{SignalKind, signal};

/// Serve a database by gRPC and UDP until a signal ends it.
#[derive(Args)]
pub struct Serve {
    /// The configuration file, of which [hybrid] and [console] count; what is given here goes before it.
    #[arg(long)]
    config: Option<PathBuf>,
    /// The ledger's directory; made where it is not there.
    #[arg(long)]
    data: Option<PathBuf>,
    /// The database's genesis [default: genesis.bin]
    #[arg(long)]
    genesis: Option<PathBuf>,
    /// The node's key [default: node.key]
    #[arg(long)]
    node_key: Option<PathBuf>,
    /// The node's number [default: 1]
    #[arg(long)]
    node: Option<u32>,
    /// What orders: `embedded` is this node alone; `kafka://HOST:PORT[,…][/TOPIC]` is Kafka, for any number of nodes
    /// (needs a build with the cargo feature `kafka`) [default: embedded]
    #[arg(long)]
    log: Option<LogName>,
    /// Take a topic of Kafka's that may lose what it has acknowledged; /status says in what it is weak.
    #[arg(long)]
    allow_weak_kafka: bool,
    /// Where gRPC is served [default: 127.0.0.1:7705]
    #[arg(long)]
    listen: Option<SocketAddr>,
    /// Where requests by UDP are taken, ADDRESS:PORT or off. By default where gRPC is, without TLS; else nowhere.
    #[arg(long)]
    udp: Option<UdpName>,
    /// The server's certificate; without one there is no TLS.
    #[arg(long, requires = "key")]
    certificate: Option<PathBuf>,
    /// Its key.
    #[arg(long, requires = "certificate")]
    key: Option<PathBuf>,
    /// CA certificates of clients, for mutual TLS.
    #[arg(long)]
    client_ca: Option<PathBuf>,
    /// Address and port for `/metrics`, `/healthz` and `/status`; without it, and without a configuration file, there
    /// is no console.
    #[arg(long)]
    console: Option<SocketAddr>,
}

fn set<T>(place: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *place = value;
    }
}

impl Serve {
    /// What is to be served, and where the console is to be.
    fn config(self) -> anyhow::Result<(Config, Option<SocketAddr>)> {
        let (mut config, of_file) = match &self.config {
            Some(file) => {
                let config = Config::read(file)?;
                let console = config.console.listen;
                (config, Some(console))
            }
            None => (Config::default(), None),
        };
        let hybrid = &mut config.hybrid;
        set(&mut hybrid.data, self.data);
        set(&mut hybrid.genesis, self.genesis);
        set(&mut hybrid.node_key, self.node_key);
        set(&mut hybrid.node, self.node);
        set(&mut hybrid.log, self.log);
        hybrid.allow_weak_kafka |= self.allow_weak_kafka;
        set(&mut hybrid.listen, self.listen);
        set(&mut hybrid.udp, self.udp);
        set(&mut hybrid.certificate, self.certificate);
        set(&mut hybrid.key, self.key);
        set(&mut hybrid.client_ca, self.client_ca);
        if hybrid.data.as_os_str().is_empty() {
            bail!(Wrong(
                "--data DIR, or `data` in [hybrid] of the configuration, says where the ledger is".into()
            ));
        }
        let console = self.console.or(of_file);
        set(&mut config.console.listen, console);
        config.serve_only("hybrid");
        Ok((config.checked("the command line")?, console))
    }

    pub fn run(self, as_json: bool) -> anyhow::Result<()> {
        let (config, console) = self.config()?;
        let warnings = config.warnings();
        for warning in &warnings {
            tell!("lineside: {warning}");
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let running = Running::start(&config, prepare(&config.hybrid)?)?;
        runtime.block_on(async {
            // Before anybody can see that it serves, and end it.
            let mut terminate = signal(SignalKind::terminate())?;
            let mut interrupt = signal(SignalKind::interrupt())?;
            let console = console.map(|address| {
                let console = Console::start(address, observed(&running, warnings));
                console.with_context(|| format!("the console on {address} (--console)"))
            });
            let console = console.transpose()?;
            let at = console.as_ref().map(Console::local_addr);
            out::said_by_server(say_started(&running, at, as_json));
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            anyhow::Ok(())
        })
    }
}

fn say_started(running: &Running, console: Option<SocketAddr>, as_json: bool) -> Result<(), Unwritten> {
    let (database, listen, height) = (running.database(), running.listen(), running.inner().height());
    let paper = running.inner().is_paper();
    if as_json {
        let line = json!({
            "database": database, "blocks": height, "listen": listen, "udp": running.udp(), "console": console,
            "paper": paper,
        });
        return say!("{line}");
    }
    say!("database {database}: {height} blocks; gRPC on {listen}")?;
    if let Some(udp) = running.udp() {
        say!("UDP on {udp}")?;
    }
    if paper {
        say!("{}", super::paper::WARNING)?;
    }
    if let Some(console) = console {
        say!("console on http://{console}/status, http://{console}/metrics")?;
    }
    say!("Ctrl-C ends it")
}

fn observed(running: &Running, known: Vec<String>) -> Arc<dyn Observed> {
    let (started, inner) = (Instant::now(), running.inner());
    Arc::new(move || {
        let (mut problems, mut warnings) = (Vec::new(), known.clone());
        Snapshot {
            version: env!("CARGO_PKG_VERSION").into(),
            uptime_s: started.elapsed().as_secs(),
            services: vec![inner.status(&mut problems, &mut warnings)],
            problems,
            warnings,
        }
    })
}
